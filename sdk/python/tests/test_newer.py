"""Compatibility with newer servers: unknown codes, events, words and fields are tolerated."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sandcrab import Sandbox, SandcrabError, UnknownEvent
from sandcrab.sse import Parser

TIME = '"timestamp":"2026-01-31T12:00:00.000Z"'


@contextmanager
def answering(status: str, kind: str, body: str) -> Iterator[Sandbox]:
    """A sandbox at a server that sends this response to the next request."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1 << 16)
            content = body.encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
            connection.sendall(head.encode() + content)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    with Sandbox(f"http://127.0.0.1:{listener.getsockname()[1]}") as sandbox:
        yield sandbox
    thread.join(30)
    listener.close()


def stream(*events: str) -> str:
    return "".join(f"id: {number}\ndata: {event}\n\n" for number, event in enumerate(events))


def test_an_unknown_error_code() -> None:
    body = f'{{"code":"DISK_ON_FIRE","message":"call for help","context":{{}},"httpStatus":418,{TIME},"severity":{{"level":9}}}}'
    with answering("418 Teapot", "application/json", body) as sandbox, pytest.raises(SandcrabError) as caught:
        sandbox.exec("true")
    assert (type(caught.value), caught.value.code, caught.value.status) == (SandcrabError, "DISK_ON_FIRE", 418)


def test_a_response_of_another_server() -> None:
    with (
        answering("500 Internal Server Error", "text/html", "<h1>no</h1>") as sandbox,
        pytest.raises(SandcrabError, match="<h1>no"),
    ):
        sandbox.exec("true")


def test_unknown_events_words_and_fields() -> None:
    usage = '"usage":{"userMs":1,"systemMs":1,"wallMs":1,"maxRssBytes":1,"joules":3}'
    result = f'"result":{{"success":false,"exitCode":7,"command":"x","duration":1,"executionId":"x-1","restoredFrom":"tape",{TIME}}}'
    body = stream(
        f'{{"type":"start","command":"x","executionId":"x-1","mood":"good",{TIME}}}',
        f'{{"type":"progress","percent":50,{TIME}}}',
        f'{{"type":"stdout","data":"a",{TIME}}}',
        f'{{"type":"complete","exitCode":7,"end":{{"reason":"eaten","by":"a grue"}},{usage},{result},{TIME}}}',
    )
    with answering("200 OK", "text/event-stream", body) as sandbox:
        events = list(sandbox.exec_stream("x"))
    assert [event.type for event in events] == ["start", "progress", "stdout", "complete"]
    assert isinstance(events[1], UnknownEvent)
    assert events[1].percent == 50  # type: ignore[attr-defined]
    assert events[3].end.reason == "eaten"  # type: ignore[union-attr]


def test_an_unknown_error_ends_a_stream() -> None:
    body = stream(
        f'{{"type":"process_info","processId":"x-1","command":"x","status":"paused",{TIME}}}',
        f'{{"type":"error","error":"no","data":"no","code":"DISK_ON_FIRE",{TIME}}}',
    )
    with answering("200 OK", "text/event-stream", body) as sandbox:
        events = sandbox.stream_process_logs("x-1")
        assert next(events).status == "paused"  # type: ignore[union-attr]
        with pytest.raises(SandcrabError) as caught:
            next(events)
        assert caught.value.code == "DISK_ON_FIRE"
        assert list(events) == []


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_parsed_at_any_boundary(size: int) -> None:
    text = b": comment\r\nid: 1\r\ndata: a\r\ndata:b\r\n\r\ndata: \xc3\xbc\r\rid: 2\n\ndata: c\n\n"
    parser, messages = Parser(), []
    for first in range(0, len(text), size):
        messages += parser.push(text[first : first + size])
    assert [tuple(message) for message in messages] == [(b"a\nb", "1"), ("ü".encode(), "1"), (b"c", "2")]
