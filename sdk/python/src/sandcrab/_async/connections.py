"""`AsyncConnections`: the connections of one event loop, or of one process, to a server."""

from __future__ import annotations

import httpx2

from ..address import PATIENT_OPTIONS, SOCKET_OPTIONS, Address
from ._runtime import Place, Semaphore, is_left, place


class AsyncConnections:
    """Connections, and the slots of those that may use them."""

    def __init__(self, address: Address, headers: dict[str, str], most: int, timeout: httpx2.Timeout) -> None:
        limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most)

        def client(options: list[tuple[int, int, int]]) -> httpx2.AsyncClient:
            given = options if address.socket is None else None
            return httpx2.AsyncClient(
                headers=headers,
                transport=httpx2.AsyncHTTPTransport(uds=address.socket, limits=limits, socket_options=given),
                timeout=timeout,
                # The token must not go to another address.
                trust_env=False,
                follow_redirects=False,
            )

        self.client = client(SOCKET_OPTIONS)
        # For bodies that the server may take slowly.
        self.patient = client(PATIENT_OPTIONS)
        self.slots = Semaphore(most)
        # A part of the connections is for short requests, so that a command can be ended while streams use all others.
        self.long_slots = Semaphore(max(1, most - max(1, most // 8)))


class AsyncPlaces:
    """The connections of each event loop, or of this process: what another one has opened must not be used here."""

    def __init__(self, address: Address, headers: dict[str, str], most: int, timeout: httpx2.Timeout) -> None:
        self._options = (address, headers, most, timeout)
        self._connections: dict[Place, AsyncConnections] = {}
        self.is_closed = False

    def here(self) -> AsyncConnections:
        """Returns the connections for the caller."""
        if self.is_closed:
            raise RuntimeError("the sandbox was closed; make another one")
        found = self._connections.get(place())
        if found is not None:
            return found
        for other in [other for other in list(self._connections) if is_left(other)]:
            self._connections.pop(other, None)
        # Of two threads that come first, one is faster.
        return self._connections.setdefault(place(), AsyncConnections(*self._options))

    async def aclose(self) -> None:
        """Closes the connections. Those of other event loops are only dropped."""
        self.is_closed = True
        found = self._connections.get(place())
        self._connections.clear()
        if found is not None:
            await found.client.aclose()
            await found.patient.aclose()
