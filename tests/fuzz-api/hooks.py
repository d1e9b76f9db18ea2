"""What schemathesis cannot know of our API: which text is run, which files are touched, and how streams end."""

import base64
import http.server
import io
import json
import os
import shlex
import tarfile
import threading
import zlib

import requests
import schemathesis
from schemathesis.core import NotSet

URL, TOKEN = os.environ["FUZZ_URL"], os.environ["FUZZ_TOKEN"]

# How often each operation that takes input is tried at least.
EXAMPLES = 100

# Streams that do not end while a client is connected.
ENDLESS = {"/api/events"}

# The last events of other streams.
LAST_EVENTS = {"complete", "error", "exit", "caught_up", "ready", "process_exited", "stopped", "end"}

# Replacements of generated commands: short and harmless, with every kind of end.
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
# A command whose input stays open waits for it, with a short timeout.
WAITING, WAITING_MS = "cat", 100
# Without a timeout, a wait is for what a program may never show, and a terminal has a shell that never exits.
LONGEST_MS = {
    "/api/process/{id}/wait": 2000,
    "/api/terminal/{id}/wait": WAITING_MS,
    "/api/terminal/create": 1000,
    "/api/git/checkout": 2000,
    "/api/git/pull": 2000,
    "/api/git/push": 2000,
    "/api/watch": WAITING_MS,
}
PROGRAMS = ["true", "false", "echo", "printf", "/no/such/program", "/etc/passwd"]
# Fields and headers of a command whose generated values are valid only by chance.
CHANCY = {
    "cwd", "limits", "env", "user", "background", "maxOutputBytes", "onDisconnect", "onSessionEnd", "overflow", "stdinEncoding",
    "executionId", "healthCheck", "restart", "waitForReady", "readyTimeoutMs", "serviceId",
}
CHANCY_HEADERS = ["X-Session-Id", "Idempotency-Key"]
MAKES_SESSION = {"createSession", "forkSession"}
# Generated text is never a signal name.
SIGNALS = ["TERM", "SIGKILL", "usr1", "15", "INT"]

# Fields and query parameters that are paths. Whatever is generated, they stay below a directory of the workspace.
PATHS = {"path", "oldPath", "newPath", "sourcePath", "destinationPath", "dir", "targetDir", "archivePath"}
# Requests on files that succeed: fields by route. {} is the directory, with the files of prepare_files().
SUCCEEDING = {
    "/api/exists": {"path": "{}/file"},
    "/api/stat": {"path": "{}/link"},
    "/api/read": {"path": "{}/file", "maxBytes": None},
    "/api/read/stream": {"path": "{}/dir/sub/file"},
    "/api/file": {"path": "{}/file", "mode": None},
    "/api/folder": {"path": "{}/dir", "format": None},
    "/api/backup/create": {"dir": "{}/dir", "archivePath": None, "name": None, "ttl": None, "excludes": None, "compression": None},
    "/api/list-files": {"path": "{}", "options": {"recursive": True, "limit": 3}},
    "/api/write": {"path": "{}/file", "content": "aGVsbG8=", "mode": "0644"},
    "/api/delete": {"path": "{}/dir", "recursive": True},
    "/api/rename": {"oldPath": "{}/file", "newPath": "{}/renamed"},
    "/api/move": {"sourcePath": "{}/dir", "destinationPath": "{}/renamed"},
    "/api/copy": {"sourcePath": "{}/dir", "destinationPath": "{}/copy"},
    "/api/mkdir": {"path": "{}/made"},
    "/api/chmod": {"path": "{}/file", "mode": "0755"},
    "/api/search": {"path": "{}", "pattern": "hello", "regex": None, "glob": None},
    "/api/find": {"path": "{}", "glob": None},
    "/api/replace": {"path": "{}/dir", "pattern": "hello", "regex": None, "glob": None},
    "/api/watch": {"path": "{}/dir", "include": None, "exclude": None},
    "/api/watch/check": {"path": "{}/dir", "include": None, "exclude": None, "since": None},
}


def archive():
    """A valid archive of a folder with one file."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w") as tar:
        member = tarfile.TarInfo("file")
        member.size = 5
        tar.addfile(member, io.BytesIO(b"hello"))
    return output.getvalue()


def number(text):
    """A number that depends only on the text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def harmless(command, args):
    """The text that replaces `command`."""
    # Invalid commands are unchanged: the server must refuse them.
    if not isinstance(command, str) or not command or "\0" in command:
        return command
    chosen = number(command)
    if isinstance(args, list):
        return PROGRAMS[chosen % len(PROGRAMS)]
    # Sometimes the text itself, as a quoted word that is printed.
    if chosen % 4 == 0:
        return f"printf %s {shlex.quote(command)}"
    return TEXTS[chosen % len(TEXTS)]


# The sessions created so far: generated names do not exist.
sessions = set()


def plausible(body):
    """Removes fields that are valid only by chance."""
    body = {name: value for name, value in body.items() if name not in CHANCY}
    if body.get("sessionId") not in tuple(sessions):
        body.pop("sessionId", None)
    for name, value in body.items():
        # In JSON Schema 3.0 is an integer; for most programs it is not.
        if isinstance(value, float) and value.is_integer():
            body[name] = int(value)
    return body


# Failures outside of a response. Schemathesis does not fail a run for some of it: a timeout or a
# broken hook within a sequence only ends the sequence.
troubles = []


def ask(path, body, accepted=(200,)):
    """Sends a request that prepares a generated one."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    try:
        answer = requests.post(URL + path, json=body, headers=headers, timeout=10)
    except requests.RequestException as error:
        troubles.append(f"POST {path} {json.dumps(body)}: {error!r}")
        raise
    if answer.status_code not in accepted:
        troubles.append(f"POST {path} {json.dumps(body)}: {answer.status_code} {answer.text}")
    return answer.json()


@schemathesis.hook
def after_network_error(context, case, request):
    """Fails on a request without a response, which is a hang or a crash."""
    troubles.append(f"{request.method} {request.url} {request.body!r}: no answer")


def find_scratch():
    """The directory of files. Exits unless the server is confined, because requests delete and write files."""
    root_is_read_only = """while read -r _ where _ options _; do if [[ $where == / ]]; then last=$options; fi
        done </proc/self/mounts; [[ ,$last, == *,ro,* ]]"""
    if ask("/api/execute", {"command": root_is_read_only})["exitCode"] != 0:
        raise SystemExit("The server can write to /. Use scripts/with-server --confined.")
    return ask("/api/execute", {"command": "mkdir -p fuzz && cd fuzz && pwd"})["stdout"].rstrip("\n")


SCRATCH = None


def scratch():
    """The directory below which all paths of requests are."""
    global SCRATCH
    SCRATCH = SCRATCH or find_scratch()
    return SCRATCH


def below(path):
    """The path below the directory. Invalid paths are unchanged: the server must refuse them."""
    if isinstance(path, list):
        return [below(one) for one in path]
    if not isinstance(path, str) or not path or "\0" in path:
        return path
    return "/".join([scratch(), *(part for part in path.split("/") if part not in ("", ".", ".."))])


def below_base64(path):
    """The same for a path in base64."""
    try:
        decoded = base64.b64decode(path, validate=True)
    except (TypeError, ValueError):
        return path
    if not decoded or b"\0" in decoded:
        return path
    parts = [part for part in decoded.split(b"/") if part not in (b"", b".", b"..")]
    return base64.b64encode(b"/".join([scratch().encode(), *parts])).decode()


def confined(fields):
    """Replaces every path in the fields of a body or a query."""
    fields = dict(fields)
    for name in PATHS & fields.keys():
        fields[name] = below(fields[name])
    for name in {f"{name}Base64" for name in PATHS} & fields.keys():
        fields[name] = below_base64(fields[name])
    return fields


def prepare_files():
    """Creates the files of SUCCEEDING."""
    script = "rm -rf made renamed copy dir file && mkdir -p dir/sub && echo hello >file && echo hello >dir/sub/file && ln -sf file link"
    ask("/api/execute", {"command": f"cd {shlex.quote(scratch())} && {script}"})


def succeeding(path, fields):
    """The fields of a request on files that succeeds, with the other generated fields."""
    prepare_files()
    chancy = {f"{name}Base64" for name in PATHS} | {"sessionId", "session"}
    fields = {name: value for name, value in fields.items() if name not in chancy}
    given = {name: value.replace("{}", scratch()) if isinstance(value, str) else value for name, value in SUCCEEDING[path].items()}
    return {name: value for name, value in {**fields, **given}.items() if value is not None}


def new_backup():
    """The id of a new backup. Others are deleted, because their number is limited."""
    headers = {"Authorization": f"Bearer {TOKEN}"} if TOKEN else {}
    for backup in requests.get(f"{URL}/api/backup/list", headers=headers, timeout=30).json()["backups"]:
        requests.delete(f"{URL}/api/backup/{backup['id']}", headers=headers, timeout=30)
    prepare_files()
    return ask("/api/backup/create", {"dir": f"{scratch()}/dir"})["id"]


class Accepting(http.server.BaseHTTPRequestHandler):
    """A server that takes parts of an archive."""

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(200)
        self.send_header("ETag", '"part"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def accepting():
    """The URL of a server that takes parts of an archive."""
    if not servers:
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Accepting))
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{servers[0].server_address[1]}/part"


servers = []


def living(path):
    """The id of an existing object, for a path parameter."""
    if path.startswith("/api/backup/{id}"):
        return new_backup()
    if path.startswith("/api/process/{id}"):
        waiting = {"command": WAITING, "keepStdinOpen": True, "timeoutMs": WAITING_MS}
        return ask("/api/process/start", waiting)["processId"]
    if path.startswith("/api/session/{id}"):
        name = f"kept-{number(path) % 4}"
        # It may exist already, or may have been deleted meanwhile.
        ask("/api/session/create", {"id": name}, accepted=(200, 409))
        return name
    if path.startswith("/api/service/{id}"):
        # It ends soon, and so does its stream. It may be running already.
        name = f"kept-service-{number(path) % 4}"
        ask("/api/service/start", {"serviceId": name, "command": "sleep 0.1"}, accepted=(200, 409))
        return name
    if path.startswith("/api/terminal/{id}"):
        # The same id gives the same terminal, or a new one if it has ended.
        return ask("/api/terminal/create", {"id": f"kept-terminal-{number(path) % 4}", "command": WAITING})["id"]
    return None


# Prints the path of a new repository with a remote, a commit and a staged file.
NEW_REPOSITORY = """d=$(mktemp -d); git init -q --bare -b main "$d/remote"; git init -q -b main "$d/repo"; cd "$d/repo"
git config user.name a; git config user.email a@b; git remote add origin "$d/remote"; echo 1 > a; git add a
git commit -qm 1; git push -q -u origin main; echo 2 > b; git add b; printf %s "$d"
"""


def in_repository(path):
    """A valid body of a git operation."""
    folder = ask("/api/execute", {"command": NEW_REPOSITORY})["stdout"]
    if path.endswith("/checkout"):
        return {"repoUrl": folder + "/remote", "targetDir": folder + "/clone"}
    body = {"path": folder + "/repo"}
    return {**body, "message": "2"} if path.endswith("/commit") else body


# The port that lucky requests expose and unexpose.
EXPOSED_PORT = 8123


def exposable(path, fields):
    """The fields of a request to expose or unexpose a port that succeeds."""
    listed = requests.get(f"{URL}/api/port/exposed", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30).json()
    for exposed in listed["ports"]:
        ask("/api/port/unexpose", {"port": exposed["port"]}, accepted=(200, 404))
    if path.endswith("/unexpose"):
        ask("/api/port/expose", {"port": EXPOSED_PORT})
    kept = {"token": fields["token"]} if isinstance(fields.get("token"), str) and fields["token"].isascii() else {}
    return {"port": EXPOSED_PORT, **(kept if path.endswith("/expose") else {})}


def bounded(parameters, most):
    """Limits a timeout. Invalid values are unchanged."""
    timeout = parameters.get("timeoutMs")
    is_long = isinstance(timeout, (int, float)) or (isinstance(timeout, str) and timeout.isascii() and timeout.isdigit())
    if timeout is None or (is_long and most < int(timeout) < 2**63):
        return {**parameters, "timeoutMs": most}
    return parameters


def run_nothing(body):
    """Replaces the command in a body by a harmless one."""
    body["command"] = harmless(body["command"], body.get("args"))
    if body.get("keepStdinOpen") is True and isinstance(body["command"], str):
        body["command"], body["args"], body["timeoutMs"] = WAITING, None, WAITING_MS


def without(query, *names):
    """A query without these parameters."""
    return {name: value for name, value in (query or {}).items() if name not in names}


def is_within(value, least, most):
    """Whether a generated number is valid. Invalid ones are unchanged."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def short_lived(body):
    """Makes a service end soon, with a harmless health check."""
    check, restart = body.get("healthCheck"), body.get("restart")
    if isinstance(check, dict) and isinstance(check.get("command"), str) and check["command"] and "\0" not in check["command"]:
        body["healthCheck"] = {**check, "command": harmless(check["command"], None)}
    if isinstance(restart, dict):
        restart = dict(restart)
        for name, least, value in [("maxRestarts", 0, 1), ("backoffMs", 100, 100), ("maxBackoffMs", 100, 100)]:
            if restart.get(name) is None or is_within(restart[name], least, 2**32 - 1 if least == 0 else 3_600_000):
                restart[name] = value
        body["restart"] = restart
    if is_within(body.get("readyTimeoutMs"), 100, 600_000):
        body["readyTimeoutMs"] = 100
    if body.get("waitForReady") is True and body.get("readyTimeoutMs") is None:
        body["readyTimeoutMs"] = 100


# Operations with a successful response.
succeeded = set()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Makes requests harmless in every phase, and valid requests able to succeed: all until one has, then every second."""
    is_due = case.operation.label not in succeeded or number(repr((case.path_parameters, case.body))) % 2
    lucky = case.meta.generation.mode.is_positive and is_due
    if lucky and (name := living(case.operation.path)):
        case.path_parameters = {"id": name}
    if case.query:
        case.query = confined(case.query)
    if isinstance(case.body, dict):
        case.body = confined(case.body)
    if lucky and case.operation.path in SUCCEEDING:
        for name in [*CHANCY_HEADERS, "If-Match", "If-None-Match", "If-Range"]:
            case.headers.pop(name, None)
        if isinstance(case.body, dict):
            case.body = succeeding(case.operation.path, case.body)
            case.query = {name: value for name, value in (case.query or {}).items() if name not in ("session", "sessionId")}
        else:
            case.query = succeeding(case.operation.path, case.query or {})
        if case.operation.path == "/api/folder" and case.method == "PUT":
            case.body = archive()
    if lucky and case.method == "GET" and case.operation.path.endswith("/stream"):
        # A generated cursor is beyond the end.
        case.query = without(case.query, "since")
        case.headers.pop("Last-Event-ID", None)
    most = LONGEST_MS.get(case.operation.path)
    if most is not None and case.method == "GET":
        case.query = bounded(case.query or {}, most)
    if most is not None and case.method == "POST" and isinstance(case.body, NotSet):
        case.body, case.media_type = {}, "application/json"
    if not isinstance(case.body, dict):
        return
    body = dict(case.body)
    if most is not None:
        body = bounded(body, most)
    if "command" in body:
        if lucky:
            body = plausible(body)
            for name in CHANCY_HEADERS:
                case.headers.pop(name, None)
            case.headers.pop("Last-Event-ID", None)
            case.query = without(case.query, "session", "sessionId", "since")
        run_nothing(body)
    if case.operation.path == "/api/service/start":
        short_lived(body)
    if lucky and case.operation.path == "/api/terminal/{id}/wait":
        body = {"idleMs": 10, "timeoutMs": 1000}
    if lucky and case.operation.path == "/api/backup/restore":
        body = {"dir": f"{scratch()}/copy", "id": new_backup()}
    if lucky and case.operation.path == "/api/backup/upload-parts":
        body = {"id": new_backup(), "parts": [{"partNumber": 1, "url": accepting(), "offset": 0, "size": 10}]}
    if lucky and case.operation.path.startswith("/api/git/"):
        body = in_repository(case.operation.path)
    if lucky and case.operation.path in ("/api/port/expose", "/api/port/unexpose"):
        body = exposable(case.operation.path, body)
    if lucky and case.operation.path == "/api/session/delete":
        body["sessionId"] = ask("/api/session/create", {})["data"]["id"]
    if lucky and isinstance(body.get("signal"), str):
        body["signal"] = SIGNALS[number(body["signal"]) % len(SIGNALS)]
    if case.operation.path == "/api/port-watch" and isinstance(body.get("processId"), (str, type(None))):
        # The stream ends with the process, and not before the port is ready.
        body["processId"] = ask("/api/execute", {"command": "true"})["executionId"]
    if body != case.body:
        case.body = body


@schemathesis.hook
def after_call(context, case, response):
    """Records operations that have succeeded, and created sessions."""
    if response.status_code < 300:
        succeeded.add(case.operation.label)
    if response.status_code == 200 and case.operation.definition.raw.get("operationId") in MAKES_SESSION:
        sessions.add(response.json()["data"]["id"])


def events_of(content):
    """The data of the events of a stream. The last event may be incomplete if the stream was closed by the client."""
    # Not splitlines(), which also splits at other characters that a JSON string may contain.
    events = content.decode().split("\n\n")[:-1]
    lines = [line for event in events for line in event.split("\n") if line.startswith("data:")]
    return [json.loads(line[5:]) for line in lines]


@schemathesis.deserializer("text/event-stream")
def read_events(context, response):
    """Validates each event against the schema of the stream, which describes its `data`."""
    return events_of(response.content)


@schemathesis.check
def every_stream_ends(ctx, response, case):
    """Checks that an event stream ends within the timeout, with a last event."""
    content_type = (response.headers.get("content-type") or [""])[0]
    if case.operation.path in ENDLESS or not content_type.startswith("text/event-stream"):
        return
    assert not response.stream_cut_short, "the stream did not end within the timeout"
    events = events_of(response.content)
    assert events, "the stream ended without an event"
    last = events[-1]["type"]
    assert last in LAST_EVENTS, f"the stream ended with the event {last!r}"


@schemathesis.check
class EveryOperationIsReached:
    """Checks that each operation was called often enough, and succeeded at least once."""

    def __init__(self):
        self.tried = {}
        self.reached = set()
        self.with_input = set()

    def after_response(self, ctx, response, case):
        label = case.operation.label
        self.tried.setdefault(label, set()).add(case.id)
        # An operation without parameters has only one possible request. Every operation accepts a request id.
        definition = case.operation.definition.raw
        if len(definition.get("parameters", [])) > 1 or "requestBody" in definition:
            self.with_input.add(label)
        # A WebSocket cannot be opened with generated headers.
        if response.status_code < 300 or (response.status_code == 426 and "x-websocket" in definition):
            self.reached.add(label)

    def after_run(self, ctx):
        counts = {label: len(cases) for label, cases in self.tried.items()}
        for label, count in earlier("examples.json").items():
            counts[label] = counts.get(label, 0) + count
        with open("examples.json", "w", encoding="utf-8") as file:
            json.dump(counts, file, indent=2, sort_keys=True)
        # For scripts/fuzz-api, which repeats these.
        with open("few", "w", encoding="utf-8") as file:
            file.writelines(f"{label}\n" for label in sorted(self.with_input) if counts[label] < EXAMPLES)
        missed = sorted(self.tried.keys() - self.reached)
        assert not missed, f"these operations never succeeded: {', '.join(missed)}"


def earlier(name):
    """The counts of an earlier pass."""
    if not os.path.exists(name):
        return {}
    with open(name, encoding="utf-8") as file:
        return json.load(file)


@schemathesis.check
class NothingGoesUnseen:
    """Checks that every request got a response, and that no preparing request was refused."""

    def after_run(self, ctx):
        some = "\n".join(troubles[:5])
        assert not troubles, f"{len(troubles)} times, of which the first are:\n{some}"
