"""Arguments by position for TorchScript's whole layers and for functions that only numpy has; see aten_cases.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from aten_cases import CUBE, IMG, LINE, B, C, I, J, M, Q, V, W, X, Y, real, whole
from graph_of_one import Weight

POS, UNIT = np.abs(X) + np.float32(0.1), np.tanh(X)
K4, K2, K5 = real(6, 2, 3, 3, seed=7), real(4, 2, 3, 3, seed=8), real(6, 4, 3, 3, 3, seed=9)
GRID = np.tanh(real(2, 5, 4, 2, seed=11))
SEQ, H2 = real(7, 2, 5, seed=12), real(2, 2, 3, seed=13)
PACKED, STEPS, H4 = real(9, 5, seed=12), np.array([3, 3, 2, 1]), real(4, 3, 3, seed=13)
HALF, SPECTRUM = real(2, 40, seed=14), (real(2, 9, 12) + 1j * real(2, 9, 12, seed=1)).astype(np.complex64)
WINDOW = np.hanning(17)[:16].astype(np.float32)


def gates(count: int, inputs: int, hidden: int, layers: int, directions: int) -> list[np.ndarray]:
    """Weights of recurrent layers in TorchScript's order."""
    sizes = [
        size
        for layer in range(layers)
        for _ in range(directions)
        for size in (
            (count * hidden, inputs if layer == 0 else directions * hidden),
            (count * hidden, hidden),
            (count * hidden,),
            (count * hidden,),
        )
    ]
    return [(real(*size, seed=20 + i) / 3).view(Weight) for i, size in enumerate(sizes)]


BLOCK = [real(12, 4, seed=40), real(12, seed=41), real(4, 4, seed=42), real(4, seed=43)]
NORMS, FEED = [V[:4], W[:4], V[1:5], W[1:5]], [real(6, 4, seed=44), V, real(4, 6, seed=45), V[:4]]
TOKENS = real(2, 5, 4, seed=46)

PROBABILITY = (np.abs(M) / np.abs(M).sum(1, keepdims=True)).astype(np.float32)
CLASSES = np.array([4, 0, 2, 1])

LAYERS: list[tuple[Any, ...]] = [
    *[(f"aten::{kind}_window", 9, True, None, None, None, None) for kind in ("hann", "hamming", "blackman")],
    ("aten::hann_window", 8, None, None, None, None),
    ("aten::hamming_window", 8, False, 0.6, None, None, None, None),
    ("aten::round", X, 2),
    ("aten::round", X),
    ("aten::round", np.array([2**53 + 1])),
    *[(f"aten::{kind}_loss", M, Q.repeat(2, 1)[:, :5].copy(), how) for kind in ("mse", "l1") for how in (0, 1, 2)],
    *[(f"aten::{kind}_loss", M, M * 2, 1, 0.5) for kind in ("smooth_l1", "huber")],
    ("aten::kl_div", np.log(PROBABILITY), PROBABILITY[::-1].copy(), 2, False),
    ("aten::kl_div", np.log(PROBABILITY), np.log(PROBABILITY[::-1]).copy(), 0, True),
    ("aten::binary_cross_entropy", PROBABILITY, (M > 0).astype(np.float32), None, 1),
    ("aten::binary_cross_entropy_with_logits", M, (M.copy() > 0.3).astype(np.float32), None, np.abs(M[:1]), 1),
    ("aten::cosine_embedding_loss", M, M + 1, np.array([1.0, -1, 1, -1], np.float32), 0.1, 1),
    *[("aten::triplet_margin_loss", M, M * 2, M[::-1].copy(), 1.5, p, 1e-6, p > 1, p) for p in (1, 2)],
    ("aten::margin_ranking_loss", M[0], M[1], np.array([1.0, -1, 1, -1, 1], np.float32), 0.1, 1),
    ("aten::hinge_embedding_loss", M[0], np.array([1.0, -1, 1, -1, 1], np.float32), 0.8, 2),
    ("aten::soft_margin_loss", M[0], np.array([1.0, -1, 1, -1, 1], np.float32), 1),
    *[("aten::poisson_nll_loss", M * M, M * M * 2, log, True, 1e-8, 0) for log in (False, True)],
    ("aten::nll_loss_nd", np.log(PROBABILITY), CLASSES, np.abs(V[:5]), 1, 2),
    ("aten::cross_entropy_loss", M, CLASSES, np.abs(V[:5]), 1, 2, 0.1),
    ("aten::cross_entropy_loss", M, CLASSES, None, 0, -100, 0.0),
    ("aten::cross_entropy_loss", M, PROBABILITY, None, 1, -100, 0.2),
    ("aten::_adaptive_avg_pool2d", IMG, [3, 2]),
    ("aten::_convolution", IMG, K4, V, [1, 2], [1, 1], [1, 1], False, [0, 0], 2, False, False, True, True),
    ("aten::_convolution", IMG, K2, V[:4], [2, 2], [1, 1], [1, 1], True, [1, 1], 2, False, False, True, True),
    ("aten::convolution", LINE, K2[..., 0], None, [2], [1], [1], True, [0], 1),
    ("aten::convolution", CUBE, K5, V, [1, 1, 1], [1, 0, 1], [1, 1, 1], False, [0, 0, 0], 1),
    ("aten::_convolution_mode", IMG, K4, V, [1, 1], "same", [1, 1], 2),
    ("aten::_log_softmax", X, 1, False),
    ("aten::_softmax", X, -1, False),
    ("aten::_native_batch_norm_legit_no_training", IMG, V[:4], W[:4], W[2:], np.abs(V[:4]), 0.1, 1e-5),
    ("aten::native_batch_norm", IMG, V[:4], None, W[2:], np.abs(V[:4]), False, 0.1, 1e-5),
    ("aten::native_layer_norm", X, [4, 5], M, None, 1e-5),
    ("aten::instance_norm", IMG, V[:4], W[:4], W[2:], np.abs(V[:4]), False, 0.1, 1e-5, False),
    ("aten::instance_norm", IMG, None, None, None, None, True, 0.1, 1e-3, False),
    ("aten::_unsafe_view", X, [12, 5]),
    ("aten::_upsample_bicubic2d_aa", IMG, [5, 11], False, None, None),
    ("aten::_upsample_bilinear2d_aa", IMG, [5, 11], True, None, None),
    ("aten::_upsample_nearest_exact1d", LINE, [5], None),
    ("aten::_upsample_nearest_exact2d", IMG, [5, 11], None, None),
    ("aten::_upsample_nearest_exact3d", CUBE, [5, 11, 3], None, None, None),
    ("aten::upsample_bicubic2d", IMG, [5, 11], False, None, None),
    ("aten::upsample_bilinear2d", IMG, None, False, [1.5, 0.7]),
    ("aten::upsample_bilinear2d", IMG, [5, 11], True, None, None),
    ("aten::upsample_linear1d", LINE, [13], False, None),
    ("aten::upsample_nearest1d", LINE, [13], None),
    ("aten::upsample_nearest2d", IMG, None, [2.0, 3.0]),
    ("aten::upsample_nearest3d", CUBE, [5, 11, 3], None, None, None),
    ("aten::upsample_trilinear3d", CUBE, [5, 11, 3], True, None, None, None),
    ("aten::adaptive_max_pool1d", LINE, [4]),
    ("aten::adaptive_max_pool2d", IMG, [3, 4]),
    ("aten::adaptive_max_pool3d", CUBE, [3, 4, 2]),
    ("aten::max_pool1d_with_indices", LINE, [3], [2], [1], [1], True),
    ("aten::max_pool2d_with_indices", IMG, [3, 2], [2, 2], [1, 0], [1, 1], False),
    ("aten::max_pool3d_with_indices", CUBE, [2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False),
    ("aten::max_unpool2d", IMG[:, :, :2, :2], whole(2, 4, 1, 1, top=1) + np.arange(4).reshape(2, 2) * 3, [5, 4]),
    (
        "aten::max_unpool3d", CUBE[:, :, :2, :2, :2], whole(2, 4, 1, 1, 1, top=1) + np.arange(8).reshape(2, 2, 2) * 7,
        [4, 4, 4], [2, 2, 2], [0, 0, 0],
    ),
    ("aten::affine_grid_generator", real(2, 2, 3, seed=5), [2, 3, 4, 5], False),
    ("aten::grid_sampler", IMG, GRID, 0, 1, True),
    ("aten::grid_sampler_2d", IMG, GRID, 2, 0, False),
    ("aten::grid_sampler_3d", CUBE, np.tanh(real(2, 3, 4, 2, 3)), 1, 2, False),
    ("aten::im2col", IMG, [2, 3], [1, 2], [1, 0], [2, 1]),
    ("aten::col2im", real(2, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]),
    ("aten::pad", IMG, [1, 2, 0, 1], "reflect", None),
    ("aten::pad", X, [1, -2], "constant", 2.5),
    ("aten::constant_pad_nd", X, [1, 2, 0, -1], 3),
    *[(f"aten::{kind}_pad1d", LINE, [2, 1]) for kind in ("reflection", "replication")],
    *[(f"aten::{kind}_pad2d", IMG, [2, 1, 0, 3]) for kind in ("reflection", "replication")],
    *[(f"aten::{kind}_pad3d", CUBE, [2, 1, 0, 3, 1, 1]) for kind in ("reflection", "replication")],
    ("aten::conv_transpose1d", LINE, K2[..., 0], V[:2], [2], [1], [1], 1, [1]),
    ("aten::conv_transpose2d", IMG, K2, None, [2, 1], [1, 0], [1, 0], 2, [1, 1]),
    ("aten::conv_transpose3d", CUBE, real(4, 2, 2, 2, 2), None, [1, 1, 1], [0, 0, 0], [0, 0, 0], 1, [1, 1, 1]),
    ("aten::lstm", SEQ, [H2, H2 / 2], gates(4, 5, 3, 1, 2), True, 1, 0.0, False, True, False),
    ("aten::gru", SEQ, H2, gates(3, 5, 3, 2, 1), True, 2, 0.0, False, False, False),
    ("aten::rnn_relu", SEQ, H2[:1], gates(1, 5, 3, 1, 1), True, 1, 0.0, False, False, False),
    ("aten::rnn_tanh", SEQ, H2[:, :1].repeat(7, 1), gates(1, 5, 3, 1, 2), True, 1, 0.0, False, True, True),
    ("aten::_pack_padded_sequence", real(4, 3, 5), np.array([4, 4, 1]), False),
    ("aten::_pack_padded_sequence", real(3, 6), np.array([5, 2, 2]), True),
    ("aten::_pad_packed_sequence", PACKED, STEPS, False, -1.5, 7),
    ("aten::_pad_packed_sequence", PACKED, STEPS, True, 0.0, 4),
    ("aten::lstm", PACKED, STEPS, [H4, H4 / 2], gates(4, 5, 3, 2, 2), True, 2, 0.0, False, True),
    ("aten::gru", PACKED, STEPS, H4[:2], gates(3, 5, 3, 2, 1), True, 2, 0.0, False, False),
    ("aten::rnn_tanh", PACKED, STEPS, H4[:2], gates(1, 5, 3, 1, 2), True, 1, 0.0, False, True),
    ("aten::rnn_relu", PACKED, STEPS, H4[:1], gates(1, 5, 3, 1, 1), True, 1, 0.0, False, False),
    ("aten::lstm_cell", SEQ[0], [H2[0], H2[1]], *gates(4, 5, 3, 1, 1)),
    ("aten::gru_cell", SEQ[0], H2[0], *gates(3, 5, 3, 1, 1)),
    ("aten::rnn_relu_cell", SEQ[0], H2[0], *gates(1, 5, 3, 1, 1)),
    ("aten::rnn_tanh_cell", SEQ[0], H2[0], *gates(1, 5, 3, 1, 1)),
    ("aten::_native_multi_head_attention", TOKENS, TOKENS, TOKENS, 4, 2, *BLOCK, None, False, True, None),
    *[
        ("aten::_transformer_encoder_layer_fwd", TOKENS, 4, 2, *BLOCK, gelu, first, 1e-5, *NORMS, *FEED, None, None)
        for gelu, first in ((False, False), (True, True))
    ],
    ("aten::embedding_bag", M, J.reshape(-1)[:6] - 1, np.array([0, 2, 5]), False, 1, False, None, False, -1),
    ("aten::embedding_bag", M, J.reshape(-1)[:6] - 1, np.array([0, 2, 2, 6]), False, 2, False, None, True, 1),
    ("aten::embedding_bag", M, J.reshape(-1)[:6] - 1, np.array([0, 0, 4]), False, 0, False, V, False, -1),
    ("aten::bilinear", M, M, real(3, 5, 5), V[:3]),
    ("aten::_grouped_mm", real(6, 8, seed=50), real(3, 8, 12, seed=51), np.array([2, 2, 6], np.int32), None, None),
    ("aten::_grouped_mm", real(3, 6, 8, seed=50), real(8, 12, seed=51), np.array([4, 8, 12], np.int32), None, None),
    ("aten::_grouped_mm", real(6, 12, seed=50), real(12, 8, seed=51), np.array([4, 8, 12], np.int32), None, None),
    ("aten::_grouped_mm", real(3, 6, 8, seed=50), real(3, 8, 12, seed=51), None, None, None),
    ("aten::chain_matmul", [M, M.T.copy(), M]),
    ("aten::linalg_multi_dot", [M, M.T.copy(), M]),
    ("aten::einsum", "ij,kj->ik", [M, Q.repeat(2, 1)[:, :5].copy()], None),
    ("aten::dequantize", X),
    ("aten::dropout", X, 0.5, False),
    ("aten::feature_dropout", X, 0.5, False),
    ("aten::alpha_dropout", X, 0.5, False),
    ("aten::feature_alpha_dropout", X, 0.5, False),
    ("aten::bernoulli", B.astype(np.float32), None),
    ("aten::rrelu", X, 0.1, 0.3, False, None),
    ("aten::hardshrink", X, 0.3),
    ("aten::softshrink", X, 0.3),
    ("aten::threshold", X, 0.2, -1),
    ("aten::native_channel_shuffle", IMG, 2),
    *[(f"aten::fft_{name}", C if name[0] == "h" else X, None, -1, None) for name in ("hfft", "ihfft")],
    *[(f"aten::fft_{name}2", C if name[0] == "h" else X, None, [-2, -1], "ortho") for name in ("hfft", "ihfft")],
    *[(f"aten::fft_{name}n", C if name[0] == "h" else X, None, [0, 2], None) for name in ("hfft", "ihfft")],
    ("aten::stft", HALF, 16, 5, 16, WINDOW, False, True, True, None),
    ("aten::istft", SPECTRUM, 16, 4, 16, WINDOW, True, False, True, 40, False),
    *[(f"aten::{cut}", CUBE, [1, 3]) for cut in ("hsplit", "vsplit", "dsplit")],
    ("aten::hsplit", V, 3),
    ("aten::_shape_as_tensor", X),
    ("aten::copy", X, Y[:1], False),
    ("aten::zero", X),
    ("aten::to", X, 4, False, False, None),
    ("aten::_to_copy", I, 6, None, None, None, False, None),
    ("aten::where", B, X, Y),
    ("aten::nonzero_numpy", I),
    ("aten::as_strided_scatter", X, M[:2, :2], [2, 2], [7, 3], 1),
    ("aten::combinations", V, 3, True),
    ("aten::cartesian_prod", [V, W[:2]]),
    ("aten::corrcoef", M),
    ("aten::cov", M, 0, None, None),
    ("aten::cumulative_trapezoid", X, 0.5, 1),
    ("aten::diagonal_scatter", X, Y[:, 0, :3], 1, 2, 1),
    ("aten::dist", X, Y, 3),
    ("aten::gradient", X, None, 1, 1),
    ("aten::index_reduce", X, 1, np.array([2, 0, 2]), Y[:, :3], "prod", False),
    ("aten::linalg_matrix_exp", Q),
    ("aten::matrix_exp", Q),
    ("aten::matrix_H", C[0]),
    ("aten::mode", I, 1, True),
    ("aten::mode", np.where(I > 1, np.float32(np.nan), I.astype(np.float32)), 0, False),
    ("aten::mode", np.full((2, 3), np.nan, np.float32), 1, False),
    ("aten::median", np.where(B & (np.arange(5) > 0), np.float32(np.nan), X), 2, False),
    ("aten::nanmedian", np.where(B & (np.arange(5) > 0), np.float32(np.nan), X), 2, False),
    ("aten::put", X, np.array([3, 1]), V[:2], True),
    ("aten::digamma", X),
    ("aten::special_digamma", POS),
    ("aten::erfinv", UNIT),
    ("aten::special_erfinv", UNIT),
    ("aten::i0", X),
    ("aten::special_i0", X),
    ("aten::mvlgamma", POS + 3, 2),
    ("aten::polygamma", 1, POS),
    ("aten::special_polygamma", 2, POS),
    ("aten::special_entr", X),
    ("aten::special_logit", POS / 4, 0.1),
    ("aten::special_ndtr", X),
    ("aten::special_sinc", X),
    ("aten::special_xlog1py", X, POS),
    ("aten::special_zeta", POS + 1, POS),
    ("aten::special_zeta", 1.5, POS),
    ("aten::special_xlogy", X, POS),
    ("aten::vector_norm", X, 2, [0], False, None),
]  # fmt: skip
"""Calls of whole layers and of functions that only numpy has."""
