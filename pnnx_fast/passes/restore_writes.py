"""Writes into tensors and views of them become operators of their own, and what reads the memory reads their results.

The converter turns ``x[0] += 1`` into a copy (``Tensor.copy``) whose first input is a chain of views of ``x`` and whose
result stands for the whole changed ``x``. Its higher levels write that as ``Tensor.slice_copy``; its lower levels leave
it, and then only the graph knows which tensor the views belong to. This pass finds it and says so with
``fused.WriteView`` (whole tensor, view of it, values).

The converter knows slices and reshapes for views, and has made what reads them read the results. It knows no others,
nor that the result of ``x[0].mul_(2)`` is a view of ``x`` again: writes through these are left as operators whose
results nothing reads, or reach only some of the readers.
So the operators are read in order here, as PyTorch ran them, with what each operand is a view of
(:mod:`pnnx_fast.passes.memory`); a view is made again where its memory was written to since. It is needed for right
results, so it always runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pnnx_fast._warning import warn
from pnnx_fast.errors import LimitError
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.levels import bare
from pnnx_fast.ir.literals import MISSING, literal
from pnnx_fast.ir.notes import FOLLOWED, written_views
from pnnx_fast.ir.shapes import dense_strides
from pnnx_fast.passes.in_place import changing
from pnnx_fast.passes.memory import CUTS, MOVES, VIEWS, Home, home_behind
from pnnx_fast.passes.moves import succeed, unused_operand

__all__ = ["restore_writes", "warn_of_lost_writes"]

Chain = tuple[tuple[Operator, int], ...]

DOUBT = "its results may be wrong"

MOST_MADE = 1 << 14
"""Operators that writes may become in all: opening a file stays cheap."""

_COPIES = frozenset({"Tensor.copy", "aten::copy"})

_BOUNDS = {"select": ("dim", "select"), "slice": ("dim", "start", "end", "step")}
"""Arguments of a view behind its tensor, in order, as ``Tensor.slice_copy`` calls them."""


def restore_writes(graph: Graph) -> bool:
    """Rewrite writes into memory that is read later; returns whether there were any."""
    return _replayed(graph).found


def warn_of_lost_writes(graph: Graph, place: str) -> None:
    """Warn of the first write that a model of this graph does, and that what is made of the graph does not."""
    kinds = _COPIES | {"prim::Constant"}
    lost = _replayed(graph.copy()).lost if any(op.type in kinds for op in graph.ops) else None
    if lost is not None:
        warn(f"{lost} in place, and {place} does not: {DOUBT}")


def _replayed(graph: Graph) -> _Replay:
    replay = _Replay(graph)
    in_place = changing(graph)
    if not in_place and not any(_is_copy(op) for op in graph.ops):
        return replay
    ops = list(graph.ops)
    for op in ops:
        if len(graph.ops) > len(ops) + MOST_MADE:
            raise LimitError(f"{op.where}: writes before it make too many views again")
        if _is_copy(op):
            replay.copy(op)
            continue
        replay.refresh(op)
        if op in in_place:
            replay.change(op)
        elif op.type in VIEWS and op.inputs:
            replay.view(op)
    return replay


def _is_copy(op: Operator) -> bool:
    return op.type in _COPIES and len(op.inputs) >= 2 and bool(op.outputs)


def _has(graph: Graph, *constants: str) -> bool:
    """Whether a graph has constants as operators: the converter's level 0 alone leaves TorchScript's own."""
    return any(op.type in constants and not op.inputs for op in graph.ops)


class _Replay:
    """What the memory of a graph holds while its operators are read in order, and which views are out of date."""

    def __init__(self, graph: Graph) -> None:
        self.found = False
        self.lost: str | None = None
        """The first effect of a write that the operators alone do not tell."""
        self._graph, self._in_order = graph, _has(graph, "prim::Constant")
        self._follows = _has(graph, "prim::Constant", "pnnx.Expression")
        """Level 2 drops ``contiguous`` between a view and a write, so that views other than it knows may be copies."""
        self._homes: dict[Operand, Home] = {}
        self._held: dict[Operand, Operand] = {}
        """What the memory of a tensor holds as a whole, where it was written to …"""
        self._writes: dict[Operand, int] = {}
        """… how often that was, and how often when an operand came to be."""
        self._read: dict[Operand, int] = {}
        self._settled: dict[Operand, int] = {}
        """To how many writes the converter has seen itself, of all that reads a tensor or its slices and reshapes."""
        self._made: dict[tuple[Operand, int], Operand] = {}
        self._sure: set[Operand] = set()
        """Results of copies, …"""
        self._copied: dict[Operand, Operand] = {}
        """… what seems to have been copied of a view of a tensor, …"""
        self._apart: dict[Operand, Operator] = {}
        """… and, by tensor, writes to such copies."""

    def refresh(self, op: Operator) -> None:
        """Give an operator what the memory of its inputs holds now."""
        for i, x in enumerate(op.inputs):
            home = self._home(x)
            if home.owner in self._apart and op.type not in VIEWS:
                written = self._apart.pop(home.owner)
                warn(f"{op.where} reads {x.name} without what {written.where} writes to a view or copy of it: {DOUBT}")
            if self._is_fresh(x, home):
                continue
            if not self._in_order and op.type == "pnnx.Expression" and _is_compound(op):
                # The converter puts such an expression where its last part was.
                warn(f"{op.where} reads {x.name} before or after a view of it is written to: {DOUBT}")
                continue
            self.lost = self.lost or f"{op.where} reads {x.name}, to which was written"
            op.set_input(i, self._now(x, home, op))
            self.found = True

    def view(self, op: Operator) -> None:
        """Note where the results of a view lie."""
        home = self._home(op.inputs[0])
        for i, x in enumerate(op.outputs if self._follows else ()):
            behind = home_behind(op, i, home)
            if behind is None:
                continue
            if len(x.consumers) > 1 and self._was_copied(x, behind):
                self._copied[x] = behind.owner
            else:
                self._note(x, behind)

    def change(self, op: Operator) -> None:
        """Write the result of an operator to its first input, as it is the same tensor."""
        home, made = self._home(op.inputs[0]), op.outputs[0]
        following = self._graph.place_of(op) + 1
        if home.chain and following < len(self._graph.ops):
            self.lost = self.lost or f"{op.where} writes to {op.inputs[0].name}"
            self._write(home, made, self._graph.ops[following], op)
            self.found = True
        elif not home.chain:
            self._hold(home.owner, made, op)
        self._note(made, home)

    def copy(self, op: Operator) -> None:
        """Rewrite a copy into a tensor or a view of it."""
        views = written_views(op)
        whole, values = views[0].inputs[0] if views else op.inputs[0], op.inputs[1]
        home, given = self._home(whole), self._home(op.inputs[0])
        if views and whole.producer is not None and whole.producer.type in CUTS:
            home = Home(whole)  # A copy of this part was dropped: it has memory of its own.
        elif home.chain and whole not in self._sure and op.outputs[0].consumers and self._was_copied(whole, home):
            self._copied[whole] = home.owner
            home = Home(whole)
        is_result = self._is_result(op, given)
        source = self._home(values)
        if not self._is_fresh(values, source):
            values = self._now(values, source, op)
        target = Home(home.owner, (*home.chain, *((view, 0) for view in views)))
        out = op.outputs[0]
        if target.chain:
            made = self._write(target, values, op, op)
            if home.chain:
                made = self._along(home.chain, made, op, f"{op.name}_part")[-1]
            succeed(self._graph, op, {out: made})
            self._note(made, home)
            self.found = True
        else:
            made = out
            op.set_input(1, values)
            self._hold(home.owner, out, op)
            self._note(out, home)
        self._settled[whole] = self._writes[home.owner]
        self._sure.add(made)
        if is_result:
            self._note(op.inputs[1] if not target.chain else values, given)

    @staticmethod
    def _was_copied(x: Operand, home: Home) -> bool:
        """Whether a view that is read more than once was made contiguous, of which the converter leaves no operator.

        The tracer calls what the model keeps in a variable by its name, all else by a number: where the view is in none
        and something is read more than once, that was a copy of it.
        """
        if not x.name.isdigit() or x.producer is None or x.producer.type not in MOVES:
            return False
        return home.strides is None or x.shape is None or tuple(home.strides) != dense_strides(x.shape)

    def _is_result(self, op: Operator, given: Home) -> bool:
        """Whether what is copied came of an operator in place, and is what it is written to itself."""
        maker, named = op.inputs[1].producer, op.outputs[0].name.endswith("_copy_out")
        if not named or maker is None or not maker.inputs or op.inputs[1].dtype != op.inputs[0].dtype:
            return False
        return self._home(maker.inputs[0]) == given

    def _home(self, x: Operand) -> Home:
        known = self._homes.get(x)
        return known or Home(x, (), None if x.shape is None or min(x.shape, default=1) < 1 else dense_strides(x.shape))

    def _is_fresh(self, x: Operand, home: Home) -> bool:
        """Whether an operand holds what its memory does; memory of which nobody knows was not written to."""
        writes = self._writes.get(home.owner, 0)
        return writes == 0 or writes == self._seen(x)

    def _seen(self, x: Operand) -> int:
        """How many of the writes to its memory an operand stands behind, or stands before with good reason."""
        seen, whole = self._read.get(x, 0), x
        while whole not in self._settled and (op := whole.producer) is not None and op.type in FOLLOWED and op.inputs:
            whole = op.inputs[0]
        return max(seen, self._settled.get(whole, 0))

    def _note(self, x: Operand, home: Home) -> None:
        self._homes[x], self._read[x] = home, self._writes.get(home.owner, 0)

    def _hold(self, owner: Operand, whole: Operand, writer: Operator) -> None:
        if owner in self._copied:
            self._apart.setdefault(self._copied[owner], writer)
        self._writes[owner] = self._writes.get(owner, 0) + 1
        self._held[owner] = whole

    def _now(self, x: Operand, home: Home, before: Operator) -> Operand:
        """A view, or a tensor as a whole, made again of what its memory holds."""
        key = (x, self._writes[home.owner])
        if key not in self._made:
            made = self._along(home.chain, self._held[home.owner], before, f"{x.name}_{key[1]}")[-1]
            self._note(made, home)
            self._made[key] = made
        return self._made[key]

    def _along(self, chain: Chain, x: Operand, before: Operator, name: str) -> list[Operand]:
        """A tensor and the views that lead on from it, one after the other, in front of an operator."""
        reached = [x]
        for i, (link, number) in enumerate(chain):
            outputs = [unused_operand(self._graph, f"{name}_view{i}", old.shape, old.dtype) for old in link.outputs]
            wiring = {"inputs": [reached[-1], *link.inputs[1:]], "inputnames": link.inputnames, "params": link.params}
            self._graph.new_operator_before(link.type, outputs[0].name, before, outputs=outputs, **wiring)
            reached.append(outputs[number])
        return reached

    def _write(self, target: Home, values: Operand, before: Operator, writer: Operator) -> Operand:
        """Write values to a view; returns the whole tensor thereafter."""
        graph, links, name = self._graph, [link for link, _ in target.chain], writer.name
        # The views are made again over a dense form of the tensor, so that they are views in memory, too.
        dense = unused_operand(graph, f"{name}_dense", target.owner.shape, target.owner.dtype)
        held = self._held.get(target.owner, target.owner)
        graph.new_operator_before("fused.Dense", dense.name, before, inputs=[held], outputs=[dense])
        fixed = _fixed_links(links)
        views = self._along(target.chain if fixed == len(links) else target.chain[:-1], dense, before, name)
        for i in reversed(range(fixed, len(links))):
            values = _replaced(graph, before, name, links[i], views[i], values)
        written = unused_operand(graph, f"{name}_written", dense.shape, dense.dtype)
        wiring = {"inputs": [dense, views[fixed], values], "outputs": [written]}
        graph.new_operator_before("fused.WriteView", written.name, before, **wiring)
        self._hold(target.owner, written, writer)
        self._note(written, Home(target.owner))
        return written


def _is_compound(op: Operator) -> bool:
    return "expr" in op.params and op.params["expr"].text.count("(") > 1


def _fixed_links(chain: Sequence[Operator]) -> int:
    """Number of views before the first one whose place is computed: what that one gives is a copy when a model runs."""
    for i, link in enumerate(chain):
        if any(literal(x) is MISSING for x in link.inputs[1:]):
            slices = all(bare(part.type) in _BOUNDS for part in chain[i:])
            return i if slices else len(chain)
    return len(chain)


def _replaced(graph: Graph, before: Operator, name: str, link: Operator, whole: Operand, values: Operand) -> Operand:
    """What a tensor becomes when values are written to a slice of it whose place is computed."""
    params = {"select" if key == "index" else key: value for key, value in link.params.items()}
    names = [key for key in _BOUNDS[bare(link.type)] if key not in params]
    given = link.inputnames[1:] if any(link.inputnames) else names[: len(link.inputs) - 1]
    made = unused_operand(graph, f"{name}_replaced")
    wiring = {
        "inputs": [whole, values, *link.inputs[1:]],
        "inputnames": ["input", "src", *("select" if key == "index" else key for key in given)],
        "params": params,
    }
    graph.new_operator_before("Tensor.slice_copy", made.name, before, outputs=[made], **wiring)
    return made
