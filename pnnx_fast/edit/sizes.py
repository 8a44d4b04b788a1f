"""Sizes of a graph: shapes inferred anew, another batch, sizes that may vary.

Shapes come from the runtime's lowering, so they are those of a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pnnx_fast.edit.unbake import unbake
from pnnx_fast.errors import ParameterError, no_such
from pnnx_fast.ir import Graph, Operand
from pnnx_fast.runtime.walk import Shapes, walked

__all__ = ["change_batch", "infer_shapes", "make_dynamic"]

_FACTORS = (11, 3, 2, 3, 5, 7)
"""By what sizes grow, by axis, in order to see what they are made of: neighbours by different factors, and the batch by
one that no constant is likely to be as long as."""


def _recorded(graph: Graph, given: Shapes | None) -> dict[str, tuple[int, ...]]:
    """Sizes of all inputs: those given, else those recorded."""
    given = given or {}
    names = [x.name for x in graph.inputs]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ParameterError(no_such("input", unknown[0], names))
    shapes: dict[str, tuple[int, ...]] = {}
    for x in graph.inputs:
        shape = given.get(x.name, x.shape)
        if shape is None or any(d < 0 for d in shape):
            form = f"shapes={{{x.name!r}: (1, 3, 224, 224)}}, on the command line with --size"
            raise ParameterError(f"not all sizes of input {x.name} are known; give them, as in {form}")
        if not all(hasattr(d, "__index__") for d in shape):
            raise ParameterError(f"sizes of input {x.name} must be whole numbers, not {tuple(shape)}")
        shapes[x.name] = tuple(shape)
    return shapes


def infer_shapes(graph: Graph, shapes: Shapes | None = None) -> None:
    """Fill in the shape and dtype of every operand, for given sizes of the inputs.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs by name; by default those recorded.

    Raises
    ------
    ParameterError
        When there is no such input, or a size is unknown or not a whole number.
    ShapeError
        Naming the operator that does not take these sizes.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = pnnx_fast.Graph.load(model_path())
    >>> infer_shapes(graph, {"0": (4, 1, 8, 8)})
    >>> graph.operand("18").shape
    (4, 10)
    """
    _, walk = walked(graph, _recorded(graph, shapes))
    for x in graph.operands:
        shape = walk.shape(x)
        x.shape, x.dtype = _of_rank(x) if shape is None else shape, walk.dtype(x) or x.dtype


def change_batch(graph: Graph, batch: int, axis: int = 0, shapes: Shapes | None = None) -> list[str]:
    """Set the batch of all inputs, and the sizes in the graph that tracing has derived from it.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    batch : int
        Number of items, at least 1.
    axis : int
        The batch axis, counted from 0. Inputs with fewer dimensions, or with another size there than the first input,
        have no batch.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs that the file does not record. A batch that varies already need not be given.

    Returns
    -------
    list of str
        Names of operators whose sizes stay fixed, because nothing tells whether they belong to the batch.

    Raises
    ------
    ParameterError
        When ``batch`` is not a whole number of at least 1, no input has such an axis, or sizes are unknown.
    ShapeError
        Naming an operator that cannot take other sizes.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = pnnx_fast.Graph.load(model_path())
    >>> make_dynamic(graph)
    []
    >>> change_batch(graph, 4)
    []
    >>> graph.operand("0").shape
    (4, 1, 8, 8)
    """
    if not hasattr(batch, "__index__") or batch < 1:
        raise ParameterError(f"batch must be a whole number of at least 1, not {batch!r}")
    noted = {x.name: x.shape for x in graph.inputs if x.shape is not None} | dict(shapes or {})
    # What follows a batch that varies holds no size of it, so that any will do: that of other inputs, where noted.
    traced = next((shape[axis] for shape in noted.values() if 0 <= axis < len(shape) and shape[axis] >= 0), batch)
    before = _recorded(
        graph, {name: [traced if i == axis and d < 0 else d for i, d in enumerate(s)] for name, s in noted.items()}
    )
    after = dict(before)
    batched = _sharing(before, axis) if axis >= 0 else []
    if not batched:
        raise ParameterError(f"no input has an axis {axis}, counted from 0, that could be the batch")
    for name in batched:
        after[name] = (*before[name][:axis], batch, *before[name][axis + 1 :])
    _, new, fixed = unbake(graph, before, after)
    for x in graph.operands:
        shape = new.shape(x)
        x.shape, x.dtype = _of_rank(x) if shape is None else shape, new.dtype(x) or x.dtype
    return fixed


def make_dynamic(
    graph: Graph, axes: Mapping[str, Sequence[int]] | None = None, shapes: Shapes | None = None
) -> list[str]:
    """Let sizes of inputs vary; what tracing has fixed, such as the sizes of reshapes, is computed again.

    Parameters
    ----------
    graph : Graph
        Changed in place; sizes that vary become -1.
    axes : mapping of str to sequence of int, optional
        Axes that vary, by input. By default the batch: the first axis of the first input, and of every other input
        that has the same size there.
    shapes : mapping of str to sequence of int, optional
        Sizes of inputs that the file does not record.

    Returns
    -------
    list of str
        Names of operators whose sizes stay fixed, because nothing tells where they come from.

    Raises
    ------
    ParameterError
        When there is no such input or axis.
    ShapeError
        When an operator, such as a linear layer after flattening, cannot take other sizes. The graph is unchanged.
    TypeError
        When axes are given as one number instead of a sequence.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = pnnx_fast.Graph.load(model_path())
    >>> make_dynamic(graph)
    []
    >>> graph.operand("0").shape
    (-1, 1, 8, 8)
    """
    before = _recorded(graph, shapes)
    chosen = dict.fromkeys(_sharing(before, 0), (0,)) if axes is None else axes
    after = dict(before)
    unknown = [name for name in chosen if name not in before]
    if unknown:
        raise ParameterError(no_such("input", unknown[0], before))
    for name, wanted in chosen.items():
        if isinstance(wanted, int):
            raise TypeError(f"axes are given as {{{name!r}: ({wanted},)}}, not as {wanted}")
        rank = len(before[name])
        beyond = [axis for axis in wanted if not -rank <= axis < rank]
        if beyond:
            raise ParameterError(f"input {name} has {rank} dimensions and no axis {beyond[0]}")
    after |= _grown({name: before[name] for name in before if name in chosen}, chosen)
    old, new, fixed = unbake(graph, before, after)
    for x in graph.operands:
        a, b = old.shape(x), new.shape(x)
        if a is None or b is None or len(a) != len(b):
            x.shape = _of_rank(x)
        else:
            x.shape = tuple(p if p == q else -1 for p, q in zip(a, b, strict=True))
    return fixed


def _of_rank(x: Operand) -> tuple[int, ...] | None:
    """Shape of an operand whose sizes depend on data: the number of its dimensions stays."""
    return None if x.shape is None else (-1,) * len(x.shape)


def _sharing(shapes: Shapes, axis: int) -> list[str]:
    """Inputs whose size along an axis is that of the first one."""
    sized = {name: shape[axis] for name, shape in shapes.items() if axis < len(shape)}
    return [name for name, size in sized.items() if size == next(iter(sized.values()))]


def _grown(shapes: Shapes, axes: Mapping[str, Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Sizes that differ from those of the trace: axes of an input by factors of their own, those that are equal to a
    size of an input before it, best in the same place, by the factor of that one.
    """
    known: dict[int, int] = {}
    placed: dict[tuple[int, int], int] = {}
    after: dict[str, tuple[int, ...]] = {}
    for name, shape in shapes.items():
        places = sorted({a % len(shape) for a in axes[name]})
        factors = {i: placed.get((i, d := shape[i])) or known.get(d, _FACTORS[min(i, 5)]) for i in places}
        after[name] = tuple(d * factors.get(i, 1) for i, d in enumerate(shape))
        for i in places:
            known.setdefault(shape[i], factors[i])
            placed.setdefault((i, shape[i]), factors[i])
    return after
