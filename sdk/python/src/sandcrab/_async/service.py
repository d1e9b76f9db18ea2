"""`AsyncService`: a process that is restarted and checked."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Literal

from typing_extensions import Unpack

from .. import models
from ..errors import ConflictError, NotFoundError, SandcrabError, ignored_at_exit
from ..requests import LIST_ROUTE, ServiceOptions, checked_id, command_fields, fields, milliseconds, new_id
from ..streams import SERVICE
from ._runtime import within
from .bound import AsyncBound
from .ending import AsyncEnd, start
from .events import AsyncEvents
from .follow import AsyncCallbacks, OnError, OnExit, OnOutput
from .http import AsyncHttp
from .process import AsyncProcess, LogMatch, process_of


class AsyncService:
    """A program that the server keeps running. `async with` deletes it at the end of the block."""

    def __init__(self, http: AsyncHttp, service_id: str, info: models.Service | None = None) -> None:
        self._http = http
        self.id = service_id
        self.info = info

    async def __aenter__(self) -> AsyncService:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        with suppress(*ignored_at_exit(kind)):
            await self.delete()

    async def refresh(self) -> models.Service:
        """Reads its state, and its current and earlier executions."""
        self.info = (await self._http.get(models.ServiceResponse, self._path())).service
        return self.info

    async def get_health(self) -> models.ServiceHealthResponse:
        """Reads the result of the last health check."""
        return await self._http.get(models.ServiceHealthResponse, self._path("health"))

    async def get_logs(
        self,
        *,
        encoding: Literal["utf8", "base64"] | None = None,
        tail: int | None = None,
        since: str | int | None = None,
    ) -> models.ProcessLogs:
        """Reads the output of the current execution, or of the last one."""
        query = {"encoding": encoding, "tail": tail, "since": since}
        return await self._http.get(models.ProcessLogs, self._path("logs"), query)

    def stream_output(
        self,
        *,
        encoding: Literal["utf8", "base64"] | None = None,
        since: str | None = None,
        follow: bool = True,
    ) -> AsyncEvents[models.ServiceEvent]:
        """Streams the output across restarts: `execution` for each one, `stdout` and `stderr`, `exit`, and `end` at last."""
        query = {"encoding": encoding, "follow": None if follow else "false"}
        return AsyncEvents(self._http, SERVICE, "GET", self._path("stream"), query=query, cursor=since)

    async def kill(self, signal: str | None = None, *, grace: float | None = None) -> models.ServiceStopped:
        """The same as `stop`, as for a process."""
        return await self.stop(signal=signal, grace=grace)

    async def wait_for_exit(self, timeout: float | None = None) -> models.Service:
        """Waits until the service has stopped or failed: it is not started again. Raises `WaitTimeoutError`."""
        events = self.stream_output()
        message = f"service {self.id} has not ended after {timeout} s"
        try:
            await within(timeout, events, lambda: read_all(events), message)
        finally:
            await events.aclose()
        return await self.refresh()

    async def wait_for_log(self, pattern: str | re.Pattern[str], timeout: float | None = None) -> LogMatch:
        """Waits for a line of the current execution. See `Process.wait_for_log`."""
        return await (await self._execution()).wait_for_log(pattern, timeout)

    async def wait_for_port(
        self,
        port: int,
        timeout: float | None = None,
        *,
        mode: Literal["http", "tcp"] | None = None,
        path: str | None = None,
        status: tuple[int, int] | None = None,
        interval: float | None = None,
    ) -> None:
        """Waits until the current execution serves a port. See `Process.wait_for_port`."""
        execution = await self._execution()
        await execution.wait_for_port(port, timeout, mode=mode, path=path, status=status, interval=interval)

    async def stop(self, *, signal: str | None = None, grace: float | None = None) -> models.ServiceStopped:
        """Ends the program. It is not started again until `restart`."""
        return await self._http.post(models.ServiceStopped, self._path("stop"), fields(signal=signal, grace=grace))

    async def restart(self, *, signal: str | None = None, grace: float | None = None) -> models.ServiceStarted:
        """Ends the program if it runs, and starts it."""
        return await self._http.post(models.ServiceStarted, self._path("restart"), fields(signal=signal, grace=grace))

    async def delete(self, *, signal: str | None = None, grace: float | None = None) -> models.ServiceStopped:
        """Ends the program and removes the service."""
        query = {"signal": signal, "graceMs": None if grace is None else milliseconds(grace)}
        return await self._http.delete(models.ServiceStopped, self._path(), query)

    async def _execution(self) -> AsyncProcess:
        """The current execution, or the last one."""
        execution_id = (await self.refresh()).execution_id
        if execution_id is None:
            raise ConflictError(f"service {self.id} has no execution yet", code="PROCESS_NOT_STARTED")
        return process_of(self._http, execution_id)

    def _path(self, *rest: str) -> tuple[str, ...]:
        return ("api", "service", checked_id(self.id, LIST_ROUTE), *rest)


class AsyncServices(AsyncBound):
    """The calls for services."""

    async def start_service(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        on_start: Callable[[AsyncService], Any] | None = None,
        on_output: OnOutput | None = None,
        on_exit: OnExit | None = None,
        on_error: OnError | None = None,
        **options: Unpack[ServiceOptions],
    ) -> AsyncService:
        """Starts a service. With `wait_for_ready` it returns when the health check has succeeded.

        The functions are those of `start_process`. `on_output` gets the output of all executions; `on_exit` is called when the
        service has stopped or failed, with the exit code of its last execution.
        """
        callbacks = AsyncCallbacks(on_start, on_output, on_exit, on_error)
        body = command_fields(command, args, self._session(options.get("session_id")), options)
        if isinstance(body.get("restart"), str):
            body["restart"] = {"policy": body["restart"]}
        is_own = "serviceId" not in body
        body.setdefault("serviceId", new_id("service"))
        end = AsyncEnd(self._http, ("api", "service", body["serviceId"]), grace_ms=body.get("graceMs"))
        path, headers = ("api", "service", "start"), {"Idempotency-Key": new_id("key")}
        own = end if is_own else None
        try:
            answer = await start(self._http, path, body, own, headers=headers, is_repeatable=True, is_wait=True)
        except SandcrabError as error:
            await callbacks.failed(error)
            raise
        service = AsyncService(self._http, models.ServiceStarted.parse(answer).service_id)
        await callbacks.started(self._http, service, end, service.stream_output)
        return service

    async def list_services(self) -> list[AsyncService]:
        """Lists the services."""
        listed = await self._http.get(models.ServiceList, ("api", "service", "list"))
        return [AsyncService(self._http, info.id, info) for info in listed.services]

    async def get_service(self, service_id: str) -> AsyncService | None:
        """Returns a service; None if the id is unknown."""
        service = AsyncService(self._http, service_id)
        try:
            await service.refresh()
        except NotFoundError:
            return None
        return service


async def read_all(events: AsyncEvents[models.ServiceEvent]) -> None:
    """Reads a stream to its end."""
    async for _ in events:
        pass
