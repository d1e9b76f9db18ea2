#!/usr/bin/env python3
"""Compares the results of scripts in a plain bash and through a running server. See README.md."""

import argparse
import os
import re
import shutil
import signal
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import local

from runs import Failed, Plain, Server, fresh

HERE = Path(__file__).parent
# Two runs of the same bash may differ in when a job ends. So a difference counts if it occurs this often.
TRIES = 3

# Text that may differ, and its replacement.
PROCESS = re.compile(rb"(line \d+: +|pid |job \d+\[|^ {4,})\d+\b", re.M)
TIMES = re.compile(rb"^((?:real|user|sys)[\t ]+)[\dm.,]+s?$", re.M)
LINE = re.compile(rb"\bline \d+:")


def normal(result, lines=False):
    """The text to compare: without process ids and times, and for sequences without line numbers."""
    stderr = TIMES.sub(rb"\1TIME", PROCESS.sub(rb"\1PID", result.stderr))
    if lines:
        stderr = LINE.sub(b"line N:", stderr)
    return result.code, result.stdout, stderr


@dataclass
class Case:
    """A script, or the lines of a sequence, with its origin and its results."""

    group: str
    name: str
    text: str = ""
    lines: list = field(default_factory=list)
    differences: dict = field(default_factory=dict)


def read_lines():
    group = ""
    for line in (HERE / "lines.txt").read_text().splitlines():
        if line.startswith("### "):
            group = line[4:]
        elif line:
            yield Case(group, line, text=line.replace("⏎", "\n"))


def read_sequences():
    for block in (HERE / "sequences.txt").read_text().strip().split("\n\n"):
        lines = block.splitlines()
        yield Case("sequences", " → ".join(lines), lines=[line.replace("⏎", "\n") for line in lines])


def read_suite(folder):
    for path in sorted(folder.glob("*.tests")):
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:  # the server takes text
            text = f". ./{path.name}"
        yield Case("bash's own suite", path.name, text=text)


def read_known():
    """The known differences: `KIND: SCRIPT`, with a reason in the comment above."""
    known = (line for line in (HERE / "known.txt").read_text().splitlines() if line and not line.startswith("#"))
    return {tuple(line.split(": ", 1)) for line in known}


def difference(ours, theirs):
    """The first line in which two results differ."""
    for name, a, b in zip(("exit code", "stdout", "stderr"), ours, theirs):
        if a == b:
            continue
        if isinstance(a, int):
            return f"{name}: {a}, plain bash: {b}"
        a, b = a.split(b"\n"), b.split(b"\n")
        at = next((i for i, pair in enumerate(zip(a, b)) if pair[0] != pair[1]), min(len(a), len(b)))
        shown = [repr(part[at][:200])[1:] if at < len(part) else "nothing more" for part in (a, b)]
        return f"{name}, line {at + 1}: {shown[0]}, plain bash: {shown[1]}"
    return None


class Comparison:
    """Runs cases in separate directories."""

    def __init__(self, arguments, env):
        self.arguments = arguments
        self.env = env
        self.each = local()

    def start_thread(self):
        self.each.server = Server(self.arguments.url, self.arguments.token, self.env)
        # `_` is the path of the program itself, here of the one that printed the environment.
        environment = self.each.server.environment() | {"_": self.arguments.bash}
        self.each.plain = Plain(self.arguments.bash, environment)
        self.each.folder = os.path.join(self.arguments.folder, f"case-{os.urandom(4).hex()}", "work")

    def compare(self, case):
        kinds = {"session": self.sequence} if case.lines else {"stateless": self.stateless, "session": self.session}
        for kind, run in kinds.items():
            for _ in range(TRIES):
                try:
                    found = run(case)
                except (Failed, OSError) as e:
                    found = f"{e}"
                if found is None:
                    break
            if found is not None:
                case.differences[kind] = found
        return case

    def fresh(self, case):
        """Prepares the same files for every run, including the script."""
        fresh(self.each.folder)
        if case.group == "bash's own suite":
            shutil.copytree(self.arguments.suite, self.each.folder, symlinks=True, dirs_exist_ok=True)
        Path(self.each.folder, "bash").write_text(case.text)
        return self.each.folder

    def stateless(self, case):
        theirs = normal(self.each.plain.dash_c(case.text, self.fresh(case)))
        ours = normal(self.each.server.stateless(case.text, self.fresh(case)))
        return difference(ours, theirs)

    def session(self, case):
        """A session is a bash that reads its commands from its input, but its commands have a separate input.
        So it must behave like a bash that reads the script from its input, or like one that reads it from a file."""
        with self.each.server.session(self.fresh(case)) as session:
            ours = normal(session.run(case.text))
        found = difference(ours, normal(self.each.plain.from_input(case.text, self.fresh(case))))
        if found and difference(ours, normal(self.each.plain.script(case.text, self.fresh(case)))):
            return found
        return None

    def sequence(self, case):
        """After each line, the session must have the result of a bash whose input ends there."""
        wanted = [self.each.plain.from_pipe(case.lines[: i + 1], self.fresh(case)) for i in range(len(case.lines))]
        stdout = stderr = b""
        with self.each.server.session(self.fresh(case)) as session:
            for line, plain in zip(case.lines, wanted):
                result = session.run(line, stdin=None)
                stdout, stderr = stdout + result.stdout, stderr + result.stderr
                ours = normal(type(result)(result.code, stdout, stderr), lines=True)
                found = difference(ours, normal(plain, lines=True))
                if found:
                    return f"after {line!r}: {found}"
        return None


def table(cases, known):
    groups = {}
    for case in cases:
        groups.setdefault(case.group, []).append(case)
    rows = [(group, members) for group, members in groups.items()]
    rows.append(("all", cases))
    print(f"\n{'':28}{'stateless':>12}{'session':>12}")
    for group, members in rows:
        counts = []
        for kind in ("stateless", "session"):
            tried = [case for case in members if kind == "session" or not case.lines]
            same = sum(kind not in case.differences for case in tried)
            counts.append(f"{same}/{len(tried)}" if tried else "-")
        print(f"{group:28}{counts[0]:>12}{counts[1]:>12}")
    print(f"{len(known)} differences are known (known.txt).")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("token", nargs="?", default="")
    parser.add_argument("--bash", required=True, help="the bash that the server uses")
    parser.add_argument("--folder", required=True, help="where the scripts run")
    parser.add_argument("--suite", type=Path, help="the folder `tests` of bash's source, with its programs built; instead of our own scripts")
    parser.add_argument("--only", help="a regular expression that names of groups or scripts have to match")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()

    env = {}
    if arguments.suite:
        cases = list(read_suite(arguments.suite))
        env = {"THIS_SH": arguments.bash, "PATH": f".:{os.environ['PATH']}", "TMPDIR": arguments.folder}
    else:
        cases = [*read_lines(), *read_sequences()]
    if arguments.only:
        wanted = re.compile(arguments.only)
        cases = [case for case in cases if wanted.search(case.group) or wanted.search(case.name)]

    # A background job of a shell ignores the first two signals, and one under nohup the last. The plain bash would inherit this.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    begun = time.monotonic()
    comparison = Comparison(arguments, env)
    with ThreadPoolExecutor(arguments.jobs, initializer=comparison.start_thread) as threads:
        cases = list(threads.map(comparison.compare, cases))

    names = {case.name for case in cases}
    known = {(kind, name) for kind, name in read_known() if name in names}
    found = {(kind, case.name) for case in cases for kind in case.differences}
    for case in cases:
        for kind, text in case.differences.items():
            mark = " (known)" if (kind, case.name) in known else ""
            print(f"{kind}{mark}: {case.name}\n    {text}")
    table(cases, known)
    for kind, name in sorted(known - found):
        print(f"known.txt lists a difference that is not there: {kind}: {name}")
    different = {name for _, name in found - known}
    print(f"test result: {len(cases) - len(different)} passed; {len(different)} failed in {time.monotonic() - begun:.0f} s")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
