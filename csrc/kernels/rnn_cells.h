/* Cells of LSTM, GRU and plain recurrent layers for one vector of hidden units and some rows of the batch.
 * For rnn.c; knows neither steps nor directions. */
#ifndef PF_KERNELS_RNN_CELLS_H
#define PF_KERNELS_RNN_CELLS_H

#include <stdbool.h>

#include "kernels/rnn_gates.h"
#include "kernels/tile.h"

enum { LSTM = 4, GRU = 3, PLAIN = 1 }; /* gates */

/* Most rows, or neighbours, of a call. */
enum { CELL_ROWS = 12 };
_Static_assert((int)PF_TILE_ROWS <= (int)CELL_ROWS, "a tile's rows make a call");

/* One vector of units in some rows: what the cell of the first row reads and writes, and how far the next row
 * is. States that are zero are NULL. */
typedef struct cells {
    const float *sums, *gates, *bias, *h, *c0; /* sums: h W_hh^T */
    float *c, *out;
    int64_t sums_step, gates_step, h_step, c_step, out_step;
    int64_t sums_gate; /* from gate to gate of `sums` */
    int64_t bias_step; /* rows share it, neighbours do not */
    int64_t units, n;  /* from gate to gate of `gates`; lanes in use */
} cells;

/* The sum that makes a gate in row r. */
PF_INLINE pf_vf gate_sum(const cells *x, int64_t n, int r, int gate) {
    return pf_load(x->sums + r * x->sums_step + gate * x->sums_gate) +
           pf_load_upto(x->gates + r * x->gates_step + gate * x->units, n);
}

/* An LSTM's cell in two parts, since its two chains of operations are long: many rows of one part overlap. o:
 * a row of a vector each, from the first part to the second. */
PF_INLINE void lstm_state(const cells *x, int64_t n, int r, float *o) {
    const pf_vf i = inverse_sigmoid(gate_sum(x, n, r, 0)), f = gate_sum(x, n, r, 1);
    pf_vf state = tanh_over(gate_sum(x, n, r, 2), i);
    pf_store(o + r * PF_VL, inverse_sigmoid(gate_sum(x, n, r, 3)));
    if (x->c0) state += times_sigmoid(pf_load_upto(x->c0 + r * x->c_step, n), f);
    pf_store_upto(x->c + r * x->c_step, state, n);
}

PF_INLINE void lstm_output(const cells *x, int64_t n, int r, const float *o) {
    const pf_vf state = pf_load_upto(x->c + r * x->c_step, n);
    pf_store_upto(x->out + r * x->out_step, tanh_over(state, pf_load(o + r * PF_VL)), n);
}

PF_INLINE void lstm_rows(const cells *x, int64_t n, int rows) {
    float o[CELL_ROWS * PF_VL] __attribute__((aligned(64)));
    for (int r = 0; r < rows; r++) lstm_state(x, n, r, o);
    for (int r = 0; r < rows; r++) lstm_output(x, n, r, o);
}

PF_INLINE void gru_rows(const cells *x, int64_t n, int rows) {
    const pf_vf one = pf_set(1.0f);
    for (int r = 0; r < rows; r++) {
        const pf_vf bias = x->bias ? pf_load_upto(x->bias + r * x->bias_step, n) : pf_zero();
        const float *g = x->gates + r * x->gates_step;
        const pf_vf inner = pf_load(x->sums + r * x->sums_step + 2 * x->sums_gate) + bias;
        const pf_vf fresh =
            tanh_over(times_sigmoid(inner, gate_sum(x, n, r, 0)) + pf_load_upto(g + 2 * x->units, n), one);
        const pf_vf h = x->h ? pf_load_upto(x->h + r * x->h_step, n) : pf_zero();
        pf_store_upto(x->out + r * x->out_step, times_sigmoid(h - fresh, gate_sum(x, n, r, 1)) + fresh, n);
    }
}

PF_INLINE void plain_rows(const cells *x, int64_t n, int rows, bool relu) {
    for (int r = 0; r < rows; r++) {
        const pf_vf sum = gate_sum(x, n, r, 0);
        pf_store_upto(x->out + r * x->out_step, relu ? pf_vrelu(sum) : tanh_over(sum, pf_set(1.0f)), n);
    }
}

/* Whole vectors are a case of their own, which does not ask for the length of each. */
PF_INLINE void lstm_cells(const cells *x, int rows) {
    x->n == PF_VL ? lstm_rows(x, PF_VL, rows) : lstm_rows(x, x->n, rows);
}

PF_INLINE void gru_cells(const cells *x, int rows) {
    x->n == PF_VL ? gru_rows(x, PF_VL, rows) : gru_rows(x, x->n, rows);
}

PF_INLINE void plain_cells(const cells *x, int rows, bool relu) {
    x->n == PF_VL ? plain_rows(x, PF_VL, rows, relu) : plain_rows(x, x->n, rows, relu);
}

#endif
