"""`StreamKind`: what the SDK knows about each kind of event stream."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from . import models
from ._model import Model, UnknownEvent
from .errors import InvalidResponseError

E = TypeVar("E")


@dataclass(frozen=True)
class StreamKind(Generic[E]):
    """The events of a stream."""

    classes: Mapping[str, type[Model]]
    # Events that begin a stream. They are skipped after a resume.
    opening: frozenset[str] = frozenset()
    # Events that end a stream.
    last: frozenset[str] = frozenset({"error"})
    # Whether the stream is requested again after a lost connection.
    resumes: bool = True
    # An event that comes again after a resume, and means then that others may be missing: a `resync` follows it.
    gap: str | None = None
    # Events that tell that the server is stopping.
    stopping: frozenset[str] = field(default=frozenset())

    def parse(self, data: bytes) -> tuple[str, E, dict[str, Any]]:
        """Returns the type of an event, the event, and its fields. A type of a newer server is an `UnknownEvent`."""
        try:
            body: dict[str, Any] = json.loads(data)
            name = str(body["type"])
            return name, cast(E, self.classes.get(name, UnknownEvent).model_validate(body)), body
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidResponseError(f"invalid response: an event is invalid: {error}") from error


def words(text: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(text.split())


EXECUTE: StreamKind[models.ExecuteEvent] = StreamKind(models.EXECUTE_EVENTS, words("start"), words("complete error"))
PROCESS: StreamKind[models.ProcessEvent] = StreamKind(
    models.PROCESS_EVENTS, words("process_info"), words("exit caught_up error")
)
# An `execution` event is sent once for each execution, also after a resume.
SERVICE: StreamKind[models.ServiceEvent] = StreamKind(models.SERVICE_EVENTS, last=words("end caught_up error"))
WATCH: StreamKind[models.WatchEvent] = StreamKind(models.WATCH_EVENTS, last=words("stopped error"), gap="watching")
# A second `hello` after a lost connection means that events may be missing.
SERVER: StreamKind[models.ServerEvent] = StreamKind(models.SERVER_EVENTS, last=words(""), stopping=words("bye"))
PORT: StreamKind[models.PortWatchEvent] = StreamKind(
    models.PORT_WATCH_EVENTS, words("watching"), words("ready process_exited error")
)
SEARCH: StreamKind[models.SearchEvent] = StreamKind(models.SEARCH_EVENTS, last=words("complete error"), resumes=False)
GIT: StreamKind[models.GitEvent] = StreamKind(models.GIT_EVENTS, last=words("complete error"), resumes=False)
FILE: StreamKind[models.FileEvent] = StreamKind(models.FILE_EVENTS, last=words("complete error"), resumes=False)
