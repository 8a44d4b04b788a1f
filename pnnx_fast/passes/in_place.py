"""Which operators of a file of the converter's lowest level have changed their first input."""

from __future__ import annotations

import re

from pnnx_fast.ir import Graph, Operator

__all__ = ["changing"]

_NAMED = re.compile(r"pnnx_\d+")
"""How the converter names the constants that its level 0 alone leaves."""

_PREFIX = re.compile(r"(aten::|torch\.|Tensor\.|F\.|nn\.)(.+)")

_NAMES = """
    AlphaDropout CELU Dropout Dropout1d Dropout2d Dropout3d ELU FeatureAlphaDropout Hardsigmoid Hardswish Hardtanh
    LeakyReLU Mish RReLU ReLU ReLU6 SELU SiLU Threshold
    abs absolute acos acosh add addbmm addcdiv addcmul addmm addmv addr alpha_dropout arccos arccosh arcsin arcsinh
    arctan arctan2 arctanh asin asinh atan atan2 atanh baddbmm bernoulli bitwise_and bitwise_left_shift bitwise_not
    bitwise_or bitwise_right_shift bitwise_xor cauchy ceil celu clamp clamp_max clamp_min clip conj_physical copysign
    cos cosh cumprod cumsum deg2rad digamma div divide dropout dropout1d dropout2d dropout3d elu eq erf erfc erfinv
    exp exp2 expm1 exponential feature_alpha_dropout feature_dropout fill fill_diagonal fix float_power floor
    floor_divide fmod frac gcd ge geometric greater greater_equal gt hardsigmoid hardswish hardtanh heaviside hypot i0
    igamma igammac index_add index_copy index_fill index_put index_reduce lcm ldexp le leaky_relu lerp less less_equal
    lgamma log log10 log1p log2 log_normal logical_and logical_not logical_or logical_xor logit lt masked_fill
    masked_scatter mish mul multiply mvlgamma nan_to_num ne neg negative nextafter normal not_equal polygamma pow put
    rad2deg random reciprocal relu relu6 remainder renorm round rrelu rsqrt scatter scatter_add scatter_reduce selu
    sgn sigmoid sign silu sin sinc sinh sqrt square sub subtract tan tanh threshold tril triu true_divide trunc
    uniform xlogy zero __and__ __iand__ __or__ __ior__ __xor__ __ixor__ __lshift__ __ilshift__ __rshift__ __irshift__
"""

_FORMS = frozenset(_NAMES.split())
"""Operators with a form in place (``add_``, ``nn.ReLU(inplace=True)``)."""


def changing(graph: Graph) -> set[Operator]:
    """Operators of the lowest level whose results nothing needs: they must have changed their first input.

    The tracer drops what nothing needs, and the converter the underscore of ``add_``. What such an operator changes is
    needed, so where it is the result of another one that no other needs, that one changed its first input, too.
    Graphs that were edited hold results, too, that nothing needs any more: those were read once.
    """
    found: set[Operator] = set()
    if not any(op.type == "prim::Constant" and _NAMED.fullmatch(op.name) for op in graph.ops):
        return found
    for op in reversed(graph.ops):
        if len(op.outputs) != 1 or not op.inputs or not _has_form(op.type):
            continue
        given, made = op.inputs[0], op.outputs[0]
        if made.was_read or made.shape is None or made.shape != given.shape or made.dtype != given.dtype:
            continue
        if all(x in found and x.inputs[0] is made and made not in x.inputs[1:] for x in made.consumers):
            found.add(op)
    return found


def _has_form(type: str) -> bool:
    match = _PREFIX.fullmatch(type)
    return match is not None and match[2] in _FORMS
