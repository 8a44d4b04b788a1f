"""Numbers in text: the C code against a plain Python twin and against Python's own exact conversions."""

from __future__ import annotations

import locale
import math
import struct

import number_reference as reference
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pnnx_fast._core import text

FLOATS = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.floats(min_value=2**-20, max_value=2**24, width=32),
    st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**6), max_value=10**6).map(float),
)
PIECES = st.sampled_from([*"0123456789.eE+-j(),[]%ax", "inf", "nan", "None", "True", "e-0", "9" * 20, "0" * 30, "é"])
NUMBERISH = st.lists(PIECES, max_size=12).map("".join)
DECIMALS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("<d", a) == struct.pack("<d", b) or (math.isnan(a) and math.isnan(b))
    if isinstance(a, complex) and isinstance(b, complex):
        return same(a.real, b.real) and same(a.imag, b.imag)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@given(st.one_of(NUMBERISH, DECIMALS, st.text(max_size=20)))
@example("(é")
@example("-9223372036854775808")
@example("9223372036854775808")
def test_parse_value_like_the_twin(token: str) -> None:
    try:
        code, value = reference.parse_value(token)
    except OverflowError:
        with pytest.raises(OverflowError):
            text.parse_value(token)
        return
    found = text.parse_value(token)
    assert found[0] == code
    assert same(found[1], value), (found, value)


@given(DECIMALS)
@example("9007199254740993.0")
@example("2.4703282292062327e-324")
@example("2.4703282292062328e-324")
@example("1.7976931348623158e308")
@example("1.797693134862315807e308")
@example("1e400")
@example("0." + "0" * 400 + "1e400")
@example("1" + "0" * 400 + "e-400")
@example("0.5" + "0" * 900 + "1")
@example("9007199254740992." + "9" * 900)
@example("1e-99999999999999999999")
@example("1e99999999999999999999")
def test_decimals_are_rounded_right(token: str) -> None:
    token = token.replace("E", "e")
    token = token if "." in token or "e" in token else token + ".0"
    assert same(text.parse_value(token)[1], float(token))


@given(FLOATS, st.sampled_from(text.FLOAT_STYLES), st.booleans())
@example(0.0001, "2026", False)
@example(struct.unpack("<f", struct.pack("<f", 0.0001))[0], "2025", False)
@example(999999.96, "2026", False)
@example(999999.5, "2025", False)
@example(5e-324, "2026", True)
@example(1.401298464324817e-45, "2026", False)
@example(-math.inf, "2021", False)
@example(math.nan, "2021", False)
@example(3.4028235677973366e38, "2026", False)
def test_format_float_like_the_twin(x: float, style: str, wide: bool) -> None:
    assert text.format_float(x, style, wide) == reference.format_float(x, style, wide)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32).filter(bool))
def test_float32_comes_back_exactly(x: float) -> None:
    again = text.parse_value(text.format_float(x))[1]
    assert text.to_float32(again) == x


@given(st.floats(allow_nan=False, allow_infinity=False).filter(bool))
def test_float64_comes_back_exactly(x: float) -> None:
    assert text.parse_value(text.format_float(x, wide=True))[1] == x


@given(st.complex_numbers())
def test_format_complex_like_the_twin(x: complex) -> None:
    assert text.format_complex(x) == reference.format_complex(x)


@given(st.floats())
def test_to_float32(x: float) -> None:
    assert same(text.to_float32(x), reference.to_float32(x))


def test_locale_does_not_matter() -> None:
    old = locale.setlocale(locale.LC_NUMERIC)
    for name in ("de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "C"):
        try:
            locale.setlocale(locale.LC_NUMERIC, name)
            break
        except locale.Error:
            continue
    try:
        assert text.parse_value("1.5")[1] == 1.5
        assert text.format_float(1.5) == "1.5"
    finally:
        locale.setlocale(locale.LC_NUMERIC, old)
