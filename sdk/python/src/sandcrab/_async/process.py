"""`AsyncProcess`: a command in the background."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal, NamedTuple

from .. import models
from ..errors import ignored_at_exit
from ..lines import match_in_unfinished
from ..requests import checked_id, milliseconds
from ..streams import PROCESS
from ._runtime import within
from .events import AsyncEvents
from .http import AsyncHttp
from .ports import exited, wait_for_port, watch
from .waits import wait

# What `wait_for_log` keeps of a line that has no end.
MAX_LINE_CHARS = 1 << 20


class LogMatch(NamedTuple):
    """A line that `wait_for_log` has found."""

    line: str
    stream: Literal["stdout", "stderr"]
    match: re.Match[str]


class AsyncProcess:
    """A command in the background. The attributes are those of the last response: `refresh` reads them again.

    The server owns the process: it continues when this object is dropped. `async with` ends it at the end of the block.
    """

    def __init__(self, http: AsyncHttp, info: models.Process, args: list[str] | None = None) -> None:
        self._http = http
        self.info = info
        self.args: list[str] = args or []

    @property
    def id(self) -> str:
        """The id."""
        return self.info.id

    @property
    def pid(self) -> int | None:
        """The process id in the sandbox, while it runs."""
        return self.info.pid

    @property
    def command(self) -> str:
        """The command."""
        return self.info.command

    @property
    def status(self) -> str:
        """`starting`, `running`, `completed`, `failed`, `killed` or `error`."""
        return self.info.status

    @property
    def start_time(self) -> datetime:
        """The time at which it started."""
        return self.info.start_time

    @property
    def end_time(self) -> datetime | None:
        """The time at which it ended."""
        return self.info.end_time

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while it runs."""
        return self.info.exit_code

    @property
    def session_id(self) -> str | None:
        """The session in which it was started."""
        return self.info.session_id

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.status}>"

    async def __aenter__(self) -> AsyncProcess:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        with suppress(*ignored_at_exit(kind)):
            await self.kill()

    async def refresh(self, *, metrics: bool = False) -> models.Process:
        """Reads the attributes again. With `metrics`, the result has the resources in use."""
        query = {"metrics": metrics or None}
        self.info = (await self._http.get(models.ProcessResponse, self._path(), query)).process
        return self.info

    async def get_status(self) -> str:
        """Reads the status."""
        return (await self.refresh()).status

    async def kill(self, signal: str | int | None = None, *, grace: float | None = None) -> models.KillResponse:
        """Ends the process and everything that it started: SIGTERM or `signal`, and SIGKILL after `grace` seconds."""
        query = {"signal": signal, "graceMs": None if grace is None else milliseconds(grace)}
        body = await self._http.fetch("DELETE", self._path(), query=query, is_repeatable=True)
        return models.KillResponse.parse(body)

    async def signal(self, signal: str | int) -> None:
        """Sends a signal, by name or number."""
        await self._http.post(models.SuccessResponse, self._path("signal"), {"signal": signal})

    async def write(self, data: str | bytes) -> int:
        """Writes to standard input, which must be open (`stdin=True`). Returns the number of bytes."""
        return await self._write(data.encode() if isinstance(data, str) else data, None)

    async def close_stdin(self) -> None:
        """Closes standard input."""
        await self._write(b"", True)

    async def get_logs(
        self,
        *,
        encoding: Literal["utf8", "base64"] | None = None,
        tail: int | None = None,
        since: str | int | None = None,
    ) -> models.ProcessLogs:
        """Reads the output so far: the last lines (`tail`), or what came after a cursor (`since`)."""
        query = {"encoding": encoding, "tail": tail, "since": since}
        return await self._http.get(models.ProcessLogs, self._path("logs"), query)

    def stream_logs(
        self,
        *,
        encoding: Literal["utf8", "base64"] | None = None,
        since: str | int | None = None,
        follow: bool = True,
    ) -> AsyncEvents[models.ProcessEvent]:
        """Streams the output from the beginning, or from a cursor: `stdout` and `stderr`, then `exit`.

        Without `follow` the stream ends with `caught_up` when there is no more output. Leaving the loop does not end the process.
        """
        query = {"encoding": encoding, "follow": None if follow else "false"}
        return AsyncEvents(self._http, PROCESS, "GET", self._path("stream"), query=query, cursor=since)

    async def output(self, stream: Literal["stdout", "stderr"] = "stdout", *, start: int = 0) -> bytes:
        """Reads the exact bytes of one stream, from an offset on."""
        headers = {"Range": f"bytes={start}-"} if start else None
        path = self._path("output")
        return await self._http.request("GET", path, query={"stream": stream}, headers=headers, is_repeatable=True)

    async def iter_output(self, stream: Literal["stdout", "stderr"] = "stdout") -> AsyncIterator[bytes]:
        """Reads the exact bytes of one stream in pieces: for output that is larger than memory."""
        opened = await self._http.open_read(self._path("output"), {"stream": stream})
        try:
            async for chunk in opened.chunks():
                yield chunk
        finally:
            await opened.aclose()

    async def get_recording(self) -> str:
        """Reads the output as an asciicast."""
        return (await self._http.request("GET", self._path("recording"), is_repeatable=True)).decode()

    async def wait_for_exit(self, timeout: float | None = None) -> models.Process:
        """Waits for the end. Raises `WaitTimeoutError` after `timeout` seconds; the process continues then."""
        body = await wait(self._http, "GET", self._path("wait"), lambda ms: {"query": {"timeoutMs": ms}}, timeout)
        self.info = models.ProcessResponse.parse(body).process
        return self.info

    async def wait_for_log(self, pattern: str | re.Pattern[str], timeout: float | None = None) -> LogMatch:
        """Waits until a line of the output contains a text or matches a regular expression. Returns the line.

        A line that has no end yet is searched too, and returned as it is then. An expression that requires the end of the line
        (`$`) matches only complete lines.
        """
        wanted = re.compile(re.escape(pattern)) if isinstance(pattern, str) else pattern
        # The default is the encoding with which the process was started.
        events = self.stream_logs(encoding="utf8")
        message = f"{wanted.pattern!r} is not in the output of {self.id} after {timeout} s"
        try:
            return await within(timeout, events, lambda: self._find(events, wanted), message)
        finally:
            await events.aclose()

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
        """Waits until a program answers a GET on the port with a status in the range or, with `tcp`, accepts connections."""
        events = watch(self._http, port, mode, path, status, interval, self.id)
        await wait_for_port(events, port, timeout, self.id)

    def _path(self, *rest: str) -> tuple[str, ...]:
        return ("api", "process", checked_id(self.id), *rest)

    async def _write(self, data: bytes, close: bool | None) -> int:
        headers = {"Content-Type": "application/octet-stream"}
        body = await self._http.fetch(
            "POST", self._path("stdin"), query={"close": close}, content=data, headers=headers
        )
        return models.StdinResponse.parse(body).written

    async def _find(self, events: AsyncEvents[models.ProcessEvent], wanted: re.Pattern[str]) -> LogMatch:
        rest: dict[Literal["stdout", "stderr"], str] = {"stdout": "", "stderr": ""}
        async for event in events:
            if isinstance(event, (models.StdoutEvent, models.StderrEvent)):
                *lines, last = (rest[event.type] + event.data).split("\n")
                for line in lines:
                    if found := wanted.search(line.removesuffix("\r")):
                        return LogMatch(found.string, event.type, found)
                rest[event.type] = last[-MAX_LINE_CHARS:]
                if found := match_in_unfinished(wanted, rest[event.type]):
                    return LogMatch(found.string, event.type, found)
            elif isinstance(event, models.ExitEvent):
                for stream, line in rest.items():
                    if line and (found := wanted.search(line)):
                        return LogMatch(found.string, stream, found)
                raise exited(self.id, event.exit_code, f"{wanted.pattern!r} was in its output")
        raise exited(self.id, None, f"{wanted.pattern!r} was in its output")


def process_of(http: AsyncHttp, process_id: str) -> AsyncProcess:
    """A handle of a process of which only the id is known."""
    known: dict[str, Any] = {"id": checked_id(process_id), "command": "", "status": "running"}
    return AsyncProcess(http, models.Process.model_construct(None, **known))
