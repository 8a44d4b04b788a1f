"""Binding of graph operators to functions: names, positions, defaults, types, and the errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pnnx_fast.demo import model_path
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


def test_a_type_is_needed() -> None:
    with pytest.raises(TypeError, match="takes the types"):
        registry.operator(lambda b, input: input)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the types"):
        registry.operator()
    with pytest.raises(TypeError, match="functions, not int"):
        registry.operator("test.number")(3)  # type: ignore[arg-type]


def test_all_unsupported_types_at_once() -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        check_supported([("test.sampel", "a"), ("aten::zzz", "b"), ("test.sampel", "c")])
    assert caught.value.types == {"test.sampel": ["a", "c"], "aten::zzz": ["b"]}
    assert "did you mean 'test.sample'?" in str(caught.value)
    assert '@pnnx_fast.operator("test.sampel")' in str(caught.value)
    assert '@pnnx_fast.operator("aten::zzz")' in str(caught.value)


def test_the_table_of_families_is_up_to_date() -> None:
    path = Path(__file__).parents[2] / "tools" / "make_families.py"
    result = subprocess.run([sys.executable, path, "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr + " run tools/make_families.py"


def test_the_table_is_written_anew_where_operators_have_moved() -> None:
    code = (
        "from pnnx_fast.ops.families import FAMILIES\n"
        "FAMILIES['attention'] += FAMILIES.pop('linear')\n"  # which imports the other one
        "import make_families\n"
        "assert make_families.render() == make_families.TARGET.read_text('utf-8')\n"
    )
    tools = Path(__file__).parents[2] / "tools"
    environment = {**os.environ, "PYTHONPATH": str(tools)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 0, result.stderr


def test_only_the_families_of_a_model_are_imported() -> None:
    code = (
        "import sys, numpy, pnnx_fast\n"
        "text = '7767517\\n3 2\\npnnx.Input a 0 1 x #x=(2)f32\\nF.softmax s 1 1 x y dim=0\\npnnx.Output o 1 0 y\\n'\n"
        "pnnx_fast.Model(pnnx_fast.Graph.parse(text))(numpy.ones(2, numpy.float32))\n"
        "families = {name for name in sys.modules if name.startswith('pnnx_fast.ops.')}\n"
        "assert 'pnnx_fast.ops.softmax' in families, families\n"
        "assert not families & {'pnnx_fast.ops.aten', 'pnnx_fast.ops.signal', 'pnnx_fast.ops.recurrent'}, families\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_imports_neither_paths_nor_expressions_that_no_operator_needs() -> None:
    code = (
        "import sys, numpy\n"
        "before = set(sys.modules)\n"  # start-up files of an environment may import anything
        "import pnnx_fast\n"
        "pnnx_fast.load(sys.argv[1])(numpy.zeros((2, 1, 8, 8), numpy.float32))\n"
        "unwanted = {'pathlib', 'urllib.parse', 'pnnx_fast.expression.functions', 'pnnx_fast.ir.literals'}\n"
        "unwanted |= {'pnnx_fast.passes.memory', 'pnnx_fast.runtime.doubts', 'pnnx_fast.runtime.affine'}\n"
        "assert not unwanted & (sys.modules.keys() - before), unwanted & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", code, model_path()], check=True)
