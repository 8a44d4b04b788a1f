"""Trained models and converted test programs with known results, where PNNX_FAST_DATA names their folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from archives import arrays

import pnnx_fast
from pnnx_fast.ir.outputs import flat

DATA = Path(os.environ.get("PNNX_FAST_DATA", ""))
CASES = (
    sorted(p.parent for p in DATA.glob("conformance/cases/*/*/golden.npz")) if os.environ.get("PNNX_FAST_DATA") else []
)


@pytest.fixture(scope="module")
def squeezenet(data_path: Path) -> Path:
    return data_path / "models" / "squeezenet1_1.pnnx.param"


@pytest.mark.parametrize("threads", [1, 2])
def test_squeezenet_on_recorded_input(squeezenet: Path, isa: str, threads: int) -> None:
    expected = arrays(squeezenet.with_name("squeezenet1_1.pnnx.expected.npz"))
    model = pnnx_fast.load(squeezenet, num_threads=threads, isa=isa)
    np.testing.assert_allclose(model(expected["in0"]), expected["out0"], rtol=0, atol=1e-5)


def test_squeezenet_on_a_picture(squeezenet: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    folder = squeezenet.parent
    top5 = json.loads((folder / "squeezenet_bus_top5.json").read_text())["top5"]
    with image.open(folder / "bus.jpg") as picture:
        small = picture.convert("RGB").resize((227, 227), image.Resampling.BILINEAR)
    pixels = np.asarray(small, np.float32)[:, :, ::-1] - np.float32([104, 117, 123])
    scores = pnnx_fast.load(squeezenet)(pixels.transpose(2, 0, 1)[None])[0].reshape(-1)
    best = np.argsort(-scores)[:5]
    assert best.tolist() == [index for index, _, _ in top5]
    np.testing.assert_allclose(scores[best], [p for _, p, _ in top5], atol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=[f"{c.parent.name}-{c.name}" for c in CASES])
def test_converted_program(case: Path) -> None:
    meta = json.loads((case / "meta.json").read_text()) if (case / "meta.json").exists() else {}
    golden = arrays(case / "golden.npz")
    names = sorted(golden, key=lambda n: (n[:2], int("".join(filter(str.isdigit, n)))))
    inputs = [golden[n] for n in names if n.startswith("in")]
    wanted = [golden[n] for n in names if n.startswith("out")]
    got = flat(pnnx_fast.load(case / "model.pnnx.param")(*inputs))
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        a = np.asarray(a)
        a = a.reshape(b.shape) if a.size == b.size == 1 else a
        assert a.shape == b.shape
        if meta.get("random") or not b.size:
            continue
        if b.dtype.kind in "biu":
            np.testing.assert_array_equal(a, b)
            continue
        finite = np.isfinite(b)
        scale = max(1.0, float(np.abs(b[finite]).max(initial=0)))
        np.testing.assert_allclose(a, b, rtol=0, atol=(2e-2 if meta.get("bf16") else 1e-4) * scale)
