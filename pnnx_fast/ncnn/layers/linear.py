"""Inner products, matrix products, embeddings and Einstein sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ir import Attribute, Operand
from pnnx_fast.ncnn.layers.elementwise import activation
from pnnx_fast.ncnn.layers.int8 import Int8Weights, dynamic_int8_linear, fake_quantize, floats, takes_int8
from pnnx_fast.ncnn.layers.registry import Build, layer
from pnnx_fast.ncnn.option import warn
from pnnx_fast.ncnn.tracer import Tracer, dims_of, number, shape_of
from pnnx_fast.ncnn.values import Params, Weights


def emit_linear(t: Tracer, x: Operand, attrs: dict[str, Attribute]) -> Operand:
    """Product with a weight (outputs, inputs) over the last dimension, plus a bias."""
    outputs, inputs = attrs["weight"].shape
    return t.emit("nn.Linear", x, attrs=attrs, in_features=inputs, out_features=outputs, bias="bias" in attrs)


def emit_int8_linear(t: Tracer, x: Operand, attrs: dict[str, Attribute]) -> Operand:
    """The same of int8."""
    outputs, inputs = attrs["weight"].shape
    return t.emit("int8.Linear", x, attrs=attrs, in_features=inputs, out_features=outputs)


@layer("InnerProduct")
def inner_product(p: Params, w: Weights) -> Build:
    """Product of all values, or of each row, with a weight matrix."""
    outputs, has_bias, size, int8 = p.count(0), p.flag(1), p.count(2), p.int(8)
    act = activation(p.int(9), p.floats(10))
    if size % outputs:
        raise ParameterError(f"{size} weights for {outputs} outputs")
    weight = w.load(outputs, size // outputs)
    attrs = {"weight": weight if int8 else floats(weight)}
    if has_bias:
        attrs["bias"] = w.load(outputs, type=1)
    # Terms above 100 change nothing here: only convolutions have a scale of their output.
    quantised = Int8Weights(w, 1, attrs) if int8 else None

    def build(t: Tracer, x: Operand) -> Operand:
        rows = dims_of(x) == 2 and shape_of(x)[2] == size // outputs
        y = x if rows else t.flatten(x)
        if quantised is None:
            return act(t, emit_linear(t, t.as_float(y), attrs))
        return quantised.run(t, y, emit_int8_linear, act)

    return build


# -- Gemm --------------------------------------------------------------------------------------------------------------


def _block_size(term: int) -> int:
    """Values that share a scale, by quantisation term."""
    return 32 << term % 10


def unpack_blocks(raw: Array, scales: Array, count: int, term: int) -> Array:
    """Weights of block-quantised rows: ``count`` values of 4, 6 or 8 bits a row, one scale a block."""
    bits, block = term // 100, _block_size(term)
    rows = np.ascontiguousarray(raw).view(np.uint8).reshape(scales.shape[0], -1)
    stream = np.unpackbits(rows, axis=1, bitorder="little")[:, : count * bits].reshape(len(rows), count, bits)
    values = (stream.astype(np.int32) << np.arange(bits)).sum(-1)
    values = (values ^ (1 << (bits - 1))) - (1 << (bits - 1))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.repeat(1.0 / scales, block, axis=1)[:, :count]
        weights: Array = (values * factors).astype(np.float32)
    return weights


def check_blocks(term: int) -> bool:
    """Whether a quantisation term means blocks; raises ParameterError for one that means nothing."""
    if term < 400:
        if term in (4, 5, 6):
            raise ParameterError(f"quantize term {term}")
        return False
    if term // 100 not in (4, 6, 8) or term // 10 % 10 > 1 or term % 10 > 2:
        raise ParameterError(f"quantize term {term}")
    return True


def block_scale_shape(rows: int, count: int, term: int) -> tuple[int, int]:
    """Shape of the scales of block-quantised weights."""
    return rows, -(-count // _block_size(term))


class _Gemm:
    """``alpha (A B + beta C)`` with any of the three constant."""

    def __init__(self, p: Params, w: Weights) -> None:
        self.alpha, self.beta = p.float(0, 1.0), p.float(1, 1.0)
        self.trans_a, self.trans_b = p.flag(2), p.flag(3)
        constant = p.flag(4), p.flag(5), p.flag(6)
        m, n, k = p.int(7), p.int(8), p.int(9)
        self.kind_c = p.int(10)
        self.n1m = p.flag(11)
        for id in (12, 13, 20, 21, 22):
            p.int(id)
        self.transpose = p.flag(14)
        self.term = p.int(18)
        self.blocks = check_blocks(self.term)
        if (constant[0] and min(m, k) < 1) or (constant[1] and min(n, k) < 1) or not -1 <= self.kind_c <= 4:
            raise ParameterError(f"sizes {m}, {n}, {k} of constants")
        if self.blocks and (constant[0] or not constant[1] or self.trans_a or not self.trans_b):
            raise ParameterError("blocks need a constant, transposed B alone")
        self.constant, self._k = constant, k
        self.a = w.load(*((k, m) if self.trans_a else (m, k))) if constant[0] else None
        self.b = self._load_b(w, n, k) if constant[1] else None
        self.c = self._load_c(w, m, n) if constant[2] and self.kind_c >= 0 else None
        self._load_scales(w, m, n, k)
        p.blobs = 1 if sum(constant) == 2 else None if any(constant[:2]) else 2
        self._ready: dict[str, Attribute] = {}

    def _load_b(self, w: Weights, n: int, k: int) -> Attribute:
        if self.blocks:
            return w.load(n, -(-k * (self.term // 100) // 8), type=2)
        return w.load(*((n, k) if self.trans_b else (k, n)))

    def _load_c(self, w: Weights, m: int, n: int) -> Attribute:
        return w.load(*{0: (1,), 1: (m,), 2: (m, 1), 3: (m, n), 4: (1, n)}[self.kind_c])

    def _load_scales(self, w: Weights, m: int, n: int, k: int) -> None:
        self.scales: tuple[Attribute | None, Attribute | None] = (None, None)
        if self.blocks:
            scales = w.load(*block_scale_shape(n, k, self.term), type=1)
            self.scales = scales, w.load(k, type=1) if self.term // 10 % 10 else None
        elif self.term:
            a = w.load(m, type=1) if self.constant[0] else None
            self.scales = a, w.load(1, type=1) if self.constant[1] else None

    # -- constants ---------------------------------------------------------------------------------------------

    def _constant_a(self) -> Attribute:
        """A as (m, k)."""
        if "a" not in self._ready:
            assert self.a is not None
            array: Array = self.a.numpy()
            array = array.T if self.trans_a else array
            if self.term and self.scales[0] is not None and self.a.dtype == "i8":
                array = array / self.scales[0].numpy()[:, None]
            self._ready["a"] = Attribute.owning(array)
        return self._ready["a"]

    def _constant_b(self) -> Attribute:
        """B as (n, k)."""
        if "b" not in self._ready:
            assert self.b is not None
            first, second = self.scales
            if self.blocks and first is not None:
                array = unpack_blocks(self.b.numpy(), first.numpy(), self._k, self.term)
                array = array if second is None else array * second.numpy()
            else:
                array = self.b.numpy()
                array = array if self.trans_b else array.T
                if self.term and second is not None and self.b.dtype == "i8":
                    array = array / second.numpy()
            self._ready["b"] = Attribute.owning(np.ascontiguousarray(array, np.float32))
        return self._ready["b"]

    def _int8_b(self) -> dict[str, Attribute]:
        """B as (n, k), as it is in the file, and what sums with it are multiplied with."""
        if "scale" not in self._ready:
            assert self.b is not None
            assert self.scales[1] is not None
            array = self.b.numpy() if self.trans_b else np.ascontiguousarray(self.b.numpy().T)
            with np.errstate(divide="ignore"):
                factor = 1.0 / self.scales[1].numpy().astype(np.float32)
            self._ready["int8"] = Attribute.owning(array)
            self._ready["scale"] = Attribute.owning(np.full(array.shape[0], factor, np.float32))
        return {"weight": self._ready["int8"], "scale": self._ready["scale"]}

    # -- building ----------------------------------------------------------------------------------------------

    def __call__(self, t: Tracer, *inputs: Operand) -> Operand:
        given = list(inputs)
        k = self._k if any(self.constant[:2]) else None
        a = None if self.constant[0] else self._matrix(t, given.pop(0), self.trans_a, k)
        b = None if self.constant[1] else self._matrix(t, given.pop(0), not self.trans_b, k)
        c = given.pop(0) if given and not self.constant[2] else None
        if a is not None and b is None:
            y = self._linear(t, a, c)
        else:
            y = self._product(t, a, b, c)
        if self.transpose:
            y = t.permute(y, [0, 2, 1])
        n, rows, columns = shape_of(y)
        return t.reshape(y, (n, rows, 1, columns)) if self.n1m else y

    @staticmethod
    def _matrix(t: Tracer, x: Operand, transposed: bool, k: int | None) -> Operand:
        """An operand as (n, rows, columns), with rows and columns exchanged if wanted.

        Of a blob of three dimensions ncnn takes the first values of every channel, as many as a row has.
        """
        n, *rest = shape_of(x)
        rows, columns = (rest[0], int(np.prod(rest[1:]))) if len(rest) > 1 else (1, rest[0])
        y = t.reshape(x, (n, rows, columns))
        want = k if k is not None and not transposed else rest[-1]
        if columns != want and len(rest) > 2:
            warn(f"layer {t.layer}: the first {want} of {columns} values of every channel are taken")
            y = t.cut(y, 2, 0, min(want, columns))
        return t.permute(y, [0, 2, 1]) if transposed else y

    def _linear(self, t: Tracer, a: Operand, c: Operand | None) -> Operand:
        """A dynamic A and a constant B: a linear layer, with C as its bias where it is one."""
        if self.term and not self.blocks and self.b is not None and takes_int8(self._int8_b()["weight"]):
            return self._finish(t, dynamic_int8_linear(t, a, [2], self._int8_b()), c)
        attrs = {"weight": self._constant_b()}
        a = self._quantised(t, a, True)
        if self.c is not None and self.kind_c in (0, 4) and self.alpha == 1.0:
            if "bias" not in self._ready:
                n = attrs["weight"].shape[0]
                values = np.broadcast_to(self.c.numpy().reshape(-1) * np.float32(self.beta), (n,))
                self._ready["bias"] = Attribute.owning(np.ascontiguousarray(values, np.float32))
            return emit_linear(t, a, {**attrs, "bias": self._ready["bias"]})
        return self._finish(t, emit_linear(t, a, attrs), c)

    def _product(self, t: Tracer, a: Operand | None, b: Operand | None, c: Operand | None) -> Operand:
        left = self._quantised(t, a, True) if a is not None else t.array(self._constant_a().numpy()[None])
        right = self._quantised(t, b, False) if b is not None else t.array(self._constant_b().numpy()[None])
        y = t.emit("torch.matmul", left, t.permute(right, [0, 2, 1]))
        return self._finish(t, y, c)

    def _quantised(self, t: Tracer, x: Operand, by_row: bool) -> Operand:
        """What int8 arithmetic makes of a dynamic operand: rounded with a scale a row (A) or one for all (B)."""
        if not self.term or self.blocks:
            return x
        return fake_quantize(t, x, [2] if by_row else [1, 2])

    def _finish(self, t: Tracer, y: Operand, c: Operand | None) -> Operand:
        """``alpha (y + beta C)``."""
        addend = self._addend(t, y, c)
        if addend is not None:
            scaled = "@1" if self.beta == 1.0 else f"mul(@1,{number(self.beta)})"
            y = t.expression(f"add(@0,{scaled})", y, addend)
        return y if self.alpha == 1.0 else t.expression(f"mul(@0,{number(self.alpha)})", y)

    def _addend(self, t: Tracer, y: Operand, c: Operand | None) -> Operand | None:
        _, m, n = shape_of(y)
        if self.constant[2]:
            if self.c is None:
                return None
            shape = {0: (1, 1, 1), 1: (1, -1, 1), 2: (1, -1, 1), 3: (1, m, n), 4: (1, 1, -1)}[self.kind_c]
            return t.array(self.c.numpy().reshape(shape))
        if c is None:
            return None
        batch, *rest = shape_of(c)
        if rest in ([1], [1, 1]):
            return t.reshape(c, (batch, 1, 1))
        if rest in ([n], [1, n]):
            return t.reshape(c, (batch, 1, n))
        if rest in ([m], [m, 1]):
            return t.reshape(c, (batch, m, 1))
        if rest == [m, n]:
            return c
        raise ShapeError("the added matrix", expected=[m, n], actual=rest)


@layer("Gemm", one_blob_only=False)
def gemm(p: Params, w: Weights) -> Build:
    """General matrix product."""
    return _Gemm(p, w)


# -- others ------------------------------------------------------------------------------------------------------------


@layer("MatMul", one_blob_only=False)
def mat_mul(p: Params, w: Weights) -> Build:
    """Product of matrices, vectors or stacks of matrices."""
    transposed = p.flag(0)
    p.blobs = 2

    def build(t: Tracer, a: Operand, b: Operand) -> Operand:
        if transposed and dims_of(b) > 1:
            rank = len(shape_of(b))
            b = t.permute(b, [*range(rank - 2), rank - 1, rank - 2])
        n = max(shape_of(a)[0], shape_of(b)[0])
        rank_a, rank_b = dims_of(a), dims_of(b)
        # A vector on the left is a row, on the right a column; the dimension goes away afterwards.
        left = t.reshape(a, (shape_of(a)[0], 1, *shape_of(a)[1:])) if rank_a == 1 else a
        right = t.reshape(b, (*shape_of(b), 1)) if rank_b == 1 else b
        rank = max(dims_of(left), dims_of(right))
        y = t.emit("torch.matmul", _lifted(t, left, rank), _lifted(t, right, rank))
        shape = list(shape_of(y)[1:])
        if rank_b == 1:
            del shape[-1]
        if rank_a == 1:
            del shape[-1 if rank_b == 1 else -2]
        return t.reshape(y, (n, *(shape or [1])))

    return build


def _lifted(t: Tracer, x: Operand, rank: int) -> Operand:
    shape = shape_of(x)
    return t.reshape(x, (shape[0], *(1,) * (rank + 1 - len(shape)), *shape[1:]))


@layer("Embed")
def embed(p: Params, w: Weights) -> Build:
    """Rows of a table by integer index; indexes outside take the nearest row."""
    outputs, rows, has_bias, size, int8 = p.count(0), p.count(1), p.flag(2), p.count(3), p.flag(18)
    if size != outputs * rows:
        raise ParameterError(f"{size} weights for a table of {rows} rows of {outputs}")
    table = w.load(rows, outputs)
    bias = w.load(outputs, type=1) if has_bias else None
    scale = w.load(1, type=1) if int8 else None
    ready: dict[str, Attribute] = {}

    def build(t: Tracer, x: Operand) -> Operand:
        if "weight" not in ready:
            values: Any = table.numpy().astype(np.float32, copy=False)
            values = values if scale is None else values / scale.numpy()
            values = values if bias is None else values + bias.numpy()
            ready["weight"] = Attribute.owning(np.ascontiguousarray(values, np.float32))
        index = t.emit("ncnn.Bits", x) if x.dtype == "f32" else x
        return t.emit("ncnn.Embed", t.flatten(index), attrs=ready)

    return build


@layer("Einsum", one_blob_only=False)
def einsum(p: Params, w: Weights) -> Build:
    """Einstein sum; the equation is an array of character codes."""
    codes = p.ints(0)
    if any(not 32 <= c < 127 for c in codes):
        raise ParameterError("an equation holds something that is not a character")
    equation = "".join(map(chr, codes)).replace(" ", "")
    left, _, right = equation.partition("->")
    terms = left.split(",")
    batch = next((c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in equation), None)
    if batch is None or not all(terms):
        raise ParameterError(f"the equation {equation!r}")
    p.blobs = len(terms)

    def build(t: Tracer, *inputs: Operand) -> Operand:
        if len(inputs) != len(terms):
            raise ShapeError(f"inputs of {equation}", expected=len(terms), actual=len(inputs))
        ordered = right if "->" in equation else _implied(terms)
        text = ",".join(batch + term for term in terms) + "->" + batch + ordered
        y = t.emit("torch.einsum", *inputs, equation=text)
        return t.reshape(y, (*shape_of(y), 1)) if len(shape_of(y)) == 1 else y

    return build


def _implied(terms: list[str]) -> str:
    """Indexes of the result of an equation without an arrow: those that occur once, in alphabetical order."""
    letters = "".join(terms)
    return "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
