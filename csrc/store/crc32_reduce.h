/* One fold step and the last reduction on SSE registers, inlined into both folding kernels (each compiled
 * with flags of its own). crc32_constants.py derives the constants and the products. */
#ifndef PF_STORE_CRC32_REDUCE_H
#define PF_STORE_CRC32_REDUCE_H

#include <immintrin.h>
#include <stdint.h>

#include "store/crc32_constants.h"

/* The earlier eight bytes of a block are its low half and have the higher powers of x. */
static inline __m128i pair(uint64_t hi, uint64_t lo) { return _mm_set_epi64x((int64_t)lo, (int64_t)hi); }

static inline __m128i load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)p); }

static inline __m128i fold(__m128i block, __m128i constants, __m128i next) {
    const __m128i hi = _mm_clmulepi64_si128(block, constants, 0x00);
    const __m128i lo = _mm_clmulepi64_si128(block, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(hi, lo), next);
}

/* block * x^32 mod P: 128 bits to 96, to 64, then Barrett to 32. */
static inline uint32_t reduce(__m128i block) {
    const __m128i ends = _mm_set_epi64x(PF_CRC32_REDUCE_64, PF_CRC32_REDUCE_96);
    const __m128i barrett = _mm_set_epi64x(PF_CRC32_BARRETT_P, PF_CRC32_BARRETT_MU);
    const __m128i low_half = _mm_slli_si128(_mm_srli_si128(block, 8), 4);
    const __m128i bits96 = _mm_xor_si128(_mm_clmulepi64_si128(block, ends, 0x00), low_half);
    const __m128i bits64 = _mm_srli_si128(_mm_xor_si128(_mm_clmulepi64_si128(bits96, ends, 0x10), bits96), 8);
    const __m128i top = _mm_and_si128(bits64, _mm_cvtsi32_si128(-1));
    const __m128i quotient = _mm_and_si128(_mm_clmulepi64_si128(top, barrett, 0x00), _mm_cvtsi32_si128(-1));
    const __m128i multiple = _mm_clmulepi64_si128(quotient, barrett, 0x10);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(bits64, multiple), 1);
}

#endif
