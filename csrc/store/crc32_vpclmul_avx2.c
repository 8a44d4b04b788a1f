/* CRC-32 by folding with the carry-less multiply of AVX2 registers, two blocks an instruction; called by
 * crc32.c after its CPU check. */
#include "store/crc32.h"

#if defined(__VPCLMULQDQ__) && defined(__AVX2__)

#    include <immintrin.h>

#    include "store/crc32_reduce.h"

typedef __m256i wide;

static inline wide load_wide(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
static inline wide spread(__m128i block) { return _mm256_broadcastsi128_si256(block); }
static inline wide first(__m128i block) { return _mm256_zextsi128_si256(block); }

static inline wide fold_wide(wide blocks, wide constants, wide next) {
    const wide hi = _mm256_clmulepi64_epi128(blocks, constants, 0x00);
    const wide lo = _mm256_clmulepi64_epi128(blocks, constants, 0x11);
    return hi ^ lo ^ next;
}

static inline __m128i gather(wide blocks) {
    const __m128i by128 = pair(PF_CRC32_FOLD_128_HI, PF_CRC32_FOLD_128_LO);
    return fold(_mm256_castsi256_si128(blocks), by128, _mm256_extracti128_si256(blocks, 1));
}

#    include "store/crc32_wide.h"

uint32_t pf_crc32_fold_vpclmul_avx2(uint32_t state, const uint8_t *p, size_t n) {
    return fold_all(state, p, n, spread(pair(PF_CRC32_FOLD_256_HI, PF_CRC32_FOLD_256_LO)));
}

#endif
