"""What the signature of an operator's function says, and what a graph operator carries, matched with it.

The signature is the schema: names before ``*`` are tensors, by position, name or as weights; keyword-only names are
parameters. Used by the registry, which knows the functions.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from itertools import islice
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from pnnx_fast._types import SPECIAL_FLOATS, Array, DType
from pnnx_fast.errors import ParameterError, did_you_mean
from pnnx_fast.ops.symbolic import Buffer, Tensor, Value

if TYPE_CHECKING:
    from pnnx_fast.ops.registry import OperatorDef

__all__ = [
    "EMPTY",
    "NAMED",
    "OPEN",
    "POSITIONAL",
    "VARIADIC",
    "Binding",
    "Formal",
    "bind",
    "only_tensor",
    "read_signature",
    "slot_name",
    "tensor_of",
]

EMPTY = inspect.Parameter.empty
POSITIONAL, NAMED = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
VARIADIC, OPEN = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
_TENSORS = {bool: np.bool_, int: np.int64, float: np.float32, complex: np.complex64}
_OPTIONAL = {Tensor, type(None)}
_INTEGERS, _NUMBERS, _WHOLE = Sequence[int], Sequence[float], {int, bool}


class Formal:
    """A parameter of an operator's function; ``kind`` and ``default`` are those of :class:`inspect.Parameter`."""

    __slots__ = ("annotation", "default", "kind")

    def __init__(self, kind: Any, default: Any = EMPTY, annotation: Any = EMPTY) -> None:
        self.kind, self.default, self.annotation = kind, default, annotation


def read_signature(function: Any) -> dict[str, Formal]:
    """Parameters after the builder. Plain functions are read directly, which is much faster than inspect."""
    if type(function) is not FunctionType or function.__dict__ or function.__code__.co_posonlyargcount:
        found = list(inspect.signature(function).parameters.items())[1:]
        return {name: Formal(p.kind, p.default, p.annotation) for name, p in found}
    code, hints = function.__code__, function.__annotations__
    names = iter(code.co_varnames)
    ordered, only = (list(islice(names, n)) for n in (code.co_argcount, code.co_kwonlyargcount))
    defaults = dict(zip(reversed(ordered), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    kinds: dict[str, Any] = dict.fromkeys(ordered[1:], POSITIONAL)
    if code.co_flags & inspect.CO_VARARGS:
        kinds[next(names)] = VARIADIC
    kinds |= dict.fromkeys(only, NAMED)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kinds[next(names)] = OPEN
    return {name: Formal(kind, defaults.get(name, EMPTY), hints.get(name, EMPTY)) for name, kind in kinds.items()}


@lru_cache(4096)
def slot_name(key: str) -> str:
    """Name of a Python parameter for a key of a file: dots and the like become underscores."""
    name = "".join(c if c.isalnum() or c == "_" else "_" for c in key)
    return name if not name or (name.isidentifier() and not keyword.iskeyword(name)) else f"_{name}"


class Binding:
    """What a graph operator carries beside its inputs, matched with a definition's signature once for all walks."""

    __slots__ = ("_keys", "_keywords", "_missing", "_slots", "_where", "definition")

    def __init__(
        self,
        definition: OperatorDef,
        operator_name: str | None,
        input_names: Sequence[str],
        attributes: Mapping[str, Tensor],
        parameters: Mapping[str, Any],
    ) -> None:
        self.definition, self._where = definition, operator_name and f"{definition.name} {operator_name}"
        self._slots: dict[str, Value] = {}
        self._keywords: dict[str, Value] = {"parameters": parameters, "attributes": attributes}
        if not definition.schema:
            return
        names = [slot_name(name) for name in input_names]
        bound = [key if key in definition.parameters and key != definition.variadic else "" for key in names]
        found = self._carried(attributes, parameters, set(bound))
        self._keys = [None if key in found else key for key in bound]
        """For each input with a name the parameter that it is for, "" when only its position tells, None to drop it."""
        self._slots = {key: found.pop(key) for key in definition.slots if key in found}
        self._keywords = found
        self._missing = [key for key in definition.required if key not in found and key not in bound]

    def _carried(
        self, attributes: Mapping[str, Tensor], parameters: Mapping[str, Any], taken: set[str]
    ) -> dict[str, Value]:
        definition, where = self.definition, self._where
        found: dict[str, Value] = {}
        for key, tensor in attributes.items():
            found[_accept(definition, slot_name(key), where, "attribute")] = tensor
        for key, value in parameters.items():
            key = slot_name(key)
            if key in found or key in taken:
                continue  # a flag such as bias=True beside the weight itself
            formal = definition.parameters[_accept(definition, key, where, "parameter")]
            if formal.kind is POSITIONAL and isinstance(value, bool) and formal.annotation is not Any:
                if value and formal.default is not EMPTY:
                    raise ParameterError(f"the weight {key!r} is missing", operator=where, parameter=key)
                continue
            found[key] = value
        return {key: _convert(definition, where, key, value) for key, value in found.items()}

    def arguments(self, inputs: Sequence[Value]) -> tuple[list[Value], dict[str, Value]]:
        """Return positional and keyword arguments of the function for these inputs."""
        definition, where = self.definition, self._where
        if not definition.schema:
            return list(inputs), {key: dict(value) for key, value in self._keywords.items()}
        named = {key: value for key, value in zip(self._keys, inputs, strict=False) if key}
        free = [value for key, value in zip(self._keys, inputs, strict=False) if key == ""]
        free += inputs[len(self._keys) :]
        args: list[Value] = []
        for slot, default in definition.positional:
            if slot in self._slots:
                args.append(self._slots[slot])
            elif slot in named:
                args.append(_convert(definition, where, slot, named.pop(slot)))
            elif free:
                args.append(_convert(definition, where, slot, free.pop(0)))
            elif default is EMPTY:
                raise ParameterError(f"{slot!r} is missing", operator=where, parameter=slot)
            else:
                args.append(default)
        if definition.variadic:
            args += free
        elif free:
            raise ParameterError(f"{len(free)} input(s) too many", operator=where)
        for key in self._missing:
            raise ParameterError(f"the parameter {key!r} is missing", operator=where, parameter=key)
        keywords = {key: _convert(definition, where, key, value) for key, value in named.items()}
        return args, keywords | self._keywords


def bind(
    definition: OperatorDef,
    operator_name: str | None,
    inputs: Sequence[Value],
    input_names: Sequence[str],
    attributes: Mapping[str, Tensor],
    parameters: Mapping[str, Any],
) -> tuple[list[Value], dict[str, Value]]:
    """Match what a graph operator carries with a definition's signature; returns (args, kwargs).

    Errors name no operator where there is no name: where one operator lowers another, lowering names the first.
    """
    return Binding(definition, operator_name, input_names[: len(inputs)], attributes, parameters).arguments(inputs)


def _accept(definition: OperatorDef, key: str, where: str | None, what: str) -> str:
    if key not in definition.parameters and not (definition.open and what == "attribute"):
        hint = did_you_mean(key, definition.parameters)
        raise ParameterError(f"unknown {what} {key!r}{hint}", operator=where, parameter=key)
    return key


def _convert(definition: OperatorDef, where: str | None, key: str, value: Value) -> Value:
    """Bring a value to the annotated type: tensors become numbers if they are constants, numbers become tensors."""
    wanted = definition.wanted.get(key)
    if wanted is not None and type(value) in wanted and not isinstance(value, str):
        return value
    needs_tensor = definition.hints.get(key) is Tensor
    if isinstance(value, (list, tuple)) and (needs_tensor or Tensor in (wanted or ())):
        value = only_tensor(value)
    if needs_tensor and not isinstance(value, Tensor):
        return tensor_of(value, key, where)
    if wanted is None:
        return value
    if value is None:
        if type(None) in wanted:
            return None
        default = definition.parameters[key].default
        if default is None or (default is EMPTY and _INTEGERS in wanted):
            return () if default is not None else None
    if Any in wanted:
        return value
    if Tensor in wanted and isinstance(value, Tensor):
        return value
    if wanted <= _OPTIONAL:
        return tensor_of(value, key, where)
    if isinstance(value, Tensor):
        if not value.is_constant:
            raise ParameterError(f"{key!r} depends on data", operator=where, parameter=key)
        value = value.numpy().tolist()
    converted = _to_type(wanted, value)
    if converted is _MISMATCH:
        text = " or ".join(sorted(getattr(t, "__name__", str(t)) for t in wanted if t is not type(None)))
        raise ParameterError(f"{key!r} must be {text}, not {value!r}", operator=where, parameter=key)
    return value if Tensor in wanted else converted  # beside tensors the kind of a number counts


def tensor_of(value: Value, key: str, where: str | None) -> Tensor:
    """The constant that a number stands for: converters write tensors of one element so."""
    kind = _TENSORS.get(type(value))
    if kind is None or (kind == np.int64 and not -(1 << 63) <= value < 1 << 63):
        raise ParameterError(f"{key!r} must be a tensor, not {value!r}", operator=where, parameter=key)
    with np.errstate(over="ignore"):
        array: Array = np.array(value).astype(kind)
    return Tensor(Buffer("const", array.nbytes, array), (), array.dtype)


def only_tensor(value: Value, dtype: DType | None = None) -> Value:
    """The tensor in a list of one: converters name such lists as if they were the tensor (``x.unbind(0)[0]``).

    With a dtype also the only tensor of that among several: converters drop results that nothing reads.
    """
    if not isinstance(value, (list, tuple)):
        return value
    tensors = [v for v in value if isinstance(v, Tensor) and (len(value) == 1 or v.dtype == dtype)]
    return tensors[0] if len(tensors) == 1 else value


_MISMATCH = object()


def _to_type(wanted: Set[Any], value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        if _INTEGERS in wanted and {*map(type, value)} <= _WHOLE:
            return tuple(value)
        if _NUMBERS in wanted:
            items = [_to_type({float}, v) for v in value]
            return _MISMATCH if _MISMATCH in items else tuple(items)
        if len(value) == 1:
            return _to_type(wanted, value[0])
        return _MISMATCH
    if isinstance(value, bool):
        if bool in wanted:
            return value
        value = int(value)
    if bool in wanted and value in (0, 1):
        return bool(value)
    if isinstance(value, int) and int in wanted:
        return value
    if isinstance(value, float) and {int, float} & wanted == {int} and value.is_integer() and abs(value) < 1 << 63:
        return int(value)
    if float in wanted and isinstance(value, (int, float)):
        return float(value)
    if {float, complex} & wanted and isinstance(value, str) and value in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[value]
    if isinstance(value, str) and str in wanted:
        return value
    if isinstance(value, (int, float, complex)) and complex in wanted:
        return value
    return _MISMATCH
