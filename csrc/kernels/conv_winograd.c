/* Convolution by Winograd's method: F(4x4, 3x3), F(2x2, 3x3), F(2x2, 5x5) or F(4, r) in a line, all with
 * stride 1, and tiles of 4x4 or 2x2 outputs for windows of 3x3 with stride 2. The output is cut into tiles,
 * the tiles into chunks. For a chunk, a thread transforms the inputs of all channels into V, then for each
 * panel of output channels multiplies V with the transformed weights, point by point, and transforms the
 * products M back while they are in L2. Padding is dealt with in the input transform, the epilogue in the
 * output transform. */
#include <stdio.h>

#include "kernels/conv_winograd_plan.h"
#include "kernels/tile.h"

enum {
    CHUNK_BYTES = 704 << 10, /* V of a chunk and M of a panel stay in L2 */
    CHUNK_LEAST = 32,        /* tiles that a pass over the weights serves, where that many exist */
    CHUNK_MOST = 96,
    CHUNKS_PER_THREAD = 4, /* with fewer chunks, threads share the panels of a chunk */
    LINE = 16,             /* floats of a cache line */
    CHAINS = 8,            /* accumulators from which tiles sum in one order (tile.c) */
};

/* Roughly, of a point of a tile and a vector of channels, and of a register tile. */
static const double INPUT_CYCLES = 4.5, OUTPUT_CYCLES = 3.5, CALL_CYCLES = 60;
/* To fetch a vector of weights, beyond what hides behind the arithmetic: a quarter of a cycle a float. */
static const double WEIGHT_CYCLES = 0.25 * PF_VL;

/* Steps of an odd number of cache lines keep the points of a tile in different sets of the cache. */
static int64_t odd_lines(int64_t floats) { return (pf_ceil_div(floats, LINE) | 1) * LINE; }

/* First tile of a chunk. One thread takes whole blocks; several take equal shares. */
static int64_t chunk_start(const pf_wino_plan *p, int64_t chunks, int64_t chunk) {
    if (!p->whole) return p->tiles * chunk / chunks;
    return p->tiles * (p->blocks * chunk / chunks) / pf_max(1, p->blocks);
}

/* Whether the products have kernels of their own, which exist for few heights of blocks. */
static int is_narrow(int64_t depth, int vectors) { return vectors <= 2 && depth <= 2 * PF_VL; }

/* Whether sums might be rounded otherwise in blocks of another height, which is half of the most at least. */
static int depends_on_height(const pf_wino_plan *p) {
    return pf_panel_at(p->oc, p->panels - 1).vectors * ((p->block + 1) / 2) < CHAINS;
}

/* With few chunks, threads share the panels of a chunk. */
static int shares_panels(const pf_wino_plan *p, int64_t chunks, int nthreads) {
    return nthreads > 1 && chunks * p->a->groups < CHUNKS_PER_THREAD * nthreads;
}

/* Vectors of columns in the panels before `panel`. */
static int64_t vectors_before(const pf_wino_plan *p, int64_t panel) {
    return panel < p->panels ? pf_panel_at(p->oc, panel).start : pf_ceil_div(p->oc, PF_VL);
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

/* What the form says. */
static pf_wino_plan plan_form(const pf_conv_args *a) {
    const int phases = a->stride_h == 2;
    const pf_wino_form form = pf_wino_form_of(a->variant, a->kh);
    const int m = form.m, side = form.side;
    pf_wino_plan p = {.a = a, .m = m, .side = side, .phases = phases};
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

/* Sums do not depend on how tiles are cut into chunks and blocks. */
static pf_wino_plan plan_wino(const pf_conv_args *a, int nthreads) {
    pf_wino_plan p = plan_form(a);
    p.ic = a->ic / a->groups;
    p.oc = a->oc / a->groups;
    p.rows = pf_ceil_div(a->oh, p.mh);
    p.columns = pf_ceil_div(a->ow, p.mw);
    p.tiles = a->n * p.rows * p.columns;
    p.depth = pf_ceil_div(p.ic, PF_VL) * PF_VL;
    p.panels = pf_panel_count(p.oc);
    const int widest = pf_panel_widest(p.oc);
    p.panel_width = widest * PF_VL;
    p.block = pf_tile_rows(widest);
    p.blocks = pf_ceil_div(p.tiles, p.block);
    p.whole = nthreads == 1 || is_narrow(p.depth, widest) || depends_on_height(&p);
    const int64_t tile_bytes = (p.v_points * p.depth + p.points * p.panel_width) * (int64_t)sizeof(float);
    const int64_t most = pf_min(CHUNK_MOST, pf_max(CHUNK_LEAST, CHUNK_BYTES / tile_bytes));
    p.chunks = best_chunks(&p, pf_max(1, pf_ceil_div(p.blocks, most / p.block)), nthreads);
    p.chunk = pf_ceil_div(p.blocks, p.chunks) * p.block;
    p.v_step = odd_lines(p.chunk * p.depth);
    p.m_step = odd_lines(p.chunk * p.panel_width);
    p.scratch = p.v_points * p.v_step + p.points * p.m_step;
    p.act = pf_act_make(a->act, a->act_a, a->act_b);
    return p;
}

/* Floats of the packed weights of a group. */
static int64_t group_floats(const pf_wino_plan *p) {
    return p->u_points * p->ic * (pf_ceil_div(p->oc, PF_VL) * PF_VL);
}

static pf_wino_plan group_of(const pf_wino_plan *p, int64_t group) {
    pf_wino_plan q = *p;
    q.x += group * p->ic;
    q.u += group * group_floats(p);
    q.y += group * p->oc;
    if (q.bias) q.bias += group * p->oc;
    if (q.z) q.z += group * p->oc;
    return q;
}

PF_INLINE void input_tile(const int side, const pf_wino_plan *p, int64_t tile, float *v) {
    const int64_t row = p->a->xsh, pixel = p->a->xsw;
    pf_wino_part part;
    const float *d = pf_wino_tile_inputs(p, tile, &part);
    const int inside = part.i0 == 0 && part.i1 == side && part.j0 == 0 && part.j1 == side;
    const int64_t whole = inside ? p->ic / PF_VL * PF_VL : 0;
    for (int64_t c = 0; c < whole; c += PF_VL) {
        pf_wino_fetch(d, c, side + (PF_WINO_AHEAD - 1) * p->mw, row, pixel, side, p->mw, 0);
        pf_wino_input(side, NULL, d + c, row, pixel, PF_VL, 0, v + c, p->v_step);
    }
    for (int64_t c = whole; c < p->ic; c += PF_VL) {
        const int64_t n = p->ic - c;
        if (n >= PF_VL)
            pf_wino_input(side, &part, d + c, row, pixel, PF_VL, 0, v + c, p->v_step);
        else
            pf_wino_input(side, &part, d + c, row, pixel, n, 1, v + c, p->v_step);
    }
}

/* The same for a line. */
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
    PF_NAME(wino_direct)(&d, p->m, p->side, parity, out);
}

PF_INLINE void output_vector(const int m, const int side, const int whole, const pf_wino_plan *p,
                             const pf_wino_target *t, int64_t c) {
    const pf_vf bias = t->bias ? pf_load_upto(t->bias + c, t->n - c) : pf_zero();
    PF_UNROLL for (int parity = 0; parity < 2; parity++) {
        pf_vf out[2][4];
        pf_wino_output_rows(m, side, parity, t->products + c, p->m_step, out);
        if (__builtin_expect(!is_finite(m, parity, out), 0)) {
            pf_vf direct[2][4];
            compute_directly(p, t, parity, c, direct);
            PF_UNROLL for (int i = 0; i < m / 2; i++) {
                PF_UNROLL for (int j = 0; j < m; j++) out[i][j] = direct[i][j];
            }
        }
        PF_UNROLL for (int i = 0; i < m / 2; i++) { PF_UNROLL for (int j = 0; j < m; j++) out[i][j] += bias; }
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
        PF_UNROLL for (int j = 0; j < PF_LINE_OUTPUTS; j++) out[j] = direct[j];
    }
    PF_UNROLL for (int j = 0; j < PF_LINE_OUTPUTS; j++) {
        out[j] += bias;
        if (t->z && j < count) out[j] += pf_load_upto(t->z + j * zs + c, n);
    }
    pf_act_early(&p->act, out, PF_LINE_OUTPUTS);
    PF_UNROLL for (int j = 0; j < PF_LINE_OUTPUTS; j++) {
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

static void input_tile_4(const pf_wino_plan *p, int64_t tile, float *v) { input_tile(4, p, tile, v); }
static void input_tile_6(const pf_wino_plan *p, int64_t tile, float *v) { input_tile(6, p, tile, v); }
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

/* Tiles [first, first + count) in `blocks` register tiles: those from number `skip` on of the `of` ones that
 * `tiles` are cut into. */
typedef struct span {
    int64_t first, count, blocks, tiles, of, skip;
} span;

static span span_of_chunk(const pf_wino_plan *p, int64_t chunk) {
    const int64_t first = chunk_start(p, p->chunks, chunk);
    const int64_t count = chunk_start(p, p->chunks, chunk + 1) - first;
    if (p->whole) {
        const int64_t skip = p->blocks * chunk / p->chunks, end = p->blocks * (chunk + 1) / p->chunks;
        return (span){first, count, end - skip, p->tiles, p->blocks, skip};
    }
    const int64_t blocks = pf_ceil_div(count, p->block);
    return (span){first, count, blocks, count, blocks, 0};
}

/* First tile of a block, counted from the first one of the span. */
static int64_t block_start(const span *s, int64_t block) {
    return s->tiles * (s->skip + block) / s->of - s->tiles * s->skip / s->of;
}

/* M = V U, or a sum of such products, for one point: a span by one panel. v: its first tile at point 0, u:
 * the panel. The weights that are wanted next follow in memory; they are fetched meanwhile. */
static void multiply(const pf_wino_plan *p, const pf_wino_sum *sum, const float *v, const float *u,
                     float *products, const span *s, int vectors) {
    const int64_t width = vectors * PF_VL;
    pf_tap taps[4];
    float *y[PF_TILE_ROWS];
    pf_tile t = {.taps = taps, .ntaps = sum->count, .k = p->ic, .b = u, .y = y};
    t.btap = p->ic * width, t.bstep = width, t.n = width;
    t.first = t.last = 1;
    u += (sum->u[sum->count - 1] + 1) * t.btap;
    for (int i = 0; i < sum->count; i++) taps[i].number = sum->u[i];
    for (int64_t b = 0; b < s->blocks; b++) {
        const int64_t rows = block_start(s, b + 1) - block_start(s, b), ahead = b * LINE;
        for (int i = 0; i < sum->count; i++)
            for (int64_t r = 0; r < rows; r++) taps[i].row[r] = v + sum->v[i] * p->v_step + r * p->depth;
        for (int64_t r = 0; r < rows; r++) y[r] = products + r * width;
        v += rows * p->depth, products += rows * width;
        t.ahead = ahead < width ? u + p->ic * ahead : NULL;
        pf_tile_run(vectors, (int)rows, &t);
    }
}

static void transform_inputs(const pf_wino_plan *p, int64_t first, int64_t end) {
    const pf_wino_transforms *t = transforms_of(p);
    for (int64_t i = first; i < end; i++) t->input(p, i, p->v + (i - first) * p->depth);
}

/* All points of a span; `tile` is the first one of the chunk. */
static void multiply_points(const pf_wino_plan *p, const float *u, int64_t tile, const span *s, int vectors) {
    const int64_t width = vectors * PF_VL;
    const pf_wino_narrow t = {.v = p->v + (s->first - tile) * p->depth,
                              .u = u,
                              .products = p->products + (s->first - tile) * width,
                              .v_step = p->v_step,
                              .m_step = p->m_step,
                              .points = p->points,
                              .ic = p->ic};
    if (s->blocks == 1 && !p->phases && PF_NAME(wino_narrow)(&t, s->count, vectors, p->depth)) return;
    for (int i = 0; i < p->points; i++) {
        const pf_wino_sum sum =
            p->phases ? PF_NAME(wino_phases_sum)(p->m, i) : (pf_wino_sum){.count = 1, .v = {i}, .u = {i}};
        multiply(p, &sum, t.v, u, t.products + i * p->m_step, s, vectors);
    }
}

/* A chunk by one panel. */
static void run_panel(const pf_wino_plan *p, int64_t index, const span *chunk) {
    const pf_panel panel = pf_panel_at(p->oc, index);
    const int64_t width = panel.vectors * PF_VL, column = panel.start * PF_VL;
    const pf_wino_columns o = {column, pf_min(width, p->oc - column), width,
                               p->u + column * p->u_points * p->ic};
    const pf_wino_transforms *t = transforms_of(p);
    const float *products = p->products;
    if (is_narrow(p->depth, panel.vectors)) {
        for (int64_t b = 0; b < chunk->blocks; b++) {
            const int64_t begin = block_start(chunk, b), end = block_start(chunk, b + 1);
            const span one = {chunk->first + begin, end - begin, 1, end - begin, 1, 0};
            multiply_points(p, o.u, chunk->first, &one, panel.vectors);
        }
    } else {
        multiply_points(p, o.u, chunk->first, chunk, panel.vectors);
    }
    for (int64_t i = 0; i < chunk->count; i++, products += width)
        t->output(p, chunk->first + i, &o, products);
}

/* Panels [panel, stop) of one chunk of one group; groups of the same pixels follow each other. */
static void run_chunk(const pf_wino_plan *p, int64_t index, int64_t panel, int64_t stop) {
    const pf_wino_plan q = group_of(p, index % p->a->groups);
    const span chunk = span_of_chunk(p, index / p->a->groups);
    transform_inputs(&q, chunk.first, chunk.first + chunk.count);
    for (; panel < stop; panel++) run_panel(&q, panel, &chunk);
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

/* Fewer threads make larger chunks, for which the scratch has to
 * suffice. */
PF_PLAN_FUNCTION(conv_winograd_f32) {
    const pf_wino_plan p = plan_wino(args_, nthreads), alone = plan_wino(args_, 1);
    plan->variant = p.m + (p.phases ? PF_WINO_PHASES : 0);
    plan->packed_bytes = p.a->groups * group_floats(&p) * (int64_t)sizeof(float);
    plan->scratch_bytes = nthreads * alone.scratch * (int64_t)sizeof(float);
    snprintf(plan->label, sizeof plan->label, "F(%d,%d)%s %ldx%ld", p.m, (int)pf_max(p.a->kh, p.a->kw),
             p.phases ? "/2" : "", (long)p.chunk, (long)p.panel_width);
}
