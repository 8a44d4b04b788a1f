/* Products of floats on matrix tiles of bytes. A row (or column) of floats is its scale times integers of 23
 * bits and sign, each of which is three digits of a byte: a = scale (high + middle / 2^8 + low / 2^16). Of
 * the nine products of digits, the three smallest are left out; the others are summed up without error in
 * integers, three sums by weight. What is lost is about 3e-8 of the largest number of the row times the
 * largest of the column, in each product: for most data as much as float32 loses in its sums. (Of this kind
 * are the methods after Ozaki, Ogita, Oishi, Rump: Error-free transformations of matrix multiplication by
 * using fast routines of matrix multiplication and its applications, 2012.)
 *
 * Large inputs that meet small weights would make the others' digits few. So where the largest weights of the
 * inputs differ much, weights are divided by powers of two, their factors, by which inputs are multiplied.
 *
 * Digits lie in tiles of a kilobyte: for every PF_SPLIT_DEPTH numbers of PF_SPLIT_SIDE rows a tile of high
 * digits, one of middle and one of low ones. Columns have four neighbours of k side by side.
 *
 * Rows or columns whose largest number is out of range (inf, or next to the ends of what floats can be)
 * are cut instead: their digits are the upper three bytes of floats. These are multiplied by vectors, as all
 * are where there are no matrix tiles. Used by conv_split.c and pack_split.c. */
#ifndef PF_KERNELS_SPLIT_H
#define PF_KERNELS_SPLIT_H

#include <string.h>

#include "kernels/args.h"
#include "kernels/kernel.h"
#include "kernels/simd.h"
#include "kernels/sizes.h"
#include "kernels/transpose_tile.h"

enum {
    PF_SPLIT_PART = PF_SPLIT_SIDE * PF_SPLIT_DEPTH,  /* bytes of a tile */
    PF_SPLIT_STEP = PF_SPLIT_DIGITS * PF_SPLIT_PART, /* of all digits */
    PF_SPLIT_LONGEST = 32 << 10,                     /* sums of so many products stay below 2^31 */
    PF_SPLIT_LARGEST = 127 << 16,                    /* integer */
};

/* The largest size in a row decides its scale. That of a row with NaN is NaN, as all its results are to be,
 * whatever its digits. */
#define PF_SPLIT_LEAST 0x1p-100f
#define PF_SPLIT_MOST  0x1p100f

PF_INLINE int pf_split_fits(float largest) {
    return largest == 0.0f || !(largest < PF_SPLIT_LEAST || largest > PF_SPLIT_MOST);
}

PF_INLINE float pf_split_scale(float largest) { return largest == 0.0f ? 1.0f : largest / 127.0f; }
PF_INLINE float pf_split_inverse(float largest) {
    return largest == 0.0f ? 0.0f : (float)PF_SPLIT_LARGEST / largest;
}

/* Where the digit of number k lies in a row of a tile: packing by 128 bits leaves fours of neighbours in this
 * order. */
PF_INLINE int pf_split_place(int k) { return (k / 4 % 4 * 4 + k / 16) * 4 + k % 4; }

/* Digits of the first n of PF_SPLIT_DEPTH floats, the others being zeros, for one row of the three tiles at
 * `to`; cut: for rows out of range. */
static inline void pf_split_numbers(const float *x, int64_t n, float inverse, int cut, int8_t *to) {
    for (int k = 0; k < PF_SPLIT_DEPTH; k++) {
        const float v = k < n ? x[k] : 0.0f;
        int32_t q;
        if (cut) {
            memcpy(&q, &v, sizeof q);
            q = (int32_t)((uint32_t)q | (v != v ? 0x400000u : 0u)) >> 8;
        } else {
            q = (int32_t)lrintf(v * inverse);
        }
        /* Digits of integers have signs: they round what is left of them. */
        const int32_t high = cut ? q : q + 0x8080, middle = cut ? q : q + 0x80;
        int8_t *place = to + pf_split_place(k);
        place[0] = (int8_t)(high >> 16);
        place[PF_SPLIT_PART] = (int8_t)(middle >> 8);
        place[2 * PF_SPLIT_PART] = (int8_t)q;
    }
}

#if defined(PF_AMX)
/* The same for rows in range. */
PF_INLINE void pf_split_fast(const float *x, int64_t n, float inverse, int8_t *to) {
    __m512i digits[4];
    pf_vf numbers[4];
    if (n >= PF_SPLIT_DEPTH) {
        PF_UNROLL for (int v = 0; v < 4; v++) numbers[v] = pf_load(x + v * PF_VL);
    } else {
        PF_UNROLL for (int v = 0; v < 4; v++) numbers[v] = pf_load_upto(x + v * PF_VL, n - v * PF_VL);
    }
    /* Digits with 128 added to each are those without signs, and these the bytes of an integer. */
    const __m512i middles = _mm512_set1_epi32(0x808080);
    const __m512i sorted = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)); /* those of fours */
    PF_UNROLL for (int v = 0; v < 4; v++) {
        const __m512i q = _mm512_cvtps_epi32((__m512)(numbers[v] * pf_set(inverse)));
        digits[v] = _mm512_xor_si512(_mm512_add_epi32(q, middles), middles);
        digits[v] = _mm512_shuffle_epi8(digits[v], sorted);
    }
    const __m512i lower = _mm512_unpacklo_epi32(digits[0], digits[1]),
                  upper = _mm512_unpackhi_epi32(digits[0], digits[1]),
                  lower_after = _mm512_unpacklo_epi32(digits[2], digits[3]),
                  upper_after = _mm512_unpackhi_epi32(digits[2], digits[3]);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi64(upper, upper_after));
    _mm512_storeu_si512(to + PF_SPLIT_PART, _mm512_unpackhi_epi64(lower, lower_after));
    _mm512_storeu_si512(to + 2 * PF_SPLIT_PART, _mm512_unpacklo_epi64(lower, lower_after));
}

/* Words of the lower halves of both, and of the upper ones. */
PF_INLINE __m512i pf_split_lower(__m512i a, __m512i b) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, a, _mm512_slli_epi32(b, 16));
}
PF_INLINE __m512i pf_split_upper(__m512i a, __m512i b) {
    return _mm512_mask_blend_epi16(0xaaaaaaaa, _mm512_srli_epi32(a, 16), b);
}

/* Digits of four vectors of integers, to the lower two of which 128 has been added: those of a lane become
 * neighbours, in a row of each of the three tiles. */
PF_INLINE void pf_split_fours(const __m512i integers[4], __m512i high_added, char *to) {
    const __m512i added = _mm512_set1_epi8((char)0x80);
    const __m512i sorted =
        _mm512_broadcast_i32x4(/* bytes of two words by weight */
                               _mm_setr_epi8(0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15));
    const __m512i lower = _mm512_shuffle_epi8(pf_split_lower(integers[0], integers[1]), sorted),
                  lower_after = _mm512_shuffle_epi8(pf_split_lower(integers[2], integers[3]), sorted),
                  upper = _mm512_shuffle_epi8(pf_split_upper(integers[0], integers[1]), sorted),
                  upper_after = _mm512_shuffle_epi8(pf_split_upper(integers[2], integers[3]), sorted);
    _mm512_storeu_si512(to, _mm512_xor_si512(pf_split_lower(upper, upper_after), high_added));
    _mm512_storeu_si512(to + PF_SPLIT_PART, _mm512_xor_si512(pf_split_upper(lower, lower_after), added));
    _mm512_storeu_si512(to + 2 * PF_SPLIT_PART, _mm512_xor_si512(pf_split_lower(lower, lower_after), added));
}
#else
PF_INLINE void pf_split_fast(const float *x, int64_t n, float inverse, int8_t *to) {
    pf_split_numbers(x, n, inverse, 0, to);
}
#endif

/* Fours of digits of rows become those of columns: a square of 16 x 16 of them is transposed. */
static inline void pf_split_transpose(const char *from, char *to) {
    for (int i = 0; i < PF_SPLIT_SIDE; i += PF_VL)
        for (int j = 0; j < PF_SPLIT_SIDE; j += PF_VL) {
            pf_vf v[PF_VL];
            for (int r = 0; r < PF_VL; r++) v[r] = pf_load(from + ((i + r) * PF_SPLIT_SIDE + j) * 4);
            pf_transpose_tile(v);
            for (int r = 0; r < PF_VL; r++) pf_store(to + ((j + r) * PF_SPLIT_SIDE + i) * 4, v[r]);
        }
}

/* A row of n floats with this largest size, split into the tiles of `steps` steps at `to`, which begin
 * `apart` bytes apart. Returns its scale, or 0 if it is cut. */
static inline float pf_split_row(const float *x, int64_t n, float largest, int64_t steps, int64_t apart,
                                 char *to) {
    const int cut = !pf_split_fits(largest);
    const float inverse = pf_split_inverse(largest);
    for (int64_t s = 0; s < steps; s++, x += PF_SPLIT_DEPTH, n -= PF_SPLIT_DEPTH, to += apart) {
        if (__builtin_expect(cut, 0))
            pf_split_numbers(x, n, 0.0f, 1, (int8_t *)to);
        else
            pf_split_fast(x, n, inverse, (int8_t *)to);
    }
    return cut ? 0.0f : pf_split_scale(largest);
}

/* Packed weights of all groups: tiles of columns, then floats: the scales of the columns of each tile (all of
 * them 0 where it is cut), the factors of inputs by tap and channel, and for each group whether it has any
 * that are not 1. Addresses are counted in bytes. */
typedef struct pf_split_weights {
    int64_t columns, depth, steps; /* tiles of columns, inputs and their steps, of a group */
    int64_t tile, scales, factors, uneven, bytes;
} pf_split_weights;

static inline pf_split_weights pf_split_layout(int64_t groups, int64_t oc, int64_t depth) {
    const int64_t size = (int64_t)sizeof(float);
    pf_split_weights l = {.columns = pf_ceil_div(oc, PF_SPLIT_SIDE), .depth = depth};
    l.steps = pf_ceil_div(depth, PF_SPLIT_DEPTH);
    l.tile = l.steps * PF_SPLIT_STEP;
    l.scales = groups * l.columns * l.tile;
    l.factors = l.scales + groups * l.columns * PF_SPLIT_SIDE * size;
    l.uneven = l.factors + groups * depth * size;
    l.bytes = l.uneven + groups * size;
    return l;
}

/* -- products by vectors -- */

/* What the digits at some bytes stand for, but for the scale. */
PF_INLINE float pf_split_number(const int8_t *x, int cut) {
    float v;
    if (!cut) return (float)(x[0] * 65536 + x[PF_SPLIT_PART] * 256 + x[2 * PF_SPLIT_PART]) * 0x1p-16f;
    const uint32_t bits = (uint32_t)(uint8_t)x[0] << 24 | (uint32_t)(uint8_t)x[PF_SPLIT_PART] << 16 |
                          (uint32_t)(uint8_t)x[2 * PF_SPLIT_PART] << 8;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* Sums c, dense, of one tile of rows, whose steps are `apart` bytes apart, and one of columns. scales: of the
 * rows, 0 where they are cut. */
static inline void pf_split_by_vectors(const char *a, int64_t apart, const float *scales, const char *b,
                                       int cut, int64_t steps, float *c) {
    float x[PF_SPLIT_SIDE][PF_SPLIT_DEPTH], w[PF_SPLIT_DEPTH][PF_SPLIT_SIDE] __attribute__((aligned(64)));
    memset(c, 0, PF_SPLIT_SIDE * PF_SPLIT_SIDE * sizeof *c);
    for (int64_t s = 0; s < steps; s++, a += apart, b += PF_SPLIT_STEP) {
        for (int k = 0; k < PF_SPLIT_DEPTH; k++)
            for (int i = 0; i < PF_SPLIT_SIDE; i++) {
                const int8_t *row = (const int8_t *)a + i * PF_SPLIT_DEPTH + k;
                const int8_t *column = (const int8_t *)b + (k / 4 * PF_SPLIT_SIDE + i) * 4 + k % 4;
                x[i][k] = pf_split_number(row, scales[i] == 0.0f);
                w[k][i] = pf_split_number(column, cut);
            }
        for (int r = 0; r < PF_SPLIT_SIDE; r++)
            for (int j = 0; j < PF_SPLIT_SIDE; j += PF_VL) {
                pf_vf sum = pf_load(c + r * PF_SPLIT_SIDE + j);
                for (int k = 0; k < PF_SPLIT_DEPTH; k++)
                    sum = pf_fma(pf_set(x[r][k]), pf_load(w[k] + j), sum);
                pf_store(c + r * PF_SPLIT_SIDE + j, sum);
            }
    }
}

/* -- products by matrix tiles -- */

/* Numbers of a tile of sums; those of full weight come first, for two tiles of rows, then those of 2^-8 and
 * of 2^-16. */
enum { PF_SPLIT_NUMBERS = PF_SPLIT_SIDE * PF_SPLIT_SIDE, PF_SPLIT_SUMS = 6 * PF_SPLIT_NUMBERS };

/* A vector of sums of all weights. */
PF_INLINE pf_vf pf_split_sum(const int32_t *sums) {
    const pf_vf step = pf_set(0x1p-8f), low = pf_tofloat(pf_loadi(sums + 4 * PF_SPLIT_NUMBERS));
    const pf_vf middle = pf_fma(low, step, pf_tofloat(pf_loadi(sums + 2 * PF_SPLIT_NUMBERS)));
    return pf_fma(middle, step, pf_tofloat(pf_loadi(sums)));
}

/* One or two tiles of rows by one of columns, in at least one step. Steps of rows begin `apart` bytes apart.
 * So many lines a step are fetched into L2 from `ahead` on, and other work hides behind the products: it is
 * called in so many turns of each step, and told how many are left. */
enum { PF_SPLIT_TURNS = 4 };

typedef struct pf_split_product {
    const char *a, *b, *ahead;
    int64_t tiles, steps, apart, lines;
    void (*work)(void *context, int64_t turns);
    void *context;
} pf_split_product;

#if defined(PF_AMX)
enum { PF_SPLIT_TILES = 1 };

/* For products of so many rows, at most PF_SPLIT_SIDE: fewer take less time. */
PF_INLINE void pf_split_begin(int64_t rows) {
    struct {
        uint8_t palette, start, unused[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = (uint8_t)rows;
    config.rows[7] = PF_SPLIT_SIDE; /* of columns */
    _tile_loadconfig(&config);
}

PF_INLINE void pf_split_end(void) { _tile_release(); }

/* Sums `sums` of a tile of rows and the tile of columns that is loaded, as tile 7. */
#    define PF_SPLIT_ADD(sums, rows)                                                                         \
        _tile_loadd(6, rows, 64);                                                                            \
        _tile_dpbssd(sums, 6, 7)

/* Sums of so many tiles of rows. Much work comes in between in several turns, because products that wait fill
 * the places of what could run beside them; for the same reason sums are stored as soon as they are complete.
 */
PF_INLINE void pf_split_some(const int rows, const pf_split_product *p, int32_t *sums) {
    enum { MIDDLE = PF_SPLIT_PART, LOW = 2 * PF_SPLIT_PART, NUMBERS = PF_SPLIT_NUMBERS };
    /* Tiles 0 and 1 sum up what has full weight, 2 and 3 products of 2^-8, 4 and 5 of 2^-16. */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    const char *a = p->a, *lower = a + p->steps * p->apart, *b = p->b, *ahead = p->ahead;
    for (int64_t turn = p->steps * PF_SPLIT_TURNS; turn > 0; turn -= PF_SPLIT_TURNS) {
        const int last = turn == PF_SPLIT_TURNS;
        for (int64_t i = 0; i < p->lines; i++, ahead += 64) _mm_prefetch(ahead, _MM_HINT_T1);
        _tile_loadd(7, b, 64);
        PF_SPLIT_ADD(4, a + LOW);
        if (rows > 1) {
            PF_SPLIT_ADD(5, lower + LOW);
            PF_SPLIT_ADD(1, lower);
        }
        p->work(p->context, turn);
        if (rows > 1) {
            PF_SPLIT_ADD(3, lower + MIDDLE);
        }
        PF_SPLIT_ADD(0, a);
        PF_SPLIT_ADD(2, a + MIDDLE);
        if (last) {
            _tile_stored(0, sums, 64);
            if (rows > 1) _tile_stored(1, sums + NUMBERS, 64);
        }
        p->work(p->context, turn - 1);
        _tile_loadd(7, b + MIDDLE, 64);
        _tile_dpbssd(4, 6, 7);
        if (rows > 1) {
            PF_SPLIT_ADD(5, lower + MIDDLE);
            PF_SPLIT_ADD(3, lower);
        }
        p->work(p->context, turn - 2);
        PF_SPLIT_ADD(2, a);
        _tile_loadd(7, b + LOW, 64);
        _tile_dpbssd(4, 6, 7);
        if (rows > 1) {
            PF_SPLIT_ADD(5, lower);
        }
        if (last) {
            _tile_stored(2, sums + 2 * NUMBERS, 64);
            if (rows > 1) _tile_stored(3, sums + 3 * NUMBERS, 64);
        }
        p->work(p->context, turn - 3);
        a += p->apart, lower += p->apart, b += PF_SPLIT_STEP;
    }
    _tile_stored(4, sums + 4 * NUMBERS, 64);
    if (rows > 1) _tile_stored(5, sums + 5 * NUMBERS, 64);
}
#    undef PF_SPLIT_ADD

/* Sums for pf_split_sum. */
static inline void pf_split_sums(const pf_split_product *p, int32_t *sums) {
    if (p->tiles == 2)
        pf_split_some(2, p, sums);
    else
        pf_split_some(1, p, sums);
}
#else
enum { PF_SPLIT_TILES = 0 }; /* there are none: nothing may ask for them */

PF_INLINE void pf_split_begin(int64_t rows) { (void)rows; }
PF_INLINE void pf_split_end(void) {}
PF_INLINE void pf_split_sums(const pf_split_product *p, int32_t *sums) { (void)p, (void)sums; }
#endif

#endif
