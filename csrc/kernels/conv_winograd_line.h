/* Winograd's method in one dimension, F(4, r) for windows of r = 3, 5 or 7 in a line: r + 3 points, which are
 * 0, (r + 1) / 2 pairs of opposite numbers and infinity. The polynomials of a pair share their even and their
 * odd part. Used by conv_winograd.c and the packing of its weights. */
#ifndef PF_KERNELS_CONV_WINOGRAD_LINE_H
#define PF_KERNELS_CONV_WINOGRAD_LINE_H

#include "kernels/kernel.h"
#include "kernels/simd.h"

enum { PF_LINE_OUTPUTS = 4, PF_LINE_TAPS = 7, PF_LINE_PAIRS = 4, PF_LINE_POINTS = 10 };

typedef struct pf_wino_line {
    int taps, pairs, points;
    double point[PF_LINE_PAIRS];   /* the positive ones */
    double divisor[PF_LINE_PAIRS]; /* of the weights at both points of a pair */
    float even[PF_LINE_PAIRS][PF_LINE_PAIRS], odd[PF_LINE_PAIRS][PF_LINE_PAIRS]; /* coefficients of inputs */
    float outer[PF_LINE_PAIRS + 1];              /* the same for 0 and infinity */
    float power[PF_LINE_PAIRS][PF_LINE_OUTPUTS]; /* of the positive points */
} pf_wino_line;

/* Whether a window is a line that these transforms serve. */
static inline int pf_wino_is_line(int64_t kh, int64_t kw) {
    const int64_t r = kh > kw ? kh : kw;
    return (kh == 1) != (kw == 1) && (r == 3 || r == 5 || r == 7);
}

pf_wino_line PF_NAME(wino_line_make)(int64_t taps);

/* The transform of weights: from taps to points. */
void PF_NAME(wino_line_matrix)(const pf_wino_line *line, double (*matrix)[PF_LINE_TAPS]);

/* The four outputs of a tile, for a vector of channels, by the definition of the convolution: inputs [begin,
 * end) of the tile exist and lie `pixel` apart, transformed weights u_step from point to point and u_row from
 * input channel to input channel. */
typedef struct pf_wino_line_direct {
    const float *x, *u;
    int64_t pixel, u_step, u_row, ic;
    int begin, end;
} pf_wino_line_direct;

void PF_NAME(wino_line_direct)(const pf_wino_line *line, const pf_wino_line_direct *t, pf_vf *y);

#define PF_LINE_UNROLL _Pragma("GCC unroll 10")

/* Inputs d of a tile to all points, which lie `step` apart. */
PF_INLINE void pf_wino_line_input(const int pairs, const pf_wino_line *line, const pf_vf *d, float *v,
                                  int64_t step) {
    pf_vf zero = d[2 * pairs], last = d[2 * pairs + 1];
    PF_LINE_UNROLL for (int k = 0; k < pairs; k++) {
        const pf_vf c = pf_set(line->outer[k]);
        zero = pf_fma(d[2 * k], c, zero);
        last = pf_fma(d[2 * k + 1], c, last);
    }
    pf_store(v, zero);
    PF_LINE_UNROLL for (int i = 0; i < pairs; i++) {
        pf_vf even = d[2 * pairs], odd = d[1] * line->odd[i][0];
        PF_LINE_UNROLL for (int k = 0; k < pairs - 1; k++) even =
            pf_fma(d[2 * k + 2], pf_set(line->even[i][k]), even);
        PF_LINE_UNROLL for (int k = 1; k < pairs; k++) odd =
            pf_fma(d[2 * k + 1], pf_set(line->odd[i][k]), odd);
        v += step;
        pf_store(v, even + odd);
        v += step;
        pf_store(v, even - odd);
    }
    pf_store(v + step, last);
}

/* Outputs of a tile from its products at all points. */
PF_INLINE void pf_wino_line_output(const int pairs, const pf_wino_line *line, const float *x, int64_t step,
                                   pf_vf *y) {
    y[0] = pf_load(x);
    y[1] = y[2] = pf_zero();
    y[3] = pf_load(x + (2 * pairs + 1) * step);
    PF_LINE_UNROLL for (int i = 0; i < pairs; i++) {
        x += step;
        const pf_vf a = pf_load(x);
        x += step;
        const pf_vf b = pf_load(x), sum = a + b, difference = a - b;
        y[0] += sum;
        y[1] = pf_fma(difference, pf_set(line->power[i][1]), y[1]);
        y[2] = pf_fma(sum, pf_set(line->power[i][2]), y[2]);
        y[3] = pf_fma(difference, pf_set(line->power[i][3]), y[3]);
    }
}

#endif
