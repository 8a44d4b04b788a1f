"""Packing of weights in one go, and mapped files that give their pages back."""

from __future__ import annotations

import mmap
import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph, Model
from pnnx_fast._core import program as core
from pnnx_fast._memory import aligned_bytes
from pnnx_fast.errors import ShapeError
from pnnx_fast.ir.mapped import release
from pnnx_fast.runtime import packing
from pnnx_fast.runtime.constants import Constants

TEXT = """7767517
4 3
pnnx.Input a 0 1 x #x=(1,64)f32
nn.Linear one 1 1 x y in_features=64 out_features=96 bias=True @weight=(96,64)f32 @bias=(96)f32
nn.Linear two 1 1 y z in_features=96 out_features=32 bias=False @weight=(32,96)f32
pnnx.Output o 1 0 z
"""


def _conv(ic: int, oc: int, k: int, groups: int = 1) -> str:
    sizes = f"in_channels={ic} out_channels={oc} kernel_size=({k},{k}) groups={groups}"
    rest = "stride=(1,1) padding=(0,0) dilation=(1,1) padding_mode=zeros bias=False"
    return f"nn.Conv2d l 1 1 x y {sizes} {rest} @weight=({oc},{ic // groups},{k},{k})f32"


def _graph() -> Graph:
    graph = Graph.parse(TEXT)
    rng = np.random.default_rng(0)
    for op in graph.ops:
        for key, attr in op.attrs.items():
            op.attrs[key] = Attribute(rng.standard_normal(attr.shape).astype(np.float32))
    return graph


def _expected(graph: Graph, x: np.ndarray) -> np.ndarray:
    one, two = (op for op in graph.ops if op.type == "nn.Linear")
    y = x @ one.attrs["weight"].numpy().T + one.attrs["bias"].numpy()
    return y @ two.attrs["weight"].numpy().T


LAYERS = {
    "linear": ("nn.Linear l 1 1 x y in_features=32 out_features=40 bias=False @weight=(40,32)f32", (2, 32)),
    "few columns": ("nn.Linear l 1 1 x y in_features=32 out_features=2 bias=False @weight=(2,32)f32", (9, 32)),
    "3x3": (_conv(32, 32, 3), (1, 32, 20, 20)),
    "stem": (_conv(3, 16, 3), (1, 3, 12, 12)),
    "depthwise": (_conv(32, 32, 3, groups=32), (1, 32, 9, 9)),
    "grouped": (_conv(32, 32, 3, groups=8), (1, 32, 9, 9)),
}


@pytest.mark.parametrize("line, shape", LAYERS.values(), ids=LAYERS)
def test_denormal_weights_count_as_zero(line: str, shape: tuple[int, ...]) -> None:
    text = f"7767517\n3 2\npnnx.Input a 0 1 x #x={str(shape).replace(' ', '')}f32\n{line}\npnnx.Output o 1 0 y\n"
    graph = Graph.parse(text)
    (layer,) = (op for op in graph.ops if op.attrs)
    layer.attrs["weight"] = Attribute(np.full(layer.attrs["weight"].shape, 1e-40, np.float32))
    assert not np.any(Model(graph, 1)(np.full(shape, 1e30, np.float32)))


@pytest.mark.parametrize("batch_bytes", [1, 1 << 30])
def test_batches_of_any_size_pack_the_same(monkeypatch: pytest.MonkeyPatch, batch_bytes: int) -> None:
    monkeypatch.setattr(packing, "BATCH_BYTES", batch_bytes)
    graph, x = _graph(), np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    np.testing.assert_allclose(Model(graph, 2)(x), _expected(graph, x), rtol=1e-4, atol=1e-4)


def test_models_that_share_constants_pack_once() -> None:
    graph, shared = _graph(), Constants()
    x = np.random.default_rng(1).standard_normal((1, 64)).astype(np.float32)
    models = [Model(graph, n, constants=shared, optimize=False) for n in (1, 2, 3)]
    results: list[np.ndarray] = []
    threads = [threading.Thread(target=lambda m=m: results.append(m(x))) for m in models]  # type: ignore[misc]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 3
    for y in results:
        np.testing.assert_allclose(y, _expected(graph, x), rtol=1e-4, atol=1e-4)


def test_weights_of_a_file_are_readable_after_packing(tmp_path: Path) -> None:
    graph, x = _graph(), np.ones((1, 64), np.float32)
    graph.save(tmp_path / "m.pnnx.param")
    loaded = Graph.load(tmp_path / "m.pnnx.param")
    before = [op.attrs["weight"].numpy().copy() for op in loaded.ops if op.attrs]
    np.testing.assert_allclose(Model(loaded, 2)(x), _expected(graph, x), rtol=1e-4, atol=1e-4)
    after = [op.attrs["weight"].numpy() for op in loaded.ops if op.attrs]
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def _resident(path: Path) -> int:
    """Bytes of a mapped file that are in this process's memory."""
    total, counts = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if "-" in line.split()[0]:
            counts = line.endswith(path.name)
        elif counts and line.startswith("Rss:"):
            total += int(line.split()[1]) * 1024
    return total


REREAD = {
    "transposed": (
        "nn.ConvTranspose2d l 1 1 x y in_channels=128 out_channels=128 kernel_size=(4,4) stride=(2,2) padding=(1,1) "
        "output_padding=(0,0) dilation=(1,1) groups=1 bias=False @weight=(128,128,4,4)f32",
        (1, 128, 6, 6),
    ),
    "3d": (
        "nn.Conv3d l 1 1 x y in_channels=96 out_channels=96 kernel_size=(3,3,3) stride=(1,1,1) padding=(1,1,1) "
        "padding_mode=zeros dilation=(1,1,1) groups=1 bias=False @weight=(96,96,3,3,3)f32",
        (1, 96, 3, 5, 5),
    ),
}


@pytest.mark.parametrize("line, shape", REREAD.values(), ids=REREAD)
def test_weights_that_are_packed_in_parts_give_their_pages_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, shape: tuple[int, ...]
) -> None:
    released: list[np.ndarray] = []
    monkeypatch.setattr(packing, "release", lambda array: (released.append(array), release(array)))
    text = f"7767517\n3 2\npnnx.Input a 0 1 x #x={str(shape).replace(' ', '')}f32\n{line}\npnnx.Output o 1 0 y\n"
    graph = Graph.parse(text)
    (layer,) = (op for op in graph.ops if op.attrs)
    layer.attrs["weight"] = Attribute(np.ones(layer.attrs["weight"].shape, np.float32))
    graph.save(tmp_path / "parts.pnnx.param")
    model = Model(Graph.load(tmp_path / "parts.pnnx.param"), 2)
    model(np.ones(shape, np.float32))
    nbytes = layer.attrs["weight"].nbytes
    (weight,) = (op.attrs["weight"].numpy() for op in model.graph.ops if op.attrs)
    assert any(array.nbytes == nbytes and np.shares_memory(array, weight) for array in released)
    if Path("/proc/self/smaps").is_file():
        assert _resident(tmp_path / "parts.pnnx.bin") < nbytes // 4


def test_release_leaves_memory_alone_that_is_no_read_only_mapping(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"\1" * (1 << 20))
    own = np.ones(1 << 20, np.uint8)
    own.flags.writeable = False
    with path.open("r+b") as file:
        copy = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        shared = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    copy[:] = b"\2" * (1 << 20)
    changed = np.frombuffer(memoryview(copy).toreadonly(), np.uint8)
    text = np.frombuffer(b"\3" * (1 << 20), np.uint8)
    mapped = np.frombuffer(memoryview(shared)[5:], np.uint8)
    for array, value in ((own, 1), (changed, 2), (text, 3), (mapped, 1)):
        release(array)
        assert (array == value).all()


def test_weights_of_equal_content_are_one() -> None:
    rng = np.random.default_rng(1)
    first = rng.standard_normal((64, 96)).astype(np.float32)
    near = first.copy()
    near[10, 10] += 1
    constants = Constants()
    one, two, other = (constants.attribute(Attribute(a)) for a in (first, first.copy(), near))
    assert one is two
    assert one is not other
    assert constants.attribute(Attribute(first.reshape(96, 64))) is not one
    assert np.array_equal(other.numpy(), near)


def test_small_weights_lie_where_large_ones_left_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pnnx_fast.runtime.constants.CHUNK", 1 << 16)
    constants = Constants()
    places = [constants.allocate(n).__array_interface__["data"][0] for n in (30000, 30000, 30000, 5000, 1000)]
    first, second, third, small, last = places
    assert second - first == -(-30000 // 64) * 64
    assert small - second == second - first
    assert not 0 <= third - first < 1 << 16
    assert last - third == second - first


def _copies(
    count: int, nthreads: int = 2, free: bool = True
) -> tuple[core.Program, list[np.ndarray], list[np.ndarray]]:
    """A program that copies arrays, the arrays, and where the copies go."""
    sources = [np.full(1 << 18, i + 1, np.float32) for i in range(count)]
    targets = [aligned_bytes(a.nbytes).view(np.float32) for a in sources]
    for target in targets:
        target[:] = 0
    steps = []
    for x, y in zip(sources, targets, strict=True):
        places = {k: (0, a.__array_interface__["data"][0]) for k, a in (("x", x), ("y", y))}
        sizes = {"itemsize": 4, "rank": 1, "shape": (x.size,), "xs": (1,), "ys": (1,)}
        steps.append(("copy", {**places, **sizes}, False, free))
    return core.Program("generic", steps, 0, nthreads), sources, targets


def _same(sources: list[np.ndarray], targets: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(sources, targets, strict=True))


@pytest.mark.parametrize("nthreads", [1, 2, 5])
def test_a_program_that_begins_early(nthreads: int) -> None:
    program, sources, targets = _copies(6, nthreads)
    for _ in range(20):
        program.begin(targets)
        program.finish()
        assert _same(sources, targets)
        for target in targets:
            target[:] = 0
    assert not program.over()


def test_helpers_are_through_without_the_caller() -> None:
    program, sources, targets = _copies(4)
    program.begin(targets)
    deadline = time.monotonic() + 60
    while not program.over() and core.team() == "threads" and time.monotonic() < deadline:
        time.sleep(0.001)
    assert program.over() == (core.team() == "threads")
    program.finish()
    assert _same(sources, targets)


def test_a_program_that_began_may_be_dropped() -> None:
    for _ in range(50):
        program, sources, targets = _copies(3)
        program.begin((sources, targets))
        del sources, targets, program


def test_only_independent_steps_begin_early() -> None:
    with pytest.raises(ValueError, match="depend"):
        _copies(2, free=False)[0].begin(None)
    program, sources, targets = _copies(2)
    if core.team() == "threads":
        program.begin((sources, targets))
        with pytest.raises(ValueError, match="run already"):
            program.begin(None)
        program.finish()
    assert _same(sources, targets) == (core.team() == "threads")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_process_does_again_what_began() -> None:
    program, sources, targets = _copies(4)
    program.begin(targets)
    child = os.fork()
    if child == 0:
        program.finish()
        again, *_ = _copies(2)
        again.begin(None)
        again.finish()
        os._exit(0 if _same(sources, targets) else 1)
    program.finish()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert _same(sources, targets)


def test_lowering_that_fails_leaves_weights_that_are_packed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "BATCH_BYTES", 1)
    shared, broken, graph = Constants(), _graph(), _graph()
    broken.ops[2].params["in_features"].value = 95
    broken.ops[2].attrs["weight"] = Attribute(np.ones((32, 95), np.float32))
    broken.ops[1].attrs, graph.ops[1].attrs = (dict(broken.ops[1].attrs) for _ in range(2))
    x = np.ones((1, 64), np.float32)
    with pytest.raises(ShapeError):
        Model(broken, 2, constants=shared)(x)
    np.testing.assert_allclose(Model(graph, 2, constants=shared)(x), _expected(graph, x), rtol=1e-4, atol=1e-4)
