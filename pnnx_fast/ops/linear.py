"""Linear layers and matrix products.

A product with known weights runs on the convolution kernels, whose weights are packed once; a product of two
activations runs on the batched matrix kernel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK
from pnnx_fast._types import Shape
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Operator
from pnnx_fast.ir.shapes import dense_strides
from pnnx_fast.ops._checks import common_shape, require_dims
from pnnx_fast.ops.convolution import as_computed, as_convolved, convolve, epilogue_fields
from pnnx_fast.ops.registry import Floats, operator
from pnnx_fast.ops.symbolic import Builder, Tensor, merge_dims


@operator("nn.Linear", "fused.Linear", rows=2)
@operator("F.linear")
def linear(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    in_features: int | None = None,
    out_features: int | None = None,
    activation: str = "none",
    activation_params: Floats = (),
    residual_late: bool = False,
) -> Tensor:
    """Product with a weight matrix over the last dimension. torch.nn.Linear."""
    require_dims(weight, 1)
    vector = weight.ndim == 1
    matrix = weight.unsqueeze(0) if vector else weight
    if matrix.ndim != 2 or input.ndim < 1 or input.shape[-1] != matrix.shape[1]:
        raise ShapeError("features do not fit the weight", expected=matrix.shape[-1], actual=input.shape)
    if bias is not None and bias.ndim > 1 and not vector:
        bias = _broadcast_bias(bias, (*input.shape[:-1], weight.shape[0]))
    once = input.dtype == np.float32 and not weight.is_constant  # packing it at every call would take longer
    if (once or input.dtype not in (np.float32, np.float16)) and activation == "none" and residual is None:
        y = product(b, input, weight.permute(list(range(weight.ndim))[::-1]))
        if bias is None:
            return y
        from pnnx_fast.ops.elementwise import lower_expression

        added: Tensor = lower_expression(b, "add(@0,@1)", [y, bias])
        return added
    if bias is not None and bias.ndim > 1 and residual is None and not vector:
        residual, bias = bias, None
    bias = None if bias is None else _one_per_row(b, bias, matrix.shape[0])
    x, w, bias, z = as_convolved(b, input, matrix, bias, residual)
    assert x is not None
    assert w is not None
    y = multiply_rows(b, x, w, bias, z, epilogue_fields(activation, activation_params, residual_late))
    return b.cast(y.select(y.ndim - 1, 0) if vector else y, input.dtype)


def _one_per_row(b: Builder, bias: Tensor, rows: int) -> Tensor:
    """The bias of each row of a weight matrix; PyTorch takes one number for all of them, too."""
    return b.contiguous(bias.expand((rows,))) if bias.ndim < 2 and bias.size == 1 else bias


def _broadcast_bias(bias: Tensor, shape: Shape) -> Tensor:
    """A bias of more dimensions than one, which PyTorch adds as it would any tensor that fits the result."""
    while bias.ndim > len(shape) and bias.shape[0] == 1:
        bias = bias.select(0, 0)  # a single vector is a row to PyTorch
    try:
        return bias.expand(shape)
    except ShapeError:
        raise ShapeError("the bias does not fit the weight", expected=shape, actual=bias.shape) from None


def multiply_rows(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None,
    act: Mapping[str, Any],
    y: Tensor | None = None,
) -> Tensor:
    """Emit ``act(input @ weight.T + bias + residual)`` over the last dimension: a 1x1 convolution over rows."""
    *lead, features = input.shape
    out = weight.shape[0]
    if residual is not None and not residual.expands_to((*lead, out)):
        from pnnx_fast.ops._epilogue import finish

        return finish(b, multiply_rows(b, input, weight, bias, None, epilogue_fields("none", ()), y), residual, act)
    if y is None:
        y = b.result((*lead, out), input.dtype)
    if y.size == 0:
        return y
    z = None if residual is None else residual.expand(y.shape)
    grid = _grid(input, y, z)
    if grid is None:
        input, z = b.contiguous(input), None if z is None else b.contiguous(z)
        grid = _grid(input, y, z)
    assert grid is not None
    shape, (xs, ys, zs) = grid
    pixels = input.as_strided((shape[0], features, *shape[1:]), (xs[0], 1, *xs[1:]))
    target = y.as_strided((shape[0], out, *shape[1:]), (ys[0], 1, *ys[1:]))
    other = None if z is None else z.as_strided(target.shape, (zs[0], 1, *zs[1:]))
    filters = weight.as_strided((out, features, 1, 1), (*weight.strides, 1, 1))
    one = (1, 1)
    convolve(b, pixels, filters, bias, other, target, stride=one, before=(0, 0), dilation=one, groups=1, act=act)
    return y


def _grid(x: Tensor, y: Tensor, z: Tensor | None) -> tuple[Shape, list[Shape]] | None:
    """Rows of the tensors as at most three dimensions (sizes, strides of each), None when that needs a copy."""
    if x.size == 0:
        x = x.as_strided(x.shape, dense_strides(x.shape))
    tensors = [x, y, y if z is None else z]
    if any(t.shape[-1] != 1 and t.strides[-1] != 1 for t in tensors):
        return None
    sizes, strides = merge_dims(x.shape[:-1], *(t.strides[:-1] for t in tensors))
    if len(sizes) > 3:
        return None
    missing = 3 - len(sizes)
    return (1,) * missing + sizes, [(0,) * missing + s for s in strides]


MOST_COMPLEX = MAX_RANK - 2
"""Dimensions of complex matrices of which there are products: rows become two, and numbers pairs."""


def multiply(
    b: Builder,
    left: Tensor,
    right: Tensor,
    added: Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    y: Tensor | None = None,
) -> Tensor:
    """Emit ``alpha left @ right + beta added`` of tensors of two or more dimensions, all float32 or all float64.

    Batches broadcast. The product goes to ``y``, a plain tensor, or becomes the result of the operator. Without
    ``added``, matrices may be complex.
    """
    if left.shape[-1] != right.shape[-2]:
        raise ShapeError(
            "matrices do not fit", expected=(*right.shape[:-2], left.shape[-1], right.shape[-1]), actual=right
        )
    batch = common_shape(left.shape[:-2], right.shape[:-2])
    m, n, k = left.shape[-2], right.shape[-1], left.shape[-1]
    packed = left.dtype == np.float32 and right.is_constant and right.ndim == 2
    if added is None and alpha == 1.0 and packed:
        return multiply_rows(b, left, right.permute((1, 0)), None, None, epilogue_fields("none", ()), y)
    if y is None:
        y = b.result((*batch, m, n), left.dtype)
    if left.dtype.kind == "c":
        from pnnx_fast.ops._complex_product import multiply_complex

        multiply_complex(b, left, right, y, batch)
        return y
    c = None if added is None or beta == 0.0 else added.expand(y.shape)
    if right.ndim == 2 and (rows := left.view((math.prod(batch) * m, k))) is not None and c is None:
        # One matrix for all batches: the batches are more rows.
        batch, left, m = (), rows, rows.shape[0]
    left, right = left.expand((*batch, m, k)), right.expand((*batch, k, n))
    target = y if len(batch) == y.ndim - 2 else y.as_strided((m, n), (n, 1))
    _emit_product(b, left, right, c, target, alpha, beta)
    return y


def _emit_product(
    b: Builder, left: Tensor, right: Tensor, added: Tensor | None, y: Tensor, alpha: float, beta: float
) -> None:
    tensors = [left, right, added or y, y]
    batch, strides = merge_dims(y.shape[:-2], *(t.strides[:-2] for t in tensors))
    if len(batch) > MAX_RANK:
        raise ShapeError("too many batch dimensions", expected=f"<= {MAX_RANK}", actual=y.shape)
    fields: dict[str, Any] = {
        "rank": len(batch), "shape": batch, "as": strides[0], "bs": strides[1], "cs": strides[2], "ys": strides[3],
        "m": y.shape[-2], "n": y.shape[-1], "k": left.shape[-1],
        "am": left.strides[-2], "ak": left.strides[-1], "bk": right.strides[-2], "bn": right.strides[-1],
        "cm": added.strides[-2] if added else 0, "cn": added.strides[-1] if added else 0, "ym": y.strides[-2],
        "alpha": float(alpha), "beta": float(beta),
    }  # fmt: skip
    kernel = "matmul_f64" if y.dtype == np.float64 else "matmul_f32"
    plan = b.plan(kernel, **fields)
    b.step(
        kernel,
        a=left,
        b=right,
        c=added,
        y=y,
        scratch=b.scratch(plan.scratch_bytes),
        **fields,
        flops=2 * y.size * left.shape[-1],
        label=plan.label,
    )


def product(b: Builder, left: Tensor, right: Tensor) -> Tensor:
    """``torch.matmul`` of tensors of any rank and dtype."""
    if left.ndim == 0 or right.ndim == 0:
        raise ShapeError("both arguments need at least one dimension", actual=(left.shape, right.shape))
    dtype = np.result_type(left.dtype, right.dtype)
    a = left.unsqueeze(0) if left.ndim == 1 else left
    c = right.unsqueeze(1) if right.ndim == 1 else right
    if dtype.kind == "f" or (dtype.kind == "c" and max(a.ndim, c.ndim) <= MOST_COMPLEX):
        computed = np.promote_types(dtype, np.float32)
        y = multiply(b, b.cast(a, computed), b.cast(c, computed))
    else:
        if a.shape[-1] != c.shape[-2]:
            raise ShapeError("matrices do not fit", expected=left.shape[-1], actual=right.shape)
        shape = (*common_shape(a.shape[:-2], c.shape[:-2]), a.shape[-2], c.shape[-1])
        y = b.host(np.matmul, [a, c], [(shape, dtype)])[0]
    y = b.cast(y, dtype)
    y = y.squeeze([y.ndim - 2]) if left.ndim == 1 else y
    return y.squeeze([y.ndim - 1]) if right.ndim == 1 else y


def _check_rank(name: str, rank: int, *tensors: Tensor) -> None:
    for t in tensors:
        if t.ndim != rank:
            raise ShapeError(f"{name} takes tensors of {rank} dimensions", expected=rank, actual=t.shape)


def _multiplies_rows(op: Operator, rows: int) -> bool:
    ranks = {len(x.shape or ()) for x in op.inputs}
    return len(ranks) == 1 and min(ranks) >= 3


@operator("torch.matmul", rows=_multiplies_rows)
def matmul(b: Builder, input: Tensor, other: Tensor) -> Tensor:
    """Matrix product with broadcast batches. torch.matmul."""
    return product(b, input, other)


@operator("torch.mm")
def mm(b: Builder, input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices. torch.mm."""
    _check_rank("mm", 2, input, mat2)
    return product(b, input, mat2)


@operator("torch.bmm")
def bmm(b: Builder, input: Tensor, mat2: Tensor) -> Tensor:
    """Products of two batches of matrices. torch.bmm."""
    _check_rank("bmm", 3, input, mat2)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError("batches differ", expected=input.shape[0], actual=mat2.shape[0])
    return product(b, input, mat2)


@operator("torch.mv")
def mv(b: Builder, input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector. torch.mv."""
    _check_rank("mv", 2, input)
    _check_rank("mv", 1, vec)
    return product(b, input, vec)


def added_product(b: Builder, added: Tensor, left: Tensor, right: Tensor, alpha: Any, beta: Any) -> Tensor:
    """``beta added + alpha left @ right``; factors of integers lose what is behind their point."""
    dtype = np.result_type(added.dtype, left.dtype, right.dtype)
    if dtype.kind != "c" and (isinstance(alpha, complex) or isinstance(beta, complex)):
        raise ParameterError("factors of real matrices must be real", parameter="alpha, beta")
    if dtype.kind in "iu":
        alpha, beta = int(alpha), int(beta)
    shape = (*left.shape[:-1], right.shape[-1])
    added.expand(shape)  # raises when it does not fit
    if dtype in (np.float64, np.float32, np.float16):
        c, x, w = as_computed(b, b.cast(left, dtype), added, left, right)[1:]
        assert x is not None
        assert w is not None
        plain = alpha == 1.0 and beta == 1.0 and w.is_constant and w.ndim == 2 and dtype != np.float64
        if plain and c is not None and c.ndim == 1 and c.shape[0] == shape[-1]:
            y = multiply_rows(b, x, w.permute((1, 0)), c, None, epilogue_fields("none", ()))
        else:
            y = multiply(b, x, w, c, alpha, beta)
        return b.cast(y, dtype)

    def compute(c: Any, x: Any, w: Any) -> Any:
        y = alpha * np.matmul(x, w)
        return (y + beta * c if beta else y).astype(dtype)

    return b.host(compute, [added, left, right], [(shape, dtype)])[0]


@operator("torch.addmm")
def addmm(
    b: Builder, input: Tensor, mat1: Tensor, mat2: Tensor, *, alpha: complex = 1.0, beta: complex = 1.0
) -> Tensor:
    """``beta input + alpha mat1 @ mat2``. torch.addmm."""
    _check_rank("addmm", 2, mat1, mat2)
    return added_product(b, input, mat1, mat2, alpha, beta)


@operator("torch.baddbmm")
def baddbmm(
    b: Builder, input: Tensor, batch1: Tensor, batch2: Tensor, *, alpha: complex = 1.0, beta: complex = 1.0
) -> Tensor:
    """``beta input + alpha batch1 @ batch2`` for batches of matrices. torch.baddbmm."""
    _check_rank("baddbmm", 3, batch1, batch2)
    if batch1.shape[0] != batch2.shape[0]:
        raise ShapeError("batches differ", expected=batch1.shape[0], actual=batch2.shape[0])
    return added_product(b, input, batch1, batch2, alpha, beta)
