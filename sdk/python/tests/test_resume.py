"""Streams resume: every byte once and in order, whatever happens to connections and servers."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from conftest import Box, done, each
from server import PATIENCE, Proxy, Server

from sandcrab import Sandbox, SandcrabError
from sandcrab.errors import ConnectionLostError, UnreachableError
from sandcrab.retry import Retry

CUTS = 200
# An event has up to 64 KiB. Longer pieces let a stream advance.
LONGEST_PIECE = 300_000
# 8 MB.
NUMBERS = 1_200_000
EXPECTED = "".join(f"{number}\n" for number in range(1, NUMBERS + 1))


async def test_200_cut_connections(kind: Any, address: tuple[str, str], unique: str) -> None:
    port = int(address[0].rpartition(":")[2])
    with Proxy(port, CUTS, 1, LONGEST_PIECE) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            process = await done(box.start_process(f"seq 1 {NUMBERS}; exit 7", process_id=f"cut-{unique}"))
            output: list[str] = []
            types: list[str] = []
            while proxy.cuts_left:
                # A stream is over before all cuts are done: read it again.
                output, types = [], []
                async for event in each(process.stream_logs()):
                    types.append(event.type)
                    if event.type == "stdout":
                        output.append(event.data)
                assert types[0] == "process_info"
                assert types.count("process_info") == types.count("exit") == 1
                assert "".join(output) == EXPECTED
    assert proxy.cuts_done == CUTS


async def test_cut_connections_of_exec(kind: Any, address: tuple[str, str], unique: str) -> None:
    port = int(address[0].rpartition(":")[2])
    with Proxy(port, 40, 1, 2000) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            runs = 0
            while proxy.cuts_left:
                runs += 1
                result = await done(box.exec(f"echo x >>runs-{unique}; echo done; exit 4"))
                assert (result.stdout, result.exit_code) == ("done\n", 4)
            seen: list[str] = []
            async for event in each(box.exec_stream(f"wc -l <runs-{unique}; rm runs-{unique}")):
                seen.append(event.type if event.type != "stdout" else event.data.strip())
            # Each command ran once.
            assert seen == ["start", str(runs), "complete"]


async def test_exec_survives_a_proxy_that_ends_silent_requests(
    kind: Any, address: tuple[str, str], unique: str
) -> None:
    port = int(address[0].rpartition(":")[2])
    # The proxy gives up later than the SDK would, if the server was unreachable.
    with Proxy(port, 3, 1, 1, silence=1) as proxy:
        async with Box(kind, proxy.url, address[1], reconnect_timeout=0.5) as box, Box(Sandbox, *address) as direct:

            def release() -> None:
                deadline = time.monotonic() + PATIENCE
                while proxy.cuts_left and time.monotonic() < deadline:
                    time.sleep(0.01)
                direct.write_text(f"go-{unique}", "")

            thread = threading.Thread(target=release)
            thread.start()
            script = (
                f"echo x >>cut-{unique}; until [ -e go-{unique} ]; do sleep 0.05; done; cat cut-{unique}; rm *-{unique}"
            )
            try:
                assert (await done(box.exec(script))).stdout == "x\n"
            finally:
                thread.join(PATIENCE)
    assert proxy.cuts_done == 3


def test_slow_failures_to_connect_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that takes longer than the window counts as a success only if it reached the server."""
    now = 0.0
    monkeypatch.setattr("sandcrab.retry.time.monotonic", lambda: now)
    retry = Retry(1.0, is_wait=True)
    for _ in range(5):
        now += 10
        retry.failed(ConnectionLostError("cut"))
    now += 10
    with pytest.raises(UnreachableError):
        retry.failed(UnreachableError("timed out"))


@pytest.mark.parametrize("how", ["restart", "kill"])
async def test_restarts_of_the_server(kind: Any, server: Server, how: str) -> None:
    async with Box(kind, server.url, server.token) as box:
        script = 'for i in $(seq 1 200); do echo "line $i"; sleep 0.02; done; echo the end >&2; exit 5'
        events = box.exec_stream(script)
        restarted = threading.Event()

        def restart() -> None:
            for _ in range(2):
                if how == "restart":
                    server.stop()
                else:
                    server.kill()
                server.start()
            restarted.set()

        output, types, code = "", [], None
        thread = threading.Thread(target=restart)
        async for event in each(events):
            types.append(event.type)
            if event.type == "stdout":
                if not output:
                    thread.start()
                output += event.data
            code = getattr(event, "exit_code", None)
        thread.join(PATIENCE)
        assert restarted.is_set()
        assert output == "".join(f"line {number}\n" for number in range(1, 201))
        assert (types[0], types[-2:], code) == ("start", ["stderr", "complete"], 5)


async def test_exec_survives_a_killed_server(kind: Any, server: Server) -> None:
    async with Box(kind, server.url, server.token) as box:
        await done(box.ping())
        flag = server.folder / "workspace" / "flag"

        def kill_when_it_runs() -> None:
            deadline = time.monotonic() + PATIENCE
            while not flag.exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            server.kill()
            server.start()
            (server.folder / "workspace" / "go").touch()

        thread = threading.Thread(target=kill_when_it_runs)
        thread.start()
        result = await done(box.exec("echo once >>flag; until [ -e go ]; do sleep 0.05; done; cat flag; exit 6"))
        thread.join(PATIENCE)
        assert (result.stdout, result.exit_code) == ("once\n", 6)


async def test_a_session_survives_a_restart(kind: Any, server: Server) -> None:
    async with Box(kind, server.url, server.token) as box:
        session = await done(box.create_session())
        await done(session.exec("A=1"))
        server.restart()
        assert (await done(session.exec("echo $A"))).stdout == "1\n"
        await done(session.delete())


async def test_a_server_that_does_not_come_back(kind: Any, server: Server) -> None:
    async with Box(kind, server.url, server.token, reconnect_timeout=0.5) as box:
        process = await done(box.start_process("sleep 600"))
        server.stop()
        with pytest.raises(UnreachableError):
            await done(box.ping())
        with pytest.raises(SandcrabError):
            _ = [event async for event in each(process.stream_logs())]
        server.start()


async def test_a_wrong_address_fails_at_once(kind: Any) -> None:
    async with Box(kind, "http://127.0.0.1:1", "token", reconnect_timeout=600) as box:
        with pytest.raises(UnreachableError, match="sandcrab serve"):
            await done(box.exec("true"))
        with pytest.raises(ConnectionError):
            _ = [event async for event in each(box.events())]


async def test_a_start_of_a_terminal_is_not_repeated(kind: Any, address: tuple[str, str], unique: str) -> None:
    """A terminal that has ended is replaced by one with the same id, so its command would run twice."""
    port = int(address[0].rpartition(":")[2])
    with Proxy(port, 1, 1, 1) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            with pytest.raises(ConnectionLostError):
                await done(box.terminal(f"once-{unique}", command="true"))


async def test_writes_are_not_repeated(kind: Any, address: tuple[str, str], unique: str) -> None:
    port = int(address[0].rpartition(":")[2])
    with Proxy(port, 1, 1, 1) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            with pytest.raises(ConnectionLostError):
                await done(box.write_file(f"once-{unique}", "x", append=True))
            assert (await done(box.read_text(f"once-{unique}"))) == "x"
            await done(box.delete_file(f"once-{unique}"))


async def test_a_watch_that_continues_tells_that_changes_may_be_missing(kind: Any, server: Server) -> None:
    async with Box(kind, server.url, server.token) as box:
        types: list[str] = []
        async for event in each(box.watch(".")):
            types.append(event.type)
            if types == ["watching"]:
                server.kill()
                server.start()
            if types[-1] == "resync":
                (server.folder / "workspace" / "new").touch()
            if types[-1] == "event":
                break
    assert types == ["watching", "watching", "resync", "event"]
