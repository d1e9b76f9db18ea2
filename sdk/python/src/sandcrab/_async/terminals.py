"""`AsyncTerminal`: a pseudo-terminal with its screen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from typing_extensions import Unpack

from .. import models
from ..errors import NotFoundError, ignored_at_exit
from ..requests import LIST_ROUTE, TerminalOptions, checked_id, fields, milliseconds, new_id, with_flags
from .bound import AsyncBound
from .ending import AsyncEnd, start
from .http import AsyncHttp
from .viewer import AsyncViewer
from .waits import PIECE, wait


class AsyncTerminal:
    """A program with a screen. It continues when this object is dropped; `async with` ends it at the end of the block."""

    def __init__(self, http: AsyncHttp, terminal_id: str, created: bool = False) -> None:
        self._http = http
        self.id = terminal_id
        # Whether `terminal` has created it, or found it.
        self.created = created

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def __aenter__(self) -> AsyncTerminal:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        with suppress(*ignored_at_exit(kind)):
            await self.destroy()

    async def get_info(self) -> models.Terminal:
        """Reads its state, size, title and exit code."""
        return (await self._http.get(models.TerminalResponse, self._path())).terminal

    async def send(self, data: str | bytes = "", *, keys: Sequence[str] = ()) -> int:
        """Types text, then presses keys: enter, tab, up, f5, ctrl-c, alt-x, …. Returns the number of bytes."""
        path = self._path("input")
        if keys:
            text = data if isinstance(data, str) else data.decode()
            body = await self._http.fetch("POST", path, json={"text": text, "keys": list(keys)})
        else:
            content = data.encode() if isinstance(data, str) else data
            headers = {"Content-Type": "application/octet-stream"}
            body = await self._http.fetch("POST", path, content=content, headers=headers)
        return models.TerminalInputResponse.parse(body).written

    async def resize(self, cols: int, rows: int) -> models.ResizeResponse:
        """Changes the size."""
        return await self._http.post(
            models.ResizeResponse, self._path("resize"), {"cols": cols, "rows": rows}, is_repeatable=True
        )

    async def screen(
        self, *, scrollback: int | None = None, format: Literal["text", "cells"] | None = None
    ) -> models.ScreenResponse:
        """Reads the screen: `text`, the cursor and the title; with `cells`, also colours. `scrollback`: lines above the screen."""
        return await self._http.get(
            models.ScreenResponse, self._path("screen"), {"scrollback": scrollback, "format": format}
        )

    async def wait_for_text(
        self, text: str | re.Pattern[str], timeout: float | None = None
    ) -> models.TerminalWaitResponse:
        """Waits until the screen contains a text or matches a regular expression. Raises `WaitTimeoutError`."""
        wanted = {"text": text} if isinstance(text, str) else {"regex": with_flags(text)}
        return await self._wait(wanted, timeout)

    async def wait_for_idle(self, idle: float, timeout: float | None = None) -> models.TerminalWaitResponse:
        """Waits until nothing has changed for `idle` seconds."""
        # A new request takes output that changes nothing for a change, so each must be longer than `idle`.
        return await self._wait({"idleMs": milliseconds(idle)}, timeout, PIECE + idle)

    async def get_recording(self) -> str:
        """Reads what was shown so far as an asciicast."""
        return (await self._http.request("GET", self._path("recording"), is_repeatable=True)).decode()

    def connect(
        self, *, cols: int | None = None, rows: int | None = None, since: int | None = None, read_only: bool = False
    ) -> AsyncViewer:
        """Connects a viewer, which gets the output as it is written. Use it as a context manager."""
        return AsyncViewer(self._http, self.id, cols=cols, rows=rows, since=since, read_only=read_only)

    async def destroy(self) -> models.TerminalDeleted:
        """Ends the terminal and everything that it started."""
        return await self._http.delete(models.TerminalDeleted, self._path())

    async def _wait(
        self, wanted: dict[str, Any], timeout: float | None, piece: float = PIECE
    ) -> models.TerminalWaitResponse:
        path = self._path("wait")
        body = await wait(self._http, "POST", path, lambda ms: {"json": {**wanted, "timeoutMs": ms}}, timeout, piece)
        return models.TerminalWaitResponse.parse(body)

    def _path(self, *rest: str) -> tuple[str, ...]:
        return ("api", "terminal", checked_id(self.id, LIST_ROUTE), *rest)


class AsyncTerminals(AsyncBound):
    """The calls for terminals."""

    async def terminal(self, id: str | None = None, **options: Unpack[TerminalOptions]) -> AsyncTerminal:
        """Creates a terminal, or returns the running one with this id."""
        terminal_id = id or new_id("term")
        given: dict[str, Any] = {"id": terminal_id, **options}
        given["session_id"] = self._session(options.get("session_id"))
        body = fields(**given)
        # Not repeatable: the route takes no key, and the id of a terminal that has ended starts another one.
        end = None if id else AsyncEnd(self._http, ("api", "terminal", terminal_id))
        answer = await start(self._http, ("api", "terminal", "create"), body, end)
        created = models.TerminalCreated.parse(answer)
        return AsyncTerminal(self._http, created.id, created.created)

    async def get_terminal(self, terminal_id: str) -> AsyncTerminal | None:
        """Returns a terminal; None if the id is unknown."""
        terminal = AsyncTerminal(self._http, terminal_id)
        try:
            await terminal.get_info()
        except NotFoundError:
            return None
        return terminal

    async def list_terminals(self) -> list[models.Terminal]:
        """Lists the terminals."""
        return (await self._http.get(models.TerminalList, ("api", "terminal", "list"))).terminals
