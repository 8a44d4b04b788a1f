"""PNNX's simplifications of levels 3 and 5 by their names, on any graph, without PyTorch.

Files that were written at a lower optimisation level, or by hand, become what the converter would have written at the
full level. `PASSES` has one row a name; most rows are tables of patterns for the rewriter or tests of single operators.
Unlike `pnnx_fast.passes`, which makes graphs fast here, results keep to PNNX's own operators and can be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

from pnnx_fast.errors import ParameterError, did_you_mean
from pnnx_fast.ir import Graph
from pnnx_fast.passes import restore
from pnnx_fast.passes.restore_writes import warn_of_lost_writes
from pnnx_fast.simplify.data_sizes import free_sizes_of_data
from pnnx_fast.simplify.table import PASSES, Pass

# A module adds its rows when it is imported; this is the order in which they run.
for _module in (
    "expressions", "lists", "noops", "slices", "modules", "folding", "patterns", "attention", "recurrent",
):  # fmt: skip
    import_module(f"{__name__}.{_module}")

__all__ = ["PASSES", "Pass", "simplify"]


def simplify(graph: Graph, passes: Iterable[str] | None = None, *, rounds: int = 20) -> dict[str, int]:
    """Run PNNX's simplifications until none changes anything.

    Parameters
    ----------
    graph : Graph
        Changed in place. Sizes that the file records as fixed count as fixed: call ``make_dynamic`` first for others.
        Those that depend on data are noted as free.
    passes : iterable of str, optional
        Names in ``PASSES``, in the order wanted; by default all but those marked ``asked``.
    rounds : int
        How often to go through the list at most.

    Returns
    -------
    dict of str to int
        Changes made by each pass that made any.

    Raises
    ------
    ParameterError
        When there is no pass of a name.
    TypeError
        When ``passes`` is a single name instead of a list.

    Examples
    --------
    >>> graph = Graph.parse('''7767517
    ... 4 3
    ... pnnx.Input      in   0 1 x #x=(1,8)f32
    ... F.sigmoid       s    1 1 x a
    ... pnnx.Expression m    2 1 x a y expr=mul(@0,@1)
    ... pnnx.Output     out  1 0 y
    ... ''')
    >>> simplify(graph)
    {'fuse_silu': 1, 'canonicalize': 1}
    >>> graph.ops[1].type
    'F.silu'
    """
    rows = _chosen(passes, PASSES)
    warn_of_lost_writes(graph, "the simplified graph")
    # Their evidence is types and sizes of operands that the simplifications merge away.
    restore(graph, internal=False)
    free_sizes_of_data(graph)
    counts: dict[str, int] = {}
    for _ in range(rounds):
        changed = 0
        for row in rows:
            count = row.apply(graph)
            changed += count
            if count:
                counts[row.name] = counts.get(row.name, 0) + count
        if not changed:
            break
    return counts


def _chosen(passes: Iterable[str] | None, table: Mapping[str, Pass]) -> list[Pass]:
    if passes is None:
        return [row for row in table.values() if not row.asked]
    if isinstance(passes, str):
        raise TypeError(f"passes are a list of names, such as [{passes!r}]")
    names = list(passes)
    unknown = [name for name in names if name not in table]
    if unknown:
        raise ParameterError("; ".join(f"there is no pass {name!r}{did_you_mean(name, table)}" for name in unknown))
    return [table[name] for name in names]
