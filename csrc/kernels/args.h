/* Argument structs of the kernels, each declared once as a list of fields. From the lists come the C structs
 * and the tables {name, type, offset} by which the Python side packs arguments by name. Field types: in
 * (memory read), out (memory written), io (both), i64, f64, dims (int64_t[8]), ins (16 memory references,
 * read). Strides are counted in elements unless a field says otherwise. Optional references have base -1. */
#ifndef PF_KERNELS_ARGS_H
#define PF_KERNELS_ARGS_H

#include "kernels/codes.h"
#include "kernels/kernel.h"

enum { PF_MAX_RANK = 8, PF_MAX_INS = 16 };

/* Where stride lists of images (pooling, resampling, channels) have the strides of image, channel and of the
 * first spatial axis: of PF_AXES, which are depth, height and width, where they are not counted by a rank. */
enum { PF_IMAGE = 0, PF_CHANNEL = 1, PF_SPACE = 2, PF_AXES = 3 };

/* Most functions of an expression, beside those that only convert. */
enum { PF_MAX_OPERATIONS = 40 };

/* Pooling along lines: the reach of a window, dilation included, and its step stay below and within these. */
enum { PF_POOL_REACH = 1024, PF_POOL_STEP = 64 };

/* Variants of Winograd's convolution are the outputs on the side of a tile; with stride 2, plus this. */
enum { PF_WINO_PHASES = 16, PF_WINO_PAIRS = 32 };

/* Rows of masks that take PF_MASK_ROWS are filled up to a multiple of so many queries. */
enum { PF_MASK_QUERIES = 16 };

/* Rows or columns of a tile of digits of floats, numbers of each, and digits of a number, a byte each. */
enum { PF_SPLIT_SIDE = 16, PF_SPLIT_DEPTH = 64, PF_SPLIT_DIGITS = 3 };

/* Most pixels of thin layers, which read weights of three bytes. */
enum { PF_THIN_PIXELS = 3 };

/* The lists are tables. */
/* clang-format off */
/* Any strided copy between tensors of one dtype: layouts, slices, padding borders. Up to 8 dimensions. */
#define PF_COPY_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, out, y) F(K, i64, itemsize) F(K, i64, rank) F(K, dims, shape) F(K, dims, xs) F(K, dims, ys)

/* y = value, for elements of 1, 2, 4, 8 or 16 bytes; bits hold the value's bytes. */
#define PF_FILL_ARGS(F, K)                                                                                   \
    F(K, out, y) F(K, i64, itemsize) F(K, i64, rank) F(K, dims, shape) F(K, dims, ys) F(K, i64, bits)        \
    F(K, i64, bits_high)

/* y = x in another dtype; source and target: codes of PF_DTYPE_CODES. */
#define PF_CONVERT_ARGS(F, K)                                                                                \
    F(K, in, x) F(K, out, y) F(K, i64, source) F(K, i64, target) F(K, i64, rank) F(K, dims, shape) F(K, dims, xs)  \
    F(K, dims, ys)

/* y of x and z, both broadcast to shape. */
#define PF_PAIR_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, in, z) F(K, out, y) F(K, i64, rank) F(K, dims, shape) F(K, dims, xs) F(K, dims, zs)     \
    F(K, dims, ys)

/* Pooling. isize, osize, window, stride, pad, dilation: of the axes depth, height, width; the strides xs, ys, js: of
 * image, channel and the axes. index (dense int64, optional) receives places in the input's space. adaptive: windows
 * come from isize and osize. include_pad, divisor (0: none) as in PyTorch; norm: exponent of the power average. */
#define PF_POOL_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, out, y) F(K, out, index) F(K, i64, n) F(K, i64, c) F(K, dims, isize) F(K, dims, osize)  \
    F(K, dims, window) F(K, dims, stride) F(K, dims, pad) F(K, dims, dilation) F(K, dims, xs) F(K, dims, ys) \
    F(K, dims, js) F(K, i64, adaptive) F(K, i64, include_pad) F(K, i64, divisor) F(K, f64, norm)

/* Reduction: rank, shape, xs, ys of the kept dimensions; rrank, rshape, rxs of the reduced ones. op: of
 * PF_REDUCE_CODES; p: of norms the exponent, of variances what the count is lessened by. scale multiplies results,
 * but not roots, logarithms, variances and means. */
#define PF_REDUCE_ARGS(F, K)                                                                                 \
    F(K, in, x) F(K, out, y) F(K, i64, op) F(K, i64, rank) F(K, dims, shape) F(K, dims, xs) F(K, dims, ys)   \
    F(K, i64, rrank) F(K, dims, rshape) F(K, dims, rxs) F(K, f64, scale) F(K, f64, p)

/* Work along one axis of n elements with strides xsn, ysn; rank, shape, xs, ys, js describe the other dimensions.
 * index (int64, of argmax and argmin) has no axis; there y, the extreme itself, is optional and has none either.
 * Parameters: softmax, log_softmax: a multiplies x; normalize: a is p, b is eps; local_response_norm: size a, alpha
 * b, beta c, k d. */
#define PF_AXIS_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, out, y) F(K, out, index) F(K, i64, rank) F(K, dims, shape) F(K, dims, xs)               \
    F(K, dims, ys) F(K, dims, js) F(K, i64, n) F(K, i64, xsn) F(K, i64, ysn) F(K, f64, a) F(K, f64, b)       \
    F(K, f64, c) F(K, f64, d)

/* Normalisation of rows of n contiguous elements; rank, shape and the strides describe the other dimensions. The row
 * is x, or x + z, which also goes to s when that is present. w and b (n elements each) are optional; rms: no mean is
 * taken. */
#define PF_ROW_NORM_ARGS(F, K)                                                                               \
    F(K, in, x) F(K, in, z) F(K, in, w) F(K, in, b) F(K, out, y) F(K, out, s) F(K, i64, rank)                \
    F(K, dims, shape) F(K, dims, xs) F(K, dims, zs) F(K, dims, ys) F(K, dims, ss) F(K, i64, n) F(K, f64, eps) \
    F(K, i64, rms)

/* Work on images of c channels over the spatial dimensions rank, shape; xs and ys hold the strides of image, channel
 * and these dimensions. w and b hold c elements, either may be absent. groups and eps: of group_norm. */
#define PF_CHANNELS_ARGS(F, K)                                                                               \
    F(K, in, x) F(K, in, w) F(K, in, b) F(K, out, y) F(K, i64, n) F(K, i64, c) F(K, i64, rank)               \
    F(K, dims, shape) F(K, dims, xs) F(K, dims, ys) F(K, i64, groups) F(K, f64, eps) F(K, i64, act)          \
    F(K, f64, act_a) F(K, f64, act_b)

/* Resampling: along each axis (depth, height, width) every output position is a sum of taps[axis] input positions.
 * index (int64) and weight (float) list them, output after output, axis after axis; without weight there is one tap
 * each. Strides as in PF_POOL_ARGS. */
#define PF_RESIZE_ARGS(F, K)                                                                                 \
    F(K, in, x) F(K, in, index) F(K, in, weight) F(K, out, y) F(K, i64, n) F(K, i64, c) F(K, dims, isize)    \
    F(K, dims, osize) F(K, dims, taps) F(K, dims, xs) F(K, dims, ys)

/* Sampling at the places that grid holds, from -1 to 1, in the order width, height, depth. gs: strides of image, depth,
 * height, width, coordinate; axes: 2 or 3. mode, border and align: of PF_SAMPLE_CODES, PF_BORDER_CODES
 * and PF_ALIGN_CODES. scale, where it is given: a factor for each output pixel, with strides of image, depth, height,
 * width. */
#define PF_GRID_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, in, grid) F(K, out, y) F(K, i64, n) F(K, i64, c) F(K, i64, axes) F(K, dims, isize)      \
    F(K, dims, osize) F(K, dims, xs) F(K, dims, ys) F(K, dims, gs) F(K, i64, mode) F(K, i64, border)         \
    F(K, i64, align) F(K, in, scale) F(K, dims, ss)

/* Padding by before[d] elements (negative: cropping) to `shape`. mode: of PF_PAD_CODES; bits: of the
 * constant. */
#define PF_PAD_ARGS(F, K)                                                                                    \
    F(K, in, x) F(K, out, y) F(K, i64, itemsize) F(K, i64, rank) F(K, dims, shape) F(K, dims, isize)         \
    F(K, dims, before) F(K, dims, xs) F(K, dims, ys) F(K, i64, mode) F(K, i64, bits) F(K, i64, bits_high)

/* 2-D convolution over channels-last tensors (n, h, w, c) with free strides of image, row and pixel; linear layers are
 * the case 1x1. w: packed weights, bias may be absent, z: residual added before the activation (after it when z_late
 * is 1), may be absent. act: of PF_ACT_CODES. */
#define PF_CONV_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, in, w) F(K, in, bias) F(K, in, z) F(K, out, y) F(K, io, scratch)                        \
    F(K, i64, n) F(K, i64, ih) F(K, i64, iw) F(K, i64, ic) F(K, i64, oh) F(K, i64, ow) F(K, i64, oc)         \
    F(K, i64, xsn) F(K, i64, xsh) F(K, i64, xsw) F(K, i64, ysn) F(K, i64, ysh) F(K, i64, ysw)                \
    F(K, i64, zsn) F(K, i64, zsh) F(K, i64, zsw) F(K, i64, z_late)                                           \
    F(K, i64, kh) F(K, i64, kw) F(K, i64, stride_h) F(K, i64, stride_w) F(K, i64, pad_h) F(K, i64, pad_w)    \
    F(K, i64, dil_h) F(K, i64, dil_w) F(K, i64, groups)                                                      \
    F(K, i64, act) F(K, f64, act_a) F(K, f64, act_b) F(K, i64, variant)

/* chunks: into how many parts tiles are cut, which the plan tells; 0: as suits the threads of the run. */
#define PF_WINOGRAD_ARGS(F, K) PF_CONV_ARGS(F, K) F(K, i64, chunks)

/* Convolution of act(x scale[channel] + shift[channel]) with the activation `before`; padding: none. shift may be
 * absent where products are of split floats. */
#define PF_CONV_AFFINE_ARGS(F, K)                                                                            \
    PF_CONV_ARGS(F, K)                                                                                       \
    F(K, in, scale) F(K, in, shift) F(K, i64, before) F(K, f64, before_a) F(K, f64, before_b)

/* Convolution in three dimensions: tensors (n, d, h, w, c), filters kd x kh x kw. */
#define PF_CONV3D_ARGS(F, K)                                                                                 \
    PF_CONV_ARGS(F, K)                                                                                       \
    F(K, i64, id) F(K, i64, od) F(K, i64, xsd) F(K, i64, ysd) F(K, i64, zsd) F(K, i64, kd)                   \
    F(K, i64, stride_d) F(K, i64, pad_d) F(K, i64, dil_d)

/* Convolution of few channels (groups, dil_w: 1) of any layout: xsc is the stride of channels. */
#define PF_STEM_ARGS(F, K) PF_CONV_ARGS(F, K) F(K, i64, xsc)

/* Depthwise and grouped convolutions. sums (n, oh, oc; dense, may be absent): of each line of y, for every channel. */
#define PF_LINES_ARGS(F, K) PF_CONV_ARGS(F, K) F(K, out, sums)

/* One half of the channels of x times the activated other half, which is the first one where `first` is set; ic: 2 oc,
 * windows of one pixel. */
#define PF_GATE_ARGS(F, K) PF_CONV_ARGS(F, K) F(K, i64, first)

/* Convolution of int8 tensors: y = act(sum scale[channel] + bias + z) as float32, or, rounded, that times y_scale as
 * int8 where this is not 0. Where x_scale is not 0, x is float32 and quantised by it (not of depthwise ones). */
#define PF_CONV_INT8_ARGS(F, K)                                                                              \
    PF_CONV_ARGS(F, K)                                                                                       \
    F(K, in, scale) F(K, f64, x_scale) F(K, f64, y_scale)

/* y = x scale, rounded to int8; rank, shape and strides of both. scale: one number, or one for each place along the
 * last dimension (scales says how many). */
#define PF_QUANTIZE_ARGS(F, K)                                                                               \
    F(K, in, x) F(K, in, scale) F(K, out, y) F(K, i64, rank) F(K, dims, shape) F(K, dims, xs) F(K, dims, ys) \
    F(K, i64, scales)

/* Packs weights for the kernel of the same family: x is the PyTorch tensor (oc, ic/groups, kh, kw), dense. kh: of
 * three-dimensional filters, kd times kh. Weights of int8 kernels are int8. */
#define PF_PACK_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, out, y)                                                                                 \
    F(K, i64, oc) F(K, i64, ic) F(K, i64, kh) F(K, i64, kw) F(K, i64, groups) F(K, i64, variant)

/* x: weights that conv_pack has packed with the same sizes; y: with each input channel multiplied by scale (ic). */
#define PF_CONV_SCALE_ARGS(F, K) F(K, in, scale) PF_PACK_ARGS(F, K)

/* y[o, j, :] = x[o, index[j], :] for o < outer, j < count. index: dense integers of index_size 4 or 8 bytes; size:
 * of the indexed dimension; wrap: of PF_OUTSIDE_CODES; inner and the strides (of o in x and y, of a row in x and y)
 * in bytes. */
#define PF_GATHER_ROWS_ARGS(F, K)                                                                            \
    F(K, in, x) F(K, in, index) F(K, out, y) F(K, i64, index_size) F(K, i64, outer) F(K, i64, count)         \
    F(K, i64, size) F(K, i64, wrap) F(K, i64, inner) F(K, i64, xso) F(K, i64, xsr) F(K, i64, yso)            \
    F(K, i64, ysr)

/* y[i, :] of the rows of x (size, columns) that index (count integers of index_size bytes) names from starts[i] on,
 * up to starts[i + 1], or to the end for the last of the bags unless they are closed. kind: of PF_BAG_CODES; scale:
 * factors of a sum, one an index, may be absent; rows `skip` (-1: none) count for nothing. All dense. */
#define PF_BAGS_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, in, index) F(K, in, starts) F(K, in, scale) F(K, out, y) F(K, i64, index_size)          \
    F(K, i64, starts_size) F(K, i64, size) F(K, i64, columns) F(K, i64, count) F(K, i64, bags)               \
    F(K, i64, closed) F(K, i64, kind) F(K, i64, skip)

/* y: how many of n sorted edges are less than each value of x (right: not larger), as int64 (narrow: int32). Lines of
 * values have edges of their own, step apart. All dense. */
#define PF_SEARCH_ARGS(F, K)                                                                                 \
    F(K, in, x) F(K, in, edges) F(K, out, y) F(K, i64, lines) F(K, i64, values) F(K, i64, n) F(K, i64, step) \
    F(K, i64, right) F(K, i64, narrow)

/* Elements named by an index tensor of `shape` along dimension dim, whose size and stride in the indexed tensor are
 * size and stride: y[p] = x[p, dim <- index[p]], the strides xs count with xs[dim] = 0. js: strides of the index
 * tensor. */
#define PF_GATHER_ARGS(F, K)                                                                                 \
    F(K, in, x) F(K, in, index) F(K, io, y) F(K, i64, itemsize) F(K, i64, index_size) F(K, i64, rank)        \
    F(K, i64, dim) F(K, i64, size) F(K, i64, stride) F(K, i64, wrap) F(K, dims, shape) F(K, dims, xs)        \
    F(K, dims, js) F(K, dims, ys)

/* The other way: x[p] goes to y[p, dim <- index[p]], ys[dim] = 0. op: of PF_SCATTER_CODES. type, unless elements are
 * put: of PF_DTYPE_CODES, float16 (not of extremes), float32, float64, int32 or int64. */
#define PF_SCATTER_ARGS(F, K) PF_GATHER_ARGS(F, K) F(K, i64, op) F(K, i64, type)

/* y = softmax(scale q k^T + mask) v for each of batch x heads; query head h reads head h / (heads / kv_heads) of k
 * and v. Strides of batch, head and row; the d (of q, k) or dv (of v, y) elements of a row are contiguous.
 * mask_kind: of PF_MASK_CODES; msq is 1 with PF_MASK_ROWS; msb, msh, msq, msk: strides of batch, head, query and
 * key, 0 to broadcast; the mask repeats after mask_batches. causal: query i sees the keys up to i + diagonal. A
 * query without keys gives zeros, or NaN when empty_nan is set. */
#define PF_ATTENTION_ARGS(F, K)                                                                              \
    F(K, in, q) F(K, in, k) F(K, in, v) F(K, in, mask) F(K, out, y) F(K, io, scratch)                        \
    F(K, i64, batch) F(K, i64, heads) F(K, i64, kv_heads) F(K, i64, queries) F(K, i64, keys) F(K, i64, d)    \
    F(K, i64, dv) F(K, i64, qsb) F(K, i64, qsh) F(K, i64, qsr) F(K, i64, ksb) F(K, i64, ksh) F(K, i64, ksr)  \
    F(K, i64, vsb) F(K, i64, vsh) F(K, i64, vsr) F(K, i64, ysb) F(K, i64, ysh) F(K, i64, ysr)                \
    F(K, i64, msb) F(K, i64, msh) F(K, i64, msq) F(K, i64, msk) F(K, i64, mask_kind) F(K, i64, mask_batches) \
    F(K, f64, scale) F(K, f64, filling) F(K, i64, causal) F(K, i64, diagonal) F(K, i64, empty_nan)            \
    F(K, i64, variant)

/* Rows of 2 half numbers (x, y) turned by angles: c and s hold the half cosines and sines of each row, the same for
 * all heads. Members of a pair stand half numbers apart, or side by side where neighbours is set. Strides of batch,
 * head and row; rows are dense. */
#define PF_ROTARY_ARGS(F, K)                                                                                 \
    F(K, in, x) F(K, in, c) F(K, in, s) F(K, out, y) F(K, i64, n) F(K, i64, heads) F(K, i64, rows)           \
    F(K, i64, half) F(K, i64, xsn) F(K, i64, xsh) F(K, i64, xsr) F(K, i64, ysn) F(K, i64, ysh)               \
    F(K, i64, ysr) F(K, i64, csn) F(K, i64, csr) F(K, i64, ssn) F(K, i64, ssr) F(K, i64, neighbours)

/* y = alpha a b + beta c over batches of `rank` dimensions. a is m x k, b is k x n, c and y are m x n; every stride
 * is free (0 broadcasts) but columns of y are neighbours. c may be absent. scratch: of the whole team. */
#define PF_MATMUL_ARGS(F, K)                                                                                 \
    F(K, in, a) F(K, in, b) F(K, in, c) F(K, out, y) F(K, io, scratch)                                       \
    F(K, i64, rank) F(K, dims, shape) F(K, dims, as) F(K, dims, bs) F(K, dims, cs) F(K, dims, ys)            \
    F(K, i64, m) F(K, i64, n) F(K, i64, k)                                                                   \
    F(K, i64, am) F(K, i64, ak) F(K, i64, bk) F(K, i64, bn) F(K, i64, cm) F(K, i64, cn) F(K, i64, ym)        \
    F(K, f64, alpha) F(K, f64, beta)

/* One layer of LSTM, GRU or RNN cells, one or two directions (two when w_reverse is given). gates: x W_ih^T + b_ih
 * (+ b_hh, of GRU without the part of the new gate, which is `bias`), element (step, row, direction, gate, unit) at
 * step gst + row gsn + dense rest. w, wr: packed W_hh and W_hr; out: length of h, that is hidden or the size of the
 * projection. h0 (dirs, rows, out) and c0 (dirs, rows, hidden) may be absent; c: the final cell states, in the same
 * form, LSTM only. y: (step, row, direction, out) with strides yst, ysn. A call takes `steps` of the `total` steps,
 * after the `first` that calls before have taken: a direction that runs backwards takes its own first ones, which
 * are the last in y; gates has the entries of this call alone, h0 and c0 serve when first is 0, and c carries the
 * cells from call to call. scratch: with a projection, dirs * rows * hidden floats. rounded: where h is to be
 * rounded to int8 before its product, rows * out floats for each thread. paired: what the plan of packing asks for.
 * relu: of a plain RNN, in place of tanh. form: of the packed weights. */
#define PF_RECURRENT_ARGS(F, K)                                                                              \
    F(K, in, gates) F(K, in, w) F(K, in, w_reverse) F(K, in, wr) F(K, in, wr_reverse) F(K, in, bias)         \
    F(K, in, bias_reverse) F(K, in, h0) F(K, in, c0) F(K, io, c) F(K, io, y) F(K, io, scratch)               \
    F(K, io, rounded) F(K, io, paired)                                                                       \
    F(K, i64, first) F(K, i64, steps) F(K, i64, total) F(K, i64, rows) F(K, i64, hidden) F(K, i64, out)      \
    F(K, i64, gst) F(K, i64, gsn) F(K, i64, yst) F(K, i64, ysn) F(K, i64, relu)                              \
    F(K, i64, form)

/* Packs W_hh (gates * units, k) for the recurrent kernel; W_hr with gates = 1. The variant, which suits so many
 * rows and directions (0: one row), is the kernel's `form`; its scratch is the kernel's `paired`. */
#define PF_RECURRENT_PACK_ARGS(F, K)                                                                         \
    F(K, in, x) F(K, out, y) F(K, i64, gates) F(K, i64, units) F(K, i64, k) F(K, i64, rows)                  \
    F(K, i64, dirs) F(K, i64, variant)

/* A chain of operations on up to 16 operands. code, int64: counts of operands, constants, registers, operations;
 * type, of PF_DTYPE_CODES (not bool and float16); what the result is, and what each operand is, of PF_OPERAND_CODES,
 * with its 8 strides; bits of each constant; of each operation code, destination and three sources, numbered
 * operands first, then constants, then registers. The last operation's destination is y. */
#define PF_EXPRESSION_ARGS(F, K)                                                                             \
    F(K, ins, x) F(K, out, y) F(K, in, code) F(K, i64, rank) F(K, dims, shape) F(K, dims, ys)

/* values, indices (outer, k, inner): the k largest or smallest of each line of x (outer, n, inner), all dense.
 * Indices are int64. sorted: best first; otherwise in the order in which selection leaves them. */
#define PF_TOPK_ARGS(F, K)                                                                                   \
    F(K, in, x) F(K, out, values) F(K, out, indices) F(K, io, scratch) F(K, i64, outer) F(K, i64, n)         \
    F(K, i64, inner) F(K, i64, k) F(K, i64, largest) F(K, i64, sorted) F(K, i64, variant)

/* The best of n boxes (n rows of 4 floats) by scores, for each class; strides of scores are in elements. Boxes with
 * the score -inf or NaN take no part. Of the `top` best, the first `keep` that overlap no better kept one by more
 * than limit: index (int64) and best, both (classes, keep), filled up with -1 and -inf. Without boxes nothing
 * overlaps. */
#define PF_PICK_ARGS(F, K)                                                                                   \
    F(K, in, boxes) F(K, in, scores) F(K, out, index) F(K, out, best) F(K, io, scratch) F(K, i64, n)         \
    F(K, i64, classes) F(K, i64, score_stride) F(K, i64, class_stride) F(K, i64, top) F(K, i64, keep)        \
    F(K, f64, limit) F(K, i64, variant)

/* Regions (rows of x0, y0, x1, y1, with indexed = 1 the number of an image before) of n images of h x w, all in
 * plain layout, pooled to bins: y (regions_n, c, bins_h, bins_w). kind: of PF_REGION_CODES; with PF_REGION_PLACES x
 * has c bins_h bins_w channels. Samples: ratio a bin and axis, 0 for one a pixel; aligned moves regions by half a
 * pixel. */
#define PF_REGION_ARGS(F, K)                                                                                 \
    F(K, in, x) F(K, in, regions) F(K, out, y) F(K, io, scratch) F(K, i64, n) F(K, i64, c) F(K, i64, h)      \
    F(K, i64, w) F(K, i64, bins_h) F(K, i64, bins_w) F(K, i64, regions_n) F(K, i64, indexed)                 \
    F(K, i64, kind) F(K, i64, ratio) F(K, i64, aligned) F(K, f64, scale) F(K, i64, variant)

/* Fourier transforms of n places along lines; rank, shape, xs and ys describe the lines. x_parts, y_parts: 2 for
 * complex numbers, 1 for real ones, and all strides, also xsn and ysn along a line, count parts. Of x there are
 * `given` places, the others are 0: they are the transform's from place `first` on, times the window (given numbers;
 * may be absent). With real results x holds the first n / 2 + 1 places of a Hermitian spectrum, or less of them.
 * `wanted` places of the result, times scale, are written. roots: n complex exp(-2 pi i k / n). */
#define PF_FOURIER_ARGS(F, K)                                                                                \
    F(K, in, x) F(K, in, window) F(K, in, roots) F(K, out, y) F(K, io, scratch) F(K, i64, rank)              \
    F(K, dims, shape) F(K, dims, xs) F(K, dims, ys) F(K, i64, n) F(K, i64, xsn) F(K, i64, ysn)               \
    F(K, i64, x_parts) F(K, i64, y_parts) F(K, i64, first) F(K, i64, given) F(K, i64, wanted)                \
    F(K, i64, inverse) F(K, f64, scale)

/* What a machine can do: count rounds of twelve multiply-adds of a vector. y: a vector for each thread, which they
 * start from. */
#define PF_PROBE_ARGS(F, K) F(K, io, y) F(K, i64, count)

#define PF_ARG_KINDS(X)                                                                                      \
    X(copy, PF_COPY_ARGS)                                                                                    \
    X(convert, PF_CONVERT_ARGS)                                                                              \
    X(pair, PF_PAIR_ARGS)                                                                                    \
    X(fill, PF_FILL_ARGS)                                                                                    \
    X(axis, PF_AXIS_ARGS)                                                                                    \
    X(row_norm, PF_ROW_NORM_ARGS)                                                                            \
    X(channels, PF_CHANNELS_ARGS)                                                                            \
    X(resize, PF_RESIZE_ARGS)                                                                                \
    X(grid, PF_GRID_ARGS)                                                                                    \
    X(pad, PF_PAD_ARGS)                                                                                      \
    X(reduce, PF_REDUCE_ARGS)                                                                                \
    X(pool, PF_POOL_ARGS)                                                                                    \
    X(conv, PF_CONV_ARGS)                                                                                    \
    X(winograd, PF_WINOGRAD_ARGS)                                                                            \
    X(stem, PF_STEM_ARGS)                                                                                    \
    X(conv_affine, PF_CONV_AFFINE_ARGS)                                                                      \
    X(lines, PF_LINES_ARGS)                                                                                  \
    X(gate, PF_GATE_ARGS)                                                                                    \
    X(conv3d, PF_CONV3D_ARGS)                                                                                \
    X(conv_int8, PF_CONV_INT8_ARGS)                                                                          \
    X(quantize, PF_QUANTIZE_ARGS)                                                                            \
    X(pack, PF_PACK_ARGS)                                                                                    \
    X(conv_scale, PF_CONV_SCALE_ARGS)                                                                        \
    X(matmul, PF_MATMUL_ARGS)                                                                                    \
    X(gather_rows, PF_GATHER_ROWS_ARGS)                                                                      \
    X(bags, PF_BAGS_ARGS)                                                                                    \
    X(search, PF_SEARCH_ARGS)                                                                                \
    X(topk, PF_TOPK_ARGS)                                                                                    \
    X(pick, PF_PICK_ARGS)                                                                                    \
    X(region, PF_REGION_ARGS)                                                                                \
    X(gather, PF_GATHER_ARGS)                                                                                \
    X(scatter, PF_SCATTER_ARGS)                                                                              \
    X(recurrent, PF_RECURRENT_ARGS)                                                                          \
    X(recurrent_pack, PF_RECURRENT_PACK_ARGS)                                                                \
    X(rotary, PF_ROTARY_ARGS)                                                                                \
    X(attention, PF_ATTENTION_ARGS)                                                                          \
    X(fourier, PF_FOURIER_ARGS)                                                                              \
    X(probe, PF_PROBE_ARGS)                                                                                  \
    X(expression, PF_EXPRESSION_ARGS)
/* clang-format on */

#define PF_DECLARE_in(name)               pf_ref name;
#define PF_DECLARE_out(name)              pf_ref name;
#define PF_DECLARE_io(name)               pf_ref name;
#define PF_DECLARE_i64(name)              int64_t name;
#define PF_DECLARE_f64(name)              double name;
#define PF_DECLARE_dims(name)             int64_t name[PF_MAX_RANK];
#define PF_DECLARE_ins(name)              pf_ref name[PF_MAX_INS];
#define PF_STRUCT_FIELD(kind, type, name) PF_DECLARE_##type(name)
#define PF_STRUCT(kind, FIELDS)                                                                              \
    typedef struct pf_##kind##_args {                                                                        \
        FIELDS(PF_STRUCT_FIELD, kind)                                                                        \
    } pf_##kind##_args;
PF_ARG_KINDS(PF_STRUCT)

#define PF_KIND_ID(kind, FIELDS) PF_KIND_##kind,
enum { PF_ARG_KINDS(PF_KIND_ID) PF_KIND_COUNT };

#endif
