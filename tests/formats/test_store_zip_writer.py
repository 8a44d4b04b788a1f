"""StoreZipWriter: PNNX's bytes, and what may be written."""

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pnnx_fast._core import store
from pnnx_fast.errors import LimitError
from pnnx_fast.formats.store_zip import StoreZipReader, StoreZipWriter

FULL16, FULL32 = 0xFFFF, 0xFFFFFFFF


def written(entries, **options):
    file = io.BytesIO()
    with StoreZipWriter(file, **options) as writer:
        for name, data in entries:
            writer.write(name, data)
    return file.getvalue()


def test_zip64_layout():
    name, data = b"conv.weight", b"12345678"
    crc = zlib.crc32(data)
    head = struct.pack("<HHQQ", 1, 28, 8, 8)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0, 0, 0, 0, crc, FULL32, FULL32, 11, 32)
    local += name + head + struct.pack("<QI", 0, 0) + data
    directory = b""
    for offset in (0, len(local)):
        directory += struct.pack(
            "<IHHHHHHIIIHHHHHII", 0x02014B50, *[0] * 6, crc, FULL32, FULL32, 11, 32, 0, FULL16, 0, 0, FULL32
        )
        directory += (name if not offset else b"conv.wEight") + head + struct.pack("<QI", offset, 0)
    start = 2 * len(local)
    end = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0, 0, 0, 0, 2, 2, len(directory), start)
    end += struct.pack("<IIQI", 0x07064B50, 0, start + len(directory), 1)
    end += struct.pack("<IHHHHIIH", 0x06054B50, FULL16, FULL16, FULL16, FULL16, FULL32, FULL32, 0)
    expected = local + local.replace(b"weight", b"wEight") + directory + end
    assert written([("conv.weight", data), ("conv.wEight", data)]) == expected


def test_zip32_layout():
    data = b"12345678"
    crc = zlib.crc32(data)
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 0, 0, 0, 0, 0, crc, 8, 8, 1, 0) + b"a" + data
    fields = [0x02014B50, *[0] * 6, crc, 8, 8, 1, 0, 0, 0, 0, 0, 0]
    directory = struct.pack("<IHHHHHHIIIHHHHHII", *fields) + b"a"
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(directory), len(local), 0)
    assert written([("a", data)], layout="zip32") == local + directory + end


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)


@pytest.mark.parametrize("layout", ["zip64", "zip32"])
@settings(max_examples=80)
@given(entries=st.dictionaries(names, st.binary(max_size=300), max_size=6))
def test_any_entries_come_back(layout, entries):
    raw = written(entries.items(), layout=layout)
    reader = StoreZipReader(raw)
    assert {name: reader.read(name) for name in reader} == entries
    assert reader.names() == list(entries)
    with zipfile.ZipFile(io.BytesIO(raw)) as other:
        assert [other.read(info) for info in other.infolist()] == list(entries.values())
        assert other.testzip() is None


@pytest.mark.parametrize(
    "data",
    [
        np.float32(1.5),
        np.array(2j),
        np.zeros((0, 3), np.float32),
        np.arange(6, dtype=np.int64).reshape(2, 3),
        np.arange(6, dtype=np.float16).reshape(2, 3).T,
        np.arange(12, dtype=np.complex64)[::2],
        np.array([True, False]),
        bytearray(b"abc"),
        memoryview(np.ones((2, 2))),
    ],
    ids=lambda data: f"{type(data).__name__}-{getattr(data, 'dtype', '')}-{np.shape(data)}",
)
def test_arrays_and_buffers(data):
    reader = StoreZipReader(written([("a", data)]))
    expected = data.tobytes() if hasattr(data, "tobytes") else bytes(data)
    assert reader.read("a") == expected


def test_refusals():
    writer = StoreZipWriter(io.BytesIO())
    writer.write("a", b"")
    with pytest.raises(ValueError, match="the archive has an entry 'a' already"):
        writer.write("a", b"1")
    with pytest.raises(ValueError, match="an entry name of 65536 bytes is longer than the 65535 that zip allows"):
        writer.write("x" * 65536, b"")
    with pytest.raises(ValueError, match="surrogates not allowed"):
        writer.write("\ud800", b"")
    with pytest.raises(TypeError):
        writer.write("b", "text")
    writer.write("x" * 65535, b"2")
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write("c", b"")
    with pytest.raises(ValueError, match="layout is 'zip64' or 'zip32', not 'zip'"):
        StoreZipWriter(io.BytesIO(), layout="zip")


def test_zip32_limits():
    with pytest.raises(LimitError, match="an entry of 4294967295 bytes at offset 0 needs the zip64 layout"):
        store.zip_local_header(b"a", FULL32, 0, False)
    with pytest.raises(LimitError, match="an entry of 1 bytes at offset 4294967296 needs the zip64 layout"):
        store.zip_central_record(b"a", 1, 0, 2**32, False)
    with pytest.raises(LimitError, match="65535 entries in 0 bytes need the zip64 layout"):
        store.zip_end(65535, 0, 0, False)
    file = io.BytesIO()
    writer = StoreZipWriter(file, layout="zip32")
    for i in range(65535):
        writer.write(str(i), b"")
    with pytest.raises(LimitError, match="65535 entries in"):
        writer.close()


def test_failing_file_closes_the_writer():
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError("no space")

    writer = StoreZipWriter(Full())
    with pytest.raises(OSError, match="no space"):
        writer.write("a", b"123")
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write("b", b"")


def test_raw_file_that_takes_little():
    class Small(io.RawIOBase):
        def __init__(self):
            self.taken = b""

        def writable(self):
            return True

        def write(self, data):
            self.taken += bytes(data[:7])
            return min(7, len(data))

    file = Small()
    with StoreZipWriter(file) as writer:
        writer.write("a", b"x" * 100)
    assert StoreZipReader(file.taken).read("a") == b"x" * 100
