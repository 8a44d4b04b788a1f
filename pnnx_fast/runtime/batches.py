"""Large batches are computed part by part where that keeps activations in the caches.

``rows_apart`` tells whether no operator of a graph mixes the rows of a batch; ``best_part`` weighs the traffic of
activations, which grows with the rows computed at once, against that of weights, which every part reads again.
``for_rows`` makes operators fit a part that name the number of rows. The parts are run by ``runtime/parts.py``.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any

from pnnx_fast.ir import Operand, Operator, Parameters

__all__ = ["best_part", "for_rows", "rows_apart"]

PEAK, MEMORY, CACHE = 220.0, 37.0, 16 << 20
"""FLOPs of a thread and bytes of memory in a nanosecond; bytes of which half stays in the caches."""

EXPOSED_WEIGHTS, EXPOSED_ACTIVATIONS = 0.1, 1.0
"""How much of the traffic does not hide behind arithmetic."""

SHARED_SPEED, MEETING, WORTH_THREADS = 0.88, 3e3, 2e6
"""Of threads that share every step: how much of their peak they reach, nanoseconds that a step costs them; and work in
nanoseconds from which on it pays to start threads that share none."""

ACTIVATIONS = (
    "elu",
    "gelu",
    "hardsigmoid",
    "hardswish",
    "leaky_relu",
    "mish",
    "relu",
    "relu6",
    "sigmoid",
    "silu",
    "tanh",
)
LAYERS = ("ELU", "GELU", "Hardsigmoid", "Hardswish", "LeakyReLU", "Mish", "ReLU", "ReLU6", "Sigmoid", "SiLU", "Tanh")

KINDS = ("nn.Conv", "fused.Conv", "nn.ConvTranspose", "fused.ConvTranspose", "nn.MaxPool", "nn.AvgPool")
ADAPTIVE = ("nn.AdaptiveAvgPool", "nn.AdaptiveMaxPool", "F.adaptive_avg_pool", "F.adaptive_max_pool")

ALWAYS: dict[str, int] = {
    **{f"{kind}{n}d": n + 2 for n in (1, 2, 3) for kind in (*KINDS, *ADAPTIVE, "F.max_pool", "F.avg_pool")},
    **{f"F.{name}": 0 for name in ACTIVATIONS},
    **{f"nn.{name}": 0 for name in LAYERS},
    **dict.fromkeys(("int8.Conv2d", "fused.Int8Conv2d"), 4),
    "int8.Quantize": 2,
    **dict.fromkeys(("nn.Upsample", "F.interpolate", "F.upsample"), 3),
    **dict.fromkeys(("nn.ChannelShuffle", "nn.PixelShuffle", "F.pixel_shuffle"), 4),
    **dict.fromkeys(("nn.Linear", "fused.Linear", "int8.Linear", "fused.Int8Linear", "nn.GroupNorm"), 2),
}
"""Operators that never mix rows, and from how many dimensions on dimension 0 of their inputs counts rows."""


def _axis(name: str) -> Callable[[Operator], bool]:
    """Whether the dimension that a parameter names is not the first one."""

    def check(op: Operator) -> bool:
        value: Any = op.params[name].value if name in op.params else 0
        rank = len(op.inputs[0].shape or ())
        dims = list(value) if isinstance(value, (list, tuple)) else [value]
        return all(isinstance(n, int) and (n if n >= 0 else n + rank) > 0 for n in dims)

    return check


def _keeps_first(op: Operator) -> bool:
    dims: Any = op.params["dims"].value if "dims" in op.params else None
    return isinstance(dims, (list, tuple)) and dims[0] == 0


def _elementwise(op: Operator) -> bool:
    """Whether an expression has no lists and no sizes in it."""
    text = str(op.params["expr"].value)
    return not any(word in text for word in ("[", "size", "shape"))


def _both_inside(op: Operator) -> bool:
    return _axis("dim0")(op) and _axis("dim1")(op)


def _keeps_count(op: Operator) -> bool:
    """Whether a new shape began with the number of rows when it was noted."""
    before, after = op.inputs[0].shape, op.outputs[0].shape
    if len(op.inputs) != 1 or not before or not after or "shape" not in op.params:
        return False
    shape: Any = op.params["shape"].value
    return bool(before[0] == after[0] and shape and shape[0] in (-1, before[0]))


def _names_another_count(op: Operator, rows: int) -> bool:
    """Whether a new shape that kept the rows that were noted joins or cuts those that there are."""
    shape: Any = op.params["shape"].value
    return shape[0] not in (-1, rows)


def _has_statistics(op: Operator) -> bool:
    """Whether a batch norm need not take them from all rows of the batch."""
    return {"running_mean", "running_var"} <= op.attrs.keys()


def _multiplies_rows(op: Operator) -> bool:
    ranks = {len(x.shape or ()) for x in op.inputs}
    return len(ranks) == 1 and min(ranks) >= 3


def _normalises_inside(op: Operator) -> bool:
    """Whether a layer norm leaves the first dimension alone."""
    shape, inner = op.inputs[0].shape, op.params["normalized_shape"].value
    return shape is not None and len(shape) > (len(inner) if isinstance(inner, (list, tuple)) else 1)


CONDITIONS: dict[str, Callable[[Operator], bool]] = {
    "torch.cat": _axis("dim"),
    "torch.chunk": _axis("dim"),
    "torch.split": _axis("dim"),
    "F.softmax": _axis("dim"),
    "nn.Softmax": _axis("dim"),
    "torch.mean": _axis("dim"),
    "torch.flatten": _axis("start_dim"),
    "Tensor.permute": _keeps_first,
    "Tensor.slice": _axis("dim"),
    "Tensor.select": _axis("dim"),
    "pnnx.Expression": _elementwise,
    "nn.LayerNorm": _normalises_inside,
    **dict.fromkeys(("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d", "fused.BatchNorm2d"), _has_statistics),
    "torch.transpose": _both_inside,
    "torch.matmul": _multiplies_rows,
    "Tensor.reshape": _keeps_count,
    "Tensor.view": _keeps_count,
}


def rows_apart(ops: Sequence[Operator], rows: int) -> bool:
    """Whether each of so many rows of the outputs depends on the same row of the inputs alone."""
    apart: set[Operand] = set()
    constant: set[Operand] = set()
    for op in ops:
        if op.type == "pnnx.Input":
            if any(x.shape is None or len(x.shape) < 2 for x in op.outputs):
                return False
            apart.update(op.outputs)
        elif op.type == "pnnx.Attribute":
            constant.update(op.outputs)
        elif op.type == "pnnx.Output":
            if not apart.issuperset(op.inputs):
                return False
        elif _keeps_rows(op, apart, constant, rows):
            apart.update(op.outputs)
        else:
            return False
    return True


def _keeps_rows(op: Operator, apart: set[Operand], constant: set[Operand], rows: int) -> bool:
    ranks = {len(x.shape) if x.shape is not None else 0 for x in op.inputs if x in apart}
    if op.type == "pnnx.Expression":
        # Constants must not reach dimension 0, and tensors of another rank would meet it elsewhere.
        for x in op.inputs:
            if x in constant and not (x.shape and ranks and (len(x.shape) < min(ranks) or x.shape[0] == 1)):
                return False
        if not all(x in apart or x in constant for x in op.inputs) or len(ranks) != 1:
            return False
    elif not op.inputs or not apart.issuperset(op.inputs):
        return False
    condition = CONDITIONS.get(op.type)
    if condition is None:
        return min(ranks) >= ALWAYS.get(op.type, sys.maxsize)
    return condition(op) and not (condition is _keeps_count and _names_another_count(op, rows))


def for_rows(ops: Sequence[Operator], rows: int) -> list[Operator]:
    """Operators for another number of rows: new shapes that name it are changed, in copies."""
    return [_reshaped(op, rows) if CONDITIONS.get(op.type) is _keeps_count else op for op in ops]


def _reshaped(op: Operator, rows: int) -> Operator:
    shape: Any = op.params["shape"].value
    if shape[0] == -1:
        return op
    other = copy.copy(op)
    other.params = Parameters(op.params, shape=(rows, *shape[1:]))
    return other


def best_part(steps: Sequence[Any], rows: int, arena_bytes: int, nthreads: int) -> tuple[int, bool]:
    """Rows to compute at once, a divisor of ``rows``, and whether every thread computes parts of its own.

    ``steps`` and ``arena_bytes`` are those of all rows at once.
    """
    work = []
    for step in steps:
        weights = sum(t.nbytes for t in step.tensors if t.is_constant)
        others = sum(t.nbytes for t in step.tensors if not t.is_constant)
        work.append((getattr(step, "flops", 0) / rows / PEAK, weights / MEMORY, others / MEMORY))
    enough = sum(compute for compute, _, _ in work) * rows > WORTH_THREADS

    def cost(choice: tuple[int, bool]) -> float:
        part, apart = choice
        rounds = -(-rows // part // nthreads) if apart else rows // part
        speed = 1.0 if apart or nthreads == 1 else nthreads * SHARED_SPEED
        meetings = 0.0 if apart or nthreads == 1 else MEETING * len(work)
        living = (part * nthreads if apart else part) * arena_bytes / rows
        missed = EXPOSED_ACTIVATIONS * living / (living + CACHE)
        total = rounds * meetings
        for compute, weights, others in work:
            arithmetic, memory = part * compute / speed, weights * (nthreads if apart else 1)
            exposed = max(arithmetic, memory) + EXPOSED_WEIGHTS * min(arithmetic, memory)
            total += rounds * exposed + missed * others
        return total

    ways = [False, True] if nthreads > 1 and enough else [False]
    parts = [n for n in range(rows, 0, -1) if rows % n == 0]
    return min(((n, apart) for apart in ways for n in parts if not apart or n < rows), key=cost)
