"""Arithmetic of complex numbers as expressions over their parts, for which there are kernels.

A complex tensor is pairs of real numbers in memory. One expression computes both parts of a result side by side, with
views that repeat one part of an operand, or swap both. Products of tensors have a kernel of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import DType
from pnnx_fast.expression.tree import Call, Constant, Input, Node, fold, inputs_of
from pnnx_fast.expression.types import TensorType
from pnnx_fast.ops.elementwise import order_of, store
from pnnx_fast.ops.fourier import complex_type, parts_of, real_type
from pnnx_fast.ops.symbolic import Builder, Tensor, Value

LARGEST = 48
"""Nodes of an operand that products may repeat."""


class _Unknown(Exception):
    """The expression holds what has to be left to numpy."""


class _Number:
    """A complex value: nodes for its real and its imaginary part, for both side by side, and for both swapped.

    Without a last dimension of size two the first two are all there is. ``tensor``: what holds the value.
    """

    __slots__ = ("im", "pair", "re", "swapped", "tensor")

    def __init__(self, re: Node, im: Node, pair: Node, swapped: Node, tensor: Tensor | None = None) -> None:
        self.re, self.im, self.pair, self.swapped, self.tensor = re, im, pair, swapped, tensor

    def map(self, function: Callable[..., Node], *others: _Number) -> _Number:
        """A function that takes each part for itself."""
        re, im, pair, swapped = (
            function(*(getattr(n, k) for n in (self, *others))) for k in ("re", "im", "pair", "swapped")
        )
        return _Number(re, im, pair, swapped)


def _call(name: str) -> Callable[..., Node]:
    return lambda *nodes: Call(name, nodes)


_ADD, _SUB, _MUL, _DIV, _NEG, _HYPOT, _WHERE = map(_call, ("add", "sub", "mul", "div", "neg", "hypot", "where"))
_SAME: dict[str, Callable[..., Node]] = {"neg": _NEG, "positive": lambda x: x}
"""Functions of each part for itself."""

_SUMS: dict[str, tuple[Callable[..., Node], int, int]] = {
    "add": (_ADD, 0, 1),
    "sub": (_SUB, 0, 1),
    "rsub": (_SUB, 1, 0),
}
"""Of each part for itself, too, with the places of the operands. PyTorch takes the second one times 1, which makes NaN
of what is infinite."""

_OF_PARTS: dict[str, Callable[[_Number], Node]] = {
    "real": lambda x: x.re, "imag": lambda x: x.im, "abs": lambda x: _HYPOT(x.re, x.im)
}  # fmt: skip
"""Functions from complex numbers to real ones."""


class _Parts:
    """Translates a tree over complex tensors into one over views of their parts.

    ``wide``: the value of the tree is complex, and views have a last dimension of size two, or of one for single parts.
    """

    def __init__(self, b: Builder, inputs: Sequence[Value], dtype: DType, wide: bool) -> None:
        self.b, self.given, self.dtype, self.wide = b, inputs, dtype, wide
        self.inputs: list[Tensor] = []

    def add(self, x: Tensor) -> Node:
        """A further input."""
        self.inputs.append(x)
        return Input(len(self.inputs) - 1)

    def constant(self, values: Sequence[Any], dtype: Any) -> Node:
        """A pair that is the same everywhere."""
        return self.add(self.b.constant(np.array(values, dtype)))

    def visit(self, node: Node, values: list[_Number]) -> _Number:
        """Value of a node whose children have values."""
        if isinstance(node, Constant):
            return self.number(node.value)
        if isinstance(node, Input):
            value = self.given[node.index]
            return self.tensor(value) if isinstance(value, Tensor) else self.number(value)
        name = node.name if isinstance(node, Call) else ""
        if any(v.pair.size > LARGEST for v in values):
            raise _Unknown
        if name in _SAME:
            return values[0].map(_SAME[name])
        if name in _SUMS:
            function, left, right = _SUMS[name]
            return values[left].map(function, self.product(values[right], self.number(1)))
        if name in ("mul", "square"):
            return self.product(values[0], values[-1])
        if name == "complex":
            return self.joined(values[0].re, values[1].re)
        if name in _OF_PARTS:
            return self.joined(_OF_PARTS[name](values[0]), Constant(0.0))
        if name == "div":
            return self.quotient(values[0], values[1])
        raise _Unknown

    def product(self, x: _Number, y: _Number) -> _Number:
        """Product of two values."""
        if self.wide and self.dtype == np.float32 and not isinstance(x.im, Constant) and not isinstance(y.im, Constant):
            return self.complex(self.multiplied(self.whole(x), self.whole(y)))
        if isinstance(y.im, Constant):
            x, y = y, x
        re = _SUB(_MUL(x.re, y.re), _MUL(x.im, y.im))
        im = _ADD(_MUL(x.re, y.im), _MUL(x.im, y.re))
        if not self.wide:
            return _Number(re, im, re, im)
        turned = self.turned(x.im)
        pair = _ADD(_MUL(x.re, y.pair), _MUL(turned, y.swapped))
        return _Number(re, im, pair, _SUB(_MUL(x.re, y.swapped), _MUL(turned, y.pair)))

    def turned(self, im: Node) -> Node:
        """What the swapped parts of the other factor are multiplied with."""
        if isinstance(im, Constant) and isinstance(im.value, float):
            return self.constant([-im.value, im.value], self.dtype)
        return _MUL(self.constant([-1, 1], self.dtype), im)

    def whole(self, x: _Number) -> Tensor:
        """A value as a tensor."""
        if x.tensor is not None:
            return x.tensor
        shape = np.broadcast_shapes(*(self.inputs[i].shape for i in inputs_of(x.pair)))
        y = self.b.empty(shape[:-1], complex_type(self.dtype))
        store(self.b, x.pair, self.inputs, parts_of(y))
        return y

    def multiplied(self, x: Tensor, z: Tensor) -> Tensor:
        """Emit the product of two tensors."""
        shape = np.broadcast_shapes(x.shape, z.shape)
        y = self.b.empty(shape, x.dtype, order_of([x, z], shape))
        xs, zs = x.expand(shape).strides, z.expand(shape).strides
        self.b.step(
            "complex_mul_f32", flops=6 * y.size, x=x, z=z, y=y, rank=y.ndim, shape=shape, xs=xs, zs=zs, ys=y.strides
        )
        return y

    def quotient(self, x: _Number, y: _Number) -> _Number:
        """Quotient by a real number; what is infinite in one part gives NaN in the other, as it does in products."""
        divisor, im = (v.value if isinstance(v, Constant) else None for v in (y.re, y.im))
        if im != 0 or not isinstance(divisor, float) or not divisor or not math.isfinite(divisor):
            raise _Unknown
        other = _Number(x.im, x.re, x.swapped, x.pair)
        return x.map(lambda a, b: _ADD(_DIV(a, Constant(divisor)), _MUL(Constant(0.0), b)), other)

    def number(self, value: Any) -> _Number:
        """A number, the same for all places."""
        if not isinstance(value, int | float | complex):
            raise _Unknown
        value = complex(value)
        re, im = Constant(value.real), Constant(value.imag)
        if not self.wide:
            return _Number(re, im, re, im)
        pair = self.constant([value.real, value.imag], self.dtype)
        return _Number(re, im, pair, self.constant([value.imag, value.real], self.dtype))

    def joined(self, re: Node, im: Node) -> _Number:
        """The value of two parts."""
        if not self.wide:
            return _Number(re, im, re, im)
        first = self.constant([True, False], np.bool_)
        return _Number(re, im, _WHERE(first, re, im), _WHERE(first, im, re))

    def tensor(self, x: Tensor) -> _Number:
        """A tensor; of a real one the imaginary part is zero."""
        if x.dtype.kind == "c":
            return self.complex(x)
        x = self.b.cast(x, self.dtype)
        return self.joined(self.add(x.unsqueeze(x.ndim) if self.wide else x), Constant(0.0))

    def complex(self, x: Tensor) -> _Number:
        """A complex tensor."""
        parts = parts_of(x)
        if not self.wide:
            re, im = (self.add(parts.select(x.ndim, i)) for i in (0, 1))
            return _Number(re, im, re, im)
        re, im = (self.add(parts.narrow(x.ndim, i, 1)) for i in (0, 1))
        swapped = parts.as_strided(parts.shape, (*parts.strides[:-1], -1), 1) if x.size else parts
        return _Number(re, im, self.add(parts), self.add(swapped), x)


def lower_complex(b: Builder, root: Node, inputs: Sequence[Value], value: TensorType, last: bool) -> Tensor | None:
    """Emit a tree whose functions take or give complex numbers; None where its parts do not do and numpy has to."""
    wide = value.dtype.kind == "c"
    name = root.name if isinstance(root, Call) else ""
    dtype = real_type(value.dtype)
    given = [inputs[i] for i in inputs_of(root)]
    tensors = [v for v in given if isinstance(v, Tensor)]
    types = {real_type(x.dtype) for x in tensors if x.dtype.kind == "c"}
    if not (wide or name in _OF_PARTS) or not types <= {dtype} or (not wide and value.dtype != dtype):
        return None
    parts = _Parts(b, inputs, dtype, wide)
    try:
        found = fold(root if wide else root.children[0], parts.visit)
    except _Unknown:
        return None
    if wide and found.tensor is not None:
        return found.tensor
    y = (b.result if last else b.empty)(value.shape, value.dtype, order_of(tensors, value.shape))
    store(b, found.pair if wide else _OF_PARTS[name](found), parts.inputs, parts_of(y) if wide else y)
    return y
