/* Products of states and recurrent weights in pairs (pairs.h), for rnn.c. A block is some vectors of units;
 * as the weights are packed in the order of the file, each gate of it is a panel of its own. */
#ifndef PF_KERNELS_RNN_PAIRS_H
#define PF_KERNELS_RNN_PAIRS_H

#include <stdbool.h>

#include "kernels/pairs_rows.h"
#include "kernels/rnn_columns.h"

enum { PAIRS_DEPTH = 64 /* least length of states */, PAIRS_ENOUGH = 5 /* rows of a tile */ };

/* Whether products of so many rows had better go in pairs. Low tiles wait for their weights. */
static bool pays_pairs(int64_t rows, int64_t units, int64_t k) {
    const int64_t tiles = pf_ceil_div(rows, PF_PAIRS_ROWS);
    return PF_REGISTERS == 32 && pf_has_adders() && rows > 0 && rows >= PAIRS_ENOUGH * tiles &&
           units % PF_PAIRS_WIDTH == 0 && k >= PAIRS_DEPTH;
}

/* The states before a step as a thread multiplies them. */
typedef struct paired {
    const float *w; /* packed weights */
    pf_pairs_weights l;
    int64_t step; /* floats from row to row */
    float *numbers, *starts, *scales;
    unsigned char *plain; /* rows without pairs */
} paired;

/* Floats of so many rows. */
static int64_t paired_floats(int64_t rows, int64_t k) { return rows * (pf_odd_lines(k) + 3); }

static paired make_paired(const columns *c, const float *w, int64_t rows, float *memory) {
    paired p = {.w = w, .l = pf_pairs_layout(1, c->gates * c->units, c->k), .step = pf_odd_lines(c->k)};
    p.numbers = memory, p.starts = memory + rows * p.step, p.scales = p.starts + rows;
    p.plain = (unsigned char *)(p.scales + rows);
    return p;
}

static bool is_usual(const paired *p) { return p->w[p->l.plain] != 0.0f; }

/* A row of states. */
static void prepare_state(const paired *p, int64_t row, const float *h) {
    const int64_t k = p->l.depth;
    const pf_pairs_row r =
        pf_pairs_prepare(h, p->w + p->l.factors, k, 1.0f / (float)k, is_usual(p), p->numbers + row * p->step);
    p->starts[row] = r.start, p->scales[row] = r.scale, p->plain[row] = r.plain;
}

/* Rows from `row` on by one block; s: rows of full blocks. */
static void multiply_paired(const paired *p, const columns *c, int64_t block, int64_t row, int rows,
                            float *s) {
    const pf_pairs_fn *by_rows = PF_NAME(pairs_tiles)()[PF_PAIRS_VECTORS - 1];
    int64_t at[PF_PAIRS_ROWS];
    for (int i = 0; i < rows; i++) at[i] = i * block_width(c);
    for (int64_t gate = 0; gate < c->gates; gate++) {
        const int64_t column = gate * c->units + block * PF_PAIRS_WIDTH;
        pf_pairs_end end = {.scales = p->w + p->l.scales + column, .n = PF_PAIRS_WIDTH};
        pf_pairs_tile t = {.step = p->step, .k = c->k, .starts = p->w + p->l.starts + column, .end = &end};
        t.b = p->w + column * c->k;
        t.ahead = (const char *)t.b;
        end.y = s + gate * PF_PAIRS_WIDTH;
        for (int64_t i = 0, n; i < rows; i += n) {
            const int64_t first = row + i;
            n = pf_pairs_alike(p->plain + first, rows - i);
            t.a = p->numbers + first * p->step;
            t.row_starts = p->starts + first, t.plain = is_usual(p) || p->plain[first];
            end.row_scales = p->scales + first, end.y_at = at + i;
            by_rows[n - 1](&t);
        }
    }
}

#endif
