"""Reader and writer of the zip archives that hold weights (``.pnnx.bin``).

PNNX stores entries without compression, so a reader hands out views of the mapped file. Archives that
common tools have rewritten (deflate, data descriptors, 32-bit records) are read too. Graph formats use
these classes, which know names and bytes, not tensors.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, Self, TypeAlias
from weakref import WeakValueDictionary

import numpy as np

from pnnx_fast._core import store
from pnnx_fast._memory import Tally, check_memory
from pnnx_fast._types import PathLike
from pnnx_fast.errors import FormatError, LimitError
from pnnx_fast.ir.mapped import map_file, release

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Buffer

__all__ = ["Layout", "StoreZipReader", "StoreZipWriter", "write_all"]

Layout = Literal["zip64", "zip32"]
Bytes: TypeAlias = "npt.NDArray[np.uint8]"

_STORED = 0

GROUP = 4 << 20
"""Bytes that a thread checks at a time."""

KEPT_BYTES = 32 << 20
"""Largest entry whose pages stay mapped after a check."""


class _Entry:
    """What the index says about one entry; offset is where its (packed) bytes begin in the archive."""

    __slots__ = ("crc", "method", "name", "offset", "packed", "size")

    def __init__(self, name: str, offset: int, size: int, packed: int, crc: int, method: int) -> None:
        self.name, self.offset, self.size, self.packed = name, offset, size, packed
        self.crc, self.method = crc, method


class StoreZipReader:
    """Entries of a zip archive, as views of it where they are stored.

    The index is read and checked at once: every header and every content lies inside the archive, contents
    do not overlap, and both headers of an entry agree. Archives without an end record (a download that was
    cut in the directory) are read along their local headers.

    Parameters
    ----------
    source : str, os.PathLike, buffer or binary file object
        A path is memory-mapped; the map lives as long as the reader or a view needs it, and nobody may
        write to the file meanwhile (to replace it by renaming, as the writer does, is safe). A file object
        is read from its position to its end.
    verify : bool
        Compare the CRC-32 of an entry the first time that it is read or viewed.

    Attributes
    ----------
    path : str or None
        The file, when there is one.
    layout : {"zip64", "zip32"}
        Which of PNNX's two layouts the archive resembles; :class:`StoreZipWriter` takes it.

    Raises
    ------
    FormatError
        This is not a zip archive, or it is damaged; the message names the byte.
    LimitError
        A size or count is larger than the archive can hold.
    OSError
        The file cannot be opened.

    Notes
    -----
    Of entries with the same name the last wins unless another one is asked for. Reading is safe from several threads.

    Examples
    --------
    >>> import io
    >>> import numpy as np
    >>> file = io.BytesIO()
    >>> with StoreZipWriter(file) as writer:
    ...     writer.write("conv.weight", np.arange(3, dtype=np.float32))
    ...     writer.write("conv.bias", b"")
    >>> with StoreZipReader(file.getvalue()) as reader:
    ...     print(reader.names(), reader.size("conv.weight"))
    ...     print(reader.view("conv.weight").view(np.float32))
    ['conv.weight', 'conv.bias'] 12
    [0. 1. 2.]
    """

    def __init__(self, source: PathLike | Buffer | IO[bytes], *, verify: bool = True) -> None:
        self.path, buffer = _open(source)
        self._verify = verify
        self._data: memoryview | None = memoryview(buffer).toreadonly().cast("B")
        zip64, entries = store.zip_index(self._data, self.path)
        self.layout: Layout = "zip64" if zip64 else "zip32"
        self._entries = {entry[0]: _Entry(*entry) for entry in entries}
        self._repeated = self._repeats(entries) if len(self._entries) < len(entries) else {}
        self._checked: set[_Entry] = set()
        self._inflated: WeakValueDictionary[_Entry, Bytes] = WeakValueDictionary()
        self._in_use = Tally()

    def names(self) -> list[str]:
        """Names of the entries in the order of the archive."""
        return list(self._entries)

    def count(self, name: str) -> int:
        """How many entries have that name."""
        return len(self._repeated.get(name, ())) or int(name in self._entries)

    def size(self, name: str, which: int = -1) -> int:
        """Bytes of the content; ``which`` tells entries of one name apart, see :meth:`view`.

        Raises
        ------
        KeyError
            There is no such entry.
        """
        return self._entry(name, which).size

    def offset(self, name: str) -> int:
        """Offset in the archive at which the content begins (in its packed form, when it is deflated).

        Raises
        ------
        KeyError
            There is no such entry.
        """
        return self._entry(name).offset

    def view(self, name: str, which: int = -1) -> Bytes:
        """The content as a read-only array.

        Parameters
        ----------
        name : str
        which : int
            Of several entries of that name, counted in the order of the archive; by default the last.

        Returns
        -------
        numpy.ndarray
            Shape (size,), uint8. For a stored entry it lies in the archive, at any alignment, and keeps the
            archive alive, also after :meth:`close`; ``.view(dtype)`` gives elements without a copy.

        Raises
        ------
        KeyError
            There is no such entry.
        FormatError
            The content does not match its CRC-32, or does not inflate to its size.
        ValueError
            The reader is closed.
        """
        entry = self._entry(name, which)
        if entry.method != _STORED:
            return self._inflated_view(entry)
        data = self._packed(entry)
        if self._verify and entry not in self._checked:
            self._check(entry, data)
        return np.frombuffer(data, np.uint8) if data.nbytes else _nothing()

    def _inflated_view(self, entry: _Entry) -> Bytes:
        """Content of a deflated entry: one array for all who hold it, and no more of all entries than memory allows."""
        held = self._inflated.get(entry)
        if held is None:
            self._in_use.check(entry.size, f"{self.path or '<memory>'}: entry {entry.name!r}")
            data = _inflate(self._packed(entry), entry, self.path)
            if self._verify and entry not in self._checked:
                self._check(entry, data)
            self._inflated[entry] = held = np.frombuffer(data, np.uint8) if data.nbytes else _nothing()
            self._in_use.add(held, held.nbytes)
        return held

    def read(self, name: str) -> bytes:
        """A copy of the content; see :meth:`view` for what it raises."""
        return self.view(name).tobytes()

    def verify(self) -> None:
        """Compare the CRC-32 of every entry, checked before or not.

        Raises
        ------
        FormatError
            The first entry that does not match.
        """
        for entry in [entry for name in self._entries for entry in self._all(name)]:
            data = self._packed(entry)
            self._check(entry, data if entry.method == _STORED else _inflate(data, entry, self.path))

    def check(
        self, names: Iterable[str], unread: Container[str] = (), meanwhile: Callable[[], object] | None = None
    ) -> None:
        """Compare the CRC-32 of these entries now, on two threads, rather than one by one when they are viewed.

        Says nothing: viewing an entry that does not match raises as ever. Leaves out what need not be verified. Pages
        of ``unread`` entries, of which little will be read, and of huge ones, which would be in memory beside what the
        reader makes of the others, are given back; the others stay mapped for the reader. This thread begins with
        ``meanwhile``, if there is anything to check.
        """
        if self._data is None or not self._verify:
            return
        found = [entry for name in names if name in self._entries for entry in self._all(name)]
        wanted = [entry for entry in found if entry not in self._checked]
        groups = deque(_groups([entry for entry in wanted if entry.method == _STORED]))
        other = threading.Thread(target=self._check_groups, args=(self._data, groups, unread), daemon=True)
        if len(groups) >= (1 if meanwhile else 2):
            with suppress(RuntimeError):  # no more threads: this one does it all
                other.start()
        if meanwhile is not None:
            meanwhile()
        self._check_groups(self._data, groups, unread)
        if other.ident is not None:
            other.join()

    def _check_groups(self, data: memoryview, groups: deque[list[_Entry]], unread: Container[str]) -> None:
        while True:
            try:
                group = groups.popleft()
            except IndexError:
                return
            found = store.crc32_each(data, [(entry.offset, entry.size) for entry in group])
            self._checked.update(entry for entry, crc in zip(group, found, strict=True) if crc == entry.crc)
            for entry in group:
                if entry.name in unread or entry.size > KEPT_BYTES:
                    release(np.frombuffer(data[entry.offset : entry.offset + entry.size], np.uint8))

    def close(self) -> None:
        """Let go of the archive; views that were handed out stay valid."""
        self._data = None

    def _repeats(self, entries: Sequence[tuple[str, int, int, int, int, int]]) -> dict[str, list[_Entry]]:
        """Entries of names that repeat; those of equal content are one."""
        repeated: dict[str, list[_Entry]] = {}
        distinct = {(e.name, e.size, e.crc): e for e in self._entries.values()}
        for row in entries:
            entry = _Entry(*row)
            repeated.setdefault(entry.name, []).append(distinct.setdefault((entry.name, entry.size, entry.crc), entry))
        return {name: found for name, found in repeated.items() if len(found) > 1}

    def _all(self, name: str) -> list[_Entry]:
        return list(dict.fromkeys(self._repeated.get(name, (self._entries[name],))))

    def _entry(self, name: str, which: int = -1) -> _Entry:
        try:
            return self._entries[name] if which == -1 else self._repeated[name][which]
        except KeyError:
            raise KeyError(f"{self.path or '<memory>'} has no entry {name!r}") from None

    def _packed(self, entry: _Entry) -> memoryview:
        if self._data is None:
            raise ValueError(f"the reader of {self.path or '<memory>'} is closed")
        return self._data[entry.offset : entry.offset + entry.packed]

    def _check(self, entry: _Entry, data: memoryview) -> None:
        crc = store.crc32(data)
        if crc != entry.crc:
            reason = f"the CRC-32 of entry {entry.name!r} is 0x{crc:08x}, its header says 0x{entry.crc:08x}"
            raise FormatError(reason, path=self.path, offset=entry.offset)
        self._checked.add(entry)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<StoreZipReader {self.path or '<memory>'}: {len(self)} entries, {self.layout}>"


def _open(source: PathLike | Buffer | IO[bytes]) -> tuple[str | None, Buffer]:
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        return path, map_file(path)
    if hasattr(source, "read"):
        name = getattr(source, "name", None)
        content: Buffer | str = source.read()
        if isinstance(content, str):
            raise TypeError(f"the archive of weights {name!r} is open as text; it must be open as binary, mode 'rb'")
        return name if isinstance(name, str) else None, content
    return None, source if memoryview(source).readonly else bytes(source)


def _groups(entries: Sequence[_Entry]) -> Iterator[list[_Entry]]:
    group: list[_Entry] = []
    size = 0
    for entry in entries:
        group.append(entry)
        size += entry.size
        if size >= GROUP:
            yield group
            group, size = [], 0
    if group:
        yield group


def _inflate(packed: memoryview, entry: _Entry, path: str | None) -> memoryview:
    """Inflate no more than the declared size, which the index has held against the packed size."""
    import zlib  # PNNX itself deflates nothing

    what = f"{path or '<memory>'}: entry {entry.name!r}"
    check_memory(entry.size, what)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        data = inflater.decompress(packed, entry.size + 1)
    except zlib.error as error:
        reason = f"entry {entry.name!r} does not inflate: {error}"
        raise FormatError(reason, path=path, offset=entry.offset) from None
    except MemoryError:
        raise LimitError(f"no memory for the {entry.size} bytes that it holds", path=what) from None
    if len(data) == entry.size and inflater.eof:
        return memoryview(data)
    if len(data) > entry.size:
        reason = f"entry {entry.name!r} inflates to more than its {entry.size} bytes"
    elif inflater.eof:
        reason = f"entry {entry.name!r} inflates to {len(data)} bytes instead of {entry.size}"
    else:
        reason = f"the deflated bytes of entry {entry.name!r} end before it is whole ({entry.size} bytes)"
    raise FormatError(reason, path=path, offset=entry.offset)


def _nothing() -> Bytes:
    empty = np.empty(0, np.uint8)
    empty.flags.writeable = False
    return empty


class StoreZipWriter:
    """Writes a zip archive of stored entries, byte for byte as PNNX does.

    Parameters
    ----------
    file : binary file object
        Is written from its position on and not closed.
    layout : {"zip64", "zip32"}
        PNNX has written zip64 records for every size since 2024, and plain ones (up to 4 GiB) before.
    duplicates : bool
        Accept a name several times; PNNX writes such archives, and readers take the last entry.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO()
    >>> with StoreZipWriter(file, layout="zip32") as writer:
    ...     writer.write("a", b"12345")
    >>> len(file.getvalue())
    105
    """

    def __init__(self, file: IO[bytes], *, layout: Layout = "zip64", duplicates: bool = False) -> None:
        if layout not in ("zip64", "zip32"):
            raise ValueError(f"layout is 'zip64' or 'zip32', not {layout!r}")
        self.layout: Layout = layout
        self._file: IO[bytes] | None = file
        self._position = 0
        self._directory: list[bytes] = []
        self._names: set[str] = set()
        self._duplicates = duplicates

    def write(self, name: str, data: npt.NDArray[Any] | Buffer) -> None:
        """Append an entry.

        Parameters
        ----------
        name : str
            At most 65535 bytes of UTF-8, not used before in this archive unless it takes duplicates.
        data : numpy.ndarray or buffer
            The content; an array is written in C order.

        Raises
        ------
        ValueError
            The name is used already or too long, or the writer is closed.
        LimitError
            The archive would need zip64 records and has the other layout.
        """
        file = self._writable()
        if name in self._names and not self._duplicates:
            raise ValueError(f"the archive has an entry {name!r} already")
        content, raw_name = _bytes_of(data), name.encode()
        crc, zip64 = store.crc32(content), self.layout == "zip64"
        header = store.zip_local_header(raw_name, content.nbytes, crc, zip64)
        record = store.zip_central_record(raw_name, content.nbytes, crc, self._position, zip64)
        try:
            write_all(file, header)
            write_all(file, content)
        except BaseException:
            self.discard()
            raise
        self._position += len(header) + content.nbytes
        self._directory.append(record)
        self._names.add(name)

    def close(self) -> None:
        """Write the directory; closing twice is fine."""
        if self._file is None:
            return
        file, self._file = self._file, None
        directory = b"".join(self._directory)
        end = store.zip_end(len(self._directory), self._position, len(directory), self.layout == "zip64")
        write_all(file, directory + end)

    def discard(self) -> None:
        """Close without the directory: what was written is no archive."""
        self._file = None

    def _writable(self) -> IO[bytes]:
        if self._file is None:
            raise ValueError("the writer is closed")
        return self._file

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def _bytes_of(data: npt.NDArray[Any] | Buffer) -> memoryview:
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data
    view = memoryview(data)
    return np.frombuffer(view, np.uint8).data if view.nbytes else memoryview(b"")


def write_all(file: IO[bytes], data: Buffer) -> None:
    """Write to a file that may take less than it is given, as raw files do."""
    view = memoryview(data)
    while view.nbytes:
        written = file.write(view)
        view = view[written if written is not None else view.nbytes :]
