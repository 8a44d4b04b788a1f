"""Batch normalisation after a convolution or linear layer folds into its weights, in float64.

So does one after a concatenation of convolutions along their channels (CSP nets, MixNet).
"""

from __future__ import annotations

from collections.abc import Container

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Attribute, Graph, Operator
from pnnx_fast.ir.mapped import release
from pnnx_fast.passes.moves import absorb, concatenated, only_consumer, pairs

__all__ = ["BATCH_NORMS", "CHANNEL_AXIS", "affine_of", "fold_batch_norm", "fold_batch_norms", "is_affine"]

CHANNEL_AXIS: dict[str, int] = {
    "nn.Conv1d": 0,
    "nn.Conv2d": 0,
    "nn.Conv3d": 0,
    "nn.Linear": 0,
    "nn.ConvTranspose1d": 1,
    "nn.ConvTranspose2d": 1,
    "nn.ConvTranspose3d": 1,
}
"""Axis of the weight that holds the output channels."""

BATCH_NORMS = ("nn.BatchNorm1d", "nn.BatchNorm2d", "nn.BatchNorm3d")


def fold_batch_norm(graph: Graph) -> bool:
    """Fold every batch norm that alone reads the output of a layer with weights, or that of several convolutions."""
    return (fold_batch_norms(graph, CHANNEL_AXIS) + _fold_behind_concatenations(graph)) > 0


def fold_batch_norms(graph: Graph, kinds: Container[str]) -> int:
    """Fold the batch norms behind layers of these types, and return how many there were."""
    count = 0
    for op, norm in pairs(graph, kinds, BATCH_NORMS):
        if _scales_channels(op, norm):
            _scale(op, *affine_of(norm))
            absorb(graph, op, norm)
            count += 1
    return count


def _fold_behind_concatenations(graph: Graph) -> int:
    count = 0
    for norm in list(graph.ops):
        cat = norm.inputs[0].producer if norm.type in BATCH_NORMS and norm.inputs else None
        if cat is None or only_consumer(norm.inputs[0]) is not norm or not is_affine(norm):
            continue
        convs = concatenated(cat, CHANNEL_AXIS.keys() - {"nn.Linear"})
        channels = [_channels(conv) for conv in convs]
        fit = all(channels) and (sum(channels),) == norm.attrs["running_mean"].shape
        if not convs or not fit or not _joins_channels(cat):
            continue
        parts = [np.split(values, np.cumsum(channels)[:-1]) for values in affine_of(norm)]
        for conv, scale, shift in zip(convs, *parts, strict=True):
            _scale(conv, scale, shift)
        absorb(graph, cat, norm)
        count += 1
    return count


def _joins_channels(cat: Operator) -> bool:
    """Whether a concatenation joins images of a batch along dimension 1."""
    makers = [x.producer for x in cat.inputs]
    ranks = {len(m.attrs["weight"].shape) for m in makers if m is not None}
    dim, shape = cat.value("dim", 0), cat.outputs[0].shape
    return shape is not None and ranks == {len(shape)} and isinstance(dim, int) and dim in (1, 1 - len(shape))


def _channels(op: Operator) -> int:
    """Output channels that are one axis of a layer's weight; 0 for others, and for weights that do not fit."""
    weight, axis = op.attrs.get("weight"), CHANNEL_AXIS[op.type]
    groups = op.value("groups", 1)
    if weight is None or len(weight.shape) < 2 or (axis == 1 and groups != 1):
        return 0
    return weight.shape[axis] if "bias" not in op.attrs or op.attrs["bias"].shape == (weight.shape[axis],) else 0


def _scales_channels(op: Operator, norm: Operator) -> bool:
    """Whether the channels that a batch norm behind a layer scales are one axis of that layer's weight."""
    if not is_affine(norm) or norm.attrs["running_mean"].shape != (_channels(op),):
        return False
    # Dimension 1 holds the features of a linear layer over rows alone, and the channels of a convolution over images
    # of a batch. Shapes that are not noted are those for which both types are made.
    rank = next((len(x.shape) for x in (*op.outputs, *op.inputs, *norm.outputs) if x.shape is not None), None)
    if rank is None:
        return op.type != "nn.Linear" and op.type[-2:] == norm.type[-2:]
    return rank == len(op.attrs["weight"].shape)


def is_affine(norm: Operator) -> bool:
    """Whether a batch norm has the statistics of its channels, and vectors of that length alone."""
    vectors = [norm.attrs[key].shape for key in ("running_mean", "running_var", "weight", "bias") if key in norm.attrs]
    return {"running_mean", "running_var"} <= norm.attrs.keys() and len({*vectors}) == 1 == len(vectors[0])


def affine_of(norm: Operator) -> tuple[Array, Array]:
    """(scale, shift) per channel that a batch norm in evaluation mode applies, in float64."""
    mean = norm.attrs["running_mean"].numpy().astype(np.float64)
    variance = norm.attrs["running_var"].numpy().astype(np.float64)
    eps = norm.value("eps", 1e-5)
    if not isinstance(eps, int | float):
        raise ParameterError(f"eps is {eps!r}", operator=norm.where, parameter="eps")
    with np.errstate(all="ignore"):  # as when it runs
        scale = 1.0 / np.sqrt(variance + float(eps))
        if "weight" in norm.attrs:
            scale = scale * norm.attrs["weight"].numpy()
        shift = -mean * scale
        if "bias" in norm.attrs:
            shift = shift + norm.attrs["bias"].numpy()
    return scale, shift


def _scale(op: Operator, scale: Array, shift: Array) -> None:
    weight = op.attrs["weight"].numpy()
    shape = [1] * weight.ndim
    shape[CHANNEL_AXIS[op.type]] = -1
    bias = op.attrs["bias"].numpy() if "bias" in op.attrs else 0.0
    # Weights of half precision beside numbers of float32 are not rounded a second time.
    dtype = np.result_type(weight.dtype, np.float32) if op.inputs[0].dtype == "f32" else weight.dtype
    with np.errstate(all="ignore"):
        op.attrs["weight"] = Attribute.owning((weight * scale.reshape(shape)).astype(dtype))
        op.attrs["bias"] = Attribute.owning((bias * scale + shift).astype(dtype))
    release(weight)
    op.params["bias"] = True
