/* The portable form of CRC-32 (16 table look-ups for 16 bytes), the choice among variants, and combination.
 * Compiled without ISA flags; the folding kernels live in files of their own. */
#include "store/crc32.h"

#include <string.h>

#include "base/cpu.h"
#include "store/crc32_constants.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "the archive code reads little-endian words in place"
#endif

/* A cell is linear in the bits of its index, so eight powers span a row; the preprocessor writes all cells
 * out and the table needs no start-up code. */
#define CELL(i, a, b, c, d, e, f, g, h)                                                                      \
    (((i) & 128 ? (a) : 0) ^ ((i) & 64 ? (b) : 0) ^ ((i) & 32 ? (c) : 0) ^ ((i) & 16 ? (d) : 0) ^            \
     ((i) & 8 ? (e) : 0) ^ ((i) & 4 ? (f) : 0) ^ ((i) & 2 ? (g) : 0) ^ ((i) & 1 ? (h) : 0))
#define CELLS4(i, ...)                                                                                       \
    CELL(i, __VA_ARGS__), CELL((i) + 1, __VA_ARGS__), CELL((i) + 2, __VA_ARGS__), CELL((i) + 3, __VA_ARGS__)
#define CELLS16(i, ...)                                                                                      \
    CELLS4(i, __VA_ARGS__), CELLS4((i) + 4, __VA_ARGS__), CELLS4((i) + 8, __VA_ARGS__),                      \
        CELLS4((i) + 12, __VA_ARGS__)
#define CELLS64(i, ...)                                                                                      \
    CELLS16(i, __VA_ARGS__), CELLS16((i) + 16, __VA_ARGS__), CELLS16((i) + 32, __VA_ARGS__),                 \
        CELLS16((i) + 48, __VA_ARGS__)
#define ROW(...)                                                                                             \
    {CELLS64(0, __VA_ARGS__), CELLS64(64, __VA_ARGS__), CELLS64(128, __VA_ARGS__), CELLS64(192, __VA_ARGS__)}

/* table[k][b]: what byte b adds to the register once k more bytes have followed it. */
static const uint32_t table[16][256] = {PF_CRC32_ROWS(ROW)};

static const uint32_t squares[32] = {PF_CRC32_SQUARES};

static inline uint32_t four_bytes(uint32_t word, int row) {
    return (table[row + 3][word & 255] ^ table[row + 2][word >> 8 & 255]) ^
           (table[row + 1][word >> 16 & 255] ^ table[row][word >> 24]);
}

static inline uint32_t sixteen_bytes(uint32_t state, const uint8_t *p) {
    uint32_t word[4];
    memcpy(word, p, sizeof word);
    /* Three words do not wait for the register. */
    const uint32_t early = four_bytes(word[1], 8) ^ four_bytes(word[2], 4) ^ four_bytes(word[3], 0);
    return four_bytes(word[0] ^ state, 12) ^ early;
}

/* Product of two reflected polynomials modulo P. */
static uint32_t multiply(uint32_t a, uint32_t b) {
    const uint32_t x32 = table[0][128];
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a >> 31) product ^= b;
        b = b >> 1 ^ (b & 1 ? x32 : 0);
    }
    return product;
}

/* Neighbouring stretches go side by side: the look-ups of one fill the time in which the others wait for
 * their registers. A register moves past the next stretch by a product with x^(8 STRETCH). */
enum { STRETCH_LOG = 12, STRETCH = 1 << STRETCH_LOG, LANES = 2 };

static uint32_t slice(uint32_t state, const uint8_t *p, size_t n) {
    for (; n >= LANES * STRETCH; n -= LANES * STRETCH, p += LANES * STRETCH) {
        uint32_t lane[LANES] = {state};
        for (int i = 0; i < STRETCH; i += 16)
            for (int k = 0; k < LANES; k++) lane[k] = sixteen_bytes(lane[k], p + k * STRETCH + i);
        state = lane[0];
        for (int k = 1; k < LANES; k++) state = multiply(state, squares[STRETCH_LOG + 3]) ^ lane[k];
    }
    for (; n >= 16; n -= 16, p += 16) state = sixteen_bytes(state, p);
    for (; n; n--) state = state >> 8 ^ table[0][(state ^ *p++) & 255];
    return state;
}

typedef uint32_t fold_function(uint32_t state, const uint8_t *data, size_t n);

typedef struct variant {
    const char *name;
    uint32_t needs;
    size_t pays_from; /* bytes from which it beats those before it */
    fold_function *fold;
} variant;

enum { NEEDS_VPCLMUL = PF_CPU_SSE41 | PF_CPU_PCLMUL | PF_CPU_VPCLMUL };

static const variant variants[] = {
    {"generic", 0, 0, NULL},
#if defined(__x86_64__)
    {"pclmul", PF_CPU_SSE41 | PF_CPU_PCLMUL, 64, pf_crc32_fold_pclmul},
    {"vpclmul_avx2", NEEDS_VPCLMUL | PF_CPU_AVX2, 64, pf_crc32_fold_vpclmul_avx2},
    {"vpclmul", NEEDS_VPCLMUL | PF_CPU_AVX512, 256, pf_crc32_fold_vpclmul},
#endif
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

const char *pf_crc32_variant_name(int i) { return i >= 0 && i < VARIANTS ? variants[i].name : NULL; }

bool pf_crc32_variant_runs(int i) {
    return i >= 0 && i < VARIANTS && (pf_cpu_features() & variants[i].needs) == variants[i].needs;
}

uint32_t pf_crc32_by(int i, uint32_t crc, const void *data, size_t n) {
    fold_function *fold = variants[i].fold;
    const uint8_t *p = data;
    uint32_t state = ~crc;
    if (fold && n >= PF_CRC32_FOLD_MIN) {
        const size_t bulk = n & ~(size_t)15;
        state = fold(state, p, bulk);
        p += bulk;
        n -= bulk;
    }
    return ~slice(state, p, n);
}

uint32_t pf_crc32(uint32_t crc, const void *data, size_t n) {
    int best = VARIANTS - 1;
    while (best > 0 && (n < variants[best].pays_from || !pf_crc32_variant_runs(best))) best--;
    return pf_crc32_by(best, crc, data, n);
}

uint32_t pf_crc32_combine(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
    /* crc_a moves ahead by 8 * length_b bits; the bits of the length pick the squares, three places up. */
    for (int k = 3; length_b; k++, length_b >>= 1) {
        if (length_b & 1) crc_a = multiply(crc_a, squares[k % 32]);
    }
    return crc_a ^ crc_b;
}
