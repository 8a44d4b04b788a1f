"""Rewriting passes, Graph to Graph, in the order in which they run.

A pass is a function in a module of this package. It is imported when a graph holds an operator type without which the
pass has nothing to do, so that passes which cannot apply cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from importlib import import_module

from pnnx_fast.ir import Graph, Operator
from pnnx_fast.ir.check import require_connections

__all__ = ["INTERNAL", "PASSES", "RESTORING", "optimize", "restore"]

Observer = Callable[[str, Graph], None]

TYPED = "torch.sum torch.prod torch.cumsum torch.cumprod torch.mean F.softmax F.log_softmax F.softmin"
"""Operators that take the type of their result."""

_TYPED = frozenset(TYPED.split())

RESTORING: dict[str, tuple[str, str]] = {
    "restore_dtypes": ("restore_dtypes", f"{TYPED} torch.arange torch.full pnnx.Expression"),
    "restore_constants": ("restore_constants", "pnnx.Expression Tensor.select"),
    "restore_scalars": ("restore_scalars", "pnnx.Attribute"),
    "restore_modules": ("restore_modules", "pnnx.Attribute"),
    "restore_shapes": (
        "restore_shapes",
        "Tensor.index Tensor.reshape Tensor.select Tensor.slice Tensor.slice_copy aten::all aten::any F.pad "
        "nn.ChannelShuffle nn.PixelShuffle nn.Conv1d pnnx.Expression torch.einsum torch.max torch.min",
    ),
    "restore_tuples": ("restore_tuples", "prim::TupleIndex prim::TupleUnpack"),
    "restore_outputs": ("restore_outputs", "nn.LSTM nn.GRU nn.RNN nn.MultiheadAttention LSTM GRU RNN"),
    "restore_storage": ("restore_storage", "torch.as_strided"),
    "restore_writes": ("restore_writes", "Tensor.copy aten::copy prim::Constant"),
    "restore_truth": (
        "restore_dtypes",
        "torch.eq torch.ge torch.gt torch.le torch.logical_and torch.logical_not torch.logical_or torch.logical_xor "
        "torch.lt torch.ne",
    ),
    "restore_narrow": (
        "restore_narrow",
        "aten::__and__ aten::__iand__ aten::__ior__ aten::__ixor__ aten::__or__ aten::__xor__ aten::add aten::addcdiv "
        "aten::addcmul aten::atan2 aten::bitwise_and aten::bitwise_or aten::bitwise_xor aten::copysign aten::div "
        "aten::floor_divide aten::fmod aten::hypot aten::mul aten::pow aten::remainder aten::sub pnnx.Expression",
    ),
}
"""Passes that say what the converter left unsaid; without them results would be wrong. Rows are like those below."""

INTERNAL = frozenset({"restore_tuples", "restore_writes"})
"""Restoring passes that are for runs alone: they leave internal operator types, which no file may hold, or do what is a
simplification in a file."""

PASSES: dict[str, tuple[str, str]] = {
    "drop_dead": ("drop_dead", ""),
    "drop_identity": (
        "drop_identity",
        "nn.Dropout nn.Dropout2d nn.Dropout3d nn.AlphaDropout nn.Identity torch.clone Tensor.clone Tensor.contiguous",
    ),
    "fold_batch_norm": ("fold_batch_norm", "nn.BatchNorm1d nn.BatchNorm2d nn.BatchNorm3d"),
    "merge_branches": ("merge_branches", "pnnx.Expression"),
    "pool_first": ("pool_first", "nn.AvgPool1d nn.AvgPool2d nn.AvgPool3d"),
    "fuse_attention": ("fuse_attention", "F.softmax nn.Softmax torch.softmax"),
    "fuse_norm": ("fuse_norm", "torch.mean torch.var"),
    "fuse_residual": ("fuse_residual", "pnnx.Expression"),
    "fuse_activation": ("fuse_activation", ""),
    "fuse_late_residual": ("fuse_residual", "pnnx.Expression"),
    "fuse_gate": ("fuse_gate", "pnnx.Expression"),
    "fuse_quantize": ("fuse_quantize", "int8.Quantize"),
    "fuse_expression": ("fuse_expression", ""),
}
"""Each pass: its module, and operator types of which a graph must hold one (none: it always runs)."""


def restore(graph: Graph, observe: Observer | None = None, *, internal: bool = True) -> None:
    """Run the passes that every graph needs, in place; without those of ``INTERNAL`` for a graph that will be saved."""
    require_connections(graph.ops)
    wanted = RESTORING if internal else {k: v for k, v in RESTORING.items() if k not in INTERNAL}
    _run(wanted, graph, {op.type for op in graph.ops if not _is_plain(op)}, observe)


def _is_plain(op: Operator) -> bool:
    """Whether an operator is of a type for which passes wait, but as most are: nothing is unsaid.

    These are expressions without quotients, casts and lost axes, of a single type or with a result of another, and
    floats of which floats are made.
    """
    if not op.inputs or len(op.outputs) != 1:
        return False
    given, result = op.inputs, op.outputs[0]
    if op.type in _TYPED:
        return given[0].dtype == result.dtype == "f32"
    if op.type != "pnnx.Expression" or not op.has_param("expr"):
        return False
    types = {x.dtype for x in given}
    if result.dtype == "f64" and "f64" not in types:
        return False
    if len(types) > 1 and result.dtype in types:
        return False
    text, ranks = op.params["expr"].text, [len(x.shape) for x in given if x.shape is not None]
    return "div" not in text and "torch" not in text and len(result.shape or ()) <= max(ranks, default=0)


def optimize(graph: Graph, observe: Observer | None = None) -> None:
    """Run all passes on a graph, in place; ``observe`` is called after each that changed it, with its name."""
    _run(PASSES, graph, {op.type for op in graph.ops}, observe)


def _run(passes: Mapping[str, tuple[str, str]], graph: Graph, present: Set[str], observe: Observer | None) -> None:
    """Run the passes that wait for a type among those present; none makes operators for which a later one waits."""
    for name, (module, types) in passes.items():
        if types and present.isdisjoint(types.split()):
            continue
        changed = getattr(import_module(f"{__name__}.{module}"), name)(graph)
        if changed and observe is not None:
            observe(name, graph)
