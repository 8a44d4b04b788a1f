"""pnnx.Expression: an expression of the function table, run by the expression VM or else by numpy.

`lower_expression` is the one way from an expression to steps; the element-wise operators with names of their own
(`element_functions`) go through it, too. Which function means what is the table's business
(`pnnx_fast.expression.functions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from pnnx_fast._core.program import MAX_INS, MAX_OPERATIONS, MAX_RANK
from pnnx_fast._types import Array, DType, Shape
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import Call, Constant, Input, ListNode, Node, evaluate, is_word, parse
from pnnx_fast.expression.apply import apply, signature_of
from pnnx_fast.expression.compile import (
    Code,
    common_type,
    compile_expression,
    computed_in,
    operand_type,
)
from pnnx_fast.expression.functions import FUNCTIONS, Function
from pnnx_fast.expression.rules import Signature
from pnnx_fast.expression.tree import fold, inputs_of
from pnnx_fast.expression.types import TORCH_DTYPES, TensorType
from pnnx_fast.ir import Operator
from pnnx_fast.ops._gate import gate
from pnnx_fast.ops.registry import only_tensor, operator
from pnnx_fast.ops.symbolic import Builder, Order, Tensor, Value, is_channels_last, merge_dims

__all__ = ["intermediate", "lower_expression", "order_of", "store"]

# A part that broadcasts is computed once, in a step of its own, when that saves at least this much.
_SMALLER, _WORTH = 4, 4096

_BOOL = np.dtype(np.bool_)


def lower_expression(b: Builder, expression: Node | str, inputs: Sequence[Value], *, temporary: bool = False) -> Value:
    """Emit the steps of an expression and return its value.

    Parameters
    ----------
    b : Builder
    expression : Node or str
    inputs : sequence
        Value of ``@i`` at place i: a Tensor, a Python number, or a list of numbers.
    temporary : bool
        Whether the value is not the result of the operator that is being lowered.

    Returns
    -------
    Tensor, number, list or None
        Numbers stay Python numbers: they are computed here and now.
    """
    root = _parse(expression) if isinstance(expression, str) else expression
    if isinstance(root, ListNode):
        return [lower_expression(b, item, inputs, temporary=temporary) for item in root.children]
    if isinstance(root, Input) and root.index < len(inputs):
        return inputs[root.index]
    number = _whole_number(root, inputs)
    if number is not None:
        return number
    types = tuple(tuple(v) if isinstance(v, list) else _type_of(v) for v in inputs)
    constant = tuple(isinstance(v, Tensor) and v.is_constant for v in inputs)
    code = _single_step(root, types, constant, tuple(None if isinstance(v, Tensor) else repr(v) for v in inputs))
    if code is not None:
        return _Pieces(b, inputs).step(code, root, last=not temporary)
    value = evaluate(root, [_type_of(v) for v in inputs])
    return _Pieces(b, inputs).lower(root, last=not temporary) if isinstance(value, TensorType) else value


def _whole_number(root: Node, inputs: Sequence[Value]) -> int | None:
    """The number that a cast to one gives, where it is known already: sizes are computed with tensors, too."""
    if not isinstance(root, Call) or root.name != "int":
        return None
    given = [v.numpy() if isinstance(v, Tensor) and v.is_constant and not v.ndim else _type_of(v) for v in inputs]
    value = evaluate(root, given)
    return int(value) if isinstance(value, np.ndarray) and not value.ndim else None


def intermediate(b: Builder, expression: str, *inputs: Value) -> Tensor:
    """Emit the steps of an expression whose value is a tensor that later steps of the same operator read."""
    result = lower_expression(b, expression, inputs, temporary=True)
    assert isinstance(result, Tensor)
    return result


def store(b: Builder, expression: Node | str, inputs: Sequence[Value], y: Tensor) -> None:
    """Emit the steps of an expression whose value goes to a tensor of the operator's, such as a part of its result."""
    root = _parse(expression) if isinstance(expression, str) else expression
    pieces = _Pieces(b, inputs, y)
    value = inputs[root.index] if isinstance(root, Input) else pieces.lower(root, last=True)
    if value is not y:
        b.copy(b.cast(value, y.dtype).expand(y.shape), y)


_parse = lru_cache(maxsize=1024)(parse)


@lru_cache(maxsize=4096)
def _single_step(
    root: Node, types: tuple[Any, ...], constant: tuple[bool, ...], spelled: tuple[str | None, ...]
) -> Code | None:
    """Code of an expression that is one native step as it stands, else None. Models repeat shapes and expressions.

    Numbers among the operands are spelled, too, because 1, 1.0 and True are equal keys.
    What is wrong with an expression is left to its evaluation, which tells the place.
    """
    try:
        part = fold(root, _Whole(types, constant).visit)
        return compile_expression(root, types) if part.computes and isinstance(part.value, TensorType) else None
    except (_NeedsPieces, ExpressionError):
        return None


def _type_of(value: Value) -> Any:
    return TensorType(value.dtype, value.shape) if isinstance(value, Tensor) else value


class _Part:
    """A subtree as it is to be computed: its node over the inputs so far, and what that takes.

    ``computes`` is the type in which the VM computes it, bool for any, None where numpy does.
    """

    __slots__ = ("computes", "node", "operations", "value")

    def __init__(self, node: Node, value: Any, computes: DType | None, operations: int) -> None:
        self.node, self.value, self.computes, self.operations = node, value, computes, operations

    @property
    def size(self) -> int:
        return int(np.prod(self.value.shape)) if isinstance(self.value, TensorType) else 0


class _NeedsPieces(Exception):
    """An expression is not one step."""


class _Whole:
    """Finds whether a tree is one step, and where it has to be cut if not."""

    def __init__(self, types: Sequence[Any], is_constant: Sequence[bool]) -> None:
        self.types = list(types)
        self.is_constant = list(is_constant)

    def visit(self, node: Node, parts: list[_Part]) -> _Part:
        if isinstance(node, Constant):
            return _Part(node, node.value, _BOOL, 0)
        if isinstance(node, Input):
            if node.index >= len(self.types):
                raise ExpressionError(f"@{node.index} is used, but there are {len(self.types)} inputs")
            return _Part(node, self.types[node.index], _BOOL, 0)
        if isinstance(node, ListNode):
            return _Part(ListNode([p.node for p in parts]), [p.value for p in parts], None, 0)
        assert isinstance(node, Call)
        function = FUNCTIONS[node.name]
        values = [p.value for p in parts]
        value = apply(function, values)
        if not isinstance(value, TensorType):
            return _Part(node if isinstance(value, list | np.ndarray) else Constant(value), value, _BOOL, 0)
        arguments = function.complete(values)
        signature = signature_of(function, arguments)[0]
        computes = computed_in(function, arguments, signature)
        if computes is not None:
            beside = bool(value.shape)
            parts = [self.convert(p, function, i, computes, signature, beside) for i, p in enumerate(parts)]
            if computes == _BOOL:
                computes = common_type([p.computes for p in parts if p.operations])
        size = int(np.prod(value.shape))
        parts = [self.cut(p, node, computes, size) for p in parts]
        parts = self.within_limits(parts)
        return _Part(node.rebuilt(tuple(p.node for p in parts)), value, computes, 1 + sum(p.operations for p in parts))

    def convert(
        self, part: _Part, function: Function, index: int, computes: DType, signature: Signature, beside: bool
    ) -> _Part:
        """A part in a type that the VM takes."""
        if not isinstance(part.value, TensorType):
            return part
        dtype = operand_type(function, index, part.value, computes, signature, beside)
        return part if dtype == part.value.dtype else self.cast(part, dtype)

    def cast(self, part: _Part, dtype: DType) -> _Part:
        raise _NeedsPieces

    def cut(self, part: _Part, user: Node, computes: DType | None, size: int) -> _Part:
        """Separate a part that its user computes elsewhere, that is small beside it, or that alone is constant."""
        if part.operations == 0:
            return part
        smaller = size >= _WORTH and part.size * _SMALLER <= size
        elsewhere = part.computes != computes and (None in (part.computes, computes) or part.computes != _BOOL)
        if smaller or elsewhere or (self.constant(part.node) and not self.constant(user)):
            return self.separate(part)
        return part

    def constant(self, node: Node) -> bool:
        """Whether the value of a part does not depend on inputs of the model."""
        return all(self.is_constant[i] for i in inputs_of(node) if isinstance(self.types[i], TensorType))

    def within_limits(self, parts: list[_Part]) -> list[_Part]:
        while True:
            inputs = set().union(*(inputs_of(p.node) for p in parts))
            if len(inputs) <= MAX_INS and sum(p.operations for p in parts) < MAX_OPERATIONS:
                return parts
            largest = max(parts, key=lambda p: (p.operations > 0, len(inputs_of(p.node)), p.operations))
            parts = [self.separate(p) if p is largest else p for p in parts]

    def separate(self, part: _Part) -> _Part:
        raise _NeedsPieces


class _Pieces(_Whole):
    """Cuts a tree into pieces that are one step each, and emits the steps."""

    def __init__(self, b: Builder, inputs: Sequence[Value], target: Tensor | None = None) -> None:
        super().__init__([_type_of(v) for v in inputs], [isinstance(v, Tensor) and v.is_constant for v in inputs])
        self.b = b
        self.target = target
        """Where the value of the whole expression goes."""
        self.inputs = list(inputs)
        self.converted: dict[tuple[Node, DType], _Part] = {}

    def lower(self, root: Node, last: bool) -> Tensor:
        return self.emit(fold(root, self.visit), last)

    def separate(self, part: _Part) -> _Part:
        if not self.constant(part.node):
            return self.add(self.emit(part, last=False))
        given = [v.numpy() if isinstance(v, Tensor) and v.is_constant else v for v in self.inputs]
        return self.add(self.b.constant(np.asarray(evaluate(part.node, given))))

    def add(self, value: Tensor) -> _Part:
        """A further input."""
        self.inputs.append(value)
        self.types.append(_type_of(value))
        self.is_constant.append(value.is_constant)
        return _Part(Input(len(self.inputs) - 1), _type_of(value), _BOOL, 0)

    def cast(self, part: _Part, dtype: DType) -> _Part:
        part = self.separate(part) if part.operations else part
        assert isinstance(part.node, Input)
        key = part.node, dtype
        if key not in self.converted:
            self.converted[key] = self.add(self.b.cast(self.inputs[part.node.index], dtype))
        return self.converted[key]

    def emit(self, part: _Part, last: bool) -> Tensor:
        if part.computes is not None:
            code = compile_expression(part.node, self.types)
            if code is not None:
                return self.step(code, part.node, last)
        node = part.node
        if isinstance(node, Call) and node.name in TORCH_DTYPES and isinstance(node.children[0], Input):
            x: Tensor = self.inputs[node.children[0].index]
            if "c" not in (x.dtype.kind, part.value.dtype.kind):
                return self.b.cast(x, part.value.dtype)
        found = self.complex(part, last)
        return self.host(part) if found is None else found

    def complex(self, part: _Part, last: bool) -> Tensor | None:
        """Complex numbers by their parts; None where these do not do."""
        types = [self.types[i] for i in inputs_of(part.node)]
        kinds = {t.dtype.kind for t in (part.value, *types) if isinstance(t, TensorType)}
        if "c" not in kinds or len(part.value.shape) >= MAX_RANK:
            return None
        from pnnx_fast.ops._complex import lower_complex  # few models have any

        return lower_complex(self.b, part.node, self.inputs, part.value, last)

    def host(self, part: _Part) -> Tensor:
        """Evaluate with numpy, in whatever types the expression has."""
        tensors = {i: self.inputs[i] for i in inputs_of(part.node) if isinstance(self.inputs[i], Tensor)}
        values = list(self.inputs)

        def run(*arrays: Array) -> Array:
            given: list[Any] = [None if isinstance(v, Tensor) else v for v in values]
            for index, array in zip(tensors, arrays, strict=True):
                given[index] = array
            result = evaluate(part.node, given)
            assert isinstance(result, np.ndarray)
            return result

        return self.b.host(run, list(tensors.values()), [(part.value.shape, part.value.dtype)])[0]

    def step(self, code: Code, node: Node, last: bool) -> Tensor:
        operands = [self.inputs[i] for i in code.inputs]
        if len(code.operations) == 1 and code.operations[0][0] == "copy" and operands[0].dtype == code.result.dtype:
            whole: Tensor = operands[0].expand(code.result.shape)
            return whole
        gated = gate(self.b, node, self.inputs, last)
        if gated is not None:
            return gated
        result = code.result
        order = order_of(operands, result.shape)
        y = self.target if last else None
        if y is None or (y.shape, y.dtype) != (result.shape, result.dtype):
            y = (self.b.result if last else self.b.empty)(result.shape, result.dtype, order)
        strides = [y.strides, *(x.expand(result.shape).strides for x in operands)]
        shape, (ys, *xs) = _merge(result.shape, strides)
        if len(shape) > MAX_RANK:
            return self.host(_Part(node, result, None, 0))
        words = code.words([(x.dtype, s) for x, s in zip(operands, xs, strict=True)])
        key = ("expression", words.tobytes())
        same = next((x for x in operands if x.strides == y.strides and x.shape == y.shape and x.dtype == y.dtype), None)
        self.b.step(
            "expression",
            flops=len(code.operations) * y.size,
            label=str(node)[:60] if node.size < 64 else code.operations[-1][0],
            inplace=None if same is None or same.is_constant else (y, same),
            x=tuple(operands),
            y=y,
            code=self.b.cached(key, lambda: words),
            rank=len(shape),
            shape=shape,
            ys=ys,
        )
        return y


def order_of(operands: Sequence[Tensor], shape: Sequence[int]) -> Order:
    """Memory order of the result: that of an operand of its shape, a channels-last one if there is one."""
    full = [
        x for x in operands if x.shape == shape and all(s or n == 1 for s, n in zip(x.strides, x.shape, strict=True))
    ]
    if not full:
        return "plain"
    best: Tensor = min(full, key=lambda x: (x.is_constant, not is_channels_last(x)))
    return best


def _merge(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[Shape, list[Shape]]:
    """Drop dimensions of size one, sort by the strides of the first tensor, merge neighbours that all tensors allow."""
    columns = sorted(((n, *s) for n, *s in zip(shape, *strides, strict=True) if n != 1), key=lambda c: -c[1])
    if not columns:
        return (1,), [(1,)] * len(strides)
    sizes, *rest = zip(*columns, strict=True)
    return merge_dims(sizes, *rest)


def _has_no_sizes(op: Operator, rows: int) -> bool:
    """Whether an expression has no lists and no sizes in it."""
    text = str(op.params["expr"].value)
    return not any(word in text for word in ("[", "size", "shape"))


@operator("pnnx.Expression", rows=_has_no_sizes)
def expression(b: Builder, *inputs: Any, expr: Any) -> Value:
    """Value of an expression over the inputs: a tensor, a number or a list; a lone word stands for itself."""
    text = str(expr)
    if not inputs and is_word(text):
        return text
    return lower_expression(b, text, [only_tensor(v) for v in inputs])
