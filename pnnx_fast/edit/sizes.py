"""Sizes of a graph: shapes inferred anew, another batch, sizes that may vary.

Shapes come from the runtime's lowering, so they are those of a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Graph, Operand, Operator
from pnnx_fast.ir.dtypes import by_numpy, by_text
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value
from pnnx_fast.runtime.constants import Constants
from pnnx_fast.runtime.lower import Lowering
from pnnx_fast.runtime.session import default_isa

__all__ = ["change_batch", "infer_shapes", "make_dynamic"]

Shapes = Mapping[str, Sequence[int]]


class _Walk:
    """Lowering of a graph operator by operator, at given sizes of the inputs."""

    def __init__(self, graph: Graph, shapes: Shapes) -> None:
        self._lowering = Lowering(default_isa(), 1, Constants(0))
        self.values: dict[str, Value] = {}
        for i, x in enumerate(_inputs(graph)):
            row = by_text.get(x.dtype or "f32")
            if row is None or row.numpy is None:
                raise ParameterError(f"input {x.name} has dtype {x.dtype}, which numpy does not know")
            dtype = np.dtype(row.numpy)
            shape = tuple(shapes[x.name])
            count = int(np.prod(shape, dtype=np.int64))
            self.values[x.name] = Tensor(Buffer("input", count * dtype.itemsize, None, i), shape, dtype)
        self.stopped = False

    def step(self, op: Operator) -> None:
        if op.type in ("pnnx.Input", "pnnx.Output") or self.stopped:
            return
        # What follows a result whose shape depends on data has no shape before a run.
        self.stopped = self._lowering.run([op], self.values, ()).breaker is not None

    def shape(self, x: Operand) -> tuple[int, ...] | None:
        value = self.values.get(x.name)
        return tuple(value.shape) if isinstance(value, Tensor) else None

    def dtype(self, x: Operand) -> str | None:
        value = self.values.get(x.name)
        row = by_numpy.get(np.dtype(value.dtype).name) if isinstance(value, Tensor) else None
        return None if row is None else row.text


def _inputs(graph: Graph) -> list[Operand]:
    return [x for op in graph.ops if op.type == "pnnx.Input" for x in op.outputs]


def _recorded(graph: Graph, given: Shapes | None) -> dict[str, tuple[int, ...]]:
    """Sizes of all inputs: those given, else those recorded."""
    given = given or {}
    names = [x.name for x in _inputs(graph)]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ParameterError(f"there is no input {unknown[0]}; the inputs are {', '.join(names)}")
    shapes: dict[str, tuple[int, ...]] = {}
    for x in _inputs(graph):
        shape = given.get(x.name, x.shape)
        if shape is None or any(d < 0 for d in shape):
            raise ParameterError(f"the size of input {x.name} is not known; give it")
        shapes[x.name] = tuple(shape)
    return shapes


def infer_shapes(graph: Graph, shapes: Shapes | None = None) -> None:
    """Set shape and dtype of every operand as they are at given sizes of the inputs.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs by name; by default those recorded.

    Raises
    ------
    ShapeError
        Naming the operator that does not take these sizes.
    """
    walk = _Walk(graph, _recorded(graph, shapes))
    for op in list(graph.topological()):
        walk.step(op)
    for x in graph.operands:
        x.shape, x.dtype = walk.shape(x), walk.dtype(x)


def change_batch(graph: Graph, batch: int, axis: int = 0) -> list[str]:
    """Change the batch of all inputs, with the sizes that tracing has fixed in the graph.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    batch : int
    axis : int
        Where the inputs have it.

    Returns
    -------
    list of str
        Operators whose sizes stay fixed because nothing tells whether they belong to the batch.
    """
    if batch < 1:
        raise ParameterError(f"batch must be at least 1, not {batch}")
    before = _recorded(graph, None)
    after = {name: (*shape[:axis], batch, *shape[axis + 1 :]) for name, shape in before.items()}
    _, new, fixed = _unbake(graph, before, after)
    for x in graph.operands:
        x.shape, x.dtype = new.shape(x), new.dtype(x) or x.dtype
    return fixed


def make_dynamic(
    graph: Graph, axes: Mapping[str, Sequence[int]] | None = None, shapes: Shapes | None = None
) -> list[str]:
    """Let sizes of inputs vary that tracing has fixed: reshapes take their sizes from their input.

    Parameters
    ----------
    graph : Graph
        Changed in place; sizes that vary become -1.
    axes : mapping of str to sequence of int, optional
        Axes that vary, by input; by default the first one of every input.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs that the file does not record.

    Returns
    -------
    list of str
        Operators whose sizes stay fixed because nothing tells where they come from.

    Raises
    ------
    ShapeError
        Naming an operator, such as a linear layer after flattening, that cannot take other sizes.
    """
    before = _recorded(graph, shapes)
    chosen = dict.fromkeys(before, (0,)) if axes is None else axes
    after = dict(before)
    for name, varying in chosen.items():
        if name not in before:
            raise ParameterError(f"there is no input {name}; the inputs are {', '.join(before)}")
        rank = len(before[name])
        places = {a % rank for a in varying}
        after[name] = tuple(d * 2 if i in places else d for i, d in enumerate(before[name]))
    old, new, fixed = _unbake(graph, before, after)
    for x in graph.operands:
        a, b = old.shape(x), new.shape(x)
        if a is None or b is None or len(a) != len(b):
            x.shape = None
        else:
            x.shape = tuple(p if p == q else -1 for p, q in zip(a, b, strict=True))
    return fixed


# -- Sizes that tracing has fixed -------------------------------------------------------------------------------------


def _unbake(graph: Graph, before: Shapes, after: Shapes) -> tuple[_Walk, _Walk, list[str]]:
    """Walk a graph at two sizes of its inputs, mending operators on the way whose parameters hold the first size."""
    state = graph.copy()
    try:
        return _walk_and_mend(graph, before, after)
    except BaseException:
        # A graph that cannot be changed stays as it was.
        graph.ops, graph._operands, graph._by_name = state.ops, state._operands, state._by_name
        raise


def _walk_and_mend(graph: Graph, before: Shapes, after: Shapes) -> tuple[_Walk, _Walk, list[str]]:
    old, new = _Walk(graph, before), _Walk(graph, after)
    fixed: list[str] = []
    for op in list(graph.topological()):
        mend = _MENDERS.get(op.type)
        if mend is not None and op.inputs:
            a, b = old.shape(op.inputs[0]), new.shape(op.inputs[0])
            if a is not None and b is not None and not mend(graph, op, a, b, old, new):
                fixed.append(op.name)
        old.step(op)
        new.step(op)
    return old, new, fixed


def _mend_reshape(graph: Graph, op: Operator, a: tuple[int, ...], b: tuple[int, ...], old: _Walk, new: _Walk) -> bool:
    wanted = op.params["shape"].value if op.has_param("shape") else None
    if a == b or wanted is None:
        return True
    target = list(wanted) if isinstance(wanted, list) else [wanted]
    known = int(np.prod([d for d in target if d > 0], dtype=np.int64))
    target = [int(np.prod(a)) // known if d == -1 else a[i] if d == 0 else d for i, d in enumerate(target)]
    entries = list(_entries(a, b, target))
    varying = [i for i, e in enumerate(entries) if not e.isdigit()]
    if len(varying) <= 1:
        op.params["shape"] = [-1 if i in varying else int(e) for i, e in enumerate(entries)]
        return True
    if any(e == "-1" for e in entries):
        return False
    x = op.inputs[0]
    sizes = graph.new_operand(f"{op.outputs[0].name}_sizes")
    expression = graph.new_operator_before(
        "pnnx.Expression", f"{op.name}_sizes", op, inputs=[x], outputs=[sizes], params={}
    )
    expression.params["expr"] = "[" + ",".join(entries) + "]"
    del op.params["shape"]
    op.add_input(sizes, "shape")
    for walk in (old, new):
        walk.step(expression)
    return True


def _entries(a: tuple[int, ...], b: tuple[int, ...], target: Sequence[int]) -> Iterator[str]:
    """Sizes of a reshape's result as expressions of its input's, from groups of axes with equal products."""
    for ins, outs in _groups(a, target):
        scaled = [i for i in ins if a[i] != b[i]]
        sizes = [target[j] for j in outs]
        if not scaled:
            yield from map(str, sizes)
            continue
        product = f"size(@0,{ins[0]})"
        for i in ins[1:]:
            product = f"mul({product},size(@0,{i}))"
        # The first axis of a group is the outer one, which grows with it.
        rest = int(np.prod(sizes[1:], dtype=np.int64))
        yield product if rest == 1 else f"floor_divide({product},{rest})"
        yield from map(str, sizes[1:])


def _groups(a: Sequence[int], b: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    i = j = 0
    while i < len(a) or j < len(b):
        ins, outs, p, q = [], [], 1, 1
        while True:
            if (p <= q and i < len(a)) or j >= len(b):
                ins.append(i)
                p *= a[i]
                i += 1
            else:
                outs.append(j)
                q *= b[j]
                j += 1
            done = i >= len(a) and j >= len(b)
            if done or (p == q and ins and outs and (i >= len(a)) == (j >= len(b))):
                break
        yield ins, outs


def _mend_expand(graph: Graph, op: Operator, a: tuple[int, ...], b: tuple[int, ...], old: _Walk, new: _Walk) -> bool:
    wanted = op.params["sizes"].value if op.has_param("sizes") else None
    if not isinstance(wanted, list):
        return True
    lead = len(wanted) - len(a)
    op.params["sizes"] = [-1 if i >= lead and a[i - lead] == d != 1 else d for i, d in enumerate(wanted)]
    # A size that is made here, out of one, may be one that varies elsewhere.
    varying = {p for name, value in old.values.items() for p in _varying(value, new.values.get(name))}
    made = {d for i, d in enumerate(wanted) if d > 1 and (i < lead or a[i - lead] == 1)}
    return not made & varying


def _varying(a: Value, b: Value) -> Iterator[int]:
    if isinstance(a, Tensor) and isinstance(b, Tensor) and len(a.shape) == len(b.shape):
        yield from (p for p, q in zip(a.shape, b.shape, strict=True) if p != q)


_Mender = Callable[[Graph, Operator, tuple[int, ...], tuple[int, ...], _Walk, _Walk], bool]
_MENDERS: dict[str, _Mender] = {
    "Tensor.reshape": _mend_reshape,
    "Tensor.view": _mend_reshape,
    "Tensor.expand": _mend_expand,
}
