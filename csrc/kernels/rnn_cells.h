/* Cells of LSTM, GRU and plain recurrent layers for one vector of hidden units and some rows of the batch.
 * For rnn.c; knows neither steps nor directions. */
#ifndef PF_KERNELS_RNN_CELLS_H
#define PF_KERNELS_RNN_CELLS_H

#include <stdbool.h>

#include "kernels/tile.h"
#include "kernels/vmath.h"

/* One vector of units in some rows: what the cell of the first row reads and writes, and how far the next row
 * is. States that are zero are NULL. */
typedef struct cells {
    const float *sums, *gates, *bias, *h, *c0; /* sums: h W_hh^T */
    float *c, *out;
    int64_t sums_step, gates_step, h_step, c_step, out_step;
    int64_t units, n; /* from gate to gate of `gates`; lanes in use */
} cells;

/* 1 + exp(-x), the inverse of sigmoid; 3 units in the last place. */
PF_INLINE pf_vf inverse_sigmoid(pf_vf x) {
    return pf_one_plus_exp_bounded(pf_clip(x, pf_set(-104.0f), pf_set(104.0f)));
}

/* t = exp(2 x) - 1, where t / (t + 2) is tanh x to 3 units in the last place. */
PF_INLINE pf_vf tanh_numerator(pf_vf x) {
    pf_vf n;
    const pf_vf r = pf_reduce_ln2(pf_clip(x + x, pf_set(-20.0f), pf_set(20.0f)), &n);
    const pf_vf p = pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXPM1_P), r), scale = pf_exponent(pf_integer(n));
    return pf_fma(scale, p, scale - 1.0f);
}

/* The sum that makes a gate in row r. */
PF_INLINE pf_vf gate_sum(const cells *x, int r, int gate) {
    return pf_load(x->sums + r * x->sums_step + gate * PF_VL) +
           pf_load_upto(x->gates + r * x->gates_step + gate * x->units, x->n);
}

/* An LSTM's cell in two parts, since its two chains of operations are long: many rows of one part overlap.
 * Products of sigmoids and tanh are divided once. o: a row of a vector each, from the first part to the
 * second. */
PF_INLINE void lstm_state(const cells *x, int r, float *o) {
    const pf_vf i = inverse_sigmoid(gate_sum(x, r, 0)), f = inverse_sigmoid(gate_sum(x, r, 1));
    const pf_vf z = tanh_numerator(gate_sum(x, r, 2));
    pf_vf state = z / (i * (z + 2.0f));
    pf_store(o + r * PF_VL, inverse_sigmoid(gate_sum(x, r, 3)));
    if (x->c0) state += pf_load_upto(x->c0 + r * x->c_step, x->n) / f;
    pf_store_upto(x->c + r * x->c_step, state, x->n);
}

PF_INLINE void lstm_output(const cells *x, int r, const float *o) {
    const pf_vf z = tanh_numerator(pf_load_upto(x->c + r * x->c_step, x->n));
    pf_store_upto(x->out + r * x->out_step, z / (pf_load(o + r * PF_VL) * (z + 2.0f)), x->n);
}

PF_INLINE void lstm_cells(const cells *x, int rows) {
    float o[PF_TILE_ROWS * PF_VL] __attribute__((aligned(64)));
    for (int r = 0; r < rows; r++) lstm_state(x, r, o);
    for (int r = 0; r < rows; r++) lstm_output(x, r, o);
}

PF_INLINE void gru_cells(const cells *x, int rows) {
    const pf_vf bias = x->bias ? pf_load_upto(x->bias, x->n) : pf_zero();
    for (int r = 0; r < rows; r++) {
        const float *g = x->gates + r * x->gates_step;
        const pf_vf inner = pf_load(x->sums + r * x->sums_step + 2 * PF_VL) + bias;
        const pf_vf reset = inverse_sigmoid(gate_sum(x, r, 0)), z = inverse_sigmoid(gate_sum(x, r, 1));
        const pf_vf t = tanh_numerator(inner / reset + pf_load_upto(g + 2 * x->units, x->n));
        const pf_vf fresh = t / (t + 2.0f);
        const pf_vf h = x->h ? pf_load_upto(x->h + r * x->h_step, x->n) : pf_zero();
        pf_store_upto(x->out + r * x->out_step, (h - fresh) / z + fresh, x->n);
    }
}

PF_INLINE void plain_cells(const cells *x, int rows, bool relu) {
    for (int r = 0; r < rows; r++) {
        const pf_vf sum = gate_sum(x, r, 0);
        pf_store_upto(x->out + r * x->out_step, relu ? pf_vrelu(sum) : pf_vtanh(sum), x->n);
    }
}

#endif
