"""Git."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import models
from ..errors import ConnectionLostError
from ..requests import Path, fields
from ..streams import GIT
from ._runtime import answered
from .bound import AsyncBound
from .events import AsyncEvents

Credentials = models.GitCredentials | Mapping[str, str]
Author = models.GitAuthor | Mapping[str, str]


class AsyncGit(AsyncBound):
    """The calls that run git. `path` is a directory in the repository. Credentials are `username` and `password`."""

    async def git_checkout(
        self,
        repo_url: str,
        target_dir: Path | None = None,
        *,
        branch: str | None = None,
        depth: int | None = None,
        timeout: float | None = None,
        credentials: Credentials | None = None,
        on_progress: Callable[[models.GitProgressEvent], Any] | None = None,
        session_id: str | None = None,
    ) -> models.GitCheckoutResult:
        """Clones a repository. The clone appears when it is complete. `on_progress` is called with its progress."""
        body = self._git(
            None,
            session_id,
            repo_url=repo_url,
            target_dir=target_dir,
            branch=branch,
            depth=depth,
            timeout=timeout,
            credentials=credentials,
        )
        path = ("api", "git", "checkout")
        if on_progress is None:
            return await self._http.post(models.GitCheckoutResult, path, body, is_long=True)
        async with AsyncEvents(self._http, GIT, "POST", path, json=body) as events:
            async for event in events:
                if isinstance(event, models.GitProgressEvent):
                    await answered(on_progress(event))
                elif isinstance(event, models.GitCompleteEvent):
                    return models.GitCheckoutResult.parse({**events.last_body, "success": True})
        raise ConnectionLostError("the clone ended without a result")

    async def git_status(self, path: Path = ".", *, session_id: str | None = None) -> models.GitStatus:
        """Reads the branch, and the state of files in index and worktree."""
        return await self._http.post(
            models.GitStatus, ("api", "git", "status"), self._git(path, session_id), is_repeatable=True
        )

    async def git_diff(
        self,
        path: Path = ".",
        *,
        paths: Sequence[str] | None = None,
        branch: str | None = None,
        staged: bool | None = None,
        session_id: str | None = None,
    ) -> models.GitDiff:
        """Reads the changes of the worktree or, with `staged`, of the index; or those since `branch`."""
        body = self._git(path, session_id, paths=paths, branch=branch, staged=staged)
        return await self._http.post(models.GitDiff, ("api", "git", "diff"), body, is_repeatable=True)

    async def git_log(
        self,
        path: Path = ".",
        *,
        paths: Sequence[str] | None = None,
        branch: str | None = None,
        limit: int | None = None,
        session_id: str | None = None,
    ) -> models.GitLog:
        """Reads commits, the newest first."""
        body = self._git(path, session_id, paths=paths, branch=branch, limit=limit)
        return await self._http.post(models.GitLog, ("api", "git", "log"), body, is_repeatable=True)

    async def git_branches(self, path: Path = ".", *, session_id: str | None = None) -> models.GitBranches:
        """Lists the branches."""
        body = self._git(path, session_id)
        return await self._http.post(models.GitBranches, ("api", "git", "branches"), body, is_repeatable=True)

    async def git_add(
        self, path: Path = ".", *, paths: Sequence[str] | None = None, session_id: str | None = None
    ) -> None:
        """Stages files; all without `paths`."""
        await self._http.post(models.GitAddResult, ("api", "git", "add"), self._git(path, session_id, paths=paths))

    async def git_commit(
        self,
        message: str,
        path: Path = ".",
        *,
        author: Author | None = None,
        all: bool | None = None,
        session_id: str | None = None,
    ) -> models.GitCommitResult:
        """Commits what is staged or, with `all`, all changes of tracked files."""
        body = self._git(path, session_id, message=message, author=author, all=all)
        return await self._http.post(models.GitCommitResult, ("api", "git", "commit"), body)

    async def git_pull(
        self,
        path: Path = ".",
        *,
        remote: str | None = None,
        branch: str | None = None,
        timeout: float | None = None,
        credentials: Credentials | None = None,
        session_id: str | None = None,
    ) -> models.GitSyncResult:
        """Advances the current branch to the remote one (`--ff-only`)."""
        body = self._git(path, session_id, remote=remote, branch=branch, timeout=timeout, credentials=credentials)
        return await self._http.post(models.GitSyncResult, ("api", "git", "pull"), body, is_long=True)

    async def git_push(
        self,
        path: Path = ".",
        *,
        remote: str | None = None,
        branch: str | None = None,
        timeout: float | None = None,
        credentials: Credentials | None = None,
        session_id: str | None = None,
    ) -> models.GitSyncResult:
        """Pushes a branch."""
        body = self._git(path, session_id, remote=remote, branch=branch, timeout=timeout, credentials=credentials)
        return await self._http.post(models.GitSyncResult, ("api", "git", "push"), body, is_long=True)

    def _git(self, path: Path | None, session_id: str | None, **options: Any) -> dict[str, Any]:
        return fields(path=path, session_id=self._session(session_id), **options)
