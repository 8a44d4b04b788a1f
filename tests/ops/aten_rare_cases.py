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
]
