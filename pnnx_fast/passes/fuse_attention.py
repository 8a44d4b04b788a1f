"""Attention in pieces (a product, scales and masks, a softmax, a product) becomes one operator.

The pieces are written in so many ways (scales before or after the product, masks in one or several sums, fillings,
reshapes between them, keys transposed in one or two steps, equations of einsum) that there would be a hundred patterns;
one walk goes up from the second product instead. Runs before element-wise operators are merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pnnx_fast.ir import Graph, Operand, Operator, Parameters
from pnnx_fast.ir.shapes import split_place
from pnnx_fast.passes.moves import (
    RESHAPES,
    as_tree,
    become_expression,
    permutation,
    sole_producer,
    unused_operand,
)

if TYPE_CHECKING:
    from pnnx_fast.expression import Call, Node

__all__ = ["Attention", "Mask", "find_attention", "fuse_attention", "key_rows", "mask_operand"]

SOFTMAXES = ("F.softmax", "nn.Softmax", "torch.softmax")

WIDEST = 256
"""Longest queries and values for which the kernel of attention is the faster way."""

HIDDEN = -1e30
"""Filling with this or less is the same as adding it, also where all keys are hidden: scores are lost beside it.
Another filling takes the place of scores."""

LARGEST = 64
"""Nodes of the largest expression that is searched for scores."""

MASK_DTYPES = frozenset({"f32", "i64", "i32", "i16", "i8", "u8", "bool"})
"""Masks whose sum with float32 scores is float32, as is that of several with 1.0."""


class Mask:
    """What is added to the scores: an expression over operands, and the recorded sizes of the scores there.

    ``view`` is the shape of the reshape above it, None where the scores have the shape of the product. With a
    ``filling`` the expression says which scores become that number instead.
    """

    # Many models import this file: a dataclass would take longer than all its other lines.
    __slots__ = ("filling", "inputs", "node", "sizes", "view")

    def __init__(
        self,
        node: Node,
        inputs: tuple[Operand, ...],
        sizes: tuple[int, ...] | None,
        view: tuple[int, ...] | None = None,
        filling: float | None = None,
    ) -> None:
        self.node, self.inputs, self.sizes, self.view, self.filling = node, inputs, sizes, view, filling

    def under(self, view: tuple[int, ...] | None) -> Mask:
        """The same below another reshape."""
        return Mask(self.node, self.inputs, self.sizes, view, self.filling)


class Attention:
    """The parts of softmax(scale · query keysᵀ + masks) value, where ``keys`` are transposed unless they are rows.

    ``scores`` are the recorded sizes of the scores, ``columns`` tells whether ``value`` and the result are transposed:
    value (weights)ᵀ.
    """

    __slots__ = ("columns", "keys", "masks", "query", "rows", "scale", "scores", "value")

    def __init__(
        self,
        query: Operand,
        keys: Operand,
        rows: bool,
        value: Operand,
        scale: float,
        masks: tuple[Mask, ...],
        scores: tuple[int, ...],
        columns: bool = False,
    ) -> None:
        self.query, self.keys, self.rows, self.value = query, keys, rows, value
        self.scale, self.masks, self.scores, self.columns = scale, masks, scores, columns


def fuse_attention(graph: Graph) -> bool:
    """Replace the pieces by ``fused.Attention``, which makes no matrix of all scores."""
    changed = False
    for op in list(graph.ops):
        found = find_attention(op)
        if found is not None and _suits(found):
            _replace(graph, op, found)
            changed = True
    if changed:
        graph.dead_code_elimination()
    return changed


# -- Finding ----------------------------------------------------------------------------------------------------------


def find_attention(op: Operator) -> Attention | None:
    """The attention whose second product an operator is."""
    pieces = _second_product(op)
    if pieces is None:
        return None
    weights, value, columns = pieces
    softmax = sole_producer(weights)
    if softmax is None or softmax.type not in SOFTMAXES or len(softmax.inputs) != 1:
        return None
    values, shape = softmax.values(), softmax.inputs[0].shape or ()
    if len(shape) < 2 or values.get("dim") not in (-1, len(shape) - 1) or values.get("dtype") is not None:
        return None
    found = _climb(softmax.inputs[0])
    if found is None:
        return None
    product, scale, masks = found
    query, keys = product.inputs
    rows = _first_product(product)
    if rows is None or product.outputs[0].shape != shape:
        return None
    if any(len(x.shape or ()) != len(shape) for x in (query, keys, value)):
        return None
    query, left = _unscaled(query)
    keys, right = _unscaled(keys)
    own = tuple(m.under(None) if m.sizes == shape else m for m in masks)
    return Attention(query, keys, rows, value, scale * left * right, own, shape, columns)


def _is_product(op: Operator) -> bool:
    return op.type in ("torch.matmul", "torch.bmm", "torch.einsum") and len(op.inputs) == 2


def _terms(op: Operator) -> tuple[str, str, str]:
    """Labels of the dimensions of a product's operands and result: those of a batch, and the last two."""
    if op.type != "torch.einsum":
        return "ik", "kj", "ij"
    left, _, out = str(op.value("equation")).replace(" ", "").partition("->")
    a, _, b = left.partition(",")
    if all(t.startswith("...") for t in (a, b, out)):
        a, b, out = a[3:], b[3:], out[3:]
    plain = all(len(t) > 1 and t.isalpha() and len(set(t)) == len(t) for t in (a, b, out))
    return (a[-2:], b[-2:], out[-2:]) if plain and a[:-2] == b[:-2] == out[:-2] else ("", "", "")


def _first_product(op: Operator) -> bool | None:
    """Whether rows of the second factor are keys (True) or columns (False); None if it is no product of rows."""
    a, b, out = _terms(op)
    if not out or out[0] != a[0] or op.inputnames[:1] not in ([], ["input"], [""]):
        return None
    return {a[1] + out[1]: False, out[1] + a[1]: True}.get(b)


def _second_product(op: Operator) -> tuple[Operand, Operand, bool] | None:
    """Weights and values of a product of them, and whether it is that of their transpositions."""
    if not _is_product(op) or _first_product(op) is not False:
        return None
    a, b = op.inputs
    maker = sole_producer(b)
    order = permutation(maker) if maker is not None else None
    if maker is None or order is None or order != [*range(len(order) - 2), len(order) - 1, len(order) - 2]:
        return a, b, False
    weights = sole_producer(maker.inputs[0])
    if weights is None or weights.type not in SOFTMAXES:
        return a, b, False
    return maker.inputs[0], a, True


def _climb(x: Operand) -> tuple[Operator, float, list[Mask]] | None:
    """Walk up from the input of the softmax: the first product, the factor, the masks."""
    scale, below = 1.0, 0
    masks: list[Mask] = []
    while True:
        op = sole_producer(x)
        if op is None:
            return None
        if _is_product(op):
            return op, scale, masks
        if op.type in RESHAPES:
            shape = op.value("shape")
            if len(op.inputs) != 1 or not isinstance(shape, list):
                return None
            masks[below:] = [m.under(tuple(shape)) for m in masks[below:]]
            below, x = len(masks), op.inputs[0]
            continue
        step = _peel(op)
        if step is None or (step[2] and scale != 1.0):  # a factor below the sum would scale the mask, too
            return None
        place, factor, nodes = step
        scale *= factor
        masks += [_mask(node, filling, op) for node, filling in nodes]
        x = op.inputs[place]


def _mask(node: Node, filling: float | None, op: Operator) -> Mask:
    """An expression over inputs of an operator, as a mask over those that it reads."""
    from pnnx_fast.expression import Input, inputs_of, substitute

    used = inputs_of(node)
    own = substitute(node, {i: Input(place) for place, i in enumerate(used)})
    return Mask(own, tuple(op.inputs[i] for i in used), op.outputs[0].shape, filling=filling)


def _tree(op: Operator) -> Node | None:
    """The expression that an element-wise operator is, if it is not large."""
    from pnnx_fast.expression import inputs_of

    if not op.inputs or len(op.outputs) != 1:
        return None
    tree = as_tree(op)
    return None if tree is None or tree.size > LARGEST or inputs_of(tree)[-1:] >= [len(op.inputs)] else tree


def _peel(op: Operator) -> tuple[int, float, list[tuple[Node, float | None]]] | None:
    """(place of the scores, factor, masks with fillings) of an operator that is scores · factor + masks."""
    from pnnx_fast.expression import Call, Input, inputs_of

    node = _tree(op)
    path = {i for i, x in enumerate(op.inputs) if _descends_from_product(x)}
    factor = 1.0
    masks: list[tuple[Node, float | None]] = []
    while isinstance(node, Call):
        place = next((i for i, child in enumerate(node.children) if path.intersection(inputs_of(child))), None)
        if place is None:
            return None
        multiple = _factor(node)
        if multiple is not None:
            factor *= multiple[1]
        else:
            mask = _added(node.name, place, [child for i, child in enumerate(node.children) if i != place])
            if mask is None or factor != 1.0 or not inputs_of(mask[0]):
                return None
            masks.append(mask)
        node = node.children[place]
    return (node.index, factor, masks) if isinstance(node, Input) else None


def _factor(node: Call) -> tuple[Node, float] | None:
    """What is multiplied by a number or divided by one, and the factor."""
    from pnnx_fast.expression import Constant

    if node.name not in ("mul", "div"):
        return None
    x, number = node.children
    if isinstance(x, Constant) and node.name == "mul":
        x, number = number, x
    if not isinstance(number, Constant) or not isinstance(number.value, int | float) or number.value == 0:
        return None
    return x, float(number.value) if node.name == "mul" else 1.0 / number.value


def _added(name: str, place: int, others: Sequence[Node]) -> tuple[Node, float | None] | None:
    """What a sum with the scores, or a filling of them, adds to them, or what it replaces by which number."""
    from pnnx_fast.expression import Call, Constant

    if len(others) == 1 and (name, place) in (("add", 0), ("add", 1), ("sub", 0)):
        # Minus a whole number of few bits would be one.
        return others[0] if name == "add" else Call("mul", (others[0], Constant(-1.0))), None
    if len(others) != 2 or (name, place) not in (("masked_fill", 0), ("where", 1), ("where", 2)):
        return None
    mask, filling = others
    if not isinstance(filling, Constant) or not isinstance(filling.value, int | float):
        return None
    keeps, kept = (name, place) == ("where", 1), Constant(0.0)
    if filling.value <= HIDDEN:
        return Call("where", (mask, kept, filling) if keeps else (mask, filling, kept)), None
    return Call("logical_not", (mask,)) if keeps else mask, float(filling.value)


def _descends_from_product(x: Operand) -> bool:
    """Whether an operand that is read once is the result of a product behind few element-wise operators."""
    pending, steps = [x], 0
    while pending and steps < 16:
        op, steps = sole_producer(pending.pop()), steps + 1
        if op is None or not op.inputs:
            continue
        if _is_product(op):
            return True
        if op.type in RESHAPES or _tree(op) is not None:
            pending += op.inputs
    return False


def _unscaled(x: Operand) -> tuple[Operand, float]:
    """An operand, or what it is a multiple of, and the factor."""
    from pnnx_fast.expression import Call, Input

    op = sole_producer(x)
    tree = _tree(op) if op is not None else None
    multiple = _factor(tree) if isinstance(tree, Call) else None
    if op is None or multiple is None or not isinstance(multiple[0], Input):
        return x, 1.0
    return op.inputs[multiple[0].index], multiple[1]


# -- Replacing --------------------------------------------------------------------------------------------------------


def key_rows(graph: Graph, found: Attention, before: Operator) -> Operand:
    """The operand whose rows are the keys."""
    return found.keys if found.rows else _transposed(graph, found.keys, before)


def _transposed(graph: Graph, x: Operand, before: Operator) -> Operand:
    """What an operand is the transposition of, or a permutation of that in front of an operator."""
    maker, rank = x.producer, len(x.shape or ())
    order = permutation(maker) if maker is not None else None
    if maker is None or order is None or len(order) != rank:
        source, order = x, list(range(rank))
    else:
        source = maker.inputs[0]
    order = [*order[:-2], order[-1], order[-2]]
    if order == list(range(rank)):
        return source
    shape = None if source.shape is None else tuple(source.shape[d] for d in order)
    made = unused_operand(graph, f"{before.outputs[0].name}_turned", shape, source.dtype)
    graph.new_operator_before("Tensor.permute", made.name, before, inputs=[source], outputs=[made],
                              inputnames=["input"], params={"dims": order})  # fmt: skip
    return made


def mask_operand(graph: Graph, masks: Sequence[Mask], before: Operator) -> Operand | None:
    """The sum of masks as an operand, made in front of an operator unless one is the whole sum; None for no masks."""
    from pnnx_fast.expression import Call, Constant, Input, substitute

    inputs = list(dict.fromkeys(x for m in masks for x in m.inputs))
    total: Node | None = None
    for m in masks:
        node = substitute(m.node, {i: Input(inputs.index(x)) for i, x in enumerate(m.inputs)})
        if len(masks) > 1 and any(x.dtype != "f32" for x in m.inputs):
            node = Call("mul", (node, Constant(1.0)))  # sums of whole numbers or bool would be none of float32
        total = node if total is None else Call("add", (total, node))
    if total is None or isinstance(total, Input):
        return None if total is None else inputs[total.index]
    made = unused_operand(graph, f"{before.outputs[0].name}_mask", _common_shape([x.shape for x in inputs]))
    become_expression(
        graph.new_operator_before("pnnx.Expression", made.name, before, outputs=[made]), str(total), inputs
    )
    return made


def _common_shape(shapes: Sequence[tuple[int, ...] | None]) -> tuple[int, ...] | None:
    """Shape to which recorded ones broadcast, None where one is unknown or they do not fit."""
    if any(shape is None or min(shape, default=0) < 0 for shape in shapes):
        return None
    try:
        return np.broadcast_shapes(*(shape or () for shape in shapes))
    except ValueError:
        return None


def _suits(found: Attention) -> bool:
    """Whether the kernel computes this, and faster than the pieces."""
    parts = (found.query, found.keys, found.value)
    if any(x.dtype != "f32" for x in parts):
        return False
    widths = ((found.query.shape or (0,))[-1], (found.value.shape or (0, 0))[-2 if found.columns else -1])
    if not all(0 < n <= WIDEST for n in widths):
        return False
    if any(x.dtype not in MASK_DTYPES for m in found.masks for x in m.inputs):
        return False
    if any(number > -math.inf for m in found.masks[:-1] for number in _fillings(m.node)):
        return False  # it takes the place of what other masks had added before
    views = {m.view for m in found.masks if m.view is not None}
    if any(m.filling is not None for m in found.masks) and (len(found.masks) > 1 or views):
        return False  # the kernel takes one mask
    return len(views) <= 1 and all(_splits(m.sizes or (), found.scores) for m in found.masks if m.view is not None)


def _fillings(node: Node) -> list[float]:
    """Numbers by which a mask hides keys, if it is a choice of zero or one of these."""
    from pnnx_fast.expression import Call, Constant

    parts = node.children[1:] if isinstance(node, Call) and node.name == "where" else ()
    values = [x.value for x in parts if isinstance(x, Constant)]
    return [float(x) for x in values if isinstance(x, int | float) and x <= HIDDEN]


def _splits(sizes: Sequence[int], scores: Sequence[int]) -> bool:
    """Whether sizes are those of the scores with one of the leading ones written as a product of several."""
    if tuple(sizes[-2:]) != tuple(scores[-2:]) or min(*sizes, *scores) < 1:
        return False
    return split_place(scores[:-2], sizes[:-2]) is not None


def _replace(graph: Graph, op: Operator, found: Attention) -> None:
    """Make the second product the whole attention; where it gives columns, that and a transposition behind it."""
    value = _transposed(graph, found.value, op) if found.columns else found.value
    named = {"query": found.query, "key": key_rows(graph, found, op), "value": value}
    params: dict[str, object] = {"scale": found.scale}
    viewed = [m for m in found.masks if m.view is not None]
    mask = mask_operand(graph, [m for m in found.masks if m.view is None], op)
    view_mask = mask_operand(graph, viewed, op)
    if mask is not None:
        named["mask"] = mask
        if found.masks[0].filling is not None:
            params["filling"] = found.masks[0].filling
    if view_mask is not None:
        named["view_mask"], params["view"] = view_mask, list(viewed[0].view or ())
    op = _before_transposition(graph, op, len(found.scores)) if found.columns else op
    op.type, op.params = "fused.Attention", Parameters(params)
    op.set_inputs(named.values(), named)


def _before_transposition(graph: Graph, op: Operator, rank: int) -> Operator:
    """Make an operator a transposition of its result's rows, and return one that is to give these."""
    y = op.outputs[0]
    shape = None if y.shape is None else (*y.shape[:-2], y.shape[-1], y.shape[-2])
    rows = unused_operand(graph, f"{y.name}_rows", shape, y.dtype)
    op.type, op.params = "Tensor.permute", Parameters(dims=[*range(rank - 2), rank - 1, rank - 2])
    op.set_inputs([rows], ["input"])
    return graph.new_operator_before("", rows.name, op, outputs=[rows])
