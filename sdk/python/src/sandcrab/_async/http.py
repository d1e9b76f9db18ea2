"""`AsyncHttp`: the connections to one server, and how requests are sent."""

from __future__ import annotations

import json as json_module
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar, cast

import httpx2

from .._model import Model
from ..address import Address, check_headers
from ..errors import (
    ConnectionLostError,
    InvalidResponseError,
    SandcrabError,
    UnreachableError,
    ValidationError,
    error_of_response,
)
from ..retry import Retry
from ._runtime import Interruptible, Semaphore, acquire, sleep
from .connections import AsyncPlaces

M = TypeVar("M", bound=Model)

CONNECT_TIMEOUT = 10.0
# A silent stream is lost after this time: the server sends a comment every 15 seconds. Reads are answered in this time, too.
LONGEST_SILENCE = 60.0
SHORTEST_TIMEOUT = 0.001
# Refusals that are temporary if they have a `Retry-After`.
RETRIED_STATUSES = (429, 503)
# Answers of a proxy whose server is away or silent, if they are not errors of the API.
GATEWAY_STATUSES = (502, 503, 504)
PLAIN = httpx2.Timeout(None, connect=CONNECT_TIMEOUT)
STREAM = httpx2.Timeout(None, connect=CONNECT_TIMEOUT, read=LONGEST_SILENCE)

Query = Mapping[str, str | int | bool | None]
Content = bytes | AsyncIterable[bytes] | Iterable[bytes]


def stream_timeout(rest: float | None) -> httpx2.Timeout:
    """The limits of a stream whose caller waits for `rest` seconds: a thread cannot be interrupted before the response."""
    if rest is None:
        return STREAM
    # 0 would mean that the socket does not block.
    rest = max(rest, SHORTEST_TIMEOUT)
    return httpx2.Timeout(None, connect=min(CONNECT_TIMEOUT, rest), read=min(LONGEST_SILENCE, rest))


def json_text(value: Any) -> str:
    """Returns a value as JSON, which has no NaN and no infinite numbers."""
    try:
        return json_module.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise ValidationError(f"invalid number in a request: {error}") from None


class AsyncHttp:
    """The connections to one server. At most `max_connections` are open; further requests wait."""

    def __init__(self, address: Address, token: str | None, max_connections: int, reconnect_timeout: float) -> None:
        self.address = address
        self.token = token
        self.reconnect_timeout = reconnect_timeout
        # Bodies are read as they are: a proxy must not compress them.
        headers = {"User-Agent": "sandcrab-python", "Accept-Encoding": "identity"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._places = AsyncPlaces(address, headers, max_connections, PLAIN)
        self._was_reached = False
        # Streams that are read in the background.
        self.followed: set[Interruptible] = set()

    @property
    def is_closed(self) -> bool:
        """Whether `aclose` was called."""
        return self._places.is_closed

    async def aclose(self) -> None:
        """Closes all connections."""
        self._places.is_closed = True
        for stream in list(self.followed):
            stream.interrupt()
        await self._places.aclose()

    def failure(self, error: Exception) -> SandcrabError:
        """Returns the exception for an error of the connection."""
        why = str(error) or type(error).__name__
        if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout)):
            return UnreachableError(
                f"failed to reach the server at {self.address.url}: {why}",
                suggestion="start a server with `sandcrab serve`, or give the address of one",
            )
        return ConnectionLostError(f"the connection to {self.address.url} was lost: {why}")

    def may_retry(self, error: SandcrabError) -> bool:
        """Whether the same request may succeed a moment later. A server that was never reached is a wrong address."""
        if isinstance(error, UnreachableError):
            return self._was_reached
        if isinstance(error, InvalidResponseError) and error.status in GATEWAY_STATUSES:
            return True
        if error.status in RETRIED_STATUSES and error.retry_after is not None:
            return True
        return isinstance(error, ConnectionLostError) or error.code == "SHUTTING_DOWN"

    async def open(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        json: Any = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        is_long: bool = True,
        timeout: httpx2.Timeout = STREAM,
        sent: list[bool] | None = None,
        is_abandoned: Callable[[], bool] = lambda: False,
    ) -> AsyncOpenResponse:
        """Sends a request. The body of the response is not read yet, and its connection is in use until it is closed.

        `sent` gets an entry when the request leaves the queue. `is_abandoned` says whether a thread in the queue gives up.
        """
        all_headers = dict(headers or {})
        is_body = bool(content)
        if json is not None:
            content = json_text(json).encode(errors="surrogatepass")
            all_headers["Content-Type"] = "application/json"
        check_headers(all_headers)
        params = {
            name: str(value).lower() if value is True else value
            for name, value in (query or {}).items()
            if value is not None
        }
        url = self.address.path(path)
        connections = self._places.here()
        client = connections.patient if is_body else connections.client
        request = client.build_request(
            method, url, params=params, content=content, headers=all_headers, timeout=timeout
        )
        held = [connections.long_slots, connections.slots] if is_long else [connections.slots]
        opened = AsyncOpenResponse(self)
        try:
            for slot in held:
                await acquire(slot, is_abandoned)
                opened.held.append(slot)
            if sent is not None:
                sent.append(True)
            opened.response = await client.send(request, stream=True)
            self._was_reached = True
            if opened.response.is_success:
                return opened
            body = await opened.response.aread()
            raise error_of_response(opened.response.status_code, body, opened.response.headers)
        except httpx2.ReadTimeout as error:
            await opened.aclose()
            # Not a lost connection: nothing shows that the server was reached.
            raise UnreachableError(
                f"the server at {self.address.url} accepts connections, but does not answer"
            ) from error
        except httpx2.TransportError as error:
            await opened.aclose()
            raise self.failure(error) from error
        except BaseException:
            await opened.aclose()
            raise

    async def open_read(
        self,
        path: tuple[str, ...],
        query: Query | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncOpenResponse:
        """Opens a GET request, again if the connection is lost or the server is busy."""
        retry = Retry(self.reconnect_timeout)
        while True:
            try:
                return await self.open("GET", path, query=query, headers=headers)
            except SandcrabError as error:
                if not self.may_retry(error):
                    raise
                pause = retry.failed(error)
            await sleep(pause)

    async def request(
        self,
        method: str,
        path: tuple[str, ...],
        *,
        query: Query | None = None,
        json: Any = None,
        content: Content | None = None,
        headers: Mapping[str, str] | None = None,
        is_long: bool = False,
        is_repeatable: bool = False,
        is_wait: bool = False,
        window: float | None = None,
        timeout: httpx2.Timeout | None = None,
        sent: list[bool] | None = None,
        answered: dict[str, str] | None = None,
    ) -> bytes:
        """Sends a request and returns the body of the response. `answered` gets its headers.

        A repeatable one is sent again if the connection is lost or the server is busy, for `window` seconds. Default: `reconnect_timeout`.
        `is_wait`: the same answer is still to come if a proxy gave up waiting for it, so that this is no failure.
        """
        if timeout is None:
            # Reads are answered at once.
            timeout = STREAM if method == "GET" and is_repeatable and not is_long else PLAIN
        limit = self.reconnect_timeout if window is None else min(window, self.reconnect_timeout)
        retry = Retry(limit, is_wait=is_wait)
        while True:
            try:
                opened = await self.open(
                    method,
                    path,
                    query=query,
                    json=json,
                    content=content,
                    headers=headers,
                    is_long=is_long,
                    timeout=timeout,
                    sent=sent,
                )
                try:
                    content = await opened.read()
                    if answered is not None:
                        answered.update(opened.headers)
                    return content
                finally:
                    await opened.aclose()
            except SandcrabError as error:
                if not (is_repeatable and self.may_retry(error)):
                    raise
                pause = retry.failed(error)
            await sleep(pause)

    async def fetch(self, method: str, path: tuple[str, ...], **options: Any) -> dict[str, Any]:
        """The same for a JSON object."""
        content = await self.request(method, path, **options)
        try:
            body: Any = json_module.loads(content)
        except ValueError as error:
            raise InvalidResponseError(f"invalid response from {self.address.url}: {error}") from error
        if not isinstance(body, dict):
            raise InvalidResponseError(f"invalid response from {self.address.url}: it is not an object")
        return cast("dict[str, Any]", body)

    async def get(self, model: type[M], path: tuple[str, ...], query: Query | None = None) -> M:
        """Reads an object."""
        return model.parse(await self.fetch("GET", path, query=query, is_repeatable=True))

    async def post(
        self, model: type[M], path: tuple[str, ...], body: Any, *, is_repeatable: bool = False, is_long: bool = False
    ) -> M:
        """Sends an object and reads one."""
        return model.parse(await self.fetch("POST", path, json=body, is_repeatable=is_repeatable, is_long=is_long))

    async def delete(self, model: type[M], path: tuple[str, ...], query: Query | None = None) -> M:
        """Deletes something and reads an object."""
        return model.parse(await self.fetch("DELETE", path, query=query))


class AsyncOpenResponse:
    """A response whose body is read as it arrives."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http
        self.held: list[Semaphore] = []
        self.response: httpx2.Response | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of the response."""
        return self.response.headers if self.response else {}

    async def read(self) -> bytes:
        """Reads the whole body."""
        assert self.response is not None
        try:
            return await self.response.aread()
        except httpx2.TransportError as error:
            raise self._http.failure(error) from error

    async def chunks(self, size: int | None = None) -> AsyncGenerator[bytes, None]:
        """Reads the body in pieces."""
        assert self.response is not None
        try:
            async for chunk in self.response.aiter_raw(size):
                yield chunk
        except httpx2.TransportError as error:
            raise self._http.failure(error) from error

    def shut_down(self) -> None:
        """Ends the connection from another thread, so that a blocked read fails."""
        if self.response is not None:
            socket = self.response.extensions["network_stream"].get_extra_info("socket")
            if socket is not None:
                # The other side may have closed it.
                with suppress(OSError):
                    socket.shutdown(2)

    async def aclose(self) -> None:
        """Closes the response. Its connection is used again if the body was read."""
        try:
            if self.response is not None:
                await self.response.aclose()
        finally:
            while self.held:
                self.held.pop().release()
