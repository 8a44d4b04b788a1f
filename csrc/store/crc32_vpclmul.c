/* CRC-32 by folding with the carry-less multiply of AVX-512 registers, four blocks an instruction; called by
 * crc32.c after its CPU check. crc32_constants.py derives the constants and the products. */
#include "store/crc32.h"

#if defined(__VPCLMULQDQ__) && defined(__AVX512F__)

#    include <immintrin.h>

#    include "store/crc32_constants.h"
#    include "store/crc32_reduce.h"

static inline __m512i load4(const uint8_t *p) { return _mm512_loadu_si512(p); }

static inline __m512i fold4(__m512i blocks, __m512i constants, __m512i next) {
    const __m512i hi = _mm512_clmulepi64_epi128(blocks, constants, 0x00);
    const __m512i lo = _mm512_clmulepi64_epi128(blocks, constants, 0x11);
    return _mm512_ternarylogic_epi64(hi, lo, next, 0x96); /* exclusive or of three */
}

static inline __m512i pairs(uint64_t hi, uint64_t lo) { return _mm512_broadcast_i32x4(pair(hi, lo)); }

/* The four blocks of a register into one: each moves ahead by its distance from the last. */
static inline __m128i gather(__m512i blocks) {
    const __m128i a = _mm512_castsi512_si128(blocks), b = _mm512_extracti32x4_epi32(blocks, 1);
    const __m128i c = _mm512_extracti32x4_epi32(blocks, 2), d = _mm512_extracti32x4_epi32(blocks, 3);
    const __m128i bc = fold(b, pair(PF_CRC32_FOLD_256_HI, PF_CRC32_FOLD_256_LO),
                            fold(c, pair(PF_CRC32_FOLD_128_HI, PF_CRC32_FOLD_128_LO), d));
    return fold(a, pair(PF_CRC32_FOLD_384_HI, PF_CRC32_FOLD_384_LO), bc);
}

uint32_t pf_crc32_fold_vpclmul(uint32_t state, const uint8_t *p, size_t n) {
    const __m512i by512 = pairs(PF_CRC32_FOLD_512_HI, PF_CRC32_FOLD_512_LO);
    __m512i a = _mm512_xor_si512(load4(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    p += 64, n -= 64;
    if (n >= 192) {
        const __m512i by2048 = pairs(PF_CRC32_FOLD_2048_HI, PF_CRC32_FOLD_2048_LO);
        __m512i b = load4(p), c = load4(p + 64), d = load4(p + 128);
        for (p += 192, n -= 192; n >= 256; p += 256, n -= 256) {
            a = fold4(a, by2048, load4(p));
            b = fold4(b, by2048, load4(p + 64));
            c = fold4(c, by2048, load4(p + 128));
            d = fold4(d, by2048, load4(p + 192));
        }
        a = fold4(fold4(fold4(a, by512, b), by512, c), by512, d);
    }
    for (; n >= 64; p += 64, n -= 64) a = fold4(a, by512, load4(p));
    const __m128i by128 = pair(PF_CRC32_FOLD_128_HI, PF_CRC32_FOLD_128_LO);
    __m128i block = gather(a);
    for (; n >= 16; p += 16, n -= 16) block = fold(block, by128, load(p));
    return reduce(block);
}

#endif
