/* Folding on registers of several blocks, for files that say what such a register is: `wide`, load_wide(p),
 * spread(block) to all blocks, first(block) with zeros in the others, fold_wide as `fold` is for one block,
 * and gather, which makes one block of all. crc32_constants.py derives the constants and the products. */
#ifndef PF_STORE_CRC32_WIDE_H
#define PF_STORE_CRC32_WIDE_H

#include <stddef.h>

#include "store/crc32_reduce.h"

#define UNROLL _Pragma("GCC unroll 8")
enum { WIDE = sizeof(wide), STRIDE = 2048 / 8, ABREAST = STRIDE / WIDE };

/* ahead: moves a register past the next one. */
static uint32_t fold_all(uint32_t state, const uint8_t *p, size_t n, wide ahead) {
    wide a[ABREAST];
    a[0] = load_wide(p) ^ first(_mm_cvtsi32_si128((int)state));
    p += WIDE, n -= WIDE;
    if (n >= STRIDE - WIDE) {
        const wide by2048 = spread(pair(PF_CRC32_FOLD_2048_HI, PF_CRC32_FOLD_2048_LO));
        UNROLL for (int i = 1; i < ABREAST; i++, p += WIDE, n -= WIDE) a[i] = load_wide(p);
        for (; n >= STRIDE; p += STRIDE, n -= STRIDE) {
            UNROLL for (int i = 0; i < ABREAST; i++) a[i] = fold_wide(a[i], by2048, load_wide(p + i * WIDE));
        }
        UNROLL for (int i = 1; i < ABREAST; i++) a[0] = fold_wide(a[0], ahead, a[i]);
    }
    for (; n >= WIDE; p += WIDE, n -= WIDE) a[0] = fold_wide(a[0], ahead, load_wide(p));
    const __m128i by128 = pair(PF_CRC32_FOLD_128_HI, PF_CRC32_FOLD_128_LO);
    __m128i block = gather(a[0]);
    for (; n >= 16; p += 16, n -= 16) block = fold(block, by128, load(p));
    return reduce(block);
}

#undef UNROLL

#endif
