"""Layers, losses and forms of ONNX that the converter leaves under their ONNX names, as for PyTorch's newer exporter.

Inputs, attributes and their defaults are those of the ONNX operators. What an ONNX model gives as a constant tensor
arrives as a tensor, a number or a list, or as a parameter of that name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.array_functions import check, window
from pnnx_fast.ops.aten import tril, triu
from pnnx_fast.ops.attention import scaled_dot_product_attention
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.index import take
from pnnx_fast.ops.losses import MEAN, NONE, SUM, nll_loss
from pnnx_fast.ops.padding import pad_sides
from pnnx_fast.ops.registry import Floats, Ints, operator
from pnnx_fast.ops.sampling import affine_grid
from pnnx_fast.ops.shape import axes_of, axis_of, integers, pixel_shuffle
from pnnx_fast.ops.softmax import emit_softmax
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value
from pnnx_fast.ops.vision import roi_align

# -- element by element --------------------------------------------------------------------------------------------


@operator("Softsign")
def softsign(b: Builder, input: Tensor) -> Value:
    """The input by one more than its magnitude. ONNX, torch.nn.Softsign."""
    return lower_expression(b, "softsign(@0)", [input])


@operator("ThresholdedRelu")
def thresholded_relu(b: Builder, X: Tensor, *, alpha: float = 1.0) -> Value:
    """The input where it is above a number, else 0. ONNX, torch.nn.Threshold."""
    return lower_expression(b, "threshold(@0,@1,0)", [X, alpha])


@operator("Swish")
def swish(b: Builder, X: Tensor, *, alpha: float = 1.0) -> Value:
    """The input times the sigmoid of a multiple of it. ONNX, torch.nn.SiLU."""
    return lower_expression(b, "mul(@0,sigmoid(mul(@0,@1)))", [X, alpha])


@operator("Mean")
def mean_of_inputs(b: Builder, *inputs: Any) -> Value:
    """Mean of any number of tensors, entry by entry. ONNX."""
    if not inputs:
        raise ParameterError("the mean of nothing", parameter="inputs")
    text = "@0"
    for i in range(1, len(inputs)):
        text = f"add({text},@{i})"
    return lower_expression(b, f"div({text},{len(inputs)})", inputs)


@operator("CastLike")
def cast_like(b: Builder, input: Tensor, target_type: Any) -> Tensor:
    """The input in the type of another tensor. ONNX, torch.Tensor.type_as."""
    if not isinstance(target_type, Tensor):
        raise ParameterError("the type that is wanted is not in the file", parameter="target_type")
    return b.cast(input, target_type.dtype)


@operator("IsNaN")
def is_nan(b: Builder, X: Tensor) -> Value:
    """Whether an entry is not a number. ONNX, torch.isnan."""
    return lower_expression(b, "isnan(@0)", [X])


@operator("IsInf")
def is_infinite(b: Builder, X: Tensor, *, detect_negative: bool = True, detect_positive: bool = True) -> Value:
    """Whether an entry is infinite, perhaps of one sign only. ONNX, torch.isinf."""
    if detect_negative and detect_positive:
        return lower_expression(b, "isinf(@0)", [X])
    if not detect_negative and not detect_positive:
        return b.contiguous(b.constant(np.zeros((), np.bool_)).expand(X.shape))
    return lower_expression(b, "eq(@0,@1)", [X, np.inf if detect_positive else -np.inf])


@operator("Mod")
def modulo(b: Builder, A: Any, B: Any, *, fmod: bool = False) -> Value:
    """Remainder with the sign of the divisor, of the dividend with fmod. ONNX, torch.remainder, torch.fmod."""
    return lower_expression(b, "fmod(@0,@1)" if fmod else "remainder(@0,@1)", [A, B])


@operator("BitShift")
def shift_bits(b: Builder, X: Any, Y: Any, *, direction: str) -> Value:
    """Bits moved to the left or the right. ONNX, torch.bitwise_left_shift, torch.bitwise_right_shift."""
    if direction not in ("LEFT", "RIGHT"):
        raise ParameterError(f"unknown direction {direction!r}", parameter="direction")
    return lower_expression(b, f"bitwise_{direction.lower()}_shift(@0,@1)", [X, Y])


# -- forms ---------------------------------------------------------------------------------------------------------


@operator("Transpose")
def turned(b: Builder, data: Tensor, *, perm: Ints | None = None) -> Tensor:
    """Dimensions in another order, the opposite one unless another is given; a view. ONNX, torch.permute."""
    order = range(data.ndim - 1, -1, -1) if perm is None else integers(perm, "perm")
    if sorted(order) != list(range(data.ndim)):
        raise ParameterError(f"perm is no order of {data.ndim} dimensions", parameter="perm")
    return data.permute(list(order))


@operator("Size")
def count_of_entries(b: Builder, data: Tensor) -> Tensor:
    """Number of entries. ONNX, torch.numel."""
    return b.constant(np.array(data.size))


@operator("DepthToSpace")
def depth_to_space(b: Builder, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Channels become blocks of an image, of neighbours in depth or not. ONNX, torch.nn.PixelShuffle."""
    if input.ndim != 4 or blocksize < 1 or input.shape[1] % (blocksize * blocksize):
        raise ShapeError("the channels make no blocks", operand="input", expected=blocksize, actual=list(input.shape))
    if mode not in ("DCR", "CRD"):
        raise ParameterError(f"unknown mode {mode!r}", parameter="mode")
    if mode == "DCR":
        n, c, h, w = input.shape
        blocks = b.reshape(input, (n, blocksize * blocksize, c // (blocksize * blocksize), h, w))
        input = b.reshape(blocks.permute((0, 2, 1, 3, 4)), (n, c, h, w))
    return pixel_shuffle(b, input, upscale_factor=blocksize)


@operator("Pad")
def padded(
    b: Builder,
    data: Tensor,
    pads: Ints,
    constant_value: float | None = None,
    axes: Ints | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Borders before and behind dimensions; negative ones are cut off. ONNX, torch.nn.functional.pad."""
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    if mode not in modes:
        raise ParameterError(f"unknown mode {mode!r}", parameter="mode")
    given = list(range(data.ndim)) if axes is None else axes_of(axes, data.ndim)
    sides = integers(pads, "pads")
    if len(sides) != 2 * len(given):
        raise ParameterError(f"{len(given)} dimensions have {2 * len(given)} sides", parameter="pads")
    before, behind = [0] * data.ndim, [0] * data.ndim
    for axis, p, q in zip(given, sides[: len(given)], sides[len(given) :], strict=True):
        before[axis], behind[axis] = p, q
    return pad_sides(b, data, before, behind, modes[mode], 0 if constant_value is None else constant_value)


@operator("CenterCropPad")
def centred(b: Builder, input_data: Tensor, shape: Ints, *, axes: Ints | None = None) -> Tensor:
    """The middle of a tensor, or zeros around it, so that dimensions get sizes. ONNX."""
    given = list(range(input_data.ndim)) if axes is None else axes_of(axes, input_data.ndim)
    sizes = integers(shape, "shape")
    if len(sizes) != len(given) or min(sizes, default=0) < 0:
        raise ParameterError(f"{len(given)} dimensions need as many sizes", parameter="shape")
    before, behind = [0] * input_data.ndim, [0] * input_data.ndim
    for axis, size in zip(given, sizes, strict=True):
        more = size - input_data.shape[axis]
        # Of an odd number the smaller half is in front, both of what is added and of what is cut off.
        before[axis] = more // 2 if more >= 0 else -(-more // 2)
        behind[axis] = more - before[axis]
    return pad_sides(b, input_data, before, behind)


@operator("ReverseSequence", native=False)
def reversed_starts(
    b: Builder, input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Sequences whose first entries, as many as given, come in opposite order. ONNX."""
    batch, time = axis_of(batch_axis, input.ndim), axis_of(time_axis, input.ndim)
    if batch == time or sequence_lens.shape != (input.shape[batch],):
        raise ShapeError("one length a sequence", operand="sequence_lens", actual=list(sequence_lens.shape))

    def run(x: Array, lengths: Array) -> Array:
        check(lengths, x.shape[time] + 1, wrap=False)
        steps = np.arange(x.shape[time])
        places = np.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
        shape = [1] * x.ndim
        shape[batch], shape[time] = places.shape
        return np.take_along_axis(x, (places if batch < time else places.T).reshape(shape), time)

    return b.host(run, [input, sequence_lens], [(input.shape, input.dtype)])[0]


@operator("Compress", native=False)
def compressed(b: Builder, input: Tensor, condition: Tensor, *, axis: int | None = None) -> Value:
    """Entries of a dimension, or of the flat tensor, where a line of truth values holds. ONNX."""
    along = None if axis is None else axis_of(axis, input.ndim)
    if condition.ndim != 1 or condition.size > (input.size if along is None else input.shape[along]):
        raise ShapeError("one truth value an entry", operand="condition", actual=list(condition.shape))
    return b.dynamic(lambda x, c: np.compress(c, x, along), [input, condition])


@operator("Resize")
def nearest(
    b: Builder,
    X: Tensor,
    roi: Any = None,
    scales: Floats | None = None,
    sizes: Ints | None = None,
    *,
    mode: str = "nearest",
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
    cubic_coeff_a: float = -0.75,
) -> Tensor:
    """A tensor of another size, whose entries are the nearest ones. ONNX, torch.nn.functional.interpolate."""
    if mode != "nearest":
        raise ParameterError(f"only the nearest entries are taken, not mode {mode!r}", parameter="mode")
    places, rounded = PLACES.get(coordinate_transformation_mode), ROUNDED.get(nearest_mode)
    if places is None or rounded is None:
        unknown = f"{coordinate_transformation_mode!r}, {nearest_mode!r}"
        raise ParameterError(f"unknown way to find the nearest entries: {unknown}", parameter="nearest_mode")
    factors = scales if isinstance(scales, Sequence) else () if scales is None else (scales,)
    if not all(map(math.isfinite, factors)):
        raise ParameterError("scales must be finite", parameter="scales")
    wanted = integers(sizes, "sizes") if not factors else [int(n * s) for n, s in zip(X.shape, factors, strict=False)]
    if len(wanted) != X.ndim or len(factors) not in (0, X.ndim) or min(wanted) < 1 or not X.size:
        raise ShapeError(f"{X.ndim} dimensions need as many sizes", operand="X", actual=list(X.shape))
    check_numbers(sum(wanted))
    for axis, size in enumerate(wanted):
        n = X.shape[axis]
        factor = factors[axis] if factors else size / n
        if factor != 1 or size != n:
            # In single precision, as onnxruntime computes: it decides which entry is nearest where two nearly are.
            found = rounded(places(np.arange(size, dtype=np.float32), np.float32(factor), n, size))
            X = take(b, X, b.constant(np.clip(found, 0, n - 1).astype(np.int64)), axis)
    return X


HALF = np.float32(0.5)

PLACES: dict[str, Callable[[Array, Any, int, int], Array]] = {
    "half_pixel": lambda x, factor, n, size: (x + HALF) / factor - HALF,
    "pytorch_half_pixel": lambda x, factor, n, size: (x + HALF) / factor - HALF if size > 1 else x * 0,
    "asymmetric": lambda x, factor, n, size: x / factor,
    "align_corners": lambda x, factor, n, size: x * np.float32(n - 1) / np.float32(max(size - 1, 1)),
}
"""Where in the input entries of the result lie, by ONNX's names."""

ROUNDED: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - HALF),
    "round_prefer_ceil": lambda x: np.floor(x + HALF),
    "floor": np.floor,
    "ceil": np.ceil,
}


@operator("Trilu")
def triangle(b: Builder, input: Tensor, k: int = 0, *, upper: bool = True) -> Value:
    """The part of matrices on one side of a diagonal, zeros on the other. ONNX, torch.triu, torch.tril."""
    return (triu if upper else tril)(b, input, k)


# -- tensors that are made -----------------------------------------------------------------------------------------

TYPES = dict(enumerate(["-", "f4", "u1", "i1", "u2", "i2", "i4", "i8", "-", "?", "f2", "f8", "u4", "u8"]))
"""ONNX's numbers of types."""


def _type(number: int) -> np.dtype[Any]:
    if TYPES.get(number, "-") == "-":
        raise ParameterError(f"unknown type {number}", parameter="dtype")
    return np.dtype(TYPES[number])


@operator("EyeLike")
def eye_like(b: Builder, input: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    """A matrix with ones on a diagonal. ONNX, torch.eye."""
    if input.ndim != 2:
        raise ShapeError("only matrices have a diagonal", operand="input", actual=list(input.shape))
    check_numbers(input.size)
    rows, columns = input.shape
    return b.constant(np.eye(rows, columns, k, dtype=input.dtype if dtype is None else _type(dtype)))


@operator("OneHot")
def one_of_two(b: Builder, indices: Tensor, depth: int, values: Tensor, *, axis: int = -1) -> Value:
    """A dimension in which an index says where the second of two values stands, else the first. ONNX, one_hot."""
    if values.shape != (2,):
        raise ShapeError("there are two values", operand="values", actual=list(values.shape))
    along = axis_of(axis, indices.ndim + 1)
    check_numbers(depth)
    line = np.arange(depth).reshape([-1, *[1] * (indices.ndim - along)])
    text = "where(eq(where(lt(@0,0),add(@0,@4),@0),@1),@3,@2)"
    whole = b.cast(indices, np.int64).unsqueeze(along)
    return lower_expression(b, text, [whole, b.constant(line), values.select(0, 0), values.select(0, 1), depth])


def _window(*terms: float) -> Callable[..., Tensor]:
    make = window(*terms)

    def made(b: Builder, size: int, *, output_datatype: int = 1, periodic: bool = True) -> Tensor:
        if size < 0:
            raise ParameterError(f"a window of {size} places", parameter="size")
        return b.constant(np.asarray(make(size, periodic, None, None, None, None)).astype(_type(output_datatype)))

    return made


for _name, _terms in {"Hann": (0.5, 0.5), "Hamming": (25 / 46, 21 / 46), "Blackman": (0.42, 0.5, 0.08)}.items():
    _made = _window(*_terms)
    _made.__doc__ = f"A window, a sum of cosines. ONNX, torch.{_name.lower()}_window."
    operator(f"{_name}Window")(_made)


# -- losses --------------------------------------------------------------------------------------------------------

REDUCTIONS = {"none": NONE, "mean": MEAN, "sum": SUM}

NEVER = -1 << 63
"""Stands for a class that is ignored where there is none."""


@operator("NegativeLogLikelihoodLoss")
def likelihood_loss(
    b: Builder,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log-probability of each row's class. ONNX, torch.nn.functional.nll_loss."""
    if reduction not in REDUCTIONS:
        raise ParameterError(f"unknown reduction {reduction!r}", parameter="reduction")
    return nll_loss(b, input, target, weight, REDUCTIONS[reduction], NEVER if ignore_index is None else ignore_index)


@operator("SoftmaxCrossEntropyLoss")
def class_loss(
    b: Builder,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Value:
    """Minus the log-probability of each row's class, by scores, and the logarithms. ONNX, torch cross_entropy."""
    if scores.ndim < 2:
        raise ShapeError("scores are (batch, classes, …)", operand="scores", actual=list(scores.shape))
    logs = emit_softmax(b, scores, 1, logarithm=True)
    return Results((likelihood_loss(b, logs, labels, weights, ignore_index=ignore_index, reduction=reduction), logs))


# -- matrices ------------------------------------------------------------------------------------------------------


@operator("Det", native=False)
def determinant(b: Builder, X: Tensor) -> Tensor:
    """Determinants of matrices. ONNX, torch.det."""
    if X.ndim < 2 or X.shape[-1] != X.shape[-2]:
        raise ShapeError("only square matrices have a determinant", operand="X", actual=list(X.shape))
    return b.host(lambda x: np.asarray(np.linalg.det(x), x.dtype), [X], [(X.shape[:-2], X.dtype)])[0]


# -- images and attention ------------------------------------------------------------------------------------------


@operator("AffineGrid")
def grid_of_map(b: Builder, theta: Tensor, size: Ints, *, align_corners: bool = False) -> Tensor:
    """Places of the pixels of an image under affine maps. ONNX, torch.nn.functional.affine_grid."""
    return affine_grid(b, theta, size=size, align_corners=align_corners)


@operator("RoiAlign")
def aligned_regions(
    b: Builder,
    X: Tensor,
    rois: Tensor,
    batch_indices: Any,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    """Averages of bilinear samples in the cells of each box. ONNX, torchvision.ops.RoIAlign."""
    if mode != "avg" or coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise ParameterError("only means are taken, of places with or without half a pixel", parameter="mode")
    index = batch_indices if isinstance(batch_indices, Tensor) else b.constant(np.array(batch_indices).reshape(-1))
    if rois.ndim != 2 or rois.shape[1] != 4 or index.shape not in ((rois.shape[0],), ()):
        raise ShapeError("boxes are rows of four places, with an image each", operand="rois", actual=list(rois.shape))
    whole = b.empty((rois.shape[0], 5), rois.dtype)
    b.copy(b.cast(index, rois.dtype).expand((rois.shape[0],)), whole.select(1, 0))
    b.copy(rois, whole.narrow(1, 1, 4))
    half = coordinate_transformation_mode == "half_pixel"
    size = (output_height, output_width)
    return roi_align(
        b, X, whole, output_size=size, spatial_scale=spatial_scale, sampling_ratio=sampling_ratio, aligned=half
    )


@operator("Attention")
def attention(
    b: Builder,
    Q: Tensor,
    K: Tensor,
    V: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    kv_num_heads: int | None = None,
    q_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    qk_matmul_output_mode: int = 0,
    softmax_precision: int | None = None,
) -> Tensor:
    """Softmax of scaled scores times values, of heads, perhaps side by side. ONNX, scaled_dot_product_attention."""
    if softcap:
        raise ParameterError("scores with an upper bound are not supported", parameter="softcap")
    if is_causal and attn_mask is not None:
        raise ParameterError("attn_mask and is_causal exclude each other here", parameter="is_causal")
    flat, heads = Q.ndim == 3, (q_num_heads, kv_num_heads, kv_num_heads)
    if flat:
        Q, K, V = (_split_heads(b, x, n) for x, n in zip((Q, K, V), heads, strict=True))
    y = scaled_dot_product_attention(b, Q, K, V, attn_mask, is_causal=is_causal, scale=scale, enable_gqa=True)
    return b.reshape(y.permute((0, 2, 1, 3)), (y.shape[0], y.shape[2], y.shape[1] * y.shape[3])) if flat else y


def _split_heads(b: Builder, x: Tensor, heads: int | None) -> Tensor:
    if not heads or x.ndim != 3 or x.shape[2] % heads:
        raise ShapeError("the heads do not fit", operand="Q, K, V", expected=heads, actual=list(x.shape))
    return b.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads)).permute((0, 2, 1, 3))
