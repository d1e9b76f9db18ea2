"""What schemathesis cannot know of our API: which text is run, and how streams end."""

import json
import shlex
import zlib

import schemathesis

# The streams that go on for as long as somebody listens.
ENDLESS = {"/api/events"}

# The events that may come last in the others.
LAST_EVENTS = {"complete", "error", "exit", "caught_up"}

# What commands are replaced by: short, harmless, and of every kind of end.
TEXTS = [
    "true",
    "false",
    "echo hello",
    "echo oops >&2",
    "echo out; echo err >&2; exit 3",
    "exit 0",
    "exit 255",
    "return 4",
    "printf 'no newline'",
    "printf '\\377\\000\\376'",
    "seq 1 2000",
    "sleep 0.01",
    "sleep 0.02; echo late",
    "sleep 0.05 & echo left one behind",
    "cat",
    "cd /; pwd",
    "FOO=1; export FOO",
    "set -e; false",
    "kill -9 $$",
    "exec true",
    "no-such-command",
    "echo 'unterminated",
    "}",
    "cat <<END",
    "# nothing",
]
PROGRAMS = ["true", "false", "echo", "printf", "/no/such/program", "/etc/passwd"]


def harmless(command, args):
    """The text that is run in place of `command`: the same for the same text."""
    # What the server has to refuse is left as it is.
    if not isinstance(command, str) or not command or "\0" in command:
        return command
    number = zlib.crc32(command.encode("utf-8", "surrogatepass"))
    if isinstance(args, list):
        return PROGRAMS[number % len(PROGRAMS)]
    # Now and then the text itself, as a word that is printed.
    if number % 4 == 0:
        return f"printf %s {shlex.quote(command)}"
    return TEXTS[number % len(TEXTS)]


@schemathesis.hook
def before_call(context, case, kwargs):
    """Nothing that was made up is run, in no phase."""
    if isinstance(case.body, dict) and "command" in case.body:
        body = dict(case.body)
        body["command"] = harmless(body["command"], body.get("args"))
        # `cat` would wait for input that nobody sends.
        if body["command"] == "cat" and body.get("keepStdinOpen") is True:
            body["command"] = "true"
        if body != case.body:
            case.body = body


@schemathesis.check
def every_stream_ends(ctx, response, case):
    """A stream of events is over within the timeout, and says how."""
    content_type = (response.headers.get("content-type") or [""])[0]
    if case.operation.path in ENDLESS or not content_type.startswith("text/event-stream"):
        return
    assert not response.stream_cut_short, "the stream did not end within the timeout"
    events = [line[5:] for line in response.text.splitlines() if line.startswith("data:")]
    assert events, "the stream ended without an event"
    last = json.loads(events[-1])["type"]
    assert last in LAST_EVENTS, f"the stream ended with the event {last!r}"


@schemathesis.check
class EveryOperationIsReached:
    """Each operation succeeded at least once: a suite that is only refused tries nothing."""

    def __init__(self):
        self.tried = set()
        self.reached = set()

    def after_response(self, ctx, response, case):
        self.tried.add(case.operation.label)
        if response.status_code < 300:
            self.reached.add(case.operation.label)

    def after_run(self, ctx):
        missed = sorted(self.tried - self.reached)
        assert not missed, f"these operations never succeeded: {', '.join(missed)}"
