/* Short lines of float32 sorted together, one in each lane, by Batcher's merge exchange (D. Knuth, The Art of
 * Computer Programming 3, 5.2.2, algorithm M). A key has its place behind it, so that no two are equal and
 * equal elements stay in order. For sort.c and topk.c. */
#ifndef PF_KERNELS_SORT_LANES_H
#define PF_KERNELS_SORT_LANES_H

#include "kernels/order.h"
#include "kernels/transpose_tile.h"

enum {
    LANE_LINES = PF_VL / 2, /* of a vector of keys with places; two vectors are filled at a time */
    /* Elements of a line: longer ones are sorted sooner digit by digit. */
    LANE_LONGEST = PF_VL > 4 ? 2048 : 64,
    PLACE_BITS = 32,
};

typedef int64_t placed __attribute__((vector_size(LANE_LINES * 8), aligned(sizeof(entry)), may_alias));
typedef int32_t lane_half __attribute__((vector_size(LANE_LINES * 4), aligned(4), may_alias));

/* Whether lines may be sorted together, for which LANE_LINES entries of scratch hold an element of all. */
static inline bool lanes_fit(const pf_topk_args *a) {
    return a->variant == PF_DTYPE_F32 && a->n > 1 && a->n <= LANE_LONGEST && a->outer * a->inner >= PF_VL;
}

/* Whether PF_VL lines are, from this one on. */
static inline bool lanes_fit_from(const pf_topk_args *a, int64_t line, int64_t end) {
    return lanes_fit(a) && pf_lines_fit(a, line, end);
}

PF_INLINE void exchange(placed *a, placed *b) {
    const placed x = *a, y = *b;
#if defined(PF_AVX512)
    *a = (placed)_mm512_min_epi64((__m512i)x, (__m512i)y);
    *b = (placed)_mm512_max_epi64((__m512i)x, (__m512i)y);
#else
    const placed change = (x ^ y) & (placed)(y < x);
    *a = x ^ change, *b = y ^ change;
#endif
}

/* Entries i and i + d of all i below n - d with i & p = r. */
PF_INLINE void exchange_all(placed *e, int64_t n, int64_t p, int64_t r, int64_t d) {
    for (int64_t i = r; i < n - d; i += 2 * p) {
        const int64_t end = pf_min(i + p, n - d);
        for (int64_t j = i; j < end; j++) exchange(e + j, e + j + d);
    }
}

static void sort_lanes(placed *e, int64_t n) {
    int64_t top = 1;
    while (2 * top < n) top *= 2;
    for (int64_t p = top; p > 0; p /= 2) {
        exchange_all(e, n, p, 0, p);
        for (int64_t q = top; q > p; q /= 2) exchange_all(e, n, p, p, q - p);
    }
}

/* Element i of PF_VL lines, as two vectors of keys with places. */
PF_INLINE void place_keys(placed *low, placed *high, pf_vi keys, int64_t i) {
    int32_t lanes[PF_VL];
    pf_storei(lanes, keys);
    *low = __builtin_convertvector(*(const lane_half *)lanes, placed) << PLACE_BITS | i;
    *high = __builtin_convertvector(*(const lane_half *)(lanes + LANE_LINES), placed) << PLACE_BITS | i;
}

/* PF_VL lines, neighbours whose elements are `step` apart, or, if that is 1, n: sorted entries of the first
 * half of them, then of the others. */
static void sort_together(placed *e, const float *x, int64_t n, int64_t step, int32_t flip) {
    if (step > 1) {
        for (int64_t i = 0; i < n; i++)
            place_keys(e + i, e + n + i, pf_float_keys(pf_load(x + i * step), flip), i);
    } else {
        pf_vf v[PF_VL];
        for (int64_t i = 0; i < n; i += PF_VL) {
            pf_load_transposed(x + i, n, PF_VL, n - i, v);
            for (int64_t j = i; j < pf_min(i + PF_VL, n); j++)
                place_keys(e + j, e + n + j, pf_float_keys(v[j - i], flip), j);
        }
    }
    sort_lanes(e, n);
    sort_lanes(e + n, n);
}

/* The elements of half of these lines, which lie `apart`, and their places; either may be absent. */
static inline void put_together(const placed *e, const int32_t *x, int32_t *values, int64_t *indices,
                                int64_t n, int64_t step, int64_t apart) {
    for (int64_t i = 0; i < n; i++) {
        const placed places = e[i] & UINT32_MAX;
        for (int64_t line = 0; line < LANE_LINES; line++) {
            const int64_t to = i * step + line * apart;
            if (indices) indices[to] = places[line];
            if (values) values[to] = x[places[line] * step + line * apart];
        }
    }
}

#endif
