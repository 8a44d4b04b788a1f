/* Convolution by Winograd's method: F(6x6, 3x3), F(4x4, 3x3), F(2x2, 3x3), F(2x2, 5x5) or F(4, r) in a line,
 * all with stride 1, and tiles of 4x4 or 2x2 outputs for windows of 3x3 with stride 2. The output is cut into
 * tiles, the tiles into chunks. For a chunk, a thread transforms the inputs of all channels into V, then for
 * each panel of output channels multiplies V with the transformed weights, point by point, and transforms the
 * products M back while they are in L2. Padding is dealt with in the input transform, the epilogue in the
 * output transform. */
#include <stdio.h>

#include "kernels/conv_winograd_plan.h"

/* Tiles between the one that is transformed and the one that is fetched, which has to stay in L1. */
enum { INPUT_AHEAD = PF_REGISTERS == 32 ? PF_WINO_AHEAD : 1 };

/* Floats of the packed weights of a group. */
static int64_t group_floats(const pf_wino_plan *p) {
    return p->u_points * p->ic * (pf_ceil_div(p->oc, PF_VL) * PF_VL);
}

static pf_wino_extra extra_of(const pf_wino_plan *p) {
    return pf_wino_extra_of(p->a->groups, p->points, p->ic, pf_ceil_div(p->oc, PF_VL) * PF_VL);
}

static pf_wino_plan group_of(const pf_wino_plan *p, int64_t group) {
    pf_wino_plan q = *p;
    q.x += group * p->ic;
    q.u += group * group_floats(p);
    q.y += group * p->oc;
    if (q.bias) q.bias += group * p->oc;
    if (q.z) q.z += group * p->oc;
    const int64_t columns = pf_ceil_div(p->oc, PF_VL) * PF_VL;
    if (p->pairs) q.scales += group * columns, q.starts += group * p->points * columns, q.plain += group;
    return q;
}

#define INPUT_TILE(side)                                                                                     \
    PF_INLINE void input_vector_##side(const float *d, int64_t row, int64_t pixel, float *v, int64_t step) { \
        pf_wino_input(side, d, row, pixel, v, step);                                                         \
    }                                                                                                        \
    static void input_tile_##side(const pf_wino_plan *p, int64_t tile, float *v) {                           \
        pf_wino_input_tile(side, p->mw, INPUT_AHEAD, input_vector_##side, p, tile, v);                       \
    }
INPUT_TILE(4)
INPUT_TILE(6)

/* Inputs of a line: a row or a column of pixels. */
PF_INLINE void input_line(const int pairs, const pf_wino_plan *p, int64_t tile, float *v) {
    const int64_t pixel = p->sw > 1 ? p->a->xsw : p->a->xsh;
    pf_wino_part part;
    const float *x = pf_wino_tile_inputs(p, tile, &part);
    const int down = p->sh > 1, outside = down ? part.j0 >= part.j1 : part.i0 >= part.i1;
    const int begin = down ? part.i0 : part.j0, end = outside ? 0 : down ? part.i1 : part.j1;
    for (int64_t c = 0; c < p->ic; c += PF_VL) {
        pf_vf d[PF_LINE_POINTS];
        PF_LINE_UNROLL for (int i = 0; i < 2 * pairs + 2; i++) {
            d[i] = pf_zero();
            if (i >= begin && i < end) d[i] = pf_load_upto(x + i * pixel + c, p->ic - c);
        }
        pf_wino_line_input(pairs, &p->line, d, v + c, p->v_step);
    }
}

/* Whether the sums of M that give output rows parity, parity + 2 are finite: two outputs have a part in all
 * of them. */
PF_INLINE int is_finite(const int m, const int parity, pf_vf (*out)[4]) {
    const pf_vf *row = out[m == 4 ? parity : 0];
    const pf_vf sum = row[0] + row[m - 1];
    return !pf_any((pf_vi)(sum - sum != 0.0f));
}

static __attribute__((noinline)) void compute_directly(const pf_wino_plan *p, const pf_wino_target *t,
                                                       int parity, int64_t c, pf_vf (*out)[4]) {
    pf_wino_direct d = {.row = p->a->xsh, .pixel = p->a->xsw, .u_row = t->width, .ic = p->ic};
    d.x = pf_wino_tile_inputs(p, t->tile, &d.part);
    d.u = t->u + c;
    d.u_step = p->ic * t->width;
    d.pairs = p->pairs;
    PF_NAME(wino_direct)(&d, p->m, p->side, parity, out);
    for (int i = 0; t->scales && i < p->m / 2; i++)
        for (int j = 0; j < p->m; j++) out[i][j] /= t->scale;
}

PF_INLINE void output_vector(const int m, const int side, const int whole, const pf_wino_plan *p,
                             const pf_wino_target *t, int64_t c) {
    const pf_vf bias = t->bias ? pf_load_upto(t->bias + c, t->n - c) : pf_zero();
    const pf_vf by = t->scales ? pf_load(t->scales + c) * t->scale : pf_zero();
    const int buffered = PF_REGISTERS < 32 && side == PF_WINO_SIDE;
    float buffer[4 * PF_WINO_SIDE * PF_VL] __attribute__((aligned(64)));
    if (buffered) pf_wino_output_columns(m, t->products + c, p->m_step, buffer);
    PF_WINO_UNROLL for (int parity = 0; parity < 2; parity++) {
        pf_vf out[2][4];
        if (buffered)
            pf_wino_output_lines(m, parity, buffer, out);
        else
            pf_wino_output_rows(m, side, parity, t->products + c, p->m_step, out);
        if (__builtin_expect(!is_finite(m, parity, out), 0)) {
            pf_vf direct[2][4];
            compute_directly(p, t, parity, c, direct);
            PF_WINO_UNROLL for (int i = 0; i < m / 2; i++) {
                PF_WINO_UNROLL for (int j = 0; j < m; j++) out[i][j] = direct[i][j];
            }
        }
        PF_WINO_UNROLL for (int i = 0; i < m / 2; i++) {
            PF_WINO_UNROLL for (int j = 0; j < m; j++) out[i][j] =
                t->scales ? pf_fma(out[i][j], by, bias) : out[i][j] + bias;
        }
        pf_wino_finish_row(m, whole, p, t, out[0], parity, c);
        if (m == 4) pf_wino_finish_row(m, whole, p, t, out[1], parity + 2, c);
    }
}

static __attribute__((noinline)) void compute_line_directly(const pf_wino_plan *p, const pf_wino_target *t,
                                                            int64_t c, pf_vf *out) {
    pf_wino_line_direct d = {.pixel = p->sw > 1 ? p->a->xsw : p->a->xsh, .u_row = t->width, .ic = p->ic};
    pf_wino_part part;
    d.x = pf_wino_tile_inputs(p, t->tile, &part);
    d.u = t->u + c;
    d.u_step = p->ic * t->width;
    const int down = p->sh > 1, outside = down ? part.j0 >= part.j1 : part.i0 >= part.i1;
    d.begin = down ? part.i0 : part.j0;
    d.end = outside ? 0 : down ? part.i1 : part.j1;
    PF_NAME(wino_line_direct)(&p->line, &d, out);
}

/* Outputs of a line: a row or a column of pixels. */
PF_INLINE void line_vector(const int pairs, const pf_wino_plan *p, const pf_wino_target *t, int64_t c) {
    const pf_winograd_args *a = p->a;
    const int64_t ys = p->sw > 1 ? a->ysw : a->ysh, zs = p->sw > 1 ? a->zsw : a->zsh;
    const int64_t n = t->n - c, count = t->rows * t->columns;
    const pf_vf bias = t->bias ? pf_load_upto(t->bias + c, n) : pf_zero();
    pf_vf out[PF_LINE_OUTPUTS];
    pf_wino_line_output(pairs, &p->line, t->products + c, p->m_step, out);
    const pf_vf sum = out[0] + out[3];
    if (__builtin_expect(pf_any((pf_vi)(sum - sum != 0.0f)), 0)) {
        pf_vf direct[PF_LINE_OUTPUTS];
        compute_line_directly(p, t, c, direct);
        PF_WINO_UNROLL for (int j = 0; j < PF_LINE_OUTPUTS; j++) out[j] = direct[j];
    }
    PF_WINO_UNROLL for (int j = 0; j < PF_LINE_OUTPUTS; j++) {
        out[j] += bias;
        if (t->z && j < count) out[j] += pf_load_upto(t->z + j * zs + c, n);
    }
    pf_act_early(&p->act, out, PF_LINE_OUTPUTS);
    PF_WINO_UNROLL for (int j = 0; j < PF_LINE_OUTPUTS; j++) {
        if (j < count) pf_store_upto(t->y + j * ys + c, out[j], n);
    }
}

/* pairs: of a line, 0 for squares. */
PF_INLINE void output_tile(const int m, const int side, const int pairs, const pf_wino_plan *p, int64_t tile,
                           const pf_wino_columns *o, const float *products) {
    const pf_wino_target t = pf_wino_target_of(p, tile, o, products);
    if (pairs > 0) {
        for (int64_t c = 0; c < t.n; c += PF_VL) line_vector(pairs, p, &t, c);
    } else {
        const int64_t whole = t.rows == m && t.columns == m ? t.n / PF_VL * PF_VL : 0;
        for (int64_t c = 0; c < whole; c += PF_VL) {
            pf_wino_fetch(t.y, c, PF_WINO_AHEAD * m, p->a->ysh, p->a->ysw, m, m, 1);
            output_vector(m, side, 1, p, &t, c);
        }
        for (int64_t c = whole; c < t.n; c += PF_VL) output_vector(m, side, 0, p, &t, c);
    }
    pf_wino_finish_late(p, &t);
}

static void input_line_2(const pf_wino_plan *p, int64_t tile, float *v) { input_line(2, p, tile, v); }
static void input_line_3(const pf_wino_plan *p, int64_t tile, float *v) { input_line(3, p, tile, v); }
static void input_line_4(const pf_wino_plan *p, int64_t tile, float *v) { input_line(4, p, tile, v); }

#define OUTPUT_TILE(m, side, pairs)                                                                          \
    static void output_tile_##m##_##side##_##pairs(const pf_wino_plan *p, int64_t tile,                      \
                                                   const pf_wino_columns *o, const float *products) {        \
        output_tile(m, side, pairs, p, tile, o, products);                                                   \
    }
OUTPUT_TILE(2, 4, 0)
OUTPUT_TILE(2, 6, 0)
OUTPUT_TILE(4, 6, 0)
OUTPUT_TILE(4, 6, 2)
OUTPUT_TILE(4, 6, 3)
OUTPUT_TILE(4, 6, 4)

static const pf_wino_transforms FORMS[] = {
    {2, 4, 0, 0, input_tile_4, output_tile_2_4_0},
    {2, 6, 0, 0, input_tile_6, output_tile_2_6_0},
    {4, 6, 0, 0, input_tile_6, output_tile_4_6_0},
    {0, 0, 2, 0, input_line_2, output_tile_4_6_2},
    {0, 0, 3, 0, input_line_3, output_tile_4_6_3},
    {0, 0, 4, 0, input_line_4, output_tile_4_6_4},
    {6, 8, 0, 0, PF_NAME(wino_six_input), PF_NAME(wino_six_output)},
    {2, 4, 0, 1, PF_NAME(wino_phases_input), PF_NAME(wino_phases_output)},
    {4, 6, 0, 1, PF_NAME(wino_phases_input), PF_NAME(wino_phases_output)},
};

static const pf_wino_transforms *transforms_of(const pf_wino_plan *p) {
    const pf_wino_transforms *t = FORMS;
    while (t->pairs != p->line.pairs || t->phases != p->phases ||
           (t->pairs == 0 && (t->m != p->m || t->side != p->side)))
        t++;
    return t;
}

/* Tiles [first, first + count) in `blocks` register tiles. */
typedef struct span {
    int64_t first, count, blocks;
} span;

static span span_of_chunk(const pf_wino_plan *p, int64_t chunk) {
    const int64_t first = pf_wino_chunk_start(p, p->chunks, chunk);
    const int64_t count = pf_wino_chunk_start(p, p->chunks, chunk + 1) - first;
    return (span){first, count, pf_ceil_div(count, p->block)};
}

/* First tile of a block, counted from the first one of the span; the first blocks are higher by one. */
static int64_t block_start(const span *s, int64_t block) {
    return block * (s->count / s->blocks) + pf_min(block, s->count % s->blocks);
}

static void transform_inputs(const pf_wino_plan *p, int64_t first, int64_t end) {
    const pf_wino_transforms *t = transforms_of(p);
    for (int64_t i = first; i < end; i++) {
        t->input(p, i, p->v + (i - first) * p->depth);
        if (p->pairs) PF_NAME(wino_pairs_prepare)(p, i - first);
    }
}

static pf_wino_columns columns_of(const pf_wino_plan *p, pf_panel panel) {
    const int64_t width = panel.vectors * PF_VL, column = panel.start * PF_VL;
    return (pf_wino_columns){column,
                             pf_min(width, p->oc - column),
                             width,
                             p->u + column * p->u_points * p->ic,
                             p->pairs ? p->scales + column : NULL,
                             1.0f};
}

/* All points of a chunk by one panel, where there are kernels for such few channels and such blocks. */
static int multiply_narrow(const pf_wino_plan *p, int64_t panel, const span *s, float *products) {
    const int vectors = pf_wino_panel(p, panel).vectors;
    if (p->phases || p->pairs || !pf_wino_is_narrow(p->depth, vectors)) return 0;
    pf_wino_narrow t = {.u = columns_of(p, pf_wino_panel(p, panel)).u, .ic = p->ic, .points = p->points};
    t.v_step = p->v_step, t.m_step = p->m_step;
    for (int64_t b = 0; b < s->blocks; b++) {
        const int64_t begin = block_start(s, b), count = block_start(s, b + 1) - begin;
        t.v = p->v + begin * p->depth, t.products = products + begin * vectors * PF_VL;
        if (!PF_NAME(wino_narrow)(&t, count, vectors, p->depth)) return 0;
    }
    return 1;
}

static pf_wino_sum sum_of(const pf_wino_plan *p, int64_t point) {
    if (p->phases) return PF_NAME(wino_phases_sum)(p->m, (int)point);
    return (pf_wino_sum){.count = 1, .v = {(int)point}, .u = {(int)point}};
}

/* Weights of one point in a panel. */
static const float *weights_of(const pf_wino_plan *p, int64_t panel, int64_t point) {
    const pf_panel at = pf_wino_panel(p, panel);
    return columns_of(p, at).u + point * p->ic * at.vectors * PF_VL;
}

/* M = V U, or a sum of such products, for one point: a chunk by one panel. next: the weights that are wanted
 * next, which are fetched meanwhile. */
static void multiply(const pf_wino_plan *p, int64_t panel, const pf_wino_sum *sum, const span *s,
                     float *products, const float *next) {
    const int vectors = pf_wino_panel(p, panel).vectors;
    const int64_t bytes = vectors * PF_VL * (int64_t)sizeof(float);
    pf_wino_products t = {.pairs = sum->count, .products = products, .depth = p->depth, .ic = p->ic};
    for (int i = 0; i < sum->count; i++) {
        t.v[i] = p->v + sum->v[i] * p->v_step;
        t.u[i] = weights_of(p, panel, sum->u[i]);
    }
    const int64_t each = next ? pf_ceil_div(bytes, s->blocks * sum->count) : 0;
    t.ahead = (const char *)(next ? next : t.u[0]);
    t.ahead_step = pf_min(PF_LINE_BYTES, each);
    t.rest_step = p->alone ? pf_min(PF_LINE_BYTES, each - t.ahead_step) : 0;
    PF_NAME(wino_products)(&t, s->count, s->blocks, vectors);
}

/* All points of a chunk by the panels [panel, stop): those of one point follow each other, so that its inputs
 * are fetched once. */
static void multiply_points(const pf_wino_plan *p, int64_t panel, int64_t stop, const span *s) {
    const int64_t count = stop - panel;
    if (count == 1 && multiply_narrow(p, panel, s, p->products)) return;
    for (int64_t i = 0; i < p->points; i++) {
        const pf_wino_sum sum = sum_of(p, i), after = sum_of(p, i + 1 < p->points ? i + 1 : 0);
        for (int64_t j = 0; j < count; j++) {
            const float *next = NULL;
            if (j + 1 < count)
                next = weights_of(p, panel + j + 1, sum.u[sum.count - 1]);
            else if (i + 1 < p->points)
                next = weights_of(p, panel, after.u[after.count - 1]);
            else if (stop < p->panels)
                next = weights_of(p, stop, after.u[after.count - 1]);
            float *products = p->products + (j * p->points + i) * p->m_step;
            if (p->pairs)
                PF_NAME(wino_pairs_products)(p, panel + j, i, s->count, weights_of(p, panel + j, i), next,
                                             products);
            else
                multiply(p, panel + j, &sum, s, products, next);
        }
    }
}

/* A chunk by the panels [panel, stop). */
static void run_panels(const pf_wino_plan *p, int64_t panel, int64_t stop, const span *s) {
    const pf_wino_transforms *t = transforms_of(p);
    multiply_points(p, panel, stop, s);
    for (int64_t j = panel; j < stop; j++) {
        pf_wino_columns o = columns_of(p, pf_wino_panel(p, j));
        const float *products = p->products + (j - panel) * p->points * p->m_step;
        for (int64_t i = 0; i < s->count; i++) {
            if (p->pairs) o.scale = p->tile_scales[i];
            t->output(p, s->first + i, &o, products + i * o.width);
        }
    }
}

/* Panels [panel, stop) of one chunk of one group; groups of the same pixels follow each other. */
static void run_chunk(const pf_wino_plan *p, int64_t index, int64_t panel, int64_t stop) {
    const pf_wino_plan q = group_of(p, index % p->a->groups);
    const span chunk = span_of_chunk(p, index / p->a->groups);
    transform_inputs(&q, chunk.first, chunk.first + chunk.count);
    for (int64_t next; panel < stop; panel = next) {
        next = pf_min(stop, panel + p->together);
        run_panels(&q, panel, next, &chunk);
    }
}

/* Many chunks: each thread takes the next one. Few: the panels of all chunks are dealt out, a thread may
 * transform the inputs of a chunk that another one shares. */
PF_KERNEL_FUNCTION(conv_winograd_f32) {
    const pf_winograd_args *a = args_;
    pf_wino_plan p = PF_NAME(wino_plan)(a, w->nthreads);
    p.x = pf_ptr(w, a->x), p.u = pf_ptr(w, a->w), p.bias = pf_ptr(w, a->bias), p.z = pf_ptr(w, a->z);
    p.y = pf_ptr(w, a->y);
    p.v = (float *)pf_ptr(w, a->scratch) + w->tid * p.scratch;
    p.products = p.v + p.v_points * p.v_step;
    if (p.pairs) PF_NAME(wino_pairs_begin)(&p, extra_of(&p));
    const int64_t chunks = p.chunks * a->groups, parts = pf_wino_shares_panels(&p, p.chunks, w->nthreads);
    int64_t begin = 0, end = 0;
    if (parts) pf_share(w, chunks * p.panels, 1, &begin, &end);
    for (int64_t i = begin; i < end;) {
        const int64_t panel = i % p.panels, stop = pf_min(p.panels, panel + end - i);
        run_chunk(&p, i / p.panels, panel, stop);
        i += stop - panel;
    }
    for (int64_t i = parts ? chunks : pf_claim(w, 1); i < chunks; i = pf_claim(w, 1))
        run_chunk(&p, i, 0, p.panels);
}

/* Fewer threads make larger chunks, for which the scratch has to suffice. */
PF_PLAN_FUNCTION(conv_winograd_f32) {
    const pf_wino_plan p = PF_NAME(wino_plan)(args_, nthreads), alone = PF_NAME(wino_plan)(args_, 1);
    plan->variant = p.m + (p.phases ? PF_WINO_PHASES : 0) + (p.pairs ? PF_WINO_PAIRS : 0);
    plan->chunks = p.chunks;
    const int64_t floats = p.pairs ? extra_of(&p).floats : p.a->groups * group_floats(&p);
    plan->packed_bytes = floats * (int64_t)sizeof(float);
    plan->scratch_bytes = nthreads * alone.scratch * (int64_t)sizeof(float);
    snprintf(plan->label, sizeof plan->label, "F(%d,%d)%s %ldx%ld", p.m, (int)pf_max(p.a->kh, p.a->kw),
             p.phases  ? "/2"
             : p.pairs ? " pairs"
                       : "",
             (long)p.chunk, (long)p.panel_width);
}
