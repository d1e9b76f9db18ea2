"""Terminals and their viewers, services, ports, watches and events."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
from typing import Any

import pytest
from conftest import Box, done, each
from server import PATIENCE, RepaintCut, Server

from sandcrab import AsyncSandbox
from sandcrab._async._runtime import open_socket
from sandcrab.errors import GoneError, NotFoundError, ProcessExitedError, SessionTerminatedError, WaitTimeoutError


async def enter(thing: Any) -> Any:
    return await thing.__aenter__() if hasattr(thing, "__aenter__") else thing.__enter__()


async def leave(thing: Any) -> None:
    await done(thing.__aexit__(None, None, None) if hasattr(thing, "__aexit__") else thing.__exit__(None, None, None))


async def test_a_viewer_sees_everything(box: Box) -> None:
    async with box:
        terminal = await done(box.terminal(command="cat", cols=50, rows=6))
        viewer = await enter(terminal.connect(cols=60, rows=7))
        shown = b""
        async for event in each(viewer):
            if event.type == "ready":
                await done(viewer.send("hello\r"))
            shown += getattr(event, "data", b"")
            if shown.count(b"hello") == 2:
                break
        screen = await done(terminal.screen())
        assert (screen.cols, screen.rows) == (60, 7)
        await done(viewer.resize(70, 8))
        await done(viewer.send(b"\x04"))
        last = [event async for event in each(viewer)][-1]
        assert (last.type, last.exit_code) == ("exit", 0)
        await leave(viewer)
        assert '"version":2' in await done(terminal.get_recording())
        await done(terminal.destroy())
        with pytest.raises(NotFoundError):
            await enter((await done(box.get_terminal("none")) or type(terminal)(terminal._http, "none")).connect())


async def test_a_viewer_resumes(kind: Any, server: Server) -> None:
    async with Box(kind, server.url, server.token) as box:
        terminal = await done(box.terminal(command="stty -echo; while read line; do echo got $line; done"))
        await done(terminal.send("one\r"))
        await done(terminal.wait_for_text("got one", PATIENCE))
        viewer = await enter(terminal.connect())
        shown = b""

        def restart() -> None:
            server.kill()
            server.start()
            with_input.set()

        with_input = threading.Event()
        thread: threading.Thread | None = None
        async for event in each(viewer):
            if getattr(event, "type", "") == "repaint":
                shown = b""
            shown += getattr(event, "data", b"")
            if event.type == "ready" and thread is None:
                thread = threading.Thread(target=restart)
                thread.start()
                thread.join(PATIENCE)
                assert with_input.is_set()
                await done(terminal.send("two\r"))
            if b"got two" in shown:
                break
        assert shown.count(b"got one") == shown.count(b"got two") == 1
        await leave(viewer)
        await done(terminal.destroy())


async def test_a_closed_viewer_opens_nothing(box: Box) -> None:
    async with box:
        terminal = await done(box.terminal(command="read line; exit 3"))
        viewer = await enter(terminal.connect())
        await leave(viewer)
        with pytest.raises(GoneError):
            await done(viewer.send("x"))
        assert viewer._socket is None
        viewer = await enter(terminal.connect())
        await done(viewer.send("\r"))
        assert [event async for event in each(viewer)][-1].exit_code == 3
        with pytest.raises(GoneError):
            await done(viewer.send("x"))
        await leave(viewer)
        await done(terminal.destroy())


async def test_a_reader_and_a_writer_share_a_new_connection(
    address: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = 0
    both_wait = asyncio.Event()

    async def counted(*arguments: Any) -> Any:
        nonlocal opened
        opened += 1
        await both_wait.wait()
        return await open_socket(*arguments)

    monkeypatch.setattr("sandcrab._async.viewer.open_socket", counted)
    async with AsyncSandbox(*address) as sandbox, await sandbox.terminal(command="cat") as terminal:
        viewer = terminal.connect()
        reader = asyncio.create_task(viewer.next_event())
        writer = asyncio.create_task(viewer.send("x"))
        # Both tasks run until they wait.
        for _ in range(10):
            await asyncio.sleep(0)
        both_wait.set()
        await asyncio.wait_for(asyncio.gather(reader, writer), PATIENCE)
        assert opened == 1
        await viewer.aclose()


async def test_a_viewer_that_is_closed_while_it_connects(
    address: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, is_closed = asyncio.Event(), asyncio.Event()
    sockets: list[Any] = []

    async def slow(*arguments: Any) -> Any:
        begun.set()
        await is_closed.wait()
        sockets.append(await open_socket(*arguments))
        return sockets[0]

    monkeypatch.setattr("sandcrab._async.viewer.open_socket", slow)
    async with AsyncSandbox(*address) as sandbox, await sandbox.terminal(command="cat") as terminal:
        viewer = terminal.connect()
        reader = asyncio.create_task(viewer.next_event())
        await asyncio.wait_for(begun.wait(), PATIENCE)
        await viewer.aclose()
        is_closed.set()
        assert await asyncio.wait_for(reader, PATIENCE) is None
        await asyncio.wait_for(sockets[0].wait_closed(), PATIENCE)


async def test_waiting_for_a_screen(box: Box) -> None:
    async with box:
        terminal = await done(box.terminal(command="echo value 42; sleep 600", env={"A": "1"}))
        found = await done(terminal.wait_for_text(re.compile(r"value \d+"), PATIENCE))
        assert found.matched
        await done(terminal.wait_for_idle(0.05, PATIENCE))
        with pytest.raises(WaitTimeoutError):
            await done(terminal.wait_for_text("never", 0.05))
        assert terminal.id in [info.id for info in await done(box.list_terminals())]
        await leave(terminal)


async def test_ports_and_previews(box: Box) -> None:
    async with box:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        process = await done(box.start_process("python3", ["-m", "http.server", str(port), "--bind", "127.0.0.1"]))
        await done(process.wait_for_port(port, PATIENCE))
        await done(box.wait_for_port(port, PATIENCE, mode="tcp"))
        assert port in [found.port for found in await done(box.list_ports())]
        exposed = await done(box.expose_port(port, name="site", process_id=process.id))
        assert exposed.url.startswith("http")
        assert port in [found.port for found in await done(box.get_exposed_ports())]
        await done(box.unexpose_port(port))
        await done(process.kill())


async def test_services(box: Box, unique: str) -> None:
    async with box:
        check = {"type": "command", "command": "true", "interval_ms": 100}
        service = await done(
            box.start_service(
                "echo up; exec sleep 600",
                service_id=f"svc-{unique}",
                health_check=check,
                restart={"policy": "on-failure", "backoff_ms": 100},
                wait_for_ready=True,
                ready_timeout=PATIENCE,
            )
        )
        assert (await done(service.get_health())).status == "healthy"
        async for event in each(service.stream_output()):
            if event.type == "stdout":
                assert event.data == "up\n"
                break
        assert (await done(service.get_logs())).stdout == "up\n"
        assert service.id in [found.id for found in await done(box.list_services())]
        await done(service.restart())
        await leave(service)
        assert await done(box.get_service(service.id)) is None


async def test_events_of_the_server(box: Box, unique: str) -> None:
    async with box:
        events = box.events()
        async for event in each(events):
            if event.type == "hello":
                # The loop continues on the same connection.
                await done(box.exec("true", execution_id=f"seen-{unique}"))
            elif event.type == "execution_ended" and event.process.id == f"seen-{unique}":
                break


async def test_changes_of_files(box: Box, unique: str) -> None:
    async with box:
        await done(box.mkdir(f"watched-{unique}"))
        async for event in each(box.watch(f"watched-{unique}")):
            if event.type == "watching":
                await done(box.write_text(f"watched-{unique}/new", "x"))
            elif event.type == "event" and event.path.endswith("/new"):
                break
        await done(box.delete_file(f"watched-{unique}", recursive=True))


async def test_processes(box: Box, unique: str) -> None:
    async with box:
        process = await done(
            box.start_process(
                "trap 'echo caught' USR1; echo $$; while read x; do echo $x; done; printf '\\377'", stdin=True
            )
        )
        found = await done(process.wait_for_log(re.compile(r"^(\d+)$", re.M), PATIENCE))
        assert (int(found.match[1]), found.stream) == (process.pid, "stdout")
        await done(process.signal("USR1"))
        await done(process.wait_for_log("caught", PATIENCE))
        assert await done(process.write("line\n")) == 5
        await done(process.close_stdin())
        assert (await done(process.wait_for_exit(PATIENCE))).exit_code == process.exit_code == 0
        assert (await done(process.output())).endswith(b"line\n\xff")
        assert b"".join([chunk async for chunk in each(process.iter_output())]) == await done(process.output())
        assert '"version":2' in await done(process.get_recording())
        result = await done(box.exec("cat; exit 1", stdin=b"\xff", encoding="base64"))
        assert result.stdout_bytes == b"\xff"
        with pytest.raises(Exception, match="exit code 1"):
            result.check()
        big = await done(box.exec("seq 1 100000; echo e >&2", on_output=lambda *_: None, max_output_bytes=1000))
        assert len(big.stdout) == 1000 and big.stdout.startswith("1\n2\n") and big.stdout.endswith("100000\n")
        assert (big.truncated.stdout_bytes, big.stderr) == (587_895, "e\n")


async def test_patterns_match_lines(box: Box) -> None:
    async with box:
        process = await done(box.start_process("printf 'a\\nListening on 80\\r\\nb\\n'; read x; echo y", stdin=True))
        found = await done(process.wait_for_log(re.compile("^Listening"), PATIENCE))
        assert found.line == "Listening on 80"
        found = await done(process.wait_for_log(re.compile(r"on (\d+)$"), PATIENCE))
        assert (found.line, found.match[1]) == ("Listening on 80", "80")
        await done(process.write("\n"))
        # A match does not continue in the next line.
        with pytest.raises(ProcessExitedError):
            await done(process.wait_for_log(re.compile(r"a\s+Listening"), PATIENCE))


async def test_the_end_of_an_unfinished_line_is_not_known(box: Box) -> None:
    async with box:
        process = await done(box.start_process("printf ready; read x; echo ' soon'; printf ready", stdin=True))
        assert (await done(process.wait_for_log("ready", PATIENCE))).line == "ready"
        with pytest.raises(WaitTimeoutError):
            await done(process.wait_for_log(re.compile("ready$"), 0.5))
        await done(process.write("\n"))
        # The second one, which the end of the process completes.
        found = await done(process.wait_for_log(re.compile("^ready$"), PATIENCE))
        assert found.line == "ready"


async def test_sessions(box: Box, unique: str) -> None:
    async with box:
        session = await done(box.create_session(on_shell_exit="terminate", command_timeout=PATIENCE))
        with pytest.raises(SessionTerminatedError) as caught:
            await done(session.exec("exit 9"))
        assert caught.value.context["exitCode"] == 9
        await done(session.reset(restore=True))
        running = session.exec_stream("echo begun; sleep 600")
        async for event in each(running):
            if event.type == "stdout":
                await done(session.interrupt())
            elif event.type == "complete":
                assert event.exit_code != 0
        assert session.id in [info.id for info in await done(box.list_sessions())]
        await done(session.delete())
        assert isinstance(box.sandbox, AsyncSandbox) or await done(box.get_session(session.id)) is None


async def test_flags_of_a_regular_expression(box: Box) -> None:
    async with box:
        terminal = await done(box.terminal(command="echo READY; echo two; cat"))
        pattern = re.compile("ready.*  # a comment\n two$", re.IGNORECASE | re.DOTALL | re.VERBOSE | re.MULTILINE)
        await done(terminal.wait_for_text(pattern, PATIENCE))
        with pytest.raises(WaitTimeoutError):
            await done(terminal.wait_for_text(re.compile("ready"), 0))
        await done(terminal.destroy())


async def test_a_repaint_that_was_cut_off_comes_again(kind: Any, address: tuple[str, str]) -> None:
    async with Box(kind, *address) as direct:
        terminal = await done(direct.terminal(command="echo drawn; cat"))
        await done(terminal.wait_for_text("drawn", PATIENCE))
        with RepaintCut(int(address[0].rpartition(":")[2])) as proxy:
            async with Box(kind, proxy.url, address[1]) as box:
                viewer = await enter((await done(box.get_terminal(terminal.id))).connect())
                shown = b""
                async for event in each(viewer):
                    shown += getattr(event, "data", b"")
                    if event.type == "ready":
                        break
                await leave(viewer)
        assert proxy.cuts == 1
        assert b"drawn" in shown
        await done(terminal.destroy())


async def test_ports_of_a_session(box: Box) -> None:
    async with box:
        session = await done(box.create_session())
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            await done(session.wait_for_port(port, PATIENCE, mode="tcp", interval=0.01))
            assert port in [found.port for found in await done(session.list_ports())]
            events = [event.type async for event in each(session.watch_port(port, mode="tcp", interval=0.01))]
            assert events == ["watching", "ready"]
        await done(session.delete())


async def test_waits_of_a_service(box: Box) -> None:
    async with box:
        service = await done(box.start_service("echo ready; sleep 600"))
        assert (await done(service.wait_for_log(re.compile("^rea"), PATIENCE))).line == "ready"
        with pytest.raises(WaitTimeoutError):
            await done(service.wait_for_exit(0.1))
        with pytest.raises(WaitTimeoutError):
            await done(service.wait_for_port(1, 0.1, mode="tcp", interval=0.01))
        await done(service.kill())
        assert (await done(service.wait_for_exit(PATIENCE))).state == "stopped"
        await done(service.delete())
