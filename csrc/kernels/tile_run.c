/* Register tiles (tile.h) one below the other over rows at equal distances: the loop over tiles is inside of
 * the function, so that short sums do not wait for calls and tables of pointers. For products of one tap that
 * are summed at once: 1x1 convolutions and linear layers. */
#include "kernels/tile_block.h"
#include "kernels/tile_shapes.h"

enum { COLS = PF_TILE_VECTORS, LINE = 64 };

PF_INLINE void add_residual(const int rows, const int vectors, const float *z, int64_t step, int64_t last,
                            pf_vf (*acc)[COLS]) {
    PF_UNROLL for (int r = 0; r < rows; r++, z += step) {
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) acc[r][v] += pf_load(z + v * PF_VL);
        acc[r][vectors - 1] += pf_load_last(z + (vectors - 1) * PF_VL, last);
    }
}

PF_INLINE void store(const int rows, const int vectors, float *y, int64_t step, int64_t last,
                     pf_vf (*acc)[COLS]) {
    if (last == PF_VL) {
        PF_UNROLL for (int r = 0; r < rows; r++, y += step) {
            PF_UNROLL for (int v = 0; v < vectors; v++) pf_store(y + v * PF_VL, acc[r][v]);
        }
        return;
    }
    PF_UNROLL for (int r = 0; r < rows; r++, y += step) {
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) pf_store(y + v * PF_VL, acc[r][v]);
        pf_storen(y + (vectors - 1) * PF_VL, acc[r][vectors - 1], last);
    }
}

/* The sums over k of one tile, whose first row is x. */
PF_INLINE void multiply(const int rows, const int vectors, const pf_run *t, const float *x, const char *ahead,
                        pf_vf (*acc)[COLS]) {
    const float *b = t->b, *a[PF_TILE_ROWS];
    /* Counting up to zero saves the register of the bound. */
    PF_UNROLL for (int r = 0; r < rows; r++) a[r] = x + r * t->xstep + t->k;
    for (int64_t k = -t->k; k < 0; k++, b += vectors * PF_VL) {
        pf_vf bv[COLS];
        __builtin_prefetch(ahead, 0, 2);
        ahead += LINE;
        PF_UNROLL for (int v = 0; v < vectors; v++) bv[v] = pf_load(b + v * PF_VL);
        PF_UNROLL for (int r = 0; r < rows; r++) {
            const pf_vf value = pf_set(a[r][k]);
            PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_fma(value, bv[v], acc[r][v]);
        }
    }
}

PF_INLINE void run(const int rows, const int vectors, const pf_run *t) {
    const int64_t last = t->n - (vectors - 1) * PF_VL;
    const float *x = t->x, *z = t->z;
    const char *ahead = t->ahead ? t->ahead : (const char *)t->b;
    float *y = t->y;
    for (int64_t i = 0; i < t->tiles; i++, x += rows * t->xstep, y += rows * t->ystep) {
        pf_vf acc[PF_TILE_ROWS][COLS];
        pf_block_start(rows, vectors, t->bias, last, acc);
        if (z) {
            PF_UNROLL for (int r = 0; r < rows; r++) {
                PF_UNROLL for (int v = 0; v < vectors; v++) __builtin_prefetch(z + r * t->zstep + v * PF_VL);
            }
        }
        multiply(rows, vectors, t, x, ahead, acc);
        ahead += t->ahead_step;
        if (z) {
            add_residual(rows, vectors, z, t->zstep, last, acc);
            z += rows * t->zstep;
        }
        pf_block_activate(rows, vectors, &t->act, acc);
        store(rows, vectors, y, t->ystep, last, acc);
    }
}

#define RUN(vectors, rows)                                                                                   \
    static void run_##rows##x##vectors(const pf_run *t) { run(rows, vectors, t); }
#define ENTRY(vectors, rows) run_##rows##x##vectors,

PF_TILE_SHAPES(RUN, PF_NOTHING, PF_NOTHING)

const pf_run_fn PF_NAME(tile_runs)[PF_TILE_VECTORS][PF_TILE_ROWS] = {
    PF_TILE_SHAPES(ENTRY, PF_OPEN, PF_CLOSE)};
