"""Free functions on Mats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pnnx_fast import ncnn
from pnnx_fast.ncnn import Mat

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(("type", "mode"), [(0, "constant"), (1, "edge"), (2, "reflect")])
@pytest.mark.parametrize("x", [X[0, 0], X[0], X, np.stack([X, X])], ids=lambda x: f"{x.ndim} dims")
def test_borders(x: Any, type: int, mode: Any) -> None:
    pads = [(0, 0)] * (x.ndim - 2) + [(1, 2), (3, 1)][-min(2, x.ndim) :]
    options: dict[str, Any] = {"constant_values": 7.0} if type == 0 else {}
    got = ncnn.copy_make_border(Mat(x), 1, 2, 3, 1, type, 7.0)
    np.testing.assert_array_equal(got.numpy(), np.pad(x, pads, mode, **options))


def test_borders_in_three_dimensions() -> None:
    volume = np.stack([X, X + 100])
    got = ncnn.copy_make_border_3d(Mat(volume), 1, 0, 1, 2, 1, 0, ncnn.BorderType.BORDER_CONSTANT, 5.0)
    np.testing.assert_array_equal(got.numpy(), np.pad(volume, [(0, 0), (1, 0), (1, 0), (1, 2)], constant_values=5))
    got = ncnn.copy_make_border_3d(Mat(X), 0, 0, 0, 0, 1, 1, ncnn.BorderType.BORDER_REPLICATE)
    np.testing.assert_array_equal(got.numpy(), X[[0, 0, 1, 1]])


def test_cut() -> None:
    np.testing.assert_array_equal(ncnn.copy_cut_border(Mat(X), 1, 0, 1, 2).numpy(), X[:, 1:, 1:2])
    np.testing.assert_array_equal(ncnn.copy_cut_border(Mat(X[0, 0]), 9, 9, 1, 1).numpy(), X[0, 0, 1:3])


def test_targets() -> None:
    target = Mat()
    assert ncnn.copy_make_border(Mat(X), target, 1, 1, 1, 1, 0, 0.0) is None
    assert (target.w, target.h, target.c) == (6, 5, 2)
    assert ncnn.quantize_to_int8(Mat(X), target, Mat(np.float32([2]))) is None
    assert target.elemsize == 1
    assert ncnn.flatten(Mat(X), dst=target) is None
    assert target.w == 24


@pytest.mark.slow
def test_types_of_results(tmp_path: Path) -> None:
    """Type checkers know that there is a result where no target is given."""
    api = pytest.importorskip("mypy.api")
    lines = ["from pnnx_fast import ncnn", "m, t = ncnn.Mat(2, 2), ncnn.Mat()"]
    lines += ["ncnn.resize_bilinear(m, w=3, h=3).w + ncnn.copy_make_border(m, 1, 1, 1, 1, 0).w + ncnn.flatten(m).w"]
    lines += ["ncnn.flatten(m, t)", "ncnn.flatten(m, dst=t)", "ncnn.quantize_to_int8(m, t, m)", "memoryview(m)"]
    lines += ["ncnn.flatten(m, t).w", "ncnn.resize_bilinear(m, 'x', 3)"]
    (tmp_path / "program.py").write_text("\n".join(lines))
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = true\nfollow_imports = silent\n")
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path)]
    out, err, _ = api.run([*options, str(tmp_path / "program.py")])
    assert err == ""
    assert [line.split(":")[1] for line in out.splitlines() if ": error:" in line] == ["8", "9"]


def test_resizing() -> None:
    nearest = ncnn.resize_nearest(Mat(X), 8, 3)
    np.testing.assert_array_equal(nearest.numpy(), X[:, :, [0, 0, 1, 1, 2, 2, 3, 3]])
    linear = ncnn.resize_bilinear(Mat(X), 6, 3).numpy()[0, 0]
    np.testing.assert_allclose(linear, [0, 0.5, 7 / 6, 11 / 6, 2.5, 3], atol=1e-5)
    cubic = ncnn.resize_bicubic(Mat(X), 6, 5).numpy()[0, 0]
    np.testing.assert_allclose(cubic, [-0.470805, 0.022251, 0.828963, 1.403043, 2.209751, 2.702807], atol=1e-4)
    assert ncnn.resize_bilinear(Mat(X[0, 0]), 6, 5).numpy().shape == (4, 5, 6)


@pytest.mark.parametrize("shape", [(8,), (8, 3), (8, 3, 5), (8, 2, 3, 5)])
def test_packing_there_and_back(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    packed = ncnn.convert_packing(Mat(x), 4)
    assert (packed.elempack, packed.elemsize) == (4, 16)
    np.testing.assert_array_equal(ncnn.convert_packing(packed, 1).numpy(), x)
    assert ncnn.convert_packing(Mat(x), 3).elempack == 1
    np.testing.assert_array_equal(ncnn.flatten(packed).numpy(), x.reshape(-1))


def test_casts() -> None:
    z = np.float32([1.0, 2.5, -3.7, 0.1, 70000])
    half = ncnn.cast_float32_to_float16(Mat(z))
    assert half.elemsize == 2
    wanted = [1, 2.5, -3.6992188, 0.0999755859375, np.inf]
    np.testing.assert_array_equal(ncnn.cast_float16_to_float32(half).numpy(), np.float32(wanted))
    brain = ncnn.cast_float32_to_bfloat16(Mat(z))
    assert brain.numpy().view(np.uint16).tolist() == [16256, 16416, 49261, 15821, 18313]
    np.testing.assert_allclose(ncnn.cast_bfloat16_to_float32(brain).numpy(), z, rtol=1e-2)
    halfway = np.array([0x3F808000, 0xBF828000, 0x3F807FFF, 0x7FFFFFFF, 0xFF800000], np.uint32).view(np.float32)
    upper = ncnn.cast_float32_to_bfloat16(Mat(halfway)).numpy().view(np.uint16)
    assert upper.tolist() == [0x3F81, 0xBF83, 0x3F80, 0x7FFF, 0xFF80]
    q = ncnn.quantize_to_int8(Mat(X), Mat(np.float32([10, 2])))
    assert q.numpy().reshape(-1)[[0, 5, 11, 12, 23]].tolist() == [0, 50, 110, 24, 46]
    assert ncnn.cast_int8_to_float32(q).numpy()[0, 0].tolist() == [0, 10, 20, 30]
    rounded = ncnn.quantize_to_int8(Mat(np.float32([0.25, -0.25, 99])), Mat(np.float32([2])))
    assert rounded.numpy().tolist() == [1, -1, 127]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ncnn.copy_make_border(Mat(X), -1, 0, 0, 0, 0),
        lambda: ncnn.copy_make_border(Mat(X), 1, 0, 0, 0, 9),
        lambda: ncnn.copy_cut_border(Mat(X), 2, 1, 0, 0),
        lambda: ncnn.resize_bilinear(Mat(X), 0, 5),
        lambda: ncnn.convert_packing(Mat(X), 0),
        lambda: ncnn.quantize_to_int8(Mat(X), Mat(np.ones(3, np.float32))),
        lambda: ncnn.flatten(Mat()),
    ],
)
def test_mistakes(call: Any) -> None:
    with pytest.raises(ValueError):
        call()
