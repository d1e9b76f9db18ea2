"""The surface: operations, names of both classes, codes of errors."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import sandcrab
from sandcrab import errors

SDK = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = json.loads((SDK.parent / "openapi.json").read_text())
# WebSockets for clients of other SDKs.
NOT_USED = {"openSocket", "openPtySocket"}


def public(kind: type) -> dict[str, Any]:
    return {name: value for name, value in inspect.getmembers(kind) if not name.startswith("_")}


def test_every_operation_has_a_method_of_both_classes() -> None:
    operations: dict[str, dict[str, str]] = json.loads((SDK / "operations.json").read_text())
    known = {
        method["operationId"]
        for item in DOCUMENT["paths"].values()
        for method in item.values()
        if "operationId" in method
    }
    assert set(operations) == known
    for operation, names in operations.items():
        if operation in NOT_USED:
            continue
        kind, _, method = names["python"].partition(".")
        for prefix in ("", "Async"):
            assert hasattr(getattr(sandcrab, prefix + kind), method), f"{operation}: no {prefix}{names['python']}"


def test_both_classes_have_the_same_calls() -> None:
    for name in sandcrab.__all__:
        if not name.startswith("Async"):
            continue
        asynchronous, blocking = public(getattr(sandcrab, name)), public(getattr(sandcrab, name[len("Async") :]))
        assert {"close" if key == "aclose" else key for key in asynchronous} == set(blocking)
        for key, method in asynchronous.items():
            if callable(method) and key != "aclose":
                assert list(inspect.signature(method).parameters) == list(inspect.signature(blocking[key]).parameters)


def test_every_code_has_a_class() -> None:
    codes = set(DOCUMENT["components"]["schemas"]["ErrorCode"]["enum"])
    assert codes == set(errors.BY_CODE)
    for code in codes:
        error = errors.error_of(code, "message", status=400, context={"a": 1})
        assert (error.code, error.status, error.context, str(error)) == (code, 400, {"a": 1}, "message")
    assert issubclass(errors.BY_CODE["FILE_NOT_FOUND"], FileNotFoundError)
    assert issubclass(errors.BY_CODE["PROCESS_READY_TIMEOUT"], TimeoutError)


def test_the_version_is_that_of_the_workspace() -> None:
    manifest = (SDK.parent / "Cargo.toml").read_text()
    assert f'version = "{sandcrab.__version__}"' in manifest
    assert f'version = "{sandcrab.__version__}"' in (SDK / "python" / "pyproject.toml").read_text()


def test_files_are_short() -> None:
    for path in (SDK / "python").rglob("*.py"):
        if path.name != "models.py":
            assert len(path.read_text().splitlines()) <= 400, path
