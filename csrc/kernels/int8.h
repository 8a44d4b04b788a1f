/* Arithmetic of 8-bit kernels: products that are summed in 32 bits, and rounding to 8 bits. A step of a
 * product is four bytes of a row against a vector of columns: with VNNI four unsigned by four signed bytes,
 * elsewhere two by two 16-bit numbers. So the same loops serve all ISA levels, and all of them are exact.
 * Used by conv_int8.c, tile_int8.c, conv_depthwise_int8.c and quantize_int8.c. */
#ifndef PF_KERNELS_INT8_H
#define PF_KERNELS_INT8_H

#include "kernels/epilogue.h"
#include "kernels/kernel.h"
#include "kernels/simd.h"

/* What a number of a row is in the buffer where rows are gathered, how many a step takes, and what is added
 * to it: bytes are unsigned there. */
#if defined(PF_VNNI)
typedef uint8_t pf_int8_wide;
typedef int8_t pf_int8_weight;
enum { PF_INT8_STEP = 4, PF_INT8_OFFSET = 128 };
#else
typedef int16_t pf_int8_wide, pf_int8_weight;
enum { PF_INT8_STEP = 2, PF_INT8_OFFSET = 0 };
#endif

typedef int32_t pf_int_any __attribute__((aligned(1), may_alias));
typedef int16_t pf_vs __attribute__((vector_size(PF_VL * 4)));
typedef int8_t pf_vb __attribute__((vector_size(PF_VL)));
typedef int8_t pf_vb_any __attribute__((vector_size(PF_VL), aligned(1), may_alias));

/* acc + products of the pairs of 16-bit numbers in each lane. */
PF_INLINE pf_vi pf_dot2(pf_vi acc, pf_vi a, pf_vi b) {
#if defined(PF_VNNI)
    return (pf_vi)_mm512_dpwssd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#elif defined(PF_AVX512)
    return acc + (pf_vi)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(PF_AVX2)
    return acc + (pf_vi)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return acc + (pf_vi)_mm_madd_epi16((__m128i)a, (__m128i)b);
#else
    const pf_vs x = (pf_vs)a, y = (pf_vs)b;
    for (int i = 0; i < PF_VL; i++)
        acc[i] += (int32_t)x[2 * i] * y[2 * i] + (int32_t)x[2 * i + 1] * y[2 * i + 1];
    return acc;
#endif
}

/* acc + products of one step: a of pf_int8_wide, b of pf_int8_weight. */
PF_INLINE pf_vi pf_int8_dot(pf_vi acc, pf_vi a, pf_vi b) {
#if defined(PF_VNNI)
    return (pf_vi)_mm512_dpbusd_epi32((__m512i)acc, (__m512i)a, (__m512i)b);
#else
    return pf_dot2(acc, a, b);
#endif
}

/* What is added before cutting off to get the nearest integers, halves away from zero: with a half, the
 * number below it would become 1. */
#define PF_ALMOST_HALF 0x1.fffffep-2f

/* Nearest integers of -127 to 127, halves away from zero; NaN gives -127. */
PF_INLINE pf_vi pf_round_int8(pf_vf x) {
    const pf_vi sign = (pf_vi)x & pf_seti(INT32_MIN);
    const pf_vf moved = x + (pf_vf)(sign | (pf_vi)pf_set(PF_ALMOST_HALF));
    return __builtin_convertvector(pf_vmin(pf_vmax(moved, pf_set(-127.0f)), pf_set(127.0f)), pf_vi);
}

/* The first n lanes of 32-bit numbers as bytes; nothing is written behind them. */
PF_INLINE void pf_store_int8(int8_t *y, pf_vi v, int64_t n) {
#if defined(PF_AVX512)
    const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)v);
    if (n >= PF_VL)
        _mm_storeu_si128((__m128i *)y, bytes);
    else
        _mm_mask_storeu_epi8(y, pf_lanes(n), bytes);
#else
    const pf_vb bytes = __builtin_convertvector(v, pf_vb);
    if (n >= PF_VL)
        *(pf_vb_any *)y = bytes;
    else
        for (int64_t i = 0; i < n; i++) y[i] = bytes[i];
#endif
}

/* The first n bytes as 32-bit numbers, whose high halves are signs; the others are 0. */
PF_INLINE pf_vi pf_load_int8(const int8_t *x, int64_t n) {
#if defined(PF_AVX512)
    return (pf_vi)_mm512_cvtepi8_epi32(n >= PF_VL ? _mm_loadu_si128((const __m128i *)x)
                                                  : _mm_maskz_loadu_epi8(pf_lanes(n), x));
#else
    pf_vb bytes = {0};
    if (n >= PF_VL)
        bytes = *(const pf_vb_any *)x;
    else
        for (int64_t i = 0; i < n; i++) bytes[i] = x[i];
#    if defined(PF_AVX2)
    return (pf_vi)_mm256_cvtepi8_epi32(_mm_cvtsi64_si128((int64_t)bytes));
#    else
    return __builtin_convertvector(bytes, pf_vi);
#    endif
#endif
}

/* From sums to results: y = act(sum scale + bias + z), or that by y_scale as int8. */
typedef struct pf_int8_finish {
    const float *scale, *bias; /* of channel 0; bias may be NULL */
    const float *z;            /* NULL: no residual */
    void *y;
    int late;        /* the residual is added after the activation */
    float y_scale;   /* 0: y is float */
    float low, high; /* bounds of what is stored, or of what is rounded, as far as the activation is one */
    pf_activation act;
} pf_int8_finish;

/* Whether an activation is bounds, as which "none" passes, too. */
PF_INLINE int pf_is_bounds(const pf_activation *act) { return act->code <= PF_ACT_CLIP; }

/* Bounds may come after the scale and beside those of int8, for they only choose among numbers. */
PF_INLINE pf_int8_finish pf_int8_finish_make(int64_t act, double a, double b, double y_scale) {
    pf_int8_finish f = {.act = pf_act_make(act, a, b), .y_scale = (float)y_scale};
    if (f.act.code == PF_ACT_NONE) f.act.a = -INFINITY, f.act.b = INFINITY;
    f.low = f.act.a, f.high = f.act.b;
    if (y_scale != 0) {
        f.low = fmaxf(-127.0f, f.low * f.y_scale);
        f.high = fmaxf(-127.0f, fminf(127.0f, f.high * f.y_scale));
    }
    return f;
}

/* How sums become results; constants after inlining. plain: bounds, and no residual that comes after them;
 * rounded: to int8; positive: what is rounded is not negative. */
typedef struct pf_int8_form {
    int plain, residual, rounded, positive;
} pf_int8_form;

/* One vector of n sums, for channel c at y[yat] with residual z[zat]. */
PF_INLINE void pf_int8_finish_vector(const pf_int8_finish *f, pf_vi sum, pf_vf scale, pf_vf bias, int64_t yat,
                                     int64_t zat, int64_t n, const pf_int8_form form) {
    pf_vf v = pf_tofloat(sum) * scale + bias;
    if (form.residual && (form.plain || !f->late)) v += pf_load_upto(f->z + zat, n);
    if (form.plain) {
        /* The order of operands: NaN becomes the lower bound where it is rounded, and stays elsewhere. */
        v = form.rounded ? pf_vmin(pf_vmax(v * pf_set(f->y_scale), pf_set(f->low)), pf_set(f->high))
                         : pf_act_clip(v, pf_set(f->low), pf_set(f->high));
    } else {
        v = pf_act_vector(&f->act, v);
        if (form.residual && f->late) v += pf_load_upto(f->z + zat, n);
        if (form.rounded) v = v * pf_set(f->y_scale);
    }
    if (form.positive)
        pf_store_int8((int8_t *)f->y + yat, __builtin_convertvector(v + PF_ALMOST_HALF, pf_vi), n);
    else if (form.rounded)
        pf_store_int8((int8_t *)f->y + yat, pf_round_int8(v), n);
    else
        pf_store_upto((float *)f->y + yat, v, n);
}

/* Sums of rows times n channels from `channel` on; y and z: where the rows of results and residuals begin, in
 * elements. */
typedef struct pf_int8_sums {
    const int32_t *sums; /* whole vectors, row by row */
    int rows, vectors;
    int64_t channel, n;
    const int64_t *y, *z;
} pf_int8_sums;

/* One vector of columns, of which the first n are there. */
PF_INLINE void pf_int8_finish_column(const pf_int8_finish *f, const pf_int8_sums *s, int v, int64_t n,
                                     const pf_int8_form form) {
    const int64_t at = s->channel + v * PF_VL;
    const pf_vf scale = pf_load_upto(f->scale + at, n);
    const pf_vf bias = f->bias ? pf_load_upto(f->bias + at, n) : pf_zero();
    const int32_t *sums = s->sums + v * PF_VL;
    for (int r = 0; r < s->rows; r++, sums += s->vectors * PF_VL)
        pf_int8_finish_vector(f, pf_loadi(sums), scale, bias, s->y[r] + at, s->z[r] + at, n, form);
}

PF_INLINE void pf_int8_finish_as(const pf_int8_finish *f, const pf_int8_sums *s, const pf_int8_form form) {
    int v = 0;
    for (; (v + 1) * PF_VL <= s->n; v++) pf_int8_finish_column(f, s, v, PF_VL, form);
    if (v * PF_VL < s->n) pf_int8_finish_column(f, s, v, s->n - v * PF_VL, form);
}

static inline void pf_int8_finish_sums(const pf_int8_finish *f, const pf_int8_sums *s) {
    const int residual = f->z != NULL, rounded = f->y_scale != 0;
    if (!pf_is_bounds(&f->act) || (residual && f->late) || f->y_scale < 0)
        pf_int8_finish_as(f, s, (pf_int8_form){0, residual, rounded, 0});
    else if (residual)
        pf_int8_finish_as(f, s, (pf_int8_form){1, 1, rounded, 0});
    else if (!rounded)
        pf_int8_finish_as(f, s, (pf_int8_form){1, 0, 0, 0});
    else if (f->low >= 0 && f->high >= 0)
        pf_int8_finish_as(f, s, (pf_int8_form){1, 0, 1, 1});
    else
        pf_int8_finish_as(f, s, (pf_int8_form){1, 0, 1, 0});
}

#endif
