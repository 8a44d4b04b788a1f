/* Square tiles of floats transposed in registers: PF_VL x PF_VL, and 4 x 4 for narrow planes. */
#ifndef PF_KERNELS_TRANSPOSE_TILE_H
#define PF_KERNELS_TRANSPOSE_TILE_H

#include "kernels/simd.h"

typedef float pf_f4 __attribute__((vector_size(16)));
typedef float pf_f4_any __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t pf_i4 __attribute__((vector_size(16)));

/* Four of the eight lanes of a and b, by constants. */
#if defined(__clang__)
#    define pf_mix4(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#    define pf_mix4(a, b, ...) __builtin_shuffle(a, b, (pf_i4){__VA_ARGS__})
#endif

PF_INLINE void pf_transpose4(pf_f4 r[4]) {
    const pf_f4 a = pf_mix4(r[0], r[1], 0, 4, 1, 5);
    const pf_f4 b = pf_mix4(r[0], r[1], 2, 6, 3, 7);
    const pf_f4 c = pf_mix4(r[2], r[3], 0, 4, 1, 5);
    const pf_f4 d = pf_mix4(r[2], r[3], 2, 6, 3, 7);
    r[0] = pf_mix4(a, c, 0, 1, 4, 5);
    r[1] = pf_mix4(a, c, 2, 3, 6, 7);
    r[2] = pf_mix4(b, d, 0, 1, 4, 5);
    r[3] = pf_mix4(b, d, 2, 3, 6, 7);
}

/* The same for elements of eight bytes. */
typedef int64_t pf_l4 __attribute__((vector_size(32)));
typedef int64_t pf_l4_any __attribute__((vector_size(32), aligned(1), may_alias));
#if defined(__clang__)
#    define pf_mix4_64(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#    define pf_mix4_64(a, b, ...) __builtin_shuffle(a, b, (pf_l4){__VA_ARGS__})
#endif

PF_INLINE void pf_transpose4_64(pf_l4 r[4]) {
    const pf_l4 a = pf_mix4_64(r[0], r[1], 0, 4, 2, 6);
    const pf_l4 b = pf_mix4_64(r[0], r[1], 1, 5, 3, 7);
    const pf_l4 c = pf_mix4_64(r[2], r[3], 0, 4, 2, 6);
    const pf_l4 d = pf_mix4_64(r[2], r[3], 1, 5, 3, 7);
    r[0] = pf_mix4_64(a, c, 0, 1, 4, 5);
    r[1] = pf_mix4_64(b, d, 0, 1, 4, 5);
    r[2] = pf_mix4_64(a, c, 2, 3, 6, 7);
    r[3] = pf_mix4_64(b, d, 2, 3, 6, 7);
}

#if defined(PF_AVX512)
PF_INLINE void pf_transpose_tile(pf_vf v[PF_VL]) {
    __m512 t[16], u[16];
#    pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps((__m512)v[2 * i], (__m512)v[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps((__m512)v[2 * i], (__m512)v[2 * i + 1]);
    }
#    pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        u[i] = (__m512)_mm512_unpacklo_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 1] = (__m512)_mm512_unpackhi_pd((__m512d)t[i], (__m512d)t[i + 2]);
        u[i + 2] = (__m512)_mm512_unpacklo_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
        u[i + 3] = (__m512)_mm512_unpackhi_pd((__m512d)t[i + 1], (__m512d)t[i + 3]);
    }
#    pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512 a = _mm512_shuffle_f32x4(u[i], u[i + 4], 0x88),
                     b = _mm512_shuffle_f32x4(u[i], u[i + 4], 0xdd);
        const __m512 c = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0x88);
        const __m512 d = _mm512_shuffle_f32x4(u[i + 8], u[i + 12], 0xdd);
        v[i] = (pf_vf)_mm512_shuffle_f32x4(a, c, 0x88);
        v[i + 4] = (pf_vf)_mm512_shuffle_f32x4(b, d, 0x88);
        v[i + 8] = (pf_vf)_mm512_shuffle_f32x4(a, c, 0xdd);
        v[i + 12] = (pf_vf)_mm512_shuffle_f32x4(b, d, 0xdd);
    }
}
#elif defined(PF_AVX2)
PF_INLINE void pf_transpose_tile(pf_vf v[PF_VL]) {
    __m256 t[8], u[8];
#    pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
    }
#    pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
#    pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        v[i] = (pf_vf)_mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = (pf_vf)_mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
#else
PF_INLINE void pf_transpose_tile(pf_vf v[PF_VL]) { pf_transpose4(v); }
#endif

/* Up to PF_VL numbers of the rows at x, x + step, ...: number i of all rows in v[i]. What is missing are
 * zeros. */
PF_INLINE void pf_load_transposed(const float *x, int64_t step, int64_t rows, int64_t count, pf_vf v[PF_VL]) {
    if (rows >= PF_VL && count >= PF_VL) {
#pragma GCC unroll 16
        for (int r = 0; r < PF_VL; r++) v[r] = pf_load(x + r * step);
    } else {
#pragma GCC unroll 16
        for (int r = 0; r < PF_VL; r++) v[r] = r < rows ? pf_load_upto(x + r * step, count) : pf_zero();
    }
    pf_transpose_tile(v);
}

#endif
