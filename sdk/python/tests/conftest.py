"""Fixtures: the server of the test run, servers of single tests, and both classes of the SDK."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from server import Proxy, Server

from sandcrab import AsyncSandbox, Sandbox

# A shell lets its background commands ignore Ctrl-C, which tests raise.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> bool | None:
    """Runs tests that are coroutines."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(pyfuncitem.obj(**arguments))
    return True


@pytest.fixture(scope="session")
def address() -> tuple[str, str]:
    """The URL and the token of the server of the test run."""
    return os.environ["SANDCRAB_TEST_URL"], os.environ["SANDCRAB_TEST_TOKEN"]


@pytest.fixture
def counted(address: tuple[str, str]) -> Iterator[tuple[str, str]]:
    """The same server at an address that only this test uses, so that its connections can be counted."""
    with Proxy(int(address[0].rpartition(":")[2]), 0, 1, 1) as proxy:
        yield proxy.url, address[1]


@pytest.fixture
def unique() -> str:
    """A text that differs in every test."""
    return uuid.uuid4().hex[:12]


@pytest.fixture
def server() -> Iterator[Server]:
    """A server of the test's own, which the test may kill."""
    with Server() as own:
        yield own


class Box:
    """A sandbox of one of both classes. Its calls are awaited if necessary, and its streams are asynchronous."""

    def __init__(self, kind: type[Sandbox] | type[AsyncSandbox], url: str, token: str, **options: Any) -> None:
        self.url = url
        self.sandbox: Any = kind(url, token, **options)

    async def __aenter__(self) -> Box:
        return self

    async def __aexit__(self, *_: object) -> None:
        await done(self.sandbox.aclose() if isinstance(self.sandbox, AsyncSandbox) else self.sandbox.close())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sandbox, name)


async def done(value: Any) -> Any:
    """Awaits a value if it is a coroutine."""
    return await value if inspect.isawaitable(value) else value


async def each(stream: Any) -> AsyncIterator[Any]:
    """Iterates over a stream of either class."""
    if hasattr(stream, "__aiter__"):
        async for item in stream:
            yield item
    else:
        for item in stream:
            yield item


@pytest.fixture(params=[Sandbox, AsyncSandbox], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> Any:
    """Both classes."""
    return request.param


@pytest.fixture
def box(kind: Any, address: tuple[str, str]) -> Box:
    """A sandbox of both classes at the server of the test run. Use it as a context manager."""
    return Box(kind, *address)
