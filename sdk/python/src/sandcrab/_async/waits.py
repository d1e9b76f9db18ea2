"""Waits for something on the server: requests of limited length, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx2

from ..errors import SandcrabError, WaitTimeoutError
from ..requests import limit_of, milliseconds
from ..retry import Retry
from ._runtime import sleep
from .http import CONNECT_TIMEOUT, AsyncHttp

# A wait is one request of at most so many seconds: proxies give up after some minutes of silence.
PIECE = 60.0
# How much later than asked for an answer may come, in seconds.
ANSWER_DELAY = 5.0


async def wait(
    http: AsyncHttp,
    method: str,
    path: tuple[str, ...],
    request: Callable[[int], dict[str, Any]],
    timeout: float | None,
    piece: float = PIECE,
) -> dict[str, Any]:
    """Asks until the server answers that it has happened. Raises `WaitTimeoutError` after `timeout` seconds.

    `request` returns the options of a request that waits for some milliseconds. Lost connections do not prolong the wait.
    """
    timeout = limit_of(timeout)
    give_up_at = None if timeout is None else time.monotonic() + timeout
    retry = Retry(http.reconnect_timeout, is_wait=True)
    while True:
        rest = piece if give_up_at is None else min(piece, max(0.0, give_up_at - time.monotonic()))
        limits = httpx2.Timeout(None, connect=min(CONNECT_TIMEOUT, rest + ANSWER_DELAY), read=rest + ANSWER_DELAY)
        try:
            return await http.fetch(method, path, **request(milliseconds(rest)), timeout=limits, is_long=True)
        except WaitTimeoutError:
            if give_up_at is not None and time.monotonic() >= give_up_at:
                raise
            retry.works()
        except SandcrabError as error:
            if not http.may_retry(error):
                raise
            pause = retry.failed(error)
            if give_up_at is not None:
                pause = min(pause, max(0.0, give_up_at - time.monotonic()))
            await sleep(pause)
            if give_up_at is not None and time.monotonic() >= give_up_at:
                message = f"it has not happened after {timeout} s, and the server cannot be asked: {error}"
                raise WaitTimeoutError(message, code="PROCESS_READY_TIMEOUT") from error
