"""Dropout: nothing in evaluation mode; functional forms that were traced in training mode draw random numbers."""

from __future__ import annotations

import numpy as np

from pnnx_fast._types import Array
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.symbolic import Builder, Tensor

ALPHA = -1.7580993408473766
"""Value to which SELU saturates, which alpha dropout puts in place of dropped entries (Klambauer et al., 2017)."""


@operator("nn.Dropout", "nn.Dropout1d", "nn.Dropout2d", "nn.Dropout3d", "nn.AlphaDropout", "nn.FeatureAlphaDropout")
def dropout_module(b: Builder, input: Tensor, *, p: float = 0.5, inplace: bool = False) -> Tensor:
    """The input itself: modules are traced in evaluation mode. torch.nn.Dropout."""
    return input


@operator("nn.Identity")
def identity(b: Builder, input: Tensor) -> Tensor:
    """The input itself. torch.nn.Identity."""
    return input


def _kept(b: Builder, x: Tensor, p: float, whole_channels: bool, alpha: bool) -> Tensor:
    shape = (*x.shape[:2], *(1,) * (x.ndim - 2)) if whole_channels else x.shape
    keep = 1.0 - p
    scale = (keep + ALPHA**2 * keep * p) ** -0.5 if alpha and keep else 0.0

    def draw(a: Array) -> Array:
        mask = b.random().random(shape) < keep
        if not alpha:
            return np.where(mask, a / keep if keep else a, 0).astype(a.dtype)
        return (np.where(mask, a, ALPHA) * scale - ALPHA * p * scale).astype(a.dtype)

    return b.host(draw, [x], [(x.shape, x.dtype)])[0]


@operator("F.dropout", native=False, random=True)
def dropout(b: Builder, input: Tensor, *, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Drop entries at random while training. torch.nn.functional.dropout."""
    return _kept(b, input, p, False, False) if training and p else input


@operator("F.dropout1d", "F.dropout2d", "F.dropout3d", "F.dropoutnd", native=False, random=True)
def dropout_channels(
    b: Builder, input: Tensor, *, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """Drop whole channels at random while training. torch.nn.functional.dropout2d."""
    return _kept(b, input, p, True, False) if training and p else input


@operator("F.alpha_dropout", native=False, random=True)
def alpha_dropout(
    b: Builder, input: Tensor, *, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Dropout that keeps mean and variance of SELU networks. torch.nn.functional.alpha_dropout."""
    return _kept(b, input, p, False, True) if training and p else input


@operator("F.feature_alpha_dropout", native=False, random=True)
def feature_alpha_dropout(
    b: Builder, input: Tensor, *, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Tensor:
    """Alpha dropout of whole channels. torch.nn.functional.feature_alpha_dropout."""
    return _kept(b, input, p, True, True) if training and p else input
