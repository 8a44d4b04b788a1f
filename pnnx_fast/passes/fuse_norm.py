"""Normalisations written out as means, squares and quotients become one operator, and so do their scale and shift.

Many models carry a layer norm over channels, or a root-mean-square norm, of their own making. In pieces it reads and
writes the tensor several times; ``fused.LayerNorm`` does so once. Runs before element-wise operators are merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.passes.moves import arguments_of, as_tree, rewrite_expression, unused_operand

if TYPE_CHECKING:
    from pnnx_fast.expression import Node

__all__ = ["fuse_norm"]


class Norm:
    """What is normalised, along which dimension, and how."""

    __slots__ = ("dim", "eps", "rms", "x")

    def __init__(self, x: Operand, dim: int, eps: float, rms: bool) -> None:
        self.x, self.dim, self.eps, self.rms = x, dim, eps, rms


def fuse_norm(graph: Graph) -> bool:
    """Replace every quotient of a tensor, or of its distance from its mean, by its root mean square."""
    if not any(_has_root(op) for op in graph.ops):
        return False
    changed = False
    for op in list(graph.ops):
        root = _tree(op) if len(op.inputs) > 1 else None
        found = _find(op, root) if root is not None else None
        if root is not None and found is not None:
            _replace(graph, op, root, *found)
            changed = True
    if changed:
        graph.dead_code_elimination()
    return changed


def _has_root(op: Operator) -> bool:
    """Whether an operator may be the root of a variance; most graphs have none, and do without expressions."""
    return "sqrt" in op.type or ("expr" in op.params and "sqrt" in op.params["expr"].text)


def _tree(op: Operator | None) -> Node | None:
    """The expression that an operator is, if it is one."""
    if op is None or not op.inputs or op.attrs or len(op.outputs) != 1 or op.type in ("torch.mean", "torch.var"):
        return None
    return as_tree(op)


def _find(op: Operator, root: Node) -> tuple[Node, Norm] | None:
    """The outermost part of an expression that is a normalisation."""
    pending = [root]
    while pending:
        node = pending.pop(0)
        norm = _norm(op, node)
        if norm is not None:
            return node, norm
        pending.extend(node.children)
    return None


def _norm(op: Operator, node: Node) -> Norm | None:
    pairs = [(a, b, "rsqrt") for a, b in _orders(arguments_of(node, "mul", 2))]
    if quotient := arguments_of(node, "div", 2):
        pairs.append((quotient[0], quotient[1], "sqrt"))
    for above, below, name in pairs:
        for root in arguments_of(below, name, 1):
            found = _of_variance(op, above, root)
            if found is not None:
                return found
    return None


def _of_variance(op: Operator, above: Node, below: Node) -> Norm | None:
    """The normalisation with a given numerator and sum of variance and epsilon."""
    from pnnx_fast.expression import Constant, Input

    parts = arguments_of(below, "add", 2)
    if not parts or not isinstance(parts[0], Input) or not isinstance(parts[1], Constant):
        return None
    eps, variance = parts[1].value, op.inputs[parts[0].index]
    difference = arguments_of(above, "sub", 2)
    x = difference[0] if difference else above
    if not isinstance(x, Input) or not isinstance(eps, float) or not 0 < eps < 1:
        return None
    operand, mean = op.inputs[x.index], None
    if difference:
        if not isinstance(difference[1], Input):
            return None
        mean = op.inputs[difference[1].index]
    dim = _dimension(operand, variance.producer)
    if dim is None or not _is_variance(operand, mean, variance, dim):
        return None
    return Norm(operand, dim, eps, mean is None)


def _dimension(x: Operand, mean: Operator | None) -> int | None:
    """The dimension of ``x`` that a mean or variance goes over, where rows along it can be had without a copy."""
    if mean is None or mean.type not in ("torch.mean", "torch.var") or x.dtype != "f32" or not x.shape:
        return None
    values = mean.values()
    dim = values.get("dim")
    dim = dim[0] if isinstance(dim, (list, tuple)) and len(dim) == 1 else dim
    if not isinstance(dim, int) or values.get("keepdim") is not True or values.get("dtype") is not None:
        return None
    dim %= len(x.shape)
    return dim if dim == len(x.shape) - 1 or (dim == 1 and len(x.shape) == 4) else None


def _is_variance(x: Operand, mean: Operand | None, variance: Operand, dim: int) -> bool:
    """Whether an operand is the mean square of ``x``, or of its distance from ``mean``, which is that of ``x``."""
    maker = variance.producer
    if maker is None or not maker.inputs or (mean is not None and not _is_mean(x, mean, dim)):
        return False
    if maker.type == "torch.var":
        return mean is not None and maker.inputs == [x] and maker.value("unbiased") is False
    square = maker.inputs[0].producer
    tree = _tree(square)
    if square is None or tree is None:
        return False
    places = [square.inputs.index(t) for t in (x, mean) if t is not None and t in square.inputs]
    one = f"sub(@{places[0]},@{places[1]})" if len(places) == 2 else f"@{places[0]}" if places else ""
    texts = (f"pow({one},2)", f"pow({one},2.0)", f"square({one})", f"mul({one},{one})")
    return len(places) == (1 if mean is None else 2) and str(tree) in texts


def _is_mean(x: Operand, mean: Operand, dim: int) -> bool:
    maker = mean.producer
    return maker is not None and maker.type == "torch.mean" and maker.inputs == [x] and _dimension(x, maker) == dim


def _replace(graph: Graph, op: Operator, root: Node, part: Node, norm: Norm) -> None:
    """Put the operator before ``op``, which reads its result in place of a part of its expression."""
    from pnnx_fast.expression import Input

    y = unused_operand(graph, f"{op.outputs[0].name}_norm", norm.x.shape, norm.x.dtype)
    made = graph.new_operator_before("fused.LayerNorm", y.name, op, inputs=[norm.x], outputs=[y])
    made.inputnames = ["input"]
    for key in ("dim", "eps", "rms"):
        made.params[key] = getattr(norm, key)
    tree = _exchange(root, part, Input(len(op.inputs)))
    sources = [*op.inputs, y]
    affine = _affine(tree, sources, norm)
    for name, operand in affine.items():
        made.add_input(operand, name)
    if affine or isinstance(tree, Input):
        graph.replace_uses(op.outputs[0], y)
        graph.remove_operator(op)
    else:
        rewrite_expression(op, tree, sources)


def _exchange(root: Node, part: Node, other: Node) -> Node:
    """The expression with every occurrence of a part replaced."""
    from pnnx_fast.expression.tree import fold

    return fold(root, lambda node, children: other if node == part else node.rebuilt(tuple(children)))


def _affine(tree: Node, sources: list[Operand], norm: Norm) -> dict[str, Operand]:
    """Weight and bias, where an expression is no more than a scale and shift of its last source by constants."""
    from pnnx_fast.expression import Input

    last = Input(len(sources) - 1)
    for product, shift in _orders(arguments_of(tree, "add", 2)):
        for scale, value in _orders(arguments_of(product, "mul", 2)):
            if value == last and isinstance(scale, Input) and isinstance(shift, Input):
                pair = {"weight": sources[scale.index], "bias": sources[shift.index]}
                return pair if all(_is_vector(t, norm) for t in pair.values()) else {}
    return {}


def _orders(pair: tuple[Node, ...]) -> list[tuple[Node, ...]]:
    return [pair, pair[::-1]] if pair else []


def _is_vector(t: Operand, norm: Norm) -> bool:
    """Whether an operand is a constant with a number for each place along the normalised dimension."""
    if t.producer is None or t.producer.type != "pnnx.Attribute" or t.shape is None or norm.x.shape is None:
        return False
    behind = len(norm.x.shape) - 1 - norm.dim
    shape = (1,) * (len(norm.x.shape) - len(t.shape)) + tuple(t.shape)
    wanted = (*[1] * norm.dim, norm.x.shape[norm.dim], *[1] * behind)
    return t.dtype == "f32" and shape == wanted
