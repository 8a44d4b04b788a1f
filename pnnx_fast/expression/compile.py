"""Compiles an expression that computes in one type to code of the expression VM.

Used by the element-wise operators. The result is plain data; memory, strides and kernels are the caller's
business, and so are conversions to that type and the size of an expression (`MAX_INS`, `MAX_OPERATIONS`). Half
precision is computed in float32 and rounded after every function, as PyTorch has it. What the VM lacks is not
compiled: the caller has numpy evaluate it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from pnnx_fast._core.program import MAX_RANK, codes
from pnnx_fast._types import DType
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression.apply import MADE_OF_OTHERS, apply, keeps_numbers, signature_of
from pnnx_fast.expression.functions import FUNCTIONS, Function
from pnnx_fast.expression.opcodes import FIRST, OF_TYPE, OPCODES, SECOND, TYPES
from pnnx_fast.expression.rules import Signature
from pnnx_fast.expression.tree import Call, Constant, Input, Node, fold
from pnnx_fast.expression.types import TensorType, Value, convert

__all__ = ["Code", "common_type", "compile_expression", "computed_in", "operand_type"]

_OPERANDS = codes("operand")
_FLOAT32, _FLOAT16, _BOOL = np.dtype(np.float32), np.dtype(np.float16), np.dtype(np.bool_)
# What arithmetic on bool is, where PyTorch allows it.
_ON_BOOL = {
    "add": "logical_or",
    "maximum": "logical_or",
    "mul": "logical_and",
    "minimum": "logical_and",
    "sign": "copy",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
    "bitwise_not": "logical_not",
}
_OF_TRUTH = {"to_bool", "logical_and", "logical_or", "logical_xor", "logical_not"}
_SAME_ON_BOOL = _OF_TRUTH | {"copy", "where", "eq", "ne", "lt", "le", "gt", "ge", "isnan", "isinf", "isfinite"}
# What leaves integers as they are.
_ROUNDS = {"floor", "ceil", "round", "trunc"}
# What these make of numbers of half precision needs no rounding.
_EXACT_ON_HALF = {
    "half", "copy", "abs", "neg", "sign", "floor", "ceil", "round", "trunc", "relu", "relu6", "maximum", "minimum",
    "at_least", "at_most", "clamp", "clip", "where",
}  # fmt: skip


class Code:
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
    computes : dtype
        In which type.
    """

    __slots__ = ("computes", "constants", "inputs", "operations", "registers", "result")

    def __init__(
        self,
        inputs: tuple[int, ...],
        constants: tuple[float, ...],
        registers: int,
        operations: tuple[tuple[str, int, int, int, int], ...],
        result: TensorType,
        computes: DType,
    ) -> None:
        self.inputs, self.constants, self.registers = inputs, constants, registers
        self.operations, self.result, self.computes = operations, result, computes

    def words(self, operands: Sequence[tuple[DType, Sequence[int]]]) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The code as the kernel reads it; ``operands`` gives for each its dtype and its strides."""
        words = [
            len(self.inputs),
            len(self.constants),
            self.registers,
            len(self.operations),
            TYPES[self.computes.name],
            self.kind(self.result.dtype),
        ]
        for dtype, strides in operands:
            words += [self.kind(dtype), *strides, *[0] * (MAX_RANK - len(strides))]
        words += [int.from_bytes(_bits(c, self.computes), "little", signed=True) for c in self.constants]
        for name, *numbers in self.operations:
            words += [OPCODES[name], *numbers]
        return np.array(words, np.int64)

    def kind(self, dtype: DType) -> int:
        """What an operand or the result is to the kernel."""
        if dtype == self.computes or self.computes == np.uint8:
            return _OPERANDS["own"]
        return _OPERANDS["bool" if dtype == _BOOL else "half"]


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


def computed_in(function: Function, arguments: Sequence[Any], signature: Signature) -> DType | None:
    """The type in which the VM computes this call just as the table defines it; bool where any will do.

    None where it does not. Operands must be of the types that :func:`operand_type` tells.
    """
    compute, result = signature.compute, signature.result
    if function.opcode is None:
        return None
    if function.opcode == "bfloat16":
        return _FLOAT32 if compute.kind != "c" else None
    if compute == _BOOL:
        if function.opcode in _OF_TRUTH:
            types = {_wide(a.dtype) for a in arguments if isinstance(a, TensorType)} - {_BOOL}
            wide = types.pop() if len(types) == 1 else _BOOL
            return wide if wide == _BOOL or wide.name in TYPES else None
        if function.opcode not in _SAME_ON_BOOL and function.opcode not in _ON_BOOL:
            return None
        return _BOOL if result == _BOOL else _result_type(result)
    wide = _wide(compute)
    if wide.name not in TYPES or _wide(result) not in (wide, _BOOL):
        return None
    if function.opcode == "pow" and wide.kind in "iu":
        return wide if type(arguments[1]) is int and 1 <= arguments[1] <= 3 else None
    name = "copy" if wide.kind in "iu" and function.opcode in _ROUNDS else function.opcode
    return wide if name in OF_TYPE[wide.name] else None


def _wide(dtype: DType) -> DType:
    return _FLOAT32 if dtype == _FLOAT16 else dtype


def _result_type(result: DType) -> DType | None:
    """The type in which a cast of bool is made."""
    return _wide(result) if _wide(result).name in TYPES else None


def operand_type(
    function: Function, index: int, given: TensorType, computes: DType, signature: Signature, beside: bool = True
) -> DType:
    """The type that an operand needs to have beforehand, which is its own one where the VM takes that.

    ``beside``: whether the result has dimensions, so that operands without any do not tell its type.
    """
    if signature.compute == _FLOAT16 and given.dtype not in (_FLOAT16, _BOOL) and index != function.mask:
        return computes if beside and not given.shape and keeps_numbers(function, index) else _FLOAT16
    if given.dtype in (computes, _BOOL) or (given.dtype == _FLOAT16 and computes == _FLOAT32):
        return given.dtype
    return _BOOL if index == function.mask or (signature.compute == _BOOL and computes == _BOOL) else computes


def common_type(types: Sequence[DType | None]) -> DType | None:
    """The first type that is not bool, which is computed in any."""
    return next((t for t in types if t is not None and t != _BOOL), _BOOL)


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
    if compiler.computes == _BOOL:
        compiler.computes = _wide(value.type.dtype) if value.type.dtype != _BOOL else np.dtype(np.uint8)
        if compiler.computes.name not in TYPES:
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
        self.computes: DType = _BOOL
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
        parts = MADE_OF_OTHERS.get(function.name) if signature.compute == _FLOAT16 else None
        if parts is not None:
            return parts(lambda name, *others: self.call(FUNCTIONS[name], list(others)), values[0])
        computes = computed_in(function, arguments, signature)
        if computes is None or (computes != _BOOL and self.computes not in (computes, _BOOL)):
            raise _NotNative
        self.computes = computes if computes != _BOOL else self.computes
        for i, a in enumerate(arguments):
            if isinstance(a, TensorType) and operand_type(function, i, a, computes, signature) != a.dtype:
                raise _NotNative
        assert function.opcode is not None
        name = _ON_BOOL.get(function.opcode, function.opcode) if signature.compute == _BOOL else function.opcode
        given = [self.source(function, i, s, signature) for i, s in enumerate(function.complete(values))]
        if function.name == "masked_fill":
            given = [given[1], given[2], given[0]]
        ref = self.simplify(name, given, result)
        if result.dtype != _FLOAT16 or ref.is_input or self.operations[ref.index].name in _EXACT_ON_HALF:
            return ref
        return self.emit("half", [ref], result)

    def source(self, function: Function, index: int, value: Any, signature: Signature) -> Any:
        """A value as an operand: numbers as the type in which they are taken."""
        if value is None or isinstance(value, _Ref):
            return value
        if signature.compute == _BOOL:
            return bool(value)
        if signature.compute.kind in "iu":
            return int(value)
        if signature.compute == _FLOAT16 and not keeps_numbers(function, index):
            with np.errstate(over="ignore"):
                return float(np.float16(value))
        return float(value)

    def simplify(self, name: str, sources: list[Any], type: TensorType) -> Any:
        """Cheaper forms of the same function where operands are constants or absent."""
        x = sources[0]
        if isinstance(x, _Ref) and (name == "copy" or (name in _ROUNDS and type.dtype.kind in "iu")):
            return _Ref(x.index, x.is_input, type)
        if name == "rsub":
            name, sources = "sub", [sources[1], x]
        if name == "pow" and isinstance(x, _Ref) and not isinstance(sources[1], _Ref):
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
            return self.emit("mul", [self.emit("mul", [x, x], type), x], type)
        return self.emit("pow", [x, exponent], type)

    def emit(self, name: str, sources: list[_Source], type: TensorType) -> _Ref:
        for source in sources:
            if isinstance(source, _Ref) and not source.is_input:
                self.operations[source.index].uses += 1
        self.operations.append(_Operation(name, sources, type))
        return _Ref(len(self.operations) - 1, False, type)

    def finish(self, root: _Ref) -> Code:
        result = root.type
        last = self.operations[root.index]
        if last.name == "half" and isinstance(last.sources[0], _Ref) and not last.sources[0].is_input:
            root = last.sources[0]  # storing rounds, too
        self.operations[root.index].uses += 1
        if self.computes == _FLOAT32:
            for operation in self.operations:
                self.join(operation)
                self.pair(operation)
        live = self.reachable(root)
        used = {s.index for o in live for s in self.operations[o].sources if isinstance(s, _Ref) and s.is_input}
        return self.allocate(live, sorted(used), root, result)

    def join(self, second: _Operation) -> None:
        """Give an operation that one operation does together with what feeds it that name."""
        source = second.sources[1 if second.name == "sub" else 0]
        if not isinstance(source, _Ref) or source.is_input:
            return
        first = self.operations[source.index]
        if (first.name, second.name) == ("isnan", "where"):
            second.name, second.sources = "where_nan", [*first.sources, *second.sources[1:]]
            self.join_limits(second)
        elif (first.name, second.name) == ("trunc", "sub") and self.same(first.sources[0], second.sources[0]):
            second.name, second.sources = "frac", first.sources

    def join_limits(self, choice: _Operation) -> None:
        """Let a choice of a number for NaN limit the others, too, if these are symmetric limits of the same value."""
        x, number, other = choice.sources
        if isinstance(other, _Ref) and not other.is_input:
            limited, *limits = self.operations[other.index].sources
            if self.operations[other.index].name != "clip" or not self.same(limited, x):
                return
            low, high = limits
            if not isinstance(low, _Ref) and not isinstance(high, _Ref) and low == -high:
                choice.name, choice.sources = "number_within", [x, number, high]

    @staticmethod
    def same(a: _Source, b: _Source) -> bool:
        """Whether two operands are one value."""
        if not isinstance(a, _Ref) or not isinstance(b, _Ref):
            return False
        return (a.index, a.is_input) == (b.index, b.is_input)

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

    def allocate(self, live: list[int], inputs: list[int], root: _Ref, result: TensorType) -> Code:
        """Give registers to values; one is free again after the last use of its value."""
        last = {s.index: o for o in live for s in self.operations[o].sources if isinstance(s, _Ref) and not s.is_input}
        constants: dict[bytes, float] = {}
        for source in (s for o in live for s in self.operations[o].sources if not isinstance(s, _Ref)):
            constants.setdefault(_bits(source, self.computes), source)
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
                if not isinstance(s, _Ref):
                    numbers.append(place[_bits(s, self.computes)])
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
            a, b, c = [*numbers, *numbers[:1] * 2][:3]  # absent operands are read nowhere
            operations.append((operation.name, base + target, a, b, c))
        return Code(tuple(inputs), tuple(constants.values()), count, tuple(operations), result, self.computes)


def _is_bound(source: _Source | None) -> bool:
    return source is not None and not isinstance(source, _Ref) and not math.isnan(source)


def _bits(value: float, dtype: DType) -> bytes:
    with np.errstate(over="ignore"):
        return convert(np.asarray(value), dtype).tobytes()
