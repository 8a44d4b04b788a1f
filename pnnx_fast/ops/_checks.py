"""What several operators ask of their operands, with one wording for each complaint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import memory_limit
from pnnx_fast._types import SPECIAL_FLOATS, Array, DType, Shape
from pnnx_fast.errors import LimitError, ParameterError, ShapeError
from pnnx_fast.ops.signature import tensor_of
from pnnx_fast.ops.symbolic import Tensor

__all__ = ["common_shape", "in_dtype", "number", "real_number", "require_dims", "require_room", "tensor_list"]


def common_shape(*shapes: Shape) -> Shape:
    """The shape to which all broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ShapeError("the shapes do not broadcast", actual=[list(shape) for shape in shapes]) from None


MOST_VIEWED = 16
"""What a view that repeats its elements may stand for, over the limit for a tensor."""


def require_room(shape: Sequence[int], dtype: DType) -> None:
    """Refuse views of so many elements that what is to be done with all of them has no end; memory they take none."""
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes > MOST_VIEWED * memory_limit() or nbytes >= 1 << 62:
        reason = f"it stands for more than {MOST_VIEWED} times the memory that a run may take"
        raise LimitError(reason, path=f"a view of shape {list(shape)}")


def number(value: Any, what: str) -> Any:
    """A number, also as a constant tensor or as one of the words that files have for those without digits."""
    if isinstance(value, Tensor):
        if not value.is_constant:
            raise ParameterError(f"{what} depends on data", parameter=what)
        return value.numpy().item()
    if isinstance(value, str):
        if value in SPECIAL_FLOATS:
            return SPECIAL_FLOATS[value]
        try:
            return complex(value) if "j" in value else float(value)
        except ValueError:
            raise ParameterError(f"{what} must be a number, not {value!r}", parameter=what) from None
    if not isinstance(value, bool | int | float | complex):
        raise ParameterError(f"{what} must be a number, not {value!r}", parameter=what)
    return value


def real_number(value: Any, what: str) -> float:
    """The same, no complex one."""
    found = number(value, what)
    if isinstance(found, complex):
        raise ParameterError(f"{what} must be a real number, not {value!r}", parameter=what)
    return float(found)


def in_dtype(value: Any, dtype: DType, what: str) -> Array:
    """A number in a dtype. As in PyTorch, integers must fit; negative ones wrap around where the type has no sign."""
    if isinstance(value, complex) and dtype.kind not in "bc":
        if value.imag:
            raise ParameterError(f"{dtype} numbers cannot be {value}", parameter=what)
        value = value.real
    if dtype.kind in "iu":
        most = np.iinfo(dtype).max
        least = -most if dtype.kind == "u" and isinstance(value, int) else np.iinfo(dtype).min
        if not least <= value <= most:
            raise ParameterError(f"{dtype} numbers cannot be {value}", parameter=what)
        value = int(value)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)


def require_dims(x: Tensor, least: int, most: int | None = None) -> None:
    """Raise ShapeError for a tensor of fewer dimensions, or of more."""
    if x.ndim < least or (most is not None and x.ndim > most):
        word = "or" if most == least + 1 else "to"
        wanted = f"at least {least}" if most is None else str(least) if least == most else f"{least} {word} {most}"
        raise ShapeError(f"needs {wanted} dimensions", actual=list(x.shape))


def tensor_list(value: Any, name: str = "tensors") -> list[Tensor]:
    """The tensors of a list; numbers in it become tensors."""
    items = value if isinstance(value, (list, tuple)) else [value]
    return [v if isinstance(v, Tensor) else tensor_of(v, name, None) for v in items]
