"""The tools for language models, and the frameworks that call them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from conftest import Box, done
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from server import PATIENCE

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import ValidationError
from sandcrab.langchain import langchain_tools
from sandcrab.openai_agents import openai_tools

ENDLESS = "while sleep 0.1; do :; done; : {}"


async def test_tools_are_listed_and_called(box: Box, unique: str) -> None:
    async with box:
        tools = await done(box.tools())
        assert tools["exec"].input_schema["required"] == ["command"]
        assert tools["file_read"].is_read_only and not tools["file_read"].is_destructive
        assert tools["file_delete"].is_destructive and len(tools) == len(list(tools)) > 20
        result = await done(tools.call("exec", {"command": "echo out; exit 3"}))
        assert result.text.startswith("out\n[exit code 3, ")
        assert (result.fields["stdout"], result.fields["exitCode"], result.is_error) == ("out\n", 3, False)
        # The model is told what is wrong.
        wrong = await done(tools.call("exec", {"comand": "x"}))
        assert wrong.is_error and "`comand`" in wrong.text
        with pytest.raises(ValidationError, match="unknown tool"):
            await done(tools.call("none"))


@pytest.mark.parametrize(
    ("form", "where"), [("openai", "parameters"), ("anthropic", "input_schema"), ("json", "inputSchema")]
)
def test_the_program_prints_the_same_tools(address: tuple[str, str], form: str, where: str) -> None:
    printed = subprocess.run([os.environ["SANDCRAB"], "tools", "--format", form], capture_output=True, check=True)
    with Sandbox(*address) as sandbox:
        tools = sandbox.tools()
    listed = [tool.get("function", tool) for tool in json.loads(printed.stdout)]
    assert [tool["name"] for tool in listed] == [tool.name for tool in tools]
    for tool in listed:
        # What providers accept as a name.
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]) and 0 < len(tool["description"]) < 1024
        assert tool[where] == tools[tool["name"]].input_schema
        assert tool[where]["type"] == "object"
        Draft202012Validator.check_schema(tool[where])


async def test_long_output_continues_at_its_cursor(box: Box) -> None:
    async with box:
        tools = await done(box.tools())
        whole = "".join(f"{number} é€\n" for number in range(5000))
        command = 'for i in {0..4999}; do echo "$i é€"; done'
        cut = (await done(tools.call("exec", {"command": command, "maxOutputBytes": 500}))).fields
        cursor, more = cut["omitted"]["cursor"], True
        seen = whole.encode()[: int(cursor)].decode()
        while more:
            read = {"id": cut["executionId"], "cursor": cursor}
            part = (await done(tools.call("process_output", read))).fields
            seen += part["stdout"]
            cursor, more = part["cursor"], part.get("more", False)
        assert seen == whole


async def test_tools_of_a_session_run_in_it(box: Box) -> None:
    async with box:
        session = await done(box.create_session(cwd="/usr"))
        tools = await done(session.tools())
        assert "sessionId" not in tools["exec"].input_schema["properties"]
        await done(tools.call("exec", {"command": "cd share; NAME=kept"}))
        result = await done(tools.call("exec", {"command": "echo $NAME $PWD"}))
        assert result.fields["stdout"] == "kept /usr/share\n"
        # Not every tool takes a session.
        assert session.id in (await done(tools.call("session_list"))).text
        await done(session.delete())


async def test_a_cancelled_call_ends_its_command(address: tuple[str, str], unique: str) -> None:
    async with AsyncSandbox(*address) as sandbox:
        tools = await sandbox.tools()
        task = asyncio.create_task(tools.call("exec", {"command": ENDLESS.format(unique), "timeoutMs": 0}))
        await until_it(sandbox, unique, "running")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_it(sandbox, unique, "killed")


async def until_it(sandbox: AsyncSandbox, mark: str, status: str) -> None:
    """Waits until the command with this mark has a status."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = [process for process in await sandbox.list_processes(all=True) if mark in process.command]
        if found and found[0].status == status:
            return
        assert time.monotonic() < deadline, found
        await asyncio.sleep(0.01)


def test_langchain(address: tuple[str, str], unique: str) -> None:
    """A scripted model writes a file, and reads it with an error on the way."""
    path = f"langchain-{unique}"
    calls = [
        ("file_write", {"path": path, "content": "written\n"}),
        ("file_read", {"path": path + "-none"}),
        ("exec", {"command": f"cat {path}; rm {path}"}),
    ]
    replies = [
        AIMessage("", tool_calls=[{"name": name, "args": args, "id": str(index)}])
        for index, (name, args) in enumerate(calls)
    ]
    model = FakeMessagesListChatModel(responses=[*replies, AIMessage("finished")])
    with Sandbox(*address) as sandbox:
        tools = {tool.name: tool for tool in langchain_tools(sandbox.tools())}
        function = convert_to_openai_tool(tools["exec"])["function"]
        assert function["name"] == "exec" and function["parameters"]["required"] == ["command"]
        messages: list[Any] = [("user", "go")]
        while (reply := model.invoke(messages)).content != "finished":
            messages.append(reply)
            messages += [tools[call["name"]].invoke(call) for call in reply.tool_calls]
    answers = [message for message in messages if isinstance(message, ToolMessage)]
    assert [answer.status for answer in answers] == ["success", "error", "success"]
    assert "FILE_NOT_FOUND" in answers[1].text
    assert answers[2].text.startswith("written\n[exit code 0") and answers[2].artifact["exitCode"] == 0


async def test_langchain_with_asyncio(address: tuple[str, str], unique: str) -> None:
    async with AsyncSandbox(*address) as sandbox:
        (tool,) = langchain_tools(await sandbox.tools(), ["exec"])
        assert (await tool.ainvoke({"command": "echo awaited"})).startswith("awaited\n")
        task = asyncio.create_task(tool.ainvoke({"command": ENDLESS.format(unique), "timeoutMs": 0}))
        await until_it(sandbox, unique, "running")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until_it(sandbox, unique, "killed")


class Script(Model):
    """A model that makes these calls, then says what the last one returned."""

    def __init__(self, calls: list[tuple[str, str]]) -> None:
        self.calls = calls
        self.seen: list[str] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **__: Any) -> ModelResponse:
        self.seen = [item["output"] for item in input if item.get("type") == "function_call_output"]
        if len(self.seen) < len(self.calls):
            name, arguments = self.calls[len(self.seen)]
            number = f"call-{len(self.seen)}"
            item: Any = ResponseFunctionToolCall(
                name=name, arguments=arguments, call_id=number, id=number, type="function_call"
            )
        else:
            text = ResponseOutputText(text=self.seen[-1], annotations=[], type="output_text")
            item = ResponseOutputMessage(
                id="message", role="assistant", status="completed", type="message", content=[text]
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def test_openai_agents(address: tuple[str, str]) -> None:
    calls = [
        ("exec", '{"command": "X=kept; cd /"}'),
        ("exec", "{not json"),
        ("exec", '{"comand": "x"}'),
        ("exec", '{"command": "echo $X in $PWD"}'),
    ]
    async with AsyncSandbox(*address) as sandbox, await sandbox.create_session() as session:
        model = Script(calls)
        tools = openai_tools(await session.tools(), ["exec", "file_read"])
        assert [tool.name for tool in tools] == ["exec", "file_read"]
        json.dumps([tool.params_json_schema for tool in tools])
        agent = Agent(name="coder", model=model, tools=[*tools])
        result = await Runner.run(agent, "go", run_config=RunConfig(tracing_disabled=True))
        assert result.final_output.startswith("kept in /\n[exit code 0")
        assert "not valid JSON" in model.seen[1] and "`comand`" in model.seen[2]
