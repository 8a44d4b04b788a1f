"""Makes the broken archives of this folder: ``python make_museum.py``.

Every exhibit is a small sound archive with one thing changed; ``test_hostile_zip.py`` holds the message that
each must give, and checks that the files are what this script makes. It knows the zip format only, nothing
of the package.
"""

import pathlib
import struct
import zlib

FULL16, FULL32, FULL64 = 0xFFFF, 0xFFFFFFFF, 2**64 - 1


def local(name, data, *, size=None, packed=None, crc=None, method=0, flags=0, extra=None):
    """A local header as PNNX writes it, and the content."""
    size = len(data) if size is None else size
    packed = len(data) if packed is None else packed
    crc = zlib.crc32(data) if crc is None else crc
    extra = struct.pack("<HHQQQI", 1, 28, size, packed, 0, 0) if extra is None else extra
    head = (0x04034B50, 0, flags, method, 0, 0, crc, FULL32, FULL32, len(name), len(extra))
    return struct.pack("<IHHHHHIIIHH", *head) + name + extra + data


def central(name, data, offset, *, size=None, packed=None, crc=None, method=0, flags=0, extra=None):
    """The record of that entry in the central directory."""
    size = len(data) if size is None else size
    packed = len(data) if packed is None else packed
    crc = zlib.crc32(data) if crc is None else crc
    extra = struct.pack("<HHQQQI", 1, 28, size, packed, offset, 0) if extra is None else extra
    head = (
        0x02014B50,
        0,
        0,
        flags,
        method,
        0,
        0,
        crc,
        FULL32,
        FULL32,
        len(name),
        len(extra),
        0,
        FULL16,
        0,
        0,
    )
    return struct.pack("<IHHHHHHIIIHHHHHII", *head, FULL32) + name + extra


def end(count, directory, directory_size, *, at=None, disk=0):
    """The three records at the end."""
    at = directory + directory_size if at is None else at
    record = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 0, 0, disk, 0, count, count, directory_size, directory)
    locator = struct.pack("<IIQI", 0x07064B50, 0, at, 1)
    return record + locator + struct.pack("<IHHHHIIH", 0x06054B50, *[FULL16] * 4, FULL32, FULL32, 0)


WEIGHT, BIAS = bytes(range(16)), b"\1\2\3\4"


def archive(*entries):
    """An archive of (name, content, changes of both headers, changes of the central record)."""
    body, directory = b"", b""
    for name, data, both, central_only in entries:
        directory += central(name, data, len(body), **{**both, **central_only})
        body += local(name, data, **both)
    return body + directory + end(len(entries), len(body), len(directory))


def one(data=WEIGHT, central_only=None, **both):
    """An archive with one entry."""
    return archive((b"conv.weight", data, both, central_only or {}))


SOUND = archive((b"conv.weight", WEIGHT, {}, {}), (b"conv.bias", BIAS, {}, {}))
SECOND = len(local(b"conv.weight", WEIGHT))
BODY = SECOND + len(local(b"conv.bias", BIAS))
TAIL = len(SOUND) - 98


def patched(offset, new, raw=SOUND):
    """The archive with other bytes at an offset."""
    return raw[:offset] + new + raw[offset + len(new) :]


def with_end(count=2, directory=BODY, directory_size=TAIL - BODY, **options):
    """The sound archive with another end."""
    return SOUND[:TAIL] + end(count, directory, directory_size, **{"at": TAIL, **options})


def deflated(data, level=9):
    """A raw deflate stream."""
    press = zlib.compressobj(level, zlib.DEFLATED, -15)
    return press.compress(data) + press.flush()


def deflate(stream, size, crc=0):
    """An archive with one deflated entry."""
    return one(stream, size=size, method=8, crc=crc)


def overlap():
    """The second local header lies in the content of the first entry."""
    inner = local(b"conv.bias", BIAS)
    body = local(b"conv.weight", inner)
    directory = central(b"conv.weight", inner, 0) + central(b"conv.bias", BIAS, len(body) - len(inner))
    return body + directory + end(2, len(body), len(directory))


def twice():
    """Two records for one local header, the usual way to multiply content."""
    body = local(b"conv.weight", WEIGHT)
    directory = 2 * central(b"conv.weight", WEIGHT, 0)
    return body + directory + end(2, len(body), len(directory))


def extra_only_here(extra):
    """One entry whose central record has this extra field."""
    return one(central_only={"extra": extra})


MUSEUM = {
    "empty": b"",
    "two_bytes": b"PK",
    "text": b"7767517\n3 2\npnnx.Input",
    "cut_in_header": SOUND[:20],
    "cut_in_name": SOUND[:40],
    "cut_in_content": SOUND[:80],
    "cut_between_entries": SOUND[:SECOND],
    "cut_before_directory": SOUND[:BODY],
    "cut_in_empty_archive": end(0, 0, 0)[:60],
    "junk_between_entries": patched(SECOND, b"JUNK", SOUND[: BODY + 20]),
    "local_signature": patched(SECOND, b"PK\3\5"),
    "central_signature": patched(BODY, b"PK\1\3"),
    "zip64_end_signature": patched(TAIL, b"PK\6\x08"),
    "content_flipped": patched(SECOND - 1, b"\x7f"),
    "crc_differs": one(central_only={"crc": 1}),
    "crc_wrong_in_both": one(crc=1),
    "name_differs": patched(30, b"K"),
    "name_length_differs": patched(26, b"\x0a"),
    "method_differs": one(central_only={"method": 8}),
    "size_differs": one(central_only={"size": 17}),
    "stored_with_two_sizes": one(size=17),
    "size_2_40": one(size=1 << 40, packed=1 << 40),
    "size_2_64": one(size=FULL64, packed=FULL64),
    "size_2_64_without_directory": local(b"conv.weight", WEIGHT, size=FULL64, packed=FULL64),
    "size_into_directory": one(size=17, packed=17),
    "header_offset_2_63": extra_only_here(struct.pack("<HHQQQI", 1, 28, 16, 16, 1 << 63, 0)),
    "header_offset_in_end": extra_only_here(struct.pack("<HHQQQI", 1, 28, 16, 16, len(one()) - 10, 0)),
    "zip64_extra_missing": extra_only_here(b""),
    "zip64_extra_short": extra_only_here(struct.pack("<HHQQ", 1, 16, 16, 16)),
    "zip64_extra_overruns": extra_only_here(struct.pack("<HHQQQ", 1, 28, 16, 16, 0)),
    "zip64_extra_missing_locally": one(extra=struct.pack("<HH", 9, 0)),
    "record_overruns_directory": patched(BODY + 89 + 30, b"\xff\xff"),
    "count_2_40": with_end(count=1 << 40),
    "count_too_large": with_end(count=3),
    "count_too_small": with_end(count=1),
    "directory_offset_2_64": with_end(directory=FULL64),
    "directory_size_2_64": with_end(directory_size=FULL64),
    "directory_elsewhere": with_end(directory=0, directory_size=TAIL),
    "zip64_end_elsewhere": with_end(at=FULL64),
    "zip64_end_at_locator": with_end(at=TAIL + 56),
    "several_disks": with_end(disk=1),
    "several_disks_zip32": struct.pack("<IHHHHIIH", 0x06054B50, 1, 0, 0, 0, 0, 0, 0),
    "overlap": overlap(),
    "one_header_twice": twice(),
    "encrypted": one(flags=1),
    "method_99": one(method=99),
    "name_latin1": archive((b"conv.gr\xf6\xdfe", WEIGHT, {}, {})),
    "name_surrogate": archive((b"conv.\xed\xa0\x80", WEIGHT, {}, {})),
    "descriptor_without_directory": local(b"conv.weight", WEIGHT, flags=8, size=0, packed=0),
    "deflate_claims_2_40": deflate(deflated(WEIGHT), 1 << 40),
    "deflate_claims_too_much": deflate(deflated(bytes(1000)), 1001),
    "deflate_claims_too_little": deflate(deflated(bytes(100000)), 10000),
    "deflate_cut": deflate(deflated(bytes(range(256)))[:-9], 256),
    "deflate_garbage": deflate(b"\xff" * 16, 64),
    "deflate_empty_stream": deflate(b"", 0),
    "deflate_wrong_crc": deflate(deflated(WEIGHT), 16, crc=7),
}


def main():
    """Write the files."""
    folder = pathlib.Path(__file__).parent
    for name, raw in MUSEUM.items():
        (folder / f"{name}.bin").write_bytes(raw)


if __name__ == "__main__":
    main()
