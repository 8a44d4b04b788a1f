"""The expression VM on half precision, float64, integers and bool against the numpy reference: every function,
memory orders, tails, threads, and rounding between functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guard import guarded
from test_expression import SHAPES, SPECIAL, ordered, run

from pnnx_fast._core.program import ISAS
from pnnx_fast._types import Array
from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import FUNCTIONS, TensorType, evaluate, parse
from pnnx_fast.expression.compile import compile_expression
from pnnx_fast.expression.opcodes import OF_TYPE, OPCODES

DTYPES = ["f2", "f8", "i8", "i4", "i2", "i1", "u1", "?"]


def values(dtype: str, count: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if dtype == "?":
        return rng.random(count) < 0.5
    if dtype[0] == "f":
        x = np.concatenate([SPECIAL, rng.normal(size=60), rng.uniform(-12, 12, 60)])
        with np.errstate(over="ignore"):
            return np.resize(rng.permutation(x), count).astype(dtype)
    limits = np.iinfo(dtype)
    few = rng.integers(-5 if dtype != "u1" else 0, 9, 60)
    wide = rng.integers(limits.min, limits.max, 60, endpoint=True)
    return np.resize(rng.permutation(np.concatenate([few, wide, [limits.min, limits.max]])), count).astype(dtype)


def code_of(text: str, inputs: list[Array]) -> Any:
    try:
        return compile_expression(parse(text), [TensorType(x.dtype, x.shape) for x in inputs])
    except ValueError:
        return None


def compiled(dtype: str) -> list[tuple[str, str]]:
    """Functions that the VM computes of this type, and their text."""
    found = []
    for name, function in FUNCTIONS.items():
        text = f"{name}({','.join(f'@{i}' for i in range(function.operands))})"
        if name == "size" or name.startswith("torch."):
            continue
        operands = [values("?" if i == function.mask else dtype, 3, i) for i in range(function.operands)]
        if code_of(text, operands):
            found.append((name, text))
    return found


def arguments(name: str, dtype: str, count: int) -> list[Array]:
    function = FUNCTIONS[name]
    given = [values("?" if i == function.mask else dtype, count, i) for i in range(function.operands)]
    if dtype[0] == "f" and name in ("remainder", "fmod", "floor_divide", "sin", "cos", "tan"):
        given = [np.where(np.abs(v) < 1e3, v, v.dtype.type(3.5)) for v in given]
    if dtype[0] in "iu" and name in ("remainder", "fmod", "floor_divide"):
        given[1] += given[1] == 0  # torch divides no integers by zero
    return given


# Functions whose reference cancels or is a formula of its own.
LOOSE = {
    "gelu": 1e-9,
    "gelu_tanh": 1e-9,
    "mish": 1e-9,
    "tanhshrink": 1e-9,
    "pow": 1e-12,
    "logsigmoid": 1e-12,
    "lgamma": 1e-12,
    "digamma": 1e-12,
}


def check(got: Array, want: Array, name: str = "", ulps: float = 1.0) -> None:
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype == np.float16:
        np.testing.assert_allclose(got, want, ulps * 2.0**-10, 6e-8, err_msg=name)
    elif got.dtype == np.float32:
        np.testing.assert_allclose(got, want, 1e-6, err_msg=name)
    elif got.dtype == np.float64:
        np.testing.assert_allclose(got, want, LOOSE.get(name, 1e-14), 1e-14 if name in LOOSE else 1e-300, err_msg=name)
    else:
        np.testing.assert_array_equal(got, want, err_msg=name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_function(isa: str, dtype: str) -> None:
    functions = compiled(dtype)
    assert len(functions) > 15
    for name, text in functions:
        given = arguments(name, dtype, 1003)
        check(run(isa, text, given), evaluate(text, given), name)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tails_touch_nothing_else(dtype: str) -> None:
    for name, text in compiled(dtype):
        for count in (1, 2, 5, 7, 8, 15, 17, 33):
            given = [guarded(a) for a in arguments(name, dtype, count)]
            out = guarded(np.empty(count, evaluate(text, given).dtype))
            for isa in ISAS:
                run(isa, text, given, out)


def test_every_operation_is_reached() -> None:
    """Names of operations that a type has, but no test above runs."""
    kept = {np.dtype(kind).name: [kind] for kind in ("f8", "i8", "i4", "i2", "i1")} | {"uint8": ["u1", "?"]}
    for dtype, kinds in kept.items():
        seen = {"rsub", "at_least", "at_most", "clip", "copy", "to_bool", "threshold"}
        for kind in kinds:
            for name, text in compiled(kind):
                seen |= {o[0] for o in code_of(text, arguments(name, kind, 3)).operations}
        assert OF_TYPE[dtype] - seen == set(), dtype
        assert OF_TYPE[dtype] <= OPCODES.keys()


CHAINS = {
    "f2": [
        "add(mul(@0,@1),@0)",
        "mul(add(mul(@0,@1),@0),sub(@0,@1))",
        "sub(mul(@0,2.1),1.3)",
        "div(sub(@0,@1),sqrt(add(abs(@1),1.0e-3)))",
        "where(gt(@0,@1),add(@0,@0),0.5)",
        "clamp(mul(@0,1.7),-0.3,0.7)",
        "torch.float(mul(@0,@1))",
        "torch.half(add(torch.float(@0),torch.float(@1)))",
        "lt(mul(@0,0.1),@1)",
    ],
    "f8": ["add(mul(@0,@1),2)", "where(gt(@0,@1),@0,0.5)", "clamp(@0,-0.5,0.75)", "and(gt(@0,0),lt(@1,0.5))"],
    "i8": ["sub(mul(@0,@1),4611686018427387905)", "where(gt(@0,@1),@0,-3)", "clamp(@0,-2,9007199254740993)"],
    "i4": ["add(mul(@0,@1),@0)", "bitwise_and(add(@0,1),@1)", "max(min(@0,100),-100)", "lshift(@0,3)", "pow(@0,3)"],
    "i2": ["add(mul(@0,@1),@0)", "clamp(sub(@0,@1),-700,9000)", "gt(@0,@1)", "floor(neg(@0))"],
    "i1": ["add(mul(@0,@1),@0)", "where(gt(@0,@1),@0,-3)", "rshift(abs(@0),1)", "and(lt(@0,9),gt(@1,-9))"],
    "u1": ["add(mul(@0,@1),@0)", "neg(@0)", "rshift(@0,1)", "lt(add(@0,@1),@1)"],
    "?": ["and(or(@0,@1),bitwise_not(@1))", "logical_xor(@0,ne(@0,@1))", "mul(@0,@1)", "add(@0,@1)"],
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", CHAINS)
def test_chains(isa: str, dtype: str, threads: int) -> None:
    inputs = [values(dtype, 3 * 5171, seed).reshape(3, 5171) for seed in range(2)]
    for text in CHAINS[dtype]:
        check(run(isa, text, inputs, threads=threads), evaluate(text, inputs), text, 0)
    y = run(isa, CHAINS[dtype][0], inputs)
    run(isa, CHAINS[dtype][0], inputs, out=inputs[0] if inputs[0].dtype == y.dtype else None, threads=threads)
    if inputs[0].dtype == y.dtype:
        np.testing.assert_array_equal(inputs[0], y)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["f2", "f8", "i4", "i2", "i1", "u1"])
def test_broadcasting_and_orders(isa: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    names = {"C": "C", "t": "transposed", "l": "last", "g": "gaps"}
    shape = np.broadcast_shapes(*shapes)
    rng = np.random.default_rng(3)
    mask = np.asarray(rng.random(shapes[1]) < 0.5)
    for orders in ("CCC", "tCC", "Ctg", "lCl", "gCC", "ggg"):
        arrays = [np.asarray(rng.integers(0, 50, s)).astype(dtype) for s in shapes]
        a, b = (ordered(x, names[o]) for x, o in zip(arrays, orders, strict=False))
        for text, inputs in (("sub(mul(@0,2),@1)", [a, b]), ("where(@1,@0,1)", [a, mask]), ("gt(@0,@1)", [b, a])):
            want = evaluate(text, inputs)
            out = ordered(np.zeros(shape, want.dtype), names[orders[2]])
            for threads in (1, 2):
                got = run(isa, text, inputs, out, threads)
                np.testing.assert_array_equal(got, want, err_msg=f"{orders} {text}")


def test_rounding(isa: str) -> None:
    """To half and bfloat16: every half, ties, subnormals, overflow, any bits; NaNs stay NaNs."""
    with np.errstate(all="ignore"):
        halves = np.arange(65536, dtype=np.uint16).view("f2").astype("f4")
        ties = halves[1:] / 2 + halves[:-1] / 2
        bits = np.random.default_rng(1).integers(0, 2**32, 99991, "u4").view("f4")
        x = np.concatenate([halves, ties, halves + halves * np.float32(2.0**-11), bits])
        for text in ("torch.float(torch.half(@0))", "torch.half(@0)", "torch.bfloat16(@0)"):
            np.testing.assert_array_equal(run(isa, text, [x]), evaluate(text, [x]))
    half = run(isa, "torch.float(torch.half(@0))", [x])
    np.testing.assert_array_equal(np.signbit(half[half == 0]), np.signbit(x[half == 0]))


def test_many_constants(isa: str) -> None:
    inputs = [np.full((2, 70), i, np.float64) for i in range(16)]
    text = "@0"
    for i in range(1, 16):
        text = f"add(mul({text},{i / 10}),mul(@{i},{i / 7}))"
    check(run(isa, text, inputs), evaluate(text, inputs))


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "i4", "i8"])
@pytest.mark.parametrize("text", ["floor_divide(@0,@1)", "remainder(@0,@1)", "fmod(@0,@1)"])
def test_integers_divided(isa: str, text: str, dtype: str) -> None:
    """All pairs of small numbers and of those around the ends; a divisor of zero is reported."""
    ends = np.iinfo(dtype)
    numbers = [*range(max(ends.min, -20), 20), *range(ends.max - 9, ends.max + 1), *range(ends.min, ends.min + 9)]
    x = np.array(numbers, dtype)
    for divisors in (x[x != 0], np.random.default_rng(0).permutation(x[x != 0])):
        inputs = [np.ascontiguousarray(v) for v in np.broadcast_arrays(x[:, None], divisors)]
        np.testing.assert_array_equal(run(isa, text, inputs), evaluate(text, inputs))
    for threads in (1, 2):
        with pytest.raises(ExpressionError, match="integer division by zero"):
            run(isa, text, [np.ones(70000, dtype), (np.arange(70000) != 69999).astype(dtype)], threads=threads)
