"""Recurrent kernels against PyTorch's layers: order of gates, place of the biases, directions."""

from __future__ import annotations

import numpy as np
import pytest
from test_rnn import GATES, Layer

torch = pytest.importorskip("torch")
MODULES = {"lstm_f32": "LSTM", "gru_f32": "GRU", "rnn_f32": "RNN"}


@pytest.mark.parametrize("kernel", GATES)
@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize("proj", [0, 5])
def test_torch(isa: str, kernel: str, proj: int) -> None:
    if proj and kernel != "lstm_f32":
        pytest.skip("projections belong to LSTM")
    layer = Layer(kernel, 2, 6, 4, 19, proj)
    options = {"proj_size": proj} if proj else {}
    module = getattr(torch.nn, MODULES[kernel])(7, 19, bidirectional=True, **options)
    x = torch.randn(6, 4, 7)
    p = {k: v.detach().numpy() for k, v in module.named_parameters()}
    for d, suffix in enumerate(("", "_reverse")):
        both = p["bias_hh_l0" + suffix].copy()
        if kernel == "gru_f32":
            layer.bias[d][:] = both[2 * 19 :]
            both[2 * 19 :] = 0
        gates = x.numpy() @ p["weight_ih_l0" + suffix].T + p["bias_ih_l0" + suffix] + both
        layer.g[:, :, d] = gates.reshape(6, 4, -1, 19)
        layer.w[d][:] = p["weight_hh_l0" + suffix]
        if proj:
            layer.wr[d][:] = p["weight_hr_l0" + suffix]
    state = (torch.from_numpy(layer.h0), torch.from_numpy(layer.c0)) if layer.gates == 4 else torch.from_numpy(layer.h0)
    want = module(x, state)[0].detach().numpy()
    np.testing.assert_allclose(layer.run(isa, 2)[0].reshape(want.shape), want, rtol=0, atol=2e-6)
