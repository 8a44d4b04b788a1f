/* What attention shares between its ways, by blocks of queries and by single ones, by vectors and by matrix
 * tiles: the block, dot products, masks, the softmax that goes on from block to block. */
#ifndef PF_KERNELS_ATTENTION_H
#define PF_KERNELS_ATTENTION_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/simd.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"

#if defined(PF_AVX512)
enum { QUERY_VECTORS = 4 }; /* of a block */
#else
enum { QUERY_VECTORS = 8 };
#endif

/* A last vector with at most FEW queries is not worth a tile of its own. */
enum { KEY_BLOCK = 128, MAX_MR = 8, FEW = PF_VL / 8 + 1 };

/* What one thread works on: a block of queries of one head. Arrays are scratch. Rows of those that run over
 * queries have w columns and are `step` apart; dp is the padded size of a value. */
typedef struct block {
    const pf_attention_args *a;
    const float *q, *k, *v;
    const char *mask;                    /* at the first query of the block, first key */
    bool far;                            /* operands are fetched ahead */
    int64_t q0, queries, vectors, tiled; /* tiled: vectors of queries that go through tiles */
    int64_t w, step, dp;
    float *y, *qt, *s, *o, *vp, *m, *l, *alpha;
} block;

/* Asks for a row of n floats that is needed soon: rows of other heads lie between, and nothing foresees it.
 */
PF_INLINE void fetch_row(const float *row, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_LINE_BYTES / (int)sizeof(float)) __builtin_prefetch(row + i, 0, 2);
}

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

/* Applies the mask to the scores of `keys` keys from k0 on, for the queries of vector i. */
static void mask_scores(const block *b, int64_t i, int64_t k0, int64_t keys) {
    const pf_attention_args *a = b->a;
    const int64_t kind = a->mask_kind, queries = pf_min(PF_VL, b->queries - i);
    float *s = b->s + i;
    if (a->msq == 0) {
        for (int64_t k = 0; k < keys; k++) {
            const pf_vf x = pf_set(mask_value(kind, b->mask, (k0 + k) * a->msk));
            pf_store(s + k * b->step, masked(a, pf_load(s + k * b->step), x));
        }
    } else if (a->msq == 1) {
        for (int64_t k = 0; k < keys; k++) {
            const pf_vf x = mask_vector(kind, b->mask, i + (k0 + k) * a->msk, 1, queries);
            pf_store(s + k * b->step, masked(a, pf_load(s + k * b->step), x));
        }
    } else {
        for (int64_t k = 0; k < keys; k += PF_VL) {
            const int64_t n = pf_min(PF_VL, keys - k);
            pf_vf t[PF_VL];
            for (int r = 0; r < PF_VL; r++) {
                const int64_t offset = (i + r) * a->msq + (k0 + k) * a->msk;
                t[r] = r < queries ? mask_vector(kind, b->mask, offset, a->msk, n) : pf_zero();
            }
            pf_transpose_tile(t);
            for (int64_t r = 0; r < n; r++)
                pf_store(s + (k + r) * b->step, masked(a, pf_load(s + (k + r) * b->step), t[r]));
        }
    }
}

/* Keys that come after a query: its scores become -inf. */
static void mask_causal(const block *b, int64_t i, int64_t k0, int64_t keys) {
    pf_vf lane;
    for (int r = 0; r < PF_VL; r++) lane[r] = (float)r;
    const int64_t first = b->q0 + i + b->a->diagonal; /* the last key of the first query */
    for (int64_t k = pf_max(0, first + 1 - k0); k < keys; k++) {
        float *s = b->s + k * b->step + i;
        const pf_vf last = pf_set((float)pf_min(k0 + k - first, PF_VL));
        pf_store(s, pf_select(lane >= last, pf_load(s), pf_set(-INFINITY)));
    }
}

/* Scores of keys that a mask, or the order of keys and queries, hides from the queries of vector i. */
static void hide_scores(const block *b, int64_t i, int64_t k0, int64_t keys) {
    const pf_attention_args *a = b->a;
    if (a->mask_kind != PF_MASK_NONE && a->mask_kind != PF_MASK_ROWS) mask_scores(b, i, k0, keys);
    if (a->causal) mask_causal(b, i, k0, keys);
}

/* ---- softmax ---- */

/* The largest scores of the queries of a vector so far, those before the block, and what exponents are
 * relative to. */
typedef struct running {
    pf_vf before, top, reference;
} running;

PF_INLINE pf_vf top_before(const block *b, int64_t i, bool first) {
    return first ? pf_set(-INFINITY) : pf_load(b->m + i);
}

static running running_from(const block *b, int64_t i, pf_vf top, bool first) {
    /* All keys masked so far: any finite reference gives weights 0. */
    const pf_vf reference = pf_select(top == pf_set(-INFINITY), pf_zero(), top);
    return (running){top_before(b, i, first), top, reference};
}

static running running_top(const block *b, int64_t i, int64_t keys, bool first) {
    const float *s = b->s + i;
    pf_vf m0 = top_before(b, i, first), m1 = m0;
    int64_t k = 0;
    for (; k + 2 <= keys; k += 2) {
        m0 = pf_vmax(pf_load(s + k * b->step), m0);
        m1 = pf_vmax(pf_load(s + (k + 1) * b->step), m1);
    }
    if (k < keys) m0 = pf_vmax(pf_load(s + k * b->step), m0);
    return running_from(b, i, pf_vmax(m0, m1), first);
}

/* Keeps the sum of a block's weights; alpha corrects what was summed before. */
static void running_sum(const block *b, int64_t i, const running *r, pf_vf sum, bool first) {
    if (!first) {
        const pf_vf alpha = pf_exp_term(r->before - r->reference);
        pf_store(b->alpha + i, alpha);
        sum += pf_load(b->l + i) * alpha;
    }
    pf_store(b->m + i, r->top);
    pf_store(b->l + i, sum);
}

/* What results are multiplied by in the end, in place of the sums of weights. */
static void invert_sums(const block *b) {
    const pf_vf empty = pf_set(b->a->empty_nan ? NAN : 0.0f);
    for (int64_t i = 0; i < b->w; i += PF_VL) {
        const pf_vf sum = pf_load(b->l + i);
        pf_store(b->l + i, pf_select(sum == pf_zero(), empty, pf_set(1.0f) / sum));
    }
}

#endif
