/* Instances of the register tile of 8-bit products (tile_int8.h): every width in vectors times every height
 * in rows. All loops over the sums unroll completely; they live in registers. */
#include "kernels/tile_int8.h"

#define PF_UNROLL _Pragma("GCC unroll 16")
enum { COLS = PF_TILE_VECTORS, BYTES = 4, VECTOR = PF_VL * BYTES, TRIPLE = 3 };

PF_INLINE void tile(const int rows, const int vectors, const char *a, int64_t stride, const char *b,
                    int64_t steps, int32_t *sums) {
    pf_vi acc[PF_TILE_ROWS][COLS];
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_loadi(b + v * VECTOR);
    }
    b += vectors * VECTOR;
    /* A pointer for three rows: the addressing of x86 reaches the other two. */
    const char *row[(PF_TILE_ROWS + TRIPLE - 1) / TRIPLE];
    PF_UNROLL for (int r = 0; r < rows; r += TRIPLE) row[r / TRIPLE] = a + r * stride + steps * BYTES;
    for (int64_t k = -steps * BYTES; k < 0; k += BYTES, b += vectors * VECTOR) {
        pf_vi w[COLS];
        PF_UNROLL for (int v = 0; v < vectors; v++) w[v] = pf_loadi(b + v * VECTOR);
        PF_UNROLL for (int r = 0; r < rows; r++) {
            const pf_vi x = pf_seti(*(const pf_int_any *)(row[r / TRIPLE] + r % TRIPLE * stride + k));
            PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_int8_dot(acc[r][v], x, w[v]);
        }
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) pf_storei(sums + (r * vectors + v) * PF_VL, acc[r][v]);
    }
}

#define TILE(vectors, rows)                                                                                  \
    static void tile_##rows##x##vectors(const char *a, int64_t stride, const char *b, int64_t steps,         \
                                        int32_t *sums) {                                                     \
        tile(rows, vectors, a, stride, b, steps, sums);                                                      \
    }
#define ENTRY(vectors, rows) tile_##rows##x##vectors,

#define ROWS_4(X, v)  X(v, 1) X(v, 2) X(v, 3) X(v, 4)
#define ROWS_6(X, v)  ROWS_4(X, v) X(v, 5) X(v, 6)
#define ROWS_8(X, v)  ROWS_6(X, v) X(v, 7) X(v, 8)
#define ROWS_10(X, v) ROWS_8(X, v) X(v, 9) X(v, 10)
#define ROWS_12(X, v) ROWS_10(X, v) X(v, 11) X(v, 12)

/* Heights as in pf_tile_rows. */
#if defined(PF_AVX512) || defined(__aarch64__)
#    define SHAPES(X, BEGIN, END)                                                                            \
        BEGIN ROWS_10(X, 1) END BEGIN ROWS_12(X, 2) END BEGIN ROWS_8(X, 3) END BEGIN ROWS_6(X, 4) END
#else
#    define SHAPES(X, BEGIN, END) BEGIN ROWS_10(X, 1) END BEGIN ROWS_6(X, 2) END BEGIN ROWS_4(X, 3) END
#endif
#define NOTHING
#define OPEN {
#define CLOSE                                                                                                \
    }                                                                                                        \
    ,

SHAPES(TILE, NOTHING, NOTHING)

const pf_int8_tile_fn PF_NAME(int8_tiles)[PF_TILE_VECTORS][PF_TILE_ROWS] = {SHAPES(ENTRY, OPEN, CLOSE)};
