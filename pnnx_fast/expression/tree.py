"""The syntax tree of an expression: immutable nodes that print, compare and substitute, so that expressions
compose.

Used by the parser, evaluation, lowering and the fusion pass. Nodes know neither functions nor values of
inputs. All traversals are loops: the depth of a tree never meets Python's stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression.lex import MAX_VALUES
from pnnx_fast.expression.types import DTypeName, Number

__all__ = [
    "MAX_NODES",
    "Call",
    "Constant",
    "Input",
    "ListNode",
    "Node",
    "fold",
    "inputs_of",
    "position_of",
    "postorder",
    "substitute",
]

#: Largest tree, with shared parts counted as often as they occur.
MAX_NODES = MAX_VALUES

T = TypeVar("T")


class Node:
    """Base of the four kinds of node. Compared and hashed by structure; ``str`` gives the expression's
    text.
    """

    __slots__ = ("children", "hash", "size")
    children: tuple[Node, ...]
    size: int
    hash: int

    def __init__(self, label: object, children: tuple[Node, ...] = ()) -> None:
        put = object.__setattr__
        put(self, "children", children)
        put(self, "size", 1 + sum(c.size for c in children))
        put(self, "hash", hash((label, *(c.hash for c in children))))
        if self.size > MAX_NODES:
            raise ExpressionError(f"the expression has more than {MAX_NODES} nodes")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def _label(self) -> object:
        raise NotImplementedError

    def rebuilt(self, children: tuple[Node, ...]) -> Node:
        """The same node over other children."""
        return self

    def __hash__(self) -> int:
        return self.hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Node) or self.hash != other.hash or self.size != other.size:
            return False
        pairs = [(self, other)]
        while pairs:
            a, b = pairs.pop()
            if a is b:
                continue
            if a.hash != b.hash or a._label() != b._label() or len(a.children) != len(b.children):
                return False
            pairs.extend(zip(a.children, b.children, strict=True))
        return True

    def __str__(self) -> str:
        return to_text(self)

    def __repr__(self) -> str:
        return f"parse({to_text(self)!r})"

    def __reduce__(self) -> tuple[Callable[[str], Node], tuple[str]]:
        from pnnx_fast.expression.parser import parse

        return parse, (to_text(self),)


class Constant(Node):
    """A literal: number, ``None``, ``True``, ``False`` or a dtype name, with the text that it is printed
    as.
    """

    __slots__ = ("text", "value")
    value: Number | DTypeName | None
    text: str

    def __init__(self, value: Number | DTypeName | None, text: str | None = None) -> None:
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "text", literal_text(value) if text is None else text)
        super().__init__(self._label())

    def _label(self) -> object:
        # repr tells 1 from True and 1.0, 0.0 from -0.0, and makes NaN equal to itself.
        return type(self.value), repr(self.value)


class Input(Node):
    """``@index``: one of the operands."""

    __slots__ = ("index",)
    index: int

    def __init__(self, index: int) -> None:
        object.__setattr__(self, "index", index)
        super().__init__(self._label())

    def _label(self) -> object:
        return "@", self.index


class Call(Node):
    """A function applied to arguments."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str, args: Sequence[Node]) -> None:
        object.__setattr__(self, "name", name)
        super().__init__(self._label(), tuple(args))

    def _label(self) -> object:
        return self.name

    def rebuilt(self, children: tuple[Node, ...]) -> Node:
        """The same function of other arguments."""
        return Call(self.name, children)


class ListNode(Node):
    """``[a,b,…]``, whose value is a Python list."""

    __slots__ = ()

    def __init__(self, items: Sequence[Node]) -> None:
        super().__init__(self._label(), tuple(items))

    def _label(self) -> object:
        return "["

    def rebuilt(self, children: tuple[Node, ...]) -> Node:
        """A list of other items."""
        return ListNode(children)


def literal_text(value: Number | DTypeName | None) -> str:
    """Text of a literal that parses back to an equal value."""
    if isinstance(value, DTypeName):
        return value.name
    if isinstance(value, complex):
        imaginary = repr(value.imag)
        return f"{value.real!r}{'' if imaginary.startswith('-') else '+'}{imaginary}j"
    return repr(value)


def postorder(root: Node) -> Iterator[Node]:
    """Every occurrence of every node, children before parents, left to right."""
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, expanded = stack.pop()
        if expanded or not node.children:
            yield node
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(node.children))


def fold(root: Node, combine: Callable[[Node, list[T]], T]) -> T:
    """Bottom-up value of a tree; equal subtrees are combined once.

    Subtrees are numbered by label and numbers of their children, so equality costs no walk.
    """
    values: list[T] = []
    numbers: dict[tuple[object, ...], int] = {}
    number_of: dict[int, int] = {}
    stack = [root]
    while stack:
        node = stack[-1]
        missing = [c for c in node.children if id(c) not in number_of]
        if missing:
            stack.extend(reversed(missing))
            continue
        stack.pop()
        if id(node) in number_of:
            continue
        children = [number_of[id(c)] for c in node.children]
        number = numbers.setdefault((node._label(), *children), len(values))
        if number == len(values):
            values.append(combine(node, [values[c] for c in children]))
        number_of[id(node)] = number
    return values[number_of[id(root)]]


def to_text(root: Node) -> str:
    """The expression as PNNX writes it."""
    return _spell(root, None)[0]


def position_of(root: Node, mark: Node) -> tuple[str, int]:
    """Text of `root` and the place in it where the subtree `mark` starts."""
    return _spell(root, mark)


def _spell(root: Node, mark: Node | None) -> tuple[str, int]:
    pieces: list[str] = []
    length = place = 0
    pending: list[Node | str] = [root]
    while pending:
        item = pending.pop()
        if item is mark:
            place, mark = length, None
        if (isinstance(item, Node) and item.children) or isinstance(item, ListNode):
            opening, closing = (f"{item.name}(", ")") if isinstance(item, Call) else ("[", "]")
            parts: list[Node | str] = [opening]
            for index, child in enumerate(item.children):
                parts.extend([",", child] if index else [child])
            pending.extend(reversed([*parts, closing]))
            continue
        if isinstance(item, Constant):
            item = item.text
        elif isinstance(item, Input):
            item = f"@{item.index}"
        elif isinstance(item, Call):
            item = f"{item.name}()"
        pieces.append(str(item))
        length += len(pieces[-1])
    return "".join(pieces), place


def inputs_of(root: Node) -> list[int]:
    """Indices of the inputs that an expression reads, ascending."""
    found: set[int] = set()

    def combine(node: Node, _: list[None]) -> None:
        if isinstance(node, Input):
            found.add(node.index)

    fold(root, combine)
    return sorted(found)


def substitute(root: Node, replacements: Mapping[int, Node]) -> Node:
    """The expression with inputs replaced by other expressions; inputs not named stay as they are.

    Examples
    --------
    >>> from pnnx_fast.expression import parse
    >>> str(substitute(parse("relu(@0)"), {0: parse("add(@0,@1)")}))
    'relu(add(@0,@1))'
    """

    def combine(node: Node, children: list[Node]) -> Node:
        if isinstance(node, Input):
            return replacements.get(node.index, node)
        unchanged = all(a is b for a, b in zip(children, node.children, strict=True))
        return node if unchanged else node.rebuilt(tuple(children))

    return fold(root, combine)
