"""`AsyncCalls`: the calls that a sandbox and a session share."""

from __future__ import annotations

from .backups import AsyncBackups
from .exec import AsyncCommands
from .files import AsyncFiles
from .git import AsyncGit
from .ports import AsyncPorts
from .processes import AsyncProcesses
from .search import AsyncSearch
from .service import AsyncServices
from .terminals import AsyncTerminals
from .tools import AsyncTools
from .transfer import AsyncTransfer
from .watch import AsyncWatch


class AsyncCalls(
    AsyncCommands,
    AsyncProcesses,
    AsyncServices,
    AsyncTerminals,
    AsyncFiles,
    AsyncTransfer,
    AsyncSearch,
    AsyncWatch,
    AsyncPorts,
    AsyncGit,
    AsyncBackups,
    AsyncTools,
):
    """The calls that a session binds to itself. Those of a sandbox are without a session, unless `session_id` is given."""
