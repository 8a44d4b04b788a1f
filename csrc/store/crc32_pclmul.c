/* CRC-32 by folding with the carry-less multiply of SSE registers; called by crc32.c after its CPU check.
 * crc32_constants.py derives the constants and the products. */
#include "store/crc32.h"

#if defined(__PCLMUL__)

#    include <immintrin.h>

#    include "store/crc32_constants.h"
#    include "store/crc32_reduce.h"

uint32_t pf_crc32_fold_pclmul(uint32_t state, const uint8_t *p, size_t n) {
    const __m128i by512 = pair(PF_CRC32_FOLD_512_HI, PF_CRC32_FOLD_512_LO);
    const __m128i by128 = pair(PF_CRC32_FOLD_128_HI, PF_CRC32_FOLD_128_LO);
    __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128((int)state));
    __m128i b = load(p + 16), c = load(p + 32), d = load(p + 48);
    for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
        a = fold(a, by512, load(p));
        b = fold(b, by512, load(p + 16));
        c = fold(c, by512, load(p + 32));
        d = fold(d, by512, load(p + 48));
    }
    a = fold(fold(fold(a, by128, b), by128, c), by128, d);
    for (; n >= 16; p += 16, n -= 16) a = fold(a, by128, load(p));
    return reduce(a);
}

#endif
