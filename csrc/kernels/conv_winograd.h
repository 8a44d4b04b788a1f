/* The Winograd transforms F(m x m, 3 x 3), m = 2 or 4, on vectors of channels. A tile of (m + 2) x (m + 2)
 * inputs d gives V = B'dB, products with the transformed weights U = GgG' give M, and A'MA are m x m outputs.
 * Points of interpolation: 0, 1, -1, infinity for m = 2; 0, +-sqrt(1/2), +-sqrt(2), infinity for m = 4, which
 * keep rounding errors near those of the direct sum. Both transforms go in halves, so that intermediate
 * values stay in registers. Used by conv_winograd.c and the packing of its weights. */
#ifndef PF_KERNELS_CONV_WINOGRAD_H
#define PF_KERNELS_CONV_WINOGRAD_H

#include "kernels/kernel.h"
#include "kernels/simd.h"

#define PF_UNROLL _Pragma("GCC unroll 8")
/* Makes the compiler forget what it knows of a stride: it would keep the addresses of all elements of a tile,
 * far more than there are registers, instead of adding up a few. */
#define PF_FORGET(x) __asm__("" : "+r"(x))

#define PF_WINO_A 0.70710678118654752440
#define PF_WINO_B 1.41421356237309504880

enum { PF_WINO_SIDE = 6 }; /* largest m + 2 */

/* Half of one dimension of the input transform: elements [half * (m + 2) / 2, …) of B'd. The first half does
 * not read the last element of d, the second one not the first. */
PF_INLINE void pf_wino_input_half(const int m, const int half, const pf_vf *d, pf_vf *v) {
    if (m == 2) {
        v[0] = half == 0 ? d[0] - d[2] : d[2] - d[1];
        v[1] = half == 0 ? d[1] + d[2] : d[3] - d[1];
        return;
    }
    const pf_vf low = pf_set(half == 0 ? -2.0f : -0.5f), both = pf_set(-2.5f);
    const pf_vf point = pf_set((float)(half == 0 ? PF_WINO_A : PF_WINO_B));
    const pf_vf even = pf_fma(d[2], low, d[4]), odd = pf_fma(d[1], low, d[3]);
    if (half == 0) v[0] = pf_fma(d[2], both, d[0] + d[4]);
    v[1 - half] = pf_fma(odd, point, even);
    v[2 - half] = pf_fma(odd, -point, even);
    if (half == 1) v[2] = pf_fma(d[3], both, d[1] + d[5]);
}

/* The part of an input tile that lies inside the image: rows [i0, i1), columns [j0, j1). */
typedef struct pf_wino_part {
    int i0, i1, j0, j1;
} pf_wino_part;

/* Half of the rows of V for one tile and one vector of n channels: element (i, j) goes to v + (i * (m + 2) +
 * j) * step. part: NULL when the whole tile is inside. */
PF_INLINE void pf_wino_input_rows(const int m, const int half, const pf_wino_part *part, const float *d,
                                  int64_t row, int64_t pixel, int64_t n, const int tail, float *v,
                                  int64_t step) {
    const int rows = (m + 2) / 2;
    pf_vf t[PF_WINO_SIDE / 2][PF_WINO_SIDE], in[PF_WINO_SIDE], out[PF_WINO_SIDE];
    PF_FORGET(row);
    PF_FORGET(pixel);
    PF_UNROLL for (int j = 0; j < m + 2; j++) {
        const float *x = d + j * pixel;
        PF_UNROLL for (int i = 0; i < m + 2; i++) {
            in[i] = pf_zero();
            if (i == (half == 0 ? m + 1 : 0)) continue;
            if (part && (j < part->j0 || j >= part->j1 || i < part->i0 || i >= part->i1)) continue;
            in[i] = tail ? pf_loadn(x + i * row, n) : pf_load(x + i * row);
        }
        pf_wino_input_half(m, half, in, out);
        PF_UNROLL for (int i = 0; i < rows; i++) t[i][j] = out[i];
    }
    PF_FORGET(step);
    v += half * rows * (m + 2) * step;
    PF_UNROLL for (int i = 0; i < rows; i++, v += (m + 2) * step) {
        pf_wino_input_half(m, 0, t[i], out);
        pf_wino_input_half(m, 1, t[i], out + rows);
        PF_UNROLL for (int j = 0; j < m + 2; j++) pf_store(v + j * step, out[j]);
    }
}

PF_INLINE void pf_wino_input(const int m, const pf_wino_part *part, const float *d, int64_t row,
                             int64_t pixel, int64_t n, const int tail, float *v, int64_t step) {
    pf_wino_input_rows(m, 0, part, d, row, pixel, n, tail, v, step);
    pf_wino_input_rows(m, 1, part, d, row, pixel, n, tail, v, step);
}

/* Half of one dimension of the output transform: elements parity, parity + 2 of A'x. The even half does not
 * read the last element of x, the odd one not the first. */
PF_INLINE void pf_wino_output_half(const int m, const int parity, const pf_vf *x, pf_vf *y) {
    const pf_vf a = parity == 0 ? x[1] + x[2] : x[1] - x[2];
    if (m == 2) {
        y[0] = parity == 0 ? x[0] + a : a + x[3];
        return;
    }
    const pf_vf b = parity == 0 ? x[3] + x[4] : x[3] - x[4];
    if (parity == 0) {
        y[0] = x[0] + (a + b);
        y[1] = pf_fma(b, pf_set(2.0f), a * pf_set(0.5f));
    } else {
        y[0] = pf_fma(b, pf_set((float)PF_WINO_B), a * pf_set((float)PF_WINO_A));
        y[1] = pf_fma(b, pf_set((float)(2.0 * PF_WINO_B)), pf_fma(a, pf_set((float)(0.5 * PF_WINO_A)), x[5]));
    }
}

/* Output rows parity, parity + 2 of one tile from M, whose element (i, j) lies at x + (i * (m + 2) + j) *
 * step. */
PF_INLINE void pf_wino_output_rows(const int m, const int parity, const float *x, int64_t step,
                                   pf_vf (*y)[4]) {
    pf_vf t[2][PF_WINO_SIDE], in[PF_WINO_SIDE], out[2];
    int64_t row = (m + 2) * step;
    PF_FORGET(step);
    PF_FORGET(row);
    PF_UNROLL for (int j = 0; j < m + 2; j++) {
        const float *column = x + j * step;
        PF_UNROLL for (int i = 0; i < m + 2; i++) {
            if (i != (parity == 0 ? m + 1 : 0)) in[i] = pf_load(column + i * row);
        }
        pf_wino_output_half(m, parity, in, out);
        PF_UNROLL for (int i = 0; i < m / 2; i++) t[i][j] = out[i];
    }
    PF_UNROLL for (int i = 0; i < m / 2; i++) {
        PF_UNROLL for (int q = 0; q < 2; q++) {
            pf_wino_output_half(m, q, t[i], out);
            PF_UNROLL for (int k = 0; k < m / 2; k++) y[i][q + 2 * k] = out[k];
        }
    }
}

/* One tile and one vector of output channels: inputs x of the tile with their strides, the part of them that
 * is inside of the image, transformed weights with their steps from point to point and from input channel to
 * input channel. */
typedef struct pf_wino_direct {
    const float *x, *u;
    int64_t row, pixel, u_step, u_row, ic;
    pf_wino_part part;
} pf_wino_direct;

/* Output rows parity, parity + 2 as pf_wino_output_rows gives them, by the definition of the convolution. */
void PF_NAME(wino_direct)(const pf_wino_direct *t, int m, int parity, pf_vf (*y)[4]);

/* Products of one block of tiles with one panel, for all points; rows of v and products follow each other
 * densely. */
typedef struct pf_wino_narrow {
    const float *v, *u;
    float *products;
    int64_t v_step, m_step, points, ic;
} pf_wino_narrow;

/* Returns 0, having done nothing, for all but narrow shapes. depth: floats from row to row of v. */
int PF_NAME(wino_narrow)(const pf_wino_narrow *t, int64_t rows, int vectors, int64_t depth);

#endif
