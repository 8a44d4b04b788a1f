"""Small nets for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from pnnx_fast.formats.ncnn_bin import write_weight
from pnnx_fast.ncnn import Mat, Net

CHAIN = "7767517\n3 3\nInput in 0 1 a\nReLU r 1 1 a b\nReLU q 1 1 b c 0=0.5\n"


def param(*lines: str) -> str:
    """Text of a net; blobs are counted."""
    tops = sum(int(line.split()[3]) for line in lines)
    return "\n".join(["7767517", f"{len(lines)} {tops}", *lines]) + "\n"


def load(text: str, weights: bytes = b"") -> Net:
    """A net that loads without a complaint."""
    net = Net()
    assert net.load_param_mem(text) == 0
    assert net.load_model(weights) == 0
    return net


def chain() -> Net:
    """Two activations one behind the other: a, b, c."""
    return load(CHAIN)


def tagged(*arrays: Any) -> bytes:
    """Weights with float32 tags."""
    return b"".join(write_weight(np.asarray(a, np.float32).reshape(-1), "fp32") for a in arrays)


def run(net: Net, *names: str, **inputs: Any) -> Any:
    """Blobs of one run; a single one by itself."""
    ex = net.create_extractor()
    for name, array in inputs.items():
        assert ex.input(name, Mat(np.asarray(array))) == 0
    found = []
    for name in names:
        code, mat = ex.extract(name)
        assert code == 0, name
        found.append(mat.numpy().copy())
    return found if len(found) > 1 else found[0]
