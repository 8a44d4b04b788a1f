"""StoreZipReader: sources, views, checksums, archives of other tools, walking, real PNNX files."""

import io
import os
import pathlib
import struct
import threading
import zipfile

import numpy as np
import pytest

from pnnx_fast._core import store
from pnnx_fast.errors import FormatError, LimitError
from pnnx_fast.formats import store_zip
from pnnx_fast.formats.atomic import AtomicFiles
from pnnx_fast.formats.store_zip import StoreZipReader, StoreZipWriter

ENTRIES = {
    "conv.weight": np.arange(100, dtype=np.float32).tobytes(),
    "conv.bias": b"\x01\x02\x03",
    "größe.名前": b"x" * 1000,
    "empty": b"",
}


def archive(entries=ENTRIES, layout="zip64"):
    file = io.BytesIO()
    with StoreZipWriter(file, layout=layout) as writer:
        for name, data in entries.items():
            writer.write(name, data)
    return file.getvalue()


def foreign(entries=ENTRIES, method=zipfile.ZIP_STORED, **options):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as other:
        for name, data in entries.items():
            with other.open(name, "w", **options) as sink:
                sink.write(data)
    return file.getvalue()


def contents(reader):
    return {name: reader.read(name) for name in reader}


@pytest.mark.parametrize("layout", ["zip64", "zip32"])
def test_read_back(layout):
    with StoreZipReader(archive(layout=layout)) as reader:
        assert reader.names() == list(reader) == list(ENTRIES)
        assert contents(reader) == ENTRIES
        assert {name: reader.size(name) for name in reader} == {k: len(v) for k, v in ENTRIES.items()}
        assert len(reader) == 4
        assert "empty" in reader
        assert "other" not in reader
        assert reader.layout == layout
        reader.verify()


@pytest.mark.parametrize("kind", ["str", "path", "bytes", "bytearray", "memoryview", "array", "file", "stream"])
def test_sources(kind, tmp_path):
    raw = archive()
    path = tmp_path / "a.bin"
    path.write_bytes(raw)
    with open(path, "rb") as file:
        source = {
            "str": str(path),
            "path": path,
            "bytes": raw,
            "bytearray": bytearray(raw),
            "memoryview": memoryview(raw),
            "array": np.frombuffer(raw, np.uint8),
            "file": file,
            "stream": io.BytesIO(raw),
        }[kind]
        with StoreZipReader(source) as reader:
            assert contents(reader) == ENTRIES
            assert reader.path == (str(path) if kind in ("str", "path", "file") else None)


def test_file_object_is_read_from_its_position():
    file = io.BytesIO(b"before" + archive())
    file.seek(6)
    assert contents(StoreZipReader(file)) == ENTRIES


def test_views_share_the_source():
    raw = np.frombuffer(archive(), np.uint8)
    with StoreZipReader(raw) as reader:
        view = reader.view("conv.weight")
        assert view.dtype == np.uint8
        assert view.shape == (400,)
        assert not view.flags.writeable
        assert np.shares_memory(view, raw)
        offset = reader.offset("conv.weight")
        assert raw[offset : offset + 400].tobytes() == ENTRIES["conv.weight"]
        assert reader.view("empty").shape == (0,)
        assert not reader.view("empty").flags.writeable


def test_views_of_a_writable_source_are_read_only():
    with StoreZipReader(bytearray(archive())) as reader:
        assert not reader.view("conv.weight").flags.writeable


def test_unaligned_view_as_floats():
    for pad in range(4):
        raw = archive({"p" * (pad + 1): np.arange(5, dtype=np.float32)})
        np.testing.assert_array_equal(
            StoreZipReader(raw).view("p" * (pad + 1)).view(np.float32), np.arange(5, dtype=np.float32)
        )


def test_views_outlive_the_reader_and_the_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(archive())
    reader = StoreZipReader(path)
    view = reader.view("conv.weight")
    reader.close()
    del reader
    path.unlink()
    assert view.tobytes() == ENTRIES["conv.weight"]


def test_views_survive_saving_over_the_file(tmp_path):
    path = tmp_path / "a.bin"
    path.write_bytes(archive())
    with StoreZipReader(path) as reader:
        view = reader.view("conv.weight")
        with AtomicFiles() as files, StoreZipWriter(files.open(path)) as writer:
            for name in reversed(reader.names()):
                writer.write(name, reader.view(name))
        assert view.tobytes() == ENTRIES["conv.weight"]
    assert contents(StoreZipReader(path)) == ENTRIES


def test_closed():
    reader = StoreZipReader(archive())
    reader.close()
    reader.close()
    with pytest.raises(ValueError, match="the reader of <memory> is closed"):
        reader.read("conv.weight")


def test_unknown_name():
    reader = StoreZipReader(archive())
    for method in (reader.read, reader.view, reader.size, reader.offset):
        with pytest.raises(KeyError, match="<memory> has no entry 'other'"):
            method("other")


def test_repr(tmp_path):
    assert repr(StoreZipReader(archive())) == "<StoreZipReader <memory>: 4 entries, zip64>"


def test_checksum_on_first_access_only():
    raw = bytearray(archive())
    reader = StoreZipReader(memoryview(raw).toreadonly())  # memory that others may write to is copied
    offset = reader.offset("conv.bias")
    assert reader.read("conv.bias") == b"\x01\x02\x03"
    raw[offset] = 9
    assert reader.read("conv.bias") == b"\x09\x02\x03"
    with pytest.raises(FormatError, match=r"CRC-32 of entry 'conv\.bias'"):
        reader.verify()
    with pytest.raises(FormatError, match=r"CRC-32 of entry 'conv\.bias'"):
        StoreZipReader(raw).view("conv.bias")
    assert StoreZipReader(raw, verify=False).read("conv.bias") == b"\x09\x02\x03"


def test_entries_are_checked_at_once(monkeypatch, tmp_path):
    monkeypatch.setattr(store_zip, "GROUP", 100)
    path = tmp_path / "weights.bin"
    entries = {f"e{i}": bytes([i]) * 70000 for i in range(9)} | {"empty": b""}
    raw = bytearray(archive(entries))
    raw[StoreZipReader(raw).offset("e5") + 1234] ^= 1
    path.write_bytes(raw)
    reader = StoreZipReader(path)
    reader.check([*entries, "unknown"], unread={"e3"})
    assert {entry.name for entry in reader._checked} == entries.keys() - {"e5"}
    assert all(reader.read(name) == data for name, data in entries.items() if name != "e5")
    with pytest.raises(FormatError, match="CRC-32 of entry 'e5'"):
        reader.view("e5")
    calls = []
    again = StoreZipReader(path)
    again.check(entries, meanwhile=lambda: calls.append(len(again._checked)))
    assert len(calls) == 1
    assert {entry.name for entry in again._checked} == entries.keys() - {"e5"}
    unverified = StoreZipReader(path, verify=False)
    unverified.check(entries)
    assert unverified.view("e5")[1234] == 4


def test_deflated_entries_are_checked_when_they_are_viewed():
    reader = StoreZipReader(foreign(method=zipfile.ZIP_DEFLATED))
    reader.check(ENTRIES)
    assert "conv.weight" not in reader._checked
    assert contents(reader) == ENTRIES


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("options", [{}, {"force_zip64": True}])
def test_archives_of_zipfile(method, options):
    reader = StoreZipReader(foreign(method=method, **options))
    assert contents(reader) == ENTRIES
    assert reader.layout == "zip32"
    reader.verify()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_data_descriptors(method):
    """A writer that cannot seek puts sizes behind the content."""

    class Stream(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *_):
            raise OSError

        def tell(self):
            raise OSError

    file = Stream()
    with zipfile.ZipFile(file, "w", method) as other:
        for name, data in ENTRIES.items():
            other.writestr(name, data)
    raw = file.getvalue()
    assert struct.unpack_from("<H", raw, 6)[0] & 8
    assert contents(StoreZipReader(raw)) == ENTRIES


def test_archive_comment_and_extra_fields():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as other:
        info = zipfile.ZipInfo("a")
        info.extra = struct.pack("<HHI", 0x5455, 4, 0) + b"\0\0\0"
        info.comment = b"of the entry"
        other.writestr(info, b"123")
        other.comment = b"PK\x05\x06 is not the end record" + b"-" * 60000
    assert contents(StoreZipReader(file.getvalue())) == {"a": b"123"}


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_last_of_duplicate_names_wins():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as other:
        for name, data in [("a", b"first"), ("b", b"only"), ("a", b"second")]:
            other.writestr(name, data)
    reader = StoreZipReader(file.getvalue())
    assert reader.names() == ["a", "b"]
    assert reader.read("a") == b"second"


@pytest.mark.parametrize("layout", ["zip64", "zip32"])
def test_archive_without_entries(layout):
    raw = archive({}, layout)
    assert raw[:4] == (b"PK\6\6" if layout == "zip64" else b"PK\5\6")
    reader = StoreZipReader(raw)
    assert reader.names() == []
    assert reader.layout == layout


@pytest.mark.parametrize("layout", ["zip64", "zip32"])
def test_walk_when_the_directory_is_cut(layout):
    """Local headers say everything, as long as the cut is behind the last content."""
    raw = archive(layout=layout)
    directory = raw.index(b"PK\x01\x02")
    for cut in (directory + 4, directory + 46, len(raw) - 22, len(raw) - 1):
        reader = StoreZipReader(raw[:cut])
        assert contents(reader) == ENTRIES
        assert reader.layout == layout
    for cut in (directory - 1, directory, directory + 3):
        with pytest.raises(FormatError):
            StoreZipReader(raw[:cut])


def test_directory_in_another_order():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as other:
        for name, data in ENTRIES.items():
            other.writestr(name, data)
        other.filelist.reverse()
    reader = StoreZipReader(file.getvalue())
    assert reader.names() == list(ENTRIES)[::-1]
    assert contents(reader) == ENTRIES


def test_beyond_four_gigabytes(tmp_path):
    path, size = tmp_path / "sparse.bin", 5 << 30
    local = store.zip_local_header(b"big", size, 0, True)
    second = store.zip_local_header(b"last", 4, store.crc32(b"tail"), True) + b"tail"
    directory = store.zip_central_record(b"big", size, 0, 0, True) + store.zip_central_record(
        b"last", 4, store.crc32(b"tail"), len(local) + size, True
    )
    end = store.zip_end(2, len(local) + size + len(second), len(directory), True)
    with open(path, "wb") as file:
        file.write(local)
        file.seek(size, os.SEEK_CUR)
        file.write(second + directory + end)
    with StoreZipReader(path, verify=False) as reader:
        assert reader.size("big") == reader.view("big").size == size
        assert reader.read("last") == b"tail"


def test_threads(tmp_path):
    path = tmp_path / "a.bin"
    entries = {f"e{i}": os.urandom(70000) for i in range(20)}
    path.write_bytes(archive(entries))
    reader, bad = StoreZipReader(path), []

    def work():
        bad.extend(name for name in entries if reader.read(name) != entries[name])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not bad


def test_real_archives_come_back_byte_for_byte(data_path: pathlib.Path):
    files = sorted(data_path.glob("**/*.pnnx.bin"))
    assert files
    for path in files:
        file = io.BytesIO()
        with StoreZipReader(path) as reader, StoreZipWriter(file, layout=reader.layout) as writer:
            for name in reader:
                writer.write(name, reader.view(name))
            with zipfile.ZipFile(path) as other:
                assert other.namelist() == reader.names(), path
                assert all(other.read(name) == reader.read(name) for name in reader), path
        assert file.getvalue() == path.read_bytes(), path


def test_deflated_entries_keep_to_the_limit_of_memory_together(monkeypatch):
    """Entries that are in use count together; one that several hold is inflated once, and counts until it is let go."""
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "2500K")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in "abc":
            archive.writestr(name, bytes(1 << 20))
    reader = StoreZipReader(buffer.getvalue())
    a, b = reader.view("a"), reader.view("b")
    assert np.shares_memory(a, reader.view("a"))
    with pytest.raises(LimitError, match="entry 'c' and others that are in use"):
        reader.view("c")
    del b
    assert reader.view("c").nbytes == a.nbytes
    assert [len(reader.read(name)) for name in "abcabc"] == [1 << 20] * 6


def test_deflated_entries_keep_to_the_limit_of_memory(monkeypatch):
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "1000")
    reader = StoreZipReader(foreign({"big": bytes(1 << 20)}, method=zipfile.ZIP_DEFLATED))
    with pytest.raises(LimitError, match=r"entry 'big': 1\.0 MiB of memory are needed"):
        reader.view("big")
