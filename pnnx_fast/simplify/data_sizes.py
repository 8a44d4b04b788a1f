"""Sizes that depend on data: files note those of the converter's own run, which are no evidence for another one."""

from __future__ import annotations

from pnnx_fast.errors import PnnxFastError
from pnnx_fast.ir import Graph
from pnnx_fast.ir.levels import spellings
from pnnx_fast.runtime.walk import walked

__all__ = ["free_sizes_of_data"]

_TYPES = spellings(
    "arange", "argwhere", "bincount", "index", "item", "masked_select", "nonzero", "nonzero_numpy", "one_hot",
    "repeat_interleave", "tensor_split", "unique", "unique_consecutive", "where",
) | {"Compress", "NonZero", "Unique", "pnnx.custom_op.torchvision.nms"}  # fmt: skip
"""Operators whose results may have sizes that depend on data."""


def free_sizes_of_data(graph: Graph) -> None:
    """Note sizes of operands that depend on data as free.

    Parameters
    ----------
    graph : Graph
        Changed in place. Without all sizes of its inputs, or where it cannot be lowered, it stays as it is.

    Examples
    --------
    >>> graph = Graph.parse('''7767517
    ... 3 2
    ... pnnx.Input    in  0 1 x #x=(2,3)f32
    ... torch.nonzero n   1 1 x y as_tuple=False $input=x #y=(6,2)i64
    ... pnnx.Output   out 1 0 y
    ... ''')
    >>> free_sizes_of_data(graph)
    >>> graph.operand("y").shape
    (-1, -1)
    """
    shapes = {x.name: x.shape for x in graph.inputs if x.shape is not None and min(x.shape, default=0) >= 0}
    if len(shapes) < len(graph.inputs) or not any(op.type in _TYPES for op in graph.ops):
        return
    try:
        restored, walk = walked(graph, shapes)
    except PnnxFastError:
        return
    for op in restored.ops:
        for x in op.outputs:
            known = graph.get_operand(x.name) if x.name not in walk.values else None
            if known is not None and known.shape is not None:
                known.shape = (-1,) * len(known.shape)
