"""conv_winograd_pack_f32 against its definition U = G g G' in double precision; the same bits on all ISA levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from conv_case import aligned

from pnnx_fast._core.program import ISAS
from pnnx_fast._types import Array
from pnnx_fast.runtime.kernel import call

LANES = {"generic": 4, "avx2": 8}
A, B = math.sqrt(0.5), math.sqrt(2.0)
OC, IC = 3, 19


def _at(point: float, divisor: float, taps: int) -> list[float]:
    return [point**k / divisor for k in range(taps)]


def _both(taps: int) -> Array:
    inner = [_at(p, d, taps) for p, d in ((A, -1.5), (-A, -1.5), (B, 6.0), (-B, 6.0))]
    return np.array([_at(0.0, 1.0, taps), *inner, np.eye(taps)[-1].tolist()])


def _six() -> Array:
    inner = [_at(p, d, 3) for q, d in ((1.0, -4.5), (2.0, 90.0), (0.5, 45 / 32)) for p in (q, -q)]
    return np.array([_at(0.0, 1.0, 3), *inner, [0.0, 0.0, 1.0]])


PHASES = {
    18: [[1, 0, 0], [1, 0, 1], [0, 0, 1], [0, 1, 0]],
    20: [[1, 0, 0], [-1 / 2, 0, -1 / 2], [-1 / 6, 0, 1 / 6], [1 / 6, 0, 2 / 6], [0, 0, 1], [0, 1, 0]],
}
MATRICES = {
    (3, 2): np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
    (3, 4): _both(3),
    (3, 6): _six(),
    (5, 2): _both(5),
    **{(3, variant): np.array(rows) for variant, rows in PHASES.items()},
}


def _packed(isa: str, weight: Array, variant: int, points: int) -> Array:
    lanes, (oc, ic, kh, kw) = LANES.get(isa, 16), weight.shape
    y = aligned(points * ic * lanes)
    call(isa, "conv_winograd_pack_f32", 2, x=weight, y=y, oc=oc, ic=ic, kh=kh, kw=kw, groups=1, variant=variant)
    columns = y.reshape(points, ic, lanes)
    assert not columns[:, :, oc:].any()
    return columns[:, :, :oc].copy()


@pytest.mark.parametrize("taps, variant", MATRICES)
def test_windows_are_transformed_in_double_precision(isa: str, taps: int, variant: int) -> None:
    weight = np.random.default_rng(1).standard_normal((OC, IC, taps, taps)).astype(np.float32)
    g = MATRICES[taps, variant]
    want = np.einsum("ik,ockl,jl->ijco", g, weight.astype(float), g).reshape(-1, IC, OC)
    got = _packed(isa, weight, variant, len(g) ** 2)
    assert (np.abs(got - want) <= 0.5001 * np.spacing(np.abs(got))).all()


@pytest.mark.parametrize("shape, variant", [*(((t, t), v) for t, v in MATRICES), *(((1, t), 0) for t in (3, 5, 7))])
def test_all_levels_agree(shape: tuple[int, int], variant: int) -> None:
    weight = np.random.default_rng(1).standard_normal((OC, IC, *shape)).astype(np.float32)
    points = shape[1] + 3 if shape[0] == 1 else len(MATRICES[shape[0], variant]) ** 2
    first, *others = (_packed(isa, weight, variant, points) for isa in ISAS)
    assert all(np.array_equal(first, other) for other in others)
