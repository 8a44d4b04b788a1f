"""Shapes that a file notes are compared with those that are found, at the sizes of the trace; roles it leaves open."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ir.folded import FILLS, WRITES
from pnnx_fast.ops.registry import scoped
from pnnx_fast.ops.symbolic import Builder, Tensor
from pnnx_fast.runtime.compiler import DOUBTFUL

TEXT = """7767517
4 3
pnnx.Input x 0 1 x #x={given}f32
torch.flatten f 1 1 x a start_dim=0 end_dim=1 $input=x #x={given}f32 #a={noted}f32
nn.ReLU r 1 1 a y #a={noted}f32 #y={noted}f32
pnnx.Output o 1 0 y
"""


@pytest.mark.parametrize("kind", [*sorted(WRITES | FILLS), "Tensor.slice_copy"])
def test_doubts_are_looked_for_where_there_may_be_any(kind: str) -> None:
    assert any(part in kind for part in DOUBTFUL)


def test_a_contradiction_names_the_first_operator() -> None:
    model = pnnx_fast.Model(pnnx_fast.Graph.parse(TEXT.format(given="(2,3,4)", noted="(3,2,4)")))
    text = r"torch\.flatten f gives shape \[6, 4\] where the file notes \(3,2,4\)"
    with pytest.warns(UserWarning, match=text) as told:
        assert np.asarray(model(np.ones((2, 3, 4), np.float32))).shape == (6, 4)
    assert len(told) == 1


def test_notes_that_an_edit_leaves_behind_are_renewed() -> None:
    graph = pnnx_fast.Graph.parse(TEXT.format(given="(2,3,4)", noted="(6,4)"))
    pnnx_fast.edit.remove(graph, "f")
    x = np.ones((2, 3, 4), np.float32)
    with pytest.warns(UserWarning, match=r"than a change of the graph, which graph\.infer_shapes\(\) then renews"):
        pnnx_fast.Model(graph)(x)
    graph.infer_shapes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pnnx_fast.Model(graph)(x).shape == (2, 3, 4)


@pytest.mark.parametrize(
    "given, noted, size",
    [("(2,3,4)", "(6,4)", 2), ("(2,3,4)", "(5,4)", 5), ("(?,3,4)", "(7,4)", 2), ("(2,3,4)", "(?,4)", 2)],
)
def test_other_sizes_and_sizes_that_vary_are_no_contradiction(given: str, noted: str, size: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = pnnx_fast.Model(pnnx_fast.Graph.parse(TEXT.format(given=given, noted=noted)))
        assert np.asarray(model(np.ones((size, 3, 4), np.float32))).shape == (3 * size, 4)


def test_results_of_users_operators_are_theirs() -> None:
    graph = pnnx_fast.Graph.parse(TEXT.format(given="(2,3,4)", noted="(3,2,4)"))
    with warnings.catch_warnings(), scoped(_flat, "torch.flatten"):
        warnings.simplefilter("error")
        pnnx_fast.Model(graph)(np.ones((2, 3, 4), np.float32))


def _flat(b: Builder, input: Tensor, *, start_dim: int, end_dim: int) -> Tensor:
    return b.reshape(input, (24,))


def _write(values: np.ndarray, name: str = "pnnx_fold_out.1", *, count: int = 2, adds: bool = True) -> pnnx_fast.Graph:
    graph = pnnx_fast.Graph.parse(
        f"7767517\n6 5\npnnx.Input x 0 1 x #x=({count})f32\npnnx.Input i 0 1 i #i=({count})i64\n"
        f"pnnx.Attribute {name} 0 1 c @data=(4)f32 #c=(4)f32\npnnx.Expression e 1 1 i k expr=[@0]\n"
        f"Tensor.index_put w 3 1 c k x y accumulate={adds} $input=c $indices=k $values=x #x=({count})f32 #y=(4)f32\n"
        "pnnx.Output o 1 0 y\n"
    )
    for op in graph.ops:
        op.attrs = {k: pnnx_fast.Attribute(values.astype(np.float32)) for k in op.attrs}
    return graph


def test_a_constant_that_the_converters_run_may_have_changed_is_told() -> None:
    with pytest.warns(UserWarning, match=r"index_put w writes into the constant pnnx_fold_out\.1, .* may be wrong"):
        model = pnnx_fast.Model(_write(np.array([0, 3, 0, 1])))
    assert model(np.ones(2, np.float32), np.array([0, 1])).tolist() == [1, 4, 0, 1]


@pytest.mark.parametrize(
    "values, name", [(np.zeros(4), "pnnx_fold_out.1"), (np.full(4, -np.inf), "pnnx_fold_7"), (np.arange(4), "bank")]
)
def test_constants_of_one_value_and_parameters_are_written_to_as_they_are(values: np.ndarray, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pnnx_fast.Model(_write(values, name))


@pytest.mark.parametrize("count, adds", [(2, False), (4, True), (4, False)])
def test_only_a_write_to_all_places_leaves_nothing_of_a_constant(count: int, adds: bool) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pnnx_fast.Model(_write(np.arange(4), count=count, adds=adds))
    assert bool(caught) == (count == 2 or adds)
