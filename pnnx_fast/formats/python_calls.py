"""Operators as Python statements for PyTorch: one statement or two for each, by a table of types that need a form of
their own. `python_source` puts them into a module.

Names and parameters come from files that nobody vouches for, so every word of the source is an identifier that was
checked, a literal that was quoted, or a name of PyTorch by pattern.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pnnx_fast.errors import ParameterError, UnsupportedOperatorError
from pnnx_fast.expression import parse
from pnnx_fast.formats.python_expression import Fragment, Kind, literal, spell
from pnnx_fast.ir import Operand, Operator, Parameter

__all__ = ["Names", "argument", "identifier", "is_module", "statements"]

_OPEN_END = 2**31 - 1
_WORD = re.compile(r"[A-Za-z_]\w*\Z", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*\Z", re.ASCII)
_TORCH_NAME = re.compile(r"torch\.[a-z]\w*\Z", re.ASCII)
_ROOTS = ("F", "torch", "torchaudio", "torchvision")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


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
        self._members: dict[tuple[str, str], str] = {}
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

    def member(self, op: Operator, key: str = "") -> str:
        """Member of the class that holds the module, or the attribute `key`, of an operator."""
        place = (op.name, key or op.type)
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


def is_module(op: Operator) -> bool:
    """Whether an operator becomes a member of the class that is made once and called in ``forward``."""
    if op.type.startswith("nn."):
        return True
    return op.type.startswith("torchvision.ops.") and op.type[16:17].isupper()


def argument(op: Operator, key: str, parameter: Parameter) -> str:
    """``key=value`` for a call."""
    if not _WORD.match(key) or keyword.iskeyword(key):
        raise ParameterError("the name cannot be an argument in Python", operator=op.name, parameter=key)
    value = parameter.value
    if "adaptive" in op.type.lower() and key == "output_size" and isinstance(value, list):
        value = [v or None for v in value]
    return f"{key}={_value(value)}"


def _value(value: Any) -> str:
    if isinstance(value, str):
        if _TORCH_NAME.match(value):
            return value
        return literal(float(value)) if value in ("inf", "-inf", "nan") else _word(value)
    if isinstance(value, list):
        return "(" + ", ".join(map(_value, value)) + ("," if len(value) == 1 else "") + ")"
    return literal(value)


def _word(value: str) -> str:
    """A string; elements of lists may be None and bool, which are words there."""
    return value if value in ("None", "True", "False") else repr(value)


def statements(op: Operator, names: Names) -> Iterable[str]:
    """Lines of ``forward`` that compute the outputs of an operator."""
    special = _SPECIAL.get(op.type)
    if special is not None:
        return special(op, names)
    if is_module(op):
        inputs = ", ".join(map(names.of, op.inputs))
        return [f"{_targets(op, names)} = self.{names.member(op)}({inputs})"]
    return [_assigned(op, names, _call(op, names))]


def _targets(op: Operator, names: Names) -> str:
    return ", ".join(map(names.of, op.outputs)) or "_"


#: Functions that return a tuple although a graph may show its first element only: with the parameter named, or always.
_TUPLES = {
    "torch.max": "dim", "torch.min": "dim", "torch.median": "dim", "torch.nanmedian": "dim", "torch.sort": None,
    "torch.topk": None, "torch.kthvalue": None, "torch.mode": None, "torch.cummax": None, "torch.cummin": None,
}  # fmt: skip


def _assigned(op: Operator, names: Names, call: str) -> str:
    if len(op.outputs) == 1 and op.type in _TUPLES and op.outputs[0].shape is not None:
        needed = _TUPLES[op.type]
        if needed is None or op.has_param(needed) or op.has_input(needed):
            call += "[0]"
    return f"{_targets(op, names)} = {call}"


def _call(op: Operator, names: Names) -> str:
    """A function of torch or a method of a tensor, inputs and parameters under PNNX's names."""
    slots = list(op._slots())
    if op.type.startswith("Tensor.") and _WORD.match(op.type[7:]) and op.inputs:
        owner = next((x for key, x in slots if key in ("", "input", "self")), op.inputs[0])
        slots.remove(next(slot for slot in slots if slot[1] is owner))
        function = f"{names.of(owner)}.{op.type[7:]}"
    else:
        function = _function(op)
    positional = [names.of(x) for i, (key, x) in enumerate(slots) if not key or (i == 0 and key == "input")]
    keywords = [argument_of(op, key, names.of(x)) for i, (key, x) in enumerate(slots) if key and (i or key != "input")]
    params = [argument(op, key, p) for key, p in op.params.items() if not _implied(op, key)]
    return f"{function}({', '.join([*positional, *keywords, *params])})"


def argument_of(op: Operator, key: str, text: str) -> str:
    """``key=text`` for an input."""
    if not _WORD.match(key) or keyword.iskeyword(key):
        raise ParameterError("the name cannot be an argument in Python", operator=op.name, parameter=key)
    return f"{key}={text}"


def _implied(op: Operator, key: str) -> bool:
    return op.type == "F.pad" and key == "value" and op.params["mode"].value != "constant"


def _function(op: Operator) -> str:
    if op.type in HELPERS:
        return HELPERS[op.type][0]
    home, _, name = op.type.partition("::")
    if name and _WORD.match(home) and _DOTTED.match(name) and home != "prim":
        return f"torch.ops.{home}.{name}"
    if not _DOTTED.match(op.type) or op.type.partition(".")[0] not in _ROOTS or "__" in op.type:
        raise UnsupportedOperatorError(
            f"operator {op.type} ({op.name}) has no equivalent in PyTorch", {op.type: [op.name]}
        )
    return op.type


# -- Types that need a form of their own ----------------------------------------------------------------------------


def _expression(op: Operator, names: Names) -> list[str]:
    found = spell(parse(str(op.params["expr"].value)), [names.fragment(x) for x in op.inputs])
    names.kinds[op.outputs[0]] = found.kind
    return [f"{_targets(op, names)} = {found.text}"]


def _attribute(op: Operator, names: Names) -> list[str]:
    key = next(iter(op.attrs))
    return [f"{_targets(op, names)} = self.{names.member(op, key)}"]


def _constant(op: Operator, names: Names) -> list[str]:
    parameter = op.params.get("value")
    value = None if parameter is None else parameter.value
    names.kinds[op.outputs[0]] = "list" if isinstance(value, list) else "number"
    return [f"{_targets(op, names)} = {_value(value)}"]


def _number(form: str) -> Callable[[Operator, Names], list[str]]:
    def make(op: Operator, names: Names) -> list[str]:
        names.kinds[op.outputs[0]] = "number"
        return [f"{_targets(op, names)} = {form.format(names.of(op.inputs[0]))}"]

    return make


def _same(op: Operator, names: Names) -> list[str]:
    names.kinds[op.outputs[0]] = names.kinds.get(op.inputs[0], "tensor")
    return [f"{_targets(op, names)} = {names.of(op.inputs[0])}"]


def _to_tensor(op: Operator, names: Names) -> list[str]:
    return [f"{_targets(op, names)} = torch.tensor({names.of(op.inputs[0])})"]


def _unpack(op: Operator, names: Names) -> list[str]:
    targets = "".join(names.of(x) + ", " for x in op.outputs)
    return [f"{targets.rstrip()} = {names.of(op.inputs[0])}"]


def _tuple(op: Operator, names: Names) -> list[str]:
    return [f"{_targets(op, names)} = ({''.join(names.of(x) + ', ' for x in op.inputs).rstrip()})"]


def _list(op: Operator, names: Names) -> list[str]:
    names.kinds[op.outputs[0]] = "list"
    return [f"{_targets(op, names)} = [{', '.join(map(names.of, op.inputs))}]"]


def _sizes(key: str) -> Callable[[Operator, Names], list[str]]:
    """Methods that take sizes; in a reshape, 0 keeps a size."""

    def make(op: Operator, names: Names) -> list[str]:
        x = names.of(op.inputs[0])
        if len(op.inputs) == 2:
            sizes = "*" + names.of(op.inputs[1])
        else:
            value = op.params[key].value
            values = value if isinstance(value, list) else [] if value is None else [value]
            keeps = key == "shape"
            sizes = ", ".join(f"{x}.size({i})" if v == 0 and keeps else literal(v) for i, v in enumerate(values))
        return [f"{_targets(op, names)} = {x}.{op.type[7:]}({sizes or '()'})"]

    return make


def _joined(op: Operator, names: Names) -> list[str]:
    lone = len(op.inputs) == 1 and op.inputs[0].shape is None
    inputs = names.of(op.inputs[0]) if lone else "[" + ", ".join(map(names.of, op.inputs)) + "]"
    return [f"{_targets(op, names)} = {op.type}({', '.join([inputs, *_parameters(op)])})"]


def _parameters(op: Operator) -> list[str]:
    return [argument(op, key, p) for key, p in op.params.items()]


def _einsum(op: Operator, names: Names) -> list[str]:
    inputs = ", ".join(map(names.of, op.inputs))
    return [f"{_targets(op, names)} = torch.einsum({str(op.params['equation'].value)!r}, {inputs})"]


def _over_dims(form: str, order: Callable[[int], Any]) -> Callable[[Operator, Names], list[str]]:
    """Functions of one dimension that PNNX writes with several: one call a dimension."""

    def make(op: Operator, names: Names) -> list[str]:
        dim = op.params["dim"].value if op.has_param("dim") else None
        if not isinstance(dim, list):
            return [_assigned(op, names, _call(op, names))]
        text = names.of(op.inputs[0])
        keep = op.has_param("keepdim") and bool(op.params["keepdim"].value)
        for d in sorted(dim, key=order):
            text = form.format(text, d, keep)
        return [f"{_targets(op, names)} = {text}"]

    return make


def _subscript(op: Operator, names: Names) -> str:
    """What stands in brackets for a slice of several dimensions, counted from either end."""
    dims = op.params["dims"].value if op.has_param("dims") else [op.params["dim"].value]
    dims = dims if isinstance(dims, list) else [dims]
    entries = {d: _range(op, names, i) for i, d in enumerate(dims)}
    front, back = [d for d in entries if d >= 0], [d for d in entries if d < 0]
    parts = [entries.get(d, ":") for d in range(max(front, default=-1) + 1)]
    if back:
        parts += ["...", *(entries.get(d, ":") for d in range(min(back), 0))]
    return ", ".join(parts)


def _range(op: Operator, names: Names, i: int) -> str:
    select = _bound(op, names, "select", i)
    if select is not None and select != str(_OPEN_END):
        return select
    start, end, step = (_bound(op, names, key, i) for key in ("start", "end", "step"))
    text = f"{'' if start in (None, '0', 'None') else start}:{'' if end in (None, str(_OPEN_END), 'None') else end}"
    return text if step in (None, "1", "None") else f"{text}:{step}"


def _bound(op: Operator, names: Names, key: str, i: int) -> str | None:
    """Source of one bound: a parameter, an input, or an entry of a ``pnnx.SliceIndexes``."""
    for name in (key, key + "s"):
        if op.has_param(name):
            value = op.params[name].value
            return literal(value[i] if isinstance(value, list) else value)
        operand = op.named_input(name)
        if operand is None:
            continue
        producer = operand.producer
        if producer is None or producer.type != "pnnx.SliceIndexes":
            return names.of(operand) + (f"[{i}]" if name != key else "")
        indexes = producer.params["indexes"].value
        entries = indexes if isinstance(indexes, list) else str(indexes).strip("()[]").split(",")
        entry = str(entries[i])
        return names.of(producer.inputs[int(entry[1:])]) if entry.startswith("@") else literal(int(entry))
    return None


def _slice(op: Operator, names: Names) -> list[str]:
    return [f"{_targets(op, names)} = {names.of(op.inputs[0])}[{_subscript(op, names)}]"]


def _slice_copy(op: Operator, names: Names) -> list[str]:
    x, source, y = names.of(op.inputs[0]), names.of(op.inputs[1]), names.of(op.outputs[0])
    return [f"{y} = {x}.clone()", f"{y}[{_subscript(op, names)}] = {source}"]


def _index(op: Operator, names: Names) -> list[str]:
    x = names.of(op.inputs[0])
    if not op.has_param("expr"):
        key = names.of(op.inputs[1])
        return [f"{_targets(op, names)} = {x}[tuple(slice(None) if i is None else i for i in {key})]"]
    root = parse(str(op.params["expr"].value))
    inputs = [names.fragment(y) for y in op.inputs]
    entries = [spell(node, inputs).text for node in root.children] or [spell(root, inputs).text]
    return [f"{_targets(op, names)} = {x}[{', '.join(':' if e == 'None' else e for e in entries)}]"]


def _index_put(op: Operator, names: Names) -> list[str]:
    x = names.of(op.inputs[0])
    indices = op.named_input("indices") or op.inputs[1]
    values = op.named_input("values") or (op.inputs[2] if len(op.inputs) > 2 else None)
    text = names.of(values) if values is not None else _value(op.params["values"].value)
    if values is None or names.kinds.get(values) == "number":
        text = f"torch.tensor({text}, dtype={x}.dtype)"
    accumulate = op.has_param("accumulate") and bool(op.params["accumulate"].value)
    return [f"{_targets(op, names)} = torch.ops.aten.index_put({x}, {names.of(indices)}, {text}, {accumulate})"]


def _fill(op: Operator, names: Names) -> list[str]:
    value = names.of(op.inputs[1]) if len(op.inputs) > 1 else _value(op.params["value"].value)
    return [f"{_targets(op, names)} = {names.of(op.inputs[0])}.clone().fill_({value})"]


def _recurrent(op: Operator, names: Names) -> list[str]:
    x, *state = map(names.of, op.inputs)
    y, *last = map(names.of, op.outputs)
    if op.type == "nn.LSTM" and last:
        last = [f"({', '.join(last)})"]
    inputs = [x, f"({', '.join(state)})" if op.type == "nn.LSTM" else state[0]] if state else [x]
    return [f"{y}, {last[0] if last else '_'} = self.{names.member(op)}({', '.join(inputs)})"]


def _attention(op: Operator, names: Names) -> list[str]:
    masks = {key: names.of(x) for key, x in op._slots() if key in ("attn_mask", "key_padding_mask")}
    tensors = [names.of(x) for key, x in op._slots() if key not in masks]
    query = tensors[0]
    key = tensors[1] if len(tensors) > 1 else query
    value = tensors[2] if len(tensors) > 2 else key
    if len(tensors) > 3:
        masks.setdefault("attn_mask", tensors[3])
    wanted = len(op.outputs) > 1
    inputs = [query, key, value, *(f"{k}={v}" for k, v in masks.items()), f"need_weights={wanted}"]
    targets = _targets(op, names) if wanted else f"{names.of(op.outputs[0])}, _"
    return [f"{targets} = self.{names.member(op)}({', '.join(inputs)})"]


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
    "aten::Int": _number("int({})"),
    "aten::ScalarImplicit": _number("{}.item()"),
    "prim::TupleUnpack": _unpack,
    "prim::ListUnpack": _unpack,
    "prim::TupleConstruct": _tuple,
    "prim::ListConstruct": _list,
    "Tensor.slice": _slice,
    "Tensor.slice_copy": _slice_copy,
    "Tensor.index": _index,
    "Tensor.index_put": _index_put,
    "Tensor.fill": _fill,
    "Tensor.expand": _sizes("sizes"),
    "Tensor.repeat": _sizes("sizes"),
    "Tensor.reshape": _sizes("shape"),
    "Tensor.view": _sizes("shape"),
    "torch.cat": _joined,
    "torch.stack": _joined,
    "torch.einsum": _einsum,
    # Dimensions of the result: from the end inwards, then from the front outwards.
    "torch.unsqueeze": _over_dims("{0}.unsqueeze({1})", lambda d: (d >= 0, abs(d))),
    # Dimensions of the input: those that are left must keep their numbers.
    "torch.prod": _over_dims("torch.prod({0}, dim={1}, keepdim={2})", lambda d: (d >= 0, d if d < 0 else -d)),
    "nn.GRU": _recurrent,
    "nn.RNN": _recurrent,
    "nn.LSTM": _recurrent,
    "nn.MultiheadAttention": _attention,
}

HELPERS: dict[str, tuple[str, str]] = {
    "torchaudio.functional.spectrogram": (
        "spectrogram",
        '''
def spectrogram(
    waveform, window, pad, n_fft, hop_length, win_length, power, normalized, center=True, pad_mode="reflect",
    onesided=True,
):
    """Short-time Fourier transform, or a power of its magnitude (None: complex)."""
    flat = F.pad(waveform, (pad, pad)).reshape(-1, waveform.shape[-1] + 2 * pad)
    y = torch.stft(
        flat, n_fft, hop_length, win_length, window, center, pad_mode, normalized == "frame_length", onesided,
        return_complex=True,
    )
    if normalized is True or normalized == "window":
        y = y / window.square().sum().sqrt()
    y = y.reshape(waveform.shape[:-1] + y.shape[1:])
    return y if power is None else y.abs() ** power
''',
    ),
    "torchaudio.functional.inverse_spectrogram": (
        "inverse_spectrogram",
        '''
def inverse_spectrogram(
    spectrogram, window, length, pad, n_fft, hop_length, win_length, normalized, center=True, pad_mode="reflect",
    onesided=True,
):
    """Signal of a complex short-time Fourier transform."""
    if normalized is True or normalized == "window":
        spectrogram = spectrogram * window.square().sum().sqrt()
    y = torch.istft(
        spectrogram.reshape((-1,) + spectrogram.shape[-2:]), n_fft, hop_length, win_length, window, center,
        normalized == "frame_length", onesided, None if length is None else length + 2 * pad,
    )
    if length is not None and pad > 0:
        y = y[:, pad:-pad]
    return y.reshape(spectrogram.shape[:-2] + y.shape[-1:])
''',
    ),
}
"""Functions of packages beyond PyTorch: name and source of what a generated module carries in their place."""
