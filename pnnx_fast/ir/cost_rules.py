"""The rules by which PNNX counts the cost of operators, one function a family.

They follow PNNX's converter, conventions and all (a softmax element costs 5, views cost nothing), so that
figures agree with the ones it prints. Registered in ``ir.cost`` by being imported; ``ir.statistics`` does that.
"""

from __future__ import annotations

import math
import re

from pnnx_fast._core.text import STRING, parse_value
from pnnx_fast._types import Shape
from pnnx_fast.ir.cost import Facts, costs, free, moved, size_of

NOTHING = (0, 0)


@costs("nn.Conv{d}d", "F.conv{d}d", "nn.quantized.Conv2d", "nn.ConvTranspose{d}d", "F.conv_transpose{d}d")
def convolution(f: Facts) -> tuple[int, int]:
    """Two operations a multiplication with a weight, one a bias."""
    shapes = f.shape(0), f.out_shape()
    if any(len(s) not in (f.dims + 1, f.dims + 2) for s in shapes) or not f.input(0) * f.output():
        return NOTHING
    axis = [len(s) - f.dims - 1 for s in shapes]
    channels = f.integer("in_channels", shapes[0][axis[0]])
    out_channels = f.integer("out_channels", shapes[1][axis[1]])
    groups, window = max(1, f.integer("groups", 1)), f.kernel()
    if channels <= 0 or out_channels <= 0 or window == 0:
        return NOTHING
    transposed = "ransp" in f.type
    products = f.input(0) * out_channels if transposed else f.output() * channels
    weight = f.attribute("weight") or f.input(1) or out_channels * (channels // groups) * window
    flops = 2 * (products // groups * window) + f.bias * f.output()
    return flops, f.input(0) + f.output() + weight + f.bias * out_channels


@costs("nn.Linear", "F.linear", "nn.quantized.Linear")
def linear(f: Facts) -> tuple[int, int]:
    """Two operations a multiplication, one a bias."""
    if not f.input(0) * f.output():
        return NOTHING
    columns, rows = f.integer("in_features"), f.integer("out_features")
    weight = f.shape(1)
    if columns * rows == 0 and len(weight) >= 2:
        rows, columns = weight[:2]
    columns = columns or (f.shape(0) or (0,))[-1]
    rows = rows or (f.out_shape() or (0,))[-1]
    if columns <= 0 or rows <= 0:
        return NOTHING
    flops = 2 * (f.input(0) // columns * rows * columns) + f.bias * f.output()
    size = f.attribute("weight") or f.input(1) or columns * rows
    return flops, f.input(0) + f.output() + size + f.bias * rows


@costs("nn.AvgPool{d}d", "F.avg_pool{d}d", "nn.MaxPool{d}d", "F.max_pool{d}d")
def pooling(f: Facts) -> tuple[int, int]:
    """One operation an element of a window, one less for a maximum."""
    if not f.input(0) * f.output():
        return NOTHING
    window = f.kernel() or 1
    average = "vg" in f.type
    return f.output() * (window if average else window - 1), _pooled(f)


@costs("nn.AdaptiveAvgPool{d}d", "F.adaptive_avg_pool{d}d", "nn.AdaptiveMaxPool{d}d", "F.adaptive_max_pool{d}d")
def adaptive_pooling(f: Facts) -> tuple[int, int]:
    """Like pooling; windows overlap where sizes do not divide."""
    if not f.input(0) * f.output():
        return NOTHING
    work = _adaptive_work(f.shape(0), f.out_shape(), f.dims) or f.output()
    return (work if "vg" in f.type else max(work - f.output(), 0)), _pooled(f)


def _pooled(f: Facts) -> int:
    indices = f.flag("return_indices") or len(f.op.outputs) > 1
    return f.input(0) + f.output() * (1 + indices)


def _adaptive_work(read: Shape, written: Shape, dims: int) -> int:
    if min(len(read), len(written)) < dims:
        return 0
    work = size_of(written[: len(written) - dims])
    for n, m in zip(read[len(read) - dims :], written[len(written) - dims :], strict=True):
        work *= sum(-(-(j + 1) * n // m) - j * n // m for j in range(m))
    return work


@costs("nn.BatchNorm{d}d", "F.batch_norm", "F.batchnorm")
def batch_norm(f: Facts) -> tuple[int, int]:
    """Scale and shift by the running statistics."""
    return _normalization(f, 2, ("running_mean", "running_var", "weight", "bias"))


@costs("nn.InstanceNorm{d}d", "F.instance_norm")
def instance_norm(f: Facts) -> tuple[int, int]:
    """Like a batch norm, or with statistics of its own, which cost more."""
    if f.module:
        own = not f.flag("track_running_stats")
        return _normalization(f, 7 if own else 2, ("running_mean", "running_var", "weight", "bias"))
    without = f.is_none("running_mean") or f.is_none("running_var")
    keys = ("weight", "bias") if without else ("running_mean", "running_var", "weight", "bias")
    return _normalization(f, 7 if without or f.flag("use_input_stats", True) else 2, keys)


@costs("nn.LayerNorm", "F.layer_norm", "nn.GroupNorm", "F.group_norm")
def layer_norm(f: Facts) -> tuple[int, int]:
    """Mean, variance, scale."""
    return _normalization(f, 7, ("weight", "bias"))


@costs("nn.RMSNorm", "F.rms_norm")
def rms_norm(f: Facts) -> tuple[int, int]:
    """Squares and scale."""
    return _normalization(f, 5, ("weight",))


def _normalization(f: Facts, each: int, keys: tuple[str, ...]) -> tuple[int, int]:
    """``keys`` are the tensors after the input, in the order of a function's inputs."""
    if not f.input(0):
        return NOTHING
    sizes = {key: f.tensor(key, -1 if f.module else i) for i, key in enumerate(keys, 1)}
    affine = [key for key in ("weight", "bias") if key in keys]
    if f.module and not f.flag("affine", f.flag("elementwise_affine", True)):
        sizes.update(dict.fromkeys(affine, 0))
        extra = 0
    else:
        extra = len(affine) if f.module else sum(sizes[key] != 0 for key in affine)
    return f.input(0) * (each + extra), f.input(0) + f.written + sum(sizes.values())


@costs("F.normalize")
def normalize(f: Facts) -> tuple[int, int]:
    """A norm, then a division."""
    if not f.input(0) * f.written:
        return NOTHING
    norms = _reduced(f, 1)
    flops = _norm_flops(f.input(0), norms, _exponent(f)) + norms + f.written
    return flops, 2 * (f.input(0) + norms + f.written)


def _reduced(f: Facts, default: int) -> int:
    shape = f.shape(0)
    dims = f.integers("dim") or f.integers("dims") or [default]
    axes = {d + len(shape) if d < 0 else d for d in dims}
    if any(not 0 <= a < len(shape) or shape[a] <= 0 for a in axes):
        return f.written
    return f.input(0) // math.prod(shape[a] for a in axes)


def _exponent(f: Facts) -> float:
    """Order of a norm; NaN stands for any that is neither 1, 2 nor infinite."""
    value = f.value("p")
    if isinstance(value, str):
        if value == "fro":
            return 2.0
        if "inf" in value or "Inf" in value:
            return math.inf
        return float(value) if re.fullmatch(r"[+-]?[0-9.]+", value) else 2.0
    if value is True:
        return 1.0
    return f.number("p", 2.0) if value is not False else math.nan


def _norm_flops(read: int, written: int, p: float) -> int:
    if p == 1 or math.isinf(p):
        return 2 * read
    return (2 if p == 2 else 6) * read + 4 * written


_ACTIVATIONS = {
    1: ("ReLU relu", "ReLU6 relu6", "Hardtanh hardtanh", "Threshold threshold"),
    2: ("LeakyReLU leaky_relu", "PReLU prelu", "ELU elu", "CELU celu", "SELU selu"),
    3: ("Hardsigmoid hardsigmoid", "GLU glu"),
    4: ("Hardswish hardswish", "Softsign softsign"),
    5: ("Softmax softmax", "Softmin softmin", "LogSoftmax log_softmax", "Softmax2d softmax"),
    6: ("Mish mish", "Softplus softplus", "Sigmoid sigmoid", "SiLU silu", "Tanh tanh"),
    10: ("GELU gelu",),
}
_PER_ELEMENT = {
    name: each
    for each, pairs in _ACTIVATIONS.items()
    for pair in pairs
    for name in ("nn." + pair.split()[0], "F." + pair.split()[1])
}


@costs(*_PER_ELEMENT)
def activation(f: Facts) -> tuple[int, int]:
    """So many operations an element."""
    slope = f.tensor("weight", 1) if f.type in ("nn.PReLU", "F.prelu") else 0
    return f.input(0) * _PER_ELEMENT[f.type], f.input(0) + f.written + slope


_INTERPOLATION = {"linear": 5, "bilinear": 11, "bicubic": 35, "trilinear": 31}


@costs("nn.Upsample", "F.interpolate", "F.upsample", "nn.UpsamplingBilinear2d", "F.upsample_bilinear")
@costs("nn.UpsamplingNearest2d", "F.upsample_nearest")
def upsample(f: Facts) -> tuple[int, int]:
    """By mode; the nearest element is only moved."""
    mode = f.value("mode") if isinstance(f.value("mode"), str) else "nearest"
    if f.type in ("nn.UpsamplingBilinear2d", "F.upsample_bilinear"):
        mode = "bilinear"
    elif f.type in ("nn.UpsamplingNearest2d", "F.upsample_nearest"):
        mode = "nearest"
    return f.output() * _INTERPOLATION.get(mode, 0), f.input(0) + f.output()


@costs("torch.matmul", "torch.mm", "torch.bmm", "torch.mv")
def matmul(f: Facts) -> tuple[int, int]:
    """Two operations a product."""
    inner = (f.shape(0) or (0,))[-1]
    if len(f.op.inputs) < 2 or inner <= 0 or not f.output():
        return NOTHING
    return 2 * f.output() * inner, f.input(0) + f.input(1) + f.output()


@costs("torch.addmm", "torch.baddbmm")
def addmm(f: Facts) -> tuple[int, int]:
    """A matrix product, its scaling and the addition."""
    inner = (f.shape(1) or (0,))[-1]
    if len(f.op.inputs) < 3 or inner <= 0 or not f.output():
        return NOTHING
    alpha, beta = f.number("alpha", 1.0), f.number("beta", 1.0)
    extra = (alpha != 1) + (beta != 0) + (beta not in (0, 1))
    return f.output() * (2 * inner + extra), f.input(0) * (beta != 0) + f.input(1) + f.input(2) + f.output()


_FUNCTIONS = dict.fromkeys(
    """add sub rsub mul div floor_divide remainder fmod maximum minimum max min clamp clip where abs neg square
    reciprocal round floor ceil trunc sign eq ne gt ge lt le logical_and logical_or logical_xor logical_not
    bitwise_and bitwise_or bitwise_xor bitwise_not""".split(),  # noqa: SIM905
    1,
)
_FUNCTIONS |= dict.fromkeys(
    """pow exp log sqrt rsqrt log10 logaddexp erf sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh
    atanh""".split(),  # noqa: SIM905
    4,
)
_FUNCTIONS |= {"sigmoid": 6, "silu": 6}


@costs("pnnx.Expression")
def expression(f: Facts) -> tuple[int, int]:
    """Functions an element; inputs of which only the size is asked are not read."""
    text = str(f.value("expr"))
    if not text or text[0] == "[" or parse_value(text)[0] != STRING or not f.written:
        return NOTHING
    flops = sum(_FUNCTIONS.get(name, 0) for name in re.findall(r"([A-Za-z0-9_]+)\(", text))
    return f.written * flops, f.written + sum(map(f.input, _inputs_read(text)))


def _inputs_read(text: str) -> set[int]:
    scopes: list[str] = []
    found: set[int] = set()
    for name, close, index in re.findall(r"([A-Za-z0-9_]*) *\(|(\))|@([0-9]+)", text):
        if index:
            if "size" not in scopes:
                found.add(int(index))
        elif close:
            del scopes[-1:]
        else:
            scopes.append(name)
    return found


_DEAR = "pow exp log sqrt rsqrt sin cos tan asin acos atan".split()  # noqa: SIM905
_CHEAP = """add sub mul div floor_divide remainder maximum minimum clamp clamp_min clamp_max abs neg square eq ne gt
    ge lt le logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_not"""


@costs(*(f"torch.{name}" for name in (*_DEAR, *_CHEAP.split())))
def elementwise(f: Facts) -> tuple[int, int]:
    """So many operations an element of the result."""
    return f.written * (4 if f.type.removeprefix("torch.") in _DEAR else 1), f.moved


_REDUCTIONS = dict.fromkeys(("sum", "prod", "max", "min", "amax", "amin", "cumsum", "cumprod"), (1, 0))
_REDUCTIONS |= {"mean": (1, 1), "var": (4, 2), "std": (4, 6), "logsumexp": (5, 4), "norm": (0, 0)}


@costs(*(f"torch.{name}" for name in _REDUCTIONS))
def reduction(f: Facts) -> tuple[int, int]:
    """So many operations an element read and an element written."""
    if not f.input(0) * f.written:
        return NOTHING
    each_read, each_written = _REDUCTIONS[f.type.removeprefix("torch.")]
    flops = f.input(0) * each_read + f.written * each_written
    if f.type == "torch.norm":
        flops = _norm_flops(f.input(0), f.written, _exponent(f))
    return flops, f.input(0) + f.written


@costs("F.pairwise_distance")
def pairwise_distance(f: Facts) -> tuple[int, int]:
    """The norm of a difference."""
    if len(f.op.inputs) < 2 or not f.input(0) * f.written:
        return NOTHING
    p = _exponent(f)
    if p == 1 or math.isinf(p):
        flops = 3 * f.input(0)
    else:
        flops = (4 if p == 2 else 7) * f.input(0) + 4 * f.written
    return flops, f.moved


@costs("F.lp_pool1d", "F.lp_pool2d")
def lp_pool(f: Facts) -> tuple[int, int]:
    """Powers, an average and roots, each a pass over memory."""
    window = f.kernel() or 1
    return 4 * f.input(0) + f.output() * (window + 9), f.input(0) + 4 * f.output()


@costs("F.local_response_norm")
def local_response_norm(f: Facts) -> tuple[int, int]:
    """Squares, sums over neighbours and a power, each a pass over memory."""
    return f.input(0) * (max(1, f.integer("size", 1)) + 7), 4 * f.input(0) + f.written


@costs("nn.Fold", "F.fold")
def fold(f: Facts) -> tuple[int, int]:
    """Additions where windows overlap."""
    return max(f.read - f.written, 0), f.moved


@costs("F.scaled_dot_product_attention")
def attention(f: Facts) -> tuple[int, int]:
    """Two matrix products, a softmax and the mask."""
    query, key, value = (f.shape(i) for i in range(3))
    if min(len(query), len(key), len(value)) < 2:
        return NOTHING
    sizes = (query[-2], key[-2], query[-1], value[-1])
    if min(sizes) <= 0:
        return NOTHING
    scores = f.input(0) // (sizes[0] * sizes[2]) * sizes[0] * sizes[1]
    named = f.op.named_input("attn_mask")
    mask = size_of(named.shape) if named is not None else 0
    each = 2 * sizes[2] + 5 + 2 * sizes[3] + (mask != 0) + f.flag("is_causal")
    return scores * each, sum(f.input(i) for i in range(3)) + mask + f.output() + scores


def _sequence(shape: Shape, batch_first: bool) -> tuple[int, int, int]:
    """(batch, length, features) of a sequence, zeros when the shape is none."""
    if len(shape) == 2:
        return 1, shape[0], shape[1]
    if len(shape) != 3:
        return 0, 0, 0
    return (shape[0], shape[1], shape[2]) if batch_first else (shape[1], shape[0], shape[2])


_ATTENTION_WEIGHTS = (
    *("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"),
    *("in_proj_bias", "out_proj.bias", "bias_k", "bias_v"),
)


@costs("nn.MultiheadAttention")
def multihead_attention(f: Facts) -> tuple[int, int]:
    """Projections of queries, keys, values and results around an attention."""
    masks = [i for i, name in enumerate(f.op.inputnames) if name == "attn_mask"]
    given = len(f.op.inputs) - len(masks)
    ik = 1 if given >= 2 else 0
    iv = 2 if given >= 3 else ik
    batch, n, d = _sequence(f.shape(0), f.flag("batch_first"))
    k_batch, k_n, k_d = _sequence(f.shape(ik), f.flag("batch_first"))
    v_batch, v_n, v_d = _sequence(f.shape(iv), f.flag("batch_first"))
    d, k_d, v_d = f.integer("embed_dim", d), f.integer("kdim", k_d), f.integer("vdim", v_d)
    if not f.op.outputs or batch != k_batch or batch != v_batch or min(batch, n, k_n, v_n, d, k_d, v_d) <= 0:
        return NOTHING
    heads, extra = max(1, f.integer("num_heads", 1)), f.flag("add_bias_kv") + f.flag("add_zero_attn")
    scores = batch * heads * n * (k_n + extra)
    mask = sum(f.input(i) for i in masks)
    flops = 2 * batch * d * (2 * n * d + k_n * k_d + v_n * v_d)
    flops += scores * (2 * (d // heads) + 5 + (mask != 0))
    flops += 2 * batch * heads * n * (v_n + extra) * (d // heads)
    flops += f.flag("bias", True) * batch * d * (2 * n + k_n + v_n)
    weights = sum(map(f.attribute, _ATTENTION_WEIGHTS))
    return flops, f.input(0) + f.input(ik) + f.input(iv) + f.written + weights + mask + scores


# Gates, and element-wise operations a hidden element.
_RECURRENT = {"nn.RNN": (1, 1), "nn.LSTM": (4, 10), "nn.GRU": (3, 8)}


@costs(*_RECURRENT)
def recurrent(f: Facts) -> tuple[int, int]:
    """Matrix products and gates for every step of every layer."""
    batch, length, features = _sequence(f.shape(0), f.flag("batch_first"))
    features, hidden = f.integer("input_size", features), f.integer("hidden_size")
    if not f.op.outputs or min(batch, length, features, hidden) <= 0:
        return NOTHING
    directions = 2 if f.flag("bidirectional") else 1
    projection = f.integer("proj_size") if f.type == "nn.LSTM" else 0
    state = projection if projection > 0 else hidden
    gates, elementwise_each = _RECURRENT[f.type]
    biases = 2 * gates * hidden * f.flag("bias", True)
    flops = weights = 0
    for width, layers in ((features, 1), (state * directions, max(1, f.integer("num_layers", 1)) - 1)):
        matrix = gates * hidden * (width + state) + hidden * max(projection, 0)
        flops += layers * directions * (2 * matrix + elementwise_each * hidden + biases)
        weights += layers * directions * (matrix + biases)
    keys = [key for key in f.op.attrs if key.startswith(("weight", "bias"))]
    stored = sum(map(f.attribute, keys)) or (weights if len(f.op.inputs) == 1 else 0)
    return flops * batch * length, f.moved + stored


@costs("nn.Embedding", "F.embedding")
def embedding(f: Facts) -> tuple[int, int]:
    """Rows are read and written."""
    return 0, f.input(0) + 2 * f.written


_VIEWS = """nn.Identity F.dropout nn.Dropout nn.Dropout2d nn.Dropout3d Tensor.size Tensor.dim Tensor.reshape
    Tensor.reshape_as Tensor.view Tensor.view_as Tensor.permute Tensor.transpose Tensor.t Tensor.squeeze
    Tensor.unsqueeze Tensor.flatten Tensor.slice Tensor.select Tensor.unflatten torch.flatten torch.reshape
    torch.view torch.permute torch.transpose torch.t torch.squeeze torch.unsqueeze torch.split torch.chunk
    torch.unbind torch.tensor_split torch.view_as_real torch.view_as_complex
    pnnx.Input pnnx.Output pnnx.Attribute"""
costs(*_VIEWS.split())(free)
costs("nn.Unfold", "F.unfold", "torch.cat", "torch.stack")(moved)
