"""The attention kernel against torch.nn.functional.scaled_dot_product_attention."""

from __future__ import annotations

import numpy as np
import pytest
from attention_case import attention, close, operands

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("size", [(2, 4, 4, 33, 65, 32, 32), (1, 4, 2, 20, 20, 40, 24)])
@pytest.mark.parametrize("mask", ["none", "float", "bool", "causal"])
def test_torch(isa: str, size: tuple[int, ...], mask: str) -> None:
    q, k, v = operands(size)
    rng = np.random.default_rng(3)
    added = None
    if mask == "float":
        added = rng.standard_normal((1, 1, size[3], size[4])).astype("f4")
        added[..., 3, :] = -np.inf
    if mask == "bool":
        added = rng.random((size[0], 1, size[3], size[4])) > 0.5
        added[:, 0, 4] = False
    group = size[1] // size[2]
    want = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(q),
        torch.from_numpy(np.repeat(k, group, 1)),
        torch.from_numpy(np.repeat(v, group, 1)),
        attn_mask=None if added is None else torch.from_numpy(added),
        is_causal=mask == "causal",
    ).numpy()
    y = np.full(want.shape, np.nan, "f4")
    kind = {"float": "add", "bool": "keep"}.get(mask, "none")
    raw = added.view(np.uint8) if mask == "bool" else added
    close(attention(isa, 2, q, k, v, y, size[5] ** -0.5, raw, kind, causal=int(mask == "causal")), want, 2e-6)
