"""Parameters: every row of the rules by which a text becomes a typed value, and back."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from pnnx_fast.errors import ParameterError
from pnnx_fast.ir import Operator, Parameter, Parameters

PARSE = [
    # text, type code, value
    ("None", 0, None),
    ("()", 0, None),
    ("[]", 0, None),
    ("True", 1, True),
    ("False", 1, False),
    ("true", 4, "true"),
    ("", 4, ""),
    ("5", 2, 5),
    ("-5", 2, -5),
    ("+5", 4, "+5"),
    (".5", 4, ".5"),
    ("-.5", 4, "-.5"),
    ("-", 4, "-"),
    ("0", 2, 0),
    ("2147483648", 2, 2**31),
    ("9223372036854775807", 2, 2**63 - 1),
    ("-9223372036854775808", 2, -(2**63)),
    ("1.5", 3, 1.5),
    ("1.", 3, 1.0),
    ("1e5", 3, 1e5),
    ("1e", 3, 1.0),
    ("1E5", 2, 1),
    ("1.5E5", 3, 1.5e5),
    ("-0.0", 3, -0.0),
    ("1.2.3", 3, 1.2),
    ("1.000000e-05", 3, 1e-5),
    ("1.67772160e7", 3, 16777216.0),
    ("inf", 4, "inf"),
    ("-inf", 4, "-inf"),
    ("nan", 4, "nan"),
    ("1d", 2, 1),
    ("0x10", 2, 0),
    ("3x3", 2, 3),
    ("zeros", 4, "zeros"),
    ("%c", 4, "%c"),
    ("(1,%c)", 4, "(1,%c)"),
    ("50%", 4, "50%"),
    ("(1,2)", 5, [1, 2]),
    ("[1,2]", 5, [1, 2]),
    ("(1)", 5, [1]),
    ("(-1,3)", 5, [-1, 3]),
    ("(1.5,2e3)", 6, [1.5, 2000.0]),
    ("(1,2.5)", 6, [1, 2.5]),
    ("(2.5,1)", 5, [2.5, 1]),
    ("(None,2)", 5, ["None", 2]),
    ("(True,False)", 7, ["True", "False"]),
    ("(1,)", 7, [1, ""]),
    ("(,)", 7, ["", ""]),
    ("(", 7, [""]),
    ("(a,-b)", 7, ["a", "-b"]),
    ("(1,2", 7, [1, ""]),
    ("(1,2é", 5, [1, 2]),
    ("[[2,1],[0,1]]", 5, ["[2", 1, "[0", 1]),
    ("1.2e+00-9.0e-01j", 10, 1.2 - 0.9j),
    ("1.000000e+00+-2.000000e+00j", 10, 1 - 2j),
    ("0.000000e+00+4.000000e+00j", 10, 4j),
    ("1+infj", 10, complex(1, math.inf)),
    ("1-infj", 10, complex(1, -math.inf)),
    ("2j", 2, 2),
    ("1+2", 2, 1),
    ("1+j", 2, 1),
    ("1.5+--2j", 3, 1.5),
    ("(1+2j,3-4j)", 11, [1 + 2j, 3 - 4j]),
    ("(1+2j,3)", 5, [1 + 2j, 3]),
    ("@0", 4, "@0"),
    ("torch.float", 4, "torch.float"),
]


@pytest.mark.parametrize("text, code, value", PARSE)
def test_parse(text: str, code: int, value: object) -> None:
    param = Parameter.parse_from_string(text)
    assert (param.type, param.value) == (code, value)
    assert type(param.value) is type(value)
    if isinstance(value, list):
        assert [type(x) for x in param.value] == [type(x) for x in value]
    assert param.text == text


def test_minus_zero_keeps_its_sign_in_memory() -> None:
    assert math.copysign(1, Parameter.parse_from_string("-0.0").value) == -1


ENCODE = [
    (None, "None"),
    (True, "True"),
    (np.bool_(False), "False"),
    (7, "7"),
    (np.int64(-7), "-7"),
    (2**40, "1099511627776"),
    (0.0, "0.0"),
    (-0.0, "0.0"),
    (0.5, "0.5"),
    (2.0, "2.0"),
    (np.float32(0.1), "0.1"),
    (1e-5, "1.000000e-5"),
    (1e6, "1.000000e6"),
    (123456.7, "123456.703"),
    (0.000123456775, "1.23456775e-4"),
    (16777217.0, "1.67772160e7"),
    (math.inf, "inf"),
    (-math.inf, "-inf"),
    (math.nan, "nan.0"),
    (1e300, "1.000000e300"),
    (1e-60, "1.000000e-60"),
    ("zeros", "zeros"),
    ([], "()"),
    ((1, 2), "(1,2)"),
    ([1], "(1)"),
    ([1, 2.5], "(1,2.5)"),
    ([0.1, 1e-5], "(0.1,1.000000e-5)"),
    (["a", "b"], "(a,b)"),
    ([True, None, 1], "(True,None,1)"),
    (np.array([3, 4]), "(3,4)"),
    (1.2 - 0.9j, "1.200000e+00+-9.000000e-01j"),
    (np.complex64(4j), "0.000000e+00+4.000000e+00j"),
    (0.1 + 1 / 3j, "1.000000e-01+-3.33333343e-01j"),
    ([1j], "(0.000000e+00+1.000000e+00j)"),
]


@pytest.mark.parametrize("value, text", ENCODE, ids=[text for _, text in ENCODE])
def test_encode(value: object, text: str) -> None:
    assert Parameter(value).encode_to_string() == text
    assert Parameter(value).text == text


@pytest.mark.parametrize(
    "value, style, text",
    [
        (1e-5, "2021", "1.000000e-05"),
        (0.5, "2021", "5.000000e-01"),
        (0.0, "2021", "0.000000e+00"),
        (math.inf, "2021", "inf"),
        (1e-5, "2025", "1.000000e-05"),
        (0.5, "2025", "0.5"),
        (2.0, "2025", "2.0"),
        (0.0, "2025", "0.0"),
        (123456.7, "2025", "123457.0"),
        (1e6, "2025", "1.000000e+06"),
        (1e-5, "2026", "1.000000e-5"),
        (123456.7, "2026", "123456.703"),
    ],
)
def test_generations_of_float_text(value: float, style: str, text: str) -> None:
    assert Parameter(value).encode_to_string(style) == text
    assert Parameter([value, value]).encode_to_string(style) == f"({text},{text})"


def test_unknown_float_style() -> None:
    with pytest.raises(ValueError, match="float style '2020'"):
        Parameter(1.0).encode_to_string("2020")


@pytest.mark.parametrize(
    "value, saturated",
    [
        (2**63 - 1, 2**31 - 1),
        (2**63 - 2, 2**31 - 2),
        (-(2**63), -(2**31)),
        (-(2**63) + 1, -(2**31) + 1),
        (2**63 - 3, 2**63 - 3),
    ],
)
def test_extremes_of_int64_saturate(value: int, saturated: int) -> None:
    assert Parameter(value).value == saturated
    assert Parameter([value]).value == [saturated]


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, [2**64], b"x", {"a": 1}, [[1]], object(), np.eye(2)])
def test_values_that_no_parameter_holds(value: object) -> None:
    with pytest.raises(ParameterError):
        Parameter(value)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "(1,99999999999999999999)"])
def test_integers_beyond_64_bits(text: str) -> None:
    with pytest.raises(ParameterError, match="does not fit in 64 bits"):
        Parameter.parse_from_string(text)


def test_raw_text_is_kept_until_the_value_is_set() -> None:
    param = Parameter.parse_from_string("1.000000e-05")
    assert param.text == "1.000000e-05"
    param.value = 1e-5
    assert param.text == "1.000000e-5"
    assert Parameter.parse_from_string("[1,2]").text == "[1,2]"
    assert Parameter.parse_from_string("[1,2]").encode_to_string() == "(1,2)"


def test_lists_edited_in_place() -> None:
    param = Parameter.parse_from_string("[1,2]")
    param.value.append(2.5)
    assert (param.text, param.type) == ("(1,2,2.5)", 6)
    param = Parameter.parse_from_string("(1,2)")
    param.value[0] = "x"
    assert param.text == "(x,2)"


EQUAL = [
    (Parameter(), Parameter(None), True),
    (Parameter(1), Parameter(True), False),
    (Parameter(1), Parameter(1.0), False),
    (Parameter(1), Parameter([1]), False),
    (Parameter(0.1), Parameter(np.float32(0.1)), True),
    (Parameter(0.1), Parameter(0.1000001), False),
    (Parameter(math.nan), Parameter(math.nan), False),
    (Parameter([0.1, 2]), Parameter([np.float32(0.1), 2]), True),
    (Parameter([1, 2]), Parameter([1, 2, 3]), False),
    (Parameter([1, 2.5]), Parameter([2, 2.5]), False),
    (Parameter("a"), Parameter("a"), True),
    (Parameter(1 + 2j), Parameter(1 + 2j), True),
    (Parameter.parse_from_string("(1,2)"), Parameter([1, 2]), True),
    (Parameter.parse_from_string("()"), Parameter(None), True),
    (Parameter([]), Parameter(None), False),
]


@pytest.mark.parametrize("a, b, equal", EQUAL)
def test_equality(a: Parameter, b: Parameter, equal: bool) -> None:
    assert (a == b) is equal
    assert (a != b) is not equal


def test_parameters_compare_with_parameters_only() -> None:
    assert Parameter(1) != 1
    with pytest.raises(TypeError):
        hash(Parameter(1))


def test_copies_are_independent() -> None:
    param = Parameter([1, 2])
    for twin in (param.copy(), copy.copy(param), copy.deepcopy(param), pickle.loads(pickle.dumps(param))):
        assert twin == param
        assert twin is not param
    twin = param.copy()
    twin.value.append(3)
    assert param.value == [1, 2]
    assert repr(param) == "Parameter([1, 2])"


def test_mapping_wraps_plain_values() -> None:
    params = Parameters({"a": 1}, b=(1, 2))
    params["c"] = 0.5
    params.update(d="x")
    params.update([("e", None)])
    params |= {"f": True}
    params["g"] = Parameter(3)
    assert params.setdefault("h", 8).value == params.setdefault("h", 9).value == 8
    values = {key: param.value for key, param in params.items()}
    assert values == {"a": 1, "b": [1, 2], "c": 0.5, "d": "x", "e": None, "f": True, "g": 3, "h": 8}
    twin = params.copy()
    twin["a"].value = 2
    assert params["a"].value == 1
    assert Operator("F.relu", "act", params={"inplace": True}).params["inplace"].value is True


def test_the_collector_need_not_see_parameters() -> None:
    assert not gc.is_tracked(Parameter([1, 2]))


def test_threads_that_parse_the_same_parameter() -> None:
    old = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            params = [Parameter.from_token(f"({i},2)") for i in range(50)]
            with ThreadPoolExecutor(4) as pool:
                for values in pool.map(lambda _: [p.value for p in params], range(4)):  # noqa: B023
                    assert values == [[i, 2] for i in range(50)]
    finally:
        sys.setswitchinterval(old)
