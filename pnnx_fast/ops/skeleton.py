"""Source text of a function for an operator that nothing is registered for: what a person has to fill in.

It names what the graph's operator carries: inputs, weights, parameters, shapes and types of results.
"""

from __future__ import annotations

import cmath
import json
import re
from typing import Any

from pnnx_fast.ir import Attribute, Operand, Operator, dtypes
from pnnx_fast.ops.registry import slot_name

__all__ = ["skeleton"]

_BLOCKS = {
    "prim::If": "both branches are missing in the file; trace the model, or choose the branch before scripting",
    "prim::Loop": "the body is missing in the file; trace the model, or unroll the loop before scripting",
}
"""Control flow, which the converter writes without what it would run: what to do about it."""


def _identifier(text: str, taken: set[str]) -> str:
    name = slot_name(text)
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _value(value: Any) -> str:
    """Literal of a value; numbers that are not finite have none."""
    if isinstance(value, list):
        items = ", ".join(map(_value, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, float | complex) and not cmath.isfinite(value):
        return f'{type(value).__name__}("{value}")'
    return repr(value)


def _array(name: str, attribute: Attribute) -> str:
    return f"    # {name}: {attribute.dtype}{list(attribute.shape)}"


def _result(operand: Operand, like: str | None) -> str:
    """Shape and dtype of a result; where no shape is noted, that of an input is the best guess."""
    row = dtypes.by_text.get(operand.dtype or "f32")
    shape = f"{like}.shape" if operand.shape is None and like else tuple(operand.shape or ())
    return f'({shape}, "{row.computed if row else "float32"}")'


def skeleton(op: Operator) -> str:
    """Python source of a function for the type of ``op``, ready to be pasted and filled in.

    Of control flow it says what the file lacks.

    Examples
    --------
    >>> from pnnx_fast import Graph
    >>> graph = Graph()
    >>> x, y = graph.new_operand("x"), graph.new_operand("y")
    >>> y.shape, y.dtype = (2, 3), "f32"
    >>> _ = graph.new_operator("pnnx.Input", "x", outputs=[x])
    >>> print(skeleton(graph.new_operator("demo.Scale", "s", inputs=[x], outputs=[y], params={"by": 2.5})))
    @pnnx_fast.operator("demo.Scale", native=False)
    def scale(b, input0, *, by=2.5):
        def compute(input0):
            ...  # numpy arrays in, numpy arrays out (several as a tuple)
        return b.host(compute, [input0], [((2, 3), "float32")])[0]
    """
    if op.type in _BLOCKS:
        return f"# {op.where}: {_BLOCKS[op.type]}"
    taken = {"b", "compute", "pnnx_fast"}
    function = _identifier(re.split(r"[.:]", op.type)[-1].lower(), taken)
    names = [*op.inputnames, *[""] * (len(op.inputs) - len(op.inputnames))]
    inputs = [_identifier(name or f"input{i}", taken) for i, name in enumerate(names)]
    weights = [_identifier(key, taken) for key in op.attrs]
    params = [f"{_identifier(k, taken)}={_value(p.value)}" for k, p in op.params.items()]
    tensors = [*inputs, *weights]
    signature = ", ".join(["b", *tensors, *(["*", *params] if params else [])])
    notes = []
    if any(n < 0 for operand in op.outputs for n in operand.shape or ()):
        notes.append("    # -1 stands for a size that varies: compute it from the inputs' shapes")
    if inputs and any(operand.shape is None for operand in op.outputs):
        notes.append("    # the file does not note the shape of the result: write what it is")
    notes += [_array(name, attr) for name, attr in zip(weights, op.attrs.values(), strict=True)]
    results = ", ".join(_result(operand, next(iter(inputs), None)) for operand in op.outputs)
    last = f"    return b.host(compute, [{', '.join(tensors)}], [{results}])" + ("[0]" if len(op.outputs) == 1 else "")
    lines = [f"@pnnx_fast.operator({json.dumps(op.type)}, native=False)", f"def {function}({signature}):", *notes]
    body = "        ...  # numpy arrays in, numpy arrays out (several as a tuple)"
    lines += [f"    def compute({', '.join(tensors)}):", body, last]
    return "\n".join(lines)
