/* What attention shares between blocks of queries and single ones: the block, dot products, masks,
 * exponentials. */
#ifndef PF_KERNELS_ATTENTION_H
#define PF_KERNELS_ATTENTION_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"

/* A last vector with at most FEW queries is not worth a tile of its own. */
enum { KEY_BLOCK = 128, MAX_MR = 8, FEW = PF_VL / 8 + 1 };

/* What one thread works on: a block of queries of one head. Arrays are scratch; w is the row length of those
 * that run over queries, dp the padded size of a value. */
typedef struct block {
    const pf_attention_args *a;
    const float *q, *k, *v;
    const char *mask;                           /* at the first query of the block, first key */
    bool far;                                   /* operands are fetched ahead */
    int64_t q0, queries, vectors, tiled, w, dp; /* tiled: vectors of queries that go through tiles */
    float *y, *qt, *s, *o, *vp, *m, *l, *alpha;
} block;

/* Dot products of q with `n` rows of K, at most PF_VL of them. */
PF_INLINE pf_vf dot_rows(const float *q, const float *k, int64_t stride, int64_t n, int64_t d) {
    pf_vf t[PF_VL];
#pragma GCC unroll 16
    for (int r = 0; r < PF_VL; r++) {
        const float *row = k + pf_min(r, n - 1) * stride;
        pf_vf sum = pf_zero();
        int64_t i = 0;
        for (; i + PF_VL <= d; i += PF_VL) sum = pf_fma(pf_load(q + i), pf_load(row + i), sum);
        t[r] = i < d ? pf_fma(pf_loadn(q + i, d - i), pf_loadn(row + i, d - i), sum) : sum;
    }
    pf_transpose_tile(t);
#pragma GCC unroll 4
    for (int half = PF_VL / 2; half > 0; half /= 2)
#pragma GCC unroll 8
        for (int r = 0; r < half; r++) t[r] += t[r + half];
    return t[0];
}

PF_INLINE float mask_value(int64_t kind, const char *mask, int64_t offset) {
    float x;
    if (kind != PF_MASK_ADD) return (mask[offset] != 0) == (kind == PF_MASK_KEEP) ? 0.0f : -INFINITY;
    memcpy(&x, mask + offset * (int64_t)sizeof x, sizeof x);
    return x;
}

typedef int8_t pf_lane_bytes __attribute__((vector_size(PF_VL), aligned(1), may_alias));

/* Mask values of neighbouring bytes; lanes behind the first n are anything. */
PF_INLINE pf_vf mask_bytes(int64_t kind, const char *bytes, int64_t n) {
    char own[PF_VL] = {0};
    for (int64_t i = 0; n < PF_VL && i < n; i++) own[i] = bytes[i];
    const pf_lane_bytes x = *(const pf_lane_bytes *)(n < PF_VL ? own : bytes);
    const pf_vi hidden = (__builtin_convertvector(x, pf_vi) != 0) ^ pf_seti(kind == PF_MASK_KEEP ? -1 : 0);
    return pf_select(hidden, pf_set(-INFINITY), pf_zero());
}

/* n (<= PF_VL) mask values that lie `step` apart; lanes behind them are anything. */
static pf_vf mask_vector(int64_t kind, const char *mask, int64_t offset, int64_t step, int64_t n) {
    if (kind == PF_MASK_ADD && step == 1) return pf_load_upto((const float *)mask + offset, n);
    if (kind != PF_MASK_ADD && step == 1) return mask_bytes(kind, mask + offset, n);
    float x[PF_VL] = {0};
    for (int64_t i = 0; i < n; i++) x[i] = mask_value(kind, mask, offset + i * step);
    return pf_load(x);
}

/* Scores to which a mask is added, or in whose place a filling comes where it hides them. */
PF_INLINE pf_vf masked(const pf_attention_args *a, pf_vf scores, pf_vf mask) {
    if (a->mask_kind != PF_MASK_FILL) return scores + mask;
    return pf_select(mask == pf_zero(), scores, pf_set((float)a->filling));
}

#endif
