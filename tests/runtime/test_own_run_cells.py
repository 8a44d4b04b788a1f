"""Products of constant hidden states, which recurrent cells wrote to in the converter's own run."""

from __future__ import annotations

import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.runtime.own_run import wind_back

HEAD = """7767517
{count} {operands}
pnnx.Input i 0 1 x #x=(2,3)f32
"""
RNN = """pnnx.Attribute pnnx_fold_c 0 1 c @data=(2,2)f32 #c=(2,2)f32
nn.Linear F_linear_0 1 1 x i bias=True in_features=3 out_features=2 @bias=(2)f32 @weight=(2,3)f32 #i=(2,2)f32
pnnx.Expression e 2 1 c i s expr=add(@0,@1) #c=(2,2)f32 #i=(2,2)f32 #s=(2,2)f32
F.tanh t 1 1 s y $input=s #s=(2,2)f32 #y=(2,2)f32
"""
AGAIN = """nn.Linear F_linear_1 1 1 y h bias=True in_features=2 out_features=2 @bias=(2)f32 @weight=(2,2)f32 \
#y=(2,2)f32 #h=(2,2)f32
"""
LSTM = """pnnx.Attribute pnnx_fold_c 0 1 c @data=(2,8)f32 #c=(2,8)f32
nn.Linear F_linear_0 1 1 x i bias=True in_features=3 out_features=8 @bias=(8)f32 @weight=(8,3)f32 #i=(2,8)f32
pnnx.Expression e 2 1 c i s expr=add(@0,@1) #c=(2,8)f32 #i=(2,8)f32 #s=(2,8)f32
pnnx.Expression n 0 1 n expr=4
pnnx.Expression d 0 1 d expr=1
aten::unsafe_chunk k 3 1 s n d l #s=(2,8)f32
prim::ListUnpack u 1 4 l a b g o #a=(2,2)f32 #b=(2,2)f32 #g=(2,2)f32 #o=(2,2)f32
F.sigmoid fa 1 1 a ya $input=a #a=(2,2)f32 #ya=(2,2)f32
F.sigmoid fb 1 1 b yb $input=b #b=(2,2)f32 #yb=(2,2)f32
F.tanh fg 1 1 g yg $input=g #g=(2,2)f32 #yg=(2,2)f32
F.sigmoid fo 1 1 o yo $input=o #o=(2,2)f32 #yo=(2,2)f32
torch.cat y 4 1 ya yb yg yo y dim=1 #ya=(2,2)f32 #yb=(2,2)f32 #yg=(2,2)f32 #yo=(2,2)f32 #y=(2,8)f32
"""
TOLD = "Expression e writes into the constant pnnx_fold_c"


def graph_of(lines: str, output: str = "y", **data: Any) -> pnnx_fast.Graph:
    """A graph with arrays for its constants and the biases of its layers, whose weights are 1/8."""
    end, names = f"pnnx.Output out 1 0 {output}\n", {line.split()[1] for line in lines.splitlines()}
    operands = 1 + sum(int(line.split()[3]) for line in lines.splitlines())
    graph = pnnx_fast.Graph.parse(HEAD.format(count=len(names) + 2, operands=operands) + lines + end)
    for op in graph.ops:
        if op.type == "nn.Linear":
            rows, columns = (int(op.params[key].value) for key in ("out_features", "in_features"))
            op.attrs["weight"] = pnnx_fast.Attribute(np.full((rows, columns), 0.125, np.float32))
        for key in op.attrs:
            if op.name in data and key != "weight":
                op.attrs[key] = pnnx_fast.Attribute(np.float32(data[op.name]))
    return graph


def silent(graph: pnnx_fast.Graph) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return pnnx_fast.Model(graph)(np.zeros((2, 3), np.float32))


def activated(sums: Any) -> Any:
    gates = 1 / (1 + np.exp(-sums))
    gates[:, 4:6] = np.tanh(sums[:, 4:6])
    return gates


def test_a_later_use_of_the_layer_tells_what_a_sum_was() -> None:
    graph = graph_of(RNN + AGAIN, "h", F_linear_0=[1, 2], F_linear_1=[5, -7], pnnx_fold_c=[[6.375, -4.625]] * 2)
    np.testing.assert_allclose(silent(graph), np.tanh([[6, -5]] * 2).sum(1)[:, None] / 8 + [[5, -7]] * 2, rtol=1e-6)


def test_a_sum_that_went_elsewhere_stays() -> None:
    graph = graph_of(RNN + AGAIN, "h", F_linear_0=[1, 2], F_linear_1=[5, -7], pnnx_fold_c=[[5, -7]] * 2)
    np.testing.assert_allclose(silent(graph), np.tanh([[6, -5]] * 2).sum(1)[:, None] / 8 + [[5, -7]] * 2, rtol=1e-6)


def test_a_sum_alone_tells_nothing() -> None:
    with pytest.warns(UserWarning, match=TOLD):
        pnnx_fast.Model(graph_of(RNN, F_linear_0=[1, 2], pnnx_fold_c=[[6.375, -4.625]] * 2))


@pytest.mark.parametrize("name", ["module", "linear_0"])
def test_sums_of_modules_are_no_cells(name: str) -> None:
    lines = RNN.replace("F_linear_0", name)
    silent(graph_of(lines, **{name: [1, 2]}, pnnx_fold_c=[[6.375, -4.625]] * 2))


def test_gates_are_turned_back() -> None:
    product, bias = np.float32([[3, -3, 2, 0, 1, -1, 4, -20], [1, 2, 3, 4, 0, 0.5, 1, -1]]), np.linspace(-1, 1, 8)
    constant = activated(product + bias + 0.375)
    got = silent(graph_of(LSTM, F_linear_0=bias, pnnx_fold_c=constant))
    np.testing.assert_allclose(got, activated(product + bias), 1e-5, 1e-5)


@pytest.mark.parametrize("place, value", [(0, 9.0), (2, 20.0), (0, -90.0), (4, 5.0), (5, -9.0)])
def test_gates_near_their_limits_tell_too_little(place: int, value: float) -> None:
    product = np.zeros((2, 8))
    product[1, place] = value
    with pytest.warns(UserWarning, match=TOLD):
        pnnx_fast.Model(graph_of(LSTM, F_linear_0=np.zeros(8), pnnx_fold_c=activated(product + 0.375)))


@pytest.mark.parametrize("constant", [np.zeros(8), np.linspace(-1, 1, 8), np.full(8, 1.5)])
def test_what_no_gates_explain_stays(constant: Any) -> None:
    constant = np.tile(constant, (2, 1))
    np.testing.assert_allclose(
        silent(graph_of(LSTM, F_linear_0=np.zeros(8), pnnx_fold_c=constant)), activated(constant), 1e-5
    )


def test_what_was_mended_and_saved_is_not_mended_again(tmp_path: Path) -> None:
    bias, product = np.linspace(-1, 1, 8), np.tile(np.linspace(0.1, 0.8, 8), (2, 1))  # like gates themselves
    graph = graph_of(LSTM, F_linear_0=bias, pnnx_fold_c=activated(product + bias + 0.375))
    graph.make_dynamic({"x": (0,)})
    constant = next(op for op in graph.ops if op.type == "pnnx.Attribute")
    np.testing.assert_allclose(constant.attrs["data"].numpy(), product, 1e-5)
    graph.save(tmp_path / "m.pnnx.param")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = pnnx_fast.load(tmp_path / "m.pnnx.param")(np.zeros((2, 3), np.float32))
    np.testing.assert_allclose(got, activated(product + bias), 1e-5)


def test_python_source_holds_what_it_was_unless_a_file_does(tmp_path: Path) -> None:
    bias = np.linspace(-1, 1, 8)
    graph = graph_of(LSTM, F_linear_0=bias, pnnx_fold_c=activated(np.tile(bias, (2, 1)) + 0.375))
    graph.save(tmp_path / "m.pnnx.param")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        graph.python(tmp_path / "a.py")
    with pytest.warns(UserWarning, match="pnnx.Attribute pnnx_fold_c is in the file of weights"):
        graph.python(tmp_path / "b.py", tmp_path / "m.pnnx.bin")


def test_equal_constants_are_written_to_apart() -> None:
    other = """nn.Linear F_linear_2 1 1 x j bias=True in_features=3 out_features=2 @bias=(2)f32 @weight=(2,3)f32 \
#j=(2,2)f32
pnnx.Expression f 2 1 c j r expr=add(@0,@1) #c=(2,2)f32 #j=(2,2)f32 #r=(2,2)f32
F.tanh v 1 1 r w $input=r #r=(2,2)f32 #w=(2,2)f32
pnnx.Expression z 2 1 h w z expr=add(@0,@1)
"""
    biases = {"F_linear_0": [1, 2], "F_linear_1": [5, -7], "F_linear_2": [1, 2]}
    graph = graph_of(RNN + AGAIN + other, "z", **biases, pnnx_fold_c=[[6.375, -4.625]] * 2)
    first = np.tanh([[6, -5]] * 2)
    np.testing.assert_allclose(silent(graph), first.sum(1)[:, None] / 8 + [[5, -7]] * 2 + first, rtol=1e-6)


def test_a_run_of_which_nothing_is_left() -> None:
    """Attention that finds everything masked in a run on ones, for example, gives NaN; the layer's bias is known."""
    graph = graph_of(RNN + AGAIN, "h", F_linear_0=[np.nan] * 2, F_linear_1=[5, -7], pnnx_fold_c=[[np.nan] * 2] * 2)
    noted = next(op for op in graph.ops if op.type == "pnnx.Attribute")
    wind_back(graph, "generic")
    np.testing.assert_array_equal(noted.attrs["data"].numpy(), [[5, -7]] * 2)


@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_of_the_converter_run_as_in_torch(kind: str, tmp_path: Path) -> None:
    torch: Any = pytest.importorskip("torch")
    pnnx: Any = pytest.importorskip("pnnx")

    class Loop(torch.nn.Module):  # type: ignore[misc, name-defined]
        """Two cells on top of each other, and one whose state is a parameter, which sums alone do not tell."""

        def __init__(self) -> None:
            super().__init__()
            self.below, self.above, self.once = (getattr(torch.nn, kind)(n, 6) for n in (4, 6, 4))
            self.state = torch.nn.Parameter(torch.randn(1, 6))

        def forward(self, x: Any) -> Any:
            below = above = None
            results = []
            for step in x.unbind(1):
                below = self.below(step, below)
                above = self.above(below[0] if kind == "LSTMCell" else below, above)
                results.append(above[0] if kind == "LSTMCell" else above)
            if kind != "RNNCell":
                state = self.state.expand(2, -1)
                once = self.once(x[:, 0], (state, state) if kind == "LSTMCell" else state)
                results.append(once[0] if kind == "LSTMCell" else once)
            return torch.stack(results)

    torch.manual_seed(0)
    model, x = Loop().eval(), torch.randn(2, 3, 4)
    with suppress(SyntaxError):  # of the source that the converter writes and imports
        pnnx.export(model, str(tmp_path / "c.pt"), x, fp16=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = pnnx_fast.load(tmp_path / "c.pnnx.param")(x.numpy())
    np.testing.assert_allclose(got, model(x).detach().numpy(), 1e-5, 1e-5)
