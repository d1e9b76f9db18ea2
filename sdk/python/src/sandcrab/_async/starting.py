"""Starts whose caller may go away before the answer: what they start is ended."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import NotFoundError, SandcrabError
from ._runtime import finish, sleep
from .http import AsyncHttp, Query

# How long, in seconds, a request that was cancelled on its way may still start something.
ARRIVAL = 2.0
# How long, in seconds, the end of something waits for a server that cannot be reached.
END_WINDOW = 5.0
# Pauses in seconds between attempts to end something that the server does not know yet.
FIRST_PAUSE = 0.02
LONGEST_PAUSE = 0.5


@dataclass(frozen=True)
class AsyncEnd:
    """The request that ends what another one starts."""

    http: AsyncHttp
    path: tuple[str, ...]
    method: str = "DELETE"
    query: Query | None = None
    json: Any = None

    async def send(self) -> bool:
        """Ends it. Returns false if it is still unknown after `ARRIVAL`: the server may be reading the request that starts it."""
        give_up_at = time.monotonic() + ARRIVAL
        pause = FIRST_PAUSE
        while True:
            try:
                await self.http.fetch(
                    self.method, self.path, query=self.query, json=self.json, is_repeatable=True, window=END_WINDOW
                )
                return True
            except NotFoundError:
                if time.monotonic() >= give_up_at:
                    return False
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
    is_long: bool = False,
) -> dict[str, Any]:
    """Starts something and returns the answer. If the caller is cancelled or interrupted after the request was sent, it is ended.

    `end` is None if the caller has chosen the id: the id may be that of an older thing, and the caller knows what to end.
    """
    sent: list[bool] = []
    try:
        return await http.fetch(
            "POST", path, json=body, headers=headers, is_repeatable=is_repeatable, is_long=is_long, sent=sent
        )
    except BaseException as error:
        if sent and end is not None and not isinstance(error, SandcrabError):
            await finish(end.try_to_send())
        raise
