/* Instances of the register tile of 8-bit products (tile_int8.h): every width in vectors times every height
 * in rows. All loops over the sums unroll completely; they live in registers. */
#include "kernels/tile_int8.h"
#include "kernels/tile_shapes.h"

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

PF_TILE_SHAPES(TILE, PF_NOTHING, PF_NOTHING)

const pf_int8_tile_fn PF_NAME(int8_tiles)[PF_TILE_VECTORS][PF_TILE_ROWS] = {
    PF_TILE_SHAPES(ENTRY, PF_OPEN, PF_CLOSE)};
