"""Norms, softmax and ELU that a converter left as TorchScript calls, arguments by position."""

from __future__ import annotations

import math
from typing import Any, cast

from pnnx_fast.ops.aten import dtype_name
from pnnx_fast.ops.aten_layers import UNKNOWN, call, tensor
from pnnx_fast.ops.elementwise import lower_expression
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.shape import axis_of
from pnnx_fast.ops.symbolic import Builder, Results, Tensor, Value


@operator("aten::native_layer_norm")
def native_layer_norm(b: Builder, input: Tensor, shape: Any, weight: Any, bias: Any, eps: Any) -> Value:
    """Layer normalisation; mean and spread are not given. torch.native_layer_norm."""
    y = call(b, "F.layer_norm", input=input, normalized_shape=shape, weight=weight, bias=bias, eps=eps)
    return Results([y, *UNKNOWN])


@operator("aten::native_group_norm")
def native_group_norm(
    b: Builder, input: Tensor, weight: Any, bias: Any, rows: Any, channels: Any, pixels: Any, groups: Any, eps: Any
) -> Value:
    """Group normalisation; mean and spread are not given. torch.nn.functional.group_norm."""
    y = call(b, "F.group_norm", input=input, num_groups=groups, weight=weight, bias=bias, eps=eps)
    return Results([y, *UNKNOWN])


@operator("aten::batch_norm")
def batch_norm(
    b: Builder, input: Tensor, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: Any = False,
    momentum: Any = 0.1, eps: Any = 1e-5, *_: Any,
) -> Tensor:  # fmt: skip
    """Batch normalisation, in training by the statistics of the batch. torch.nn.functional.batch_norm."""
    fields = {"weight": weight, "bias": bias, "eps": eps}
    if not training:
        fields |= {"running_mean": running_mean, "running_var": running_var}
    return tensor(b, "F.batch_norm", input=input, **fields)


@operator("aten::native_batch_norm")
def native_batch_norm(b: Builder, *values: Any) -> Value:
    """Batch normalisation; the statistics are not given. torch.native_batch_norm."""
    return Results([batch_norm(b, *values), *UNKNOWN])


@operator("aten::_native_batch_norm_legit_no_training")
def native_batch_norm_no_training(b: Builder, *values: Any) -> Value:
    """Batch normalisation in evaluation mode; no statistics are given. torch.native_batch_norm."""
    return Results([batch_norm(b, *values[:5], False, *values[5:]), *UNKNOWN])


@operator("aten::_safe_softmax")
def safe_softmax(b: Builder, input: Tensor, dim: int, dtype: Any = None) -> Value:
    """Softmax, zero where all entries are minus infinity. torch.softmax."""
    name = dtype_name(dtype)
    y = tensor(b, "F.softmax", input=input, dim=dim, dtype=name)
    axes = [axis_of(dim, input.ndim)] if input.ndim else []
    most = tensor(b, "torch.amax", input=input, dim=axes, keepdim=True) if input.size else input
    return lower_expression(b, "where(eq(@0,@1),0,@2)", [most, -math.inf, y])


@operator("aten::elu")
def elu(b: Builder, input: Tensor, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Tensor:
    """F.elu with factors of the result and of what is below zero, as of SELU and CELU taken apart."""
    if scale == input_scale == 1:
        return tensor(b, "F.elu", input=input, alpha=alpha)
    text = "where(gt(@0,0),mul(@0,@2),mul(expm1(mul(@0,@3)),mul(@1,@2)))"
    return cast(Tensor, lower_expression(b, text, [input, alpha, scale, input_scale]))


@operator("aten::_weight_norm")
def weight_norm(b: Builder, v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """A weight made of directions and of their lengths along a dimension. torch._weight_norm."""
    others = None if dim == -1 else [axis for axis in range(v.ndim) if axis != dim % v.ndim]
    length = tensor(b, "torch.norm", input=v, p=2, dim=others, keepdim=others is not None)
    return cast(Tensor, lower_expression(b, "mul(@0,div(@1,@2))", [v, g, length]))
