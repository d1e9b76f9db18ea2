"""Callbacks of a process or a service: how it starts, what it writes and how it ends, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from .. import models
from ..errors import SandcrabError
from ._runtime import answered, finish, in_background
from .ending import AsyncEnd
from .events import AsyncEvents
from .http import AsyncHttp

P = TypeVar("P")

OUTPUT_EVENTS = (models.StdoutEvent, models.StderrEvent, models.ServiceStdoutEvent, models.ServiceStderrEvent)

OnOutput = Callable[[Literal["stdout", "stderr"], str], Any]
OnExit = Callable[["int | None"], Any]
OnError = Callable[[Exception], Any]


@dataclass(frozen=True)
class AsyncCallbacks(Generic[P]):
    """The functions of the caller."""

    on_start: Callable[[P], Any] | None
    on_output: OnOutput | None
    on_exit: OnExit | None
    on_error: OnError | None

    async def failed(self, error: Exception) -> None:
        """Reports that the start has failed. The caller gets the exception, too."""
        if self.on_error is not None:
            await answered(self.on_error(error))

    async def started(self, http: AsyncHttp, begun: P, end: AsyncEnd, events: Callable[[], AsyncEvents[Any]]) -> None:
        """Calls `on_start`, and follows the events. If `on_start` fails, what was begun is ended: the caller does not get it."""
        try:
            if self.on_start is not None:
                await answered(self.on_start(begun))
        except BaseException as error:
            await finish(end.try_to_send())
            if isinstance(error, Exception):
                await self.failed(error)
            raise
        if self.on_output is not None or self.on_exit is not None:
            stream = events()
            http.followed.add(stream)
            in_background(lambda: self._follow(http, stream))

    async def _follow(self, http: AsyncHttp, events: AsyncEvents[Any]) -> None:
        """Calls the functions until the sandbox is closed. An error that no function gets is reported as that of any task or thread."""
        exit_code: int | None = None
        try:
            async for event in events:
                if isinstance(event, OUTPUT_EVENTS):
                    if self.on_output is not None:
                        await answered(self.on_output(event.type, event.data))
                elif isinstance(event, (models.ExitEvent, models.ServiceExitEvent)):
                    exit_code = None if event.end.reason == "lost" else event.exit_code
            if self.on_exit is not None:
                await answered(self.on_exit(exit_code))
        except Exception as error:
            if http.is_closed and isinstance(error, (SandcrabError, RuntimeError)):
                return
            if self.on_error is None:
                raise
            await answered(self.on_error(error))
        finally:
            http.followed.discard(events)
