"""Where parameters and weights of nets come from: files, bytes, and the reader objects of applications."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import check_memory
from pnnx_fast._types import Array
from pnnx_fast.errors import FormatError
from pnnx_fast.formats.ncnn_bin import BytesSource, EmptySource, Source, WeightReader
from pnnx_fast.formats.ncnn_param import ParamSlots
from pnnx_fast.ir.mapped import map_file
from pnnx_fast.ncnn.mat import Mat
from pnnx_fast.ncnn.names import also_named

__all__ = [
    "DataReader",
    "DataReaderFromEmpty",
    "DataReaderFromMemory",
    "MatLoader",
    "ModelBin",
    "ModelBinFromDataReader",
    "ModelBinFromMatArray",
    "ParamDict",
    "read_all",
    "source_of",
]


class DataReader:
    """Base of readers that applications write: override :meth:`read`.

    Examples
    --------
    >>> import io
    >>> class FromFile(DataReader):
    ...     def __init__(self, file):
    ...         self.file = file
    ...     def read(self, buf, size):
    ...         return self.file.readinto(buf)
    >>> reader = FromFile(io.BytesIO(np.float32([1, 2]).tobytes()))
    >>> ModelBinFromDataReader(reader).load(2, 1).numpy()
    array([1., 2.], dtype=float32)
    """

    def scan(self, format: str, p: Any) -> int:
        """Read formatted text; not used here, text is read as bytes."""
        return 0

    def read(self, buf: Any, size: int) -> int:
        """Fill a buffer with the next bytes; a reader that does not override this has none.

        Parameters
        ----------
        buf : writable buffer of bytes
        size : int
            Bytes that are wanted; the buffer has as many.

        Returns
        -------
        int
            How many there were.
        """
        return 0


class DataReaderFromEmpty(DataReader):
    """Endless zeros: weights for a net whose ``.bin`` is missing.

    Examples
    --------
    >>> from pnnx_fast.ncnn import Net
    >>> net = Net()
    >>> net.load_param_mem("7767517\\n2 2\\nInput in 0 1 x\\nInnerProduct fc 1 1 x y 0=2 2=6\\n")
    0
    >>> net.load_model(DataReaderFromEmpty())
    0
    """

    def read(self, buf: Any, size: int) -> int:
        """Fill with zeros."""
        view = memoryview(buf).cast("B")
        view[:size] = bytes(min(size, len(view)))
        return size


class DataReaderFromMemory(DataReader):
    """Bytes in memory.

    Parameters
    ----------
    mem : bytes-like
        Not copied.

    Examples
    --------
    >>> reader, buffer = DataReaderFromMemory(b"abcdef"), bytearray(4)
    >>> reader.read(buffer, 4), buffer
    (4, bytearray(b'abcd'))
    >>> reader.read(buffer, 4), buffer
    (2, bytearray(b'efcd'))
    """

    def __init__(self, mem: Any) -> None:
        self._data, self._at = memoryview(mem).cast("B"), 0

    def read(self, buf: Any, size: int) -> int:
        """Copy the next bytes."""
        part = self._data[self._at : self._at + size]
        memoryview(buf).cast("B")[: len(part)] = part
        self._at += len(part)
        return len(part)


class _ReaderSource:
    """Weights from an application's DataReader."""

    def __init__(self, reader: DataReader) -> None:
        self._reader, self._at = reader, 0

    def read(self, size: int) -> Array:
        """See Source."""
        check_memory(self._at + size, "weights of a reader")
        buffer: Any = np.zeros(size, np.uint8)  # a reader that only says that it read does not decide by chance
        count = self._reader.read(memoryview(buffer), size) if size else 0
        if count != size:
            raise FormatError(f"{size} bytes of weights are wanted, {count} were read", offset=self._at)
        self._at += size
        filled: Array = buffer
        filled.flags.writeable = False  # an array of its own, which attributes need not copy
        return filled


def source_of(given: Any) -> Source:
    """Return where weights are read from.

    Parameters
    ----------
    given : str, path, bytes-like, binary file object or DataReader
        A file is mapped; a file object is read to its end.

    Returns
    -------
    Source

    Raises
    ------
    OSError
        When a file cannot be opened.
    TypeError
        When it is of another kind.

    Examples
    --------
    >>> source_of(b"abcd").read(2).tobytes()
    b'ab'
    """
    if isinstance(given, DataReaderFromEmpty) and type(given).read is DataReaderFromEmpty.read:
        return EmptySource()
    if isinstance(given, DataReader):
        return _ReaderSource(given)
    if isinstance(given, (str, os.PathLike)):
        return BytesSource(map_file(given), os.fspath(given))
    if hasattr(given, "read"):
        return BytesSource(given.read())
    return BytesSource(_view(given, "weights"))


def read_all(given: Any) -> tuple[bytes, str | None]:
    """Return the whole contents of what parameters are read from, and the path if there is one.

    Parameters
    ----------
    given : str, path, bytes-like, file object or DataReader

    Returns
    -------
    (bytes, str or None)

    Raises
    ------
    OSError
        When a file cannot be read.
    FormatError
        When a reader gives too much.
    TypeError
        When it is of another kind.

    Examples
    --------
    >>> read_all(DataReaderFromMemory(b"7767517"))
    (b'7767517', None)
    """
    if isinstance(given, DataReader):
        return _read_everything(given), None
    if isinstance(given, (str, os.PathLike)):
        with open(given, "rb") as file:
            return file.read(), os.fspath(given)
    if hasattr(given, "read"):
        data = given.read()
        return data.encode() if isinstance(data, str) else bytes(data), None
    return bytes(_view(given, "parameters")), None


def _view(given: Any, what: str) -> memoryview:
    try:
        return memoryview(given)
    except TypeError:
        kind = type(given).__name__
        raise TypeError(f"{what} come from a path, bytes, a file object or a DataReader, not from {kind}") from None


_MOST_READ = 1 << 28
"""Bytes of parameters that a reader may give."""


def _read_everything(reader: DataReader) -> bytes:
    """Read until the reader has no more; one that never ends is refused."""
    parts, total = [], 0
    while total < _MOST_READ:
        buffer = bytearray(1 << 16)
        count = reader.read(memoryview(buffer), len(buffer))
        parts.append(bytes(buffer[: max(count, 0)]))
        total += max(count, 0)
        if count < len(buffer):
            return b"".join(parts)
    raise FormatError(f"the reader gives more than {_MOST_READ} bytes of parameters")


class ModelBin:
    """Base of the sources that a layer loads its weights from; applications may override :meth:`load`.

    Examples
    --------
    >>> class Ones(ModelBin):
    ...     def load(self, *args):
    ...         *sizes, kind = args
    ...         return Mat(np.ones(sizes[::-1], np.float32))
    >>> Ones().load(3, 2, 0).numpy()
    array([[1., 1., 1.],
           [1., 1., 1.]], dtype=float32)
    """

    def load(self, *args: int, **names: int) -> Mat:
        """Return the next weight, an empty Mat when there is none.

        Parameters
        ----------
        *args : int
            Sizes w, h, d, c, as many as the weight has, and its type: 0 when a tag in the file tells it, 1 for float32.
        **names : int
            The same by their names: ``w``, ``h``, ``d``, ``c``, ``type``.

        Returns
        -------
        Mat
        """
        return Mat()


class ModelBinFromDataReader(ModelBin):
    """Weights of a file.

    Parameters
    ----------
    dr : DataReader, path, bytes-like or binary file object

    Raises
    ------
    OSError
        When a file cannot be opened.
    FormatError
        By ``load``, when the weights end too early.

    Examples
    --------
    >>> mb = ModelBinFromDataReader(np.arange(6, dtype=np.float32).tobytes())
    >>> mb.load(2, 2, 1).numpy()
    array([[0., 1.],
           [2., 3.]], dtype=float32)
    >>> mb.load(2, 1).numpy()
    array([4., 5.], dtype=float32)
    """

    def __init__(self, dr: Any) -> None:
        self._reader = dr if isinstance(dr, WeightReader) else WeightReader(source_of(dr))

    def load(self, *args: int, **names: int) -> Mat:
        """See ModelBin."""
        *sizes, kind = *args, *(names.pop(key) for key in ("w", "h", "d", "c", "type") if key in names)
        if names or not sizes:
            raise TypeError(f"load(): incompatible function arguments: {[*args, *names]}")
        array = self._reader.load(int(np.prod(sizes)), kind)
        array = array.astype(np.float32) if array.dtype == np.float16 else array
        return Mat(np.ascontiguousarray(array.reshape(sizes[::-1])))


class ModelBinFromMatArray(ModelBin):
    """Weights from Mats.

    Parameters
    ----------
    weights : Mat or sequence of Mat
        In the order in which the layer loads them.

    Examples
    --------
    >>> mb = ModelBinFromMatArray([Mat(2), Mat(3)])
    >>> mb.load(2, 1).w, mb.load(3, 1).w, mb.load(1, 1).empty()
    (2, 3, True)
    """

    def __init__(self, weights: Sequence[Mat] | Mat) -> None:
        self._mats = [weights] if isinstance(weights, Mat) else list(weights)

    def load(self, *args: int, **names: int) -> Mat:
        """Return the next Mat, an empty one behind the last; the arguments are ignored."""
        return self._mats.pop(0) if self._mats else Mat()


class MatLoader:
    """Gives a layer function the arrays of a ModelBin.

    Parameters
    ----------
    source : ModelBin

    Examples
    --------
    >>> MatLoader(ModelBinFromMatArray(Mat(np.float32([[1, 2]])))).load(2, 1)
    array([1., 2.], dtype=float32)
    """

    def __init__(self, source: ModelBin) -> None:
        self._source = source

    def load(self, count: int, type: int) -> Array:
        """Return the next weight, flat; see ``values.WeightLoader``.

        Raises
        ------
        FormatError
            When there is none.
        """
        mat = self._source.load(count, type % 2)
        if mat._a is None:
            raise FormatError(f"{count} weights are wanted, there are none")
        return np.ascontiguousarray(mat._a).reshape(-1)


class ParamDict:
    """The numbered parameters of a layer.

    Parameters
    ----------
    slots : ParamSlots, optional
        Parameters of a file, which are not copied; none by default.

    Examples
    --------
    >>> pd = ParamDict()
    >>> pd.set(0, 64)
    >>> pd.set(4, Mat(np.float32([0.5, 2])))
    >>> pd.get(0, 0), pd.get(1, -1), pd.get(4, Mat()).numpy().tolist()
    (64, -1, [0.5, 2.0])
    >>> pd.type(0), pd.type(1)
    (2, 0)
    """

    def __init__(self, slots: ParamSlots | None = None) -> None:
        self._slots = ParamSlots() if slots is None else slots

    def type(self, id: int) -> int:
        """Return ncnn's type code of a parameter: 0 unset, 2 int, 3 float, 4 to 6 arrays, 7 string."""
        return self._slots.type(id)

    @also_named(**{"def": "default"})
    def get(self, id: int, default: Any) -> Any:
        """Return a parameter in the type of the default.

        Parameters
        ----------
        id : int
        default : int, bool, float, str or Mat
            Returned when the parameter is unset. ``def`` is another name of this parameter.

        Returns
        -------
        int, bool, float, str or Mat

        Raises
        ------
        TypeError
            When the default is of another type.
        """
        if isinstance(default, Mat):
            bits = self._slots.bits(id)
            return default if bits is None else Mat(bits.view(np.float32))
        if isinstance(default, bool):
            return bool(self._slots.get_int(id, int(default)))
        if isinstance(default, int):
            return self._slots.get_int(id, default)
        if isinstance(default, float):
            return self._slots.get_float(id, default)
        if isinstance(default, str):
            return self._slots.get_string(id, default)
        raise TypeError(f"get(): incompatible function arguments: {type(default).__name__}")

    @also_named(i="value", f="value", v="value")
    def set(self, id: int, value: Any) -> None:
        """Set a parameter.

        Parameters
        ----------
        id : int
        value : int, float, str or Mat
            A Mat is an array of its values. ``i``, ``f`` and ``v`` are other names of this parameter.
        """
        if isinstance(value, Mat):
            from pnnx_fast.formats.ncnn_param import ARRAY, Slot

            bits: Any = [] if value.empty() else np.ascontiguousarray(value.numpy()).view(np.int32).reshape(-1)
            self._slots.set_slot(id, Slot(ARRAY, tuple(int(v) for v in bits)))
            return
        self._slots.set(id, value)

    def clear(self) -> None:
        """Unset everything."""
        self._slots.clear()

    def __repr__(self) -> str:
        return f"ParamDict({self._slots!r})"
