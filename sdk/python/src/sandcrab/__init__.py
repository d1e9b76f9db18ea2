"""Sandcrab: commands, sessions, processes, terminals and files of a sandbox.

`Sandbox` blocks, `AsyncSandbox` is for asyncio. They have the same calls. All times are in seconds.

    from sandcrab import Sandbox

    with Sandbox("http://127.0.0.1:7070", token=token) as sandbox:
        print(sandbox.exec("echo hello").stdout)
"""

from __future__ import annotations

from . import errors, models
from ._async.events import AsyncEvents
from ._async.file import AsyncFile
from ._async.process import AsyncProcess
from ._async.sandbox import AsyncSandbox
from ._async.service import AsyncService
from ._async.session import AsyncSession
from ._async.terminals import AsyncTerminal
from ._async.text_file import AsyncTextFile
from ._async.tools import AsyncToolSet
from ._async.viewer import AsyncViewer
from ._model import UnknownEvent
from ._sync.events import Events
from ._sync.file import File
from ._sync.process import Process
from ._sync.sandbox import Sandbox
from ._sync.service import Service
from ._sync.session import Session
from ._sync.terminals import Terminal
from ._sync.text_file import TextFile
from ._sync.tools import ToolSet
from ._sync.viewer import Viewer
from .errors import SandcrabError
from .frames import TerminalOutput
from .models import GitAuthor, GitCredentials, HealthCheck, Limits, RestartPolicy
from .result import ExecResult
from .tools import Tool, ToolResult

__version__ = "0.1.0"

__all__ = [
    "AsyncEvents",
    "AsyncFile",
    "AsyncProcess",
    "AsyncSandbox",
    "AsyncService",
    "AsyncSession",
    "AsyncTerminal",
    "AsyncTextFile",
    "AsyncToolSet",
    "AsyncViewer",
    "Events",
    "ExecResult",
    "File",
    "GitAuthor",
    "GitCredentials",
    "HealthCheck",
    "Limits",
    "Process",
    "RestartPolicy",
    "Sandbox",
    "SandcrabError",
    "Service",
    "Session",
    "Terminal",
    "TerminalOutput",
    "TextFile",
    "Tool",
    "ToolResult",
    "ToolSet",
    "UnknownEvent",
    "Viewer",
    "errors",
    "models",
]
