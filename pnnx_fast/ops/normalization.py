"""Normalisation operators: batch, layer, root-mean-square, group, instance, local response, and by a norm.

Compiled kernels take float32, and half precision cast to it, in whatever layout; float64 is reductions and expressions,
but for statistics of a batch and neighbouring channels, which numpy computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_RANK
from pnnx_fast._types import Array, DType
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.ir import Operator
from pnnx_fast.ops import reduction
from pnnx_fast.ops._channels import emit_channels
from pnnx_fast.ops._checks import require_dims
from pnnx_fast.ops._dtype import in_single
from pnnx_fast.ops.axis import along_axis
from pnnx_fast.ops.registry import Floats, Ints, find, operator
from pnnx_fast.ops.shape import axes_of, axis_of
from pnnx_fast.ops.symbolic import Builder, Tensor, is_channels_last, merge_dims


def _check_floating(input: Tensor) -> None:
    if input.dtype.kind != "f":
        raise ShapeError("needs a floating type", actual=input.dtype)


def _vector(b: Builder, weight: Tensor | None, n: int, what: str) -> Tensor | None:
    """A weight or bias as n contiguous float32 numbers."""
    if weight is None:
        return None
    if weight.size != n:
        raise ShapeError(f"the {what} does not fit", expected=n, actual=list(weight.shape))
    return b.reshape(b.contiguous(b.cast(weight, np.float32)), (n,))


def _host(b: Builder, function: Callable[..., Array], input: Tensor, *weights: Tensor | None) -> Tensor:
    """Emit a numpy step over float64 copies of the input and those weights that exist."""
    present = [w is not None for w in weights]

    def run(x: Array, *given: Array) -> Array:
        source = iter(given)
        values = [next(source).astype(np.float64) if p else None for p in present]
        return np.asarray(function(x.astype(np.float64), *values)).astype(x.dtype)

    return b.host(run, [input, *(w for w in weights if w is not None)], [(input.shape, input.dtype)])[0]


ACTIVATIONS: dict[str, tuple[str, tuple[str, ...], dict[str, Any]]] = {
    "clip": ("F.hardtanh", ("min_val", "max_val"), {}),
    "leaky_relu": ("F.leaky_relu", ("negative_slope",), {}),
    "gelu_tanh": ("F.gelu", (), {"approximate": "tanh"}),
}
"""Fused activations that as operators have another name, or parameters."""


def _activate(b: Builder, y: Tensor, activation: str, values: Floats) -> Tensor:
    """Apply a fused activation by its operator, where no kernel has done so."""
    if activation == "none":
        return y
    kind, names, fixed = ACTIVATIONS.get(activation, (f"F.{activation}", (), {}))
    definition = find(kind)
    if definition is None:
        raise ParameterError(f"unknown activation {activation!r}", parameter="activation")
    given = [values] if isinstance(values, (int, float)) else values
    result: Tensor = definition.function(b, y, **dict(zip(names, given, strict=True)), **fixed)
    return result


# -- rows --------------------------------------------------------------------------------------------------------


def _ends_dense(x: Tensor, dims: int) -> bool:
    """Whether the last ``dims`` dimensions are contiguous."""
    dense = 1
    for n, stride in zip(reversed(x.shape[-dims:]), reversed(x.strides[-dims:]), strict=True):
        if n != 1 and stride != dense:
            return False
        dense *= n
    return True


def _expression(b: Builder, text: str, values: list[Any], *, temporary: bool = False) -> Tensor:
    """Emit an expression. Most norms do without, and its machinery takes time to import."""
    from pnnx_fast.ops.elementwise import lower_expression

    value: Tensor = lower_expression(b, text, values, temporary=temporary)
    return value


def _double_row_norm(
    b: Builder, input: Tensor, dims: int, weight: Tensor | None, bias: Tensor | None, eps: float, rms: bool,
    affine: Sequence[int] = (),
) -> Tensor:  # fmt: skip
    """Rows of float64, by reductions and an expression; ``affine``: shape of weights that are not as long as a row."""
    axes = list(range(input.ndim - dims, input.ndim))
    share = 1.0 / (math.prod(input.shape[-dims:]) or math.nan)
    values: list[Any] = [input, float(eps)]
    if rms:
        text = "mul(@0,rsqrt(add(@2,@1)))"
        values.append(reduction.emit_reduce(b, input, axes, True, "squares", scale=share, temporary=True))
    else:
        text = "mul(sub(@0,@2),rsqrt(add(@3,@1)))"
        values.append(reduction.emit_reduce(b, input, axes, True, "sum", scale=share, temporary=True))
        values.append(reduction.emit_reduce(b, input, axes, True, "var", temporary=True))
    for name, given in (("mul", weight), ("add", bias)):
        if given is not None:
            text = f"{name}({text},@{len(values)})"
            values.append(b.reshape(b.cast(given, input.dtype), affine or input.shape[-dims:]))
    return _expression(b, text, values)


@in_single
def row_norm(
    b: Builder, input: Tensor, dims: int, weight: Tensor | None, bias: Tensor | None, eps: float, rms: bool
) -> Tensor:
    """Emit a layer norm or root-mean-square norm over the last ``dims`` dimensions."""
    _check_floating(input)
    n = math.prod(input.shape[-dims:])
    if input.dtype != np.float32:
        return _double_row_norm(b, input, dims, weight, bias, eps, rms)
    x = input if _ends_dense(input, dims) else b.contiguous(input)
    y = b.result(input.shape, np.float32, x)
    if not _ends_dense(y, dims):
        y = b.result(input.shape, np.float32)
    outer = x.ndim - dims
    shape, (xs, ys) = merge_dims(x.shape[:outer], x.strides[:outer], y.strides[:outer])
    if len(shape) > MAX_RANK:
        raise ShapeError("too many dimensions for a normalisation", actual=list(input.shape))
    b.step(
        "row_norm",
        flops=8 * x.size,
        inplace=(y, x),
        x=x, z=None, w=_vector(b, weight, n, "weight"), b=_vector(b, bias, n, "bias"), y=y, s=None, rank=len(shape),
        shape=shape, xs=xs, zs=(), ys=ys, ss=(), n=n, eps=eps, rms=rms,
    )  # fmt: skip
    return y


def _normalized_dims(input: Tensor, normalized_shape: Ints) -> int:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or input.shape[-len(shape) :] != shape:
        raise ShapeError("the input does not end in the normalized shape", expected=shape, actual=list(input.shape))
    return len(shape)


def _normalises_inside(op: Operator, rows: int) -> bool:
    """Whether the first dimension is left alone."""
    shape, inner = op.inputs[0].shape, op.params["normalized_shape"].value
    return shape is not None and len(shape) > (len(inner) if isinstance(inner, (list, tuple)) else 1)


@operator("nn.LayerNorm", rows=_normalises_inside)
@operator("F.layer_norm")
def layer_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    normalized_shape: Ints,
    eps: float = 1e-5,
    elementwise_affine: bool = True,
) -> Tensor:
    """Zero mean and unit variance over the last dimensions. torch.nn.functional.layer_norm."""
    return row_norm(b, input, _normalized_dims(input, normalized_shape), weight, bias, eps, rms=False)


@operator("nn.RMSNorm", "F.rms_norm")
def rms_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None = None,
    *,
    normalized_shape: Ints,
    eps: float | None = None,
    elementwise_affine: bool = True,
) -> Tensor:
    """Unit mean square over the last dimensions. torch.nn.functional.rms_norm."""
    _check_floating(input)
    eps = float(np.finfo(np.promote_types(input.dtype, np.float32)).eps) if eps is None else eps
    return row_norm(b, input, _normalized_dims(input, normalized_shape), weight, None, eps, rms=True)


@operator("fused.LayerNorm")
def fused_layer_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    dim: int,
    eps: float,
    rms: bool = False,
) -> Tensor:
    """Unit mean square along one dimension, with zero mean unless ``rms``: made of a norm written out in a model."""
    axis = axis_of(dim, input.ndim)
    rest = [d for d in range(input.ndim) if d != axis]
    x = b.channels_last(input) if axis == 1 and input.ndim > 2 else input
    order = [*rest, axis]
    back = [order.index(d) for d in range(input.ndim)]
    if weight is not None and weight.size != input.shape[axis]:
        # One number for all places, or numbers for places of which there is one.
        y = row_norm(b, x.permute(order), 1, None, None, eps, rms).permute(back)
        return _expression(b, "add(mul(@0,@1),@2)", [y, weight, bias])
    return row_norm(b, x.permute(order), 1, weight, bias, eps, rms).permute(back)


# -- channels ----------------------------------------------------------------------------------------------------


def _channels(
    b: Builder,
    kernel: str,
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    groups: int,
    eps: float,
    act: dict[str, Any],
) -> Tensor:
    """Emit a kernel of kind ``channels`` over float32 (n, c, …)."""
    c = x.shape[1]
    if x.ndim > MAX_RANK:
        spatial = math.prod(x.shape[2:])
        flat = _channels(b, kernel, b.reshape(x, (x.shape[0], c, spatial)), weight, bias, groups, eps, act)
        return b.reshape(flat, x.shape)
    last = is_channels_last(x) and not x.is_contiguous
    y = b.result(x.shape, np.float32, "channels_last" if last else "plain")
    w, shift = _vector(b, weight, c, "weight"), _vector(b, bias, c, "bias")
    emit_channels(b, kernel, x, y, w, shift, act, groups, eps)
    return y


@in_single
def group_norm_over(
    b: Builder,
    input: Tensor,
    groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    activation: str = "none",
    activation_params: Floats = (),
) -> Tensor:
    """Emit a group norm of (n, c, …)."""
    _check_floating(input)
    require_dims(input, 2)
    n, c = input.shape[:2]
    if groups < 1 or c % groups:
        raise ShapeError("the channels cannot be divided into groups", expected=f"a multiple of {groups}", actual=c)
    if input.dtype == np.float32:
        act = activation_fields(activation, activation_params)
        return _channels(b, "group_norm", input, weight, bias, groups, eps, act)

    rows = b.reshape(input, (n, groups, c // groups, math.prod(input.shape[2:])))
    y = _double_row_norm(b, rows, 2, weight, bias, eps, False, (groups, c // groups, 1))
    return _activate(b, b.reshape(y, input.shape), activation, activation_params)


@operator("nn.GroupNorm", "fused.GroupNorm", rows=2)
@operator("F.group_norm")
def group_norm(
    b: Builder,
    input: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    num_groups: int,
    eps: float = 1e-5,
    num_channels: int | None = None,
    affine: bool = True,
    activation: str = "none",
    activation_params: Floats = (),
) -> Tensor:
    """Zero mean and unit variance over groups of channels. torch.nn.functional.group_norm."""
    return group_norm_over(b, input, num_groups, weight, bias, eps, activation, activation_params)


def _statistics_to_affine(
    b: Builder,
    mean: Tensor,
    var: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    dtype: DType,
) -> tuple[Tensor, Tensor]:
    """Scale and shift of a normalisation with known statistics; computed once when all of them are constants."""
    given = [t for t in (mean, var, weight, bias) if t is not None]

    def run(m: Array, v: Array, *rest: Array) -> tuple[Array, Array]:
        values = iter(rest)
        w = next(values).astype(np.float64) if weight is not None else 1.0
        shift = next(values).astype(np.float64) if bias is not None else 0.0
        with np.errstate(all="ignore"):
            scale = w / np.sqrt(v.astype(np.float64) + eps)
            shift = shift - m * scale
        return scale.astype(dtype), np.asarray(shift).astype(dtype)

    if all(t.is_constant for t in given):
        scale, shift = run(*(t.numpy().reshape(-1) for t in given))
        return b.constant(scale), b.constant(shift)
    flat: list[Any] = [b.reshape(b.cast(t, dtype), (mean.size,)) for t in given]
    root = [flat[0], flat[1], flat[2] if weight is not None else 1.0, flat[-1] if bias is not None else 0.0, float(eps)]
    size = _expression(b, "div(@2,sqrt(add(@1,@4)))", root, temporary=True)
    return size, _expression(b, "sub(@3,mul(@0,@5))", [*root, size], temporary=True)


def _has_statistics(op: Operator, rows: int) -> bool:
    """Whether they need not be taken from all rows of the batch."""
    return {"running_mean", "running_var"} <= op.attrs.keys()


@operator("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", "fused.BatchNorm2d", rows=_has_statistics)
@operator("F.batch_norm")
@in_single
def batch_norm(
    b: Builder,
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
    num_features: int | None = None,
    affine: bool = True,
    activation: str = "none",
    activation_params: Floats = (),
) -> Tensor:
    """Normalise channels by stored statistics (by those of the batch where there are none). torch.nn.BatchNorm2d."""
    _check_floating(input)
    if input.ndim < 2 and not input.size:
        return input
    require_dims(input, 2)
    c = input.shape[1]
    for name, t in (("weight", weight), ("bias", bias)):
        if t is not None and t.size != c:
            raise ShapeError("one number a channel is needed", operand=name, expected=c, actual=t.size)
    if running_mean is None or running_var is None:
        axes, share = (0, *range(2, input.ndim)), c / (input.size or math.nan)
        running_mean = reduction.emit_reduce(b, input, axes, False, "sum", scale=share, temporary=True)
        running_var = reduction.emit_reduce(b, input, axes, False, "var", temporary=True)
    if running_mean.size != c or running_var.size != c:
        raise ShapeError("the statistics do not fit the channels", expected=c, actual=running_mean.size)
    scale, shift = _statistics_to_affine(b, running_mean, running_var, weight, bias, eps, input.dtype)
    if input.dtype != np.float32:
        columns = [b.reshape(t, (c, *[1] * (input.ndim - 2))) for t in (scale, shift)]
        whole = _expression(b, "add(mul(@0,@1),@2)", [input, *columns])
        return _activate(b, whole, activation, activation_params)
    # Rows of features are pixels of one image.
    x = input.permute([1, 0]).unsqueeze(0) if input.ndim == 2 else input
    y = _channels(b, "channel_affine", x, scale, shift, 1, 0.0, activation_fields(activation, activation_params))
    return y.squeeze([0]).permute([1, 0]) if input.ndim == 2 else y


def _instance_norm(axes: int) -> Callable[..., Tensor]:
    def instance_norm(
        b: Builder,
        input: Tensor,
        running_mean: Tensor | None = None,
        running_var: Tensor | None = None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        *,
        eps: float = 1e-5,
        num_features: int | None = None,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> Tensor:
        require_dims(input, axes + 1, axes + 2)
        x = input.unsqueeze(0) if input.ndim == axes + 1 else input
        if track_running_stats and running_mean is not None and running_var is not None:
            y = batch_norm(b, x, running_mean, running_var, weight, bias, eps=eps)
        else:
            y = group_norm_over(b, x, x.shape[1], weight, bias, eps)
        return y.squeeze([0]) if input.ndim == axes + 1 else y

    instance_norm.__doc__ = (
        f"Normalise each channel of each image, by stored statistics if tracked. torch.nn.InstanceNorm{axes}d."
    )
    return instance_norm


for _axes in (1, 2, 3):
    operator(f"nn.InstanceNorm{_axes}d")(_instance_norm(_axes))


@operator("F.instance_norm")
def functional_instance_norm(
    b: Builder,
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    eps: float = 1e-5,
    use_input_stats: bool = True,
) -> Tensor:
    """Normalise each channel of each image. torch.nn.functional.instance_norm."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        return batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)
    require_dims(input, 2)
    return group_norm_over(b, input, input.shape[1], weight, bias, eps)


# -- along an axis -----------------------------------------------------------------------------------------------


@operator("nn.LocalResponseNorm", "F.local_response_norm")
@in_single
def local_response_norm(
    b: Builder, input: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Divide by a power of the mean square over neighbouring channels. torch.nn.LocalResponseNorm."""
    whole = input.dtype == np.int64
    if not whole:
        _check_floating(input)
    require_dims(input, 3)
    if size < 1:
        raise ParameterError(f"size must be positive, not {size}", parameter="size")
    if not input.size:
        return input
    if input.dtype == np.float32:
        return along_axis(b, "local_response_norm", input, 1, [size, alpha, beta, k], size + 10)

    def run(x: Array) -> Array:
        pad = [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (x.ndim - 2)]
        squares = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, pad), size, 1).sum(-1)
        mean = squares // size if whole else squares / size  # integers have integers as means
        return np.asarray(x / (k + alpha * mean) ** beta)

    return b.host(run, [input], [(input.shape, np.float32)])[0] if whole else _host(b, run, input)


@operator("F.normalize")
@in_single
def normalize(b: Builder, input: Tensor, *, p: float = 2.0, dim: Ints = 1, eps: float = 1e-12) -> Tensor:
    """Divide by the norm along a dimension. torch.nn.functional.normalize."""
    if input.dtype.kind != "c":
        _check_floating(input)
    order = p
    axes = axes_of(dim, input.ndim)
    alone = input.ndim == 0 or math.prod(input.shape[a] for a in axes) == 1
    narrow = alone or (order == 2 and len(axes) == 1 and input.strides[axes[0]] == 1)
    if input.dtype == np.float32 and order != -math.inf and len(axes) == 1 and narrow:
        return along_axis(b, "normalize", input, axis_of(axes[0], input.ndim), [order, eps], 3)
    # Two steps over vectors are faster than one that gathers rows or takes powers number by number.
    size = reduction.norm(b, input, p=order, dim=axes, keepdim=True)
    return _expression(b, "div(@0,maximum(@1,@2))", [input, size, eps])
