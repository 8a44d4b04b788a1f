"""Operators over constants are computed, and what nothing needs disappears. The one module that runs operators."""

from __future__ import annotations

import numpy as np

from pnnx_fast.errors import PnnxFastError
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.literals import MISSING, literal
from pnnx_fast.passes.moves import new_constant
from pnnx_fast.runtime.session import Model
from pnnx_fast.simplify.noops import is_random
from pnnx_fast.simplify.table import simplification

__all__: list[str] = []

_IN_PLACE = ("Tensor.copy", "Tensor.copy_", "aten::copy_")
"""Operators that change their input, through a view as well."""

_MAKERS = ("Tensor.new_zeros", "Tensor.new_ones", "Tensor.new_full", "Tensor.new_empty")
"""Operators that need no values but the dtype of their first input."""

_NAMED = frozenset({"f32", "f64", "f16", "i64", "i32", "bool"})
"""Types that they are given as a parameter in its place."""


@simplification(5)
def fold_constants(graph: Graph) -> int:
    """Operators all of whose inputs are constants become a pnnx.Attribute."""
    _free_makers(graph)
    constant: set[Operand] = set()
    inner: list[Operator] = []
    for op in graph.topological():
        if not op.outputs or op.type.startswith(("pnnx.Input", "pnnx.Output", "prim::")):
            continue
        known = op.type == "pnnx.Attribute" or all(x in constant or literal(x) is not MISSING for x in op.inputs)
        steady = not is_random(op) and op.type not in _IN_PLACE
        literals = [x for x in op.outputs if literal(x) is not MISSING]
        if known and steady and not literals:
            constant.update(op.outputs)
            inner.append(op)
    wanted = [x for op in inner if op.type != "pnnx.Attribute" for x in op.outputs
              if any(user not in set(inner) for user in x.consumers)]  # fmt: skip
    return _replace(graph, wanted) if wanted else 0


def _free_makers(graph: Graph) -> None:
    for op in graph.ops:
        x = op.inputs[0] if op.inputs else None
        if op.type not in _MAKERS or len(op.inputs) != 1 or x is None or "size" not in op.params:
            continue
        dtype = op.value("dtype")
        if dtype is None and x.dtype in _NAMED:
            op.params["dtype"] = by_text[x.dtype].spelled
        if op.value("dtype") is not None:
            op.type = op.type.replace("Tensor.new_", "torch.")
            op.remove_input(0)
            op.inputnames = []


def _replace(graph: Graph, wanted: list[Operand]) -> int:
    """Compute operands and put constants in their place."""
    try:
        values = Model(graph.extract([], [x.name for x in wanted]), num_threads=1).results()
    except PnnxFastError:
        return 0
    count = 0
    for x, y in zip(wanted, values, strict=True):
        producer = x.producer
        if not isinstance(y, np.ndarray) or producer is None:
            continue
        graph.replace_uses(x, new_constant(graph, y, f"{x.name}_folded", f"{producer.name}_folded", producer))
        count += 1
    graph.dead_code_elimination()
    return count


@simplification(5)
def dead_code_elimination(graph: Graph) -> int:
    """Operators whose results nothing needs disappear, and operands that nothing makes or reads."""
    return graph.dead_code_elimination()
