"""A plain Python twin of the C code for numbers in text: what tests compare it with.

Short rather than fast; it follows the description of the format, step by step.
"""

from __future__ import annotations

import math
import re
import struct

__all__ = ["FLOAT_STYLES", "format_complex", "format_float", "parse_value", "to_float32"]

FLOAT_STYLES = ("2021", "2025", "2026")

_NULL, _BOOL, _INT, _FLOAT, _STR, _COMPLEX = 0, 1, 2, 3, 4, 10
_INT_PREFIX = re.compile(r"-?[0-9]+")
_FLOAT_PREFIX = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_NUMBER = r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?"
_COMPLEX_TEXT = re.compile(rf"(-?(?:{_NUMBER}|inf|nan))(?:\+(-?(?:{_NUMBER}|inf|nan))|(-(?:{_NUMBER}|inf|nan)))j")


def to_float32(x: float) -> float:
    """Round to the nearest float32, overflow to infinity."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", x))[0])
    except OverflowError:
        return math.copysign(math.inf, x)


def _parse_scalar(text: str) -> tuple[int, object]:
    match = _COMPLEX_TEXT.fullmatch(text)
    if match:
        return _COMPLEX, complex(float(match[1]), float(match[2] or match[3]))
    head = text[1:2] if text[:1] == "-" else text[:1]
    if not ("0" <= head <= "9") or len(head) != 1:
        return _STR, text
    if "." in text or "e" in text:
        found = _FLOAT_PREFIX.match(text)
        assert found
        return _FLOAT, float(found[0])
    found = _INT_PREFIX.match(text)
    assert found
    digits = found[0].lstrip("-").lstrip("0")
    value = int(found[0]) if len(digits) < 24 else 1 << 63
    if not -(1 << 63) <= value < 1 << 63:
        raise OverflowError(text)
    return _INT, value


def parse_value(text: str) -> tuple[int, object]:
    """Parse a parameter's text by PNNX's rules to (type code, value); OverflowError beyond 64 bits."""
    if "%" in text:
        return _STR, text
    if text in ("None", "()", "[]"):
        return _NULL, None
    if text in ("True", "False"):
        return _BOOL, text == "True"
    if text[:1] in ("(", "["):
        items = [_parse_scalar(item) for item in text[1:-1].split(",")]
        return {_INT: 5, _FLOAT: 6, _STR: 7, _COMPLEX: 11}[items[-1][0]], [value for _, value in items]
    return _parse_scalar(text)


def _shorten_exponent(text: str) -> str:
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def _float_2026(x: float, wide: bool) -> str:
    digits, places = (17, 17) if wide else (9, 9)
    same = (lambda t: float(t) == x) if wide else (lambda t: to_float32(float(t)) == x)
    small = abs(x) < (0.0001 if wide else to_float32(0.0001))
    if small or abs(x) >= 1e6:
        text = f"{x:e}"
        if not same(text):
            text = f"{x:.{digits - 1}e}"
        return _shorten_exponent(text)
    text = f"{x:g}"
    if not same(text):
        text = f"{x:.{digits}g}"
        if len(text.partition(".")[2].partition("e")[0]) > places:
            return _shorten_exponent(f"{x:.{digits - 1}e}")
    return text


def format_float(x: float, style: str = "2026", wide: bool = False) -> str:
    """Text of a float as PNNX's writers of that year print it; ``wide`` keeps float64."""
    if style not in FLOAT_STYLES:
        raise ValueError(f"float style {style!r}, expected one of {FLOAT_STYLES}")
    if not wide:
        narrow = to_float32(x)
        wide = math.isfinite(x) and (not math.isfinite(narrow) or (narrow == 0) != (x == 0))
        x = x if wide else narrow
    if style == "2021":
        return f"{x:e}"
    if x == 0:
        return "0.0"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    if style == "2025":
        small = abs(x) < (0.0001 if wide else to_float32(0.0001))
        text = f"{x:e}" if small or abs(x) >= 1e6 else f"{x:g}"
    else:
        text = _float_2026(x, wide)
    return text if any(c in text for c in ".e") else text + ".0"


def format_complex(x: complex) -> str:
    """Text of a complex parameter: two ``%e`` parts, longer where needed, always joined by a plus sign."""
    parts = [to_float32(x.real), to_float32(x.imag)]
    texts = [f"{p:e}" if not math.isfinite(p) or to_float32(float(f"{p:e}")) == p else f"{p:.8e}" for p in parts]
    return "+".join(texts) + "j"
