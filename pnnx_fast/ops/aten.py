"""Operators that a converter left as TorchScript calls: arguments by position, in the order of TorchScript's schemas.

Two tables say what such a call means: the registered operator that takes the arguments by name, or an expression over
them. What neither can say are the numpy functions of :mod:`pnnx_fast.ops.aten_numpy`, and a few views below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import bind, find, operator
from pnnx_fast.ops.shape import axes_of, axis_of, clip_slice, integers
from pnnx_fast.ops.symbolic import Builder, Tensor, Value

DTYPES = (
    "uint8", "int8", "short", "int", "long", "half", "float", "double", "complex32", "complex64", "complex128",
    "bool", None, None, None, "bfloat16",
)  # fmt: skip
"""Names of TorchScript's numbers for dtypes."""

FORWARDED: dict[str, tuple[str, ...]] = {
    "adaptive_avg_pool1d": ("F.adaptive_avg_pool1d", "input output_size"),
    "adaptive_avg_pool2d": ("F.adaptive_avg_pool2d", "input output_size"),
    "adaptive_avg_pool3d": ("F.adaptive_avg_pool3d", "input output_size"),
    "addmm": ("torch.addmm", "input mat1 mat2 beta alpha"),
    "amax": ("torch.amax", "input dim keepdim"),
    "amin": ("torch.amin", "input dim keepdim"),
    "arange": (
        "torch.arange", "end dtype _ _ _", "start end dtype _ _ _", "start end step dtype _ _ _",
    ),
    "argmax": ("torch.argmax", "input dim keepdim"),
    "argmin": ("torch.argmin", "input dim keepdim"),
    "argsort": ("torch.argsort", "input dim descending", "input stable dim descending"),
    "as_strided": ("torch.as_strided", "input size stride storage_offset"),
    "avg_pool1d": ("F.avg_pool1d", "input kernel_size stride padding ceil_mode count_include_pad"),
    "avg_pool2d": ("F.avg_pool2d", "input kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    "avg_pool3d": ("F.avg_pool3d", "input kernel_size stride padding ceil_mode count_include_pad divisor_override"),
    "baddbmm": ("torch.baddbmm", "input batch1 batch2 beta alpha"),
    "batch_norm": ("F.batch_norm", "input weight bias running_mean running_var _ _ eps _"),
    "bmm": ("torch.bmm", "input mat2"),
    "broadcast_to": ("Tensor.expand", "input sizes"),
    "cat": ("torch.cat", "tensors dim"),
    "celu": ("F.celu", "input alpha"),
    "channel_shuffle": ("torch.channel_shuffle", "input groups"),
    "chunk": ("torch.chunk", "input chunks dim"),
    "clamp": ("torch.clamp", "input min max"),
    "clip": ("torch.clamp", "input min max"),
    "clone": ("torch.clone", "input _"),
    "complex": ("torch.complex", "real imag"),
    "concat": ("torch.cat", "tensors dim"),
    "concatenate": ("torch.cat", "tensors dim"),
    "contiguous": ("torch.clone", "input _"),
    "conv1d": ("F.conv1d", "input weight bias stride padding dilation groups"),
    "conv2d": ("F.conv2d", "input weight bias stride padding dilation groups"),
    "conv3d": ("F.conv3d", "input weight bias stride padding dilation groups"),
    "cross": ("torch.cross", "input other dim"),
    "cumprod": ("torch.cumprod", "input dim dtype"),
    "cumsum": ("torch.cumsum", "input dim dtype"),
    "detach": ("torch.clone", "input"),
    "diag": ("torch.diag", "input diagonal"),
    "elu": ("F.elu", "input alpha _ _"),
    "embedding": ("F.embedding", "weight input _ _ _"),
    "empty": ("torch.empty", "size dtype _ _ _ _"),
    "empty_like": ("torch.empty_like", "input dtype _ _ _ _"),
    "expand": ("Tensor.expand", "input sizes _"),
    "expand_as": ("Tensor.expand_as", "input other"),
    "fft_fft": ("torch.fft.fft", "input n dim norm"),
    "fft_fft2": ("torch.fft.fft2", "input s dim norm"),
    "fft_fftn": ("torch.fft.fftn", "input s dim norm"),
    "fft_ifft": ("torch.fft.ifft", "input n dim norm"),
    "fft_ifft2": ("torch.fft.ifft2", "input s dim norm"),
    "fft_ifftn": ("torch.fft.ifftn", "input s dim norm"),
    "fft_irfft": ("torch.fft.irfft", "input n dim norm"),
    "fft_irfft2": ("torch.fft.irfft2", "input s dim norm"),
    "fft_irfftn": ("torch.fft.irfftn", "input s dim norm"),
    "fft_rfft": ("torch.fft.rfft", "input n dim norm"),
    "fft_rfft2": ("torch.fft.rfft2", "input s dim norm"),
    "fft_rfftn": ("torch.fft.rfftn", "input s dim norm"),
    "fill": ("Tensor.fill", "input value"),
    "flatten": ("torch.flatten", "input start_dim end_dim"),
    "flip": ("torch.flip", "input dims"),
    "full": ("torch.full", "size fill_value dtype _ _ _"),
    "full_like": ("torch.full_like", "input fill_value dtype _ _ _ _"),
    "gather": ("torch.gather", "input dim index _"),
    "gelu": ("F.gelu", "input approximate"),
    "glu": ("F.glu", "input dim"),
    "group_norm": ("F.group_norm", "input num_groups weight bias eps _"),
    "hardtanh": ("F.hardtanh", "input min_val max_val"),
    "index": ("Tensor.index", "input indices"),
    "index_put": ("Tensor.index_put", "input indices values accumulate"),
    "index_select": ("torch.index_select", "input dim index"),
    "linalg_cross": ("torch.linalg.cross", "input other dim"),
    "layer_norm": ("F.layer_norm", "input normalized_shape weight bias eps _"),
    "leaky_relu": ("F.leaky_relu", "input negative_slope"),
    "linear": ("F.linear", "input weight bias"),
    "log_softmax": ("F.log_softmax", "input dim dtype"),
    "logsumexp": ("torch.logsumexp", "input dim keepdim"),
    "masked_fill": ("Tensor.masked_fill", "input mask value"),
    "masked_select": ("torch.masked_select", "input mask"),
    "matmul": ("torch.matmul", "input other"),
    "max": ("torch.max", "input", "input dim keepdim"),
    "max_pool1d": ("F.max_pool1d", "input kernel_size stride padding dilation ceil_mode"),
    "max_pool2d": ("F.max_pool2d", "input kernel_size stride padding dilation ceil_mode"),
    "max_pool3d": ("F.max_pool3d", "input kernel_size stride padding dilation ceil_mode"),
    "mean": ("torch.mean", "input dtype", "input dim keepdim dtype"),
    "min": ("torch.min", "input", "input dim keepdim"),
    "mm": ("torch.mm", "input mat2"),
    "mv": ("torch.mv", "input vec"),
    "narrow": ("torch.narrow", "input dim start length"),
    "new_empty": ("Tensor.new_empty", "input size dtype _ _ _"),
    "new_full": ("Tensor.new_full", "input size fill_value dtype _ _ _"),
    "new_ones": ("Tensor.new_ones", "input size dtype _ _ _"),
    "new_zeros": ("Tensor.new_zeros", "input size dtype _ _ _"),
    "nonzero": ("torch.nonzero", "input"),
    "norm": ("torch.norm", "input p", "input p dtype", "input p dim keepdim", "input p dim keepdim dtype"),
    "ones": ("torch.ones", "size dtype _ _ _"),
    "ones_like": ("torch.ones_like", "input dtype _ _ _ _"),
    "pairwise_distance": ("F.pairwise_distance", "x1 x2 p eps keepdim"),
    "permute": ("Tensor.permute", "input dims"),
    "pixel_shuffle": ("F.pixel_shuffle", "input upscale_factor"),
    "pixel_unshuffle": ("F.pixel_unshuffle", "input downscale_factor"),
    "prelu": ("F.prelu", "input weight"),
    "prod": ("torch.prod", "input dtype", "input dim keepdim dtype"),
    "repeat": ("Tensor.repeat", "input sizes"),
    "repeat_interleave": ("torch.repeat_interleave", "input repeats dim output_size"),
    "reshape": ("Tensor.reshape", "input shape"),
    "reshape_as": ("Tensor.reshape_as", "input other"),
    "rms_norm": ("F.rms_norm", "input normalized_shape weight eps"),
    "roll": ("torch.roll", "input shifts dims"),
    "scaled_dot_product_attention": (
        "F.scaled_dot_product_attention", "query key value attn_mask dropout_p is_causal scale enable_gqa",
    ),
    "scatter_add": ("torch.scatter_add", "input dim index src"),
    "select": ("Tensor.select", "input dim index"),
    "size": ("Tensor.size", "input", "input dim"),
    "slice": ("Tensor.slice", "input dim start end step"),
    "slice_scatter": ("torch.slice_scatter", "input src dim start end step"),
    "softmax": ("F.softmax", "input dim dtype"),
    "softplus": ("F.softplus", "input beta threshold"),
    "sort": ("torch.sort", "input dim descending", "input stable dim descending"),
    "split": ("torch.split", "tensor split_size_or_sections dim"),
    "split_with_sizes": ("torch.split", "tensor split_size_or_sections dim"),
    "squeeze": ("torch.squeeze", "input", "input dim"),
    "stack": ("torch.stack", "tensors dim"),
    "std": ("torch.std", "input unbiased", "input dim unbiased keepdim"),
    "sum": ("torch.sum", "input dtype", "input dim keepdim dtype"),
    "swapaxes": ("torch.transpose", "input dim0 dim1"),
    "swapdims": ("torch.transpose", "input dim0 dim1"),
    "t": ("torch.t", "input"),
    "tensor_split": ("torch.tensor_split", "input indices dim"),
    "tile": ("torch.tile", "input dims"),
    "topk": ("torch.topk", "input k dim largest sorted"),
    "transpose": ("torch.transpose", "input dim0 dim1"),
    "type_as": ("Tensor.type_as", "input other"),
    "unbind": ("torch.unbind", "input dim"),
    "unflatten": ("Tensor.unflatten", "input dim sizes"),
    "unsafe_chunk": ("torch.chunk", "input chunks dim"),
    "unsafe_split": ("torch.split", "tensor split_size_or_sections dim"),
    "unsqueeze": ("torch.unsqueeze", "input dim"),
    "var": ("torch.var", "input unbiased", "input dim unbiased keepdim"),
    "vector_norm": ("torch.linalg.vector_norm", "input ord dim keepdim dtype"),
    "linalg_vector_norm": ("torch.linalg.vector_norm", "input ord dim keepdim dtype"),
    "view": ("Tensor.reshape", "input shape"),
    "view_as": ("Tensor.reshape_as", "input other"),
    "view_as_complex": ("torch.view_as_complex", "input"),
    "view_as_real": ("torch.view_as_real", "input"),
    "zeros": ("torch.zeros", "size dtype _ _ _"),
    "zeros_like": ("torch.zeros_like", "input dtype _ _ _ _"),
}  # fmt: skip
"""TorchScript name -> registered operator and the names of its arguments in order, "_" for those without effect here.
Forms are told apart by the number of arguments."""

EXPRESSIONS: dict[str, tuple[str, ...]] = {
    "__and__": ("and(@0,@1)",),
    "__or__": ("or(@0,@1)",),
    "__xor__": ("xor(@0,@1)",),
    "__lshift__": ("lshift(@0,@1)",),
    "__rshift__": ("rshift(@0,@1)",),
    "add": ("add(@0,@1)", "add(@0,mul(@1,@2))"),
    "addcdiv": ("add(@0,mul(@3,div(@1,@2)))",),
    "addcmul": ("add(@0,mul(@3,mul(@1,@2)))",),
    "clamp_max": ("clamp(@0,None,@1)",),
    "clamp_min": ("clamp(@0,@1,None)",),
    "deg2rad": ("mul(@0,0.017453292519943295)",),
    "floordiv": ("floor_divide(@0,@1)",),
    "frac": ("sub(@0,trunc(@0))",),
    "hypot": ("sqrt(add(mul(@0,@0),mul(@1,@1)))",),
    "lerp": ("add(@0,mul(@2,sub(@1,@0)))",),
    "negative": ("neg(@0)",),
    "not_equal": ("ne(@0,@1)",),
    "rad2deg": ("mul(@0,57.29577951308232)",),
    "rsub": ("sub(@1,@0)", "sub(@1,mul(@0,@2))"),
    "sub": ("sub(@0,@1)", "sub(@0,mul(@1,@2))"),
    "square": ("square(@0)",),
    "true_divide": ("div(@0,@1)",),
    "where": ("where(@0,@1,@2)",),
    **{
        name: (f"{name}(@0)",)
        for name in [
            "abs",
            "acos",
            "acosh",
            "asin",
            "asinh",
            "atan",
            "atanh",
            "bitwise_not",
            "ceil",
            "cos",
            "cosh",
            "erf",
            "erfc",
            "exp",
            "exp2",
            "expm1",
            "floor",
            "hardsigmoid",
            "hardswish",
            "imag",
            "isfinite",
            "isinf",
            "isnan",
            "lgamma",
            "log",
            "log10",
            "log1p",
            "log2",
            "logical_not",
            "mish",
            "neg",
            "positive",
            "real",
            "reciprocal",
            "relu",
            "relu6",
            "round",
            "rsqrt",
            "selu",
            "sigmoid",
            "sign",
            "silu",
            "sin",
            "sinh",
            "sqrt",
            "tan",
            "tanh",
            "trunc",
        ]
    },
    **{
        name: (f"{name}(@0,@1)",)
        for name in [
            "atan2",
            "bitwise_and",
            "bitwise_left_shift",
            "bitwise_or",
            "bitwise_right_shift",
            "bitwise_xor",
            "div",
            "eq",
            "floor_divide",
            "fmod",
            "ge",
            "gt",
            "le",
            "logaddexp",
            "logical_and",
            "logical_or",
            "logical_xor",
            "lt",
            "maximum",
            "minimum",
            "mul",
            "ne",
            "pow",
            "remainder",
        ]
    },
    "absolute": ("abs(@0)",),
    "arctan": ("atan(@0)",),
    "arctan2": ("atan2(@0,@1)",),
    "fix": ("trunc(@0)",),
    "log_sigmoid": ("logsigmoid(@0)",),
    "multiply": ("mul(@0,@1)",),
    "subtract": ("sub(@0,@1)", "sub(@0,mul(@1,@2))"),
}
"""TorchScript name -> expressions, told apart by the number of arguments that they use."""


def _dtype(value: Any) -> Any:
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
            raise ParameterError(f"{len(values)} arguments instead of {expected}", operator=kind)
        given = {n: _dtype(v) if n == "dtype" else v for n, v in zip(names, values, strict=True) if n != "_"}
        given = {n: v for n, v in given.items() if v is not None}
        args, kwargs = bind(definition, kind, list(given.values()), list(given), {}, {})
        return definition.function(b, *args, **kwargs)

    call.__doc__ = f"{target}({', '.join(orders[-1].split())}), arguments by position."
    return call


def _express(kind: str, forms: Sequence[str]) -> Callable[..., Value]:
    by_count = {1 + max(int(text[0]) for text in form.split("@")[1:]): form for form in forms}

    def call(b: Builder, *values: Any) -> Value:
        form = by_count.get(len(values))
        if form is None:
            raise ParameterError(f"{len(values)} arguments instead of {list(by_count)}", operator=kind)
        if len(values) == 3 and len(by_count) == 2 and values[2] == 1:
            form = by_count[2]  # a factor of one must not turn integers into other types
        return lower_expression(b, form, values)

    call.__doc__ = f"{forms[-1]}, arguments by position."
    return call


for _name, (_target, *_orders) in FORWARDED.items():
    operator(f"aten::{_name}")(_forward(f"aten::{_name}", _target, _orders))
for _name, _forms in EXPRESSIONS.items():
    if _name != "div":
        operator(f"aten::{_name}")(_express(f"aten::{_name}", _forms))


@operator("aten::div", "aten::divide")
def div(b: Builder, input: Any, other: Any, rounding_mode: Any = None) -> Value:
    """Quotient, rounded down ("floor") or towards zero ("trunc") if wanted. torch.div."""
    if rounding_mode == "floor":
        return lower_expression(b, "floor_divide(@0,@1)", [input, other])
    if rounding_mode not in (None, "trunc"):
        raise ParameterError(f"unknown rounding mode {rounding_mode!r}", parameter="rounding_mode")
    quotient = lower_expression(b, "div(@0,@1)", [input, other])
    if rounding_mode is None or not isinstance(quotient, Tensor):
        return quotient if rounding_mode is None else int(quotient)
    integral = all(isinstance(v, int) or (isinstance(v, Tensor) and v.dtype.kind in "iu") for v in (input, other))
    whole = lower_expression(b, "trunc(@0)", [quotient])
    return b.cast(whole, np.int64) if integral else whole


# -- numbers and lists -------------------------------------------------------------------------------------------


@operator("prim::Constant")
def constant(b: Builder, *, value: Any = None) -> Value:
    """A number, a string, a list or None."""
    if isinstance(value, str) and value in ("None", ""):
        return None
    return list(value) if isinstance(value, tuple) else value


@operator("prim::NumToTensor", "aten::detach_", "aten::alias", "aten::lift_fresh", "aten::resolve_conj")
def same(b: Builder, value: Any, *_: Any) -> Value:
    """The value itself: numbers and 0-d tensors are the same to every operator."""
    return value


@operator("aten::Int", "aten::Float", "aten::Bool", "aten::ScalarImplicit", "aten::IntImplicit", "aten::FloatImplicit")
def scalar(b: Builder, value: Any) -> Value:
    """The number in a constant 0-d tensor; whatever depends on data stays a 0-d tensor."""
    if isinstance(value, Tensor):
        return value.numpy().item() if value.is_constant else b.reshape(value, ())
    return value


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
    """Entry of a list."""
    return values[index]


# -- views -------------------------------------------------------------------------------------------------------


@operator("aten::movedim", "aten::moveaxis")
def movedim(b: Builder, input: Tensor, source: Any, destination: Any) -> Tensor:
    """Move dimensions to other places. torch.movedim."""
    start, end = (axes_of(integers(v, "dim"), input.ndim) for v in (source, destination))
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
    return b.host(np.conj, [y], [(y.shape, y.dtype)])[0] if y.dtype.kind == "c" else y


@operator("aten::numpy_T")
def reversed_dimensions(b: Builder, input: Tensor) -> Tensor:
    """All dimensions in reverse order. torch.Tensor.T."""
    return input.permute(list(range(input.ndim))[::-1])


@operator("aten::ravel")
def ravel(b: Builder, input: Tensor) -> Tensor:
    """One dimension. torch.ravel."""
    return b.reshape(input, (input.size,))


@operator("aten::diagonal")
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


@operator("aten::unfold")
def windows(b: Builder, input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows that slide along a dimension, as a new last one; a view. torch.Tensor.unfold."""
    axis = axis_of(dimension, input.ndim)
    n = input.shape[axis]
    if not 0 <= size <= n or step < 1:
        raise ShapeError("the window does not fit", expected=n, actual=(size, step))
    shape, strides = [*input.shape, size], [*input.strides, input.strides[axis]]
    shape[axis], strides[axis] = (n - size) // step + 1, strides[axis] * step
    return input.as_strided(shape, strides)


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
    vectors = [b.reshape(t, (t.size,)) for t in tensors]
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
    shape = np.broadcast_shapes(*(t.shape for t in tensors))
    return [t.expand(shape) for t in tensors]
