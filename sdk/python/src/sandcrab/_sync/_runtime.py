"""What differs between asyncio and threads. The other folder has the same names for asyncio."""

from __future__ import annotations

import inspect
import os
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from websockets.sync.client import ClientConnection, connect, unix_connect

from ..errors import ConnectionLostError, ValidationError, WaitTimeoutError
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
P = ParamSpec("P")

Lock = threading.Lock
Semaphore = threading.Semaphore
sleep = time.sleep
# What connections belong to: the process. After a fork, its child must not use those of its parent.
Place = int

# How often, in seconds, a thread that waits for a connection looks whether its caller has given up.
ABANDON_CHECK = 0.05


class Interruptible(Protocol):
    """Something that blocks, and can be interrupted from another thread."""

    # When its caller stops waiting, as a value of the monotonic clock.
    deadline: float | None

    def interrupt(self) -> None:
        """Makes the blocked call fail."""


def place() -> Place:
    """Returns the place of the caller."""
    return os.getpid()


def is_left(other: Place) -> bool:
    """Whether nothing runs there any more, from the point of view of this process."""
    return other != os.getpid()


def acquire(slot: Semaphore, is_abandoned: Callable[[], bool]) -> None:
    """Waits for a slot, until the caller gives up."""
    while not slot.acquire(timeout=ABANDON_CHECK):
        if is_abandoned():
            raise ConnectionLostError("the call was interrupted while it waited for a connection")


def answered(value: Any) -> None:
    """Refuses a callback that is a coroutine: nothing would run it."""
    if inspect.iscoroutine(value):
        value.close()
        raise ValidationError("expected a callback that is not a coroutine; use AsyncSandbox for `async def`")


def run_blocking(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls the function."""
    return function(*args, **kwargs)


def finish(done: T) -> T:
    """Returns its argument: the work is complete."""
    return done


def in_background(call: Callable[[], None]) -> None:
    """Runs something beside the caller. It does not keep the program from ending."""
    threading.Thread(target=call, daemon=True).start()


def within(seconds: float | None, blocked: Interruptible, call: Callable[[], T], message: str) -> T:
    """Completes a call in time, or raises `WaitTimeoutError`."""
    limit = limit_of(seconds)
    if limit is None:
        return call()
    # The timer ends a blocked read. Until the response begins, the deadline limits the time.
    deadline = blocked.deadline = time.monotonic() + limit
    timer = threading.Timer(limit, blocked.interrupt)
    timer.daemon = True
    timer.start()
    try:
        return call()
    except Exception:
        if time.monotonic() >= deadline:
            raise WaitTimeoutError(message, code="PROCESS_READY_TIMEOUT") from None
        raise
    finally:
        timer.cancel()


def open_socket(path: str | None, url: str, options: dict[str, Any]) -> ClientConnection:
    """Opens a WebSocket, through a unix socket if there is a path."""
    # Their types are incomplete. The viewer closes the connection, so that the block of `connect` is never left.
    unix = cast("Callable[..., Any]", unix_connect)
    tcp = cast("Callable[..., Any]", connect)
    opening = unix(path, url, **options) if path is not None else tcp(url, proxy=None, **options)
    return cast(ClientConnection, opening.__enter__())
