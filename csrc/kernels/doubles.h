/* Vectors of doubles: two hold as many lanes as one of floats. For kernels whose sums or transforms need
 * them. */
#ifndef PF_KERNELS_DOUBLES_H
#define PF_KERNELS_DOUBLES_H

#include "kernels/simd.h"

typedef double pf_vd __attribute__((vector_size(PF_VL * 4)));
typedef double pf_vd_any __attribute__((vector_size(PF_VL * 4), aligned(1), may_alias));
typedef float pf_half_any __attribute__((vector_size(PF_VL * 2), aligned(4), may_alias));

/* The first or the second half of the vector at p. */
PF_INLINE pf_vd pf_widen(const float *p, const int half) {
    return __builtin_convertvector(*(const pf_half_any *)(p + half * (PF_VL / 2)), pf_vd);
}

#if defined(PF_AVX512)
PF_INLINE pf_vd pf_low_half(pf_vf x) { return (pf_vd)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)x)); }
PF_INLINE pf_vd pf_high_half(pf_vf x) { return (pf_vd)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)x, 1)); }
PF_INLINE pf_vf pf_join(pf_vd low, pf_vd high) {
    return (pf_vf)_mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps((__m512d)low)),
                                     _mm512_cvtpd_ps((__m512d)high), 1);
}
PF_INLINE pf_vd pf_fmad(pf_vd a, pf_vd b, pf_vd c) {
    return (pf_vd)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(PF_AVX2)
PF_INLINE pf_vd pf_low_half(pf_vf x) { return (pf_vd)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x)); }
PF_INLINE pf_vd pf_high_half(pf_vf x) { return (pf_vd)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x, 1)); }
PF_INLINE pf_vf pf_join(pf_vd low, pf_vd high) {
    return (pf_vf)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high), _mm256_cvtpd_ps((__m256d)low));
}
PF_INLINE pf_vd pf_fmad(pf_vd a, pf_vd b, pf_vd c) {
    return (pf_vd)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#else
PF_INLINE pf_vd pf_low_half(pf_vf x) { return (pf_vd){x[0], x[1]}; }
PF_INLINE pf_vd pf_high_half(pf_vf x) { return (pf_vd){x[2], x[3]}; }
PF_INLINE pf_vf pf_join(pf_vd low, pf_vd high) {
    return (pf_vf){(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
}
PF_INLINE pf_vd pf_fmad(pf_vd a, pf_vd b, pf_vd c) { return a * b + c; }
#endif

#endif
