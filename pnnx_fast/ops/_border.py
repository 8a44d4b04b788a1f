"""Borders that repeat what lies inside: reflection, replication and wrapping, as copies of slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops.symbolic import Builder, Tensor

__all__ = ["extend"]

SOURCES: dict[str, Callable[[int, int], int]] = {
    "reflect": lambda i, n: -i if i < 0 else 2 * (n - 1) - i,
    "replicate": lambda i, n: 0 if i < 0 else n - 1,
    "circular": lambda i, n: i % n,
}
"""Which of n entries stands at place i, outside of them."""


def extend(b: Builder, x: Tensor, before: Sequence[int], after: Sequence[int], mode: str) -> Tensor:
    """Return ``x`` (n, c, spatial...) with borders along the spatial dimensions, in the memory order of ``x``."""
    if mode not in SOURCES:
        raise ParameterError(f"unknown padding mode {mode!r}", parameter="padding_mode")
    spatial = [n + p + q for n, p, q in zip(x.shape[2:], before, after, strict=True)]
    y = b.empty((*x.shape[:2], *spatial), x.dtype, x)
    inner = y
    for d, (n, p) in enumerate(zip(x.shape[2:], before, strict=True), 2):
        inner = inner.narrow(d, p, n)
    b.copy(x, inner)
    for d, (n, p, q) in enumerate(zip(x.shape[2:], before, after, strict=True), 2):
        limit = {"reflect": n - 1, "circular": n}.get(mode, max(p, q))
        if n == 0 or p > limit or q > limit:
            raise ShapeError(f"the input is too small for {mode} padding", expected=f"<= {limit}", actual=max(p, q))
        # Dimensions before d already have their borders, those behind it do not yet.
        band = y
        for e in range(d + 1, y.ndim):
            band = band.narrow(e, before[e - 2], x.shape[e])
        for i in [*range(-p, 0), *range(n, n + q)]:
            b.copy(band.narrow(d, p + SOURCES[mode](i, n), 1), band.narrow(d, p + i, 1))
    return y
