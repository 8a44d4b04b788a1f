"""Comparison with a PyTorch module: the first submodule that differs is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pnnx_fast import Attribute, Graph

torch = pytest.importorskip("torch")

TEXT = """7767517
5 4
pnnx.Input  in   0 1 x #x=(2,6)f32
nn.Linear   fc1  1 1 x a bias=True in_features=6 out_features=5 @bias=(5)f32 @weight=(5,6)f32
nn.ReLU     act  1 1 a b
nn.Linear   fc2  1 1 b y bias=True in_features=5 out_features=3 @bias=(3)f32 @weight=(3,5)f32
pnnx.Output out  1 0 y
"""


def test_a_module_whose_submodules_have_the_names_of_operators() -> None:
    class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.fc1, self.act, self.fc2 = torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 3)

        def forward(self, x: object) -> object:
            return self.fc2(self.act(self.fc1(x)))

    net = Net().eval()
    graph = Graph.parse(TEXT)
    for op in graph.ops:
        for key in op.attrs:
            op.attrs[key] = Attribute(getattr(getattr(net, op.name), key).detach().numpy().copy())
    x = np.random.default_rng(0).standard_normal((2, 6)).astype(np.float32)
    rows = graph.compare(net, x)
    assert [row.operator for row in rows] == ["fc1", "act", "fc2"]
    assert all(row.matches for row in rows)
    with torch.no_grad():
        net.fc2.bias[0] += 1
    assert [row.operator for row in graph.compare(net, x) if not row.matches] == ["fc2"]


def test_a_module_that_returns_lists() -> None:
    class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            return x.relu(), [x + 1, x.sigmoid(), (x * 2,)]

    graph = Graph.parse(
        "7767517\n6 5\npnnx.Input in 0 1 x #x=(2,6)f32\nF.relu r 1 1 x a\nF.sigmoid s 1 1 x b\n"
        "pnnx.Expression e 2 1 x b n expr=[add(@0,1),@1,[mul(@0,2)]]\nprim::TupleConstruct t 2 1 a n y\n"
        "pnnx.Output out 1 0 y\n"
    )
    x = torch.linspace(-1, 1, 12).reshape(2, 6).requires_grad_()
    for reference in (Net(), graph):
        rows = graph.compare(reference, x)
        assert {row.operand: row.operator for row in rows} == {"a": "r", "b": "s", "n.0": "e", "n.2.0": "e"}
        assert all(row.matches for row in rows)


def test_a_module_that_is_called_twice_and_states() -> None:
    class Net(torch.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.act, self.gru = torch.nn.Softmax(2), torch.nn.GRU(3, 4, 2, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.gru(self.act(self.act(x)))[1][-1]

    net = Net().eval()
    graph = Graph.parse(
        "7767517\n6 5\npnnx.Input in 0 1 x #x=(2,5,3)f32\nnn.Softmax act 1 1 x a dim=2\n"
        "nn.Softmax other 1 1 a b dim=2\n"
        "nn.GRU gru 1 1 b h input_size=3 hidden_size=4 num_layers=2 batch_first=True bidirectional=False bias=True "
        "#b=(2,5,3)f32 #h=(2,2,4)f32\nTensor.select s 1 1 h y dim=0 index=-1\npnnx.Output out 1 0 y\n"
    )
    for key, value in net.gru.state_dict().items():
        graph.ops[3].attrs[key] = Attribute(value.numpy())
    rows = graph.compare(net, np.random.default_rng(0).standard_normal((2, 5, 3)).astype(np.float32))
    assert [(row.operator, row.operand, row.matches) for row in rows] == [
        ("act", "a", True),
        ("gru", "h", True),
        ("s", "y", True),
    ]
