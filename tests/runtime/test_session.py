"""Models: inputs and outputs, other shapes, stages, threads, fork, errors."""

from __future__ import annotations

import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast._warning import muted, warn
from pnnx_fast.demo import model_path
from pnnx_fast.errors import ExpressionError, ParameterError, ShapeError
from pnnx_fast.runtime import compiler

SPLIT_AND_JOIN = """7767517
6 6
pnnx.Input     in   0 1 x #x=(1,4,3)f32
torch.chunk    cut  1 2 x a b chunks=2 dim=1
torch.cat      join 2 1 b a c dim=1
Tensor.permute turn 1 1 c d dims=(0,2,1)
torch.flatten  flat 1 1 d e start_dim=1 end_dim=-1
pnnx.Output    out  1 0 e
"""


def expected(x: np.ndarray) -> np.ndarray:
    half = x.shape[1] // 2
    turned = np.concatenate([x[:, half:], x[:, :half]], 1).transpose(0, 2, 1)
    return turned.reshape(len(x), turned.shape[1] * turned.shape[2])


@pytest.fixture
def model() -> pnnx_fast.Model:
    return pnnx_fast.Model(pnnx_fast.Graph.parse(SPLIT_AND_JOIN), 2)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1, 4, 3), (3, 4, 3), (2, 8, 5), (1, 2, 1), (0, 4, 3)])
def test_any_shape_that_the_graph_allows(model: pnnx_fast.Model, shape: tuple[int, ...]) -> None:
    x = random(*shape)
    np.testing.assert_array_equal(model(x), expected(x))


def test_input_kinds(model: pnnx_fast.Model) -> None:
    x = random(1, 3, 4).transpose(0, 2, 1)
    np.testing.assert_array_equal(model(x), expected(x))
    np.testing.assert_array_equal(model(x.astype(np.float16)), expected(x.astype(np.float16).astype(np.float32)))

    class OnlyArray:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return x

    class OnlyDlpack:
        def __dlpack__(self, **keywords: object) -> object:
            return x.__dlpack__(**keywords)

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    np.testing.assert_array_equal(model(OnlyArray()), expected(x))
    np.testing.assert_array_equal(model(OnlyDlpack()), expected(x))


def test_named_inputs_and_outputs(model: pnnx_fast.Model) -> None:
    x = random(1, 4, 3)
    assert [(i.name, i.shape, i.dtype) for i in model.inputs] == [("x", (1, 4, 3), np.float32)]
    assert list(model.run({"x": x})) == ["e"]
    np.testing.assert_array_equal(model.run({"x": x}, outputs=["e"])["e"], expected(x))
    with pytest.raises(ShapeError, match="there is no input 'y'; the inputs are 'x'"):
        model.run({"y": x})
    with pytest.raises(ShapeError, match="there is no output 'z'; the outputs are 'e'"):
        model.run({"x": x}, outputs=["z"])


def test_outputs_belong_to_the_caller(model: pnnx_fast.Model) -> None:
    x = random(1, 4, 3)
    first = model(x)
    kept = first.copy()
    model(random(1, 4, 3, seed=1))
    np.testing.assert_array_equal(first, kept)
    first[:] = 0
    np.testing.assert_array_equal(model(x), kept)


@pytest.mark.parametrize(
    "arrays, message",
    [
        ([], "wrong number of inputs 'x': expected 1, got 0"),
        ([np.zeros((1, 4, 3)), np.zeros(1)], "wrong number of inputs"),
        ([np.zeros((1, 4, 3), np.float64)], "wrong dtype of input 'x', convert .*: expected float32, got float64"),
        ([{"x": np.zeros((1, 4, 3))}], "arrays by name are given as model.*arrays. or model.run"),
        ([None], "no array: NoneType holds no numbers .operand x."),
        (["cat.jpg"], "no array: str holds no numbers .operand x."),
        ([(row for row in [[1.0]])], "no array: generator holds no numbers .operand x."),
        ([np.zeros((4, 3), np.float32)], "wrong number of dimensions"),
    ],
)
def test_wrong_inputs(model: pnnx_fast.Model, arrays: list[np.ndarray], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        model(*arrays)


def test_lists_take_the_dtype_of_the_input(model: pnnx_fast.Model) -> None:
    x = np.arange(12).reshape(1, 4, 3)
    for given in (x.tolist(), (x + 0.0).tolist()):
        np.testing.assert_array_equal(model(given), model(x.astype(np.float32)))
    integers = pnnx_fast.Model(
        pnnx_fast.Graph.parse("7767517\n2 1\npnnx.Input a 0 1 x #x=(2)i32\npnnx.Output o 1 0 x\n")
    )
    assert integers([1, -2]).dtype == np.int32
    eight_bytes = np.array([1 << 40, 0])
    for wrong in ([1.5, 2.0], [1 << 40, 0], list(eight_bytes), memoryview(eight_bytes)):
        with pytest.raises(ShapeError, match=r"input 'x'|operand x"):
            integers(wrong)


def test_weights_in_memory_that_is_written_to_are_copied() -> None:
    path = model_path()
    weights = bytearray(path.with_suffix(".bin").read_bytes())
    model, x = pnnx_fast.load(path, weights), np.ones((1, 1, 8, 8), np.float32)
    expected = model(x)
    weights[:] = bytes(len(weights))
    np.testing.assert_array_equal(model(x), expected)
    np.testing.assert_allclose(model(np.ones((2, 1, 8, 8), np.float32))[:1], expected, atol=1e-6)


def test_programs_share_memory_for_activations() -> None:
    model = pnnx_fast.load(model_path(), num_threads=1)
    for batch in 1, 3, 50, 2, 4, 60:
        model(np.zeros((batch, 1, 8, 8), np.float32))
    assert len(model.constants.arenas) == 1


def test_programs_behind_data_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "CONTINUATIONS", 5)
    graph = pnnx_fast.Graph.parse("""7767517
        5 4
        pnnx.Input in 0 1 x #x=(6)i64
        torch.nonzero first 1 1 x y as_tuple=False
        torch.nonzero second 1 1 y z as_tuple=False
        aten::neg last 1 1 z w
        pnnx.Output out 1 0 w
        """)
    model = pnnx_fast.Model(graph)
    for _ in range(2):
        for count in range(7):
            x = (np.arange(6) < count).astype(np.int64)
            np.testing.assert_array_equal(model(x), -np.argwhere(np.argwhere(x)))
            assert len(model._compiler.continuations._latest) <= 5


def test_what_programs_are_compiled_for_is_fixed(model: pnnx_fast.Model) -> None:
    with pytest.raises(AttributeError):
        model.num_threads = 1  # type: ignore[misc]
    with pytest.raises(AttributeError):
        model.isa = "generic"  # type: ignore[misc]


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", 1 << 40])
def test_wrong_numbers_of_threads(threads: Any) -> None:
    with pytest.raises(ParameterError, match="num_threads must be a number from 1 to 1024, not"):
        pnnx_fast.Model(pnnx_fast.Graph.parse(SPLIT_AND_JOIN), threads)


def test_wrong_uses(model: pnnx_fast.Model) -> None:
    with pytest.raises(TypeError, match=r"Model takes a Graph, not str; pnnx_fast.load takes files"):
        pnnx_fast.Model("m.pnnx.param")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="arrays by the names of inputs"):
        model.run(random(1, 4, 3))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"no array: .*\(operand"):
        model([[1.0, 2.0], [3.0]])
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(model)


def test_wrong_settings() -> None:
    graph = pnnx_fast.Graph.parse(SPLIT_AND_JOIN)
    with pytest.raises(ParameterError, match="isa must be one of"):
        pnnx_fast.Model(graph, isa="mmx")


@pytest.mark.parametrize("repeat", [0, -1, 1.5, "x"])
def test_wrong_numbers_of_repetitions(model: pnnx_fast.Model, repeat: Any) -> None:
    with pytest.raises(ParameterError, match="repeat must be a whole number of at least 1, not"):
        model.profile(random(1, 4, 3), repeat=repeat)


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_wrong_seeds(seed: Any) -> None:
    with pytest.raises(ParameterError, match="seed must be a whole number from 0 up, not"):
        pnnx_fast.Model(pnnx_fast.Graph.parse(SPLIT_AND_JOIN), seed=seed)


def test_shape_errors_name_the_operator() -> None:
    graph = pnnx_fast.Graph.parse(
        "7767517\n3 2\npnnx.Input in 0 1 x #x=(2,3)f32\nTensor.reshape re 1 1 x y shape=(4,2)\npnnx.Output out 1 0 y\n"
    )
    with pytest.raises(ShapeError, match=r"Tensor.reshape re: cannot reshape: expected \(?\[?4, 2"):
        pnnx_fast.Model(graph)(np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("option", ["autotune", "cache"])
def test_options_that_are_neither_a_flag_nor_a_path(option: str) -> None:
    with pytest.raises(TypeError, match=f"{option} is True, False or a path, not int"):
        pnnx_fast.load(b"", b"", **{option: 5})


def test_expressions_that_have_no_value_name_the_operator() -> None:
    text = "7767517\n3 2\npnnx.Input a 0 1 x #x=(3)bool\nnn.ReLU act 1 1 x y\npnnx.Output o 1 0 y\n"
    with pytest.raises(ExpressionError, match=r"nn\.ReLU act: not defined for bool"):
        pnnx_fast.Model(pnnx_fast.Graph.parse(text))(np.ones(3, bool))


def test_models_show_what_they_take_and_give() -> None:
    text = "7767517\n3 2\npnnx.Input a 0 1 x #x=(?,3)f32\nnn.ReLU act 1 1 x y\npnnx.Output o 1 0 y\n"
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(text), num_threads=1, isa="generic")
    assert repr(model).startswith("<Model: x: float32[?, 3] -> y: ")
    assert repr(model).endswith("; 1 thread(s), generic>")


def test_names_of_the_package() -> None:
    assert all(hasattr(pnnx_fast, name) for name in dir(pnnx_fast))
    assert "os" not in dir(pnnx_fast)


def test_many_threads_share_a_model(model: pnnx_fast.Model) -> None:
    inputs = [random(1 + i % 3, 4, 3 + i % 5, seed=i) for i in range(64)]
    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(lambda x: [model(x) for _ in range(5)], inputs))
    for x, outputs in zip(inputs, results, strict=True):
        for y in outputs:
            np.testing.assert_array_equal(y, expected(x))


def test_what_ran_last_does_not_vouch_for_other_arrays(model: pnnx_fast.Model) -> None:
    x = random(1, 4, 3)
    turned = random(1, 3, 4).transpose(0, 2, 1)
    for given in (x, turned, x[:, ::-1], x, x.astype(">f4"), x.astype(np.float16), np.asfortranarray(x), x.tolist(), x):
        np.testing.assert_array_equal(model(given), expected(np.asarray(given, np.float32)))
    for wrong in ((), (x, x), (x, turned), (turned, x)):
        with pytest.raises(ShapeError, match="wrong number of inputs"):
            model(*wrong)
    for rows in (1, 2, 1, 1, 2):
        np.testing.assert_array_equal(model(random(rows, 4, 3)), expected(random(rows, 4, 3)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork_after_a_parallel_run() -> None:
    graph = pnnx_fast.Graph.parse(SPLIT_AND_JOIN.replace("(1,4,3)", "(1,64,512)"))
    model = pnnx_fast.Model(graph, 2)
    x = random(4, 64, 512)
    want = model(x)
    child = os.fork()
    if child == 0:
        ok = np.array_equal(model(x), want) and np.array_equal(model(x), want)
        os._exit(0 if ok else 1)
    done = threading.Timer(30, os.kill, (child, 9))
    done.start()
    _, status = os.waitpid(child, 0)
    done.cancel()
    assert status == 0


def test_profile_covers_all_steps(model: pnnx_fast.Model) -> None:
    profile = model.profile(random(1, 4, 3))
    assert profile.steps
    assert abs(sum(s.share for s in profile.steps) - 1) < 1e-6
    assert "copy" in str(profile)


def test_silence_is_one_threads_own() -> None:
    """What a model's repeated run would warn of is not heard, and nothing that another thread says is lost."""
    inside, done = threading.Event(), threading.Event()

    def quiet() -> None:
        with muted():
            warn("of a run that is repeated")
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=quiet)
    thread.start()
    assert inside.wait(60)
    with pytest.warns(UserWarning, match="of a model"):
        warn("of a model")
    done.set()
    thread.join()
