/* Winograd's method for windows of 3x3 with stride 1 in tiles of 6x6 outputs: 64 products instead of 324.
 * Points of interpolation: 0, +-1, +-2, +-1/2 and infinity. Rounding errors are about five times those of
 * tiles of 4x4. Used by conv_winograd.c. */
#include "kernels/conv_winograd_plan.h"

enum { M = 6, SIDE = 8, AHEAD = 1 };

/* One dimension of the input transform. */
PF_INLINE void inputs(const pf_vf *d, pf_vf *v) {
    const pf_vf quarter = pf_set(0.25f), outer = pf_set(5.25f), middle = pf_set(-4.25f);
    const pf_vf even = pf_fma(d[4], middle, d[2] + d[6]), odd = pf_fma(d[3], middle, d[1] + d[5]);
    v[0] = pf_fma(d[4] - d[2], outer, d[0] - d[6]);
    v[7] = pf_fma(d[3] - d[5], outer, d[7] - d[1]);
    v[1] = even + odd, v[2] = even - odd;
    const pf_vf even_b = pf_fma(d[2], quarter, pf_fma(d[4], pf_set(-1.25f), d[6]));
    const pf_vf odd_b = pf_fma(d[5], pf_set(4.0f), pf_fma(d[3], pf_set(-5.0f), d[1]));
    v[3] = pf_fma(odd_b, pf_set(0.5f), even_b), v[4] = pf_fma(odd_b, pf_set(-0.5f), even_b);
    const pf_vf even_c = pf_fma(d[2], pf_set(4.0f), pf_fma(d[4], pf_set(-5.0f), d[6]));
    const pf_vf odd_c = pf_fma(d[5], quarter, pf_fma(d[3], pf_set(-1.25f), d[1]));
    v[5] = pf_fma(odd_c, pf_set(2.0f), even_c), v[6] = pf_fma(odd_c, pf_set(-2.0f), even_c);
}

/* V of one tile and one vector of channels. */
PF_INLINE void input_vector(const float *d, int64_t row, int64_t pixel, float *v, int64_t step) {
    float t[SIDE * SIDE * PF_VL] __attribute__((aligned(64)));
    pf_vf in[SIDE], out[SIDE];
    PF_FORGET(row);
    for (int j = 0; j < SIDE; j++, d += pixel) {
        PF_WINO_UNROLL for (int i = 0; i < SIDE; i++) in[i] = pf_load(d + i * row);
        inputs(in, out);
        PF_WINO_UNROLL for (int i = 0; i < SIDE; i++) pf_store(t + (i * SIDE + j) * PF_VL, out[i]);
    }
    PF_FORGET(step);
    for (int i = 0; i < SIDE; i++, v += SIDE * step) {
        PF_WINO_UNROLL for (int j = 0; j < SIDE; j++) in[j] = pf_load(t + (i * SIDE + j) * PF_VL);
        inputs(in, out);
        PF_WINO_UNROLL for (int j = 0; j < SIDE; j++) pf_store(v + j * step, out[j]);
    }
}

void PF_NAME(wino_six_input)(const pf_wino_plan *p, int64_t tile, float *v) {
    pf_wino_input_tile(SIDE, M, AHEAD, input_vector, p, tile, v);
}

/* One dimension of the output transform. */
PF_INLINE void outputs(const pf_vf *x, pf_vf *y) {
    const pf_vf a = x[1] + x[2], b = x[3] + x[4], c = x[5] + x[6];
    y[0] = (x[0] + a) + (b + c);
    y[2] = pf_fma(b, pf_set(4.0f), pf_fma(c, pf_set(0.25f), a));
    y[4] = pf_fma(b, pf_set(16.0f), pf_fma(c, pf_set(0.0625f), a));
    const pf_vf d = x[1] - x[2], e = x[3] - x[4], f = x[5] - x[6];
    y[1] = pf_fma(e, pf_set(2.0f), pf_fma(f, pf_set(0.5f), d));
    y[3] = pf_fma(e, pf_set(8.0f), pf_fma(f, pf_set(0.125f), d));
    y[5] = pf_fma(e, pf_set(32.0f), pf_fma(f, pf_set(0.03125f), d + x[7]));
}

/* Row `row` of the outputs of a tile by the definition: two taps are weights at 0 and infinity, the middle
 * one is the difference of those at 1 and -1. */
static __attribute__((noinline)) void compute_directly(const pf_wino_plan *p, const pf_wino_target *t,
                                                       int row, int64_t c, pf_vf *y) {
    static const struct {
        int first, second;
        float factor;
    } TAPS[] = {{0, 0, 1.0f}, {2, 1, 2.25f}, {7, 7, 1.0f}};
    pf_wino_direct d = {.row = p->a->xsh, .pixel = p->a->xsw, .ic = p->ic};
    const float *const x = d.x = pf_wino_tile_inputs(p, t->tile, &d.part);
    const pf_wino_part part = d.part;
    const int64_t step = p->ic * t->width;
    if (PF_NAME(wino_nan_row)(&d, 3, M, row, y)) return;
    for (int j = 0; j < M; j++) y[j] = pf_zero();
    for (int k = 0; k < 9; k++) {
        const int i = row + k / 3, a = k / 3, b = k % 3;
        if (i < part.i0 || i >= part.i1) continue;
        for (int64_t channel = 0; channel < p->ic; channel++) {
            const float *u = t->u + c + channel * t->width;
            pf_vf half[2];
            for (int h = 0; h < 2; h++) {
                const float *from = u + (h == 0 ? TAPS[a].first : TAPS[a].second) * SIDE * step;
                half[h] = pf_load(from + TAPS[b].first * step);
                if (b == 1) half[h] = (half[h] - pf_load(from + TAPS[b].second * step)) * TAPS[b].factor;
            }
            const pf_vf g = a == 1 ? (half[0] - half[1]) * TAPS[a].factor : half[0];
            for (int j = 0; j < M; j++) {
                if (j + b < part.j0 || j + b >= part.j1) continue;
                y[j] = pf_fma(pf_set(x[i * p->a->xsh + (j + b) * p->a->xsw + channel]), g, y[j]);
            }
        }
    }
}

PF_INLINE void output_vector(const int whole, const pf_wino_plan *p, const pf_wino_target *t, int64_t c) {
    const float *x = t->products + c;
    const pf_vf bias = t->bias ? pf_load_upto(t->bias + c, t->n - c) : pf_zero();
    float buffer[M * SIDE * PF_VL] __attribute__((aligned(64)));
    int64_t step = p->m_step, row = SIDE * step;
    PF_FORGET(row);
    pf_vf in[SIDE], out[M];
    for (int j = 0; j < SIDE; j++, x += step) {
        PF_WINO_UNROLL for (int i = 0; i < SIDE; i++) in[i] = pf_load(x + i * row);
        outputs(in, out);
        PF_WINO_UNROLL for (int i = 0; i < M; i++) pf_store(buffer + (i * SIDE + j) * PF_VL, out[i]);
    }
    for (int i = 0; i < M; i++) {
        PF_WINO_UNROLL for (int j = 0; j < SIDE; j++) in[j] = pf_load(buffer + (i * SIDE + j) * PF_VL);
        outputs(in, out);
        const pf_vf sum = out[0] + out[M - 1];
        if (__builtin_expect(pf_any((pf_vi)(sum - sum != 0.0f)), 0)) compute_directly(p, t, i, c, out);
        PF_WINO_UNROLL for (int j = 0; j < M; j++) out[j] += bias;
        pf_wino_finish_row(M, whole, p, t, out, i, c);
    }
}

void PF_NAME(wino_six_output)(const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o,
                              const float *products) {
    const pf_wino_target t = pf_wino_target_of(p, tile, o, products);
    const int64_t whole = t.rows == M && t.columns == M ? t.n / PF_VL * PF_VL : 0;
    for (int64_t c = 0; c < whole; c += PF_VL) {
        pf_wino_fetch(t.y, c, PF_WINO_AHEAD * M, p->a->ysh, p->a->ysw, M, M, 1);
        output_vector(1, p, &t, c);
    }
    for (int64_t c = whole; c < t.n; c += PF_VL) output_vector(0, p, &t, c);
    pf_wino_finish_late(p, &t);
}
