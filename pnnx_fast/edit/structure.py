"""Changes of structure: cutting out, inserting, removing, replacing, renaming, joining. Knows nothing of running."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pnnx_fast.errors import GraphError, ParameterError, UnknownNameError, did_you_mean, no_such
from pnnx_fast.ir import Attributes, Graph, Operand, Operator, Parameters

__all__ = ["extract", "insert", "merge", "remove", "rename", "replace"]


def extract(graph: Graph, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """Return the part of a graph between some operands, as a graph of its own.

    Parameters
    ----------
    graph : Graph
        Stays as it is; weights are shared.
    inputs, outputs : sequence of str
        Names of operands. Constants that the part needs come along.

    Returns
    -------
    Graph

    Raises
    ------
    GraphError
        When an operand does not exist or is among ``inputs`` twice, or an output needs an input of the graph that is
        not among them.
    TypeError
        When a single name is given instead of a list.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = Graph.load(model_path())
    >>> part = extract(graph, ["0"], [graph.ops[2].outputs[0].name])
    >>> [op.type for op in part.ops]
    ['pnnx.Input', 'nn.Conv2d', 'nn.ReLU', 'pnnx.Output']
    """
    if isinstance(inputs, str) or isinstance(outputs, str):
        raise TypeError("inputs and outputs are lists of names, not one name")
    repeated = [name for name, count in Counter(inputs).items() if count > 1]
    if repeated:
        raise GraphError([f"{name} is among the inputs of the part more than once" for name in repeated])
    part = graph.copy()
    starts = [part.operand(name) for name in inputs]
    ends = [part.operand(name) for name in outputs]
    needed = _upstream(ends, set(starts))
    gone = [op for op in part.ops if op not in needed]
    for start in starts:
        if start.producer is not None:
            # The place of its producer may stay for other outputs.
            start.producer.outputs[start.producer.outputs.index(start)] = _spare(part, start)
            start.producer = None
    for end in ends:
        end.consumers = [c for c in end.consumers if c in needed]
    for op in gone:
        for x in op.inputs:
            if op in x.consumers:
                x.remove_consumer(op)
        op.inputs = []
    for op in gone:
        for x in list(op.outputs):
            part.remove_operand(x)
    part.ops[:] = [op for op in part.ops if op in needed]
    for i, start in enumerate(starts):
        part.new_operator("pnnx.Input", f"pnnx_input_{i}", outputs=[start], index=i)
    for i, end in enumerate(ends):
        part.new_operator("pnnx.Output", f"pnnx_output_{i}", inputs=[end])
    return part


def _upstream(ends: Sequence[Operand], starts: set[Operand]) -> set[Operator]:
    needed: set[Operator] = set()
    stack = [x for x in ends if x not in starts]
    while stack:
        x = stack.pop()
        op = x.producer
        if op is None or op in needed:
            continue
        if op.type == "pnnx.Input":
            raise GraphError([f"the outputs need the input {x.name}, which is not among the inputs of the part"])
        needed.add(op)
        stack += [y for y in op.inputs if y not in starts]
    return needed


def _spare(graph: Graph, like: Operand) -> Operand:
    spare = graph.new_operand(graph.free_name(f"{like.name}_unused"))
    spare.shape, spare.dtype, spare.producer = like.shape, like.dtype, like.producer
    return spare


def insert(
    graph: Graph,
    after: str,
    type: str,
    name: str,
    params: Mapping[str, object] | None = None,
    attrs: Mapping[str, object] | None = None,
) -> Operator:
    """Insert an operator between an operand and everything that consumes it, and return it.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    after : str
        Name of the operand; the result has its shape and dtype.
    type, name : str
        Of the operator.
    params : mapping of str to value, optional
    attrs : mapping of str to Attribute or array_like, optional

    Returns
    -------
    Operator

    Raises
    ------
    GraphError
        When there is no such operand, or the name is taken.

    Examples
    --------
    >>> graph = Graph.parse('''7767517
    ... 2 1
    ... pnnx.Input  in   0 1 x #x=(1,8)f32
    ... pnnx.Output out  1 0 x
    ... ''')
    >>> insert(graph, "x", "F.relu", "act")
    Operator(F.relu act: x -> x_act)
    >>> graph.ops[-1].inputs
    [Operand(x_act:(1,8)f32)]
    """
    source = graph.operand(after)
    if graph.get_operator(name) is not None:
        raise GraphError([f"operator {name} exists already"])
    producer = source.producer
    index = 0 if producer is None else graph.place_of(producer) + 1
    # Values that are no parameters or weights are found here, before anything is rewired.
    made = graph.new_operator(type, name, params=params, attrs=attrs, index=index)
    result = graph.new_operand(graph.free_name(f"{after}_{name}"))
    result.dtype, result.shape = source.dtype, source.shape
    graph.replace_uses(source, result)
    made.add_input(source)
    made.add_output(result)
    return made


def remove(graph: Graph, name: str) -> None:
    """Remove an operator; consumers of its output take its first input instead.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    name : str
        Of the operator.

    Raises
    ------
    GraphError
        When there is no such operator, it has no input, or several of its outputs are used.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = Graph.load(model_path())
    >>> remove(graph, "F.softmax_4")
    >>> graph.outputs
    [Operand(17:(1,10)f32)]
    """
    op = graph.operator(name)
    if op.outputs and not op.inputs:
        raise GraphError([f"operator {name} has no input that could take the place of its output"])
    if any(x.consumers for x in op.outputs[1:]):
        raise GraphError([f"operator {name} has several outputs in use"])
    if op.outputs:
        graph.replace_uses(op.outputs[0], op.inputs[0])
    graph.remove_operator(op)


def replace(
    graph: Graph,
    name: str,
    type: str,
    params: Mapping[str, object] | None = None,
    attrs: Mapping[str, object] | None = None,
) -> Operator:
    """Exchange an operator for another one between the same operands, and return the new one.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    name : str
        Of the operator, which keeps it.
    type : str
        The new type.
    params : mapping of str to value, optional
        The new parameters.
    attrs : mapping of str to Attribute or array_like, optional
        The new weights.

    Returns
    -------
    Operator

    Raises
    ------
    GraphError
        When there is no such operator.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = Graph.load(model_path())
    >>> replace(graph, "F.softmax_4", "F.log_softmax", {"dim": 1})
    Operator(F.log_softmax F.softmax_4: 17 -> 18)
    """
    op = graph.operator(name)
    op.type, op.params, op.attrs = type, Parameters(params or {}), Attributes(attrs or {})
    return op


def rename(graph: Graph, old: str, new: str) -> None:
    """Rename an operand, or the operators of a name (their weights follow).

    Parameters
    ----------
    graph : Graph
        Changed in place.
    old, new : str
        An operand and operators that share the old name are all renamed.

    Raises
    ------
    GraphError
        When nothing has the old name, something has the new one already, or the new one is not a valid name.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = Graph.load(model_path())
    >>> rename(graph, "0", "picture")
    >>> rename(graph, "convbn2d_0", "stem")
    >>> graph.ops[1]
    Operator(nn.Conv2d stem: picture -> 1)
    """
    found = graph.get_operand(old)
    ops = [op for op in graph.ops if op.name == old]
    if found is None and not ops:
        names = [x.name for x in graph.operands] + [op.name for op in graph.ops]
        raise UnknownNameError([f"there is neither an operand nor an operator {old!r}{did_you_mean(old, names)}"])
    if not new or any(c.isspace() for c in new):
        raise GraphError([f"{new!r} is no name that a file can hold: it is empty or has blanks"])
    if found is not None and "=" in new:  # files name operands in parameters, as in #name=(1,3)f32
        raise GraphError([f"{new!r} is no name of an operand that a file can hold: it has a '='"])
    if ops and graph.get_operator(new) is not None:
        raise GraphError([f"operator {new} exists already"])
    if found is not None:
        graph.rename_operand(found, new)
    for op in ops:
        op.name = new


def merge(first: Graph, second: Graph, connections: Mapping[str, str], prefix: str = "second_") -> Graph:
    """Join two graphs: operands of the first feed inputs of the second.

    Parameters
    ----------
    first, second : Graph
        Stay as they are.
    connections : mapping of str to str
        Input of ``second`` -> operand of ``first``. Outputs of ``first`` that feed an input are no longer outputs.
    prefix : str
        Put in front of names in ``second`` that ``first`` also has.

    Returns
    -------
    Graph
        A new one, with the inputs of ``first`` and those of ``second`` that nothing feeds.

    Raises
    ------
    GraphError
        When ``second`` has no such input, or ``first`` no such operand.
    ParameterError
        When the prefix is empty.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> graph = Graph.load(model_path())
    >>> front, back = extract(graph, ["0"], ["2"]), extract(graph, ["2"], ["18"])
    >>> merge(front, back, {"2": "2"})
    <Graph: 20 operators, 19 operands, 1 inputs, 1 outputs>
    """
    if not prefix:
        raise ParameterError("the prefix of the second graph's names must not be empty", parameter="prefix")
    result, other = first.copy(), second.copy()
    inputs = {x.name: x for x in other.inputs}
    unknown = [name for name in connections if name not in inputs]
    if unknown:
        raise UnknownNameError(["second graph: " + no_such("input", name, inputs) for name in unknown])
    sources = {inputs[name]: result.operand(source) for name, source in connections.items()}
    _drop_outputs(result, set(sources.values()))
    operands = [x for x in other.operands if x not in sources]
    names = _renamed((x.name for x in operands), {x.name for x in result.operands}, prefix)
    known: dict[Operand, Operand] = dict(sources)
    for x in operands:
        known[x] = twin = result.new_operand(names[x.name])
        twin.dtype, twin.shape, twin.was_read = x.dtype, x.shape, x.was_read
    names = _renamed((op.name for op in other.ops), {op.name for op in result.ops}, prefix)
    for op in other.ops:
        outputs = [known[x] for x in op.outputs if x not in sources]
        if op.outputs and not outputs:
            continue
        made = result.new_operator(op.type, names[op.name], inputs=[known[x] for x in op.inputs], attrs=op.attrs)
        made.params, made.inputnames = op.params, list(op.inputnames)
        for x in outputs:
            made.add_output(x)
    return result


def _drop_outputs(graph: Graph, fed: set[Operand]) -> None:
    """Operands are no outputs any more; an operator of outputs goes with the last of its own."""
    emptied = []
    for op in graph.ops:
        slots = [i for i, x in enumerate(op.inputs) if op.type == "pnnx.Output" and x in fed]
        for index in reversed(slots):
            op.remove_input(index)
        if slots and not op.inputs:
            emptied.append(op)
    graph.remove_operators(emptied)


def _renamed(names: Iterable[str], taken: set[str], prefix: str) -> dict[str, str]:
    """What the names of one graph become beside those of another: operators that share a name go on sharing it."""
    found = {name: name for name in names}
    used = taken | found.keys()
    for name in found:
        if name in taken:
            new = prefix + name
            while new in used:
                new = prefix + new
            used.add(new)
            found[name] = new
    return found
