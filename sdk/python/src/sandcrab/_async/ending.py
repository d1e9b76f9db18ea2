"""Starts whose caller may go away before the answer: what they start is ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from ..errors import NotFoundError, SandcrabError
from ..retry import was_reached
from ._runtime import finish, sleep
from .http import AsyncHttp

# How long, in seconds, a request that was cancelled on its way may still start something.
ARRIVAL = 2.0
# How long, in seconds, the end of something waits for a server that cannot be reached or does not answer.
END_WINDOW = 5.0
# Time between SIGTERM and SIGKILL if the caller has given no `grace`.
DEFAULT_GRACE_MS = 5000
# Pauses in seconds between attempts to end something that the server does not know yet.
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5


def end_limits(grace_ms: int = 0) -> httpx2.Timeout:
    """The limits of a request whose caller has gone: it is answered after the grace period at the latest."""
    return httpx2.Timeout(None, connect=END_WINDOW, read=grace_ms / 1000 + END_WINDOW)


@dataclass(frozen=True)
class AsyncEnd:
    """The request that ends what another one starts."""

    http: AsyncHttp
    path: tuple[str, ...]
    method: str = "DELETE"
    json: Any = None
    # Time between SIGTERM and SIGKILL.
    grace_ms: int | None = None

    async def send(self) -> bool:
        """Ends it. Returns false if it is still unknown after `ARRIVAL`: the server may be reading the request that starts it."""
        began = time.monotonic()
        window = min(END_WINDOW, self.http.reconnect_timeout)
        limits = end_limits(DEFAULT_GRACE_MS if self.grace_ms is None else self.grace_ms)
        query = {"graceMs": self.grace_ms}
        pause = FIRST_PAUSE
        while True:
            try:
                await self.http.fetch(self.method, self.path, query=query, json=self.json, timeout=limits)
                return True
            except NotFoundError:
                if time.monotonic() >= began + ARRIVAL:
                    return False
            except SandcrabError as error:
                if not self.http.may_retry(error) or time.monotonic() >= began + window:
                    raise
            await sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def try_to_send(self) -> bool:
        """The same, for a caller that has another exception to raise."""
        try:
            return await self.send()
        except (SandcrabError, RuntimeError):
            # The server cannot be reached, or the sandbox was closed meanwhile.
            return False


async def start(
    http: AsyncHttp,
    path: tuple[str, ...],
    body: dict[str, Any],
    end: AsyncEnd | None,
    *,
    headers: Mapping[str, str] | None = None,
    is_repeatable: bool = False,
    is_wait: bool = False,
) -> dict[str, Any]:
    """Starts something and returns the answer.

    If the caller is cancelled or interrupted after the request was sent, or gets no answer to it, it is ended.
    `end` is None if the caller has chosen the id: the id may be that of an older thing, and the caller knows what to end.
    """
    sent: list[bool] = []
    try:
        return await http.fetch(
            "POST",
            path,
            json=body,
            headers=headers,
            is_repeatable=is_repeatable,
            is_long=is_wait,
            is_wait=is_wait,
            sent=sent,
        )
    except BaseException as error:
        is_refusal = isinstance(error, SandcrabError) and not was_reached(error)
        if sent and end is not None and not is_refusal:
            await finish(end.try_to_send())
        raise
