"""Attributes: the constant tensors (weights) of operators, as bytes with a dtype and a shape.

Readers hand in memory-mapped bytes, which are never copied here unless a conversion asks for it. Arrays that others may
write to are copied: models and copies of graphs share the data of an attribute. Knows the dtype table, not operators or
graphs.
"""

from __future__ import annotations

import math
import os
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pnnx_fast._types import Array, Buffer, DType, Shape
from pnnx_fast.errors import FormatError, ShapeError
from pnnx_fast.ir.coerced import Coerced
from pnnx_fast.ir.dtypes import FLOATS, by_numpy, by_text
from pnnx_fast.ir.mapped import file_of, require_unchanged

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Attribute", "Attributes"]


@lru_cache
def _stored(name: str | None) -> DType:
    """A numpy type as files have it: little-endian, as most machines have it themselves."""
    return np.dtype(name) if sys.byteorder == "little" else np.dtype(name).newbyteorder("<")


class Attribute:
    """A constant tensor.

    Parameters
    ----------
    value : array_like, optional
        Content, which is copied unless it is an array that is read-only. Without it the attribute is null.
    dtype : str, optional
        PNNX dtype to convert to, e.g. ``"bf16"``; by default the array's own.

    Attributes
    ----------
    dtype : str or None
        PNNX name such as ``"f32"``; ``None`` for a null attribute, which has no data.
    shape : tuple of int
        ``()`` is a 0-d tensor; patterns also hold -1 (any size) and -233 (a captured size).
    data : buffer of bytes
        Little-endian, C order, possibly unaligned and read-only.

    Raises
    ------
    ShapeError
        When there is no such dtype, or none for the dtype of the array.

    Examples
    --------
    >>> a = Attribute(np.arange(6, dtype=np.float32).reshape(2, 3))
    >>> a.dtype, a.shape, (a + a).shape
    ('f32', (2, 3), (4, 3))
    >>> half = Attribute(a, "bf16")
    >>> half, half.nbytes
    (Attribute((2,3)bf16), 12)
    >>> half.set_float32_data([0, 1, 2, 3, 4, 0.5])
    >>> half.numpy()
    array([[0. , 1. , 2. ],
           [3. , 4. , 0.5]], dtype=float32)
    """

    __slots__ = ("_params", "data", "dtype", "shape")

    dtype: str | None
    shape: Shape
    data: Buffer
    _params: dict[str, str] | None

    def __init__(self, value: npt.ArrayLike | None = None, dtype: str | None = None) -> None:
        self.dtype, self.shape, self.data, self._params = None, (), b"", None
        if value is None:
            return
        array = np.asarray(value)
        if dtype is None:
            row = by_numpy.get(array.dtype.name)
            if row is None:
                raise ShapeError(f"an attribute cannot hold dtype {array.dtype}")
            dtype = row.text
        elif dtype not in by_text:
            raise ShapeError(f"unknown dtype {dtype!r}, expected one of {' '.join(by_text)}")
        self.dtype, self.shape = dtype, array.shape
        self.data = _encode(array, dtype)

    @classmethod
    def owning(cls, array: Array, dtype: str | None = None) -> Attribute:
        """Make an attribute of an array that nobody else has; it becomes read-only and is not copied.

        Parameters
        ----------
        array : ndarray
        dtype : str, optional
            PNNX dtype to convert to; by default the array's own.

        Returns
        -------
        Attribute

        Raises
        ------
        ShapeError
            As for the constructor.
        """
        array = np.asarray(array)
        array.flags.writeable = False
        return cls(array, dtype)

    @classmethod
    def from_data(cls, dtype: str | None, shape: Shape, data: Buffer = b"") -> Attribute:
        """Make an attribute over existing bytes, which are kept and not copied.

        Parameters
        ----------
        dtype : str or None
            PNNX dtype such as ``"f32"``; ``None`` makes a null attribute.
        shape : tuple of int
        data : buffer
            Little-endian, in C order.

        Returns
        -------
        Attribute

        Raises
        ------
        ShapeError
            When there is no such dtype, a dimension is negative, or the number of bytes does not fit dtype and shape.
        """
        if dtype is not None and dtype not in by_text:
            raise ShapeError(f"unknown dtype {dtype!r}, expected one of {' '.join(by_text)}")
        if min(shape, default=0) < 0:
            raise ShapeError("a negative dimension of a weight", actual=tuple(shape))
        self = cls.__new__(cls)
        self.dtype, self.shape, self.data, self._params = dtype, shape, data, None
        size = memoryview(data).nbytes
        if dtype is not None and size != self.nbytes:
            raise ShapeError("wrong number of bytes", expected=self.nbytes, actual=size)
        return self

    @classmethod
    def from_npy(cls, path: Any) -> Attribute:
        """Read a numpy ``.npy`` file of any byte order and memory order. Pickled content is refused.

        Parameters
        ----------
        path : path or binary file object

        Returns
        -------
        Attribute

        Raises
        ------
        FormatError
            When this is no ``.npy`` file of numbers.
        FileNotFoundError
            When there is no such file.
        """
        name = getattr(path, "name", None) if hasattr(path, "read") else os.fspath(path)
        try:
            array = np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise FormatError("no .npy file of numbers", path=name) from error
        if not isinstance(array, np.ndarray):
            array.close()
            raise FormatError("an .npz file, not one array", path=name)
        return cls.owning(array)

    def copy(self) -> Attribute:
        """Return an independent attribute. The data is shared, since it is never written to."""
        other = Attribute.__new__(Attribute)
        other.dtype, other.shape, other.data = self.dtype, self.shape, self.data
        other._params = dict(self._params) if self._params else None
        return other

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Attribute:
        return self.copy()

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        from pickle import PickleBuffer

        if (file := file_of(self.data)) is not None:
            require_unchanged([file])
        data = PickleBuffer(self.data) if int(protocol) >= 5 else bytes(self.data)
        return _restore, (self.dtype, self.shape, data, self._params)

    @property
    def params(self) -> dict[str, str]:
        """Names of captured dimensions in patterns, by ``__shape__<axis>``."""
        if self._params is None:
            self._params = {}
        return self._params

    @property
    def elemsize(self) -> int:
        """Bytes of an element, 0 for a null attribute."""
        return by_text[self.dtype].size if self.dtype is not None else 0

    @property
    def elemcount(self) -> int:
        """Number of elements: 1 for a 0-d tensor, 0 for a null attribute."""
        return math.prod(self.shape) if self.dtype is not None else 0

    @property
    def nbytes(self) -> int:
        """Bytes that the content takes: number of elements times size of an element."""
        return self.elemcount * self.elemsize

    @property
    def signature(self) -> str:
        """Shape and dtype like ``(64,3,7,7)f32``; for people."""
        return f"({','.join(map(str, self.shape))}){self.dtype}" if self.dtype is not None else "null"

    def numpy(self) -> Array:
        """Return the content as a read-only array.

        Returns
        -------
        ndarray
            A view (possibly unaligned) where numpy has the dtype. bf16 is converted to float32 and c32 to
            complex64. A null attribute gives an error.

        Raises
        ------
        ShapeError
            When the attribute is null, or has another number of bytes than its shape needs: none, in a graph that was
            read from text alone.
        """
        if self.dtype is None:
            raise ShapeError("a null attribute has no content")
        try:
            if self.dtype == "bf16":
                array: Array = _floats().bfloat16_to_float32(np.frombuffer(self.data, "<u2"))
            elif self.dtype == "c32":
                array = np.frombuffer(self.data, "<f2").astype(np.float32).view(np.complex64)
            elif self.dtype == "bool":
                # Any byte but 0 and 1 would make an invalid numpy bool.
                raw = np.frombuffer(self.data, np.uint8)
                array = raw.view(np.bool_) if not raw.size or raw.max() <= 1 else raw != 0
            else:
                array = np.frombuffer(self.data, _stored(by_text[self.dtype].numpy))
            array = array.reshape(self.shape)
        except ValueError:
            size = memoryview(self.data).nbytes
            raise ShapeError("wrong number of bytes", expected=self.nbytes, actual=size) from None
        array.flags.writeable = False
        return array

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def get_float32_data(self) -> npt.NDArray[np.float32]:
        """Return a new flat float32 array with the values of an f32, f64, f16 or bf16 attribute.

        Returns
        -------
        ndarray of float32
            One dimension, ``elemcount`` elements.

        Raises
        ------
        ShapeError
            When the attribute is of another dtype.
        """
        if self.dtype not in FLOATS:
            raise ShapeError("cannot be read as float32", expected="f32, f64, f16 or bf16", actual=self.dtype)
        with np.errstate(over="ignore"):
            return self.numpy().reshape(-1).astype(np.float32)

    def set_float32_data(self, values: npt.ArrayLike) -> None:
        """Replace the data by float32 values converted to the attribute's dtype; the shape stays as it is.

        float16 gets the bits that PNNX writes: the mantissa is truncated, not rounded.

        Parameters
        ----------
        values : array_like
            As many as the attribute has elements, in C order.

        Raises
        ------
        ShapeError
            When the attribute is of another dtype.
        """
        if self.dtype not in FLOATS:
            raise ShapeError("cannot hold float32 data", expected="f32, f64, f16 or bf16", actual=self.dtype)
        flat = np.asarray(values, np.float32).reshape(-1)
        if self.dtype == "f16":
            self.data = _floats().float32_to_float16(flat, "truncate").tobytes()
        else:
            self.data = _encode(flat, self.dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attribute):
            return NotImplemented
        if self.dtype is None or other.dtype is None:
            return self.dtype == other.dtype
        if self.dtype != other.dtype or self.shape != other.shape:
            return False
        if self.data is other.data:
            return True
        return np.array_equal(np.frombuffer(self.data, np.uint8), np.frombuffer(other.data, np.uint8))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Attribute) -> Attribute:
        if not isinstance(other, Attribute):
            return NotImplemented
        if self.dtype != other.dtype:
            raise ShapeError("joined attributes differ in dtype", expected=self.dtype, actual=other.dtype)
        if len(self.shape) != len(other.shape) or not self.shape:
            raise ShapeError("joined attributes differ in rank", expected=self.shape, actual=other.shape)
        if self.shape[1:] != other.shape[1:]:
            raise ShapeError("joined attributes differ behind axis 0", expected=self.shape, actual=other.shape)
        shape = (self.shape[0] + other.shape[0], *self.shape[1:])
        return Attribute.from_data(self.dtype, shape, b"".join((self.data, other.data)))

    def __repr__(self) -> str:
        return f"Attribute({self.signature})"


def _restore(dtype: str | None, shape: Shape, data: Buffer, params: dict[str, str] | None) -> Attribute:
    attr = Attribute.__new__(Attribute)
    attr.dtype, attr.shape, attr.data, attr._params = dtype, shape, data, params
    return attr


def _floats() -> Any:
    """Arithmetic of 16-bit types, which few models have."""
    from pnnx_fast.ir import floats

    return floats


def _encode(array: Array, dtype: str) -> Buffer:
    """Bytes of an array in a PNNX dtype, shared with the array where it has that form and is read-only."""
    with np.errstate(over="ignore"):
        if dtype == "bf16":
            array = _floats().float32_to_bfloat16(array).astype("<u2")
        elif dtype == "c32":
            array = np.ascontiguousarray(array, np.complex64).view(np.float32).astype("<f2")
        else:
            given, array = array, np.ascontiguousarray(array, _stored(by_text[dtype].numpy))
            if given.flags.writeable and np.may_share_memory(given, array):
                array = array.copy()
    return array.reshape(-1).view(np.uint8).data.toreadonly()


class Attributes(Coerced[Attribute]):
    """The attributes of an operator by key; arrays that are assigned become attributes.

    Examples
    --------
    >>> attrs = Attributes()
    >>> attrs["bias"] = np.zeros(8, np.float32)
    >>> attrs["bias"]
    Attribute((8)f32)
    """

    __slots__ = ()

    kind, word = Attribute, "attribute"
