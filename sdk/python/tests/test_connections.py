"""Connections are bounded and shared."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from conftest import Box, done, each
from server import Gateway, Proxy, Server

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import WaitTimeoutError


async def test_1000_concurrent_execs(address: tuple[str, str]) -> None:
    port = int(address[0].rpartition(":")[2])
    with Proxy(port, 0, 1, 1) as proxy:
        async with AsyncSandbox(proxy.url, address[1]) as sandbox:
            results = await asyncio.gather(*(sandbox.exec(f"echo {number}") for number in range(1000)))
        assert [int(result.stdout) for result in results] == list(range(1000))
        assert proxy.most_connections <= 64


def test_threads_share_a_sandbox(address: tuple[str, str]) -> None:
    port = int(address[0].rpartition(":")[2])
    with Proxy(port, 0, 1, 1) as proxy:
        with Sandbox(proxy.url, address[1], max_connections=8) as sandbox, ThreadPoolExecutor(32) as threads:
            results = list(threads.map(lambda number: sandbox.exec(f"echo {number}"), range(200)))
        assert [int(result.stdout) for result in results] == list(range(200))
        assert proxy.most_connections <= 8


async def test_short_calls_pass_streams(address: tuple[str, str], unique: str) -> None:
    async with AsyncSandbox(*address, max_connections=8) as sandbox:
        process = await sandbox.start_process("sleep 600", process_id=f"short-{unique}")
        streams = [process.stream_logs() for _ in range(6)]
        for stream in streams:
            assert (await anext(stream)).type == "process_info"
        # All connections for long calls are in use or wanted.
        waiting = [asyncio.create_task(process.wait_for_exit()) for _ in range(20)]
        await process.kill()
        assert {info.status for info in await asyncio.gather(*waiting)} == {"killed"}
        for stream in streams:
            await stream.aclose()


async def test_a_timeout_also_holds_while_waiting_for_a_connection(kind: Any, address: tuple[str, str]) -> None:
    async with Box(kind, *address, max_connections=2) as box:
        process = await done(box.start_process("echo x; sleep 600"))
        # The only connection for streams.
        stream = process.stream_logs()
        async for _ in each(stream):
            with pytest.raises(WaitTimeoutError):
                await done(process.wait_for_log("never", timeout=0.2))
            break
        await done(stream.aclose() if hasattr(stream, "aclose") else stream.close())
        await done(process.kill())


async def test_unix_sockets(server: Server) -> None:
    server.stop()
    path = server.folder / "socket"
    server.start_on(f"unix:{path}")
    for kind in (Sandbox, AsyncSandbox):
        async with Box(kind, f"unix:{path}", server.token) as box:
            result = box.exec("echo hello")
            assert (await result if asyncio.iscoroutine(result) else result).stdout == "hello\n"
            terminal = box.terminal(command="echo here; sleep 600")
            terminal = await terminal if asyncio.iscoroutine(terminal) else terminal
            shown = b""
            if isinstance(box.sandbox, AsyncSandbox):
                async with terminal, terminal.connect() as viewer:
                    async for event in viewer:
                        shown += getattr(event, "data", b"")
                        if b"here" in shown:
                            break
            else:
                with terminal, terminal.connect() as viewer:
                    for event in viewer:
                        shown += getattr(event, "data", b"")
                        if b"here" in shown:
                            break


async def test_proxies_must_not_compress(kind: Any, address: tuple[str, str]) -> None:
    """Downloads and streams are read as they are."""
    heads: list[bytes] = []

    class Watching(Gateway):
        def _forward(self, client: socket.socket, data: bytes) -> None:
            heads.append(data.lower())
            super()._forward(client, data)

    with Watching(int(address[0].rpartition(":")[2])) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            await done(box.ping())
    assert b"\r\naccept-encoding: identity\r\n" in heads[0]


def user_timeouts(port: int) -> list[int]:
    """The `TCP_USER_TIMEOUT` of the connections of this process to a port."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            copy = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue
        with copy, suppress(OSError):
            if copy.family == socket.AF_INET and copy.getpeername()[1] == port:
                found.append(copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
    return sorted(found)


@pytest.mark.skipif(sys.platform != "linux", reason="the option and /proc are those of Linux")
async def test_input_may_wait_for_a_process(address: tuple[str, str], unique: str) -> None:
    """The server answers that it has no space: for the kernel this is no answer, so it must not count the time."""
    with Proxy(int(address[0].rpartition(":")[2]), 0, 1, 1) as proxy:
        async with AsyncSandbox(proxy.url, address[1]) as sandbox:
            port = int(proxy.url.rpartition(":")[2])
            process = await sandbox.start_process("sleep 600", process_id=f"input-{unique}", stdin=True)
            assert user_timeouts(port) == [60_000]
            writing = asyncio.ensure_future(process.write(b"x" * (1 << 20)))
            while user_timeouts(port) != [0, 60_000]:
                assert not writing.done()
                await asyncio.sleep(0.01)
            writing.cancel()
            await process.kill()
