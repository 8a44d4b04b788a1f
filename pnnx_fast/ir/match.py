"""Pattern matching and rewriting of graphs: patterns and replacements are ``.param`` text, as in PNNX's rewriter.

Passes and users describe what to find and what to put in its place; `Rule` compiles the text, `rewrite` applies rules
until nothing changes. Matching looks at operators and operands only and knows no operator type but the three of the
format itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pnnx_fast.errors import ParameterError
from pnnx_fast.ir.attribute import Attribute
from pnnx_fast.ir.graph import Graph
from pnnx_fast.ir.operator import Operand, Operator
from pnnx_fast.ir.parameter import RAW_KEYS, Parameter

__all__ = ["CAPTURED", "Match", "Rule", "find", "rewrite"]

CAPTURED = -233
"""Size of a dimension of a pattern that is captured."""
MOST_TRIES = 4096
"""Consumers of shared operands that are tried at one place: their combinations grow exponentially."""
_ANY = -1
_TOKEN = re.compile(r"[(),\[\]]|[^(),\[\]]+")
_ALL = "%*"


@dataclass
class Match:
    """One place where a pattern fits, with everything that it captured.

    Attributes
    ----------
    params : dict of str to Parameter
        ``%name`` captures of parameters, of literals in expressions and of dimensions; ``op.key`` for ``%*=%*``.
    attrs : dict of str to Attribute
        Weights as ``op.key``, with the pattern's operator names.
    ops, operands : dict of str to Operator, dict of str to Operand
        Operators and operands of the graph by their names in the pattern.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> pattern = '''7767517
    ... 3 2
    ... pnnx.Input  in   0 1 x
    ... nn.Linear   fc   1 1 x y in_features=%n bias=* out_features=%m
    ... pnnx.Output out  1 0 y
    ... '''
    >>> (match,) = find(Graph.load(model_path()), pattern)
    >>> match.ops["fc"].name, match.value("n"), match.value("m"), match.attrs["fc.weight"]
    ('head', 64, 10, Attribute((10,64)f32))
    """

    params: dict[str, Parameter] = field(default_factory=dict)
    attrs: dict[str, Attribute] = field(default_factory=dict)
    ops: dict[str, Operator] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)

    def value(self, name: str) -> Any:
        """Value of a captured parameter.

        Parameters
        ----------
        name : str
            Its name without the ``%``.

        Returns
        -------
        None, bool, int, float, complex, str or list of these

        Raises
        ------
        KeyError
            When the pattern captures nothing of that name.
        """
        return self.params[name].value

    def _copy(self) -> Match:
        return Match(dict(self.params), dict(self.attrs), dict(self.ops), dict(self.operands))


def _inner(graph: Graph) -> list[Operator]:
    return [op for op in graph.ops if not op.is_end]


class Rule:
    """A pattern and what replaces it.

    Where a pattern has several outputs, there may be many ways to match it at one operator. Of those a few thousand are
    tried.

    Parameters
    ----------
    pattern : str
        Text of a graph. A parameter is a value, ``%name`` (captured; the same name captures equal values), ``*``
        (anything), a list with ``%name`` elements, or ``%*=%*`` (all others, captured as ``op.key``). Operands may
        have shapes with ``?`` and ``%name``, attributes too. Expressions are compared token by token.
    replacement : str, optional
        Text of a graph with the same inputs and outputs, in which ``%name`` stands for captures, also inside longer
        values, and ``@key=%op.key`` for captured weights.
    type, name : str
        Without a replacement text: the one operator that replaces the match; it gets the captured parameters.
    condition : callable, optional
        Takes the match, returns whether to rewrite it.
    write : callable, optional
        Takes the match and the new operators by their names in the replacement, to set what text cannot say.
    priority : int
        Rules of a smaller number come first.

    Raises
    ------
    ParameterError
        When there is neither replacement nor type or both, the pattern is not connected or has no output, or pattern
        and replacement differ in number of inputs or outputs.
    FormatError
        When a text does not follow the format.

    Examples
    --------
    >>> rule = Rule('''7767517
    ... 3 2
    ... pnnx.Input      in  0 1 x
    ... pnnx.Expression e   1 1 x y expr=mul(@0,sigmoid(@0))
    ... pnnx.Output     out 1 0 y
    ... ''', type="F.silu")
    >>> rule
    <Rule: pnnx.Expression -> F.silu>
    """

    def __init__(
        self,
        pattern: str,
        replacement: str | None = None,
        *,
        type: str = "",
        name: str = "",
        condition: Callable[[Match], bool] | None = None,
        write: Callable[[Match, dict[str, Operator]], None] | None = None,
        priority: int = 100,
    ) -> None:
        self.pattern = Graph.parse(pattern)
        self.replacement = None if replacement is None else Graph.parse(replacement)
        if (replacement is None) == (not type):
            raise ParameterError("a rule needs either a replacement or a type")
        self.type, self.name = type, name or type.rpartition(".")[2].lower()
        self.condition, self.write, self.priority = condition, write, priority
        self.inputs, self.outputs = self.pattern.inputs, self.pattern.outputs
        self.body = _inner(self.pattern)
        if not self.body or not self.outputs:
            raise ParameterError("a pattern needs an operator and an output")
        self.anchor = self.outputs[-1].producer
        if self.anchor is None or self.anchor.type == "pnnx.Input":
            raise ParameterError("an output of a pattern must come from an operator of it")
        if self.replacement is not None:
            sides = self.replacement.inputs, self.replacement.outputs
            if [len(x) for x in sides] != [len(self.inputs), len(self.outputs)]:
                raise ParameterError("pattern and replacement differ in number of inputs or outputs")
        if len(self._reached()) != len(self.body):
            raise ParameterError("the operators of a pattern must be connected")

    def __repr__(self) -> str:
        made = [self.type] if self.replacement is None else [op.type for op in _inner(self.replacement)]
        return f"<Rule: {', '.join(op.type for op in self.body)} -> {', '.join(made) or 'nothing'}>"

    def _reached(self) -> set[Operator]:
        assert self.anchor is not None
        seen: set[Operator] = set()
        stack = [self.anchor]
        while stack:
            op = stack.pop()
            if op in seen or op.is_end:
                continue
            seen.add(op)
            stack += [x.producer for x in op.inputs if x.producer is not None]
            stack += [c for x in (*op.inputs, *op.outputs) for c in x.consumers]
        return seen

    def matches(self, op: Operator) -> Match | None:
        """Return the match whose last output operator is `op`, or None.

        Parameters
        ----------
        op : Operator
            Of any graph.

        Returns
        -------
        Match or None
        """
        assert self.anchor is not None
        if op.type != self.anchor.type:
            return None
        for match in _extend(self, Match(), [(self.anchor, op)], iter(range(MOST_TRIES))):
            if _is_closed(self, match) and (self.condition is None or self.condition(match)):
                return match
        return None


# -- Matching ---------------------------------------------------------------------------------------------------------


def _extend(
    rule: Rule, match: Match, pending: list[tuple[Operator, Operator]], tries: Iterator[int]
) -> Iterator[Match]:
    """Complete a match: upstream there is no choice, downstream every consumer of a shared operand is tried."""
    while pending:
        pattern, op = pending.pop()
        known = match.ops.get(pattern.name)
        if known is not None:
            if known is not op:
                return
            continue
        if op in match.ops.values() or not _fits(pattern, op, match):
            return
        match.ops[pattern.name] = op
        for p, x in zip((*pattern.inputs, *pattern.outputs), (*op.inputs, *op.outputs), strict=True):
            if not _bind(p, x, match):
                return
        for p, x in zip(pattern.inputs, op.inputs, strict=True):
            if p.producer is None or p.producer.type == "pnnx.Input":
                continue
            if x.producer is None or p.producer.outputs.index(p) >= len(x.producer.outputs):
                return
            if x.producer.outputs[p.producer.outputs.index(p)] is not x:
                return
            pending.append((p.producer, x.producer))
    missing = next((op for op in rule.body if op.name not in match.ops and _frontier(op, match)), None)
    if missing is None:
        if len(match.ops) == len(rule.body):
            yield match
        return
    shared = match.operands[next(x for x in missing.inputs if x.name in match.operands).name]
    for consumer in dict.fromkeys(shared.consumers):
        if consumer.type == missing.type and next(tries, None) is not None:
            yield from _extend(rule, match._copy(), [(missing, consumer)], tries)


def _frontier(op: Operator, match: Match) -> bool:
    return any(x.name in match.operands for x in op.inputs)


def _bind(pattern: Operand, operand: Operand, match: Match) -> bool:
    known = match.operands.setdefault(pattern.name, operand)
    if known is not operand:
        return False
    if pattern.shape is None:
        return True
    if pattern.dtype is not None and pattern.dtype != operand.dtype:
        return False
    return operand.shape is not None and _dims(pattern.shape, operand.shape, pattern.params, match)


def _dims(pattern: Iterable[int], shape: tuple[int, ...], names: Mapping[str, str], match: Match) -> bool:
    wanted = tuple(pattern)
    if len(wanted) != len(shape):
        return False
    for axis, (p, d) in enumerate(zip(wanted, shape, strict=True)):
        if p == CAPTURED:
            if not _capture(names[f"__shape__{axis}"], Parameter(d), match):
                return False
        elif p not in (_ANY, d):
            return False
    return True


def _capture(name: str, parameter: Parameter, match: Match) -> bool:
    return _same(match.params.setdefault(name, parameter), parameter)


def _same(a: Parameter, b: Parameter) -> bool:
    x, y = a.value, b.value
    if isinstance(x, int | float) and isinstance(y, int | float) and isinstance(x, bool) == isinstance(y, bool):
        return Parameter(float(x)) == Parameter(float(y))
    return a == b


def _fits(pattern: Operator, op: Operator, match: Match) -> bool:
    if pattern.type != op.type or len(pattern.inputs) != len(op.inputs) or len(pattern.outputs) != len(op.outputs):
        return False
    if any(pattern.inputnames) and any(op.inputnames) and pattern.inputnames != op.inputnames:
        return False
    return _params_fit(pattern, op, match) and _attrs_fit(pattern, op, match)


def _params_fit(pattern: Operator, op: Operator, match: Match) -> bool:
    open_ = _ALL in pattern.params
    if not open_ and len(pattern.params) != len(op.params):
        return False
    for key, wanted in pattern.params.items():
        if key == _ALL:
            continue
        if key not in op.params or not _param_fits(key, wanted, op.params[key], match):
            return False
    if open_:
        match.params.update({f"{pattern.name}.{key}": p for key, p in op.params.items() if key not in pattern.params})
    return True


def _param_fits(key: str, wanted: Parameter, found: Parameter, match: Match) -> bool:
    text = wanted.text
    if text == "*":
        return True
    if "%" not in text:
        return _same(wanted, found)
    if text.startswith("%"):
        return _capture(text[1:], found, match)
    if key in RAW_KEYS or text[0] not in "([":
        return _tokens_fit(_TOKEN.findall(text), _TOKEN.findall(found.text), match)
    items = found.value
    words = text[1:-1].split(",")
    if not isinstance(items, list) or len(items) != len(words):
        return False
    for word, item in zip(words, items, strict=True):
        element = Parameter(item)
        if word.startswith("%"):
            if not _capture(word[1:], element, match):
                return False
        elif word != "*" and not _same(Parameter.parse_from_string(word), element):
            return False
    return True


def _tokens_fit(wanted: list[str], found: list[str], match: Match) -> bool:
    if len(wanted) != len(found):
        return False
    for a, b in zip(wanted, found, strict=True):
        if a.startswith("%"):
            if b[0] in "@(),[]" or not _capture(a[1:], Parameter.parse_from_string(b), match):
                return False
        elif a != b:
            return False
    return True


def _attrs_fit(pattern: Operator, op: Operator, match: Match) -> bool:
    for key, wanted in pattern.attrs.items():
        if key not in op.attrs:
            return False
        found = op.attrs[key]
        if wanted.dtype is not None and (
            wanted.dtype != found.dtype or not _dims(wanted.shape, found.shape, wanted.params, match)
        ):
            return False
    match.attrs.update({f"{pattern.name}.{key}": attr for key, attr in op.attrs.items()})
    return True


def _is_closed(rule: Rule, match: Match) -> bool:
    """Whether inner values are used inside only, as often as in the pattern."""
    outputs = set(rule.outputs)
    for op in rule.body:
        for p in op.outputs:
            if p not in outputs and len(match.operands[p.name].consumers) != len(p.consumers):
                return False
    return True


def find(graph: Graph, pattern: str | Rule) -> list[Match]:
    """Return all matches of a pattern, which may overlap, in the order of the graph.

    Parameters
    ----------
    graph : Graph
        Stays as it is.
    pattern : str or Rule
        Text of a pattern as for :class:`Rule`.

    Returns
    -------
    list of Match

    Raises
    ------
    ParameterError
        When the pattern is not connected or has no output.
    FormatError
        When the text does not follow the format.

    Examples
    --------
    >>> graph = Graph.parse('''7767517
    ... 4 3
    ... pnnx.Input  in   0 1 x
    ... F.relu      one  1 1 x y
    ... F.relu      two  1 1 y z
    ... pnnx.Output out  1 0 z
    ... ''')
    >>> pattern = '''7767517
    ... 3 2
    ... pnnx.Input  in   0 1 x
    ... F.relu      op   1 1 x y
    ... pnnx.Output out  1 0 y
    ... '''
    >>> [match.ops["op"].name for match in find(graph, pattern)]
    ['one', 'two']
    """
    rule = pattern if isinstance(pattern, Rule) else Rule(pattern, type="match")
    return [match for match in map(rule.matches, graph.ops) if match is not None]


def rewrite(graph: Graph, rules: Rule | Iterable[Rule], *, limit: int | None = None) -> int:
    """Apply rules, in order of priority, until none matches any more.

    Parameters
    ----------
    graph : Graph
        Changed in place.
    rules : Rule or iterable of Rule
    limit : int, optional
        Replacements after which rules count as endless; by default 100 an operator.

    Returns
    -------
    int
        Number of replacements.

    Raises
    ------
    GraphError
        When the limit is reached.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> rule = Rule('''7767517
    ... 3 2
    ... pnnx.Input  in   0 1 x
    ... nn.ReLU     act  1 1 x y
    ... pnnx.Output out  1 0 y
    ... ''', type="F.relu")
    >>> graph = Graph.load(model_path())
    >>> rewrite(graph, rule), graph.ops[2]
    (1, Operator(F.relu relu_1: 1 -> 2))
    """
    from pnnx_fast.ir.rewriting import Rewriting

    ordered = sorted([rules] if isinstance(rules, Rule) else rules, key=lambda rule: rule.priority)
    state = Rewriting(graph, 100 * (len(graph.ops) + 1) if limit is None else limit)
    try:
        while True:
            before = state.count
            for rule in ordered:
                state.apply(rule)
            if state.count == before:
                return state.count
    finally:
        state.finish()
