"""The three ways to run a script: a plain bash, a stateless command, a session's command."""

import base64
import http.client
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from urllib.parse import urlsplit

# Longer than any script takes, even on a busy machine.
TIMEOUT_S = 180
# A session expands aliases by default.
ALIASES = ["bash", "-O", "expand_aliases"]
STDIN = b"first line\nsecond line\nthird\n"


@dataclass(frozen=True)
class Result:
    """The result of a script."""

    code: int
    stdout: bytes
    stderr: bytes


class Failed(Exception):
    """The server refused a request, or a script did not end."""


def fresh(folder):
    """Creates an empty directory."""
    # A script may have removed the permission to empty its directory.
    subprocess.run(["chmod", "-R", "u+rwX", folder], check=False, stderr=subprocess.DEVNULL)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


class Plain:
    """A plain bash, in the environment of the server's commands."""

    def __init__(self, bash, env):
        self.bash = bash
        self.env = env

    def dash_c(self, text, folder, stdin=STDIN):
        return self._run(["bash", "-c", text], folder, stdin)

    def script(self, text, folder, stdin=STDIN):
        """The file has the name `bash`, so that `$0` and the messages are those of a session."""
        with open(os.path.join(folder, "bash"), "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
        return self._run([*ALIASES, "bash"], folder, stdin)

    def from_input(self, text, folder):
        return self._run(ALIASES, folder, text.encode())

    def from_pipe(self, lines, folder):
        """As a bash reads what arrives line by line: it cannot read ahead."""
        text = "".join(line + "\n" for line in lines).encode()
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb") as stdin:
            with os.fdopen(writer, "wb") as file:  # less than a pipe holds
                file.write(text)
            return self._run_with(ALIASES, folder, stdin)

    def _run(self, argv, folder, stdin):
        """A file, as a command of the server has it."""
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            return self._run_with(argv, folder, file)

    def _run_with(self, argv, folder, stdin):
        env = self.env | ({"PWD": folder} if "PWD" in self.env else {})
        try:
            done = subprocess.run(
                argv, executable=self.bash, cwd=folder, env=env, stdin=stdin, capture_output=True,
                timeout=TIMEOUT_S, start_new_session=True, check=False,
            )
        except subprocess.TimeoutExpired as e:
            raise Failed(f"the plain bash did not end: {e}") from e
        code = done.returncode if done.returncode >= 0 else 128 - done.returncode
        return Result(code, done.stdout, done.stderr)


class Server:
    """A running server."""

    def __init__(self, url, token, env):
        self.env = env
        self.address = urlsplit(url).netloc
        self.headers = {"Content-Type": "application/json"}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"

    def environment(self):
        """What the server gives a program, before a shell changes it."""
        output = self._execute({"command": "env", "args": ["-0"], "env": self.env}, b"").stdout
        return dict(entry.split("=", 1) for entry in output.decode().split("\0") if entry)

    def stateless(self, text, folder, stdin=STDIN):
        return self._execute({"command": text, "cwd": folder, "env": self.env}, stdin)

    def session(self, folder):
        """Starts a session that goes on after a command that ends its shell."""
        request = {"cwd": folder, "env": self.env, "onShellExit": "restore"}
        return Session(self, self._post("/api/session/create", request)["data"]["id"])

    def _execute(self, request, stdin):
        request |= {"encoding": "base64", "timeoutMs": TIMEOUT_S * 1000, "maxOutputBytes": 64 << 20}
        if stdin is not None:
            request |= {"stdin": base64.b64encode(stdin).decode(), "stdinEncoding": "base64"}
        answer = self._post("/api/execute", request)
        if answer["end"]["reason"] == "timeout":
            raise Failed("the command did not end")
        decoded = [base64.b64decode(answer[stream]) for stream in ("stdout", "stderr")]
        return Result(answer["exitCode"], *decoded)

    def _post(self, path, body):
        # A connection of its own: the server may close one that was idle, and a repeated request could run a command twice.
        connection = http.client.HTTPConnection(self.address, timeout=2 * TIMEOUT_S)
        try:
            connection.request("POST", path, json.dumps(body), self.headers | {"Connection": "close"})
            answer = connection.getresponse()
            status, text = answer.status, answer.read()
        finally:
            connection.close()
        parsed = json.loads(text)
        if status != 200:
            raise Failed(f"{status} {parsed.get('code')}: {parsed.get('message')}")
        return parsed


class Session:
    """A session of a server, to be deleted."""

    def __init__(self, server, name):
        self.server = server
        self.name = name

    def run(self, text, stdin=STDIN):
        return self.server._execute({"command": text, "sessionId": self.name}, stdin)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server._post("/api/session/delete", {"sessionId": self.name})
