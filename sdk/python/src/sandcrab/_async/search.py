"""Search and replace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from typing_extensions import Unpack

from .. import models
from ..requests import Path, ReplaceOptions, SearchOptions, fields, path_fields
from ..streams import SEARCH
from .bound import AsyncBound
from .events import AsyncEvents


class AsyncSearch(AsyncBound):
    """The calls that search files."""

    async def search(self, pattern: str, path: Path = ".", **options: Unpack[SearchOptions]) -> models.SearchResponse:
        """Searches lines of files for a text or, with `regex`, for a regular expression. Matches are sorted by path and line."""
        body = self._searched(path, {"pattern": pattern, **options})
        return await self._http.post(models.SearchResponse, ("api", "search"), body, is_repeatable=True, is_long=True)

    def search_stream(
        self, pattern: str, path: Path = ".", **options: Unpack[SearchOptions]
    ) -> AsyncEvents[models.SearchEvent]:
        """The same as events, as matches are found: `match` for each line, then `complete`. Leaving the loop ends the search."""
        body = self._searched(path, {"pattern": pattern, **options})
        return AsyncEvents(self._http, SEARCH, "POST", ("api", "search"), json=body)

    async def find(
        self,
        path: Path = ".",
        *,
        glob: Sequence[str] | None = None,
        type: Literal["file", "directory", "symlink", "other"] | None = None,
        hidden: bool | None = None,
        ignore_files: bool | None = None,
        limit: int | None = None,
        session_id: str | None = None,
    ) -> models.FindResponse:
        """Finds files and directories by name."""
        options = {"glob": glob, "type": type, "hidden": hidden, "ignore_files": ignore_files, "limit": limit}
        body = self._searched(path, {"session_id": session_id, **options})
        return await self._http.post(models.FindResponse, ("api", "find"), body, is_repeatable=True, is_long=True)

    async def replace(
        self, pattern: str, replacement: str, path: Path = ".", **options: Unpack[ReplaceOptions]
    ) -> models.ReplaceResponse:
        """Replaces a text or, with `regex`, what a regular expression matches. The result has a diff of each file."""
        body = self._searched(path, {"pattern": pattern, "replacement": replacement, **options})
        return await self._http.post(models.ReplaceResponse, ("api", "replace"), body, is_long=True)

    def _searched(self, path: Path, options: dict[str, Any]) -> dict[str, Any]:
        session_id = self._session(options.pop("session_id", None))
        glob = options.pop("glob", None)
        # A single glob may be given as a text.
        globs = None if glob is None else [glob] if isinstance(glob, str) else list(glob)
        return path_fields("path", path) | fields(session_id=session_id, glob=globs, **options)
