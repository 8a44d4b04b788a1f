"""The benchmark of single kernels: shapes are read, algorithms found, every figure is there."""

from __future__ import annotations

import argparse

import pytest

from pnnx_fast._core import program as core
from pnnx_fast.cli import kernel_shapes, kernels, main
from pnnx_fast.ops._conv_choice import PAIRS_LEVELS, SPLIT_LEVELS


def test_shapes() -> None:
    shape = kernel_shapes.parse("conv:64x56x56,oc=128,k=5,d=2")
    assert (shape.sizes, shape["oc"], shape["k"], shape["p"], shape["g"]) == ((64, 56, 56), 128, 5, 4, 1)
    assert kernel_shapes.parse("linear:8x16")["oc"] == 16
    assert kernel_shapes.parse("attention:2x8x4")["keys"] == 8
    assert len(kernel_shapes.of_groups("all")) > 80


@pytest.mark.parametrize(
    "text",
    ["", "conv", "conv:64x56", "conv:0x8x8", "conv:8x8x8,oc", "conv:8x8x8,z=3", "conv:6x8x8,g=4", "conv:8x8x8,k=0",
     "fly:3x3", "linear:4", "conv:99999x99999x99999"],
)  # fmt: skip
def test_shapes_that_are_none(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        kernel_shapes.parse(text)


SMALL = {
    "conv:16x8x8": {"conv_winograd_f32", "conv_f32"},
    "conv:16x8x8,oc=4,k=1": {"conv_f32"},
    "conv:3x9x9,oc=8,s=2": {"conv_stem_f32", "conv_f32", "conv_winograd_f32"},
    "conv:32x8x8,s=2": {"conv_winograd_f32", "conv_f32"},
    "conv:32x8x8,g=32": {"conv_depthwise_f32"},
    "conv:32x8x8,g=16": {"conv_grouped_f32", "conv_f32", "conv_winograd_f32"},
    "transposed:8x4x4": {"conv_f32"},
    "linear:3x20,oc=7": {"conv_f32"},
    "matmul:2x5x6": {"matmul_f32"},
    "attention:2x9x16": {"attention_f32"},
    "layer_norm:3x40": {"row_norm"},
    "softmax:3x40": {"softmax"},
    "gelu:3x40": {"expression"},
    "max_pool:8x9x9": {"max_pool"},
}


@pytest.mark.parametrize("text", SMALL)
def test_every_algorithm(isa: str, text: str) -> None:
    for threads in (1, 2):
        found = kernels.time_shape(isa, threads, kernel_shapes.parse(text), 0.0)
        assert found[0].chosen
        assert sum(t.chosen for t in found) == 1
        more = set()
        if "conv_f32" in SMALL[text] and not text.startswith("transposed"):
            levels = {"conv_split_f32": SPLIT_LEVELS, "conv_pairs_f32": PAIRS_LEVELS}
            more = {kernel for kernel, offered in levels.items() if isa in offered}
        thin = {"conv_thin_f32"} if isa != "generic" and text.startswith("linear:3x") else set()
        assert {t.kernel for t in found} == SMALL[text] | more | thin
        assert len({t.algorithm for t in found}) == len(found)
        assert all(0 < t.seconds < 10 and t.nbytes > 0 for t in found)
        assert all((t.flops > 0) == kernel_shapes.parse(text).multiplies for t in found)


def test_peak(isa: str) -> None:
    assert 1e8 < kernels.peak(isa, 1) < 1e13


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    shapes = ["--shape", "conv:16x8x8", "--shape", "gelu:4x64"]
    assert main(["bench", "--kernels", *shapes, "--threads", "1", "--isa", core.ISAS[0], "--seconds", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{core.ISAS[0]}, 1 thread(s), peak ")
    assert lines[1].split() == ["shape", "algorithm", "ms", "GFLOP/s", "of", "peak", "GB/s"]
    assert sum(" * " in line for line in lines[2:]) == 2


def test_groups_that_do_not_exist() -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no group of shapes 'none'"):
        kernel_shapes.of_groups("bert,none")
