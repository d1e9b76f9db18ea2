"""What the SDK refuses itself: addresses, ids, and responses of other programs."""

from __future__ import annotations

from typing import Any

import pytest
from conftest import Box, done
from test_newer import answering

from sandcrab import Sandbox
from sandcrab.errors import InvalidResponseError, ValidationError


@pytest.mark.parametrize(
    "address",
    [
        "http://user:secret@h",
        "http:/user:secret@h",
        "user:secret@h",
        "ftp://user:secret@h",
        "http://h:port",
        "ftp://h",
        "http://",
        "unix:",
        "unix://",
    ],
)
def test_invalid_addresses(address: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Sandbox(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("http://h:1/", "http://h:1"),
        ("http://h:1/box/7?a=1#b", "http://h:1/box/7"),
        ("localhost:7070", "http://localhost:7070"),
        ("[::1]:7070", "http://[::1]:7070"),
        ("unix:a/b", "a/b"),
        ("unix:///run/s", "/run/s"),
        ("/run/s", "/run/s"),
        ("./s", "./s"),
    ],
)
def test_valid_addresses(address: str, shown: str) -> None:
    with Sandbox(address) as sandbox:
        assert repr(sandbox) == f"<Sandbox {shown}>"


async def test_names_of_routes_are_not_ids(box: Box) -> None:
    async with box:
        for call in (box.get_session, box.get_service, box.get_terminal, box.get_process, box.kill_process):
            for wrong in ("list", "", ".", ".."):
                with pytest.raises(ValidationError):
                    await done(call(wrong))
        with pytest.raises(ValidationError):
            await done(box.kill_process("kill-all"))
        # They are ids of sessions.
        session = await done(box.create_session("cleanup"))
        assert (await done(box.get_session("cleanup"))).id == session.id
        await done(session.delete())


@pytest.mark.parametrize("body", ["[]", "1", "{}", '{"success":"perhaps"}', "<html>"])
@pytest.mark.parametrize(
    "call",
    [
        lambda sandbox: sandbox.ping(),
        lambda sandbox: sandbox.exec("true"),
        lambda sandbox: sandbox.start_process("true"),
        lambda sandbox: sandbox.create_session(),
        lambda sandbox: sandbox.write_text("a", "b"),
        lambda sandbox: sandbox.tools(),
    ],
    ids=["ping", "exec", "start_process", "create_session", "write_text", "tools"],
)
def test_responses_of_another_program(call: Any, body: str) -> None:
    with answering("200 OK", "application/json", body) as sandbox, pytest.raises(InvalidResponseError):
        call(sandbox)
