"""Layers, losses and forms of ONNX that the converter leaves under their ONNX names, as for PyTorch's newer exporter.

Inputs, attributes and their defaults are those of the ONNX operators. What an ONNX model gives as a constant tensor
arrives as a tensor, a number or a list, or as a parameter of that name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from pnnx_fast._memory import check_numbers
from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.array_functions import check, window
from pnnx_fast.ops.aten import tril, triu
from pnnx_fast.ops.attention import scaled_dot_product_attention
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.losses import MEAN, NONE, SUM, nll_loss
from pnnx_fast.ops.padding import pad_sides
from pnnx_fast.ops.registry import Ints, operator
from pnnx_fast.ops.shape import axes_of, axis_of, integers, pixel_shuffle
from pnnx_fast.ops.slicing import slice_tensor
from pnnx_fast.ops.softmax import emit_softmax
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value

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


@operator("Selu")
def selu(
    b: Builder, X: Tensor, *, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Value:
    """A multiple of the input, below 0 of the exponential less one. ONNX, torch.nn.SELU."""
    return lower_expression(b, "mul(@2,elu(@0,@1))", [X, alpha, gamma])


@operator("Shrink")
def shrink(b: Builder, input: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """The input moved towards 0 by a number where its magnitude is above another, else 0. ONNX, torch.nn.Softshrink."""
    return lower_expression(b, "where(lt(@0,neg(@1)),add(@0,@2),where(gt(@0,@1),sub(@0,@2),0))", [input, lambd, bias])


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
    value: float | None = None,
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
    # Files have the border's value under its older name.
    border = value if constant_value is None else constant_value
    return pad_sides(b, data, before, behind, modes[mode], 0 if border is None else border)


@operator("Slice")
def sliced(
    b: Builder, data: Tensor, starts: Ints, ends: Ints, axes: Ints | None = None, steps: Ints | None = None
) -> Tensor:
    """Ranges of dimensions, of the first ones unless others are named. ONNX, torch.Tensor.__getitem__."""
    first = integers(starts, "starts")
    last = integers(ends, "ends")
    dims = list(range(len(first))) if axes is None else integers(axes, "axes")
    every = [1] * len(first) if steps is None else integers(steps, "steps")
    if not len(first) == len(last) == len(dims) == len(every):
        raise ParameterError("starts, ends, axes and steps are as many", parameter="starts")
    found: Tensor = slice_tensor(b, data, dims=dims, starts=first, ends=last, steps=every)
    return found


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


@operator("ConstantOfShape")
def constant_of_shape(b: Builder, input: Ints, *, value: Any = 0.0) -> Tensor:
    """A tensor of one value. ONNX, torch.full."""
    sizes = integers(input, "input")
    if min(sizes, default=0) < 0:
        raise ParameterError(f"sizes must not be negative: {sizes}", parameter="input")
    check_numbers(math.prod(sizes))
    number = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    number = number.astype(np.float32) if number.dtype == np.float64 else number
    return b.contiguous(b.constant(number.reshape(-1)[:1]).as_strided(sizes, [0] * len(sizes)))


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


# -- attention -----------------------------------------------------------------------------------------------------


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
