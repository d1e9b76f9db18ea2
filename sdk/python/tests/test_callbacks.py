"""Functions of the caller that calls use."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from conftest import Box, done
from server import PATIENCE, open_sockets

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import SessionNotFoundError, ValidationError


async def test_coroutines_are_awaited(address: tuple[str, str]) -> None:
    seen: list[str] = []

    async def note(stream: str, data: str) -> None:
        await asyncio.sleep(0)
        seen.append(stream + data)

    async with AsyncSandbox(*address) as sandbox:
        await sandbox.exec("echo x", on_output=note)
    assert seen == ["stdoutx\n"]


async def test_progress_of_git_is_awaited(address: tuple[str, str], unique: str) -> None:
    seen: list[Any] = []

    async def note(event: Any) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    async with AsyncSandbox(*address) as sandbox:
        made = await sandbox.exec(
            f"git init -q repo-{unique} && cd repo-{unique} && "
            "git -c user.name=a -c user.email=b commit -q --allow-empty -m x && pwd"
        )
        await sandbox.git_checkout(f"file://{made.check().stdout.strip()}", f"clone-{unique}", on_progress=note)
        await sandbox.exec(f"rm -rf repo-{unique} clone-{unique}")
    assert seen


def test_coroutines_are_refused_without_asyncio(address: tuple[str, str]) -> None:
    async def note(stream: str, data: str) -> None:
        raise AssertionError

    with Sandbox(*address) as sandbox, pytest.raises(ValidationError, match="AsyncSandbox"):
        sandbox.exec("echo x", on_output=note)


async def happened(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, PATIENCE)


async def test_callbacks_of_a_process(box: Box) -> None:
    seen: list[Any] = []
    ended = threading.Event()

    def end(code: int | None) -> None:
        seen.append(code)
        ended.set()

    async with box:
        process = await done(
            box.start_process(
                "echo out; echo err >&2; exit 3",
                on_start=lambda process: seen.append(process.id),
                on_output=lambda stream, data: seen.append((stream, data)),
                on_exit=end,
            )
        )
        await happened(ended)
    assert seen[0] == process.id
    assert sorted(seen[1:3]) == [("stderr", "err\n"), ("stdout", "out\n")]
    assert seen[3:] == [3]


async def test_exact_bytes_of_a_process(box: Box) -> None:
    seen: list[str] = []
    ended = threading.Event()
    async with box:
        await done(
            box.start_process(
                "printf '\\377'",
                encoding="base64",
                on_output=lambda _, data: seen.append(data),
                on_exit=lambda _: ended.set(),
            )
        )
        await happened(ended)
    assert seen == ["/w=="]


async def test_lines_of_a_process_with_exact_bytes(box: Box) -> None:
    async with box:
        process = await done(box.start_process("echo ready; sleep 600", encoding="base64"))
        assert (await done(process.wait_for_log("ready", PATIENCE))).line == "ready"
        await done(process.kill())


async def test_coroutines_of_a_process(address: tuple[str, str]) -> None:
    ended = asyncio.Event()

    async def end(code: int | None) -> None:
        await asyncio.sleep(0)
        ended.set()

    async with AsyncSandbox(*address) as sandbox:
        await sandbox.start_process("true", on_exit=end)
        await asyncio.wait_for(ended.wait(), PATIENCE)


async def test_errors_of_callbacks_of_a_process(box: Box) -> None:
    errors: list[Exception] = []
    failed = threading.Event()

    def fail(*_: Any) -> None:
        raise ZeroDivisionError

    def note(error: Exception) -> None:
        errors.append(error)
        failed.set()

    async with box:
        await done(box.start_process("echo x", on_output=fail, on_error=note))
        await happened(failed)
        assert [type(error) for error in errors] == [ZeroDivisionError]
        with pytest.raises(SessionNotFoundError):
            await done(box.start_process("true", session_id="unknown", on_error=note))
        assert isinstance(errors[1], SessionNotFoundError)


async def test_a_process_whose_on_start_fails_is_ended(box: Box) -> None:
    started: list[Any] = []

    def fail(process: Any) -> None:
        started.append(process)
        raise ZeroDivisionError

    errors: list[Exception] = []
    async with box:
        with pytest.raises(ZeroDivisionError):
            await done(box.start_process("sleep 600", on_start=fail, on_error=errors.append))
        assert [type(error) for error in errors] == [ZeroDivisionError]
        assert (await done(started[0].wait_for_exit(PATIENCE))).status == "killed"


async def test_callbacks_end_with_the_sandbox(kind: Any, address: tuple[str, str], counted: tuple[str, str]) -> None:
    calls: list[Any] = []
    begun = threading.Event()
    async with Box(kind, *address) as direct:
        async with Box(kind, *counted) as box:
            process = await done(
                box.start_process(
                    "echo x; sleep 600", on_output=lambda *_: begun.set(), on_exit=calls.append, on_error=calls.append
                )
            )
            await happened(begun)
        found = await done(direct.get_process(process.id))
        assert found.status == "running"
        await done(found.kill())
        deadline = time.monotonic() + PATIENCE
        while open_sockets(counted[0]):
            assert time.monotonic() < deadline, "the stream is still open"
            await asyncio.sleep(0.01)
    assert calls == []


async def test_callbacks_of_a_service(box: Box, unique: str) -> None:
    seen: list[Any] = []
    ended = threading.Event()

    def end(code: int | None) -> None:
        seen.append(code)
        ended.set()

    async with box:
        service = await done(
            box.start_service(
                f"echo run; [ -e second-{unique} ] && exit 4; touch second-{unique}; exit 3",
                restart={"policy": "on-failure", "max_restarts": 1, "backoff_ms": 100},
                on_start=lambda service: seen.append(service.id),
                on_output=lambda stream, data: seen.append((stream, data)),
                on_exit=end,
            )
        )
        await happened(ended)
        # The output of all executions, and the exit code of the last one.
        assert seen == [service.id, ("stdout", "run\n"), ("stdout", "run\n"), 4]
        await done(service.delete())


async def test_a_service_whose_start_is_not_wanted_is_deleted(box: Box, unique: str) -> None:
    errors: list[Exception] = []

    def fail(_: Any) -> None:
        raise ZeroDivisionError

    async with box:
        with pytest.raises(ZeroDivisionError):
            await done(
                box.start_service("sleep 600", service_id=f"not-{unique}", on_start=fail, on_error=errors.append)
            )
        assert await done(box.get_service(f"not-{unique}")) is None
        with pytest.raises(SessionNotFoundError):
            await done(box.start_service("true", session_id=f"none-{unique}", on_error=errors.append))
    assert [type(error) for error in errors] == [ZeroDivisionError, SessionNotFoundError]
