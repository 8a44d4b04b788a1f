"""Sizes that tracing has fixed in parameters and constants are computed from the inputs again.

A graph is walked at two sizes of its inputs. Where an operator does not follow the second one, a function for its type
mends it: parameters become computed ones, constants shrink to what they repeat. What cannot be told stays and is named.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from pnnx_fast import passes
from pnnx_fast._types import Array
from pnnx_fast.edit import windows
from pnnx_fast.edit.constants import (
    mend_attention,
    mend_broadcast,
    mend_cat,
    mend_gather,
    mend_grid,
    mend_product,
    mend_scatter,
    mend_write,
)
from pnnx_fast.edit.grids import mend_index
from pnnx_fast.edit.offsets import mend_offsets
from pnnx_fast.edit.reshapes import regrouped
from pnnx_fast.edit.splits import is_fixed, varying_part
from pnnx_fast.edit.traced_numbers import mend_bound, mend_literals
from pnnx_fast.edit.walk import Shapes, Walk
from pnnx_fast.errors import ExpressionError, PnnxFastError, ShapeError
from pnnx_fast.ir import Graph, Operand, Operator, Parameter
from pnnx_fast.ir.folded import WRITES, changed_constant
from pnnx_fast.ir.levels import spellings
from pnnx_fast.ir.literals import constant_array
from pnnx_fast.passes.moves import RESHAPES, new_constant
from pnnx_fast.runtime.own_cells import separate_constants
from pnnx_fast.runtime.session import default_isa

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
        if mend is not None and op.inputs and not mend(self, op):
            self.fixed.append(op.name)
        self.step(op)

    def step(self, op: Operator) -> None:
        """Take an operator's step in both walks; an error names it, and the constants that hold traced sizes."""
        try:
            self.old.step(op)
            self.new.step(op)
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


# -- Reshapes ---------------------------------------------------------------------------------------------------------


def _mend_reshape(work: Unbaking, op: Operator) -> bool:
    found = work.shapes(op.inputs[0])
    wanted = op.value("shape")
    if found is None or found[0] == found[1] or wanted is None:
        return True
    a, b = found
    target = list(wanted) if isinstance(wanted, list) else [wanted]
    known = int(np.prod([d for d in target if d > 0], dtype=np.int64))
    target = [int(np.prod(a)) // known if d == -1 else a[i] if d == 0 else d for i, d in enumerate(target)]
    if _lay_out(work, op, (a, b), target):
        return _mend_reshape(work, op)
    operands = [op.inputs[0]]
    entries = _entries(work, op, (a, b), target, operands)
    if entries is None:
        return False
    varying = [i for i, e in enumerate(entries) if not e.isdigit()]
    if len(varying) <= 1:
        op.params["shape"] = [-1 if i in varying else int(e) for i, e in enumerate(entries)]
        return True
    work.compute(op, "shape", entries, operands)
    return True


def _lay_out(work: Unbaking, op: Operator, shapes: tuple[Sizes, Sizes], target: Sequence[int]) -> bool:
    """Lay out rows and columns that lie in one axis, before a reshape that cuts both; False where there are none."""
    a, b = shapes
    for ins, outs in regrouped(a, b, target) if not work.only_batch else ():
        i, sizes = ins[0], [target[j] for j in outs]
        if len(ins) > 1 or a[i] == b[i] or sum(d != 1 for d in sizes) < 3 or _like(work, op.inputs[0], sizes, b[i]):
            continue
        found = _picture(work, op.inputs[0], (a[i], b[i]), sizes)
        if found is None:
            continue
        picture, axes = found
        x, y = op.inputs[0], work.graph.new_operand(work.graph.free_name(f"{op.outputs[0].name}_picture"))
        laid = work.graph.new_operator_before("Tensor.reshape", f"{op.name}_picture", op, inputs=[x], outputs=[y])
        entries = [f"size(@0,{k})" for k in range(len(a))]
        entries[i : i + 1] = [f"size(@1,{k})" for k in axes]
        work.compute(laid, "shape", entries, [x, picture])
        work.step(laid)
        op.set_input(0, y)
        return True
    return False


def _picture(
    work: Unbaking, x: Operand, products: tuple[int, int], sizes: Sequence[int]
) -> tuple[Operand, range] | None:
    """An operand upstream with neighbouring axes of these products in both walks, each of which is cut into sizes."""
    ends = {*itertools.accumulate(sizes, operator.mul)}
    for y in work.upstream(x):
        a, b = work.shapes(y) or ((), ())
        for axes in (range(i, i + count) for count in (2, 3) for i in range(len(a) - count + 1)):
            old = [a[k] for k in axes]
            same = (math.prod(old), math.prod(b[k] for k in axes)) == products
            if same and 1 not in old and ends.issuperset(itertools.accumulate(old, operator.mul)):
                return y, axes
    return None


def _entries(
    work: Unbaking, op: Operator, shapes: tuple[Sizes, Sizes], target: Sequence[int], operands: list[Operand]
) -> list[str] | None:
    """Sizes of a reshape's result as expressions of its input's, from groups of axes with equal products."""
    a, b = shapes
    entries: list[str] = []
    for ins, outs in regrouped(a, b, target):
        if all(a[i] == b[i] for i in ins):
            entries += (str(target[j]) for j in outs)
            continue
        parts = _split(work, op, ins, shapes, outs, target, operands)
        if parts is None:
            return None
        entries += parts
    return entries


def _split(
    work: Unbaking,
    op: Operator,
    ins: Sequence[int],
    shapes: tuple[Sizes, Sizes],
    outs: Sequence[int],
    target: Sequence[int],
    operands: list[Operand],
) -> list[str] | None:
    """Sizes of the axes into which a group of axes that varies is cut; None when nothing tells."""
    sizes = [target[j] for j in outs]
    product = f"size(@0,{ins[0]})"
    for i in ins[1:]:
        product = f"mul({product},size(@0,{i}))"
    if len(sizes) == 1:
        return [product]
    a, b = (math.prod(shape[i] for i in ins) for shape in shapes)
    # Items of a batch come first.
    batched = work.only_batch or (ins[0] == outs[0] == 0 and b / a in work.growth)
    model = _like(work, operands[0], sizes, b)
    told = None
    if model is not None:
        x, axes, grown = model
        told = None if batched or len(grown) > 1 else varying_part(work, op, shapes, target, outs)
        if told is None or outs.index(told) in grown:
            if x not in operands:
                operands.append(x)
            return [f"size(@{operands.index(x)},{axis})" for axis in axes]
    large = [j for j, size in enumerate(sizes) if size != 1]
    within_items = work.only_batch and len(ins) == 1 and b / a in work.growth  # all items in one axis, as of codes
    if (
        len(large) == 1
        and batched
        and sizes[0] == 1 in work.batches
        and (within_items or is_fixed(work, op, target, outs[large[0]]))
    ):
        return [f"floor_divide({product},{a})", *map(str, sizes[1:])]
    # Where the batch was one, the ones may be its place.
    if len(large) == 1 and (
        not work.only_batch or 1 not in [shapes[0][i] for i in ins if shapes[0][i] != shapes[1][i]]
    ):
        return [product if j == large[0] else "1" for j in range(len(sizes))]
    still = next((n for n, i in enumerate(reversed(ins)) if shapes[0][i] != shapes[1][i]), len(ins))
    # Inner sizes that are cut out of axes that stay are the same for any size of the others.
    within = math.prod(shapes[0][i] for i in ins[len(ins) - still :]) % math.prod(sizes[1:]) == 0
    if told is None and not batched and not within:
        told = varying_part(work, op, shapes, target, outs)
        if told is None:
            return None
    part = 0 if told is None else outs.index(told)
    others = math.prod(size for j, size in enumerate(sizes) if j != part)
    if b % others:
        return None
    return [f"floor_divide({product},{others})" if j == part else str(size) for j, size in enumerate(sizes)]


def _like(work: Unbaking, x: Operand, sizes: list[int], product: int) -> tuple[Operand, range, list[int]] | None:
    """An operand upstream with these sizes side by side, that has the product in the second walk.

    Also at which axes it has them, and which of the sizes vary.
    """
    count = len(sizes)
    for y in work.upstream(x):
        found = work.shapes(y)
        if found is None or found[0] == found[1]:
            continue
        a, b = found
        for i in range(len(a) - count + 1):
            # Beside ones a single size tells nothing, unless one of the ones varies: the axis of the batch.
            told = sum(size != 1 for size in sizes) > 1 or any(
                p == 1 != q for p, q in zip(sizes, b[i : i + count], strict=True)
            )
            if told and list(a[i : i + count]) == sizes and math.prod(b[i : i + count]) == product:
                return y, range(i, i + count), [j for j in range(count) if a[i + j] != b[i + j]]
    return None


def _mend_unflatten(work: Unbaking, op: Operator) -> bool:
    found = work.shapes(op.inputs[0])
    sizes, dim = (op.value(k) for k in ("sizes", "dim"))
    if found is None or not isinstance(sizes, list) or not isinstance(dim, int) or -1 in sizes:
        return True
    a, b = found
    dim %= len(a)
    if a[dim] == b[dim]:
        return True
    operands = [op.inputs[0]]
    target, outs = [*a[:dim], *sizes, *a[dim + 1 :]], range(dim, dim + len(sizes))
    entries = _split(work, op, [dim], (a, b), outs, target, operands)
    if entries is None:
        return False
    varying = [i for i, e in enumerate(entries) if not e.isdigit()]
    if len(varying) == 1:
        op.params["sizes"] = [-1 if i in varying else int(e) for i, e in enumerate(entries)]
    else:
        work.compute(op, "sizes", entries, operands)
    return True


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


def _mend_expression(work: Unbaking, op: Operator) -> bool:
    """Numbers, offsets of a batch's items, and constants of an expression."""
    return mend_literals(work, op) & mend_offsets(work, op) & mend_broadcast(work, op)


_MENDERS: dict[str, Callable[[Unbaking, Operator], bool]] = {
    **dict.fromkeys(RESHAPES, _mend_reshape),
    **dict.fromkeys(("Tensor.unflatten", "torch.unflatten", "nn.Unflatten"), _mend_unflatten),
    "Tensor.expand": _mend_expand,
    "Tensor.repeat": _mend_repeat,
    **dict.fromkeys(windows.RESIZES, windows.mend_resize),
    **dict.fromkeys(("F.fold", "nn.Fold"), windows.mend_fold),
    **dict.fromkeys(windows.WHOLE, windows.mend_pool),
    "Tensor.slice": windows.mend_slice,
    "Tensor.index": mend_index,
    "torch.as_strided": windows.mend_strides,
    **dict.fromkeys((f"F.conv{kind}{rank}d" for kind in ("", "_transpose") for rank in (1, 2, 3)), windows.mend_groups),
    "F.affine_grid": windows.mend_affine_grid,
    **dict.fromkeys(("torch.cat", "torch.concat", "torch.stack"), mend_cat),
    "pnnx.Expression": _mend_expression,
    "torch.clamp": mend_bound,
    **dict.fromkeys((f"torch.fft.{name}" for name in ("irfft", "ifft", "rfft", "fft", "hfft")), windows.mend_spectrum),
    **dict.fromkeys(windows.CUTS, windows.tell_cuts),
    **dict.fromkeys(("torch.narrow", "Tensor.narrow"), windows.mend_narrow),
    **dict.fromkeys(("Tensor.select", "torch.select", *windows.UNBOUND), windows.tell_taken),
    **dict.fromkeys(WRITES, windows.tell_written),
    **dict.fromkeys(spellings("scatter", "scatter_add", "scatter_reduce"), mend_scatter),
    "F.pad": windows.tell_padding,
    **dict.fromkeys(
        ("torch.where", "Tensor.masked_fill", "torch.mul", "torch.add", "torch.baddbmm"),
        mend_broadcast,
    ),
    "torch.matmul": mend_product,
    "torch.bmm": mend_product,
    "nn.MultiheadAttention": mend_attention,
    "F.grid_sample": mend_grid,
    "torch.gather": mend_gather,
    "Tensor.slice_copy": mend_write,
}
