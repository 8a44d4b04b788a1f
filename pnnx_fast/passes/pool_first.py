"""Averages of a 1x1 convolution's results become the convolution of averages, which has fewer pixels to work on.

Both are linear and act on different dimensions, so they commute; a window must not touch padding, whose zeros would
not have been given the bias.
"""

from __future__ import annotations

import math

from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.dtypes import FLOATS
from pnnx_fast.passes.moves import numbers, only_consumer

__all__ = ["pool_first"]

POOLS: dict[str, str] = {"nn.AvgPool1d": "nn.Conv1d", "nn.AvgPool2d": "nn.Conv2d", "nn.AvgPool3d": "nn.Conv3d"}
"""Poolings and the convolutions with which they commute."""


def pool_first(graph: Graph) -> bool:
    """Swap every 1x1 convolution with the average pooling that alone reads its output."""
    changed = False
    for pool in list(graph.ops):
        conv = pool.inputs[0].producer if pool.type in POOLS and pool.inputs else None
        if conv is None or conv.type != POOLS[pool.type] or only_consumer(pool.inputs[0]) is not pool:
            continue
        if _keeps_pixels(conv) and _shrinks(pool):
            _swap(graph, conv, pool)
            changed = True
    return changed


def _keeps_pixels(conv: Operator) -> bool:
    """Whether every output pixel depends on the input pixel at its place alone."""
    ones = all(n == 1 for key in ("kernel_size", "stride") for n in numbers(conv, key, 1))
    floats = "weight" in conv.attrs and conv.attrs["weight"].dtype in FLOATS  # quotients of integers are cut off
    return floats and ones and "kernel_size" in conv.params and all(n == 0 for n in numbers(conv, "padding", 0))


def _shrinks(pool: Operator) -> bool:
    """Whether windows lie inside of the image and move on by more than a pixel."""
    window = numbers(pool, "kernel_size", 1)
    stride = numbers(pool, "stride", None)
    stride = window if stride == [None] else stride
    if not all(isinstance(n, int) for n in (*window, *stride)):
        return False  # an error of the pool's own
    plain = all(n == 0 for n in numbers(pool, "padding", 0)) and numbers(pool, "ceil_mode", False) == [False]
    return plain and numbers(pool, "divisor_override", None) == [None] and math.prod(stride) > 1


def _swap(graph: Graph, conv: Operator, pool: Operator) -> None:
    x, middle, y = conv.inputs[0], conv.outputs[0], pool.outputs[0]
    pool.set_input(0, x)
    conv.set_input(0, middle)
    pool.add_output(middle)
    conv.add_output(y)
    middle.shape = None if x.shape is None or y.shape is None else (*x.shape[: -_rank(pool)], *y.shape[-_rank(pool) :])
    graph.ops.remove(pool)
    graph.ops.insert(graph.place_of(conv), pool)


def _rank(pool: Operator) -> int:
    return int(pool.type[-2])
