"""Linear layers and matrix products."""

from __future__ import annotations

from pnnx_fast.errors import ShapeError
from pnnx_fast.ops.convolution import as_float32, epilogue_fields, multiply_rows
from pnnx_fast.ops.registry import Floats, operator
from pnnx_fast.ops.symbolic import Builder, Tensor


@operator("nn.Linear", "F.linear", "fused.Linear")
def linear(
    b: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    residual: Tensor | None = None,
    *,
    in_features: int | None = None,
    out_features: int | None = None,
    activation: str = "none",
    activation_params: Floats = (),
    residual_late: bool = False,
) -> Tensor:
    """Product with a weight matrix over the last dimension. torch.nn.Linear."""
    vector = weight.ndim == 1
    matrix = weight.unsqueeze(0) if vector else weight
    if matrix.ndim != 2 or input.ndim < 1 or input.shape[-1] != matrix.shape[1]:
        raise ShapeError("features do not fit the weight", expected=matrix.shape[-1], actual=input.shape)
    x, w, bias, z = as_float32(b, input, matrix, bias, residual)
    assert x is not None
    assert w is not None
    y = multiply_rows(b, x, w, bias, z, epilogue_fields(activation, activation_params, residual_late))
    return b.cast(y.select(y.ndim - 1, 0) if vector else y, input.dtype)
