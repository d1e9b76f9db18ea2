"""`AsyncSession`: a shell whose state is kept."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Literal

from .. import models
from ..errors import SessionNotFoundError, ignored_at_exit
from ..requests import LIST_ROUTE, Env, Path, checked_id, fields, new_id
from .bound import AsyncBound
from .calls import AsyncCalls
from .ending import AsyncEnd, start
from .http import AsyncHttp

DELETE = ("api", "session", "delete")


class AsyncSession(AsyncCalls):
    """A shell that keeps its state between commands: working directory, variables, functions, options.

    It has the calls of the sandbox, bound to the session. Its commands run one after the other. `async with` deletes it at the end of
    the block.
    """

    def __init__(self, http: AsyncHttp, session_id: str, cwd: str | None, max_output_bytes: int | None = None) -> None:
        super().__init__(http, session_id, max_output_bytes)
        self.id = session_id
        # The working directory when this object was made.
        self.cwd = cwd

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}>"

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        with suppress(*ignored_at_exit(kind)):
            await self.delete()

    async def get_info(self) -> models.Session:
        """Reads its working directory, and whether a command runs."""
        return (await self._http.get(models.SessionResponse, self._route())).session

    async def set_env_vars(self, vars: Env) -> None:
        """Sets variables of the shell. `None` unsets one."""
        await self._http.post(models.SuccessResponse, self._route("env"), {"vars": dict(vars)})

    async def interrupt(self, *, signal: str | None = None, grace: float | None = None) -> models.SessionEnded:
        """Ends the running command. The shell keeps its state."""
        return await self._http.post(models.SessionEnded, self._route("interrupt"), fields(signal=signal, grace=grace))

    async def fork(self, id: str | None = None) -> AsyncSession:
        """Creates a session with the state of this one."""
        return await create(self._http, self._route("fork"), {}, id, self._max_output_bytes)

    async def reset(self, *, restore: bool | None = None) -> None:
        """Starts a fresh shell. With `restore` it has the state of the old one."""
        await self._http.post(models.SuccessResponse, self._route("reset"), fields(restore=restore))

    async def delete(self) -> models.SessionEnded:
        """Ends the shell and what runs in it."""
        return await delete_session(self._http, self.id)

    def _route(self, *rest: str) -> tuple[str, ...]:
        return ("api", "session", checked_id(self.id, LIST_ROUTE), *rest)


class AsyncSessions(AsyncBound):
    """The calls for sessions."""

    async def create_session(
        self,
        id: str | None = None,
        *,
        name: str | None = None,
        env: Env | None = None,
        cwd: Path | None = None,
        command_timeout: float | None = None,
        max_output_size_bytes: int | None = None,
        on_shell_exit: Literal["restore", "terminate"] = "restore",
        user: str | None = None,
    ) -> AsyncSession:
        """Creates a session. A command that ends the shell, such as `exit`, only ends itself, unless `on_shell_exit` is `terminate`."""
        body: dict[str, Any] = fields(
            name=name,
            env=env,
            cwd=cwd,
            command_timeout=command_timeout,
            max_output_size_bytes=max_output_size_bytes,
            on_shell_exit=on_shell_exit,
            user=user,
        )
        return await create(self._http, ("api", "session", "create"), body, id, max_output_size_bytes)

    async def get_session(self, session_id: str) -> AsyncSession | None:
        """Returns a session; None if the id is unknown."""
        session = AsyncSession(self._http, session_id, None)
        try:
            session.cwd = (await session.get_info()).cwd
        except SessionNotFoundError:
            return None
        return session

    async def list_sessions(self) -> list[models.Session]:
        """Lists the sessions."""
        return (await self._http.get(models.SessionList, ("api", "session", "list"))).sessions

    async def delete_session(self, session_id: str) -> models.SessionEnded:
        """Ends a session and what runs in it."""
        return await delete_session(self._http, session_id)


async def create(
    http: AsyncHttp, path: tuple[str, ...], body: dict[str, Any], session_id: str | None, max_output_bytes: int | None
) -> AsyncSession:
    """Creates a session with the given id or a new one."""
    chosen = session_id if session_id is not None else new_id("session")
    end = None
    if session_id is None:
        end = AsyncEnd(http, DELETE, method="POST", json={"sessionId": chosen})
    created = models.SessionCreated.parse(await start(http, path, {**body, "id": chosen}, end))
    return AsyncSession(http, created.id, created.data.cwd, max_output_bytes)


async def delete_session(http: AsyncHttp, session_id: str) -> models.SessionEnded:
    """Ends a session."""
    return await http.post(models.SessionEnded, DELETE, {"sessionId": session_id})
