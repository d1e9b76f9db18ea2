"""What differs between asyncio and threads. The other folder has the same names for threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

from websockets.asyncio.client import ClientConnection, connect, unix_connect

from ..errors import WaitTimeoutError
from ..requests import limit_of

__all__ = [
    "ClientConnection",
    "Interruptible",
    "Lock",
    "Place",
    "Semaphore",
    "acquire",
    "answered",
    "finish",
    "in_background",
    "is_left",
    "open_socket",
    "place",
    "run_blocking",
    "sleep",
    "within",
]

T = TypeVar("T")

Lock = asyncio.Lock
Semaphore = asyncio.Semaphore
sleep = asyncio.sleep
run_blocking = asyncio.to_thread

# What connections belong to: the event loop.
Place = asyncio.AbstractEventLoop

# Keeps a reference to tasks that outlive their caller.
UNFINISHED: set[asyncio.Future[Any]] = set()


class Interruptible(Protocol):
    """Something that blocks, and can be interrupted."""

    # When its caller stops waiting, as a value of the monotonic clock.
    deadline: float | None

    def interrupt(self) -> None:
        """Makes the blocked call fail."""


def place() -> Place:
    """Returns the place of the caller."""
    return asyncio.get_running_loop()


def is_left(other: Place) -> bool:
    """Whether nothing runs there any more."""
    return other.is_closed()


async def acquire(slot: Semaphore, is_abandoned: Callable[[], bool]) -> None:
    """Waits for a slot. A caller that gives up cancels its task."""
    del is_abandoned
    await slot.acquire()


async def answered(value: Any) -> None:
    """Awaits what a callback has returned, if it is a coroutine."""
    if inspect.isawaitable(value):
        await value


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Completes work also if the task is cancelled again meanwhile."""
    task = asyncio.ensure_future(work)
    UNFINISHED.add(task)
    task.add_done_callback(UNFINISHED.discard)
    return await asyncio.shield(task)


def in_background(call: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs something beside the caller."""
    task = asyncio.ensure_future(call())
    UNFINISHED.add(task)
    task.add_done_callback(UNFINISHED.discard)


async def within(
    seconds: float | None, blocked: Interruptible, call: Callable[[], Coroutine[Any, Any, T]], message: str
) -> T:
    """Completes a call in time, or raises `WaitTimeoutError`."""
    del blocked
    limit = limit_of(seconds)
    try:
        return await asyncio.wait_for(call(), limit)
    except asyncio.TimeoutError as error:
        if isinstance(error, WaitTimeoutError):
            raise
        raise WaitTimeoutError(message, code="PROCESS_READY_TIMEOUT") from None


async def open_socket(path: str | None, url: str, options: dict[str, Any]) -> ClientConnection:
    """Opens a WebSocket, through a unix socket if there is a path."""
    opening: Any = unix_connect(path, url, **options) if path is not None else connect(url, proxy=None, **options)
    return cast(ClientConnection, await opening)
