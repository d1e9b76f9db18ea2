"""Compares the time of `exec("true")` with that of a plain HTTP client that keeps its connection.

Both are measured in turns, in one run. Usage: bench.py, with SANDCRAB_TEST_URL and SANDCRAB_TEST_TOKEN. The exit code is 1 if
the SDK needs more than 1.5 times as long.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

import httpx2

from sandcrab import AsyncSandbox, Sandbox

LIMIT = 1.5
ROUNDS = 60
CALLS = 20
URL, TOKEN = os.environ["SANDCRAB_TEST_URL"], os.environ["SANDCRAB_TEST_TOKEN"]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def compare(name: str, ours: list[float], plain: list[float]) -> float:
    """Prints the medians. Returns their ratio."""
    one, two = statistics.median(ours), statistics.median(plain)
    print(f"{name}: exec {one * 1000:.3f} ms, plain httpx2 {two * 1000:.3f} ms, ratio {one / two:.2f}")
    return one / two


def blocking() -> float:
    """Measures `Sandbox`."""
    ours: list[float] = []
    plain: list[float] = []
    with Sandbox(URL, TOKEN) as sandbox, httpx2.Client(base_url=URL, headers=HEADERS, trust_env=False) as client:

        def measure(times: list[float], call: Callable[[], object]) -> None:
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)

        for _ in range(ROUNDS):
            measure(ours, lambda: sandbox.exec("true"))
            measure(plain, lambda: client.post("/api/execute", json={"command": "true"}).json())
    return compare("Sandbox", ours, plain)


async def asynchronous() -> float:
    """Measures `AsyncSandbox`."""
    ours: list[float] = []
    plain: list[float] = []
    async with (
        AsyncSandbox(URL, TOKEN) as sandbox,
        httpx2.AsyncClient(base_url=URL, headers=HEADERS, trust_env=False) as client,
    ):

        async def measure(times: list[float], call: Callable[[], Awaitable[object]]) -> None:
            for _ in range(CALLS):
                start = time.perf_counter()
                await call()
                times.append(time.perf_counter() - start)

        for _ in range(ROUNDS):
            await measure(ours, lambda: sandbox.exec("true"))
            await measure(plain, lambda: client.post("/api/execute", json={"command": "true"}))
    return compare("AsyncSandbox", ours, plain)


if __name__ == "__main__":
    sys.exit(max(blocking(), asyncio.run(asynchronous())) > LIMIT)
