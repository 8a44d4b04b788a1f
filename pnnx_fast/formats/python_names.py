"""Names and values in generated Python: identifiers that are checked and unique, literals that are quoted.

Knows nothing of what an operator does; `python_calls` and `python_subscripts` write statements with it.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pnnx_fast._types import SPECIAL_FLOATS
from pnnx_fast.formats.python_allowed import is_value
from pnnx_fast.formats.python_expression import Fragment, Kind, literal
from pnnx_fast.ir import Operand, Operator
from pnnx_fast.ir.parameter import typed_number, without_casts

__all__ = ["Names", "identifier", "spelled", "targets"]

#: Members of every torch.nn.Module, and of the generated class, that a layer must not hide.
_TAKEN = frozenset(
    [
        "T_destination",
        "add_module",
        "apply",
        "bfloat16",
        "buffers",
        "call_super_init",
        "children",
        "compile",
        "cpu",
        "cuda",
        "double",
        "dump_patches",
        "eval",
        "extra_repr",
        "float",
        "forward",
        "get_buffer",
        "get_extra_state",
        "get_parameter",
        "get_submodule",
        "half",
        "ipu",
        "load_pnnx_bin",
        "load_state_dict",
        "modules",
        "mtia",
        "named_buffers",
        "named_children",
        "named_modules",
        "named_parameters",
        "parameters",
        "register_backward_hook",
        "register_buffer",
        "register_forward_hook",
        "register_forward_pre_hook",
        "register_full_backward_hook",
        "register_full_backward_pre_hook",
        "register_load_state_dict_post_hook",
        "register_load_state_dict_pre_hook",
        "register_module",
        "register_parameter",
        "register_state_dict_post_hook",
        "register_state_dict_pre_hook",
        "requires_grad_",
        "set_extra_state",
        "set_submodule",
        "share_memory",
        "state_dict",
        "to",
        "to_empty",
        "train",
        "training",
        "type",
        "xpu",
        "zero_grad",
    ]
)


def identifier(text: str) -> str:
    """Text with everything that a Python identifier cannot hold replaced."""
    return re.sub(r"\W", "_", text, flags=re.ASCII)


class Names:
    """Python names of operands and of members of the class; each different, however alike the graph's names are."""

    def __init__(self) -> None:
        self._used: set[str] = set(_TAKEN)
        self._operands: dict[Operand, str] = {}
        self._members: dict[tuple[str, str, str], str] = {}
        self.kinds: dict[Operand, Kind] = {}
        self.members: dict[str, Operator] = {}

    def _unique(self, wanted: str) -> str:
        name, count = wanted, 1
        while name in self._used:
            count += 1
            name = f"{wanted}_{count}"
        self._used.add(name)
        return name

    def of(self, operand: Operand) -> str:
        """Variable that holds an operand."""
        if operand not in self._operands:
            self._operands[operand] = self._unique("v_" + identifier(operand.name))
        return self._operands[operand]

    def tensor(self, operand: Operand) -> str:
        """An operand where only a tensor will do: low levels write constants of no dimensions as numbers."""
        name = self.of(operand)
        return f"torch.tensor({name})" if self.kinds.get(operand) == "number" else name

    @contextmanager
    def standing_for(self, places: Mapping[Operand, str]) -> Iterator[None]:
        """Let other variables stand for operands meanwhile."""
        kept = self._operands
        self._operands = {**kept, **places}
        try:
            yield
        finally:
            self._operands = kept

    def member(self, op: Operator, key: str = "") -> str:
        """Member of the class that holds the module, or the attribute `key`, of an operator."""
        # Constants may have one name and yet differ.
        place = (op.name, key or op.type, op.outputs[0].name if op.type == "pnnx.Attribute" else "")
        if place not in self._members:
            name = identifier(op.name + ("_" + key if key else ""))
            if not name or name[0] == "_" or name[0].isdigit() or keyword.iskeyword(name) or name in _TAKEN:
                name = "m_" + name
            self._members[place] = self._unique(name)
            self.members[self._members[place]] = op
        return self._members[place]

    def fragment(self, operand: Operand) -> Fragment:
        """An operand as part of an expression."""
        return Fragment(self.of(operand), self.kinds.get(operand, "tensor"))


def targets(op: Operator, names: Names) -> str:
    """Variables that hold the outputs of an operator."""
    return ", ".join(map(names.of, op.outputs)) or "_"


def spelled(value: Any) -> str:
    """The value of a parameter in Python."""
    value = without_casts(value)
    if isinstance(value, str):
        number = typed_number(value)
        if number is not None:
            return f"torch.tensor({number[1]}, dtype={number[0]})"
        if is_value(value):
            return value
        return literal(SPECIAL_FLOATS[value]) if value in SPECIAL_FLOATS else _word(value)
    if isinstance(value, list):
        return "(" + ", ".join(map(spelled, value)) + ("," if len(value) == 1 else "") + ")"
    return literal(value)


def _word(value: str) -> str:
    """A string; elements of lists may be None and bool, which are words there."""
    return value if value in ("None", "True", "False") else repr(value)
