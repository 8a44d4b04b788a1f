"""Random weights and choice of blobs of the benchmark against the ncnn package; nothing is timed."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from nets import param, run

# Last, so that the installed package is found before the sources beside the benchmarks.
sys.path.append(str(Path(__file__).parents[2]))

from benchmarks import ncnn_models, ncnn_weights
from pnnx_fast import ncnn

TEXT = param(
    "Input in 0 1 a",
    "Convolution c 1 1 a b 0=4 1=3 4=1 5=1 6=108 9=1 8=2",
    "BatchNorm n 1 1 b d 0=4",
    "InnerProduct i 1 1 d e 0=2 1=1 2=288",
    "Softmax s 1 1 e f",
)


def test_random_weights_fit_the_net(tmp_path: Path) -> None:
    net = ncnn.Net()
    assert net.load_param_mem(TEXT) == 0
    path = tmp_path / "net.bin"
    ncnn_weights.write_random(net, path)
    tags = 4 * 2
    assert path.stat().st_size == ncnn_weights.size_of(net) + tags
    again = ncnn.Net()
    assert again.load_param_mem(TEXT) == 0
    assert again.load_model(str(path)) == 0
    found = run(again, "e", a=np.ones((3, 6, 6), np.float32))
    assert np.isfinite(found).all()
    assert 0.01 < np.abs(found).max() < 100


def test_what_is_compared_tells_something(tmp_path: Path) -> None:
    path = tmp_path / "net.param"
    path.write_text(TEXT)
    assert ncnn_models._comparable(path, ["f"]) == ["e"]
    assert ncnn_models._comparable(path, ["d"]) == ["d"]
