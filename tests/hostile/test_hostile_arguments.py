"""Operators whose operands or parameters are of a kind that no sound file has: the complaint says where and what."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from pnnx_fast import Graph, Model
from pnnx_fast.errors import ExpressionError, LimitError, ParameterError, PnnxFastError, ShapeError

# n is a number, w a word, l a list of x twice, e an empty list, z a tensor without dimensions.
MADE = {
    "n": "prim::Constant n 0 1 n value=2.5",
    "i": "prim::Constant i 0 1 i value=2",
    "w": "prim::Constant w 0 1 w value=word",
    "l": "prim::ListConstruct l 2 1 x x l",
    "e": "prim::ListConstruct e 0 1 e",
    "z": "torch.sum z 1 1 x z",
    "nan": "prim::Constant nan 0 1 nan value=nan",
    "huge": "prim::Constant huge 0 1 huge value=4611686018427387904",
    "none": "prim::Constant none 0 1 none value=None",
}


def model(line: str) -> Model:
    operands = line.split()[4:]
    made = [text for name, text in MADE.items() if name in operands]
    lines = ["pnnx.Input in 0 1 x #x=(2,3)f32", *made, line, "pnnx.Output out 1 0 y"]
    return Model(Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines) - 1}", *lines, ""])))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("torch.cross r 2 1 l x y", "'input' must be a tensor"),
        ("torch.cumprod r 1 1 w y dim=0", "'input' must be a tensor, not 'word'"),
        ("nn.MaxPool1d r 1 1 l y kernel_size=1", "'input' must be a tensor"),
        ("torch.mv r 2 1 x none y", "must be a tensor, not None"),
        ("F.batch_norm r 3 1 x l x y", "must be a tensor"),
        ("torch.cat r 2 1 x w y dim=0", "a tensor or a number is expected, not 'word'"),
        ("aten::vstack r 1 1 w y", "'tensors' must be a tensor, not 'word'"),
        ("aten::broadcast_tensors r 1 1 none y", "must be a tensor, not None"),
        ("torch.masked_fill r 2 1 x x y value=word", "a tensor or a number is expected, not 'word'"),
        ("aten::mm r 1 1 x y", "1 arguments instead of 2"),
        ("aten::mm r 2 1 x none y", "'mat2' is missing"),
        ("aten::bitwise_and r 1 1 x y", "1 arguments instead of 2"),
        ("aten::signbit r 2 1 x x y", "2 arguments instead of 1"),
        ("aten::special_bessel_j1 r 2 1 x x y", "2 arguments instead of 1"),
        ("aten::histc r 1 1 w y", "'x' must be a tensor, not 'word'"),
        ("aten::special_multigammaln r 2 1 x huge y", "p must be an integer from 1"),
        ("aten::avg_pool3d r 7 1 x i i i i i w y", "'ceil_mode' must be bool, not 2"),
        ("Tensor.reshape r 1 1 x y shape=(--1,6)", "shape must be integers"),
        ("Tensor.reshape r 1 1 x y shape=(1.5,4)", "shape must be integers"),
        ("Tensor.reshape r 1 1 x y shape=(1e30,6)", "shape must be integers"),
        ("torch.full_like r 1 1 x y fill_value=(1,2)", "fill_value must be a number"),
        ("torch.roll r 1 1 x y shifts=(1) dims=word", "must be an integer|dim"),
        ("nn.PixelUnshuffle r 1 1 x y downscale_factor=0", "downscale_factor must be positive"),
        ("F.scaled_dot_product_attention r 3 1 z z z y", "dimensions"),
        ("nn.PixelShuffle r 1 1 x y upscale_factor=2", "needs at least 3 dimensions"),
        ("nn.ChannelShuffle r 1 1 z y groups=1", "needs at least 2 dimensions"),
        ("nn.Unfold r 1 1 x y kernel_size=(2,2)", "needs 3 or 4 dimensions"),
        ("F.unfold r 1 1 x y kernel_size=()", "1 or 2 integers|needs 3 to 4"),
        ("nn.GLU r 1 1 z y dim=-1", "needs at least 1 dimensions"),
        ("torch.fft.hfft r 1 1 z y", "needs at least 1 dimensions"),
        ("torch.fft.ifftn r 1 1 x y s=(2,2,2) dim=(0,1)", "as many sizes as dimensions"),
        ("F.instance_norm r 1 1 z y", "needs at least 2 dimensions"),
        ("torch.norm r 1 1 x y p=word", "p must be a number, not 'word'"),
        ("nn.ConstantPad1d r 1 1 x y padding=(1,1) value=word", "value must be a number, not 'word'"),
        ("nn.ConstantPad1d r 1 1 x y padding=(1,1) value=1+2j", "float32 numbers cannot be"),
        ("Tensor.slice r 1 1 x y dim=0 start=(0,1) end=2 step=1", "slice must be an integer"),
        ("torch.einsum r 2 1 x w y equation=ij,ij->i", "'operands' must be a tensor, not 'word'"),
        ("torch.sum r 1 1 x y dtype=(1,2)", "dtype"),
        ("nn.GELU r 1 1 x y approximate=(1)", "approximate"),
    ],
)
def test_what_is_wrong_is_said(line: str, said: str) -> None:
    kind = line.split()[0]
    with pytest.raises((ParameterError, ShapeError), match=rf"(?s){kind}.* r: .*({said})") as caught:
        model(line)(np.ones((2, 3), np.float32))
    assert isinstance(caught.value.__cause__, PnnxFastError | None), "no error of Python's or numpy's stands behind it"


@pytest.mark.parametrize(("line", "value"), [("F.relu r 1 1 i y", 2), ("torch.sum r 1 1 n y", 2.5)])
def test_numbers_where_tensors_belong(line: str, value: float) -> None:
    """The converter writes constants of one element as numbers."""
    assert model(line)(np.ones((2, 3), np.float32)) == value


def test_numbers_where_matrices_belong() -> None:
    with pytest.raises(ShapeError, match=r"torch\.matmul r: "):
        model("torch.matmul r 2 1 n x y")(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("text", ["(1)", "add(@0", "logaddexp(@0)", "nothing(@0)", "@0@1"])
def test_broken_expressions_name_their_operator(text: str) -> None:
    with pytest.raises(ExpressionError, match=r"pnnx\.Expression r: "):
        model(f"pnnx.Expression r 1 1 x y expr={text}")(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("line", ["pnnx.Expression r 1 1 x y expr=add(@0", "Tensor.index r 1 1 x y expr=[@0"])
def test_source_of_broken_expressions(line: str, tmp_path: Path) -> None:
    lines = ["pnnx.Input in 0 1 x #x=(2,3)f32", line, "pnnx.Output out 1 0 y"]
    with pytest.raises(ExpressionError, match=f"{line.split()[0]} r: "):
        Graph.parse("\n".join(["7767517", "3 2", *lines, ""])).python(tmp_path / "m.py")


def test_sizes_beyond_memory_name_their_operator() -> None:
    with pytest.raises(LimitError, match=r"torch\.arange r: "):
        model("torch.arange r 0 1 y end=1e30")(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("factor", ["nan", "0", "-1"])
def test_scales_that_are_none(factor: str) -> None:
    lines = [
        "prim::Constant s 0 1 s value=(7,9)", "prim::Constant f 0 1 f value=False",
        f"prim::Constant h 0 1 h value={factor}", "aten::upsample_bilinear2d r 5 1 x s f h h y",
    ]  # fmt: skip
    lines = ["pnnx.Input in 0 1 x", *lines, "pnnx.Output out 1 0 y"]
    graph = Graph.parse("\n".join(["7767517", f"{len(lines)} {len(lines) - 1}", *lines, ""]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = Model(graph)(np.full((1, 2, 4, 5), 3, np.float32))
    np.testing.assert_allclose(y, np.full((1, 2, 7, 9), 3, np.float32))
