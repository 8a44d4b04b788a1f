"""Errors: messages, fields, and both after a way through pickle, as process pools send them."""

from __future__ import annotations

import pickle

import pytest

from pnnx_fast import errors
from pnnx_fast.runtime_graph.status import StatusCode, StatusError

EXAMPLES = [
    errors.FormatError("broken", path="m.param", line=3, column=7),
    errors.LimitError("too large", offset=12),
    errors.ParameterError("unknown", operator="nn.Conv2d c", parameter="k"),
    errors.MissingParameterError("not there", parameter="k"),
    errors.ShapeError("wrong shape", operator="nn.Linear fc", operand="x", expected=[1], actual=[2]),
    errors.IndexRangeError(5, 3, step=2, operator="nn.Embedding e"),
    errors.OperatorError("its function raised OSError", operator="mine.Twice t"),
    errors.NativeOperatorError(3, function="infer", operator="mine.Twice t"),
    errors.ExpressionError("unknown function", "foo(@0)", 0),
    errors.BroadcastError("shapes (2,) and (3,) do not broadcast", "add(@0,@1)", 0),
    errors.UnsupportedOperatorError("no function", {"mine.Op": ["a", "b"]}),
    errors.CycleError(["a", "b"]),
    errors.GraphError(["one", "two"]),
    errors.UnknownNameError(["there is no operator x"]),
    StatusError("failed", StatusCode.PARSE_WEIGHT_ERROR),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error: errors.PnnxFastError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_every_error_has_an_example() -> None:
    assert {type(error).__name__ for error in EXAMPLES} >= set(errors.__all__) - {"PnnxFastError"}


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_are_builtin_errors_too(error: errors.PnnxFastError) -> None:
    assert isinstance(error, ValueError | IndexError | RuntimeError)
