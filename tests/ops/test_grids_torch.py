"""Operators against PyTorch over drawn shapes, parameters and types. The draws are the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

torch = pytest.importorskip("torch")
hypothesis = pytest.importorskip("hypothesis")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::UserWarning")]

from hypothesis import assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

F = torch.nn.functional
GRID = settings(max_examples=40, deadline=None, derandomize=True, database=None)
FLOATS, INTEGERS = ["f4", "f8", "f2"], ["i1", "u1", "i2", "i4", "i8"]
BORDERS = ["constant", "reflect", "replicate", "circular"]
SIZE = st.integers(1, 5)
TOLERANCE = {"f2": 4e-3, "f4": 1e-4, "f8": 1e-4, "c8": 1e-4}


def array(shape: Any, dtype: str, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "b1":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype[0] in "iu":
        return rng.integers(0, 7, shape).astype(dtype)
    values = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype == "c8" else 0)
    return np.asarray(values).astype(dtype)


def check(got: Any, want: Any, tolerance: float | None = None) -> None:
    parts = list(want) if isinstance(want, (tuple, list)) else [want]
    for g, w in zip(list(got) if isinstance(got, tuple) else [got], parts, strict=True):
        w = w.resolve_conj().numpy()
        assert np.asarray(g).dtype == w.dtype
        assert np.shape(g) == w.shape
        size = np.abs(w[np.isfinite(w)].astype("c16")).max(initial=0) if w.dtype.kind in "fc" else 0
        bound = (tolerance or TOLERANCE.get(w.dtype.str[1:], 0)) * size
        np.testing.assert_allclose(g, w, 0, bound if w.dtype.kind in "fc" else 0)


def tensors(*arrays: np.ndarray) -> list[Any]:
    return [torch.from_numpy(np.array(a)) for a in arrays]


@st.composite
def broadcastable(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    full = draw(st.lists(st.integers(0, 4), max_size=4))
    shapes = [tuple(1 if draw(st.booleans()) and draw(st.booleans()) else n for n in full) for _ in range(2)]
    return shapes[0], shapes[1][draw(st.integers(0, len(full))) :]


@GRID
@given(broadcastable(), st.sampled_from(FLOATS + INTEGERS + ["b1"]), st.sampled_from(FLOATS + INTEGERS), st.data())
def test_pairs(shapes: Any, first: str, second: str, data: Any) -> None:
    kinds = ["torch.eq", "torch.lt", "torch.maximum", "torch.add", "torch.mul", "torch.sub", "torch.logical_and"]
    kind = data.draw(st.sampled_from([*kinds, "torch.remainder", "torch.div", "torch.floor_divide"]))
    assume(not (kind == "torch.sub" and first == "b1"))
    x, y = array(shapes[0], first), array(shapes[1], second, 1)
    y = y if kind not in ("torch.remainder", "torch.div", "torch.floor_divide") else (np.abs(y) + 1).astype(second)
    want = getattr(torch, kind[6:])(*tensors(x, y))
    names = {"torch.add": "add", "torch.mul": "mul", "torch.sub": "sub", "torch.div": "div"}
    if kind in names:
        check(run("pnnx.Expression", x, y, expr=f"{names[kind]}(@0,@1)"), want)
    else:
        check(run(kind, x, y), want)


@GRID
@given(st.lists(SIZE, min_size=1, max_size=4), st.sampled_from(FLOATS + INTEGERS + ["c8"]), st.booleans(), st.data())
def test_reductions(shape: list[int], dtype: str, keep: bool, data: Any) -> None:
    kinds = ["sum", "amax", "amin"] if dtype[0] in "iu" else ["sum", "mean"] if dtype == "c8" else []
    kind = data.draw(st.sampled_from(kinds or ["sum", "mean", "amax", "amin", "std", "var", "logsumexp", "norm"]))
    axes = data.draw(st.lists(st.integers(-len(shape), len(shape) - 1), min_size=1, unique_by=lambda a: a % len(shape)))
    assume(kind not in ("std", "var") or np.prod([shape[a] for a in axes]) > 1)
    x = array(shape, dtype)
    want = getattr(torch, kind)(*tensors(x), dim=axes, keepdim=keep)
    check(run(f"torch.{kind}", x, dim=tuple(axes), keepdim=keep), want, 8e-3 if dtype == "f2" else None)


@GRID
@given(st.integers(1, 3), st.sampled_from(["f4", "f8"]), st.booleans(), st.data())
def test_convolutions(axes: int, dtype: str, turned: bool, data: Any) -> None:
    groups, kernel, dilation = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    stride, padding = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 1))
    cin, cout = groups * data.draw(st.integers(1, 3)), groups * data.draw(st.integers(1, 3))
    sizes = data.draw(st.lists(st.integers(5, 8), min_size=axes, max_size=axes))
    x = array((*([data.draw(SIZE)] if data.draw(st.booleans()) else []), cin, *sizes), dtype)
    shape = (cin, cout // groups) if turned else (cout, cin // groups)
    w, bias = array((*shape, *[kernel] * axes), dtype, 1), array(cout, dtype, 2)
    params = {"stride": stride, "padding": padding * (kernel > 1), "dilation": dilation, "groups": groups}
    name = f"conv_transpose{axes}d" if turned else f"conv{axes}d"
    want = getattr(F, name)(*tensors(x, w, bias), **params)
    check(run(f"F.{name}", x, w, bias, **params), want)


@GRID
@given(st.integers(1, 3), st.sampled_from(["f4", "f8"]), st.sampled_from(["max", "avg"]), st.booleans(), st.data())
def test_pooling(axes: int, dtype: str, mode: str, ceil: bool, data: Any) -> None:
    x = array([2, 3, *data.draw(st.lists(st.integers(5, 8), min_size=axes, max_size=axes))], dtype)
    kernel = data.draw(st.lists(st.integers(1, 4), min_size=axes, max_size=axes))
    params: dict[str, Any] = {"kernel_size": tuple(kernel), "stride": data.draw(st.integers(1, 3)), "ceil_mode": ceil}
    params["padding"] = data.draw(st.integers(0, min(kernel) // 2))
    if mode == "avg":
        params["count_include_pad"] = data.draw(st.booleans())
    want = getattr(F, f"{mode}_pool{axes}d")(*tensors(x), **params)
    check(run(f"F.{mode}_pool{axes}d", x, **params), want)


@GRID
@given(st.integers(1, 3), st.sampled_from(["f4", "f8"]), st.data())
def test_resizing(axes: int, dtype: str, data: Any) -> None:
    x = array([1, 2, *data.draw(st.lists(st.integers(1, 7), min_size=axes, max_size=axes))], dtype)
    linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[axes]
    mode = data.draw(st.sampled_from(["nearest", "nearest-exact", linear, "area", *["bicubic"] * (axes == 2)]))
    params: dict[str, Any] = {"mode": mode}
    if data.draw(st.booleans()):
        params["size"] = tuple(data.draw(st.lists(st.integers(1, 9), min_size=axes, max_size=axes)))
    else:
        params["scale_factor"] = data.draw(st.sampled_from([1.0, 1.5, 2.0, 2.7]))
    if mode in (linear, "bicubic"):
        params["align_corners"] = data.draw(st.booleans())
    check(run("F.interpolate", x, **params), F.interpolate(*tensors(x), **params))


@GRID
@given(
    st.lists(st.integers(2, 5), min_size=2, max_size=4), st.sampled_from(FLOATS + INTEGERS + ["b1", "c8"]), st.data()
)
def test_views(shape: list[int], dtype: str, data: Any) -> None:
    x = array(shape, dtype)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    (t,) = tensors(x)
    check(run("Tensor.permute", x, dims=order), t.permute(order))
    check(run("torch.flip", x, dims=(axis,)), t.flip(axis))
    shift = data.draw(st.integers(-6, 6))
    check(run("torch.roll", x, shifts=(shift,), dims=(axis,)), t.roll(shift, axis))
    start, end, step = data.draw(st.integers(-6, 6)), data.draw(st.integers(-6, 6)), data.draw(st.integers(1, 3))
    key = [slice(None)] * len(shape)
    key[axis] = slice(start, end, step)
    check(run("Tensor.slice", x, dim=axis, start=start, end=end, step=step), t[tuple(key)])
    check(run("torch.cat", x, x, dim=axis), torch.cat((t, t), axis))
    check(run("Tensor.repeat", x, sizes=(2, *[1] * len(shape))), t.repeat(2, *[1] * len(shape)))
    size = data.draw(st.integers(1, 3))
    parts = t.split(size, axis)
    got = run("torch.split", x, split_size_or_sections=size, dim=axis, outputs=len(parts))
    check(got if len(parts) > 1 else (got[0] if isinstance(got, tuple) else got), parts)


@GRID
@given(st.lists(SIZE, min_size=1, max_size=3), SIZE, SIZE, SIZE, st.sampled_from(["f4", "f8", "i8", "c8"]), st.data())
def test_products(batch: list[int], n: int, k: int, m: int, dtype: str, data: Any) -> None:
    left = [1 if data.draw(st.booleans()) else v for v in batch]
    x, y = array([*left, n, k], dtype), array([*batch[data.draw(st.integers(0, len(batch))) :], k, m], dtype, 1)
    check(run("torch.matmul", x, y), torch.matmul(*tensors(x, y)))
    check(run("torch.matmul", x, y[..., 0].reshape(-1)[:k]), torch.matmul(*tensors(x, y[..., 0].reshape(-1)[:k])))


@GRID
@given(st.lists(st.integers(1, 6), min_size=2, max_size=4), st.sampled_from(FLOATS), st.data())
def test_norms_and_activations(shape: list[int], dtype: str, data: Any) -> None:
    x = array(shape, dtype)
    (t,) = tensors(x)
    loose = 1e-2 if dtype == "f2" else None
    count = data.draw(st.integers(1, len(shape)))
    tail = tuple(shape[-count:])
    check(run("F.layer_norm", x, normalized_shape=tail, eps=0.01), F.layer_norm(t, tail, eps=0.01), loose)
    check(run("F.rms_norm", x, normalized_shape=tail, eps=0.01), F.rms_norm(t, tail, eps=0.01), loose)
    check(run("F.softmax", x, dim=-count), F.softmax(t, -count), loose)
    for kind in ("relu", "gelu", "silu", "hardswish", "softplus", "tanh", "sigmoid", "elu", "mish"):
        check(run(f"F.{kind}", x), getattr(F, kind)(t), loose)
    groups = data.draw(st.sampled_from([g for g in range(1, shape[1] + 1) if shape[1] % g == 0]))
    assume(np.prod(shape[2:]) * (shape[1] // groups) > 1 and shape[0] > 0)
    check(run("F.group_norm", x, num_groups=groups), F.group_norm(t, groups), 2e-2 if dtype == "f2" else 1e-3)


@GRID
@given(
    st.integers(1, 3),
    st.sampled_from(FLOATS + INTEGERS),
    st.sampled_from(["constant", "reflect", "replicate", "circular"]),
    st.data(),
)
def test_padding(axes: int, dtype: str, mode: str, data: Any) -> None:
    assume(mode == "constant" or dtype in ("f4", "f8"))
    x = array([1, 2, *data.draw(st.lists(st.integers(3, 5), min_size=axes, max_size=axes))], dtype)
    pad = tuple(
        data.draw(st.lists(st.integers(-1 if mode == "constant" else 0, 2), min_size=2 * axes, max_size=2 * axes))
    )
    check(run("F.pad", x, pad=pad, mode=mode), F.pad(*tensors(x), pad, mode))


@GRID
@given(st.lists(SIZE, min_size=1, max_size=3), st.sampled_from(["f4", "f8", "i8", "i4"]), st.data())
def test_orders_and_sums(shape: list[int], dtype: str, data: Any) -> None:
    axis, down = data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.booleans())
    x = np.random.default_rng(3).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)
    (t,) = tensors(x)
    check(run("torch.sort", x, dim=axis, descending=down, outputs=2), torch.sort(t, axis, down))
    k = data.draw(st.integers(1, shape[axis]))
    check(run("torch.topk", x, k=k, dim=axis, largest=down, outputs=2), torch.topk(t, k, axis, down))
    check(run("torch.cumsum", x, dim=axis), torch.cumsum(t, axis))
    check(run("torch.argmax", x, dim=axis), torch.argmax(t, axis))
    check(run("torch.max", x, dim=axis, outputs=2), torch.max(t, axis))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_no_images_at_all(dtype: str) -> None:
    got = run("F.grid_sample", np.ones((0, 1, 3, 3), dtype), np.ones((0, 2, 2, 2), dtype), names=["input", "grid"])
    assert got.shape == (0, 1, 2, 2)
