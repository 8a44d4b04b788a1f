/* CRC-32 by folding with the carry-less multiply of AVX-512 registers, four blocks an instruction; called by
 * crc32.c after its CPU check. */
#include "store/crc32.h"

#if defined(__VPCLMULQDQ__) && defined(__AVX512F__)

#    include <immintrin.h>

#    include "store/crc32_reduce.h"

typedef __m512i wide;

static inline wide load_wide(const uint8_t *p) { return _mm512_loadu_si512(p); }
static inline wide spread(__m128i block) { return _mm512_broadcast_i32x4(block); }
static inline wide first(__m128i block) { return _mm512_zextsi128_si512(block); }

static inline wide fold_wide(wide blocks, wide constants, wide next) {
    const wide hi = _mm512_clmulepi64_epi128(blocks, constants, 0x00);
    const wide lo = _mm512_clmulepi64_epi128(blocks, constants, 0x11);
    return _mm512_ternarylogic_epi64(hi, lo, next, 0x96); /* exclusive or of three */
}

/* Each block moves ahead by its distance from the last. */
static inline __m128i gather(wide blocks) {
    const __m128i a = _mm512_castsi512_si128(blocks), b = _mm512_extracti32x4_epi32(blocks, 1);
    const __m128i c = _mm512_extracti32x4_epi32(blocks, 2), d = _mm512_extracti32x4_epi32(blocks, 3);
    const __m128i bc = fold(b, pair(PF_CRC32_FOLD_256_HI, PF_CRC32_FOLD_256_LO),
                            fold(c, pair(PF_CRC32_FOLD_128_HI, PF_CRC32_FOLD_128_LO), d));
    return fold(a, pair(PF_CRC32_FOLD_384_HI, PF_CRC32_FOLD_384_LO), bc);
}

#    include "store/crc32_wide.h"

uint32_t pf_crc32_fold_vpclmul(uint32_t state, const uint8_t *p, size_t n) {
    return fold_all(state, p, n, spread(pair(PF_CRC32_FOLD_512_HI, PF_CRC32_FOLD_512_LO)));
}

#endif
