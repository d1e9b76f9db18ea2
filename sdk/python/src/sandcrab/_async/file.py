"""`AsyncFile`: a file-like object."""

from __future__ import annotations

import base64
import io
import tempfile
from collections.abc import AsyncIterator, Iterable
from typing import Any

from ..errors import SandcrabError
from ._runtime import run_blocking
from .http import AsyncHttp

# Writes up to this size are kept in memory, larger ones in a temporary file.
SPOOL_BYTES = 1 << 20


def query_of(path: dict[str, str], session_id: str | None) -> dict[str, Any]:
    """Returns the query of a file."""
    return {**path, "sessionId": session_id}


class AsyncFile:
    """A binary file of the sandbox. `async with` closes it, which writes it; after an exception nothing is written."""

    def __init__(self, http: AsyncHttp, query: dict[str, Any], mode: str, chunk_bytes: int) -> None:
        self._http = http
        self._query = query
        self._chunk_bytes = chunk_bytes
        self._etag: str | None = None
        self._size = 0
        self._position = 0
        # The range that was read last, and where it begins.
        self._buffer, self._start = b"", 0
        self._spool = tempfile.SpooledTemporaryFile(SPOOL_BYTES) if mode in ("w", "a") else None  # noqa: SIM115
        self.mode = mode + "b"
        self.closed = False

    async def load(self) -> None:
        """Reads the first range, and the size and entity tag of the file."""
        await self._fetch(0)

    async def __aenter__(self) -> AsyncFile:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is not None and self._spool is not None:
            self._spool.close()
            self.closed = True
        await self.aclose()

    def __aiter__(self) -> AsyncFile:
        return self

    async def __anext__(self) -> bytes:
        if line := await self.readline():
            return line
        raise StopAsyncIteration

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self._spool is None

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self._spool is not None

    def seekable(self) -> bool:
        """Whether `seek` works: for reading."""
        return self.readable()

    def tell(self) -> int:
        """Returns the position."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Changes the position for the next read."""
        self.check_open_for(reading=True)
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    async def read(self, size: int | None = -1) -> bytes:
        """Reads `size` bytes, or to the end."""
        self.check_open_for(reading=True)
        wanted = self._size - self._position if size is None or size < 0 else min(size, self._size - self._position)
        parts: list[bytes] = []
        while wanted > 0:
            part = await self._part(wanted)
            parts.append(part)
            wanted -= len(part)
        return b"".join(parts)

    async def readinto(self, buffer: bytearray | memoryview) -> int:
        """Reads into a buffer. Returns the number of bytes."""
        data = await self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    async def readline(self, size: int | None = -1) -> bytes:
        """Reads a line with its end, or `size` bytes of it; empty at the end of the file."""
        self.check_open_for(reading=True)
        left = self._size if size is None or size < 0 else size
        parts: list[bytes] = []
        while self._position < self._size and left > 0:
            await self._fill()
            first = self._position - self._start
            end = self._buffer.find(b"\n", first, first + left) + 1
            parts.append(self._buffer[first : end or first + left])
            self._position += len(parts[-1])
            left -= len(parts[-1])
            if end:
                break
        return b"".join(parts)

    async def readlines(self) -> list[bytes]:
        """Reads the lines to the end."""
        lines: list[bytes] = []
        while line := await self.readline():
            lines.append(line)
        return lines

    async def writelines(self, lines: Iterable[bytes]) -> None:
        """Writes several pieces."""
        for line in lines:
            await self.write(line)

    async def write(self, data: bytes) -> int:
        """Writes bytes. They appear in the sandbox when the file is closed."""
        self.check_open_for(reading=False)
        assert self._spool is not None
        written = await run_blocking(self._spool.write, data)
        self._position += written
        return written

    def flush(self) -> None:
        """Does nothing: a file is written when it is closed."""

    async def aclose(self) -> None:
        """Writes the file if it was opened for writing."""
        if self.closed:
            return
        self.closed = True
        self._buffer = b""
        if self._spool is not None:
            with self._spool:
                self._spool.seek(0)
                await (self._append() if self.mode == "ab" else self._put())

    def check_open_for(self, *, reading: bool) -> None:
        """Raises `ValueError` if it is closed, and `UnsupportedOperation` if it was opened for something else."""
        if self.closed:
            raise ValueError("I/O operation on closed file")
        if reading != self.readable():
            raise io.UnsupportedOperation(f"not supported for a file with mode {self.mode!r}")

    async def _part(self, wanted: int) -> bytes:
        """Reads from the buffer."""
        await self._fill()
        first = self._position - self._start
        part = self._buffer[first : first + wanted]
        self._position += len(part)
        return part

    async def _fill(self) -> None:
        """Reads the range at the position, unless the buffer has it."""
        if not self._start <= self._position < self._start + len(self._buffer):
            await self._fetch(self._position)

    async def _fetch(self, start: int) -> None:
        headers = {"Range": f"bytes={start}-{start + self._chunk_bytes - 1}"}
        if self._etag is not None:
            # A file that was replaced meanwhile is an error, not a mixture.
            headers["If-Match"] = self._etag
        answered: dict[str, str] = {}
        try:
            content = await self._http.request(
                "GET", ("api", "file"), query=self._query, headers=headers, is_repeatable=True, answered=answered
            )
        except SandcrabError as error:
            # An empty file has no ranges.
            if error.code != "RANGE_NOT_SATISFIABLE" or start:
                raise
            self._size = 0
            return
        self._buffer, self._start = content, start
        self._etag = answered.get("etag")
        total = answered.get("content-range", "").rpartition("/")[2]
        self._size = int(total) if total.isdigit() else len(self._buffer)

    async def _put(self) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        await self._http.request(
            "PUT", ("api", "file"), query=self._query, content=self._chunks(), headers=headers, is_long=True
        )

    async def _append(self) -> None:
        async for chunk in self._chunks():
            names = {name: value for name, value in self._query.items() if value is not None}
            body = {**names, "content": base64.b64encode(chunk).decode(), "encoding": "base64", "append": True}
            await self._http.request("POST", ("api", "write"), json=body)

    async def _chunks(self) -> AsyncIterator[bytes]:
        assert self._spool is not None
        while chunk := await run_blocking(self._spool.read, self._chunk_bytes):
            yield chunk
