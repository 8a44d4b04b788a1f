"""Operators that a converter left as TorchScript calls: arguments by position, in the order of TorchScript's schemas.

Two tables say what such a call means: the registered operator that takes the arguments by name, or an expression over
them. What neither can say are the numpy functions of :mod:`pnnx_fast.ops.aten_numpy`, and a few views below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from pnnx_fast._types import SPECIAL_FLOATS, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.types import TensorType, element_type, promote
from pnnx_fast.ops._checks import common_shape, tensor_list
from pnnx_fast.ops._dtype import in_single
from pnnx_fast.ops.array_functions import direction
from pnnx_fast.ops.array_functions import nonzero as places
from pnnx_fast.ops.aten_tables import DTYPES, EXPRESSIONS, FORWARDED
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.reduction import sum_of_numbers
from pnnx_fast.ops.registry import bind, find, operator
from pnnx_fast.ops.shape import axes_of, axis_of, cat, integers
from pnnx_fast.ops.slicing import clip_slice
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def dtype_name(value: Any) -> Any:
    """PyTorch's name for TorchScript's number of a dtype; other values as they are."""
    if not isinstance(value, int):
        return value
    name = DTYPES[value] if 0 <= value < len(DTYPES) else None
    if name is None:
        raise ParameterError(f"no dtype has the number {value}", parameter="dtype")
    return f"torch.{name}"


def _forward(kind: str, target: str, orders: Sequence[str]) -> Callable[..., Value]:
    by_count = {len(names): names for names in map(str.split, orders)}

    def call(b: Builder, *values: Any) -> Value:
        definition = find(target)
        names = by_count.get(len(values))
        if names is None and target in ("torch.max", "torch.min") and len(values) == 2:
            return lower_expression(b, f"{target[6:]}(@0,@1)", values)
        if names is None or definition is None:
            expected = " or ".join(map(str, by_count))
            raise ParameterError(f"{len(values)} arguments instead of {expected}")
        given = {n: dtype_name(v) if n == "dtype" else v for n, v in zip(names, values, strict=True) if n != "_"}
        given = {n: v for n, v in given.items() if v is not None}
        args, kwargs = bind(definition, None, list(given.values()), list(given), {}, {})
        return definition.function(b, *args, **kwargs)

    call.__doc__ = f"{target}({', '.join(orders[-1].split())}), arguments by position."
    return call


def _common_type(values: Sequence[Any]) -> DType:
    kinds = [TensorType(v.dtype, v.shape) if isinstance(v, Tensor) else v for v in values]
    return promote(map(element_type, kinds), any(isinstance(v, TensorType) for v in kinds))


def _multiple(b: Builder, form: str, values: Sequence[Any], place: int) -> Value:
    """Emit a sum with a multiple of the summand at ``place``, which is formed in the type of the sum."""
    summands, factor = list(values[:2]), values[2]
    kept = _common_type(summands)
    if isinstance(summands[place], Tensor):
        summands[place] = b.cast(summands[place], kept)
    if kept == np.bool_:
        form, factor = form.replace("mul", "and"), b.cast(factor, kept) if isinstance(factor, Tensor) else bool(factor)
    return lower_expression(b, form, [*summands, factor])


def _express(kind: str, forms: Sequence[str]) -> Callable[..., Value]:
    by_count = {1 + max(int(text[0]) for text in form.split("@")[1:]): form for form in forms}

    def call(b: Builder, *values: Any) -> Value:
        form = by_count.get(len(values))
        if form is None:
            raise ParameterError(f"{len(values)} arguments instead of {' or '.join(map(str, by_count))}")
        if len(values) == 3 and len(by_count) == 2:
            if values[2] != 1:
                return _multiple(b, form, values, 0 if kind == "aten::rsub" else 1)
            form = by_count[2]  # a factor of one must not turn integers into other types
        return lower_expression(b, form, values)

    call.__doc__ = f"{forms[-1]}, arguments by position."
    return call


for _name, (_target, *_orders) in FORWARDED.items():
    operator(f"aten::{_name}")(_forward(f"aten::{_name}", _target, _orders))
for _name, _forms in EXPRESSIONS.items():
    if _name != "div":
        operator(f"aten::{_name}")(_express(f"aten::{_name}", _forms))


def _are_integers(*values: Any) -> bool:
    """Whether numbers and tensors give an integer together; one of them may be bool."""
    kinds = {v.dtype.kind if isinstance(v, Tensor) else np.asarray(v).dtype.kind for v in values}
    return kinds <= set("biu") and kinds != {"b"}


@operator("aten::nansum")
def nansum(b: Builder, input: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """Sum of the entries that are numbers. torch.nansum."""
    return sum_of_numbers(b, input, dim=dim, keepdim=keepdim, dtype=dtype_name(dtype))


@operator("aten::sgn")
def sgn(b: Builder, input: Tensor) -> Value:
    """Sign, of complex numbers the direction. torch.sgn."""
    if input.dtype.kind == "c":
        return b.host(direction, [input], [(input.shape, input.dtype)])[0]
    return lower_expression(b, "sign(@0)", [input])


@operator("aten::addcmul")
def addcmul(b: Builder, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Value:
    """input + value * tensor1 * tensor2, all in the tensors' common type. torch.addcmul."""
    factor = int(value) if _are_integers(input, tensor1, tensor2) else value
    return lower_expression(b, "add(@0,mul(@3,mul(@1,@2)))", [*_alike(b, input, tensor1, tensor2), factor])


@operator("aten::addcdiv")
def addcdiv(b: Builder, input: Any, tensor1: Any, tensor2: Any, value: Any = 1) -> Value:
    """input + value * tensor1 / tensor2, all in the tensors' common type. torch.addcdiv."""
    return lower_expression(b, "add(@0,mul(@3,div(@1,@2)))", [*_alike(b, input, tensor1, tensor2), value])


def _alike(b: Builder, *values: Any) -> list[Any]:
    """The values in their common type, in which products and quotients of some of them are formed, too."""
    kept = _common_type(values)
    return [b.cast(v, kept) if isinstance(v, Tensor) else v for v in values]


@operator("aten::lerp")
def lerp(b: Builder, input: Any, end: Any, weight: Any) -> Value:
    """A point between two others, reckoned from the nearer one, so that the ends are exact. torch.lerp."""
    near, far = "add(@0,mul(@2,sub(@1,@0)))", "sub(@1,mul(sub(@1,@0),sub(1,@2)))"
    form = near if not isinstance(weight, Tensor) and abs(weight) < 0.5 else far
    if isinstance(weight, Tensor):
        form = f"where(lt(abs(@2),0.5),{near},{far})"
    return lower_expression(b, form, [input, end, weight])


@operator("aten::div", "aten::divide")
def div(b: Builder, input: Any, other: Any, rounding_mode: Any = None) -> Value:
    """Quotient, rounded down ("floor") or towards zero ("trunc") if wanted. torch.div."""
    if rounding_mode == "floor":
        return lower_expression(b, "floor_divide(@0,@1)", [input, other])
    if rounding_mode not in (None, "trunc"):
        raise ParameterError(f"unknown rounding mode {rounding_mode!r}", parameter="rounding_mode")
    if rounding_mode is None:
        return lower_expression(b, "div(@0,@1)", [input, other])
    if _are_integers(input, other):
        # Quotients of integers in floating point would lose digits; truth values have no differences.
        input, other = (
            b.cast(v, np.int64) if isinstance(v, Tensor) and v.dtype == np.bool_ else v for v in (input, other)
        )
        return lower_expression(b, "floor_divide(sub(@0,fmod(@0,@1)),@1)", [input, other])
    return lower_expression(b, "trunc(div(@0,@1))", [input, other])


@operator("aten::round", "aten::special_round")
@in_single
def round_decimals(b: Builder, input: Any, decimals: int = 0) -> Value:
    """Nearest number of so many decimals. torch.round."""
    if not decimals:
        return lower_expression(b, "round(@0)", [input])
    text = "div(round(mul(@0,@1)),@1)" if decimals > 0 else "mul(round(div(@0,@1)),@1)"
    return lower_expression(b, text, [input, 10.0 ** abs(decimals)])


@operator("aten::nonzero_numpy", native=False)
def positions(b: Builder, input: Tensor) -> Value:
    """Places of elements that are not zero, a list with one tensor a dimension. torch.nonzero."""
    return b.dynamic(lambda x: list(places(np.atleast_1d(x))), [input])


@operator("aten::where")
def where(b: Builder, condition: Tensor, *values: Any) -> Value:
    """Values from one of two where a condition holds or not; without them, where it holds. torch.where."""
    if not values:
        return positions(b, condition)
    return lower_expression(b, "where(@0,@1,@2)", [condition, *values])


def _triangle(upper: bool) -> Callable[..., Value]:
    def triangle(b: Builder, input: Tensor, diagonal: int = 0) -> Value:
        if input.ndim < 2:
            raise ShapeError("a triangle needs 2 dimensions", actual=list(input.shape))
        height, width = input.shape[-2:]
        # Rows of the mask are pieces of one line, each a place further to the left.
        columns = np.arange(1 - height, width)
        line = b.constant(columns >= diagonal if upper else columns <= diagonal)
        mask = line.as_strided((height, width), (-1, 1), max(height - 1, 0))
        return lower_expression(b, "where(@0,@1,@2)", [mask, input, b.constant(np.zeros((), input.dtype))])

    return triangle


operator("aten::tril")(tril := _triangle(upper=False))
tril.__doc__ = "The part of matrices on and below a diagonal, zeros above it. torch.tril."
operator("aten::triu")(triu := _triangle(upper=True))
triu.__doc__ = "The part of matrices on and above a diagonal, zeros below it. torch.triu."


# -- numbers and lists -------------------------------------------------------------------------------------------


@operator("prim::Constant")
def constant(b: Builder, *, value: Any = None) -> Value:
    """A number, a string, a list or None."""
    if isinstance(value, str) and value in ("None", ""):
        return None
    if isinstance(value, str) and value in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[value]
    return list(value) if isinstance(value, tuple) else value


@operator(
    "prim::NumToTensor", "aten::detach_", "aten::alias", "aten::lift_fresh", "aten::resolve_conj", "aten::resolve_neg",
    "aten::alias_copy", "aten::cpu", "aten::lift", "aten::lift_fresh_copy",
)  # fmt: skip
def same(b: Builder, value: Any, *_: Any) -> Value:
    """The value itself: numbers and 0-d tensors are the same to every operator."""
    return value


@operator("aten::ScalarImplicit", "aten::item")
def scalar(b: Builder, value: Any) -> Value:
    """The number in a constant 0-d tensor; whatever depends on data stays a 0-d tensor."""
    if isinstance(value, Tensor):
        return value.numpy().item() if value.is_constant else b.reshape(value, ())
    return value


def _number(kind: type, letters: str) -> Callable[..., Value]:
    def number(b: Builder, value: Any) -> Value:
        plain = scalar(b, value)
        if not isinstance(plain, Tensor):
            return kind(plain) if isinstance(plain, bool | int | float) else plain
        # What depends on data keeps its width.
        return plain if plain.dtype.kind in letters else b.cast(plain, kind)

    return number


operator("aten::Int", "aten::IntImplicit")(whole := _number(int, "iu"))
whole.__doc__ = "A number without what is behind its point; whatever depends on data stays a 0-d tensor."
operator("aten::Float", "aten::FloatImplicit")(decimal := _number(float, "f"))
decimal.__doc__ = "A number as a float; whatever depends on data stays a 0-d tensor."
operator("aten::Bool")(truth := _number(bool, "b"))
truth.__doc__ = "Whether a number is other than 0; whatever depends on data stays a 0-d tensor."


@operator("aten::__not__")
def negation(b: Builder, value: Any) -> Value:
    """Whether a number is zero."""
    return lower_expression(b, "logical_not(@0)", [value])


@operator("prim::max")
def largest(b: Builder, value: Any, *others: Any) -> Value:
    """The largest of some numbers, or of a list of numbers."""
    return reduce(lambda x, y: lower_expression(b, "maximum(@0,@1)", [x, y]), [value, *others] if others else value)


@operator("prim::min")
def smallest(b: Builder, value: Any, *others: Any) -> Value:
    """The smallest of some numbers, or of a list of numbers."""
    return reduce(lambda x, y: lower_expression(b, "minimum(@0,@1)", [x, y]), [value, *others] if others else value)


@operator("prim::abs")
def magnitude(b: Builder, value: Any) -> Value:
    """A number without its sign."""
    return lower_expression(b, "abs(@0)", [value])


@operator("aten::len", "aten::dim")
def length(b: Builder, value: Any) -> Value:
    """Length of a list, number of dimensions of a tensor."""
    return value.ndim if isinstance(value, Tensor) else len(value)


@operator("aten::numel")
def numel(b: Builder, value: Tensor) -> Value:
    """Number of elements."""
    return value.size


@operator("aten::__getitem__")
def list_item(b: Builder, values: Any, index: int) -> Value:
    """Entry of a list. In the place of a tensor's list of sizes files of level 1 hold the tensor."""
    return (values.shape if isinstance(values, Tensor) else values)[index]


# -- views -------------------------------------------------------------------------------------------------------


@operator("aten::movedim", "aten::moveaxis")
def movedim(b: Builder, input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places. torch.movedim."""
    start, end = (axes_of(integers(v, "dim"), input.ndim) for v in (source, destination))
    if len(start) != len(end):
        raise ShapeError("as many places as dimensions are needed", expected=len(start), actual=len(end))
    rest = iter(d for d in range(input.ndim) if d not in start)
    places = dict(zip(end, start, strict=True))
    return input.permute([places[d] if d in places else next(rest) for d in range(input.ndim)])


@operator("aten::mT")
def matrix_transposes(b: Builder, input: Tensor) -> Tensor:
    """Exchange the last two dimensions. torch.Tensor.mT."""
    return input.permute([*range(input.ndim - 2), input.ndim - 1, input.ndim - 2])


@operator("aten::mH", "aten::adjoint", native=False)
def adjoint(b: Builder, input: Tensor) -> Tensor:
    """Exchange the last two dimensions and conjugate. torch.Tensor.mH."""
    y = matrix_transposes(b, input)
    return lower_expression(b, "complex(real(@0),neg(imag(@0)))", [y]) if y.dtype.kind == "c" else y


@operator("aten::numpy_T")
def reversed_dimensions(b: Builder, input: Tensor) -> Tensor:
    """All dimensions in reverse order. torch.Tensor.T."""
    return input.permute(list(range(input.ndim))[::-1])


@operator("aten::ravel")
def ravel(b: Builder, input: Tensor) -> Tensor:
    """One dimension. torch.ravel."""
    return b.reshape(input, (input.size,))


@operator("aten::diagonal", "aten::diagonal_copy", "aten::linalg_diagonal")
def diagonal(b: Builder, input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Diagonals of two dimensions as the last one, a view. torch.diagonal."""
    i, j = axis_of(dim1, input.ndim), axis_of(dim2, input.ndim)
    if i == j:
        raise ShapeError("the two dimensions must differ", actual=(dim1, dim2))
    rest = [d for d in range(input.ndim) if d not in (i, j)]
    rows, columns = input.shape[i] - max(-offset, 0), input.shape[j] - max(offset, 0)
    count = max(min(rows, columns), 0)
    skip = max(-offset, 0) * input.strides[i] + max(offset, 0) * input.strides[j] if count else 0
    shape = [*(input.shape[d] for d in rest), count]
    return input.as_strided(shape, [*(input.strides[d] for d in rest), input.strides[i] + input.strides[j]], skip)


MOST_DIFFERENCES = 1 << 12
"""How often differences can be taken; more is taken for a mistake."""


@operator("aten::diff")
def diff(b: Builder, input: Tensor, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along a dimension, n times. torch.diff."""
    parts = [t for t in (prepend, input, append) if t is not None] if n else [input]
    x = input if len(parts) == 1 else cat(b, *parts, dim=dim)
    axis = axis_of(dim, x.ndim)
    times = min(n, x.shape[axis] if x.ndim else 1)  # nothing is left then
    if not 0 <= times <= MOST_DIFFERENCES:
        raise ParameterError(f"differences cannot be taken {n} times", parameter="n")
    for left in reversed(range(times)):
        count = max(x.shape[axis] - 1, 0)
        pair = [x.narrow(axis, min(1, x.shape[axis]), count), x.narrow(axis, 0, count)]
        text = "xor(@0,@1)" if x.dtype == np.bool_ else "sub(@0,@1)"
        x = lower_expression(b, text, pair, temporary=left > 0)
    return x


@operator("aten::unfold", "aten::unfold_copy")
def windows(b: Builder, input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows that slide along a dimension, as a new last one; a view. torch.Tensor.unfold."""
    axis = axis_of(dimension, input.ndim)
    if not input.ndim:
        input = input.unsqueeze(0)
        return windows(b, input, 0, size, step).select(0, 0)
    n = input.shape[axis]
    if not 0 <= size <= n or step < 1:
        raise ShapeError("the window does not fit", expected=n, actual=(size, step))
    shape, strides = [*input.shape, size], [*input.strides, input.strides[axis]]
    shape[axis], strides[axis] = (n - size) // step + 1, strides[axis] * step
    return input.as_strided(shape, strides)


@operator("aten::nan_to_num")
def nan_to_num(b: Builder, input: Tensor, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Value:
    """Numbers in the place of what is not finite. torch.nan_to_num."""
    number, highest = nan or 0.0, float(np.finfo(np.float32).max)
    if input.dtype == np.float32 and posinf is None and neginf is None:
        return lower_expression(b, "where(isnan(@0),@1,clamp(@0,@2,@3))", [input, float(number), -highest, highest])
    if input.dtype.kind == "f":
        top = float(np.finfo(input.dtype).max)
        ends = [float(end if given is None else given) for given, end in ((posinf, top), (neginf, -top))]
        text = "where(isnan(@0),@1,where(eq(@0,@4),@2,where(eq(@0,@5),@3,@0)))"
        return lower_expression(b, text, [input, float(number), *ends, np.inf, -np.inf])
    replaced = {"nan": number, "posinf": posinf, "neginf": neginf}
    return b.host(lambda x: np.nan_to_num(x, **replaced), [input], [(input.shape, input.dtype)])[0]


@operator("aten::select_scatter")
def select_scatter(b: Builder, input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Copy of the input with one entry of a dimension replaced. torch.select_scatter."""
    axis = axis_of(dim, input.ndim)
    start, _, _ = clip_slice(input.shape[axis], index, None, 1)
    y = b.result(input.shape, input.dtype)
    b.copy(input, y)
    b.copy(b.cast(src, input.dtype), y.select(axis, start))
    return y


@operator("aten::meshgrid")
def meshgrid(b: Builder, tensors: Any, indexing: Any = "ij") -> Value:
    """Coordinates of a grid, one tensor a dimension. torch.meshgrid."""
    vectors = [b.reshape(t, (t.size,)) for t in tensor_list(tensors)]
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    shape = [v.size for v in vectors]
    grids = [
        b.reshape(v, [v.size if d == i else 1 for d in range(len(shape))]).expand(shape) for i, v in enumerate(vectors)
    ]
    if swap:
        grids[:2] = grids[1::-1]
    return grids


@operator("aten::broadcast_tensors")
def broadcast_tensors(b: Builder, tensors: Any) -> Value:
    """All tensors in their common shape. torch.broadcast_tensors."""
    tensors = tensor_list(tensors)
    shape = common_shape(*(t.shape for t in tensors))
    return [t.expand(shape) for t in tensors]
