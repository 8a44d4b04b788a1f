"""Compiled programs in a folder, so that the next process starts where this one has arrived.

A program file holds what a program needs and nothing of the graph: arguments of all steps, with places in one block of
memory in place of addresses, and that block: all constants, packed as the kernels want them. The block is mapped, not
read. A file belongs to one model (its files' names, sizes, times and checksums), instruction set, number of threads,
build of this package (its Python files, too, where these are edited in place) and signature of the inputs; whatever
does not fit or is damaged is made anew.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, partial
from typing import IO, Any

import numpy as np

import pnnx_fast
from pnnx_fast._core import program as core
from pnnx_fast._core import store
from pnnx_fast._files import cache_folder, kept_file
from pnnx_fast._types import Array
from pnnx_fast.errors import FormatError
from pnnx_fast.runtime.executable import Executable, Runnable, Slot
from pnnx_fast.runtime.inputs import TensorInfo

__all__ = ["LINE", "ProgramCache"]

MAGIC = b"pnnxfast"
HEADER = struct.Struct("<8sIIQQ")
"""Magic, checksums of text and block, their sizes. The block begins at the next page."""

PAGE, LINE = 4096, 64
"""Where the block begins, and where the constants in it do."""

KEPT = 4
"""Programs of a model in the folder; the oldest goes when there is one more."""

WORTH_A_THREAD, PIECE = 1 << 20, 16 << 20
"""Bytes from which on another thread begins with a checksum, and those that a thread takes at once."""

WRONG_CHECKSUM = "its checksum is wrong"

TAIL = 1 << 16
"""Bytes at the end of a weight file, where its list of checksums lies, that tell whether it is the same."""


class ProgramCache:
    """Programs of one model in a folder.

    Whoever can write to the folder decides what is computed, so it is made for its owner alone, and files of others
    are ignored.

    Parameters
    ----------
    folder : path or None
        Made when it is not there; None stands for one in the user's cache folder.
    param, bin : path
        The files of the model.
    *options
        Whatever else decides what the programs are.
    """

    def __init__(self, folder: str | os.PathLike[str] | None, param: str, bin: str, *options: Any) -> None:
        self._arenas: list[Array] = []
        self._folder = os.path.join(cache_folder(), "programs") if folder is None else os.fspath(folder)
        identities = [_identity(param, whole=True), _identity(bin, whole=False)]
        self._files = [identity[:3] for identity in identities]
        self._key = [*_build(), *map(str, options), *identities[0], *identities[1]]
        self._name = f"{os.path.basename(param).split('.')[0]}-{store.crc32(repr(self._key).encode()):08x}"

    def require_unchanged(self) -> None:
        """Raise FormatError when the files are not those any more of which the folder has programs."""
        for path, *known in self._files:
            try:
                status = os.stat(path)
            except FileNotFoundError:
                continue
            if [status.st_size, status.st_mtime_ns] != known:
                raise FormatError("the file was changed after the model was loaded; load it anew", path=path)

    def signature(self) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]] | None:
        """Inputs and outputs of the model, when they are known."""
        found = self._read("model", [])
        if found is None:
            return None
        try:
            found[1].check()
            inputs, outputs = (tuple(_info(row) for row in found[0][name]) for name in ("inputs", "outputs"))
        except (KeyError, TypeError, ValueError) as error:
            _warn(f"ignored {self._path('model')}: {error}")
            return None
        return inputs, outputs

    def keep_signature(self, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> None:
        """Remember inputs and outputs."""
        rows = {name: [_row(i) for i in infos] for name, infos in (("inputs", inputs), ("outputs", outputs))}
        self._write("model", [], rows, ())

    def get(self, given: Sequence[Array], isa: str, nthreads: int) -> Runnable | None:
        """Return the program for arrays of these shapes and dtypes, if the folder has it."""
        kind, signature = _signature(given, isa, nthreads)
        found = self._read(kind, signature)
        try:
            if found is None or _replaced(found[0]["types"]):
                return None
            program = _restored(*found, self._arenas)
            found[1].check()
            return program
        except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
            _warn(f"ignored {self._path(kind)}: {error}")
            return None

    def put(self, given: Sequence[Array], runnable: Runnable, types: Sequence[str]) -> None:
        """Keep the program of a graph of these operator types.

        Not one with steps in numpy, which no file can hold, nor with users' operators, which may change.
        """
        from pnnx_fast.runtime.saving import saved

        document, blocks = saved(runnable)
        if document is not None and not _replaced(types):
            rows = {"types": sorted(set(types)), **document}
            self._write(*_signature(given, runnable.isa, runnable.nthreads), rows, blocks)
            self._forget_oldest()

    # -- files -------------------------------------------------------------------------------------------------

    def _path(self, kind: str) -> str:
        return os.path.join(self._folder, f"{self._name}-{kind}.pfc")

    def _read(self, kind: str, signature: list[Any]) -> tuple[dict[str, Any], MappedBlock] | None:
        path = self._path(kind)
        try:
            with open(path, "rb", opener=_at_once) as file:
                found = _content(file)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            _warn(f"ignored {path}: {error}")
            return None
        document, _ = found
        return found if [document.get("key"), document.get("signature")] == [self._key, signature] else None

    def _write(self, kind: str, signature: list[Any], document: dict[str, Any], blocks: Sequence[Array]) -> None:
        text = json.dumps({"key": self._key, "signature": signature, **document}, separators=(",", ":")).encode()
        path = self._path(kind)
        try:
            with kept_file(path, 0o600) as file:
                _fill(file, text, blocks)
        except OSError as error:
            _warn(f"cannot write {path}: {error}")

    def _forget_oldest(self) -> None:
        """Delete all but the youngest programs, while other processes may do the same."""
        programs: list[tuple[int, str]] = []
        with suppress(OSError), os.scandir(self._folder) as entries:
            for entry in entries:
                if entry.name.startswith(f"{self._name}-") and entry.name.endswith(".pfc"):
                    with suppress(FileNotFoundError):
                        programs.append((entry.stat().st_mtime_ns, entry.path))
        programs = [row for row in programs if row[1] != self._path("model")]
        for _, path in sorted(programs)[:-KEPT]:
            with suppress(OSError):
                os.unlink(path)


def _build() -> tuple[Any, ...]:
    """What tells this build of the package from others, whose kernels may want other weights."""
    status = os.stat(core.__file__)
    return pnnx_fast.__version__, status.st_size, status.st_mtime_ns, _live_sources(os.path.dirname(pnnx_fast.__file__))


@cache
def _live_sources(package: str) -> int:
    """Checksum of the Python files' names, sizes and times where an editable install lets them change without a build.

    The compiled modules lie elsewhere then. Other installs put all files in place at once.
    """
    if core.__file__.startswith(package + os.sep):
        return 0
    found = []
    for folder, _, names in os.walk(package):
        files = [os.path.join(folder, name) for name in names if name.endswith(".py")]
        found += [
            (name, status.st_size, status.st_mtime_ns) for name, status in zip(files, map(os.stat, files), strict=True)
        ]
    return store.crc32(repr(sorted(found)).encode())


def _identity(path: str, whole: bool) -> tuple[str, int, int, int]:
    """Name, size, time and checksum of a file, or of its end."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not whole and status.st_size > TAIL:
                file.seek(-TAIL, os.SEEK_END)
            return os.path.realpath(path), status.st_size, status.st_mtime_ns, store.crc32(file.read())
    except FileNotFoundError:
        return os.path.realpath(path), -1, 0, 0


def _replaced(types: Sequence[str]) -> bool:
    """Whether operators were registered by others; without the registry nobody did."""
    registry = sys.modules.get("pnnx_fast.ops.registry")
    return registry is not None and bool(registry.users_own(types))


def _signature(given: Sequence[Array], isa: str, nthreads: int) -> tuple[str, list[Any]]:
    rows = [isa, nthreads, *([list(a.shape), a.dtype.str] for a in given)]
    return f"{store.crc32(repr(rows).encode()):08x}", rows


def _row(info: TensorInfo) -> list[Any]:
    return [info.name, info.shape, None if info.dtype is None else info.dtype.str]


def _info(row: list[Any]) -> TensorInfo:
    name, shape, dtype = row
    return TensorInfo(name, None if shape is None else tuple(shape), None if dtype is None else np.dtype(dtype))


def _warn(message: str) -> None:
    """Warn; what that takes is imported only then."""
    from pnnx_fast import _warning

    _warning.warn(message)


# -- one file ------------------------------------------------------------------------------------------------------


def _rounded(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _at_once(path: str, flags: int) -> int:
    """Open a file; a pipe in its place does not wait for somebody who writes to it."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _fill(file: IO[bytes], text: bytes, blocks: Sequence[Array]) -> None:
    """Write text and blocks, each block at the next cache line."""
    begin = _rounded(HEADER.size + len(text), PAGE)
    checksum = size = 0
    file.seek(begin)
    for block in blocks:
        rest = bytes(_rounded(block.nbytes, LINE) - block.nbytes)
        for piece in (block.reshape(-1).view(np.uint8).data, memoryview(rest)):
            checksum = store.crc32(piece, checksum)
            file.write(piece)
        size += block.nbytes + len(rest)
    file.seek(0)
    file.write(HEADER.pack(MAGIC, store.crc32(text), checksum, len(text), size) + text)


def _content(file: IO[bytes]) -> tuple[dict[str, Any], MappedBlock]:
    """Return the document of a file and its mapped block; ValueError when it is damaged or somebody else's."""
    status = os.fstat(file.fileno())
    if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
        raise ValueError("others may have written it")
    if status.st_size < HEADER.size:
        raise ValueError("it is too short")
    whole = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    magic, text_sum, block_sum, text_size, size = HEADER.unpack_from(whole.data)
    begin = _rounded(HEADER.size + text_size, PAGE)
    if magic != MAGIC or (begin + size if size else HEADER.size + text_size) != whole.size:
        raise ValueError("it has another size than it says")
    text = bytes(whole[HEADER.size : HEADER.size + text_size])
    if store.crc32(text) != text_sum:
        raise ValueError(WRONG_CHECKSUM)
    block = MappedBlock(whole[begin : begin + size], block_sum)
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("it describes no program")
    return document, block


class MappedBlock:
    """Constants of a program, whose CRC-32 another thread computes while this one makes the program of the document.

    Whoever takes a block checks it before anything in it is used.
    """

    def __init__(self, array: Array, expected: int) -> None:
        self.array, self._expected = array, expected
        self._left = deque(range(0, array.size, PIECE))
        self._sums: dict[int, int] = {}
        self._other = threading.Thread(target=self._sum) if array.size >= WORTH_A_THREAD else None
        if self._other is not None:
            with suppress(RuntimeError):  # no more threads: this one does it all
                self._other.start()

    def _sum(self) -> None:
        while True:
            try:
                start = self._left.popleft()
            except IndexError:
                return
            self._sums[start] = store.crc32(self.array[start : start + PIECE].data)

    def check(self) -> None:
        """Raise ValueError when the checksum is wrong."""
        self._sum()
        if self._other is not None and self._other.ident is not None:
            self._other.join()
        total = 0
        for start, checksum in sorted(self._sums.items()):
            total = store.crc32_combine(total, checksum, min(PIECE, self.array.size - start))
        if total != self._expected:
            raise ValueError(WRONG_CHECKSUM)


def _restored(document: dict[str, Any], block: MappedBlock, arenas: list[Array]) -> Runnable:
    """Make a program of what :func:`pnnx_fast.runtime.saving.saved` wrote."""
    isa, nthreads, outputs = document["isa"], document["nthreads"], document["outputs"]
    layouts = document["layouts"]
    steps = [
        (layouts[i][0], dict(zip(layouts[i][1:], row, strict=True)), serial, False)
        for i, serial, row in document["steps"]
    ]
    ahead = _ahead(document["ahead"], block.array)
    program = Executable(
        core.Program(isa, steps, document["bases"], nthreads, absolute=False, ahead=ahead),
        isa,
        nthreads,
        segments=[(0, len(steps))],
        structure=[_with_slots(value) for value in document["structure"]],
        output_types=[(tuple(shape), np.dtype(dtype)) for shape, dtype in outputs],
        arena_bytes=document["arena_bytes"],
        arenas=arenas,
        records=partial(json.loads, document["records"]),
        weights=block.array,
    )
    if document["parts"] == 1:
        return program
    from pnnx_fast.runtime.parts import Parts

    return Parts(program, document["parts"], document["together"])


def _ahead(rows: list[list[int]], block: Array) -> dict[int, tuple[int, int]]:
    """Addresses of what steps fetch for later ones."""
    if not all(0 <= at <= at + nbytes <= block.size for _, at, nbytes in rows):
        raise ValueError("weights lie outside of the block")
    first: int = block.__array_interface__["data"][0]
    return {step: (first + at, nbytes) for step, at, nbytes in rows}


def _with_slots(value: Any) -> Any:
    if isinstance(value, dict):
        return Slot(value["slot"]) if "slot" in value else tuple(_with_slots(v) for v in value["tuple"])
    return [_with_slots(v) for v in value] if isinstance(value, list) else value
