"""The exceptions. Each error of the API has a code; groups of codes have a class.

Where Python has a built-in exception for the same fault, the class is also one of those: `except FileNotFoundError` works.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .result import ExecResult

# How much of an invalid response a message shows.
SHOWN_CHARS = 120


class SandcrabError(Exception):
    """An error of the API, or of the connection to it. Codes that have no class of their own have this one.

    `code` is the code of the API, or None if no response arrived. `result` is the output so far of a command that was aborted.
    `retry_after` is the number of seconds after which the server allows another attempt, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        status: int | None = None,
        context: dict[str, Any] | None = None,
        suggestion: str | None = None,
        request_id: str | None = None,
        operation: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status
        self.context: dict[str, Any] = context or {}
        self.suggestion = suggestion
        self.request_id = request_id
        self.operation = operation
        self.retry_after = retry_after
        self.result: ExecResult | None = None

    def __str__(self) -> str:
        return f"{self.message} ({self.suggestion})" if self.suggestion else self.message


class UnreachableError(SandcrabError, ConnectionError):
    """The server cannot be reached: the connection was refused or timed out."""


class ConnectionLostError(SandcrabError, ConnectionError):
    """The connection ended before the response was complete. The request may have had its effect."""


class InvalidResponseError(SandcrabError):
    """The response is not one of a Sandcrab server."""


class ValidationError(SandcrabError, ValueError):
    """The request is invalid: a field, a path, an id or a command."""


class AuthenticationError(SandcrabError):
    """The token, or a credential for git, is missing or wrong."""


class NotFoundError(SandcrabError):
    """An id, a file, a branch or a backup does not exist."""


class SessionNotFoundError(NotFoundError):
    """The session does not exist. Only `create_session` creates one."""


class ProcessNotFoundError(NotFoundError):
    """No process or other execution has this id."""


class FileMissingError(NotFoundError, FileNotFoundError):
    """The file or directory does not exist."""


class ConflictError(SandcrabError):
    """The id is in use, or the resource is in another state than the call requires."""


class FileConflictError(ConflictError, FileExistsError):
    """The file exists."""


class DirectoryError(ValidationError, IsADirectoryError):
    """The path names a directory, and the call requires a file."""


class NoDirectoryError(ValidationError, NotADirectoryError):
    """The path, or a part of it, is not a directory."""


class AccessError(SandcrabError, PermissionError):
    """The user of the commands may not do this."""


class GoneError(SandcrabError):
    """The process, or the shell of the session, has ended. `context` has its exit code and output."""


class SessionTerminatedError(GoneError):
    """The command ended the shell of its session (only with `on_shell_exit="terminate"`)."""


class WaitTimeoutError(SandcrabError, TimeoutError):
    """What was waited for did not happen in time."""


class ProcessExitedError(GoneError):
    """The process has ended, for example before what was waited for. `exit_code` is None if it is unknown."""

    exit_code: int | None = None


class LimitError(SandcrabError):
    """A limit of the server is reached. The message names it."""


class GitError(SandcrabError):
    """Git failed."""


class ServerError(SandcrabError):
    """The server failed, or is shutting down."""


class CommandFailedError(SandcrabError):
    """The command failed (`ExecResult.check`). `result` has its output and exit code."""


CLASSES: dict[type[SandcrabError], str] = {
    ValidationError: "VALIDATION_FAILED INVALID_COMMAND INVALID_GIT_URL INVALID_PORT INVALID_BACKUP_CONFIG INVALID_ARCHIVE "
    "NOT_REGULAR_FILE TOO_MANY_LINKS NAME_TOO_LONG LIMIT_NOT_SUPPORTED RANGE_NOT_SATISFIABLE METHOD_NOT_ALLOWED",
    DirectoryError: "IS_DIRECTORY",
    NoDirectoryError: "NOT_DIRECTORY",
    AuthenticationError: "UNAUTHORIZED GIT_AUTH_FAILED",
    AccessError: "PERMISSION_DENIED READ_ONLY",
    NotFoundError: "GIT_REPOSITORY_NOT_FOUND GIT_BRANCH_NOT_FOUND BACKUP_NOT_FOUND ROUTE_NOT_FOUND COMMAND_NOT_FOUND "
    "TERMINAL_NOT_FOUND PORT_NOT_EXPOSED SERVICE_NOT_FOUND BACKUP_EXPIRED",
    FileMissingError: "FILE_NOT_FOUND",
    ProcessNotFoundError: "PROCESS_NOT_FOUND",
    SessionNotFoundError: "SESSION_NOT_FOUND",
    WaitTimeoutError: "PROCESS_READY_TIMEOUT",
    FileConflictError: "FILE_EXISTS",
    ConflictError: "DIRECTORY_NOT_EMPTY RESOURCE_BUSY PORT_ALREADY_EXPOSED EXECUTION_CONFLICT PROCESS_ALREADY_EXISTS "
    "SESSION_ALREADY_EXISTS SERVICE_ALREADY_EXISTS STDIN_NOT_OPEN TERMINAL_INPUT_FULL PRECONDITION_FAILED PROCESS_NOT_STARTED",
    GoneError: "SESSION_DESTROYED",
    ProcessExitedError: "PROCESS_ENDED",
    SessionTerminatedError: "SESSION_TERMINATED",
    LimitError: "FILE_TOO_LARGE SESSION_STATE_TOO_LARGE LIMIT_EXCEEDED NO_SPACE",
    GitError: "GIT_OPERATION_FAILED GIT_NETWORK_ERROR",
    ServerError: "INTERNAL_ERROR EXECUTION_LOST FILESYSTEM_ERROR BACKUP_TRANSFER_FAILED SERVICE_NOT_RESPONDING SHUTTING_DOWN "
    "STATE_DIR_MISSING NOT_SUPPORTED NO_SHELL PREVIEW_LOOP REQUEST_CANCELLED UPGRADE_REQUIRED",
}
BY_CODE: dict[str, type[SandcrabError]] = {code: kind for kind, codes in CLASSES.items() for code in codes.split()}


def error_of(code: str, message: str, **details: Any) -> SandcrabError:
    """Returns the exception for a code of the API."""
    return BY_CODE.get(code, SandcrabError)(message, code=code, **details)


def retry_after_of(value: str | None) -> float | None:
    """Returns the seconds of a `Retry-After` header. A date counts as 0: the usual pauses apply."""
    if value is None:
        return None
    return float(value) if value.isascii() and value.isdigit() else 0.0


def error_of_response(status: int, content: bytes, headers: Mapping[str, str]) -> SandcrabError:
    """Returns the exception for a response with an error status."""
    retry_after = retry_after_of(headers.get("Retry-After"))
    try:
        body: dict[str, Any] = json.loads(content)
        code, message = str(body["code"]), str(body["message"])
    except (ValueError, KeyError, TypeError):
        shown = content[:SHOWN_CHARS].decode(errors="replace")
        return InvalidResponseError(
            f"invalid response: status {status}, {shown!r}", status=status, retry_after=retry_after
        )
    context = body.get("context")
    return error_of(
        code,
        message,
        status=status,
        context=context if isinstance(context, dict) else None,
        suggestion=body.get("suggestion"),
        request_id=body.get("requestId"),
        operation=body.get("operation"),
        retry_after=retry_after,
    )


def ignored_at_exit(raised: object) -> tuple[type[Exception], ...]:
    """Returns what may go wrong at the end of a block: what it created may be gone. An exception of the block itself is not replaced."""
    # A sandbox that was closed meanwhile raises `RuntimeError`.
    return (NotFoundError,) if raised is None else (SandcrabError, RuntimeError)
