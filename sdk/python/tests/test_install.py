"""The package as a user installs it, and the examples of its README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The interpreter of an empty environment into which the wheel was installed."""
    folder = tmp_path_factory.mktemp("install")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=PACKAGE, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "sandcrab/py.typed" in names
    assert all(name.startswith("sandcrab") for name in names)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    found = str(folder / "venv" / "bin" / "python")
    offline = ["--no-index", "--find-links", os.environ["SANDCRAB_TEST_WHEELS"]]
    subprocess.run([found, "-m", "pip", "install", "--quiet", *offline, str(wheel)], check=True)
    return found


@pytest.mark.parametrize("number", range(3))
def test_examples_of_the_readme(python: str, number: int, address: tuple[str, str], tmp_path: Path) -> None:
    url, token = address
    blocks = re.findall(r"^```python\n(.*?)^```$", (PACKAGE / "README.md").read_text(), re.M | re.S)
    assert len(blocks) == 3
    script = blocks[number].replace("http://127.0.0.1:7070", url).replace("the token", token)
    (tmp_path / "example.py").write_text(script)
    # Not this repository's sources, and warnings are errors.
    command = [python, "-I", "-W", "error", str(tmp_path / "example.py")]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    expected = [
        "hello\n oops\n 3\nhi from /usr/share\n\nready\nbuy a boat\n\n",
        "4950\n1\n2\n3\n",
        r".*missing.txt.*\nSESSION_NOT_FOUND\n",
    ]
    assert re.fullmatch(expected[number], ran.stdout), ran.stdout
