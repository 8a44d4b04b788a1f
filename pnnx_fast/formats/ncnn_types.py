"""The layer types of ncnn in the order of their numbers, which binary .param files hold instead of names.

Used by the readers and writers of ncnn's files and by ``pnnx_fast.ncnn``; new types are appended at the end.
"""

from __future__ import annotations

__all__ = ["CUSTOM_BIT", "LAYER_TYPES", "type_name", "type_number"]

_NAMES = """
AbsVal ArgMax BatchNorm Bias BNLL Concat Convolution Crop Deconvolution Dropout Eltwise ELU Embed Exp Flatten
InnerProduct Input Log LRN MemoryData MVN Pooling Power PReLU Proposal Reduction ReLU Reshape ROIPooling Scale
Sigmoid Slice Softmax Split SPP TanH Threshold Tile RNN LSTM BinaryOp UnaryOp ConvolutionDepthWise Padding
Squeeze ExpandDims Normalize Permute PriorBox DetectionOutput Interp DeconvolutionDepthWise ShuffleChannel
InstanceNorm Clip Reorg YoloDetectionOutput Quantize Dequantize Yolov3DetectionOutput PSROIPooling ROIAlign
Packing Requantize Cast HardSigmoid SELU HardSwish Noop PixelShuffle DeepCopy Mish StatisticsPooling Swish Gemm
GroupNorm LayerNorm Softplus GRU MultiHeadAttention GELU Convolution1D Pooling1D ConvolutionDepthWise1D
Convolution3D ConvolutionDepthWise3D Pooling3D MatMul Deconvolution1D DeconvolutionDepthWise1D Deconvolution3D
DeconvolutionDepthWise3D Einsum DeformableConv2D GLU Fold Unfold GridSample CumulativeSum CopyTo Erf Diag CELU
Shrink RMSNorm Spectrogram InverseSpectrogram Flip SDPA RotaryEmbed
"""

LAYER_TYPES: tuple[str, ...] = tuple(_NAMES.split())

CUSTOM_BIT = 1 << 8
"""Set in the number of a type that an application registered itself."""

_NUMBERS = {name: number for number, name in enumerate(LAYER_TYPES)}


def type_number(name: str) -> int:
    """Return the number of a built-in type, -1 for any other name."""
    return _NUMBERS.get(name, -1)


def type_name(number: int) -> str | None:
    """Return the name of a built-in type, None for a number that is none."""
    return LAYER_TYPES[number] if 0 <= number < len(LAYER_TYPES) else None
