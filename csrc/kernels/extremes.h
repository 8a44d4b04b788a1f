/* Maximum and minimum as PyTorch defines them (NaN wins), and the lane helpers that reductions share. */
#ifndef PF_KERNELS_EXTREMES_H
#define PF_KERNELS_EXTREMES_H

#include <string.h>

#include "kernels/simd.h"

#if defined(PF_AVX512)
PF_INLINE pf_vf pf_nanmax(pf_vf acc, pf_vf v) {
    const __mmask16 number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_ORD_Q);
    return (pf_vf)_mm512_mask_max_ps((__m512)v, number, (__m512)v, (__m512)acc);
}
PF_INLINE pf_vf pf_nanmin(pf_vf acc, pf_vf v) {
    const __mmask16 number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_ORD_Q);
    return (pf_vf)_mm512_mask_min_ps((__m512)v, number, (__m512)v, (__m512)acc);
}
/* The first n lanes of v, `other` in the rest; n may exceed PF_VL. */
PF_INLINE pf_vf pf_first_lanes(pf_vf v, int64_t n, float other) {
    if (n >= PF_VL) return v;
    return (pf_vf)_mm512_mask_mov_ps(_mm512_set1_ps(other), pf_lanes(n), (__m512)v);
}
#else
#    if defined(PF_AVX2)
/* A lane of all ones is a NaN. */
PF_INLINE pf_vf pf_nanmax(pf_vf acc, pf_vf v) {
    const __m256 nan = _mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q);
    return (pf_vf)_mm256_or_ps(_mm256_max_ps((__m256)v, (__m256)acc), nan);
}
PF_INLINE pf_vf pf_nanmin(pf_vf acc, pf_vf v) {
    const __m256 nan = _mm256_cmp_ps((__m256)v, (__m256)v, _CMP_UNORD_Q);
    return (pf_vf)_mm256_or_ps(_mm256_min_ps((__m256)v, (__m256)acc), nan);
}
#    else
PF_INLINE pf_vf pf_nanmax(pf_vf acc, pf_vf v) { return pf_select((v > acc) | (v != v), v, acc); }
PF_INLINE pf_vf pf_nanmin(pf_vf acc, pf_vf v) { return pf_select((v < acc) | (v != v), v, acc); }
#    endif
PF_INLINE pf_vf pf_first_lanes(pf_vf v, int64_t n, float other) {
    if (n >= PF_VL) return v;
    return pf_select(pf_numbers() < pf_seti((int32_t)n), v, pf_set(other));
}
#endif

PF_INLINE float pf_nanmax1(float acc, float v) { return v > acc || v != v ? v : acc; }
PF_INLINE float pf_nanmin1(float acc, float v) { return v < acc || v != v ? v : acc; }

/* The first n (n > 0) elements at p, `other` in the lanes behind them. */
PF_INLINE pf_vf pf_load_or(const float *p, int64_t n, float other) {
    return n >= PF_VL ? pf_load(p) : pf_first_lanes(pf_loadn(p, n), n, other);
}

/* Lanes moved down by k, around the end. */
PF_INLINE pf_vf pf_rotate(pf_vf v, const int k) { return pf_permute(v, pf_numbers() + k); }

/* Extreme lane; NaN if any lane is. */
PF_INLINE float pf_hmax(pf_vf v) {
#pragma GCC unroll 4
    for (int k = PF_VL / 2; k > 0; k /= 2) {
        const pf_vf other = pf_rotate(v, k);
        v = pf_select(v != v, v, pf_vmax(v, other));
    }
    return v[0];
}
PF_INLINE float pf_hmin(pf_vf v) {
#pragma GCC unroll 4
    for (int k = PF_VL / 2; k > 0; k /= 2) {
        const pf_vf other = pf_rotate(v, k);
        v = pf_select(v != v, v, pf_vmin(v, other));
    }
    return v[0];
}

#endif
