"""Shapes that a file notes against those that lowering finds.

At the sizes of the trace both shapes are the same, unless the file lost something or was edited by hand. The operator
is named then, by a warning: which of the two is right is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pnnx_fast._types import Shape
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.shapes import may_be
from pnnx_fast.ops import registry
from pnnx_fast.ops.symbolic import Tensor, Value

__all__ = ["compare_noted", "doubtful_masks", "name_doubtful_masks"]


def compare_noted(inputs: Sequence[Operand], ops: Sequence[Operator], values: Mapping[str, Value]) -> None:
    """Warn of the first operator whose result has another shape than noted, if the inputs of the graph have those."""
    if not all(_given(x, values) == x.shape for x in inputs):
        return
    for op in ops:
        for x in op.outputs:
            if x.shape is None or (found := _given(x, values)) is None or found == x.shape or _may_be(found, x.shape):
                continue
            if all(_may_be(_given(y, values), y.shape) for y in op.inputs) and not registry.users_own([op.type]):
                from pnnx_fast._warning import warn

                noted = ",".join("?" if n < 0 else str(n) for n in x.shape)
                warn(
                    f"{op.where} gives shape {list(found)} where the file notes ({noted}): its results may be wrong, "
                    "or the note is older than a change of the graph, which graph.infer_shapes() then renews"
                )
                return


def doubtful_masks(ops: Sequence[Operator]) -> list[Operator]:
    """Attentions whose masks only the sizes of a call can tell from each other."""
    attentions = [op for op in ops if op.type == "nn.MultiheadAttention"]
    if not attentions:
        return []
    from pnnx_fast.ir.masks import DOUBTFUL  # most models have no attention

    return [op for op in attentions if DOUBTFUL in op.params]


def name_doubtful_masks(ops: Sequence[Operator], values: Mapping[str, Value]) -> None:
    """Warn of the first attention whose mask may be one of keys or one of positions, for all that sizes tell."""
    if not ops:
        return
    from pnnx_fast.ir.masks import MASKS, mask_sizes  # most models have no attention

    for op in ops:
        shapes = [_given(x, values) for name, x in op.slots() if name not in MASKS][:2]
        query, key = shapes[0], shapes[-1]
        if query is None or key is None or len(query) != 3 or len(key) != 3:
            continue
        rows, cells = mask_sizes(query, key, bool(op.value("batch_first")))
        taken = [(name, x) for name, x in op.slots() if name in MASKS and _given(x, values) == rows]
        if rows == cells and taken:
            from pnnx_fast._warning import warn

            name, x = taken[0]
            warn(f"{op.where} takes {x.name} for its {name}, which the file does not tell: its results may be wrong")
            return


def _given(x: Operand, values: Mapping[str, Value]) -> Shape | None:
    value = values.get(x.name)
    return value.shape if isinstance(value, Tensor) else None


def _may_be(found: Shape | None, noted: Shape | None) -> bool:
    return found is None or noted is None or may_be(found, noted)
