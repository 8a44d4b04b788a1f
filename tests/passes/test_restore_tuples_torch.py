"""Recurrent layers of scripted models, whose results are read from tuples, in runs and in Python source."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.errors import PnnxFastError

torch = pytest.importorskip("torch")

SIZES = {"y": "(2,5,6)f32", "h": "(1,2,6)f32", "c": "(1,2,6)f32"}

LOWERED: dict[str, tuple[str, str, str]] = {
    "states unpacked": ("nn.LSTM", "y s", "prim::TupleUnpack u 1 2 s h c"),
    "states by index": ("nn.LSTM", "y s", "prim::TupleIndex a 2 1 s zero h | prim::TupleIndex b 2 1 s last c"),
    "all unpacked": ("nn.LSTM", "r", "prim::TupleUnpack t 1 2 r y s | prim::TupleUnpack u 1 2 s h c"),
    "all by index": (
        "nn.LSTM", "r",
        "prim::TupleIndex a 2 1 r zero y | prim::TupleIndex b 2 1 r one s | prim::TupleIndex d 2 1 s one c",
    ),
    "unpacked, then by index": ("nn.LSTM", "r", "prim::TupleUnpack t 1 2 r y s | prim::TupleIndex b 2 1 s last c"),
    "sequence alone": ("nn.LSTM", "r", "prim::TupleIndex a 2 1 r zero y"),
    "one state": ("nn.GRU", "r", "prim::TupleIndex a 2 1 r one h"),
    "both of two": ("nn.GRU", "r", "prim::TupleIndex a 2 1 r last h | prim::TupleIndex b 2 1 r zero y"),
}  # fmt: skip
"""What it is -> type of the layer, its outputs, and what reads them."""


def scripted(kind: str, outputs: str, readers: str) -> tuple[pnnx_fast.Graph, list[str], torch.nn.Module]:
    torch.manual_seed(0)
    module = getattr(torch.nn, kind[3:])(4, 6, batch_first=True)
    lines = ["pnnx.Input in 0 1 x #x=(2,5,4)f32", "pnnx.Expression none 0 1 none expr=None"]
    lines += [f"pnnx.Expression {k} 0 1 {k} expr={v}" for k, v in (("zero", 0), ("one", 1), ("last", -1))]
    fields = "input_size=4 hidden_size=6 num_layers=1 bias=True batch_first=True bidirectional=False"
    fields += " proj_size=0" if kind == "nn.LSTM" else ""
    noted = " ".join(f"#{name}={SIZES[name]}" for name in outputs.split() if name in SIZES)
    lines.append(f"{kind} m 2 {len(outputs.split())} x none {outputs} {fields} {noted}")
    for reader in readers.split(" | "):
        lines.append(" ".join([reader, *(f"#{w}={SIZES[w]}" for w in reader.split() if w in SIZES and w != reader[0])]))
    read = f"{outputs} {readers}".split()
    named = [name for name in "yhc" if name in read]
    lines += [f"pnnx.Output o{name} 1 0 {name}" for name in named]
    graph = pnnx_fast.Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines)}", *lines]) + "\n")
    layer = next(op for op in graph.ops if op.type == kind)
    for key, value in module.state_dict().items():
        layer.attrs[key] = pnnx_fast.Attribute(value.numpy())
    return graph, named, module


@pytest.mark.parametrize("case", LOWERED)
def test_results_in_tuples(case: str, tmp_path: Path) -> None:
    graph, named, module = scripted(*LOWERED[case])
    x = np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)
    with torch.no_grad():
        y, states = module(torch.from_numpy(x))
    wanted = dict(zip("yhc", (y, *states) if isinstance(states, tuple) else (y, states), strict=False))
    graph.save(tmp_path / "m.pnnx.param")
    simplified = graph.copy()
    simplified.simplify()
    assert not any(op.type.startswith("prim::Tuple") for op in simplified.ops)
    for model in (*map(pnnx_fast.Model, (graph, simplified)), pnnx_fast.load(tmp_path / "m.pnnx.param")):
        got = model(x)
        for name, value in zip(named, got if isinstance(got, tuple) else (got,), strict=True):
            np.testing.assert_allclose(value, wanted[name].numpy(), 1e-5, 1e-6)
    graph.python(tmp_path / "m.py")
    space = runpy.run_path(str(tmp_path / "m.py"))
    with torch.no_grad():
        got = space["Model"]().eval()(torch.from_numpy(x))
    for name, value in zip(named, got if isinstance(got, tuple) else (got,), strict=True):
        np.testing.assert_allclose(value.numpy(), wanted[name].numpy(), 1e-5, 1e-6)


@pytest.mark.parametrize(("kind", "outputs", "reader"), [
    ("nn.LSTM", "y s", "prim::TupleIndex a 2 1 s two h"),
    ("nn.LSTM", "y s", "prim::TupleUnpack u 1 3 s h c d"),
    ("nn.LSTM", "y s", "prim::TupleUnpack u 2 2 s s h c"),
    ("nn.LSTM", "r", "prim::TupleIndex a 2 1 r r h"),
])  # fmt: skip
def test_what_is_not_in_a_tuple_is_not_read(kind: str, outputs: str, reader: str) -> None:
    graph, _, _ = scripted(kind, outputs, reader.replace("two", "zero"))
    if "two" in reader:
        next(op for op in graph.ops if op.name == "zero").params["expr"] = "2"
    with pytest.raises(PnnxFastError):
        pnnx_fast.Model(graph)(np.zeros((2, 5, 4), np.float32))
