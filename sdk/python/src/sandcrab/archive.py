"""Local folders as tar archives."""

from __future__ import annotations

import os
import tarfile
from typing import IO


def pack(folder: str | os.PathLike[str], archive: IO[bytes]) -> None:
    """Writes the content of a folder to an archive."""
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"{os.fspath(folder)} is not a directory")
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(folder, arcname=".")


def unpack(archive: IO[bytes], folder: str | os.PathLike[str]) -> None:
    """Extracts an archive of the sandbox, which is not trusted: nothing is written outside the folder."""
    os.makedirs(folder, exist_ok=True)
    with tarfile.open(fileobj=archive, mode="r:") as tar:
        tar.extractall(folder, filter="data")
