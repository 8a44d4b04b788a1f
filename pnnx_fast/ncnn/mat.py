"""Mat: an array of up to four dimensions (w, h, d, c) and a batch, as ncnn's applications know it.

A Mat is a handle over a numpy array (n, …, h, w), so memory is always owned by somebody and never dangles; the
runtime takes and gives these arrays. Errors are exceptions where ncnn would crash.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from pnnx_fast._core.exporter import Exporter
from pnnx_fast._types import Array
from pnnx_fast.ncnn import pixels
from pnnx_fast.ncnn.memory import DTYPES, cut, dtype_for, hollow, is_buffer, padded, reinterpret, shape_of, split_args

__all__ = ["NO_BATCH", "Mat"]

NO_BATCH = 233
"""Value of ``batch_index`` that stands for "no axis is the batch"."""


class Mat(Exporter):
    """An array in ncnn's shape.

    Parameters
    ----------
    *args
        Nothing (an empty Mat); sizes ``w``, ``w, h``, ``w, h, c`` or ``w, h, d, c``; a tuple of those; another Mat,
        whose memory is shared; or an array of at most four dimensions, whose memory is shared when it is contiguous.
    elemsize, elempack : int
        Bytes an element and values an element, for sizes.
    batch_index : int
        Axis of the array that is the batch; the values are copied.
    allocator : Allocator, optional
        Remembered.

    Examples
    --------
    >>> m = Mat(np.zeros((3, 4, 5), np.float32))
    >>> m.dims, m.w, m.h, m.c
    (3, 5, 4, 3)
    >>> m.channel(1).fill(2)
    >>> np.array(m).sum(axis=(1, 2)).tolist(), m.reshape(60).w
    ([0.0, 40.0, 0.0], 60)
    """

    PixelType: ClassVar[Any] = pixels.PixelType

    _a: Array | None

    if TYPE_CHECKING:  # the base class has it, in Cython

        def __buffer__(self, flags: int, /) -> memoryview: ...

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._a = None
        self._pack, self._refcount = 1, 0
        self.allocator: Any = kwargs.pop("allocator", None)
        if "array" in kwargs or "m" in kwargs:
            args = (kwargs.pop("array", None) if "array" in kwargs else kwargs.pop("m"), *args)
        sizes = [kwargs.pop(k) for k in ("w", "h", "d", "c") if k in kwargs]
        if "shape" in kwargs:
            args = (kwargs.pop("shape"), *args)
        if not args and not sizes:
            self._refuse(kwargs)
            return
        if sizes or isinstance(args[0], (int, np.integer, tuple)):
            shape = args[0] if args and isinstance(args[0], tuple) else (*args, *sizes)
            self._allocate(shape, 1, **kwargs)
        elif isinstance(args[0], Mat):
            self._refuse(kwargs)
            self._share(args[0])
        else:
            self._wrap(args[0], *args[1:], **kwargs)

    @staticmethod
    def _refuse(unknown: dict[str, Any]) -> None:
        if unknown:
            raise TypeError(f"Mat(): incompatible constructor arguments: {', '.join(unknown)}")

    # -- making ------------------------------------------------------------------------------------------------

    @classmethod
    def _of(cls, array: Array | None, pack: int = 1, refcount: int = 1) -> Mat:
        """Make a Mat over an array (n, …), which is not copied."""
        self = cls.__new__(cls)
        self._a, self._pack, self._refcount, self.allocator = array, pack, refcount, None
        return self

    def _allocate(self, shape: Sequence[int], n: int = 1, elemsize: int = 4, elempack: int = 1) -> None:
        self._a = padded(shape_of(shape), dtype_for(elemsize, elempack), n, elempack)
        self._pack, self._refcount = elempack, 1

    def _share(self, other: Mat) -> None:
        self._a, self._pack, self.allocator = other._a, other._pack, other.allocator
        self._refcount = other._refcount

    def _wrap(self, source: Any, batch_index: int = NO_BATCH) -> None:
        if isinstance(source, (str, bytes, list)) or (not hasattr(source, "__array__") and not is_buffer(source)):
            raise TypeError(f"Mat(): incompatible constructor arguments: {type(source).__name__}")
        array = np.asarray(source)
        if array.dtype.kind not in "biuf":
            raise TypeError(f"Mat(): an array of {array.dtype} holds no numbers that ncnn knows")
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
        if batch_index != NO_BATCH:
            self._wrap_batch(array, batch_index)
            return
        if array.ndim > 4:
            raise RuntimeError(f"convert numpy.ndarray to ncnn.Mat only dims <=4 support now, but given {array.ndim}")
        if array.ndim == 0:
            raise TypeError("Mat(): a 0-d array has no ncnn shape; use array.reshape(1)")
        self._a = np.ascontiguousarray(array)[None]

    def _wrap_batch(self, array: Array, batch_index: int) -> None:
        if array.ndim > 5 or array.ndim < 2:
            bound = "<=5" if array.ndim > 5 else ">=2"
            raise RuntimeError(
                f"convert numpy.ndarray to ncnn.Mat with batch only dims {bound} support now, but given {array.ndim}"
            )
        if not -array.ndim <= batch_index < array.ndim:
            raise RuntimeError("batch_index out of range")
        moved = np.moveaxis(array, batch_index, 0)
        self._a = padded(moved.shape[1:], array.dtype, moved.shape[0])
        self._a[...] = moved
        self._refcount = 1

    def create(self, *args: Any, n: int = 1, allocator: Any = None, **kwargs: Any) -> None:
        """Give the Mat new zeroed memory of sizes w, h, d, c (or a tuple of them)."""
        if "shape" in kwargs:
            args = (kwargs.pop("shape"), *args)
        sizes = [kwargs.pop(k) for k in ("w", "h", "d", "c") if k in kwargs]
        shape = args[0] if args and isinstance(args[0], tuple) else (*args, *sizes)
        self._allocate(shape, n, **kwargs)
        self.allocator = allocator

    def create_like(self, m: Mat, n: int | None = None, allocator: Any = None) -> None:
        """Give the Mat new zeroed memory of another Mat's shape, with another batch if ``n`` says so."""
        if m._a is None:
            self.release()
            return
        shape = m._a.shape[1:-1] if m._pack > 1 else m._a.shape[1:]
        self._a = padded(shape, m._a.dtype, m.n if n is None else n, m._pack)
        self._pack, self._refcount, self.allocator = m._pack, 1, allocator

    def clone(self, allocator: Any = None) -> Mat:
        """Return a Mat with memory of its own."""
        copy = Mat()
        copy.clone_from(self, allocator)
        return copy

    def clone_from(self, mat: Mat, allocator: Any = None) -> None:
        """Become a copy of another Mat."""
        source = mat._a
        self.create_like(mat, allocator=allocator)
        if source is not None and self._a is not None:
            self._a[...] = source

    def release(self) -> None:
        """Become empty."""
        self._a, self._pack, self._refcount, self.allocator = None, 1, 0, None

    def addref(self) -> None:
        """Count one more owner; memory is managed by Python all the same."""
        if self._refcount:
            self._refcount += 1

    # -- what it is --------------------------------------------------------------------------------------------

    def _sizes(self) -> tuple[int, ...]:
        """(w, h, d, c), 1 where there is none."""
        if self._a is None:
            return 0, 0, 0, 0
        shape = self._a.shape[1:-1] if self._pack > 1 else self._a.shape[1:]
        w = shape[-1]
        h = shape[-2] if len(shape) > 1 else 1
        d = shape[-3] if len(shape) > 3 else 1
        c = shape[0] if len(shape) > 2 else 1
        return w, h, d, c

    @property
    def dims(self) -> int:
        """Number of dimensions, 0 when empty."""
        return 0 if self._a is None else self._a.ndim - 1 - (self._pack > 1)

    @property
    def w(self) -> int:
        """Width."""
        return self._sizes()[0]

    @property
    def h(self) -> int:
        """Height."""
        return self._sizes()[1]

    @property
    def d(self) -> int:
        """Depth."""
        return self._sizes()[2]

    @property
    def c(self) -> int:
        """Channels."""
        return self._sizes()[3]

    @property
    def n(self) -> int:
        """Size of the batch."""
        return 1 if self._a is None else self._a.shape[0]

    @property
    def elemsize(self) -> int:
        """Bytes an element."""
        return 0 if self._a is None else self._a.itemsize * self._pack

    @property
    def elempack(self) -> int:
        """Values an element."""
        return 0 if self._a is None else self._pack

    @property
    def cstep(self) -> int:
        """Elements from one channel to the next."""
        if self._a is None:
            return 0
        size, plane = max(self.elemsize, 1), self.w * self.h * self.d
        aligned = -(-plane * size // 16) * 16 // size
        if self.dims < 3 or not self._a.strides[-1]:
            return aligned
        step = self._a.strides[1] // size
        # Of a single channel numpy keeps any stride; what was allocated here has the aligned one.
        return step or aligned if self.c > 1 else aligned if step == aligned else plane

    @property
    def refcount(self) -> int | None:
        """Number of owners, None when the memory belongs to somebody else."""
        return self._refcount or None

    def empty(self) -> bool:
        """Whether there are no elements."""
        return self._a is None or self._a.size == 0

    def total(self) -> int:
        """Elements of one batch, gaps between channels included."""
        return self.cstep * self.c

    def elembits(self) -> int:
        """Bits a value."""
        return 0 if self._a is None else self._a.itemsize * 8

    def shape(self) -> Mat:
        """Return a Mat of this shape whose values do not matter."""
        return Mat() if self._a is None else Mat._of(hollow(self._a.shape, self._a.dtype), self._pack, 0)

    def __len__(self) -> int:
        return self.w

    # -- values ------------------------------------------------------------------------------------------------

    def _exported(self) -> Array:
        return self.numpy()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def numpy(self, format: str = "", batch_index: int = NO_BATCH) -> Array:
        """Return the values as an array that shares the memory, (…, h, w).

        Parameters
        ----------
        format : str
            ``"f"``, ``"i"`` …: read the bits as this type; by default float32, float16 or int8 by element size.
        batch_index : int
            Where to put the batch as an axis (a copy); without it the first of the batch is returned.
        """
        if self._a is None:
            raise RuntimeError(
                "Convert ncnn.Mat to numpy.ndarray. Support only elemsize 1, 2, 4; but given 0 (the Mat is empty)"
            )
        if self._pack != 1:
            raise RuntimeError(f"Convert ncnn.Mat to numpy.ndarray. Support only elempack == 1, but given {self._pack}")
        wanted = np.dtype(format or DTYPES.get(self._a.itemsize, self._a.dtype))
        array = self._a if wanted == self._a.dtype else reinterpret(self._a, wanted)
        return array[0] if batch_index == NO_BATCH else np.stack(list(array), axis=batch_index)

    def fill(self, v: float) -> None:
        """Set all values."""
        if self._a is not None:
            self._writable()[...] = v

    def _writable(self) -> Array:
        assert self._a is not None
        if not self._a.flags.writeable:
            self._a = self._a.copy()
        return self._a

    def _at(self, i: int) -> tuple[Array, int]:
        # Not from the end, where a gap may lie.
        if self._a is None or not 0 <= i < self.total():
            raise IndexError(f"index {i} of a Mat with {self.total()} elements")
        return self._a[0], i

    def __getitem__(self, i: int) -> float:
        array, index = self._at(i)
        plane = math.prod(array.shape[1:]) if self.dims > 2 else array.size
        channel, rest = divmod(index, self.cstep)
        if rest >= plane:
            return 0.0
        flat = array[channel].reshape(-1) if self.dims > 2 else array.reshape(-1)
        return float(flat[rest])

    def __iter__(self) -> Iterator[float]:
        """Go through the values of the first of the batch, without the gaps that indices count, too."""
        return iter([] if self._a is None else self._a[0].astype(np.float64).reshape(-1).tolist())

    def __setitem__(self, i: int, v: float) -> None:
        self._at(i)
        array = self._writable()[0]
        channel, rest = divmod(i, self.cstep)
        target = array[channel] if self.dims > 2 else array
        if rest < target.size:
            target[np.unravel_index(rest, target.shape)] = v

    # -- parts -------------------------------------------------------------------------------------------------

    def _part(self, array: Array) -> Mat:
        return Mat._of(array, self._pack, 0)

    def _require(self, index: int, count: int, size: int, what: str) -> None:
        if self._a is None or not (index >= 0 and count >= 0 and index + count <= size):
            raise IndexError(f"{what} {index} to {index + count} of {size}")

    def batch(self, b: int) -> Mat:
        """Return one Mat of the batch, sharing the memory."""
        self._require(b, 1, self.n, "batch")
        assert self._a is not None
        return self._part(self._a[b : b + 1])

    def channel(self, c: int) -> Mat:
        """Return one channel, sharing the memory: of a matrix its first row, as in ncnn, and of a vector the vector."""
        self._require(c, 1, self.c, "channel")
        assert self._a is not None
        return self._part(self._a[:, c] if self.dims > 1 else self._a)

    def channel_range(self, c: int, channels: int) -> Mat:
        """Return consecutive channels, sharing the memory."""
        self._require(c, channels, self.c, "channels")
        assert self._a is not None
        return self._part(self._a[:, c : c + channels] if self.dims > 2 else self._a)

    def depth(self, z: int) -> Mat:
        """Return one depth slice (h, w), sharing the memory; of the first channel when there are several."""
        return Mat._of(self._slices(z, 1, "depth")[:, 0], self._pack, 0)

    def depth_range(self, z: int, depths: int) -> Mat:
        """Return consecutive depth slices, sharing the memory."""
        return self._part(self._slices(z, depths, "depths"))

    def _slices(self, z: int, count: int, what: str) -> Array:
        """Slices (n, depth, h, w); a channel of a 4-d Mat is a 3-d Mat whose channels are its depths."""
        if self._a is None:
            raise IndexError(f"{what} of an empty Mat")
        array = self._a[:, 0] if self.dims == 4 else self._a if self.dims == 3 else self._a[:, None]
        self._require(z, count, array.shape[1], what)
        return array[:, z : z + count]

    def row(self, y: int) -> memoryview:
        """Return one row of the first channel as a writable view."""
        if self._pack != 1:
            raise RuntimeError(f"get ncnn.Mat row only elempack 1 support now, but given {self._pack}")
        self._require(y, 1, self.h, "row")
        array = self.numpy()
        while array.ndim > 2:
            array = array[0]
        line: Any = array[y] if array.ndim == 2 else array
        return memoryview(line)

    def row_range(self, y: int, rows: int) -> Mat:
        """Return consecutive rows of the first channel, sharing the memory."""
        self._require(y, rows, self.h, "rows")
        array = self._matrix()
        return Mat._of(array[:, y : y + rows], self._pack, 0)

    def range(self, x: int, n: int) -> Mat:
        """Return consecutive values of the first channel, sharing the memory where rows lie behind each other."""
        self._require(x, n, self.w * self.h, "values")
        array = self._matrix()
        flat = array.reshape(array.shape[0], -1) if self._pack == 1 else array.reshape(array.shape[0], -1, self._pack)
        return Mat._of(flat[:, x : x + n], self._pack, 0)

    def _matrix(self) -> Array:
        """First channel as (n, h, w)."""
        assert self._a is not None
        array = self._a if self.dims > 1 else self._a[:, None]
        while array.ndim - (self._pack > 1) > 3:
            array = array[:, 0]
        return array

    def reshape(self, *args: Any, allocator: Any = None, **kwargs: Any) -> Mat:
        """Return the values in another shape (sizes w, h, d, c or a tuple); an empty Mat when they do not fit."""
        if "shape" in kwargs:
            args = (kwargs.pop("shape"), *args)
        sizes = [kwargs.pop(k) for k in ("w", "h", "d", "c") if k in kwargs]
        shape = shape_of(args[0] if args and isinstance(args[0], tuple) else (*args, *sizes))
        if self._a is None or math.prod(shape) != math.prod(self._sizes()):
            return Mat()
        full = (self.n, *shape, self._pack) if self._pack > 1 else (self.n, *shape)
        values = self._a.reshape(full)  # a copy where there are gaps between channels
        if np.may_share_memory(values, self._a) and (len(shape) < 3 or math.prod(full[2:]) * values.itemsize % 16 == 0):
            return Mat._of(values, self._pack, self._refcount)
        memory = padded(shape, values.dtype, self.n, self._pack)
        memory[...] = values
        return Mat._of(memory, self._pack)

    # -- pixels ------------------------------------------------------------------------------------------------

    @staticmethod
    def _from_image(image: Array, type: int) -> Mat:
        values = pixels.planes(image, type)
        memory = padded(values.shape, np.dtype(np.float32))
        memory[0] = values
        return Mat._of(memory)

    @staticmethod
    def from_pixels(array: Any, type: int, w: int, h: int, stride: int | None = None, allocator: Any = None) -> Mat:
        """Make a float Mat (channels, h, w) of an image (h, w, channels) of bytes.

        Parameters
        ----------
        array : array of uint8, or bytes
        type : Mat.PixelType
        w, h : int
            Pixels of a row, and rows; ``stride``, bytes from row to row, is ``w`` pixels by default.

        Examples
        --------
        >>> image = np.uint8([[[1, 2, 3], [4, 5, 6]]])
        >>> m = Mat.from_pixels(image, Mat.PixelType.PIXEL_BGR2RGB, 2, 1)
        >>> m.numpy().tolist(), m.to_pixels(Mat.PixelType.PIXEL_RGB2BGR).tolist()
        ([[[3.0, 6.0]], [[2.0, 5.0]], [[1.0, 4.0]]], [[[1, 2, 3], [4, 5, 6]]])
        """
        return Mat._from_image(pixels.view_bytes(array, type, w, h, stride), type)

    @staticmethod
    def from_pixels_resize(array: Any, type: int, w: int, h: int, *args: int, **kwargs: Any) -> Mat:
        """Like from_pixels, resized; arguments ``[stride,] target_width, target_height``."""
        stride, (tw, th) = split_args(args, kwargs, ("target_width", "target_height"))
        image = pixels.view_bytes(array, type, w, h, stride)
        return Mat._from_image(image if (w, h) == (tw, th) else pixels.resize_bytes(image, tw, th), type)

    @staticmethod
    def from_pixels_roi(array: Any, type: int, w: int, h: int, *args: int, **kwargs: Any) -> Mat:
        """Like from_pixels, of a part of the image; arguments ``[stride,] roix, roiy, roiw, roih``."""
        stride, roi = split_args(args, kwargs, ("roix", "roiy", "roiw", "roih"))
        return Mat._from_image(cut(pixels.view_bytes(array, type, w, h, stride), roi), type)

    @staticmethod
    def from_pixels_roi_resize(array: Any, type: int, w: int, h: int, *args: int, **kwargs: Any) -> Mat:
        """Like from_pixels_roi, resized to ``target_width, target_height`` behind the other arguments."""
        names = ("roix", "roiy", "roiw", "roih", "target_width", "target_height")
        stride, (x, y, rw, rh, tw, th) = split_args(args, kwargs, names)
        part = cut(pixels.view_bytes(array, type, w, h, stride), (x, y, rw, rh))
        return Mat._from_image(part if (rw, rh) == (tw, th) else pixels.resize_bytes(part, tw, th), type)

    def to_pixels(self, type: int) -> Array:
        """Return an image (h, w, channels) of bytes; values are cut to 0 … 255 and truncated."""
        if self.dims != 3 or self._a is None:
            raise RuntimeError(f"to_pixels needs 3 dims, not {self.dims}")
        return pixels.to_bytes(self._a[0], type)

    def to_pixels_resize(self, type: int, target_width: int, target_height: int) -> Array:
        """Like to_pixels, resized."""
        return pixels.resize_bytes(self.to_pixels(type), target_width, target_height)

    def substract_mean_normalize(self, mean: Sequence[float], norm: Sequence[float]) -> None:
        """Subtract a mean from each channel and multiply by a norm, in place; either may be empty."""
        if self._a is None:
            return
        shape = (-1, *(1,) * (self._a.ndim - 2)) if self.dims > 2 else (-1,)
        for values in (mean, norm):
            if len(values) and self.dims > 2 and len(values) < self.c:
                raise ValueError(f"{len(values)} values for {self.c} channels")
        array, count = self._writable(), self.c
        if len(mean):
            array -= np.asarray(mean[:count], np.float32).reshape(shape)
        if len(norm):
            array *= np.asarray(norm[:count], np.float32).reshape(shape)

    def __repr__(self) -> str:
        w, h, d, c = self._sizes()
        head = f"<ncnn.Mat w={w} h={h} d={d} c={c} dims={self.dims} n={self.n} cstep={self.cstep}"
        tail = f" elemsize={self.elemsize} elempack={self.elempack}\n\trefcount={self._refcount}"
        values = "" if self._a is None or self._pack > 1 else np.array2string(self.numpy(), threshold=40, edgeitems=3)
        return f"{head}{tail}>\n{values}"
