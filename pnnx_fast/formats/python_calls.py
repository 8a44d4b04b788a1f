"""Operators as Python statements for PyTorch: one statement or two for each, by a table of types that need a form of
their own. `python_source` puts them into a module.

Names and parameters come from files that nobody vouches for, so every word of the source is an identifier that was
checked, a literal that was quoted, or a name of PyTorch by pattern.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence

from pnnx_fast.errors import ParameterError, UnsupportedOperatorError
from pnnx_fast.expression import is_word
from pnnx_fast.formats.python_allowed import is_argument, is_call, is_custom, is_layer, is_method
from pnnx_fast.formats.python_expression import literal, spell, tree
from pnnx_fast.formats.python_helpers import HELPERS
from pnnx_fast.formats.python_names import Names, spelled, targets
from pnnx_fast.formats.python_subscripts import index, index_put, slice_, slice_copy
from pnnx_fast.ir import Operand, Operator, Parameter
from pnnx_fast.ir.check import selects_number
from pnnx_fast.ir.dtypes import by_text
from pnnx_fast.ir.literals import literal as known
from pnnx_fast.ir.masks import EACH_HEAD, attention_masks, means_taking_part
from pnnx_fast.ir.notes import (
    RECURRENT,
    SEVERAL_OUTPUTS,
    attention_roles,
    number_shape,
    query_shape,
    recurrent_roles,
    same_padding,
    written_truth,
    written_views,
)
from pnnx_fast.ir.repeated import repeated_inputs

__all__ = ["argument", "is_module", "statements"]

_CUSTOM = "pnnx.custom_op."
_CREATED = frozenset(
    [
        *(f"torch.{name}" for name in ("empty", "full", "ones", "rand", "randn", "zeros")),
        *(f"Tensor.new_{name}" for name in ("empty", "full", "ones", "zeros")),
    ]
)
"""Calls whose sizes may be an empty list, which the converter's lower levels write as None."""

_LISTS = frozenset({"destination", "dims", "shape", "shifts", "sizes", "source"})
"""Parameters that are lists wherever they occur; files hold empty ones as None does …"""

_LISTS_OF = frozenset({("dim", "torch.amax"), ("dim", "torch.amin"), *(("size", kind) for kind in _CREATED)})
"""… and those that are in some calls."""

_WEIGHTS = frozenset({"bias", "running_mean", "running_var", "weight"})
"""Parameters of functions that are tensors; files hold those of one entry as numbers."""


def is_module(op: Operator) -> bool:
    """Whether an operator becomes a member of the class that is made once and called in ``forward``."""
    return is_layer(op.type)


def argument(op: Operator, key: str, parameter: Parameter) -> str:
    """``key=value`` for a parameter."""
    value = (same_padding(op) if key == "padding" else None) or parameter.value
    if "adaptive" in op.type.lower() and key == "output_size" and isinstance(value, list):
        value = [v or None for v in value]
    if value is None and (key in _LISTS or (key, op.type) in _LISTS_OF):
        value = []
    if key in _WEIGHTS and isinstance(value, float) and op.type.startswith("F."):
        return argument_of(op, key, f"torch.tensor({spelled([value])})")
    return argument_of(op, key, spelled(value))


def argument_of(op: Operator, key: str, text: str) -> str:
    """``key=text`` for an input, or whatever else is spelled already."""
    if not is_argument(key):
        raise ParameterError("the name cannot be an argument in Python", operator=op.where, parameter=key)
    return f"{key}={text}"


def statements(op: Operator, names: Names) -> Iterable[str]:
    """Lines of ``forward`` that compute the outputs of an operator."""
    special = _SPECIAL.get(op.type)
    if special is not None:
        try:
            return special(op, names)
        except IndexError as error:
            raise ParameterError("too few inputs", operator=op.where) from error
    if is_module(op):
        inputs = ", ".join(names.of(x) for i, x in enumerate(op.inputs) if not op.repeats_weight(i))
        return [f"{targets(op, names)} = self.{names.member(op)}({inputs})"]
    if op.type.startswith(_CUSTOM):
        return [f"{targets(op, names)} = {_custom_call(op, names)}"]
    return _plain(op, names)


#: Functions that return a tuple although a graph may show its first element only: with the parameter named, or always.
_TUPLES = {
    "torch.max": "dim", "torch.min": "dim", "torch.median": "dim", "torch.nanmedian": "dim", "torch.sort": None,
    "torch.topk": None, "torch.kthvalue": None, "torch.mode": None, "torch.cummax": None, "torch.cummin": None,
    "torch.unbind": None, "torch.split": None, "torch.chunk": None, "torch.tensor_split": None,
}  # fmt: skip


def _plain(op: Operator, names: Names) -> list[str]:
    return [_assigned(op, names, _call(op, names))]


def _assigned(op: Operator, names: Names, call: str) -> str:
    if len(op.outputs) == 1 and op.type in _TUPLES and op.outputs[0].shape is not None:
        needed = _TUPLES[op.type]
        if needed is None or op.has_param(needed) or op.has_input(needed):
            call += "[0]"
    return f"{targets(op, names)} = {call}"


def _call(op: Operator, names: Names) -> str:
    """A function of torch or a method of a tensor, inputs and parameters under PNNX's names."""
    if selects_number(op):
        return f"torch.tensor({op.params['input'].text})"
    slots = list(op.slots())
    if op.type.startswith("Tensor.") and is_method(op.type[7:]) and op.inputs:
        owner = next((x for key, x in slots if key in ("", "input", "self")), op.inputs[0])
        slots.remove(next(slot for slot in slots if slot[1] is owner))
        function = f"{names.tensor(owner)}.{op.type[7:]}"
    else:
        function = _function(op)
        if function.startswith("torch.ops.aten.") and not op.params and not any(key for key, _ in slots):
            return f"aten({', '.join([repr(op.type[6:]), *(names.of(x) for x in op.inputs)])})"
    first = [names.tensor(x) for key, x in slots[:1] if key == "input"]
    positional = [*first, *(names.of(x) for key, x in slots if not key)]
    empty = op.type in _CREATED
    spellings = [(key, "()" if empty and key == "size" and known(x) is None else names.of(x)) for key, x in slots]
    keywords = [argument_of(op, key, text) for i, (key, text) in enumerate(spellings) if key and (i or key != "input")]
    params = [argument(op, key, p) for key, p in op.params.items() if not _implied(op, key)]
    if op.type == "F.batch_norm" and not op.has_param("training") and not _is_given(op, "running_mean"):
        params.append("training=True")
    dtype = written_truth(op)
    return f"{function}({', '.join([*positional, *keywords, *params])})" + (f".to({dtype})" if dtype else "")


def _custom_call(op: Operator, names: Names) -> str:
    """An operator of a library of PyTorch's; what the converter numbered, since it knew no name, is positional."""
    name = op.type.removeprefix(_CUSTOM)
    if name.count(".") not in (1, 2) or not is_custom(*name.split(".")):
        raise _without_equivalent(op)
    given = {key or f"arg_{i}": names.of(x) for i, (key, x) in enumerate(op.slots())}
    given |= {key: spelled(p.value) for key, p in op.params.items()}
    places = itertools.takewhile(given.__contains__, (f"arg_{i}" for i in itertools.count()))
    numbered = [given.pop(key) for key in list(places)]
    return f"torch.ops.{name}({', '.join([*numbered, *(argument_of(op, key, text) for key, text in given.items())])})"


def _is_given(op: Operator, key: str) -> bool:
    """Whether an operator has a value for a slot that may be None, as an input or as a parameter."""
    operand = op.named_input(key)
    if operand is None:
        return op.value(key) is not None
    return known(operand) is not None


def _implied(op: Operator, key: str) -> bool:
    return op.type == "F.pad" and key == "value" and op.params["mode"].value != "constant"


def _function(op: Operator) -> str:
    if op.type in HELPERS:
        return HELPERS[op.type][0]
    home, _, name = op.type.partition("::")
    if name and home != "prim" and is_custom(home, *name.split(".")):
        return f"torch.ops.{home}.{name}"
    if not is_call(op.type):
        raise _without_equivalent(op)
    return op.type


def _without_equivalent(op: Operator) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        f"operator {op.type} ({op.name}) has no equivalent in PyTorch", {op.type: [op.name]}
    )


# -- Types that need a form of their own ----------------------------------------------------------------------------


def _expression(op: Operator, names: Names) -> list[str]:
    text = op.params["expr"].text
    if not op.inputs and is_word(text):
        names.kinds[op.outputs[0]] = "number"
        return [f"{targets(op, names)} = {text!r}"]
    found = spell(tree(text, op.where), [names.fragment(x) for x in op.inputs])
    shape = number_shape(op)
    if shape is not None:
        dtype = by_text[op.outputs[0].dtype or ""].torch
        return [f"{targets(op, names)} = torch.full({shape}, {found.text}, dtype=torch.{dtype})"]
    names.kinds[op.outputs[0]] = found.kind
    return [f"{targets(op, names)} = {found.text}"]


def _attribute(op: Operator, names: Names) -> list[str]:
    key = next(iter(op.attrs))
    return [f"{targets(op, names)} = self.{names.member(op, key)}"]


def _constant(op: Operator, names: Names) -> list[str]:
    parameter = op.params.get("value")
    value = None if parameter is None else parameter.value
    names.kinds[op.outputs[0]] = "list" if isinstance(value, list) else "number"
    return [f"{targets(op, names)} = {spelled(value)}"]


def _number(form: str) -> Callable[[Operator, Names], list[str]]:
    def make(op: Operator, names: Names) -> list[str]:
        names.kinds[op.outputs[0]] = "number"
        return [f"{targets(op, names)} = {form.format(names.of(op.inputs[0]))}"]

    return make


def _to_tensor(op: Operator, names: Names) -> list[str]:
    return [f"{targets(op, names)} = torch.tensor({names.of(op.inputs[0])})"]


def _unpack(op: Operator, names: Names) -> list[str]:
    maker = op.inputs[0].producer
    if maker is not None and maker.type in SEVERAL_OUTPUTS and _handed_out(maker) is op.outputs:
        return []
    parts = "".join(names.of(x) + ", " for x in op.outputs)
    return [f"{parts.rstrip()} = {names.of(op.inputs[0])}"]


def _tuple(op: Operator, names: Names) -> list[str]:
    return [f"{targets(op, names)} = ({''.join(names.of(x) + ', ' for x in op.inputs).rstrip()})"]


def _dict(op: Operator, names: Names) -> list[str]:
    pairs = zip(op.inputs[::2], op.inputs[1::2], strict=True)
    return [f"{targets(op, names)} = {{{', '.join(f'{names.of(key)}: {names.of(x)}' for key, x in pairs)}}}"]


def _list(op: Operator, names: Names) -> list[str]:
    names.kinds[op.outputs[0]] = "list"
    return [f"{targets(op, names)} = [{', '.join(map(names.of, op.inputs))}]"]


def _sizes(key: str) -> Callable[[Operator, Names], list[str]]:
    """Methods that take sizes; in a reshape, 0 keeps a size."""

    def make(op: Operator, names: Names) -> list[str]:
        x = names.tensor(op.inputs[0])
        if len(op.inputs) == 2:
            sizes = "*" + names.of(op.inputs[1])
        else:
            value = op.params[key].value
            values = value if isinstance(value, list) else [] if value is None else [value]
            keeps = key == "shape"
            sizes = ", ".join(f"{x}.size({i})" if v == 0 and keeps else literal(v) for i, v in enumerate(values))
        return [f"{targets(op, names)} = {x}.{op.type[7:]}({sizes or '()'})"]

    return make


def _joined(op: Operator, names: Names) -> list[str]:
    if op.has_input("tensors") and len(op.inputs) > 1:
        return [f"{targets(op, names)} = {_call(op, names)}"]
    # At the converter's low levels the dimension is a number of the graph.
    tensors = [x for key, x in op.slots() if key != "dim"]
    dims = [argument_of(op, key, names.of(x)) for key, x in op.slots() if key == "dim"]
    lone = len(tensors) == 1 and tensors[0].shape is None
    inputs = names.of(tensors[0]) if lone else "[" + ", ".join(map(names.tensor, tensors)) + "]"
    return [f"{targets(op, names)} = {op.type}({', '.join([inputs, *dims, *_parameters(op)])})"]


def _parameters(op: Operator) -> list[str]:
    return [argument(op, key, p) for key, p in op.params.items()]


def _split(op: Operator, names: Names) -> Sequence[str]:
    """ONNX's Split without sizes cuts into as many parts as there are outputs."""
    if op.value("split_size_or_sections") is not None or op.has_input("split_size_or_sections"):
        return _plain(op, names)
    parts = f"{names.tensor(op.inputs[0])}, {len(op.outputs)}, {argument(op, 'dim', Parameter(op.value('dim', 0)))}"
    return [f"{targets(op, names)} = torch.chunk({parts})"]


def _einsum(op: Operator, names: Names) -> list[str]:
    if not op.has_param("equation"):
        return [f"{targets(op, names)} = torch.einsum({', '.join(map(names.of, op.inputs))})"]
    equation = str(op.params["equation"].value)
    inputs = ", ".join(map(names.of, op.inputs))
    return [f"{targets(op, names)} = torch.einsum({equation!r}, {inputs})"]


def _unsqueeze(op: Operator, names: Names) -> list[str]:
    """One call a dimension of the result: from the end inwards, then from the front outwards."""
    dim = op.value("dim")
    if not isinstance(dim, list):
        return _plain(op, names)
    calls = "".join(f".unsqueeze({d})" for d in sorted(dim, key=lambda d: (d >= 0, abs(d))))
    return [f"{targets(op, names)} = {names.tensor(op.inputs[0])}{calls}"]


def _prod(op: Operator, names: Names) -> list[str]:
    """One call a dimension, so that those that are left keep their numbers; one for all that need no number."""
    dim = op.value("dim")
    if isinstance(dim, int) or op.has_input("dim"):
        return _plain(op, names)
    x = text = names.tensor(op.inputs[0])
    keep = bool(op.value("keepdim"))
    dtype = f", {argument(op, 'dtype', op.params['dtype'])}" if op.has_param("dtype") else ""
    if not isinstance(dim, list):
        text = f"torch.prod({x}{dtype})" + (f".reshape([1] * {x}.dim())" if keep else "")
    else:
        for d in sorted(dim, key=lambda d: (d >= 0, d if d < 0 else -d)):
            text = f"torch.prod({text}, dim={d}, keepdim={keep}{dtype})"
    return [f"{targets(op, names)} = {text}"]


def _logsumexp(op: Operator, names: Names) -> list[str]:
    """All dimensions are written as an empty list, which PyTorch does not take for them."""
    if op.has_param("dim") and op.params["dim"].value is None:
        x = names.of(op.inputs[0])
        keep = bool(op.value("keepdim"))
        return [f"{targets(op, names)} = torch.logsumexp({x}, dim=tuple(range({x}.dim())), keepdim={keep})"]
    return _plain(op, names)


def _where(op: Operator, names: Names) -> list[str]:
    """Numbers are taken for tensors at their places only, not under their names."""
    slots = dict(op.slots())
    order = [key for key in ("condition", "input", "other") if key in slots or key in op.params]
    if len(order) < 3 or len(op.inputs) + len(op.params) != 3:
        return _plain(op, names)
    arguments = [names.of(slots[key]) if key in slots else spelled(op.params[key].value) for key in order]
    return [f"{targets(op, names)} = torch.where({', '.join(arguments)})"]


def _fill(op: Operator, names: Names) -> list[str]:
    value = names.of(op.inputs[1]) if len(op.inputs) > 1 else spelled(op.params["value"].value)
    return [f"{targets(op, names)} = {names.of(op.inputs[0])}.clone().fill_({value})"]


def _copy(op: Operator, names: Names) -> list[str]:
    """A copy into a tensor, or into a view of it: the same views of a copy of the tensor."""
    y, source = names.of(op.outputs[0]), names.of(op.inputs[1])
    views = written_views(op)
    whole = views[0].inputs[0] if views else op.inputs[0]
    lines, part = [f"{y} = {names.of(whole)}.clone(memory_format=torch.contiguous_format)"], y
    for i, view in enumerate(views):
        made = f"{y}_{'part' if i == len(views) - 1 else i}"
        with names.standing_for({view.inputs[0]: part, view.outputs[0]: made}):
            lines += statements(view, names)
        part = made
    return [*lines, f"{part}.copy_({source})"]


_READING = ("prim::TupleIndex", "prim::TupleUnpack")


def _is_tuple(operand: Operand) -> bool:
    users = operand.consumers
    return operand.shape is None and bool(users) and all(user.type in _READING for user in users)


def _has_tuples(op: Operator) -> bool:
    """Whether the outputs of a recurrent layer are what PyTorch's returns, as in scripted models."""
    if len(op.outputs) == 1 and op.type in RECURRENT and _is_tuple(op.outputs[0]):
        readers = op.outputs[0].consumers
        return any(reader.type == "prim::TupleIndex" or any(map(_is_tuple, reader.outputs)) for reader in readers)
    return len(op.outputs) == 2 and op.type == "nn.LSTM" and _is_tuple(op.outputs[1])


def _handed_out(op: Operator) -> list[Operand]:
    """Results of a module: those of its tuple, where a file of the lowest level has one and takes it apart."""
    if _has_tuples(op):
        return op.outputs
    users = op.outputs[0].consumers if len(op.outputs) == 1 else []
    return users[0].outputs if len(users) == 1 and users[0].type == "prim::TupleUnpack" else op.outputs


def _recurrent(op: Operator, names: Names) -> list[str]:
    x, *state = [names.of(x) for i, x in enumerate(op.inputs) if i == 0 or known(x) is not None]
    if op.type == "nn.LSTM" and len(state) == 1:
        state *= 2  # a tensor that serves as both states is named once
    inputs = [x, f"({', '.join(state)})" if op.type == "nn.LSTM" else state[0]] if state else [x]
    call = f"self.{names.member(op)}({', '.join(inputs)})"
    if _has_tuples(op):
        return [f"{targets(op, names)} = {call}"]
    outputs = _handed_out(op)
    roles = recurrent_roles(op, None if outputs is op.outputs else outputs) or RECURRENT[op.type][0]
    at = dict(zip(roles, map(names.of, outputs), strict=False))
    y, h, c = (at.get(role, "_") for role in "yhc")
    last = f"({h}, {c})" if op.type == "nn.LSTM" and (h, c) != ("_", "_") else h
    return [f"{y}, {last} = {call}"]


def _attention(op: Operator, names: Names) -> list[str]:
    slots, _ = attention_masks(op)
    masks = {
        slot: ("~" if means_taking_part(op.inputs[i]) else "") + names.of(op.inputs[i]) for i, slot in slots.items()
    }
    taken, _ = repeated_inputs(op) or ([i for i in range(len(op.inputs)) if i not in slots], False)
    tensors = [names.of(op.inputs[i]) for i in taken]
    query = tensors[0]
    key = tensors[1] if len(tensors) > 1 else query
    value = tensors[2] if len(tensors) > 2 else key
    if len(tensors) > 3:
        masks.setdefault("attn_mask", tensors[3])
    outputs = _handed_out(op)
    at = dict(zip(attention_roles(op, outputs), outputs, strict=False))
    weights = at.get("weights")
    inputs = [query, key, value, *(f"{k}={v}" for k, v in masks.items()), f"need_weights={weights is not None}"]
    given, last = query_shape(op), None if weights is None else weights.shape
    each = op.value(EACH_HEAD) is False
    if each or (given is not None and last is not None and len(last) == len(given) + 1):
        inputs.append(f"{EACH_HEAD}=False")
    results = ", ".join(names.of(at[role]) if role in at else "_" for role in ("y", "weights"))
    return [f"{results} = self.{names.member(op)}({', '.join(inputs)})"]


def _spread(op: Operator, names: Names) -> list[str]:
    """Variance or deviation: what the file calls ``unbiased`` may be a correction, and both may be numbers."""
    call = _call(op, names)
    return [_assigned(op, names, re.sub(r"\bunbiased=(?!True|False)", "correction=", call))]


def _channels_dropout(op: Operator, names: Names) -> list[str]:
    given = {"p": "0.5", "training": "True"} | {key: names.of(x) for key, x in op.slots()}
    given |= {key: spelled(p.value) for key, p in op.params.items()}
    arguments = names.of(op.inputs[0]), given["p"], given["training"]
    return [f"{targets(op, names)} = torch.feature_dropout({', '.join(arguments)})"]


def _item(op: Operator, names: Names) -> list[str]:
    """Entry of a list, or of a tensor's sizes where the file holds the tensor."""
    x, index = map(names.of, op.inputs[:2])
    return [f"{targets(op, names)} = getattr({x}, 'shape', {x})[{index}]"]


def _entry(op: Operator, names: Names) -> list[str]:
    x, index = map(names.of, op.inputs[:2])
    return [f"{targets(op, names)} = {x}[{index}]"]


def _nothing(op: Operator, names: Names) -> Sequence[str]:
    return ()


_SPECIAL: dict[str, Callable[[Operator, Names], Sequence[str]]] = {
    "pnnx.Input": _nothing,
    "pnnx.Output": _nothing,
    "pnnx.SliceIndexes": _nothing,
    "pnnx.Expression": _expression,
    "pnnx.Attribute": _attribute,
    "prim::Constant": _constant,
    "prim::NumToTensor": _to_tensor,
    "aten::__getitem__": _item,
    "aten::Int": _number("int({})"),
    "aten::ScalarImplicit": _number("{}.item()"),
    "prim::TupleIndex": _entry,
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::TupleConstruct": _tuple,
    "prim::DictConstruct": _dict,
    "prim::ListConstruct": _list,
    "Tensor.slice": slice_,
    "Tensor.slice_copy": slice_copy,
    "Tensor.index": index,
    "Tensor.index_put": index_put,
    "Tensor.copy": _copy,
    "aten::copy": _copy,
    "Tensor.fill": _fill,
    "Tensor.expand": _sizes("sizes"),
    "Tensor.repeat": _sizes("sizes"),
    "Tensor.reshape": _sizes("shape"),
    "Tensor.view": _sizes("shape"),
    "torch.where": _where,
    "torch.var": _spread,
    "torch.std": _spread,
    "F.dropoutnd": _channels_dropout,
    "torch.cat": _joined,
    "torch.stack": _joined,
    "torch.einsum": _einsum,
    "torch.split": _split,
    "torch.logsumexp": _logsumexp,
    "torch.prod": _prod,
    "torch.unsqueeze": _unsqueeze,
    "nn.GRU": _recurrent,
    "nn.RNN": _recurrent,
    "nn.LSTM": _recurrent,
    "nn.MultiheadAttention": _attention,
}
