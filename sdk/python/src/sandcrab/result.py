"""`ExecResult`: the end of a command."""

from __future__ import annotations

import base64
from typing import Any

from . import models
from .errors import CommandFailedError
from .output import OutputBuffer


class ExecResult(models.ExecuteResult):
    """The end of a command, also after a timeout. `success` is true if the exit code is 0.

    `duration` is in seconds. `stdout` and `stderr` are text, or base64 if the command was run with `encoding="base64"`.
    """

    @property
    def timed_out(self) -> bool:
        """Whether the timeout or the idle timeout ended the command."""
        return self.end.reason in ("timeout", "idle_timeout")

    @property
    def stdout_bytes(self) -> bytes:
        """Standard output as bytes. They are exact with `encoding="base64"`."""
        return self._bytes(self.stdout)

    @property
    def stderr_bytes(self) -> bytes:
        """Standard error as bytes. They are exact with `encoding="base64"`."""
        return self._bytes(self.stderr)

    def check(self) -> ExecResult:
        """Returns the result itself if the exit code is 0, and raises `CommandFailedError` otherwise."""
        if self.exit_code == 0:
            return self
        error = CommandFailedError(f"the command failed with exit code {self.exit_code}: {self.command}")
        error.result = self
        raise error

    def _bytes(self, text: str) -> bytes:
        return base64.b64decode(text) if self.encoding == "base64" else text.encode()


def result_of(body: dict[str, Any]) -> ExecResult:
    """Returns the result from the response of the API, whose duration is in milliseconds."""
    return ExecResult.parse({**body, "duration": body.get("duration", 0) / 1000})


def result_of_stream(
    event: dict[str, Any], stdout: OutputBuffer, stderr: OutputBuffer, cursor: int, encoding: str | None
) -> ExecResult:
    """Returns the result from the last event of a stream and the output before it."""
    body: dict[str, Any] = {
        **event["result"],
        "type": "result",
        "end": event["end"],
        "usage": event["usage"],
        "cursor": cursor,
    }
    return result_of(body | output_fields(stdout, stderr, encoding))


def output_fields(stdout: OutputBuffer, stderr: OutputBuffer, encoding: str | None) -> dict[str, Any]:
    """Returns the output of a result, and what it does not have of it."""
    body: dict[str, Any] = {"stdout": stdout.text(), "stderr": stderr.text(), "encoding": encoding}
    if stdout.dropped or stderr.dropped:
        body["truncated"] = {
            "stdoutBytes": stdout.dropped,
            "stdoutAfterBytes": stdout.head_size,
            "stderrBytes": stderr.dropped,
            "stderrAfterBytes": stderr.head_size,
        }
    if stdout.invalid or stderr.invalid:
        body["invalidUtf8"] = True
    return body


def partial_result(
    process: dict[str, Any], stdout: OutputBuffer, stderr: OutputBuffer, cursor: int, encoding: str | None
) -> ExecResult:
    """Returns what is known of a command that was aborted, from its process and its output."""
    usage = process.get("usage") or {"userMs": 0, "systemMs": 0, "wallMs": 0, "maxRssBytes": 0}
    return result_of(
        {
            "type": "result",
            "success": False,
            "exitCode": process["exitCode"] if process.get("exitCode") is not None else 255,
            "end": process.get("end") or {"reason": "killed"},
            "command": process["command"],
            "executionId": process["id"],
            "sessionId": process.get("sessionId"),
            "duration": usage["wallMs"],
            "usage": usage,
            "cursor": cursor,
            "timestamp": process.get("endTime") or process["startTime"],
        }
        | output_fields(stdout, stderr, encoding)
    )
