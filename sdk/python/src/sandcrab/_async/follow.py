"""Callbacks of a process: what it writes and how it ends, as it happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from .. import models
from ..errors import SandcrabError
from ._runtime import answered, in_background
from .events import AsyncEvents
from .http import AsyncHttp

if TYPE_CHECKING:
    from .process import AsyncProcess

OnStart = Callable[["AsyncProcess"], Any]
OnOutput = Callable[[Literal["stdout", "stderr"], str], Any]
OnExit = Callable[["int | None"], Any]
OnError = Callable[[Exception], Any]


def follow(
    http: AsyncHttp,
    events: AsyncEvents[models.ProcessEvent],
    on_output: OnOutput | None,
    on_exit: OnExit | None,
    on_error: OnError | None,
) -> None:
    """Reads the events of a process in the background, and calls the functions. Closing the sandbox ends it."""
    http.followed.add(events)
    in_background(lambda: report(http, events, on_output, on_exit, on_error))


async def report(
    http: AsyncHttp,
    events: AsyncEvents[models.ProcessEvent],
    on_output: OnOutput | None,
    on_exit: OnExit | None,
    on_error: OnError | None,
) -> None:
    """Calls the functions. An error that no function gets is reported as that of any task or thread."""
    try:
        async for event in events:
            if on_output is not None and isinstance(event, (models.StdoutEvent, models.StderrEvent)):
                await answered(on_output(event.type, event.data))
            elif on_exit is not None and isinstance(event, models.ExitEvent):
                is_lost = event.end.reason == "lost"
                await answered(on_exit(None if is_lost else event.exit_code))
    except Exception as error:
        if http.is_closed and isinstance(error, (SandcrabError, RuntimeError)):
            return
        if on_error is None:
            raise
        await answered(on_error(error))
    finally:
        http.followed.discard(events)
