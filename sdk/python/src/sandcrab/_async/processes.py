"""Starting and finding processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from typing_extensions import Unpack

from .. import models
from ..errors import ProcessNotFoundError, SandcrabError
from ..requests import ProcessOptions, checked_id, command_fields, new_id
from .bound import AsyncBound
from .ending import AsyncEnd, start
from .events import AsyncEvents
from .follow import AsyncCallbacks, OnError, OnExit, OnOutput
from .process import AsyncProcess, process_of


class AsyncProcesses(AsyncBound):
    """The calls for processes in the background."""

    async def start_process(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        on_start: Callable[[AsyncProcess], Any] | None = None,
        on_output: OnOutput | None = None,
        on_exit: OnExit | None = None,
        on_error: OnError | None = None,
        **options: Unpack[ProcessOptions],
    ) -> AsyncProcess:
        """Starts a command in the background, and returns when it runs. `async with` ends it at the end of the block.

        `on_start(process)` is called before this call returns; if it fails, the process is ended. Then, until the sandbox is closed,
        a task or thread calls `on_output(stream, data)` with the output, and `on_exit(code)` at the end: with None if the code is
        unknown. `on_error(error)` is called if one of these fails, if the output cannot be read, and if the start fails.
        """
        callbacks = AsyncCallbacks(on_start, on_output, on_exit, on_error)
        body = command_fields(command, args, self._session(options.get("session_id")), options)
        is_own = "processId" not in body
        body.setdefault("processId", new_id("proc"))
        end = AsyncEnd(self._http, ("api", "process", body["processId"]), grace_ms=body.get("graceMs"))
        path, headers = ("api", "process", "start"), {"Idempotency-Key": new_id("key")}
        try:
            answer = await start(self._http, path, body, end if is_own else None, headers=headers, is_repeatable=True)
        except SandcrabError as error:
            await callbacks.failed(error)
            raise
        started = models.ProcessStarted.parse(answer)
        info = models.Process(
            id=started.process_id,
            pid=started.pid,
            command=started.command,
            status="running",
            start_time=started.timestamp,
            background=True,
            session_id=body.get("sessionId"),
        )
        process = AsyncProcess(self._http, info, list(args or []))
        await callbacks.started(self._http, process, end, process.stream_logs)
        return process

    async def list_processes(
        self, *, session_id: str | None = None, status: str | None = None, all: bool = False
    ) -> list[AsyncProcess]:
        """Lists the processes: all, or those of a session or with a status. With `all`, every execution."""
        query = {"sessionId": self._session(session_id), "status": status, "all": all or None}
        listed = await self._http.get(models.ProcessList, ("api", "process", "list"), query)
        return [AsyncProcess(self._http, info) for info in listed.processes]

    async def get_process(self, process_id: str, *, session_id: str | None = None) -> AsyncProcess | None:
        """Returns a process; None if the id is unknown, or if the process belongs to another session than this one or `session_id`."""
        try:
            path = ("api", "process", checked_id(process_id))
            info = (await self._http.get(models.ProcessResponse, path)).process
        except ProcessNotFoundError:
            return None
        wanted = self._session(session_id)
        if wanted is not None and info.session_id != wanted:
            return None
        return AsyncProcess(self._http, info)

    async def kill_process(
        self, process_id: str, signal: str | int | None = None, *, grace: float | None = None
    ) -> models.KillResponse:
        """Ends a process and everything that it started."""
        return await process_of(self._http, process_id).kill(signal, grace=grace)

    async def kill_all_processes(self, *, session_id: str | None = None) -> int:
        """Ends all processes, or those of a session. Returns their number."""
        query = {"sessionId": self._session(session_id)}
        path = ("api", "process", "kill-all")
        return (await self._http.delete(models.CleanupResponse, path, query)).cleaned_count

    async def cleanup_completed_processes(self) -> int:
        """Removes the records of finished processes. Returns their number."""
        return (await self._http.post(models.CleanupResponse, ("api", "process", "cleanup"), {})).cleaned_count

    async def get_process_logs(
        self,
        process_id: str,
        *,
        encoding: Literal["utf8", "base64"] | None = None,
        tail: int | None = None,
        since: str | int | None = None,
    ) -> models.ProcessLogs:
        """Reads the output of a process so far."""
        return await process_of(self._http, process_id).get_logs(encoding=encoding, tail=tail, since=since)

    def stream_process_logs(
        self,
        process_id: str,
        *,
        encoding: Literal["utf8", "base64"] | None = None,
        since: str | int | None = None,
        follow: bool = True,
    ) -> AsyncEvents[models.ProcessEvent]:
        """Streams the output of a process from the beginning, or from a cursor."""
        return process_of(self._http, process_id).stream_logs(encoding=encoding, since=since, follow=follow)
