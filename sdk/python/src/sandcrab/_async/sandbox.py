"""`AsyncSandbox`: a server and a token."""

from __future__ import annotations

from typing import Any

from .. import models
from ..address import address_of, token_of
from ..errors import ValidationError
from ..requests import Env
from ..retry import RECONNECT_TIMEOUT
from ..streams import SERVER
from .calls import AsyncCalls
from .events import AsyncEvents
from .http import AsyncHttp
from .session import AsyncSessions

MAX_CONNECTIONS = 64


class AsyncSandbox(AsyncCalls, AsyncSessions):
    """A server and a token. It holds no state of the server, and connects with the first call.

    Calls are without a session, unless `session_id` is given. `async with` closes the connections; it ends nothing on the server.
    """

    def __init__(
        self,
        base_url: str | None = None,
        token: str | None = None,
        *,
        max_connections: int = MAX_CONNECTIONS,
        reconnect_timeout: float = RECONNECT_TIMEOUT,
    ) -> None:
        """Names a server: `http://HOST:PORT`, `https://HOST` or `unix:PATH`. Default: `SANDCRAB_URL`, `SANDCRAB_TOKEN`.

        At most `max_connections` are open at a time; further calls wait. Streams, and calls that may be repeated, try to reconnect for
        `reconnect_timeout` seconds.
        """
        if type(max_connections) is not int or max_connections < 1:
            raise ValidationError(f"expected max_connections of at least 1, an integer, got {max_connections!r}")
        if not reconnect_timeout >= 0:
            raise ValidationError(f"expected reconnect_timeout of at least 0 seconds, got {reconnect_timeout}")
        address = address_of(base_url)
        super().__init__(AsyncHttp(address, token_of(token), max_connections, reconnect_timeout), None)

    def __repr__(self) -> str:
        # Not the token.
        return f"<{type(self).__name__} {self._http.address.socket or self._http.address.url}>"

    async def __aenter__(self) -> AsyncSandbox:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections."""
        await self._http.aclose()

    async def set_env_vars(self, vars: Env) -> None:
        """Sets variables that later commands and sessions of the sandbox start with. `None` unsets one."""
        await self._http.post(models.SuccessResponse, ("api", "env"), {"vars": dict(vars)})

    async def ping(self) -> models.Pong:
        """Tests the connection and the token."""
        return await self._http.get(models.Pong, ("api", "ping"))

    async def version(self) -> models.Version:
        """Reads the version of the server."""
        return await self._http.get(models.Version, ("api", "version"))

    async def health(self) -> models.Health:
        """Reads what works on the server, and what runs."""
        return await self._http.get(models.Health, ("api", "health"))

    async def metrics(self) -> str:
        """Reads the metrics in the format of Prometheus."""
        return (await self._http.request("GET", ("metrics",), is_repeatable=True)).decode()

    async def openapi(self) -> dict[str, Any]:
        """Reads the description of the API."""
        return await self._http.fetch("GET", ("openapi.json",), is_repeatable=True)

    def events(self) -> AsyncEvents[models.ServerEvent]:
        """Streams what starts, changes and ends on the server. A second `hello` after a reconnect: events may be missing."""
        return AsyncEvents(self._http, SERVER, "GET", ("api", "events"))
