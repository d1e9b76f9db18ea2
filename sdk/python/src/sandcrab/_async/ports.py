"""Ports and previews."""

from __future__ import annotations

from typing import Any, Literal

from .. import models
from ..errors import ProcessExitedError
from ..requests import fields, milliseconds
from ..streams import PORT
from ._runtime import within
from .bound import AsyncBound
from .events import AsyncEvents
from .http import AsyncHttp


class AsyncPorts(AsyncBound):
    """The calls for ports."""

    async def list_ports(self) -> list[models.Port]:
        """Lists the TCP ports on which programs listen."""
        return (await self._http.get(models.PortList, ("api", "ports"))).ports

    def watch_port(
        self,
        port: int,
        *,
        mode: Literal["http", "tcp"] | None = None,
        path: str | None = None,
        status: tuple[int, int] | None = None,
        interval: float | None = None,
        process_id: str | None = None,
    ) -> AsyncEvents[models.PortWatchEvent]:
        """Streams `watching`, then one of `ready`, `process_exited` and `error`. See also `Process.wait_for_port`.

        `interval` is the longest time between two attempts.
        """
        return watch(self._http, port, mode, path, status, interval, process_id)

    async def wait_for_port(
        self,
        port: int,
        timeout: float | None = None,
        *,
        mode: Literal["http", "tcp"] | None = None,
        path: str | None = None,
        status: tuple[int, int] | None = None,
        interval: float | None = None,
        process_id: str | None = None,
    ) -> None:
        """Waits until a program answers a GET on the port with a status in the range or, with `tcp`, accepts connections."""
        events = watch(self._http, port, mode, path, status, interval, process_id)
        await wait_for_port(events, port, timeout, process_id)

    async def expose_port(
        self, port: int, *, name: str | None = None, token: str | None = None, process_id: str | None = None
    ) -> models.ExposePortResponse:
        """Gives a port an address (`url`). With `process_id` it ends with that process."""
        body = fields(port=port, name=name, token=token, process_id=process_id)
        return await self._http.post(models.ExposePortResponse, ("api", "port", "expose"), body)

    async def unexpose_port(self, port: int) -> None:
        """Removes the address of a port."""
        await self._http.post(models.UnexposePortResponse, ("api", "port", "unexpose"), {"port": port})

    async def get_exposed_ports(self) -> list[models.ExposedPort]:
        """Lists the ports that have an address."""
        return (await self._http.get(models.ExposedPortList, ("api", "port", "exposed"))).ports


def watch(
    http: AsyncHttp,
    port: int,
    mode: str | None,
    path: str | None,
    status: tuple[int, int] | None,
    interval: float | None,
    process_id: str | None,
) -> AsyncEvents[models.PortWatchEvent]:
    """Streams the events until a port is ready."""
    low, high = status or (None, None)
    body = fields(port=port, mode=mode, path=path, status_min=low, status_max=high, process_id=process_id)
    # The API has this time without a unit in its name.
    body |= fields(interval=None if interval is None else milliseconds(interval))
    return AsyncEvents(http, PORT, "POST", ("api", "port-watch"), json=body)


async def wait_for_port(
    events: AsyncEvents[models.PortWatchEvent], port: int, timeout: float | None, process_id: str | None
) -> None:
    """Waits until a port is ready, or its process has ended."""
    try:
        last = await within(timeout, events, lambda: last_event(events), f"port {port} is not ready after {timeout} s")
    finally:
        await events.aclose()
    if isinstance(last, models.PortProcessExitedEvent):
        raise exited(process_id or "", last.exit_code, f"port {port} was ready")


async def last_event(events: AsyncEvents[models.PortWatchEvent]) -> models.PortWatchEvent | None:
    """Reads a stream to its end."""
    last: models.PortWatchEvent | None = None
    async for event in events:
        last = event
    return last


def exited(process_id: str, exit_code: int | None, before: str) -> ProcessExitedError:
    """Returns the exception for a process that ended too early."""
    message = f"process {process_id} ended with exit code {exit_code} before {before}"
    context: dict[str, Any] = {"processId": process_id, "exitCode": exit_code}
    error = ProcessExitedError(message, code="PROCESS_ENDED", context=context)
    error.exit_code = exit_code
    return error
