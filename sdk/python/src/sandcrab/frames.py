"""What a viewer of a terminal receives."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from . import models
from ._model import UnknownEvent
from .errors import InvalidResponseError

# Errors about one message to a terminal. The viewer stays connected.
HARMLESS = frozenset(
    [
        "TERMINAL_INPUT_FULL",
        "VALIDATION_FAILED",
        "PROCESS_ENDED",
        "EXECUTION_LOST",
        "LIMIT_EXCEEDED",
        "NOT_SUPPORTED",
        "INTERNAL_ERROR",
        "NO_SPACE",
    ]
)


@dataclass(frozen=True)
class TerminalOutput:
    """Bytes to show. Those of a `repaint` show the whole screen, and replace everything that was shown before."""

    type: Literal["output", "repaint"]
    data: bytes


ViewerEvent = (
    TerminalOutput
    | models.TerminalReadyFrame
    | models.TerminalResizeFrame
    | models.TerminalExitFrame
    | models.TerminalErrorFrame
    | UnknownEvent
)


def frame_of(text: str) -> models.TerminalFrame:
    """Parses a control frame. One of a newer server is an `UnknownEvent`."""
    try:
        body: dict[str, Any] = json.loads(text)
        kind = models.TERMINAL_FRAMES.get(str(body["type"]), UnknownEvent)
        return kind.model_validate(body)
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidResponseError(f"invalid response: a frame is invalid: {error}") from error
