"""The tools of a server for language models: what they are, and the messages that call them.

They are those of `sandcrab mcp` and `sandcrab tools`. A call is one request of the Model Context Protocol, without a session.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .errors import InvalidResponseError, ValidationError
from .sse import Parser

# The first version of the protocol whose requests need no session.
PROTOCOL = "2026-07-28"
META = "io.modelcontextprotocol/"
# The argument that binds a tool to a session.
SESSION = "sessionId"


@dataclass(frozen=True)
class Tool:
    """The definition of a tool."""

    name: str
    description: str
    # JSON Schema of the arguments.
    input_schema: dict[str, Any]
    # Whether it changes nothing.
    is_read_only: bool
    # Whether it may change, end or run something.
    is_destructive: bool


@dataclass(frozen=True)
class ToolResult:
    """The result of a tool. An error is a result too: its text tells the model what to do."""

    # For the model. Long output is cut, and names the cursor that continues it.
    text: str
    # The same for programs.
    fields: dict[str, Any]
    is_error: bool


def request_of(method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns the body and the headers of a request."""
    meta: dict[str, Any] = {META + "protocolVersion": PROTOCOL, META + "clientCapabilities": {}}
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": PROTOCOL, "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    return body, headers


def result_of(content: bytes) -> dict[str, Any]:
    """Returns the result in a response, which is a message or a stream of them."""
    is_message = content.lstrip()[:1] == b"{"
    messages = [content] if is_message else [message.data for message in Parser().push(content)]
    for text in messages:
        try:
            message: dict[str, Any] = json.loads(text)
        except ValueError as error:
            raise InvalidResponseError(f"invalid response: a message is invalid: {error}") from error
        if "error" in message:
            refusal: dict[str, Any] = message["error"]
            raise ValidationError(str(refusal.get("message", refusal)), context={"jsonrpc": refusal})
        if "result" in message:
            result: dict[str, Any] = message["result"]
            return result
    raise InvalidResponseError("invalid response: it has no result")


def tool_of(definition: dict[str, Any], is_bound: bool) -> Tool:
    """Returns a tool from its definition. One that is bound to a session does not ask for the session."""
    schema = dict(definition["inputSchema"])
    if is_bound:
        schema["properties"] = {name: value for name, value in schema["properties"].items() if name != SESSION}
    annotations: dict[str, Any] = definition.get("annotations") or {}
    return Tool(
        name=definition["name"],
        description=definition.get("description", ""),
        input_schema=schema,
        is_read_only=annotations.get("readOnlyHint") is True,
        is_destructive=annotations.get("destructiveHint") is True,
    )


def tool_result_of(result: dict[str, Any]) -> ToolResult:
    """Returns the result of a call."""
    text = "\n".join(block["text"] for block in result.get("content", []) if block.get("type") == "text")
    return ToolResult(text, result.get("structuredContent") or {}, result.get("isError") is True)
