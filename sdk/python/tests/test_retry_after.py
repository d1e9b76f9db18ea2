"""Refusals that name a time for the next attempt (`Retry-After`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from conftest import Box, done

from sandcrab import SandcrabError

LIMIT = b'{"code":"LIMIT_EXCEEDED","message":"too many connections","context":{},"httpStatus":429}'


@contextmanager
def refusing(times: int, status: int, retry_after: str | None, body: bytes = LIMIT) -> Iterator[tuple[str, list[str]]]:
    """A server that refuses some requests, then answers with a document. Returns its URL and the requests."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            seen.append(self.command)
            is_refused = len(seen) <= times
            content = body if is_refused else b'{"openapi":"3.1.0"}'
            self.send_response(status if is_refused else 200)
            if is_refused and retry_after is not None:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = answer

        def log_message(self, format: str, *args: Any) -> None:
            """Logs nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()


@pytest.mark.parametrize("body", [LIMIT, b"<h1>busy</h1>"], ids=["server", "proxy"])
@pytest.mark.parametrize("status", [429, 503])
async def test_reads_are_repeated(kind: Any, status: int, body: bytes) -> None:
    with refusing(2, status, "0", body) as (url, seen):
        async with Box(kind, url, "token") as box:
            assert await done(box.openapi()) == {"openapi": "3.1.0"}
    assert len(seen) == 3


@pytest.mark.parametrize(("status", "retry_after"), [(429, None), (503, None), (400, "0")])
async def test_other_refusals_are_final(kind: Any, status: int, retry_after: str | None) -> None:
    with refusing(1, status, retry_after) as (url, seen):
        async with Box(kind, url, "token") as box:
            with pytest.raises(SandcrabError) as caught:
                await done(box.openapi())
    assert (caught.value.status, len(seen)) == (status, 1)


async def test_writes_are_not_repeated(kind: Any) -> None:
    with refusing(1, 429, "0") as (url, seen):
        async with Box(kind, url, "token") as box:
            with pytest.raises(SandcrabError):
                await done(box.write_text("file", "x"))
    assert len(seen) == 1


async def test_a_server_that_stays_busy_is_given_up(kind: Any) -> None:
    with refusing(1000, 429, "1") as (url, seen):
        async with Box(kind, url, "token", reconnect_timeout=0.2) as box:
            with pytest.raises(SandcrabError) as caught:
                await done(box.openapi())
    assert (caught.value.code, caught.value.retry_after) == ("LIMIT_EXCEEDED", 1.0)
    # One attempt, and one at the end of the time, which a timer may reach a moment early.
    assert len(seen) in (2, 3)
