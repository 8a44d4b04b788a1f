"""The registry of operators: PNNX type names on one side, Python functions on the other.

The signature of a function is its schema. Names before ``*`` are tensors (inputs by position or ``$name``, weights by
attribute name with dots as underscores), keyword-only names are parameters, both under PNNX's names and with PyTorch's
defaults. ``**weights`` takes attributes whose number varies (layers of an LSTM). Whatever is missing, unknown or of
the wrong type becomes one uniform :class:`ParameterError` (``signature.py``).
"""

from __future__ import annotations

import builtins
import inspect
import sys
import threading
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Any, TypeVar

from pnnx_fast.errors import ParameterError
from pnnx_fast.ops import family_of, load_all, types_of
from pnnx_fast.ops.catalog import Catalog, Method
from pnnx_fast.ops.families import FAMILIES
from pnnx_fast.ops.signature import (
    EMPTY,
    NAMED,
    OPEN,
    POSITIONAL,
    VARIADIC,
    Binding,
    Formal,
    bind,
    only_tensor,
    read_signature,
    slot_name,
)
from pnnx_fast.ops.symbolic import Tensor

if TYPE_CHECKING:
    from pnnx_fast.ir import Operator

    RowRule = int | Callable[[Operator, int], bool] | None

__all__ = [
    "ALIASES",
    "CATALOG",
    "Binding",
    "Floats",
    "Ints",
    "OperatorDef",
    "bind",
    "check_supported",
    "families",
    "find",
    "only_tensor",
    "operator",
    "require",
    "scoped",
    "slot_name",
    "types",
    "unregister",
    "users_own",
]

Ints = int | Sequence[int]
"""Annotation of a parameter that is an integer or a list of integers; lists arrive as tuples."""
Floats = float | Sequence[float]
"""Annotation of a parameter that is a number or a list of numbers."""

ALIASES: dict[str, str] = {
    "Tensor.view": "Tensor.reshape",
    "Tensor.contiguous": "torch.clone",
    "torch.permute": "Tensor.permute",
    "torch.reshape": "Tensor.reshape",
    "Tensor.flatten": "torch.flatten",
    "Tensor.transpose": "torch.transpose",
    "Tensor.unsqueeze": "torch.unsqueeze",
    "Tensor.squeeze": "torch.squeeze",
}
"""Old spellings that earlier converters wrote."""

Function = TypeVar("Function", bound=Callable[..., Any])


class OperatorDef:
    """One registered operator function. What its signature says is read when it is first asked for."""

    def __init__(
        self, name: str, function: Callable[..., Any], native: bool, random: bool, schema: bool, rows: RowRule = None
    ) -> None:
        self.name, self.function, self.native, self.random = name, function, native, random
        self.schema, self.rows = schema, rows

    @cached_property
    def own(self) -> bool:
        """Whether the function is one of the families: native operators and layers in Python are their users'."""
        return self.function.__module__.startswith(PREFIX)

    @cached_property
    def parameters(self) -> Mapping[str, Formal]:
        """Parameters of the function after the builder."""
        return read_signature(self.function)

    @cached_property
    def hints(self) -> Mapping[str, Any]:
        """Annotations of the parameters."""
        if not self.own:
            return typing.get_type_hints(self.function)
        module = self.function.__module__
        spelled = {key: p.annotation for key, p in self.parameters.items() if p.annotation is not EMPTY}
        return {key: _evaluated(hint, module) for key, hint in spelled.items()}

    @cached_property
    def wanted(self) -> Mapping[str, frozenset[Any]]:
        """Types that each annotated parameter takes; parameters that take anything are absent."""
        hints = {key: hint for key, hint in self.hints.items() if hint is not Any and hint is not Tensor}
        return {key: frozenset(typing.get_args(hint) or (hint,)) for key, hint in hints.items() if hint is not None}

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """Names of tensors, in order."""
        return tuple(k for k, p in self.parameters.items() if p.kind is POSITIONAL)

    @cached_property
    def positional(self) -> tuple[tuple[str, Any], ...]:
        """Names of tensors with their defaults, in order."""
        return tuple((slot, self.parameters[slot].default) for slot in self.slots)

    @cached_property
    def required(self) -> tuple[str, ...]:
        """Parameters without a default."""
        return tuple(k for k, p in self.parameters.items() if p.kind is NAMED and p.default is EMPTY)

    @cached_property
    def variadic(self) -> str | None:
        """Name that takes any number of inputs."""
        return next((k for k, p in self.parameters.items() if p.kind is VARIADIC), None)

    @cached_property
    def open(self) -> bool:
        """Whether the function takes weights of any name."""
        return any(p.kind is OPEN for p in self.parameters.values())

    @property
    def summary(self) -> str:
        """First line of the function's documentation."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


CATALOG: Catalog[OperatorDef] = Catalog()
"""Where definitions live, by type number, name and version."""

FAMILY_SIZE = 1000
"""Type numbers of a family (a module) begin at a multiple of this."""

PREFIX = "pnnx_fast.ops."
"""Families are modules of this package."""

_families = {PREFIX + family: i * FAMILY_SIZE for i, family in enumerate(FAMILIES, 1)}
_annotations: dict[tuple[str, str], Any] = {}
_BUILTINS = {**vars(builtins), "None": None}
_lock = threading.RLock()


def _evaluated(hint: Any, module: str) -> Any:
    """Value of an annotation of this package; the same few recur in all signatures."""
    if not isinstance(hint, str):
        return hint
    if (module, hint) not in _annotations:
        scope = vars(sys.modules[module])
        # Names and unions of names need no compiler.
        parts = [scope.get(name, _BUILTINS.get(name, EMPTY)) for name in hint.split(" | ")]
        _annotations[module, hint] = eval(hint, scope) if EMPTY in parts else reduce(or_, parts)
    return _annotations[module, hint]


def _load_home(name: str) -> None:
    """Import the module of this package that registers a type.

    Not to be called under the lock: importing takes locks of its own.
    """
    family = family_of(name)
    if family is not None:
        import_module(PREFIX + family)


def operator(
    *names: str,
    native: bool = True,
    random: bool = False,
    override: bool = False,
    schema: bool = True,
    rows: RowRule = None,
) -> Callable[[Function], Function]:
    r"""Register a function for one or more PNNX operator types.

    Parameters
    ----------
    *names : str
        Operator types, e.g. ``"nn.ReLU", "F.relu"``.
    native : bool
        Whether compiled kernels do the work for float32. For the documentation only.
    random : bool
        Whether the result differs from call to call. If so, it is never folded into a constant.
    override : bool
        Whether to replace a function that another module registered for the type.
    schema : bool
        Whether the signature is the schema. If not, the function takes all inputs by position and the keyword
        arguments ``parameters`` (a dict of values) and ``attributes`` (a dict of constant tensors), unchecked.
    rows : int or callable, optional
        A promise that each row of the results depends only on the same row of the inputs, so that large batches may
        be computed in parts. A number n: the promise holds for inputs of at least n dimensions. A function: it decides
        from an operator of a graph and the number of rows. By default rows are taken to mix.

    Returns
    -------
    callable
        The decorator, which gives the function back as it was.

    Raises
    ------
    ParameterError
        When another module has registered a function for the type, or the signature is not a valid schema.
    TypeError
        When no type is given.

    Examples
    --------
    >>> @pnnx_fast.operator("mine.Times", native=False)
    ... def times(b, input, *, factor=2.0):
    ...     return b.host(lambda x: x * factor, [input], [(input.shape, input.dtype)])[0]
    >>> text = "7767517\n3 2\npnnx.Input in 0 1 x #x=(1,2)f32\nmine.Times t 1 1 x y factor=3.0\npnnx.Output out 1 0 y\n"
    >>> pnnx_fast.Model(pnnx_fast.Graph.parse(text))(np.float32([[1, 2]]))
    array([[3., 6.]], dtype=float32)
    >>> unregister("mine.Times")
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise TypeError("operator takes the types to register a function for: @operator('mine.Twice')")

    def register(function: Function) -> Function:
        if not callable(function):
            raise TypeError(f"operator registers functions, not {type(function).__name__}")
        home = function.__module__
        own = types_of(home.removeprefix(PREFIX)) if home.startswith(PREFIX) else ()
        for name in names:
            if name not in own:
                _load_home(name)
        with _lock:
            owners = {name: found.function.__module__ for name in names if (found := CATALOG.find(name)) is not None}
            for name, owner in owners.items():
                if owner != home and not override:
                    raise ParameterError(f"operator {name} is registered already, by {owner}")
            for name in dict.fromkeys(names):
                if name in owners and owners[name] == home:
                    unregister(name)  # a cell or a module that runs again
                _push(OperatorDef(name, function, native, random, schema, rows))
        return function

    return register


def _push(definition: OperatorDef) -> Method[OperatorDef]:
    home = definition.function.__module__
    base = _families.setdefault(home, (len(_families) + 1) * FAMILY_SIZE)
    return CATALOG.push(definition.name, definition, base)


def users_own(types: Iterable[str]) -> list[str]:
    """Return those of some operator types whose functions are not this package's."""
    with _lock:
        found = [CATALOG.find(name) for name in types]
    return [d.name for d in found if d is not None and not d.own]


@contextmanager
def scoped(
    function: Callable[..., Any], *names: str, native: bool = True, random: bool = False, schema: bool = True
) -> Iterator[None]:
    """Register a function for the length of a ``with`` block, above what the types have.

    Other threads see it, too. Programs that a model made inside the block keep it.

    Examples
    --------
    >>> def twice(b, input): ...
    >>> with scoped(twice, "example.Twice"):
    ...     find("example.Twice").function is twice
    True
    >>> find("example.Twice") is None
    True
    """
    for name in names:
        _load_home(name)
    with _lock:
        pushed = [_push(OperatorDef(name, function, native, random, schema)) for name in names]
    try:
        yield
    finally:
        for method in pushed:
            if CATALOG.find_op_method(method.type, method.version) is method:
                CATALOG.unregister_op(method.type, method.version)


def families() -> dict[str, list[str]]:
    """Return the operator types of each family: the last part of the module's name -> types, sorted."""
    found: dict[str, list[str]] = {}
    for name in types():
        definition = find(name)
        if definition is not None:
            found.setdefault(definition.function.__module__.rpartition(".")[2], []).append(name)
    return found


def find(name: str) -> OperatorDef | None:
    """Return the definition for an operator type, None when there is none; imports the family of the type."""
    known = CATALOG.find(name)
    if known is None:
        _load_home(name)
        known = CATALOG.find(name)
    if known is None and name in ALIASES:
        return find(ALIASES[name])
    if known is None and family_of(name) is None:
        load_all()  # a foreign type, or one that is newer than the table
        known = CATALOG.find(name)
    return known


def unregister(name: str) -> None:
    """Forget the newest definition of an operator type, so that the one before it serves again.

    Raises
    ------
    ParameterError
        When there is none.
    """
    _load_home(name)
    with _lock:
        number = CATALOG.find_op_type(name)
        newest = CATALOG.find_op_method(number) if number is not None else None
        if newest is None:
            raise ParameterError(f"operator {name} is not registered")
        CATALOG.unregister_op(newest.type, newest.version)


def types() -> list[str]:
    """Return all registered operator types, sorted."""
    load_all()
    return sorted(name for _, name in CATALOG.names())


def _is_known(name: str) -> bool:
    """Whether there is a definition for a type; passes may replace it yet, so its family is not imported for that."""
    name = ALIASES.get(name, name) if CATALOG.find(name) is None else name
    family = family_of(name)
    return (family is not None and PREFIX + family not in sys.modules) or find(name) is not None


def require(name: str, operator_name: str = "") -> OperatorDef:
    """Return the definition for an operator type.

    Raises
    ------
    UnsupportedOperatorError
        When neither this package nor a plugin has one.
    """
    found = find(name)
    if found is None:
        check_supported([(name, operator_name)])
        return require(name)  # a plugin has brought it
    return found


def check_supported(used: Iterable[tuple[str, str]], skeleton: Callable[[str], str] | None = None) -> None:
    """Raise UnsupportedOperatorError naming every type without a definition; ``used`` yields (type, operator name).

    ``skeleton`` gives the source of a function for a type, which the message ends with.
    """
    used = list(used)
    if not all(_is_known(kind) for kind in {kind for kind, _ in used}):
        # Only models with foreign types pay for the search for plugins, and for the words.
        from pnnx_fast.ops.missing import require_functions

        require_functions(used, skeleton)
