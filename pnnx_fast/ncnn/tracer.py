"""Building a graph of the project's operators while a net of ncnn layers is walked with concrete shapes.

The layer functions call this and see shapes at once, so they decide by rank and size as ncnn does at run time. The
first dimension of every operand is the batch, which ncnn keeps outside of its shapes: a Mat of w, h, c is (n, c, h, w).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir import Attribute, Graph, Operand, Operator
from pnnx_fast.ncnn.option import warn

__all__ = ["Tracer", "dims_of", "number", "shape_of"]


def number(value: float) -> str:
    """Text of a float32 in an expression.

    Examples
    --------
    >>> number(0.5), number(float("-inf"))
    ('0.5', '-inf')
    """
    return repr(float(f"{float(np.float32(value)):.9g}"))


class Tracer:
    """A growing graph.

    Parameters
    ----------
    annotate : callable
        Sets the shapes of an operator's outputs.
    new_only : bool
        Whether caches of keys and values are to give what is new only.

    Examples
    --------
    >>> t = Tracer(lambda op: None)
    >>> x = t.input((1, 3), "f32")
    >>> t.output(t.reshape(x, (3, 1)))
    >>> [op.type for op in t.graph.ops]
    ['pnnx.Input', 'Tensor.reshape', 'pnnx.Output']
    """

    def __init__(self, annotate: Callable[[Operator], None], new_only: bool = False) -> None:
        self.new_only = new_only
        self.graph = Graph()
        self.layer = ""
        self.rounded: dict[tuple[Operand, float], Operand] = {}
        """Operands rounded to int8, by what they were rounded from and the scale."""
        self.dynamic: dict[tuple[Operand, tuple[int, ...]], tuple[Operand, Operand]] = {}
        """Operands rounded to int8 with scales found at run time, and the scales; by the original and dimensions."""
        self._annotate = annotate
        self._constants: dict[int, Operand] = {}

    # -- operators ---------------------------------------------------------------------------------------------

    def input(self, shape: Sequence[int], dtype: str) -> Operand:
        """Add an input of the graph."""
        operand = self._operand()
        operand.shape, operand.dtype = tuple(shape), dtype
        self.graph.new_operator("pnnx.Input", f"input_{operand.name}", outputs=[operand])
        return operand

    def output(self, operand: Operand) -> None:
        """Add an output of the graph."""
        self.graph.new_operator("pnnx.Output", f"output_{len(self.graph.ops)}", inputs=[operand])

    def constant(self, attribute: Attribute) -> Operand:
        """Return an operand that holds a weight."""
        known = self._constants.get(id(attribute))
        if known is None:
            known = self.emit("pnnx.Attribute", attrs={"data": attribute})
            known.shape, known.dtype = attribute.shape, attribute.dtype
            self._constants[id(attribute)] = known
        return known

    def emit(
        self,
        type: str,
        *inputs: Operand,
        names: Sequence[str] = (),
        attrs: Mapping[str, Attribute] | None = None,
        **params: Any,
    ) -> Operand:
        """Add an operator with one output."""
        return self.emit_many(type, 1, *inputs, names=names, attrs=attrs, **params)[0]

    def emit_many(
        self,
        type: str,
        count: int,
        *inputs: Operand,
        names: Sequence[str] = (),
        attrs: Mapping[str, Attribute] | None = None,
        **params: Any,
    ) -> list[Operand]:
        """Add an operator with several outputs."""
        outputs = [self._operand() for _ in range(count)]
        op = self.graph.new_operator(
            type,
            f"{self.layer}_{outputs[0].name}",
            inputs=inputs,
            outputs=outputs,
            inputnames=names,
            params={k: v for k, v in params.items() if v is not None},
            attrs=attrs,
        )
        self._annotate(op)
        return outputs

    def _operand(self) -> Operand:
        return self.graph.new_operand(str(self.graph.operand_count))

    # -- what layers do all the time ---------------------------------------------------------------------------

    def expression(self, text: str, *inputs: Operand) -> Operand:
        """Add an element-wise expression of ``@0``, ``@1`` …"""
        return self.emit("pnnx.Expression", *inputs, expr=text)

    def reshape(self, x: Operand, shape: Sequence[int]) -> Operand:
        """Same values in another shape, batch included."""
        if x.shape == tuple(shape):
            return x
        if any(n < 0 for n in shape) or int(np.prod(shape)) != int(np.prod(shape_of(x))):
            raise ShapeError("cannot reshape", expected=list(shape), actual=list(shape_of(x)))
        return self.emit("Tensor.reshape", x, shape=list(shape))

    def permute(self, x: Operand, dims: Sequence[int]) -> Operand:
        """Reordered dimensions, batch included."""
        return x if list(dims) == list(range(len(dims))) else self.emit("Tensor.permute", x, dims=list(dims))

    def cut(self, x: Operand, dim: int, start: int, end: int) -> Operand:
        """Range of a dimension, batch included."""
        if (start, end) == (0, shape_of(x)[dim]):
            return x
        return self.emit("Tensor.slice", x, dim=dim, start=start, end=end, step=1)

    def cast(self, x: Operand, dtype: str = "torch.float") -> Operand:
        """Values in another dtype."""
        return self.emit("Tensor.to", x, dtype=dtype)

    def as_float(self, x: Operand) -> Operand:
        """Values as float32."""
        return x if x.dtype == "f32" else self.cast(x)

    def concat(self, parts: Sequence[Operand], dim: int) -> Operand:
        """Joined along a dimension, batch included."""
        return parts[0] if len(parts) == 1 else self.emit("torch.cat", *parts, dim=dim)

    def together(self, *inputs: Operand) -> list[Operand]:
        """The operands with one batch: as in ncnn, those without are repeated for each of the others' images."""
        n = max(shape_of(x)[0] for x in inputs)
        return [
            x if shape_of(x)[0] == n else self.emit("Tensor.expand", x, sizes=[n, *shape_of(x)[1:]]) for x in inputs
        ]

    def flatten(self, x: Operand) -> Operand:
        """All dimensions but the batch as one."""
        shape = shape_of(x)
        return self.reshape(x, (shape[0], int(np.prod(shape[1:]))))

    def with_channels(self, x: Operand) -> Operand:
        """What has no channels as one channel (n, 1, h, w), which ncnn sees in it."""
        n, *rest = shape_of(x)
        return x if len(rest) > 2 else self.reshape(x, (n, 1, *(1,) * (2 - len(rest)), *rest))

    def fitted(self, x: Operand, shape: Sequence[int]) -> Operand:
        """Values of ``x`` in another shape, batch included, also when there are too many or too few of them.

        ncnn does not compare sizes and reads what memory holds; here values are left out, and missing ones are 0.
        """
        have, want = math.prod(shape_of(x)[1:]), math.prod(shape[1:])
        if have == want:
            return self.reshape(x, shape)
        warn(f"layer {self.layer}: {have} values are taken for the {want} of shape {tuple(shape[1:])}")
        flat = self.flatten(x)
        if have > want:
            return self.reshape(self.cut(flat, 1, 0, want), shape)
        return self.reshape(self.emit("F.pad", flat, pad=[0, want - have], mode="constant", value=0.0), shape)

    def array(self, values: Array) -> Operand:
        """An operand that holds values computed here."""
        return self.constant(Attribute.owning(values))


def shape_of(x: Operand) -> tuple[int, ...]:
    """Shape with the batch.

    Raises
    ------
    ShapeError
        When it depends on data.

    Examples
    --------
    >>> graph = Graph.parse("7767517\\n1 1\\npnnx.Input in 0 1 x #x=(1,3,8)f32\\n")
    >>> shape_of(graph.operand("x")), dims_of(graph.operand("x"))
    ((1, 3, 8), 2)
    """
    if x.shape is None:
        raise ShapeError("the shape depends on data", operand=x.name)
    return x.shape


def dims_of(x: Operand) -> int:
    """Number of ncnn's dimensions."""
    return len(shape_of(x)) - 1
