/* Convolution by Winograd's method: F(6x6, 3x3), F(4x4, 3x3), F(2x2, 3x3), F(2x2, 5x5) or F(4, r) in a line,
 * all with stride 1, and tiles of 4x4 or 2x2 outputs for windows of 3x3 with stride 2. The output is cut into
 * tiles, the tiles into chunks. For a chunk, a thread transforms the inputs of all channels into V, then for
 * each panel of output channels multiplies V with the transformed weights, point by point, and transforms the
 * products M back while they are in L2. Padding is dealt with in the input transform, the epilogue in the
 * output transform. */
#include <stdio.h>

#include "kernels/conv_winograd_plan.h"
#include "kernels/pairs.h"
#include "kernels/tile.h"

/* A chunk's V and M of a panel stay in L2 where a pass over the weights serves enough tiles all the same.
 * Else M of several panels does, so that V comes from L3 once for all of them. INPUT_AHEAD: tiles between the
 * one that is transformed and the one that is fetched, which has to stay in L1. */
#if PF_REGISTERS == 32
enum { CHUNK_BYTES = 704 << 10, CHUNK_LEAST = 32, TOGETHER = 1, INPUT_AHEAD = PF_WINO_AHEAD };
#else
enum { CHUNK_BYTES = 512 << 10, CHUNK_LEAST = 60, TOGETHER = 4, INPUT_AHEAD = 1 };
#endif
/* An image that fills a good part of L3 together with its result pushes V and M out of L2 on its way, unless
 * chunks are smaller. */
enum { FAR_BYTES = 12 << 20, FAR_CHUNK_BYTES = 224 << 10, FAR_CHUNK_LEAST = 12 };
enum {
    CHUNK_MOST = 96,      /* tiles */
    CHUNK_LEAST_SIX = 36, /* tiles of 6x6 outputs */
    CHUNKS_PER_THREAD = 4 /* with fewer chunks, threads share the panels of a chunk */
};

/* Roughly, of a point of a tile and a vector of channels, and of a register tile. */
static const double INPUT_CYCLES = 4.5, OUTPUT_CYCLES = 3.5, CALL_CYCLES = 60;
/* To fetch a vector of weights, beyond what hides behind the arithmetic: a quarter of a cycle a float. */
static const double WEIGHT_CYCLES = 0.25 * PF_VL;

/* First tile of a chunk. One thread takes whole blocks; several take equal shares. */
static int64_t chunk_start(const pf_wino_plan *p, int64_t chunks, int64_t chunk) {
    if (!p->whole) return p->tiles * chunk / chunks;
    return p->tiles * (p->blocks * chunk / chunks) / pf_max(1, p->blocks);
}

static pf_panel panel_at(const pf_wino_plan *p, int64_t i) { return pf_wino_panel_at(p->pairs, p->oc, i); }

/* Whether the products have kernels of their own, which exist for few heights of blocks. */
static int is_narrow(int64_t depth, int vectors) { return vectors <= 2 && depth <= 2 * PF_VL; }

/* With few chunks, threads share the panels of a chunk. */
static int shares_panels(const pf_wino_plan *p, int64_t chunks, int nthreads) {
    return nthreads > 1 && chunks * p->a->groups < CHUNKS_PER_THREAD * nthreads;
}

/* Vectors of columns in the panels before `panel`. */
static int64_t vectors_before(const pf_wino_plan *p, int64_t panel) {
    return panel < p->panels ? panel_at(p, panel).start : pf_ceil_div(p->oc, PF_VL);
}

/* Roughly the cycles of the thread that has most to do, where the panels of all chunks are dealt out. */
static double longest_share(const pf_wino_plan *p, int64_t chunks, int nthreads) {
    const double depth = (double)p->depth / PF_VL, output = (double)p->ic / 2 + OUTPUT_CYCLES;
    const double call = CALL_CYCLES * PF_VL / (double)p->panel_width;
    const int64_t groups = p->a->groups, units = chunks * groups * p->panels;
    double most = 0;
    for (int64_t thread = 0; thread < nthreads; thread++) {
        double cycles = 0;
        const int64_t end = units * (thread + 1) / nthreads;
        for (int64_t i = units * thread / nthreads, n; i < end; i += n) {
            const int64_t chunk = i / p->panels / groups, panel = i % p->panels;
            n = pf_min(end - i, p->panels - panel);
            const double columns = (double)(vectors_before(p, panel + n) - vectors_before(p, panel));
            const int64_t tiles = chunk_start(p, chunks, chunk + 1) - chunk_start(p, chunks, chunk);
            cycles += (double)tiles * (INPUT_CYCLES * depth + columns * output);
            cycles += columns * ((double)pf_ceil_div(tiles, p->block) * call + WEIGHT_CYCLES * (double)p->ic);
        }
        if (cycles > most) most = cycles;
    }
    return most;
}

/* Number of chunks, `least` or more where that gives threads equal shares. */
static int64_t best_chunks(const pf_wino_plan *p, int64_t least, int nthreads) {
    int64_t best = least;
    if (!shares_panels(p, least, nthreads))
        return p->whole || least < nthreads ? least : pf_ceil_div(least, nthreads) * nthreads;
    double cycles = longest_share(p, least, nthreads);
    for (int64_t chunks = least + 1; chunks <= p->blocks && shares_panels(p, chunks, nthreads); chunks++) {
        const double other = longest_share(p, chunks, nthreads);
        if (other < cycles) best = chunks, cycles = other;
    }
    return best;
}

static pf_wino_plan plan_form(const pf_conv_args *a) {
    const int phases = a->stride_h == 2;
    const pf_wino_form form = pf_wino_form_of(a->variant, a->kh);
    const int m = form.m, side = form.side;
    pf_wino_plan p = {.a = a, .m = m, .side = side, .phases = phases, .pairs = form.pairs};
    p.points = p.v_points = p.u_points = side * side;
    p.mh = p.mw = m, p.sh = p.sw = phases ? 2 * m + 1 : side;
    if (phases) p.v_points = PF_NAME(wino_phases_inputs)(m), p.points = PF_NAME(wino_phases_products)(m);
    if (!pf_wino_is_line(a->kh, a->kw)) return p;
    p.line = PF_NAME(wino_line_make)(pf_max(a->kh, a->kw));
    p.points = p.v_points = p.u_points = p.line.points;
    p.m = PF_LINE_OUTPUTS;
    p.mh = a->kh > 1 ? PF_LINE_OUTPUTS : 1, p.sh = a->kh > 1 ? p.points : 1;
    p.mw = a->kw > 1 ? PF_LINE_OUTPUTS : 1, p.sw = a->kw > 1 ? p.points : 1;
    return p;
}

/* Tiles that a pass over the weights should serve at least. */
static int64_t least_tiles(const pf_wino_plan *p) { return p->m == 6 ? CHUNK_LEAST_SIX : CHUNK_LEAST; }

/* Most tiles of a chunk, with so many bytes each. */
static int64_t chunk_most(const pf_wino_plan *p, int64_t tile_bytes) {
    const pf_conv_args *a = p->a;
    const int64_t floats = a->n * (a->ih * a->iw * a->ic + a->oh * a->ow * a->oc);
    const int squares = p->mh == p->mw && !p->phases;
    const int far = PF_REGISTERS == 32 && squares && floats * (int64_t)sizeof(float) >= FAR_BYTES;
    const int64_t least = far ? p->pairs ? 3 * PF_PAIRS_ROWS : FAR_CHUNK_LEAST : least_tiles(p),
                  bytes = far ? FAR_CHUNK_BYTES : CHUNK_BYTES;
    return pf_min(CHUNK_MOST, pf_max(least, bytes / tile_bytes));
}

/* Sums do not depend on how tiles are cut into chunks and blocks. */
static pf_wino_plan plan_wino(const pf_conv_args *a, int nthreads) {
    pf_wino_plan p = plan_form(a);
    p.ic = a->ic / a->groups;
    p.oc = a->oc / a->groups;
    p.rows = pf_ceil_div(a->oh, p.mh);
    p.columns = pf_ceil_div(a->ow, p.mw);
    p.tiles = a->n * p.rows * p.columns;
    p.depth = pf_ceil_div(p.ic, PF_VL) * PF_VL;
    p.panels = pf_wino_panel_count(p.pairs, p.oc);
    const int widest = p.pairs ? panel_at(&p, 0).vectors : pf_panel_widest(p.oc);
    p.panel_width = widest * PF_VL;
    p.block = p.pairs ? (int64_t)PF_PAIRS_ROWS : pf_tile_rows(widest);
    p.blocks = pf_ceil_div(p.tiles, p.block);
    p.alone = nthreads == 1;
    p.whole = p.alone || (!p.pairs && is_narrow(p.depth, widest));
    const int64_t v_bytes = p.v_points * p.depth * (int64_t)sizeof(float);
    const int64_t tile_bytes = v_bytes + p.points * p.panel_width * (int64_t)sizeof(float);
    const int64_t most = chunk_most(&p, tile_bytes);
    p.together = least_tiles(&p) * v_bytes > CHUNK_BYTES ? TOGETHER : 1;
    p.chunks = best_chunks(&p, pf_max(1, pf_ceil_div(p.blocks, most / p.block)), nthreads);
    p.chunk = pf_ceil_div(p.blocks, p.chunks) * p.block;
    p.v_step = pf_odd_lines(p.chunk * p.depth);
    p.m_step = pf_odd_lines(p.chunk * p.panel_width);
    p.scratch = p.v_points * p.v_step + p.together * p.points * p.m_step;
    if (p.pairs) p.scratch += pf_odd_lines((p.points + 1) * p.chunk);
    p.act = pf_act_make(a->act, a->act_a, a->act_b);
    return p;
}

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
    const pf_conv_args *a = p->a;
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
    const int64_t first = chunk_start(p, p->chunks, chunk);
    const int64_t count = chunk_start(p, p->chunks, chunk + 1) - first;
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
    const int vectors = panel_at(p, panel).vectors;
    if (p->phases || p->pairs || !is_narrow(p->depth, vectors)) return 0;
    pf_wino_narrow t = {.u = columns_of(p, panel_at(p, panel)).u, .ic = p->ic, .points = p->points};
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
    const pf_panel at = panel_at(p, panel);
    return columns_of(p, at).u + point * p->ic * at.vectors * PF_VL;
}

/* M = V U, or a sum of such products, for one point: a chunk by one panel. next: the weights that are wanted
 * next, which are fetched meanwhile. */
static void multiply(const pf_wino_plan *p, int64_t panel, const pf_wino_sum *sum, const span *s,
                     float *products, const float *next) {
    const int vectors = panel_at(p, panel).vectors;
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
        pf_wino_columns o = columns_of(p, panel_at(p, j));
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
    const pf_conv_args *a = args_;
    pf_wino_plan p = plan_wino(a, w->nthreads);
    p.x = pf_ptr(w, a->x), p.u = pf_ptr(w, a->w), p.bias = pf_ptr(w, a->bias), p.z = pf_ptr(w, a->z);
    p.y = pf_ptr(w, a->y);
    p.v = (float *)pf_ptr(w, a->scratch) + w->tid * p.scratch;
    p.products = p.v + p.v_points * p.v_step;
    if (p.pairs) PF_NAME(wino_pairs_begin)(&p, extra_of(&p));
    const int64_t chunks = p.chunks * a->groups, parts = shares_panels(&p, p.chunks, w->nthreads);
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
    const pf_wino_plan p = plan_wino(args_, nthreads), alone = plan_wino(args_, 1);
    plan->variant = p.m + (p.phases ? PF_WINO_PHASES : 0) + (p.pairs ? PF_WINO_PAIRS : 0);
    const int64_t floats = p.pairs ? extra_of(&p).floats : p.a->groups * group_floats(&p);
    plan->packed_bytes = floats * (int64_t)sizeof(float);
    plan->scratch_bytes = nthreads * alone.scratch * (int64_t)sizeof(float);
    snprintf(plan->label, sizeof plan->label, "F(%d,%d)%s %ldx%ld", p.m, (int)pf_max(p.a->kh, p.a->kw),
             p.phases  ? "/2"
             : p.pairs ? " pairs"
                       : "",
             (long)p.chunk, (long)p.panel_width);
}
