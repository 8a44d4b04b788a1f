"""Evaluation on numpy: values, dtypes, Python numbers, sizes and errors with their places. No torch
needed.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pnnx_fast.errors import ExpressionError
from pnnx_fast.expression import FUNCTIONS, TORCH_DTYPES, TensorType, evaluate

X = np.float32([[1.0, -2.5, 0.0], [3.0, 0.5, -0.25]])
I64 = np.int64([4, -7, 1])
BOOL = np.array([True, False, True])
ZERO_DIM = np.array(2.5)


@pytest.mark.parametrize(
    "text, inputs, value",
    [
        ("size(@0,1)", [X], 3),
        ("size(@0,-2)", [X], 2),
        ("size(@0)", [X], [2, 3]),
        ("[size(@0,0),-1,mul(size(@0,1),2)]", [X], [2, -1, 6]),
        ("floor_divide(size(@0,1),2)", [X], 1),
        ("div(size(@0,1),2)", [X], 1.5),
        ("int(div(size(@0,1),2))", [X], 1),
        ("int(-1.5)", [], -1),
        ("torch.long(2.9)", [], 2),
        ("torch.float(3)", [], 3.0),
        ("torch.bool(3)", [], True),
        ("remainder(-7,3)", [], 2),
        ("fmod(-7,3)", [], -1),
        ("and(6,3)", [], 2),
        ("lshift(1,70)", [], 0),
        ("pow(2,10)", [], 1024),
        ("pow(2,0.5)", [], math.sqrt(2)),
        ("max(2,2.5)", [], 2.5),
        ("add(True,1)", [], 2),
        ("sub(True,True)", [], 0),
        ("mul(2,1.0e+00+2.0e+00j)", [], 2 + 4j),
        ("abs(3.0e+00+4.0e+00j)", [], 5.0),
        ("@0", [[1, 2]], [1, 2]),
        ("[@0,None,torch.float]", [7], None),
        ("-1", [], -1),
        ("False", [], False),
    ],
)
def test_numbers_stay_python_numbers(text, inputs, value):
    result = evaluate(text, inputs)
    if value is not None:
        assert result == value
        assert type(result) is type(value)


@pytest.mark.parametrize(
    "text, inputs, dtype",
    [
        ("add(@0,1)", [X], "float32"),
        ("add(@0,1.5)", [I64], "float32"),
        ("add(@0,1)", [I64], "int64"),
        ("add(@0,True)", [BOOL], "bool"),
        ("div(@0,2)", [I64], "float32"),
        ("add(@0,@1)", [X, ZERO_DIM], "float32"),
        ("add(@0,@1)", [I64, ZERO_DIM], "float64"),
        ("add(@0,@1)", [X[0], X[0].astype("f8")], "float64"),
        ("add(@0,@1)", [X[0].astype("f2"), I64], "float16"),
        ("add(@0,@1)", [np.uint8([1, 2, 3]), np.int8([1, 2, 3])], "int16"),
        ("add(@0,1.0j)", [X], "complex64"),
        ("add(@0,1.0j)", [X.astype("f8")], "complex128"),
        ("sin(@0)", [I64], "float32"),
        ("sin(@0)", [X.astype("f2")], "float16"),
        ("floor(@0)", [I64], "int64"),
        ("eq(@0,1)", [X], "bool"),
        ("logical_not(@0)", [X], "bool"),
        ("where(@0,@1,0)", [BOOL, X], "float32"),
        ("where(@0,1,2.5)", [BOOL], "float32"),
        ("masked_fill(@0,@1,2.5)", [I64, BOOL], "int64"),
        ("abs(@0)", [np.complex64([1j])], "float32"),
        ("complex(@0,@0)", [X], "complex64"),
        ("real(@0)", [np.complex128([1j])], "float64"),
        ("torch.double(@0)", [X], "float64"),
        ("torch.bfloat16(@0)", [X], "float32"),
        ("int(@0)", [X], "int64"),
        ("rsub(@0,1)", [X], "float32"),
        ("clamp(@0,0,1)", [I64], "int64"),
        ("clamp(@0,0.5)", [I64], "float32"),
    ],
)
def test_dtypes_follow_torch(text, inputs, dtype):
    result = evaluate(text, inputs)
    assert isinstance(result, np.ndarray)
    assert result.dtype == dtype
    kinds = [TensorType(x.dtype, x.shape) for x in inputs]
    assert evaluate(text, kinds) == TensorType(result.dtype, result.shape)


@pytest.mark.parametrize(
    "text, inputs, expected",
    [
        ("sub(mul(@0,2),1)", [np.float32([1, 2])], [1, 3]),
        ("add(@0,mul(@1,-1.5))", [np.float32([1]), np.float32([2, 4])], [-2, -5]),
        ("floor_divide(@0,2)", [I64], [2, -4, 0]),
        ("remainder(@0,3)", [I64], [1, 2, 1]),
        ("fmod(@0,3)", [I64], [1, -1, 1]),
        ("rshift(@0,1)", [I64], [2, -4, 0]),
        ("rshift(@0,-1)", [I64], [0, -1, 0]),
        ("lshift(@0,64)", [I64], [0, 0, 0]),
        ("pow(@0,@1)", [np.int64([2, -1, -1, 1, 3]), np.int64([-1, -1, -2, -3, 2])], [0, -1, 1, 1, 9]),
        ("pow(@0,-1)", [np.int64([2, -1, 0, 1])], [0, -1, 0, 1]),
        ("pow(@0,@1)", [np.int64([2, -1, 0, 1]), np.int64(-2)], [0, 1, 0, 1]),
        ("xor(@0,3)", [np.int64([1, 2, 7])], [2, 1, 4]),
        ("and(@0,@1)", [BOOL, ~BOOL], [False] * 3),
        ("round(@0)", [np.float32([0.5, 1.5, -2.5])], [0, 2, -2]),
        ("sign(@0)", [np.float32([np.nan, -0.0, -3])], [0, 0, -1]),
        ("torch.uint8(@0)", [np.float32([300.7, -1.5])], [44, 255]),
        ("torch.bool(@0)", [np.float32([0.0, np.nan, 2])], [False, True, True]),
        ("torch.bfloat16(@0)", [np.float32([1.00390625, 1.01171875, 3.0])], [1.0, 1.015625, 3.0]),
        ("relu6(@0)", [np.float32([-1, 7, 3])], [0, 6, 3]),
        ("hardtanh(@0)", [np.float32([-2, 0.5, 2])], [-1, 0.5, 1]),
        ("hardtanh(@0,0,5)", [np.float32([-2, 0.5, 9])], [0, 0.5, 5]),
        ("clamp(@0,None,1)", [np.float32([-2, 5])], [-2, 1]),
        ("threshold(@0,0.1,20)", [np.float32([0, 0.2])], [20, 0.2]),
        ("where(@0,@1,-1)", [BOOL, np.float32([1, 2, 3])], [1, -1, 3]),
        ("pow(@0,0.5)", [np.float32([4, -np.inf])], [2, np.nan]),
        ("max(@0,@1)", [np.float32([np.nan, 1]), np.float32([0, np.nan])], [np.nan, np.nan]),
        ("prelu(@0,@1)", [np.float32([[-1, 2]]), np.float32([[0.25], [0.5]])], [[-0.25, 2], [-0.5, 2]]),
    ],
)
def test_values(text, inputs, expected):
    np.testing.assert_allclose(evaluate(text, inputs), expected, rtol=1e-6)


def test_tails_keep_their_digits():
    x = np.float32([-10, -6])
    expected = [xi * 0.5 * math.erfc(-xi * math.sqrt(0.5)) for xi in x.tolist()]
    np.testing.assert_allclose(evaluate("gelu(@0)", [x]), expected, rtol=1e-6)
    np.testing.assert_allclose(evaluate("silu(@0)", [np.float32([-80])]), [-80 * math.exp(-80)], rtol=1e-6)


@pytest.mark.parametrize(
    "text, inputs, message",
    [
        ("add(@0,@2)", [X, X], "@2 is used, but there are 2 inputs\n  add(@0,@2)\n         ^"),
        (
            "neg(add(@0,@1))",
            [X, I64[:2]],
            "shapes (2, 3) and (2,) do not broadcast\n  neg(add(@0,@1))\n      ^",
        ),
        ("neg(@0)", [BOOL], "not defined for bool tensors\n  neg(@0)\n  ^"),
        ("sub(@0,1)", [BOOL], "not defined for bool tensors"),
        ("and(@0,1)", [X], "not defined for float32 operands"),
        ("lt(@0,1)", [np.complex64([1])], "not defined for complex numbers"),
        ("add([1],2)", [], "expected a tensor or a number, got a list\n  add([1],2)\n  ^"),
        ("add(@0,None)", [X], "expected a tensor or a number, got None"),
        ("relu(torch.float)", [], "expected a tensor or a number, got torch.float"),
        ("size(3)", [], "'size' needs a tensor"),
        ("size(@0,2)", [X], "dimension 2 is outside a tensor of rank 2"),
        ("size(@0,0.5)", [X], "the dimension of 'size' must be an integer"),
        ("floor_divide(@0,0)", [I64], "integer division by zero"),
        ("remainder(1,0)", [], "integer division by zero"),
        ("int(inf)", [], "inf is not convertible to an integer"),
        ("where(@0,1,2)", [X], "the condition must be bool, it is float32"),
        ("add(@0,1)", [2**70], "a number does not fit in 64 bits"),
        ("leaky_relu(@0,[1])", [X], "expected a tensor or a number, got a list"),
    ],
)
def test_errors_show_the_place(text, inputs, message):
    with pytest.raises(ExpressionError) as caught:
        evaluate(text, inputs)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(n for n in FUNCTIONS if n != "size"))
def test_every_function_runs_and_predicts_its_type(name):
    function = FUNCTIONS[name]
    text = f"{name}({','.join(f'@{i}' for i in range(function.operands))})"
    accepted = 0
    for dtype in ("bool", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"):
        inputs = [np.array([[1, 0, 3]], dtype), np.array([[2], [1]], dtype), np.array([1, 1, 2], dtype)]
        if function.mask is not None:
            inputs[function.mask] = inputs[function.mask].astype(bool)
        inputs = inputs[: function.operands]
        try:
            result = evaluate(text, inputs)
        except ExpressionError as error:
            assert "not defined" in error.reason or "division by zero" in error.reason  # noqa: PT017
            continue
        accepted += 1
        kinds = [TensorType(x.dtype, x.shape) for x in inputs]
        assert evaluate(text, kinds) == TensorType(result.dtype, result.shape)
    assert accepted >= 2


@given(st.sampled_from(sorted(TORCH_DTYPES)), st.lists(st.floats(width=32), max_size=5))
def test_casts_accept_anything(name, values):
    result = evaluate(f"{name}(@0)", [np.float32(values)])
    assert result.dtype == TORCH_DTYPES[name]
    assert result.shape == (len(values),)


def test_numpy_warnings_stay_inside():
    with np.errstate(all="raise"):
        evaluate("torch.int(log(div(exp(mul(@0,1.0e30)),0.0)))", [X])
