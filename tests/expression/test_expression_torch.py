"""Values and dtypes of every function against PyTorch, over dtypes, categories of operands and special
values.
"""

from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import FUNCTIONS, TORCH_DTYPES, evaluate

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:ComplexHalf support", "ignore:Casting complex values"),
]

RENAMED = {
    "max": torch.maximum, "min": torch.minimum, "rsub": torch.rsub, "positive": lambda x: +x, "and":
    torch.bitwise_and, "or": torch.bitwise_or, "xor": torch.bitwise_xor, "lshift": torch.bitwise_left_shift,
    "rshift": torch.bitwise_right_shift, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "complex": torch.complex, "relu6": F.relu6, "hardtanh": F.hardtanh, "leaky_relu": F.leaky_relu, "elu":
    F.elu, "celu": F.celu, "selu": F.selu, "silu": F.silu, "mish": F.mish, "softplus": F.softplus,
    "hardsigmoid": F.hardsigmoid, "hardswish": F.hardswish, "hardshrink": F.hardshrink, "softshrink":
    F.softshrink, "softsign": F.softsign, "logsigmoid": F.logsigmoid, "tanhshrink": F.tanhshrink, "threshold":
    lambda x: F.threshold(x, 0, 0), "prelu": lambda x, w: torch.where(x > 0, x, x * w),
}  # fmt: skip
NO_TWIN = {"size", "int", "where", "masked_fill", "clamp", "prelu", *TORCH_DTYPES}
BODY = {name: RENAMED.get(name) or getattr(torch, name) for name in FUNCTIONS if name not in NO_TWIN}
SPECIAL = [
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    0.0,
    1e-40,
    0.5,
    1.5,
    2.5,
    -2.5,
    -0.5,
    20.5,
    -30.0,
    88.8,
    -104.0,
    3e38,
    1.0,
    -1.0,
]
DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def samples(dtype: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    kind = np.dtype(dtype).kind
    if kind == "b":
        return rng.random(24) < 0.5
    if kind in "iu":
        return rng.integers(0 if kind == "u" else -9, 10, 24).astype(dtype)
    x = np.concatenate([rng.permutation(SPECIAL), rng.normal(size=6)])
    if kind == "c":
        return (rng.normal(size=24) + 1j * rng.normal(size=24)).astype(dtype)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def check(got, want, name):
    if want.dtype is torch.complex32:
        # Held in complex64 here, and not rounded after every function.
        np.testing.assert_allclose(got, want.to(torch.complex64).numpy(), rtol=2e-3, atol=2e-3)
        return
    want = want.numpy()
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    tolerance = {
        "float16": 2e-3,
        "float32": 3e-6,
        "complex64": 2e-5,
        "float64": 1e-12,
        "complex128": 1e-12,
    }.get(str(got.dtype), 0)
    # Near zero of tails such as gelu's, PyTorch loses digits that the reference keeps.
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", [n for n in BODY if FUNCTIONS[n].operands == 1])
def test_unary(name):
    for dtype in DTYPES:
        check_unary(name, dtype)


def check_unary(name, dtype):
    x = samples(dtype, 1)
    if name in ("lgamma", "gelu") and x.dtype.kind == "f":
        # PyTorch's float32 kernels overflow or give NaN near infinity, its double kernels do not.
        x = x[np.abs(x) < 1e4]
    compare(name, [x], [torch.from_numpy(x)])


@pytest.mark.parametrize("name", [n for n in BODY if FUNCTIONS[n].operands == 2])
def test_binary(name):
    for dtypes in itertools.product(DTYPES, DTYPES):
        a, b = samples(dtypes[0], 2), samples(dtypes[1], 3)
        if "complex" in "".join(dtypes) or name in ("remainder", "fmod"):
            # Large parts of complex numbers and remainders of huge numbers depend on PyTorch's vector path.
            a, b = (np.where(np.abs(v) < 50, v, 1).astype(v.dtype) for v in (a, b))
        if b.dtype.kind in "iu" and name in ("floor_divide", "remainder", "fmod"):
            b = np.where(b == 0, 3, b).astype(b.dtype)
        compare(name, [a, b], [torch.from_numpy(a), torch.from_numpy(b)])


def compare(name, inputs, tensors, text=None, body=None):
    text = text or f"{name}({','.join(f'@{i}' for i in range(len(inputs)))})"
    try:
        want = (body or BODY[name])(*tensors)
    except (RuntimeError, TypeError, NotImplementedError):
        # What PyTorch refuses may be computed or refused, but not crash.
        with contextlib.suppress(ExpressionError):
            evaluate(text, inputs)
        return
    check(evaluate(text, inputs), want, name)


def test_infinite_complex_numbers():
    parts = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan], np.float32)
    whole = np.empty((7, 7), np.complex64)
    whole.real, whole.imag = parts[:, None], parts
    whole = whole.reshape(-1, 1)
    for name, pair in itertools.product(
        ("add", "sub", "rsub", "mul"), ((whole, whole.T), (whole, parts), (parts, whole))
    ):
        got, want = evaluate(f"{name}(@0,@1)", list(pair)), BODY[name](*map(torch.from_numpy, pair)).numpy()
        np.testing.assert_array_equal(got.real, want.real)
        np.testing.assert_array_equal(got.imag, want.imag)


NUMBERS = ["2", "-3", "0.5", "2.0", "True", "1.5e+00-2.0e+00j", "0", "-1", "-0.5"]


@pytest.mark.parametrize(
    "name", ["add", "sub", "rsub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "eq", "ge"]
)
def test_number_on_the_right(name):
    for dtype, number in itertools.product(DTYPES, NUMBERS):
        check_number(name, dtype, number)


def check_number(name, dtype, number):
    x = samples(dtype, 4)
    value = eval(number)
    if value == 0 and (name == "div" or x.dtype.kind in "iub"):
        return
    if name == "pow" and (dtype, number) in {("bool", "True"), ("float16", "0.5"), ("float16", "-0.5")}:
        return
    if x.dtype.kind == "f" and (isinstance(value, complex) or name in ("remainder", "fmod")):
        x = x[np.abs(x) < 1e4]
    compare(name, [x], [torch.from_numpy(x)], f"{name}(@0,{number})", lambda t: BODY[name](t, value))


@pytest.mark.parametrize("first", DTYPES)
def test_categories_of_promotion(first):
    for second in DTYPES:
        check_categories((first, second))


def check_categories(pair):
    a, b = samples(pair[0], 5)[:4], samples(pair[1], 6)[6]
    a, b = (np.where(np.abs(v) < 1e4, v, 1).astype(v.dtype) for v in (a, b))
    t = [torch.from_numpy(a), torch.from_numpy(b)]
    for name in ("add", "mul", "div", "eq"):
        compare(name, [a, b], t)
        compare(name, [b, a], t[::-1])
        compare(name, [b, np.asarray(a[0])], [t[1], t[0][0]])
        compare(name, [b], [t[1]], f"{name}(@0,2.5)", lambda x, name=name: BODY[name](x, 2.5))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    "text, body",
    [
        ("leaky_relu(@0,0.3)", lambda x: F.leaky_relu(x, 0.3)),
        ("elu(@0,0.7)", lambda x: F.elu(x, 0.7)),
        ("celu(@0,0.7)", lambda x: F.celu(x, 0.7)),
        ("hardtanh(@0,-0.4,2)", lambda x: F.hardtanh(x, -0.4, 2)),
        ("clamp(@0,-0.4,2)", lambda x: torch.clamp(x, -0.4, 2)),
        ("clamp(@0,-0.4)", lambda x: torch.clamp(x, -0.4)),
        ("clamp(@0,None,0.5)", lambda x: torch.clamp(x, max=0.5)),
        ("clamp(@0,3,1)", lambda x: torch.clamp(x, 3, 1)),
        ("hardshrink(@0,1.2)", lambda x: F.hardshrink(x, 1.2)),
        ("softshrink(@0,1.2)", lambda x: F.softshrink(x, 1.2)),
        ("softplus(@0,2,3)", lambda x: F.softplus(x, 2, 3)),
        ("threshold(@0,0.1,20)", lambda x: F.threshold(x, 0.1, 20)),
        ("where(gt(@0,0),@0,0.5)", lambda x: torch.where(x > 0, x, 0.5)),
        ("masked_fill(@0,lt(@0,0),0.5)", lambda x: x.masked_fill(x < 0, 0.5)),
        (
            "div(sub(@0,0.5),sqrt(add(square(@0),1.000000e-7)))",
            lambda x: (x - 0.5) / (x.square() + 1e-7).sqrt(),
        ),
    ],
)
def test_constants(text, body, dtype):
    x = samples(dtype, 7)
    compare("", [x], [torch.from_numpy(x)], text, body)


@pytest.mark.parametrize("name", sorted(TORCH_DTYPES))
def test_casts(name):
    for source in DTYPES:
        check_cast(name, source)


def check_cast(name, source):
    x = samples(source, 8)
    if x.dtype.kind == "f":
        x = x[np.isfinite(x) & (np.abs(x) < 1e4)]  # PyTorch leaves conversions out of range undefined
    target = getattr(torch, name.removeprefix("torch."))
    want = torch.from_numpy(x).to(target)
    held = torch.from_numpy(np.empty(0, TORCH_DTYPES[name])).dtype
    got = evaluate(f"{name}(@0)", [x])
    np.testing.assert_array_equal(got, want.to(held).numpy())
