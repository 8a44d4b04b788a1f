"""More arguments by position: copies of views, other names of operators, special functions, fractional pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
from aten_cases import M, X, real, whole

ENDS = np.array([0, -0.0, 0.1, 1, 1.5, 2, 5.5, 20, 1e3, np.inf, -1, -2.5, np.nan], np.float32)
PAIRS = [np.ascontiguousarray(a) for a in np.broadcast_arrays(ENDS[:, None], ENDS)]
WINDOWS, PLACES = real(2, 3, 9, 9), np.random.default_rng(7).random((2, 3, 2)).astype(np.float32)
HOLED = np.where(real(2, 3, 9, 9, seed=9) > 1.5, np.float32(np.nan), WINDOWS)
SOLIDS, DEEP = real(2, 2, 6, 7, 8), np.random.default_rng(8).random((2, 2, 3)).astype(np.float32)
LINES = whole(6, 3, top=2)
LOG = np.log(np.random.default_rng(8).dirichlet(np.ones(5), 7)).astype(np.float32)
CLASS = whole(7)

AROUND = np.array([-np.inf, -90, -30, -14.2, -7.1, -6.9, -3, -0.7, -1e-9, 0, 1e-9, 0.4, 1, 1.1, 5, 13.9, 14.1, 60,
                   5e3, np.inf, np.nan], np.float32)  # fmt: skip
ARGUMENTS = np.array([[-1.7], [-1], [-0.6], [0], [0.2], [0.5], [0.93], [1], [1.4], [np.nan]], np.float32)
ORDERS = np.array([-2, 0, 1, 2, 3, 7, 8, 10, 11.9], np.float32)
POLYNOMIALS = [
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
]

RARE: list[tuple[Any, ...]] = [
    ("aten::_reshape_copy", X, [4, 15]),
    ("aten::_stack", [X, X], 1),
    ("aten::_unique", LINES, True, True),
    ("aten::alias_copy", X),
    ("aten::as_strided_copy", X, [2, 3], [1, 2], 4),
    ("aten::cpu", X),
    ("aten::detach_copy", X),
    ("aten::diagonal_copy", X, 1, 1, 2),
    ("aten::expand_copy", M[:, :1], [2, 4, 3], False),
    ("aten::fractional_max_pool2d", WINDOWS, [3, 2], [4, 5], PLACES),
    ("aten::fractional_max_pool2d", HOLED, [2, 2], [1, 8], PLACES),
    ("aten::fractional_max_pool2d", WINDOWS[0], [9, 3], [1, 3], PLACES[:1]),
    ("aten::fractional_max_pool3d", SOLIDS, [2, 3, 2], [3, 4, 5], DEEP),
    ("aten::fractional_max_pool3d", SOLIDS[0], [2, 3, 2], [3, 4, 5], DEEP),
    ("aten::igamma", *PAIRS),
    ("aten::igammac", *PAIRS),
    ("aten::lift", X),
    ("aten::lift_fresh_copy", X),
    ("aten::linalg_matmul", M, M.T.copy()),
    ("aten::narrow_copy", X, 1, -3, 2),
    ("aten::nll_loss", LOG, CLASS, None, 1, -100),
    ("aten::nll_loss2d", np.ascontiguousarray(LOG.reshape(7, 5, 1, 1)), CLASS.reshape(7, 1, 1), None, 0, -100),
    ("aten::permute_copy", X, [2, 0, 1]),
    ("aten::row_stack", [X, X]),
    ("aten::elu", X, 1.67, 1.05, 1.0),
    ("aten::elu", X, 1.0, 1.5, 0.5),
    ("aten::segment_reduce", M, "mean", np.array([1, 0, 3]), None, None, 0, False, None),
    ("aten::segment_reduce", M, "prod", np.array([1, 0, 3]), None, None, 0, True, 2.5),
    ("aten::segment_reduce", X, "max", None, None, np.array([[0, 2, 2, 3]] * 3), 1, True, None),
    ("aten::segment_reduce", X, "min", None, None, np.array([[0, 2, 2, 3]] * 3), 1, True, None),
    ("aten::select_copy", X, 1, -1),
    ("aten::slice_copy", X, 2, 1, 5, 2),
    ("aten::special_gammainc", *PAIRS),
    ("aten::special_gammaincc", *PAIRS),
    ("aten::special_log_softmax", X, 1, None),
    ("aten::special_logsumexp", X, [1, 2], False),
    ("aten::special_multigammaln", np.abs(X) + 2, 3),
    ("aten::special_round", X, 1),
    ("aten::special_softmax", X, 1, None),
    ("aten::special_zeta", *PAIRS),
    ("aten::special_zeta", np.abs(X) + 1, 2.5),
    ("aten::special_zeta", 2.5, np.abs(X) + 1),
    ("aten::split_copy", X, 2, 1),
    ("aten::split_with_sizes_copy", X, [1, 3], 1),
    ("aten::squeeze_copy", X[:1]),
    ("aten::squeeze_copy", X[:1], 0),
    ("aten::t_copy", M),
    ("aten::transpose_copy", X, 0, 2),
    ("aten::unbind_copy", X, 1),
    ("aten::unfold_copy", X, 1, 3, 1),
    ("aten::unique_dim_consecutive", LINES, 0, True, True),
    ("aten::unsqueeze_copy", X, 1),
    ("aten::view_as_complex_copy", np.ascontiguousarray(X[..., :2])),
    ("aten::view_as_real_copy", (M + 1j * M).astype(np.complex64)),
    ("aten::view_copy", X, [5, 12]),
    *(("aten::special_" + name, AROUND) for name in ("bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1")),
    *(("aten::special_" + name, AROUND) for name in ("airy_ai", "spherical_bessel_j0")),
    *((f"aten::special_{name}", ARGUMENTS, ORDERS) for name in POLYNOMIALS),
    *((f"aten::special_{name}", ARGUMENTS[:-1].astype(np.float64), 9) for name in POLYNOMIALS),
    *((f"aten::special_{name}", 0.3, ORDERS.astype(np.int64)) for name in POLYNOMIALS),
    # Corners: no weight at all, whole numbers where fractions are given, tensors without dimensions, nothing.
    ("aten::_safe_softmax", np.where(M > 0.2, M, -np.float32(np.inf)), -1, None),
    ("aten::_safe_softmax", np.full((2, 3), -np.inf, np.float32), 1, None),
    ("aten::native_group_norm", WINDOWS, None, np.float32([1, 2, 3]), 2, 3, 81, 3, 1e-5),
    ("aten::native_group_norm", real(2, 4, 5), real(4), None, 2, 4, 5, 2, 0.5),
    ("aten::batch_norm", WINDOWS, None, None, real(3), np.abs(real(3)), True, 0.1, 0.5, False),
    ("aten::native_batch_norm", WINDOWS, real(3), None, real(3), np.abs(real(3)), True, 0.1, 0.5),
    ("aten::addr", np.full((6, 3), np.nan, np.float32), X[0, 0, :1].repeat(6), M[0, :3], 0.0, 2.0),
    ("aten::addmv", np.array([7]), whole(5, 4), whole(4), 0.6, 1.9),
    ("aten::addbmm", whole(3), whole(5, 2, 4), whole(5, 4, 3), 1.7, -1.9),
    ("aten::addbmm", real(3), real(5, 2, 4), real(5, 4, 3), 0, 0.5),
    ("aten::cov", M, 0, np.array([2, 0, 1, 3, 1]), np.abs(real(5))),
    ("aten::cov", M, 2, None, np.abs(real(5))),
    ("aten::cov", whole(3, 4), 1, None, None),
    ("aten::corrcoef", whole(3, 4)),
    ("aten::corrcoef", real(4)),
    ("aten::polygamma", 1, np.where(ENDS == -1, np.float32(0.3), ENDS)),
    ("aten::special_ndtri", np.float32([-0.1, -1e-40, 0, 1e-6, 0.5, 1, 1.1, np.nan])),
    ("aten::special_round", np.float32([15, 25, 34.9, -45, 1e30]), -1),
    ("aten::special_round", np.float16([60000, 1.005, -7.777]), 2),
    ("aten::diff", X, 0, 1, X, X),
    ("aten::gradient", whole(4, 3), None, 0, 1),
    ("aten::trapezoid", whole(4, 3), whole(4, 3), -1),
    ("aten::cumulative_trapezoid", whole(4, 3), whole(4, 3), -1),
    ("aten::linspace", -2.7, 9.4, 13, 4, None, None, None),
    ("aten::logspace", 4.3, 0.9, 5, 2.0, 4, None, None, None),
    ("aten::index_reduce", np.array(3, np.float32), 0, np.array([0]), np.array(2, np.float32), "mean", True),
    ("aten::scatter_reduce", np.array(3, np.float32), 0, np.array([0]), np.float32([2]), "amax", False),
    ("aten::linalg_vander", np.array(2, np.float32), 3),
    ("aten::linalg_vander", np.array([2, 30], np.int8), 4),
    ("aten::index_reduce", np.array([2, 30], np.int16), 0, np.array([0, 0]), np.array([5, -9], np.int16), "mean", True),
    ("aten::matrix_H", M > 0),
    ("aten::multi_margin_loss", np.array(0.4, np.float32), np.array(0), 1, 1.0, None, 1),
    ("aten::prelu", np.array(-2, np.float32), np.float32([0.3])),
    ("aten::searchsorted", np.zeros((0, 3), np.float32), np.zeros((0, 2), np.float32), False, False),
    ("aten::unfold", np.array(3, np.float32), 0, 1, 1),
    ("aten::upsample_bilinear2d", WINDOWS, [7, 12], False, 0.7, 1.5),
    ("aten::_upsample_bicubic2d_aa", WINDOWS, [4, 5], False, 0.7, 0.4),
]
