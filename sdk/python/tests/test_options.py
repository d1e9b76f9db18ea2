"""Arguments that cannot be used are refused before anything is sent, and secrets are not shown."""

from __future__ import annotations

import math
from typing import Any

import pytest
from conftest import Box, done

from sandcrab.errors import ValidationError

URL = "http://127.0.0.1:1"


@pytest.mark.parametrize("token", ["sec\nret", "sec ret", "secrét", "sec\r\nX-A: 1ret", "sec\0ret", "sec€ret"])
def test_tokens_are_checked(kind: Any, token: str) -> None:
    with pytest.raises(ValidationError, match="invalid token") as caught:
        kind(URL, token)
    assert "sec" not in str(caught.value) and caught.value.__context__ is None


async def test_white_space_around_a_token(kind: Any, address: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    async with Box(kind, address[0], f" {address[1]}\r\n") as box:
        await done(box.version())
    monkeypatch.setenv("SANDCRAB_TOKEN", f"{address[1]}\n")
    sandbox = kind(address[0])
    await done(sandbox.version())
    await done(sandbox.aclose() if hasattr(sandbox, "aclose") else sandbox.close())


@pytest.mark.parametrize("value", ['"a\nb"', '"é"', '"€"'])
async def test_headers_are_checked(box: Box, value: str) -> None:
    async with box:
        with pytest.raises(ValidationError, match="invalid header If-Match"):
            await done(box.write_bytes("file", b"", if_match=value))


@pytest.mark.parametrize("most", [0, -1, math.nan, math.inf, 2.5, True, "3"])
def test_connections_are_a_number(kind: Any, most: Any) -> None:
    with pytest.raises(ValidationError, match="max_connections"):
        kind(URL, max_connections=most)


@pytest.mark.parametrize("window", [-1, math.nan])
def test_the_window_is_a_time(kind: Any, window: float) -> None:
    with pytest.raises(ValidationError, match="reconnect_timeout"):
        kind(URL, reconnect_timeout=window)


@pytest.mark.parametrize("time", [-1, math.nan])
async def test_times_are_checked(kind: Any, time: float) -> None:
    # Nothing listens there.
    async with Box(kind, URL, "token") as box:
        calls: dict[str, Any] = {
            "exec": lambda: box.exec("true", timeout=time),
            "start": lambda: box.start_process("true", grace=time),
            "port": lambda: box.wait_for_port(1, timeout=time),
        }
        for call in calls.values():
            with pytest.raises(ValidationError):
                await done(call())


async def test_numbers_are_checked(kind: Any) -> None:
    async with Box(kind, URL, "token") as box:
        with pytest.raises(ValidationError, match="invalid number"):
            await done(box.exec("true", limits={"memory_bytes": math.nan}))
        with pytest.raises(ValidationError, match="finite"):
            await done(box.exec("true", timeout=math.inf))


async def test_waits_may_be_endless(box: Box) -> None:
    async with box:
        process = await done(box.start_process("echo ready"))
        assert (await done(process.wait_for_log("ready", math.inf))).line == "ready"
        assert (await done(process.wait_for_exit(math.inf))).exit_code == 0
