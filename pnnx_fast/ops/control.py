"""Structural operators: inputs, outputs, constants, tuples and lists."""

from __future__ import annotations

from typing import Any

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value


@operator("pnnx.Input")
def graph_input(b: Builder) -> Value:
    """Input of the model; its value is given before lowering begins."""
    raise AssertionError("inputs are given")


@operator("pnnx.Output")
def graph_output(b: Builder, *values: Any) -> Value:
    """Output of the model."""
    return None


@operator("pnnx.Attribute")
def attribute(b: Builder, data: Tensor) -> Tensor:
    """Constant tensor."""
    return data


@operator("prim::TupleConstruct")
def tuple_construct(b: Builder, *values: Any) -> Value:
    """Tuple of the inputs."""
    return tuple(values)


@operator("prim::DictConstruct")
def dict_construct(b: Builder, *pairs: Any) -> Value:
    """Tuple of a dictionary's values; its keys only name them."""
    return tuple(pairs[1::2])


@operator("prim::ListConstruct")
def list_construct(b: Builder, *values: Any) -> Value:
    """List of the inputs."""
    return list(values)


@operator("prim::ListUnpack")
def list_unpack(b: Builder, values: Any) -> Value:
    """Parts of a list, one an output; a tensor in the place of its list of sizes is meant as that."""
    if isinstance(values, Tensor):
        return values.shape if b.output_count > 1 else values
    return _parts(values)


@operator("prim::TupleUnpack")
def tuple_unpack(b: Builder, values: Any) -> Value:
    """Parts of a tuple, one an output."""
    return values if isinstance(values, Tensor) else _parts(values)


def _parts(values: Any) -> Results:
    if not values:
        raise ShapeError("there is nothing to unpack", actual=values)
    return Results(values)


@operator("prim::TupleIndex")
def tuple_item(b: Builder, values: Any, index: int) -> Value:
    """Entry of a tuple; negative indices count from its end."""
    if not isinstance(values, (list, tuple)):
        raise ParameterError("an entry is taken of what is no tuple", parameter="values")
    if not -len(values) <= index < len(values):
        raise ShapeError("index outside of the tuple", expected=len(values), actual=index)
    return values[index]
