"""The tools of a sandbox for LangChain. Requires `langchain-core`: `pip install sandcrab[langchain]`.

from sandcrab import Sandbox
from sandcrab.langchain import langchain_tools

with Sandbox() as sandbox:
    agent = create_agent(model, langchain_tools(sandbox.tools()))
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from langchain_core.tools import StructuredTool, ToolException

from . import AsyncToolSet, ToolSet
from .tools import Tool, ToolResult


def langchain_tools(tools: ToolSet | AsyncToolSet, names: Collection[str] | None = None) -> list[StructuredTool]:
    """Returns the tools, or those with these names. Those of an `AsyncSandbox` can only be awaited.

    The artifact of a message has the fields of the result. An error of a tool is a message with the status `error`.
    """
    chosen = list(tools) if names is None else [tools[name] for name in names]
    return [_tool(tools, tool) for tool in chosen]


def _tool(tools: ToolSet | AsyncToolSet, tool: Tool) -> StructuredTool:
    run: dict[str, Any]
    if isinstance(tools, ToolSet):
        blocking = tools

        def call(**arguments: Any) -> tuple[str, dict[str, Any]]:
            return _answer(blocking.call(tool.name, arguments))

        run = {"func": call}
    else:
        awaited = tools

        async def call_async(**arguments: Any) -> tuple[str, dict[str, Any]]:
            return _answer(await awaited.call(tool.name, arguments))

        run = {"coroutine": call_async}
    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=tool.input_schema,
        response_format="content_and_artifact",
        handle_tool_error=True,
        **run,
    )


def _answer(result: ToolResult) -> tuple[str, dict[str, Any]]:
    if result.is_error:
        raise ToolException(result.text)
    return result.text, result.fields
