"""Arithmetic, reductions and layers on types other than float32 against PyTorch: bit by bit where it rounds alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from graph_of_one import run

from pnnx_fast._types import Array
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import evaluate, parse

torch = pytest.importorskip("torch")


def sample(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "?":
        return np.asarray(rng.random(shape) < 0.5)
    return np.asarray(rng.normal(size=shape) * 4 if dtype[0] == "f" else rng.integers(0, 100, shape)).astype(dtype)


EXACT: dict[str, Any] = {
    "add(@0,@1)": lambda a, b: a + b,
    "add(@0,0.3)": lambda a, b: a + 0.3,
    "sub(@0,@1)": lambda a, b: a - b,
    "sub(0.3,@0)": lambda a, b: 0.3 - a,
    "mul(@0,@1)": lambda a, b: a * b,
    "mul(@0,0.3)": lambda a, b: a * 0.3,
    "div(@0,@1)": lambda a, b: a / b,
    "div(@0,0.3)": lambda a, b: a / 0.3,
    "add(mul(@0,@1),sub(@0,@1))": lambda a, b: a * b + (a - b),
    "mul(add(mul(@0,@1),@0),sub(@0,@1))": lambda a, b: (a * b + a) * (a - b),
    "pow(@0,2)": lambda a, b: a**2,
    "pow(@0,3)": lambda a, b: a**3,
    "neg(@0)": lambda a, b: -a,
    "abs(@0)": lambda a, b: abs(a),
    "clamp(@0,-1,3)": lambda a, b: a.clamp(-1, 3),
    "max(@0,@1)": lambda a, b: torch.maximum(a, b),
    "lt(@0,0.1)": lambda a, b: a < 0.1,
    "eq(@0,@1)": lambda a, b: a == b,
    "where(gt(@0,@1),@0,@1)": lambda a, b: torch.where(a > b, a, b),
    "relu(@0)": lambda a, b: torch.relu(a),
    "logical_not(@0)": lambda a, b: torch.logical_not(a),
    "torch.float(@0)": lambda a, b: a.float(),
    "torch.double(add(@0,1))": lambda a, b: (a + 1).double(),
    "torch.half(mul(@0,@1))": lambda a, b: (a * b).half(),
    "torch.long(@0)": lambda a, b: a.long(),
    "mul(torch.float(@0),0.5)": lambda a, b: a.float() * 0.5,
    "remainder(@0,7)": lambda a, b: torch.remainder(a, 7),
    "floor_divide(@0,7)": lambda a, b: torch.floor_divide(a, 7),
}


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8", "i4", "u1", "i2", "i1"])
@pytest.mark.parametrize("text", EXACT)
def test_arithmetic(text: str, dtype: str) -> None:
    for shapes in (((4, 333), (4, 333)), ((3, 5, 7), (5, 1)), ((2, 40), ())):
        a, b = sample(dtype, shapes[0], 1), sample(dtype, shapes[1], 2)
        b = b + b.dtype.type(b == 0)
        want = EXACT[text](torch.from_numpy(a), torch.from_numpy(np.array(b))).numpy()
        for threads in (1, 2):
            got = run("pnnx.Expression", a, b, expr=text, threads=threads)
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("text", ["and(@0,@1)", "or(@0,@1)", "bitwise_not(@0)", "rshift(@0,2)", "lshift(@0,2)"])
@pytest.mark.parametrize("dtype", ["?", "i8", "i4", "u1"])
def test_bits(text: str, dtype: str) -> None:
    if dtype == "?" and "shift" in text:
        return
    a, b = sample(dtype, (3, 111), 1), sample(dtype, (3, 111), 2)
    s, t = torch.from_numpy(a), torch.from_numpy(b)
    want = {"a": s & t, "o": s | t, "b": ~s, "r": s if dtype == "?" else s >> 2, "l": s if dtype == "?" else s << 2}
    np.testing.assert_array_equal(run("pnnx.Expression", a, b, expr=text), want[text[0]].numpy())


PAIRS = [("f2", "i8"), ("f2", "f4"), ("f4", "i8"), ("f4", "f8"), ("i4", "i8"), ("u1", "i4"), ("?", "i8"), ("?", "f2")]


@pytest.mark.parametrize("types", PAIRS, ids=str)
@pytest.mark.parametrize("text", ["add(@0,@1)", "mul(@0,@1)", "lt(@0,@1)", "div(@0,@1)", "logical_and(@0,@1)"])
def test_mixed_types(types: tuple[str, str], text: str) -> None:
    function = {"a": torch.add, "m": torch.mul, "d": torch.div, "lo": torch.logical_and, "lt": torch.lt}
    f = function.get(text[:2]) or function[text[0]]
    for shapes in (((5, 77), (5, 77)), ((5, 77), ()), ((), (5, 77))):
        a, b = sample(types[0], shapes[0], 1), sample(types[1], shapes[1], 2)
        want = f(torch.from_numpy(np.array(a)), torch.from_numpy(np.array(b))).numpy()
        got = run("pnnx.Expression", a, b, expr=text)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


FUNCTIONS = ["exp", "log", "tanh", "sigmoid", "silu", "gelu", "mish", "erf", "elu", "selu", "softplus", "sin", "rsqrt"]
FUNCTIONS += ["hardswish", "hardsigmoid", "logsigmoid", "leaky_relu", "celu", "softsign", "tanhshrink", "sqrt", "log1p"]


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # what the flags below have to say
@pytest.mark.parametrize("dtype", ["f2", "f8"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, dtype: str) -> None:
    a = np.concatenate([sample(dtype, (2000,), 1), np.array([0, -0.0, np.inf, -np.inf, np.nan, 30, -30], dtype)])
    function = getattr(torch, name, None) or getattr(torch.nn.functional, name)
    # Where the processor has float16, oneDNN takes over some of these, and its gelu(inf) is NaN.
    with torch.backends.mkldnn.flags(enabled=False):
        want = function(torch.from_numpy(a)).numpy()
    got = run("pnnx.Expression", a, expr=f"{name}(@0)")
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, *((2e-3, 3e-4) if dtype == "f2" else (1e-11, 1e-13)))


REDUCTIONS = ["sum", "mean", "prod", "amax", "amin", "cumsum", "cumprod", "logsumexp", "var", "std", "softmax"]
REDUCTIONS += ["log_softmax", "norm"]


@pytest.mark.parametrize("dtype", ["f2", "f8", "i8", "i4", "u1", "?"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, dtype: str) -> None:
    if dtype[0] != "f" and name not in ("sum", "prod", "amax", "amin", "cumsum", "cumprod"):
        return
    for shape, dim in (((7, 65), -1), ((7, 65), 0), ((3, 4, 70, 5), 2), ((2, 1), 1), ((1, 1000), -1), ((3, 40, 2), 1)):
        if name in ("var", "std") and shape[dim] == 1:
            continue
        x = sample(dtype, shape, 1)
        x = (x / 4).astype(dtype) if dtype[0] == "f" else x
        t = torch.from_numpy(x)
        want = (torch.linalg.vector_norm(t, dim=dim) if name == "norm" else getattr(torch, name)(t, dim)).numpy()
        extra = {} if name in ("cumsum", "cumprod", "softmax", "log_softmax") else {"keepdim": False}
        got = run(f"{'F' if 'softmax' in name else 'torch'}.{name}", x, dim=dim, **extra)
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        # A running product of halves is rounded after each factor by PyTorch.
        rtol = {"f2": 2e-2 if name == "cumprod" else 4e-3, "f8": 1e-11}.get(dtype, 0)
        np.testing.assert_allclose(got, want, rtol, {"f2": 4e-3, "f8": 1e-12}.get(dtype, 0))


@pytest.mark.parametrize("kind", ["max", "min"])
def test_extremes_of_half(kind: str) -> None:
    x = np.random.default_rng(1).permutation(3000).reshape(3, 10, 100)[:, :, :60].astype("f2")
    x[1, 2, 3] = np.nan
    t = torch.from_numpy(x)
    for dim in (0, 1, 2):
        want = getattr(torch, kind)(t, dim)
        for got, w in zip(run(f"torch.{kind}", x, outputs=2, dim=dim, keepdim=False), want, strict=True):
            assert got.dtype == w.numpy().dtype
            np.testing.assert_array_equal(got, w.numpy())


def test_layers_of_half() -> None:
    x = sample("f2", (2, 6, 9, 11), 1)
    t = torch.from_numpy(x)
    w, v, m = (np.random.default_rng(i).uniform(0.5, 1.5, 6).astype("f2") for i in range(3))
    affine = {"weight": w, "bias": v}
    f = torch.nn.functional
    W, V, M = (torch.from_numpy(a) for a in (w, v, m))
    cases = [
        ("F.layer_norm", {}, {"normalized_shape": (9, 11)}, f.layer_norm(t, (9, 11))),
        ("nn.GroupNorm", affine, {"num_groups": 3}, f.group_norm(t, 3, W, V)),
        ("nn.BatchNorm2d", {**affine, "running_mean": m, "running_var": w}, {}, f.batch_norm(t, M, W, W, V)),
        ("nn.MaxPool2d", {}, {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}, f.max_pool2d(t, 3, 2, 1)),
        ("nn.AvgPool2d", {}, {"kernel_size": (3, 3), "stride": (2, 2)}, f.avg_pool2d(t, 3, 2)),
        ("nn.AdaptiveAvgPool2d", {}, {"output_size": (1, 1)}, f.adaptive_avg_pool2d(t, 1)),
        ("F.normalize", {}, {"dim": 1}, f.normalize(t.float()).half()),
    ]
    for kind, weights, params, want in cases:
        got = run(kind, x, weights=weights, **params)
        assert got.dtype == np.float16
        np.testing.assert_allclose(got, want.numpy(), 3e-3, 3e-3, err_msg=kind)


@pytest.mark.parametrize("kind", ["tanhshrink", "softsign"])
def test_every_half_of_functions_that_are_made_of_others(kind: str) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    want = getattr(torch.nn.functional, kind)(torch.from_numpy(x)).numpy()
    for got in (run(f"F.{kind}", x), np.asarray(evaluate(parse(f"{kind}(@0)"), [x]))):
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f2", "u1", "i1", "i2", "i4", "i8", "f8"])
def test_places_of_extremes(dtype: str) -> None:
    x = np.random.default_rng(1).permutation(100).reshape(5, 20).astype(dtype)
    t = torch.from_numpy(x)
    for dim in (0, 1):
        wanted = [("max", {"keepdim": False}, t.max(dim)), ("topk", {"k": 3}, t.topk(3, dim))]
        for kind, params, want in wanted:
            for got, w in zip(run(f"torch.{kind}", x, outputs=2, dim=dim, **params), want, strict=True):
                assert got.dtype == w.numpy().dtype
                np.testing.assert_array_equal(got, w.numpy())
        np.testing.assert_array_equal(run("torch.argmin", x, dim=dim), t.argmin(dim).numpy())


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "i2"])
def test_scatter_add_of_every_type(dtype: str) -> None:
    x, src = sample(dtype, (7, 40), 1), sample(dtype, (7, 40), 2)
    for dim in (0, 1):
        index = np.random.default_rng(3).integers(0, x.shape[dim], x.shape)
        want = torch.from_numpy(x).scatter_add(dim, torch.from_numpy(index), torch.from_numpy(src)).numpy()
        got = run("torch.scatter_add", x, index, src, dim=dim)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, 1e-6 if dtype == "f4" else 1e-14)


@pytest.mark.parametrize("text", ["floor_divide(@0,@1)", "remainder(@0,@1)", "fmod(@0,@1)", "remainder(@0,-7)"])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "i8"])
def test_integers_divided(text: str, dtype: str) -> None:
    f = {"fl": torch.floor_divide, "re": torch.remainder, "fm": torch.fmod}[text[:2]]
    if dtype == "u1" and "-7" in text:
        return
    least = -100 if dtype != "u1" else 0
    for shapes in (((9, 500), (9, 500)), ((9, 500), (500,)), ((9, 5), ()), ((), (3, 1)), ((0, 4), (4,)), ((), ())):
        rng = np.random.default_rng(5)
        x, y = (np.asarray(rng.integers(least, 100, s)).astype(dtype) for s in shapes)
        y = np.asarray(np.where(y == 0, 3, y).astype(dtype))
        want = f(torch.from_numpy(x), -7 if "-7" in text else torch.from_numpy(y)).numpy()
        got = run("pnnx.Expression", x, *([] if "-7" in text else [y]), expr=text)
        if "-7" not in text or shapes[0] == want.shape:
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)
    with pytest.raises(ExpressionError, match="op: integer division by zero"):
        run("pnnx.Expression", x, np.zeros((2, 3), dtype), expr=text.replace("-7", "@1"))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_resized_half(mode: str) -> None:
    x = sample("f2", (2, 5, 9, 7), 1)
    align = None if mode == "nearest" else False
    want = torch.nn.functional.interpolate(torch.from_numpy(x), (20, 13), mode=mode, align_corners=align)
    got = run("F.interpolate", x, size=(20, 13), mode=mode, align_corners=align)
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, want.numpy(), 2e-3, 4e-3)  # torch rounds between axes
