"""How arguments become fields of requests: names, units, paths and bytes."""

from __future__ import annotations

import base64
import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Literal, TypedDict, Union, cast

from ._model import Model
from .errors import ValidationError
from .models import HealthCheck, Limits, RestartPolicy

# A path of the sandbox. `bytes` are for names that are not UTF-8.
Path = Union[str, bytes, "os.PathLike[str]"]
Env = Mapping[str, "str | None"]

# Names of routes, which are not ids: those of processes, and of everything else.
PROCESS_ROUTES = ("list", "kill-all", "cleanup")
LIST_ROUTE = ("list",)


class CommandOptions(TypedDict, total=False):
    """The options of every command. Times are in seconds."""

    # Session in which the command runs. Without one it is stateless.
    session_id: str | None
    # After this time the command is ended. 0: no limit, also if the server has a default.
    timeout: float | None
    # Time between SIGTERM and SIGKILL: after a timeout (default: 1), and if the call is cancelled (default: 5).
    grace: float | None
    # Ends the command if it writes nothing for this time.
    idle_timeout: float | None
    # Changes of the environment. `None` unsets a variable.
    env: Env | None
    cwd: Path | None
    # Standard input. True: it stays open for `Process.write`.
    stdin: str | bytes | bool | None
    # Standard input stays open after `stdin` was written.
    keep_stdin_open: bool | None
    # `base64` for exact bytes. Default: `utf8`.
    encoding: Literal["utf8", "base64"] | None
    limits: Limits | Mapping[str, int] | None
    # What happens to processes that the command leaves running. Default: `keep`.
    leftovers: Literal["keep", "kill", "adopt"] | None
    # User name, user id or `UID:GID`.
    user: str | None


class ExecOptions(CommandOptions, total=False):
    """The options of `exec`."""

    execution_id: str | None
    # What a result has of each stream at most: its beginning and its end. Default: 10 MiB.
    max_output_bytes: int | None


class StreamOptions(CommandOptions, total=False):
    """The options of `exec_stream`."""

    execution_id: str | None
    # `wait`: the command waits for this reader instead of losing output.
    overflow: Literal["drop", "wait"] | None


class ProcessOptions(CommandOptions, total=False):
    """The options of `start_process`."""

    process_id: str | None
    overflow: Literal["drop", "wait"] | None
    # `False`: the record of the finished process is kept until `cleanup_completed_processes`.
    auto_cleanup: bool | None
    # What happens when the session is deleted. Default: `kill`.
    on_session_end: Literal["kill", "keep"] | None


class ServiceOptions(TypedDict, total=False):
    """The options of `start_service`. Times are in seconds, except in the fields of models, whose names have a unit."""

    service_id: str | None
    name: str | None
    session_id: str | None
    timeout: float | None
    grace: float | None
    idle_timeout: float | None
    env: Env | None
    cwd: Path | None
    # `base64` for exact bytes. Default: `utf8`.
    encoding: Literal["utf8", "base64"] | None
    limits: Limits | Mapping[str, int] | None
    user: str | None
    health_check: HealthCheck | Mapping[str, Any] | None
    # A policy, or only its name.
    restart: RestartPolicy | Mapping[str, Any] | Literal["never", "on-failure", "always"] | None
    # Return when the service is healthy; `WaitTimeoutError` after `ready_timeout`.
    wait_for_ready: bool | None
    ready_timeout: float | None
    on_session_end: Literal["kill", "keep"] | None


class SearchedOptions(TypedDict, total=False):
    """What `search` and `replace` have in common. Globs are those of ripgrep."""

    regex: bool | None
    case_sensitive: bool | None
    word: bool | None
    glob: str | Sequence[str] | None
    hidden: bool | None
    ignore_files: bool | None
    session_id: str | None


class SearchOptions(SearchedOptions, total=False):
    """The options of `search`."""

    context_lines: int | None
    max_matches: int | None


class ReplaceOptions(SearchedOptions, total=False):
    """The options of `replace`."""

    # Only return the differences.
    dry_run: bool | None


class TerminalOptions(TypedDict, total=False):
    """The options of `terminal`. Times are in seconds."""

    # Shell text or, with `args`, a program. Default: an interactive bash.
    command: str | None
    args: Sequence[str] | None
    cwd: Path | None
    env: Env | None
    cols: int | None
    rows: int | None
    term: str | None
    # The terminal starts from the state of this session.
    session_id: str | None
    limits: Limits | Mapping[str, int] | None
    idle_timeout: float | None
    timeout: float | None
    user: str | None


# Flags of regular expressions, and their letters in the text of one.
FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s", re.VERBOSE: "x"}
# Options whose unit is the second here, and the millisecond in the API.
TIMES = ("timeout", "grace", "idle_timeout", "ready_timeout", "command_timeout")


def camel(name: str) -> str:
    """Returns the name of a field in the API."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def milliseconds(seconds: float) -> int:
    """Returns a time in milliseconds. A positive time stays positive: 0 has a meaning of its own."""
    if not 0 <= seconds < math.inf:
        raise ValidationError(f"expected a finite time of at least 0 seconds, got {seconds}")
    return max(1, round(seconds * 1000)) if seconds else 0


def limit_of(timeout: float | None) -> float | None:
    """Returns the limit of a wait in seconds; None if it has none."""
    if timeout is None or timeout == math.inf:
        return None
    if not timeout >= 0:
        raise ValidationError(f"expected a timeout of at least 0 seconds, got {timeout}")
    return timeout


def fields(**values: Any) -> dict[str, Any]:
    """Returns the fields of a request. Values that are None are left out."""
    body: dict[str, Any] = {}
    for name, value in values.items():
        if value is None:
            continue
        if name in TIMES:
            body[camel(name) + "Ms"] = milliseconds(value)
        else:
            body[camel(name)] = dict(value) if name == "env" else plain(value)
    return body


def plain(value: Any) -> Any:
    """Returns a value of a field as JSON has it."""
    if isinstance(value, Model):
        return value.model_dump(by_alias=True, exclude_none=True)
    if isinstance(value, Mapping):
        nested = cast("Mapping[str, Any]", value)
        return {camel(key): plain(inner) for key, inner in nested.items() if inner is not None}
    if isinstance(value, (bytes, os.PathLike)):
        return text_path(cast("Path", value))
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in cast("Sequence[Any]", value)]
    return value


def text_path(path: Path) -> str:
    """Returns a path as text, with slashes."""
    if isinstance(path, bytes):
        return path.decode()
    return path.as_posix() if isinstance(path, PurePath) else os.fspath(path)


def path_fields(name: str, path: Path) -> dict[str, str]:
    """Returns a path as a field `name`, or as base64 if it is not UTF-8."""
    raw = path if isinstance(path, bytes) else text_path(path).encode(errors="surrogateescape")
    try:
        return {name: raw.decode()}
    except UnicodeDecodeError:
        return {name + "Base64": base64.b64encode(raw).decode()}


def command_fields(
    command: str, args: Sequence[str] | None, session_id: str | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the body of a request that starts a command."""
    if isinstance(args, str):
        raise ValidationError("expected a list of arguments, got a string; use [argument]")
    values = {"session_id": session_id, **{name: value for name, value in options.items() if value is not None}}
    stdin = values.pop("stdin", None)
    body: dict[str, Any] = {"command": command, **fields(**values)}
    if args is not None:
        body["args"] = list(args)
    if isinstance(stdin, bool):
        body["keepStdinOpen"] = stdin
    elif isinstance(stdin, bytes):
        body |= {"stdin": base64.b64encode(stdin).decode(), "stdinEncoding": "base64"}
    elif stdin is not None:
        body["stdin"] = stdin
    return body


def with_flags(pattern: re.Pattern[str]) -> str:
    """Returns the text of a regular expression, with its flags, for the server."""
    letters = "".join(letter for flag, letter in FLAGS.items() if pattern.flags & flag)
    return f"(?{letters}){pattern.pattern}" if letters else pattern.pattern


def checked_id(value: str, routes: tuple[str, ...] = PROCESS_ROUTES) -> str:
    """Returns an id, unless it is the name of a route."""
    if value in ("", ".", "..", *routes):
        raise ValidationError(f"{value!r} is not a valid id: it is empty, `.`, `..` or the name of a route")
    return value


def new_id(prefix: str) -> str:
    """Returns a unique id."""
    return f"{prefix}-{uuid.uuid4().hex[:20]}"
