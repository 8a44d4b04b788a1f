"""TorchScript operators with positional arguments, each row called both here and as ``torch.ops.aten``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pnnx_fast
from pnnx_fast.ops.aten import EXPRESSIONS

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def real(*shape: int, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def whole(*shape: int, top: int = 5, seed: int = 0) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).integers(0, top, shape), np.int64)


X, Y, V, W = real(3, 4, 5), real(3, 4, 5, seed=1), real(6), real(6, seed=2)
M, Q = real(4, 5, seed=3), (real(4, 4, seed=4) + 5 * np.eye(4)).astype(np.float32)
I, J, B = whole(3, 4, 5, top=3), whole(3, 4, 5, top=4, seed=1) + 1, real(3, 4, 5, seed=5) > 0
C = (X + 1j * Y).astype(np.complex64)
IMG, LINE, CUBE = real(2, 4, 8, 8), real(2, 4, 9), real(2, 4, 6, 6, 6)

CASES: list[tuple[Any, ...]] = [
    ("aten::adaptive_avg_pool1d", LINE, [3]),
    ("aten::adaptive_avg_pool2d", IMG, [3, 2]),
    ("aten::adaptive_avg_pool3d", CUBE, [2, 3, 2]),
    ("aten::addbmm", M[:, :4], X[:, :4], Y.transpose(0, 2, 1)[:, :, :4]),
    ("aten::addcdiv", X, Y, J.astype(np.float32), 0.5),
    ("aten::addcmul", X, Y, Y, 2),
    ("aten::addmm", Q, M, M.T, 1, 2),
    ("aten::addmv", Q[0], M, M[0]),
    ("aten::addr", np.outer(V, W), V, W),
    ("aten::all", B, 1, True),
    ("aten::all", B),
    ("aten::amax", X, [1, -1], True),
    ("aten::amin", X, [0], False),
    ("aten::aminmax", X, 1, True),
    ("aten::angle", X),
    ("aten::nanmean", np.where(B, X, np.float32(np.nan)), [1], False, None),
    ("aten::angle", C),
    ("aten::any", B, -1, False),
    ("aten::any", B),
    ("aten::arange", 5, 4, None, None, None),
    ("aten::arange", 1, 9, None, None, None, None),
    ("aten::arange", 0.5, 4, 0.5, 6, None, None, None),
    ("aten::argmax", X, 1, True),
    ("aten::argmin", X, None, False),
    ("aten::argsort", X, 1, True),
    ("aten::argwhere", I),
    ("aten::as_strided", X, [2, 3], [1, 2], 1),
    ("aten::atleast_1d", V[0].reshape(1)),
    ("aten::atleast_2d", V),
    ("aten::atleast_3d", V),
    ("aten::avg_pool1d", LINE, [3], [2], [1], False, True),
    ("aten::avg_pool2d", IMG, [3, 3], [2, 2], [1, 1], True, False, None),
    ("aten::avg_pool3d", CUBE, [2, 2, 2], [2, 2, 2], [0, 0, 0], False, True, None),
    ("aten::baddbmm", X[:, :, :4], X, Y.transpose(0, 2, 1), 2, 0.5),
    ("aten::bincount", J.reshape(-1), None, 7),
    ("aten::batch_norm", IMG, V[:4], W[:4], W[2:], np.abs(V[:4]), False, 0.1, 1e-5, False),
    ("aten::block_diag", [M, Q]),
    ("aten::bmm", X, Y.transpose(0, 2, 1)),
    ("aten::broadcast_tensors", [M, X]),
    ("aten::broadcast_to", M, [3, 4, 5]),
    ("aten::bucketize", X, np.sort(V), True, True),
    ("aten::cat", [X, Y], 1),
    ("aten::cdist", X, Y, 1.0, None),
    ("aten::celu", X, 0.5),
    ("aten::channel_shuffle", IMG, 2),
    ("aten::chunk", X, 2, 1),
    ("aten::clamp", X, -0.5, None),
    ("aten::clip", X, None, 0.5),
    ("aten::clone", X, None),
    ("aten::column_stack", [V, W]),
    ("aten::complex", X, Y),
    ("aten::concat", [X, Y], -1),
    ("aten::concatenate", [X, Y], 0),
    ("aten::conj", C),
    ("aten::_conj", C),
    ("aten::conj_physical", C),
    ("aten::contiguous", X, 0),
    ("aten::conv1d", LINE, real(3, 4, 3), V[:3], [2], [1], [1], 1),
    ("aten::copysign", X, Y),
    ("aten::conv2d", IMG, real(6, 2, 3, 3), None, [1, 1], [1, 1], [1, 1], 2),
    ("aten::conv3d", CUBE, real(2, 4, 2, 2, 2), W[:2], [1, 1, 1], [0, 0, 0], [1, 1, 1], 1),
    ("aten::cosine_similarity", X, Y, 1, 1e-8),
    ("aten::count_nonzero", I),
    ("aten::cross", X[:, :3], Y[:, :3], 1),
    ("aten::cummax", X, 1),
    ("aten::cummin", I, -1),
    ("aten::cumprod", X, 1, None),
    ("aten::cumsum", I, 2, None),
    ("aten::detach", X),
    ("aten::diag", V, 1),
    ("aten::diag_embed", X, 1, 0, -1),
    ("aten::diagonal", X, -1, 2, 0),
    ("aten::diff", X, 2, 1, None, None),
    ("aten::div", X, Y, None),
    ("aten::div", X, Y, "floor"),
    ("aten::div", I, J, "trunc"),
    ("aten::divide", I, J),
    ("aten::dot", V, W),
    ("aten::dstack", [M, M]),
    ("aten::elu", X, 0.5, 1, 1),
    ("aten::embedding", M, I, -1, False, False),
    ("aten::expand", M, [3, 4, -1], False),
    ("aten::expand_as", M, X),
    ("aten::eye", 3, None, None, None, None),
    ("aten::eye", 3, 4, None, None, None, None),
    ("aten::fft_fft", X, None, 1, None),
    ("aten::fft_fft2", X, None, [0, 1], "ortho"),
    ("aten::fft_fftn", X, None, None, None),
    ("aten::fft_fftshift", X, [1]),
    ("aten::fft_ifft", C, 7, -1, None),
    ("aten::fft_ifft2", C, None, [-2, -1], None),
    ("aten::fft_ifftn", C, None, [0], None),
    ("aten::fft_ifftshift", X, None),
    ("aten::fft_irfft", C, 8, -1, None),
    ("aten::fft_irfft2", C, None, [-2, -1], None),
    ("aten::fft_irfftn", C, None, None, None),
    ("aten::fill", X, 2),
    ("aten::fft_rfft", X, None, -1, "forward"),
    ("aten::fft_rfft2", X, None, [-2, -1], None),
    ("aten::fft_rfftn", X, None, None, None),
    ("aten::flatten", X, 1, -1),
    ("aten::flip", X, [0, 2]),
    ("aten::fliplr", X),
    ("aten::flipud", X),
    ("aten::float_power", J, 0.5),
    ("aten::fmax", X, Y),
    ("aten::fmin", X, Y),
    ("aten::full", [2, 3], 7, 6, None, None, None),
    ("aten::full_like", X, 7, None, None, None, None, None),
    ("aten::gather", X, 1, I, False),
    ("aten::gcd", I, J),
    ("aten::gelu", X, "tanh"),
    ("aten::ger", V, W),
    ("aten::glu", IMG, 1),
    ("aten::group_norm", IMG, 2, None, None, 1e-5, False),
    ("aten::hardtanh", X, -0.5, 0.5),
    ("aten::heaviside", X, Y),
    ("aten::histc", X, 5, -1, 1),
    ("aten::hstack", [X, Y]),
    ("aten::index_add", X, 1, np.array([2, 0, 2]), Y[:, :3], 2),
    ("aten::index_copy", X, 1, np.array([2, 0]), Y[:, :2]),
    ("aten::index_fill", X, -1, np.array([2, 0]), 3),
    ("aten::index_select", X, 1, np.array([2, 0])),
    ("aten::index", X, [I[0, 0], J[0, 0] - 1]),
    ("aten::index_put", X, [I[0, 0], J[0, 0] - 1], real(5, 5), False),
    ("aten::inner", M, M),
    ("aten::inverse", Q),
    ("aten::isclose", X, Y),
    ("aten::isin", I, J),
    ("aten::isneginf", X),
    ("aten::isposinf", X),
    ("aten::isreal", X),
    ("aten::kron", M, Q),
    ("aten::kthvalue", X, 2, 1, True),
    ("aten::lcm", I, J),
    ("aten::layer_norm", X, [5], V[:5], W[:5], 1e-5, False),
    ("aten::ldexp", X, I),
    ("aten::leaky_relu", X, 0.2),
    ("aten::linear", X, M, V[:4]),
    ("aten::linspace", 0, 3, 7, None, None, None, None),
    ("aten::linalg_cross", X[:, :3], Y[:, :3], 1),
    ("aten::linalg_vector_norm", X, 3, [1], True, None),
    ("aten::log_softmax", X, 1, None),
    ("aten::logaddexp2", X, Y),
    ("aten::logcumsumexp", X, 1),
    ("aten::logit", np.abs(X), 0.1),
    ("aten::logsumexp", X, [1, 2], False),
    ("aten::masked_fill", X, B, 2),
    ("aten::masked_scatter", X, B, Y),
    ("aten::masked_select", X, B),
    ("aten::matmul", X, M.T),
    ("aten::matrix_power", Q, 3),
    ("aten::max", X),
    ("aten::max", X, Y),
    ("aten::max", X, 1, True),
    ("aten::max_pool1d", LINE, [3], [2], [1], [1], False),
    ("aten::max_pool2d", IMG, [3, 2], [2, 1], [1, 0], [1, 2], True),
    ("aten::max_pool3d", CUBE, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False),
    ("aten::mean", X, None),
    ("aten::mean", X, [1], True, None),
    ("aten::median", X),
    ("aten::median", X, 1, False),
    ("aten::meshgrid", [V, W]),
    ("aten::meshgrid", [V, M[0]], "xy"),
    ("aten::min", X),
    ("aten::min", X, -1, False),
    ("aten::mm", M, M.T),
    ("aten::moveaxis", X, 0, 2),
    ("aten::mT", X),
    ("aten::movedim", X, [0, 1], [-1, 0]),
    ("aten::msort", X),
    ("aten::mv", M, M[0]),
    ("aten::nan_to_num", np.where(B, X, np.float32(np.nan)), 1.0, 2.0, None),
    ("aten::nanmean", X, [1], False, None),
    ("aten::nansum", X, [1], True, None),
    ("aten::narrow", X, 1, 1, 2),
    ("aten::new_full", X, [2], 5, 4, None, None, None),
    ("aten::new_ones", X, [2, 3], None, None, None, None),
    ("aten::new_zeros", X, [2, 3], None, None, None, None),
    ("aten::nextafter", X, Y),
    ("aten::nonzero", I),
    ("aten::norm", X, 2),
    ("aten::norm", X, 1, [1], False),
    ("aten::numpy_T", X),
    ("aten::one_hot", I, 4),
    ("aten::ones", [2, 3], 4, None, None, None),
    ("aten::ones_like", X, None, None, None, None, None),
    ("aten::outer", V, W),
    ("aten::pairwise_distance", M, M[::-1].copy(), 2.0, 1e-6, False),
    ("aten::permute", X, [2, 0, 1]),
    ("aten::pixel_shuffle", IMG, 2),
    ("aten::pixel_unshuffle", IMG, 2),
    ("aten::polar", X, Y),
    ("aten::prelu", IMG, V[:4]),
    ("aten::prod", X, None),
    ("aten::prod", I, 1, False, None),
    ("aten::quantile", X, 0.3, 1, True),
    ("aten::ravel", X),
    ("aten::renorm", X, 2, 0, 1.5),
    ("aten::repeat", X, [2, 1, 1, 2]),
    ("aten::repeat_interleave", X, 2, 1, None),
    ("aten::reshape", X, [5, -1]),
    ("aten::reshape_as", X, Y),
    ("aten::rms_norm", X, [5], V[:5], 1e-5),
    ("aten::roll", X, [1], [2]),
    ("aten::rot90", X, 1, [0, 2]),
    ("aten::scaled_dot_product_attention", X, Y, Y, None, 0.0, True, None, False),
    ("aten::scatter", X, 1, I, Y),
    ("aten::scatter", X, 1, I[:, :1], 2.0),
    ("aten::scatter", X, 0, I[:, :1], Y, "add"),
    ("aten::scatter_add", X, 1, I, Y),
    ("aten::scatter_reduce", X, 1, I, Y, "amax", False),
    ("aten::scatter_reduce", X, 1, I, Y, "mean", True),
    ("aten::searchsorted", np.sort(X), Y, False, True),
    ("aten::select", X, 1, -1),
    ("aten::select_scatter", X, Y[:, 0], 1, 2),
    ("aten::sgn", C),
    ("aten::signbit", X),
    ("aten::sinc", X),
    ("aten::slice", X, 1, 1, 4, 2),
    ("aten::slice_scatter", X, Y[:, 1:3], 1, 1, 3, 1),
    ("aten::softmax", X, 1, None),
    ("aten::softplus", X, 2, 1),
    ("aten::sort", X, 1, True),
    ("aten::sort", I, True, -1, False),
    ("aten::split", X, 2, 1),
    ("aten::split_with_sizes", X, [1, 3], 1),
    ("aten::squeeze", X[:1]),
    ("aten::squeeze", X[:1], 0),
    ("aten::stack", [X, Y], 1),
    ("aten::std", X, True),
    ("aten::std", X, [1], False, True),
    ("aten::std_mean", X, True),
    ("aten::sum", I, None),
    ("aten::sum", X, [0, 2], True, None),
    ("aten::swapaxes", X, 0, 1),
    ("aten::swapdims", X, 0, -1),
    ("aten::t", M),
    ("aten::take", X, J),
    ("aten::take_along_dim", X, I, 1),
    ("aten::tensor_split", X, [1, 3], 1),
    ("aten::tensordot", M, M, [1], [1]),
    ("aten::tile", X, [2, 1]),
    ("aten::topk", X, 2, 1, False, True),
    ("aten::trace", Q),
    ("aten::transpose", X, 0, 2),
    ("aten::trapezoid", X, 0.5, 1),
    ("aten::trapz", V, W, -1),
    ("aten::tril", X, 1),
    ("aten::tril_indices", 3, 4, 0, None, None, None, None),
    ("aten::triu", X, -1),
    ("aten::triu_indices", 3, 4, 1, None, None, None, None),
    ("aten::type_as", I, X),
    ("aten::unbind", X, 1),
    ("aten::unflatten", X, 1, [2, 2]),
    ("aten::unfold", X, 2, 3, 1),
    ("aten::unique_consecutive", np.sort(I.reshape(-1)), True, True, None),
    ("aten::_unique2", I, True, True, True),
    ("aten::unsafe_chunk", X, 2, 1),
    ("aten::unsafe_split", X, 2, 1),
    ("aten::unsqueeze", X, -1),
    ("aten::vander", V, 3, True),
    ("aten::var", X, False),
    ("aten::var", X, [0], True, False),
    ("aten::var_mean", X, [0, 1], False, True),
    ("aten::vdot", V, W),
    ("aten::view", X, [-1]),
    ("aten::view_as", X, Y),
    ("aten::view_as_complex", IMG[..., :2].copy()),
    ("aten::view_as_real", C),
    ("aten::vstack", [X, Y]),
    ("aten::xlogy", np.abs(X), np.abs(Y)),
    ("aten::zeros", [3], None, None, None, None),
    ("aten::zeros_like", X, None, None, None, None, None),
]

LAPACK: list[tuple[Any, ...]] = [
    ("aten::linalg_cholesky", (Q @ Q.T).astype(np.float32)),
    ("aten::linalg_det", Q),
    ("aten::linalg_inv", Q),
    ("aten::linalg_matrix_norm", M, "fro", [-2, -1], True),
    ("aten::linalg_matrix_power", Q, 2),
    ("aten::linalg_norm", X),
    ("aten::linalg_pinv", M),
    ("aten::linalg_slogdet", Q),
    ("aten::linalg_solve", Q, M, True),
]
"""Compared with numpy: not every build of PyTorch has linear algebra."""


def expression_arguments(name: str) -> list[tuple[Any, ...]]:
    """Arguments for a row of the table of expressions."""
    integral = name.startswith(("bitwise", "__")) or "shift" in name
    x, y = (I, J) if integral else (np.abs(X) + 0.1, np.abs(Y) + 1)
    if name in ("atanh", "acos", "asin", "arccos"):
        x = x / 10
    if name == "acosh":
        x = x + 1
    if name in ("real", "imag"):
        return [(C,)]
    if name == "where":
        return [(B, X, Y)]
    counts = {1 + max(int(t[0]) for t in form.split("@")[1:]) for form in EXPRESSIONS[name]}
    third = {"lerp": 0.3, "add": 2, "sub": 2, "subtract": 2, "rsub": 2}.get(name, 2)
    return [((x, y, y, 2) if n == 4 else (x, y, third)[:n]) for n in counts]


def call(kind: str, values: tuple[Any, ...], outputs: int) -> Any:
    """Results of one operator; arrays are inputs, anything else constants, lists of arrays a list operator."""
    graph, arrays, operands, count = pnnx_fast.Graph(), [], [], 0

    def operand_of(value: Any) -> Any:
        nonlocal count
        count += 1
        operand = graph.new_operand(f"v{count}")
        if isinstance(value, np.ndarray):
            arrays.append(np.ascontiguousarray(value).reshape(value.shape))
            graph.new_operator("pnnx.Input", f"o{count}", outputs=[operand])
        elif isinstance(value, list) and value and isinstance(value[0], np.ndarray):
            name = f"o{count}"
            graph.new_operator("prim::ListConstruct", name, inputs=[operand_of(v) for v in value], outputs=[operand])
        else:
            given = tuple(value) if isinstance(value, list) else value
            graph.new_operator("prim::Constant", f"o{count}", outputs=[operand], params={"value": given})
        return operand

    operands = [operand_of(v) for v in values]
    results = [graph.new_operand(f"out{i}") for i in range(outputs)]
    graph.new_operator(kind, "op", inputs=operands, outputs=results)
    for i, result in enumerate(results):
        graph.new_operator("pnnx.Output", f"output{i}", inputs=[result])
    return pnnx_fast.Model(graph)(*arrays)


def as_torch(value: Any) -> Any:
    if isinstance(value, list):
        return [as_torch(v) for v in value]
    return (
        torch.from_numpy(np.ascontiguousarray(value).reshape(value.shape)) if isinstance(value, np.ndarray) else value
    )


def oracle(kind: str, values: tuple[Any, ...]) -> Any:
    """Result of the overload of ``torch.ops.aten`` that takes this many arguments, keyword-only ones included."""
    packet = getattr(torch.ops.aten, kind[6:])
    dtypes = {4: torch.int64, 6: torch.float32}
    overloads = [getattr(packet, name) for name in packet.overloads()]
    for overload in sorted(overloads, key=lambda o: len(o._schema.arguments)):
        arguments = overload._schema.arguments
        if len(arguments) < len(values) or any(a.is_out for a in arguments):
            continue
        plain = [as_torch(v) for a, v in zip(arguments, values, strict=False) if not a.kwarg_only]
        named = {a.name: as_torch(v) for a, v in zip(arguments, values, strict=False) if a.kwarg_only}
        if named.get("dtype") is not None:
            named["dtype"] = dtypes[named["dtype"]]
        if named.get("memory_format") is not None:
            named["memory_format"] = torch.contiguous_format
        try:
            return overload(*plain, **named)
        except (RuntimeError, TypeError):
            continue
    raise LookupError(f"{kind} takes other arguments")


def check(case: tuple[Any, ...], want: Any) -> None:
    kind, *values = case
    parts = list(want) if isinstance(want, (tuple, list)) else [want]
    wide = kind in ("aten::unbind", "aten::meshgrid", "aten::broadcast_tensors") or "split" in kind or "chunk" in kind
    if not wide:
        got = call(kind, tuple(values), len(parts))
        got = list(got) if isinstance(got, (tuple, list)) else [got]
    else:
        got = call(kind, tuple(values), 1)
    for g, w in zip(got, parts, strict=True):
        w = w.resolve_conj().numpy() if isinstance(w, torch.Tensor) else np.asarray(w)
        assert np.shape(g) == w.shape
        assert np.asarray(g).dtype == w.dtype
        np.testing.assert_allclose(g, w, 1e-4, 1e-5 * max(1.0, np.abs(w[np.isfinite(w)]).max(initial=0)))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_matches_torch(case: tuple[Any, ...]) -> None:
    kind, *values = case
    check(case, oracle(kind, tuple(values)))


@pytest.mark.parametrize("name", [n for n in EXPRESSIONS if n not in ("floordiv", "log_sigmoid")])
def test_expressions_match_torch(name: str) -> None:
    for values in expression_arguments(name):
        check((f"aten::{name}", *values), oracle(f"aten::{name}", values))


@pytest.mark.parametrize("case", LAPACK, ids=lambda c: c[0])
def test_linear_algebra_matches_numpy(case: tuple[Any, ...]) -> None:
    kind, x, *rest = case
    name = kind.removeprefix("aten::linalg_")
    if name == "norm":
        check(case, np.linalg.norm(x.reshape(-1)))
    elif name == "matrix_norm":
        check(case, np.linalg.norm(x, "fro", (-2, -1), True))
    elif name == "solve":
        check(case, np.linalg.solve(x, rest[0]))
    else:
        check(case, getattr(np.linalg, name)(x, *rest))


def test_numbers_pass_through() -> None:
    graph = pnnx_fast.Graph()
    x = graph.new_operand("x")
    graph.new_operator("pnnx.Input", "x", outputs=[x])
    sizes, last, count, number, rank, total, whole_number = (graph.new_operand(f"v{i}") for i in range(7))
    index = graph.new_operand("i")
    graph.new_operator("prim::Constant", "c", outputs=[index], params={"value": 1})
    graph.new_operator("aten::size", "a", inputs=[x], outputs=[sizes])
    graph.new_operator("aten::__getitem__", "b", inputs=[sizes, index], outputs=[last])
    graph.new_operator("prim::NumToTensor", "d", inputs=[last], outputs=[number])
    graph.new_operator("aten::Int", "e", inputs=[number], outputs=[whole_number])
    graph.new_operator("aten::len", "f", inputs=[sizes], outputs=[count])
    graph.new_operator("aten::dim", "g", inputs=[x], outputs=[rank])
    graph.new_operator("aten::numel", "h", inputs=[x], outputs=[total])
    parts = [last, number, whole_number, count, rank, total]
    for i, part in enumerate(parts):
        graph.new_operator("pnnx.Output", f"o{i}", inputs=[part])
    assert [int(v) for v in pnnx_fast.Model(graph)(real(3, 4))] == [4, 4, 4, 2, 2, 12]


VIEWS = "aten::Bool aten::Float aten::FloatImplicit aten::IntImplicit aten::ScalarImplicit aten::alias aten::detach_"
SHAPES = "aten::empty_like aten::new_empty aten::empty"


def test_values_that_pass() -> None:
    for kind in (*VIEWS.split(), "aten::lift_fresh", "aten::resolve_conj"):
        assert call(kind, (V[:1],), 1) == V[0]
    for kind in ("aten::adjoint", "aten::mH"):
        np.testing.assert_array_equal(call(kind, (C,), 1), np.conj(C.swapaxes(1, 2)))
    none = (None,) * 5
    for kind, given in zip(SHAPES.split(), ((X, *none), (X, [3, 4, 5], *none[:4]), ([3, 4, 5], *none)), strict=True):
        assert call(kind, given, 1).shape == (3, 4, 5)
    np.testing.assert_allclose(call("aten::vector_norm", (V, 2, [0], False, None), 1), np.linalg.norm(V), 1e-5)
