"""`AsyncViewer`: the WebSocket of a terminal, which reconnects and resumes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from .. import models
from ..errors import ConnectionLostError, GoneError, SandcrabError, UnreachableError, error_of, error_of_response
from ..frames import HARMLESS, TerminalOutput, ViewerEvent, frame_of
from ..retry import Retry
from ._runtime import ClientConnection, Lock, open_socket, sleep
from .http import CONNECT_TIMEOUT, AsyncHttp

# The largest message. A repaint is one message.
MAX_MESSAGE_BYTES = 64 << 20
# How long the end of a connection may take.
CLOSE_TIMEOUT = 1.0


class AsyncViewer:
    """A viewer of a terminal. Iterate over it for `output`, `repaint`, `ready`, `resize`, `error` and at last `exit`.

    After a lost connection it reconnects, and continues with the output that it missed or with a repaint. Input that was sent to a
    lost connection is not sent again, because it may have arrived. Leaving the block disconnects; the terminal continues.
    """

    def __init__(
        self,
        http: AsyncHttp,
        terminal_id: str,
        *,
        cols: int | None,
        rows: int | None,
        since: int | None,
        read_only: bool,
    ) -> None:
        self._http = http
        self.id = terminal_id
        self._size = (cols, rows)
        self._read_only = read_only
        self._incarnation: str | None = None
        self._socket: ClientConnection | None = None
        # One task connects, also if another one types. Protects the cursor meanwhile.
        self._lock = Lock()
        # The cursor of the repaint whose bytes come next.
        self._repaint_cursor: int | None = None
        self._is_over = False
        self._retry = Retry(http.reconnect_timeout, is_wait=True)
        self._opened_before = False
        # The cursor after the last output; None before it is known.
        self.cursor = since

    async def __aenter__(self) -> AsyncViewer:
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[ViewerEvent]:
        while True:
            event = await self.next_event()
            if event is None:
                return
            yield event

    async def send(self, data: str | bytes) -> None:
        """Types. Raises `GoneError` after `exit`, and after `aclose`."""
        socket = await self._open()
        try:
            await socket.send(data.encode() if isinstance(data, str) else data)
        except ConnectionClosed as error:
            await self._disconnect(socket)
            raise ConnectionLostError("the connection was lost while typing; look at the screen") from error

    async def resize(self, cols: int, rows: int) -> None:
        """Changes the size of the viewer, and of the terminal."""
        self._size = (cols, rows)
        if self._socket is not None and not self._read_only:
            # If the connection is lost, the next one has the size.
            with suppress(ConnectionClosed):
                await self._socket.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    async def next_event(self) -> ViewerEvent | None:
        """Returns the next event; None after `exit`, and after `aclose`."""
        while not self._is_over:
            socket = None
            try:
                socket = await self._open()
                message = await socket.recv()
                async with self._lock:
                    # The output of a connection that was replaced comes again on the new one.
                    event = self._event_of(message) if socket is self._socket else None
                if event is not None:
                    return event
            except ConnectionClosed as error:
                await self._disconnect(socket)
                if not self._is_over:
                    await sleep(
                        self._retry.failed(ConnectionLostError(f"the connection to {self.id} was lost: {error}"))
                    )
            except SandcrabError as error:
                await self._disconnect(socket)
                if self._is_over:
                    return None
                if not (self._opened_before and self._http.may_retry(error)):
                    self._is_over = True
                    raise
                await sleep(self._retry.failed(error))
        return None

    async def aclose(self) -> None:
        """Disconnects. The terminal continues."""
        self._is_over = True
        await self._disconnect(self._socket)

    async def _disconnect(self, socket: ClientConnection | None) -> None:
        """Closes a connection, which another one may have replaced."""
        if socket is not None:
            if self._socket is socket:
                self._socket = None
            await socket.close()

    async def _open(self) -> ClientConnection:
        """Returns the connection, and connects first if necessary."""
        async with self._lock:
            if self._is_over:
                raise GoneError(f"the viewer of {self.id} is closed")
            if self._socket is None:
                socket = await self._connect()
                if self._is_over:
                    # It was closed meanwhile.
                    await socket.close()
                    raise GoneError(f"the viewer of {self.id} is closed")
                self._opened_before = True
                self._repaint_cursor = None
                self._socket = socket
            return self._socket

    async def _connect(self) -> ClientConnection:
        cols, rows = (None, None) if self._read_only else self._size
        query: dict[str, Any] = {"terminalId": self.id, "cols": cols, "rows": rows, "since": self.cursor}
        query["readOnly"] = "true" if self._read_only else None
        query["incarnation"] = self._incarnation if self.cursor is not None else None
        given = {name: value for name, value in query.items() if value is not None}
        url = "ws" + self._http.address.path(("ws", "terminal"))[len("http") :] + "?" + urlencode(given)
        token = self._http.token
        options: dict[str, Any] = {
            "additional_headers": {"Authorization": f"Bearer {token}"} if token is not None else None,
            "open_timeout": CONNECT_TIMEOUT,
            "close_timeout": CLOSE_TIMEOUT,
            "max_size": MAX_MESSAGE_BYTES,
            "ping_interval": 10,
            "ping_timeout": 30,
        }
        try:
            return await open_socket(self._http.address.socket, url, options)
        except InvalidStatus as error:
            response = error.response
            raise error_of_response(response.status_code, bytes(response.body or b""), response.headers) from error
        except (OSError, InvalidHandshake) as error:
            raise UnreachableError(f"failed to reach the server at {self._http.address.url}: {error}") from error

    def _event_of(self, message: str | bytes) -> ViewerEvent | None:
        if isinstance(message, bytes):
            cursor, self._repaint_cursor = self._repaint_cursor, None
            if cursor is not None:
                self.cursor = cursor
                return TerminalOutput("repaint", message)
            if self.cursor is not None:
                self.cursor += len(message)
            return TerminalOutput("output", message)
        frame = frame_of(message)
        if isinstance(frame, models.TerminalRepaintFrame):
            # The screen is not drawn before its bytes: a viewer that reconnects until then needs them again.
            self._repaint_cursor = frame.cursor
            return None
        if isinstance(frame, models.TerminalReadyFrame):
            self._retry.works()
            self.cursor, self._incarnation = frame.cursor, frame.incarnation
        elif isinstance(frame, models.TerminalExitFrame):
            self._is_over = True
        elif isinstance(frame, models.TerminalErrorFrame) and frame.code not in HARMLESS:
            raise error_of(frame.code, frame.message)
        return frame
