/* The few best of many lines of float32, a line in each lane. Lines with equal keys among their best, whose
 * order depends on the algorithm, are told apart and left to others. For topk.c. */
#ifndef PF_KERNELS_TOPK_LANES_H
#define PF_KERNELS_TOPK_LANES_H

#include "kernels/order.h"
#include "kernels/transpose_tile.h"

enum {
    LANE_MOST = 16, /* best ones of a line */
    OFTEN = 32,     /* for each of them, elements before such are rare */
};

/* Sorted, one more than are wanted: it may equal the last that is. */
typedef struct best {
    pf_vi key[LANE_MOST + 1], place[LANE_MOST + 1];
} best;

/* The numbers of keys; NaN for some that stand for several: zero and NaN. */
PF_INLINE pf_vf lane_values(pf_vi key, int32_t flip) {
    key ^= flip;
    const pf_vi sign = key >> 31, several = (key == 0) | (key == INT32_MAX);
    return (pf_vf)(((key ^ sign) - sign) | (sign & INT32_MIN) | several);
}

/* A key that comes before the last of the kept ones goes to its place among them. */
PF_INLINE void insert(best *b, int64_t kept, pf_vi key, int64_t index) {
    pf_vi place = pf_seti((int32_t)index);
    PF_UNROLL for (int64_t j = 0; j < kept; j++) {
        const pf_vi old = b->key[j], where = b->place[j], before = key < old;
        const pf_vi change = (key ^ old) & before;
        b->key[j] = old ^ change, key ^= change;
        b->place[j] = mixed(before, place, where), place = mixed(before, where, place);
    }
}

PF_INLINE void offer(best *b, int64_t kept, pf_vi key, int64_t index) {
    /* Among the first elements most lines find one to keep, which no branch foresees. */
    if (index >= OFTEN * kept && !pf_any(key < b->key[kept - 1])) return;
    insert(b, kept, key, index);
}

PF_INLINE void keep_best(best *b, const float *x, int64_t n, int64_t step, int64_t kept, int32_t flip) {
    best found; /* of few, in registers */
    for (int64_t j = 0; j < kept; j++) found.key[j] = pf_seti(INT32_MAX), found.place[j] = pf_seti(0);
    if (step > 1) {
        for (int64_t i = 0; i < n; i++) offer(&found, kept, pf_float_keys(pf_load(x + i * step), flip), i);
    } else {
        pf_vf v[PF_VL];
        for (int64_t i = 0; i < n; i += PF_VL) {
            pf_load_transposed(x + i, n, PF_VL, n - i, v);
            for (int64_t j = 0; j < pf_min(PF_VL, n - i); j++)
                offer(&found, kept, pf_float_keys(v[j], flip), i + j);
        }
    }
    for (int64_t j = 0; j < kept; j++) b->key[j] = found.key[j], b->place[j] = found.place[j];
}

/* The best of PF_VL lines, neighbours whose elements are `step` apart, or, if that is 1, n. Lanes that are
 * not settled come back as ones. */
static pf_vi select_lanes(best *b, const float *x, int64_t n, int64_t step, int64_t k, int32_t flip) {
    if (k == 1)
        keep_best(b, x, n, step, 2, flip);
    else if (k <= 5)
        keep_best(b, x, n, step, 6, flip);
    else
        keep_best(b, x, n, step, k + 1, flip);
    pf_vi open = pf_seti(0);
    for (int64_t j = 0; j < k; j++) open |= (pf_vi)(b->key[j] == b->key[j + 1]);
    return open;
}

#endif
