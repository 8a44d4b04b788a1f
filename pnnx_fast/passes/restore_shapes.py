"""What the shapes noted at operands tell of operators that the converter wrote wrongly: indices of several dimensions
that it cut off, sizes that it left behind those of a reshape, paddings up to a multiple with the wrong sign, writes
into a part of a tensor that became writes into the written values, shuffles that swallowed a reshape, masks of
attention that differ between rows and lost them, uneven paddings of a line, axes in front of a result, reshapes
behind writes into parts, ellipses of Einstein sums, bounds of slices that were rounded towards zero, extremes of all
elements that lost their axes, truth along no axes that became truth along all, lists of entries
that became a single one.

Masks of attention are made by such indexing, patches by such reshapes, boxes of detectors by such writes. It is needed
for right results, so this pass always runs; the simplifications, whose evidence is the sizes in the file, run it first.
"""

from __future__ import annotations

from collections.abc import Callable

from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.masks import head_masks
from pnnx_fast.ir.notes import (
    keeps_entries,
    kept_axes,
    leading_sizes,
    listed_entries,
    lost_axes,
    lost_reshape,
    lost_whole,
    lowered_bound,
    raised_pad,
    same_padding,
    shuffled_shape,
)
from pnnx_fast.passes.equations import whole_equation
from pnnx_fast.passes.indices import mesh_shape, whole_indices
from pnnx_fast.passes.moves import become, unused_operand

__all__ = ["restore_shapes"]

Mend = Callable[[Graph, Operator], bool]


def restore_shapes(graph: Graph) -> bool:
    """Mend every operator that contradicts the shapes noted at its operands; returns whether there was any."""
    mended = [_MENDS[op.type](graph, op) for op in list(graph.ops) if op.type in _MENDS]
    return any(mended)


def _whole_indices(graph: Graph, op: Operator) -> bool:
    """An indexing by a whole mesh, or by indices that lost their brackets."""
    shape = mesh_shape(op)
    if shape is None:
        return _brackets(graph, op)
    op.type = "Tensor.reshape"
    del op.params["expr"]
    op.params["shape"] = list(shape)
    op.inputnames = ["input"]
    return True


def _write_to_whole(graph: Graph, op: Operator) -> bool:
    whole = lost_whole(op)
    if whole is None:
        return _reshape_behind(graph, op)
    op.set_input(0, whole)
    return True


def _reshape_behind(graph: Graph, op: Operator) -> bool:
    shape = lost_reshape(op)
    if shape is None:
        return False
    y = op.outputs[0]
    made = unused_operand(graph, f"{y.name}_reshape", shape, y.dtype)
    graph.replace_uses(y, made)
    wiring = {"inputs": [y], "outputs": [made], "inputnames": ["input"], "params": {"shape": list(shape)}}
    graph.new_operator_after("Tensor.reshape", f"{op.name}_reshape", op, **wiring)
    y.shape = op.inputs[0].shape
    return True


def _reshape_before(graph: Graph, op: Operator) -> bool:
    shape = shuffled_shape(op)
    if shape is None:
        return False
    _insert(graph, op, "Tensor.reshape", "shape", shape)
    return True


def _insert(graph: Graph, op: Operator, kind: str, key: str, shape: tuple[int, ...]) -> None:
    """Give the first input another shape, by an operator with that parameter."""
    x, name = op.inputs[0], kind.removeprefix("Tensor.")
    y = unused_operand(graph, f"{x.name}_{name}", shape, x.dtype)
    graph.new_operator_before(
        kind, f"{op.name}_{name}", op, inputs=[x], outputs=[y], inputnames=["input"], params={key: list(shape)}
    )
    op.set_input(0, y)


def _set_parameter(key: str, tell: Callable[[Operator], list[int] | str | None]) -> Mend:
    """``tell`` gives the value, or None where it is right."""

    def mend(graph: Graph, op: Operator) -> bool:
        value = tell(op)
        if value is not None:
            op.params[key] = value
        return value is not None

    return mend


def _leading_axes(graph: Graph, op: Operator) -> bool:
    """Axes in front that a stack of one result, of a data-dependent size, has put there."""
    count = lost_axes(op)
    for _ in range(count):
        x = max(op.inputs, key=lambda y: len(y.shape or ()))
        y = unused_operand(graph, f"{x.name}_unsqueeze", (1, *(x.shape or ())), x.dtype)
        name = f"{op.name}_{y.name}"
        wiring = {"inputs": [x], "outputs": [y], "inputnames": ["input"], "params": {"dim": 0}}
        graph.new_operator_before("torch.unsqueeze", name, op, **wiring)
        op.set_input(op.inputs.index(x), y)
    return count > 0


def _heads_of_mask(graph: Graph, op: Operator) -> bool:
    shape = head_masks(op)
    if shape is None:
        return False
    n, heads, queries, keys = shape
    _insert(graph, op, "Tensor.expand", "sizes", shape)
    op.params["shape"] = [n * heads, queries, keys]
    return True


def _reshape(graph: Graph, op: Operator) -> bool:
    return _heads_of_mask(graph, op) or _fewer_sizes(graph, op)


def _keeping_axes(graph: Graph, op: Operator) -> bool:
    axes = kept_axes(op)
    if axes is not None:
        op.type = op.type.replace(".m", ".am")
        op.params["dim"], op.params["keepdim"] = axes, True
    return axes is not None


def _truth_of_entries(graph: Graph, op: Operator) -> bool:
    if not keeps_entries(op):
        return False
    op.set_inputs(op.inputs[:1], op.inputnames[:1])
    # Bytes stay bytes.
    if op.outputs[0].dtype == "u8":
        op.type, op.params["max"] = "torch.clamp", 1
    else:
        op.type, op.params["dtype"] = "Tensor.to", "torch.bool"
    return True


def _entries(graph: Graph, op: Operator) -> bool:
    text = listed_entries(op)
    if text is not None:
        become(op, "Tensor.index", expr=text)
        op.inputnames = []
    return text is not None


def _slice(graph: Graph, op: Operator) -> bool:
    bound = lowered_bound(op)
    if bound is not None:
        op.params[bound[0]] = bound[1]
    return bound is not None


_brackets = _set_parameter("expr", whole_indices)
_fewer_sizes = _set_parameter("shape", leading_sizes)

_MENDS: dict[str, Mend] = {
    "F.pad": _set_parameter("pad", raised_pad),
    "Tensor.index": _whole_indices,
    "Tensor.reshape": _reshape,
    "Tensor.select": _entries,
    "Tensor.slice": _slice,
    "Tensor.slice_copy": _write_to_whole,
    "aten::all": _truth_of_entries,
    "aten::any": _truth_of_entries,
    "nn.Conv1d": _set_parameter("padding", same_padding),
    "nn.ChannelShuffle": _reshape_before,
    "nn.PixelShuffle": _reshape_before,
    "pnnx.Expression": _leading_axes,
    "torch.einsum": _set_parameter("equation", whole_equation),
    "torch.max": _keeping_axes,
    "torch.min": _keeping_axes,
}
"""What is done to operators of a type; it returns whether anything was wrong."""
