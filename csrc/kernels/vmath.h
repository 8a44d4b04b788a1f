/* Vector exp, log and the activations built on them, for every ISA level, over the whole range of float: NaN
 * gives NaN, infinities and overflow are those of the exact function. Used by element-wise kernels and by the
 * epilogues of matrix kernels; knows no memory.
 *
 * Error bounds in units in the last place where the result is a normal number (of silu and mish: above
 * 1e-36):
 *
 * - 1: exp, exp2, log;
 * - 2: expm1, log2, log10;
 * - 3: log1p, sigmoid, softplus, logsigmoid, hardsigmoid, hardswish; 4: silu;
 * - 5: tanh, erf;
 * - 5: gelu, mish, while the result is above 1e-7 in magnitude (gelu 12 without fused multiply-add).
 *
 * Further out in their negative tails gelu stays within 1e-5 and gelu_tanh within 2e-5 of the result; with
 * AVX-512 gelu ends at -6.67, where it is -9e-11. */
#ifndef PF_KERNELS_VMATH_H
#define PF_KERNELS_VMATH_H

#include "kernels/extremes.h"
#include "kernels/vmath_coefficients.h"

/* Lanes of a where x < y (or x <= y, or x == y), else of b; a comparison with NaN is false. */
#if defined(PF_AVX512)
PF_INLINE pf_vf pf_where_lt(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ), (__m512)b,
                                       (__m512)a);
}
PF_INLINE pf_vf pf_where_le(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LE_OQ), (__m512)b,
                                       (__m512)a);
}
PF_INLINE pf_vf pf_where_eq(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_EQ_OQ), (__m512)b,
                                       (__m512)a);
}
#elif defined(PF_AVX2)
PF_INLINE pf_vf pf_where_lt(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_LT_OQ));
}
PF_INLINE pf_vf pf_where_le(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_LE_OQ));
}
PF_INLINE pf_vf pf_where_eq(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_EQ_OQ));
}
#else
PF_INLINE pf_vf pf_where_eq(pf_vf x, pf_vf y, pf_vf a, pf_vf b) { return pf_select(x == y, a, b); }
PF_INLINE pf_vf pf_where_lt(pf_vf x, pf_vf y, pf_vf a, pf_vf b) { return pf_select(x < y, a, b); }
PF_INLINE pf_vf pf_where_le(pf_vf x, pf_vf y, pf_vf a, pf_vf b) { return pf_select(x <= y, a, b); }
#endif

PF_INLINE pf_vf pf_vabs(pf_vf x) { return (pf_vf)((pf_vi)x & pf_seti(0x7fffffff)); }
/* Magnitude of a non-negative a, sign of s. */
PF_INLINE pf_vf pf_vsigned(pf_vf a, pf_vf s) { return (pf_vf)((pf_vi)a | ((pf_vi)s & pf_seti(INT32_MIN))); }

/* c[0] + c[1] x + … of the given degree; degrees are literals, so the loop disappears. */
PF_INLINE pf_vf pf_polynomial(pf_vf x, const float *c, int degree) {
    pf_vf p = pf_set(c[degree]);
#pragma GCC unroll 16
    for (int i = degree - 1; i >= 0; i--) p = pf_fma(p, x, pf_set(c[i]));
    return p;
}
/* factor times the same in x step; both are powers of two or their negatives, and cost nothing. */
PF_INLINE pf_vf pf_polynomial_scaled(pf_vf x, const float *c, int degree, float factor, float step) {
    float scale[16] = {factor};
#pragma GCC unroll 16
    for (int i = 1; i <= degree; i++) scale[i] = scale[i - 1] * step;
    pf_vf p = pf_set(c[degree] * scale[degree]);
#pragma GCC unroll 16
    for (int i = degree - 1; i >= 0; i--) p = pf_fma(p, x, pf_set(c[i] * scale[i]));
    return p;
}
#define PF_DEGREE(table)        ((int)(sizeof(table) / sizeof(table)[0]) - 1)
#define PF_POLYNOMIAL(x, table) pf_polynomial(x, table, PF_DEGREE(table))
#define PF_POLYNOMIAL_SCALED(x, table, factor, step)                                                         \
    pf_polynomial_scaled(x, table, PF_DEGREE(table), factor, step)

/* Minimum and maximum of PyTorch: NaN in either operand gives NaN. */
PF_INLINE pf_vf pf_minimum(pf_vf a, pf_vf b) { return pf_nanmin(b, a); }
PF_INLINE pf_vf pf_maximum(pf_vf a, pf_vf b) { return pf_nanmax(b, a); }
/* Bounds that are not NaN: x keeps its NaN, being the second operand. */
PF_INLINE pf_vf pf_clip(pf_vf x, pf_vf low, pf_vf high) { return pf_vmin(high, pf_vmax(low, x)); }

/* x in [-limit, limit]; of NaN some number in it. */
PF_INLINE pf_vf pf_within(pf_vf x, float limit) {
#if defined(PF_AVX512)
    return (pf_vf)_mm512_range_ps((__m512)x, (__m512)pf_set(limit), 2);
#else
    return pf_clip(x, pf_set(-limit), pf_set(limit));
#endif
}

/* 2^n for n in [-126, 127]; for others, which NaN and infinity lead to, some number. */
PF_INLINE pf_vf pf_exponent(pf_vi n) { return (pf_vf)(((pf_vu)n + 127u) << 23); }

/* An integral value below 2^22 in magnitude as an integer. */
PF_INLINE pf_vi pf_integer(pf_vf n) {
#if defined(PF_AVX512) || defined(PF_AVX2)
    return pf_toint(n);
#else
    return (pf_vi)(n + pf_set(12582912.0f)) - 0x4b400000;
#endif
}

/* p 2^n, where n has an integral value in [-252, 254]; the result may overflow or be denormal. */
PF_INLINE pf_vf pf_scale(pf_vf p, pf_vf n) {
#if defined(PF_AVX512)
    return (pf_vf)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    /* In two steps, so that neither factor leaves the normal numbers and the result is rounded once. */
    const pf_vi i = pf_integer(n), half = i >> 1;
    return p * pf_exponent(half) * pf_exponent(i - half);
#endif
}

/* Nearest integer of |x| < 2^22, by the rounding of an addition. */
PF_INLINE pf_vf pf_nearest(pf_vf x) {
#if defined(PF_AVX512) || defined(PF_AVX2)
    return pf_vround(x);
#else
    const pf_vf shift = pf_set(12582912.0f);
    return (x + shift) - shift;
#endif
}

#define PF_LOG2E    1.44269504f
#define PF_LOG2E_LO 1.92596303e-08f
#define PF_LN2_HI   0.693145751953125f
#define PF_LN2_LO   1.42860677e-06f
#define PF_LN2      0.693147181f

/* x = n ln 2 + r with |r| <= ln 2 / 2, for x in the range where exp is finite. */
PF_INLINE pf_vf pf_reduce_ln2(pf_vf x, pf_vf *n) {
    *n = pf_nearest(x * pf_set(PF_LOG2E));
    return pf_fma(*n, pf_set(-PF_LN2_LO), pf_fma(*n, pf_set(-PF_LN2_HI), x));
}

PF_INLINE pf_vf pf_exp_reduced(pf_vf r) {
    return pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXP_P), r) + pf_set(1.0f);
}

/* Powers of two in one step: n is the integer nearest to x factor + lift, in [-127, 128], and the result what
 * to multiply by to scale by 2^n. The lowest scales to zero and the highest to infinity. */
PF_INLINE pf_vf pf_power_lifted(pf_vf x, float factor, float lift, pf_vf *n) {
    /* The lowest bits of the sum are the biased exponent. */
    const float shift = 12582912.0f + 127.0f + lift;
    const pf_vf t = pf_fma(x, pf_set(factor), pf_set(shift));
    *n = t - shift;
    return (pf_vf)((pf_vu)t << 23);
}
PF_INLINE pf_vf pf_power(pf_vf x, float factor, pf_vf *n) { return pf_power_lifted(x, factor, 0.0f, n); }

/* exp of it becomes zero, as of all that would be denormal but for numbers close to the last normal one: some
 * processors take sixty times as long where a lane is denormal, in whatever reads it, too. */
#define PF_EXP_LOWEST -88.0f

/* x - n ln 2. */
PF_INLINE pf_vf pf_power_rest(pf_vf x, pf_vf n) {
    return pf_fma(n, pf_set(-PF_LN2_LO), pf_fma(n, pf_set(-PF_LN2_HI), x));
}

PF_INLINE pf_vf pf_vexp(pf_vf x) {
    pf_vf n;
    x = pf_clip(x, pf_set(-104.0f), pf_set(89.0f));
#if defined(PF_AVX512)
    const pf_vf r = pf_reduce_ln2(x, &n);
    return pf_scale(pf_exp_reduced(r), n);
#else
    /* Half the power, so that n = 128 can be expressed. Denormal results, which are rare, take two steps;
     * others are the same in either way. */
    const pf_vf half = pf_power_lifted(x, PF_LOG2E, -1.0f, &n), r = pf_power_rest(x, n);
    if (__builtin_expect(pf_any(x < -86.0f), 0)) return pf_scale(pf_exp_reduced(r), n);
    const pf_vf y = pf_fma(pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXP_P), r), half, half);
    return y + y;
#endif
}

/* exp of x <= 40 or NaN. */
PF_INLINE pf_vf pf_exp_moderate(pf_vf x) {
    pf_vf n;
    x = pf_vmax(pf_set(-104.0f), x);
#if defined(PF_AVX512)
    const pf_vf r = pf_reduce_ln2(x, &n);
    return pf_scale(pf_exp_reduced(r), n);
#else
    /* Lifted, so that a denormal result is rounded once. */
    const pf_vf power = pf_power_lifted(x, PF_LOG2E, 64.0f, &n);
    return pf_exp_reduced(pf_power_rest(x, n)) * power * 0x1p-64f;
#endif
}

/* exp of x <= 88 or NaN; where that is no normal number it may be zero, as it is of -inf. */
PF_INLINE pf_vf pf_exp_flushed(pf_vf x) {
    pf_vf n;
    x = pf_vmax(pf_set(PF_EXP_LOWEST), x);
    const pf_vf power = pf_power(x, PF_LOG2E, &n);
    return pf_exp_reduced(pf_power_rest(x, n)) * power;
}

/* The same of x <= 0 or NaN, one of many that are added up, times 2^lift: its relative error is 1e-7 + 2e-8
 * |x|. */
PF_INLINE pf_vf pf_exp_lifted(pf_vf x, float lift) {
    pf_vf n;
    x = pf_vmax(pf_set(PF_EXP_LOWEST - lift * 0.693147181f), x);
    const pf_vf power = pf_power_lifted(x, PF_LOG2E, lift, &n), r = pf_fma(x, pf_set(PF_LOG2E), -n);
    return pf_fma(PF_POLYNOMIAL(r, PF_EXP2_P), r, pf_set(1.0f)) * power;
}
PF_INLINE pf_vf pf_exp_term(pf_vf x) { return pf_exp_lifted(x, 0.0f); }

PF_INLINE pf_vf pf_vexp2(pf_vf x) {
    x = pf_clip(x, pf_set(-151.0f), pf_set(129.0f));
    const pf_vf n = pf_nearest(x);
    return pf_scale(pf_exp_reduced((x - n) * pf_set(0.693147181f)), n);
}

PF_INLINE pf_vf pf_vexpm1(pf_vf x) {
    pf_vf n;
    const pf_vf r = pf_reduce_ln2(pf_clip(x, pf_set(-18.0f), pf_set(89.0f)), &n);
    const pf_vf p = pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXPM1_P), r);
    /* 2^n p + 2^n - 1, halved so that n = 128 can be expressed. */
    const pf_vf t = pf_exponent(pf_less(pf_integer(n), 1));
    const pf_vf y = pf_fma(t, p, t - pf_set(0.5f)) * 2.0f;
    /* A sum has no negative zero, and NaN no exponent. */
    return pf_select((x == 0.0f) | (x != x), x, pf_select(n == 0.0f, p, y));
}

/* e ln 2 + log(1 + f) for f in [√½ - 1, √2 - 1], times a factor. */
PF_INLINE pf_vf pf_log_reduced(pf_vf f, pf_vf e, float unit_hi, float unit_lo, float factor) {
    const pf_vf z = f * f;
    pf_vf y = pf_fma(z * f, PF_POLYNOMIAL(f, PF_LOG_P), z * -0.5f);
    if (factor == 1.0f) {
        y = pf_fma(e, pf_set(unit_lo), y) + f;
    } else {
        y = pf_fma(e, pf_set(unit_lo), (y + f) * factor);
    }
    return pf_fma(e, pf_set(unit_hi), y);
}

/* x > 0 as 2^e (1 + f); denormals are scaled up first. */
PF_INLINE pf_vf pf_split(pf_vf x, pf_vf *e) {
    const pf_vi tiny = x < 1.17549435e-38f;
    const pf_vf scaled = pf_select(tiny, x * 8388608.0f, x);
    const pf_vi bits = pf_less((pf_vi)scaled, 0x3f3504f3); /* √½ */
    *e = pf_tofloat((bits >> 23) - (tiny & 23));
    return (pf_vf)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
}

/* Results of a logarithm where its argument is zero, negative, infinite or NaN. */
PF_INLINE pf_vf pf_log_special(pf_vf x, pf_vf y) {
    const pf_vf infinity = pf_set(INFINITY);
    y = pf_where_lt(x, infinity, y, x);
    y = pf_where_lt(x, pf_zero(), pf_set(NAN), y);
    return pf_select(x == 0.0f, -infinity, y);
}

PF_INLINE pf_vf pf_vlog(pf_vf x) {
    pf_vf e;
    const pf_vf f = pf_split(x, &e);
    return pf_log_special(x, pf_log_reduced(f, e, PF_LN2_HI, PF_LN2_LO, 1.0f));
}

PF_INLINE pf_vf pf_vlog2(pf_vf x) {
    pf_vf e;
    const pf_vf f = pf_split(x, &e);
    return pf_log_special(x, pf_log_reduced(f, e, 1.0f, 0.0f, PF_LOG2E));
}

PF_INLINE pf_vf pf_vlog10(pf_vf x) {
    pf_vf e;
    const pf_vf f = pf_split(x, &e);
    return pf_log_special(x, pf_log_reduced(f, e, 0.301025391f, 4.60503907e-06f, 0.434294482f));
}

/* log(1 + x) for finite x > -1: the rounding error of 1 + x is given back to the reduced argument. */
PF_INLINE pf_vf pf_log1p_finite(pf_vf x) {
    const pf_vf u = x + 1.0f, part = u - 1.0f, lost = (x - part) + (1.0f - (u - part));
    const pf_vi bits = pf_less((pf_vi)u, 0x3f3504f3), e = bits >> 23;
    /* 2^-e, or 0 where that is denormal: the lost part is without effect there. */
    const pf_vi biased = 127 - e, kept = biased & ~(biased >> 31);
    const pf_vf m = (pf_vf)((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
    return pf_log_reduced(pf_fma(lost, (pf_vf)(kept << 23), m), pf_tofloat(e), PF_LN2_HI, PF_LN2_LO, 1.0f);
}

PF_INLINE pf_vf pf_vlog1p(pf_vf x) {
    const pf_vf y = pf_where_lt(x, pf_set(INFINITY), pf_log1p_finite(x), x);
    const pf_vf outside = pf_select(x == -1.0f, pf_set(-INFINITY), pf_set(NAN));
    return pf_select(x == 0.0f, x, pf_where_lt(pf_set(-1.0f), x, y, outside));
}

#if PF_VL >= 8
/* Powers of two by a table in a register. x factor = n + i / PF_VL + rest with whole n and i, and a small
 * rest: the low bits of t are i, those above it n. The result is 2^(n + lift) times the root that i picks;
 * that of the rest is 1 + rest P(rest) with PF_ROOT_EXCESS_P. factor_low: what the factor lacks, or 0 to do
 * without.
 */
PF_INLINE pf_vf pf_power_rooted(pf_vf x, float factor, float factor_low, float lift, pf_vf *rest) {
    enum { ABOVE = PF_VL == 16 ? 19 : 20 };
    const pf_vf shift = pf_set(1.5f * (1 << ABOVE) + lift), t = pf_fma(x, pf_set(factor), shift);
    *rest = pf_fma(x, pf_set(factor), shift - t);
    if (factor_low != 0.0f) *rest = pf_fma(x, pf_set(factor_low), *rest);
    /* Unsigned: of NaN, any bits may stand there. */
    return (pf_vf)((pf_vu)pf_permute(pf_load(PF_ROOTS), (pf_vi)t) + ((pf_vu)t << ABOVE));
}
#endif

/* 1 + exp(-x) for x in the range below, or NaN; infinite where the exponential is. Half of the power, and
 * twice the exponential of the rest, so that n = 128 can be expressed. */
PF_INLINE pf_vf pf_one_plus_exp_bounded(pf_vf x) {
#if PF_VL >= 8
    pf_vf rest;
    const pf_vf power = pf_power_rooted(x, -PF_LOG2E, -PF_LOG2E_LO, -1.0f, &rest);
    const pf_vf twice = pf_fma(PF_POLYNOMIAL_SCALED(rest, PF_ROOT_EXCESS_P, 2.0f, 1.0f), rest, pf_set(2.0f));
#else
    pf_vf n;
    const pf_vf power = pf_power_lifted(x, -PF_LOG2E, -1.0f, &n), p = pf_exp_reduced(pf_power_rest(-x, n));
    const pf_vf twice = p + p;
#endif
    return pf_fma(twice, power, pf_set(1.0f));
}

/* x where 1 + exp(-x) differs from one and from infinity, and further, but no half of it is denormal; of NaN
 * some number. */
PF_INLINE pf_vf pf_within_exp(pf_vf x) { return pf_clip(x, pf_set(-89.0f), pf_set(80.0f)); }

PF_INLINE pf_vf pf_one_plus_exp_negated(pf_vf x) { return pf_one_plus_exp_bounded(pf_within_exp(x)); }

/* exp(-|x|) never overflows, so both halves keep full accuracy; but exp(-x) does only where results are
 * denormal. */
PF_INLINE pf_vf pf_vsigmoid(pf_vf x) {
    if (__builtin_expect(pf_any(x < -87.0f), 0)) {
        const pf_vf e = pf_exp_moderate(-pf_vabs(x));
        return pf_where_lt(x, pf_zero(), e, pf_set(1.0f)) / (e + 1.0f);
    }
    return 1.0f / pf_one_plus_exp_bounded(pf_vmin(pf_set(80.0f), x));
}

PF_INLINE pf_vf pf_vsilu(pf_vf x) { return x / pf_one_plus_exp_negated(x); }

/* 2t / (1 + t²) for t = u / d, as a tangent is found from that of half its argument. Functions that tend to 1
 * take it of quotients that do, because there errors of u and d vanish, and one division is enough. */
PF_INLINE pf_vf pf_of_half(pf_vf u, pf_vf d) {
    return pf_clip((u + u) * d / pf_fma(d, d, u * u), pf_set(-1.0f), pf_set(1.0f));
}

/* At the bound, and so beyond it, the result is 1. */
PF_INLINE pf_vf pf_vtanh(pf_vf x) {
    x = pf_clip(x, pf_set(-9.05f), pf_set(9.05f));
    const pf_vf z = x * x, u = pf_fma(x, PF_POLYNOMIAL(z, PF_TANH_P), x);
    return pf_of_half(u, PF_POLYNOMIAL_SCALED(z, PF_TANH_Q, 2.0f, 1.0f));
}

PF_INLINE pf_vf pf_verf(pf_vf x) {
    x = pf_clip(x, pf_set(-4.05f), pf_set(4.05f));
    const pf_vf z = x * x, u = pf_fma(x, PF_POLYNOMIAL(z, PF_ERF_P), x);
    return pf_of_half(u, PF_POLYNOMIAL_SCALED(z, PF_ERF_Q, 2.0f, 1.0f));
}

/* max(x, 0) - |x| Φ(-|x|): the tail is computed as such and keeps its digits. */
#if defined(PF_AVX512)
/* Coefficients of all pieces, two registers a power. A loop makes them once. */
typedef struct pf_gelu_table {
    pf_vf low[7], high[7];
} pf_gelu_table;

PF_INLINE pf_gelu_table pf_gelu_load(void) {
    pf_gelu_table t;
#    pragma GCC unroll 8
    for (int i = 0; i < 7; i++) {
        t.low[i] = pf_load(PF_GELU_PIECES[i]);
        t.high[i] = pf_load(PF_GELU_PIECES[i] + 16);
    }
    return t;
}

/* Of one power, for the pieces that the low bits of n number. */
PF_INLINE pf_vf pf_gelu_piece(const pf_gelu_table *table, int power, pf_vf n) {
    return (pf_vf)_mm512_permutex2var_ps((__m512)table->low[power], (__m512i)n, (__m512)table->high[power]);
}

PF_INLINE pf_vf pf_gelu_by(const pf_gelu_table *table, pf_vf x) {
    /* The last piece, to which the bound leads, is zero. */
    const float width = 0.21875f, shift = 12582912.0f;
    const pf_vf t = pf_vmax(pf_set(-31 * width), (pf_vf)((pf_vi)x | pf_seti(INT32_MIN)));
    const pf_vf n = pf_fma(t, pf_set(-1 / width), pf_set(shift));
    const pf_vf d = pf_fma(n - pf_set(shift), pf_set(width), t);
    /* Pairs of powers, so that the sum is no long chain. */
    const pf_vf square = d * d;
    pf_vf tail = pf_gelu_piece(table, 6, n);
#    pragma GCC unroll 4
    for (int i = 4; i >= 0; i -= 2)
        tail = pf_fma(tail, square, pf_fma(pf_gelu_piece(table, i + 1, n), d, pf_gelu_piece(table, i, n)));
    /* -inf times 0 is NaN, as the product form has it. */
    return pf_fma(pf_vmin(t, x), tail, pf_vmax(pf_zero(), x));
}

PF_INLINE pf_vf pf_vgelu(pf_vf x) {
    const pf_gelu_table table = pf_gelu_load();
    return pf_gelu_by(&table, x);
}
#else
PF_INLINE pf_vf pf_vgelu(pf_vf x) {
    /* At the bound the exponential is zero. */
    const pf_vf t = pf_vmax(pf_set(-13.27f), (pf_vf)((pf_vi)x | pf_seti(INT32_MIN)));
    const pf_vf square = t * t;
    pf_vf n;
    const pf_vf power = pf_power(square, -0.5f * PF_LOG2E, &n);
    /* Twice the negated exponent, with what rounding took from the square or from the product. */
#    if defined(PF_AVX2) || defined(__aarch64__)
    const pf_vf lost = pf_fma(t, t, -square), r = pf_fma(n, pf_set(2 * PF_LN2), square) + lost;
#    else
    const pf_vf r = (square + n * (2 * PF_LN2_HI)) + n * (2 * PF_LN2_LO);
#    endif
    const pf_vf e = pf_fma(PF_POLYNOMIAL_SCALED(r, PF_EXP_SHORT_P, -0.5f, -0.5f), r, pf_set(1.0f));
    const pf_vf above = PF_POLYNOMIAL_SCALED(t, PF_GELU_P, 1.0f, -1.0f);
    const pf_vf below = PF_POLYNOMIAL_SCALED(t, PF_GELU_Q, 1.0f, -1.0f);
    const pf_vf tail = e * power * (above / below);
    /* -inf times 0 is NaN, as the product form has it. */
    return pf_fma(pf_vmin(t, x), tail, pf_vmax(pf_zero(), x));
}
#endif

PF_INLINE pf_vf pf_vgelu_tanh(pf_vf x) {
    const pf_vf z = x * x;
    const pf_vf u = x * pf_fma(z, pf_set(0.0713548163f), pf_set(1.59576912f));
    return x / pf_one_plus_exp_negated(u);
}

/* x tanh(softplus x) = x w / (w + 2) with w = e^x (e^x + 2). */
PF_INLINE pf_vf pf_vmish(pf_vf x) {
    const pf_vf e = pf_exp_moderate(pf_vmin(pf_set(20.0f), x)), w = e * (e + 2.0f);
    const pf_vf y = x * (w / (w + 2.0f));
    return pf_where_lt(pf_set(20.0f), x, x, y);
}

PF_INLINE pf_vf pf_vrelu(pf_vf x) { return pf_vmax(pf_zero(), x); }

PF_INLINE pf_vf pf_vleaky_relu(pf_vf x, pf_vf slope) { return pf_where_lt(pf_zero(), x, x, x * slope); }

PF_INLINE pf_vf pf_vhardsigmoid(pf_vf x) { return pf_clip(x + 3.0f, pf_zero(), pf_set(6.0f)) * 0.166666667f; }

PF_INLINE pf_vf pf_vhardswish(pf_vf x) { return x * pf_vhardsigmoid(x); }

PF_INLINE pf_vf pf_vsoftplus(pf_vf x, pf_vf beta, pf_vf threshold) {
    const pf_vf scaled = x * beta;
    const pf_vf y =
        pf_log1p_finite(pf_exp_flushed(pf_vmin(pf_vmin(pf_set(88.0f), threshold), scaled))) / beta;
    return pf_where_lt(threshold, scaled, x, y);
}

PF_INLINE pf_vf pf_vlogsigmoid(pf_vf x) {
    return pf_vmin(pf_zero(), x) - pf_log1p_finite(pf_exp_flushed(-pf_vabs(x)));
}

#endif
