"""The tools of a sandbox for the OpenAI Agents SDK. Requires `openai-agents`: `pip install sandcrab[openai-agents]`.

from sandcrab import AsyncSandbox
from sandcrab.openai_agents import openai_tools

async with AsyncSandbox() as sandbox:
    agent = Agent(name="coder", tools=openai_tools(await sandbox.tools()))
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, cast

from agents import FunctionTool, RunContextWrapper

from . import AsyncToolSet
from .tools import Tool


def openai_tools(tools: AsyncToolSet, names: Collection[str] | None = None) -> list[FunctionTool]:
    """Returns the tools, or those with these names. An error of a tool is a text for the model."""
    chosen = list(tools) if names is None else [tools[name] for name in names]
    return [_tool(tools, tool) for tool in chosen]


def _tool(tools: AsyncToolSet, tool: Tool) -> FunctionTool:
    async def invoke(_: RunContextWrapper[Any], arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError as error:
            return f"the arguments are not valid JSON: {error}"
        if not isinstance(given, dict):
            return "the arguments are not a JSON object"
        return (await tools.call(tool.name, cast("dict[str, Any]", given))).text

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.input_schema,
        on_invoke_tool=invoke,
        # Strict schemas have no optional arguments.
        strict_json_schema=False,
    )
