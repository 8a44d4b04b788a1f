"""AtomicFiles: files appear whole or not at all, and none before all of them are complete."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from pnnx_fast.errors import ParameterError
from pnnx_fast.formats.atomic import AtomicFiles


def write(*paths: Path) -> None:
    with AtomicFiles() as files:
        for path in paths:
            files.open(path).write(b"new")


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_appear_at_the_end(tmp_path: Path) -> None:
    with AtomicFiles() as files:
        for name in "ab":
            files.open(tmp_path / name).write(b"new")
        assert not (tmp_path / "a").exists()
    assert contents(tmp_path) == {"a": b"new", "b": b"new"}


def test_an_exception_leaves_the_old_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(RuntimeError), AtomicFiles() as files:  # noqa: PT012
        for name in "ab":
            files.open(tmp_path / name).write(b"new")
        raise RuntimeError
    assert contents(tmp_path) == {"a": b"old"}


@pytest.mark.parametrize("call", ["fsync", "chmod"])
@pytest.mark.parametrize("which", [0, 1])
def test_what_the_system_refuses_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, which: int
) -> None:
    """A full disk shows up when a file is synced; no file has replaced its old one by then."""
    old = dict.fromkeys("ab", b"old")
    for name in old:
        (tmp_path / name).write_bytes(b"old")
    real, calls = getattr(os, call), []

    def refusing(*args: object) -> None:
        calls.append(args)
        if len(calls) == which + 1:
            raise OSError(28, "No space left on device")
        real(*args)

    monkeypatch.setattr(os, call, refusing)
    with pytest.raises(OSError, match="No space"):
        write(tmp_path / "a", tmp_path / "b")
    assert contents(tmp_path) == old


def test_mode_and_links_are_kept(tmp_path: Path) -> None:
    path, link = tmp_path / "a.bin", tmp_path / "link.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert path.read_bytes() == b"new"


def test_a_new_file_follows_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write(tmp_path / "a.bin")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.bin").stat().st_mode) == 0o640


def test_targets_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        write(tmp_path / "no" / "a.bin")
    assert caught.value.filename == str(tmp_path / "no" / "a.bin")


def test_two_files_cannot_be_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(ParameterError, match="two files cannot both be"):
        write(tmp_path / "a", tmp_path / "link")
    assert not (tmp_path / "a").exists()


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="no /dev/null")
def test_devices_are_written_not_replaced() -> None:
    write(Path("/dev/null"), Path("/dev/null"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_pipe_under_the_name_of_its_descriptor_is_written_directly() -> None:
    reader, writer = os.pipe()
    with AtomicFiles() as files:
        files.open(f"/dev/fd/{writer}").write(b"new")
    os.close(writer)
    with open(reader, "rb") as file:
        assert file.read() == b"new"
