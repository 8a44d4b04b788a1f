"""Attention: scaled dot products and the multi-head layer. Splitting and merging of heads are views, never copies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.expression.activations import activation_fields
from pnnx_fast.ir import Operator
from pnnx_fast.ir.shapes import split_place
from pnnx_fast.ops._checks import common_shape, require_dims
from pnnx_fast.ops._masks import as_additive, layer_mask, mask_fields
from pnnx_fast.ops.convolution import as_computed
from pnnx_fast.ops.elementwise import intermediate
from pnnx_fast.ops.linear import multiply, multiply_rows
from pnnx_fast.ops.reduction import emit_reduce
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import infer_shape
from pnnx_fast.ops.softmax import emit_softmax
from pnnx_fast.ops.symbolic import Builder, Tensor, Value


def dense_rows(b: Builder, x: Tensor) -> Tensor:
    """The tensor with its last dimension dense."""
    require_dims(x, 2)
    return x if x.shape[-1] == 1 or x.strides[-1] == 1 else b.contiguous(x)


def _four_dims(b: Builder, x: Tensor, lead: Sequence[int]) -> Tensor:
    """View (batch, heads, rows, columns) of a tensor broadcast to the leading sizes."""
    x = x.expand((*lead, *x.shape[-2:]))
    while x.ndim < 4:
        x = x.unsqueeze(0)
    return x if x.ndim == 4 else b.reshape(x, (math.prod(lead[:-1]), lead[-1], *x.shape[-2:]))


def _mask_of(b: Builder, mask: Tensor, lead: Sequence[int]) -> Tensor:
    """A mask of scores with any leading sizes, as ``attend`` takes it."""
    if mask.ndim <= 4 and len(lead) <= 2:
        return mask.unsqueeze(0) if mask.ndim == 3 and len(lead) == 1 else mask
    while mask.ndim < len(lead) + 2:
        mask = mask.unsqueeze(0)
    first = next((i for i, n in enumerate(mask.shape[: len(lead) - 1]) if n != 1), len(lead) - 1)
    turn = mask.expand((*mask.shape[:first], *lead[first:-1], *mask.shape[len(lead) - 1 :]))
    return b.reshape(turn, (1, math.prod(lead[first:-1]), *turn.shape[-3:]))


def attend(
    b: Builder,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    y: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float,
    causal: bool = False,
    mask_drops: bool = False,
    filling: float | None = None,
    empty_nan: bool = False,
) -> None:
    """Emit softmax(scale q kᵀ + mask) v of (batch, heads, rows, columns), float32 with dense columns or float64.

    ``k`` and ``v`` may have fewer heads, each shared by consecutive query heads. ``mask`` broadcasts to (batch, heads,
    queries, keys); with 5 dimensions it repeats, of which the first is 1 and the others are those of one turn. True in
    a boolean one takes part, or does not with ``mask_drops``, or has the score ``filling``. ``empty_nan``: queries
    without keys give NaN, not 0.
    """
    if y.shape != (*q.shape[:3], v.shape[3]):
        raise ShapeError("the result of attention", expected=(*q.shape[:3], v.shape[3]), actual=y.shape)
    if q.dtype == np.float64:
        from pnnx_fast.ops._double import attend_double

        attend_double(b, q, k, v, y, mask, scale, causal, mask_drops, filling, empty_nan)
        return
    fields = mask_fields(b, mask, mask_drops, filling, q, k)
    if causal:
        fields |= {"causal": 1, "diagonal": 0}
    for name, x in {"q": q, "k": k, "v": v, "y": y}.items():
        fields |= {name + "sb": x.strides[0], name + "sh": x.strides[1], name + "sr": x.strides[2]}
    batch, heads, queries, d = q.shape
    keys, dv = k.shape[2], v.shape[3]
    fields |= {"batch": batch, "heads": heads, "kv_heads": k.shape[1], "queries": queries, "keys": keys, "d": d}
    fields |= {"dv": dv, "scale": scale, "empty_nan": int(empty_nan), "variant": -1}
    tensors = {"q": q, "k": k, "v": v, "y": y, "mask": fields.pop("mask")}
    plan = b.plan("attention_f32", **fields)
    flops = 2 * batch * heads * queries * keys * (d + dv) // (2 if fields["causal"] else 1)
    b.step("attention_f32", **tensors, **fields, scratch=b.scratch(plan.scratch_bytes), flops=flops, label=plan.label)


def _result_like(b: Builder, q: Tensor, shape: Sequence[int]) -> Tensor:
    """Result in the memory order of the queries, so that merging the heads again is a view."""
    if q.ndim <= 4 and all(s > 0 or n == 1 for s, n in zip(q.strides, q.shape, strict=True)):
        y = b.result(shape, q.dtype, q)
        if y.strides[-1] == 1 or y.shape[-1] == 1:
            return y
    return b.result(shape, q.dtype)


def _repeat_heads(b: Builder, x: Tensor, heads: int) -> Tensor:
    """Each head several times in a row, so that there are as many as told."""
    lead, (n, rows, columns) = x.shape[:-3], x.shape[-3:]
    if n == heads:
        return x
    copies = x.unsqueeze(x.ndim - 2).expand((*lead, n, heads // n, rows, columns))
    return b.reshape(copies, (*lead, heads, rows, columns))


def _require_fit(query: Tensor, key: Tensor, value: Tensor) -> None:
    for x in (query, key, value):
        require_dims(x, 2)
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError("queries and keys of different length", expected=query.shape, actual=key.shape)
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError("different numbers of keys and values", expected=key.shape, actual=value.shape)


@operator("F.scaled_dot_product_attention")
def scaled_dot_product_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Softmax of scaled scores times values. torch.nn.functional.scaled_dot_product_attention."""
    if dropout_p:
        raise ParameterError("attention with dropout is a matter of training", parameter="dropout_p")
    if is_causal and attn_mask is not None:
        raise ParameterError("attn_mask and is_causal exclude each other", parameter="is_causal")
    _require_fit(query, key, value)
    q, k, v = (dense_rows(b, x) for x in as_computed(b, query, key, value) if x is not None)
    grouped = enable_gqa and min(q.ndim, k.ndim, v.ndim) > 2 and len({x.shape[-3] for x in (q, k, v)}) > 1
    if grouped:
        for x in (k, v):
            if not x.shape[-3] or q.shape[-3] % x.shape[-3]:
                what = "query heads must be a multiple of key and value heads"
                raise ShapeError(what, expected=q.shape, actual=x.shape)
        shared = math.lcm(k.shape[-3], v.shape[-3])
        k, v = (_repeat_heads(b, x, shared) for x in (k, v))
    cut = -3 if grouped else -2
    lead = common_shape(q.shape[:cut], k.shape[:cut], v.shape[:cut])
    q_lead = (*lead, q.shape[-3]) if grouped else lead
    kv_lead = (*lead, k.shape[-3]) if grouped else lead
    shape = (*q_lead, q.shape[-2], v.shape[-1])
    y = _result_like(b, q, shape) if q.shape[:-2] == q_lead else b.result(shape, q.dtype)
    scale = max(q.shape[-1], 1) ** -0.5 if scale is None else scale
    mask = None if attn_mask is None else _mask_of(b, attn_mask, q_lead)
    attend(
        b, _four_dims(b, q, q_lead), _four_dims(b, k, kv_lead), _four_dims(b, v, kv_lead), _four_dims(b, y, q_lead),
        mask, scale=scale, causal=is_causal,
    )  # fmt: skip
    return b.cast(y, query.dtype)


def _total_mask(b: Builder, masks: Sequence[Tensor], lead: Sequence[int]) -> Tensor | None:
    """The sum of no, one or two masks, as ``attend`` takes it."""
    if not masks:
        return None
    return _mask_of(b, masks[0] if len(masks) == 1 else _sum_of_masks(b, masks), lead)


def _sum_of_masks(b: Builder, masks: Sequence[Tensor]) -> Tensor:
    if all(m.is_constant for m in masks):
        key = ("sum of masks", *(m.identity for m in masks))
        return b.cached(key, lambda: np.add(*(m.numpy() for m in masks)))
    return intermediate(b, "add(@0,@1)", *masks)


def _leading_sizes(view: Sequence[int], lead: Sequence[int], q: Tensor, k: Tensor) -> Sequence[int]:
    """Sizes in front of queries and keys in a view of the scores."""
    plane = q.shape[-2], k.shape[-2]
    sizes = infer_shape(view, math.prod(lead) * math.prod(plane), q)
    if tuple(sizes[-2:]) != plane:
        raise ShapeError("scores cannot be viewed like that", expected=sizes, actual=(*lead, *plane))
    return tuple(sizes[:-2])


def _split(b: Builder, x: Tensor, lead: Sequence[int], view: Sequence[int]) -> Tensor:
    """A tensor that broadcasts to leading sizes, of which the view writes one as a product, with those of the view."""
    if view == lead:
        return x
    while x.ndim < len(lead) + 2:
        x = x.unsqueeze(0)
    i = split_place(lead, view)
    if i is None:
        raise ShapeError("scores cannot be viewed like that", expected=list(view), actual=list(lead))
    parts = view[i : i + 1 + len(view) - len(lead)]
    return b.reshape(x, (*x.shape[:i], *((1,) * len(parts) if x.shape[i] == 1 else parts), *x.shape[i + 1 :]))


def _attends_rows(op: Operator, rows: int) -> bool:
    # A mask that has rows is an input as well, and one of fewer dimensions has something else where rows are cut.
    ranks = {len(x.shape or ()) for x in op.inputs}
    return len(ranks) == 1 and min(ranks) >= 3 and op.named_input("view_mask") is None


@operator("fused.Attention", rows=_attends_rows)
def fused_attention(
    b: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    view_mask: Tensor | None = None,
    *,
    scale: float = 1.0,
    view: Sequence[int] | None = None,
    filling: float | None = None,
) -> Tensor:
    """softmax(scale query keyᵀ + mask) value, where view_mask is added to the scores in another view of them.

    With a filling the mask is none to add: scores are that number where it is true.
    """
    q, k, v = (dense_rows(b, x) for x in (query, key, value))
    sizes = (*common_shape(q.shape[:-2], k.shape[:-2], v.shape[:-2]), q.shape[-2], k.shape[-2])
    if mask is not None and not mask.expands_to(sizes):
        # The sum is as large as the mask, as that with scores of repeated queries and keys.
        sizes = common_shape(sizes, mask.shape)
        q, k = q.expand((*sizes[:-1], q.shape[-1])), k.expand((*k.shape[:-2], sizes[-1], k.shape[-1]))
    _require_fit(q, k, v)
    lead = sizes[:-2]
    split = lead if view_mask is None else _leading_sizes(view or (), lead, q, k)
    shape = (*lead, q.shape[-2], v.shape[-1])
    # Where a size behind the first is split, only a dense result has the view that attend writes to.
    ordered = q.shape[:-2] == lead and split[len(split) - len(lead) + 1 :] == lead[1:]
    result = _result_like(b, q, shape) if ordered else b.result(shape, q.dtype)
    kind = np.float32 if filling is None else np.bool_
    masks = [] if mask is None else [_split(b, b.cast(mask, kind), lead, split)]
    masks += [] if view_mask is None else [b.cast(view_mask, kind)]
    q, k, v, y = (_four_dims(b, _split(b, x, lead, split), split) for x in (q, k, v, result))
    attend(b, q, k, v, y, _total_mask(b, masks, split), scale=scale, filling=filling, empty_nan=k.shape[-2] > 0)
    return result


# -- the layer -----------------------------------------------------------------------------------------------------


def _same(x: Tensor, y: Tensor) -> bool:
    return x is y or (x.buffer is y.buffer and (x.offset, x.shape, x.strides) == (y.offset, y.shape, y.strides))


def _linear(
    b: Builder,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    residual: Tensor | None = None,
    y: Tensor | None = None,
) -> Tensor:
    if x.shape[-1] != weight.shape[1]:
        raise ShapeError("features do not fit the weight", expected=weight.shape[1], actual=x.shape)
    y = b.empty((*x.shape[:-1], weight.shape[0]), x.dtype) if y is None else y
    return multiply_rows(b, x, weight, bias, residual, activation_fields("none", []), y)


def _require_sound(
    size: int,
    heads: int,
    out: Tensor | None,
    rows: Mapping[int, Sequence[Tensor | None]],
    bias_k: Tensor | None,
    bias_v: Tensor | None,
) -> None:
    """Refuse a layer whose parts do not belong together.

    ``rows`` has matrices of so many times ``size`` rows, and behind them a vector.
    """
    if out is None:
        raise ParameterError("the output projection is missing", parameter="out_proj_weight")
    if heads < 1 or size < 1 or size % heads:
        raise ParameterError(f"embed_dim {size} does not divide into {heads} heads", parameter="num_heads")
    for count, (*matrices, vector) in rows.items():
        for x in (*matrices, vector):
            if x is not None and (x.ndim != (1 if x is vector else 2) or x.shape[0] != count * size):
                raise ShapeError("a weight does not fit embed_dim", expected=count * size, actual=x.shape)
    if (bias_k is None) != (bias_v is None):
        raise ParameterError("bias_k and bias_v come together", parameter="bias_v" if bias_v is None else "bias_k")


def _require_one_batch(query: Tensor, key: Tensor, value: Tensor, axis: int) -> None:
    """Refuse rows for the layer that do not belong together."""
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise ShapeError("query, key and value need 2 or 3 dimensions", actual=query.shape)
    if key.shape[:-1] != value.shape[:-1]:
        raise ShapeError("different numbers of keys and values", expected=key.shape, actual=value.shape)
    if query.ndim == 3 and query.shape[axis] != key.shape[axis]:
        raise ShapeError("queries and keys of different batches", expected=query.shape, actual=key.shape)


def _project(
    b: Builder, inputs: Sequence[Tensor], weights: Sequence[Tensor | None], bias: Tensor | None
) -> list[Tensor]:
    """Project q, k and v by one weight of three parts or by three; neighbours that share input share a product."""
    whole, *parts = weights
    size = whole.shape[0] // 3 if whole is not None else 0
    results: list[Tensor] = []
    while len(results) < 3:
        first, count = len(results), 1
        part = parts[first] if whole is None else whole
        if part is None:
            raise ParameterError("a projection weight is missing", parameter="in_proj_weight")
        if whole is None:
            size = part.shape[0]
        else:
            while first + count < 3 and _same(inputs[first], inputs[first + count]):
                count += 1
            part = whole.narrow(0, first * size, count * size)
        shift = None if bias is None else bias.narrow(0, first * size, count * size)
        y = _linear(b, inputs[first], part, shift)
        results += [y.narrow(2, i * size, size) for i in range(count)]
    return results


def _heads(x: Tensor, heads: int, batch_first: bool) -> Tensor:
    """View (batch, heads, rows, columns) of (batch, rows, features), or (rows, batch, features)."""
    (n0, n1, features), (s0, s1, s2) = x.shape, x.strides
    d = features // heads
    x = x.as_strided((n0, n1, heads, d), (s0, s1, d * s2, s2))
    return x.permute((0, 2, 1, 3) if batch_first else (1, 2, 0, 3))


def _append_rows(b: Builder, x: Tensor, row: Tensor | None, zero: bool, axis: int) -> Tensor:
    """Keys or values followed by a row for the whole batch, a row of zeros, or both."""
    rows = ([] if row is None else [row]) + ([b.constant(np.zeros(1, x.dtype))] if zero else [])
    if not rows:
        return x
    shape = list(x.shape)
    shape[axis] += len(rows)
    y = b.empty(shape, x.dtype)
    b.copy(x, y.narrow(axis, 0, x.shape[axis]))
    for i, more in enumerate(rows):
        target = y.narrow(axis, x.shape[axis] + i, 1)
        b.copy(b.cast(more, x.dtype).expand(target.shape), target)
    return y


def _attention_weights(b: Builder, q: Tensor, k: Tensor, mask: Tensor | None, scale: float, average: bool) -> Tensor:
    """Attention weights, averaged over the heads or of each, as the layer returns them beside its output."""
    scores = b.empty((*q.shape[:3], k.shape[2]), q.dtype)
    multiply(b, q, k.permute((0, 1, 3, 2)), None, scale, 1.0, scores)
    if mask is not None:
        scores = intermediate(b, "add(@0,@1)", scores, as_additive(b, mask, q.dtype))
    shares = emit_softmax(b, scores, 3, temporary=True)
    return emit_reduce(b, shares, [1], False, "sum", scale=1.0 / q.shape[1], temporary=True) if average else shares


@operator("nn.MultiheadAttention", "fused.MultiheadAttention")
def multihead_attention(
    b: Builder,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    attn_mask: Tensor | None = None,
    in_proj_weight: Tensor | None = None,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    in_proj_bias: Tensor | None = None,
    out_proj_weight: Tensor | None = None,
    out_proj_bias: Tensor | None = None,
    bias_k: Tensor | None = None,
    bias_v: Tensor | None = None,
    residual: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    *,
    embed_dim: int,
    num_heads: int,
    kdim: int | None = None,
    vdim: int | None = None,
    bias: bool = True,
    add_bias_kv: bool = False,
    add_zero_attn: bool = False,
    batch_first: bool = False,
    average_attn_weights: bool = True,
    masks_doubtful: bool = False,
) -> Value:
    """Attention of several heads with projections, plus a fused residual. torch.nn.MultiheadAttention."""
    key = query if key is None else key
    value = key if value is None else value
    ones = (q_proj_weight, k_proj_weight, v_proj_weight, out_proj_weight, out_proj_bias)
    _require_sound(embed_dim, num_heads, out_proj_weight, {1: ones, 3: (in_proj_weight, in_proj_bias)}, bias_k, bias_v)
    _require_one_batch(query, key, value, int(not batch_first))
    batched = query.ndim == 3
    inputs = [x if batched else x.unsqueeze(1) for x in as_computed(b, query, key, value) if x is not None]
    batch_first = batch_first and batched
    shift = (in_proj_bias, out_proj_weight, out_proj_bias, residual)
    _, *weights = as_computed(b, inputs[0], in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight)
    _, in_bias, out_weight, out_bias, residual = as_computed(b, inputs[0], *shift)
    q, k, v = _project(b, inputs, weights, in_bias)
    k, v = (_append_rows(b, x, row, add_zero_attn, int(batch_first)) for x, row in ((k, bias_k), (v, bias_v)))
    q, k, v = (_heads(x, num_heads, batch_first) for x in (q, k, v))
    added = k.shape[2] - inputs[1].shape[int(batch_first)]
    mask = layer_mask(b, attn_mask, key_padding_mask, q, k, added, masks_doubtful)
    # Where torch returns weights or takes its fused path, a query without keys gives NaN; elsewhere it gives zeros.
    fused = _same(query, key) and _same(key, value) and in_proj_weight is not None and in_proj_bias is not None
    fused &= batch_first and num_heads % 2 == 0 and bias_k is None and not add_zero_attn
    fused &= all(m is None or m.dtype == np.bool_ for m in (attn_mask, key_padding_mask))
    merged, scale = b.empty((*inputs[0].shape[:2], embed_dim), inputs[0].dtype), (embed_dim // num_heads) ** -0.5
    y = _heads(merged, num_heads, batch_first)
    attend(b, q, k, v, y, mask, scale=scale, mask_drops=True, empty_nan=fused or b.output_count > 1)
    z = residual if residual is None or batched else residual.unsqueeze(1)
    assert out_weight is not None
    y = _linear(b, merged, out_weight, out_bias, z, b.result((*merged.shape[:2], embed_dim), merged.dtype))
    y = b.cast(y if batched else y.select(1, 0), query.dtype)
    if b.output_count == 1:
        return y
    mean = _attention_weights(b, q, k, mask, scale, average_attn_weights)
    return y, b.cast(mean if batched else mean.select(0, 0), query.dtype)
