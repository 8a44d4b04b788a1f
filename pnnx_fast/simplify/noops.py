"""Operators that do nothing, alone or in pairs, disappear.

Each row of `_TESTS` tells of one operator type when it changes nothing; the passes are named after what they look at.
Recorded shapes count as fixed, unknown sizes are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import FUNCTIONS, Call, Constant, Input, Node, TensorType
from pnnx_fast.expression.apply import apply
from pnnx_fast.expression.tree import fold
from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.literals import expression, tensor_type
from pnnx_fast.ir.notes import is_written
from pnnx_fast.ir.parameter import OPEN_END, per_axis
from pnnx_fast.passes.drop_identity import IDENTITIES
from pnnx_fast.passes.moves import PERMUTATIONS, become, bypass, pairs, permutation
from pnnx_fast.simplify.expressions import set_expression, sizes
from pnnx_fast.simplify.lists import is_list
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []

Test = Callable[[Operator], bool]


def _drop(graph: Graph, types: tuple[str, ...], test: Test) -> int:
    found = [op for op in graph.ops if op.type in types and op.inputs and len(op.outputs) == 1 and test(op)]
    for op in found:
        bypass(graph, op)
    return len(found)


def _keeps_shape(op: Operator) -> bool:
    """Whether the sizes of result and input are known and equal."""
    x = sizes(op.inputs[0])
    return x is not None and x == sizes(op.outputs[0])


def _is_alone(op: Operator) -> bool:
    """Whether there is one input, which is no list of several."""
    return len(op.inputs) == 1 and not is_list(op.inputs[0])


def _is_same(op: Operator) -> bool:
    """Whether the input may take the place of the result, which nothing is written into."""
    return _is_alone(op) and not is_written(op.outputs[0])


# -- Level 3 ----------------------------------------------------------------------------------------------------------


@simplification(3)
def eliminate_squeeze_unsqueeze_pair(graph: Graph) -> int:
    """An axis that is removed and put back, or the other way round, stays as it was."""
    count = 0
    types = ("torch.squeeze", "torch.unsqueeze")
    for op, follower in pairs(graph, types, types):
        if op.type == follower.type:
            continue
        a, b = op.value("dim"), follower.value("dim")
        rank = None if op.inputs[0].shape is None else len(op.inputs[0].shape)
        if isinstance(a, int) and isinstance(b, int) and rank is not None and _is_alone(op) and _is_alone(follower):
            inner = rank + (1 if op.type == "torch.unsqueeze" else -1)
            long = max(rank, inner)
            shape = op.inputs[0].shape or ()
            removes = op.type == "torch.unsqueeze" or shape[a % rank] == 1
            if a % long == b % long and removes:
                graph.replace_uses(follower.outputs[0], op.inputs[0])
                graph.remove_operators([op, follower])
                count += 1
    return count


@simplification(3)
def rename_F_dropoutnd(graph: Graph) -> int:
    """F.dropoutnd is named after the rank of its input."""
    names = {3: "F.dropout1d", 4: "F.dropout2d", 5: "F.dropout3d"}
    found = [op for op in graph.ops if op.type in ("F.dropoutnd", "F.feature_dropout")]
    for op in found:
        op.type = names.get(len(op.inputs[0].shape or ()), "F.dropout2d")
    return len(found)


@simplification(3)
def eliminate_noop_math(graph: Graph) -> int:
    """Arithmetic with the neutral number disappears from expressions."""
    return _neutral(graph)


# -- Level 5 ----------------------------------------------------------------------------------------------------------

_NEUTRAL: dict[str, dict[int, float]] = {
    "add": {0: 0, 1: 0},
    "sub": {1: 0},
    "mul": {0: 1, 1: 1},
    "div": {1: 1},
    "pow": {1: 1},
}
"""Functions with the arguments that change nothing, by place."""


def _neutral(graph: Graph) -> int:
    count = 0
    for op in list(graph.ops):
        node = expression(op)
        types = [tensor_type(x) for x in op.inputs]
        if node is None or not types or None in types:
            continue
        done = fold(node, partial(_simpler, types)).node
        if done == node:
            continue
        set_expression(op, done, list(op.inputs))
        count += 1
    return count


class _Typed(NamedTuple):
    """A part of an expression, and what is known of its value: a number, the type of a tensor, or nothing."""

    node: Node
    value: Any


def _simpler(types: Sequence[TensorType | None], node: Node, parts: list[_Typed]) -> _Typed:
    """A part without what is neutral in it: a number that leaves values and type of a tensor as they are."""
    if isinstance(node, Input):
        return _Typed(node, types[node.index])
    if isinstance(node, Constant):
        return _Typed(node, node.value)
    node, values = node.rebuilt(tuple(part.node for part in parts)), [part.value for part in parts]
    if not isinstance(node, Call):
        return _Typed(node, values)
    try:
        result = apply(FUNCTIONS[node.name], values)
    except (ExpressionError, ArithmeticError, ValueError, TypeError):
        return _Typed(node, None)
    if not isinstance(result, TensorType) and any(isinstance(value, TensorType) for value in values):
        return _Typed(node, None)  # a number that was read off a tensor: its size, which is not known here
    for place, number in _NEUTRAL.get(node.name, {}).items():
        rest = parts[1 - place]
        plain = type(values[place]) in (int, float) and values[place] == number
        # A sum of two numbers is the business of eval_expression.
        if plain and isinstance(result, TensorType) and rest.value.dtype == result.dtype:
            return rest
    return _Typed(node, result)


@simplification(5)
def eliminate_noop_expression(graph: Graph) -> int:
    """Expressions that give their only input disappear."""
    count = _neutral(graph)
    for op in list(graph.ops):
        if isinstance(expression(op), Input) and len(op.inputs) == 1:
            bypass(graph, op)
            count += 1
    return count


@simplification(5)
def eliminate_identity_operator(graph: Graph) -> int:
    """Operators that repeat another one on the same inputs disappear, and those that are identities."""
    count = _drop(
        graph, tuple(IDENTITIES - {"nn.Dropout", "nn.Dropout2d", "nn.Dropout3d", "nn.AlphaDropout"}), _is_same
    )
    seen: dict[tuple[Any, ...], Operator] = {}
    for op in list(graph.topological()):
        if not op.inputs or op.attrs or not op.outputs or _is_special(op):
            continue
        key = (
            op.type,
            tuple(id(x) for x in op.inputs),
            tuple(op.inputnames),
            len(op.outputs),
            tuple(sorted((k, p.text) for k, p in op.params.items())),
        )
        first = seen.setdefault(key, op)
        if first is op:
            continue
        for x, y in zip(op.outputs, first.outputs, strict=True):
            graph.replace_uses(x, y)
        graph.remove_operator(op)
        count += 1
    return count


_RANDOM = ("rand", "normal", "bernoulli", "multinomial", "poisson", "dropout", "Dropout", "RReLU", "rrelu")
"""Words in the types of operators that give other results on every call."""


def is_random(op: Operator) -> bool:
    """Whether an operator may give other results on every call."""
    return any(word in op.type for word in _RANDOM)


def _is_special(op: Operator) -> bool:
    """Whether two equal operators may give different results, or are no operators."""
    return op.is_end or is_random(op) or "copy" in op.type


_DROPOUTS = tuple(f"{a}{b}" for a in ("nn.Dropout", "F.dropout") for b in ("", "1d", "2d", "3d")) + (
    "nn.AlphaDropout",
    "nn.FeatureAlphaDropout",
    "F.alpha_dropout",
    "F.feature_alpha_dropout",
)


@simplification(5)
def eliminate_dropout(graph: Graph) -> int:
    """Dropout disappears, functions of it when they say that they are not training."""
    return _drop(
        graph, _DROPOUTS, lambda op: _is_alone(op) and (op.type.startswith("nn.") or op.value("training") is False)
    )


@simplification(5)
def eliminate_type_as(graph: Graph) -> int:
    """Conversions to the dtype that a tensor has disappear."""
    return _drop(
        graph,
        ("Tensor.type_as",),
        lambda op: op.inputs[0].dtype is not None and op.inputs[0].dtype == op.outputs[0].dtype,
    )


@simplification(5)
def eliminate_noop_slice(graph: Graph) -> int:
    """Slices of everything disappear."""

    def whole(op: Operator) -> bool:
        if "starts" in op.params:
            return _keeps_shape(op)
        x = op.inputs[0].shape
        if not _is_alone(op) or op.value("start", 0) not in (0, None) or op.value("step", 1) not in (1, None):
            return False
        end, dim = op.value("end"), op.value("dim")
        size = x[dim] if x is not None and isinstance(dim, int) and -len(x) <= dim < len(x) else -1
        return end in (None, OPEN_END) or (isinstance(end, int) and 0 <= size <= end)

    return _drop(graph, ("Tensor.slice",), whole)


@simplification(5)
def eliminate_noop_cat(graph: Graph) -> int:
    """Concatenations of one tensor disappear."""
    return _drop(graph, ("torch.cat", "torch.concat"), _is_alone)


@simplification(5)
def eliminate_noop_einsum(graph: Graph) -> int:
    """torch.einsum that gives its only operand disappears."""

    def same(op: Operator) -> bool:
        left, arrow, right = str(op.value("equation", "")).replace(" ", "").partition("->")
        repeated = len(set(left)) != len(left)
        return _is_alone(op) and not repeated and (left == right if arrow else left == "".join(sorted(left)))

    return _drop(graph, ("torch.einsum",), same)


@simplification(5)
def eliminate_noop_pad(graph: Graph) -> int:
    """Padding by nothing disappears."""
    return _drop(graph, ("F.pad",), lambda op: _is_alone(op) and not any(per_axis(op.value("pad", [1]))))


@simplification(5)
def eliminate_noop_upsample(graph: Graph) -> int:
    """Resizing to the same size, or by 1, disappears."""

    def same(op: Operator) -> bool:
        factor = op.value("scale_factor")
        ones = factor is not None and all(f == 1 for f in per_axis(factor))
        return _is_alone(op) and (ones or (op.value("size") is not None and _keeps_shape(op)))

    return _drop(
        graph, ("F.upsample", "F.interpolate", "nn.Upsample", "F.upsample_nearest", "F.upsample_bilinear"), same
    )


@simplification(5)
def eliminate_noop_reshape(graph: Graph) -> int:
    """Reshapes to the same sizes disappear."""
    types = ("Tensor.reshape", "Tensor.view", "torch.flatten", "torch.unflatten", "torch.squeeze", "Tensor.reshape_as")
    return _drop(graph, types, lambda op: _keeps_shape(op) and _constant_shape(op))


def _constant_shape(op: Operator) -> bool:
    return _is_alone(op) or op.type == "Tensor.reshape_as"


@simplification(5)
def eliminate_noop_expand(graph: Graph) -> int:
    """Expansions to the same sizes disappear."""
    return _drop(graph, ("Tensor.expand", "Tensor.expand_as"), _keeps_shape)


@simplification(5)
def eliminate_noop_permute(graph: Graph) -> int:
    """Permutations that leave the order disappear."""

    def same(op: Operator) -> bool:
        if op.type == "torch.transpose":
            a, b, shape = op.value("dim0"), op.value("dim1"), op.inputs[0].shape
            known = isinstance(a, int) and isinstance(b, int)
            return known and (a == b or (shape is not None and a % len(shape) == b % len(shape)))
        dims = op.value("dims")
        return isinstance(dims, list) and [d % len(dims) for d in dims] == list(range(len(dims)))

    return _drop(graph, PERMUTATIONS, lambda op: _is_alone(op) and same(op))


@simplification(5)
def eliminate_maxpool_indices(graph: Graph) -> int:
    """Maximum pooling whose indices nothing reads has one output; so have torch.max and torch.min along an axis."""
    count = 0
    for op in list(graph.ops):
        if len(op.outputs) != 2 or op.outputs[1].consumers:
            continue
        if "max_pool" in op.type or "MaxPool" in op.type:
            op.params["return_indices"] = False
        elif op.type not in ("torch.max", "torch.min"):
            continue
        graph.remove_operand(op.outputs[1])
        count += 1
    return count


# -- Neighbours -------------------------------------------------------------------------------------------------------


@simplification(5)
def fuse_adjacent_reshape(graph: Graph) -> int:
    """Of reshapes that follow one another the last one stays."""
    types = ("Tensor.reshape", "Tensor.view", "torch.flatten", "torch.squeeze", "torch.unsqueeze", "torch.unflatten")
    count = 0
    for op, follower in pairs(graph, types, types):
        if not (_is_alone(op) and _is_alone(follower)):
            continue
        shape = follower.value("shape")
        target = sizes(follower.outputs[0])
        # A zero stands for a size of the tensor in between.
        if not isinstance(shape, list) or 0 in shape:
            if target is None or follower.type in ("torch.squeeze", "torch.unsqueeze"):
                continue
            become(follower, "Tensor.reshape", shape=list(target))
        bypass(graph, op)
        count += 1
    return count


@simplification(5)
def fuse_adjacent_permute(graph: Graph) -> int:
    """Permutations that follow one another become one."""
    count = 0
    for op, follower in pairs(graph, PERMUTATIONS, PERMUTATIONS):
        first, second = permutation(op), permutation(follower)
        if first is None or second is None or len(first) != len(second):
            continue
        become(follower, "Tensor.permute", dims=[first[d] for d in second])
        bypass(graph, op)
        count += 1
    return count
