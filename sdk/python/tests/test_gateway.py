"""A reverse proxy that answers for a server that is away, as those do that SECURITY.md recommends."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import Box, done, each
from server import PATIENCE, Gateway, Server
from test_terminals import enter, leave

from sandcrab import Sandbox
from sandcrab.errors import InvalidResponseError


def go_away(server: Server, gateway: Gateway) -> threading.Thread:
    """Stops the server. A thread starts it again when the proxy has answered for it."""

    def come_back() -> None:
        deadline = time.monotonic() + PATIENCE
        while not gateway.answers and time.monotonic() < deadline:
            time.sleep(0.01)
        server.start()

    server.stop()
    gateway.answers.clear()
    thread = threading.Thread(target=come_back)
    thread.start()
    return thread


async def test_reads_wait_for_the_server(kind: Any, server: Server) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token) as box:
            await done(box.write_text("file", "content"))
            thread = go_away(server, gateway)
            assert await done(box.read_text("file")) == "content"
            thread.join(PATIENCE)
            assert 502 in gateway.answers


@pytest.mark.parametrize("read", ["iter_output", "download", "open", "seek", "download_folder"])
async def test_reads_in_parts_wait_for_the_server(kind: Any, server: Server, tmp_path: Path, read: str) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token) as box:
            await done(box.write_text("folder/file", "content"))
            process = await done(box.start_process("echo content"))
            await done(process.wait_for_exit())
            file = await done(box.open("folder/file"))
            thread = go_away(server, gateway)
            if read == "iter_output":
                assert b"".join([part async for part in each(process.iter_output())]) == b"content\n"
            elif read == "download":
                await done(box.download("folder/file", tmp_path / "file"))
                assert (tmp_path / "file").read_text() == "content"
            elif read == "open":
                assert await done((await done(box.open("folder/file"))).read()) == b"content"
            elif read == "seek":
                await done(file._fetch(3))
                assert file._buffer == b"tent"
            else:
                await done(box.download_folder("folder", tmp_path / "copy"))
                assert (tmp_path / "copy" / "file").read_text() == "content"
            thread.join(PATIENCE)
            assert 502 in gateway.answers


async def test_commands_start_once(kind: Any, server: Server) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token) as box:
            thread = go_away(server, gateway)
            assert (await done(box.exec("echo x >>runs; cat runs"))).stdout == "x\n"
            thread.join(PATIENCE)
            assert 502 in gateway.answers


async def test_streams_resume(kind: Any, server: Server) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token) as box:
            output, types = "", []
            thread = None
            script = "echo 1; until [ -e go ]; do sleep 0.05; done; echo 2; exit 5"
            async for event in each(box.exec_stream(script)):
                types.append(event.type)
                if event.type == "stdout":
                    output += event.data
                    if thread is None:
                        thread = go_away(server, gateway)
                        (server.folder / "workspace" / "go").touch()
            assert (output, types[0], types[-1]) == ("1\n2\n", "start", "complete")
            assert thread is not None
            thread.join(PATIENCE)
            assert 502 in gateway.answers


async def test_viewers_reconnect(kind: Any, server: Server) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token) as box:
            terminal = await done(box.terminal(command="cat"))
            viewer = await enter(terminal.connect())
            thread = None
            async for event in each(viewer):
                if event.type == "ready":
                    if thread is not None:
                        break
                    thread = go_away(server, gateway)
            assert thread is not None
            thread.join(PATIENCE)
            assert 502 in gateway.answers
            await leave(viewer)


async def test_long_commands_outlive_the_patience_of_a_proxy(kind: Any, address: tuple[str, str], unique: str) -> None:
    # The proxy gives up later than the SDK would, if the server was unreachable.
    with Gateway(int(address[0].rpartition(":")[2]), silence=1) as gateway:
        async with Box(kind, gateway.url, address[1], reconnect_timeout=0.5) as box, Box(Sandbox, *address) as direct:

            def release() -> None:
                deadline = time.monotonic() + PATIENCE
                while len(gateway.answers) < 3 and time.monotonic() < deadline:
                    time.sleep(0.01)
                direct.write_text(f"go-{unique}", "")

            thread = threading.Thread(target=release)
            thread.start()
            script = (
                f"echo x >>n-{unique}; until [ -e go-{unique} ]; do sleep 0.05; done; cat n-{unique}; rm *-{unique}"
            )
            try:
                assert (await done(box.exec(script))).stdout == "x\n"
            finally:
                thread.join(PATIENCE)
    assert gateway.answers[:3] == [504, 504, 504]


class Hung(Gateway):
    """A proxy whose server never answers. At last its answer is final, so that no test is endless."""

    def _forward(self, client: socket.socket, data: bytes) -> None:
        time.sleep(self._silence)
        self._answer(client, 504 if len(self.answers) < 5 else 500, "No Answer")


async def test_reads_of_a_server_that_hangs_are_given_up(kind: Any) -> None:
    # The proxy gives up later than the SDK.
    with Hung(0, silence=0.5) as gateway:
        async with Box(kind, gateway.url, "token", reconnect_timeout=0.3) as box:
            for call in (box.ping, lambda: box.read_text("file")):
                gateway.answers.clear()
                with pytest.raises(InvalidResponseError):
                    await done(call())
                assert gateway.answers == [504, 504]


async def test_writes_are_not_repeated(kind: Any, server: Server) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token) as box:
            await done(box.ping())
            server.stop()
            gateway.answers.clear()
            with pytest.raises(InvalidResponseError) as caught:
                await done(box.write_text("file", "x"))
            assert (caught.value.status, gateway.answers) == (502, [502])
            server.start()


async def test_a_server_that_stays_away_is_given_up(kind: Any, server: Server) -> None:
    with Gateway(server.port) as gateway:
        async with Box(kind, gateway.url, server.token, reconnect_timeout=0.3) as box:
            server.stop()
            with pytest.raises(InvalidResponseError, match="502"):
                await done(box.ping())
            assert len(gateway.answers) > 1
            server.start()
