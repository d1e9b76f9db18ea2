"""Running commands."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal

from typing_extensions import Unpack

from .. import models
from ..errors import NotFoundError, SandcrabError
from ..output import OutputBuffer
from ..requests import ExecOptions, StreamOptions, command_fields, new_id
from ..result import ExecResult, partial_result, result_of, result_of_stream
from ..retry import Retry
from ..streams import EXECUTE, PROCESS
from ._runtime import answered, finish, sleep
from .bound import AsyncBound
from .ending import ARRIVAL, END_WINDOW, FIRST_PAUSE, AsyncEnd, end_limits
from .events import AsyncEvents
from .follow import OnOutput

STREAM = ("api", "execute", "stream")


class AsyncCommands(AsyncBound):
    """The calls that run a command and wait for its end."""

    async def exec(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        on_output: OnOutput | None = None,
        **options: Unpack[ExecOptions],
    ) -> ExecResult:
        """Runs a command and waits for its end. A command that fails or times out is not an error: see the result.

        `command` is shell text or, with `args`, a program that runs without a shell. The command belongs to this call: if it is
        cancelled or interrupted, the command is ended, and the exception has the output so far as `result`.

        `on_output(stream, data)` is called with the output as it arrives. It may be a coroutine of asyncio.
        """
        is_given = options.get("execution_id") is not None
        body = self._command(command, args, options)
        key = new_id("key")
        limit = body.get("maxOutputBytes")
        if limit is None and body.get("sessionId") == self._session_id:
            limit = self._max_output_bytes
        sent: list[bool] = []
        raised: list[BaseException] = []
        try:
            if on_output is not None:
                return await self._exec_stream(body, key, on_output, limit, sent, raised)
            return result_of(
                await self._http.fetch(
                    "POST",
                    ("api", "execute"),
                    json=body,
                    # With the key, the command is started once, however often the request is sent.
                    headers={"Idempotency-Key": key},
                    is_long=True,
                    is_repeatable=True,
                    is_wait=True,
                    sent=sent,
                )
            )
        except BaseException as error:
            # A cancelled task, Ctrl-C, or an error in `on_output`, which may be one of this SDK.
            is_refusal = isinstance(error, SandcrabError) and not raised
            if sent and not is_refusal:
                result = await finish(self._abort(body, limit, key if is_given and not raised else None))
                # An error in `on_output` may have the result of another command, or take no attribute.
                with suppress(Exception):
                    if getattr(error, "result", None) is None:
                        error.result = result  # type: ignore[attr-defined]
            raise

    def exec_stream(
        self,
        command: str,
        args: Sequence[str] | None = None,
        *,
        on_disconnect: Literal["kill", "keep"] = "kill",
        **options: Unpack[StreamOptions],
    ) -> AsyncEvents[models.ExecuteEvent]:
        """Runs a command and streams its output: `start`, `stdout` and `stderr`, then `complete`.

        The command starts with the first event. It belongs to the loop: leaving the loop early ends it, unless `on_disconnect` is
        `keep`.
        """
        is_given = options.get("execution_id") is not None
        return self._stream(self._command(command, args, options), new_id("key"), on_disconnect, is_given)

    def _command(self, command: str, args: Sequence[str] | None, options: Any) -> dict[str, Any]:
        body = command_fields(command, args, self._session(options.get("session_id")), options)
        body.setdefault("executionId", new_id("exec"))
        return body

    def _stream(
        self, body: dict[str, Any], key: str, on_disconnect: str, is_given: bool = False
    ) -> AsyncEvents[models.ExecuteEvent]:
        async def kill() -> None:
            if not is_given or events.cursor is not None or await self._is_own(body, key):
                await self._end(body).try_to_send()

        events: AsyncEvents[models.ExecuteEvent] = AsyncEvents(
            self._http,
            EXECUTE,
            "POST",
            STREAM,
            json=body,
            headers={"Idempotency-Key": key},
            on_abandon=kill if on_disconnect == "kill" else None,
        )
        return events

    async def _exec_stream(
        self,
        body: dict[str, Any],
        key: str,
        on_output: OnOutput,
        limit: int | None,
        sent: list[bool],
        raised: list[BaseException],
    ) -> ExecResult:
        """Runs a command with a callback. `raised` gets the exception of the callback."""
        body.pop("maxOutputBytes", None)
        encoding = body.get("encoding")
        buffers = {name: OutputBuffer(limit, encoding == "base64") for name in ("stdout", "stderr")}
        # An abort is handled by `exec`.
        async with self._stream(body, key, "keep") as events:
            events.sent = sent
            async for event in events:
                if isinstance(event, (models.StdoutEvent, models.StderrEvent)):
                    buffers[event.type].add(event.data, event.invalid_utf8)
                    try:
                        await answered(on_output(event.type, event.data))
                    except BaseException as error:
                        raised.append(error)
                        raise
            cursor = int(events.cursor or 0)
            return result_of_stream(events.last_body, buffers["stdout"], buffers["stderr"], cursor, encoding)

    def _end(self, body: dict[str, Any]) -> AsyncEnd:
        """The request that ends a command."""
        return AsyncEnd(self._http, ("api", "process", body["executionId"]), grace_ms=body.get("graceMs"))

    async def _is_own(self, body: dict[str, Any], key: str) -> bool:
        """Whether a command with a given id is that of this call: then a stream with the same key resumes. Starts nothing."""
        began = time.monotonic()
        retry = Retry(min(END_WINDOW, self._http.reconnect_timeout))
        while True:
            try:
                opened = await self._http.open(
                    "POST",
                    STREAM,
                    json=body,
                    # The cursor makes it a resume.
                    headers={"Idempotency-Key": key, "Last-Event-ID": "0"},
                    is_long=False,
                    timeout=end_limits(),
                )
                await opened.aclose()
                return True
            except NotFoundError:
                # The start may be on its way.
                if time.monotonic() >= began + ARRIVAL:
                    return False
                pause = FIRST_PAUSE
            except SandcrabError as error:
                if not self._http.may_retry(error):
                    return False
                try:
                    pause = retry.failed(error)
                except SandcrabError:
                    return False
            except RuntimeError:
                # The sandbox was closed meanwhile.
                return False
            await sleep(pause)

    async def _abort(self, body: dict[str, Any], limit: int | None, key: str | None) -> ExecResult | None:
        """Ends a command. Returns its output so far, if it has started and the server answers.

        With `key` its id was given, and may be that of an older command.
        """
        if key is not None and not await self._is_own(body, key):
            return None
        end, encoding = self._end(body), body.get("encoding")
        buffers = {name: OutputBuffer(limit, encoding == "base64") for name in ("stdout", "stderr")}
        try:
            if not await end.send():
                return None
            process = await self._http.fetch(
                "GET", end.path, is_repeatable=True, window=END_WINDOW, timeout=end_limits()
            )
            query = {"encoding": encoding, "follow": "false"}
            path = (*end.path, "stream")
            async with AsyncEvents(self._http, PROCESS, "GET", path, query=query, window=END_WINDOW) as events:
                events.deadline = time.monotonic() + END_WINDOW
                async for event in events:
                    if isinstance(event, (models.StdoutEvent, models.StderrEvent)):
                        buffers[event.type].add(event.data, event.invalid_utf8)
                cursor = int(events.cursor or 0)
            return partial_result(process["process"], buffers["stdout"], buffers["stderr"], cursor, encoding)
        except (SandcrabError, KeyError, RuntimeError):
            # The server cannot be reached, or the sandbox was closed meanwhile.
            return None
