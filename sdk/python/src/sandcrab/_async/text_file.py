"""`AsyncTextFile`: a file-like object for text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from .file import AsyncFile

# How much of a file is decoded at once.
DECODED_BYTES = 1 << 16


class AsyncTextFile:
    """A text file of the sandbox. Line ends are not changed."""

    def __init__(self, file: AsyncFile, encoding: str) -> None:
        self.buffer = file
        self.encoding = encoding
        self.mode = file.mode.rstrip("b")
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._encoder = codecs.getincrementalencoder(encoding)()
        # The text that was decoded last, and how much of it was read.
        self._text, self._at = "", 0
        self._is_at_end = False

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self.buffer.closed

    async def __aenter__(self) -> AsyncTextFile:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        if kind is None:
            await self.aclose()
        else:
            await self.buffer.__aexit__(kind, None, None)

    def __aiter__(self) -> AsyncTextFile:
        return self

    async def __anext__(self) -> str:
        if line := await self.readline():
            return line
        raise StopAsyncIteration

    def readable(self) -> bool:
        """Whether it was opened for reading."""
        return self.buffer.readable()

    def writable(self) -> bool:
        """Whether it was opened for writing."""
        return self.buffer.writable()

    def seekable(self) -> bool:
        """Returns false: a position in the text is not one in the file. `buffer` can seek."""
        return False

    async def read(self, size: int | None = -1) -> str:
        """Reads `size` characters, or to the end."""
        self.buffer.check_open_for(reading=True)
        left = None if size is None or size < 0 else size
        parts: list[str] = []
        while left is None or left > 0:
            parts.append(self._text[self._at : None if left is None else self._at + left])
            self._at += len(parts[-1])
            left = None if left is None else left - len(parts[-1])
            if left != 0 and not await self._more():
                break
        return "".join(parts)

    async def readline(self) -> str:
        """Reads a line with its end; empty at the end of the file."""
        self.buffer.check_open_for(reading=True)
        parts: list[str] = []
        while True:
            end = self._text.find("\n", self._at) + 1
            parts.append(self._text[self._at : end or None])
            self._at += len(parts[-1])
            if end or not await self._more():
                return "".join(parts)

    async def readlines(self) -> list[str]:
        """Reads the lines to the end."""
        lines: list[str] = []
        while line := await self.readline():
            lines.append(line)
        return lines

    async def write(self, text: str) -> int:
        """Writes text. It appears in the sandbox when the file is closed."""
        await self.buffer.write(self._encoder.encode(text))
        return len(text)

    async def writelines(self, lines: Iterable[str]) -> None:
        """Writes several pieces."""
        for line in lines:
            await self.write(line)

    def flush(self) -> None:
        """Does nothing: a file is written when it is closed."""

    async def aclose(self) -> None:
        """Writes the file if it was opened for writing."""
        if self.writable() and not self.closed and (rest := self._encoder.encode("", True)):
            await self.buffer.write(rest)
        await self.buffer.aclose()

    async def _more(self) -> bool:
        """Reads the next text, after the last one was read. False at the end of the file."""
        while not self._is_at_end:
            data = await self.buffer.read(DECODED_BYTES)
            self._is_at_end = not data
            self._text, self._at = self._decoder.decode(data, not data), 0
            if self._text:
                return True
        return False
