"""Shape expressions, by themselves and in the layers that take them."""

from __future__ import annotations

import numpy as np
import pytest
from nets import load, param, run

from pnnx_fast.errors import ParameterError
from pnnx_fast.ncnn.shape_expression import blob_count, count, evaluate

SIZES = [{"w": 8, "h": 6, "d": 1, "c": 3, "n": 2}, {"w": 5, "h": 4, "d": 1, "c": 7, "n": 1}]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0w,0h,0c", [8, 6, 3]),
        ("1w,0n", [5, 2]),
        ("+(0w,1),-(0h,2),*(0c,4)", [9, 4, 12]),
        ("//(0w,3),/(0w,3)", [2, 2]),
        ("ceil(/(0w,3)),floor(/(0w,3)),round(/(0w,3)),trunc(2.9)", [3, 2, 3, 2]),
        ("max(0w,1w),min(0w,1w),abs(-4),neg(-4),sign(-4),square(3)", [8, 5, 4, 4, -1, 9]),
        ("sqrt(16),pow(2,5),exp(0),log(1),rsqrt(0.25),reciprocal(0.5)", [4, 32, 1, 0, 2, 2]),
        ("and(6,3),or(6,3),xor(6,3),lshift(1,4),rshift(16,2)", [2, 7, 5, 16, 4]),
        ("fmod(7,4),remainder(-7,4),atan2(0,1),logaddexp(0,0)", [3, 1, 0, 0]),
        ("-1,*(0w,//(0h,2))", [-1, 24]),
        ("0w", [8]),
    ],
)
def test_values(text: str, wanted: list[int]) -> None:
    assert evaluate(text, SIZES) == wanted
    assert count(text) == len(wanted)


def test_blobs_are_counted() -> None:
    assert [blob_count(t) for t in ("5,6", "0w", "+(0w,2h)")] == [0, 1, 3]


@pytest.mark.parametrize(
    "text", ["/(1,0)", "//(1,0)", "+(1)", "nonsense(3)", "9w", "sqrt(-1)", "exp(1000)", "*(99999,99999)"]
)
def test_what_cannot_be_computed(text: str) -> None:
    with pytest.raises(ParameterError, match="shape expression"):
        evaluate(text, SIZES)


X = np.arange(3 * 6 * 8, dtype=np.float32).reshape(3, 6, 8)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ('Reshape r 1 1 a b 6="0h,0w,0c"', (3, 8, 6)),
        ('Reshape r 1 1 a b 6="*(0w,0h),0c"', (3, 48)),
        ('Reshape r 1 1 a b 6="-1"', (144,)),
        ('Interp r 1 1 a b 0=1 9="*(0w,2),*(0h,3)"', (3, 18, 16)),
        ('Interp r 1 1 a b 0=1 5=1 9="*(0w,2),*(0h,3)"', (3, 18, 16)),
        ('Interp r 2 1 a a b 0=1 5=1 9="*(0w,2),*(0h,3)"', (3, 18, 16)),
        ('Crop r 1 1 a b 19="1,2" 20="-(0h,1),-(0w,2)" 21="1,2"', (3, 4, 4)),
    ],
)
def test_layers(layer: str, shape: tuple[int, ...]) -> None:
    net = load(param("Input in 0 1 a", layer))
    assert run(net, "b", a=X).shape == shape


def test_the_size_of_another_blob() -> None:
    net = load(param("Input i 0 1 a", "Input j 0 1 b", 'Reshape r 2 1 a b c 6="1w,1h"'))
    assert run(net, "c", a=X, b=np.zeros((9, 16), np.float32)).shape == (9, 16)


def test_random_text_gives_parameter_errors_alone() -> None:
    rng = np.random.default_rng(3)
    words = [
        "0w",
        "1h",
        "7c",
        "+",
        "//",
        "/",
        "sqrt",
        "pow",
        "exp",
        "(",
        ")",
        ",",
        "0",
        "-3",
        "1e30",
        "lshift",
        "nan",
        "x",
    ]
    for _ in range(3000):
        text = "".join(rng.choice(words, rng.integers(1, 12)))
        try:
            result = evaluate(text, SIZES)
        except ParameterError:
            continue
        assert all(isinstance(v, int) for v in result)
