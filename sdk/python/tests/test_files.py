"""Files, folders, and file-like objects."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import pickle
import resource
import subprocess
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from conftest import Box, done, each

from sandcrab import AsyncSandbox, Sandbox
from sandcrab.errors import ConflictError

LARGE = 64 << 20


async def test_paths_of_any_kind(box: Box, unique: str) -> None:
    async with box:
        folder = PurePosixPath(f"paths-{unique}")
        await done(box.write_text(folder / "a", "one\r\n"))
        assert await done(box.read_text(str(folder / "a"))) == "one\r\n"
        workspace = (await done(box.health())).workspace
        name = os.fsencode(folder) + b"/\xff"
        await done(box.write_bytes(name, b"\0\xff"))
        assert await done(box.read_bytes(os.fsdecode(name))) == b"\0\xff"
        assert (await done(box.stat(name))).size == 2
        assert (
            await done(box.exec(f"ls {folder}", cwd=PurePosixPath(workspace), encoding="base64"))
        ).stdout_bytes == b"a\n\xff\n"
        await done(box.delete_file(folder, recursive=True))
        assert not await done(box.exists(folder))
        with pytest.raises(FileNotFoundError):
            await done(box.read_text(folder / "a"))
        with pytest.raises(IsADirectoryError):
            await done(box.read_bytes("/"))


async def test_seeks_and_lines(box: Box, unique: str) -> None:
    async with box:
        data = b"".join(b"%d\n" % number for number in range(300_000))
        path = f"lines-{unique}"
        await done(box.write_bytes(path, data))
        file = await done(box.open(path))
        assert (file.readable(), file.writable(), file.seekable(), file.tell()) == (True, False, True, 0)
        assert file.seek(-7, io.SEEK_END) == len(data) - 7
        assert await done(file.read()) == b"299999\n"
        assert file.seek(1_048_570) and await done(file.read(20)) == data[1_048_570:1_048_590]
        file.seek(0)
        assert [line async for line in each(file)] == data.splitlines(keepends=True)
        # The file is read as it was when it was opened.
        await done(box.write_bytes(path, b"other"))
        file.seek(0)
        with pytest.raises(ConflictError):
            await done(file.read())
        await close(file)
        with pytest.raises(ValueError, match="closed"):
            await done(file.read())
        await done(box.write_bytes(path, b""))
        assert await done((await done(box.open(path))).read()) == b""
        await done(box.delete_file(path))


async def test_writes_and_appends(box: Box, unique: str) -> None:
    async with box:
        path = f"written-{unique}"
        file = await done(box.open(path, "w"))
        assert await done(file.write("grüße\n")) == 6
        assert not await done(box.exists(path))
        await close(file)
        file = await done(box.open(path, "ab"))
        await done(file.write(b"more\n"))
        await close(file)
        text = await done(box.open(path, "r"))
        assert [line async for line in each(text)] == ["grüße\n", "more\n"]
        text = await done(box.open(path, "r"))
        assert (await done(text.read(3)), await done(text.read())) == ("grü", "ße\nmore\n")
        # After an exception nothing is written.
        file = await done(box.open(path, "wb"))
        await done(file.write(b"half"))
        leave = file.__aexit__ if isinstance(box.sandbox, AsyncSandbox) else file.__exit__
        await done(leave(ValueError, None, None))
        assert await done(box.read_text(path)) == "grüße\nmore\n"
        with pytest.raises(io.UnsupportedOperation):
            await done((await done(box.open(path))).write(b"x"))
        await done(box.delete_file(path))


def test_files_are_like_those_of_python(address: tuple[str, str], unique: str) -> None:
    """What programs do with a file that Python's `open` has returned."""
    with Sandbox(*address) as sandbox:
        path = f"like-{unique}"
        with sandbox.open(path, "w") as text:
            assert (text.readable(), text.writable(), text.seekable(), text.mode) == (False, True, False, "w")
            csv.writer(text).writerows([["name", "size"], ["ü", "2"]])
            print("last", file=text, flush=True)
            text.writelines(["a\n", "b"])
            with pytest.raises(io.UnsupportedOperation):
                text.read()
        content = "name,size\r\nü,2\r\nlast\na\nb"
        assert sandbox.read_text(path) == content
        with sandbox.open(path, "r") as text:
            assert next(text) == "name,size\r\n"
            assert [row[0] for row in csv.reader(text)] == ["ü", "last", "a", "b"]
            assert (text.readline(), text.read(), text.readlines()) == ("", "", [])
        with pytest.raises(ValueError, match="closed"):
            text.read(1)
        with sandbox.open(path) as file:
            assert (file.readline(4), next(file), file.readline()) == (b"name", b",size\r\n", "ü,2\r\n".encode())
            assert file.readlines() == [b"last\n", b"a\n", b"b"]
            file.seek(0)
            assert io.TextIOWrapper(io.BufferedReader(file), "utf-8", newline="").read() == content  # type: ignore[type-var]
        with sandbox.open(path, "wb") as file:
            file.writelines([b"x", b"y"])
            pickle.dump({"a": 1}, file)
        with sandbox.open(path) as file:
            assert (file.read(2), pickle.load(file)) == (b"xy", {"a": 1})
        with pytest.raises(ValueError, match="rb, wb"):
            sandbox.open(path, "x")  # type: ignore[call-overload]
        sandbox.delete_file(path)


async def test_text_in_any_encoding(box: Box, unique: str) -> None:
    async with box:
        path, lines = f"utf16-{unique}", [f"{number} ü€𝄞\n" for number in range(20_000)]
        file = await done(box.open(path, "w", encoding="utf-16"))
        await done(file.writelines(lines))
        await close(file)
        assert await done(box.read_text(path, encoding="utf-16")) == "".join(lines)
        file = await done(box.open(path, "r", encoding="utf-16"))
        assert [line async for line in each(file)] == lines
        file = await done(box.open(path, "r", encoding="utf-16"))
        assert await done(file.read(7)) + await done(file.read()) == "".join(lines)
        # A character that is not complete is an error, not lost.
        await done(box.write_bytes(path, "ü".encode()[:1]))
        for size in (-1, 10):
            with pytest.raises(UnicodeDecodeError):
                await done((await done(box.open(path, "r"))).read(size))
        await done(box.delete_file(path))


async def test_downloads_have_the_usual_permissions(box: Box, tmp_path: Path, unique: str) -> None:
    async with box:
        await done(box.write_text(f"mode-{unique}", "x"))
        await done(box.download(f"mode-{unique}", tmp_path / "copy"))
        (tmp_path / "other").touch()
        assert (tmp_path / "copy").stat().st_mode == (tmp_path / "other").stat().st_mode
        await done(box.delete_file(f"mode-{unique}"))


def test_a_library_reads_a_file(address: tuple[str, str], unique: str) -> None:
    with Sandbox(*address) as sandbox:
        local = io.BytesIO()
        with zipfile.ZipFile(local, "w", zipfile.ZIP_DEFLATED) as made:
            made.writestr("inside.txt", "content")
        sandbox.write_bytes(f"{unique}.zip", local.getvalue())
        with sandbox.open(f"{unique}.zip") as file, zipfile.ZipFile(file) as read:
            assert read.read("inside.txt") == b"content"
        sandbox.delete_file(f"{unique}.zip")


async def test_large_files_in_constant_memory(box: Box, tmp_path: Path, unique: str) -> None:
    async with box:
        local, copy, path = tmp_path / "large", tmp_path / "copy", f"large-{unique}"
        await make_large(local)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert (await done(box.upload(local, path))).bytes_written == LARGE
        assert await done(box.download(path, copy)) == LARGE
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        assert grown < LARGE // 2
        with local.open("rb") as one, copy.open("rb") as two:
            assert digest(one) == digest(two)
        with pytest.raises(FileNotFoundError):
            await done(box.download(path + "-none", tmp_path / "none"))
        assert sorted(entry.name for entry in tmp_path.iterdir()) == ["copy", "large"]
        await done(box.upload(iter([b"a", b"b"]), path))
        target = io.BytesIO()
        assert (await done(box.download(path, target)), target.getvalue()) == (2, b"ab")
        await done(box.delete_file(path))


async def test_folders(box: Box, tmp_path: Path, unique: str) -> None:
    async with box:
        source, target, path = tmp_path / "source", tmp_path / "target", f"folder-{unique}"
        (source / "a" / "empty").mkdir(parents=True)
        (source / "a" / "file").write_bytes(b"\0\xff")
        (source / "a" / "file").chmod(0o750)
        (source / "link").symlink_to("a/file")
        await done(box.write_text(f"{path}/old", "x"))
        assert (await done(box.upload_folder(source, path))).success
        assert not await done(box.exists(f"{path}/old"))
        await done(box.download_folder(path, target))
        subprocess.run(["diff", "-r", "--no-dereference", source, target], check=True)
        assert (target / "a" / "file").stat().st_mode & 0o777 == 0o750
        await done(box.delete_file(path, recursive=True))


async def test_events_of_a_file(box: Box, unique: str) -> None:
    async with box:
        await done(box.write_text(f"events-{unique}", "content"))
        events = [event async for event in each(box.read_file_stream(f"events-{unique}"))]
        assert [event.type for event in events] == ["metadata", "chunk", "complete"]
        assert events[1].data == "content"
        await done(box.delete_file(f"events-{unique}"))


async def close(file: Any) -> None:
    await done(file.aclose() if hasattr(file, "aclose") else file.close())


async def make_large(path: Path) -> None:
    with path.open("wb") as file:
        for number in range(LARGE >> 20):
            file.write(number.to_bytes(4, "big") * (1 << 18))


def digest(file: Any) -> str:
    state = hashlib.sha256()
    while chunk := file.read(1 << 20):
        state.update(chunk)
    return state.hexdigest()
