"""Whole files and folders, of any size, in constant memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from typing import IO, Any, Literal, overload

from .. import models
from ..archive import pack, unpack
from ..requests import Path, new_id, path_fields
from ._runtime import run_blocking
from .bound import AsyncBound
from .file import AsyncFile, query_of
from .files import octal
from .text_file import AsyncTextFile

CHUNK_BYTES = 1 << 20
BINARY = {"Content-Type": "application/octet-stream"}

LocalPath = str | os.PathLike[str]


class AsyncTransfer(AsyncBound):
    """The calls that move bytes between here and the sandbox."""

    async def read_bytes(self, path: Path, *, session_id: str | None = None) -> bytes:
        """Reads a file."""
        return await self._http.request("GET", ("api", "file"), query=self._query(path, session_id), is_repeatable=True)

    async def read_text(
        self, path: Path, *, encoding: str = "utf-8", errors: str = "strict", session_id: str | None = None
    ) -> str:
        """Reads a file as text. Line ends are not changed."""
        return (await self.read_bytes(path, session_id=session_id)).decode(encoding, errors)

    async def write_bytes(
        self,
        path: Path,
        data: bytes,
        *,
        mode: int | str | None = None,
        if_match: str | None = None,
        session_id: str | None = None,
    ) -> models.Written:
        """Writes a file at once. With `if_match`, only if the file still has this entity tag (`stat`); `*` if it exists."""
        headers = BINARY if if_match is None else {**BINARY, "If-Match": if_match}
        query = self._query(path, session_id) | {"mode": octal(mode)}
        return models.Written.parse(
            await self._http.fetch("PUT", ("api", "file"), query=query, content=data, headers=headers)
        )

    async def write_text(
        self, path: Path, text: str, *, mode: int | str | None = None, session_id: str | None = None
    ) -> models.Written:
        """Writes a file at once, in UTF-8."""
        return await self.write_bytes(path, text.encode(), mode=mode, session_id=session_id)

    @overload
    async def open(
        self, path: Path, mode: Literal["rb", "wb", "ab"] = "rb", *, session_id: str | None = None
    ) -> AsyncFile: ...

    @overload
    async def open(
        self, path: Path, mode: Literal["r", "w", "a"], *, encoding: str = "utf-8", session_id: str | None = None
    ) -> AsyncTextFile: ...

    async def open(
        self, path: Path, mode: str = "rb", *, encoding: str = "utf-8", session_id: str | None = None
    ) -> AsyncFile | AsyncTextFile:
        """Opens a file: for reading with seeks (`rb`, `r`), for writing (`wb`, `w`) or for appending (`ab`, `a`).

        Reads are requests of ranges, of the file as it was when it was opened. A written file appears when it is closed.
        """
        if mode not in ("rb", "wb", "ab", "r", "w", "a"):
            raise ValueError(f"invalid mode {mode!r}; use rb, wb, ab, r, w or a")
        file = AsyncFile(self._http, self._query(path, session_id), mode.rstrip("b"), CHUNK_BYTES)
        if mode.startswith("r"):
            await file.load()
        return file if mode.endswith("b") else AsyncTextFile(file, encoding)

    async def upload(
        self,
        source: LocalPath | IO[bytes] | Iterable[bytes],
        path: Path,
        *,
        mode: int | str | None = None,
        session_id: str | None = None,
    ) -> models.Written:
        """Copies a local file, an open binary file or pieces of bytes to a file of the sandbox, which appears when it is complete."""
        query = self._query(path, session_id) | {"mode": octal(mode)}
        if isinstance(source, (str, os.PathLike)):
            with await run_blocking(open, source, "rb") as file:
                return await self._put(query, pieces(file))
        return await self._put(query, pieces(source))

    async def download(self, path: Path, target: LocalPath | IO[bytes], *, session_id: str | None = None) -> int:
        """Copies a file of the sandbox to a local file, or writes it to an open one. Returns its size.

        A local file is replaced when the download is complete.
        """
        query = self._query(path, session_id)
        if not isinstance(target, (str, os.PathLike)):
            return await self._get("file", query, target)
        folder, name = os.path.split(os.path.abspath(target))
        temporary = os.path.join(folder, f".{name}.{new_id('part')}")
        # Not a temporary file of Python, which only its owner could read.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        try:
            with os.fdopen(handle, "wb") as file:
                size = await self._get("file", query, file)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
        return size

    async def upload_folder(
        self, folder: LocalPath, path: Path, *, session_id: str | None = None
    ) -> models.FolderWritten:
        """Replaces a folder of the sandbox by a local one, at once."""
        with tempfile.TemporaryFile() as archive:
            await run_blocking(pack, folder, archive)
            archive.seek(0)
            query = self._query(path, session_id) | {"format": "tar"}
            body = await self._http.fetch(
                "PUT", ("api", "folder"), query=query, content=pieces(archive), headers=BINARY, is_long=True
            )
        return models.FolderWritten.parse(body)

    async def download_folder(self, path: Path, folder: LocalPath, *, session_id: str | None = None) -> None:
        """Copies a folder of the sandbox to a local one, which may exist. The archive is not trusted."""
        with tempfile.TemporaryFile() as archive:
            await self._get("folder", self._query(path, session_id) | {"format": "tar"}, archive)
            archive.seek(0)
            await run_blocking(unpack, archive, folder)

    def _query(self, path: Path, session_id: str | None) -> dict[str, Any]:
        return query_of(path_fields("path", path), self._session(session_id))

    async def _put(self, query: dict[str, Any], content: AsyncIterator[bytes]) -> models.Written:
        body = await self._http.fetch(
            "PUT", ("api", "file"), query=query, content=content, headers=BINARY, is_long=True
        )
        return models.Written.parse(body)

    async def _get(self, route: str, query: dict[str, Any], target: IO[bytes]) -> int:
        size = 0
        opened = await self._http.open_read(("api", route), query)
        try:
            async for chunk in opened.chunks():
                await run_blocking(target.write, chunk)
                size += len(chunk)
        finally:
            await opened.aclose()
        return size


async def pieces(source: IO[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    """Reads bytes without blocking the event loop."""
    read: Callable[[int], bytes] | None = getattr(source, "read", None)
    if read is None:
        for chunk in source:
            yield chunk
        return
    while chunk := await run_blocking(read, CHUNK_BYTES):
        yield chunk
