"""An incremental parser of server-sent events, after the HTML standard."""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import InvalidResponseError

# Maximum size of an event.
MAX_EVENT_BYTES = 64 << 20
LINE_END = re.compile(rb"\r\n|\n|\r")


class Message(NamedTuple):
    """One event: its data, and the last id of this or an earlier event."""

    data: bytes
    id: str


class Parser:
    """The parser, with the incomplete part of a stream."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0
        self._id = ""

    def push(self, chunk: bytes) -> list[Message]:
        """Adds bytes of the stream. Returns the events that are complete."""
        text = self._rest + chunk
        # A carriage return at the end may be the first half of a line end.
        held = text[-1:] == b"\r"
        lines = LINE_END.split(text[:-1] if held else text)
        self._rest = lines.pop() + (b"\r" if held else b"")
        if self._size + len(self._rest) > MAX_EVENT_BYTES:
            raise InvalidResponseError(f"invalid response: an event has more than {MAX_EVENT_BYTES} bytes")
        messages: list[Message] = []
        for line in lines:
            if not line:
                if self._data:
                    messages.append(Message(b"\n".join(self._data), self._id))
                self._data, self._size = [], 0
                continue
            name, _, value = line.partition(b":")
            value = value[1:] if value[:1] == b" " else value
            if name == b"data":
                self._data.append(value)
                self._size += len(value)
            elif name == b"id" and b"\0" not in value:
                self._id = value.decode(errors="replace")
        return messages
