"""Cancelled starts leave nothing behind, although the caller has no id to end."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from typing import Any

import pytest
from conftest import Box, done
from server import PATIENCE, Gateway

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import ConnectionLostError, InvalidResponseError

# A request that the server has read, and one that arrives when the server has been asked to end its effect.
WHEN = ["answered", "late"]


class Withheld(Gateway):
    """Forwards the first request and keeps its answer. With `late`, not before the server has answered another one with 404.

    With `cut` it cuts the connection after the answer, and with `given up` it answers with 504.
    """

    def __init__(self, port: int, when: str) -> None:
        super().__init__(port)
        self._when = when
        self._is_first = True
        self.was_refused = threading.Event()
        # The request was sent, and the call can be cancelled.
        self.is_sent = threading.Event()
        self.is_answered = threading.Event()
        # What the server answers to the first request, and the further requests.
        self.answer = b""
        self.further: list[bytes] = []

    def _forward(self, client: socket.socket, data: bytes) -> None:
        if not self._is_first:
            self.further.append(data)
            super()._forward(client, data)
            return
        self._is_first = False
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        while len(body) < length:
            body += client.recv(length)
        if self._when == "late":
            self.is_sent.set()
            self.was_refused.wait(PATIENCE)
        with socket.create_connection(("127.0.0.1", self._target)) as server:
            server.sendall(head + b"\r\n\r\n" + body)
            self.answer = server.recv(1 << 16)
            self.is_answered.set()
            self.is_sent.set()
            if self._when == "given up":
                self._answer(client, 504, "Gateway Timeout")
            elif self._when != "cut":
                client.recv(1)

    def passed(self, data: bytes) -> bytes:
        if data.startswith(b"HTTP/1.1 404"):
            self.was_refused.set()
        return data


def calls(box: Any, unique: str) -> dict[str, Any]:
    command = f"sleep 600; : {unique}"
    return {
        "session": lambda: box.create_session(name=unique),
        "process": lambda: box.start_process(command),
        "service": lambda: box.start_service(command),
        "terminal": lambda: box.terminal(command=command),
    }


def nothing_runs(address: tuple[str, str], unique: str) -> None:
    with Sandbox(*address) as sandbox:
        assert not [session for session in sandbox.list_sessions() if session.name == unique]
        assert not [s for s in sandbox.list_services() if s.info is not None and unique in s.info.command]
        assert sandbox.exec(f"pgrep -f '[s]leep.*{unique}'").exit_code == 1


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("what", ["session", "process", "service", "terminal"])
async def test_cancelled_tasks(
    address: tuple[str, str], unique: str, what: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may start it later than usual.
    monkeypatch.setattr("sandcrab._async.ending.ARRIVAL", PATIENCE)
    with Withheld(int(address[0].rpartition(":")[2]), when) as proxy:
        async with AsyncSandbox(proxy.url, address[1]) as sandbox:
            task = asyncio.ensure_future(calls(sandbox, unique)[what]())
            assert await asyncio.to_thread(proxy.is_sent.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert await asyncio.to_thread(proxy.is_answered.wait, PATIENCE)
    # A late start may fail, because its service is deleted meanwhile.
    assert proxy.was_refused.is_set() if when == "late" else proxy.answer.startswith(b"HTTP/1.1 20")
    nothing_runs(address, unique)


@pytest.mark.parametrize("when", ["cut", "given up"])
@pytest.mark.parametrize("what", ["session", "terminal"])
async def test_lost_answers(kind: Any, address: tuple[str, str], unique: str, what: str, when: str) -> None:
    """These starts are not repeated, and the caller does not get what was started."""
    with Withheld(int(address[0].rpartition(":")[2]), when) as proxy:
        async with Box(kind, proxy.url, address[1]) as box:
            with pytest.raises((ConnectionLostError, InvalidResponseError)):
                await done(calls(box, unique)[what]())
    assert proxy.answer.startswith(b"HTTP/1.1 20")
    nothing_runs(address, unique)


@pytest.mark.parametrize("what", ["start_process", "start_service"])
async def test_the_grace_of_a_cancelled_start(address: tuple[str, str], unique: str, what: str) -> None:
    with Withheld(int(address[0].rpartition(":")[2]), "answered") as proxy:
        async with AsyncSandbox(proxy.url, address[1]) as sandbox:
            task = asyncio.ensure_future(getattr(sandbox, what)(f"sleep 600; : {unique}", grace=0.25))
            assert await asyncio.to_thread(proxy.is_sent.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
    assert [b"?graceMs=250 " in request for request in proxy.further] == [True]
    nothing_runs(address, unique)


@pytest.mark.parametrize("what", ["session", "process", "service", "terminal"])
def test_ctrl_c(address: tuple[str, str], unique: str, what: str) -> None:
    main = threading.main_thread().ident
    assert main is not None
    with Withheld(int(address[0].rpartition(":")[2]), "answered") as proxy, Sandbox(proxy.url, address[1]) as sandbox:

        def interrupt() -> None:
            proxy.is_sent.wait(PATIENCE)
            signal.pthread_kill(main, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            calls(sandbox, unique)[what]()
        thread.join()
    assert proxy.answer.startswith(b"HTTP/1.1 20")
    nothing_runs(address, unique)


async def test_an_id_of_the_caller_is_not_deleted(address: tuple[str, str], unique: str) -> None:
    """It may be that of an older thing: the terminal was only to be found."""
    async with AsyncSandbox(*address) as direct, await direct.terminal(unique, command="cat") as terminal:
        with Withheld(int(address[0].rpartition(":")[2]), "answered") as proxy:
            async with AsyncSandbox(proxy.url, address[1]) as sandbox:
                task = asyncio.ensure_future(sandbox.terminal(unique))
                assert await asyncio.to_thread(proxy.is_sent.wait, PATIENCE)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
        assert (await terminal.get_info()).status == "running"


@pytest.mark.parametrize("how", ["exec", "on_output", "exec_stream"])
async def test_a_call_that_is_cancelled_before_its_refusal_ends_nothing(
    address: tuple[str, str], unique: str, how: str
) -> None:
    """Its id is that of an older command."""
    given = f"older-{unique}"
    with Withheld(int(address[0].rpartition(":")[2]), "answered") as proxy:
        async with AsyncSandbox(*address) as direct, AsyncSandbox(proxy.url, address[1]) as sandbox:
            older = await direct.start_process("sleep 600", process_id=given)

            async def call() -> None:
                if how == "exec_stream":
                    async with sandbox.exec_stream("true", execution_id=given) as events:
                        await events.next_event()
                else:
                    on_output = (lambda *_: None) if how == "on_output" else None
                    await sandbox.exec("true", execution_id=given, on_output=on_output)

            task = asyncio.ensure_future(call())
            assert await asyncio.to_thread(proxy.is_sent.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert proxy.answer.startswith(b"HTTP/1.1 409")
            assert await older.get_status() == "running"
            await older.kill()


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize("how", ["exec", "exec_stream"])
async def test_a_cancelled_call_with_an_id_of_its_own_ends_its_command(
    address: tuple[str, str], unique: str, how: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sandcrab._async.exec.ARRIVAL", PATIENCE)
    monkeypatch.setattr("sandcrab._async.ending.ARRIVAL", PATIENCE)
    with Withheld(int(address[0].rpartition(":")[2]), when) as proxy:
        async with AsyncSandbox(*address) as direct, AsyncSandbox(proxy.url, address[1]) as sandbox:

            async def call() -> None:
                options: Any = {"execution_id": f"own-{unique}"}
                if how == "exec_stream":
                    async with sandbox.exec_stream("sleep 600", **options) as events:
                        await events.next_event()
                else:
                    await sandbox.exec("sleep 600", **options)

            task = asyncio.ensure_future(call())
            if how == "exec" and when == "answered":
                # The answer would come at the end.
                while not proxy.further and await direct.get_process(f"own-{unique}") is None:
                    await asyncio.sleep(0.01)
            else:
                assert await asyncio.to_thread(proxy.is_sent.wait, PATIENCE)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            proxy.was_refused.set()
            assert await asyncio.to_thread(proxy.is_answered.wait, PATIENCE)
            process = await direct.get_process(f"own-{unique}")
            assert process is not None and process.status == "killed"
