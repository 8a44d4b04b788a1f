/* Depthwise convolution: groups == ic == oc. Vectors run over channels, accumulators over neighbouring output
 * pixels of a row, so that an input vector once loaded serves all taps of its row, and two output rows where
 * the registers suffice. Used by the lowering of convolutions; knows nothing of other convolution families.
 */
#include <stdio.h>

#include "kernels/conv_lines.h"
#include "kernels/pack_columns.h"

/* DW_PART: taps of a row that are in registers at once. DW_OFTEN: reads of an input pixel that are worth a
 * copy; DW_OFTEN_FAR: where pixels are a multiple of DW_FAR bytes apart. DW_PHASE: output pixels of a phase.
 */
enum { DW_PART = 7, DW_OFTEN = 64, DW_OFTEN_FAR = 32, DW_FAR = 1024, DW_PHASE = 4 };

/* Pixels of each row of a pair for narrow windows: half as many where registers are few. */
#define DW_PAIR (PF_LINE_PIXELS / (PF_LINE_ROWS > 1 ? 1 : 2))

/* What is constant after inlining. edge: some columns lie in the padding; tail: less than a vector of
 * channels. */
typedef struct dw_form {
    int kw, stride, edge, tail, rows, pixels;
} dw_form;

/* What of a tile its loops use: a copy, which no store of a result can change. */
typedef struct dw_view {
    const float *x, *w, *bias, *z;
    float *y;
    float low, high;
    int64_t xsh, xsw, ysh, ysw, zsh, zsw;
    int64_t kh, kw, stride_h, row0, row1, lo, hi, pixels;
} dw_view;

PF_INLINE dw_view dw_view_of(const pf_line_tile *t) {
    const pf_lines_args *a = t->a;
    return (dw_view){.x = t->x + t->channel,
                     .w = t->w,
                     .bias = t->bias,
                     .z = t->z,
                     .y = t->y,
                     .low = t->low,
                     .high = t->high,
                     .xsh = a->dil_h * a->xsh,
                     .xsw = a->xsw,
                     .ysh = a->ysh,
                     .ysw = a->ysw,
                     .zsh = a->zsh,
                     .zsw = a->zsw,
                     .kh = a->kh,
                     .kw = a->kw,
                     .stride_h = a->stride_h,
                     .row0 = t->row0,
                     .row1 = t->row1,
                     .lo = t->lo,
                     .hi = t->hi,
                     .pixels = t->pixels};
}

/* Adds one input row to the output rows [first, last) of the tile; row o uses the taps at w - o * wstep. */
PF_INLINE void dw_row(const dw_view *t, const dw_form f, const float *x, const float *w, int64_t wstep,
                      pf_vf (*acc)[PF_LINE_PIXELS], int64_t n, const int first, const int last) {
    pf_vf taps[2][8];
    PF_UNROLL for (int o = first; o < last; o++) {
        const float *tap = w - o * wstep;
        PF_UNROLL for (int k = 0; k < f.kw; k++, tap += PF_VL) {
            /* As many as there are registers for are loaded one by one, or sums make room for them. */
            if (PF_REGISTERS == 16 && f.kw == DW_PART) PF_FORGET(tap);
            taps[o][k] = pf_load(tap);
        }
    }
    PF_UNROLL for (int j = 0; j < (f.pixels - 1) * f.stride + f.kw; j++, x += t->xsw) {
        PF_FORGET(x);
        if (f.edge && j >= t->hi) break;
        if (f.edge && j < t->lo) continue;
        const pf_vf v = pf_line_load(x, n, f.tail);
        PF_UNROLL for (int o = first; o < last; o++) {
            PF_UNROLL for (int k = 0; k < f.kw; k++) {
                const int i = (j - k) / f.stride;
                if (j >= k && (j - k) % f.stride == 0 && i < f.pixels)
                    acc[o][i] = pf_fma(v, taps[o][k], acc[o][i]);
            }
        }
    }
}

/* Adds all rows of the window. */
PF_INLINE void dw_window(const dw_view *t, const dw_form f, const float *x, const float *w,
                         pf_vf (*acc)[PF_LINE_PIXELS], int64_t n) {
    const int64_t wrow = t->kw * PF_VL, down = f.rows > 1 ? t->stride_h : t->kh;
    const int64_t both = pf_min(t->kh, t->row1);
    int64_t r = t->row0;
    for (; r < pf_min(down, both); r++, x += t->xsh, w += wrow) dw_row(t, f, x, w, 0, acc, n, 0, 1);
    if (f.rows > 1) {
        for (; r < both; r++, x += t->xsh, w += wrow) dw_row(t, f, x, w, down * wrow, acc, n, 0, 2);
        for (; r < t->row1; r++, x += t->xsh, w += wrow) dw_row(t, f, x, w, down * wrow, acc, n, 1, 2);
    }
}

/* The same for two rows that need all rows of a square window. */
PF_INLINE void dw_whole(const dw_view *t, const dw_form f, const float *x, const float *w,
                        pf_vf (*acc)[PF_LINE_PIXELS], int64_t n) {
    const int64_t wrow = f.kw * PF_VL;
    PF_UNROLL for (int r = 0; r < f.kw + f.stride; r++)
        dw_row(t, f, x + r * t->xsh, w + r * wrow, f.stride * wrow, acc, n, r >= f.kw, r < f.stride ? 1 : 2);
}

PF_INLINE void dw_start(const dw_view *t, pf_vf (*acc)[PF_LINE_PIXELS], int64_t c, int64_t n,
                        const int tail) {
    const pf_vf start = t->bias ? pf_line_load(t->bias + c, n, tail) : pf_zero();
    PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++) acc[0][i] = acc[1][i] = start;
}

PF_INLINE void dw_finish(const dw_view *t, const dw_form f, pf_vf (*acc)[PF_LINE_PIXELS], int64_t c,
                         int64_t n) {
    const float *z = t->z ? t->z + c : NULL;
    float *y = t->y + c;
    const int64_t pixels = f.edge ? t->pixels : f.pixels;
    PF_UNROLL for (int o = 0; o < f.rows; o++, y += t->ysh) {
        pf_line_end(t->low, t->high, acc[o], f.pixels, z, t->zsw, y, t->ysw, pixels, n, f.tail);
        if (z) z += t->zsh;
    }
}

PF_INLINE void dw_vector(const dw_view *t, const dw_form f, int64_t c, int64_t n) {
    pf_vf acc[2][PF_LINE_PIXELS];
    const float *x = t->x + c, *w = t->w + c * t->kh * t->kw;
    dw_start(t, acc, c, n, f.tail);
    if (f.rows > 1 && f.pixels < PF_LINE_PIXELS)
        dw_whole(t, f, x, w, acc, n);
    else
        dw_window(t, f, x, w, acc, n);
    dw_finish(t, f, acc, c, n);
}

/* All channels of some tiles in a row, of inner ones with all their pixels. */
PF_INLINE void dw_run(const pf_line_tile *tile, dw_form f) {
    dw_view t = dw_view_of(tile);
    const int64_t channels = tile->channels;
    for (int64_t tiles = f.edge ? 1 : tile->tiles; tiles > 0; tiles--) {
        int64_t c = 0;
        f.tail = 0;
        for (; c + PF_VL <= channels; c += PF_VL) dw_vector(&t, f, c, PF_VL);
        f.tail = 1;
        if (c < channels) dw_vector(&t, f, c, channels - c);
        t.x += f.pixels * f.stride * t.xsw, t.y += f.pixels * t.ysw;
        if (t.z) t.z += f.pixels * t.zsw;
    }
}

/* Window, stride, rows of pairs and their pixels. */
#define PF_DW_SHAPES(X)                                                                                      \
    X(3, 1, 2, DW_PAIR)                                                                                      \
    X(3, 2, 2, DW_PAIR)                                                                                      \
    X(5, 1, PF_LINE_ROWS, PF_LINE_PIXELS)                                                                    \
    X(5, 2, PF_LINE_ROWS, PF_LINE_PIXELS)                                                                    \
    X(7, 1, PF_LINE_ROWS, PF_LINE_PIXELS)                                                                    \
    X(7, 2, PF_LINE_ROWS, PF_LINE_PIXELS)
#define PF_DW_TILE_FN(kw, stride, rows, pixels)                                                              \
    static void dw_inner_##kw##_##stride(const pf_line_tile *t) {                                            \
        dw_run(t, (dw_form){kw, stride, 0, 0, 1, PF_LINE_PIXELS});                                           \
    }                                                                                                        \
    static void dw_edge_##kw##_##stride(const pf_line_tile *t) {                                             \
        dw_run(t, (dw_form){kw, stride, 1, 0, 1, PF_LINE_PIXELS});                                           \
    }                                                                                                        \
    static void dw_inner2_##kw##_##stride(const pf_line_tile *t) {                                           \
        dw_run(t, (dw_form){kw, stride, 0, 0, rows, pixels});                                                \
    }                                                                                                        \
    static void dw_edge2_##kw##_##stride(const pf_line_tile *t) {                                            \
        dw_run(t, (dw_form){kw, stride, 1, 0, rows, pixels});                                                \
    }
PF_DW_SHAPES(PF_DW_TILE_FN)

/* Adds one tap of a row, that of column j for the first pixel; the columns of all pixels are valid. */
PF_INLINE void dw_tap(const pf_line_tile *t, const float *x, int64_t j, pf_vf tap, pf_vf *acc, int64_t n,
                      const int tail) {
    const int64_t step = t->a->stride_w * t->a->xsw;
    x += j * t->a->xsw;
    PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++, x += step) {
        PF_FORGET(x);
        acc[i] = pf_fma(pf_line_load(x, n, tail), tap, acc[i]);
    }
}

PF_INLINE void dw_edge_tap(const pf_line_tile *t, const float *x, int64_t j, pf_vf tap, pf_vf *acc, int64_t n,
                           const int tail) {
    PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++, j += t->a->stride_w) if (j >= t->lo && j < t->hi)
        acc[i] = pf_fma(pf_line_load(x + j * t->a->xsw, n, tail), tap, acc[i]);
}

PF_INLINE void dw_any_vector(const pf_line_tile *t, int64_t c, int64_t n, const int tail) {
    const pf_lines_args *a = t->a;
    const int64_t reach = (PF_LINE_PIXELS - 1) * a->stride_w;
    const pf_vf start = t->bias ? pf_line_load(t->bias + c, n, tail) : pf_zero();
    pf_vf acc[PF_LINE_PIXELS];
    PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++) acc[i] = start;
    const float *x = t->x + t->channel + c, *w = t->w + c * a->kh * a->kw;
    for (int64_t r = t->row0; r < t->row1; r++, x += a->dil_h * a->xsh)
        for (int64_t k = 0, j = 0; k < a->kw; k++, j += a->dil_w, w += PF_VL) {
            if (j >= t->lo && j + reach < t->hi)
                dw_tap(t, x, j, pf_load(w), acc, n, tail);
            else if (j < t->hi && j + reach >= t->lo)
                dw_edge_tap(t, x, j, pf_load(w), acc, n, tail);
        }
    pf_line_finish(t, acc, t->z, t->y, c, n, tail);
}

/* Any kernel width, stride and dilation. */
static void dw_any(const pf_line_tile *t) {
    int64_t c = 0;
    for (; c + PF_VL <= t->channels; c += PF_VL) dw_any_vector(t, c, PF_VL, 0);
    if (c < t->channels) dw_any_vector(t, c, t->channels - c, 1);
}

/* Columns [k, k + taps) of a wide window. */
PF_INLINE void dw_part(const dw_view *t, const int64_t taps, int64_t k, pf_vf (*acc)[PF_LINE_PIXELS],
                       int64_t c, int64_t n, const int tail, const int rows) {
    const float *x = t->x + c + k * t->xsw, *w = t->w + c * t->kh * t->kw + k * PF_VL;
    const int64_t columns = PF_LINE_PIXELS - 1 + taps;
    dw_view part = *t;
    part.lo = t->lo - k, part.hi = t->hi - k;
    if (part.hi <= 0 || part.lo >= columns) return;
    const int edge = tail || part.lo > 0 || part.hi < columns;
    switch (taps * 2 + edge) {
#define PF_DW_PART(taps)                                                                                     \
    case taps * 2:                                                                                           \
        dw_window(&part, (dw_form){taps, 1, tail, tail, rows, PF_LINE_PIXELS}, x, w, acc, n);                \
        break;                                                                                               \
    case taps * 2 + 1:                                                                                       \
        dw_window(&part, (dw_form){taps, 1, 1, tail, rows, PF_LINE_PIXELS}, x, w, acc, n);                   \
        break;
        PF_DW_PART(4) PF_DW_PART(5) PF_DW_PART(6) PF_DW_PART(7)
#undef PF_DW_PART
    }
}

/* Windows wider than what the registers hold, some columns at a time. */
PF_INLINE void dw_wide_vector(const pf_line_tile *tile, int64_t c, int64_t n, const int tail,
                              const int rows) {
    const dw_view t = dw_view_of(tile);
    const int64_t kw = t.kw, parts = pf_ceil_div(kw, DW_PART), longer = kw % parts;
    pf_vf acc[2][PF_LINE_PIXELS];
    dw_start(&t, acc, c, n, tail);
    for (int64_t p = 0, k = 0, taps; p < parts; p++, k += taps) {
        taps = kw / parts + (p < longer);
        dw_part(&t, taps, k, acc, c, n, tail, rows);
    }
    dw_finish(&t, (dw_form){0, 1, 1, tail, rows, PF_LINE_PIXELS}, acc, c, n);
}

PF_INLINE void dw_wide(const pf_line_tile *t, const int rows) {
    int64_t c = 0;
    for (; c + PF_VL <= t->channels; c += PF_VL) dw_wide_vector(t, c, PF_VL, 0, rows);
    if (c < t->channels) dw_wide_vector(t, c, t->channels - c, 1, rows);
}

static void dw_wide1(const pf_line_tile *t) { dw_wide(t, 1); }
static void dw_wide2(const pf_line_tile *t) { dw_wide(t, PF_LINE_ROWS); }

#define PF_DW_ROW(kw, stride, rows, pixels)                                                                  \
    {kw,                                                                                                     \
     stride,                                                                                                 \
     rows,                                                                                                   \
     {{dw_inner_##kw##_##stride, dw_edge_##kw##_##stride},                                                   \
      {dw_inner2_##kw##_##stride, dw_edge2_##kw##_##stride}},                                                \
     1,                                                                                                      \
     (pixels) % PF_LINE_PIXELS},
static const pf_line_shape dw_shapes[] = {
    PF_DW_SHAPES(PF_DW_ROW){0, 0, 1, {{dw_any, dw_any}, {NULL, NULL}}, 0, 0}};
static const pf_line_shape dw_wide_shape = {0, 1, PF_LINE_ROWS, {{dw_wide1, dw_wide1}, {dw_wide2, dw_wide2}},
                                            0, 0};

/* Whether input is read often enough to be copied first: less will do where pixels share few sets of the
 * cache.
 */
static int dw_dense(const pf_lines_args *a) {
    const int64_t least = a->xsw * (int64_t)sizeof(float) % DW_FAR ? DW_OFTEN : DW_OFTEN_FAR;
    return a->kh * a->kw * a->oh >= least * pf_min(a->ih, pf_line_reach(a, a->oh));
}

/* Phases need pixels enough for their tiles. */
static int64_t dw_phases(const pf_lines_args *a) {
    return a->stride_w == 1 && a->sums.base < 0 && a->ow >= DW_PHASE * a->dil_w ? a->dil_w : 1;
}

static const pf_line_shape *dw_pick(const pf_lines_args *a) {
    const pf_line_shape *s = dw_shapes;
    const int plain = a->dil_w == dw_phases(a);
    if (a->kw > DW_PART && a->stride_w == 1 && plain) return &dw_wide_shape;
    while (s->kw && (s->kw != a->kw || s->stride != a->stride_w || !plain)) s++;
    return s;
}

/* Strips of an image, in which less is read again, may do without the copy. */
PF_KERNEL_FUNCTION(conv_depthwise_f32) {
    const pf_lines_args *a = args_;
    const pf_line_way way = {pf_ptr(w, a->scratch) && dw_dense(a), dw_phases(a), 1};
    pf_line_run(a, w, dw_pick(a), way);
}

PF_PLAN_FUNCTION(conv_depthwise_f32) {
    const pf_lines_args *a = args_;
    const pf_line_shape *s = dw_pick(a);
    plan->variant = 0;
    plan->packed_bytes = a->kh * a->kw * pf_line_padded(a->oc) * (int64_t)sizeof(float);
    plan->scratch_bytes = dw_dense(a) ? nthreads * pf_line_dense_floats(a) * (int64_t)sizeof(float) : 0;
    const char *form = s->kw ? "k%lds%ld" : s->stride ? "wide" : "any";
    snprintf(plan->label, sizeof plan->label, form, (long)s->kw, (long)s->stride);
}

/* Weights by tap, channels innermost and padded with zeros to whole vectors. */
PF_KERNEL_FUNCTION(conv_depthwise_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t taps = a->kh * a->kw, ocp = pf_line_padded(a->oc);
    int64_t begin, end;
    pf_share(w, ocp, PF_VL, &begin, &end);
    for (int64_t c = begin; c < end; c += PF_VL)
        pf_pack_columns(x + c * taps, taps, a->oc - c, taps, PF_VL, 0, taps, y + c * taps);
    pf_stream_end();
}
