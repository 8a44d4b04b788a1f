/* Depthwise convolution: each output channel reads one input channel (groups == ic, oc a multiple of ic).
 * Vectors run over channels, accumulators over neighbouring output pixels of a row, so that an input vector
 * once loaded serves all taps of its row. Used by the lowering of convolutions; knows nothing of other
 * convolution families. */
#include <stdio.h>

#include "kernels/args.h"
#include "kernels/epilogue.h"
#include "kernels/simd.h"

#define PF_UNROLL _Pragma("GCC unroll 32")
enum { PF_DW_TILE = 8, PF_DW_CACHE = 65536, PF_DW_MAX_BLOCK = 512 };

/* Output rows of a tile: two of them share the loads of their common input rows where the registers suffice.
 */
#if defined(PF_AVX512) || defined(__aarch64__)
enum { PF_DW_ROWS = 2 };
#else
enum { PF_DW_ROWS = 1 };
#endif

/* One or two rows of up to PF_DW_TILE output pixels over channels [0, channels). */
typedef struct dw_tile {
    const float *x; /* input at the first valid tap row, first column of the window of the first pixel */
    const float *w, *bias, *z;
    float *y;
    const pf_vi
        *expand; /* lanes of an output vector within its input vector, one per vector; NULL: the same */
    const pf_conv_args *a;
    pf_activation act;
    int64_t channel, channels, ocp; /* channels [channel, channel + channels) of ocp packed ones */
    int64_t row0, row1;             /* valid tap rows */
    int64_t lo, hi;                 /* valid columns, relative to x */
    int64_t pixels;                 /* to store */
} dw_tile;

typedef void (*dw_tile_fn)(const dw_tile *t);

PF_INLINE pf_vf dw_load(const float *p, int64_t n, int tail) { return tail ? pf_loadn(p, n) : pf_load(p); }

PF_INLINE void dw_finish(const dw_tile *t, pf_vf *acc, const float *z, float *y, int64_t c, int64_t n,
                         int tail) {
    const pf_conv_args *a = t->a;
    if (z) {
        PF_UNROLL for (int i = 0; i < PF_DW_TILE; i++) if (i < t->pixels) acc[i] +=
            dw_load(z + i * a->zsw + c, n, tail);
    }
    pf_act_early(&t->act, acc, PF_DW_TILE);
    PF_UNROLL for (int i = 0; i < PF_DW_TILE; i++) {
        if (i >= t->pixels) break;
        if (tail)
            pf_storen(y + i * a->ysw + c, acc[i], n);
        else
            pf_store(y + i * a->ysw + c, acc[i]);
    }
}

/* What is constant after inlining. edge: some columns lie in the padding; tail: less than a vector of
 * channels. */
typedef struct dw_form {
    int kw, stride, edge, tail, rows;
} dw_form;

/* Adds one input row to the output rows [first, last) of the tile; row o uses the taps at w - o * wstep. */
PF_INLINE void dw_row(const dw_tile *t, const dw_form f, const float *x, const float *w, int64_t wstep,
                      pf_vf (*acc)[PF_DW_TILE], int64_t n, const int first, const int last) {
    const int64_t xsw = t->a->xsw;
    pf_vf taps[2][8];
    PF_UNROLL for (int o = first; o < last; o++) {
        PF_UNROLL for (int k = 0; k < f.kw; k++) taps[o][k] = pf_load(w - o * wstep + k * t->ocp);
    }
    PF_UNROLL for (int j = 0; j < (PF_DW_TILE - 1) * f.stride + f.kw; j++) {
        if (f.edge && (j < t->lo || j >= t->hi)) continue;
        const pf_vf v = dw_load(x + j * xsw, n, f.tail);
        PF_UNROLL for (int o = first; o < last; o++) {
            PF_UNROLL for (int k = 0; k < f.kw; k++) {
                const int i = (j - k) / f.stride;
                if (j >= k && (j - k) % f.stride == 0 && i < PF_DW_TILE)
                    acc[o][i] = pf_fma(v, taps[o][k], acc[o][i]);
            }
        }
    }
}

PF_INLINE void dw_vector(const dw_tile *t, const dw_form f, int64_t c, int64_t n) {
    const pf_conv_args *a = t->a;
    pf_vf acc[2][PF_DW_TILE];
    const pf_vf start = t->bias ? dw_load(t->bias + c, n, f.tail) : pf_zero();
    PF_UNROLL for (int i = 0; i < PF_DW_TILE; i++) acc[0][i] = acc[1][i] = start;
    const int64_t xstep = a->dil_h * a->xsh, wrow = f.kw * t->ocp, down = f.rows > 1 ? a->stride_h : a->kh;
    const int64_t both = pf_min(a->kh, t->row1);
    const float *x = t->x + c, *w = t->w + c;
    int64_t r = t->row0;
    for (; r < pf_min(down, both); r++, x += xstep, w += wrow) dw_row(t, f, x, w, 0, acc, n, 0, 1);
    if (f.rows > 1) {
        for (; r < both; r++, x += xstep, w += wrow) dw_row(t, f, x, w, down * wrow, acc, n, 0, 2);
        for (; r < t->row1; r++, x += xstep, w += wrow) dw_row(t, f, x, w, down * wrow, acc, n, 1, 2);
    }
    dw_finish(t, acc[0], t->z, t->y, c, n, f.tail);
    if (f.rows > 1) dw_finish(t, acc[1], t->z ? t->z + a->zsh : NULL, t->y + a->ysh, c, n, f.tail);
}

PF_INLINE void dw_run(const dw_tile *t, const int kw, const int stride, const int edge, const int rows) {
    int64_t c = 0;
    for (; c + PF_VL <= t->channels; c += PF_VL) dw_vector(t, (dw_form){kw, stride, edge, 0, rows}, c, PF_VL);
    if (c < t->channels) dw_vector(t, (dw_form){kw, stride, edge, 1, rows}, c, t->channels - c);
}

#define PF_DW_SHAPES(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1) X(7, 2)
#define PF_DW_TILE_FN(kw, stride)                                                                            \
    static void dw_inner_##kw##_##stride(const dw_tile *t) { dw_run(t, kw, stride, 0, 1); }                  \
    static void dw_edge_##kw##_##stride(const dw_tile *t) { dw_run(t, kw, stride, 1, 1); }                   \
    static void dw_inner2_##kw##_##stride(const dw_tile *t) { dw_run(t, kw, stride, 0, PF_DW_ROWS); }        \
    static void dw_edge2_##kw##_##stride(const dw_tile *t) { dw_run(t, kw, stride, 1, PF_DW_ROWS); }
PF_DW_SHAPES(PF_DW_TILE_FN)

/* Input vector for the output channels that start at channel c of the tile. */
PF_INLINE pf_vf dw_load_any(const dw_tile *t, const float *x, int64_t c, int64_t n) {
    if (!t->expand) return pf_load_upto(x + c, n);
    const int64_t multiplier = t->a->oc / t->a->ic, first = t->channel + c, from = first / multiplier;
    const pf_vf v = pf_load_upto(x + from, (first + n - 1) / multiplier - from + 1);
    return (pf_vf)__builtin_shuffle((pf_vi)v, t->expand[c / PF_VL]);
}

/* Any kernel width, stride, dilation and channel multiplier. */
static void dw_any(const dw_tile *t) {
    const pf_conv_args *a = t->a;
    for (int64_t c = 0; c < t->channels; c += PF_VL) {
        const int64_t n = pf_min(PF_VL, t->channels - c);
        const pf_vf start = t->bias ? pf_load_upto(t->bias + c, n) : pf_zero();
        pf_vf acc[PF_DW_TILE];
        PF_UNROLL for (int i = 0; i < PF_DW_TILE; i++) acc[i] = start;
        const float *x = t->x, *w = t->w + c;
        for (int64_t r = t->row0; r < t->row1; r++, x += a->dil_h * a->xsh)
            for (int64_t k = 0; k < a->kw; k++, w += t->ocp) {
                const pf_vf tap = pf_load(w);
                PF_UNROLL for (int i = 0; i < PF_DW_TILE; i++) {
                    const int64_t j = i * a->stride_w + k * a->dil_w;
                    if (j >= t->lo && j < t->hi)
                        acc[i] = pf_fma(dw_load_any(t, x + j * a->xsw, c, n), tap, acc[i]);
                }
            }
        dw_finish(t, acc, t->z, t->y, c, n, n < PF_VL);
    }
}

typedef struct dw_shape {
    int64_t kw, stride;
    dw_tile_fn tile[2][2]; /* one or two output rows; inner or edge */
} dw_shape;

#define PF_DW_ROW(kw, stride)                                                                                \
    {kw,                                                                                                     \
     stride,                                                                                                 \
     {{dw_inner_##kw##_##stride, dw_edge_##kw##_##stride},                                                   \
      {dw_inner2_##kw##_##stride, dw_edge2_##kw##_##stride}}},
static const dw_shape dw_shapes[] = {PF_DW_SHAPES(PF_DW_ROW){0, 0, {{dw_any, dw_any}, {NULL, NULL}}}};

static const dw_shape *dw_pick(const pf_conv_args *a) {
    const dw_shape *s = dw_shapes;
    while (s->kw && (s->kw != a->kw || s->stride != a->stride_w || a->dil_w != 1 || a->oc != a->ic)) s++;
    return s;
}

static int64_t dw_padded(int64_t oc) { return pf_ceil_div(oc, PF_VL) * PF_VL; }

/* Channels whose weights and input rows stay in L1 while the rows of an image are walked. */
static int64_t dw_block(const pf_conv_args *a) {
    const int64_t span = pf_min(a->iw, (a->ow - 1) * a->stride_w + (a->kw - 1) * a->dil_w + 1);
    const int64_t floats = PF_DW_CACHE / 4 / (a->kh * (span + a->kw));
    const int64_t vectors = pf_ceil_div(a->oc, PF_VL),
                  fit = pf_max(1, pf_min(floats, PF_DW_MAX_BLOCK) / PF_VL);
    return pf_ceil_div(vectors, pf_ceil_div(vectors, fit)) * PF_VL;
}

static void dw_output_rows(const dw_shape *s, dw_tile *t, const float *x, const float *w, float *y,
                           const float *z, int64_t oy, int64_t rows) {
    const pf_conv_args *a = t->a;
    const int64_t iy0 = oy * a->stride_h - a->pad_h;
    t->row0 = iy0 < 0 ? pf_ceil_div(-iy0, a->dil_h) : 0;
    const int64_t last =
        a->ih > iy0 ? pf_min(a->kh + (rows - 1) * a->stride_h, (a->ih - 1 - iy0) / a->dil_h + 1) : 0;
    t->row1 = pf_max(t->row0, last);
    t->w = w + t->row0 * a->kw * t->ocp;
    const int64_t columns = (PF_DW_TILE - 1) * a->stride_w + (a->kw - 1) * a->dil_w + 1;
    for (int64_t ox = 0; ox < a->ow; ox += PF_DW_TILE) {
        const int64_t ix0 = ox * a->stride_w - a->pad_w;
        t->x = x + (iy0 + t->row0 * a->dil_h) * a->xsh + ix0 * a->xsw;
        t->y = y + oy * a->ysh + ox * a->ysw;
        const float *residual = z ? z + oy * a->zsh + ox * a->zsw : NULL;
        t->z = a->z_late ? NULL : residual;
        t->pixels = pf_min(PF_DW_TILE, a->ow - ox);
        t->lo = ix0 < 0 ? -ix0 : 0;
        t->hi = a->iw - ix0;
        s->tile[rows - 1][t->lo > 0 || t->hi < columns](t);
        const float *late = a->z_late ? residual : NULL;
        if (!late && !pf_act_is_late(t->act.code)) continue;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < t->pixels; i++)
                pf_late_row(&t->act, t->y + r * a->ysh + i * a->ysw,
                            late ? late + r * a->zsh + i * a->zsw : NULL, t->channels);
    }
}

PF_KERNEL_FUNCTION(conv_depthwise_f32) {
    const pf_conv_args *a = args_;
    const float *x = pf_ptr(w, a->x), *weights = pf_ptr(w, a->w), *bias = pf_ptr(w, a->bias),
                *z = pf_ptr(w, a->z);
    float *y = pf_ptr(w, a->y);
    const dw_shape *s = dw_pick(a);
    const int64_t block = dw_block(a), blocks = pf_ceil_div(a->oc, block), multiplier = a->oc / a->ic;
    pf_vi expand[PF_DW_MAX_BLOCK / PF_VL];
    dw_tile t = {.a = a, .act = pf_act_make(a->act, a->act_a, a->act_b), .ocp = dw_padded(a->oc)};
    int64_t begin, end, at = -1;
    const int64_t pair = s->kw && a->dil_h == 1 && a->kh >= a->stride_h ? PF_DW_ROWS : 1;
    const int64_t steps = pf_ceil_div(a->oh, pair);
    pf_share(w, a->n * blocks * steps, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t image = i / steps / blocks, c0 = i / steps % blocks * block, oy = i % steps * pair;
        t.channel = c0;
        t.channels = pf_min(block, a->oc - c0);
        t.bias = bias ? bias + c0 : NULL;
        if (multiplier > 1 && at != c0) {
            for (int64_t c = 0; c < t.channels; c++)
                expand[c / PF_VL][c % PF_VL] =
                    (int32_t)((c0 + c) / multiplier - (c0 + c / PF_VL * PF_VL) / multiplier);
            t.expand = expand;
            at = c0;
        }
        dw_output_rows(s, &t, x + image * a->xsn + (multiplier > 1 ? 0 : c0), weights + c0,
                       y + image * a->ysn + c0, z ? z + image * a->zsn + c0 : NULL, oy,
                       pf_min(pair, a->oh - oy));
    }
}

PF_PLAN_FUNCTION(conv_depthwise_f32) {
    const pf_conv_args *a = args_;
    (void)nthreads;
    plan->variant = 0;
    plan->packed_bytes = a->kh * a->kw * dw_padded(a->oc) * (int64_t)sizeof(float);
    plan->scratch_bytes = 0;
    const dw_shape *s = dw_pick(a);
    snprintf(plan->label, sizeof plan->label, s->kw ? "k%lds%ld" : "any", (long)s->kw, (long)s->stride);
}

/* Weights by tap, channels innermost and padded with zeros to whole vectors. */
PF_KERNEL_FUNCTION(conv_depthwise_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    float *y = pf_ptr(w, a->y);
    const int64_t taps = a->kh * a->kw, ocp = dw_padded(a->oc);
    int64_t begin, end;
    pf_share(w, taps, 1, &begin, &end);
    for (int64_t k = begin; k < end; k++)
        for (int64_t c = 0; c < ocp; c++)
            y[k * ocp + c] = c < a->oc ? x[c * taps + k] * (scale ? scale[c] : 1.0f) : 0.0f;
}
