#!/usr/bin/env python3
"""Records the output of real programs in a pseudo-terminal. Usage: record.py FOLDER

Writes FOLDER/PROGRAM.jsonl: lines {"size": [cols, rows]} and {"output": hexadecimal bytes}, in order.
Every program runs with an empty home directory, and is ended afterwards.
"""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time

# Output counts as complete when nothing came for this long; what is recorded until then is what is judged.
QUIET = 0.15
# A program that does not become quiet (top) is read for this long.
LONGEST = 1.5


class Recording:
    def __init__(self, path, argv, size, home):
        self.file = open(path, "w")
        self.size = size
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            environment = {
                "PATH": os.environ["PATH"], "HOME": home, "TMPDIR": home, "TERM": "xterm-256color", "LANG": "C.UTF-8",
                "LC_ALL": "C.UTF-8", "PS1": "\\[\\e[32m\\]\\w\\[\\e[0m\\]$ ", "INPUTRC": "/dev/null", "PYTHON_HISTORY": "/dev/null",
            }
            try:
                os.chdir(home)
                time.sleep(0.05)
                os.execvpe(argv[0], argv, environment)
            finally:
                os._exit(127)
        self.resize(*size)
        self.read()

    def write(self, record):
        self.file.write(json.dumps(record) + "\n")

    def resize(self, cols, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.write({"size": [cols, rows]})

    def read(self):
        end = time.monotonic() + LONGEST
        timeout = 1.0
        while time.monotonic() < end and select.select([self.fd], [], [], timeout)[0]:
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return
            if not data:
                return
            self.write({"output": data.hex()})
            timeout = QUIET

    def keys(self, *texts):
        for text in texts:
            try:
                os.write(self.fd, text.encode())
            except OSError:
                return
            self.read()

    def end(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.file.close()


def vim(start, home):
    text = os.path.join(home, "text.c")
    with open(text, "w") as file:
        for number in range(200):
            file.write(f"int f{number}(void) {{ return {number}; }} /* 漢字 é {number} */\n")
    recording = start(["vim", "-u", "NONE", "-N", "-c", "set hlsearch number ruler mouse=a | syntax on", text])
    recording.keys("/return\r", "n", "\x06", "G", "dd", "ggO", "new 漢字 text\x1b", "5dd", "u", ":vsplit\r", "\x17w", ":set nowrap\r", "v5j", "\x1b")
    recording.resize(60, 20)
    recording.read()
    recording.keys(":terminal\r", "echo inside\r", ":qa!\r", "\x17:qa!\r")
    recording.end()


def less(start, home):
    text = os.path.join(home, "long.txt")
    with open(text, "w") as file:
        for number in range(500):
            file.write(f"\x1b[{31 + number % 7}mline {number}\x1b[0m {'x' * (number % 120)} 漢字\n")
    recording = start(["less", "-R", text])
    recording.keys(" ", " ", "b", "/line 77\r", "n", "G", "g", "-S\r", "5j")
    recording.resize(50, 15)
    recording.read()
    recording.keys(" ", "q")
    recording.end()


def top(start, home):
    recording = start(["top", "-d", "0.3"])
    recording.keys("c", "1", "z")
    recording.resize(100, 30)
    recording.read()
    recording.keys("q")
    recording.end()


def tmux(start, home):
    recording = start(["tmux", "-f", "/dev/null", "-S", os.path.join(home, "socket"), "new", "bash --norc --noprofile"])
    recording.keys("echo one\r", "\x02%", "ls -la /\r", '\x02"', "printf '\\e[44mcolour\\e[0m\\n'\r", "\x02o", "seq 100\r", "\x02[", "\x1b[5~", "q")
    recording.resize(70, 18)
    recording.read()
    recording.keys("\x02d")
    recording.end()
    os.system(f"tmux -S {home}/socket kill-server 2>/dev/null")


def python(start, home):
    recording = start([sys.executable, "-q"])
    recording.keys("1 + 1\r", "import this\r", "def f(x):\r", "    return x\r", "\r", "f('漢字')\r", "\x1b[A", "\x1b[D\x1b[D\x7f\r", "1 / 0\r", "\x03", "\x04")
    recording.end()


def bash(start, home):
    recording = start(["bash", "--norc", "--noprofile"])
    recording.keys(
        "echo hello\r", "sleep 100\r", "\x1a", "jobs\r", "bg\r", "fg\r", "\x03", "cat\r", "text\r", "\x04", "echo $((6*7)) | tr 4 5 \x1b[D\x1b[D\x1b[D\r",
        "for i in {1..60}; do echo line $i; done\r", "\x12line", "\x07", "printf '\\e]0;title\\a\\e[?2004l'\r", "ls --color=always -la /etc | head -40\r", "clear\r",
    )
    recording.resize(40, 10)
    recording.read()
    recording.keys("echo after\r", "exit\r")
    recording.end()


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    for name, program in {"vim": vim, "less": less, "top": top, "tmux": tmux, "python3": python, "bash": bash}.items():
        home = tempfile.mkdtemp(prefix="screen-judge.")
        try:
            program(lambda argv: Recording(os.path.join(folder, f"{name}.jsonl"), argv, (80, 24), home), home)
        finally:
            shutil.rmtree(home, ignore_errors=True)


main()
