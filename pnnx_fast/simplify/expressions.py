"""Numbers in a graph: operands that are literals, expressions over literals, and sizes that shapes record.

PNNX writes numbers as ``pnnx.Expression`` operators without inputs until they have become parameters. This module turns
scalar operators into expressions, evaluates what is known, and moves literals to where they are used. The other modules
ask it what an operand is worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import (
    FUNCTIONS,
    Call,
    Constant,
    Input,
    ListNode,
    Node,
    evaluate,
    inputs_of,
    substitute,
)
from pnnx_fast.expression.tree import fold
from pnnx_fast.ir import Graph, Operand, Operator, Parameter
from pnnx_fast.ir.literals import MISSING, expression, literal
from pnnx_fast.passes.moves import become_expression
from pnnx_fast.simplify.table import simplification

__all__ = ["set_expression", "sizes"]

MAX_SIZE = 256
"""Nodes of the largest expression that others are merged into; one that reads another twice doubles it."""


def sizes(x: Operand) -> tuple[int, ...] | None:
    """Sizes of an operand when all of them are recorded and fixed."""
    return None if x.shape is None or any(d < 0 for d in x.shape) else x.shape


def set_expression(op: Operator, node: Node, operands: Sequence[Operand]) -> None:
    """Make an operator the expression `node` over those of `operands` that it uses."""
    used = sorted(inputs_of(node))
    kept = list(dict.fromkeys(operands[i] for i in used))
    node = substitute(node, {i: Input(kept.index(operands[i])) for i in used})
    become_expression(op, str(node), kept)


# -- Scalars become expressions ---------------------------------------------------------------------------------------

_SAME = ("aten::ScalarImplicit", "prim::NumToTensor", "aten::IntImplicit")


def _as_node(op: Operator) -> Node | None:
    """The expression that a scalar operator or an arithmetic one of ATen is, over its inputs."""
    places = [Input(i) for i in range(len(op.inputs))]
    if op.type == "prim::Constant":
        value = op.value("value")
        if isinstance(value, list):
            numbers = all(isinstance(v, int | float) for v in value)
            return ListNode(tuple(Constant(v) for v in value)) if numbers else None
        return None if isinstance(value, str) else Constant(value)
    if op.type in _SAME and len(op.inputs) == 1:
        return places[0]
    if op.type == "aten::Int" and len(op.inputs) == 1:
        return Call("int", places)
    if op.type in ("Tensor.size", "aten::size"):
        dim = op.value("dim") if "dim" in op.params else literal(op.inputs[1]) if len(op.inputs) == 2 else None
        return Call("size", [places[0], Constant(dim)]) if isinstance(dim, int) else None
    if op.type == "prim::ListConstruct" and op.inputs and all(_is_scalar(x) for x in op.inputs):
        return ListNode(tuple(places))
    name = op.type.removeprefix("aten::")
    if name == op.type or name not in FUNCTIONS or op.params or op.attrs:
        return None
    if name in ("add", "sub", "rsub") and len(places) == 3:
        alpha = literal(op.inputs[2])
        scaled = places[1] if alpha == 1 else Call("mul", [places[1], places[2]])
        return Call(name, [places[0], scaled]) if name != "rsub" or alpha == 1 else None
    function = FUNCTIONS[name]
    return Call(name, list(places)) if function.least <= len(places) <= function.most else None


def _is_scalar(x: Operand) -> bool:
    """Whether an operand is a number rather than a tensor."""
    if x.shape is not None:
        return False
    op = x.producer
    if op is None:
        return False
    if op.type in (*_SAME, "aten::Int", "prim::Constant", "Tensor.size", "aten::size"):
        return True
    node = expression(op)
    return node is not None and not isinstance(node, ListNode)


@simplification(3)
def fuse_expression(graph: Graph) -> int:
    """Scalar and arithmetic operators become expressions, and expressions that feed one another merge."""
    count = 0
    for op in list(graph.topological()):
        node = _as_node(op) if len(op.outputs) == 1 and op.type != "pnnx.Expression" else None
        if node is not None:
            set_expression(op, node, op.inputs)
            count += 1
    count += _merge(graph)
    if count:
        graph.dead_code_elimination()
    return count


def _merge(graph: Graph) -> int:
    count = 0
    for op in list(graph.topological()):
        node = expression(op)
        if node is None:
            continue
        for x in list(op.inputs):
            inner = expression(x.producer)
            if inner is None or x.producer is None or not op.inputs:
                continue
            alone = all(c is op for c in x.consumers)
            if isinstance(inner, ListNode) or not (alone or (_is_scalar(x) and inner.size <= 3)):
                continue
            operands = [*op.inputs, *x.producer.inputs]
            shift = {i: Input(len(op.inputs) + i) for i in range(len(x.producer.inputs))}
            moved = substitute(inner, shift)
            merged = substitute(node, {i: moved for i, y in enumerate(op.inputs) if y is x})
            if merged.size > MAX_SIZE:
                continue
            producer = x.producer
            set_expression(op, merged, operands)
            node = expression(op)
            assert node is not None
            if not x.consumers:
                graph.remove_operator(producer)
            count += 1
    return count


@simplification(3)
def fuse_index_expression(graph: Graph) -> int:
    """Tensor.index takes the list of its indices as an expression."""
    count = 0
    for op in list(graph.ops):
        if op.type != "Tensor.index" or len(op.inputs) != 2 or "expr" in op.params:
            continue
        indices = op.inputs[1]
        producer = indices.producer
        if producer is None or producer.type not in ("prim::ListConstruct", "pnnx.Expression"):
            continue
        parts = list(producer.inputs)
        words = {i: literal(x) for i, x in enumerate(parts)}
        kept = [x for i, x in enumerate(parts) if words[i] is MISSING]
        node = expression(producer)
        text = (
            str(node)
            if node is not None
            else "["
            + ",".join(f"@{kept.index(x) + 1}" if words[i] is MISSING else str(words[i]) for i, x in enumerate(parts))
            + "]"
        )
        if kept and (node is not None or len(parts) > 1):  # only a lone index can stand in the place of its list
            continue
        op.remove_input(1)
        op.inputnames = []
        for x in kept:
            op.add_input(x)
        op.params["expr"] = Parameter.verbatim(text)
        count += 1
    if count:
        graph.dead_code_elimination()
    return count


# -- Evaluation -------------------------------------------------------------------------------------------------------


@simplification(5)
def eval_expression(graph: Graph) -> int:
    """Parts of expressions that are known are evaluated: literals, and sizes that the file records as fixed."""
    count = 0
    for op in list(graph.ops):
        node = expression(op)
        if node is None:
            continue
        done = _evaluated(node, op.inputs)
        if done != node:
            set_expression(op, done, list(op.inputs))
            count += 1
    return count


def _evaluated(root: Node, operands: Sequence[Operand]) -> Node:
    return fold(root, lambda node, parts: _known(node.rebuilt(tuple(parts)) if parts else node, operands))


def _known(node: Node, operands: Sequence[Operand]) -> Node:
    if not isinstance(node, Call):
        return node
    first = node.children[0] if node.children else None
    if node.name == "size" and isinstance(first, Input):
        axis = node.children[1] if len(node.children) == 2 else None
        shape = operands[first.index].shape
        place = axis.value if isinstance(axis, Constant) else None
        if isinstance(place, int) and shape is not None and -len(shape) <= place < len(shape) and shape[place] >= 0:
            return Constant(shape[place])
        return node
    numbers = [c.value for c in node.children if isinstance(c, Constant)]
    if len(numbers) != len(node.children) or not all(isinstance(v, int | float) for v in numbers):
        return node
    try:
        value = evaluate(node, [])
    except (ExpressionError, ArithmeticError, ValueError, TypeError):
        return node
    return Constant(value) if isinstance(value, bool | int | float) else node


@simplification(5)
def fuse_constant_expression(graph: Graph) -> int:
    """Literals move to where they are used: into expressions, and into parameters where an input slot has a name."""
    count = 0
    for op in list(graph.ops):
        node = expression(op)
        if node is not None:
            known = {i: v for i, x in enumerate(op.inputs) if _is_number(v := literal(x))}
            if known:
                set_expression(op, substitute(node, {i: Constant(v) for i, v in known.items()}), list(op.inputs))
                count += 1
            continue
        for i in range(len(op.inputs) - 1, -1, -1):
            name = op.inputnames[i] if op.inputnames else ""
            value = literal(op.inputs[i]) if name and name not in _TENSORS else MISSING
            if value is not MISSING:
                op.params[name] = value
                op.remove_input(i)
                count += 1
    return count


_TENSORS = frozenset({"input", "self", "src", "tensors", "condition"})
"""Names of slots that take tensors, for which a number is no parameter."""


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float)


@simplification(5)
def eliminate_reshape_shape_expression(graph: Graph) -> int:
    """A reshape of whose sizes one is computed infers it: -1 takes its place."""
    count = 0
    for op in list(graph.ops):
        if op.type not in ("Tensor.reshape", "Tensor.view") or len(op.inputs) != 2 or "shape" in op.params:
            continue
        node = expression(op.inputs[1].producer)
        if not isinstance(node, ListNode):
            continue
        words = [c.value if isinstance(c, Constant) else MISSING for c in node.children]
        if words.count(MISSING) == 1 and all(w is MISSING or (isinstance(w, int) and w > 0) for w in words):
            op.params["shape"] = [-1 if w is MISSING else w for w in words]
            op.remove_input(1)
            count += 1
    return count
