/* One float vector type per ISA level and the few operations that kernels need beyond GCC's vector arithmetic
 * (+ - * / and comparisons work on pf_vf directly). PF_VL is the number of float lanes. */
#ifndef PF_KERNELS_SIMD_H
#define PF_KERNELS_SIMD_H

#include <math.h>
#include <stdint.h>

#if defined(PF_ISA_avx512) || defined(PF_ISA_avx512vnni) || defined(PF_ISA_amx)
#    define PF_AVX512 1
#    define PF_VL     16
#elif defined(PF_ISA_avx2)
#    define PF_AVX2 1
#    define PF_VL   8
#else
#    define PF_VL 4
#endif
#if defined(PF_ISA_avx512vnni) || defined(PF_ISA_amx)
#    define PF_VNNI 1
#endif
#if defined(PF_ISA_amx)
#    define PF_AMX 1
#endif
/* Vector registers, which decide how much of a tile is held at once. */
#if defined(PF_AVX512) || defined(__aarch64__)
#    define PF_REGISTERS 32
#else
#    define PF_REGISTERS 16
#endif
/* Whether there are tiles that take half of a vector (tile_half.h). */
#define PF_HALVES (PF_VL == 16)
#if defined(PF_AVX512) || defined(PF_AVX2)
#    include <immintrin.h>
#elif defined(__SSE2__)
#    include <emmintrin.h>
#elif defined(__aarch64__)
#    include <arm_neon.h>
#endif

typedef float pf_vf __attribute__((vector_size(PF_VL * 4)));
typedef int32_t pf_vi __attribute__((vector_size(PF_VL * 4)));
typedef uint32_t pf_vu __attribute__((vector_size(PF_VL * 4)));
typedef float pf_float_any __attribute__((aligned(1), may_alias));
typedef float pf_vf_any __attribute__((vector_size(PF_VL * 4), aligned(1), may_alias));
typedef int32_t pf_vi_any __attribute__((vector_size(PF_VL * 4), aligned(1), may_alias));

#define PF_INLINE static inline __attribute__((always_inline))
/* Before a loop over registers, whose count is a constant: it disappears. */
#if !defined(PF_UNROLL) && defined(__clang__)
#    define PF_UNROLL _Pragma("clang loop unroll(full)")
#elif !defined(PF_UNROLL)
#    define PF_UNROLL _Pragma("GCC unroll 32")
#endif
/* Makes the compiler forget what it knows of a moving pointer or a stride: it would keep the addresses of all
 * elements of a tile, far more than there are registers, instead of adding up a few. */
#define PF_FORGET(x) __asm__("" : "+r"(x))

PF_INLINE pf_vf pf_load(const void *p) { return *(const pf_vf_any *)p; }
PF_INLINE void pf_store(void *p, pf_vf v) { *(pf_vf_any *)p = v; }
PF_INLINE pf_vi pf_loadi(const void *p) { return *(const pf_vi_any *)p; }
PF_INLINE void pf_storei(void *p, pf_vi v) { *(pf_vi_any *)p = v; }
PF_INLINE pf_vf pf_set(float x) { return x - (pf_vf){0}; }
PF_INLINE pf_vi pf_seti(int32_t x) { return x - (pf_vi){0}; }
PF_INLINE pf_vf pf_zero(void) { return (pf_vf){0}; }
/* 0, 1, 2, …, as one constant: of lanes that a loop fills not all compilers make one. */
PF_INLINE pf_vi pf_numbers(void) {
#if PF_VL == 16
    return (pf_vi){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#elif PF_VL == 8
    return (pf_vi){0, 1, 2, 3, 4, 5, 6, 7};
#else
    return (pf_vi){0, 1, 2, 3};
#endif
}
/* a - b, around the end: of the bits of any float, where signed lanes must not overflow. */
PF_INLINE pf_vi pf_less(pf_vi a, int32_t b) { return (pf_vi)((pf_vu)a - (uint32_t)b); }

/* Lanes of a where mask is all ones, of b where it is zero. */
PF_INLINE pf_vf pf_select(pf_vi mask, pf_vf a, pf_vf b) {
    return (pf_vf)((mask & (pf_vi)a) | (~mask & (pf_vi)b));
}

#if defined(PF_AVX512)
PF_INLINE pf_vf pf_fma(pf_vf a, pf_vf b, pf_vf c) {
    return (pf_vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
/* min and max return the second operand when one is NaN. */
PF_INLINE pf_vf pf_vmax(pf_vf a, pf_vf b) { return (pf_vf)_mm512_max_ps((__m512)a, (__m512)b); }
PF_INLINE pf_vf pf_vmin(pf_vf a, pf_vf b) { return (pf_vf)_mm512_min_ps((__m512)a, (__m512)b); }
PF_INLINE pf_vf pf_vsqrt(pf_vf a) { return (pf_vf)_mm512_sqrt_ps((__m512)a); }
PF_INLINE pf_vf pf_vround(pf_vf a) { return (pf_vf)_mm512_roundscale_ps((__m512)a, 8); }
PF_INLINE pf_vf pf_vfloor(pf_vf a) { return (pf_vf)_mm512_roundscale_ps((__m512)a, 9); }
PF_INLINE pf_vf pf_vtrunc(pf_vf a) { return (pf_vf)_mm512_roundscale_ps((__m512)a, 11); }
PF_INLINE pf_vi pf_toint(pf_vf a) { return (pf_vi)_mm512_cvtps_epi32((__m512)a); }
PF_INLINE pf_vf pf_tofloat(pf_vi a) { return (pf_vf)_mm512_cvtepi32_ps((__m512i)a); }
PF_INLINE __mmask16 pf_lanes(int64_t n) { return (__mmask16)((1u << n) - 1u); }
/* The first n (0 < n < PF_VL) lanes; the others read as 0 and are not written. */
PF_INLINE pf_vf pf_loadn(const void *p, int64_t n) { return (pf_vf)_mm512_maskz_loadu_ps(pf_lanes(n), p); }
PF_INLINE void pf_storen(void *p, pf_vf v, int64_t n) { _mm512_mask_storeu_ps(p, pf_lanes(n), (__m512)v); }
PF_INLINE float pf_hsum(pf_vf v) { return _mm512_reduce_add_ps((__m512)v); }
#elif defined(PF_AVX2)
PF_INLINE pf_vf pf_fma(pf_vf a, pf_vf b, pf_vf c) {
    return (pf_vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
PF_INLINE pf_vf pf_vmax(pf_vf a, pf_vf b) { return (pf_vf)_mm256_max_ps((__m256)a, (__m256)b); }
PF_INLINE pf_vf pf_vmin(pf_vf a, pf_vf b) { return (pf_vf)_mm256_min_ps((__m256)a, (__m256)b); }
PF_INLINE pf_vf pf_vsqrt(pf_vf a) { return (pf_vf)_mm256_sqrt_ps((__m256)a); }
PF_INLINE pf_vf pf_vround(pf_vf a) { return (pf_vf)_mm256_round_ps((__m256)a, 8); }
PF_INLINE pf_vf pf_vfloor(pf_vf a) { return (pf_vf)_mm256_round_ps((__m256)a, 9); }
PF_INLINE pf_vf pf_vtrunc(pf_vf a) { return (pf_vf)_mm256_round_ps((__m256)a, 11); }
PF_INLINE pf_vi pf_toint(pf_vf a) { return (pf_vi)_mm256_cvtps_epi32((__m256)a); }
PF_INLINE pf_vf pf_tofloat(pf_vi a) { return (pf_vf)_mm256_cvtepi32_ps((__m256i)a); }
PF_INLINE __m256i pf_lanes(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
PF_INLINE pf_vf pf_loadn(const void *p, int64_t n) {
    return (pf_vf)_mm256_maskload_ps((const float *)p, pf_lanes(n));
}
/* In up to three parts: a masked store takes AMD's processors 12 cycles. */
PF_INLINE void pf_storen(void *p, pf_vf v, int64_t n) {
    float *y = p;
    __m128 part = _mm256_castps256_ps128((__m256)v);
    if (n & 4) {
        _mm_storeu_ps(y, part);
        part = _mm256_extractf128_ps((__m256)v, 1), y += 4;
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)y, part);
        part = _mm_movehl_ps(part, part), y += 2;
    }
    if (n & 1) *(pf_float_any *)y = part[0];
}
PF_INLINE float pf_hsum(pf_vf v) {
    const __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)v), _mm256_extractf128_ps((__m256)v, 1));
    const __m128 t = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(t, _mm_shuffle_ps(t, t, 1)));
}
#else
#    if defined(__aarch64__)
PF_INLINE pf_vf pf_fma(pf_vf a, pf_vf b, pf_vf c) {
    return (pf_vf)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#    else
PF_INLINE pf_vf pf_fma(pf_vf a, pf_vf b, pf_vf c) { return a * b + c; }
#    endif
#    if defined(__SSE2__)
PF_INLINE pf_vf pf_vmax(pf_vf a, pf_vf b) { return (pf_vf)_mm_max_ps((__m128)a, (__m128)b); }
PF_INLINE pf_vf pf_vmin(pf_vf a, pf_vf b) { return (pf_vf)_mm_min_ps((__m128)a, (__m128)b); }
PF_INLINE pf_vf pf_vsqrt(pf_vf a) { return (pf_vf)_mm_sqrt_ps((__m128)a); }
PF_INLINE pf_vi pf_toint(pf_vf a) { return (pf_vi)_mm_cvtps_epi32((__m128)a); }
#    else
PF_INLINE pf_vf pf_vmax(pf_vf a, pf_vf b) { return pf_select(a > b, a, b); }
PF_INLINE pf_vf pf_vmin(pf_vf a, pf_vf b) { return pf_select(a < b, a, b); }
PF_INLINE pf_vf pf_vsqrt(pf_vf a) {
    for (int i = 0; i < PF_VL; i++) a[i] = sqrtf(a[i]);
    return a;
}
PF_INLINE pf_vi pf_toint(pf_vf a) {
    pf_vi r;
    for (int i = 0; i < PF_VL; i++) r[i] = (int32_t)lrintf(a[i]);
    return r;
}
#    endif
/* Adding 2^23 leaves no bits for a fraction; larger magnitudes have none. */
PF_INLINE pf_vf pf_vround(pf_vf a) {
    const pf_vi sign = (pf_vi)a & pf_seti(INT32_MIN);
    const pf_vf size = (pf_vf)((pf_vi)a ^ sign), limit = pf_set(8388608.0f);
    const pf_vf whole = (size + limit) - limit;
    return pf_select(size < limit, (pf_vf)((pf_vi)whole | sign), a);
}
PF_INLINE pf_vf pf_vfloor(pf_vf a) {
    const pf_vf r = pf_vround(a);
    return pf_select(r > a, r - 1.0f, r);
}
PF_INLINE pf_vf pf_vtrunc(pf_vf a) {
    const pf_vi sign = (pf_vi)a & pf_seti(INT32_MIN);
    return (pf_vf)((pf_vi)pf_vfloor((pf_vf)((pf_vi)a ^ sign)) | sign);
}
PF_INLINE pf_vf pf_tofloat(pf_vi a) { return __builtin_convertvector(a, pf_vf); }
/* Calls of memcpy with a variable size would cost more than the rest of a short loop. */
PF_INLINE pf_vf pf_loadn(const void *p, int64_t n) {
    const pf_float_any *x = p;
    return (pf_vf){x[0], n > 1 ? x[1] : 0.0f, n > 2 ? x[2] : 0.0f, 0.0f};
}
PF_INLINE void pf_storen(void *p, pf_vf v, int64_t n) {
    pf_float_any *y = p;
    y[0] = v[0];
    if (n > 1) y[1] = v[1];
    if (n > 2) y[2] = v[2];
}
PF_INLINE float pf_hsum(pf_vf v) { return (v[0] + v[1]) + (v[2] + v[3]); }
#endif

/* c + a * b in the register of c. Loops that are long enough to be scheduled by the compiler, whose other
 * forms of the instruction write to a or b, would have to move most of a tile back at their end. */
PF_INLINE pf_vf pf_fma_in_place(pf_vf a, pf_vf b, pf_vf c) {
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
#else
    return pf_fma(a, b, c);
#endif
}

/* The first n lanes for any n: a full vector when n >= PF_VL, nothing when n <= 0. */
PF_INLINE pf_vf pf_load_upto(const void *p, int64_t n) {
    return n >= PF_VL ? pf_load(p) : n > 0 ? pf_loadn(p, n) : pf_zero();
}
PF_INLINE void pf_store_upto(void *p, pf_vf v, int64_t n) {
    if (n >= PF_VL)
        pf_store(p, v);
    else if (n > 0)
        pf_storen(p, v, n);
}

/* Lane lanes[i], modulo PF_VL, of v in each lane i. */
PF_INLINE pf_vf pf_permute(pf_vf v, pf_vi lanes) {
#if !defined(__clang__)
    return __builtin_shuffle(v, lanes);
#elif defined(PF_AVX512)
    return (pf_vf)_mm512_permutexvar_ps((__m512i)lanes, (__m512)v);
#elif defined(PF_AVX2)
    return (pf_vf)_mm256_permutevar8x32_ps((__m256)v, (__m256i)lanes);
#else
    pf_vf r;
    for (int i = 0; i < PF_VL; i++) r[i] = v[lanes[i] & (PF_VL - 1)];
    return r;
#endif
}

/* Every second number of two vectors that follow each other, from number `first` (0 or 1) on. */
PF_INLINE pf_vf pf_every_second(pf_vf a, pf_vf b, int first) {
#if defined(PF_AVX512)
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (pf_vf)_mm512_permutex2var_ps((__m512)a, _mm512_add_epi32(even, _mm512_set1_epi32(first)),
                                         (__m512)b);
#else
    pf_vi lanes, low;
    for (int i = 0; i < PF_VL; i++) lanes[i] = 2 * i + first, low[i] = -(i < PF_VL / 2);
    return pf_select(low, pf_permute(a, lanes), pf_permute(b, lanes));
#endif
}

/* The lanes of a mask (all ones or zero) that are set, a bit each. */
PF_INLINE uint32_t pf_bits(pf_vi mask) {
#if defined(PF_AVX512)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(PF_AVX2)
    return (uint32_t)_mm256_movemask_ps((__m256)mask);
#else
    uint32_t bits = 0;
    for (int i = 0; i < PF_VL; i++) bits |= (uint32_t)mask[i] & (1u << i);
    return bits;
#endif
}

/* Whether a lane of a mask (all ones or zero) is set. */
PF_INLINE int pf_any(pf_vi mask) {
#if defined(PF_AVX512)
    return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(PF_AVX2)
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    int32_t any = 0;
    for (int i = 0; i < PF_VL; i++) any |= mask[i];
    return any != 0;
#endif
}

#endif
