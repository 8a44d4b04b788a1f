/* 1x1 convolutions and linear layers by runs of register tiles (tile_run.c): all pixels lie at equal
 * distances and sums are whole. Input that is to be scaled, shifted and activated first passes block by block
 * through a buffer in cache. */
#include "kernels/conv_igemm.h"

enum {
    /* Rows that all panels of a unit visit in turn: they stay close. */
    RUN_BYTES = (PF_REGISTERS == 32 ? 64 : 192) << 10,
    CHANGED_BYTES = 64 << 10, /* of those that pass through a buffer */
    RUN_TILES = 4,            /* such tiles at least */
    ROWS_AT_ONCE = 4
};

/* Rows of x as the tiles see them: address of pixel 0, floats from pixel to pixel. */
typedef struct run_rows {
    const float *x;
    int64_t step;
} run_rows;

/* Tiles that visit all panels in turn. */
static int64_t block_tiles(const pf_igemm *c) {
    const int64_t bytes = c->changed ? CHANGED_BYTES : RUN_BYTES;
    return pf_max(RUN_TILES, bytes / (int64_t)sizeof(float) / (c->rows * c->ic));
}

int64_t PF_NAME(igemm_block)(const pf_igemm *c) { return block_tiles(c) * c->rows * pf_odd_lines(c->ic); }

/* A vector of channels of some rows. */
PF_INLINE void change_vector(const pf_igemm *c, const pf_activation *act, const int rows, const float *x,
                             int64_t xstep, float *y, int64_t ystep, int64_t k, int64_t n) {
    const pf_vf scale = pf_load_upto(c->scale + k, n), shift = pf_load_upto(c->shift + k, n);
    pf_vf v[ROWS_AT_ONCE];
    PF_UNROLL for (int r = 0; r < rows; r++) {
        v[r] = pf_fma(pf_load_upto(x + r * xstep + k, n), scale, shift);
        __builtin_prefetch(x + (r + rows) * xstep + k);
    }
    pf_act_early(act, v, rows);
    PF_UNROLL for (int r = 0; r < rows; r++) pf_store(y + r * ystep + k, v[r]);
}

PF_INLINE void change_rows(const pf_igemm *c, const int rows, const float *x, int64_t xstep, float *y,
                           int64_t ystep) {
    const pf_activation act = c->before, clip = {PF_ACT_CLIP, act.a, act.b};
    const int64_t whole = c->ic / PF_VL * PF_VL;
    int64_t k = 0;
    if (act.code == PF_ACT_RELU || act.code == PF_ACT_CLIP)
        for (; k < whole; k += PF_VL) change_vector(c, &clip, rows, x, xstep, y, ystep, k, PF_VL);
    for (; k < whole; k += PF_VL) change_vector(c, &act, rows, x, xstep, y, ystep, k, PF_VL);
    if (k < c->ic) change_vector(c, &act, rows, x, xstep, y, ystep, k, c->ic - k);
    pf_act_late(act.code, y, ystep, rows, c->ic);
}

/* Fills the block with pixels [begin, end). */
static run_rows change_block(const pf_igemm *c, int64_t begin, int64_t end) {
    const int64_t xstep = c->a.stride_w * c->a.xsw, step = pf_odd_lines(c->ic);
    const float *x = c->x + begin * xstep;
    float *y = c->block;
    int64_t i = begin;
    for (; i + ROWS_AT_ONCE <= end; i += ROWS_AT_ONCE, x += ROWS_AT_ONCE * xstep, y += ROWS_AT_ONCE * step)
        change_rows(c, ROWS_AT_ONCE, x, xstep, y, step);
    for (; i < end; i++, x += xstep, y += step) change_rows(c, 1, x, xstep, y, step);
    return (run_rows){c->block - begin * step, step};
}

/* Lets the tiles of a run, or as many of them as it takes, fetch [*from, end); returns their number. */
static int64_t fetch(pf_run *r, const char **from, const char *end, int64_t tiles) {
    r->ahead_each = pf_ahead_each(end - *from, tiles * r->k);
    r->ahead_step = r->k * r->ahead_each;
    r->ahead = *from;
    tiles = pf_min(tiles, pf_ceil_div(end - *from, r->ahead_step));
    *from += tiles * r->ahead_step;
    return tiles;
}

/* Pixels [pixel, end) by one panel, in runs of one height that fetch what comes next: `next`, weights of this
 * convolution, rows of x so many pixels later unless that is 0, what a later step reads. Tiles differ by at
 * most one row, as those of pf_igemm_pixel do, but are as high as suits the panel. */
static void run_tiles(pf_igemm *c, const pf_panel *panel, const float *w, const char *next, run_rows x,
                      int64_t later, int64_t pixel, int64_t end, pf_waiting *waiting) {
    const pf_conv3d_args *a = &c->a;
    const int64_t column = panel->start * PF_VL, most = pf_min(c->rows, pf_tile_rows(panel->vectors));
    const int64_t tiles = pf_ceil_div(end - pixel, most), xstep = a->stride_w * a->xsw;
    int64_t rows = pf_ceil_div(end - pixel, tiles), high = tiles - (tiles * rows - (end - pixel));
    pf_run r = {.b = w, .k = c->ic, .act = c->act, .xstep = x.step, .ystep = a->ysw, .zstep = a->zsw};
    const char *next_end = next + panel->vectors * PF_VL * c->ic * (int64_t)sizeof(float);
    r.n = pf_min(panel->vectors * PF_VL, c->oc - column);
    r.bias = c->bias ? c->bias + column : NULL;
    r.waiting = waiting, r.z_late = c->a.z_late;
    for (; pixel < end; pixel += r.tiles * rows) {
        if (high == 0) rows--, high = (end - pixel) / rows;
        r.x = x.x + pixel * x.step;
        r.tiles = high;
        r.ahead = NULL, r.ahead_step = 0;
        if (next && next < next_end) {
            r.tiles = fetch(&r, &next, next_end, r.tiles);
        } else if (later > 0) {
            r.ahead = c->x + (pixel + later) * xstep;
            r.ahead_each = PF_LINE_BYTES;
            r.ahead_step = rows * xstep * (int64_t)sizeof(float);
        } else if (c->ahead < c->ahead_end) {
            r.tiles = fetch(&r, &c->ahead, c->ahead_end, r.tiles);
        }
        high -= r.tiles;
        r.y = c->y + pixel * a->ysw + column;
        r.z = c->z ? c->z + pixel * a->zsw + column : NULL;
        pf_run_of(&r, c->late, panel->vectors, rows)(&r);
    }
}

/* How many pixels ahead the tiles of a panel fetch x: the first visit the next tile's, where x is changed the
 * last one the next block's. A single panel, which leaves little time for that, fetches what lies far. */
static int64_t fetched_later(const pf_igemm *c, const pf_igemm_unit *u, int64_t panel, int64_t block) {
    if (!c->dense) return 0;
    if (c->changed) return panel + 1 == u->panel1 ? block : 0;
    return panel == 0 && (c->panels > 1 || c->far) ? c->rows : 0;
}

/* Rows that stay close visit all panels. */
void PF_NAME(igemm_run)(pf_igemm *c, const pf_igemm_unit *u) {
    const int64_t most = block_tiles(c);
    run_rows x = {c->x, c->a.stride_w * c->a.xsw};
    pf_waiting waiting;
    waiting.turn = waiting.rows = 0;
    for (int64_t tile = u->tile0; tile < u->tile1; tile += most) {
        const int64_t end = pf_min(tile + most, u->tile1);
        const int64_t first = pf_igemm_pixel(c, tile), stop = pf_igemm_pixel(c, end);
        pf_panel panel = pf_panel_at(c->oc, u->panel0);
        const float *w = u->w;
        if (c->changed) x = change_block(c, first, stop);
        for (int64_t p = u->panel0; p < u->panel1; p++) {
            const float *after = w + panel.vectors * PF_VL * c->ic;
            const float *next = tile > u->tile0 ? NULL : p + 1 < u->panel1 ? after : u->next;
            run_tiles(c, &panel, w, (const char *)next, x, fetched_later(c, u, p, stop - first), first, stop,
                      &waiting);
            panel.start += panel.vectors;
            panel.vectors = pf_panel_vectors(c->columns / PF_VL - panel.start);
            w = after;
        }
    }
    PF_NAME(finish_run)(&waiting);
}
