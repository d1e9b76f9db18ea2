"""Functions of the caller that calls use."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import ValidationError


async def test_coroutines_are_awaited(address: tuple[str, str]) -> None:
    seen: list[str] = []

    async def note(stream: str, data: str) -> None:
        await asyncio.sleep(0)
        seen.append(stream + data)

    async with AsyncSandbox(*address) as sandbox:
        await sandbox.exec("echo x", on_output=note)
    assert seen == ["stdoutx\n"]


async def test_progress_of_git_is_awaited(address: tuple[str, str], unique: str) -> None:
    seen: list[Any] = []

    async def note(event: Any) -> None:
        await asyncio.sleep(0)
        seen.append(event)

    async with AsyncSandbox(*address) as sandbox:
        made = await sandbox.exec(
            f"git init -q repo-{unique} && cd repo-{unique} && "
            "git -c user.name=a -c user.email=b commit -q --allow-empty -m x && pwd"
        )
        await sandbox.git_checkout(f"file://{made.check().stdout.strip()}", f"clone-{unique}", on_progress=note)
        await sandbox.exec(f"rm -rf repo-{unique} clone-{unique}")
    assert seen


def test_coroutines_are_refused_without_asyncio(address: tuple[str, str]) -> None:
    async def note(stream: str, data: str) -> None:
        raise AssertionError

    with Sandbox(*address) as sandbox, pytest.raises(ValidationError, match="AsyncSandbox"):
        sandbox.exec("echo x", on_output=note)
