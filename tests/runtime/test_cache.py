"""Compiled programs in a folder: the same results from the next model, and nothing but a new start from bad files."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast import Attribute, Graph, native
from pnnx_fast._core import program as core
from pnnx_fast.errors import ParameterError
from pnnx_fast.native_abi import FUNCTIONS
from pnnx_fast.ops import registry
from pnnx_fast.runtime import batches, cache
from pnnx_fast.runtime.parts import Parts

RANDOM = np.random.default_rng(7)


def _array(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def _save(folder: Path, tail: str = "F.relu act 1 1 y z") -> Path:
    """A convolution and one more operator, with random weights."""
    folder.mkdir(exist_ok=True)
    sizes = "kernel_size=(3,3) stride=(1,1) padding=(1,1) dilation=(1,1) groups=1 padding_mode=zeros"
    graph = Graph.parse(f"""7767517
        4 3
        pnnx.Input in 0 1 x #x=(?,3,?,?)f32
        nn.Conv2d conv 1 1 x y in_channels=3 out_channels=20 {sizes} bias=True #y=(?,20,?,?)f32
        {tail}
        pnnx.Output out 1 0 z
        """)
    conv = next(op for op in graph.ops if op.name == "conv")
    conv.attrs["weight"], conv.attrs["bias"] = Attribute(_array(20, 3, 3, 3)), Attribute(_array(20))
    graph.save(folder / "net.pnnx.param")
    return folder / "net.pnnx.param"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return _save(tmp_path)


def _load(model: Path, **options: Any) -> pnnx_fast.Model:
    return pnnx_fast.load(model, cache=model.parent / "programs", num_threads=2, **options)


def _programs(model: Path) -> list[Path]:
    return sorted(p for p in (model.parent / "programs").glob("*.pfc") if not p.name.endswith("-model.pfc"))


def test_the_second_start_needs_no_graph(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = _array(2, 3, 17, 19)
    expected = pnnx_fast.load(model, num_threads=2)(x)
    first = _load(model)
    assert np.array_equal(first(x), expected)
    assert len(_programs(model)) == 1
    monkeypatch.setattr(Graph, "load", lambda *rest, **options: pytest.fail("the graph was read"))
    second = _load(model)
    assert (second.inputs, second.outputs) == (first.inputs, first.outputs)
    assert np.array_equal(second(x), expected)
    assert np.array_equal(second.run({"x": x})["z"], expected)
    assert second.work(x) == first.work(x)
    assert [s.kernel for s in second.profile(x, repeat=1).steps] == [s.kernel for s in first.profile(x, repeat=1).steps]


def test_the_graph_is_there_when_it_is_wanted(model: Path) -> None:
    _load(model)(_array(1, 3, 8, 8))
    second = _load(model)
    assert second.graph.ops[0].type == "pnnx.Input"
    y = _array(1, 3, 9, 9)
    assert np.array_equal(second(y), pnnx_fast.load(model, num_threads=2)(y))


def test_parts_of_batches(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "best_part", lambda steps, rows, *rest: (2, True))
    graph = Graph.load(model)
    for operand in graph.operands:
        operand.shape = (6, *(operand.shape or ())[1:])
    graph.save(model)
    x = _array(6, 3, 12, 12)
    expected = _load(model)(x)
    second = _load(model)
    assert np.array_equal(second(x), expected)
    assert isinstance(second._program([x]), Parts)


@pytest.mark.parametrize("damage", ["cut", "text", "block", "empty", "magic"])
def test_damaged_files_are_made_anew(model: Path, damage: str) -> None:
    x = _array(1, 3, 16, 16)
    expected = _load(model)(x)
    (path,) = _programs(model)
    content = bytearray(path.read_bytes())
    place = {"text": 100, "block": len(content) - 10, "magic": 3}.get(damage, 0)
    content[place] ^= 1
    path.write_bytes(b"" if damage == "empty" else content[:-64] if damage == "cut" else content)
    with pytest.warns(UserWarning, match="ignored") as caught:
        assert np.array_equal(_load(model)(x), expected)
    assert {w.filename for w in caught} == {__file__}, "warnings point at the caller"
    assert np.array_equal(_load(model)(x), expected)


@pytest.mark.parametrize("piece", [64, 1 << 40])
@pytest.mark.parametrize("place", [-1, -2000])
def test_checksums_beside(model: Path, monkeypatch: pytest.MonkeyPatch, piece: int, place: int) -> None:
    """In another thread, or in pieces by both."""
    monkeypatch.setattr(cache, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(cache, "PIECE", piece)
    x = _array(1, 3, 16, 16)
    expected = _load(model)(x)
    assert np.array_equal(_load(model)(x), expected)
    (path,) = _programs(model)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="checksum is wrong"):
        assert np.array_equal(_load(model)(x), expected)


def test_checksums_without_threads(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system has none left, the caller computes them."""
    x = _array(1, 3, 16, 16)
    expected = _load(model)(x)

    def refuse(thread: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(cache, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(cache.threading.Thread, "start", refuse)
    monkeypatch.setattr(Graph, "load", lambda *rest, **options: pytest.fail("the graph was read"))
    assert np.array_equal(_load(model)(x), expected)


@pytest.mark.parametrize(
    "change", ["steps", "layouts", "bases", "outputs", "isa", "address", "ahead", "list", "nested"]
)
def test_documents_are_checked(model: Path, change: str) -> None:
    """A file with right checksums whose document makes no sense."""
    x = _array(1, 3, 16, 16)
    expected = _load(model)(x)
    (path,) = _programs(model)
    content = path.read_bytes()
    _, _, block_sum, size, block_size = cache.HEADER.unpack_from(content)
    document = json.loads(content[cache.HEADER.size : cache.HEADER.size + size])
    if change == "address":
        layout, _, values = document["steps"][0]
        values[document["layouts"][layout].index("x") - 1] = [0, 1 << 40]
    elif change in ("list", "nested"):
        document = []
    else:
        document[change] = {
            "steps": [[0, False, []]],
            "layouts": [["copy"]],
            "bases": 1,
            "outputs": 3,
            "isa": "none",
            "ahead": [[0, 64, 1 << 50]],
        }[change]
    text = b"[" * 100_000 if change == "nested" else json.dumps(document).encode()
    begin, place = (-(-(cache.HEADER.size + n) // cache.PAGE) * cache.PAGE for n in (size, len(text)))
    header = cache.HEADER.pack(cache.MAGIC, crc32(text), block_sum, len(text), block_size)
    path.write_bytes((header + text).ljust(place, b"\0") + content[begin:])
    with pytest.warns(UserWarning, match="ignored"):
        assert np.array_equal(_load(model)(x), expected)


def test_other_weights_are_another_model(model: Path) -> None:
    x = _array(1, 3, 16, 16)
    before = _load(model)(x)
    _save(model.parent)
    after = _load(model)(x)
    assert not np.array_equal(before, after)
    assert np.array_equal(after, pnnx_fast.load(model, num_threads=2)(x))


def test_sources_that_are_edited_in_place_count(tmp_path: Path) -> None:
    """They do beside compiled modules that lie elsewhere; an ordinary install changes as a whole."""
    source = tmp_path / "ops.py"
    source.write_text("pass")
    first = cache._live_sources.__wrapped__(str(tmp_path))
    assert cache._live_sources.__wrapped__(str(tmp_path)) == first != 0
    os.utime(source, ns=(1, 1))
    assert cache._live_sources.__wrapped__(str(tmp_path)) != first
    assert cache._live_sources.__wrapped__(str(Path(core.__file__).parents[1])) == 0


def test_levels_and_threads_have_programs_of_their_own(model: Path) -> None:
    x = _array(1, 3, 16, 16)
    for isa in core.ISAS[:2]:
        assert _load(model, isa=isa).profile(x, repeat=1).isa == isa
    assert len(_programs(model)) == len(core.ISAS[:2])


def test_the_oldest_program_goes(model: Path) -> None:
    kept = _load(model)
    for n in range(8, 8 + cache.KEPT + 2):
        kept(_array(1, 3, n, n))
    assert len(_programs(model)) == cache.KEPT


def test_programs_that_others_delete_meanwhile(model: Path) -> None:
    kept = _load(model)
    kept(_array(1, 3, 7, 7))
    (first,) = _programs(model)
    os.symlink("nowhere", first.with_name(f"{first.name[:-12]}00000000.pfc"))
    for n in range(8, 8 + cache.KEPT):
        kept(_array(1, 3, n, n))
    assert sum(path.exists() for path in _programs(model)) == cache.KEPT


@pytest.mark.parametrize("error", [OSError("no room"), KeyboardInterrupt()])
def test_nothing_unfinished_is_left(model: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: Any) -> None:
        raise error

    monkeypatch.setattr(cache, "_fill", fill)
    with pytest.warns(UserWarning, match="no room") if isinstance(error, OSError) else pytest.raises(type(error)):
        _load(model)(_array(1, 3, 8, 8))
    assert list((model.parent / "programs").iterdir()) == []


def test_steps_in_numpy_are_not_kept(tmp_path: Path) -> None:
    path = _save(tmp_path, "torch.nonzero last 1 1 y z as_tuple=False")
    x = _array(1, 3, 8, 8)
    expected = pnnx_fast.load(path)(x)
    for _ in range(2):
        assert np.array_equal(_load(path)(x), expected)
    assert _programs(path) == []


def test_programs_with_warnings_are_not_kept(tmp_path: Path) -> None:
    path = _save(tmp_path, "aten::neg act 1 1 y z #y=(1,20,8,8)f32 #z=(1,20,8,9)f32")
    path.write_text(path.read_text().replace("(?,3,?,?)", "(1,3,8,8)"))
    for _ in range(2):
        with pytest.warns(UserWarning, match="its results may be wrong"):
            _load(path)(_array(1, 3, 8, 8))
    assert _programs(path) == []


def test_users_operators_are_not_kept(tmp_path: Path) -> None:
    def negated(b: Any, input: Any) -> Any:
        y = b.result(input.shape, input.dtype)
        b.copy(b.constant(-np.ones(input.shape, np.float32)), y)
        return y

    own, builtin = _save(tmp_path, "example.Own act 1 1 y z"), _save(tmp_path / "builtin")
    x = _array(1, 3, 8, 8)
    with registry.scoped(negated, "example.Own"):
        assert np.all(_load(own)(x) == -1)
        assert _programs(own) == []
    _load(builtin)(x)
    assert _load(builtin)._cache.get([x], core.ISAS[-1], 2) is not None  # type: ignore[union-attr]
    with registry.scoped(negated, "F.relu"):
        assert _load(builtin)._cache.get([x], core.ISAS[-1], 2) is None  # type: ignore[union-attr]


def test_files_of_others_are_ignored(model: Path) -> None:
    x = _array(1, 3, 8, 8)
    expected = _load(model)(x)
    (path,) = _programs(model)
    path.chmod(0o666)
    with pytest.warns(UserWarning, match="others"):
        assert np.array_equal(_load(model)(x), expected)


def test_a_pipe_in_place_of_a_program(model: Path) -> None:
    x = _array(1, 3, 8, 8)
    expected = _load(model)(x)
    (path,) = _programs(model)
    path.unlink()
    os.mkfifo(path)
    with pytest.warns(UserWarning, match="too short"):
        assert np.array_equal(_load(model)(x), expected)
    assert path.is_file()


def test_a_folder_that_cannot_be_written(model: Path) -> None:
    (model.parent / "programs").write_text("a file")
    x = _array(1, 3, 8, 8)
    with pytest.warns(UserWarning, match="cannot write|ignored"):
        assert np.array_equal(_load(model)(x), pnnx_fast.load(model, num_threads=2)(x))


def test_a_path_is_not_empty(model: Path) -> None:
    for option in "cache", "autotune":
        with pytest.raises(ParameterError, match="an empty path"):
            pnnx_fast.load(model, **{option: ""})


def test_only_files_can_be_cached(model: Path, tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="only models in files"):
        pnnx_fast.load(model.read_bytes(), model.with_suffix(".bin").read_bytes(), cache=tmp_path)


def test_native_operators_in_the_place_of_others_are_not_kept(tmp_path: Path) -> None:
    @FUNCTIONS["run"]  # type: ignore[untyped-decorator]
    def seven(state: Any, x: Any, nx: int, y: Any, ny: int, host: Any) -> int:
        size = int(np.prod(y[0].shape[: y[0].rank]))
        np.ctypeslib.as_array(ctypes.cast(y[0].data, ctypes.POINTER(ctypes.c_float)), (size,))[:] = 7
        return 0

    model, x = _save(tmp_path, "torch.flip last 1 1 y z dims=(3)"), _array(1, 3, 8, 8)
    assert not np.all(_load(model)(x) == 7)
    assert _programs(model) != []
    native.define("torch.flip", run=seven, override=True)
    try:
        assert np.all(_load(model)(x) == 7)
    finally:
        registry.unregister("torch.flip")
    assert not np.all(_load(model)(x) == 7)
