"""Attention: several heads with projections, the bare product, rotary embeddings; with caches of keys and values.

A cache blob that is not given, or is empty, stands for no past: it arrives as None.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.elementwise import activation
from pnnx_fast.ncnn.layers.int8 import dynamic_int8_linear, fake_quantize, takes_int8
from pnnx_fast.ncnn.layers.linear import block_scale_shape, check_blocks, emit_linear, unpack_blocks
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.layers.shape import axis_of
from pnnx_fast.ncnn.tracer import Tracer, dims_of, shape_of
from pnnx_fast.ncnn.values import Params, Weights


def attend(
    t: Tracer, q: Operand, k: Operand, v: Operand, mask: Operand | None, scale: float, quantised: bool = False
) -> Operand:
    """Softmax of scaled scores times values; all (n, heads, length, size), with fewer heads of keys that are shared."""
    if mask is not None:
        q = t.together(q, mask)[0]
        if shape_of(mask)[1] not in (1, shape_of(q)[1]):
            raise ShapeError("a mask for each head, or one", expected=shape_of(q)[1], actual=shape_of(mask)[1])
    if quantised:
        return _attend_quantised(t, q, k, v, mask, scale)
    inputs = [q, k, v] if mask is None else [q, k, v, mask]
    return t.emit(
        "F.scaled_dot_product_attention",
        *inputs,
        names=["query", "key", "value", "attn_mask"][: len(inputs)],
        dropout_p=0.0,
        is_causal=False,
        scale=scale,
        enable_gqa=shape_of(k)[1] != shape_of(q)[1],
    )


def _attend_quantised(t: Tracer, q: Operand, k: Operand, v: Operand, mask: Operand | None, scale: float) -> Operand:
    """As :func:`attend`, each operand of a product rounded to int8 with scales of its own."""
    shared = shape_of(q)[1] // shape_of(k)[1]
    if shared > 1:
        k, v = (t.emit("torch.repeat_interleave", x, repeats=shared, dim=1) for x in (k, v))
    q = fake_quantize(t, q, [3])
    k = fake_quantize(t, k, [2, 3])
    scores = t.emit("torch.matmul", q, t.permute(k, [0, 1, 3, 2]))
    scores = t.expression(f"mul(@0,{scale!r})", scores)
    if mask is not None:
        scores = t.expression("add(@0,@1)", scores, mask)
    weights = fake_quantize(t, t.emit("F.softmax", scores, dim=3), [3])
    return t.emit("torch.matmul", weights, fake_quantize(t, v, [2, 3]))


def _floats(t: Tracer, inputs: Sequence[Operand | None]) -> list[Operand | None]:
    return [None if x is None else t.as_float(x) for x in inputs]


def _mask(t: Tracer, mask: Operand | None) -> Operand | None:
    """A mask (n, queries, keys) or (n, heads, queries, keys) with a dimension for heads; bytes tell what to look at."""
    if mask is not None and mask.dtype == "i8":
        mask = t.expression("log(minimum(@0,1))", t.as_float(mask))
    if mask is None or dims_of(mask) == 3:
        return mask
    n, *rest = shape_of(mask)
    if len(rest) < 2 or math.prod(rest[:-2]) != 1:
        raise ShapeError("a mask of two or three dimensions", actual=rest)
    return t.reshape(mask, (n, 1, *rest[-2:]))


class _Projection:
    """A linear layer of an attention, float, int8 or block-quantised."""

    def __init__(self, w: Weights, outputs: int, inputs: int, term: int) -> None:
        self.outputs, self.inputs, self.term = outputs, inputs, term
        self.blocks = term >= 400
        columns = -(-inputs * (term // 100) // 8) if self.blocks else inputs
        self.weight = w.load(outputs, columns, type=2 if self.blocks else 0)
        self.bias = w.load(outputs, type=1)
        self.scales: Attribute | None = None
        self.factors: Attribute | None = None
        self._ready: dict[str, Attribute] = {}

    def attributes(self) -> dict[str, Attribute]:
        """Weight and bias as float32."""
        if self._ready:
            return self._ready
        if self.blocks and self.scales is not None:
            array = unpack_blocks(self.weight.numpy(), self.scales.numpy(), self.inputs, self.term)
            array = array if self.factors is None else array * self.factors.numpy()
        else:
            array = self.weight.numpy().astype(np.float32, copy=False)
            if self.term and self.scales is not None and self.weight.dtype == "i8":
                array = array / self.scales.numpy().reshape(-1, 1)
        self._ready = {"weight": Attribute.owning(np.ascontiguousarray(array, np.float32)), "bias": self.bias}
        return self._ready

    def __call__(self, t: Tracer, x: Operand, dims: Sequence[int] = ()) -> Operand:
        """The projection; ``dims``: over which one scale holds, where the input is to be rounded to int8."""
        if not dims:
            return emit_linear(t, x, self.attributes())
        if self.scales is None or not takes_int8(self.weight):
            return emit_linear(t, fake_quantize(t, x, list(dims)), self.attributes())
        if "scale" not in self._ready:
            with np.errstate(divide="ignore"):
                factor = np.broadcast_to(1.0 / self.scales.numpy(), (self.outputs,)).astype(np.float32)
            self._ready |= {"weight": self.weight, "scale": Attribute.owning(factor), "bias": self.bias}
        return dynamic_int8_linear(t, x, list(dims), self._ready)


class _MultiHead:
    """One multi-head attention layer."""

    def __init__(self, p: Params, w: Weights) -> None:
        self.size, self.heads, count = p.count(0), p.count(1, 1), p.count(2)
        key_size, value_size = p.count(3, self.size), p.count(4, self.size)
        self.masked, self.cached = p.flag(5), p.flag(7)
        if self.size % self.heads or count % self.size:
            raise ParameterError(f"{count} weights for {self.heads} heads of {self.size} values")
        self.scale = p.float(6, 1.0 / math.sqrt(self.size // self.heads))
        self.term = p.int(18)
        blocks = check_blocks(self.term)
        query_size = count // self.size
        shapes = [(self.size, query_size), (self.size, key_size), (self.size, value_size), (query_size, self.size)]
        self.projections = [_Projection(w, *shape, self.term) for shape in shapes]
        if blocks:
            for one in self.projections:
                one.scales = w.load(*block_scale_shape(one.outputs, one.inputs, self.term), type=1)
            if self.term // 10 % 10:
                for one in self.projections:
                    one.factors = w.load(one.inputs, type=1)
        elif self.term:
            for one in self.projections[:3]:
                one.scales = w.load(self.size, type=1)
            self.projections[3].scales = w.load(1, type=1)
        self.quantised = bool(self.term) and not blocks

    def __call__(self, t: Tracer, *inputs: Operand | None) -> list[Operand]:
        given = _floats(t, inputs)
        past_k = past_v = mask = None
        count = len(given) - self.masked - 2 * self.cached
        if not 1 <= count <= 3:
            raise ShapeError("blobs of queries, keys and values", expected="1 to 3", actual=max(count, 0))
        if self.cached:
            past_v, past_k = given.pop(), given.pop()
        if self.masked:
            given.pop()
            mask = inputs[len(given)]
        query, key = given[0], given[min(1, len(given) - 1)]
        value = given[-1]
        if query is None or key is None or value is None:
            raise ShapeError("queries, keys and values must be given")
        q = self._project(t, query, 0)
        own = count == 1  # as ncnn has it: the same blob given twice is another sequence
        k, all_k = self._with_past(t, key, 1, past_k, own)
        v, all_v = self._with_past(t, value, 2, past_v, own)
        y = attend(t, self._heads(t, q), k, v, _mask(t, mask), self.scale, self.quantised)
        n, _, length, _ = shape_of(y)
        y = t.reshape(t.permute(y, [0, 2, 1, 3]), (n, length, self.size))
        y = self.projections[3](t, y, [2] if self.quantised else [])
        return [y, all_k, all_v] if self.cached and all_k is not None and all_v is not None else [y]

    def _project(self, t: Tracer, x: Operand, which: int) -> Operand:
        return self.projections[which](t, x, [1, 2] if self.quantised else [])

    def _heads(self, t: Tracer, x: Operand) -> Operand:
        """(n, length, size) as (n, heads, length, part)."""
        n, length, _ = shape_of(x)
        return t.permute(t.reshape(x, (n, length, self.heads, self.size // self.heads)), [0, 2, 1, 3])

    def _with_past(
        self, t: Tracer, x: Operand, which: int, past: Operand | None, own: bool
    ) -> tuple[Operand, Operand | None]:
        """Keys or values (n, heads, length, part), and the new cache of them."""
        part = self.size // self.heads
        if past is not None and (dims_of(past) != 3 or shape_of(past)[1::2] != (self.heads, part)):
            raise ShapeError(
                "a cache of heads, length and values", expected=(self.heads, -1, part), actual=shape_of(past)[1:]
            )
        if past is not None and not own:
            # Another sequence is attended to: its keys and values were computed once and for all.
            return past, past
        current = self._heads(t, self._project(t, x, which))
        whole = current if past is None else t.concat(t.together(past, current), 2)
        return whole, whole if self.cached else None


@layer("MultiHeadAttention", one_blob_only=False)
def multi_head_attention(p: Params, w: Weights) -> Build:
    """Attention of several heads with projections of inputs and output."""
    return _MultiHead(p, w)


@layer("SDPA", one_blob_only=False)
def sdpa(p: Params, w: Weights) -> Build:
    """Attention without projections; heads of keys and values may be shared."""
    masked, scale, cached, quantised = p.flag(5), p.float(6, 0.0), p.flag(7), p.flag(18)
    p.blobs = 3 + masked + 2 * cached

    def build(t: Tracer, *inputs: Operand | None) -> list[Operand]:
        mask = inputs[-3 if cached else -1] if masked else None
        given = _floats(t, inputs)
        past_k = past_v = None
        if cached:
            past_v, past_k = given.pop(), given.pop()
        if masked:
            given.pop()
        if len(given) != 3 or any(x is None or dims_of(x) not in (2, 3) for x in given):
            raise ShapeError("queries, keys and values of two or three dimensions", actual=len(given))
        q, k, v = (_with_heads(t, x) for x in given if x is not None)
        new = [k, v]
        if past_k is not None and past_v is not None:
            k, v = (t.concat(t.together(*pair), 2) for pair in ((past_k, k), (past_v, v)))
        factor = scale or 1.0 / math.sqrt(shape_of(q)[3])
        y = attend(t, q, k, v, _mask(t, mask), factor, quantised)
        caches = new if t.new_only else [k, v]
        return [y, *caches] if cached else [y]

    return build


def _with_heads(t: Tracer, x: Operand) -> Operand:
    """A blob of two dimensions is one head."""
    if dims_of(x) == 3:
        return x
    n, length, size = shape_of(x)
    return t.reshape(x, (n, 1, length, size))


@layer("RotaryEmbed", one_blob_only=False)
def rotary_embed(p: Params, w: Weights) -> Build:
    """Pairs of values turned by angles that grow with the position; the pairs are neighbours or halves."""
    interleaved = p.flag(0)
    p.blobs = 3

    def build(t: Tracer, *inputs: Operand) -> Operand:
        x, cos, sin = t.together(*inputs)
        shape = shape_of(x)
        n, (*groups, length, size) = shape[0], (1,) * (4 - len(shape)) + shape[1:]
        rows = t.reshape(x, (n, math.prod(groups), length, size))
        angles = [_angles(t, a, length, size // 2) for a in (cos, sin)]
        turned = t.emit("ncnn.RotaryEmbed", rows, *angles, names=["input", "cos", "sin"], neighbours=interleaved)
        return t.reshape(turned, shape)

    return build


def _angles(t: Tracer, x: Operand, length: int, half: int) -> Operand:
    """Rows of a table of angles, for all heads."""
    n, *rest = shape_of(x)
    rows, columns = rest[-2], rest[-1]
    x = t.reshape(x, (n, rows, columns))
    if rows < length or columns < half:
        raise ShapeError("rows and columns of angles", expected=(length, half), actual=(rows, columns))
    return t.cut(t.cut(x, 1, 0, length), 2, 0, half)


@layer("GLU")
def glu(p: Params, w: Weights) -> Build:
    """The first half of a dimension times the sigmoid of the second."""
    axis = p.int(0)
    sigmoid = activation(4, ())

    def build(t: Tracer, x: Operand) -> Operand:
        d = 1 if dims_of(x) == 1 else axis_of(axis, x)
        half = shape_of(x)[d] // 2
        gate = sigmoid(t, t.cut(x, d, half, 2 * half))
        return t.expression("mul(@0,@1)", t.cut(x, d, 0, half), gate)

    return build
