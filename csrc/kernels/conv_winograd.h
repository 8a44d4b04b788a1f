/* The Winograd transforms F(m x m, r x r) on vectors of channels, for m x r = 2 x 3, 4 x 3 and 2 x 5 (6 x 3:
 * conv_winograd_six.c). A tile
 * of side x side inputs d, side = m + r - 1, gives V = B'dB, products with the transformed weights U = GgG'
 * give M, and A'MA are m x m outputs. Points of interpolation: 0, 1, -1, infinity for side 4; 0, +-sqrt(1/2),
 * +-sqrt(2), infinity for side 6, which keep rounding errors near those of the direct sum. Both transforms go
 * in halves, so that intermediate values stay in registers. Used by conv_winograd.c and the packing of its
 * weights. */
#ifndef PF_KERNELS_CONV_WINOGRAD_H
#define PF_KERNELS_CONV_WINOGRAD_H

#include "kernels/kernel.h"
#include "kernels/args.h"
#include "kernels/pairs.h"
#include "kernels/tile.h"

/* Like PF_UNROLL, but the long sides of tiles with stride 2 stay loops. */
#define PF_WINO_UNROLL _Pragma("GCC unroll 8")

#define PF_WINO_A 0.70710678118654752440
#define PF_WINO_B 1.41421356237309504880

/* Largest side of the transforms here, and of all. */
enum { PF_WINO_SIDE = 6, PF_WINO_LARGEST = 8 };

/* Outputs and inputs on the side of a tile. */
typedef struct pf_wino_form {
    int m, side;
    int phases; /* stride 2: `side` is that of the transformed weights */
    int pairs;  /* products in pairs */
} pf_wino_form;

/* Variant: outputs on the side of a tile, plus PF_WINO_PHASES with stride 2, or PF_WINO_PAIRS with products
 * in pairs of windows of 3x3. Anything else stands for stride 1 and the most outputs of these transforms. */
static inline pf_wino_form pf_wino_form_of(int64_t variant, int64_t kernel) {
    if (variant >= PF_WINO_PAIRS) {
        const int m = variant == PF_WINO_PAIRS + 2 ? 2 : 4;
        return (pf_wino_form){m, m + 2, 0, 1};
    }
    const int phases = variant >= PF_WINO_PHASES;
    if (variant == 6 && kernel == 3) return (pf_wino_form){6, PF_WINO_LARGEST, 0, 0};
    const int m = (phases ? variant - PF_WINO_PHASES : variant) == 2 || kernel == 5 ? 2 : 4;
    return (pf_wino_form){m, m + (int)kernel - 1, phases, 0};
}

/* Half of one dimension of the input transform: elements [half * side / 2, ...) of B'd. The first half does
 * not read the last element of d, the second one not the first. */
PF_INLINE void pf_wino_input_half(const int side, const int half, const pf_vf *d, pf_vf *v) {
    if (side == 4) {
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

/* Half of the rows of V for one tile and one vector of channels: element (i, j) goes to v + (i * side + j) *
 * step. */
PF_INLINE void pf_wino_input_rows(const int side, const int half, const float *d, int64_t row, int64_t pixel,
                                  float *v, int64_t step) {
    const int rows = side / 2;
    pf_vf t[PF_WINO_SIDE / 2][PF_WINO_SIDE], in[PF_WINO_SIDE], out[PF_WINO_SIDE];
    PF_FORGET(row);
    PF_FORGET(pixel);
    PF_WINO_UNROLL for (int j = 0; j < side; j++) {
        const float *x = d + j * pixel;
        PF_WINO_UNROLL for (int i = 0; i < side; i++) {
            if (i != (half == 0 ? side - 1 : 0)) in[i] = pf_load(x + i * row);
        }
        pf_wino_input_half(side, half, in, out);
        PF_WINO_UNROLL for (int i = 0; i < rows; i++) t[i][j] = out[i];
    }
    PF_FORGET(step);
    v += half * rows * side * step;
    PF_WINO_UNROLL for (int i = 0; i < rows; i++, v += side * step) {
        pf_wino_input_half(side, 0, t[i], out);
        pf_wino_input_half(side, 1, t[i], out + rows);
        PF_WINO_UNROLL for (int j = 0; j < side; j++) pf_store(v + j * step, out[j]);
    }
}

/* The same for all rows. Half of a tile of 6x6 does not fit sixteen registers: there, all of it goes through
 * memory once. */
PF_INLINE void pf_wino_input(const int side, const float *d, int64_t row, int64_t pixel, float *v,
                             int64_t step) {
    if (PF_REGISTERS >= 32 || side == 4) {
        pf_wino_input_rows(side, 0, d, row, pixel, v, step);
        pf_wino_input_rows(side, 1, d, row, pixel, v, step);
        return;
    }
    float t[PF_WINO_SIDE * PF_WINO_SIDE * PF_VL] __attribute__((aligned(64)));
    pf_vf in[PF_WINO_SIDE], out[PF_WINO_SIDE];
    PF_FORGET(row);
    PF_WINO_UNROLL for (int j = 0; j < side; j++, d += pixel) {
        PF_WINO_UNROLL for (int i = 0; i < side; i++) in[i] = pf_load(d + i * row);
        pf_wino_input_half(side, 0, in, out);
        pf_wino_input_half(side, 1, in, out + side / 2);
        PF_WINO_UNROLL for (int i = 0; i < side; i++) pf_store(t + (i * side + j) * PF_VL, out[i]);
    }
    PF_FORGET(step);
    PF_WINO_UNROLL for (int i = 0; i < side; i++, v += side * step) {
        PF_WINO_UNROLL for (int j = 0; j < side; j++) in[j] = pf_load(t + (i * side + j) * PF_VL);
        pf_wino_input_half(side, 0, in, out);
        pf_wino_input_half(side, 1, in, out + side / 2);
        PF_WINO_UNROLL for (int j = 0; j < side; j++) pf_store(v + j * step, out[j]);
    }
}

/* Half of one dimension of the output transform: elements parity, parity + 2 of A'x, m / 2 of them. The even
 * half does not read the last element of x, the odd one not the first. */
PF_INLINE void pf_wino_output_half(const int m, const int side, const int parity, const pf_vf *x, pf_vf *y) {
    const pf_vf a = parity == 0 ? x[1] + x[2] : x[1] - x[2];
    if (side == 4) {
        y[0] = parity == 0 ? x[0] + a : a + x[3];
        return;
    }
    const pf_vf b = parity == 0 ? x[3] + x[4] : x[3] - x[4];
    if (parity == 0) {
        y[0] = x[0] + (a + b);
        if (m == 4) y[1] = pf_fma(b, pf_set(2.0f), a * pf_set(0.5f));
        return;
    }
    y[0] = pf_fma(b, pf_set((float)PF_WINO_B), a * pf_set((float)PF_WINO_A));
    if (m == 2) y[0] += x[5];
    if (m == 4)
        y[1] = pf_fma(b, pf_set((float)(2.0 * PF_WINO_B)), pf_fma(a, pf_set((float)(0.5 * PF_WINO_A)), x[5]));
}

/* Output rows parity, parity + 2 of one tile from M, whose element (i, j) lies at x + (i * side + j) * step.
 */
PF_INLINE void pf_wino_output_rows(const int m, const int side, const int parity, const float *x,
                                   int64_t step, pf_vf (*y)[4]) {
    pf_vf t[2][PF_WINO_SIDE], in[PF_WINO_SIDE], out[2];
    int64_t row = side * step;
    PF_FORGET(step);
    PF_FORGET(row);
    PF_WINO_UNROLL for (int j = 0; j < side; j++) {
        const float *column = x + j * step;
        PF_WINO_UNROLL for (int i = 0; i < side; i++) {
            if (i != (parity == 0 ? side - 1 : 0)) in[i] = pf_load(column + i * row);
        }
        pf_wino_output_half(m, side, parity, in, out);
        PF_WINO_UNROLL for (int i = 0; i < m / 2; i++) t[i][j] = out[i];
    }
    PF_WINO_UNROLL for (int i = 0; i < m / 2; i++) {
        PF_WINO_UNROLL for (int q = 0; q < 2; q++) {
            pf_wino_output_half(m, side, q, t[i], out);
            PF_WINO_UNROLL for (int k = 0; k < m / 2; k++) y[i][q + 2 * k] = out[k];
        }
    }
}

/* Columns of the output transform of a tile of 6x6: rows of A'M, m by 6 vectors, go to t. */
PF_INLINE void pf_wino_output_columns(const int m, const float *x, int64_t step, float *t) {
    enum { SIDE = PF_WINO_SIDE };
    int64_t row = SIDE * step;
    PF_FORGET(row);
    PF_WINO_UNROLL for (int j = 0; j < SIDE; j++, x += step) {
        pf_vf in[SIDE], even[2], odd[2];
        PF_WINO_UNROLL for (int i = 0; i < SIDE; i++) in[i] = pf_load(x + i * row);
        pf_wino_output_half(m, SIDE, 0, in, even);
        pf_wino_output_half(m, SIDE, 1, in, odd);
        PF_WINO_UNROLL for (int i = 0; i < m / 2; i++) {
            pf_store(t + (2 * i * SIDE + j) * PF_VL, even[i]);
            pf_store(t + ((2 * i + 1) * SIDE + j) * PF_VL, odd[i]);
        }
    }
}

/* Its rows parity, parity + 2 of outputs. */
PF_INLINE void pf_wino_output_lines(const int m, const int parity, const float *t, pf_vf (*y)[4]) {
    PF_WINO_UNROLL for (int i = 0; i < m / 2; i++) {
        pf_vf in[PF_WINO_SIDE], out[2];
        PF_WINO_UNROLL for (int j = 0; j < PF_WINO_SIDE; j++) in[j] =
            pf_load(t + ((parity + 2 * i) * PF_WINO_SIDE + j) * PF_VL);
        PF_WINO_UNROLL for (int q = 0; q < 2; q++) {
            pf_wino_output_half(m, PF_WINO_SIDE, q, in, out);
            PF_WINO_UNROLL for (int k = 0; k < m / 2; k++) y[i][q + 2 * k] = out[k];
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
    int pairs; /* the weights have the signs of inputs in pairs */
} pf_wino_direct;

/* The m outputs of a row by windows of r x r pixels, if each of these holds a NaN or nothing of the image:
 * whole images may consist of NaN, and then nothing else matters. Returns whether it is so. */
int PF_NAME(wino_nan_row)(const pf_wino_direct *t, int r, int m, int row, pf_vf *y);

/* Output rows parity, parity + 2 as pf_wino_output_rows gives them, by the definition of the convolution. */
void PF_NAME(wino_direct)(const pf_wino_direct *t, int m, int side, int parity, pf_vf (*y)[4]);

/* The panels of so many columns: those of tiles with products in pairs are narrower. */
static inline pf_panel pf_wino_panel_at(int pairs, int64_t columns, int64_t i) {
    if (!pairs) return pf_panel_at(columns, i);
    const int64_t start = i * PF_PAIRS_VECTORS, rest = pf_ceil_div(columns, PF_VL) - start;
    return (pf_panel){start, (int)pf_min(PF_PAIRS_VECTORS, rest)};
}

static inline int64_t pf_wino_panel_count(int pairs, int64_t columns) {
    return pairs ? pf_ceil_div(columns, PF_PAIRS_WIDTH) : pf_panel_count(columns);
}

/* Packed weights with products in pairs, in floats: those of all groups as usual, but for the scales of
 * columns and the signs of inputs (pairs.h); then the scales, what sums start from, in the order of the
 * weights of one input channel, the largest sizes of taps while weights are packed, and for each group
 * whether its sums have no pairs, as large inputs with small weights would take the digits of the others. */
typedef struct pf_wino_extra {
    int64_t scales, starts, sizes, plain, floats;
} pf_wino_extra;

static inline pf_wino_extra pf_wino_extra_of(int64_t groups, int64_t points, int64_t ic, int64_t columns) {
    enum { TAPS = 9 };
    pf_wino_extra e = {.scales = groups * points * ic * columns};
    e.starts = e.scales + groups * columns;
    e.sizes = e.starts + groups * points * columns;
    e.plain = e.sizes + groups * ic * TAPS;
    e.floats = e.plain + groups;
    return e;
}

/* Products of tiles with one panel, for one point: the sum over pairs of a point of inputs and one of
 * weights. Rows of v lie `depth` floats apart. From `ahead` on memory is fetched into L2 meanwhile, a cache
 * line in each step over the channels and `ahead_step` bytes further in the next one. Where weights serve so
 * few tiles that this is not enough, a step fetches a second line, from where the first ones end and
 * `rest_step` bytes further in the next one: even fetches wait less for memory than many at first. */
typedef struct pf_wino_products {
    const float *v[4], *u[4];
    int pairs;
    float *products;
    int64_t depth, ic, ahead_step, rest_step;
    const char *ahead;
} pf_wino_products;

/* For as many blocks of rows, which differ by one in height. */
void PF_NAME(wino_products)(const pf_wino_products *t, int64_t rows, int64_t blocks, int vectors);

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
