/* Convolution in small groups, and depthwise convolution with several outputs a channel. A vector of output
 * channels spans several groups: for the i-th input channel of every group, one load and one permutation
 * bring each lane the input of its group. As in the depthwise kernel, that vector serves all taps of its row.
 * Where a vector of outputs lies in one group, all its lanes take the same input. */
#include <stdio.h>

#include "kernels/conv_lines.h"
#include "kernels/pack_columns.h"

/* Packed: [tap][input channel of the group][output channels, whole vectors], then for each output channel the
 * distance of its group's inputs from those of the first group of its vector. */
static int64_t weight_floats(int64_t taps, int64_t cg, int64_t oc) { return taps * cg * pf_line_padded(oc); }

/* The inputs of one vector of output channels. */
typedef struct source {
    pf_vi lanes;      /* distance of each lane's group */
    int64_t first;    /* first input channel */
    int64_t inputs;   /* that follow it */
    int64_t farthest; /* largest distance */
} source;

static source source_of(const pf_line_tile *t, int64_t c, int64_t n) {
    const pf_lines_args *a = t->a;
    const int64_t cg = a->ic / a->groups, kg = a->oc / a->groups, channel = t->channel + c;
    const float *table = t->w + c + weight_floats(a->kh * a->kw, cg, a->oc) - t->row0 * a->kw * cg * t->ocp;
    const int64_t group = channel / kg, last = (channel + n - 1) / kg;
    return (source){pf_loadi(table), group * cg, a->ic - group * cg, (last - group) * cg};
}

/* x[s->lanes], from as many vectors as the lanes reach; `reach` floats may be read. */
PF_INLINE pf_vf gather(const float *x, const source *s, int64_t reach) {
    pf_vf v = pf_permute(pf_load_upto(x, reach), s->lanes);
    for (int64_t from = PF_VL; from <= s->farthest; from += PF_VL) {
        const pf_vi lanes = s->lanes - pf_seti((int32_t)from);
        v = pf_select(lanes >= 0, pf_permute(pf_load_upto(x + from, reach - from), lanes), v);
    }
    return v;
}

/* What is constant after inlining. edge: some columns lie in the padding; narrow: a pixel has less than a
 * vector of channels. */
typedef struct gr_form {
    int kw, stride, edge, narrow, rows;
} gr_form;

/* Adds one input row to the output rows [first, last) of the tile; row o uses the taps at w - o * wstep. */
PF_INLINE void gr_row(const pf_line_tile *t, const gr_form f, const source *s, const float *line,
                      const float *w, int64_t wstep, pf_vf (*acc)[PF_LINE_PIXELS], const int first,
                      const int last) {
    const int64_t cg = t->a->ic / t->a->groups, xsw = t->a->xsw;
    /* Where one vector holds the inputs of all channels of its groups, it is loaded in place; else the load
     * moves. None passes the end of the pixel. */
    const int64_t moves = s->farthest + cg > PF_VL;
    for (int64_t g = 0; g < cg; g++) {
        const int64_t from = moves ? g : 0, at = f.narrow ? from : pf_min(from, s->inputs - PF_VL);
        const float *x = line + at;
        const pf_vi lanes = s->lanes + pf_seti((int32_t)(g - at));
        pf_vf taps[2][8];
        PF_UNROLL for (int o = first; o < last; o++) {
            PF_UNROLL for (int k = 0; k < f.kw; k++) taps[o][k] =
                pf_load(w - o * wstep + (k * cg + g) * t->ocp);
        }
        PF_UNROLL for (int j = 0; j < (PF_LINE_PIXELS - 1) * f.stride + f.kw; j++, x += xsw) {
            PF_FORGET(x);
            if (j % f.stride >= f.kw) continue;
            if (f.edge && (j < t->lo || j >= t->hi)) continue;
            const pf_vf raw = f.narrow ? pf_load_upto(x, s->inputs - at) : pf_load(x);
            const pf_vf v = pf_permute(raw, lanes);
            PF_UNROLL for (int o = first; o < last; o++) {
                PF_UNROLL for (int k = 0; k < f.kw; k++) {
                    const int i = (j - k) / f.stride;
                    if (j >= k && (j - k) % f.stride == 0 && i < PF_LINE_PIXELS)
                        acc[o][i] = pf_fma(v, taps[o][k], acc[o][i]);
                }
            }
        }
    }
}

PF_INLINE void gr_vector(const pf_line_tile *t, const gr_form f, const source *s, int64_t c, int64_t n) {
    const pf_lines_args *a = t->a;
    const int64_t xstep = a->dil_h * a->xsh, wrow = f.kw * (a->ic / a->groups) * t->ocp;
    const int64_t down = f.rows > 1 ? a->stride_h : a->kh, both = pf_min(a->kh, t->row1);
    const pf_vf start = t->bias ? pf_load_upto(t->bias + c, n) : pf_zero();
    pf_vf acc[2][PF_LINE_PIXELS];
    PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++) acc[0][i] = acc[1][i] = start;
    const float *x = t->x + s->first, *w = t->w + c;
    int64_t r = t->row0;
    for (; r < pf_min(down, both); r++, x += xstep, w += wrow) gr_row(t, f, s, x, w, 0, acc, 0, 1);
    if (f.rows > 1) {
        for (; r < both; r++, x += xstep, w += wrow) gr_row(t, f, s, x, w, down * wrow, acc, 0, 2);
        for (; r < t->row1; r++, x += xstep, w += wrow) gr_row(t, f, s, x, w, down * wrow, acc, 1, 2);
    }
    pf_line_finish(t, acc[0], t->z, t->y, c, n, n < PF_VL);
    if (f.rows > 1) pf_line_finish(t, acc[1], t->z ? t->z + a->zsh : NULL, t->y + a->ysh, c, n, n < PF_VL);
}

PF_INLINE void gr_run(const pf_line_tile *t, const gr_form f) {
    for (int64_t c = 0; c < t->channels; c += PF_VL) {
        const int64_t n = pf_min(PF_VL, t->channels - c);
        const source s = source_of(t, c, n);
        gr_vector(t, f, &s, c, n);
    }
}

#define PF_GR_SHAPES(X) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1) X(7, 2) X(1, 1)
#define PF_GR_FN(name, ...)                                                                                  \
    static void gr_##name(const pf_line_tile *t) { gr_run(t, (gr_form){__VA_ARGS__}); }
#define PF_GR_TILE_FN(kw, stride)                                                                            \
    PF_GR_FN(inner_##kw##_##stride, kw, stride, 0, 0, 1)                                                     \
    PF_GR_FN(edge_##kw##_##stride, kw, stride, 1, 0, 1)                                                      \
    PF_GR_FN(inner2_##kw##_##stride, kw, stride, 0, 0, PF_LINE_ROWS)                                         \
    PF_GR_FN(edge2_##kw##_##stride, kw, stride, 1, 0, PF_LINE_ROWS)                                          \
    PF_GR_FN(narrow_##kw##_##stride, kw, stride, 0, 1, 1)                                                    \
    PF_GR_FN(narrow_edge_##kw##_##stride, kw, stride, 1, 1, 1)
PF_GR_SHAPES(PF_GR_TILE_FN)

/* Any kernel width, stride and dilation, groups of any size. */
static void gr_any(const pf_line_tile *t) {
    const pf_lines_args *a = t->a;
    const int64_t cg = a->ic / a->groups;
    for (int64_t c = 0; c < t->channels; c += PF_VL) {
        const int64_t n = pf_min(PF_VL, t->channels - c);
        const source s = source_of(t, c, n);
        const pf_vf start = t->bias ? pf_load_upto(t->bias + c, n) : pf_zero();
        pf_vf acc[PF_LINE_PIXELS];
        PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++) acc[i] = start;
        const float *x = t->x + s.first, *w = t->w + c;
        for (int64_t r = t->row0; r < t->row1; r++, x += a->dil_h * a->xsh)
            for (int64_t k = 0; k < a->kw * cg; k++, w += t->ocp) {
                const pf_vf tap = pf_load(w);
                const int64_t g = k % cg, column = k / cg * a->dil_w;
                PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++) {
                    const int64_t j = i * a->stride_w + column;
                    if (j >= t->lo && j < t->hi)
                        acc[i] = pf_fma(gather(x + j * a->xsw + g, &s, s.inputs - g), tap, acc[i]);
                }
            }
        pf_line_finish(t, acc, t->z, t->y, c, n, n < PF_VL);
    }
}

/* Distances of columns in bytes, from which those of nine columns follow without a sum. */
enum { GR_REACH = 9 };
typedef struct gr_steps {
    int64_t one, three, five, seven;
} gr_steps;

PF_INLINE gr_steps make_steps(int64_t floats) {
    gr_steps s = {.one = floats * (int64_t)sizeof(float)};
    s.three = 3 * s.one, s.five = 5 * s.one, s.seven = 7 * s.one;
    PF_FORGET(s.three);
    PF_FORGET(s.five);
    PF_FORGET(s.seven);
    return s;
}

PF_INLINE int64_t column_at(const gr_steps *s, const int j) {
    return j == 7 ? s->seven : j == 5 ? s->five : j % 3 == 0 ? j / 3 * s->three : j * s->one;
}

/* Adds one input row to the output pixels where all lanes are of one group. */
PF_INLINE void same_row(const pf_line_tile *t, const int kw, const int stride, const int edge,
                        const gr_steps *steps, const float *line, const float *w, pf_vf *acc) {
    const int64_t cg = t->a->ic / t->a->groups, lo = t->lo, hi = t->hi, ocp = t->ocp;
    for (int64_t g = 0; g < cg; g++, w += ocp) {
        uintptr_t near = (uintptr_t)(line + g), far = near + (uintptr_t)(GR_REACH * steps->one);
        PF_FORGET(near);
        PF_FORGET(far);
        pf_vf taps[8];
        PF_UNROLL for (int k = 0; k < kw; k++) taps[k] = pf_load(w + k * cg * ocp);
        PF_UNROLL for (int j = 0; j < (PF_LINE_PIXELS - 1) * stride + kw; j++) {
            if (j % stride >= kw) continue;
            if (edge && (j < lo || j >= hi)) continue;
            const uintptr_t place = (j < GR_REACH ? near : far) + (uintptr_t)column_at(steps, j % GR_REACH);
            const pf_vf v = pf_set(*(const float *)place);
            PF_UNROLL for (int k = 0; k < kw; k++) {
                const int i = (j - k) / stride;
                if (j >= k && (j - k) % stride == 0 && i < PF_LINE_PIXELS)
                    acc[i] = pf_fma(v, taps[k], acc[i]);
            }
        }
    }
}

PF_INLINE void same_run(const pf_line_tile *t, const int kw, const int stride, const int edge) {
    const pf_lines_args *a = t->a;
    const int64_t cg = a->ic / a->groups, kg = a->oc / a->groups, xstep = a->dil_h * a->xsh;
    const gr_steps steps = make_steps(a->xsw);
    for (int64_t c = 0; c < t->channels; c += PF_VL) {
        const float *x = t->x + (t->channel + c) / kg * cg, *w = t->w + c;
        const pf_vf start = t->bias ? pf_load(t->bias + c) : pf_zero();
        pf_vf acc[PF_LINE_PIXELS];
        PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i++) acc[i] = start;
        for (int64_t r = t->row0; r < t->row1; r++, x += xstep, w += kw * cg * t->ocp)
            same_row(t, kw, stride, edge, &steps, x, w, acc);
        pf_line_finish(t, acc, t->z, t->y, c, PF_VL, 0);
    }
}

#define PF_SAME_SHAPES(X) X(3, 1) X(3, 2)
#define PF_SAME_TILE_FN(kw, stride)                                                                          \
    static void same_inner_##kw##_##stride(const pf_line_tile *t) { same_run(t, kw, stride, 0); }            \
    static void same_edge_##kw##_##stride(const pf_line_tile *t) { same_run(t, kw, stride, 1); }
PF_SAME_SHAPES(PF_SAME_TILE_FN)

#define PF_GR_ANY {0, 0, 1, {{gr_any, gr_any}, {NULL, NULL}}, 0, 0}
#define PF_GR_ROW(kw, stride)                                                                                \
    {kw,                                                                                                     \
     stride,                                                                                                 \
     PF_LINE_ROWS,                                                                                           \
     {{gr_inner_##kw##_##stride, gr_edge_##kw##_##stride},                                                   \
      {gr_inner2_##kw##_##stride, gr_edge2_##kw##_##stride}},                                                \
     0,                                                                                                      \
     0},
#define PF_ONE_ROW(kw, stride, inner, edge)                                                                  \
    {kw, stride, 1, {{inner##_##kw##_##stride, edge##_##kw##_##stride}, {NULL, NULL}}, 0, 0},
#define PF_NARROW_ROW(kw, stride) PF_ONE_ROW(kw, stride, gr_narrow, gr_narrow_edge)
#define PF_SAME_ROW(kw, stride)   PF_ONE_ROW(kw, stride, same_inner, same_edge)
static const pf_line_shape gr_shapes[] = {PF_GR_SHAPES(PF_GR_ROW) PF_GR_ANY};
static const pf_line_shape narrow_shapes[] = {PF_GR_SHAPES(PF_NARROW_ROW) PF_GR_ANY};
static const pf_line_shape same_shapes[] = {PF_SAME_SHAPES(PF_SAME_ROW) PF_GR_ANY};

/* The tile functions for known widths load one vector for all lanes, or one value. */
static const pf_line_shape *gr_pick(const pf_lines_args *a) {
    const int64_t cg = a->ic / a->groups, kg = a->oc / a->groups;
    const int same = kg % PF_VL == 0;
    const int near = same || ((PF_VL - 1) / kg + (PF_VL % kg != 0)) * cg < PF_VL;
    const pf_line_shape *s = same ? same_shapes : a->ic < PF_VL ? narrow_shapes : gr_shapes;
    while (s->kw && (!near || s->kw != a->kw || s->stride != a->stride_w || a->dil_w != 1)) s++;
    return s;
}

PF_KERNEL_FUNCTION(conv_grouped_f32) { pf_line_run(args_, w, gr_pick(args_), (pf_line_way){0, 1, 0}); }

PF_PLAN_FUNCTION(conv_grouped_f32) {
    const pf_lines_args *a = args_;
    (void)nthreads;
    plan->variant = 0;
    plan->packed_bytes = (weight_floats(a->kh * a->kw, a->ic / a->groups, a->oc) + pf_line_padded(a->oc)) *
                         (int64_t)sizeof(float);
    plan->scratch_bytes = 0;
    const pf_line_shape *s = gr_pick(a);
    snprintf(plan->label, sizeof plan->label, s->kw ? "k%lds%ld" : "any", (long)s->kw, (long)s->stride);
}

PF_KERNEL_FUNCTION(conv_grouped_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t taps = a->kh * a->kw, cg = a->ic / a->groups, kg = a->oc / a->groups, depth = cg * taps;
    const int64_t ocp = pf_line_padded(a->oc);
    int32_t *table = (int32_t *)(y + weight_floats(taps, cg, a->oc));
    int64_t begin, end;
    pf_share(w, ocp, PF_VL, &begin, &end);
    for (int64_t c = begin; c < end; c += PF_VL)
        pf_pack_columns(x + c * depth, depth, a->oc - c, taps, ocp, 0, depth, y + c);
    for (int64_t c = begin; c < end; c++)
        table[c] = c < a->oc ? (int32_t)((c / kg - c / PF_VL * PF_VL / kg) * cg) : 0;
    pf_stream_end();
}
