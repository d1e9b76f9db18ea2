"""`OutputBuffer`: the output of a streamed command, bounded."""

from __future__ import annotations

import base64
from collections import deque

# What `exec` keeps of each stream, as the server does.
DEFAULT_LIMIT_BYTES = 10 << 20


class OutputBuffer:
    """Keeps the first and the last half of its limit. What is between is counted in `dropped`."""

    def __init__(self, limit: int | None, is_base64: bool) -> None:
        limit = DEFAULT_LIMIT_BYTES if limit is None else limit
        self._head_limit = limit - limit // 2
        self._tail_limit = limit // 2
        self._is_base64 = is_base64
        self._head: list[bytes] = []
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self.head_size = 0
        self.dropped = 0
        self.invalid = False

    def add(self, data: str, invalid: bool | None = None) -> None:
        """Adds the data of an event."""
        self.invalid = self.invalid or bool(invalid)
        piece = base64.b64decode(data) if self._is_base64 else data.encode()
        room = self._head_limit - self.head_size
        if room > 0:
            self._head.append(piece[:room])
            self.head_size += len(self._head[-1])
            piece = piece[room:]
        self._tail.append(piece)
        self._tail_size += len(piece)
        while self._tail_size > self._tail_limit:
            first = self._tail.popleft()
            extra = min(len(first), self._tail_size - self._tail_limit)
            self.dropped += extra
            self._tail_size -= extra
            if extra < len(first):
                self._tail.appendleft(first[extra:])

    def text(self) -> str:
        """Returns the output in the encoding of the events. Characters that the limit cuts are left out."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        if self._is_base64:
            return base64.b64encode(head + tail).decode()
        return (
            (head + tail).decode() if not self.dropped else head.decode(errors="ignore") + tail.decode(errors="ignore")
        )
