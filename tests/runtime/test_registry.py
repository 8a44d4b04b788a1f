"""Binding of graph operators to functions: names, positions, defaults, types, and the errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pnnx_fast.errors import ParameterError, UnsupportedOperatorError
from pnnx_fast.ops import registry
from pnnx_fast.ops.registry import Ints, bind, check_supported, find, operator
from pnnx_fast.ops.symbolic import Buffer, Tensor

X = Tensor(Buffer("input", 4), (1,), "f4")
W = Tensor(Buffer("input", 4), (1,), "f4")


@pytest.fixture(autouse=True)
def sample() -> Iterator[None]:
    @operator("test.sample")
    def sample(
        b: object, input: Tensor, weight: Tensor | None = None, *, size: Ints, scale: float = 1.0, flag: bool = False
    ) -> Tensor:
        """A sample."""
        return input

    yield
    registry.unregister("test.sample")


def call(inputs: list[object], names: list[str], attrs: dict[str, Tensor] | None = None, **params: object) -> object:
    definition = find("test.sample")
    assert definition is not None
    return bind(definition, "name", inputs, names, attrs or {}, params)


def test_positions_and_names() -> None:
    assert call([X, W], [], size=3) == ([X, W], {"size": 3})
    assert call([W, X], ["weight", "input"], size=3) == ([X, W], {"size": 3})
    assert call([X], [], {"weight": W}, size=[1, 2]) == ([X, W], {"size": (1, 2)})


def test_conversions() -> None:
    assert call([X], [], size=3, scale=2, flag=1)[1] == {"size": 3, "scale": 2.0, "flag": True}  # type: ignore[index]
    assert call([X], [], size=3, scale="-inf")[1]["scale"] == -float("inf")  # type: ignore[index]


def test_a_flag_beside_a_weight() -> None:
    assert call([X], [], {"weight": W}, size=1, weight=True) == ([X, W], {"size": 1})
    assert call([X], [], size=1, weight=False) == ([X, None], {"size": 1})
    with pytest.raises(ParameterError, match="weight 'weight' is missing"):
        call([X], [], size=1, weight=True)


@pytest.mark.parametrize(
    "params, message",
    [
        ({}, "parameter 'size' is missing"),
        ({"size": 1, "scal": 2.0}, "unknown parameter 'scal'; did you mean 'scale'?"),
        ({"size": "x"}, "'size' must be"),
        ({"size": 1, "scale": "x"}, "'scale' must be float"),
        ({"size": 1, "flag": 2}, "'flag' must be bool"),
    ],
)
def test_errors(params: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message.replace("?", r"\?")):
        call([X], [], **params)


def test_missing_and_surplus_inputs() -> None:
    with pytest.raises(ParameterError, match="'input' is missing"):
        call([], [], size=1)
    with pytest.raises(ParameterError, match="1 input"):
        call([X, W, X], [], size=1)


def test_all_unsupported_types_at_once() -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        check_supported([("test.sampel", "a"), ("aten::zzz", "b"), ("test.sampel", "c")])
    assert caught.value.types == {"test.sampel": ["a", "c"], "aten::zzz": ["b"]}
    assert "did you mean test.sample?" in str(caught.value)
    assert '@operator("test.sampel")' in str(caught.value)
