"""Compiles an expression over float32 and bool operands to code of the expression VM.

Used by the element-wise operators. The result is plain data; memory, strides and kernels are the caller's
business. An expression that computes in any other type is not compiled: the caller has numpy evaluate it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression.apply import apply, signature_of
from pnnx_fast.expression.functions import FUNCTIONS, Function
from pnnx_fast.expression.opcodes import FIRST, OPCODES, SECOND
from pnnx_fast.expression.rules import Signature
from pnnx_fast.expression.tree import Call, Constant, Input, Node, fold
from pnnx_fast.expression.types import TensorType, Value

__all__ = ["MAX_INPUTS", "MAX_OPERATIONS", "Code", "compile_expression", "runs_natively"]

#: Most operands and operations of one piece of code; a larger expression is cut up by the caller.
MAX_INPUTS, MAX_OPERATIONS = 16, 40

_FLOAT32, _BOOL = np.dtype(np.float32), np.dtype(np.bool_)
# What arithmetic on bool is, where PyTorch allows it.
_ON_BOOL = {
    "add": "logical_or",
    "maximum": "logical_or",
    "mul": "logical_and",
    "minimum": "logical_and",
    "sign": "copy",
}
_SAME_ON_BOOL = {"copy", "to_bool", "where", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"}
_SAME_ON_BOOL |= {"logical_and", "logical_or", "logical_xor", "logical_not"}


class Code(NamedTuple):
    """Code of the VM.

    Attributes
    ----------
    inputs : tuple of int
        Which inputs of the expression are the operands, in order.
    constants : tuple of float
    registers : int
        Tiles needed for intermediate values.
    operations : tuple of (name, destination, three sources)
        Sources number operands, then constants, then registers; unused ones are 0.
    result : TensorType
    """

    inputs: tuple[int, ...]
    constants: tuple[float, ...]
    registers: int
    operations: tuple[tuple[str, int, int, int, int], ...]
    result: TensorType

    def words(self, operands: Sequence[tuple[bool, Sequence[int]]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The code as the kernel reads it; ``operands`` gives for each whether it is bool, and its
        strides.
        """
        words = [
            len(self.inputs),
            len(self.constants),
            self.registers,
            len(self.operations),
            self.result.dtype == _BOOL,
        ]
        for is_bool, strides in operands:
            words += [is_bool, *strides, *[0] * (8 - len(strides))]
        with np.errstate(over="ignore"):
            words += np.array(self.constants, np.float32).view(np.int32).tolist()
        for name, *numbers in self.operations:
            words += [OPCODES[name], *numbers]
        return np.array(words, np.int64)


class _Ref:
    """Value of an input (``index`` counts inputs) or of an operation."""

    __slots__ = ("index", "is_input", "type")

    def __init__(self, index: int, is_input: bool, type: TensorType) -> None:
        self.index, self.is_input, self.type = index, is_input, type


_Source: TypeAlias = "_Ref | float"


class _Operation:
    __slots__ = ("name", "sources", "type", "uses")

    def __init__(self, name: str, sources: list[_Source], type: TensorType) -> None:
        self.name, self.sources, self.type, self.uses = name, sources, type, 0


def runs_natively(function: Function, arguments: Sequence[Any], signature: Signature) -> bool:
    """Whether the VM computes this call exactly as the table defines it."""
    if function.opcode is None or signature.result not in (_FLOAT32, _BOOL):
        return False
    if any(isinstance(a, TensorType) and a.dtype not in (_FLOAT32, _BOOL) for a in arguments):
        return False
    if signature.compute == _BOOL:
        return function.opcode in _SAME_ON_BOOL or function.opcode in _ON_BOOL
    return signature.compute == _FLOAT32


def compile_expression(root: Node, inputs: Sequence[Value]) -> Code | None:
    """Code for an expression whose value is a tensor, or None when it needs types that the VM does not have.

    Parameters
    ----------
    root : Node
    inputs : sequence
        A `TensorType` for each tensor, Python values for the rest.

    Raises
    ------
    ExpressionError
        When types or shapes do not fit.
    """
    compiler = _Compiler(inputs)
    try:
        value = fold(root, compiler.visit)
    except _NotNative:
        return None
    if not isinstance(value, _Ref):
        return None
    if value.is_input or compiler.operations[value.index].type != value.type:
        value = compiler.emit("copy", [value], value.type)
    return compiler.finish(value)


class _NotNative(Exception):
    """A part of the expression needs numpy."""


class _Compiler:
    """Operations in order of their definition, each value defined once."""

    def __init__(self, inputs: Sequence[Value]) -> None:
        self.inputs = inputs
        self.operations: list[_Operation] = []

    def visit(self, node: Node, children: list[Any]) -> Any:
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Input):
            if node.index >= len(self.inputs):
                raise ExpressionError(f"@{node.index} is used, but there are {len(self.inputs)} inputs")
            value = self.inputs[node.index]
            return _Ref(node.index, True, value) if isinstance(value, TensorType) else value
        if not isinstance(node, Call):
            raise _NotNative
        return self.call(FUNCTIONS[node.name], children)

    def call(self, function: Function, values: list[Any]) -> Any:
        known = [v.type if isinstance(v, _Ref) else v for v in values]
        result = apply(function, known)
        if not isinstance(result, TensorType):
            return result
        arguments = function.complete(known)
        signature, _ = signature_of(function, arguments)
        if not runs_natively(function, arguments, signature):
            raise _NotNative
        assert function.opcode is not None
        name = _ON_BOOL.get(function.opcode, function.opcode) if signature.compute == _BOOL else function.opcode
        sources = function.complete(values)
        if function.name == "masked_fill":
            name, sources = "where", [sources[1], sources[2], sources[0]]
        return self.simplify(name, [s if isinstance(s, _Ref) or s is None else float(s) for s in sources], result)

    def simplify(self, name: str, sources: list[Any], type: TensorType) -> Any:
        """Cheaper forms of the same function where operands are constants or absent."""
        x = sources[0]
        if name == "copy" and isinstance(x, _Ref):
            return _Ref(x.index, x.is_input, type)
        if name == "rsub":
            name, sources = "sub", [sources[1], x]
        if name == "pow" and isinstance(x, _Ref) and isinstance(sources[1], float):
            return self.power(x, sources[1], type)
        if name == "clamp":
            low, high = sources[1:]
            if low is None and high is None:
                return _Ref(x.index, x.is_input, type)
            if low is None or high is None:
                name, sources = ("minimum", [x, high]) if low is None else ("maximum", [x, low])
            elif _is_bound(low) and _is_bound(high):
                name = "clip"
        if name in ("maximum", "minimum"):
            if _is_bound(x):
                sources = [sources[1], x]
            if _is_bound(sources[1]) and isinstance(sources[0], _Ref):
                name = "at_least" if name == "maximum" else "at_most"
        return self.emit(name, sources, type)

    def power(self, x: _Ref, exponent: float, type: TensorType) -> _Ref:
        named = {0.5: "sqrt", -0.5: "rsqrt", 1.0: "copy", 2.0: "square", -1.0: "reciprocal"}
        if exponent in named:
            ref: _Ref = self.simplify(named[exponent], [x], type)
            return ref
        if exponent == 3.0:
            return self.emit("mul", [self.emit("square", [x], type), x], type)
        return self.emit("pow", [x, exponent], type)

    def emit(self, name: str, sources: list[_Source], type: TensorType) -> _Ref:
        for source in sources:
            if isinstance(source, _Ref) and not source.is_input:
                self.operations[source.index].uses += 1
        self.operations.append(_Operation(name, sources, type))
        return _Ref(len(self.operations) - 1, False, type)

    def finish(self, root: _Ref) -> Code:
        self.operations[root.index].uses += 1
        for operation in self.operations:
            self.pair(operation)
        live = self.reachable(root)
        used = {s.index for o in live for s in self.operations[o].sources if isinstance(s, _Ref) and s.is_input}
        return self.allocate(live, sorted(used), root)

    def pair(self, second: _Operation) -> None:
        """Merge an operation with the only use of a cheap one that feeds it."""
        name, sources = ("at_least", [*second.sources, 0.0]) if second.name == "relu" else (second.name, second.sources)
        if name not in SECOND:
            return
        for place in (0, 1) if name in ("add", "sub", "mul") else (0,):
            source = sources[place]
            if not isinstance(source, _Ref) or source.is_input:
                continue
            first = self.operations[source.index]
            if first.uses == 1 and first.name in FIRST:
                turned = "rsub" if name == "sub" and place == 1 else name
                second.name = f"{first.name}_{turned}"
                second.sources = [*first.sources, sources[1 - place]]
                return

    def reachable(self, root: _Ref) -> list[int]:
        live, stack = set(), [root.index]
        while stack:
            index = stack.pop()
            if index not in live:
                live.add(index)
                sources = self.operations[index].sources
                stack += [s.index for s in sources if isinstance(s, _Ref) and not s.is_input]
        return sorted(live)

    def allocate(self, live: list[int], inputs: list[int], root: _Ref) -> Code:
        """Give registers to values; one is free again after the last use of its value."""
        last = {s.index: o for o in live for s in self.operations[o].sources if isinstance(s, _Ref) and not s.is_input}
        constants: dict[bytes, float] = {}
        for source in (s for o in live for s in self.operations[o].sources if isinstance(s, float)):
            constants.setdefault(_bits(source), source)
        place = {bits: i for i, bits in enumerate(constants, len(inputs))}
        base = len(inputs) + len(constants)
        register: dict[int, int] = {}
        free: list[int] = []
        count = 0
        operations: list[tuple[str, int, int, int, int]] = []
        for index in live:
            operation = self.operations[index]
            numbers = []
            for s in operation.sources:
                if isinstance(s, float):
                    numbers.append(place[_bits(s)])
                else:
                    numbers.append(inputs.index(s.index) if s.is_input else base + register[s.index])
            ends = {s.index for s in operation.sources if isinstance(s, _Ref) and not s.is_input}
            free += [register[e] for e in ends if last[e] == index]
            if index == root.index:
                target = 0
            elif free:
                target = free.pop()
            else:
                target, count = count, count + 1
            register[index] = target
            a, b, c = [*numbers, 0, 0][:3]
            operations.append((operation.name, base + target, a, b, c))
        return Code(tuple(inputs), tuple(constants.values()), count, tuple(operations), root.type)


def _is_bound(source: _Source | None) -> bool:
    return isinstance(source, float) and not math.isnan(source)


def _bits(value: float) -> bytes:
    with np.errstate(over="ignore"):
        return np.float32(value).tobytes()
