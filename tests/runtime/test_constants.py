"""What is made of constants: shared by programs, made once, gone with the last program that uses it."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Attribute, Graph, Model
from pnnx_fast.errors import LimitError, ShapeError
from pnnx_fast.ops import registry
from pnnx_fast.ops.quantized import real_weight
from pnnx_fast.runtime.constants import CHUNK, MOST_CHUNKS, Constants
from pnnx_fast.runtime.lower import Lowering
from pnnx_fast.runtime.packing import PackQueue
from pnnx_fast.runtime.session import CACHED_PROGRAMS

FOLDED = """7767517
5 4
pnnx.Input in 0 1 x #x=(?,64)f32
pnnx.Attribute w 0 1 w @data=(64,64)f32 #w=(64,64)f32
pnnx.Expression e 1 1 w v expr=mul(@0,2.0)
F.linear m 2 1 x v y bias=None $input=x $weight=v
pnnx.Output out 1 0 y
"""

PLAIN = """7767517
3 2
pnnx.Input in 0 1 x #x=(?,64)f32
nn.Linear l 1 1 x y in_features=64 out_features=64 bias=False @weight=(64,64)f32
pnnx.Output out 1 0 y
"""


def _filled(text: str) -> Graph:
    graph = Graph.parse(text)
    for op in graph.ops:
        for key in op.attrs:
            op.attrs[key] = Attribute(np.eye(64, dtype=np.float32))
    return graph


def _made(model: Model) -> int:
    """Tensors that were made of constants and are in use."""
    gc.collect()
    return len(model.constants._cached)


@pytest.mark.parametrize(
    "graph", [_filled(FOLDED), _filled(PLAIN), _filled(PLAIN).to("fp16")], ids=["folded", "plain", "fp16"]
)
def test_new_sizes_do_not_pack_again(graph: Graph) -> None:
    model = Model(graph, num_threads=1)
    factor = 2 if len(graph.ops) == 5 else 1

    def run(sizes: range) -> None:
        for n in sizes:
            x = np.full((n, 64), n, np.float32)
            np.testing.assert_array_equal(model(x), factor * x)

    run(range(1, 3))
    few = _made(model)
    run(range(3, 3 * CACHED_PROGRAMS))
    assert _made(model) == few


def test_what_depends_on_sizes_goes_with_its_programs() -> None:
    graph = _filled("""7767517
6 5
pnnx.Input in 0 1 x #x=(?,64)f32
pnnx.Attribute w 0 1 w @data=(64,64)f32 #w=(64,64)f32
pnnx.Expression e 1 1 x n expr=size(@0,0)
mine.Cut c 2 1 w n v
F.linear m 2 1 x v y bias=None $input=x $weight=v
pnnx.Output out 1 0 y
""")

    def cut(b: Any, matrix: Any, size: Any) -> Any:
        return b.constant(matrix.numpy()[:size])

    with registry.scoped(cut, "mine.Cut"):
        model = Model(graph, num_threads=1)
        for n in range(1, 4 * CACHED_PROGRAMS):
            x = np.full((n, 64), n, np.float32)
            np.testing.assert_array_equal(model(x), x[:, :n])
        assert _made(model) <= CACHED_PROGRAMS


@pytest.mark.parametrize("joined", [False, True])
def test_constants_that_stay_are_folded_once(joined: bool) -> None:
    calls = []
    end = "torch.cat c 2 1 y y z dim=0\npnnx.Output out 1 0 z\n" if joined else "pnnx.Output out 1 0 y\n"
    text = FOLDED.replace("pnnx.Expression e 1 1 w v expr=mul(@0,2.0)", "mine.Twice e 1 1 w v")
    text = text.replace("pnnx.Output out 1 0 y\n", end).replace("5 4", "6 5" if joined else "5 4")

    def twice(b: Any, input: Any) -> Any:
        def compute(x: Any) -> Any:
            calls.append(1)
            return 2 * x

        return b.host(compute, [input], [(input.shape, input.dtype)])[0]

    with registry.scoped(twice, "mine.Twice"):
        model = Model(_filled(text), num_threads=1)
        for n in (1, 2, 3):
            x = np.full((n, 64), n, np.float32)
            np.testing.assert_array_equal(model(x)[:n], 2 * x)
    assert calls == [1]


def test_weights_alike_with_other_scales_are_told_apart() -> None:
    b = Lowering("generic", 1, Constants())
    weight = b.constant(np.full((4, 4), 3, np.int8))
    for scale in (1.0, 2.0):
        scales = b.constant(np.full(4, scale))
        assert (real_weight(b, weight, scales, None, 0).numpy() == 3 * scale).all()


def test_mappings_for_packed_weights_are_not_kept_for_ever() -> None:
    constants = Constants()
    for _ in range(3 * MOST_CHUNKS):
        constants.allocate(CHUNK // 2 - 64)
        constants.allocate(CHUNK // 4 + 64)
    assert len(constants._chunks) <= MOST_CHUNKS


def test_an_interrupt_loses_no_weights() -> None:
    done = []

    class Interrupted:
        def begin(self, memory: object) -> None:
            raise KeyboardInterrupt

        def over(self) -> bool:
            return False

        def finish(self) -> None:
            done.append(1)

    queue = PackQueue()
    queue._waiting.append((Interrupted(), []))  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        queue.flush(1)
    queue.flush(1)
    assert done == [1]


def test_models_are_made_side_by_side() -> None:
    met = threading.Barrier(2, timeout=60)

    def read() -> Graph:
        met.wait()
        return _filled(PLAIN)

    threads = [threading.Thread(target=Model.reading, args=(read,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not met.broken


def test_known_programs_are_found_while_others_are_made() -> None:
    model = Model(_filled(PLAIN), num_threads=1)
    arrays = [np.ones((n, 64), np.float32) for n in (1, 2)]
    for x in arrays:
        model(x)
    with model._lock:
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.extend(model(x) for x in arrays * 2))
        thread.start()
        thread.join(60)
        assert len(found) == 4


@pytest.mark.parametrize("kind", ["O", "U3", "M8[s]", "longdouble", "V4"])
def test_inputs_without_a_noted_dtype_must_have_one_of_pytorchs(kind: str) -> None:
    model = Model(Graph.parse("7767517\n2 1\npnnx.Input in 0 1 x\npnnx.Output out 1 0 x\n"))
    with pytest.raises(ShapeError, match=r"not a dtype of PyTorch \(operand x\)"):
        model(np.zeros(3, kind))


@pytest.mark.parametrize("kind", [">f4", ">f8", ">i4", ">i8", ">f2"])
def test_byte_order_of_inputs_without_a_noted_dtype(kind: str) -> None:
    text = "7767517\n3 2\npnnx.Input in 0 1 x\nF.relu r 1 1 x y\npnnx.Output out 1 0 y\n"
    y = pnnx_fast.Model(Graph.parse(text))(np.arange(-2, 3).astype(kind))
    assert y.tolist() == [0, 0, 0, 1, 2]
    assert y.dtype.isnative


def _chain(operator: str, count: int) -> Graph:
    """Operators in a row behind a constant of 4 MB; ``{}`` stands for the operands."""
    lines = ["pnnx.Input in 0 1 x #x=(1,4)f32", "torch.arange c 0 1 c0 start=0 end=1000000 step=1 dtype=torch.float"]
    lines += [operator.format(f"a{i} 1 1 c{i} c{i + 1}") for i in range(count)]
    lines += [f"torch.sum s 1 1 c{count} s dim=(0) keepdim=False", "pnnx.Output out 2 0 x s"]
    return Graph.parse(f"7767517\n{len(lines)} {count + 3}\n" + "\n".join(lines) + "\n")


def test_constants_in_use_keep_to_the_limit_of_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "50M")
    x = np.zeros((1, 4), np.float32)
    Model(_chain("torch.cumsum {} dim=0", 8), num_threads=1)(x)
    with pytest.raises(LimitError, match="what is computed of constants"):
        Model(_chain("torch.cumsum {} dim=0", 16), num_threads=1)(x)


def test_expressions_of_constants_are_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they compute on the way would be kept beside them."""
    pieces: list[Any] = []
    monkeypatch.setattr("pnnx_fast.ops.elementwise.evaluate", lambda *args: pieces.append(args))
    assert np.isfinite(Model(_chain("torch.sin {}", 30), num_threads=1)(np.zeros((1, 4), np.float32))[1])
    assert not pieces
