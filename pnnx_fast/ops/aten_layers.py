"""Layers that a converter left as TorchScript calls: convolutions, resampling, padding, recurrent cells, attention.

Arguments come by position, in the order of TorchScript's schemas, which differs from the order and the names of the
registered operators; the functions here only translate. Simpler calls are rows of :mod:`pnnx_fast.ops.aten`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops._checks import real_number, require_dims, tensor_list
from pnnx_fast.ops.aten import dtype_name
from pnnx_fast.ops.einsum import einsum as by_name
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import bind, operator, require
from pnnx_fast.ops.resize import interpolate, resample
from pnnx_fast.ops.shape import axis_of, integers
from pnnx_fast.ops.symbolic import Builder, Tensor, Value

UNKNOWN = (None, None, None)
"""Outputs beside the result, such as statistics for training, that no evaluated model uses."""


def call(b: Builder, target: str, **given: Any) -> Value:
    """Lower a registered operator with arguments by name; None stands for the default."""
    named = {k: v for k, v in given.items() if v is not None}
    return _lower(b, target, list(named.values()), list(named), {}, {})


def _lower(
    b: Builder,
    target: str,
    inputs: Sequence[Value],
    names: Sequence[str],
    weights: Mapping[str, Tensor],
    parameters: Mapping[str, Any],
) -> Value:
    """Lower a registered operator with what a graph's operator would carry."""
    definition = require(target)
    args, kwargs = bind(definition, None, inputs, names, weights, parameters)
    value: Value = definition.function(b, *args, **kwargs)
    return value


def tensor(b: Builder, target: str, **given: Any) -> Tensor:
    """Lower a registered operator that gives one tensor."""
    return cast(Tensor, call(b, target, **given))


# -- convolutions ------------------------------------------------------------------------------------------------


@operator("aten::_convolution", "aten::convolution")
def convolution(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: Any,
    output_padding: Any,
    groups: Any,
    *_: Any,
) -> Tensor:
    """Convolution or transposed convolution of any rank. torch.convolution."""
    axes = weight.ndim - 2
    fields = {"input": input, "weight": weight, "bias": bias, "stride": stride, "padding": padding}
    fields |= {"dilation": dilation, "groups": groups}
    if transposed:
        return tensor(b, f"F.conv_transpose{axes}d", **fields, output_padding=output_padding)
    return tensor(b, f"F.conv{axes}d", **fields)


@operator("aten::_convolution_mode")
def convolution_mode(
    b: Builder, input: Tensor, weight: Tensor, bias: Any, stride: Any, padding: str, dilation: Any, groups: Any
) -> Tensor:
    """Convolution with the padding "same" or "valid". torch.nn.functional.conv2d."""
    fields = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    kind = f"F.conv{weight.ndim - 2}d"
    return tensor(b, kind, input=input, weight=weight, bias=bias, **fields)


@operator("aten::conv_tbc")
def conv_tbc(b: Builder, input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolution along the first dimension, channels last. torch.conv_tbc."""
    if input.ndim != 3 or weight.ndim != 3:
        raise ShapeError("input and weight have three dimensions", expected=weight.shape, actual=input.shape)
    fields = {"weight": weight.permute([2, 1, 0]), "bias": bias, "padding": pad}
    return tensor(b, "F.conv1d", input=input.permute([1, 2, 0]), **fields).permute([2, 0, 1])


# -- resampling and padding --------------------------------------------------------------------------------------


def _upsample(mode: str, corners: bool, antialias: bool) -> Callable[..., Tensor]:
    def upsample(b: Builder, input: Tensor, output_size: Any, *rest: Any) -> Tensor:
        align = bool(rest[0]) if corners else False
        scales = list(rest[1:] if corners else rest)
        if len(scales) == 1 and isinstance(scales[0], (list, tuple)):
            scales = list(scales[0])
        scales = [None if v is None else real_number(v, "scale_factors") for v in scales]
        factor = None if not scales or None in scales else scales
        sizes = None if output_size is None or output_size == () else list(integers(output_size, "output_size"))
        if sizes is not None and len(sizes) == len(scales) == input.ndim - 2 and scales != [None] * len(sizes):
            # Next to sizes factors say where places lie.
            return resample(b, input, tuple(sizes), mode, align, scales, antialias)
        if sizes is not None:
            factor = None
        return interpolate(
            b, input, size=sizes, scale_factor=factor, mode=mode, align_corners=align, antialias=antialias
        )

    upsample.__doc__ = f"Resize with mode {mode!r}, arguments by position. torch.nn.functional.interpolate."
    return upsample


_MODES = {"linear1d": "linear", "bilinear2d": "bilinear", "trilinear3d": "trilinear", "bicubic2d": "bicubic"}
for _name, _mode in _MODES.items():
    operator(f"aten::upsample_{_name}")(_upsample(_mode, True, False))
    if _name.endswith("2d"):
        operator(f"aten::_upsample_{_name}_aa")(_upsample(_mode, True, True))
for _axes in (1, 2, 3):
    operator(f"aten::upsample_nearest{_axes}d")(_upsample("nearest", False, False))
    operator(f"aten::_upsample_nearest_exact{_axes}d")(_upsample("nearest-exact", False, False))


def _padding(mode: str) -> Callable[..., Tensor]:
    def pad(b: Builder, input: Tensor, padding: Any) -> Tensor:
        return tensor(b, "F.pad", input=input, pad=padding, mode=mode)

    pad.__doc__ = f"Pad with mode {mode!r}, arguments by position. torch.nn.functional.pad."
    return pad


for _axes in (1, 2, 3):
    operator(f"aten::reflection_pad{_axes}d")(_padding("reflect"))
    operator(f"aten::replication_pad{_axes}d")(_padding("replicate"))


# -- pooling -----------------------------------------------------------------------------------------------------


def _max_pool(axes: int) -> Callable[..., Value]:
    def max_pool(b: Builder, input: Tensor, size: Any, stride: Any = None, *rest: Any) -> Value:
        names = ("padding", "dilation", "ceil_mode")
        fields = dict(zip(names, rest, strict=False))
        kind = f"F.max_pool{axes}d"
        given = {"input": input, "kernel_size": size, "stride": stride or None, **fields}
        return call(b, kind, **given, return_indices=True)

    max_pool.__doc__ = f"Maximum over windows and where it was, arguments by position. torch.nn.MaxPool{axes}d."
    return max_pool


def _adaptive_max_pool(axes: int) -> Callable[..., Value]:
    def adaptive_max_pool(b: Builder, input: Tensor, size: Any) -> Value:
        fields = {"input": input, "output_size": size, "return_indices": True}
        return call(b, f"F.adaptive_max_pool{axes}d", **fields)

    adaptive_max_pool.__doc__ = f"Maximum to a given size and where it was. torch.nn.AdaptiveMaxPool{axes}d."
    return adaptive_max_pool


for _axes in (1, 2, 3):
    operator(f"aten::max_pool{_axes}d_with_indices")(_max_pool(_axes))
    operator(f"aten::adaptive_max_pool{_axes}d")(_adaptive_max_pool(_axes))


@operator("aten::max_unpool2d", "aten::max_unpool3d")
def max_unpool(b: Builder, input: Tensor, indices: Tensor, output_size: Any, *_: Any) -> Tensor:
    """Put maxima back where they came from, zeros elsewhere. torch.nn.functional.max_unpool2d."""
    fields = {"input": input, "indices": indices, "output_size": output_size}
    axes = len(integers(output_size, "output_size"))
    return tensor(b, f"F.max_unpool{axes}d", **fields, kernel_size=1)


@operator("aten::im2col")
def im2col(b: Builder, input: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """Columns of sliding blocks. torch.nn.functional.unfold."""
    fields = {"kernel_size": kernel_size, "dilation": dilation, "padding": padding, "stride": stride}
    return tensor(b, "F.unfold", input=input, **fields)


@operator("aten::col2im", native=False)
def col2im(b: Builder, input: Tensor, output_size: Any, size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    """Sum of sliding blocks. torch.nn.functional.fold."""
    fields = {"kernel_size": size, "dilation": dilation, "padding": padding, "stride": stride}
    return tensor(b, "F.fold", input=input, output_size=output_size, **fields)


# -- windows, sampling -------------------------------------------------------------------------------------------


@operator("aten::stft", native=False)
def stft(b: Builder, input: Tensor, n_fft: Any, hop: Any, length: Any, window: Any, *rest: Any) -> Tensor:
    """Fourier transforms of windows that slide, without padding in the older of the two forms. torch.stft."""
    newer = ("center", "pad_mode", "normalized", "onesided", "return_complex", "align_to_window")
    names = newer if len(rest) > 4 else newer[2:]
    fields = {"center": False, **dict(zip(names[: len(rest)], rest, strict=True))}  # the last came later to both forms
    fields |= {"n_fft": n_fft, "hop_length": hop, "win_length": length, "window": window}
    return tensor(b, "torch.stft", input=input, **fields)


@operator("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(b: Builder, input: Tensor, grid: Tensor, mode: Any, border: Any, align: Any) -> Tensor:
    """Values of images at places between -1 and 1. torch.nn.functional.grid_sample."""
    names = {
        "mode": ("bilinear", "nearest", "bicubic")[mode],
        "padding_mode": ("zeros", "border", "reflection")[border],
    }
    return tensor(b, "F.grid_sample", input=input, grid=grid, align_corners=align, **names)


# -- recurrent layers --------------------------------------------------------------------------------------------


def _weights(params: Sequence[Any], layers: int, directions: int, biases: bool, proj: bool) -> dict[str, Any]:
    """Weights of a flat list under the names that a module gives them."""
    kinds = ["weight_ih", "weight_hh", *["bias_ih", "bias_hh"] * biases, *["weight_hr"] * proj]
    wanted = layers * directions * len(kinds)
    if wanted != len(params):
        raise ParameterError(f"{len(params)} weights instead of {wanted}", parameter="params")
    ends = [f"_l{i}{suffix}" for i in range(layers) for suffix in ("", "_reverse")[:directions]]
    return dict(zip([kind + end for end in ends for kind in kinds], params, strict=True))


def _recurrent(module: str, **fixed: Any) -> Callable[..., Value]:
    def run(
        b: Builder,
        input: Tensor,
        states: Any,
        params: Any,
        biases: Any,
        layers: int,
        dropout: Any,
        train: Any,
        bidirectional: Any,
        batch_first: Any,
    ) -> Value:
        if isinstance(states, Tensor) and states.dtype.kind == "i":
            # Packed: sizes of steps come second, and no batch is first.
            return _packed(b, module, fixed, input, states, params, biases, layers, dropout, batch_first)
        hidden = list(states) if isinstance(states, (list, tuple)) else [states]
        directions = 2 if bidirectional else 1
        lstm = module == "nn.LSTM"
        size = hidden[1].shape[-1] if lstm else hidden[0].shape[-1]
        out = hidden[0].shape[-1]
        weights = _weights(list(params), layers, directions, bool(biases), lstm and out != size)
        fields: dict[str, Any] = {"input_size": input.shape[-1], "hidden_size": size, "num_layers": layers, **fixed}
        if lstm and out != size:
            fields["proj_size"] = out
        fields |= {"bidirectional": bool(bidirectional), "batch_first": bool(batch_first)}
        return _lower(b, module, [input, *hidden], (), weights, fields)

    run.__doc__ = f"Recurrent layers with their weights in a list, arguments by position. torch.{module}."
    return run


def _packed(
    b: Builder,
    module: str,
    fixed: Mapping[str, Any],
    data: Tensor,
    sizes: Tensor,
    states: Any,
    params: Any,
    biases: Any,
    layers: int,
    bidirectional: Any,
) -> Value:
    from pnnx_fast.ops.packed import run_packed

    hidden = list(states) if isinstance(states, (list, tuple)) else [states]
    if module == "nn.LSTM" and hidden[0].shape[-1] != hidden[1].shape[-1]:
        raise ParameterError("packed sequences with projections are not supported", parameter="proj_size")
    weights = _weights(list(params), layers, 2 if bidirectional else 1, bool(biases), False)
    kind, function = module.removeprefix("nn."), str(fixed.get("nonlinearity", "tanh"))
    return run_packed(b, kind, function, data, sizes, hidden, weights, layers, bool(bidirectional))


operator("aten::lstm")(_recurrent("nn.LSTM"))
operator("aten::gru")(_recurrent("nn.GRU"))
operator("aten::rnn_tanh")(_recurrent("nn.RNN", nonlinearity="tanh"))
operator("aten::rnn_relu")(_recurrent("nn.RNN", nonlinearity="relu"))


def _cell(module: str, **fixed: Any) -> Callable[..., Value]:
    def run(b: Builder, input: Tensor, state: Any, w_ih: Tensor, w_hh: Tensor, *biases: Any) -> Value:
        require_dims(input, 1)
        require_dims(w_hh, 2)
        states = [s.unsqueeze(0) for s in (state if isinstance(state, (list, tuple)) else [state])]
        kinds = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        weights = {k: w for k, w in zip(kinds, (w_ih, w_hh, *biases), strict=False) if w is not None}
        fields = {"input_size": input.shape[-1], "hidden_size": w_hh.shape[1], **fixed}
        results = _lower(b, module, [input.unsqueeze(0), *states], (), weights, fields)
        if module == "nn.LSTM":
            return tuple(None if r is None else r.squeeze([0]) for r in (results[0], results[2]))
        return results[0].squeeze([0])

    run.__doc__ = f"One step of a recurrent cell, arguments by position. torch.{module}Cell."
    return run


operator("aten::lstm_cell")(_cell("nn.LSTM"))
operator("aten::gru_cell")(_cell("nn.GRU"))
operator("aten::rnn_tanh_cell")(_cell("nn.RNN", nonlinearity="tanh"))
operator("aten::rnn_relu_cell")(_cell("nn.RNN", nonlinearity="relu"))


PADDING_MASK = 1
"""TorchScript's number of a mask that says which keys of each batch are padding."""

# -- attention ---------------------------------------------------------------------------------------------------


@operator("aten::_native_multi_head_attention")
def native_multi_head_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Any,
    proj_weight: Tensor,
    proj_bias: Any,
    mask: Any = None,
    need_weights: Any = True,
    average_attn_weights: Any = True,
    mask_type: Any = None,
) -> Value:
    """Multi-head attention with batches first, arguments by position. torch.nn.MultiheadAttention."""
    fields: dict[str, Any] = {"embed_dim": embed_dim, "num_heads": num_head, "batch_first": True}
    fields["average_attn_weights"] = bool(average_attn_weights)
    if mask is not None and mask_type == PADDING_MASK:
        mask = mask.unsqueeze(1).unsqueeze(1)
    if mask is not None and mask.ndim == 4:
        whole = (query.shape[0], num_head, query.shape[1], key.shape[1])
        mask = b.reshape(mask.expand(whole), (whole[0] * whole[1], *whole[2:]))
    weights = {"in_proj_weight": qkv_weight, "in_proj_bias": qkv_bias}
    weights |= {"out_proj_weight": proj_weight, "out_proj_bias": proj_bias, "attn_mask": mask}
    return call(b, "nn.MultiheadAttention", query=query, key=key, value=value, **fields, **weights)


@operator("aten::_transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    b: Builder,
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Any,
    proj_weight: Tensor,
    proj_bias: Any,
    use_gelu: Any,
    norm_first: Any,
    eps: Any,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Any = None,
    mask_type: Any = None,
) -> Tensor:
    """An encoder layer: attention, then two linear layers, each with sum and norm. torch.nn.TransformerEncoderLayer."""

    def norm(x: Any, weight: Tensor, bias: Tensor) -> Any:
        return tensor(b, "F.layer_norm", input=x, normalized_shape=[embed_dim], weight=weight, bias=bias, eps=eps)

    def attend(x: Any) -> Any:
        y = native_multi_head_attention(
            b, x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type
        )
        return y[0] if isinstance(y, tuple) else y

    def feed(x: Any) -> Any:
        wide = tensor(b, "F.linear", input=x, weight=ffn_weight_1, bias=ffn_bias_1)
        active = lower_expression(b, "gelu(@0)" if use_gelu else "relu(@0)", [wide])
        return tensor(b, "F.linear", input=active, weight=ffn_weight_2, bias=ffn_bias_2)

    x: Tensor = src
    for part, weight, bias in ((attend, norm_weight_1, norm_bias_1), (feed, norm_weight_2, norm_bias_2)):
        inner = part(norm(x, weight, bias) if norm_first else x)
        x = cast(Tensor, lower_expression(b, "add(@0,@1)", [x, inner]))
        x = x if norm_first else norm(x, weight, bias)
    return x


# -- type, copies, lists -------------------------------------------------------------------------------------------


@operator("aten::to", "aten::_to_copy")
def to(b: Builder, input: Tensor, *rest: Any) -> Tensor:
    """Another dtype; devices mean nothing here. torch.Tensor.to."""
    # With all seven arguments only the first is a dtype; layouts and memory formats are numbers, too.
    for value in rest[:1] if len(rest) == 7 else rest:
        if isinstance(value, Tensor):
            return b.cast(input, value.dtype)
        if isinstance(value, int) and not isinstance(value, bool):
            return tensor(b, "Tensor.to", input=input, dtype=dtype_name(value))
        if isinstance(value, str) and value.startswith("torch."):
            return tensor(b, "Tensor.to", input=input, dtype=value)
    return input


@operator("aten::copy", "aten::copy_")
def copy(b: Builder, input: Tensor, src: Any, *_: Any) -> Tensor:
    """Values of ``src`` in shape and dtype of the first tensor. torch.Tensor.copy_."""
    return tensor(b, "Tensor.copy", self=input, src=src)


@operator("aten::zero")
def zero(b: Builder, input: Tensor) -> Tensor:
    """Zeros in shape and dtype of the input. torch.Tensor.zero_."""
    return tensor(b, "torch.zeros_like", input=input)


@operator("aten::einsum")
def einsum(b: Builder, equation: str, tensors: Any, path: Any = None) -> Tensor:
    """Sum of products over named dimensions. torch.einsum."""
    return by_name(b, *tensors, equation=equation)


@operator("aten::tensor_split")
def tensor_split(b: Builder, input: Tensor, parts: Any, dim: int = 0) -> Value:
    """Cut into a number of nearly equal parts, or at a list of places. torch.tensor_split."""
    which = {"sections": parts} if isinstance(parts, int) else {"indices": parts}
    return call(b, "torch.tensor_split", input=input, dim=dim, **which)


def _cut(axis_of_rank: Callable[[int], int]) -> Callable[..., Value]:
    def cut(b: Builder, input: Tensor, parts: Any) -> Value:
        return tensor_split(b, input, parts, axis_of_rank(input.ndim))

    cut.__doc__ = "Cut one of the first three dimensions. torch.hsplit, torch.vsplit, torch.dsplit."
    return cut


operator("aten::hsplit")(_cut(lambda rank: 1 if rank > 1 else 0))
operator("aten::vsplit")(_cut(lambda rank: 0))
operator("aten::dsplit")(_cut(lambda rank: 2))


@operator("aten::chain_matmul", "aten::linalg_multi_dot")
def multi_dot(b: Builder, tensors: Any) -> Tensor:
    """Product of several matrices, from left to right. torch.linalg.multi_dot."""
    y, *rest = tensor_list(tensors)
    for matrix in rest:
        y = tensor(b, "torch.matmul", input=y, other=matrix)
    return y


@operator("aten::bilinear")
def bilinear(b: Builder, first: Tensor, second: Tensor, weight: Tensor, bias: Any = None) -> Tensor:
    """A bilinear form for each output. torch.nn.functional.bilinear."""
    y = einsum(b, "...i,oij,...j->...o", [first, weight, second])
    return y if bias is None else cast(Tensor, lower_expression(b, "add(@0,@1)", [y, bias]))


@operator("aten::index_add")
def index_add(b: Builder, input: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Any = 1) -> Tensor:
    """Slices added to the entries of a dimension that an index names. torch.index_add."""
    axis = axis_of(dim, input.ndim)
    if index.ndim > 1 or (source.ndim and index.size != source.shape[axis]):
        raise ShapeError("one index for each slice", operand="index", expected=source.shape, actual=index.shape)
    if alpha != 1:
        source = cast(Tensor, lower_expression(b, "mul(@0,@1)", [source, alpha], temporary=True))
    places = b.reshape(index, [index.size if d == axis else 1 for d in range(input.ndim)]).expand(source.shape)
    return tensor(b, "torch.scatter_add", input=input, index=places, src=source, dim=dim)


@operator("aten::_shape_as_tensor")
def shape_as_tensor(b: Builder, input: Tensor) -> Value:
    """Sizes as a tensor of integers. torch._shape_as_tensor."""
    return b.constant(np.array(input.shape, np.int64))
