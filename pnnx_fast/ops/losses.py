"""PyTorch's losses as expressions, reductions and choices of entries, arguments in the order of TorchScript's schemas.

Models that return their loss use them. A few that hardly any model has are numpy functions
(:mod:`pnnx_fast.ops.loss_functions`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from pnnx_fast.errors import ParameterError, ShapeError
from pnnx_fast.ops import reduction as reductions
from pnnx_fast.ops.elementwise import intermediate, lower_expression
from pnnx_fast.ops.index import check_constant, named_along, take
from pnnx_fast.ops.linalg import pairwise_distance
from pnnx_fast.ops.registry import operator
from pnnx_fast.ops.softmax import emit_softmax
from pnnx_fast.ops.symbolic import Builder, Tensor

NONE, MEAN, SUM = 0, 1, 2
"""TorchScript's numbers for what becomes of the losses of the entries."""


def _sum(b: Builder, x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """Sum that is not the loss itself."""
    return reductions.summed(b, x, range(x.ndim) if axes is None else axes)


def _loss(b: Builder, reduction: int, text: str, *values: Any) -> Tensor:
    """Losses of the entries, their mean or their sum."""
    losses: Tensor = lower_expression(b, text, values, temporary=reduction != NONE)
    if reduction == NONE:
        return losses
    whole: Tensor = (reductions.mean if reduction == MEAN else reductions.total)(b, losses)
    return whole


def _weighted(text: str, weight: Any, place: int) -> str:
    return text if weight is None else f"mul({text},@{place})"


# -- entry by entry ----------------------------------------------------------------------------------------------


@operator("aten::l1_loss")
def l1_loss(b: Builder, input: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """Absolute differences. torch.nn.functional.l1_loss."""
    return _loss(b, reduction, "abs(sub(@0,@1))", input, target)


def _numbers(b: Builder, input: Tensor, target: Tensor) -> list[Tensor]:
    """Two tensors of which one may be truths, which these losses take for 0 and 1."""
    common = np.result_type(input.dtype, target.dtype)
    return [b.cast(x, common) if x.dtype == np.bool_ else x for x in (input, target)]


@operator("aten::mse_loss")
def mse_loss(b: Builder, input: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """Squared differences. torch.nn.functional.mse_loss."""
    return _loss(b, reduction, "square(sub(@0,@1))", *_numbers(b, input, target))


_HUBER = "mul(minimum(abs(sub(@0,@1)),@2),sub(abs(sub(@0,@1)),mul(0.5,minimum(abs(sub(@0,@1)),@2))))"
"""Half the square of a difference; further away than @2, the line that goes on from there."""


@operator("aten::smooth_l1_loss")
def smooth_l1_loss(b: Builder, input: Tensor, target: Tensor, reduction: int = MEAN, beta: float = 1.0) -> Tensor:
    """Absolute differences that are squares near zero. torch.nn.functional.smooth_l1_loss."""
    if beta < 0:
        raise ParameterError("beta must not be negative", parameter="beta")
    if not beta:
        return l1_loss(b, input, target, reduction)
    return _loss(b, reduction, f"div({_HUBER},@2)", *_numbers(b, input, target), float(beta))


@operator("aten::huber_loss")
def huber_loss(b: Builder, input: Tensor, target: Tensor, reduction: int = MEAN, delta: float = 1.0) -> Tensor:
    """Halves of squared differences that are lines further away. torch.nn.functional.huber_loss."""
    if delta <= 0:
        raise ParameterError("delta must be positive", parameter="delta")
    return _loss(b, reduction, _HUBER, *_numbers(b, input, target), float(delta))


@operator("aten::kl_div")
def kl_div(b: Builder, input: Tensor, target: Tensor, reduction: int = MEAN, log_target: bool = False) -> Tensor:
    """Divergence of distributions, the first one given by logarithms. torch.nn.functional.kl_div."""
    plain = "sub(where(eq(@1,0),0,mul(@1,log(@1))),mul(@1,@0))"
    return _loss(b, reduction, "mul(exp(@1),sub(@1,@0))" if log_target else plain, input, target)


def _check_targets(input: Tensor, target: Tensor) -> None:
    if target.shape != input.shape:
        raise ShapeError("one target an entry", operand="target", expected=input.shape, actual=target.shape)


@operator("aten::binary_cross_entropy")
def binary_cross_entropy(
    b: Builder, input: Tensor, target: Tensor, weight: Any = None, reduction: int = MEAN
) -> Tensor:
    """Cross entropy of probabilities of one class. torch.nn.functional.binary_cross_entropy."""
    _check_targets(input, target)
    text = "sub(mul(sub(@1,1),maximum(log1p(neg(@0)),-100)),mul(@1,maximum(log(@0),-100)))"
    return _loss(b, reduction, _weighted(text, weight, 2), input, target, weight)


@operator("aten::binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    b: Builder, input: Tensor, target: Tensor, weight: Any = None, pos_weight: Any = None, reduction: int = MEAN
) -> Tensor:
    """Cross entropy of logits of one class. torch.nn.functional.binary_cross_entropy_with_logits."""
    _check_targets(input, target)
    logs = "logsigmoid(@0)" if pos_weight is None else "mul(add(mul(sub(@3,1),@1),1),logsigmoid(@0))"
    text = f"sub(mul(sub(1,@1),@0),{logs})"
    return _loss(b, reduction, _weighted(text, weight, 2), input, target, weight, pos_weight)


@operator("aten::poisson_nll_loss")
def poisson_nll_loss(
    b: Builder, input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int = MEAN
) -> Tensor:
    """Negative log-likelihood of counts. torch.nn.functional.poisson_nll_loss."""
    text = "sub(exp(@0),mul(@1,@0))" if log_input else "sub(@0,mul(@1,log(add(@0,@2))))"
    if full:
        stirling = "add(sub(mul(@1,log(@1)),@1),mul(0.5,log(mul(6.283185307179586,@1))))"
        text = f"add({text},where(le(@1,1),0,{stirling}))"
    return _loss(b, reduction, text, input, target, float(eps))


@operator("aten::hinge_embedding_loss")
def hinge_embedding_loss(
    b: Builder, input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = MEAN
) -> Tensor:
    """Distances where the target is 1, what lacks to a margin where it is -1. torch.nn.functional."""
    text = "add(where(ne(@1,1),maximum(sub(@2,@0),0),0),where(ne(@1,-1),@0,0))"
    return _loss(b, reduction, text, input, target, float(margin))


@operator("aten::soft_margin_loss")
def soft_margin_loss(b: Builder, input: Tensor, target: Tensor, reduction: int = MEAN) -> Tensor:
    """Logistic loss of two classes, 1 and -1. torch.nn.functional.soft_margin_loss."""
    return _loss(b, reduction, "log1p(exp(neg(mul(@1,@0))))", input, target)


@operator("aten::margin_ranking_loss")
def margin_ranking_loss(
    b: Builder, input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = MEAN
) -> Tensor:
    """How far pairs are from a wanted order. torch.nn.functional.margin_ranking_loss."""
    text = "maximum(add(mul(neg(@2),sub(@0,@1)),@3),0)"
    return _loss(b, reduction, text, input1, input2, target, float(margin))


# -- vectors -----------------------------------------------------------------------------------------------------


@operator("aten::cosine_embedding_loss")
def cosine_embedding_loss(
    b: Builder, input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = MEAN
) -> Tensor:
    """Angles of pairs of vectors that are to be alike or not. torch.nn.functional.cosine_embedding_loss."""
    products = [intermediate(b, "mul(@0,@1)", x, y) for x, y in ((input1, input2), (input1, input1), (input2, input2))]
    sums = [_sum(b, v, [v.ndim - 1]) for v in products]
    angle = "div(@0,sqrt(mul(add(@1,1e-12),add(@2,1e-12))))"
    text = f"add(where(eq(@3,1),sub(1,{angle}),0),where(eq(@3,-1),maximum(sub({angle},@4),0),0))"
    return _loss(b, reduction, text, *sums, target, float(margin))


@operator("aten::triplet_margin_loss")
def triplet_margin_loss(
    b: Builder, anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
    eps: float = 1e-6, swap: bool = False, reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """Whether an anchor is nearer to one vector than to another one. torch.nn.functional.triplet_margin_loss."""
    distance = partial(pairwise_distance, b, p=p, eps=eps)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = intermediate(b, "minimum(@0,@1)", far, distance(positive, negative))
    return _loss(b, reduction, "maximum(sub(add(@2,@0),@1),0)", near, far, float(margin))


# -- classes -----------------------------------------------------------------------------------------------------


def _class_axis(input: Tensor) -> int:
    return 1 if input.ndim > 1 else 0


def _likelihood(
    b: Builder, logs: Tensor, target: Tensor, weight: Any, reduction: int, ignored: int, smoothing: float = 0.0
) -> Tensor:
    """Minus the entry of each row that a class names, and the share of all classes' entries that smoothing asks for."""
    axis = _class_axis(logs)
    classes = logs.shape[axis] if logs.ndim else 0
    if target.shape != (*logs.shape[:axis], *logs.shape[axis + 1 :]) or not logs.ndim:
        raise ShapeError("one class a row", operand="target", expected=logs.shape, actual=target.shape)
    if weight is not None and weight.shape != (classes,):
        raise ShapeError("one weight a class", operand="weight", expected=[classes], actual=weight.shape)
    target = b.cast(target, np.int64)
    kept = intermediate(b, "ne(@0,@1)", target, int(ignored))
    if smoothing and not classes:
        # PyTorch has nothing, and of that an infinite share.
        return b.constant(np.full(target.shape if reduction == NONE else (), math.nan, logs.dtype))
    if not classes:
        # A class for what is ignored; all others are out of range.
        classes, target = 1, intermediate(b, "add(@0,1)", target)
        logs = b.constant(np.zeros((*logs.shape[:axis], 1, *logs.shape[axis + 1 :]), logs.dtype))
        weight = None if weight is None else b.constant(np.zeros(1, weight.dtype))
    index = intermediate(b, "where(@0,@1,0)", kept, target)
    check_constant(index, classes, False)
    picked = named_along(b, logs, index.unsqueeze(axis), axis, temporary=True).squeeze([axis])
    share = b.cast(kept, logs.dtype)
    if weight is not None:
        share = intermediate(b, "where(@0,@1,0)", kept, take(b, weight, index, 0, temporary=True))
    text = "neg(@0)" if weight is None else "neg(mul(@0,@1))"
    values: list[Any] = [picked, share, kept]
    if smoothing:
        scaled = logs
        if weight is not None:
            column = b.reshape(weight, (classes, *[1] * (logs.ndim - axis - 1)))
            scaled = intermediate(b, "mul(@0,@1)", logs, column)
        values += [_sum(b, scaled, [axis]), 1.0 - smoothing, smoothing / classes]
        text = f"sub(mul(@4,{text}),mul(@5,@3))"
    text = f"where(@2,{text},0)"
    if reduction != MEAN:
        return _loss(b, reduction, text, *values)
    losses = intermediate(b, text, *values)
    mean: Tensor = lower_expression(b, "div(@0,@1)", [_sum(b, losses), _sum(b, share)])
    return mean


@operator("aten::multi_margin_loss")
def multi_margin_loss(
    b: Builder, input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Any = None,
    reduction: int = MEAN,
) -> Tensor:  # fmt: skip
    """How far the score of the right class is from a margin above each other one. torch.nn.functional."""
    if p not in (1, 2):
        raise ParameterError("only differences and their squares are added", parameter="p")
    rows = input if input.ndim > 1 else b.reshape(input, (1, input.size))
    classes = rows.shape[-1]
    index = b.cast(b.reshape(target, rows.shape[:-1]), np.int64)
    check_constant(index, classes, False)
    right = named_along(b, rows, index.unsqueeze(1), 1, temporary=True)
    gap = "add(sub(@3,@1),@0)"
    text = f"where(eq(@2,@4),0,where(gt({gap},0),{gap if p == 1 else f'square({gap})'},0))"
    places = b.constant(np.arange(classes))
    values = [_sum(b, intermediate(b, text, rows, right, index.unsqueeze(1), float(margin), places), [1])]
    if weight is not None:
        values.append(take(b, weight, index, 0, temporary=True))
    values = [x if input.ndim > 1 else x.squeeze([0]) for x in values]
    return _loss(b, reduction, _weighted(f"div(@0,{float(classes)})", weight, 1), *values)


@operator("aten::nll_loss", "aten::nll_loss2d", "aten::nll_loss_nd")
def nll_loss(
    b: Builder, input: Tensor, target: Tensor, weight: Any = None, reduction: int = MEAN, ignore_index: int = -100
) -> Tensor:
    """Minus the log-probability of each row's class. torch.nn.functional.nll_loss."""
    return _likelihood(b, input, target, weight, reduction, ignore_index)


@operator("aten::cross_entropy_loss")
def cross_entropy_loss(
    b: Builder, input: Tensor, target: Tensor, weight: Any = None, reduction: int = MEAN, ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Minus the log-probability of each row's class, or of given shares of classes. torch.nn.functional."""
    axis = _class_axis(input)
    logs = emit_softmax(b, input, axis, logarithm=True)
    if target.dtype.kind != "f":
        return _likelihood(b, logs, target, weight, reduction, ignore_index, float(label_smoothing))
    if target.shape != logs.shape:
        raise ShapeError("one share a class", operand="target", expected=logs.shape, actual=target.shape)
    classes, text, values = logs.shape[axis], "mul(@0,@1)", [logs, target]
    if label_smoothing:
        text = f"mul(@0,add(mul(@1,{1.0 - label_smoothing!r}),{label_smoothing / (classes or 1)!r}))"
    if weight is not None:
        text, values = f"mul({text},@2)", [*values, b.reshape(weight, (classes, *[1] * (logs.ndim - axis - 1)))]
    parts = intermediate(b, text, *values)
    if reduction == NONE:
        return _loss(b, NONE, "neg(@0)", _sum(b, parts, [axis]))
    if reduction == MEAN:
        share = -classes / logs.size if logs.size else math.nan
    else:
        share = -1.0
    return reductions.emit_reduce(b, parts, range(parts.ndim), False, "sum", scale=share)
