"""Conversion of weights to another floating-point type."""

from __future__ import annotations

import numpy as np

from pnnx_fast._warning import warn
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Attribute, Graph, Operator
from pnnx_fast.ir.check import require_data
from pnnx_fast.ir.dtypes import FLOATS, by_text
from pnnx_fast.ir.mapped import files_of, require_unchanged

__all__ = ["float_type", "to"]

_SPELLINGS = {"fp32": "f32", "float32": "f32", "fp16": "f16", "float16": "f16", "bfloat16": "bf16", "float64": "f64"}


def float_type(dtype: str) -> str:
    """PNNX's name of a type of floating point numbers, of which there are several spellings.

    Parameters
    ----------
    dtype : str
        PNNX's, numpy's or PyTorch's name.

    Returns
    -------
    str

    Raises
    ------
    ParameterError
        When it is none.

    Examples
    --------
    >>> float_type("float16"), float_type("bfloat16"), float_type("f32")
    ('f16', 'bf16', 'f32')
    """
    wanted = _SPELLINGS.get(dtype, dtype)
    if wanted not in FLOATS:
        raise ParameterError(f"weights can be {', '.join(FLOATS)}, not {dtype!r}")
    return wanted


def to(graph: Graph, dtype: str, constants: bool = False) -> Graph:
    """Return a graph whose modules store their floating-point weights as another type, for smaller files.

    Constants between operators (``pnnx.Attribute``) keep their type, since it decides the type of results. With
    ``constants`` they are stored as the other type, too, and converted back where they are used.

    Parameters
    ----------
    graph : Graph
        Stays as it is.
    dtype : {"f32", "f64", "f16", "bf16"}
        numpy's and PyTorch's names are understood, too.
    constants : bool
        Whether to convert ``pnnx.Attribute``, too.

    Returns
    -------
    Graph

    Warns
    -----
    UserWarning
        When numbers are too large for the type, and become infinite.

    Raises
    ------
    ParameterError
        When ``dtype`` is none of these, or a weight has no data.
    FormatError
        When the file of the weights was changed after it was loaded.

    Examples
    --------
    >>> from pnnx_fast.demo import model_path
    >>> small = to(pnnx_fast.Graph.load(model_path()), "fp16")
    >>> {attr.dtype for op in small.ops for attr in op.attrs.values()}
    {'f16'}
    """
    wanted = float_type(dtype)
    require_data(graph.ops)
    require_unchanged(files_of(graph.ops))
    result = graph.copy()
    for op in list(result.ops):
        if op.type == "pnnx.Attribute":
            if constants:
                _convert_constant(result, op, wanted)
            continue
        for key, attr in op.attrs.items():
            if attr.dtype in FLOATS and attr.dtype != wanted:
                op.attrs[key] = _converted(op, key, wanted)
    return result


def _converted(op: Operator, key: str, wanted: str) -> Attribute:
    given = op.attrs[key].numpy()
    converted = Attribute(given, wanted)
    lost = np.count_nonzero(np.isinf(converted.numpy())) - np.count_nonzero(np.isinf(given))
    if lost:
        warn(f"{lost} numbers of {key} of {op.where} are too large for {wanted}: they became infinite")
    return converted


def _convert_constant(graph: Graph, op: Operator, wanted: str) -> None:
    key, attr = next(iter(op.attrs.items()), ("", None))
    if attr is None or attr.dtype not in FLOATS or attr.dtype == wanted or len(op.outputs) != 1:
        return
    x = op.outputs[0]
    stored = graph.new_operand(graph.free_name(f"{x.name}_{wanted}"))
    back = by_text[attr.dtype].spelled
    op.attrs[key] = _converted(op, key, wanted)
    stored.shape, stored.dtype = x.shape, wanted
    made = graph.new_operator_after("Tensor.to", f"{op.name}_back", op, inputs=[stored], inputnames=["input"])
    made.params.update(copy=False, dtype=back)
    made.add_output(x)
    op.add_output(stored)
