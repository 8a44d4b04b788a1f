"""What a model takes and gives: names, shapes and dtypes, and arrays that are made to fit them.

Annotations are evaluated here: a named tuple whose annotations are texts takes half a millisecond more to make.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir.dtypes import by_numpy

__all__ = ["TensorInfo", "fitting"]


class TensorInfo(NamedTuple):
    """Name, shape (-1 where free, None when unknown) and dtype of a model's input or output."""

    name: str
    shape: tuple[int, ...] | None
    dtype: DType | None

    def __str__(self) -> str:
        shape = "[…]" if self.shape is None else str([n if n >= 0 else "?" for n in self.shape]).replace("'", "")
        return f"{self.name}: {self.dtype or ''}{shape}"


def fitting(arrays: Sequence[Any], inputs: Sequence[TensorInfo]) -> list[Array]:
    """Return C-contiguous arrays of the inputs' dtypes.

    Raises
    ------
    ShapeError
        When number, dtype or number of dimensions are not the inputs'.
    """
    if len(arrays) != len(inputs):
        raise ShapeError("wrong number of inputs", expected=len(inputs), actual=len(arrays))
    return [_as_input(a, *info) for a, info in zip(arrays, inputs, strict=True)]


def _as_input(value: Any, name: str, shape: tuple[int, ...] | None, dtype: DType | None) -> Array:
    if not isinstance(value, np.ndarray):
        value = _as_array(value, name, dtype)
    if dtype is None:
        if value.dtype.name not in by_numpy:
            raise ShapeError("not a dtype of PyTorch", operand=name, actual=value.dtype)
        dtype = value.dtype.newbyteorder("=")
    if value.dtype is not dtype and value.dtype != dtype:
        if not (np.can_cast(value.dtype, dtype, "safe") and value.dtype.kind == dtype.kind):
            raise ShapeError(
                "wrong dtype of input, cast it with astype", operand=name, expected=dtype, actual=value.dtype
            )
        value = value.astype(dtype)
    if shape is not None and len(shape) != value.ndim:
        raise ShapeError(
            "wrong number of dimensions of input",
            operand=name,
            expected=list(shape),
            actual=list(value.shape),
        )
    return value if value.flags.c_contiguous else np.ascontiguousarray(value)


def _as_array(value: Any, name: str, dtype: DType | None) -> Array:
    """What is no array yet. Lists and numbers have no dtype of their own, so they take the input's."""
    if isinstance(value, Mapping):
        raise ShapeError("arrays by name go to Model.run", operand=name)
    try:
        if not hasattr(value, "__array__"):
            if hasattr(value, "__dlpack__"):
                return np.from_dlpack(value)
            made = np.asarray(value)
            lossless = dtype is not None and (made.dtype.kind in "bi" or np.can_cast(made.dtype, dtype, "same_kind"))
            return np.asarray(value, dtype) if lossless and made.dtype.kind in "bif" else made
        return np.asarray(value)
    except Exception as error:  # objects of other packages raise what they like
        raise ShapeError(f"no array: {error}", operand=name) from error
