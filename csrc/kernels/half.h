/* Runs of half precision from and to floats, and floats rounded to the precision of half and of bfloat16:
 * to the nearest, ties to even, as processors do it. */
#ifndef PF_KERNELS_HALF_H
#define PF_KERNELS_HALF_H

#include <string.h>

#include "kernels/simd.h"

/* Tensors may lie anywhere. */
typedef int16_t pf_half __attribute__((aligned(1), may_alias));

static inline float pf_from_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = (uint32_t)(half & 0x7fff) << 13;
    const uint32_t scale = 0x77800000; /* 2^112 */
    uint32_t bits = sign | 0x7f800000 | rest;
    float v, factor;
    if (rest < 0x0f800000) {
        memcpy(&v, &rest, sizeof v);
        memcpy(&factor, &scale, sizeof factor);
        v *= factor;
        memcpy(&bits, &v, sizeof bits);
        bits |= sign;
    }
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline uint16_t pf_to_half(float v) {
    const uint32_t half_bits = 0x3f000000; /* of 0.5, next to which the unit is that of the smallest halves */
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
    if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (bits >= 0x38800000) return (uint16_t)(sign | (bits - 0x38000000 + 0xfff + (bits >> 13 & 1)) >> 13);
    memcpy(&v, &bits, sizeof v);
    v += 0.5f;
    memcpy(&bits, &v, sizeof bits);
    return (uint16_t)(sign | (bits - half_bits));
}

static inline void pf_widen_halves(const void *x, int64_t xs, float *y, int64_t n) {
    const pf_half *from = x;
    int64_t i = 0;
#if defined(PF_AVX512) || defined(PF_AVX2)
    for (; xs == 1 && i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#endif
    for (; i < n; i++) y[i] = pf_from_half((uint16_t)from[i * xs]);
}

static inline void pf_narrow_halves(const float *x, void *y, int64_t ys, int64_t n) {
    pf_half *to = y;
    int64_t i = 0;
#if defined(PF_AVX512) || defined(PF_AVX2)
    for (; ys == 1 && i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
#endif
    for (; i < n; i++) to[i * ys] = (int16_t)pf_to_half(x[i]);
}

/* Bits of floats with the last `dropped` ones rounded off; magnitudes may reach infinity. */
PF_INLINE pf_vf pf_round_bits(pf_vf x, const int dropped) {
    const pf_vu bits = (pf_vu)x, last = bits >> dropped & 1;
    return (pf_vf)((bits + ((1u << (dropped - 1)) - 1) + last) & ~((1u << dropped) - 1));
}

PF_INLINE pf_vf pf_vbfloat16(pf_vf x) { return pf_select(x == x, pf_round_bits(x, 16), x); }

PF_INLINE pf_vf pf_vhalf(pf_vf x) {
#if defined(PF_AVX512)
    return (pf_vf)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, 0));
#elif defined(PF_AVX2)
    return (pf_vf)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, 0));
#else
    const pf_vi sign = (pf_vi)x & pf_seti(INT32_MIN);
    const pf_vf size = (pf_vf)((pf_vi)x ^ sign), small = (size + 0.5f) - 0.5f;
    const pf_vf normal = pf_select(size >= 65520.0f, pf_set(INFINITY), pf_round_bits(size, 13));
    const pf_vf rounded = pf_select(size < 6.103515625e-5f, small, normal);
    return pf_select(x == x, (pf_vf)((pf_vi)rounded | sign), x);
#endif
}

#endif
