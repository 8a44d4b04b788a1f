"""KuiperInfer's tensor of channels, rows and columns as a view of a numpy array, and its functions on tensors.

For people who port code: everything here is a few words of numpy. Linear indices and the default order of values are
column-major within a channel, as there; the array itself is an ordinary one. The runtime takes these like any array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from pnnx_fast._types import Array
from pnnx_fast.runtime_graph.status import InferStatus, StatusCode, StatusError

__all__ = [
    "Tensor",
    "tensor_broadcast",
    "tensor_clone",
    "tensor_create",
    "tensor_element_add",
    "tensor_element_multiply",
    "tensor_is_same",
    "tensor_padding",
]


def _mismatch(text: str) -> StatusError:
    return StatusError(text, StatusCode.INFER_DIM_MISMATCH, InferStatus.FAILED_ARRAY_SIZE_MISMATCH)


class Tensor:
    """A tensor with up to three axes.

    Parameters
    ----------
    *sizes : int, or one array
        (columns), (rows, columns) or (channels, rows, columns), filled with zeros; or an array, whose memory is shared.
    dtype : dtype
        For sizes.

    Raises
    ------
    StatusError
        When there are no axes, or more than three.

    Examples
    --------
    >>> t = Tensor(2, 2, 3)
    >>> t.fill(range(12), row_major=True)
    >>> t.shapes(), t.at(1, 0, 2), t.index(1), t.values(row_major=True)[:4]
    ((2, 2, 3), 8.0, 3.0, [0.0, 1.0, 2.0, 3.0])
    >>> t.transform(lambda x: x * x)
    >>> t.review([3, 4])
    >>> np.array(t)[1]
    array([16., 25., 36., 49.], dtype=float32)
    """

    def __init__(self, *sizes: Any, dtype: npt.DTypeLike = np.float32) -> None:
        if len(sizes) == 1 and not isinstance(sizes[0], int | np.integer):
            array = np.asarray(sizes[0])
        else:
            array = np.zeros([int(s) for s in sizes], dtype)
        if not 1 <= array.ndim <= 3:
            raise _mismatch(f"a tensor has one, two or three axes, not {array.ndim}")
        self._set(array)

    def _set(self, array: Array) -> None:
        self._raw = _logical(array.shape)
        self._data: Array = array.reshape((1,) * (3 - array.ndim) + array.shape)

    # -- sizes -------------------------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        """Number of channels."""
        return int(self._data.shape[0])

    @property
    def rows(self) -> int:
        """Number of rows of a channel."""
        return int(self._data.shape[1])

    @property
    def cols(self) -> int:
        """Number of columns of a channel."""
        return int(self._data.shape[2])

    def size(self) -> int:
        """Number of elements."""
        return self._data.size

    def plane_size(self) -> int:
        """Number of elements of a channel."""
        return self.rows * self.cols

    def empty(self) -> bool:
        """Whether there are no elements."""
        return self._data.size == 0

    def shapes(self) -> tuple[int, int, int]:
        """(channels, rows, columns)."""
        return self.channels, self.rows, self.cols

    def raw_shapes(self) -> tuple[int, ...]:
        """Sizes without leading ones: the axes that the tensor was made with."""
        return self._raw

    # -- elements ----------------------------------------------------------------------------------------------

    def data(self) -> Array:
        """The array (channels, rows, columns), not a copy."""
        return self._data

    def set_data(self, data: npt.ArrayLike) -> None:
        """Take over an array of the same sizes.

        Parameters
        ----------
        data : array_like
            Of the shape ``raw_shapes()`` or ``shapes()``; the memory of an array is shared.

        Raises
        ------
        StatusError
            When the sizes differ.
        """
        array = np.asarray(data)
        if array.shape not in (self._raw, self.shapes()):
            raise _mismatch(f"the data have shape {array.shape}, the tensor {self._raw}")
        self._data = array.reshape(self.shapes())

    def at(self, channel: int, row: int, col: int) -> Any:
        """Return an element; raises IndexError.

        Parameters
        ----------
        channel, row, col : int
            Place, counted from 0.
        """
        return self._data[channel, row, col].item()

    def index(self, offset: int) -> Any:
        """Return an element by its place in column-major order, channel after channel; raises IndexError.

        Parameters
        ----------
        offset : int
            Place, counted from 0.
        """
        if not 0 <= offset < self.size():
            raise IndexError(f"the tensor has {self.size()} elements, no number {offset}")
        channel, rest = divmod(offset, self.plane_size())
        return self._data[channel, rest % self.rows, rest // self.rows].item()

    def slice(self, channel: int) -> Array:
        """Return a channel (rows, columns), not a copy; raises IndexError.

        Parameters
        ----------
        channel : int
            Number of the channel, counted from 0.
        """
        plane: Array = self._data[channel]
        return plane

    def values(self, row_major: bool = True) -> list[Any]:
        """Return all elements, channel after channel.

        Parameters
        ----------
        row_major : bool
            Whether rows follow each other in a channel, or else columns.
        """
        found: list[Any] = self._ordered(row_major).ravel().tolist()
        return found

    def raw_ptr(self, offset: int = 0) -> int:
        """Address of an element of the array, which lies in row-major order.

        Parameters
        ----------
        offset : int
            Elements before it.

        Raises
        ------
        IndexError
            When there is no such element, or the array is not contiguous.
        """
        if not 0 <= offset < max(self.size(), 1) or not self._data.flags.c_contiguous:
            raise IndexError(f"there is no element {offset} to point to")
        return int(self._data.ctypes.data) + offset * self._data.itemsize

    def matrix_raw_ptr(self, channel: int) -> int:
        """Address of a channel, counted from 0; raises IndexError."""
        return self.raw_ptr(channel * self.plane_size())

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self._data.reshape(self._raw), dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Tensor({self._data.reshape(self._raw)!r})"

    # -- changes -----------------------------------------------------------------------------------------------

    def fill(self, values: Any, row_major: bool = True) -> None:
        """Set all elements.

        Parameters
        ----------
        values : number or sequence of numbers
            One for all, or as many as there are elements.
        row_major : bool
            Whether a sequence fills row after row of a channel, or else column after column.

        Raises
        ------
        StatusError
            When there are more or fewer numbers than elements.
        """
        if np.ndim(values) == 0 and not isinstance(values, range):
            self._data[...] = values
            return
        given = np.asarray(list(values), self._data.dtype)
        if given.size != self.size():
            raise _mismatch(f"there are {given.size} values for {self.size()} elements")
        self._data[...] = given.reshape(self.shapes()) if row_major else _columns(given, self.shapes())

    def ones(self) -> None:
        """Set all elements to 1."""
        self._data[...] = 1

    def rand_n(self, mean: float = 0.0, std: float = 1.0, seed: int | None = None) -> None:
        """Draw all elements from a normal distribution.

        Parameters
        ----------
        mean, std : float
            Mean and standard deviation.
        seed : int, optional
            For the same numbers each time.
        """
        self._data[...] = np.random.default_rng(seed).normal(mean, std, self.shapes())

    def rand_u(self, low: float = 0.0, high: float = 1.0, seed: int | None = None) -> None:
        """Draw all elements from a uniform distribution.

        Parameters
        ----------
        low, high : float
            The interval [low, high).
        seed : int, optional
            For the same numbers each time.
        """
        self._data[...] = np.random.default_rng(seed).uniform(low, high, self.shapes())

    def padding(self, pads: Sequence[int], value: float = 0.0) -> None:
        """Add rows above and below, columns to the left and to the right.

        Parameters
        ----------
        pads : sequence of int
            Numbers of rows above and below, of columns to the left and to the right.
        value : float
            What the new elements are.
        """
        up, bottom, left, right = pads
        self._set(np.pad(self._data, ((0, 0), (up, bottom), (left, right)), constant_values=value))

    def reshape(self, shapes: Sequence[int], row_major: bool = False) -> None:
        """Lay the elements out anew, in column-major order unless told otherwise.

        Parameters
        ----------
        shapes : sequence of int
            One to three sizes.
        row_major : bool
            Whether elements are taken and put row after row of a channel, or else column after column.

        Raises
        ------
        StatusError
            When the sizes hold another number of elements.
        """
        if int(np.prod(shapes)) != self.size() or not 1 <= len(shapes) <= 3:
            raise _mismatch(f"{self.size()} elements do not fit {tuple(shapes)}")
        full = (1,) * (3 - len(shapes)) + tuple(shapes)
        array = self._data.reshape(full) if row_major else _columns(self._ordered(False).ravel(), full)
        self._data, self._raw = array, tuple(shapes)

    def review(self, shapes: Sequence[int]) -> None:
        """Lay the elements out anew in row-major order; ``shapes`` and errors as of ``reshape``."""
        self.reshape(shapes, row_major=True)

    def flatten(self, row_major: bool = False) -> None:
        """Make one axis of all; ``row_major`` as of ``reshape``."""
        self.reshape([self.size()], row_major)

    def transform(self, function: Callable[[Any], Any]) -> None:
        """Replace every element by a function of it.

        Parameters
        ----------
        function : callable
            Takes and returns a number.
        """
        if not self.empty():
            self._data[...] = np.vectorize(function, otypes=[self._data.dtype])(self._data)

    def show(self) -> None:
        """Print the channels."""
        for i, channel in enumerate(self._data):
            sys.stdout.write(f"Channel: {i}\n{channel}\n")

    def _ordered(self, row_major: bool) -> Array:
        return self._data if row_major else self._data.transpose(0, 2, 1)


def _logical(shape: tuple[int, ...]) -> tuple[int, ...]:
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    return shape


def _columns(values: Array, shape: tuple[int, ...]) -> Array:
    channels, rows, cols = shape
    return values.reshape(channels, cols, rows).transpose(0, 2, 1)


# -- Functions --------------------------------------------------------------------------------------------------------


def tensor_create(*sizes: Any) -> Tensor:
    """Make a float32 tensor of zeros.

    Parameters
    ----------
    *sizes : int, or one list or tuple of int
        As of :class:`Tensor`.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> tensor_create(3, 2, 4).shapes(), tensor_create([2, 4]).shapes()
    ((3, 2, 4), (1, 2, 4))
    """
    return Tensor(*(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], list | tuple) else sizes))


def tensor_clone(tensor: Tensor) -> Tensor:
    """Return a tensor with memory of its own.

    Parameters
    ----------
    tensor : Tensor

    Examples
    --------
    >>> a = Tensor(2)
    >>> b = tensor_clone(a)
    >>> b.ones()
    >>> a.values(), b.values()
    ([0.0, 0.0], [1.0, 1.0])
    """
    twin = Tensor(tensor.data().copy())
    twin.reshape(tensor.raw_shapes(), row_major=True)
    return twin


def tensor_is_same(a: Tensor, b: Tensor, threshold: float = 1e-5) -> bool:
    """Whether two tensors have the same sizes, and elements that differ by at most a threshold.

    Parameters
    ----------
    a, b : Tensor
    threshold : float
        Largest difference.

    Examples
    --------
    >>> a, b = Tensor(np.float32([1, 2])), Tensor(np.float32([1, 2.001]))
    >>> tensor_is_same(a, b), tensor_is_same(a, b, threshold=0.01)
    (False, True)
    """
    return a.shapes() == b.shapes() and bool(np.allclose(a.data(), b.data(), rtol=0, atol=threshold))


def tensor_broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Bring two tensors to the same sizes, as numpy broadcasts.

    Parameters
    ----------
    a, b : Tensor

    Returns
    -------
    tuple of Tensor
        Copies.

    Raises
    ------
    StatusError
        When the sizes do not broadcast.

    Examples
    --------
    >>> x, y = tensor_broadcast(Tensor(3, 2, 2), Tensor(3, 1, 1))
    >>> x.shapes(), y.shapes()
    ((3, 2, 2), (3, 2, 2))
    """
    try:
        x, y = np.broadcast_arrays(a.data(), b.data())
    except ValueError:
        raise _mismatch(f"{a.shapes()} and {b.shapes()} do not broadcast") from None
    return Tensor(x.copy()), Tensor(y.copy())


def tensor_padding(tensor: Tensor, pads: Sequence[int], value: float = 0.0) -> Tensor:
    """Return a padded copy.

    Parameters
    ----------
    tensor : Tensor
    pads, value
        As of :meth:`Tensor.padding`.

    Examples
    --------
    >>> tensor_padding(Tensor(np.float32([[1, 2]])), (0, 1, 1, 0), value=9)
    Tensor(array([[9., 1., 2.],
           [9., 9., 9.]], dtype=float32))
    """
    twin = tensor_clone(tensor)
    twin.padding(pads, value)
    return twin


def tensor_element_add(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the sums of elements of two tensors, which broadcast.

    Parameters
    ----------
    a, b : Tensor
    out : Tensor, optional
        Gets the result and is returned.

    Raises
    ------
    StatusError
        When the sizes do not broadcast, or those of ``out`` differ from the result's.

    Examples
    --------
    >>> tensor_element_add(Tensor(np.float32([1, 2])), Tensor(np.float32([10])))
    Tensor(array([11., 12.], dtype=float32))
    """
    return _element(np.add, a, b, out)


def tensor_element_multiply(a: Tensor, b: Tensor, out: Tensor | None = None) -> Tensor:
    """Return the products of elements of two tensors, which broadcast.

    Parameters
    ----------
    a, b, out : Tensor
        As of :func:`tensor_element_add`, which also raises the same.

    Examples
    --------
    >>> out = Tensor(2)
    >>> tensor_element_multiply(Tensor(np.float32([1, 2])), Tensor(np.float32([10])), out) is out
    True
    >>> out.values()
    [10.0, 20.0]
    """
    return _element(np.multiply, a, b, out)


def _element(function: np.ufunc, a: Tensor, b: Tensor, out: Tensor | None) -> Tensor:
    x, y = tensor_broadcast(a, b)
    if out is None:
        return Tensor(function(x.data(), y.data()))
    if out.shapes() != x.shapes():
        raise _mismatch(f"the result has sizes {x.shapes()}, the output {out.shapes()}")
    function(x.data(), y.data(), out=out.data())
    return out
