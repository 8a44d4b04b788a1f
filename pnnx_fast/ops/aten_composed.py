"""Rarer TorchScript operators made of steps that others have: views, expressions, reductions and products.

Arguments by position, in the order of TorchScript's schemas. What these steps do not do, such as complex numbers, is
left to the numpy function of the same name.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import DType
from pnnx_fast.errors import ShapeError
from pnnx_fast.expression.types import TensorType, element_type, promote
from pnnx_fast.ops import array_functions as fn
from pnnx_fast.ops import matrix_functions as mx
from pnnx_fast.ops import reduction as reductions
from pnnx_fast.ops import special_functions as sp
from pnnx_fast.ops._checks import common_shape, tensor_list
from pnnx_fast.ops._dtype import in_single
from pnnx_fast.ops.aten_numpy import numpy_step
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.linalg import diag
from pnnx_fast.ops.linear import added_product, product
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axes_or_all, axis_of, backwards, cat, copied, flip, roll
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value, tensors_in

LowerFunction = Callable[..., Value]


def composed(name: str, otherwise: Callable[..., Any], kinds: str = "f") -> Callable[[LowerFunction], LowerFunction]:
    """Register a function for tensors whose dtypes are of some kinds; the numpy function takes the others."""
    rest = numpy_step(otherwise, False)

    def register(function: LowerFunction) -> LowerFunction:
        @functools.wraps(function)
        def lower(b: Builder, *values: Any) -> Value:
            fits = all(t.dtype.kind in kinds for t in tensors_in(values))
            return (function if fits else rest)(b, *values)

        operator(f"aten::{name}")(lower)
        return lower

    return register


# -- expressions -------------------------------------------------------------------------------------------------

PI, INF = math.pi, math.inf

_CLOSE = "le(abs(sub(@0,@1)),add(@3,abs(mul(@2,@1))))"
_EXPRESSIONS: dict[str, tuple[str, tuple[float, ...], Callable[..., Any]]] = {
    "angle": ("where(isnan(@0),@0,where(lt(@0,0),@1,abs(mul(0,sign(@0)))))", (PI,), fn.angle),
    "fmax": ("where(isnan(@0),@1,where(isnan(@1),@0,maximum(@0,@1)))", (), np.fmax),
    "fmin": ("where(isnan(@0),@1,where(isnan(@1),@0,minimum(@0,@1)))", (), np.fmin),
    "isneginf": ("eq(@0,@1)", (-INF,), np.isneginf),
    "isposinf": ("eq(@0,@1)", (INF,), np.isposinf),
    "logaddexp2": (
        "where(eq(@0,@1),add(@0,1),add(maximum(@0,@1),mul(@2,log1p(exp2(neg(abs(sub(@0,@1))))))))",
        (1 / math.log(2),),
        np.logaddexp2,
    ),
    "sinc": ("where(eq(@0,0),1,div(sin(mul(@0,@1)),mul(@0,@1)))", (PI,), fn.sinc),
    "special_entr": ("where(gt(@0,0),neg(mul(@0,log(@0))),where(eq(@0,0),0,where(lt(@0,0),@1,@0)))", (-INF,), sp.entr),
    "special_ndtr": ("mul(0.5,erfc(mul(@0,@1)))", (-math.sqrt(0.5),), sp.ndtr),
    "special_xlog1py": ("where(isnan(@1),@1,where(eq(@0,0),0,mul(@0,log1p(@1))))", (), sp.xlog1py),
    "xlogy": ("where(isnan(@1),@1,where(eq(@0,0),0,mul(@0,log(@1))))", (), fn.xlogy),
}
"""TorchScript name -> expression, numbers behind the arguments, and the numpy function for integers and the like."""


_WHOLE = ("fmax", "fmin")
"""Functions that give integers for integers."""

_PREDICATES = ("isneginf", "isposinf")
"""Functions that give bool."""

_KINDS = dict.fromkeys((*_WHOLE, "logaddexp2", "special_xlog1py", "special_xlogy", "xlogy"), "fiub")
"""Functions whose expressions take integers, too."""


def _expression(name: str, text: str, numbers: Sequence[float], otherwise: Callable[..., Any]) -> LowerFunction:
    def call(b: Builder, *values: Any) -> Value:
        # Tensors meet in one type first; half precision is rounded once, as it is one function to PyTorch.
        kept = _common(values)
        kept = np.dtype(np.float32) if kept.kind in "biu" and name not in _WHOLE else kept
        met = [b.cast(v, kept) if isinstance(v, Tensor) else v for v in values]
        if kept != np.float16 or name in _PREDICATES:
            return lower_expression(b, text, [*met, *numbers])
        met = [b.cast(v, np.float32) if isinstance(v, Tensor) else v for v in met]
        return b.cast(intermediate(b, text, *met, *numbers), kept)

    call.__doc__ = f"{name}, element by element, arguments by position."
    return composed(name, otherwise, _KINDS.get(name, "f"))(call)


def _common(values: Sequence[Any]) -> DType:
    """The type in which tensors and numbers meet."""
    kinds = [TensorType(v.dtype, v.shape) if isinstance(v, Tensor) else v for v in values]
    return promote(map(element_type, kinds), True)


_EXPRESSIONS |= {f"special_{name}": _EXPRESSIONS[name] for name in ("sinc", "xlogy")}
for _name, (_text, _numbers, _otherwise) in _EXPRESSIONS.items():
    _expression(_name, _text, _numbers, _otherwise)


def _logit(b: Builder, input: Tensor, eps: float | None = None) -> Value:
    """Inverse of the sigmoid. torch.logit."""
    x = "@0" if eps is None else "clamp(@0,@1,@2)"
    return lower_expression(b, f"log(div({x},sub(1,{x})))", [input, *([] if eps is None else [eps, 1 - eps])])


composed("logit", fn.logit)(in_single(_logit))
composed("special_logit", fn.logit)(in_single(_logit))


@composed("isclose", fn.isclose)
def isclose(
    b: Builder, input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, nan: bool = False
) -> Value:
    """Whether values are close. torch.isclose."""
    text = f"logical_or(eq(@0,@1),logical_and(isfinite(sub(@0,@1)),{_CLOSE}))"
    if nan:
        text = f"logical_or({text},logical_and(isnan(@0),isnan(@1)))"
    return lower_expression(b, text, [input, other, float(rtol), float(atol)])


@composed("ldexp", fn.ldexp, "fiu")
def ldexp(b: Builder, input: Tensor, other: Tensor) -> Value:
    """input * 2 ** other. torch.ldexp."""
    if other.dtype.kind != "f":
        whole: Value = numpy_step(fn.ldexp, False)(b, input, other)
        return whole
    return lower_expression(b, "mul(@0,exp2(@1))", [input, other])


@composed("float_power", fn.float_power, "fiub")
def float_power(b: Builder, input: Any, exponent: Any) -> Value:
    """Power in double precision. torch.float_power."""
    wide = [b.cast(v, np.float64) if isinstance(v, Tensor) else float(v) for v in (input, exponent)]
    return lower_expression(b, "pow(@0,@1)", wide)


# -- shapes ------------------------------------------------------------------------------------------------------


def _at_least(b: Builder, x: Tensor, rank: int) -> Tensor:
    if x.ndim >= rank:
        return x
    behind = int(rank == 3 and x.ndim > 0)
    return b.reshape(x, (*[1] * (rank - x.ndim - behind), *x.shape, *[1] * behind))


def _atleast(rank: int) -> LowerFunction:
    def atleast(b: Builder, input: Any) -> Value:
        made = [_at_least(b, t, rank) for t in tensor_list(input)]
        return made if isinstance(input, (list, tuple)) else made[0]

    atleast.__doc__ = f"At least {rank} dimensions. torch.atleast_{rank}d."
    return atleast


for _rank in (1, 2, 3):
    operator(f"aten::atleast_{_rank}d")(_atleast(_rank))


@operator("aten::hstack")
def hstack(b: Builder, tensors: Any) -> Tensor:
    """Tensors side by side. torch.hstack."""
    parts = [_at_least(b, t, 1) for t in tensor_list(tensors)]
    return cat(b, *parts, dim=0 if parts[0].ndim == 1 else 1)


@operator("aten::row_stack", "aten::vstack")
def vstack(b: Builder, tensors: Any) -> Tensor:
    """Tensors below each other. torch.vstack."""
    return cat(b, *(_at_least(b, t, 2) for t in tensor_list(tensors)), dim=0)


@operator("aten::dstack")
def dstack(b: Builder, tensors: Any) -> Tensor:
    """Tensors behind each other. torch.dstack."""
    return cat(b, *(_at_least(b, t, 3) for t in tensor_list(tensors)), dim=2)


@operator("aten::column_stack")
def column_stack(b: Builder, tensors: Any) -> Tensor:
    """Tensors side by side, vectors as columns. torch.column_stack."""
    return cat(b, *(t if t.ndim > 1 else b.reshape(t, (t.size, 1)) for t in tensor_list(tensors)), dim=1)


@operator("aten::fliplr")
def fliplr(b: Builder, input: Tensor) -> Tensor:
    """Second dimension reversed. torch.fliplr."""
    return flip(b, input, dims=(1,))


@operator("aten::flipud")
def flipud(b: Builder, input: Tensor) -> Tensor:
    """First dimension reversed. torch.flipud."""
    return flip(b, input, dims=(0,))


@operator("aten::rot90")
def rot90(b: Builder, input: Tensor, k: int = 1, dims: Any = (0, 1)) -> Tensor:
    """Quarter turns in the plane of two dimensions. torch.rot90."""
    first, second = (axis_of(d, input.ndim) for d in dims)
    if first == second:
        raise ShapeError("the two dimensions must differ", actual=tuple(dims))
    if k % 4 == 0:
        return input
    turned = backwards(input, ((second,), (first, second), (first,))[k % 4 - 1])
    order = list(range(input.ndim))
    if k % 2:
        order[first], order[second] = second, first
    return copied(b, turned.permute(order))


def _shifted(up: bool) -> LowerFunction:
    def shift(b: Builder, input: Tensor, dim: Any = None) -> Value:
        axes = axes_or_all(dim, input.ndim)
        return roll(b, input, shifts=tuple((input.shape[a] + (not up)) // 2 for a in axes), dims=tuple(axes))

    return shift


operator("aten::fft_fftshift")(fftshift := _shifted(True))
fftshift.__doc__ = "The zero frequency in the middle. torch.fft.fftshift."
operator("aten::fft_ifftshift")(ifftshift := _shifted(False))
ifftshift.__doc__ = "The zero frequency at the start again. torch.fft.ifftshift."


@operator("aten::diagflat")
def diagflat(b: Builder, input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all entries on a diagonal. torch.diagflat."""
    return diag(b, b.reshape(input, (input.size,)), diagonal=offset)


@operator("aten::diag_embed")
def diag_embed(b: Builder, input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices whose diagonals are given. torch.diag_embed."""
    rank = input.ndim + 1
    first, second = axis_of(dim1, rank), axis_of(dim2, rank)
    if first == second or not input.ndim:
        raise ShapeError("the two dimensions must differ", actual=(dim1, dim2))
    n = input.shape[-1] + abs(offset)
    y = b.empty((*input.shape[:-1], n, n), input.dtype)
    b.copy(b.constant(np.zeros(1, input.dtype)).as_strided(y.shape, [0] * y.ndim), y)
    start = max(offset, 0) + max(-offset, 0) * n
    b.copy(input, y.as_strided(input.shape, (*y.strides[:-2], n + 1), start if input.size else 0))
    rest = iter(range(rank - 2))
    return y.permute([rank - 2 if d == first else rank - 1 if d == second else next(rest) for d in range(rank)])


@operator("aten::conj", "aten::_conj", "aten::conj_physical")
def conj(b: Builder, input: Tensor) -> Value:
    """Conjugate: real numbers as they are. torch.conj."""
    if input.dtype.kind != "c":
        return input
    return lower_expression(b, "complex(real(@0),neg(imag(@0)))", [input])


# -- reductions --------------------------------------------------------------------------------------------------


def _moments(root: bool) -> LowerFunction:
    def moments(b: Builder, input: Tensor, dim: Any = None, unbiased: Any = True, keepdim: bool = False) -> Value:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        axes = axes_or_all(dim, input.ndim)
        free = 1.0 if unbiased is None else float(unbiased)
        spread = (reductions.std if root else reductions.var)(b, input, dim=tuple(axes), unbiased=free, keepdim=keepdim)
        return Results((spread, reductions.emit_reduce(b, input, axes, keepdim, "mean", temporary=True)))

    return moments


std_mean = composed("std_mean", fn.moments(True))(_moments(True))
var_mean = composed("var_mean", fn.moments(False))(_moments(False))


@composed("aminmax", fn.aminmax, "fiub")
def aminmax(b: Builder, input: Tensor, dim: int | None = None, keepdim: bool = False) -> Value:
    """Least and largest entry. torch.aminmax."""
    axes = axes_or_all(dim, input.ndim)
    least = reductions.amin(b, input, dim=tuple(axes), keepdim=keepdim)
    return Results((least, reductions.emit_reduce(b, input, axes, keepdim, "max", temporary=True)))


@operator("aten::count_nonzero")
def count_nonzero(b: Builder, input: Tensor, dim: Any = None) -> Value:
    """Number of entries that are not zero. torch.count_nonzero."""
    axes = axes_or_all(dim, input.ndim)
    held = input if input.dtype == np.bool_ else intermediate(b, "ne(@0,0)", input)
    return reductions.total(b, held, dim=tuple(axes))


def _dot(b: Builder, x: Tensor, y: Tensor, dim: int) -> Tensor:
    products = intermediate(b, "mul(@0,@1)", x, y)
    return reductions.emit_reduce(b, products, [axis_of(dim, products.ndim)], False, "sum")


def _scalar_product(b: Builder, input: Tensor, other: Tensor) -> Value:
    """Sum of the products of the entries of two vectors. torch.dot."""
    if input.ndim != 1 or input.shape != other.shape:
        raise ShapeError("dot takes two vectors of one length", expected=input.shape, actual=other.shape)
    return _dot(b, input, other, 0)


composed("dot", np.dot, "fiu")(_scalar_product)
composed("vdot", np.vdot, "fiu")(_scalar_product)


@composed("linalg_vecdot", mx.vecdot, "fiu")
def vecdot(b: Builder, input: Tensor, other: Tensor, dim: int = -1) -> Value:
    """Dot products along a dimension. torch.linalg.vecdot."""
    return _dot(b, input, other, dim)


@operator("aten::cosine_similarity")
def cosine_similarity(b: Builder, x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Value:
    """Cosine of the angle between vectors. torch.nn.functional.cosine_similarity."""
    kept = _common((x1, x2))
    if kept.kind != "f":
        raise ShapeError("angles need vectors of a floating type", actual=kept)
    shape = common_shape(x1.shape, x2.shape) or (1,)
    axes = [axis_of(dim, len(shape))]
    wide = [(x if x.dtype.kind == "f" else b.cast(x, kept)).expand(shape) for x in (x1, x2)]
    norms = [reductions.emit_reduce(b, x, axes, True, "norm2", temporary=True) for x in wide]
    # Each vector is divided by its own length first: so products neither overflow nor vanish.
    text = "mul(div(@0,maximum(@2,@4)),div(@1,maximum(@3,@4)))"
    return reductions.emit_reduce(b, intermediate(b, text, *wide, *norms, float(eps)), axes, False, "sum")


@composed("dist", mx.dist, "fiu")
def dist(b: Builder, input: Tensor, other: Tensor, p: float = 2.0) -> Value:
    """p-norm of the difference. torch.dist."""
    return reductions.norm(b, intermediate(b, "sub(@0,@1)", input, other), p=p)


_NORM, _MATRIX_NORM = numpy_step(mx.norm, False), numpy_step(mx.matrix_norm, False)


@composed("linalg_norm", mx.norm)
def linalg_norm(
    b: Builder, input: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Value:
    """Norm of vectors or matrices; those of singular values are left to numpy. torch.linalg.norm."""
    count = input.ndim if dim is None else len(axes_or_all(dim, input.ndim))
    if dtype is not None or not (ord is None or count == 1 or (ord == "fro" and count == 2)):
        return _NORM(b, input, ord, dim, keepdim, dtype)
    axes = tuple(axes_or_all(dim, input.ndim))
    return reductions.norm(b, input, p=2 if ord in (None, "fro") else ord, dim=axes, keepdim=keepdim)


@composed("linalg_matrix_norm", mx.matrix_norm)
def linalg_matrix_norm(
    b: Builder, input: Tensor, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None
) -> Value:
    """Norm of matrices. torch.linalg.matrix_norm."""
    if dtype is not None or ord != "fro":
        return _MATRIX_NORM(b, input, ord, dim, keepdim, dtype)
    return reductions.norm(b, input, p=2, dim=tuple(dim), keepdim=keepdim)


@composed("norm_except_dim", mx.norm_except_dim)
def norm_except_dim(b: Builder, v: Tensor, pow: int = 2, dim: int = 0) -> Value:
    """Norms over all dimensions but one; over all for -1. torch.norm_except_dim."""
    rest = [d for d in range(v.ndim) if d != dim % v.ndim]
    return reductions.norm(b, v, p=pow) if dim == -1 else reductions.norm(b, v, p=pow, dim=tuple(rest), keepdim=True)


@composed("renorm", fn.renorm)
def renorm(b: Builder, input: Tensor, p: float, dim: int, maxnorm: float) -> Value:
    """Slices shortened to a longest norm. torch.renorm."""
    rest = [d for d in range(input.ndim) if d != axis_of(dim, input.ndim)]
    name = {1.0: "norm1", 2.0: "norm2", INF: "norminf"}.get(float(p), "norm")
    size = reductions.emit_reduce(b, input, rest, True, name, p=float(p), temporary=True)
    factor = intermediate(b, "where(gt(@0,@1),div(@1,add(@0,1e-7)),1)", size, float(maxnorm))
    return lower_expression(b, "mul(@0,@1)", [input, factor])


# -- products ----------------------------------------------------------------------------------------------------


@operator("aten::outer", "aten::ger")
def outer(b: Builder, input: Tensor, vec2: Tensor) -> Value:
    """Products of all pairs of entries of two vectors. torch.outer."""
    if input.ndim != 1 or vec2.ndim != 1:
        raise ShapeError("outer takes two vectors", expected=input.shape, actual=vec2.shape)
    return lower_expression(b, "mul(@0,@1)", [input.unsqueeze(1), vec2])


@operator("aten::kron")
def kron(b: Builder, input: Tensor, other: Tensor) -> Tensor:
    """Kronecker product. torch.kron."""
    rank = max(input.ndim, other.ndim)
    left, right = ((*[1] * (rank - x.ndim), *x.shape) for x in (input, other))
    wide = [n for pair in zip(left, right, strict=True) for n in pair]
    x = b.reshape(input, [n for size in left for n in (size, 1)])
    y = b.reshape(other, [n for size in right for n in (1, size)])
    if rank > 1:
        # Lines of whole results are longer than those of the second matrix, and take few copies.
        x, y = (b.contiguous(t.expand((*t.shape[:-2], *wide[-2:]))) for t in (x, y))
    return b.reshape(intermediate(b, "mul(@0,@1)", x, y), [n * m for n, m in zip(left, right, strict=True)])


@operator("aten::addmv")
def addmv(b: Builder, input: Tensor, mat: Tensor, vec: Tensor, beta: Any = 1, alpha: Any = 1) -> Value:
    """Matrix times vector plus input. torch.addmv."""
    if mat.ndim != 2 or vec.ndim != 1:
        raise ShapeError("addmv takes a matrix and a vector", expected=mat.shape, actual=vec.shape)
    column = input.expand((mat.shape[0],)).unsqueeze(1)
    return added_product(b, column, mat, vec.unsqueeze(1), alpha, beta).squeeze([1])


@operator("aten::addbmm")
def addbmm(b: Builder, input: Tensor, batch1: Tensor, batch2: Tensor, beta: Any = 1, alpha: Any = 1) -> Value:
    """Sum of matrix products plus input: one product, of all columns with all rows. torch.addbmm."""
    if batch1.ndim != 3 or batch2.ndim != 3 or batch1.shape[::2] != batch2.shape[:2]:
        raise ShapeError("the batches do not fit", expected=batch1.shape, actual=batch2.shape)
    (count, rows, size), columns = batch1.shape, batch2.shape[2]
    left = b.reshape(batch1.permute([1, 0, 2]), (rows, count * size))
    return added_product(b, input, left, b.reshape(batch2, (count * size, columns)), alpha, beta)


@operator("aten::addr")
def addr(b: Builder, input: Tensor, vec1: Tensor, vec2: Tensor, beta: Any = 1, alpha: Any = 1) -> Value:
    """Outer product plus input. torch.addr."""
    if vec1.ndim != 1 or vec2.ndim != 1:
        raise ShapeError("addr takes two vectors", expected=vec1.shape, actual=vec2.shape)
    added = input.expand((vec1.size, vec2.size))
    kept = _common((added, vec1, vec2))
    summand, column, row = (b.cast(v, kept) for v in (added, vec1.unsqueeze(1), vec2.unsqueeze(0)))
    return added_product(b, summand, column, row, alpha, beta)


@operator("aten::inner")
def inner(b: Builder, input: Tensor, other: Tensor) -> Value:
    """Sums of products over the last dimensions. torch.inner."""
    if not input.ndim or not other.ndim:
        return lower_expression(b, "mul(@0,@1)", [input, other])
    return tensordot(b, input, other, [-1], [-1])


@composed("tensordot", mx.tensordot)
def tensordot(b: Builder, input: Tensor, other: Tensor, dims_self: Any, dims_other: Any) -> Tensor:
    """Sum of products over listed dimensions. torch.tensordot."""
    x, y = input, other
    dims_self, dims_other = dims_self or [], dims_other or []  # files hold None for a list of nothing
    for i, k in zip(dims_self, dims_other, strict=True):
        # A dimension of size one stands for as many equal places as the other has.
        if x.shape[i] == 1 and y.shape[k] != 1:
            y = reductions.emit_reduce(b, y, [axis_of(k, y.ndim)], True, "sum", temporary=True)
        elif y.shape[k] == 1 and x.shape[i] != 1:
            x = reductions.emit_reduce(b, x, [axis_of(i, x.ndim)], True, "sum", temporary=True)
    summed = [[axis_of(d, t.ndim) for d in dims] for t, dims in ((x, dims_self), (y, dims_other))]
    left, right = ([d for d in range(t.ndim) if d not in axes] for t, axes in zip((x, y), summed, strict=True))
    if [x.shape[d] for d in summed[0]] != [y.shape[d] for d in summed[1]]:
        raise ShapeError("the dimensions to sum over do not fit", expected=input.shape, actual=other.shape)
    size = math.prod(x.shape[d] for d in summed[0])
    rows = b.reshape(x.permute([*left, *summed[0]]), (math.prod(x.shape[d] for d in left), size))
    columns = b.reshape(y.permute([*summed[1], *right]), (size, math.prod(y.shape[d] for d in right)))
    return b.reshape(product(b, rows, columns), [*(x.shape[d] for d in left), *(y.shape[d] for d in right)])
