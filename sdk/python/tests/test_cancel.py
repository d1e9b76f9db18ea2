"""Cancelled calls end their command, and leave no process and no socket."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import Any

import pytest
from conftest import Box, done, each
from server import PATIENCE, Server, Silent, open_sockets

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import ConflictError, FileMissingError, UnreachableError


@pytest.fixture
def address(counted: tuple[str, str]) -> tuple[str, str]:
    """These tests count their connections."""
    return counted


async def nothing_is_left(box: Any, mark: str) -> None:
    """Waits until no execution with this mark runs and no socket is open, after the sandbox was closed."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = [process for process in await done(box.list_processes(all=True)) if mark in process.command]
        assert found
        if all(process.status not in ("starting", "running") for process in found):
            break
        assert time.monotonic() < deadline, found
    assert (await done(box.exec(f"pgrep -f '[s]leep.*{mark}'"))).exit_code == 1
    await Box.__aexit__(box)
    while open_sockets(box.url):
        assert time.monotonic() < deadline, "a socket is open"
        await asyncio.sleep(0.01)


async def test_a_cancelled_task(address: tuple[str, str], unique: str) -> None:
    box = Box(AsyncSandbox, *address)
    has_output = asyncio.Event()
    command = f"echo partial; sleep 600; : {unique}"
    task = asyncio.create_task(box.exec(command, on_output=lambda *_: has_output.set()))
    await asyncio.wait_for(has_output.wait(), PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    # Before Python 3.11, awaiting a cancelled task raises another exception, with this one as its context.
    error: Any = caught.value if hasattr(caught.value, "result") else caught.value.__context__
    result = error.result
    assert (result.stdout, result.success, result.end.reason) == ("partial\n", False, "killed")
    await nothing_is_left(box, unique)


async def test_many_cancelled_tasks(address: tuple[str, str], unique: str) -> None:
    box = Box(AsyncSandbox, *address, max_connections=4)
    flags = [asyncio.create_task(box.exec(f"sleep 600; : {unique}")) for _ in range(12)]
    # Some of them run, others wait for a connection.
    deadline = time.monotonic() + PATIENCE
    while len([p for p in await box.list_processes(all=True, status="running") if unique in p.command]) < 3:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    for task in flags:
        task.cancel()
    results = await asyncio.gather(*flags, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results)
    started = [process for process in await box.list_processes(all=True) if unique in process.command]
    assert len(started) == 3
    await nothing_is_left(box, unique)


async def test_timeouts_of_asyncio(address: tuple[str, str], unique: str) -> None:
    box = Box(AsyncSandbox, *address)
    begun = asyncio.Event()
    task = asyncio.create_task(box.exec(f"echo x; sleep 600; : {unique}", on_output=lambda *_: begun.set()))
    await asyncio.wait_for(begun.wait(), PATIENCE)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(task, 0.01)
    await nothing_is_left(box, unique)


def test_ctrl_c(address: tuple[str, str], unique: str) -> None:
    sandbox = Sandbox(*address)

    def interrupt(*_: str) -> None:
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        sandbox.exec(f"echo partial; sleep 600; : {unique}", on_output=interrupt)
    assert caught.value.result.stdout == "partial\n"  # type: ignore[attr-defined]
    box: Any = Box(Sandbox, *address)
    box.sandbox = sandbox
    asyncio.run(nothing_is_left(box, unique))


def test_ctrl_c_while_waiting(address: tuple[str, str], unique: str) -> None:
    """The signal arrives while the call is blocked in the system."""
    sandbox = Sandbox(*address)
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        with Sandbox(*address) as other:
            deadline = time.monotonic() + PATIENCE
            while not [p for p in other.list_processes(all=True, status="running") if unique in p.command]:
                if time.monotonic() > deadline:
                    break
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.exec(f"sleep 600; : {unique}")
    thread.join()
    box: Any = Box(Sandbox, *address)
    box.sandbox = sandbox
    asyncio.run(nothing_is_left(box, unique))


async def test_leaving_the_loop(box: Box, unique: str) -> None:
    command = f"while sleep 0.01; do echo x; done; : {unique}"
    if isinstance(box.sandbox, AsyncSandbox):
        async for event in box.exec_stream(command):
            if event.type == "stdout":
                break
    else:
        for event in box.exec_stream(command):
            if event.type == "stdout":
                break
    await nothing_is_left(box, unique)


async def test_leaving_a_block(box: Box, unique: str) -> None:
    """What a block creates is deleted at its end, also after an exception."""
    sandbox = box.sandbox

    class Stop(Exception):
        pass

    name = f"left-{unique}"
    try:
        if isinstance(sandbox, AsyncSandbox):
            async with (
                await sandbox.create_session(name) as session,
                await session.start_process(f"sleep 600; : {unique}"),
            ):
                raise Stop
        else:
            with sandbox.create_session(name) as session, session.start_process(f"sleep 600; : {unique}"):
                raise Stop
    except Stop:
        pass
    assert await done(sandbox.get_session(name)) is None
    await nothing_is_left(box, unique)


async def test_a_kept_command_continues(box: Box, unique: str) -> None:
    async with box:
        events = box.exec_stream(
            f"echo started; sleep 600; : {unique}", on_disconnect="keep", execution_id=f"kept-{unique}"
        )
        async for event in each(events):
            if event.type == "stdout":
                break
        await done(events.aclose() if hasattr(events, "aclose") else events.close())
        process = await done(box.get_process(f"kept-{unique}"))
        assert process.status == "running"
        await done(process.kill())


async def test_callbacks_that_fail(box: Box, unique: str) -> None:
    def fail(*_: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        await done(box.exec(f"echo partial; sleep 600; : {unique}", on_output=fail))
    assert caught.value.result.stdout == "partial\n"  # type: ignore[attr-defined]
    await nothing_is_left(box, unique)


async def test_callbacks_that_fail_with_an_error_of_the_sdk(box: Box, unique: str) -> None:
    refusal = FileMissingError("no such file", code="FILE_NOT_FOUND")

    def fail(*_: str) -> None:
        raise refusal

    with pytest.raises(FileMissingError) as caught:
        await done(box.exec(f"echo partial; sleep 600; : {unique}", on_output=fail))
    assert caught.value is refusal
    assert refusal.result is not None and refusal.result.stdout == "partial\n"
    await nothing_is_left(box, unique)


async def test_callbacks_that_fail_with_an_error_that_takes_no_result(box: Box, unique: str) -> None:
    class Fixed(Exception):
        @property
        def result(self) -> None:
            return None

    def fail(*_: str) -> None:
        raise Fixed

    with pytest.raises(Fixed):
        await done(box.exec(f"echo partial; sleep 600; : {unique}", on_output=fail))
    await nothing_is_left(box, unique)


async def test_a_refused_id_ends_nothing(box: Box, unique: str) -> None:
    """It is that of an older command."""
    async with box:
        process = await done(box.start_process("sleep 600", process_id=f"older-{unique}"))
        with pytest.raises(ConflictError):
            await done(box.exec("true", execution_id=process.id))
        with pytest.raises(ConflictError):
            await done(box.exec("true", execution_id=process.id, on_output=lambda *_: None))
        with pytest.raises(ConflictError):
            _ = [event async for event in each(box.exec_stream("true", execution_id=process.id))]
        assert await done(process.get_status()) == "running"
        await done(process.kill())


async def test_an_abort_does_not_wait_for_a_silent_server(address: tuple[str, str], unique: str) -> None:
    with Silent(int(address[0].rpartition(":")[2])) as proxy:
        async with AsyncSandbox(proxy.url, address[1]) as sandbox:
            begun = asyncio.Event()
            command = f"echo x; sleep 600; : {unique}"
            task = asyncio.create_task(sandbox.exec(command, grace=0.1, on_output=lambda *_: begun.set()))
            await asyncio.wait_for(begun.wait(), PATIENCE)
            proxy.is_silent = True
            task.cancel()
            # The proxy is silent for longer.
            await asyncio.wait({task}, timeout=PATIENCE / 2)
            assert task.cancelled()


async def test_an_abort_does_not_wait_for_a_lost_server(server: Server) -> None:
    async with AsyncSandbox(server.url, server.token, reconnect_timeout=600) as sandbox:
        begun = asyncio.Event()
        task = asyncio.create_task(sandbox.exec("echo x; sleep 600", on_output=lambda *_: begun.set()))
        await asyncio.wait_for(begun.wait(), PATIENCE)
        server.stop()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE)
        server.start()


@pytest.mark.parametrize("what", ["session", "process", "service", "terminal"])
async def test_leaving_a_block_whose_thing_is_gone(box: Box, unique: str, what: str) -> None:
    async with box:
        starts: dict[str, Any] = {
            "session": lambda: box.create_session(),
            "process": lambda: box.start_process("true"),
            "service": lambda: box.start_service("sleep 600"),
            "terminal": lambda: box.terminal(command="cat"),
        }
        thing = await done(starts[what]())
        if what == "process":
            await done(thing.wait_for_exit(PATIENCE))
            await done(box.cleanup_completed_processes())
        else:
            await done(thing.destroy() if what == "terminal" else thing.delete())
        await in_block(thing, None)


async def test_errors_at_the_end_of_a_block(kind: Any, server: Server) -> None:
    """They do not replace the exception of the block."""

    class Stop(Exception):
        pass

    async with Box(kind, server.url, server.token, reconnect_timeout=0.1) as box:
        things = [
            await done(box.create_session()),
            await done(box.start_process("sleep 600")),
            await done(box.start_service("sleep 600")),
            await done(box.terminal(command="cat")),
        ]
        server.stop()
        for thing in things:
            with pytest.raises(Stop):
                await in_block(thing, Stop())
            with pytest.raises(UnreachableError):
                await in_block(thing, None)
        server.start()


async def in_block(thing: Any, raised: Exception | None) -> None:
    """Enters and leaves the block of either class."""
    if hasattr(thing, "__aexit__"):
        async with thing:
            if raised is not None:
                raise raised
    else:
        with thing:
            if raised is not None:
                raise raised


async def test_the_output_so_far_has_the_form_of_the_result(box: Box, unique: str) -> None:
    def fail(*_: str) -> None:
        raise ZeroDivisionError

    command = f"printf 'begin\\377'; head -c 100 /dev/zero; printf end; sleep 600; : {unique}"
    with pytest.raises(ZeroDivisionError) as caught:
        await done(box.exec(command, on_output=fail, encoding="base64", max_output_bytes=9))
    result = caught.value.result  # type: ignore[attr-defined]
    assert result.encoding == "base64" and result.stdout_bytes.startswith(b"begi")
    assert len(result.stdout_bytes) <= 9
    await nothing_is_left(box, unique)


@pytest.mark.parametrize(("grace", "needed", "expected"), [(None, 1.5, "x\nbye\n"), (0.1, 600, "x\n")])
async def test_commands_have_time_to_end(
    box: Box, unique: str, grace: float | None, needed: float, expected: str
) -> None:
    def fail(*_: str) -> None:
        raise ZeroDivisionError

    command = f"trap 'sleep {needed}; echo bye; exit' TERM; echo x; while :; do sleep 0.1; done; : {unique}"
    with pytest.raises(ZeroDivisionError) as caught:
        await done(box.exec(command, on_output=fail, grace=grace))
    assert caught.value.result.stdout == expected  # type: ignore[attr-defined]
    await nothing_is_left(box, unique)


async def test_the_limit_of_a_session(box: Box) -> None:
    async with box:
        session = await done(box.create_session(max_output_size_bytes=8))
        for options in ({}, {"on_output": lambda *_: None}):
            result = await done(session.exec("echo 0123456789abcdef", **options))
            assert len(result.stdout) <= 8 and result.truncated is not None
        fork = await done(session.fork())
        for options in ({}, {"on_output": lambda *_: None}):
            assert len((await done(fork.exec("echo 0123456789abcdef", **options))).stdout) <= 8
        await done(fork.delete())
        await done(session.delete())
