"""`AsyncEvents`: a stream of events that reconnects and resumes."""

from __future__ import annotations

import json as json_module
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from typing import Any, Generic, TypeVar

from ..errors import ConnectionLostError, SandcrabError, error_of
from ..retry import Retry
from ..sse import Message, Parser
from ..streams import StreamKind
from ._runtime import finish, sleep
from .http import AsyncHttp, AsyncOpenResponse, Query, stream_timeout

E = TypeVar("E")

# The reason of a `resync` after a lost connection.
RECONNECTED = "reconnected"


class AsyncEvents(Generic[E]):
    """A stream of events. Iterate over it; leaving the loop closes it.

    After a lost connection it reconnects and resumes after the last event that it delivered, without gaps or duplicates. It
    fails when the server is unreachable for `reconnect_timeout`. An `error` event is raised as the exception of its code.
    A stream holds one connection.
    """

    def __init__(
        self,
        http: AsyncHttp,
        kind: StreamKind[E],
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        cursor: str | int | None = None,
        on_abandon: Callable[[], Any] | None = None,
        window: float | None = None,
    ) -> None:
        self._http = http
        self._kind = kind
        self._request: dict[str, Any] = {"method": method, "path": path, "query": query, "json": json}
        self._headers = {"Accept": "text/event-stream", **(headers or {})}
        self._cursor = None if cursor is None else str(cursor)
        # Called if the stream is closed before its last event.
        self._on_abandon = on_abandon
        self._opened: AsyncOpenResponse | None = None
        self._chunks: AsyncGenerator[bytes, None] | None = None
        self._parser = Parser()
        self._ready: deque[Message] = deque()
        limit = http.reconnect_timeout if window is None else min(window, http.reconnect_timeout)
        self._retry = Retry(limit, is_wait=True)
        # When a caller stops waiting, as a value of the monotonic clock.
        self.deadline: float | None = None
        self._has_begun = False
        # Has an entry once a request was sent.
        self.sent: list[bool] = []
        self._is_over = False
        self._is_interrupted = False
        self.last_body: dict[str, Any] = {}

    @property
    def cursor(self) -> str | None:
        """The cursor after the last event that was delivered. A later stream can start from it (`since`)."""
        return self._cursor

    async def __aenter__(self) -> AsyncEvents[E]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def __aiter__(self) -> AsyncIterator[E]:
        try:
            while True:
                event = await self.next_event()
                if event is None:
                    return
                yield event
        finally:
            await self.aclose()

    async def __anext__(self) -> E:
        event = await self.next_event()
        if event is None:
            raise StopAsyncIteration
        return event

    async def next_event(self) -> E | None:
        """Returns the next event; None after the last."""
        try:
            while not self._is_over:
                if self._is_interrupted:
                    raise ConnectionLostError("the stream was interrupted")
                event = await self._take_ready()
                if event is not None:
                    return event
                if not self._is_over and not self._ready:
                    await self._receive()
            return None
        except BaseException as error:
            # A failed stream is over, unless the caller only stopped waiting.
            if isinstance(error, SandcrabError):
                await self._disconnect()
                self._is_over = True
            raise

    async def aclose(self) -> None:
        """Closes the connection. A command that this stream started and that has not ended is ended."""
        was_over, self._is_over = self._is_over, True
        try:
            await self._disconnect()
        finally:
            if not was_over and self.sent and self._on_abandon is not None:
                await finish(self._on_abandon())

    def interrupt(self) -> None:
        """Makes a blocked call fail, from another thread."""
        self._is_interrupted = True
        if self._opened is not None:
            self._opened.shut_down()

    async def _disconnect(self) -> None:
        opened, self._opened = self._opened, None
        chunks, self._chunks = self._chunks, None
        self._ready.clear()
        if opened is not None:
            try:
                if chunks is not None:
                    await chunks.aclose()
            finally:
                await opened.aclose()

    async def _receive(self) -> None:
        """Reads more, and connects first if necessary."""
        try:
            if self._chunks is None:
                await self._connect()
            assert self._chunks is not None
            chunk = await anext(self._chunks, None)
            if chunk is None:
                raise ConnectionLostError(f"the connection to {self._http.address.url} ended before the last event")
            self._ready.extend(self._parser.push(chunk))
        except SandcrabError as error:
            await self._failed(error)

    async def _connect(self) -> None:
        headers = self._headers if self._cursor is None else {**self._headers, "Last-Event-ID": self._cursor}
        self._opened = await self._http.open(
            **self._request,
            headers=headers,
            timeout=stream_timeout(self._rest()),
            sent=self.sent,
            is_abandoned=lambda: self._is_interrupted,
        )
        self._chunks = self._opened.chunks()
        # An incomplete event of the previous connection is dropped.
        self._parser = Parser()

    async def _failed(self, error: SandcrabError) -> None:
        """Waits before the next attempt, or raises the error."""
        await self._disconnect()
        may_retry = self._kind.resumes and self._http.may_retry(error)
        if not may_retry or self._is_interrupted:
            raise error
        pause, rest = self._retry.failed(error), self._rest()
        if rest is not None and rest <= pause:
            await sleep(rest)
            raise error
        await sleep(pause)

    def _rest(self) -> float | None:
        """The time until the deadline."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    async def _take_ready(self) -> E | None:
        while self._ready:
            message = self._ready.popleft()
            name, event, body = self._kind.parse(message.data)
            is_stop = name in self._kind.stopping or (name == "error" and body.get("code") == "SHUTTING_DOWN")
            if is_stop and self._kind.resumes:
                await self._failed(error_of("SHUTTING_DOWN", "the server is stopping"))
                return None
            if message.id:
                self._cursor = message.id
            self._retry.works()
            if name in self._kind.opening:
                was_begun, self._has_begun = self._has_begun, True
                if was_begun:
                    continue
            if name == self._kind.gap:
                was_begun, self._has_begun = self._has_begun, True
                if was_begun:
                    resync = {"type": "resync", "reason": RECONNECTED, "timestamp": body.get("timestamp")}
                    self._ready.appendleft(Message(json_module.dumps(resync).encode(), ""))
            self.last_body = body
            if name == "error":
                context = {field: value for field, value in body.items() if field in ("exitCode", "executionId")}
                raise error_of(str(body.get("code")), str(body.get("error")), context=context)
            if name in self._kind.last:
                self._is_over = True
                await self._disconnect()
            return event
        return None
