"""Element types as PyTorch sees them: dtype names, weak Python numbers, and the promotion of mixed operands.

Used by the dtype rules of the function table, by evaluation and by lowering. It knows nothing of functions or
trees. numpy has no bfloat16 and no complex32: values of those types are held in float32 and complex64,
rounded to the precision that the narrow type has.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import ExpressionError

__all__ = [
    "TORCH_DTYPES",
    "Category",
    "DTypeName",
    "ElementType",
    "Number",
    "TensorType",
    "Value",
    "cast",
    "convert",
    "default_float",
    "element_type",
    "promote",
]

_NAMES = {
    "bool": "bool", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
    "int8": "int8", "int16": "int16", "short": "int16", "int32": "int32", "int": "int32",
    "int64": "int64", "long": "int64",
    "float16": "float16", "half": "float16", "bfloat16": "float32", "float32": "float32", "float": "float32",
    "float64": "float64", "double": "float64",
    "complex32": "complex64", "chalf": "complex64", "complex64": "complex64", "cfloat": "complex64",
    "complex128": "complex128", "cdouble": "complex128",
}  # fmt: skip

#: Every torch dtype name that an expression may use, with the numpy dtype that holds its values.
TORCH_DTYPES: dict[str, DType] = {f"torch.{name}": np.dtype(held) for name, held in _NAMES.items()}

_BOOL, _INT64 = np.dtype(np.bool_), np.dtype(np.int64)
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_COMPLEX64, _COMPLEX128 = np.dtype(np.complex64), np.dtype(np.complex128)


class Category:
    """How strongly an operand takes part in promotion; a stronger category decides among equal kinds."""

    NUMBER = 0
    ZERO_DIM = 1
    DIM = 2


class ElementType:
    """dtype and promotion category of one operand."""

    __slots__ = ("category", "dtype")

    def __init__(self, dtype: DType, category: int) -> None:
        self.dtype, self.category = dtype, category


class TensorType:
    """A tensor without data: what lowering knows of an operand. Compared by value."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: DType, shape: Shape) -> None:
        self.dtype, self.shape = dtype, shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and (self.dtype, self.shape) == (other.dtype, other.shape)

    def __hash__(self) -> int:
        return hash((self.dtype, self.shape))

    def __repr__(self) -> str:
        return f"TensorType({self.dtype!r}, {self.shape})"


class DTypeName:
    """A torch dtype used as a value, such as the ``torch.float`` in an argument list. Compared by name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypeName) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"DTypeName(name={self.name!r})"

    @property
    def dtype(self) -> DType:
        """The numpy dtype that holds values of this type."""
        return TORCH_DTYPES[self.name]


Number: TypeAlias = bool | int | float | complex
Value: TypeAlias = "Number | DTypeName | Array | TensorType | list[Value] | None"


def element_type(value: Value) -> ElementType:
    """Element type of an array, a tensor type or a Python number.

    Raises
    ------
    ExpressionError
        For lists, ``None`` and dtype names, which are not numbers.
    """
    if isinstance(value, np.ndarray | np.generic | TensorType):
        return ElementType(value.dtype, Category.DIM if len(value.shape) else Category.ZERO_DIM)
    if isinstance(value, bool):
        return ElementType(_BOOL, Category.NUMBER)
    if isinstance(value, int):
        return ElementType(_INT64, Category.NUMBER)
    if isinstance(value, float):
        return ElementType(_FLOAT64, Category.NUMBER)
    if isinstance(value, complex):
        return ElementType(_COMPLEX128, Category.NUMBER)
    what = "a list" if isinstance(value, list) else str(value.name if isinstance(value, DTypeName) else value)
    raise ExpressionError(f"expected a tensor or a number, got {what}")


def default_float(tensor: bool) -> DType:
    """What an integer becomes when a function needs floats: float32 for tensors, Python's float for
    numbers.
    """
    return _FLOAT32 if tensor else _FLOAT64


def _kind(dtype: DType) -> int:
    return "biufc".index(dtype.kind) if dtype.kind != "u" else 1


def _widest(a: DType | None, b: DType) -> DType:
    """``torch.promote_types``: unlike numpy's, an integer never widens a float."""
    if a is None or a == b:
        return b
    ka, kb = _kind(a), _kind(b)
    if ka == kb or (ka >= 3 and kb >= 3):
        widest = np.promote_types(a, b)
        if _kind(widest) > max(ka, kb):
            raise ExpressionError(f"torch has no type that holds both {a} and {b}")
        return widest
    return a if ka > kb else b


def promote(types: Iterable[ElementType], tensor: bool) -> DType:
    """Common dtype of operands as ``torch.result_type`` gives it.

    Parameters
    ----------
    types : iterable of ElementType
        The operands that take part.
    tensor : bool
        Whether any operand of the call is a tensor. Without one the result is a Python number, held in 64
        bits.
    """
    best: dict[int, DType] = {}
    for t in types:
        dtype = t.dtype
        if tensor and t.category == Category.NUMBER:
            dtype = {_FLOAT64: _FLOAT32, _COMPLEX128: _COMPLEX64}.get(dtype, dtype)
        best[t.category] = _widest(best.get(t.category), dtype)
    result: DType | None = None
    for category in sorted(best):
        result = best[category] if result is None else _combine(best[category], result)
    if result is None:
        raise ExpressionError("no operand is a tensor or a number")
    return result


def _combine(higher: DType, lower: DType) -> DType:
    """The higher category wins unless the lower one has a stronger kind (int < float < complex)."""
    if higher.kind == "f" and lower.kind == "c":
        return _COMPLEX128 if higher == _FLOAT64 else _COMPLEX64
    if higher.kind in "fc":
        return higher
    return _widest(higher, lower) if higher.kind == "b" or lower.kind in "fc" else higher


def round_to_bfloat16(x: Array) -> Array:
    """float32 values rounded to those of bfloat16, half to even, NaN kept."""
    bits = x.view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(x), x, rounded.view(np.float32))


def cast(x: Array, name: str) -> Array:
    """Convert values to the torch dtype `name` as ``Tensor.to`` does (truncation, wrap-around of
    integers).
    """
    dtype = TORCH_DTYPES[name]
    with np.errstate(all="ignore"):
        y = convert(x, dtype)
        if name == "torch.bfloat16":
            return round_to_bfloat16(y)
        if dtype == _COMPLEX64 and name in ("torch.complex32", "torch.chalf"):
            real, imag = y.real.astype(np.float16), y.imag.astype(np.float16)
            return (real.astype(np.float32) + np.complex64(1j) * imag.astype(np.float32)).astype(dtype)
        return y


def convert(x: Array, dtype: DType) -> Array:
    """``x`` in another dtype: complex drops its imaginary part, floats reach small integers through int32."""
    if x.dtype == dtype:
        return x
    with np.errstate(all="ignore"):
        if x.dtype.kind == "c" and dtype.kind != "c":
            if dtype.kind == "b":
                return np.asarray(x != 0)
            x = x.real
        if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
            x = x.astype(np.int32)
        return x.astype(dtype)
