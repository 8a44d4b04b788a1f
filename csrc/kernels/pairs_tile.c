/* Register tiles of products in pairs (pairs.h), one instance for every width and height. */
#include "kernels/pairs.h"

enum { ROWS = PF_PAIRS_ROWS, COLS = PF_PAIRS_VECTORS };

PF_INLINE void start(const int rows, const int vectors, const pf_pairs_tile *t, pf_vf (*acc)[COLS]) {
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf row = t->starts && !t->plain ? pf_set(t->row_starts[r]) : pf_zero();
        PF_UNROLL for (int v = 0; v < vectors; v++) {
            acc[r][v] = pf_zero();
            if (!t->starts)
                acc[r][v] = pf_load(t->sums + (r * vectors + v) * PF_VL);
            else if (!t->plain)
                acc[r][v] = row + pf_load(t->starts + v * PF_VL);
        }
    }
}

/* One input as usual. */
PF_INLINE void add_one(const int rows, const int vectors, const float *const *a, int64_t k, const float *b,
                       pf_vf (*acc)[COLS]) {
    pf_vf bv[COLS];
    PF_UNROLL for (int v = 0; v < vectors; v++) bv[v] = pf_load(b + v * PF_VL);
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf x = pf_set(a[r][k]);
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_fma(x, bv[v], acc[r][v]);
    }
}

/* A pair of inputs. */
PF_INLINE void add_pair(const int rows, const int vectors, const float *const *a, int64_t k, const float *b,
                        pf_vf (*acc)[COLS]) {
    pf_vf first[COLS], second[COLS];
    PF_UNROLL for (int v = 0; v < vectors; v++) {
        first[v] = pf_load(b + v * PF_VL);
        second[v] = pf_load(b + (vectors + v) * PF_VL);
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf x = pf_set(a[r][k]), y = pf_set(a[r][k + 1]);
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] =
            pf_fma(x + second[v], y + first[v], acc[r][v]);
    }
}

PF_INLINE void tile(const int rows, const int vectors, const pf_pairs_tile *t) {
    pf_vf acc[ROWS][COLS];
    const float *a[ROWS], *b = t->b;
    const char *ahead = t->ahead;
    const int64_t end = t->k, paired = t->plain ? 0 : pf_pairs_depth(end), each = t->ahead_each;
    start(rows, vectors, t, acc);
    /* Counting up to zero saves the register of the bound. */
    PF_UNROLL for (int r = 0; r < rows; r++) a[r] = t->a + r * t->step + paired;
    for (int64_t k = -paired; k < 0; k += PF_PAIRS_STEP, b += PF_PAIRS_STEP * vectors * PF_VL) {
        __builtin_prefetch(ahead, 0, 2);
        __builtin_prefetch(ahead + PF_LINE_BYTES, 0, 2);
        ahead += each;
        add_pair(rows, vectors, a, k, b, acc);
        add_one(rows, vectors, a, k + 2, b + 2 * vectors * PF_VL, acc);
        add_one(rows, vectors, a, k + 3, b + 3 * vectors * PF_VL, acc);
    }
    for (int64_t k = 0; k < end - paired; k++, b += vectors * PF_VL) add_one(rows, vectors, a, k, b, acc);
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) pf_store(t->sums + (r * vectors + v) * PF_VL, acc[r][v]);
    }
}

#define TILE(vectors, rows)                                                                                  \
    static void tile_##rows##x##vectors(const pf_pairs_tile *t) { tile(rows, vectors, t); }
#define ENTRY(vectors, rows) tile_##rows##x##vectors,
#define ROWS_4(X, v)         X(v, 1) X(v, 2) X(v, 3) X(v, 4)
#if PF_REGISTERS == 32
#    define ALL_ROWS(X, v) ROWS_4(X, v) X(v, 5) X(v, 6) X(v, 7) X(v, 8)
#else
#    define ALL_ROWS(X, v) ROWS_4(X, v)
#endif

ALL_ROWS(TILE, 1)
ALL_ROWS(TILE, 2)

const pf_pairs_fn PF_NAME(pairs_tiles)[PF_PAIRS_VECTORS][PF_PAIRS_ROWS] = {{ALL_ROWS(ENTRY, 1)},
                                                                           {ALL_ROWS(ENTRY, 2)}};
