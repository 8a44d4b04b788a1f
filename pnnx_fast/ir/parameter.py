"""Parameters of operators: a typed value, its text in a file, and the mapping that holds them.

Readers make parameters from raw text that is parsed on first use; everyone else reads ``.value``. Some numbers are
words there: with the conversion that the converter's trace shows, or with a dtype. Nothing here knows operators or
graphs.
"""

from __future__ import annotations

import numbers
import operator
import re
from typing import Any, SupportsIndex, cast

import numpy as np

from pnnx_fast._core import text as _text
from pnnx_fast._core.text import BOOL, COMPLEX, FLOAT, INT, LIST_CODES, NONE, STRING, UNPARSED, ParameterStorage
from pnnx_fast.errors import ParameterError
from pnnx_fast.ir.coerced import Coerced

__all__ = ["OPEN_END", "RAW_KEYS", "Parameter", "Parameters", "per_axis", "typed_number", "without_casts"]

# Lists of these keys are languages of their own (expressions, slice indexes): their text is never cut up.
RAW_KEYS = frozenset({"expr", "indexes"})


_CAST = r"int\(-?\d{1,18}\)\Z"
_TYPED = r"(torch\.[a-z]\w{0,15}),(-?\d[\d.e+-]{0,30})\Z"

OPEN_END = 2**31 - 1
"""How PNNX writes the open end of a slice, and among selections a place that holds no index."""

# PyTorch marks "open end" with the extremes of int64, PNNX with those of int32.
_SATURATED = {
    2**63 - 1: OPEN_END,
    2**63 - 2: 2**31 - 2,
    -(2**63): -(2**31),
    -(2**63) + 1: -(2**31) + 1,
}


def _coerce_scalar(value: object) -> tuple[int, Any]:
    if value is None:
        return NONE, None
    if isinstance(value, bool | np.bool_):
        return BOOL, bool(value)
    if isinstance(value, str):
        return STRING, value
    if isinstance(value, numbers.Integral):
        return INT, _coerce_int(operator.index(cast(SupportsIndex, value)))
    if isinstance(value, numbers.Real):
        return FLOAT, float(value)
    if isinstance(value, numbers.Complex):
        return COMPLEX, complex(value)
    raise ParameterError(f"a parameter cannot hold a value of type {type(value).__name__}")


def _coerce_int(value: int) -> int:
    value = _SATURATED.get(value, value)
    if not -(2**63) <= value < 2**63:
        raise ParameterError(f"integer {value} does not fit in 64 bits")
    return value


def _coerce(value: object) -> tuple[int, Any]:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if not isinstance(value, list | tuple):
        return _coerce_scalar(value)
    pairs = [_coerce_scalar(item) for item in value]
    # A file has no lists of None and bool; there such elements are words.
    return LIST_CODES[INT], [str(item) if code in (NONE, BOOL) else item for code, item in pairs]


def _list_code(items: list[Any]) -> int:
    return LIST_CODES[_coerce_scalar(items[-1])[0] if items else INT]


def _key(value: object) -> object:
    """Form in which two values compare as the file format stores them: floats in single precision."""
    if isinstance(value, float):
        return _text.to_float32(value)
    if isinstance(value, complex):
        return complex(_text.to_float32(value.real), _text.to_float32(value.imag))
    return value


class Parameter(ParameterStorage):
    """One parameter of an operator.

    Parameters
    ----------
    value : None, bool, int, float, complex, str, list or tuple of these, numpy scalar or 1-d array
        The extremes of int64 (with which PyTorch marks an open end) become those of int32, as PNNX does.

    Raises
    ------
    ParameterError
        When the value is of another type, or an integer does not fit in 64 bits.

    Examples
    --------
    >>> p = Parameter((1, 2))
    >>> p.value, p.type, p.encode_to_string()
    ([1, 2], 5, '(1,2)')
    >>> Parameter.parse_from_string("1.000000e-5").value
    1e-05
    >>> Parameter.parse_from_string("1"), Parameter.verbatim("1")
    (Parameter(1), Parameter('1'))
    """

    __slots__ = ()

    def __init__(self, value: object = None) -> None:
        self._raw = None
        self._code, self._value = _coerce(value)

    @classmethod
    def parse_from_string(cls, text: str) -> Parameter:
        """Make a parameter from the text of a value, whose type PNNX's rules decide.

        Parameters
        ----------
        text : str
            A value as in a ``.param`` file: ``True``, ``3``, ``1.000000e-5``, ``(1,2)``, ``zeros``.

        Returns
        -------
        Parameter

        Raises
        ------
        ParameterError
            When an integer does not fit in 64 bits.
        """
        self = cls.from_token(text)
        self._parse()
        return self

    @classmethod
    def from_token(cls, text: str) -> Parameter:
        """Make a parameter from the text of a value; it is parsed when the value is first asked for."""
        self = cls.__new__(cls)
        self._code, self._raw, self._value = UNPARSED, text, None
        return self

    @classmethod
    def verbatim(cls, text: str) -> Parameter:
        """Make a string parameter of the text as it is."""
        self = cls.__new__(cls)
        self._code, self._raw, self._value = STRING, text, text
        return self

    def _parse(self) -> None:
        raw = self._raw or ""
        try:
            code, value = _text.parse_value(raw)
        except OverflowError:
            raise ParameterError(f"an integer of {raw[:60]} does not fit in 64 bits") from None
        # In this order another thread that finds a code finds its value, too.
        self._value = value
        self._code = code

    @property
    def value(self) -> Any:
        """None, bool, int, float, complex, str, or a list of int, float, complex and str."""
        if self._code < 0:
            self._parse()
        return self._value

    @value.setter
    def value(self, value: object) -> None:
        self._code, self._value = _coerce(value)
        self._raw = None

    @property
    def type(self) -> int:
        """PNNX's type code: 0 null, 1 bool, 2 int, 3 float, 4 str, 10 complex; 5, 6, 7, 11 lists of them.

        The type of a list is that of its last element.
        """
        value = self.value
        return _list_code(value) if isinstance(value, list) else self._code

    @property
    def text(self) -> str:
        """The token as the file had it, or the encoded value once that has been set or changed."""
        if self._raw is None:
            return self.encode_to_string()
        # A list may have been edited in place.
        if isinstance(self._value, list) and _text.parse_value(self._raw)[1] != self._value:
            return self.encode_to_string()
        return self._raw

    def encode_to_string(self, float_style: str = "2026") -> str:
        """Text of the value as PNNX writes it.

        Parameters
        ----------
        float_style : {"2026", "2025", "2021"}
            Whose number format: PNNX changed how it prints floats twice.

        Returns
        -------
        str
        """
        value = self.value
        if isinstance(value, list):
            return "(" + ",".join(_encode_scalar(item, float_style) for item in value) + ")"
        return _encode_scalar(value, float_style)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Parameter):
            return NotImplemented
        if self.type != other.type:
            return False
        a, b = self.value, other.value
        if isinstance(a, list):
            return len(a) == len(b) and all(_key(x) == _key(y) for x, y in zip(a, b, strict=True))
        return bool(_key(a) == _key(b))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Parameter({self.value!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._code, self._raw, self._value)


def _restore(code: int, raw: str | None, value: object) -> Parameter:
    self = Parameter.__new__(Parameter)
    self._code, self._raw, self._value = code, raw, value
    return self


def _encode_scalar(value: object, style: str) -> str:
    if isinstance(value, float):
        return _text.format_float(value, style)
    if isinstance(value, complex):
        return _text.format_complex(value)
    return str(value)


class Parameters(Coerced[Parameter]):
    """The parameters of an operator by key; plain values that are assigned become parameters.

    Examples
    --------
    >>> params = Parameters(dim=1)
    >>> params["eps"] = 1e-5
    >>> params["eps"].text
    '1.000000e-5'
    """

    __slots__ = ()

    kind, word = Parameter, "parameter"

    def copy(self) -> Parameters:
        """Return a mapping of independent parameters."""
        other = Parameters()
        for key, value in self.items():
            dict.__setitem__(other, key, value.copy())
        return other


def without_casts(value: Any) -> Any:
    """The value of a parameter in which numbers need no conversion, alone or in a list: ``int(4)`` is 4.

    Parameters
    ----------
    value : None, bool, int, float, complex, str or list of these

    Returns
    -------
    None, bool, int, float, complex, str or list of these

    Examples
    --------
    >>> without_casts(["int(4)", 2])
    [4, 2]
    """
    if isinstance(value, str):
        return int(value[4:-1]) if value.startswith("int(") and re.match(_CAST, value, re.ASCII) else value
    if not isinstance(value, list) or str not in map(type, value):
        return value
    return [without_casts(item) for item in value]


def per_axis(value: Any, count: int = 1) -> list[Any]:
    """Value of a parameter that is one for all of so many axes, or a list with one for each.

    Parameters
    ----------
    value : value or list of values
    count : int
        Number of axes, where the value is no list.

    Returns
    -------
    list

    Examples
    --------
    >>> per_axis(3, 2), per_axis([1, 2])
    ([3, 3], [1, 2])
    """
    return list(value) if isinstance(value, list | tuple) else [value] * count


def typed_number(value: Any) -> tuple[str, float] | None:
    """Dtype and number of a parameter that was a tensor without dimensions made of a size: ``torch.int,2``.

    Parameters
    ----------
    value : object

    Returns
    -------
    tuple of str and int or float, or None
        ``None`` where the value is not of this form.

    Examples
    --------
    >>> typed_number("torch.int,2"), typed_number("zeros")
    (('torch.int', 2), None)
    """
    match = re.match(_TYPED, value, re.ASCII) if isinstance(value, str) and "," in value else None
    try:
        return (match[1], float(match[2]) if re.search("[.e]", match[2]) else int(match[2])) if match else None
    except ValueError:
        return None
