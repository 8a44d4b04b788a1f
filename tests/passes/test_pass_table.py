"""The table of passes: every pass is found, and waits for the very types that it looks for."""

from __future__ import annotations

from importlib import import_module

import pytest

from pnnx_fast.ir.notes import COUNTING, KEEPING, RECURRENT, TRUTHS, WIDENING
from pnnx_fast.ops import registry
from pnnx_fast.passes import PASSES, RESTORING
from pnnx_fast.passes.drop_identity import IDENTITIES
from pnnx_fast.passes.fold_batch_norm import BATCH_NORMS
from pnnx_fast.passes.fuse_expression import OTHERS
from pnnx_fast.passes.pool_first import POOLS
from pnnx_fast.passes.restore_narrow import ARITHMETIC
from pnnx_fast.passes.restore_outputs import ONNX_LAYERS

LOOKED_FOR = {
    "restore_dtypes": WIDENING | KEEPING | COUNTING.keys() | {"pnnx.Expression"},
    "restore_truth": TRUTHS,
    "restore_narrow": ARITHMETIC | {"pnnx.Expression"},
    "restore_outputs": RECURRENT.keys() | ONNX_LAYERS.keys() | {"nn.MultiheadAttention"},
    "drop_identity": IDENTITIES,
    "fold_batch_norm": frozenset(BATCH_NORMS),
    "pool_first": POOLS.keys(),
}


@pytest.mark.parametrize("name", [*RESTORING, *PASSES])
def test_passes_wait_for_the_types_they_look_for(name: str) -> None:
    module, types = (RESTORING | PASSES)[name]
    assert callable(getattr(import_module(f"pnnx_fast.passes.{module}"), name))
    if name in LOOKED_FOR:
        assert set(types.split()) == LOOKED_FOR[name]


def test_types_that_are_no_expressions_exist() -> None:
    assert all(registry.find(name) is not None for name in OTHERS - {"pnnx.Input", "pnnx.Output"})
