"""Sizes that tracing has fixed in parameters and constants are computed from the inputs again.

A graph is walked at two sizes of its inputs. Where an operator does not follow the second one, a function for its type
mends it: parameters become computed ones, constants shrink to what they repeat. What cannot be told stays and is named.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pnnx_fast import passes
from pnnx_fast._types import Array
from pnnx_fast.edit import cuts, windows
from pnnx_fast.edit.constants import (
    mend_attention,
    mend_broadcast,
    mend_cat,
    mend_gather,
    mend_grid,
    mend_product,
    mend_scatter,
    mend_states,
    mend_write,
    tell_indexed,
    tell_selected,
)
from pnnx_fast.edit.grids import mend_index
from pnnx_fast.edit.offsets import mend_offsets
from pnnx_fast.edit.reshapes import mend_reshape, mend_unflatten
from pnnx_fast.edit.traced_numbers import mend_bound, mend_literals
from pnnx_fast.errors import ExpressionError, PnnxFastError, ShapeError
from pnnx_fast.ir import Graph, Operand, Operator, Parameter
from pnnx_fast.ir.folded import WRITES, changed_constant
from pnnx_fast.ir.levels import spellings
from pnnx_fast.ir.literals import constant_array, literal
from pnnx_fast.passes.moves import RESHAPES, become, new_constant
from pnnx_fast.runtime.own_cells import separate_constants
from pnnx_fast.runtime.session import default_isa
from pnnx_fast.runtime.walk import Shapes, Walk

__all__ = ["Unbaking", "unbake"]

Sizes = tuple[int, ...]

MOST_UPSTREAM = 400
"""Operands that are looked at for where a size or a grid may come from."""


def unbake(graph: Graph, before: Shapes, after: Shapes) -> tuple[Walk, Walk, list[str]]:
    """Walk a graph at two sizes of its inputs, mending operators on the way; returns names of those that stay fixed."""
    state = graph.copy()
    try:
        # Their evidence is the sizes in the file, which are about to change.
        passes.restore(graph, internal=False)
        separate_constants(graph)
        if any(map(changed_constant, graph.ops)):
            # Few graphs have such constants. What tells their values is the sizes in the file, too.
            from pnnx_fast.runtime.own_run import wind_back

            wind_back(graph, default_isa())
        work = Unbaking(graph, before, after)
        for op in list(graph.topological()):
            work.visit(op)
        return work.old, work.new, work.fixed
    except BaseException:
        # A graph that cannot be changed stays as it was.
        graph.become(state)
        raise


class Unbaking:
    """A graph, its shapes at both sizes as far as it has been walked, and what stays fixed."""

    def __init__(self, graph: Graph, before: Shapes, after: Shapes) -> None:
        self.graph = graph
        self.old, self.new = Walk(graph, before), Walk(graph, after)
        self.fixed: list[str] = []
        pairs = [(i, p, q) for name in before for i, (p, q) in enumerate(zip(before[name], after[name], strict=True))]
        self.only_batch = all(p == q for i, p, q in pairs if i)
        self.batches = {p for i, p, q in pairs if i == 0 and p != q}
        self.growth = {q / p for i, p, q in pairs if i == 0 and p and p != q}

    def visit(self, op: Operator) -> None:
        """Mend an operator if it needs that, and take its step in both walks."""
        mend = _MENDERS.get(op.type)
        if mend is not None and op.inputs:
            self._take(op, self.old)  # what is wrong with it at the traced sizes, too, is said first
            if not mend(self, op):
                self.fixed.append(op.name)
        self.step(op)

    def step(self, op: Operator) -> None:
        """Take an operator's step in both walks; an error names it, and the constants that hold traced sizes."""
        self._take(op, self.old, self.new)

    def _take(self, op: Operator, *walks: Walk) -> None:
        try:
            for walk in walks:
                walk.step(op)
        except ExpressionError as error:
            raise self._explained(op, error) from error
        except ShapeError as error:
            if error.operator is None or self._constants(op):
                raise self._explained(op, error) from error
            raise

    def _explained(self, op: Operator, error: PnnxFastError) -> ShapeError:
        reason = getattr(error, "reason", str(error))
        held = self._constants(op)
        if held:
            reason += f"; the constant {held[0]} does not vary"
        return ShapeError(reason, operator=op.where)

    def _constants(self, op: Operator) -> list[str]:
        makers = [x.producer for x in op.inputs if x.producer is not None and x.producer.type == "pnnx.Attribute"]
        return [f"{m.name} {m.outputs[0].shape or ''}".strip() for m in makers]

    def shapes(self, x: Operand) -> tuple[Sizes, Sizes] | None:
        """Shapes of an operand at both sizes, None when it has none or they differ in rank."""
        a, b = self.old.shape(x), self.new.shape(x)
        return None if a is None or b is None or len(a) != len(b) else (a, b)

    def varies(self, x: Operand) -> bool:
        """Whether an operand has other sizes in the second walk."""
        found = self.shapes(x)
        return found is not None and found[0] != found[1]

    def compute(self, op: Operator, slot: str, entries: Sequence[str], operands: Sequence[Operand]) -> None:
        """Give an operator a list of sizes that is computed from operands, in the place of a parameter."""
        self.compute_value(op, slot, "[" + ",".join(entries) + "]", operands)

    def compute_value(self, op: Operator, slot: str, text: str, operands: Sequence[Operand]) -> None:
        """Give an operator the value of an expression of operands in the place of a parameter."""
        sizes = self.graph.new_operand(self.graph.free_name(f"{op.outputs[0].name}_sizes"))
        made = self.graph.new_operator_before(
            "pnnx.Expression", f"{op.name}_sizes", op, inputs=operands, outputs=[sizes]
        )
        made.params["expr"] = Parameter.verbatim(text)
        op.params.pop(slot, None)
        op.add_input(sizes, slot)
        self.step(made)

    def copied_constant(self, x: Operand) -> Array | None:
        """Value of a constant of the graph, or of the one that an operand is a copy of."""
        op = x.producer
        copies = op.inputs if op is not None and op.type in ("Tensor.clone", "torch.clone") else []
        return constant_array(copies[0] if copies else x)

    def add_constant(self, data: Array, name: str, before: Operator) -> Operand:
        """Add a constant to the graph."""
        made = new_constant(self.graph, data, name, name, before)
        assert made.producer is not None
        self.step(made.producer)
        return made

    def upstream(self, x: Operand) -> Iterator[Operand]:
        """Operands that an operand depends on, itself first, the nearest ones before those further away."""
        seen, queue = {x}, [x]
        for y in queue:
            yield y
            for z in y.producer.inputs if y.producer is not None and len(seen) < MOST_UPSTREAM else ():
                if z not in seen:
                    seen.add(z)
                    queue.append(z)


# -- Expansion --------------------------------------------------------------------------------------------------------


def _mend_repeat(work: Unbaking, op: Operator) -> bool:
    """What repeats axes of one spreads them over a picture, as an expansion does."""
    times = op.value("sizes")
    a = work.old.shape(op.inputs[0])
    if not isinstance(times, list) or a is None:
        return True
    a = (1,) * (len(times) - len(a)) + a
    if any(n != 1 != d for n, d in zip(times, a, strict=True)) or set(times) == {1}:
        return True
    op.type, op.params["sizes"] = "Tensor.expand", [n * d for n, d in zip(times, a, strict=True)]
    return _mend_expand(work, op)


def _mend_broadcast_to(work: Unbaking, op: Operator) -> bool:
    """A broadcast to sizes is an expansion."""
    sizes = literal(op.inputs[1]) if len(op.inputs) == 2 else None
    if not isinstance(sizes, list) or not all(isinstance(d, int) for d in sizes):
        return True
    op.set_inputs(op.inputs[:1])
    become(op, "Tensor.expand", sizes=sizes)
    return _mend_expand(work, op)


def _mend_expand(work: Unbaking, op: Operator) -> bool:
    wanted = op.value("sizes")
    found = work.shapes(op.inputs[0])
    if not isinstance(wanted, list) or found is None:
        return True
    a, b = found
    # What was summed up over a picture is spread over it again.
    above = work.upstream(op.inputs[0])
    whole = next((y for y in above if work.varies(y) and work.old.shape(y) == tuple(wanted)), None)
    if whole is not None:
        work.compute(op, "sizes", [f"size(@0,{i})" for i in range(len(wanted))], [whole])
        return True
    lead = len(wanted) - len(a)
    sizes = [-1 if i >= lead and a[i - lead] == d and (d, b[i - lead]) != (1, 1) else d for i, d in enumerate(wanted)]
    made = [i for i, d in enumerate(wanted) if d > 1 and (i < lead or a[i - lead] == 1)]
    operands: list[Operand] = []
    entries = [str(d) for d in sizes]
    for i in made:
        # A size that is made here, out of one, may be one that varies elsewhere.
        sources = _sources(work, wanted[i])
        if lead == 0 and a[0] != b[0]:
            sources = [(x, axis) for x, axis in sources if axis > 0]  # the batch is there already
        if not sources:
            continue
        if len({(x, axis) for x, axis in sources}) > 1 and not work.only_batch:
            return False
        x, axis = sources[0]
        if x not in operands:
            operands.append(x)
        entries[i] = f"size(@{operands.index(x)},{axis})"
    if not operands:
        op.params["sizes"] = sizes
        return True
    work.compute(op, "sizes", entries, operands)
    return True


def _sources(work: Unbaking, size: int) -> list[tuple[Operand, int]]:
    """Inputs of the graph, with an axis that varies and has that size in the first walk."""
    places: list[tuple[Operand, int]] = []
    for x in work.graph.inputs:
        found = work.shapes(x)
        if found is not None:
            places += [(x, i) for i, (p, q) in enumerate(zip(*found, strict=True)) if p != q and p == size]
    return places


def _mend_index(work: Unbaking, op: Operator) -> bool:
    """Numbers of a batch's items, and constant places that run over an axis."""
    return mend_index(work, op) & tell_indexed(work, op)


def _tell_put(work: Unbaking, op: Operator) -> bool:
    """What is written, and constant places that it is written to."""
    return windows.tell_written(work, op) & tell_indexed(work, op)


def _mend_expression(work: Unbaking, op: Operator) -> bool:
    """Numbers, offsets of a batch's items, and constants of an expression."""
    return mend_literals(work, op) & mend_offsets(work, op) & mend_broadcast(work, op)


_MENDERS: dict[str, Callable[[Unbaking, Operator], bool]] = {
    **dict.fromkeys(RESHAPES, mend_reshape),
    **dict.fromkeys(("Tensor.unflatten", "torch.unflatten", "nn.Unflatten"), mend_unflatten),
    "Tensor.expand": _mend_expand,
    "aten::broadcast_to": _mend_broadcast_to,
    "Tensor.repeat": _mend_repeat,
    **dict.fromkeys(windows.RESIZES, windows.mend_resize),
    **dict.fromkeys(("F.fold", "nn.Fold"), windows.mend_fold),
    **dict.fromkeys(windows.WHOLE, windows.mend_pool),
    **dict.fromkeys((kind for kind, _ in windows.WHOLE.values()), windows.mend_adaptive),
    "Tensor.slice": cuts.mend_slice,
    "Tensor.index": _mend_index,
    "torch.as_strided": windows.mend_strides,
    **dict.fromkeys((f"F.conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3)), windows.mend_groups),
    "F.affine_grid": windows.mend_affine_grid,
    **dict.fromkeys(("torch.cat", "torch.concat", "torch.stack"), mend_cat),
    "pnnx.Expression": _mend_expression,
    "torch.clamp": mend_bound,
    **dict.fromkeys(
        (f"torch.fft.{kind}fft{axes}" for kind in ("", "i", "r", "ir", "h", "ih") for axes in ("", "2", "n")),
        windows.mend_spectrum,
    ),
    **dict.fromkeys(cuts.CUTS, cuts.tell_cuts),
    **dict.fromkeys(("torch.narrow", "Tensor.narrow"), cuts.mend_narrow),
    **dict.fromkeys(("Tensor.select", "torch.select", *cuts.UNBOUND), cuts.tell_taken),
    **dict.fromkeys(WRITES, windows.tell_written),
    **dict.fromkeys(spellings("scatter", "scatter_add", "scatter_reduce"), mend_scatter),
    "F.pad": windows.tell_padding,
    **dict.fromkeys(
        (
            *("torch.where", "Tensor.masked_fill", "torch.baddbmm", "torch.maximum", "torch.minimum", "torch.atan2"),
            *(f"torch.{name}" for name in ("add", "sub", "mul", "div", "pow", "gt", "ge", "lt", "le", "eq", "ne")),
        ),
        mend_broadcast,
    ),
    "torch.matmul": mend_product,
    "torch.bmm": mend_product,
    "nn.MultiheadAttention": mend_attention,
    "F.grid_sample": mend_grid,
    "torch.gather": mend_gather,
    "torch.index_select": tell_selected,
    "Tensor.slice_copy": mend_write,
    "Tensor.index_put": _tell_put,
    **dict.fromkeys(("nn.RNN", "nn.LSTM", "nn.GRU"), mend_states),
}
