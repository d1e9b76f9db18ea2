"""`Retry`: exponential backoff."""

from __future__ import annotations

import time

from .errors import ConnectionLostError, InvalidResponseError, SandcrabError

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0
# Status of a proxy that gave up waiting for its server.
GATEWAY_TIMEOUT = 504
# Default of `reconnect_timeout`: a server that crashed is back within seconds.
RECONNECT_TIMEOUT = 30.0


def was_reached(error: SandcrabError) -> bool:
    """Whether the server may have read the request: the connection was lost, or a proxy gave up waiting for the answer."""
    if isinstance(error, InvalidResponseError):
        return error.status == GATEWAY_TIMEOUT
    return isinstance(error, ConnectionLostError)


class Retry:
    """The pauses between attempts, until the server was unreachable for too long.

    `is_wait`: the answer comes when something has happened, which may take longer than the window.
    """

    def __init__(self, window: float, *, is_wait: bool = False) -> None:
        self._window = window
        self._is_wait = is_wait
        self._pause = FIRST_PAUSE
        self._give_up_at: float | None = None
        # When the current attempt began.
        self._began = time.monotonic()

    def failed(self, error: SandcrabError) -> float:
        """Records a failure. Returns the pause before the next attempt, or raises the error if the time is up."""
        now = time.monotonic()
        # A wait that took longer than the window had reached the server: a proxy gave up waiting.
        if self._is_wait and was_reached(error) and now - self._began > self._window:
            self.works()
        if self._give_up_at is None:
            self._give_up_at = now + self._window
        if now >= self._give_up_at:
            raise error
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        pause = min(max(pause, error.retry_after or 0.0), self._give_up_at - now)
        self._began = now + pause
        return pause

    def works(self) -> None:
        """Records a success."""
        self._give_up_at, self._pause = None, FIRST_PAUSE
