"""The museum of broken archives: what each must raise, and that nothing worse happens to mutated ones.

`zip/make_museum.py` says how each exhibit was made.
"""

import pathlib
import random
import runpy
import tracemalloc

import pytest

from pnnx_fast.errors import FormatError, LimitError
from pnnx_fast.formats.store_zip import StoreZipReader

FOLDER = pathlib.Path(__file__).parent / "zip"
MAKER = runpy.run_path(str(FOLDER / "make_museum.py"))

# File: exception, byte, reason. These fail when the archive is opened ...
AT_OPEN = {
    "empty": (FormatError, 0, "the file is empty, not a zip archive"),
    "two_bytes": (FormatError, 0, "2 bytes are too few for a zip archive"),
    "text": (FormatError, 0, "not a zip archive: it begins with 0x37363737"),
    "cut_in_header": (LimitError, 0, "the archive of 20 bytes has no room for a local header here"),
    "cut_in_name": (LimitError, 0, "the archive ends inside a local header"),
    "cut_in_content": (LimitError, 0, "entry 'conv.weight' claims 16 bytes from offset 73, where 7 are left"),
    "cut_between_entries": (
        FormatError,
        89,
        "the archive is cut off: no end record follows (entries so far: 1)",
    ),
    "cut_before_directory": (
        FormatError,
        164,
        "the archive is cut off: no end record follows (entries so far: 2)",
    ),
    "cut_in_empty_archive": (
        FormatError,
        60,
        "the archive is cut off: no end record follows (entries so far: 0)",
    ),
    "junk_between_entries": (FormatError, 89, "expected a zip header, found 0x4b4e554a"),
    "local_signature": (FormatError, 89, "expected a local header (0x04034b50), found 0x05034b50"),
    "central_signature": (
        FormatError,
        164,
        "expected a central directory record (0x02014b50), found 0x03014b50",
    ),
    "zip64_end_signature": (FormatError, 340, "expected a zip64 end record (0x06064b50), found 0x08064b50"),
    "crc_differs": (
        FormatError,
        0,
        "entry 'conv.weight' has another CRC-32 here than in the central directory",
    ),
    "name_differs": (
        FormatError,
        0,
        "entry 'conv.weight' has another name here than in the central directory",
    ),
    "name_length_differs": (FormatError, 40, "entry 'conv.weigh' needs a zip64 extra field with 2 numbers"),
    "method_differs": (
        FormatError,
        0,
        "entry 'conv.weight' has another compression method here than in the central directory",
    ),
    "size_differs": (
        FormatError,
        0,
        "entry 'conv.weight' has another size here than in the central directory",
    ),
    "stored_with_two_sizes": (
        FormatError,
        0,
        "entry 'conv.weight' is stored, but has two sizes, 16 and 17 bytes",
    ),
    "size_2_40": (
        LimitError,
        0,
        "entry 'conv.weight' claims 1099511627776 bytes from offset 73, where 16 are left",
    ),
    "size_2_64": (
        LimitError,
        0,
        "entry 'conv.weight' claims 18446744073709551615 bytes from offset 73, where 16 are left",
    ),
    "size_2_64_without_directory": (
        LimitError,
        0,
        "entry 'conv.weight' claims 18446744073709551615 bytes from offset 73, where 16 are left",
    ),
    "size_into_directory": (
        LimitError,
        0,
        "entry 'conv.weight' claims 17 bytes from offset 73, where 16 are left",
    ),
    "header_offset_2_63": (LimitError, 89, "entry 'conv.weight' cannot begin at offset 9223372036854775808"),
    "header_offset_in_end": (LimitError, 89, "entry 'conv.weight' cannot begin at offset 266"),
    "zip64_extra_missing": (FormatError, 146, "entry 'conv.weight' needs a zip64 extra field with 3 numbers"),
    "zip64_extra_short": (FormatError, 146, "entry 'conv.weight' needs a zip64 extra field with 3 numbers"),
    "zip64_extra_overruns": (
        FormatError,
        146,
        "entry 'conv.weight' needs a zip64 extra field with 3 numbers",
    ),
    "zip64_extra_missing_locally": (
        FormatError,
        118,
        "entry 'conv.weight' needs a zip64 extra field with 3 numbers",
    ),
    "record_overruns_directory": (FormatError, 253, "the central directory ends inside this record"),
    "count_2_40": (LimitError, 340, "a central directory of 176 bytes cannot list 1099511627776 entries"),
    "count_too_large": (FormatError, 340, "the central directory ends before its last entry"),
    "count_too_small": (FormatError, 253, "87 bytes of the central directory follow its last entry"),
    "directory_offset_2_64": (
        LimitError,
        340,
        "the central directory cannot be 176 bytes at offset 18446744073709551615: its end record is at 340",
    ),
    "directory_size_2_64": (
        LimitError,
        340,
        "the central directory cannot be 18446744073709551615 bytes at offset 164: its end record is at 340",
    ),
    "directory_elsewhere": (
        FormatError,
        0,
        "expected a central directory record (0x02014b50), found 0x04034b50",
    ),
    "zip64_end_elsewhere": (LimitError, 396, "the zip64 end record cannot be at offset 18446744073709551615"),
    "zip64_end_at_locator": (LimitError, 396, "the zip64 end record cannot be at offset 396"),
    "several_disks": (FormatError, 340, "archives of several disks are not supported"),
    "several_disks_zip32": (FormatError, 0, "archives of several disks are not supported"),
    "overlap": (FormatError, 73, "entries 'conv.weight' and 'conv.bias' overlap"),
    "one_header_twice": (FormatError, 0, "entries 'conv.weight' and 'conv.weight' overlap"),
    "encrypted": (FormatError, 0, "entry 'conv.weight' is encrypted"),
    "method_99": (
        FormatError,
        0,
        "entry 'conv.weight' uses compression method 99; known are 0 and 8 (deflate)",
    ),
    "name_latin1": (FormatError, 141, "an entry name is not UTF-8"),
    "name_surrogate": (FormatError, 137, "an entry name is not UTF-8"),
    "descriptor_without_directory": (
        FormatError,
        0,
        "the size of entry 'conv.weight' is in a data descriptor, which only a central directory can locate",
    ),
    "deflate_claims_2_40": (
        LimitError,
        0,
        "entry 'conv.weight' claims 1099511627776 bytes, more than 18 deflated bytes can hold",
    ),
}
# ... and these when the entry is read.
AT_READ = {
    "content_flipped": (
        FormatError,
        73,
        "the CRC-32 of entry 'conv.weight' is 0x9ecb93b4, its header says 0xcecee288",
    ),
    "crc_wrong_in_both": (
        FormatError,
        73,
        "the CRC-32 of entry 'conv.weight' is 0xcecee288, its header says 0x00000001",
    ),
    "deflate_claims_too_much": (
        FormatError,
        73,
        "entry 'conv.weight' inflates to 1000 bytes instead of 1001",
    ),
    "deflate_claims_too_little": (
        FormatError,
        73,
        "entry 'conv.weight' inflates to more than its 10000 bytes",
    ),
    "deflate_cut": (
        FormatError,
        73,
        "the deflated bytes of entry 'conv.weight' end before it is whole (256 bytes)",
    ),
    "deflate_garbage": (
        FormatError,
        73,
        "entry 'conv.weight' does not inflate: Error -3 while decompressing data: invalid block type",
    ),
    "deflate_empty_stream": (
        FormatError,
        73,
        "the deflated bytes of entry 'conv.weight' end before it is whole (0 bytes)",
    ),
    "deflate_wrong_crc": (
        FormatError,
        73,
        "the CRC-32 of entry 'conv.weight' is 0xcecee288, its header says 0x00000007",
    ),
}


def broken(raw):
    """What reading everything raises; None when nothing does."""
    error = None
    try:
        reader = StoreZipReader(raw)
        sizes = {name: reader.view(name).size for name in reader}
    except FormatError as caught:
        error = caught
    if error is None:
        assert sizes == {name: reader.size(name) for name in reader}
    else:
        assert error.offset is not None
        assert 0 <= error.offset <= len(raw)
    return error


def test_museum_is_complete():
    museum = {path.stem: path.read_bytes() for path in FOLDER.glob("*.bin")}
    assert museum == MAKER["MUSEUM"], "run zip/make_museum.py"
    assert set(museum) == {*AT_OPEN, *AT_READ}


@pytest.mark.parametrize("name", AT_OPEN)
def test_at_open(name):
    kind, offset, reason = AT_OPEN[name]
    path = FOLDER / f"{name}.bin"
    with pytest.raises(FormatError) as caught:
        StoreZipReader(path)
    assert type(caught.value) is kind
    assert str(caught.value) == f"{path} at byte {offset}: {reason}"


@pytest.mark.parametrize("name", AT_READ)
def test_at_read(name):
    kind, offset, reason = AT_READ[name]
    path = FOLDER / f"{name}.bin"
    with StoreZipReader(path) as reader:
        for method in (reader.read, reader.view, lambda _: reader.verify()):
            with pytest.raises(FormatError) as caught:
                method("conv.weight")
            assert type(caught.value) is kind
            assert str(caught.value) == f"{path} at byte {offset}: {reason}"


def test_sound_archive_is_sound():
    assert broken(MAKER["SOUND"]) is None


def test_nothing_large_is_allocated():
    museum = [path.read_bytes() for path in FOLDER.glob("*.bin")]
    tracemalloc.start()
    try:
        for raw in museum:
            assert broken(raw)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_every_cut():
    """What is left of an archive is either refused or, behind the last content, read along its headers."""
    sound, body = MAKER["SOUND"], MAKER["BODY"]
    for n in range(len(sound)):
        assert (broken(sound[:n]) is None) == (n >= body + 4), n


def test_every_bit():
    """One flipped bit is noticed, or is in a field that says nothing (versions, times, unused numbers)."""
    sound = MAKER["SOUND"]
    expected = {"conv.weight": MAKER["WEIGHT"], "conv.bias": MAKER["BIAS"]}
    unnoticed = 0
    for bit in range(8 * len(sound)):
        raw = bytearray(sound)
        raw[bit // 8] ^= 1 << bit % 8
        if broken(bytes(raw)) is None:
            reader = StoreZipReader(bytes(raw))
            assert {name: reader.read(name) for name in reader} == expected, bit
            unnoticed += 1
    assert unnoticed < len(sound) * 8 // 2


def mutated(rng, raw):
    """A few bytes changed, copied, removed or set to an extreme."""
    raw = bytearray(raw)
    for _ in range(rng.randint(1, 6)):
        at, n = rng.randrange(len(raw) + 1), rng.choice((1, 1, 2, 4, 8, 30))
        change = rng.randrange(5)
        if change == 0:
            raw[at : at + n] = rng.randbytes(len(raw[at : at + n]))
        elif change == 1:
            source = rng.randrange(len(raw) + 1)
            raw[at : at + n] = raw[source : source + n]
        elif change == 2:
            del raw[at : at + n]
        else:
            size = min(n, 8)
            value = rng.choice((0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), len(raw), at))
            raw[at : at + size] = (value % 2 ** (8 * size)).to_bytes(size, "little")
    return bytes(raw)


def seeds():
    return [MAKER["SOUND"], *MAKER["MUSEUM"].values()]


@pytest.mark.parametrize("seed", range(4))
def test_mutations(seed):
    rng, pool = random.Random(seed), seeds()
    for _ in range(2000):
        broken(mutated(rng, rng.choice(pool)))
