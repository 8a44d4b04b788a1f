"""Damaged files never do more than warn and return a code."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from layer_cases import CASES
from layer_inputs import text
from nets import param, tagged

from pnnx_fast import ncnn
from pnnx_fast.formats.ncnn_param import read_text
from pnnx_fast.formats.ncnn_param_bin import write_binary

TEXT = param(
    "Input in 0 1 a -23330=4,3,6,6,3",
    "Convolution c 1 1 a b 0=4 1=3 4=1 5=1 6=108 9=2 -23310=1,0.1",
    "Split s 1 2 b b0 b1",
    "Pooling p 1 1 b0 d 0=0 1=2 2=2",
    "Reshape r 1 1 d e 0=-1 1=4",
    "BatchNorm n 1 1 b1 f 0=4",
    "InnerProduct i 1 1 e g 0=2 2=72",
    'Reshape q 1 1 f h 6="*(0w,0h),0c"',
    "Slice t 1 2 h k l -23300=2,1,-233",
)
WEIGHTS = tagged(np.ones(108)) + np.ones(4 + 16, np.float32).tobytes() + tagged(np.ones(72))
ODD = ["0", "1", "-1", "-233", "3", "100000", "999999999", "1e30", "nan", "2.5"]
WORDS = [b"-233", b"0", b"999999999", b"-1", b"1e9", b"=", b"-23300=", b" ", b"\n", b"Convolution", b"1", b"nan", b'"']


def attempt(param_bytes: bytes, weights: bytes, binary: bool) -> int:
    """Load and run; how far it got."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ncnn.NcnnWarning)
        net = ncnn.Net()
        if net.load_param_bin(param_bytes) if binary else net.load_param(param_bytes):
            return 0
        if net.load_model(weights):
            return 1
        ex = net.create_extractor()
        for i in net.input_indexes():
            ex.input(i, ncnn.Mat(np.ones((3, 6, 6), np.float32)))
        return 2 + max((ex.extract(i)[0] == 0 for i in net.output_indexes()), default=0)


def test_the_net_is_sound() -> None:
    assert attempt(TEXT.encode(), WEIGHTS, False) == 3


@pytest.mark.parametrize("seed", range(4))
def test_text(seed: int) -> None:
    rng = np.random.default_rng(seed)
    reached = set()
    for _ in range(60):
        data = bytearray(TEXT.encode())
        for _ in range(rng.integers(1, 4)):
            at = int(rng.integers(20, len(data)))
            word = WORDS[rng.integers(len(WORDS))]
            data[at : at + int(rng.integers(0, 4))] = word
        reached.add(attempt(bytes(data), WEIGHTS, False))
    assert 0 in reached


@pytest.mark.parametrize("seed", range(4))
def test_binary(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sound = write_binary(read_text(TEXT.encode()))
    for _ in range(60):
        data = np.frombuffer(sound, np.int32).copy()
        data[rng.integers(1, len(data), 2)] = rng.choice([-233, 0, 1, -1, 7, 1 << 20, 2**31 - 1, -(2**31)], 2)
        attempt(data.tobytes()[: int(rng.integers(8, len(sound) + 40))], WEIGHTS, True)


@pytest.mark.parametrize("seed", range(2))
def test_weights(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(60):
        data = bytearray(WEIGHTS)
        for at in rng.integers(0, len(data), 3):
            data[at] = int(rng.integers(256))
        attempt(TEXT.encode(), bytes(data[: int(rng.integers(0, len(data) + 50))]), False)


def test_parameters_of_every_layer_with_odd_values() -> None:
    """Cases that work, with numbers replaced by ones that no tool writes."""
    rng = np.random.default_rng(9)
    for case in CASES[::3]:
        words = case.params.split()
        if not words:
            continue
        for _ in range(2):
            changed = list(words)
            at = int(rng.integers(len(words)))
            key, _, value = changed[at].rpartition("," if "," in changed[at] else "=")
            changed[at] = f"{key}{'=' if '=' not in key else ','}{rng.choice(ODD)}" if value else changed[at]
            odd = replace(case, params=" ".join(changed))
            attempt(text(odd).encode(), bytes(4000), False)
