"""Waits end in time, whatever the server and the connections do."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from conftest import Box, done, each
from server import PATIENCE, Proxy, Server, Silent

from sandcrab.errors import UnreachableError, WaitTimeoutError

# Less than the limits of connections, which a wait must not reach.
SOON = 8.0
# How often a proxy cuts connections, each after a second.
CUTS = 30


async def test_lost_connections_do_not_prolong_a_wait(kind: Any, address: tuple[str, str]) -> None:
    with Proxy(int(address[0].rpartition(":")[2]), CUTS, 1, 1, silence=1) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            process = await done(box.start_process("sleep 600"))
            terminal = await done(box.terminal(command="cat"))
            began = time.monotonic()
            with pytest.raises(WaitTimeoutError):
                await done(process.wait_for_exit(1.5))
            with pytest.raises(WaitTimeoutError):
                await done(terminal.wait_for_text("never", 1.5))
            assert proxy.cuts_done
            # A wait that starts anew after each cut would end after the last one.
            assert time.monotonic() - began < CUTS
            await done(process.kill())
            await done(terminal.destroy())


async def test_waits_for_a_server_that_is_away(kind: Any, server: Server) -> None:
    async with Box(kind, server.url, server.token, reconnect_timeout=600) as box:
        process = await done(box.start_process("sleep 600"))
        server.stop()
        calls: list[Callable[[], Any]] = [
            lambda: process.wait_for_exit(0.5),
            lambda: process.wait_for_log("x", 0.5),
            lambda: process.wait_for_port(1, 0.5),
        ]
        for call in calls:
            began = time.monotonic()
            with pytest.raises(WaitTimeoutError):
                await done(call())
            assert time.monotonic() - began < SOON
        server.start()


async def test_waits_for_a_server_that_is_silent(kind: Any, address: tuple[str, str]) -> None:
    with Silent(int(address[0].rpartition(":")[2])) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            process = await done(box.start_process("sleep 600"))
            proxy.is_silent = True
            calls: list[Callable[[], Any]] = [
                lambda: process.wait_for_log("x", 0.5),
                lambda: process.wait_for_exit(0.5),
            ]
            for call in calls:
                began = time.monotonic()
                with pytest.raises(WaitTimeoutError):
                    await done(call())
                assert time.monotonic() - began < SOON
            proxy.is_silent = False
            proxy.is_over.set()
        async with Box(kind, *address) as direct:
            await done(direct.kill_process(process.id))


async def test_waits_for_a_connection_that_is_not_accepted(kind: Any, address: tuple[str, str]) -> None:
    """A full queue of connections: the system retries for longer than the caller waits."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            async with Box(kind, f"http://127.0.0.1:{port}", "token") as box:
                began = time.monotonic()
                with pytest.raises((WaitTimeoutError, UnreachableError)):
                    await done(box.wait_for_port(1, 0.5))
                assert time.monotonic() - began < SOON


async def test_a_silent_server_is_given_up(
    kind: Any, address: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt without an answer does not show that the server was reached, however long it takes."""
    for module in ("sandcrab._async.http", "sandcrab._sync.http"):
        monkeypatch.setattr(f"{module}.STREAM", httpx2.Timeout(None, connect=10, read=0.5))
    with Silent(int(address[0].rpartition(":")[2])) as proxy:
        async with Box(kind, proxy.url, address[1], reconnect_timeout=0.2) as box:
            process = await done(box.start_process("true"))
            await done(process.wait_for_exit(PATIENCE))
            proxy.is_silent = True
            with pytest.raises(UnreachableError, match="does not answer"):
                _ = [event async for event in each(process.stream_logs())]
            with pytest.raises(UnreachableError, match="does not answer"):
                await done(box.ping())
            assert proxy.requests <= 4
