"""The expression VM against the numpy reference: every function, broadcasting, memory orders, tails, threads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from guard import guarded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pnnx_fast._core.program import ISAS
from pnnx_fast.expression import FUNCTIONS, TensorType, evaluate, parse
from pnnx_fast.expression.compile import compile_expression
from pnnx_fast.expression.opcodes import FIRST, OF_TYPE, OPCODES, SECOND
from pnnx_fast.ops.elementwise import _merge
from pnnx_fast.runtime.kernel import call

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 20.0, -20.0, 1e-40, -1e-40, 1e-20, 1e20, -1e20]
SPECIAL += [88.5, -88.5, 104.0, -104.0, 3.4e38, -3.4e38, 9000.0, 1e7, np.inf, -np.inf, np.nan]


def run(isa, text, inputs, out=None, threads=1):
    """Compile, call the kernel, return the result; operands and result keep their strides."""
    code = compile_expression(parse(text), [TensorType(x.dtype, x.shape) for x in inputs])
    assert code is not None, text
    shape = code.result.shape
    y = np.empty(shape, code.result.dtype) if out is None else out
    operands = [inputs[i] for i in code.inputs]
    strides = [[s // x.itemsize for s in np.broadcast_to(x, shape).strides] for x in operands]
    sizes, (ys, *xs) = _merge(shape, [[s // y.itemsize for s in y.strides], *strides])
    words = code.words([(x.dtype, s) for x, s in zip(operands, xs, strict=True)])
    call(isa, "expression", threads, x=tuple(operands), y=y, code=words, rank=len(sizes), shape=sizes, ys=ys)
    return y


def close(got, want, ulps=16.0, scale=0.0):
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype in (bool, np.float16):
        np.testing.assert_array_equal(got, want)
        return
    # The reference rounds differently in the last places, and numpy's float32 overflow may come one place earlier.
    got, want = (np.where(np.abs(v) > 3.402e38, np.copysign(np.inf, v), v) for v in (got, want))
    np.testing.assert_allclose(got, want, rtol=ulps * 2.0**-24, atol=1.2e-38 + scale)


def values(count, seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([SPECIAL, rng.normal(size=40), rng.uniform(-12, 12, 40), np.exp(rng.uniform(-80, 80, 20))])
    return np.resize(rng.permutation(x), count).astype(np.float32)


BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")  # of bool
# numpy's own float32 functions, and formulas that cancel, are looser than the VM's.
LOOSE = {"gelu_tanh": 400, "tanhshrink": 1e3, "gelu": 400, "mish": 64, "pow": 64, "selu": 32}
ABSOLUTE = {"tanhshrink": 2e-7, "gelu": 9e-11, "sin": 1e-6, "cos": 1e-6, "tan": 1e-6, "logaddexp": 2e-7, "lgamma": 1e-6}
NATIVE = sorted(n for n, f in FUNCTIONS.items() if f.opcode in OF_TYPE["float32"] or f.opcode in BITWISE)


@pytest.mark.parametrize("name", NATIVE)
def test_every_function(isa, name):
    function = FUNCTIONS[name]
    arguments = [values(211, seed) for seed in range(function.operands)]
    if name == "lgamma":
        arguments = [np.where(np.abs(arguments[0]) < 1e6, arguments[0], 3.5).astype(np.float32)]
    if name in ("tan", "sin", "cos"):
        arguments = [np.where(np.abs(arguments[0]) < 1e6, arguments[0], 3.5).astype(np.float32)]
    if name in ("remainder", "fmod", "floor_divide"):
        arguments = [np.where(np.abs(v) < 1e5, v, 3.5).astype(np.float32) for v in arguments]
    if function.mask is not None:
        arguments[function.mask] = arguments[function.mask] > 0
    elif name.startswith(("bitwise", "and", "or", "xor")):
        arguments = [a > 0 for a in arguments]
    text = f"{name}({','.join(f'@{i}' for i in range(function.operands))})"
    got = run(isa, text, arguments)
    with np.errstate(all="ignore"):
        # One step wider than float32, so that the reference is right to the last place.
        want = evaluate(text, [a if a.dtype == bool else a.astype(np.float64) for a in arguments])
        want = want if want.dtype in (bool, np.float16) else want.astype(np.float32)
    close(got, want, LOOSE.get(name, 16), ABSOLUTE.get(name, 0))


def test_remainders_are_exact(isa):
    rng = np.random.default_rng(5)
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, 3e38]
    exponents, small = rng.integers(-149, 128, (2, 4096)), np.ldexp(rng.uniform(1, 2, 4096), rng.integers(-9, 9, 4096))
    pairs = [
        rng.standard_normal((2, 4096)) * [[10], [1]],
        np.ldexp(rng.uniform(1, 2, (2, 4096)) * rng.choice([-1, 1], (2, 4096)), exponents),
        rng.integers(-1000, 1000, (2, 4096)),
        np.stack([np.float32(small) * rng.integers(1, 1 << 22, 4096), np.float32(small)]),
        np.array(np.meshgrid(odd, odd)).reshape(2, -1),
    ]
    for x, y in (pair.astype(np.float32) for pair in pairs):
        with np.errstate(all="ignore"):
            want = np.fmod(x, y)
            low = np.where((want != 0) & ((want < 0) != (y < 0)), want + y, want)
        got = run(isa, "fmod(@0,@1)", [x, y])
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(x[got == 0]))
        np.testing.assert_array_equal(run(isa, "remainder(@0,@1)", [x, y]), low)


@pytest.mark.parametrize("name", NATIVE)
def test_tails_touch_nothing_else(name):
    for count in (1, 2, 3, 4, 7, 8, 15, 16, 17, 33):
        check_tail(name, count)


def check_tail(name, count):
    function = FUNCTIONS[name]
    arguments = [guarded(values(count, seed)) for seed in range(function.operands)]
    if function.mask is not None:
        arguments[function.mask] = guarded(np.ones(count, bool))
    elif name.startswith(("bitwise", "and", "or", "xor")):
        arguments = [guarded(np.ones(count, bool)) for _ in arguments]
    text = f"{name}({','.join(f'@{i}' for i in range(function.operands))})"
    for isa in ISAS:
        run(isa, text, arguments, guarded(np.empty(count, run("generic", text, arguments).dtype)))


CHAINS = [
    "sub(mul(@0,2),1)",
    "add(mul(@0,@1),mul(@0,@1))",
    "relu(add(@0,@1))",
    "max(add(@0,@1),0)",
    "min(max(@0,-1),1.5)",
    "clamp(@0,-0.5,0.75)",
    "clamp(@0,@1,0.75)",
    "clamp(@0,None,0.75)",
    "clamp(@0,0.25)",
    "div(sub(@0,@1),sqrt(add(abs(@1),1.000000e-7)))",
    "pow(sub(@0,@1),2)",
    "pow(abs(@0),0.5)",
    "pow(@0,3)",
    "sub(@0,trunc(@0))",
    "sub(trunc(@0),@0)",
    "sub(@1,trunc(@0))",
    "where(isnan(@0),@1,clamp(@0,-1,1))",
    "where(isnan(log(@0)),0.5,@1)",
    "add(isnan(log(@0)),where(isnan(log(@0)),@1,-1))",
    "pow(abs(@0),1.7)",
    "rsub(mul(@0,3),@1)",
    "sub(@1,mul(@0,3))",
    "mul(sigmoid(@0),@1)",
    "where(gt(@0,@1),@0,0.5)",
    "and(gt(@0,0),lt(@1,0.5))",
    "torch.float(ge(@0,@1))",
    "mul(torch.float(ge(@0,@1)),2)",
    "add(ge(@0,0),lt(@1,0))",
    "masked_fill(@0,gt(@1,0),-inf)",
    "leaky_relu(add(@0,@1),0.2)",
    "softplus(@0,2,3)",
    "torch.bool(@0)",
    "add(@0,nan)",
    "max(@0,nan)",
    "add(add(add(add(@0,1),mul(@1,2)),mul(@0,3)),mul(@1,mul(@0,@0)))",
]


@pytest.mark.parametrize("text", CHAINS)
@pytest.mark.parametrize("threads", [1, 2])
def test_chains(isa, text, threads):
    rng = np.random.default_rng(1)
    inputs = [rng.normal(size=(3, 1171)).astype(np.float32) for _ in range(2)]
    close(run(isa, text, inputs, threads=threads), evaluate(text, inputs), 64, 1e-6)


def test_pairs():
    """Every pair of cheap operations, which only the compiler can name."""
    rng = np.random.default_rng(2)
    inputs = [rng.normal(size=83).astype(np.float32) for _ in range(3)]
    words = {"at_least": "maximum({},0.3)", "at_most": "minimum({},0.3)"}
    for first in FIRST:
        for second in SECOND:
            inner = words.get(first, f"{first}({{}},@1)").format("@0")
            text = words.get(second, f"{second}({{}},@2)").format(inner)
            code = compile_expression(parse(text), [TensorType(x.dtype, x.shape) for x in inputs])
            assert [o[0] for o in code.operations] == [f"{first}_{second}"]
            np.testing.assert_array_equal(run("generic", text, inputs), evaluate(text, inputs))


SHAPES = [
    ((2, 3, 5, 7), (2, 3, 5, 7)),
    ((2, 64, 9, 11), (64, 1, 1)),
    ((2, 3, 40, 50), (1, 3, 1, 1)),
    ((2, 3, 40, 50), (1,)),
    ((2, 3, 40, 50), ()),
    ((1, 700), (300, 1)),
    ((128, 768), (128, 1)),
    ((128, 768), (768,)),
    ((4, 1, 6), (1, 5, 6)),
    ((4, 1, 6, 1), (5, 1, 7)),
    ((2, 2, 2, 2, 2, 2, 2, 2), (2, 1, 2, 1, 2, 1, 2)),
    ((1, 1), (1,)),
    ((5000, 3), (3,)),
    ((3, 5000), (3, 1)),
    ((1, 9, 1, 33), (7, 1, 8, 1)),
    ((300, 8), (300, 1)),
    ((3, 50, 65), (50, 1)),
    ((3, 90, 131), (3, 1, 131)),
    ((40, 700), (700,)),
]


def ordered(x, order):
    """The same values in another memory order: "C", channels last, transposed, with gaps."""
    if order == "last" and x.ndim >= 3:
        return np.ascontiguousarray(np.moveaxis(x, 1, -1)).swapaxes(1, -1).swapaxes(2, -1) if x.ndim == 4 else x
    if order == "transposed":
        return np.ascontiguousarray(x.T).T
    if order == "gaps" and x.ndim:
        wide = np.empty((*x.shape[:-1], 2 * x.shape[-1] + 3), x.dtype)
        wide[..., : 2 * x.shape[-1] : 2] = x
        return wide[..., : 2 * x.shape[-1] : 2]
    return x


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcasting_and_orders(isa, shapes):
    rng = np.random.default_rng(3)
    names = {"C": "C", "t": "transposed", "l": "last", "g": "gaps"}
    shape = np.broadcast_shapes(*shapes)
    mask = np.asarray(rng.random(shapes[1]) < 0.5)
    for orders in ("CCC", "tCC", "CtC", "CCt", "lll", "lCl", "gCC", "CgC", "CCg", "ggg", "ltC"):
        arrays = [np.asarray(rng.normal(size=s), np.float32) for s in shapes]
        a, b = (ordered(x, names[o]) for x, o in zip(arrays, orders, strict=False))
        for text, inputs in (("sub(mul(@0,0.5),@1)", [a, b]), ("where(@1,@0,-1)", [a, mask]), ("gt(@0,@1)", [b, a])):
            want = evaluate(text, inputs)
            out = ordered(np.zeros(shape, want.dtype), names[orders[2]])
            for threads in (1, 2):
                np.testing.assert_array_equal(run(isa, text, inputs, out, threads), want, err_msg=f"{orders} {text}")


def cut(shape, before, after):
    """A tensor of rows with numbers before and after them, to which nothing may be written, and those numbers."""
    wide = np.full((*shape[:-1], before + shape[-1] + after), -7, np.float32)
    x = wide[..., before : before + shape[-1]]
    x[...] = np.random.default_rng(6).normal(size=shape)
    return x, wide


@pytest.mark.parametrize("length", [1, 5, 7, 8, 9, 16, 31, 33, 64, 111, 127, 128, 200, 515, 2100])
def test_rows_apart(isa, length):
    """Rows that do not follow each other: slices, beside values a row and values a column."""
    for lead in ((13,), (3, 7), (2, 3, 5)):
        shape = (*lead, length)
        a, b = cut(shape, 1, 0)[0], cut(shape, 0, 3)[0]
        c, d = np.float32(np.arange(math.prod(lead)).reshape(*lead, 1)), np.float32(np.linspace(-1, 1, length))
        for text in ("sub(@0,@1)", "mul(@0,@2)", "relu(@0)", "add(mul(@3,sigmoid(@1)),@2)", "where(gt(@0,@2),@1,@3)"):
            want = evaluate(text, [a, b, c, d])
            for threads in (1, 2):
                y, wide = cut(shape, 2, 1)
                run(isa, text, [a, b, c, d], y, threads)
                close(y, want, 16, 1e-7)
                assert (wide[..., :2] == -7).all()
                assert (wide[..., -1:] == -7).all()


@pytest.mark.parametrize("length", [9, 60, 200])
@pytest.mark.parametrize("dtype", ["f8", "i8", "i4", "?", "f2"])
def test_rows_apart_of_other_types(isa, length, dtype):
    wide = (np.random.default_rng(7).normal(size=(2, 11, length + 3)) * 5).astype(dtype)
    x, y = wide[..., 1:-2], wide[..., 2:-1]
    for text in ("and(@0,@1)", "eq(@0,@1)") if dtype == "?" else ("sub(@0,@1)", "mul(@0,relu(@1))", "gt(@0,@1)"):
        want = evaluate(text, [x, y])
        out = np.zeros((2, 11, length + 1), want.dtype)
        run(isa, text, [x, y], out[..., 1:], 2)
        np.testing.assert_array_equal(out[..., 1:], want)
        assert not out[..., 0].any()


def test_rows_apart_in_place(isa):
    for length in (9, 31, 120, 600):
        x, wide = cut((5, 7, length), 2, 3)
        text = "add(mul(@0,@0),sigmoid(sub(@0,@1)))"
        y = np.float32(np.arange(7)).reshape(7, 1)
        for form in (text, "mul(@0,@1)"):
            want = evaluate(form, [x, y])
            run(isa, form, [x, y], x, 2)
            close(x, want)
        assert (wide[..., :2] == -7).all()
        assert (wide[..., -3:] == -7).all()


def test_joined(isa):
    """Operations that are one together with what feeds them."""
    x, y = np.float32([SPECIAL, SPECIAL[::-1]])
    limits = ("where(isnan(@0),@1,clamp(@0,-2,2))", 1), ("where(isnan(@0),@1,clamp(@0,-1,2))", 2)
    for text, count in (
        ("sub(@0,trunc(@0))", 1), ("where(isnan(@0),@1,neg(@0))", 2), ("sub(@1,trunc(@0))", 2), *limits,
        ("where(isnan(@0),@1,clamp(@1,-2,2))", 2),
    ):  # fmt: skip
        code = compile_expression(parse(text), [TensorType(v.dtype, v.shape) for v in (x, y)])
        assert len(code.operations) == count
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(run(isa, text, [x, y]), evaluate(text, [x, y]))


def test_in_place(isa):
    x = np.random.default_rng(4).normal(size=(3, 4097)).astype(np.float32)
    y = np.float32([[1], [2], [3]])
    want = evaluate("add(mul(@0,@0),sigmoid(add(@0,@1)))", [x, y])
    run(isa, "add(mul(@0,@0),sigmoid(add(@0,@1)))", [x, y], out=x, threads=2)
    close(x, want)


def test_pairs_are_of_operations_and_come_last():
    pairs = [f"{first}_{second}" for first in FIRST for second in SECOND]
    assert list(OPCODES)[-len(pairs) :] == pairs
    assert {"add", "mul"} <= set(FIRST) < set(SECOND) < OPCODES.keys()


def test_sixteen_operands_and_many_constants(isa):
    inputs = [np.full((2, 70), i, np.float32) for i in range(16)]
    text = "@0"
    for i in range(1, 16):
        text = f"add(mul({text},{i / 10}),mul(@{i},{i / 7}))"
    close(run(isa, text, inputs), evaluate(text, inputs))


def _trees():
    leaf = st.sampled_from(["@0", "@1", "@2", "0.5", "2", "-1.25"])
    cheap = st.sampled_from(["add", "sub", "rsub", "mul", "maximum", "minimum", "leaky_relu"])
    single = st.sampled_from(["neg", "abs", "square", "relu", "hardswish", "sign", "floor", "tanh", "sigmoid"])
    return st.recursive(
        leaf,
        lambda t: st.one_of(
            st.tuples(cheap, t, t).map(lambda p: f"{p[0]}({p[1]},{p[2] if p[0] != 'leaky_relu' else 0.3})"),
            st.tuples(single, t).map(lambda p: f"{p[0]}({p[1]})"),
            st.tuples(t, t, t).map(lambda p: f"where(gt(@0,{p[0]}),{p[1]},{p[2]})"),
        ),
        max_leaves=25,
    )


@given(_trees(), st.sampled_from([(1, 1), (1, 37), (5, 37), (5, 1)]))
@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
def test_any_chain(text, shape):
    rng = np.random.default_rng(5)
    inputs = [rng.normal(size=s).astype(np.float32) for s in ((5, 37), shape, (37,))]
    want = evaluate(text, inputs)
    code = isinstance(want, np.ndarray) and compile_expression(
        parse(text), [TensorType(x.dtype, x.shape) for x in inputs]
    )
    if not code or len(code.operations) > 64:
        return
    scale = float(np.abs(want[np.isfinite(want)]).max(initial=0)) * 1e-4 if want.dtype != bool else 0
    if not math.isfinite(scale):
        return
    got = run("generic", text, inputs)
    # Comparisons of nearly equal values may fall either way; all others agree.
    assert (np.abs(got - want) > scale + 1e-5).sum() <= want.size // 4
