"""What a model takes and gives: names, shapes and dtypes, and arrays that are made to fit them.

Annotations are evaluated here: a named tuple whose annotations are texts takes half a millisecond more to make.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._memory import check_memory
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ShapeError, listed, no_such
from pnnx_fast.ir.dtypes import by_numpy

__all__ = ["TensorInfo", "array_of", "fitting", "in_order", "stand_ins"]

BY_NAME = "arrays by name are given as model(**arrays) or model.run(arrays)"


class TensorInfo(NamedTuple):
    """Name, shape and dtype of a model's input or output.

    Attributes
    ----------
    name : str
    shape : tuple of int or None
        -1 stands for a size that may vary; ``None`` when nothing is known.
    dtype : numpy.dtype or None
        ``None`` when it is unknown.

    Examples
    --------
    >>> info = TensorInfo("x", (-1, 3, 8, 8), np.dtype(np.float32))
    >>> print(info)
    x: float32[?, 3, 8, 8]
    >>> name, shape, dtype = info
    """

    name: str
    shape: tuple[int, ...] | None
    dtype: DType | None

    def __str__(self) -> str:
        shape = "[…]" if self.shape is None else str([n if n >= 0 else "?" for n in self.shape]).replace("'", "")
        return f"{self.name}: {self.dtype or ''}{shape}"


def in_order(arrays: Sequence[Any], named: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Any]:
    """Return what is given for each input: first by position, then by name.

    Parameters
    ----------
    arrays : sequence of object
    named : mapping of str to object
    inputs : sequence of TensorInfo

    Returns
    -------
    list of object
        As long as ``inputs``, in that order.

    Raises
    ------
    ShapeError
        When a name is unknown or given twice, or an input is missing.

    Examples
    --------
    >>> inputs = [TensorInfo(name, None, None) for name in ("x", "y")]
    >>> in_order([1], {"y": 2}, inputs)
    [1, 2]
    """
    names = [info.name for info in inputs]
    if any(isinstance(value, Mapping) for value in arrays):
        raise ShapeError(BY_NAME)
    if len(arrays) > len(names) or (len(arrays) < len(names) and not named):
        raise ShapeError(f"wrong number of inputs {listed(names)}", expected=len(names), actual=len(arrays))
    given = dict(zip(names, arrays, strict=False))
    for name in named:
        if name not in names:
            raise ShapeError(no_such("input", name, names))
        if name in given:
            raise ShapeError(f"input {name!r} is given by position and by name")
    given.update(named)
    for name in names:
        if name not in given:
            raise ShapeError(f"input {name!r} is missing; the inputs are {listed(names)}")
    return [given[name] for name in names]


def fitting(arrays: Sequence[Any], named: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Array]:
    """Return C-contiguous arrays of the inputs' dtypes.

    Parameters
    ----------
    arrays : sequence of array_like
        By position.
    named : mapping of str to array_like
        The others by name.
    inputs : sequence of TensorInfo

    Returns
    -------
    list of ndarray

    Raises
    ------
    ShapeError
        When number, names, dtype or number of dimensions are not the inputs'.

    Examples
    --------
    >>> fitting([[1, 2]], {}, [TensorInfo("x", (-1,), np.dtype(np.float32))])
    [array([1., 2.], dtype=float32)]
    """
    if named or len(arrays) != len(inputs):
        arrays = in_order(arrays, named, inputs)
    return [_as_input(a, *info) for a, info in zip(arrays, inputs, strict=True)]


def stand_ins(shapes: Sequence[Any], named: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> list[Any]:
    """Return arrays of some content for shapes by position or name; a shape that is not given is the noted one.

    Parameters
    ----------
    shapes : sequence of tuple of int or array_like
        Arrays stay as they are.
    named : mapping of str to tuple of int or array_like
    inputs : sequence of TensorInfo

    Returns
    -------
    list of ndarray or array_like

    Raises
    ------
    ShapeError
        When names or sizes do not fit, or a shape that is neither noted nor given is needed.
    LimitError
        When an array would take more memory than the limit.

    Examples
    --------
    >>> [x.shape for x in stand_ins([], {"x": (4, 8)}, [TensorInfo("x", (-1, 8), np.dtype(np.float32))])]
    [(4, 8)]
    """
    noted = {info.name: info.shape for info in inputs[len(shapes) :]}
    return [_stand_in(*pair) for pair in zip(in_order(shapes, {**noted, **named}, inputs), inputs, strict=True)]


def _stand_in(value: Any, info: TensorInfo) -> Any:
    if value is not None and not isinstance(value, (tuple, list)):
        return value
    if value is None or (value == info.shape and min(value, default=0) < 0):
        raise ShapeError(f"the file does not note all sizes of input {info}; give its shape")
    if not all(hasattr(n, "__index__") and n >= 0 for n in value):
        raise ShapeError(f"input {info} needs a shape of whole numbers", actual=value)
    dtype = np.dtype(np.float32) if info.dtype is None else info.dtype
    check_memory(math.prod(value) * dtype.itemsize, f"input {info.name}")
    return np.empty(value, dtype)  # memory that nothing touches


def _as_input(value: Any, name: str, shape: tuple[int, ...] | None, dtype: DType | None) -> Array:
    if not isinstance(value, np.ndarray):
        value = _as_array(value, name, dtype)
    if dtype is None:
        if value.dtype.name not in by_numpy:
            raise ShapeError("not a dtype of PyTorch", operand=name, actual=value.dtype)
        dtype = value.dtype.newbyteorder("=")
    if value.dtype is not dtype and value.dtype != dtype:
        if not (np.can_cast(value.dtype, dtype, "safe") and value.dtype.kind == dtype.kind):
            raise _misfit(name, f"wrong dtype of input {name!r}, convert it first", dtype, value.dtype)
        value = value.astype(dtype)
    if shape is not None and len(shape) != value.ndim:
        raise _misfit(name, f"wrong number of dimensions of input {name!r}", list(shape), list(value.shape))
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)


def _misfit(name: str, reason: str, expected: object, actual: object) -> ShapeError:
    error = ShapeError(reason, expected=expected, actual=actual)
    error.operand = name  # which the reason has already
    return error


def array_of(value: Any) -> Array:
    """Return an array of a value. Tensors of PyTorch may require a gradient, and be bfloat16, which numpy lacks.

    Parameters
    ----------
    value : array_like or torch.Tensor

    Returns
    -------
    ndarray
        bfloat16 becomes float32.

    Examples
    --------
    >>> array_of([1.0, 2.0])
    array([1., 2.])
    """
    if getattr(value, "requires_grad", False):
        value = value.detach()
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        value = value.float()
    return np.asarray(value)


def _is_buffer(value: Any) -> bool:
    """Whether a value has a type of elements, as arrays have."""
    try:
        memoryview(value)
    except TypeError:
        return False
    return True


def _as_array(value: Any, name: str, dtype: DType | None) -> Array:
    """What is no array yet. Lists and numbers have no dtype of their own, so they take the input's."""
    if isinstance(value, Mapping):
        raise ShapeError(BY_NAME)
    try:
        if not hasattr(value, "__array__"):
            if hasattr(value, "__dlpack__"):
                return np.from_dlpack(value)
            made = np.asarray(value)
            if made.dtype.kind not in "biufc":
                raise TypeError(f"{type(value).__name__} holds no numbers")
            if dtype is None or made.dtype.kind not in "bif" or _is_buffer(value):
                return made
            if made.dtype.kind == "f" and not np.can_cast(made.dtype, dtype, "same_kind"):
                return made
            cast = np.asarray(value, dtype)
            return made if dtype.kind in "iu" and not np.array_equal(cast, made) else cast
        return array_of(value)
    except Exception as error:  # objects of other packages raise what they like
        raise ShapeError(f"no array: {error}", operand=name) from error
