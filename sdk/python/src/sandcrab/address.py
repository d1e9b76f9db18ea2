"""The address of a server."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from .errors import ValidationError

# Detects a peer that has vanished, in about a minute. Not every system has all options.
OPTION_VALUES = {
    "TCP_NODELAY": 1,
    "TCP_KEEPIDLE": 15,
    "TCP_KEEPINTVL": 15,
    "TCP_KEEPCNT": 3,
    "TCP_USER_TIMEOUT": 60_000,
}
SOCKET_OPTIONS: list[tuple[int, int, int]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in OPTION_VALUES.items()
        if hasattr(socket, name)
    ),
]
# The same for a body that the server may take slowly: a process does not read its input. The kernel counts the time in which the
# server answers that it has no space as time without an answer.
PATIENT_OPTIONS = [option for option in SOCKET_OPTIONS if option[1] != getattr(socket, "TCP_USER_TIMEOUT", None)]


class Address(NamedTuple):
    """A URL without a slash at its end, and the path of a unix socket if it is one."""

    url: str
    socket: str | None

    def path(self, segments: tuple[str, ...]) -> str:
        """Returns the URL of a route. URL normalisation must not change an id to another route."""
        for segment in segments:
            if segment in ("", ".", ".."):
                raise ValidationError(f"{segment!r} is not a valid id: it is empty, `.` or `..`")
        return self.url + "/" + "/".join(quote(segment, safe="") for segment in segments)


def address_of(base_url: str | None) -> Address:
    """Parses `http://HOST:PORT`, `https://HOST` or `unix:PATH`. Default: `SANDCRAB_URL`, else the default of the server."""
    text = base_url or os.environ.get("SANDCRAB_URL") or "http://127.0.0.1:7070"
    if text.startswith(("/", ".")):
        text = "unix:" + text
    if text.startswith("unix:"):
        socket_path = text[len("unix:") :].removeprefix("//")
        if not socket_path:
            raise invalid(text, "the path is missing")
        return Address("http://localhost", socket_path)
    if "@" in text:
        raise invalid(text, "it contains a user name or a password; give the token separately")
    try:
        parts = urlsplit(text if "://" in text else "http://" + text)
        _ = parts.port
    except ValueError as error:
        raise invalid(text, str(error)) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise invalid(text, "it has no host, or another scheme")
    return Address(urlunsplit((parts.scheme, parts.netloc, parts.path, "", "")).rstrip("/"), None)


def invalid(text: str, why: str) -> ValidationError:
    """Returns the exception for an address, without what may be a password."""
    shown = "…" + text[text.rindex("@") :] if "@" in text else text
    return ValidationError(f"invalid address {shown!r} ({why}); use http://HOST:PORT, https://HOST or unix:PATH")


def token_of(token: str | None) -> str | None:
    """Returns a token without the white space around it, such as the line break of a file. Default: `SANDCRAB_TOKEN`."""
    text = (os.environ.get("SANDCRAB_TOKEN", "") if token is None else token).strip()
    if re.fullmatch(r"[\x21-\x7e]*", text) is None:
        # It is a secret, so that the message does not show it.
        raise ValidationError("invalid token: it has characters that a token cannot have, such as spaces")
    return text or None


def check_headers(headers: Mapping[str, str]) -> None:
    """Raises `ValidationError` for values that cannot be sent."""
    for name, value in headers.items():
        if re.fullmatch(r"[\t\x20-\x7e]*", value) is None:
            raise ValidationError(f"invalid header {name}: its value has characters that a header cannot have")
