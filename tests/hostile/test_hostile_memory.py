"""Small files that ask for large results: an error that says so, before memory is taken."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pnnx_fast import Graph, Model
from pnnx_fast._memory import check_memory, memory_limit
from pnnx_fast._types import Array
from pnnx_fast.errors import LimitError, ParameterError, ShapeError
from pnnx_fast.ncnn import DataReader, DataReaderFromEmpty, Mat, NcnnWarning, Net
from pnnx_fast.ops import array_functions as functions
from pnnx_fast.ops.matrix_functions import combinations

HUGE_LAYERS = [
    "Interp a 1 1 x y 0=1 3=200000 4=200000",
    "Interp a 1 1 x y 0=2 3=2000000000 4=1",
    "Interp a 1 1 x y 0=3 1=1e8 2=1",
    "Padding a 1 1 x y 0=2000000000 1=2000000000",
    "Tile a 1 1 x y -23302=3,20000,20000,20000",
    "Convolution a 1 1 x y 0=1 1=1 4=100000 6=4",
    "Deconvolution a 1 1 x y 0=1 1=1 3=100000 6=4",
    "Pooling a 1 1 x y 0=0 1=1 3=100000",
    "Pooling a 1 1 x y 0=1 7=1 8=200000 18=200000",
    "ROIPooling a 2 1 x x y 0=200000 1=200000",
    "Reshape a 1 1 x y 0=2000000000 1=2000000000",
]


def extract(layers: list[str]) -> int:
    net = Net()
    lines = [f"{len(layers) + 1} 99", "Input i 0 1 x", *layers]
    assert net.load_param_mem("\n".join(["7767517", *lines, ""])) == 0
    assert net.load_model(DataReaderFromEmpty()) == 0
    ex = net.create_extractor()
    ex.input("x", Mat(np.ones((4, 5, 6), np.float32)))
    return int(ex.extract("y")[0])


ARANGE = """7767517
3 2
pnnx.Input i 0 1 n #n=()i64
torch.arange a 1 1 n y $end=n
pnnx.Output o 1 0 y
"""


def test_ranges_whose_end_the_data_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "256M")
    model = Model(Graph.parse(ARANGE))
    assert model(np.array(7)).tolist() == list(range(7))
    with pytest.raises(LimitError, match="100000000 numbers"):
        model(np.array(100_000_000))


FILLED = """7767517
5 4
pnnx.Input i 0 1 n #n=()i64
pnnx.Expression e 1 1 n s expr=[int(add(@0,1)),@0,2]
torch.zeros a 1 1 s z dtype=torch.long $size=s
pnnx.Expression f 1 1 z y expr=add(@0,1)
pnnx.Output o 1 0 y
"""


def test_sizes_the_data_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "256M")
    model = Model(Graph.parse(FILLED))
    for n in (3, 5, 0):
        np.testing.assert_array_equal(model(np.array(n)), np.ones((n + 1, n, 2), np.int64))
    several = Model(Graph.parse(FILLED.replace("[int(add(@0,1)),@0,2]", "add(@0,1)").replace("()i64", "(2)i64")))
    np.testing.assert_array_equal(several(np.array([1, 2])), np.ones((2, 3), np.int64))
    with pytest.raises(LimitError, match="numbers"):
        model(np.array(100_000))
    with pytest.raises(ShapeError, match="negative size"):
        model(np.array(-5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: functions.eye(20_000, None, None, None, None),
        lambda: functions.linspace(0.0, 1.0, 1_000_000_000),
        lambda: functions.triangle_indices(np.tril_indices)(20_000, 20_000),
        lambda: functions.window(0.5, 0.5)(1_000_000_000, None, None, None, None),
        lambda: combinations(np.ones(100, np.float32), 8),
    ],
)
def test_numbers_whose_count_the_file_tells(make: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "256M")
    with pytest.raises(LimitError, match=r"numbers: .* memory are needed, the limit"):
        make()


@pytest.mark.parametrize(
    ("operator", "x", "what"),
    [
        ("torch.istft s 1 1 x y $input=x n_fft=16 hop_length=4294967296 length=40", np.ones((9, 12), "c8"), "numbers"),
        ("F.adaptive_avg_pool2d p 1 1 x y output_size=(20000,20000)", np.ones((1, 1, 4, 4), "i8"), "400000000 numbers"),
    ],
    ids=["frames far apart, of which a few samples are wanted", "windows without number"],
)
def test_operators_that_would_take_much(operator: str, x: Array, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "256M")
    graph = Graph.parse(f"7767517\n3 2\npnnx.Input i 0 1 x\n{operator}\npnnx.Output o 1 0 y\n")
    with pytest.raises(LimitError, match=rf"{what}: .* memory are needed, the limit"):
        Model(graph)(x)


DIAGONAL = """7767517
6 5
pnnx.Input i 0 1 x #x=(3)f32
prim::Constant a 0 1 offset value=20000
prim::Constant b 0 1 one value=-2
prim::Constant c 0 1 two value=-1
aten::diag_embed d 4 1 x offset one two y
pnnx.Output o 1 0 y
"""


def test_matrices_whose_size_a_number_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "256M")
    with pytest.raises(LimitError, match=r"diag_embed.*20003, 20003.*memory are needed, the limit"):
        Model(Graph.parse(DIAGONAL))(np.ones(3, np.float32))


def test_numbers_in_the_place_of_tensors() -> None:
    graph = Graph.parse(
        "7767517\n4 3\npnnx.Input i 0 1 x #x=(1,4,2,2)f32\npnnx.Input j 0 1 m #m=(4)f32\n"
        "F.batch_norm b 3 1 x m m y weight=100000 bias=5 $input=x $running_mean=m $running_var=m\npnnx.Output o 1 0 y\n"
    )
    with pytest.raises(ShapeError, match=r"F\.batch_norm b: one number a channel is needed .operand weight"):
        Model(graph)(np.ones((1, 4, 2, 2), np.float32), np.ones(4, np.float32))


@pytest.mark.filterwarnings("ignore::pnnx_fast.ncnn.NcnnWarning")
@pytest.mark.parametrize("layer", HUGE_LAYERS)
def test_huge_results(layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "256M")
    with pytest.warns(NcnnWarning, match="memory are needed, the limit"):
        assert extract([layer]) == -100


def test_many_results_that_live_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them would fit, all of them do not."""
    copies = [f"Interp b{i} 1 1 {'x' if i == 0 else f't{i - 1}'} t{i} 0=1 3={1000 + i} 4=1000" for i in range(6)]
    joined = ["ReLU c 1 1 t5 y"]
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "100M")
    assert extract([*copies, *joined]) == 0
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "20M")
    with pytest.warns(NcnnWarning, match=r"activations and results of a run: .* memory are needed, the limit"):
        assert extract([*copies, *joined]) == -100


def test_weights_without_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "1M")
    net = Net()
    net.load_param_mem("7767517\n2 2\nInput i 0 1 x\nInnerProduct a 1 1 x y 0=1000 2=1000000\n")
    with pytest.warns(NcnnWarning, match="weights of zeros"):
        assert net.load_model(DataReaderFromEmpty()) == -1


def test_weights_of_a_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application's reader is not asked for more than memory holds."""

    class Endless(DataReader):
        def read(self, buf: memoryview, size: int) -> int:
            return size

    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "1M")
    net = Net()
    net.load_param_mem("7767517\n2 2\nInput i 0 1 x\nInnerProduct a 1 1 x y 0=1000 2=1000000\n")
    with pytest.warns(NcnnWarning, match="weights of a reader"):
        assert net.load_model(Endless()) == -1


@pytest.mark.parametrize(("text", "size"), [("1000", 1000), ("2K", 2048), ("3 MiB", 3 << 20), ("8g", 8 << 30)])
def test_sizes_of_the_variable(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", text)
    assert memory_limit() == size
    check_memory(size, "just enough")
    with pytest.raises(LimitError, match=r"too much: .* memory are needed, the limit"):
        check_memory(size + 1, "too much")


def test_no_limit_and_nonsense(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PNNX_FAST_MEMORY_LIMIT", raising=False)
    assert 1 << 20 < memory_limit() < 1 << 50
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "0")
    check_memory(1 << 61, "anything")
    monkeypatch.setenv("PNNX_FAST_MEMORY_LIMIT", "much")
    with pytest.raises(ParameterError, match="a number of bytes"):
        memory_limit()


def test_windows_of_many_planes_are_lowered_as_they_are() -> None:
    graph = Graph.parse("""7767517
4 3
pnnx.Input x 0 1 x #x=(1,4,1,8,8)f32
pnnx.Input w 0 1 w #w=(4,3,100000,2,2)f32
F.conv_transpose3d c 2 1 x w y bias=None stride=(1,1,1) padding=(0,0,0) output_padding=(0,0,0) \
dilation=(1,1,1) groups=1 $input=x $weight=w
pnnx.Output o 1 0 y
""")
    x, w = np.ones((1, 4, 1, 8, 8), np.float32), np.ones((4, 3, 100_000, 2, 2), np.float32)
    assert Model(graph).work(x, w)["steps"] < 10
