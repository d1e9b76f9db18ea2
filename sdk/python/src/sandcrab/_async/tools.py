"""`AsyncToolSet`: the tools of the server for language models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..errors import ValidationError
from ..tools import SESSION, Tool, ToolResult, request_of, result_of, tool_of, tool_result_of
from .bound import AsyncBound
from .http import AsyncHttp


class AsyncToolSet:
    """Tools for a language model: iterate over their definitions, and call them by name.

    The tools of a session run in that session. `sandcrab.langchain` and `sandcrab.openai_agents` have them in the shape of those
    frameworks.
    """

    def __init__(self, http: AsyncHttp, definitions: list[dict[str, Any]], session_id: str | None) -> None:
        self._http = http
        self._session_id = session_id
        self._tools = {found["name"]: tool_of(found, session_id is not None) for found in definitions}
        self._with_session = {found["name"] for found in definitions if SESSION in found["inputSchema"]["properties"]}

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def __getitem__(self, name: str) -> Tool:
        if name not in self._tools:
            raise ValidationError(f"unknown tool {name!r}; expected one of {', '.join(self._tools)}")
        return self._tools[name]

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Calls a tool. Invalid arguments and errors of the sandbox are results: their text is for the model.

        If the call is cancelled or interrupted, a command that it runs is ended. A call is not repeated after a lost connection.
        """
        given = {**(arguments or {})}
        if self._session_id is not None and self[name].name in self._with_session:
            given[SESSION] = self._session_id
        body, headers = request_of("tools/call", {"name": self[name].name, "arguments": given})
        return tool_result_of(
            result_of(await self._http.request("POST", ("mcp",), json=body, headers=headers, is_long=True))
        )


class AsyncTools(AsyncBound):
    """The calls for agents."""

    async def tools(self) -> AsyncToolSet:
        """Reads the tools that the server offers to language models."""
        body, headers = request_of("tools/list", {})
        listed = result_of(await self._http.request("POST", ("mcp",), json=body, headers=headers, is_repeatable=True))
        return AsyncToolSet(self._http, listed["tools"], self._session_id)
