"""Backups of folders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import models
from ..requests import Path, fields
from .bound import AsyncBound


class AsyncBackups(AsyncBound):
    """The calls for backups."""

    async def create_backup(
        self,
        dir: Path,
        *,
        name: str | None = None,
        ttl: int | None = None,
        gitignore: bool | None = None,
        excludes: Sequence[str] | None = None,
        compression: models.BackupCompression | Mapping[str, Any] | None = None,
        archive_path: Path | None = None,
        session_id: str | None = None,
    ) -> models.BackupCreated:
        """Backs a folder up. The server keeps it for `ttl` seconds, 3 days by default, or as the file `archive_path`."""
        body = fields(
            dir=dir,
            name=name,
            ttl=ttl,
            gitignore=gitignore,
            excludes=excludes,
            compression=compression,
            archive_path=archive_path,
            session_id=self._session(session_id),
        )
        return await self._http.post(models.BackupCreated, ("api", "backup", "create"), body, is_long=True)

    async def restore_backup(
        self,
        dir: Path,
        id: str | None = None,
        *,
        archive_path: Path | None = None,
        url: str | None = None,
        session_id: str | None = None,
    ) -> models.BackupRestored:
        """Replaces a folder by a backup, an archive of the sandbox, or one at a URL. After a failure the folder is as it was."""
        body = fields(dir=dir, id=id, archive_path=archive_path, url=url, session_id=self._session(session_id))
        return await self._http.post(models.BackupRestored, ("api", "backup", "restore"), body, is_long=True)

    async def upload_backup_parts(
        self,
        parts: Sequence[models.UploadPart | Mapping[str, Any]],
        *,
        id: str | None = None,
        archive_path: Path | None = None,
        session_id: str | None = None,
    ) -> models.PartsUploaded:
        """Sends ranges of an archive to presigned URLs. Returns their entity tags."""
        body = fields(id=id, archive_path=archive_path, session_id=self._session(session_id))
        body["parts"] = [fields(part=part)["part"] for part in parts]
        return await self._http.post(models.PartsUploaded, ("api", "backup", "upload-parts"), body, is_long=True)

    async def list_backups(self) -> list[models.Backup]:
        """Lists the backups that the server keeps, the newest first."""
        return (await self._http.get(models.BackupList, ("api", "backup", "list"))).backups

    async def delete_backup(self, backup_id: str) -> None:
        """Deletes a backup."""
        await self._http.delete(models.BackupDeleted, ("api", "backup", backup_id))
