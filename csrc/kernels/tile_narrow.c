/* Tiles of few columns: a vector holds products of neighbouring channels of one row and one column, and its
 * lanes are summed at the end. Takes the same description as the register tile, but B is [column][tap][k]:
 * `bstep` is the distance of columns, `btap` that of taps. Used by convolutions with few output channels. */
#include "kernels/tile.h"
#include "kernels/transpose.h"
#include "kernels/tile_shapes.h"

enum { MOST = PF_NARROW_COLUMNS };

PF_INLINE pf_vf load_lanes(const float *p, const int whole, int64_t count) {
    return whole ? pf_load(p) : pf_loadn(p, count);
}

/* acc[r][n] += the products of one vector of channels; `count` of its lanes are channels. The shorter one of
 * rows and columns is held in registers while the other passes. */
PF_INLINE void step(const int rows, const int columns, pf_vf (*acc)[MOST], const float *const *a,
                    const float *b, int64_t bstep, int64_t k, const int whole, int64_t count) {
    pf_vf held[MOST];
    if (rows < columns) {
        PF_UNROLL for (int r = 0; r < rows; r++) held[r] = load_lanes(a[r] + k, whole, count);
        PF_UNROLL for (int n = 0; n < columns; n++) {
            const pf_vf w = load_lanes(b + n * bstep + k, whole, count);
            PF_UNROLL for (int r = 0; r < rows; r++) acc[r][n] = pf_fma(held[r], w, acc[r][n]);
        }
    } else {
        PF_UNROLL for (int n = 0; n < columns; n++) held[n] = load_lanes(b + n * bstep + k, whole, count);
        PF_UNROLL for (int r = 0; r < rows; r++) {
            const pf_vf x = load_lanes(a[r] + k, whole, count);
            PF_UNROLL for (int n = 0; n < columns; n++) acc[r][n] = pf_fma(x, held[n], acc[r][n]);
        }
    }
}

/* Accumulators start with what is to be added in their first lane. */
PF_INLINE void start(const int rows, const int columns, const pf_tile *t, pf_vf (*acc)[MOST]) {
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int n = 0; n < columns; n++) {
            const float *add = t->first ? t->bias : t->y[r];
            acc[r][n] = add ? pf_loadn(add + t->column + n, 1) : pf_zero();
            if (t->first && t->z) acc[r][n] += pf_loadn(t->z[r] + t->column + n, 1);
        }
    }
}

/* Sums over lanes come from transposing PF_VL accumulators at a time. */
PF_INLINE void finish(const int rows, const int columns, const pf_tile *t, pf_vf (*acc)[MOST]) {
    enum { GROUPS = (PF_NARROW_ROWS * 3 + PF_VL - 1) / PF_VL };
    float sums[GROUPS * PF_VL] __attribute__((aligned(64)));
    PF_UNROLL for (int first = 0; first < rows * columns; first += PF_VL) {
        pf_vf v[PF_VL], sum = pf_zero();
        PF_UNROLL for (int i = 0; i < PF_VL; i++) {
            const int j = first + i;
            v[i] = j < rows * columns ? acc[j / columns][j % columns] : pf_zero();
        }
        pf_transpose_tile(v);
        PF_UNROLL for (int i = 0; i < PF_VL; i++) sum += v[i];
        pf_store(sums + first, t->last ? pf_act_vector(&t->act, sum) : sum);
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        float *y = t->y[r] + t->column;
        PF_UNROLL for (int n = 0; n < columns; n++) {
            const float late = t->last && t->late ? t->late[r][t->column + n] : 0.0f;
            y[n] = sums[r * columns + n] + late;
        }
    }
}

PF_INLINE void narrow(const int rows, const int columns, const pf_tile *t) {
    pf_vf acc[PF_TILE_ROWS][MOST];
    start(rows, columns, t, acc);
    const int64_t depth = t->k, whole = depth / PF_VL * PF_VL;
    const pf_tap *tap = t->taps;
    for (int64_t i = 0; i < t->ntaps; i++, tap++) {
        const float *b = t->b + tap->number * t->btap, *a[PF_TILE_ROWS];
        PF_UNROLL for (int r = 0; r < rows; r++) a[r] = tap->row[r];
        for (int64_t k = 0; k < whole; k += PF_VL) step(rows, columns, acc, a, b, t->bstep, k, 1, PF_VL);
        if (whole < depth) step(rows, columns, acc, a, b, t->bstep, whole, 0, depth - whole);
    }
    finish(rows, columns, t, acc);
}

#define TILE(columns, rows)                                                                                  \
    static void narrow_##rows##x##columns(const pf_tile *t) { narrow(rows, columns, t); }
#define ENTRY(columns, rows) narrow_##rows##x##columns,

#define ROWS_3(X, n) X(n, 1) X(n, 2) X(n, 3)
#define ROWS_4(X, n) ROWS_3(X, n) X(n, 4)
#define ROWS_5(X, n) ROWS_4(X, n) X(n, 5)
#define ROWS_6(X, n) ROWS_5(X, n) X(n, 6)
#define ROWS_8(X, n) ROWS_6(X, n) X(n, 7) X(n, 8)

/* Heights as in pf_narrow_rows. */
#if PF_REGISTERS == 32
#    define SHAPES(X, BEGIN, END)                                                                            \
        BEGIN ROWS_8(X, 1) END BEGIN ROWS_8(X, 2) END BEGIN ROWS_6(X, 3) END BEGIN ROWS_5(X, 4)              \
            END BEGIN ROWS_4(X, 5) END BEGIN ROWS_4(X, 6) END BEGIN ROWS_3(X, 7) END BEGIN ROWS_3(X, 8) END
#else
#    define SHAPES(X, BEGIN, END)                                                                            \
        BEGIN ROWS_8(X, 1) END BEGIN ROWS_5(X, 2) END BEGIN ROWS_3(X, 3) END BEGIN ROWS_3(X, 4) END
#endif
SHAPES(TILE, PF_NOTHING, PF_NOTHING)

const pf_narrow_fn PF_NAME(narrow_tiles)[PF_NARROW_COLUMNS][PF_NARROW_ROWS] = {
    SHAPES(ENTRY, PF_OPEN, PF_CLOSE)};
