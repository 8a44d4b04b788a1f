/* Attention of few queries, such as the one of a model that writes word by word: keys lie side by side in a
 * vector, as queries do in blocks of them, and a row of the result stays in registers over a block of keys.
 */
#ifndef PF_KERNELS_ATTENTION_FEW_H
#define PF_KERNELS_ATTENTION_FEW_H

#include "kernels/attention.h"

/* o = alpha o + p V for nv vectors of columns and n keys. */
PF_INLINE void add_values(const int nv, const float *p, const float *v, int64_t vs, int64_t n, float alpha,
                          float *o) {
    pf_vf acc[8];
#pragma GCC unroll 8
    for (int i = 0; i < nv; i++) acc[i] = pf_load(o + i * PF_VL) * pf_set(alpha);
    for (int64_t k = 0; k < n; k++, v += vs) {
        const pf_vf x = pf_set(p[k]);
#pragma GCC unroll 8
        for (int i = 0; i < nv; i++) acc[i] = pf_fma(x, pf_load(v + i * PF_VL), acc[i]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < nv; i++) pf_store(o + i * PF_VL, acc[i]);
}

static void add_value_rows(const pf_attention_args *a, const float *p, const float *v, int64_t n, float alpha,
                           float *o) {
    int64_t c = 0;
    for (; c + 8 * PF_VL <= a->dv; c += 8 * PF_VL) add_values(8, p, v + c, a->vsr, n, alpha, o + c);
    for (; c + 4 * PF_VL <= a->dv; c += 4 * PF_VL) add_values(4, p, v + c, a->vsr, n, alpha, o + c);
    for (; c + PF_VL <= a->dv; c += PF_VL) add_values(1, p, v + c, a->vsr, n, alpha, o + c);
    if (c == a->dv) return;
    pf_vf acc = pf_load(o + c) * pf_set(alpha);
    for (int64_t k = 0; k < n; k++) acc = pf_fma(pf_set(p[k]), pf_loadn(v + k * a->vsr + c, a->dv - c), acc);
    pf_store(o + c, acc);
}

/* Masked scores of a query and up to KEY_BLOCK keys from k0 on, side by side and -inf up to a whole vector.
 */
static void score_keys(const block *b, int64_t query, int64_t k0, int64_t keys) {
    const pf_attention_args *a = b->a;
    const int64_t kind = a->mask_kind == PF_MASK_ROWS ? PF_MASK_ADD : a->mask_kind;
    for (int64_t k = 0; k < keys; k += PF_VL) {
        const int64_t n = pf_min(PF_VL, keys - k);
        const float *rows = b->k + (k0 + k) * a->ksr;
        pf_vf s = dot_rows(b->q + query * a->qsr, rows, a->ksr, n, a->d) * pf_set((float)a->scale);
        if (kind != PF_MASK_NONE)
            s = masked(a, s, mask_vector(kind, b->mask, query * a->msq + (k0 + k) * a->msk, a->msk, n));
        pf_store(b->s + k, s);
    }
    for (int64_t k = keys; k % PF_VL; k++) b->s[k] = -INFINITY;
}

/* One query: as many keys side by side as a vector has lanes, where blocks of queries would leave them empty.
 */
static void attend_one(const block *b, int64_t query) {
    const pf_attention_args *a = b->a;
    const int64_t last = b->q0 + query + a->diagonal; /* the last key when causal */
    const int64_t keys = a->causal ? pf_max(0, pf_min(a->keys, last + 1)) : a->keys;
    float top = -INFINITY, total = 0.0f;
    memset(b->o, 0, (size_t)b->dp * sizeof(float));
    for (int64_t k0 = 0; k0 < keys; k0 += KEY_BLOCK) {
        const int64_t n = pf_min(KEY_BLOCK, keys - k0);
        score_keys(b, query, k0, n);
        pf_vf high = pf_set(top), sum = pf_zero();
        for (int64_t k = 0; k < n; k += PF_VL) high = pf_vmax(pf_load(b->s + k), high);
        const float before = top;
        for (int i = 0; i < PF_VL; i++) top = high[i] > top ? high[i] : top;
        /* All keys masked so far: any finite reference gives weights 0. */
        const pf_vf reference = pf_set(top == -INFINITY ? 0.0f : top);
        for (int64_t k = 0; k < n; k += PF_VL) {
            const pf_vf p = pf_exp_term(pf_load(b->s + k) - reference);
            pf_store(b->s + k, p);
            sum += p;
        }
        const float alpha = pf_exp_term(pf_set(before) - reference)[0];
        total *= alpha;
        for (int i = 0; i < PF_VL; i++) total += sum[i];
        add_value_rows(a, b->s, b->v + k0 * a->vsr, n, alpha, b->o);
    }
    const float empty = a->empty_nan ? NAN : 0.0f, factor = total == 0.0f ? empty : 1.0f / total;
    float *y = b->y + query * a->ysr;
    for (int64_t c = 0; c < a->dv; c += PF_VL)
        pf_store_upto(y + c, pf_load(b->o + c) * pf_set(factor), a->dv - c);
}

#endif
