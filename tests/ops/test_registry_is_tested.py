"""Every registered operator type is run by a golden, or by a test that is named here, type by type."""

from __future__ import annotations

import re
from pathlib import Path

import golden_store
import pytest

from pnnx_fast.ops import load_all, registry

TESTS = Path(__file__).parents[1]

ELSEWHERE: dict[str, str] = {
    "ops/aten_cases.py": """
        aten::linalg_cholesky aten::linalg_det aten::linalg_inv aten::linalg_matrix_norm aten::linalg_matrix_power
        aten::linalg_norm aten::linalg_pinv aten::linalg_slogdet aten::linalg_solve aten::logdet aten::pinverse""",
    "ops/test_aten_torch.py": """
        aten::linalg_solve_triangular
        aten::histogramdd aten::item
        aten::Bool aten::Float aten::FloatImplicit aten::Int aten::IntImplicit aten::ScalarImplicit aten::__getitem__
        aten::adjoint aten::alias aten::detach_ aten::dim aten::empty aten::empty_like aten::fill_diagonal
        aten::len aten::lift_fresh
        aten::mH aten::new_empty aten::numel aten::resolve_conj aten::resolve_neg aten::size
        prim::Constant prim::NumToTensor prim::abs prim::max prim::min""",
    "ops/test_attention_torch.py": "fused.MultiheadAttention",
    "ops/test_conv_depth.py": "fused.Conv3d",
    "ops/test_convolution_torch.py": "fused.Conv2d",
    "ops/test_convolution_transpose.py": "fused.ConvTranspose2d",
    "ops/test_elementwise.py": "pnnx.Attribute pnnx.Expression pnnx.Input pnnx.Output",
    "ops/test_factors_torch.py": """
        aten::_lu_with_info aten::cholesky aten::cholesky_inverse aten::cholesky_solve aten::frobenius_norm aten::geqrf
        aten::linalg_cholesky_ex aten::linalg_cond aten::linalg_eig aten::linalg_eigh aten::linalg_eigvals
        aten::linalg_eigvalsh aten::linalg_householder_product aten::linalg_inv_ex aten::linalg_lstsq aten::linalg_lu
        aten::linalg_lu_factor aten::linalg_lu_factor_ex aten::linalg_lu_solve aten::linalg_matrix_rank aten::linalg_qr
        aten::linalg_solve_ex aten::linalg_svd aten::linalg_svdvals aten::linalg_tensorinv aten::linalg_tensorsolve
        aten::lu_solve aten::lu_unpack aten::nuclear_norm aten::orgqr aten::ormqr aten::qr aten::slogdet aten::svd""",
    "ops/test_index_torch.py": "prim::ListConstruct",
    "ops/test_int8.py": "fused.Int8Conv2d fused.Int8Linear int8.Conv2d int8.Linear int8.Quantize",
    "ops/test_linear_torch.py": "fused.Linear",
    "ops/test_lines_torch.py": "aten::quantize_per_channel",
    "ops/test_normalization_torch.py": "fused.BatchNorm2d fused.GroupNorm",
    "ops/test_onnx_layers_torch.py": """
        AffineGrid Attention BlackmanWindow CastLike CenterCropPad Compress DepthToSpace EyeLike GlobalLpPool
        HammingWindow HannWindow Hardmax LpNormalization Mean MeanVarianceNormalization OneHot Pad ReduceLogSum
        ReduceSumSquare Resize ReverseSequence RoiAlign Size Softsign Swish ThresholdedRelu Transpose""",
    "ops/test_onnx_operators_torch.py": """
        ArgMax ArgMin BitShift Col2Im CumSum DFT Det Gather GatherElements GatherND IsInf IsNaN Mod
        NegativeLogLikelihoodLoss NonZero ReduceMax ReduceMin STFT ScatterElements ScatterND SoftmaxCrossEntropyLoss
        TopK Trilu Unique""",
    "ops/test_onnx_windows_torch.py": """
        AveragePool ConstantOfShape Conv ConvTranspose DeformConv DequantizeLinear DynamicQuantizeLinear GRU LSTM LpPool
        MaxRoiPool MaxUnpool NonMaxSuppression QuantizeLinear RNN Scatter Selu Shrink Slice Upsample""",
    "ops/test_pooling_torch.py": "F.max_unpool2d nn.MaxUnpool2d",
    "ops/test_rare_operators_torch.py": """
        F.max_unpool1d F.max_unpool3d Tensor.new_empty Tensor.size fused.Conv1d fused.ConvTranspose1d
        fused.ConvTranspose3d nn.MaxUnpool1d nn.MaxUnpool3d nn.intrinsic.quantized.ConvReLU2d
        nn.intrinsic.quantized.LinearReLU nn.quantized.Conv2d nn.quantized.DeQuantize nn.quantized.Linear
        nn.quantized.Quantize nn.quantized.cat pnnx.SliceIndexes prim::DictConstruct prim::ListUnpack
        prim::TupleConstruct prim::TupleIndex prim::TupleUnpack torch.dequantize torch.empty torch.empty_like
        torch.normal torch.quantize_per_tensor torch.randn_like torchaudio.functional.inverse_spectrogram
        torchaudio.functional.spectrogram
        torchvision.ops.DeformConv2d torchvision.ops.RoIAlign torchvision.ops.roi_align""",
    "ops/test_remaining_types.py": """
        aten::copy_ aten::exponential aten::floordiv aten::log_sigmoid aten::multinomial aten::normal aten::poisson
        aten::quantize_per_tensor aten::rand aten::rand_like aten::randint aten::randint_like aten::randn
        aten::randn_like aten::randperm aten::uniform ncnn.Bits ncnn.Embed torch.rand torch.randn""",
    "ops/test_vision.py": "fused.DeformConv2d pnnx.custom_op.torchvision.nms",
    "passes/test_fuse_attention.py": "fused.Attention",
    "passes/test_fuse_norm.py": "fused.LayerNorm",
    "passes/test_restore.py": "fused.Dense fused.WriteView",
}
"""Test file -> types that it runs."""

LAYERS = """
    ncnn.DetectionOutput ncnn.GRUInt8 ncnn.InverseSpectrogram ncnn.LSTMInt8 ncnn.PSROIPooling ncnn.Proposal
    ncnn.RNNInt8 ncnn.ROIAlign ncnn.ROIPooling ncnn.RotaryEmbed ncnn.YoloDetectionOutput ncnn.Yolov3DetectionOutput"""
"""Types that ncnn's layers become; the tests of ncnn name the layers."""


def covered() -> set[str]:
    """Types with a golden or a named test."""
    named = {kind for kinds in ELSEWHERE.values() for kind in kinds.split()}
    return {entry["kind"] for entry in golden_store.read()} | named | set(LAYERS.split())


def test_every_type_is_tested() -> None:
    load_all()
    types = {n for n in registry.types() if registry.find(n).function.__module__.startswith("pnnx_fast.ops")}  # type: ignore[union-attr]
    assert not sorted(types - covered()), "without a test"
    assert not sorted(covered() - types), "tested, but not registered"


@pytest.mark.parametrize("path", ELSEWHERE)
def test_named_tests_run_their_types(path: str) -> None:
    words = set(re.findall(r"\w[\w.]*(?:::\w+)?", (TESTS / path).read_text("utf-8")))
    assert not sorted(set(ELSEWHERE[path].split()) - words)


@pytest.mark.parametrize("kind", LAYERS.split())
def test_layers_of_ncnn_are_named(kind: str) -> None:
    text = "\n".join(path.read_text("utf-8") for path in (TESTS / "ncnn").glob("*.py"))
    layer = kind.removeprefix("ncnn.").removesuffix("Int8")
    assert re.search(rf"\b{layer}\b", text)
