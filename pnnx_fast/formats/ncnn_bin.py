"""ncnn's weight files (``.bin``): arrays one after the other, without names, tagged or plain.

Only the layers know how many elements to read and in which order, so this is a cursor that ``pnnx_fast.ncnn`` drives,
and a writer. Arrays are views of the file where it holds them as they are.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from pnnx_fast._memory import check_memory
from pnnx_fast._types import Array
from pnnx_fast.errors import FormatError, LimitError, ParameterError
from pnnx_fast.ir import floats

__all__ = [
    "BytesSource",
    "EmptySource",
    "Source",
    "Storage",
    "Weight",
    "WeightReader",
    "read_error",
    "write_weight",
]

Storage = Literal["fp32", "fp16", "int8", "table", "scaled"]
"""How a tagged array is stored; ``scaled`` is fp32 under the tag of quantised models."""

TAGS: dict[Storage, int] = {"fp32": 0, "fp16": 0x01306B47, "int8": 0x000D4B38, "scaled": 0x0002C056}
_TABLE = 256
_FILLER = b"\x83\x22\x83\x22"
"""What PNNX appends to an odd number of float16 values."""


class Source(Protocol):
    """Where weights come from."""

    def read(self, size: int) -> Any:
        """Return the next ``size`` bytes as a buffer; raises FormatError when there are fewer."""


class BytesSource:
    """Weights in memory or in a mapped file, handed out as views."""

    def __init__(self, data: Any, path: str | None = None) -> None:
        self.data, self.path, self.at = memoryview(data).cast("B"), path, 0

    def read(self, size: int) -> memoryview:
        """See Source."""
        if size < 0 or size > len(self.data) - self.at:
            raise LimitError(
                f"{size} bytes of weights are wanted, {len(self.data) - self.at} are left",
                path=self.path,
                offset=self.at,
            )
        view = self.data[self.at : self.at + size]
        self.at += size
        return view


class EmptySource:
    """Zeros, for models of which only the graph is at hand; as no file justifies their size, memory limits it."""

    def __init__(self) -> None:
        self._total = 0

    def read(self, size: int) -> Array:
        """See Source."""
        self._total += size
        check_memory(self._total, "weights of zeros")
        return np.zeros(size, np.uint8)


class Weight(NamedTuple):
    """One array of a file.

    ``array`` is flat and float32, float16 or int8; ``tag`` is None for a plain one; ``raw`` are the bytes behind the
    tag, padding included.
    """

    array: Array
    tag: int | None
    raw: Any


class WeightReader:
    """Reads arrays in the order of the file.

    Parameters
    ----------
    source : Source

    Attributes
    ----------
    weights : list of Weight
        Everything read so far.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.weights: list[Weight] = []

    def load(self, count: int, type: int) -> Array:
        """Read one array.

        Parameters
        ----------
        count : int
            Number of elements.
        type : int
            0 for an array with a tag, which says how it is stored, 1 for plain float32, 2 for bytes of int8, which
            newer files hold without a tag.

        Returns
        -------
        ndarray
            1-d; float32 (also for a table of 256 values, which is looked up), float16 or int8.

        Raises
        ------
        FormatError
            When the file ends before the array does.
        ParameterError
            When there is no such type.
        """
        if count < 0 or count >= 1 << 40:
            raise LimitError(f"an array of {count} weights")
        if type not in (0, 1, 2):
            raise ParameterError(f"there is no type {type} of weights, only 0 (tagged), 1 (float32) and 2 (int8)")
        readers = (self._tagged, self._plain, self._bytes)
        weight = readers[type](count)
        self.weights.append(weight)
        return weight.array

    def _plain(self, count: int, tag: int | None = None) -> Weight:
        raw = self.source.read(4 * count)
        return Weight(_view(raw, "<f4", count), tag, raw)

    def _bytes(self, count: int) -> Weight:
        """Bytes of which older files say by a tag that they are int8."""
        size = (count + 3) // 4 * 4
        head = bytes(self.source.read(min(4, size)))
        if head == TAGS["int8"].to_bytes(4, "little"):
            raw = self.source.read(size)
            return Weight(_view(raw, np.int8, count), TAGS["int8"], raw)
        raw = head + bytes(self.source.read(size - len(head)))
        return Weight(_view(raw, np.int8, count), None, raw)

    def _tagged(self, count: int) -> Weight:
        tag = int.from_bytes(bytes(self.source.read(4)), "little")
        if tag == TAGS["fp16"]:
            raw = self.source.read((2 * count + 3) // 4 * 4)
            return Weight(_view(raw, "<f2", count), tag, raw)
        if tag == TAGS["int8"]:
            raw = self.source.read((count + 3) // 4 * 4)
            return Weight(_view(raw, np.int8, count), tag, raw)
        if tag in (TAGS["fp32"], TAGS["scaled"]):
            return self._plain(count, tag)
        raw = self.source.read(4 * _TABLE + (count + 3) // 4 * 4)
        table = _view(raw, "<f4", _TABLE)
        return Weight(table[_view(raw, np.uint8, 4 * _TABLE + count)[4 * _TABLE :]], tag, raw)


def _view(raw: Any, dtype: Any, count: int) -> Array:
    view: Array = np.frombuffer(raw, dtype, count)
    return view


def write_weight(weight: Weight | Array, storage: Storage | None = None) -> bytes:
    """Return the bytes of an array in a weight file.

    Parameters
    ----------
    weight : Weight or array
        A weight that was read comes out as it was.
    storage : str, optional
        How to store an array; None for plain float32 without a tag. ``fp16`` truncates as PNNX does; ``table`` takes
        an array of at most 256 different values.

    Raises
    ------
    ParameterError
        When a table is asked for and the values are too many, or int8 of values that are not.
    """
    if isinstance(weight, Weight):
        head = b"" if weight.tag is None else weight.tag.to_bytes(4, "little")
        return head + bytes(weight.raw)
    flat = np.asarray(weight).reshape(-1)
    if storage is None:
        return flat.astype("<f4").tobytes()
    if storage == "table":
        return _table_bytes(flat.astype("<f4"))
    if storage == "int8":
        if flat.dtype != np.int8:
            raise ParameterError(f"int8 weights are wanted, not {flat.dtype}")
        body = flat.tobytes() + bytes(-flat.size % 4)
    elif storage == "fp16":
        half = flat if flat.dtype == np.float16 else floats.float32_to_float16(flat.astype(np.float32), "truncate")
        body = np.asarray(half).astype("<f2").tobytes() + _FILLER[: 2 * (flat.size % 2)]
    else:
        body = flat.astype("<f4").tobytes()
    return TAGS[storage].to_bytes(4, "little") + body


def _table_bytes(flat: Array) -> bytes:
    values, index = np.unique(flat, return_inverse=True)
    if len(values) > _TABLE:
        raise ParameterError(f"{len(values)} different values do not fit in a table of {_TABLE}")
    table = np.zeros(_TABLE, "<f4")
    table[: len(values)] = values
    # Any tag that none of the other forms has marks a table.
    return b"\x01\0\0\0" + table.tobytes() + index.astype(np.uint8).tobytes() + bytes(-flat.size % 4)


def read_error(error: FormatError, layer: str) -> FormatError:
    """Return the error with the name of the layer that wanted the weights."""
    return type(error)(f"layer {layer}: {error.reason}", path=error.path, offset=error.offset)
