/* Winograd products M = V U for one point: a span of tiles by one panel of output channels. Rows of V lie at
 * equal distances and those of M follow each other, so all register tiles of a span are one loop, and short
 * sums over the input channels do not wait for calls and tables of pointers. Every sum is made in one order,
 * however tiles are cut into blocks. Used by conv_winograd.c. */
#include "kernels/conv_winograd.h"
#include "kernels/tile_block.h"
#include "kernels/tile_shapes.h"

enum { COLS = PF_TILE_VECTORS };

/* What is fetched next. */
typedef struct fetches {
    const char *ahead, *rest;
} fetches;

/* What one step over k fetches; more: of the rest, too. */
PF_INLINE void fetch(const int more, const pf_wino_products *t, fetches *at) {
    __builtin_prefetch(at->ahead, 0, 2);
    at->ahead += t->ahead_step;
    if (more) __builtin_prefetch(at->rest, 0, 2), at->rest += t->rest_step;
}

/* `count` register tiles from tile `first` on; more: with fetches of the rest. Returns how far they have
 * come. */
PF_INLINE fetches products(const int rows, const int vectors, const int more, const pf_wino_products *t,
                           int64_t first, int64_t count, fetches at) {
    const int64_t k_end = t->ic;
    float *y = t->products + first * vectors * PF_VL;
    for (int64_t i = 0; i < count; i++, first += rows, y += rows * vectors * PF_VL) {
        pf_vf acc[PF_TILE_ROWS][COLS];
        pf_block_start(rows, vectors, NULL, PF_VL, acc);
        for (int pair = 0; pair < t->pairs; pair++) {
            const float *u = t->u[pair], *a[PF_TILE_ROWS];
            /* Counting up to zero saves the register of the bound. */
            PF_UNROLL for (int r = 0; r < rows; r++) a[r] = t->v[pair] + (first + r) * t->depth + k_end;
            int64_t k = -k_end;
            for (; k <= -PF_TILE_STEPS; k += PF_TILE_STEPS, u += PF_TILE_STEPS * vectors * PF_VL) {
                PF_UNROLL for (int s = 0; s < PF_TILE_STEPS; s++) {
                    fetch(more, t, &at);
                    pf_block_step(rows, vectors, true, a, k + s, u + s * vectors * PF_VL, acc);
                }
            }
            for (; k < 0; k++, u += vectors * PF_VL) {
                fetch(more, t, &at);
                pf_block_step(rows, vectors, true, a, k, u, acc);
            }
        }
        PF_UNROLL for (int r = 0; r < rows; r++) {
            PF_UNROLL for (int j = 0; j < vectors; j++) pf_store(y + (r * vectors + j) * PF_VL, acc[r][j]);
        }
    }
    return at;
}

#define RUN(vectors, rows)                                                                                   \
    static fetches products_##rows##x##vectors(const pf_wino_products *t, int64_t first, int64_t count,      \
                                               fetches at) {                                                 \
        if (t->rest_step > 0) return products(rows, vectors, 1, t, first, count, at);                        \
        return products(rows, vectors, 0, t, first, count, at);                                              \
    }
#define ENTRY(vectors, rows) products_##rows##x##vectors,

PF_TILE_SHAPES(RUN, PF_NOTHING, PF_NOTHING)

static fetches (*const RUNS[PF_TILE_VECTORS][PF_TILE_ROWS])(const pf_wino_products *, int64_t, int64_t,
                                                            fetches) = {
    PF_TILE_SHAPES(ENTRY, PF_OPEN, PF_CLOSE)};

/* The first `higher` blocks have a row more than the others. */
void PF_NAME(wino_products)(const pf_wino_products *t, int64_t rows, int64_t blocks, int vectors) {
    const int64_t low = rows / blocks, higher = rows % blocks;
    fetches at = {t->ahead, t->ahead + blocks * t->pairs * t->ic * t->ahead_step};
    if (higher > 0) at = RUNS[vectors - 1][low](t, 0, higher, at);
    RUNS[vectors - 1][low - 1](t, higher * (low + 1), blocks - higher, at);
}
