"""The state of a graph while `match.rewrite` works on it: replacements are wired at once, the list of operators is
rebuilt at the end, so that the cost of a replacement does not grow with the graph.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pnnx_fast.errors import GraphError
from pnnx_fast.ir.attribute import Attribute, Attributes
from pnnx_fast.ir.graph import Graph
from pnnx_fast.ir.match import CAPTURED, Match, Rule
from pnnx_fast.ir.operator import Operand, Operator, topological
from pnnx_fast.ir.parameter import RAW_KEYS, Parameter, Parameters

__all__ = ["Rewriting"]

_USE = re.compile(r"%([A-Za-z_][\w.]*)")


class Rewriting:
    """A graph under change: where operators stand, which are gone, what took their place.

    Parameters
    ----------
    graph : Graph
        Changed in place. Its list of operators is right again after :meth:`finish`.
    limit : int
        Replacements after which rules count as endless.

    Attributes
    ----------
    count : int
        Replacements so far.

    Raises
    ------
    CycleError
        When the graph has a cycle.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> rule = Rule('''7767517
    ... 3 2
    ... pnnx.Input  in   0 1 x
    ... nn.ReLU     act  1 1 x y
    ... pnnx.Output out  1 0 y
    ... ''', type="F.relu")
    >>> state = Rewriting(Graph.load(model_path()), limit=10)
    >>> state.apply(rule)
    >>> state.finish()
    >>> state.count, state.graph.ops[2].type
    (1, 'F.relu')
    """

    def __init__(self, graph: Graph, limit: int) -> None:
        self.graph, self.limit, self.count = graph, limit, 0
        graph.ops[:] = topological(graph.ops)
        # Whether producers stand before consumers, as they do until a replacement with several outputs mixes them.
        self.sorted = True
        self.position = {op: i for i, op in enumerate(graph.ops)}
        self.gone: set[Operator] = set()
        self.placed: dict[Operator, list[Operator]] = {}
        self.by_type: dict[str, list[Operator]] = {}
        for op in graph.ops:
            self.by_type.setdefault(op.type, []).append(op)

    def apply(self, rule: Rule) -> None:
        """Apply one rule, from the last operator backwards, until it matches nowhere.

        Parameters
        ----------
        rule : Rule

        Raises
        ------
        GraphError
            When the limit is reached, or the replacement uses what the pattern does not capture.
        """
        assert rule.anchor is not None
        changed = True
        while changed:
            changed = False
            stack = [op for op in self.by_type.get(rule.anchor.type, ()) if op not in self.gone]
            self.by_type[rule.anchor.type] = list(stack)
            while stack:
                op = stack.pop()
                match = None if op in self.gone else rule.matches(op)
                if match is None or not self._is_convex(match):
                    continue
                changed = True
                self._count()
                stack += [x for x in self._replace(rule, match) if x.type == rule.anchor.type]

    def finish(self) -> None:
        """Rebuild the list of operators."""
        self.graph.ops[:] = topological([x for op in self.graph.ops for x in self._in_place_of(op)])

    def _in_place_of(self, op: Operator) -> Iterator[Operator]:
        stack = [op]
        while stack:
            x = stack.pop()
            if x in self.gone:
                stack += reversed(self.placed.get(x, []))
            else:
                yield x

    def _count(self) -> None:
        self.count += 1
        if self.count > self.limit:
            raise GraphError([f"rewriting does not come to an end: {self.limit} replacements were made"])

    def _is_convex(self, match: Match) -> bool:
        """Whether no way leads out of the match and back in, which would become a cycle."""
        inner = set(match.ops.values())
        first = min(self.position[op] for op in inner)
        stack = [x.producer for op in inner for x in op.inputs if x.producer is not None and x.producer not in inner]
        seen: set[Operator] = set()
        while stack:
            op = stack.pop()
            if op in seen or (self.sorted and self.position[op] < first):
                continue
            if op in inner:
                return False
            seen.add(op)
            stack += [x.producer for x in op.inputs if x.producer is not None]
        return True

    # -- Replacing ----------------------------------------------------------------------------------------------------

    def _replace(self, rule: Rule, match: Match) -> list[Operator]:
        old = list(match.ops.values())
        last = max(old, key=lambda op: self.position[op])
        outputs = [match.operands[x.name] for x in rule.outputs]
        named = self._build(rule, match)
        if rule.write is not None:
            rule.write(match, named)
        new = list(named.values())
        for op in old:
            for x in op.inputs:
                x.remove_consumer(op)
            op.inputs = []
        self._connect(rule, match, named, outputs)
        for op in old:
            for x in list(op.outputs):
                self.graph.remove_operand(x)
        users = (c for x in outputs for c in x.consumers)
        self.sorted &= all(self.position[c] > self.position[last] for c in users if c in self.position)
        self.gone.update(old)
        self.placed[last] = new
        for op in new:
            self.position[op] = self.position[last]
            self.by_type.setdefault(op.type, []).append(op)
        return new

    def _build(self, rule: Rule, match: Match) -> dict[str, Operator]:
        """The new operators with parameters and weights, not wired yet."""
        if rule.replacement is None:
            params = {key: p.copy() for key, p in match.params.items() if "." not in key}
            return {rule.name: Operator(rule.type, f"{rule.name}_{self.count}", params)}
        named: dict[str, Operator] = {}
        for pattern in rule.replacement.ops:
            if pattern.is_end:
                continue
            op = Operator(pattern.type, f"{pattern.name}_{self.count}")
            op.params = _params(pattern, match)
            op.attrs = Attributes({key: _attribute(attr, match) for key, attr in pattern.attrs.items()})
            op.inputnames = list(pattern.inputnames)
            named[pattern.name] = op
        return named

    def _connect(self, rule: Rule, match: Match, named: dict[str, Operator], outputs: list[Operand]) -> None:
        """Wire the new operators to the operands around the match."""
        inputs = [match.operands[x.name] for x in rule.inputs]
        if rule.replacement is None:
            op = named[rule.name]
            for pattern, x in zip(rule.inputs, inputs, strict=True):
                op.add_input(x, _slot(pattern))
            for x in outputs:
                op.add_output(x)
            return
        graph = rule.replacement
        known = dict(zip(graph.inputs, inputs, strict=True))
        for pattern, x in zip(graph.outputs, outputs, strict=True):
            if pattern in known:
                self.graph.replace_uses(x, known[pattern])
            else:
                known[pattern] = x
        for pattern_op in graph.ops:
            if pattern_op.name not in named or pattern_op.is_end:
                continue
            op = named[pattern_op.name]
            slots, op.inputnames = op.inputnames, []
            for i, x in enumerate(pattern_op.inputs):
                op.add_input(known[x], slots[i] if slots else "")
            for x in pattern_op.outputs:
                if x not in known:
                    known[x] = self._new_operand(x, match)
                op.add_output(known[x])

    def _new_operand(self, pattern: Operand, match: Match) -> Operand:
        x = self.graph.new_operand(self.graph.free_name(f"rg{self.count}_{pattern.name}"))
        if pattern.shape is not None:
            x.dtype = pattern.dtype
            x.shape = tuple(
                int(match.value(pattern.params[f"__shape__{i}"])) if d == CAPTURED else d
                for i, d in enumerate(pattern.shape)
            )
        return x


def _slot(pattern: Operand) -> str:
    """Name of an input slot of the one operator that replaces a match: what the pattern called it, if it did."""
    for op in pattern.consumers:
        if any(op.inputnames):
            return op.inputnames[op.inputs.index(pattern)]
    return ""


def _params(pattern: Operator, match: Match) -> Parameters:
    params = Parameters()
    for key, parameter in pattern.params.items():
        text = parameter.text
        if key == "%*" and text.startswith("%") and text.endswith(".*"):
            prefix = text[1:-1]
            params.update({k[len(prefix) :]: p.copy() for k, p in match.params.items() if k.startswith(prefix)})
        else:
            params[key] = _substitute(text, match, key) if "%" in text else parameter.copy()
    return params


def _substitute(text: str, match: Match, key: str) -> Parameter:
    """A parameter of a replacement with captures put in."""
    if text.startswith("%") and text[1:] in match.params:
        return match.params[text[1:]].copy()

    def put(found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in match.params:
            raise GraphError([f"the replacement uses %{name}, which the pattern does not capture"])
        return match.params[name].text

    full = _USE.sub(put, text)
    return Parameter.verbatim(full) if key in RAW_KEYS else Parameter.parse_from_string(full)


def _attribute(pattern: Attribute, match: Match) -> Attribute:
    text = bytes(pattern.data).decode(errors="replace")
    if not text.startswith("%"):
        return pattern.copy()
    if text[1:] not in match.attrs:
        raise GraphError([f"the replacement uses {text}, which the pattern does not capture"])
    return match.attrs[text[1:]].copy()
