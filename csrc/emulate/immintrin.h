/* The intrinsics of AVX-512 and AMX that kernels use, made of AVX2: so the sources of those levels are
 * compiled, run and tested on processors without them (PF_EMULATE_AVX512). Found in place of the compiler's
 * header, which it includes. Results have the bits of the true instructions, NaN payloads aside; it is not
 * fast. Immediates are pasted into names, so that one that is not emulated here is an error of the compiler.
 */
#ifndef PF_EMULATE_IMMINTRIN_H
#define PF_EMULATE_IMMINTRIN_H

#include_next <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define EMULATED     static inline __attribute__((always_inline, unused))
#define EMU_LANES(n) for (int i = 0; i < (n); i++)

typedef __m512 emu_ps;
typedef __m512d emu_pd;
typedef __m512i emu_si;
typedef int32_t emu_i32 __attribute__((vector_size(64)));
typedef uint32_t emu_u32 __attribute__((vector_size(64)));
typedef int16_t emu_i16 __attribute__((vector_size(64)));
typedef int8_t emu_i8 __attribute__((vector_size(64)));
typedef uint8_t emu_u8 __attribute__((vector_size(64)));
typedef int8_t emu_i8x16 __attribute__((vector_size(16)));
typedef uint8_t emu_u8x16 __attribute__((vector_size(16)));
typedef int8_t emu_i8x32 __attribute__((vector_size(32)));
typedef float emu_float_any __attribute__((aligned(1), may_alias));

typedef union emu_parts {
    emu_ps ps;
    emu_pd pd;
    emu_si si;
    __m256 half_ps[2];
    __m256d half_pd[2];
    __m256i half_si[2];
    __m128 quarter[4];
} emu_parts;

/* -- Halves: an intrinsic of AVX2 for each -- */

#define EMU_UNARY(name, to, from, half)                                                                      \
    EMULATED emu_##to emu_##name(emu_##from a) {                                                             \
        const emu_parts x = {.from = a};                                                                     \
        return (emu_parts){.half_##to = {half(x.half_##from[0]), half(x.half_##from[1])}}.to;                \
    }
#define EMU_BINARY(name, type)                                                                               \
    EMULATED emu_##type emu_##name(emu_##type a, emu_##type b) {                                             \
        const emu_parts x = {.type = a}, y = {.type = b};                                                    \
        return (emu_parts){.half_##type = {_mm256_##name(x.half_##type[0], y.half_##type[0]),                \
                                           _mm256_##name(x.half_##type[1], y.half_##type[1])}}               \
            .type;                                                                                           \
    }
#define EMU_TERNARY(name, type)                                                                              \
    EMULATED emu_##type emu_##name(emu_##type a, emu_##type b, emu_##type c) {                               \
        const emu_parts x = {.type = a}, y = {.type = b}, z = {.type = c};                                   \
        return (emu_parts){                                                                                  \
            .half_##type = {_mm256_##name(x.half_##type[0], y.half_##type[0], z.half_##type[0]),             \
                            _mm256_##name(x.half_##type[1], y.half_##type[1], z.half_##type[1])}}            \
            .type;                                                                                           \
    }

#define EMU_NEAREST(a)      _mm256_round_ps(a, 8)
#define EMU_TOWARDS_ZERO(a) _mm256_round_ps(a, 11)
EMU_UNARY(roundscale_ps_8, ps, ps, EMU_NEAREST)
EMU_UNARY(roundscale_ps_9, ps, ps, _mm256_floor_ps)
EMU_UNARY(roundscale_ps_11, ps, ps, EMU_TOWARDS_ZERO)
EMU_UNARY(sqrt_ps, ps, ps, _mm256_sqrt_ps)
EMU_UNARY(cvtps_epi32, si, ps, _mm256_cvtps_epi32)
EMU_UNARY(cvtepi32_ps, ps, si, _mm256_cvtepi32_ps)
EMU_BINARY(max_ps, ps)
EMU_BINARY(min_ps, ps)
EMU_BINARY(unpacklo_ps, ps)
EMU_BINARY(unpackhi_ps, ps)
EMU_BINARY(unpacklo_pd, pd)
EMU_BINARY(unpackhi_pd, pd)
EMU_BINARY(madd_epi16, si)
EMU_BINARY(shuffle_epi8, si)
EMU_BINARY(unpacklo_epi32, si)
EMU_BINARY(unpackhi_epi32, si)
EMU_BINARY(unpacklo_epi64, si)
EMU_BINARY(unpackhi_epi64, si)
EMU_TERNARY(fmadd_ps, ps)
EMU_TERNARY(fmadd_pd, pd)

EMULATED emu_si emu_min_epi64(emu_si a, emu_si b) {
    const emu_si less = a < b;
    return (a & less) | (b & ~less);
}
EMULATED emu_si emu_max_epi64(emu_si a, emu_si b) {
    const emu_si less = a < b;
    return (b & less) | (a & ~less);
}
EMULATED __m256 emu_half(emu_ps a, int which) { return (emu_parts){.ps = a}.half_ps[which]; }
EMULATED emu_ps emu_join(__m256 low, __m256 high) { return (emu_parts){.half_ps = {low, high}}.ps; }
EMULATED emu_pd emu_cvtps_pd(__m256 a) {
    return (emu_parts){
        .half_pd = {_mm256_cvtps_pd(_mm256_castps256_ps128(a)), _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1))}}
        .pd;
}
EMULATED __m256 emu_cvtpd_ps(emu_pd a) {
    const emu_parts x = {.pd = a};
    return _mm256_set_m128(_mm256_cvtpd_ps(x.half_pd[1]), _mm256_cvtpd_ps(x.half_pd[0]));
}
EMULATED __m256i emu_cvtps_ph_0(emu_ps a) {
    return _mm256_set_m128i(_mm256_cvtps_ph(emu_half(a, 1), 0), _mm256_cvtps_ph(emu_half(a, 0), 0));
}
EMULATED emu_ps emu_cvtph_ps(__m256i a) {
    return emu_join(_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
                    _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}
EMULATED emu_ps emu_shuffle_f32x4(emu_ps a, emu_ps b, int order) {
    const emu_parts x = {.ps = a}, y = {.ps = b};
    return (emu_parts){.quarter = {x.quarter[order & 3], x.quarter[order >> 2 & 3], y.quarter[order >> 4 & 3],
                                   y.quarter[order >> 6 & 3]}}
        .ps;
}

/* -- Masks -- */

EMULATED __mmask16 emu_movepi32_mask(emu_si a) {
    const emu_parts x = {.si = a};
    return (__mmask16)(_mm256_movemask_ps(x.half_ps[0]) | _mm256_movemask_ps(x.half_ps[1]) << 8);
}
#define EMU_COMPARE(name, condition)                                                                         \
    EMULATED __mmask16 emu_cmp##name(emu_ps a, emu_ps b) { return emu_movepi32_mask((emu_si)(condition)); }
EMU_COMPARE(_CMP_LT_OQ, a < b)
EMU_COMPARE(_CMP_LE_OQ, a <= b)
EMU_COMPARE(_CMP_GT_OQ, a > b)
EMU_COMPARE(_CMP_EQ_OQ, a == b)
EMU_COMPARE(_CMP_ORD_Q, (a == a) & (b == b))
EMU_COMPARE(_CMP_UNORD_Q, (a != a) | (b != b))

EMULATED emu_ps emu_blend(__mmask16 mask, emu_ps a, emu_ps b) {
    EMU_LANES(16) a[i] = mask >> i & 1 ? b[i] : a[i];
    return a;
}
EMULATED emu_si emu_blend_epi16(__mmask32 mask, emu_si a, emu_si b) {
    emu_i16 r = (emu_i16)a;
    EMU_LANES(32) r[i] = mask >> i & 1 ? ((emu_i16)b)[i] : r[i];
    return (emu_si)r;
}
/* Memory outside the mask is not touched. */
EMULATED emu_ps emu_maskz_loadu_ps(__mmask16 mask, const void *p) {
    emu_ps r = {0};
    EMU_LANES(16) if (mask >> i & 1) r[i] = ((const emu_float_any *)p)[i];
    return r;
}
EMULATED void emu_mask_storeu_ps(void *p, __mmask16 mask, emu_ps a) {
    EMU_LANES(16) if (mask >> i & 1)((emu_float_any *)p)[i] = a[i];
}
EMULATED emu_si emu_maskz_loadu_epi8(__mmask64 mask, const void *p) {
    emu_i8 r = {0};
    EMU_LANES(64) if (mask >> i & 1) r[i] = ((const int8_t *)p)[i];
    return (emu_si)r;
}
EMULATED __m128i emu_maskz_loadu_epi8x16(__mmask16 mask, const void *p) {
    emu_i8x16 r = {0};
    EMU_LANES(16) if (mask >> i & 1) r[i] = ((const int8_t *)p)[i];
    return (__m128i)r;
}
EMULATED void emu_mask_storeu_epi8x16(void *p, __mmask16 mask, __m128i a) {
    EMU_LANES(16) if (mask >> i & 1)((int8_t *)p)[i] = ((emu_i8x16)a)[i];
}
EMULATED emu_ps emu_mask_i32gather_ps(emu_ps r, __mmask16 mask, emu_si at, const void *p, int scale) {
    EMU_LANES(16) if (mask >> i & 1) {
        r[i] = *(const emu_float_any *)((const char *)p + (int64_t)((emu_i32)at)[i] * scale);
    }
    return r;
}

/* -- Lanes -- */

EMULATED emu_ps emu_permutex2var_ps(emu_ps a, emu_si lanes, emu_ps b) {
    const emu_i32 from = (emu_i32)lanes;
    emu_ps r;
    EMU_LANES(16) r[i] = from[i] & 16 ? b[from[i] & 15] : a[from[i] & 15];
    return r;
}
/* Sums in this order: the bits are those of the compiler's sequence. */
EMULATED float emu_reduce_add_ps(emu_ps a) {
    for (int n = 8; n; n /= 2) EMU_LANES(n) a[i] += a[i + n];
    return a[0];
}
/* The smaller magnitude with the sign of a; of a NaN and a number, the number. */
EMULATED emu_ps emu_range_ps_2(emu_ps a, emu_ps b) {
    EMU_LANES(16) {
        const int other = a[i] != a[i] || fabsf(b[i]) < fabsf(a[i]);
        a[i] = copysignf(other ? b[i] : a[i], a[i]);
    }
    return a;
}
/* a 2^floor(b), and 2^inf of a NaN is inf, 2^-inf of it 0. */
EMULATED float emu_scale(float a, float b) {
    if (b != b) return a != a ? a : b;
    if (isinf(b)) return a != a ? fmaxf(b, 0.0f) : a * fmaxf(b, 0.0f);
    return ldexpf(a, (int)floorf(fminf(fmaxf(b, -1000.0f), 1000.0f)));
}
EMULATED emu_ps emu_scalef_ps(emu_ps a, emu_ps b) {
    EMU_LANES(16) a[i] = emu_scale(a[i], b[i]);
    return a;
}

/* -- Integers -- */

EMULATED emu_si emu_cvtepi8_epi16(__m256i a) {
    return (emu_si) __builtin_convertvector((emu_i8x32)a, emu_i16);
}
EMULATED emu_si emu_cvtepi8_epi32(__m128i a) {
    return (emu_si) __builtin_convertvector((emu_i8x16)a, emu_i32);
}
EMULATED emu_si emu_cvtepu8_epi32(__m128i a) {
    return (emu_si) __builtin_convertvector((emu_u8x16)a, emu_i32);
}
EMULATED __m128i emu_cvtepi32_epi8(emu_si a) {
    return (__m128i) __builtin_convertvector((emu_i32)a, emu_i8x16);
}
EMULATED emu_si emu_add_epi32(emu_si a, emu_si b) { return (emu_si)((emu_u32)a + (emu_u32)b); }
EMULATED emu_si emu_dpwssd_epi32(emu_si acc, emu_si a, emu_si b) {
    return emu_add_epi32(acc, emu_madd_epi16(a, b));
}
EMULATED emu_si emu_dpbusd_epi32(emu_si acc, emu_si a, emu_si b) {
    emu_i32 sums = {0};
    EMU_LANES(64) sums[i / 4] += ((emu_u8)a)[i] * ((emu_i8)b)[i];
    return emu_add_epi32(acc, (emu_si)sums);
}
EMULATED emu_si emu_broadcast_i32x4(__m128i a) {
    const __m256i twice = _mm256_broadcastsi128_si256(a);
    return (emu_parts){.half_si = {twice, twice}}.si;
}

/* -- Matrix tiles: of 64 bytes a row -- */

typedef struct emu_tile {
    emu_i32 row[16];
    int rows; /* 0: the tile may not be used */
} emu_tile;

static _Thread_local __attribute__((unused)) emu_tile emu_tiles[8];

/* What the processor refuses ends the process here, too. */
EMULATED void emu_need(int condition) {
    if (!condition) __builtin_trap();
}
EMULATED void emu_tile_release(void) { memset(emu_tiles, 0, sizeof emu_tiles); }
EMULATED void emu_tile_loadconfig(const void *config) {
    const uint8_t *const bytes = config;
    emu_tile_release();
    emu_need(bytes[0] == 1);
    EMU_LANES(8) {
        emu_need(bytes[16 + 2 * i] == 64 && bytes[17 + 2 * i] == 0 && bytes[48 + i] <= 16);
        emu_tiles[i].rows = bytes[48 + i];
    }
}
EMULATED void emu_tile_zero(int tile) {
    emu_need(emu_tiles[tile].rows > 0);
    memset(emu_tiles[tile].row, 0, sizeof emu_tiles[tile].row);
}
EMULATED void emu_tile_loadd(int tile, const void *p, int64_t stride) {
    emu_tile_zero(tile);
    EMU_LANES(emu_tiles[tile].rows) memcpy(&emu_tiles[tile].row[i], (const char *)p + i * stride, 64);
}
EMULATED void emu_tile_stored(int tile, void *p, int64_t stride) {
    emu_need(emu_tiles[tile].rows > 0);
    EMU_LANES(emu_tiles[tile].rows) memcpy((char *)p + i * stride, &emu_tiles[tile].row[i], 64);
}
/* Sums of four products of bytes with signs: those of even and of odd places, as words. */
EMULATED void emu_tile_dpbssd(int to, int left, int right) {
    emu_tile *const c = &emu_tiles[to], *const a = &emu_tiles[left], *const b = &emu_tiles[right];
    emu_need(c->rows > 0 && a->rows == c->rows && b->rows == 16);
    for (int k = 0; k < 16; k++) {
        const emu_i16 y = (emu_i16)b->row[k];
        const emu_si even = (emu_si)(y << 8 >> 8), odd = (emu_si)(y >> 8);
        EMU_LANES(c->rows) {
            const emu_i16 x = (emu_i16)(a->row[i][k] - (emu_i32){0});
            const emu_si sum = emu_dpwssd_epi32((emu_si)c->row[i], even, (emu_si)(x << 8 >> 8));
            c->row[i] = (emu_i32)emu_dpwssd_epi32(sum, odd, (emu_si)(x >> 8));
        }
    }
}

/* -- The names. Some are macros of the compiler's header: they go first. -- */

#undef _mm512_broadcast_i32x4
#undef _mm512_cmp_ps_mask
#undef _mm512_cvtps_ph
#undef _mm512_extractf32x8_ps
#undef _mm512_insertf32x8
#undef _mm512_mask_i32gather_ps
#undef _mm512_range_ps
#undef _mm512_roundscale_ps
#undef _mm512_setr_epi32
#undef _mm512_shuffle_f32x4
#undef _mm512_slli_epi32
#undef _mm512_srli_epi32
#undef _tile_dpbssd
#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_release
#undef _tile_stored
#undef _tile_zero

#define _mm512_add_epi32         emu_add_epi32
#define _mm512_broadcast_i32x4   emu_broadcast_i32x4
#define _mm512_cvtepi32_epi8     emu_cvtepi32_epi8
#define _mm512_cvtepi32_ps       emu_cvtepi32_ps
#define _mm512_cvtepi8_epi16     emu_cvtepi8_epi16
#define _mm512_cvtepi8_epi32     emu_cvtepi8_epi32
#define _mm512_cvtepu8_epi32     emu_cvtepu8_epi32
#define _mm512_cvtpd_ps          emu_cvtpd_ps
#define _mm512_cvtph_ps          emu_cvtph_ps
#define _mm512_cvtps_epi32       emu_cvtps_epi32
#define _mm512_cvtps_pd          emu_cvtps_pd
#define _mm512_dpbusd_epi32      emu_dpbusd_epi32
#define _mm512_dpwssd_epi32      emu_dpwssd_epi32
#define _mm512_extractf32x8_ps   emu_half
#define _mm512_fmadd_pd          emu_fmadd_pd
#define _mm512_fmadd_ps          emu_fmadd_ps
#define _mm512_madd_epi16        emu_madd_epi16
#define _mm512_mask_blend_epi16  emu_blend_epi16
#define _mm512_mask_blend_ps     emu_blend
#define _mm512_mask_i32gather_ps emu_mask_i32gather_ps
#define _mm512_mask_storeu_ps    emu_mask_storeu_ps
#define _mm512_maskz_loadu_epi8  emu_maskz_loadu_epi8
#define _mm512_maskz_loadu_ps    emu_maskz_loadu_ps
#define _mm512_max_epi64         emu_max_epi64
#define _mm512_max_ps            emu_max_ps
#define _mm512_min_epi64         emu_min_epi64
#define _mm512_min_ps            emu_min_ps
#define _mm512_movepi32_mask     emu_movepi32_mask
#define _mm512_permutex2var_ps   emu_permutex2var_ps
#define _mm512_reduce_add_ps     emu_reduce_add_ps
#define _mm512_scalef_ps         emu_scalef_ps
#define _mm512_shuffle_epi8      emu_shuffle_epi8
#define _mm512_shuffle_f32x4     emu_shuffle_f32x4
#define _mm512_sqrt_ps           emu_sqrt_ps
#define _mm512_unpackhi_epi32    emu_unpackhi_epi32
#define _mm512_unpackhi_epi64    emu_unpackhi_epi64
#define _mm512_unpackhi_pd       emu_unpackhi_pd
#define _mm512_unpackhi_ps       emu_unpackhi_ps
#define _mm512_unpacklo_epi32    emu_unpacklo_epi32
#define _mm512_unpacklo_epi64    emu_unpacklo_epi64
#define _mm512_unpacklo_pd       emu_unpacklo_pd
#define _mm512_unpacklo_ps       emu_unpacklo_ps
#define _mm_mask_storeu_epi8     emu_mask_storeu_epi8x16
#define _mm_maskz_loadu_epi8     emu_maskz_loadu_epi8x16
#define _tile_dpbssd             emu_tile_dpbssd
#define _tile_loadconfig         emu_tile_loadconfig
#define _tile_loadd              emu_tile_loadd
#define _tile_release            emu_tile_release
#define _tile_stored             emu_tile_stored
#define _tile_zero               emu_tile_zero

#define _mm512_castps256_ps512(a)      emu_join(a, _mm256_setzero_ps())
#define _mm512_castps512_ps256(a)      emu_half(a, 0)
#define _mm512_cmp_ps_mask(a, b, c)    emu_cmp##c(a, b)
#define _mm512_cvtps_ph(a, mode)       emu_cvtps_ph_##mode(a)
#define _mm512_insertf32x8(a, b, k)    EMU_INSERT_##k(a, b)
#define EMU_INSERT_1(a, b)             emu_join(emu_half(a, 0), b)
#define _mm512_loadu_ps(p)             (*(const __m512_u *)(p))
#define _mm512_loadu_si512(p)          (*(const __m512i_u *)(p))
#define _mm512_mask_max_ps(s, m, a, b) emu_blend(m, s, emu_max_ps(a, b))
#define _mm512_mask_min_ps(s, m, a, b) emu_blend(m, s, emu_min_ps(a, b))
#define _mm512_mask_mov_ps(s, m, a)    emu_blend(m, s, a)
#define _mm512_permutexvar_ps(l, a)    emu_permutex2var_ps(a, l, a)
#define _mm512_range_ps(a, b, mode)    emu_range_ps_##mode(a, b)
#define _mm512_roundscale_ps(a, mode)  emu_roundscale_ps_##mode(a)
#define _mm512_set1_epi32(x)           ((emu_si)((x) - (emu_i32){0}))
#define _mm512_set1_epi8(x)            ((emu_si)((x) - (emu_i8){0}))
#define _mm512_set1_ps(x)              ((x) - (emu_ps){0})
#define _mm512_setr_epi32(...)         ((emu_si)(emu_i32){__VA_ARGS__})
#define _mm512_setzero_ps()            ((emu_ps){0})
#define _mm512_setzero_si512()         ((emu_si){0})
#define _mm512_slli_epi32(a, n)        ((emu_si)((emu_u32)(a) << (n)))
#define _mm512_srli_epi32(a, n)        ((emu_si)((emu_u32)(a) >> (n)))
#define _mm512_storeu_ps(p, a)         (*(__m512_u *)(p) = (a))
#define _mm512_storeu_si512(p, a)      (*(__m512i_u *)(p) = (a))
#define _mm512_stream_ps(p, a)         (*(__m512 *)(p) = (a))
#define _mm512_xor_si512(a, b)         ((a) ^ (b))

#endif
