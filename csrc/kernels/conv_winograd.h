/* The Winograd transforms F(m x m, 3 x 3), m = 2 or 4, on vectors of channels. A tile of (m + 2) x (m + 2)
 * inputs d gives V = B'dB, products with the transformed weights U = GgG' give M, and A'MA are m x m outputs.
 * Points of interpolation: 0, 1, -1, infinity for m = 2; 0, +-sqrt(1/2), +-sqrt(2), infinity for m = 4, which
 * keep rounding errors near those of the direct sum. Used by conv_winograd.c and the packing of its weights.
 */
#ifndef PF_KERNELS_CONV_WINOGRAD_H
#define PF_KERNELS_CONV_WINOGRAD_H

#include "kernels/kernel.h"
#include "kernels/simd.h"

#define PF_UNROLL _Pragma("GCC unroll 36")
#define PF_WINO_A 0.70710678118654752440
#define PF_WINO_B 1.41421356237309504880

enum { PF_WINO_SIDE = 6 }; /* largest m + 2 */

/* One dimension of the input transform. */
PF_INLINE void pf_wino_input_line(const int m, const pf_vf *d, pf_vf *v) {
    if (m == 2) {
        v[0] = d[0] - d[2];
        v[1] = d[1] + d[2];
        v[2] = d[2] - d[1];
        v[3] = d[3] - d[1];
        return;
    }
    const pf_vf a = pf_set((float)PF_WINO_A), b = pf_set((float)PF_WINO_B);
    const pf_vf even_a = pf_fma(d[2], pf_set(-2.0f), d[4]), odd_a = pf_fma(d[1], pf_set(-2.0f), d[3]);
    const pf_vf even_b = pf_fma(d[2], pf_set(-0.5f), d[4]), odd_b = pf_fma(d[1], pf_set(-0.5f), d[3]);
    v[0] = pf_fma(d[2], pf_set(-2.5f), d[0] + d[4]);
    v[1] = pf_fma(odd_a, a, even_a);
    v[2] = pf_fma(odd_a, -a, even_a);
    v[3] = pf_fma(odd_b, b, even_b);
    v[4] = pf_fma(odd_b, -b, even_b);
    v[5] = pf_fma(d[3], pf_set(-2.5f), d[1] + d[5]);
}

/* Rows of the tile that make row `first` (and first + 1 where rows come in pairs) of B'd, all columns. */
PF_INLINE void pf_wino_input_rows(const int m, const int first, const float *d, int64_t row, int64_t pixel,
                                  int64_t n, const int tail, pf_vf (*t)[PF_WINO_SIDE]) {
#define PF_D(i) (tail ? pf_loadn(d + (i) * row + j * pixel, n) : pf_load(d + (i) * row + j * pixel))
    PF_UNROLL for (int j = 0; j < m + 2; j++) {
        if (m == 2) {
            if (first == 0) t[0][j] = PF_D(0) - PF_D(2);
            if (first == 1) t[0][j] = PF_D(1) + PF_D(2), t[1][j] = PF_D(2) - PF_D(1);
            if (first == 3) t[0][j] = PF_D(3) - PF_D(1);
        } else if (first == 0 || first == 5) {
            const int i = first == 0 ? 0 : 1;
            t[0][j] = pf_fma(PF_D(i + 2), pf_set(-2.5f), PF_D(i) + PF_D(i + 4));
        } else {
            const pf_vf low = pf_set(first == 1 ? -2.0f : -0.5f);
            const pf_vf point = pf_set((float)(first == 1 ? PF_WINO_A : PF_WINO_B));
            const pf_vf even = pf_fma(PF_D(2), low, PF_D(4)), odd = pf_fma(PF_D(1), low, PF_D(3));
            t[0][j] = pf_fma(odd, point, even);
            t[1][j] = pf_fma(odd, -point, even);
        }
    }
#undef PF_D
}

/* Rows first to first + count of V. */
PF_INLINE void pf_wino_input_part(const int m, const int first, const int count, const float *d, int64_t row,
                                  int64_t pixel, int64_t n, const int tail, float *v, int64_t step) {
    pf_vf t[2][PF_WINO_SIDE], out[PF_WINO_SIDE];
    pf_wino_input_rows(m, first, d, row, pixel, n, tail, t);
    PF_UNROLL for (int i = 0; i < count; i++) {
        pf_wino_input_line(m, t[i], out);
        PF_UNROLL for (int j = 0; j < m + 2; j++) pf_store(v + ((first + i) * (m + 2) + j) * step, out[j]);
    }
}

/* V of one tile and one vector of channels: element (i, j) goes to v + (i * (m + 2) + j) * step. */
PF_INLINE void pf_wino_input(const int m, const float *d, int64_t row, int64_t pixel, int64_t n,
                             const int tail, float *v, int64_t step) {
    pf_wino_input_part(m, 0, 1, d, row, pixel, n, tail, v, step);
    pf_wino_input_part(m, 1, 2, d, row, pixel, n, tail, v, step);
    if (m == 4) pf_wino_input_part(m, 3, 2, d, row, pixel, n, tail, v, step);
    pf_wino_input_part(m, m + 1, 1, d, row, pixel, n, tail, v, step);
}

/* One dimension of the output transform: elements `parity` and parity + 2 of A'x (m = 4), or element parity
 * (m = 2). */
PF_INLINE void pf_wino_output_line(const int m, const int parity, const pf_vf *x, pf_vf *y) {
    if (m == 2) {
        y[0] = parity == 0 ? x[0] + (x[1] + x[2]) : (x[1] - x[2]) + x[3];
        return;
    }
    if (parity == 0) {
        const pf_vf a = x[1] + x[2], b = x[3] + x[4];
        y[0] = x[0] + (a + b);
        y[1] = pf_fma(b, pf_set(2.0f), a * pf_set(0.5f));
        return;
    }
    const pf_vf a = x[1] - x[2], b = x[3] - x[4];
    y[0] = pf_fma(b, pf_set((float)PF_WINO_B), a * pf_set((float)PF_WINO_A));
    y[1] = pf_fma(b, pf_set((float)(2.0 * PF_WINO_B)), pf_fma(a, pf_set((float)(0.5 * PF_WINO_A)), x[5]));
}

/* Output rows parity and parity + 2 (m = 4) or row parity (m = 2) of one tile from M, whose element (i, j)
 * lies at x + (i * (m + 2) + j) * step. */
PF_INLINE void pf_wino_output(const int m, const int parity, const float *x, int64_t step, pf_vf (*y)[4]) {
    pf_vf t[2][PF_WINO_SIDE];
    PF_UNROLL for (int j = 0; j < m + 2; j++) {
        pf_vf column[PF_WINO_SIDE], z[2];
        PF_UNROLL for (int i = 0; i < m + 2; i++) {
            /* Even rows of A' do not read the last element, odd ones not the first. */
            if (i != (parity == 0 ? m + 1 : 0)) column[i] = pf_load(x + (i * (m + 2) + j) * step);
        }
        pf_wino_output_line(m, parity, column, z);
        PF_UNROLL for (int i = 0; i < m / 2; i++) t[i][j] = z[i];
    }
    PF_UNROLL for (int i = 0; i < m / 2; i++) {
        PF_UNROLL for (int q = 0; q < 2; q++) {
            pf_vf z[2];
            pf_wino_output_line(m, q, t[i], z);
            PF_UNROLL for (int k = 0; k < m / 2; k++) y[i][q + 2 * k] = z[k];
        }
    }
}

#endif
