/* How work is cut for Winograd's method: tiles into chunks, chunks by panels, and what scratch that takes. */
#include "kernels/conv_winograd_plan.h"

#include "kernels/pairs.h"
#include "kernels/tile.h"

/* A chunk's V and M of a panel stay in L2 where a pass over the weights serves enough tiles all the same.
 * Else M of several panels does, so that V comes from L3 once for all of them. */
#if PF_REGISTERS == 32
enum { CHUNK_BYTES = 704 << 10, CHUNK_LEAST = 32, TOGETHER = 1 };
#else
enum { CHUNK_BYTES = 512 << 10, CHUNK_LEAST = 60, TOGETHER = 4 };
#endif
/* An image that fills a good part of L3 together with its result pushes V and M out of L2 on its way, unless
 * chunks are smaller (or V comes from L3 anyway). */
enum { FAR_BYTES = 12 << 20, FAR_CHUNK_BYTES = 224 << 10, FAR_CHUNK_LEAST = 12 };
/* With products in pairs the weights pass so quickly that they push V out of an L2 cache of 1 MB, which comes
 * from L3 again. So chunks have more tiles. A thread that is alone has as many panels share a pass over V as
 * keep their M in so many bytes; several threads may have to share L2, where that costs what it gains. */
enum { PAIRS_LEAST = 64, PAIRS_PRODUCT_BYTES = 192 << 10 };
enum {
    CHUNK_MOST = 96,     /* tiles */
    CHUNK_LEAST_SIX = 36 /* tiles of 6x6 outputs */
};

/* Roughly the cycles of a point of a tile for a vector of input channels; of fetching a vector of weights,
 * beyond what hides behind the arithmetic; of a product with an input. As usual, and in pairs, whose inputs
 * are prepared besides. */
static const struct {
    double input, weight, product;
} CYCLES[2] = {{4.5, 0.25 * PF_VL, 0.5}, {14.0, 0.125 * PF_VL, 0.435}};
/* The same of a point of a tile for a vector of output channels, and of a register tile. */
static const double OUTPUT_CYCLES = 3.5, CALL_CYCLES = 60;

/* Vectors of columns in the panels before `panel`. */
static int64_t vectors_before(const pf_wino_plan *p, int64_t panel) {
    return panel < p->panels ? pf_wino_panel(p, panel).start : pf_ceil_div(p->oc, PF_VL);
}

/* Roughly the cycles of the thread that has most to do, where the panels of all chunks are dealt out. */
static double longest_share(const pf_wino_plan *p, int64_t chunks, int nthreads) {
    const double input = CYCLES[p->pairs].input * (double)p->depth / PF_VL;
    const double output = CYCLES[p->pairs].product * (double)p->ic + OUTPUT_CYCLES;
    const double weights = CYCLES[p->pairs].weight * (double)p->ic;
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
            const int64_t tiles =
                pf_wino_chunk_start(p, chunks, chunk + 1) - pf_wino_chunk_start(p, chunks, chunk);
            cycles += (double)tiles * (input + columns * output);
            cycles += columns * ((double)pf_ceil_div(tiles, p->block) * call + weights);
        }
        if (cycles > most) most = cycles;
    }
    return most;
}

/* Number of chunks, `least` or more where that gives threads equal shares. Weighing them takes a while, so
 * that a run has the number from the plan, though it may have fewer threads than planned. */
static int64_t best_chunks(const pf_wino_plan *p, int64_t least, int nthreads) {
    int64_t best = least;
    const int64_t planned = pf_min(p->a->chunks, p->whole ? p->blocks : p->tiles);
    if (nthreads > 1 && planned > 0) return pf_max(least, planned);
    if (!pf_wino_shares_panels(p, least, nthreads))
        return p->whole || least < nthreads ? least : pf_ceil_div(least, nthreads) * nthreads;
    double cycles = longest_share(p, least, nthreads);
    for (int64_t chunks = least + 1; chunks <= p->blocks && pf_wino_shares_panels(p, chunks, nthreads);
         chunks++) {
        const double other = longest_share(p, chunks, nthreads);
        if (other < cycles) best = chunks, cycles = other;
    }
    return best;
}

static pf_wino_plan plan_form(const pf_winograd_args *a) {
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
static int64_t least_tiles(const pf_wino_plan *p) {
    if (p->pairs) return PAIRS_LEAST;
    return p->m == 6 ? CHUNK_LEAST_SIX : CHUNK_LEAST;
}

/* Most tiles of a chunk, with so many bytes each. */
static int64_t chunk_most(const pf_wino_plan *p, int64_t tile_bytes) {
    const pf_winograd_args *a = p->a;
    const int64_t floats = a->n * (a->ih * a->iw * a->ic + a->oh * a->ow * a->oc);
    const int squares = p->mh == p->mw && !p->phases;
    const int far =
        PF_REGISTERS == 32 && squares && !p->pairs && floats * (int64_t)sizeof(float) >= FAR_BYTES;
    const int64_t least = far ? FAR_CHUNK_LEAST : least_tiles(p), bytes = far ? FAR_CHUNK_BYTES : CHUNK_BYTES;
    return pf_min(CHUNK_MOST, pf_max(least, bytes / tile_bytes));
}

/* Panels whose M is kept at a time. */
static int64_t panels_together(const pf_wino_plan *p, int64_t v_bytes) {
    if (!p->pairs) return least_tiles(p) * v_bytes > CHUNK_BYTES ? TOGETHER : 1;
    const int64_t bytes = p->points * p->m_step * (int64_t)sizeof(float);
    return p->alone ? pf_max(1, pf_min(p->panels, PAIRS_PRODUCT_BYTES / bytes)) : 1;
}

/* Sums do not depend on how tiles are cut into chunks and blocks. */
pf_wino_plan PF_NAME(wino_plan)(const pf_winograd_args *a, int nthreads) {
    pf_wino_plan p = plan_form(a);
    p.ic = a->ic / a->groups;
    p.oc = a->oc / a->groups;
    p.rows = pf_ceil_div(a->oh, p.mh);
    p.columns = pf_ceil_div(a->ow, p.mw);
    p.tiles = a->n * p.rows * p.columns;
    p.depth = pf_ceil_div(p.ic, PF_VL) * PF_VL;
    p.panels = pf_wino_panel_count(p.pairs, p.oc);
    const int widest = p.pairs ? pf_wino_panel(&p, 0).vectors : pf_panel_widest(p.oc);
    p.panel_width = widest * PF_VL;
    p.block = p.pairs ? (int64_t)PF_PAIRS_ROWS : pf_tile_rows(widest);
    p.blocks = pf_ceil_div(p.tiles, p.block);
    p.alone = nthreads == 1;
    p.whole = p.alone || (!p.pairs && pf_wino_is_narrow(p.depth, widest));
    const int64_t v_bytes = p.v_points * p.depth * (int64_t)sizeof(float);
    const int64_t tile_bytes = v_bytes + p.points * p.panel_width * (int64_t)sizeof(float);
    const int64_t most = chunk_most(&p, tile_bytes);
    p.chunks = best_chunks(&p, pf_max(1, pf_ceil_div(p.blocks, most / p.block)), nthreads);
    p.chunk = pf_ceil_div(p.blocks, p.chunks) * p.block;
    p.v_step = pf_odd_lines(p.chunk * p.depth);
    p.m_step = pf_odd_lines(p.chunk * p.panel_width);
    p.together = panels_together(&p, v_bytes);
    p.scratch = p.v_points * p.v_step + p.together * p.points * p.m_step;
    if (p.pairs) p.scratch += pf_odd_lines((p.points + 1) * p.chunk);
    p.act = pf_act_make(a->act, a->act_a, a->act_b);
    return p;
}
