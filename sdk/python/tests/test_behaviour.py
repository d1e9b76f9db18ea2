"""Interprets sdk/behaviour.json for both classes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Box, done, each

from sandcrab import SandcrabError

TABLE = Path(os.environ.get("SANDCRAB_BEHAVIOUR", Path(__file__).parents[2] / "behaviour.json"))
CASES: list[dict[str, Any]] = json.loads(TABLE.read_text())
# Options whose unit is the millisecond in the table.
TIMES = {"timeout", "grace", "idle_timeout", "ready_timeout", "idle"}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def argument(name: str, value: Any) -> tuple[str, Any]:
    """Returns an option in Python's names and units."""
    name = snake(name)
    if name.endswith("_ms"):
        name = name[: -len("_ms")]
    return name, value / 1000 if name in TIMES and isinstance(value, (int, float)) else value


def field(value: Any, name: str) -> Any:
    """Returns a field of a result."""
    if isinstance(value, dict):
        return value.get(name, value.get(snake(name)))
    # `exists` returns the field itself.
    if isinstance(value, bool) and name == "exists":
        return value
    return getattr(value, snake(name), None)


def check(value: Any, expected: Any, at: str) -> None:
    """Compares a result with a pattern."""
    if isinstance(expected, list):
        assert len(value) == len(expected), f"{at}: {value!r} is not {expected!r}"
        for index, inner in enumerate(expected):
            check(value[index], inner, f"{at}[{index}]")
        return
    if not isinstance(expected, dict):
        assert value == expected, f"{at}: {value!r} is not {expected!r}"
        return
    for name, inner in expected.items():
        if name == "$matches":
            assert re.search(inner.replace("[^]", r"[\s\S]"), str(value)), f"{at}: {value!r} does not match {inner!r}"
        elif name == "$exists":
            assert (value is not None) == inner, f"{at}: {value!r}"
        elif name == "$length":
            assert len(value) == inner, f"{at}: {value!r}"
        elif name == "$contains":
            rest = list(value)
            for wanted in inner:
                while rest and not fits(rest[0], wanted):
                    rest.pop(0)
                assert rest, f"{at}: no {wanted!r} in {value!r}"
                rest.pop(0)
        else:
            check(field(value, name), inner, f"{at}.{name}")


def fits(value: Any, expected: Any) -> bool:
    try:
        check(value, expected, "")
    except AssertionError:
        return False
    return True


def filled(value: Any, saved: dict[str, Any], unique: str) -> Any:
    """Replaces `${name.field}` and `${unique}`."""
    if isinstance(value, dict):
        return {key: filled(inner, saved, unique) for key, inner in value.items()}
    if isinstance(value, list):
        return [filled(inner, saved, unique) for inner in value]
    if not isinstance(value, str):
        return value

    def replacement(found: re.Match[str]) -> str:
        if found[1] == "unique":
            return unique
        name, _, rest = found[1].partition(".")
        inner = saved[name]
        for part in rest.split(".") if rest else []:
            inner = field(inner, part)
        return str(inner)

    return re.sub(r"\$\{([\w.]+)\}", replacement, value)


async def collected(result: Any) -> list[Any]:
    result = await done(result)
    # `search` returns all matches.
    if hasattr(result, "matches"):
        return list(result.matches)
    return [item async for item in each(result)]


async def run_step(box: Box, step: dict[str, Any], saved: dict[str, Any]) -> None:
    target = saved[step["on"]] if "on" in step else box
    options = dict(argument(name, value) for name, value in step.get("options", {}).items())
    call = getattr(target, snake(step["call"]))
    args = list(step.get("args", []))
    if step["call"] == "send" and isinstance(args[0], dict):
        options, args = args[0], [args[0].pop("text", "")]
    try:
        result = call(*args, **options)
        result = await collected(result) if step.get("collect") else await done(result)
    except SandcrabError as error:
        assert "error" in step, f"{step}: {error.code}: {error}"
        assert error.code == step["error"], f"{step}: {error.code}: {error}"
        return
    assert "error" not in step, f"{step}: no error, but {result!r}"
    if "save" in step:
        saved[step["save"]] = result
    if "expect" in step:
        check(result, step["expect"], step["call"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
async def test_behaviour(box: Box, case: dict[str, Any], unique: str) -> None:
    saved: dict[str, Any] = {}
    async with box:
        for step in case["steps"]:
            await run_step(box, filled(step, saved, unique), saved)
