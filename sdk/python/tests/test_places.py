"""A sandbox in several event loops, and in a process that was forked."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Iterator

import pytest
from server import PATIENCE, Proxy

from sandcrab import AsyncSandbox, Sandbox


@pytest.fixture
def left_connections() -> Iterator[None]:
    """An event loop that ends without `aclose` leaves its connections to the garbage collector, which says so."""
    yield
    gc.collect()


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("left_connections")
def test_one_event_loop_after_the_other(address: tuple[str, str]) -> None:
    sandbox = AsyncSandbox(*address, max_connections=2)

    async def work() -> list[str]:
        # More than there are connections, so that some wait for a slot.
        return [result.stdout for result in await asyncio.gather(*(sandbox.exec("echo x") for _ in range(6)))]

    assert asyncio.run(work()) == ["x\n"] * 6
    assert asyncio.run(work()) == ["x\n"] * 6
    asyncio.run(sandbox.aclose())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("left_connections")
def test_two_event_loops_at_the_same_time(address: tuple[str, str], unique: str) -> None:
    sandbox = AsyncSandbox(*address)
    outputs: list[str] = []

    async def wait() -> None:
        outputs.append((await sandbox.exec(f"until [ -e go-{unique} ]; do sleep 0.05; done; echo waited")).stdout)

    async def release() -> None:
        await sandbox.exec(f"touch go-{unique}")

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    asyncio.run(release())
    thread.join(PATIENCE)
    assert outputs == ["waited\n"]
    asyncio.run(sandbox.exec(f"rm go-{unique}"))


def test_a_forked_process_has_its_own_connections(address: tuple[str, str]) -> None:
    with Proxy(int(address[0].rpartition(":")[2]), 0, 1, 1) as proxy, Sandbox(proxy.url, address[1]) as sandbox:
        assert sandbox.exec("echo parent").stdout == "parent\n"
        child = os.fork()
        if child == 0:
            # Nothing of the test runner may run here.
            try:
                os._exit(0 if sandbox.exec("echo child").stdout == "child\n" else 1)
            except BaseException:
                os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert sandbox.exec("echo parent").stdout == "parent\n"
        # The child has made one of its own, and the parent still uses its first.
        assert proxy.most_connections == 2
