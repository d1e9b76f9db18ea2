"""The Python SDK of MCP, over standard input and output and over HTTP, with the protocols before and since 2026-07-28.

Usage: client.py SANDCRAB URL TOKEN FOLDER
"""
import asyncio
import os
import pathlib
import sys
import time
import traceback

from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

PROGRAM, URL, TOKEN = sys.argv[1:4]
FOLDER = pathlib.Path(sys.argv[4])
DEADLINE_S = 60.0


def stdio():
    environment = {"PATH": os.environ["PATH"], "SANDCRAB_URL": URL, "SANDCRAB_TOKEN": TOKEN}
    return StdioServerParameters(command=PROGRAM, args=["mcp"], env=environment)


def http():
    client = create_mcp_http_client(headers={"Authorization": f"Bearer {TOKEN}"})
    return streamable_http_client(f"{URL}/mcp", http_client=client)


async def eventually(what, look):
    deadline = time.monotonic() + DEADLINE_S
    while not (found := look()):
        assert time.monotonic() < deadline, f"not in time: {what}"
        await asyncio.sleep(0.01)
    return found


async def fields(client, tool, **arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def lists_tools(client, name):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert tools["exec"].input_schema["required"] == ["command"]
    assert tools["file_read"].annotations.read_only_hint is True
    assert tools["file_delete"].annotations.destructive_hint is True


async def runs_a_command(client, name):
    result = await client.call_tool("exec", {"command": "echo out; echo err >&2; exit 3"})
    assert result.content[0].text.startswith("out\nerr\n[exit code 3, "), result
    content = result.structured_content
    assert (content["stdout"], content["stderr"], content["exitCode"]) == ("out\n", "err\n", 3)


async def continues_cut_output_at_its_cursor(client, name):
    whole = "".join(f"{i} é€\n" for i in range(1, 2001))
    cut = await fields(client, "exec", command='for i in $(seq 2000); do echo "$i é€"; done', maxOutputBytes=500)
    cursor, more = cut["omitted"]["cursor"], True
    seen = whole.encode()[: int(cursor)].decode()
    while more:
        part = await fields(client, "process_output", id=cut["executionId"], cursor=cursor, maxOutputBytes=9000)
        seen += part["stdout"]
        cursor, more = part["cursor"], part.get("more", False)
    assert seen == whole


async def reports_progress(client, name):
    # The command ends when its output was reported.
    file = FOLDER / f"py-{name}.reported"
    seen = []

    async def note(progress, total, message):
        seen.append((progress, message))
        if message == "first":
            file.touch()

    command = f"echo first; until [ -e {file} ]; do sleep 0.05; done"
    await client.call_tool("exec", {"command": command}, progress_callback=note)
    assert seen[0][1].startswith("started execution x-"), seen
    assert all(before[0] < after[0] for before, after in zip(seen, seen[1:])), seen


async def ends_a_cancelled_command(client, name):
    file = FOLDER / f"py-{name}.pid"
    command = f"echo $$ > {file}.tmp; mv {file}.tmp {file}; while :; do sleep 300; done"
    running = asyncio.create_task(client.call_tool("exec", {"command": command}))
    pid = (await eventually("the command runs", lambda: file.exists() and file.read_text())).strip()
    running.cancel()
    try:
        await running
        raise AssertionError("it was not cancelled")
    except asyncio.CancelledError:
        pass
    await eventually(f"process {pid} is gone", lambda: not os.path.exists(f"/proc/{pid}"))
    assert (await fields(client, "exec", command="echo next"))["stdout"] == "next\n"


async def keeps_the_state_of_a_session(client, name):
    session = f"py-{name}"
    await fields(client, "session_create", id=session)
    await fields(client, "exec", command="cd /; X=kept", sessionId=session)
    assert (await fields(client, "exec", command="echo $X $PWD", sessionId=session))["stdout"] == "kept /\n"
    await fields(client, "session_control", id=session, action="delete")


async def writes_edits_and_reads_a_file(client, name):
    path = str(FOLDER / f"py-{name}.txt")
    await fields(client, "file_write", path=path, content="one\ntwo é\n")
    await fields(client, "file_edit", path=path, oldText="two", newText="2")
    assert (await fields(client, "file_read", path=path, startLine=2))["content"] == "2 é\n"
    contents = (await client.read_resource(f"sandcrab://file{path}")).contents
    assert contents[0].text == "one\n2 é\n", contents
    await fields(client, "file_delete", path=path)


async def drives_a_program_in_a_terminal(client, name):
    terminal = f"t-py-{name}"
    await fields(client, "terminal_open", id=terminal, command="bash", args=["--norc", "--noprofile", "-i"])
    await fields(client, "terminal_send", id=terminal, text="echo $((6 * 7)) is the answer", keys=["enter"])
    screen = await fields(client, "terminal_wait", id=terminal, text="42 is the answer", timeoutMs=60_000)
    assert "\n42 is the answer" in screen["text"], screen
    await fields(client, "terminal_close", id=terminal)


async def distinguishes_errors_of_tools_and_of_the_protocol(client, name):
    wrong = await client.call_tool("exec", {"comand": "x"})
    assert wrong.is_error and "`comand`" in wrong.content[0].text, wrong
    missing = await client.call_tool("exec", {"command": "x", "sessionId": "none"})
    assert missing.structured_content["error"]["code"] == "SESSION_NOT_FOUND", missing
    try:
        await client.call_tool("none", {})
        raise AssertionError("an unknown tool was called")
    except MCPError as error:
        assert error.error.code == -32602, error


CASES = [
    lists_tools,
    runs_a_command,
    continues_cut_output_at_its_cursor,
    reports_progress,
    ends_a_cancelled_command,
    keeps_the_state_of_a_session,
    writes_edits_and_reads_a_file,
    drives_a_program_in_a_terminal,
    distinguishes_errors_of_tools_and_of_the_protocol,
]


async def main():
    passed = failed = 0
    for name, transport, mode in [("stdio", stdio, "auto"), ("http", http, "auto"), ("legacy-http", http, "legacy")]:
        async with Client(transport(), mode=mode) as client:
            for case in CASES:
                title = f"Python, {name} ({client.protocol_version}): {case.__name__.replace('_', ' ')}"
                try:
                    await asyncio.wait_for(case(client, name), 2 * DEADLINE_S)
                    passed += 1
                    print(f"ok       {title}")
                except Exception:
                    failed += 1
                    print(f"FAILED   {title}: {traceback.format_exc()}")
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; 0 ignored")
    return 1 if failed else 0


sys.exit(asyncio.run(main()))
