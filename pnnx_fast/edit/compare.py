"""Comparison of graphs: by what they compute, operand by operand, and by what they are."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.mapped import files_of, require_unchanged
from pnnx_fast.ir.notes import RECURRENT, attention_roles, recurrent_roles
from pnnx_fast.ir.outputs import flat, leaves, named, names, returned
from pnnx_fast.runtime.inputs import array_of
from pnnx_fast.runtime.session import Model

__all__ = ["Comparison", "compare", "diff"]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """One operand on both sides.

    Attributes
    ----------
    operand, operator, type : str
        Name of the operand, name and type of the operator that makes it.
    error : float
        Largest difference, relative to the largest value of the reference; inf when shapes, kinds or NaN differ.
    matches : bool
        Whether it lies within the tolerance.

    Examples
    --------
    >>> from pnnx_fast.demo import load_digits, model_path
    >>> graph = Graph.load(model_path())
    >>> compare(graph, graph, load_digits().pictures[:1])[0]
    Comparison(nn.Conv2d convbn2d_0 -> 1: matches, error 0)
    """

    operand: str
    operator: str
    type: str
    error: float
    matches: bool

    def __repr__(self) -> str:
        verdict = "matches" if self.matches else "differs"
        return f"Comparison({self.type} {self.operator} -> {self.operand}: {verdict}, error {self.error:.2g})"


def compare(graph: Graph, reference: Any, *inputs: Any, tolerance: float = 1e-4) -> list[Comparison]:
    """Run a graph and compare every intermediate result that the reference also has, in order of execution.

    Parameters
    ----------
    graph : Graph
        Stays as it is; it runs without being optimised.
    reference : Graph, mapping of str to array_like, path, or torch.nn.Module
        One of: another graph (operands of equal names are compared); a dump by operand name, as a mapping or as the
        path of an ``.npz`` file; a module whose submodules have the names of the graph's operators.
    *inputs : array_like
        Inputs of both sides, in the order of the graph's.
    tolerance : float
        Largest error that matches, relative to the largest value of the reference.

    Returns
    -------
    list of Comparison
        The first one that does not match is where the results part.

    Raises
    ------
    ParameterError
        When the reference and the graph have no operand in common, or the tolerance is not zero or more.
    ShapeError
        When the inputs do not fit the graph.
    TypeError
        When the reference is of another kind.

    Examples
    --------
    >>> from pnnx_fast.demo import load_digits, model_path
    >>> graph, other = (Graph.load(model_path()) for _ in range(2))
    >>> other.operator("down").attrs["bias"] = np.zeros(64, np.float32)
    >>> rows = compare(other, graph, load_digits().pictures[:1])
    >>> next(row.operator for row in rows if not row.matches)
    'down'
    """
    if not tolerance >= 0:  # nor NaN, with which nothing would match
        raise ParameterError(f"a tolerance is zero or more, not {tolerance}")
    values = _intermediates(graph, inputs)
    wanted = _wanted(graph, reference, inputs)
    rows = {x.name: op for op in graph.topological() if op.type != "pnnx.Input" for x in op.outputs}
    for x in leaves(returned(graph)):
        if x.producer is not None and graph.get_operand(x.name) is None:  # an expression computes it in a list
            rows[x.name] = x.producer
    found: list[Comparison] = []
    for name, op in rows.items():
        if name in values and name in wanted:
            error = _error(values[name], wanted[name])
            found.append(Comparison(name, op.name, op.type, error, error <= tolerance))
    if not rows.keys().isdisjoint(values) and not found:
        raise ParameterError("the reference has no operand of the graph's names: nothing to compare")
    return found


def _intermediates(graph: Graph, inputs: tuple[Any, ...]) -> dict[str, Array]:
    open_ = graph.copy()
    open_.remove_operators([op for op in open_.ops if op.type == "pnnx.Output"])
    for x in [x for op in open_.ops if op.type != "pnnx.Input" for x in op.outputs]:
        open_.new_operator("pnnx.Output", f"seen_{x.name}", inputs=[x])
    results = Model(open_, optimize=False).results(*inputs)
    return {name: y for name, y in named(names(returned(open_)), results) if isinstance(y, np.ndarray)}


def _wanted(graph: Graph, reference: Any, inputs: tuple[Any, ...]) -> dict[str, Array]:
    if isinstance(reference, Graph):
        return _intermediates(reference, inputs)
    if isinstance(reference, str | os.PathLike):
        with np.load(reference) as dump:
            return dict(dump)
    if isinstance(reference, Mapping):
        return {name: array_of(value) for name, value in reference.items()}
    if not hasattr(reference, "named_modules"):
        kinds = "a Graph, a mapping of arrays, the path of an .npz file or a torch.nn.Module"
        raise TypeError(f"reference is {kinds}, not {type(reference).__name__}")
    return _module_outputs(graph, reference, inputs)


def _module_outputs(graph: Graph, module: Any, inputs: tuple[Any, ...]) -> dict[str, Array]:
    """Outputs of submodules, under the names of the operands that the operators of their names make."""
    import torch

    by_name = {op.name: op for op in graph.ops if op.outputs}
    found: dict[str, Array] = {}

    def keep(op: Operator) -> Any:
        def hook(_module: Any, _given: Any, result: Any) -> None:
            # Of a module that is called more than once the first call has its name.
            for name, value in _by_operand(op, result).items():
                found.setdefault(name, array_of(value))

        return hook

    handles = [m.register_forward_hook(keep(by_name[n])) for n, m in module.named_modules() if n in by_name]
    outputs = [x.name for x in leaves(returned(graph))]
    try:
        with torch.no_grad():
            given = [x if isinstance(x, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(x)) for x in inputs]
            result = module(*given)
    finally:
        for handle in handles:
            handle.remove()
    found.update({n: array_of(y) for n, y in zip(outputs, flat(result), strict=False) if hasattr(y, "detach")})
    return found


def _by_operand(op: Operator, result: Any) -> dict[str, Any]:
    """What a module returns, under the names of an operator's outputs, which may leave some of it out."""
    if not isinstance(result, tuple | list):
        return {op.outputs[0].name: result}
    roles: Sequence[str]
    if op.type in RECURRENT:
        states = result[1] if isinstance(result[1], tuple) else (result[1],)
        roles = recurrent_roles(op) or ""
        parts = dict(zip("yhc", (result[0], *states), strict=False))
    elif op.type == "nn.MultiheadAttention":
        roles, parts = attention_roles(op), dict(zip(("y", "weights"), result, strict=False))
    else:
        return {op.outputs[0].name: result[0]}
    named_parts = zip(op.outputs, roles, strict=False)
    return {x.name: parts[role] for x, role in named_parts if parts.get(role) is not None}


def _error(got: Array, wanted: Array) -> float:
    if got.shape != wanted.shape or got.dtype.kind != wanted.dtype.kind:
        return float("inf")
    if not wanted.size:
        return 0.0
    if wanted.dtype.kind not in "fc":
        return 0.0 if np.array_equal(got, wanted) else float("inf")
    finite = np.isfinite(wanted)
    if not np.array_equal(got[~finite], wanted[~finite], equal_nan=True) or not np.isfinite(got[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(wanted[finite]).max()), 1e-30)
    return float(np.abs(got[finite] - wanted[finite]).max()) / scale


def diff(a: Graph, b: Graph) -> list[str]:
    """Return the differences of two graphs, one line each; operators are matched by name and occurrence.

    A line begins with ``-`` (only in the first), ``+`` (only in the second) or ``~`` (in both, but different).

    Parameters
    ----------
    a, b : Graph

    Returns
    -------
    list of str
        Empty when there are no differences.

    Raises
    ------
    TypeError
        When ``b`` is not a Graph.
    FormatError
        When a file that holds weights was written to meanwhile.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> a, b = (Graph.load(model_path()) for _ in range(2))
    >>> b.ops[1].params["stride"] = (2, 2)
    >>> diff(a, b)
    ['~ nn.Conv2d convbn2d_0: stride (1,1) -> (2,2)']
    """
    if not isinstance(b, Graph):
        raise TypeError(f"a graph is compared with a Graph, not with {type(b).__name__}")
    require_unchanged(files_of([*a.ops, *b.ops]))
    one, two = _by_name(a), _by_name(b)
    lines = [f"- {one[k].type} {k[0]}" for k in one if k not in two]
    lines += [f"+ {two[k].type} {k[0]}" for k in two if k not in one]
    for key, op in one.items():
        if key in two:
            lines += [f"~ {op.where}: {text}" for text in _changes(op, two[key])]
    return lines


def _by_name(graph: Graph) -> dict[tuple[str, int], Operator]:
    counts: dict[str, int] = {}
    found: dict[tuple[str, int], Operator] = {}
    for op in graph.ops:
        counts[op.name] = counts.get(op.name, 0) + 1
        found[op.name, counts[op.name]] = op
    return found


def _changes(a: Operator, b: Operator) -> Iterator[str]:
    if a.type != b.type:
        yield f"type {a.type} -> {b.type}"
    for side in ("inputs", "outputs"):
        x, y = ([o.name for o in getattr(op, side)] for op in (a, b))
        if x != y:
            yield f"{side} {', '.join(x)} -> {', '.join(y)}"
    for p, q in zip(a.outputs, b.outputs, strict=False):
        if p.name == q.name and (p.shape, p.dtype) != (q.shape, q.dtype):
            yield f"shape of {p.name} {p.signature or 'unknown'} -> {q.signature or 'unknown'}"
    for key in sorted(a.params.keys() | b.params.keys()):
        if key not in a.params or key not in b.params or a.params[key] != b.params[key]:
            x, y = ([op.params[key].text] if key in op.params else ["absent"] for op in (a, b))
            yield f"{key} {x[0]} -> {y[0]}"
    for key in sorted(a.attrs.keys() | b.attrs.keys()):
        if key not in a.attrs or key not in b.attrs or a.attrs[key] != b.attrs[key]:
            x, y = ([op.attrs[key].signature] if key in op.attrs else ["absent"] for op in (a, b))
            yield f"weight {key} {x[0]} -> {y[0]}" if x != y else f"weight {key} {x[0]} has other values"
