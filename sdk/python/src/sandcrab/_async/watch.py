"""Changes of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import models
from ..requests import Path, fields, path_fields
from ..streams import WATCH
from .bound import AsyncBound
from .events import AsyncEvents


class AsyncWatch(AsyncBound):
    """The calls that watch files."""

    def watch(
        self,
        path: Path = ".",
        *,
        recursive: bool | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        events: Sequence[str] | None = None,
        timeout: float | None = None,
        session_id: str | None = None,
    ) -> AsyncEvents[models.WatchEvent]:
        """Streams the changes of a directory or a file: `watching`, then `event` for each change. `resync`: some may be missing.

        After a lost connection or a restart of the server it continues with `watching` and `resync`.
        `events` selects kinds of changes: create, modify, delete, move_from, move_to, attrib. The watch ends with the loop.
        """
        body = self._watched(path, session_id, recursive, include, exclude, events) | fields(timeout=timeout)
        return AsyncEvents(self._http, WATCH, "POST", ("api", "watch"), json=body)

    async def check_changes(
        self,
        path: Path = ".",
        *,
        since: str | None = None,
        recursive: bool | None = None,
        include: Sequence[str] | None = None,
        exclude: Sequence[str] | None = None,
        events: Sequence[str] | None = None,
        session_id: str | None = None,
    ) -> models.WatchCheckResponse:
        """Returns whether a directory has changed since the `version` of an earlier response."""
        body = self._watched(path, session_id, recursive, include, exclude, events) | fields(since=since)
        return await self._http.post(models.WatchCheckResponse, ("api", "watch", "check"), body, is_repeatable=True)

    def _watched(
        self,
        path: Path,
        session_id: str | None,
        recursive: bool | None,
        include: Sequence[str] | None,
        exclude: Sequence[str] | None,
        events: Sequence[str] | None,
    ) -> dict[str, Any]:
        options = fields(recursive=recursive, include=include, exclude=exclude, events=events)
        return path_fields("path", path) | fields(session_id=self._session(session_id)) | options
