"""A server that a test may kill, and proxies: one that cuts connections, and one that answers for a server that is away."""

from __future__ import annotations

import os
import random
import re
import secrets
import select
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from typing_extensions import Self

# Deadline for something that must happen, on a busy machine.
PATIENCE = 60


class Server:
    """A server with its own state directory, started from `$SANDCRAB`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="sandcrab-server."))
        self.token = secrets.token_hex(16)
        (self.folder / "token").touch(mode=0o600)
        (self.folder / "token").write_text(self.token)
        (self.folder / "workspace").mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.address = ""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The last server ends all executions.
        self.stop()
        self.start("--stop-executions")
        self.stop()
        deadline = time.monotonic() + PATIENCE
        while self.folder.exists():
            # A supervisor that is exiting may still write.
            shutil.rmtree(self.folder, ignore_errors=True)
            assert time.monotonic() < deadline, f"{self.folder} cannot be removed"

    def start(self, *more: str) -> None:
        self.start_on(f"127.0.0.1:{self.port}", *more)

    def start_on(self, address: str, *more: str) -> None:
        self.address = address
        options = ["--listen", address, *more]
        options += ["--state-dir", str(self.folder / "state"), "--workspace", str(self.folder / "workspace")]
        options += ["--token-file", str(self.folder / "token")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [os.environ["SANDCRAB"], "serve", *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while not self.listens():
            assert self.process.poll() is None, (self.folder / "log").read_text()
            assert time.monotonic() < deadline, "the server does not listen"
            time.sleep(0.02)

    def listens(self) -> bool:
        try:
            if self.address.startswith("unix:"):
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.connect(self.address[len("unix:") :])
            else:
                socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        """Stops the server. Executions continue."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(PATIENCE)

    def restart(self) -> None:
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kills the server and its parent, which would restart it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        while self.listens():
            assert time.monotonic() < deadline, "the server still listens"
            time.sleep(0.02)


class Proxy:
    """Forwards connections to a port. Cuts each one after some bytes of the response, `cuts` times.

    With `silence` it cuts only connections on which nothing was sent for so many seconds.
    """

    def __init__(
        self, port: int, cuts: int, least: int, most: int, seed: int = 1, silence: float | None = None
    ) -> None:
        self._target = port
        self._random = random.Random(seed)
        self._range = (least, most)
        self._silence = silence
        self.cuts_left = cuts
        self.cuts_done = 0
        self.connections = 0
        self.most_connections = 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._is_closed = False
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Proxy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closed = True
        # Wakes the thread, which `close` alone would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while not self._is_closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(client,), daemon=True).start()

    def _forward(self, client: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self.most_connections = max(self.most_connections, self.connections)
        try:
            self._copy(client)
        finally:
            with self._lock:
                self.connections -= 1

    def _copy(self, client: socket.socket) -> None:
        with client:
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                return
            with server:
                left = self._random.randint(*self._range)
                while True:
                    ready, _, _ = select.select([client, server], [], [], self._silence or PATIENCE)
                    if not ready and self._silence is not None and self._take_cut():
                        return
                    for source in ready:
                        try:
                            data = source.recv(16384)
                        except OSError:
                            return
                        if not data:
                            return
                        if source is server and self.cuts_left > 0 and self._silence is None:
                            data = data[:left]
                            left -= len(data)
                        try:
                            (client if source is server else server).sendall(data)
                        except OSError:
                            return
                        if source is server and left <= 0 and self._take_cut():
                            self._cut(client)
                            return

    def _take_cut(self) -> bool:
        with self._lock:
            if self.cuts_left <= 0:
                return False
            self.cuts_left -= 1
            self.cuts_done += 1
            return True

    def _cut(self, client: socket.socket) -> None:
        if self._random.random() < 0.5:
            # A reset instead of an end.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Gateway:
    """A reverse proxy. It answers with an HTML page: 502 if the server is away, 504 if it is silent for `silence` seconds."""

    def __init__(self, port: int, silence: float = PATIENCE) -> None:
        self._target = port
        self._silence = silence
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        # The statuses of its own answers.
        self.answers: list[int] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # Wakes the thread, which `close` alone would not.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            try:
                first = client.recv(1 << 20)
                if first:
                    self._forward(client, first)
            except OSError:
                return

    def _forward(self, client: socket.socket, data: bytes) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            self._answer(client, 502, "Bad Gateway")
            return
        with server:
            server.sendall(data)
            is_answered = False
            while True:
                ready, _, _ = select.select([client, server], [], [], PATIENCE if is_answered else self._silence)
                if not ready:
                    self._answer(client, 504, "Gateway Timeout")
                    return
                for source in ready:
                    # A connection of the server that ends before its answer is a server that stops.
                    data = source.recv(16384) if source is client else received(server)
                    if not data:
                        if source is server and not is_answered:
                            self._answer(client, 502, "Bad Gateway")
                        return
                    is_answered = source is server
                    passed = self.passed(data) if is_answered else data
                    (client if source is server else server).sendall(passed)
                    if len(passed) < len(data):
                        return

    def passed(self, data: bytes) -> bytes:
        """Returns the bytes of the server that are sent on. After fewer than there are the connection is cut."""
        return data

    def _answer(self, client: socket.socket, status: int, reason: str) -> None:
        self.answers.append(status)
        page = f"<html><body><h1>{status} {reason}</h1></body></html>"
        head = f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/html\r\nContent-Length: {len(page)}\r\n"
        client.sendall(f"{head}Connection: close\r\n\r\n{page}".encode())


class Silent(Gateway):
    """A proxy whose server accepts requests, and stops answering."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.is_silent = False
        self.requests = 0
        self.is_over = threading.Event()

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        super().__exit__()

    def passed(self, data: bytes) -> bytes:
        if not self.is_silent:
            return data
        self.requests += 1
        self.is_over.wait(PATIENCE)
        return b""


class RepaintCut(Gateway):
    """Cuts one connection between the announcement of a repaint and its bytes."""

    cuts = 0

    def passed(self, data: bytes) -> bytes:
        at = data.find(b'"type":"repaint"')
        if at < 0 or self.cuts:
            return data
        self.cuts += 1
        return data[: data.index(b"}", at) + 1]


def received(connection: socket.socket) -> bytes:
    """Returns the next bytes; none if the connection was ended or reset."""
    try:
        return connection.recv(16384)
    except OSError:
        return b""


def open_sockets(url: str) -> int:
    """Returns the number of TCP sockets of this process that are connected to a server."""
    mine: set[str] = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(entry))
        except OSError:
            continue
        if found:
            mine.add(found[1])
    port = f":{int(url.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    # The columns of the address of the other side, and of the inode.
    return sum(1 for row in rows if row[2].endswith(port) and row[9] in mine)
