"""`AsyncBound`: what the calls of a sandbox and of a session have in common."""

from __future__ import annotations

from .http import AsyncHttp


class AsyncBound:
    """The connections, and the session that calls are bound to, if any."""

    def __init__(self, http: AsyncHttp, session_id: str | None, max_output_bytes: int | None = None) -> None:
        self._http = http
        self._session_id = session_id
        # What a result has of each stream at most, if this object was returned by the call that created the session.
        self._max_output_bytes = max_output_bytes

    def _session(self, session_id: str | None) -> str | None:
        """Returns the session of a call."""
        return session_id if session_id is not None else self._session_id
