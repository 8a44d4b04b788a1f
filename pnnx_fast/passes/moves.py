"""Small moves that several passes make on a graph."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pnnx_fast._types import Array, Shape
from pnnx_fast.ir import Attribute, Graph, Operand, Operator, Parameters
from pnnx_fast.ir.parameter import per_axis

if TYPE_CHECKING:
    from pnnx_fast.expression import Node

__all__ = [
    "PERMUTATIONS",
    "RESHAPES",
    "absorb",
    "arguments_of",
    "as_tree",
    "become",
    "become_expression",
    "bypass",
    "concatenated",
    "expressions_of_two",
    "new_constant",
    "numbers",
    "only_consumer",
    "only_follower",
    "other_input",
    "pairs",
    "permutation",
    "rewrite_expression",
    "sole_producer",
    "succeed",
    "unused_operand",
]


RESHAPES = ("Tensor.reshape", "Tensor.view")
"""Types of operators that give another shape by a list of sizes."""

PERMUTATIONS = ("Tensor.permute", "torch.permute", "torch.transpose")
"""Types of operators that give another order of axes."""


def only_consumer(operand: Operand) -> Operator | None:
    """Return the operator that alone uses an operand, once; None when there are several uses or none."""
    return operand.consumers[0] if len(operand.consumers) == 1 else None


def only_follower(op: Operator) -> Operator | None:
    """Return the operator that alone uses the one output of an operator, once; None for any other operator."""
    return only_consumer(op.outputs[0]) if len(op.outputs) == 1 else None


def pairs(graph: Graph, first: Container[str], second: Container[str]) -> Iterator[tuple[Operator, Operator]]:
    """Yield operators of some types with their followers of some types; the graph may change meanwhile."""
    for op in list(graph.ops):
        users = op.outputs[0].consumers if op.type in first and len(op.outputs) == 1 else ()
        if len(users) == 1 and users[0].type in second:
            yield op, users[0]


def expressions_of_two(graph: Graph, texts: Container[str]) -> Iterator[Operator]:
    """Yield expressions of two operands that have one of these texts; the graph may change meanwhile."""
    for op in list(graph.ops):
        differ = op.type == "pnnx.Expression" and len(op.inputs) == 2 and op.inputs[0] is not op.inputs[1]
        if differ and str(op.params["expr"].value).replace(" ", "") in texts:
            yield op


def other_input(op: Operator, operand: Operand) -> Operand:
    """Return the input of an operator of two that is not this one."""
    return op.inputs[1 if operand is op.inputs[0] else 0]


def sole_producer(operand: Operand) -> Operator | None:
    """Return the operator that makes an operand which is read once; None for any other operand."""
    return operand.producer if len(operand.consumers) == 1 else None


def bypass(graph: Graph, op: Operator) -> None:
    """Remove an operator that passes its first input through."""
    graph.replace_uses(op.outputs[0], op.inputs[0])
    graph.remove_operator(op)


def absorb(graph: Graph, op: Operator, follower: Operator) -> None:
    """Remove the single consumer of an operator's output whose work the operator now does itself."""
    graph.replace_uses(follower.outputs[0], op.outputs[0])
    graph.remove_operator(follower)


def concatenated(cat: Operator | None, kinds: Container[str]) -> list[Operator]:
    """Return what makes the parts of a concatenation, where these are of some types and nothing else reads them."""
    if cat is None or cat.type != "torch.cat" or len(cat.outputs) != 1:
        return []
    makers = [sole_producer(x) for x in cat.inputs]
    return [m for m in makers if m is not None] if all(m is not None and m.type in kinds for m in makers) else []


def succeed(graph: Graph, op: Operator, heirs: Mapping[Operand, Operand]) -> None:
    """Remove an operator whose outputs others take the place of, under the same names."""
    for old, new in heirs.items():
        graph.replace_uses(old, new)
    graph.remove_operator(op)
    for old, new in heirs.items():
        graph.rename_operand(new, old.name)


def numbers(op: Operator, key: str, default: object) -> list[Any]:
    """Values of a parameter that is one for all axes or a list of them."""
    return per_axis(op.value(key, default))


def is_pointwise(conv: Operator) -> bool:
    """Whether a convolution of pictures has windows of one pixel, and all channels in one group."""
    return bool(conv.value("kernel_size") == [1, 1] and conv.value("groups", 1) == 1)


def arguments_of(node: Node, name: str, count: int) -> tuple[Node, ...]:
    """Arguments of a call of a function with so many of them, otherwise nothing."""
    from pnnx_fast.expression import Call

    return node.children if isinstance(node, Call) and node.name == name and len(node.children) == count else ()


def as_tree(op: Operator) -> Node | None:
    """The expression over its inputs that an operator is, None for one that is not element-wise."""
    from pnnx_fast.expression.operators import as_expression

    return as_expression(op.type, op.values(), op.inputnames, len(op.inputs), len(op.attrs))


def permutation(op: Operator) -> list[int] | None:
    """Order of axes of a permutation or transposition, None for anything else."""
    if len(op.inputs) != 1 or len(op.outputs) != 1:
        return None
    values = op.values()
    if op.type in ("Tensor.permute", "torch.permute"):
        dims = values.get("dims")
        if not isinstance(dims, list) or not all(isinstance(d, int) for d in dims):
            return None
        order = [d % len(dims) for d in dims]
        return order if sorted(order) == list(range(len(order))) else None
    shape, a, b = op.inputs[0].shape, values.get("dim0"), values.get("dim1")
    if op.type != "torch.transpose" or shape is None or not isinstance(a, int) or not isinstance(b, int):
        return None
    order = list(range(len(shape)))
    if not all(-len(order) <= d < len(order) for d in (a, b)):
        return None
    order[a], order[b] = order[b], order[a]
    return order


def unused_operand(graph: Graph, name: str, shape: Shape | None = None, dtype: str | None = None) -> Operand:
    """Make an operand of a name, or of that with a number behind it where it is taken, with a shape and a dtype."""
    made = graph.new_operand(graph.free_name(name))
    made.shape, made.dtype = shape, dtype
    return made


def new_constant(graph: Graph, data: Array, name: str, operator: str, before: Operator) -> Operand:
    """Make an operand that holds an array, and its operator in front of another one."""
    attr = Attribute.owning(data)
    made = unused_operand(graph, name, attr.shape, attr.dtype)
    graph.new_operator_before("pnnx.Attribute", operator, before, outputs=[made], attrs={"data": attr})
    return made


def become(op: Operator, type: str, /, **params: object) -> None:
    """Make an operator one of another type with these parameters alone; inputs, outputs and weights stay."""
    op.type, op.params = type, Parameters(params)


def become_expression(op: Operator, text: str, inputs: Sequence[Operand]) -> None:
    """Make an operator a ``pnnx.Expression`` of these inputs; its outputs stay."""
    op.set_inputs(inputs)
    become(op, "pnnx.Expression", expr=text)


def rewrite_expression(op: Operator, tree: Node, sources: Sequence[Operand]) -> None:
    """Make an operator an expression of those of some operands that the expression reads."""
    from pnnx_fast.expression import Input, inputs_of, substitute

    used = inputs_of(tree)
    text = str(substitute(tree, {i: Input(n) for n, i in enumerate(used)}))
    become_expression(op, text, [sources[i] for i in used])
