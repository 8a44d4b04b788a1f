"""A graph as the source of a PyTorch module: the file layout, the members with their weights, ``forward`` and the
functions that export. The statements of ``forward`` come from `python_calls`.

Behind ``Graph.python``. It writes source and never runs it.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pnnx_fast.errors import ParameterError
from pnnx_fast.formats.atomic import AtomicFiles
from pnnx_fast.formats.pnnx_model import write_weights
from pnnx_fast.formats.python_calls import argument, is_module, statements
from pnnx_fast.formats.python_helpers import HELPERS
from pnnx_fast.formats.python_names import Names, identifier, spelled
from pnnx_fast.ir import Attribute, Graph, Operand, Operator
from pnnx_fast.ir.check import require_connections
from pnnx_fast.ir.dtypes import FLOATS, by_text
from pnnx_fast.ir.folded import filled_with
from pnnx_fast.ir.masks import DOUBTFUL, EACH_HEAD

__all__ = ["source", "write"]

_KEY = re.compile(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*\Z", re.ASCII)
_AXIS = "weight_q_per_channel_axis"
_QUANTIZED = "nn.quantized."
_NOT_MADE_WITH = {"nn.MultiheadAttention": {EACH_HEAD, DOUBTFUL}}
"""Parameters that a graph has and a module is not made with."""

_UNKNOWN_SIZE = 128
"""Stands for sizes that vary in the examples of inputs."""

_HEAD = """\
import math
import os
import zipfile

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
{imports}
WEIGHTS = {weights}
{helpers}

class Model(nn.Module):
    def __init__(self, weights=WEIGHTS):
        super().__init__()
"""

_LOADING = '''
    @staticmethod
    def load_pnnx_bin(archive, key, shape, dtype, which=-1):
        """Tensor from the weight file; dtypes that numpy does not know travel as integers."""
        entry = key if which < 0 else [e for e in archive.infolist() if e.filename == key][which]
        held = {"bfloat16": "uint16", "complex32": "uint32"}.get(dtype, dtype)
        content = archive.read(entry) if 0 not in shape else b""
        array = np.frombuffer(content, held).reshape(shape).copy()
        tensor = torch.from_numpy(array)
        return tensor if held == dtype else tensor.view(getattr(torch, dtype))
'''

_EXPORTS = '''

def ready():
    """Return the model for inference and inputs of the recorded shapes."""
    model = Model().float().eval()
    torch.manual_seed(0)
    return model, example_inputs()


def export_torchscript(path={stem!r} + ".pt"):
    model, inputs = ready()
    with torch.no_grad():
        torch.jit.trace(model, inputs).save(path)


def export_onnx(path={stem!r} + ".onnx"):
    model, inputs = ready()
    torch.onnx.export(model, inputs, path, dynamo=False, input_names={input_names}, output_names={output_names})


def export_pnnx(path={stem!r} + ".pt"):
    import pnnx

    model, inputs = ready()
    return pnnx.export(model, path, inputs)


def export_ncnn(path={stem!r} + ".pt"):
    """Write path with .ncnn.param and .ncnn.bin, which PNNX makes beside its own files."""
    return export_pnnx(path)


@torch.no_grad()
def test_inference():
    model, inputs = ready()
    return model(*inputs)


if __name__ == "__main__":
    print(test_inference())
'''


def source(graph: Graph, weights: str, stem: str = "model") -> str:
    """Return the source of a module whose ``Model`` reads its weights from the file `weights`, an expression's text."""
    require_connections(graph.ops)
    names = Names()
    inputs, outputs = graph.inputs, graph.outputs
    arguments = [names.of(x) for x in inputs]
    body = [line for op in graph.topological() for line in statements(op, names)]
    used = {op.type for op in graph.ops}
    used |= {"aten" for line in body if " = aten(" in line}
    helpers = "".join("\n" + text for kind, (_, text) in HELPERS.items() if kind in used)
    # A package that is not needed may be missing, or be broken.
    homes = {kind.removeprefix("pnnx.custom_op.").partition(".")[0] for kind in used - HELPERS.keys()}
    packages = homes & {"torchaudio", "torchvision"}
    imports = "".join(f"import {name}\n" for name in sorted(packages))
    statistics = "".join(f"# {line}\n" for line in str(graph.statistics()).splitlines())
    parts = [statistics, "\n" if statistics else "", _HEAD.format(weights=weights, helpers=helpers, imports=imports)]
    parts += [f"        {line}\n" for line in _members(graph, names)]
    parts += [_LOADING, f"\n    def forward({', '.join(['self', *arguments])}):\n"]
    parts += [f"        {line}\n" for line in body]
    parts.append(f"        return {', '.join(map(names.of, outputs)) or 'None'}\n")
    parts += ["\n\ndef example_inputs():\n    return (\n", *(f"        {_example(x)},\n" for x in inputs), "    )\n"]
    ends = {
        "input_names": [f"in{i}" for i in range(len(inputs))],
        "output_names": [f"out{i}" for i in range(len(outputs))],
    }
    parts.append(_EXPORTS.format(stem=stem, **ends))
    return "".join(parts)


def write(graph: Graph, path: Any, bin: Any = None) -> None:
    """Write the module, and its weights beside it unless `bin` names them; see :meth:`Graph.python`."""
    place = Path(path)
    own = place.with_name(f"{place.stem}_weights.bin")  # a model's own weights may lie at the .py file's name
    relative = os.path.relpath(own if bin is None else os.fspath(bin), place.parent)
    weights = f"os.path.join(os.path.dirname(os.path.abspath(__file__)), {relative!r})"
    text = source(graph, weights, identifier(place.stem)).encode()
    with AtomicFiles() as files:
        if bin is None:
            write_weights(graph, files.open(own))
        files.open(place).write(text)


# -- Members ----------------------------------------------------------------------------------------------------------


def _members(graph: Graph, names: Names) -> Iterator[str]:
    modules = {names.member(op): op for op in graph.ops if is_module(op)}
    constants = {
        names.member(op, key): (op, key) for op in graph.ops if op.type == "pnnx.Attribute" for key in op.attrs
    }
    for member, op in modules.items():
        yield f"self.{member} = {_construct(op)}"
    loads = [line for member, op in modules.items() for line in _load_module(member, op)]
    named = Counter((op.name, key) for op, key in constants.values())
    seen: Counter[tuple[str, str]] = Counter()
    for member, (op, key) in constants.items():
        held = "buffer" if _is_statistic(op.outputs[0]) else "parameter"
        place = (op.name, key)
        value = filled_with(op, graph.ops) if key == "data" else None
        if value is None:
            loads.append(_load(f"self.{member}", *place, op.attrs[key], held, seen[place] if named[place] > 1 else -1))
        else:  # The weight file may hold what the converter's own run has written there.
            yield _filled(f"self.{member}", op.attrs[key], value)
        seen[place] += 1
    if loads:
        # PNNX's archives do not mark names as UTF-8.
        encoding = "" if all(map(str.isascii, loads)) else ", metadata_encoding='utf-8'"
        yield f"with zipfile.ZipFile(weights{encoding}) as archive:"
        yield from (f"    {line}" for line in loads)


def _construct(op: Operator) -> str:
    if not _KEY.match(op.type):
        raise ParameterError("the type is no name of a module", operator=op.where, parameter=op.type)
    quantized = op.type.startswith(_QUANTIZED) and op.has_attr("weight")
    skipped = {"scale", "zero_point", _AXIS} if quantized else _NOT_MADE_WITH.get(op.type, set())
    # Marks of the converter's own tell what it wrote, not what a module takes.
    params = [
        argument(op, key, p) for key, p in op.params.items() if key not in skipped and not key.startswith("pnnx_")
    ]
    given = op.inputs[0].shape if op.inputs else None
    if op.type == "nn.GroupNorm" and not op.has_param("num_channels") and given is not None and len(given) > 1:
        params.append(f"num_channels={given[1]}")
    home = "torch.ao." if op.type.startswith(_QUANTIZED) else ""
    return f"{home}{op.type}({', '.join(params)})"


def _load_module(member: str, op: Operator) -> Iterable[str]:
    if op.type.startswith(_QUANTIZED) and op.has_attr("weight"):
        bias = _tensor(op.name, "bias", op.attrs["bias"]) if op.has_attr("bias") else "None"
        yield f"self.{member}.set_weight_bias({_quantized(op)}, {bias})"
        for key in ("scale", "zero_point"):
            yield f"self.{member}.{argument(op, key, op.params[key]).replace('=', ' = ', 1)}"
        return
    for key, attr in op.attrs.items():
        if not _KEY.match(key):
            raise ParameterError("the name cannot be a member in Python", operator=op.where, parameter=key)
        held = "buffer" if key in ("running_mean", "running_var") else "parameter"
        yield _load(f"self.{member}.{key}", op.name, key, attr, held)


def _quantized(op: Operator) -> str:
    """The quantised weight of an operator, from integers, scales and zero points."""
    scales, zeros = "weight.q_per_channel_scales", "weight.q_per_channel_zero_points"
    if not (by_text[op.attrs["weight"].dtype or "f32"].integer and op.has_attr(scales)):
        raise ParameterError(f"a quantised layer needs integer weights and {scales}", operator=op.where)
    weight, scale = (_tensor(op.name, key, op.attrs[key]) for key in ("weight", scales))
    zero = _tensor(op.name, zeros, op.attrs[zeros]) if op.has_attr(zeros) else "torch.zeros(1)"
    axis = int(op.value(_AXIS, 0))
    count = op.attrs["weight"].shape[axis]
    parts = f"{scale}.double(), {zero}.long().expand({count}).contiguous(), {axis}"
    return f"torch._make_per_channel_quantized_tensor({weight}, {parts})"


def _load(target: str, name: str, key: str, attr: Attribute, held: str, which: int = -1) -> str:
    tensor = _tensor(name, key, attr, which)
    if held == "buffer":
        return f"{target} = {tensor}"
    trained = attr.dtype in FLOATS
    return f"{target} = nn.Parameter({tensor}, requires_grad={trained})"


def _filled(target: str, attr: Attribute, value: float) -> str:
    dtype = by_text[attr.dtype or "f32"].torch
    tensor = f"torch.full({tuple(attr.shape)!r}, {spelled(value)}, dtype=torch.{dtype})"
    return f"{target} = nn.Parameter({tensor}, requires_grad={attr.dtype in FLOATS})"


def _tensor(name: str, key: str, attr: Attribute, which: int = -1) -> str:
    if attr.dtype is None:
        raise ParameterError("the attribute has no data", operator=name, parameter=key)
    place = "" if which < 0 else f", {which}"
    shape, dtype = tuple(attr.shape), by_text[attr.dtype].torch
    return f"self.load_pnnx_bin(archive, {f'{name}.{key}'!r}, {shape!r}, {dtype!r}{place})"


def _is_statistic(operand: Operand) -> bool:
    """Whether a constant is the running mean or variance of a normalisation, which takes no parameters there."""
    users = operand.consumers
    if len(users) != 1 or users[0].type not in ("F.batch_norm", "F.instance_norm"):
        return False
    names = users[0].inputnames
    index = users[0].inputs.index(operand)
    return names[index] in ("running_mean", "running_var") if names else index in (1, 2)


def _example(operand: Operand) -> str:
    dims = [_UNKNOWN_SIZE if d < 0 else d for d in operand.shape or ()]
    shape = f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"
    row = by_text[operand.dtype or "f32"]
    if row.text == "bool":
        return f"torch.randint(2, {shape}).bool()"
    if row.integer:
        return f"torch.randint(10, {shape}, dtype=torch.{row.torch})"
    return f"torch.rand({shape}, dtype=torch.{row.torch})"
