/* Instances of the register tile (tile.h): every width in vectors times every height in rows, so that no tail
 * computes rows or vectors that nobody stores. All loops over the accumulators unroll completely; they live
 * in registers. */
#include "kernels/tile_half.h"
#include "kernels/tile_shapes.h"

enum { COLS = PF_TILE_VECTORS, SIDE = PF_PANEL_MAIN, CHAINS = 8 };

/* Starts the accumulators from the bias, or from the stored sums of the blocks before. */
PF_INLINE void start(const int rows, const int vectors, const pf_tile *t, pf_vf (*acc)[COLS]) {
    const int64_t column = t->column, last = t->n - (vectors - 1) * PF_VL;
    if (!t->first) {
        PF_UNROLL for (int r = 0; r < rows; r++) {
            const float *y = t->y[r] + column;
            PF_UNROLL for (int v = 0; v < vectors - 1; v++) acc[r][v] = pf_load(y + v * PF_VL);
            acc[r][vectors - 1] = pf_load_last(y + (vectors - 1) * PF_VL, last);
        }
        return;
    }
    pf_block_start(rows, vectors, t->bias ? t->bias + column : NULL, last, acc);
}

/* Starts to fetch the residual that this block will want: y may lie in its place, so the first block adds it.
 */
PF_INLINE void fetch_residual(const int rows, const int vectors, const pf_tile *t) {
    const float *const *z = t->first && t->z ? t->z : t->last ? t->late : NULL;
    if (!z) return;
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) __builtin_prefetch(z[r] + t->column + v * PF_VL);
    }
}

/* Starts to fetch for writing what the tile will overwrite: stores that miss hold the next tile up. */
PF_INLINE void fetch_output(const int rows, const int vectors, const pf_tile *t) {
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const float *y = t->y[r] + t->column;
        PF_UNROLL for (int v = 0; v < vectors; v++) __builtin_prefetch(y + v * PF_VL, 1);
    }
}

PF_INLINE void add_residual(const int rows, const int vectors, const pf_tile *t, pf_vf (*acc)[COLS]) {
    const int64_t column = t->column, last = t->n - (vectors - 1) * PF_VL;
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const float *z = t->z[r] + column;
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) acc[r][v] += pf_load(z + v * PF_VL);
        acc[r][vectors - 1] += pf_load_last(z + (vectors - 1) * PF_VL, last);
    }
}

PF_INLINE void finish(const int rows, const int vectors, const pf_tile *t, float *staging,
                      pf_vf (*acc)[COLS]) {
    if (t->z && t->first) add_residual(rows, vectors, t, acc);
    if (t->last) pf_block_activate(rows, vectors, &t->act, acc);
    if (staging) {
        PF_UNROLL for (int r = 0; r < rows; r++) {
            PF_UNROLL for (int v = 0; v < vectors; v++)
                pf_store(staging + (r * vectors + v) * PF_VL, acc[r][v]);
        }
        return;
    }
    const int64_t column = t->column, last = t->n - (vectors - 1) * PF_VL;
    if (last == PF_VL) {
        PF_UNROLL for (int r = 0; r < rows; r++) {
            float *y = t->y[r] + column;
            PF_UNROLL for (int v = 0; v < vectors; v++) pf_store(y + v * PF_VL, acc[r][v]);
        }
        return;
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        float *y = t->y[r] + column;
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) pf_store(y + v * PF_VL, acc[r][v]);
        pf_storen(y + (vectors - 1) * PF_VL, acc[r][vectors - 1], last);
    }
}

/* The sums of one tap; fetch: memory ahead goes to the cache meanwhile. Returns how far. */
PF_INLINE const char *sums(const int rows, const int vectors, const bool half, const bool fetch,
                           const float *const *row, const float *b, const pf_tile *t, const char *ahead,
                           pf_vf (*acc)[COLS]) {
    const int64_t kend = t->k;
    const float *a[PF_TILE_ROWS];
    /* Counting up to zero saves the register of the bound. */
    PF_UNROLL for (int r = 0; r < rows; r++) a[r] = row[r] + kend;
    return pf_tile_sums(rows, vectors, half, fetch, a, -kend, 0, b, t->bstep, ahead, t->ahead_each, acc);
}

PF_INLINE void tile(const int rows, const int vectors, const bool half, const pf_tile *t, float *staging) {
    pf_vf acc[PF_TILE_ROWS][COLS];
    start(rows, vectors, t, acc);
    fetch_residual(rows, vectors, t);
    if (t->first) fetch_output(rows, vectors, t);
    const char *ahead = vectors > 1 ? t->ahead : NULL;
    for (const pf_tap *tap = t->taps, *end = tap + t->ntaps; tap < end; tap++) {
        const float *b = t->b + tap->number * t->btap, *const *row = tap->row + t->row0;
        if (ahead)
            ahead = sums(rows, vectors, half, true, row, b, t, ahead, acc);
        else
            sums(rows, vectors, half, false, row, b, t, NULL, acc);
    }
    finish(rows, vectors, t, staging, acc);
}

/* Tiles with few accumulators would wait for the latency of one FMA chain: they run `ways` independent sums
 * over k. */
PF_INLINE void thin_tile(const int rows, const int vectors, const int ways, const pf_tile *t,
                         float *staging) {
    pf_vf acc[CHAINS][CHAINS][COLS];
    start(rows, vectors, t, acc[0]);
    PF_UNROLL for (int way = 1; way < ways; way++) {
        PF_UNROLL for (int r = 0; r < rows; r++) {
            PF_UNROLL for (int v = 0; v < vectors; v++) acc[way][r][v] = pf_zero();
        }
    }
    const int64_t kend = t->k, bstep = t->bstep;
    const pf_tap *tap = t->taps;
    for (int64_t i = 0; i < t->ntaps; i++, tap++) {
        const float *b = t->b + tap->number * t->btap, *a[CHAINS];
        int64_t k = 0;
        PF_UNROLL for (int r = 0; r < rows; r++) a[r] = tap->row[t->row0 + r];
        for (; k + ways <= kend; k += ways) {
            PF_UNROLL for (int way = 0; way < ways; way++, b += bstep)
                pf_block_step(rows, vectors, false, a, k + way, b, acc[way]);
        }
        for (; k < kend; k++, b += bstep) pf_block_step(rows, vectors, false, a, k, b, acc[0]);
    }
    PF_UNROLL for (int way = 1; way < ways; way++) {
        PF_UNROLL for (int r = 0; r < rows; r++) {
            PF_UNROLL for (int v = 0; v < vectors; v++) acc[0][r][v] += acc[way][r][v];
        }
    }
    finish(rows, vectors, t, staging, acc[0]);
}

/* The part of a tile that lies in the p-th of its panels. */
PF_INLINE pf_tile part_of(const pf_tile *t, int p) {
    pf_tile part = *t;
    part.column += p * SIDE * PF_VL;
    part.n = pf_min(SIDE * PF_VL, t->n - p * SIDE * PF_VL);
    return part;
}

PF_INLINE void side_tile(const int rows, const int panels, const pf_tile *t, float *staging) {
    pf_vf acc[PF_SIDE_PANELS][PF_SIDE_ROWS][COLS];
    PF_UNROLL for (int p = 0; p < panels; p++) {
        const pf_tile part = part_of(t, p);
        start(rows, SIDE, &part, acc[p]);
    }
    const int64_t kend = t->k, bstep = t->bstep, bpanel = t->bpanel;
    const pf_tap *tap = t->taps;
    for (int64_t i = 0; i < t->ntaps; i++, tap++) {
        const float *b = t->b + tap->number * t->btap, *a[PF_SIDE_ROWS];
        PF_UNROLL for (int r = 0; r < rows; r++) a[r] = tap->row[r];
        for (int64_t k = 0; k < kend; k++, b += bstep) {
            PF_UNROLL for (int p = 0; p < panels; p++)
                pf_block_step(rows, SIDE, false, a, k, b + p * bpanel, acc[p]);
        }
    }
    PF_UNROLL for (int p = 0; p < panels; p++) {
        const pf_tile part = part_of(t, p);
        finish(rows, SIDE, &part, staging ? staging + p * rows * SIDE * PF_VL : NULL, acc[p]);
    }
}

#define TILE(vectors, rows)                                                                                  \
    static void tile_##rows##x##vectors(const pf_tile *t, float *staging) {                                  \
        if ((vectors) * (rows) >= CHAINS)                                                                    \
            tile(rows, vectors, false, t, staging);                                                          \
        else                                                                                                 \
            thin_tile(rows, vectors, (vectors) * (rows) >= CHAINS / 2 ? 2 : 4, t, staging);                  \
    }
#define ENTRY(vectors, rows) tile_##rows##x##vectors,

PF_TILE_SHAPES(TILE, PF_NOTHING, PF_NOTHING)

/* Tiles with few accumulators wait for latency, or for memory, whatever their width. */
#define HALF(vectors, rows)                                                                                  \
    static void half_##rows##x##vectors(const pf_tile *t, float *staging) {                                  \
        if ((vectors) * (rows) >= CHAINS)                                                                    \
            tile(rows, vectors, true, t, staging);                                                           \
        else                                                                                                 \
            tile_##rows##x##vectors(t, staging);                                                             \
    }
#define HALF_ENTRY(vectors, rows) half_##rows##x##vectors,

PF_HALF_SHAPES(HALF)

const pf_tile_fn PF_NAME(tiles)[PF_TILE_KINDS][PF_TILE_VECTORS][PF_TILE_ROWS] = PF_TILE_TABLE(ENTRY,
                                                                                              HALF_ENTRY);

#define SIDE_TILE(panels, rows)                                                                              \
    static void side_##rows##x##panels(const pf_tile *t, float *staging) {                                   \
        side_tile(rows, panels, t, staging);                                                                 \
    }
#define SIDE_ENTRY(panels, rows) side_##rows##x##panels,
#define SIDE_SHAPES(X, BEGIN, END)                                                                           \
    BEGIN X(1, 1) X(1, 2) X(1, 3) END BEGIN X(2, 1) X(2, 2) X(2, 3) END BEGIN X(3, 1) X(3, 2)                \
        END BEGIN X(4, 1) END

SIDE_SHAPES(SIDE_TILE, PF_NOTHING, PF_NOTHING)

const pf_tile_fn PF_NAME(side_tiles)[PF_SIDE_PANELS][PF_SIDE_ROWS] = {
    SIDE_SHAPES(SIDE_ENTRY, PF_OPEN, PF_CLOSE)};

/* The rows through a function of vectors. */
#define UNSTAGE(function)                                                                                    \
    for (int r = 0; r < rows; r++, from += vectors * PF_VL) {                                                \
        float *to = y[r] + column;                                                                           \
        const float *add = z ? z[r] + column : NULL;                                                         \
        for (int64_t i = 0; i < n; i += PF_VL) {                                                             \
            const pf_vf v = function(pf_load(from + i));                                                     \
            pf_store_upto(to + i, add ? v + pf_load_upto(add + i, n - i) : v, n - i);                        \
        }                                                                                                    \
    }

void PF_NAME(unstage)(const float *from, int vectors, int32_t code, float *const *y, const float *const *z,
                      int rows, int64_t column, int64_t n) {
    if (pf_act_is_late(code)) {
        PF_LATE_SWITCH(code, UNSTAGE)
    } else {
        UNSTAGE()
    }
}
