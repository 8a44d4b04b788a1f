/* Rows for products in pairs (pairs.h): brought to numbers whose root mean square is about 1. Used by
 * conv_pairs.c and rnn_pairs.h. */
#ifndef PF_KERNELS_PAIRS_ROWS_H
#define PF_KERNELS_PAIRS_ROWS_H

#include "kernels/pairs.h"
#include "kernels/sizes.h"

/* What the sums of a row start from, and what they are multiplied with; plain: it has no pairs. */
typedef struct pf_pairs_row {
    float start, scale;
    bool plain;
} pf_pairs_row;

/* How many rows, at most so many, a tile takes, given which are plain: no row may change how others are
 * summed up, as rows meet others where work is cut otherwise. */
static inline int64_t pf_pairs_alike(const unsigned char *plain, int64_t most) {
    int64_t n = 1;
    while (n < most && plain[n] == plain[0]) n++;
    return n;
}

/* What is summed up of a row while it is copied. */
typedef struct pf_pairs_sums {
    pf_vf squares, products; /* products: of pairs */
} pf_pairs_sums;

/* A vector of a row times the factors of its inputs (NULL: 1); begins: lanes where pairs do. */
PF_INLINE void pf_pairs_copy_vector(pf_vf v, const float *factors, pf_vi begins, float *to,
                                    pf_pairs_sums *s) {
    if (factors) v *= pf_load(factors);
    pf_store(to, v);
    s->squares = pf_fma(v, v, s->squares);
    s->products = pf_pairs_add(v, begins, s->products);
}

/* n numbers times their factors (NULL: 1), which may be in place. Returns the sum of their squares, and what
 * the sums of the row start from: less what its pairs have too much. */
static inline float pf_pairs_copy(const float *x, const float *factors, int64_t n, float *to, float *start) {
    const pf_vi lanes = pf_numbers(), begins = pf_pairs_begins();
    const int64_t paired = pf_pairs_depth(n);
    pf_pairs_sums even = {pf_zero(), pf_zero()}, odd = even;
    int64_t i = 0;
    for (; i + 2 * PF_VL <= paired; i += 2 * PF_VL) {
        pf_pairs_copy_vector(pf_load(x + i), factors ? factors + i : NULL, begins, to + i, &even);
        pf_pairs_copy_vector(pf_load(x + i + PF_VL), factors ? factors + i + PF_VL : NULL, begins,
                             to + i + PF_VL, &odd);
    }
    for (; i < n; i += PF_VL) {
        const pf_vi inside = lanes < pf_seti((int32_t)pf_max(0, pf_min(PF_VL, paired - i)));
        pf_pairs_copy_vector(pf_load_upto(x + i, n - i), factors ? factors + i : NULL, begins & inside,
                             to + i, &even);
    }
    *start = -pf_hsum(even.products + odd.products);
    return pf_hsum(even.squares + odd.squares);
}

/* n numbers, in whole vectors, times one. */
static inline void pf_pairs_scale_row(float *x, float by, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_VL) pf_store(x + i, pf_load(x + i) * pf_set(by));
}

/* A copied row whose squares leave the range of floats, into which it is brought. Returns the sum of its
 * squares then, or 0 if it has no size: because all are zeros, or not finite. */
static __attribute__((noinline)) float pf_pairs_prepare_odd(int64_t n, bool usual, float *to,
                                                            pf_pairs_row *row) {
    const float largest = pf_size_largest(to, n);
    row->start = 0.0f;
    row->plain = !(largest < INFINITY);
    row->scale = largest == 0.0f && !usual ? 0.0f : 1.0f;
    if (row->plain || largest == 0.0f) return 0.0f;
    row->scale = pf_power_near(largest);
    pf_pairs_scale_row(to, 1.0f / row->scale, n);
    return pf_pairs_copy(to, NULL, n, to, &row->start);
}

/* n numbers x times their factors into whole vectors `to`, which may be x; share: 1 / n; usual: no row has
 * pairs. */
static inline pf_pairs_row pf_pairs_prepare(const float *x, const float *factors, int64_t n, float share,
                                            bool usual, float *to) {
    pf_pairs_row row = {.scale = 1.0f};
    float squares = pf_pairs_copy(x, factors, n, to, &row.start);
    if (__builtin_expect(!(squares > PF_SQUARES_LEAST && squares < PF_SQUARES_MOST), 0)) {
        squares = pf_pairs_prepare_odd(n, usual, to, &row);
        if (squares == 0.0f) return row;
    }
    const float by = pf_inverse_root(squares * share);
    pf_pairs_scale_row(to, by, n);
    row.scale /= by, row.start *= by * by;
    return row;
}

#endif
