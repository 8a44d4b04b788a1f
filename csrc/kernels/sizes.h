/* Sizes of floats as integers, which compare as the bits do: those of NaN are larger than infinity. */
#ifndef PF_KERNELS_SIZES_H
#define PF_KERNELS_SIZES_H

#include <string.h>

#include "kernels/kernel.h"
#include "kernels/simd.h"

PF_INLINE pf_vi pf_size_larger(pf_vi sizes, pf_vf x) {
    const pf_vi size = (pf_vi)x & pf_seti(INT32_MAX);
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    return (pf_vi)_mm512_max_epi32((__m512i)sizes, (__m512i)size);
#else
    const pf_vi larger = size > sizes;
    return (larger & size) | (~larger & sizes);
#endif
}

/* In each lane the bits of a size; the largest of n floats is among them. */
PF_INLINE pf_vi pf_sizes_of(const float *x, int64_t n) {
    pf_vi even = pf_seti(0), odd = pf_seti(0);
    int64_t i = 0;
    for (; i + 2 * PF_VL <= n; i += 2 * PF_VL) {
        even = pf_size_larger(even, pf_load(x + i));
        odd = pf_size_larger(odd, pf_load(x + i + PF_VL));
    }
    for (; i < n; i += PF_VL) even = pf_size_larger(even, pf_load_upto(x + i, n - i));
    return pf_size_larger(even, (pf_vf)odd);
}

/* The largest size of n floats; NaN if one is. */
static inline float pf_size_largest(const float *x, int64_t n) {
    const pf_vi sizes = pf_sizes_of(x, n);
    int32_t largest = 0;
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    largest = _mm512_reduce_max_epi32((__m512i)sizes);
#else
    for (int i = 0; i < PF_VL; i++) largest = largest < sizes[i] ? sizes[i] : largest;
#endif
    float size;
    memcpy(&size, &largest, sizeof size);
    return size;
}

#endif
