"""CRC-32: every variant equals zlib over lengths, alignments and starting values."""

import pathlib
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pnnx_fast._core import store

VARIANTS = [None, *store.crc32_variants()]
DATA = np.random.default_rng(1).integers(0, 256, 1 << 17, np.uint8)
# Every length up to two wide folding loops and a tail, then ends of longer ones.
LENGTHS = [*range(530), 767, 768, 769, 1023, 1024, 1025, 2047, 4095, 4096, 4097, 65535, 65536, 65537, 100003]


def test_generic_always_runs():
    assert store.crc32_variants()[0] == "generic"


@pytest.mark.parametrize("variant", VARIANTS)
def test_check_value(variant):
    assert store.crc32(b"123456789", variant=variant) == 0xCBF43926
    assert store.crc32(b"", variant=variant) == 0
    assert store.crc32(b"", 77, variant=variant) == 77


@pytest.mark.parametrize("variant", VARIANTS)
def test_lengths_and_alignments(variant):
    data = memoryview(DATA)
    for n in LENGTHS:
        for start in (0, 1, 7, 63) if n > 300 else (0, 1, 2, 3, 5, 8, 13, 16, 31, 33):
            piece = data[start : start + n]
            assert store.crc32(piece, n, variant=variant) == zlib.crc32(piece, n), (n, start)


@pytest.mark.parametrize("variant", VARIANTS)
def test_single_bits(variant):
    """The checksum is linear, so single bits show a wrong constant wherever it is."""
    for n in (64, 256, 512, 1040):
        for bit in range(0, 8 * n, 61):
            data = bytearray(n)
            data[bit // 8] = 1 << bit % 8
            assert store.crc32(data, variant=variant) == zlib.crc32(data), (n, bit)


@pytest.mark.parametrize("variant", VARIANTS)
@settings(max_examples=60)
@given(st.binary(max_size=2000), st.binary(max_size=2000), st.integers(0, 2**32 - 1))
def test_update(variant, first, second, value):
    crc = store.crc32(second, store.crc32(first, value, variant=variant), variant=variant)
    assert crc == zlib.crc32(first + second, value)


@settings(max_examples=60)
@given(st.binary(max_size=300), st.binary(max_size=300))
def test_combine(first, second):
    combined = store.crc32_combine(zlib.crc32(first), zlib.crc32(second), len(second))
    assert combined == zlib.crc32(first + second)


def test_combine_is_associative_for_lengths_beyond_memory():
    a, b, c = 0x12345678, 0x9ABCDEF0, 0x0F1E2D3C
    for length_b, length_c in ((1, 2**40), (2**61, 3), (2**32 - 1, 2**33), (0, 2**63)):
        left = store.crc32_combine(store.crc32_combine(a, b, length_b), c, length_c)
        right = store.crc32_combine(a, store.crc32_combine(b, c, length_c), length_b + length_c)
        assert left == right


def test_any_contiguous_buffer():
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert store.crc32(array) == zlib.crc32(array.tobytes())
    with pytest.raises((BufferError, ValueError)):
        store.crc32(array.T)
    with pytest.raises(TypeError):
        store.crc32("text")


def test_pieces():
    pieces = [(0, 0), (5, 70000), (len(DATA), 0), (1, len(DATA) - 1)]
    assert store.crc32_each(DATA, pieces) == [zlib.crc32(DATA[at : at + n]) for at, n in pieces]
    assert store.crc32_each(DATA, []) == []
    for piece in ((len(DATA), 1), (len(DATA) + 1, 0), (1, 2**64 - 1)):
        with pytest.raises(ValueError, match="piece 0 does not lie in the data"):
            store.crc32_each(DATA, [piece])
    for piece in ((-1, 1), (0, 2**64)):
        with pytest.raises(OverflowError):
            store.crc32_each(DATA, [piece])


def test_bad_arguments():
    with pytest.raises(ValueError, match="no CRC-32 variant 'fast' on this CPU; there are generic"):
        store.crc32(b"", variant="fast")
    with pytest.raises(OverflowError):
        store.crc32(b"", 2**32)
    with pytest.raises(OverflowError):
        store.crc32(b"", -1)


def test_threads():
    """Large buffers are summed without the interpreter lock."""
    expected, results = zlib.crc32(DATA), []

    def work():
        results.extend(store.crc32(DATA) for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(results) == {expected}
    assert len(results) == 200


def test_constants_are_those_of_their_script():
    folder = pathlib.Path(__file__).parents[2] / "csrc" / "store"
    if not folder.is_dir():
        pytest.skip("no C sources beside the tests")
    script = subprocess.run(
        [sys.executable, str(folder / "crc32_constants.py")], capture_output=True, text=True, check=True
    )
    assert script.stdout == (folder / "crc32_constants.h").read_text()
