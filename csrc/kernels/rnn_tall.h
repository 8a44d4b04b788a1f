/* Products of many rows of a batch with one block of the recurrent weights of an LSTM or GRU, all gates of a
 * vector of units: a step has too few sums for a call and tables of pointers for each tile. Rows that the
 * registers do not hold at once take turns on two vectors of an LSTM or three of a GRU, while their weights
 * are in L1. For rnn.c. */
#ifndef PF_KERNELS_RNN_TALL_H
#define PF_KERNELS_RNN_TALL_H

#include <stdbool.h>

#include "kernels/rnn_cells.h"
#include "kernels/tile.h"

enum {
    TALL_LEAST = 4,
    TALL_FROM = PF_PANEL_MAIN == 4 ? 7 : TALL_LEAST,
    TALL_MOST = CELL_ROWS,
    HALF = LSTM / 2, /* vectors */
    HALF_ROWS = PF_PANEL_MAIN == 4 ? TALL_MOST : 6,
    HALF_PANEL = PF_PANEL_MAIN == 4 ? LSTM : HALF,
    WIDE = 3,      /* vectors of units of a wide block */
    WIDE_ROWS = 4, /* rows that one gate of it takes at once */
};

/* The sums of some rows and vectors, whose weights lie in a panel of so many; s: vectors of sums, so far from
 * row to row and from vector to vector. */
PF_INLINE void multiply_rows(const int rows, const int vectors, const int panel, const int row_step,
                             const int vector_step, const float *const *h, int64_t k, const float *b,
                             float *s) {
    pf_vf acc[TALL_MOST][GRU];
    const float *a[TALL_MOST];
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_zero();
        a[r] = h[r] + k;
    }
    for (int64_t i = -k; i < 0; i++, b += panel * PF_VL) {
        pf_vf weights[GRU];
        PF_UNROLL for (int v = 0; v < vectors; v++) weights[v] = pf_load(b + v * PF_VL);
        PF_UNROLL for (int r = 0; r < rows; r++) {
            const pf_vf value = pf_set(a[r][i]);
            PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_fma(value, weights[v], acc[r][v]);
        }
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++)
            pf_store(s + (r * row_step + v * vector_step) * PF_VL, acc[r][v]);
    }
}

/* h: rows of states, k long; b: the block; s: rows of a vector for each gate. */
typedef void (*multiply_fn)(const float *const *h, int64_t k, const float *b, float *s);
#define TURN(first, rows, vectors, panel, gates)                                                             \
    multiply_rows(rows, vectors, panel, gates, 1, h + (first), k, b, s + (first) * (gates) * PF_VL)

/* Two vectors of an LSTM's block. */
PF_INLINE void multiply_half(const int rows, const float *const *h, int64_t k, const float *b, float *s) {
    const int upper = rows > HALF_ROWS ? (rows + 1) / 2 : rows;
    TURN(0, upper, HALF, HALF_PANEL, LSTM);
    if (upper < rows) TURN(upper, rows - upper, HALF, HALF_PANEL, LSTM);
}

PF_INLINE void multiply_lstm(const int rows, const float *const *h, int64_t k, const float *b, float *s) {
    multiply_half(rows, h, k, b, s);
    multiply_half(rows, h, k, b + HALF * PF_VL * ((int)HALF_PANEL == (int)HALF ? k : 1), s + HALF * PF_VL);
}

/* Up to four rows at once. */
PF_INLINE void multiply_gru(const int rows, const float *const *h, int64_t k, const float *b, float *s) {
    const int turns = (rows + 3) / 4, one = rows / turns, two = rows * 2 / turns;
    TURN(0, one, GRU, GRU, GRU);
    if (turns > 1) TURN(one, two - one, GRU, GRU, GRU);
    if (turns > 2) TURN(two, rows - two, GRU, GRU, GRU);
}

#define ROWS(X) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#define LSTM_OF(rows)                                                                                        \
    static void lstm_##rows(const float *const *h, int64_t k, const float *b, float *s) {                    \
        multiply_lstm(rows, h, k, b, s);                                                                     \
    }
#define GRU_OF(rows)                                                                                         \
    static void gru_##rows(const float *const *h, int64_t k, const float *b, float *s) {                     \
        multiply_gru(rows, h, k, b, s);                                                                      \
    }
#define LSTM_ENTRY(rows) [rows] = lstm_##rows,
#define GRU_ENTRY(rows)  [rows] = gru_##rows,
ROWS(LSTM_OF)
ROWS(GRU_OF)
static const multiply_fn lstm_tall[] = {ROWS(LSTM_ENTRY)}, gru_tall[] = {ROWS(GRU_ENTRY)};

#define WIDE_OF(rows, vectors)                                                                               \
    static void wide_##rows##x##vectors(const float *const *h, int64_t k, const float *b, float *s) {        \
        multiply_rows(rows, vectors, vectors, WIDE * LSTM, LSTM, h, k, b, s);                                \
    }
#define WIDE_ROW(X, vectors)      X(1, vectors) X(2, vectors) X(3, vectors) X(4, vectors)
#define WIDE_ENTRY(rows, vectors) [vectors][rows] = wide_##rows##x##vectors,
WIDE_ROW(WIDE_OF, 1)
WIDE_ROW(WIDE_OF, 2)
WIDE_ROW(WIDE_OF, 3)
static const multiply_fn wide[][WIDE_ROWS + 1] = {WIDE_ROW(WIDE_ENTRY, 1) WIDE_ROW(WIDE_ENTRY, 2)
                                                      WIDE_ROW(WIDE_ENTRY, 3)};

/* Up to TALL_MOST rows and a wide block of so many vectors, gate by gate; s: rows of WIDE vectors of every
 * gate. */
static void multiply_wide(int vectors, int rows, const float *const *h, int64_t k, const float *b, float *s) {
    for (int gate = 0; gate < LSTM; gate++, b += vectors * PF_VL * k) {
        for (int row = 0, n; row < rows; row += n) {
            n = (int)pf_min(WIDE_ROWS, rows - row);
            wide[vectors][n](h + row, k, b, s + (row * WIDE * LSTM + gate) * PF_VL);
        }
    }
}

/* With 32 registers the tiles of a GRU hold about as many rows themselves. */
static bool is_tall(int64_t gates, int64_t rows) {
    return rows >= TALL_FROM && (gates == LSTM || (gates == GRU && PF_REGISTERS == 16));
}

/* The function of so many rows, at least TALL_LEAST. */
static multiply_fn multiply_tall(int64_t gates, int rows) {
    return (gates == LSTM ? lstm_tall : gru_tall)[rows];
}

#undef TURN
#undef ROWS
#undef LSTM_OF
#undef GRU_OF
#undef LSTM_ENTRY
#undef GRU_ENTRY
#undef WIDE_OF
#undef WIDE_ROW
#undef WIDE_ENTRY

#endif
