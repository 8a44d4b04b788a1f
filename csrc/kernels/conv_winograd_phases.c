/* Winograd's method for windows of 3x3 with stride 2, pad of any size. In one dimension the even inputs meet
 * the outer taps, which is F(m, 2), and the odd inputs the middle tap, which is a plain product: m + 1 and m
 * points for m outputs. In two dimensions all combinations of both occur. The points of F(m, 2) are 0, 1 and
 * infinity, for m = 4 also -1 and 2. The products at 0 and at infinity belong to one output alone, so those
 * of the odd inputs are summed with them; the others stay apart until the output transform. Used by
 * conv_winograd.c. */
#include "kernels/conv_winograd_plan.h"

enum {
    MOST = 4,               /* outputs on the side of a tile */
    INPUTS = 2 * MOST + 1,  /* the same for inputs, and their points */
    PRODUCTS = 2 * MOST - 1 /* points of the products */
};

/* One dimension of a product: points of the inputs (first the m + 1 even ones) and of the weights (last the
 * middle tap). Those of the middle tap come first: so what follows in memory are weights of the next sum. */
typedef struct terms {
    int count, v[2], u[2];
} terms;

static const terms TWO[] = {{2, {3, 0}, {3, 0}}, {1, {1}, {1}}, {2, {4, 2}, {3, 2}}};
static const terms FOUR[] = {{2, {5, 0}, {5, 0}}, {1, {1}, {1}}, {1, {2}, {2}}, {1, {3}, {3}},
                             {2, {8, 4}, {5, 4}}, {1, {6}, {5}}, {1, {7}, {5}}};

int PF_NAME(wino_phases_inputs)(int m) { return (2 * m + 1) * (2 * m + 1); }

int PF_NAME(wino_phases_products)(int m) { return m == 2 ? 9 : PRODUCTS * PRODUCTS; }

PF_INLINE pf_wino_sum sum_of(const int m, const terms *row, const terms *column) {
    pf_wino_sum sum = {.count = 0};
    for (int r = 0; r < row->count; r++)
        for (int c = 0; c < column->count; c++, sum.count++) {
            sum.v[sum.count] = row->v[r] * (2 * m + 1) + column->v[c];
            sum.u[sum.count] = row->u[r] * (m + 2) + column->u[c];
        }
    return sum;
}

pf_wino_sum PF_NAME(wino_phases_sum)(int m, int product) {
    if (m == 2) return sum_of(2, &TWO[product / 3], &TWO[product % 3]);
    return sum_of(4, &FOUR[product / PRODUCTS], &FOUR[product % PRODUCTS]);
}

/* F(m, 2) of the inputs d[0], d[step], ... */
PF_INLINE void even_inputs(const int m, const pf_vf *d, const int step, pf_vf *v) {
    const pf_vf d0 = d[0], d1 = d[step], d2 = d[2 * step];
    if (m == 2) {
        v[0] = d0 - d1, v[1] = d1, v[2] = d2 - d1;
        return;
    }
    const pf_vf d3 = d[3 * step], d4 = d[4 * step], s = d3 - d1;
    v[0] = pf_fma(s, pf_set(0.5f), d0 - d2);
    v[1] = s - (d1 + d2);
    v[2] = pf_fma(d1 - d2, pf_set(3.0f), s);
    v[3] = s;
    v[4] = pf_fma(s, pf_set(-2.0f), d4 - d2);
}

/* Row i of the inputs of a tile, transformed; part: NULL when the whole tile is inside. */
PF_INLINE void input_row(const int m, const pf_wino_part *part, int i, const float *x, int64_t pixel,
                         int64_t n, const int tail, float *v, int64_t step) {
    pf_vf d[INPUTS], even[MOST + 1];
    PF_LINE_UNROLL for (int j = 0; j < 2 * m + 1; j++) {
        d[j] = pf_zero();
        if (part && (i < part->i0 || i >= part->i1 || j < part->j0 || j >= part->j1)) continue;
        d[j] = tail ? pf_loadn(x + j * pixel, n) : pf_load(x + j * pixel);
    }
    even_inputs(m, d, 2, even);
    PF_LINE_UNROLL for (int j = 0; j < m + 1; j++) pf_store(v + j * step, even[j]);
    PF_LINE_UNROLL for (int j = 0; j < m; j++) pf_store(v + (m + 1 + j) * step, d[2 * j + 1]);
}

/* All points of a tile for one vector of channels. Even rows go through a buffer. */
PF_INLINE void input_vector(const int m, const pf_wino_part *part, const float *x, int64_t row, int64_t pixel,
                            int64_t n, const int tail, float *v, int64_t step) {
    const int side = 2 * m + 1;
    float even[(MOST + 1) * INPUTS * PF_VL] __attribute__((aligned(64)));
    for (int i = 0; i < side; i++, x += row) {
        if (i % 2)
            input_row(m, part, i, x, pixel, n, tail, v + (m + 1 + i / 2) * side * step, step);
        else
            input_row(m, part, i, x, pixel, n, tail, even + i / 2 * side * PF_VL, PF_VL);
    }
    for (int j = 0; j < side; j++, v += step) {
        pf_vf d[MOST + 1], out[MOST + 1];
        PF_WINO_UNROLL for (int i = 0; i < m + 1; i++) d[i] = pf_load(even + (i * side + j) * PF_VL);
        even_inputs(m, d, 1, out);
        PF_WINO_UNROLL for (int i = 0; i < m + 1; i++) pf_store(v + i * side * step, out[i]);
    }
}

PF_INLINE void input_tile(const int m, const pf_wino_plan *p, int64_t tile, float *v) {
    const int64_t row = p->a->xsh, pixel = p->a->xsw;
    pf_wino_part part;
    const float *x = pf_wino_tile_inputs(p, tile, &part);
    const int side = 2 * m + 1;
    const int inside = part.i0 == 0 && part.i1 == side && part.j0 == 0 && part.j1 == side;
    const int64_t whole = inside ? p->ic / PF_VL * PF_VL : 0;
    for (int64_t c = 0; c < whole; c += PF_VL) {
        pf_wino_fetch(x, c, side + (PF_WINO_AHEAD - 1) * 2 * m, row, pixel, side, 2 * m, 0);
        input_vector(m, NULL, x + c, row, pixel, PF_VL, 0, v + c, p->v_step);
    }
    for (int64_t c = whole; c < p->ic; c += PF_VL) {
        const int64_t n = p->ic - c;
        if (n >= PF_VL)
            input_vector(m, &part, x + c, row, pixel, PF_VL, 0, v + c, p->v_step);
        else
            input_vector(m, &part, x + c, row, pixel, n, 1, v + c, p->v_step);
    }
}

/* One dimension of the output transform. */
PF_INLINE void outputs(const int m, const pf_vf *x, pf_vf *y) {
    if (m == 2) {
        y[0] = x[0] + x[1], y[1] = x[1] + x[2];
        return;
    }
    const pf_vf sum = x[1] + x[2], difference = x[1] - x[2];
    y[0] = (x[0] + sum) + x[3];
    y[1] = pf_fma(x[3], pf_set(2.0f), difference) + x[5];
    y[2] = pf_fma(x[3], pf_set(4.0f), sum) + x[6];
    y[3] = pf_fma(x[3], pf_set(8.0f), difference) + x[4];
}

/* The outputs of a tile by the definition: the taps are the weights at 0, of the odd inputs and at infinity.
 */
static __attribute__((noinline)) void compute_directly(const pf_wino_plan *p, const pf_wino_target *t,
                                                       int64_t c, pf_vf (*y)[MOST]) {
    const int m = p->m, tap[] = {0, m + 1, m};
    pf_wino_part part;
    const float *x = pf_wino_tile_inputs(p, t->tile, &part);
    for (int i = 0; i < m * m; i++) y[i / m][i % m] = pf_zero();
    for (int k = 0; k < 9; k++) {
        const float *u = t->u + c + (tap[k / 3] * (m + 2) + tap[k % 3]) * p->ic * t->width;
        for (int i = 0; i < m * m; i++) {
            const int row = 2 * (i / m) + k / 3, column = 2 * (i % m) + k % 3;
            if (row < part.i0 || row >= part.i1 || column < part.j0 || column >= part.j1) continue;
            const float *d = x + row * p->a->xsh + column * p->a->xsw;
            for (int64_t j = 0; j < p->ic; j++)
                y[i / m][i % m] = pf_fma(pf_set(d[j]), pf_load(u + j * t->width), y[i / m][i % m]);
        }
    }
}

PF_INLINE void output_vector(const int m, const int whole, const pf_wino_plan *p, const pf_wino_target *t,
                             int64_t c) {
    const int side = m == 2 ? 3 : PRODUCTS;
    const float *x = t->products + c;
    const pf_vf bias = t->bias ? pf_load_upto(t->bias + c, t->n - c) : pf_zero();
    pf_vf rows[MOST][PRODUCTS], out[MOST][MOST], sum = pf_zero();
    int64_t step = p->m_step, row = side * step;
    PF_FORGET(step);
    PF_FORGET(row);
    PF_WINO_UNROLL for (int j = 0; j < side; j++, x += step) {
        pf_vf in[PRODUCTS], y[MOST];
        PF_WINO_UNROLL for (int i = 0; i < side; i++) in[i] = pf_load(x + i * row);
        outputs(m, in, y);
        PF_WINO_UNROLL for (int i = 0; i < m; i++) rows[i][j] = y[i];
    }
    PF_WINO_UNROLL for (int i = 0; i < m; i++) {
        outputs(m, rows[i], out[i]);
        PF_WINO_UNROLL for (int j = 0; j < m; j++) sum += out[i][j];
    }
    if (__builtin_expect(pf_any((pf_vi)(sum - sum != 0.0f)), 0)) compute_directly(p, t, c, out);
    PF_WINO_UNROLL for (int i = 0; i < m; i++) {
        PF_WINO_UNROLL for (int j = 0; j < m; j++) out[i][j] += bias;
        pf_wino_finish_row(m, whole, p, t, out[i], i, c);
    }
}

PF_INLINE void output_tile(const int m, const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o,
                           const float *products) {
    const pf_wino_target t = pf_wino_target_of(p, tile, o, products);
    const int64_t whole = t.rows == m && t.columns == m ? t.n / PF_VL * PF_VL : 0;
    for (int64_t c = 0; c < whole; c += PF_VL) {
        pf_wino_fetch(t.y, c, PF_WINO_AHEAD * m, p->a->ysh, p->a->ysw, m, m, 1);
        output_vector(m, 1, p, &t, c);
    }
    for (int64_t c = whole; c < t.n; c += PF_VL) output_vector(m, 0, p, &t, c);
    pf_wino_finish_late(p, &t);
}

void PF_NAME(wino_phases_input)(const pf_wino_plan *p, int64_t tile, float *v) {
    if (p->m == 2)
        input_tile(2, p, tile, v);
    else
        input_tile(4, p, tile, v);
}

void PF_NAME(wino_phases_output)(const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o,
                                 const float *products) {
    if (p->m == 2)
        output_tile(2, p, tile, o, products);
    else
        output_tile(4, p, tile, o, products);
}
