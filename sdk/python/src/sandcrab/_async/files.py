"""Files and directories, by path. See `transfer` for whole files and folders."""

from __future__ import annotations

import base64
from typing import Any, Literal

from .. import models
from ..requests import Path, fields, path_fields
from ..streams import FILE
from .bound import AsyncBound
from .events import AsyncEvents


class AsyncFiles(AsyncBound):
    """The calls for files. A relative path is relative to the working directory of the session, else to the workspace."""

    async def read_file(
        self,
        path: Path,
        *,
        encoding: Literal["utf-8", "base64"] | None = None,
        max_bytes: int | None = None,
        session_id: str | None = None,
    ) -> models.FileContent:
        """Reads a file of at most 32 MiB, with its type. See also `read_text`, `read_bytes` and `open`."""
        body = self._path(path, session_id) | fields(encoding=encoding, max_bytes=max_bytes)
        return await self._http.post(models.FileContent, ("api", "read"), body, is_repeatable=True)

    async def write_file(
        self,
        path: Path,
        content: str | bytes,
        *,
        encoding: Literal["utf-8", "base64"] | None = None,
        mode: int | str | None = None,
        append: bool = False,
        session_id: str | None = None,
    ) -> models.Written:
        """Writes a file at once, and creates its parent directories. `mode` is its permission bits, such as 0o644.

        A text is written in UTF-8, or is decoded first with `encoding="base64"`.
        """
        body = self._path(path, session_id) | fields(encoding=encoding, mode=octal(mode), append=append or None)
        if isinstance(content, str):
            body["content"] = content
        else:
            body |= {"content": base64.b64encode(content).decode(), "encoding": "base64"}
        return await self._http.post(models.Written, ("api", "write"), body)

    def read_file_stream(self, path: Path, *, session_id: str | None = None) -> AsyncEvents[models.FileEvent]:
        """Streams a file as events: `metadata`, `chunk`, `complete`. `open` and `download` are faster."""
        return AsyncEvents(self._http, FILE, "POST", ("api", "read", "stream"), json=self._path(path, session_id))

    async def exists(self, path: Path, *, session_id: str | None = None) -> bool:
        """Whether a file or directory exists."""
        body = self._path(path, session_id)
        return (await self._http.post(models.Exists, ("api", "exists"), body, is_repeatable=True)).exists

    async def stat(self, path: Path, *, session_id: str | None = None) -> models.FileStat:
        """Reads type, size, permissions and times. Does not follow a symbolic link."""
        return await self._http.post(models.FileStat, ("api", "stat"), self._path(path, session_id), is_repeatable=True)

    async def mkdir(self, path: Path, *, recursive: bool | None = None, session_id: str | None = None) -> None:
        """Creates a directory. With `recursive` it may exist, and its parents are created."""
        await self._change("mkdir", path, session_id, recursive=recursive)

    async def delete_file(self, path: Path, *, recursive: bool | None = None, session_id: str | None = None) -> None:
        """Deletes a file or, with `recursive`, a directory with its content."""
        await self._change("delete", path, session_id, recursive=recursive)

    async def chmod(self, path: Path, mode: int | str, *, session_id: str | None = None) -> None:
        """Changes the permission bits: 0o755 or "0755"."""
        await self._change("chmod", path, session_id, mode=octal(mode))

    async def rename_file(
        self, old_path: Path, new_path: Path, *, overwrite: bool | None = None, session_id: str | None = None
    ) -> models.Moved:
        """Renames a file or directory."""
        paths = path_fields("oldPath", old_path) | path_fields("newPath", new_path)
        return await self._transfer("rename", paths, overwrite, session_id)

    async def move_file(
        self, source_path: Path, destination_path: Path, *, overwrite: bool | None = None, session_id: str | None = None
    ) -> models.Moved:
        """Moves a file or directory, also to another file system."""
        paths = path_fields("sourcePath", source_path) | path_fields("destinationPath", destination_path)
        return await self._transfer("move", paths, overwrite, session_id)

    async def copy_file(
        self, source_path: Path, destination_path: Path, *, overwrite: bool | None = None, session_id: str | None = None
    ) -> models.Moved:
        """Copies a file, or a directory with its content."""
        paths = path_fields("sourcePath", source_path) | path_fields("destinationPath", destination_path)
        return await self._transfer("copy", paths, overwrite, session_id)

    async def list_files(
        self,
        path: Path = ".",
        *,
        recursive: bool | None = None,
        include_hidden: bool | None = None,
        limit: int | None = None,
        after: str | None = None,
        session_id: str | None = None,
    ) -> models.FileList:
        """Lists a directory. If the result has `next`, there is more: give it as `after`."""
        body: dict[str, Any] = self._path(path, session_id)
        body["options"] = fields(recursive=recursive, include_hidden=include_hidden, limit=limit, after=after)
        return await self._http.post(models.FileList, ("api", "list-files"), body, is_repeatable=True)

    def _path(self, path: Path, session_id: str | None) -> dict[str, Any]:
        return path_fields("path", path) | fields(session_id=self._session(session_id))

    async def _change(self, route: str, path: Path, session_id: str | None, **options: Any) -> None:
        await self._http.post(models.FileDone, ("api", route), self._path(path, session_id) | fields(**options))

    async def _transfer(
        self, route: str, paths: dict[str, str], overwrite: bool | None, session_id: str | None
    ) -> models.Moved:
        body = paths | fields(overwrite=overwrite, session_id=self._session(session_id))
        return await self._http.post(models.Moved, ("api", route), body)


def octal(mode: int | str | None) -> str | None:
    """Returns permission bits as the API has them."""
    return f"{mode:04o}" if isinstance(mode, int) else mode
