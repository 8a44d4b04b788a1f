/* Vector exp, log and the activations built on them, for every ISA level, over the whole range of float: NaN
 * gives NaN, infinities and overflow are those of the exact function. Used by element-wise kernels and by the
 * epilogues of matrix kernels; knows no memory.
 *
 * Error bounds in units in the last place where the result is a normal number (of silu and mish: above
 * 1e-36):
 *
 * - 1: exp, exp2, log;
 * - 2: expm1, log2, log10, erf;
 * - 3: log1p, sigmoid, tanh, softplus, logsigmoid, hardsigmoid, hardswish; 4: silu;
 * - 5: gelu, mish, while the result is above 1e-7 in magnitude (gelu 12 without fused multiply-add).
 *
 * Further out in their negative tails gelu stays within 1e-5 and gelu_tanh within 2e-5 of the result; with
 * AVX-512 gelu ends at -6.67, where it is -9e-11. */
#ifndef PF_KERNELS_VMATH_H
#define PF_KERNELS_VMATH_H

#include "kernels/simd.h"
#include "kernels/vmath_coefficients.h"

/* Lanes of a where x < y (or x <= y), else of b; a comparison with NaN is false. */
#if defined(PF_AVX512)
PF_INLINE pf_vf pf_where_lt(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ), (__m512)b,
                                       (__m512)a);
}
PF_INLINE pf_vf pf_where_le(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LE_OQ), (__m512)b,
                                       (__m512)a);
}
#elif defined(PF_AVX2)
PF_INLINE pf_vf pf_where_lt(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_LT_OQ));
}
PF_INLINE pf_vf pf_where_le(pf_vf x, pf_vf y, pf_vf a, pf_vf b) {
    return (pf_vf)_mm256_blendv_ps((__m256)b, (__m256)a, _mm256_cmp_ps((__m256)x, (__m256)y, _CMP_LE_OQ));
}
#else
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
#define PF_POLYNOMIAL(x, table) pf_polynomial(x, table, (int)(sizeof(table) / sizeof(table)[0]) - 1)

/* Minimum and maximum of PyTorch: NaN in either operand gives NaN. */
PF_INLINE pf_vf pf_minimum(pf_vf a, pf_vf b) { return pf_select(a != a, a, pf_vmin(a, b)); }
PF_INLINE pf_vf pf_maximum(pf_vf a, pf_vf b) { return pf_select(a != a, a, pf_vmax(a, b)); }
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

#define PF_LOG2E  1.44269504f
#define PF_LN2_HI 0.693145751953125f
#define PF_LN2_LO 1.42860677e-06f

/* x = n ln 2 + r with |r| <= ln 2 / 2, for x in the range where exp is finite. */
PF_INLINE pf_vf pf_reduce_ln2(pf_vf x, pf_vf *n) {
    *n = pf_nearest(x * pf_set(PF_LOG2E));
    return pf_fma(*n, pf_set(-PF_LN2_LO), pf_fma(*n, pf_set(-PF_LN2_HI), x));
}

PF_INLINE pf_vf pf_exp_reduced(pf_vf r) {
    return pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXP_P), r) + pf_set(1.0f);
}

PF_INLINE pf_vf pf_vexp(pf_vf x) {
    pf_vf n;
    const pf_vf r = pf_reduce_ln2(pf_clip(x, pf_set(-104.0f), pf_set(89.0f)), &n);
    return pf_scale(pf_exp_reduced(r), n);
}

/* exp of x <= 0 or NaN. */
PF_INLINE pf_vf pf_exp_negative(pf_vf x) {
    pf_vf n;
    const pf_vf r = pf_reduce_ln2(pf_vmax(pf_set(-104.0f), x), &n);
    return pf_scale(pf_exp_reduced(r), n);
}

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
    /* Also keeps the sign of zero, and NaN, which has no exponent. */
    return pf_select((n == 0.0f) | (x != x), p, y);
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

/* 1 + exp(-x) for x in [-104, 104] or NaN; infinite where its inverse is below 1e-38. */
PF_INLINE pf_vf pf_one_plus_exp_bounded(pf_vf x) {
    const pf_vf n = pf_nearest(x * pf_set(-PF_LOG2E));
    const pf_vf r = pf_fma(n, pf_set(-PF_LN2_LO), pf_fma(n, pf_set(-PF_LN2_HI), -x));
    return pf_scale(pf_fma(PF_POLYNOMIAL(r, PF_EXP_SHORT_P), r, pf_set(1.0f)), n) + 1.0f;
}

/* The same for any x; of NaN some number. */
PF_INLINE pf_vf pf_one_plus_exp_negated(pf_vf x) { return pf_one_plus_exp_bounded(pf_within(x, 104.0f)); }

/* exp(-|x|) never overflows, so both halves keep full accuracy. */
PF_INLINE pf_vf pf_vsigmoid(pf_vf x) {
    const pf_vf e = pf_exp_negative(-pf_vabs(x));
    return pf_where_lt(x, pf_zero(), e, pf_set(1.0f)) / (e + 1.0f);
}

PF_INLINE pf_vf pf_vsilu(pf_vf x) { return x / pf_one_plus_exp_negated(x); }

/* t / (t + 2) with t = exp(2 |x|) - 1, which keeps the digits of small arguments and reaches 1 exactly. */
PF_INLINE pf_vf pf_vtanh(pf_vf x) {
    pf_vf n;
    const pf_vf a = pf_vmin(pf_set(20.0f), pf_vabs(x + x)), r = pf_reduce_ln2(a, &n);
    const pf_vf p = pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXPM1_P), r), scale = pf_exponent(pf_integer(n));
    const pf_vf t = pf_fma(scale, p, scale - 1.0f);
    return pf_vsigned(t / (t + 2.0f), x);
}

PF_INLINE pf_vf pf_verf(pf_vf x) {
    const pf_vf a = pf_vmin(pf_set(4.0f), pf_vabs(x)), z = a * a;
    const pf_vf inner = pf_fma(a, PF_POLYNOMIAL(z, PF_ERF_P), a);
    const pf_vf outer = 1.0f - pf_vexp(PF_POLYNOMIAL(a, PF_ERFC_P));
    return pf_vsigned(pf_where_lt(a, pf_set(1.0f), inner, outer), x);
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
    const pf_vf t = pf_vmin(pf_set(14.5f), pf_vabs(x)), square = t * t;
    pf_vf e = pf_exp_negative(square * -0.5f);
#    if defined(PF_AVX2)
    /* What rounding of the square took from the exponent. */
    e = pf_fma(e * -0.5f, pf_fma(t, t, -square), e);
#    endif
    const pf_vf tail = e * PF_POLYNOMIAL(t, PF_GELU_P) / PF_POLYNOMIAL(t, PF_GELU_Q);
    const pf_vf y = pf_fma(-t, tail, pf_vmax(pf_zero(), x));
    /* -inf times 0, as the product form has it. */
    return pf_where_lt(x, pf_set(-3.4028234e38f), pf_set(NAN), y);
}
#endif

PF_INLINE pf_vf pf_vgelu_tanh(pf_vf x) {
    const pf_vf z = x * x;
    const pf_vf u = x * pf_fma(z, pf_set(0.0713548163f), pf_set(1.59576912f));
    return x / pf_one_plus_exp_negated(u);
}

/* x tanh(softplus x) = x w / (w + 2) with w = e^x (e^x + 2). */
PF_INLINE pf_vf pf_vmish(pf_vf x) {
    const pf_vf e = pf_vexp(pf_vmin(pf_set(20.0f), x)), w = e * (e + 2.0f);
    const pf_vf y = x * (w / (w + 2.0f));
    return pf_where_lt(pf_set(20.0f), x, x, y);
}

PF_INLINE pf_vf pf_vrelu(pf_vf x) { return pf_vmax(pf_zero(), x); }

PF_INLINE pf_vf pf_vleaky_relu(pf_vf x, pf_vf slope) { return pf_where_lt(pf_zero(), x, x, x * slope); }

PF_INLINE pf_vf pf_vhardsigmoid(pf_vf x) { return pf_clip(x + 3.0f, pf_zero(), pf_set(6.0f)) * 0.166666667f; }

PF_INLINE pf_vf pf_vhardswish(pf_vf x) { return x * pf_vhardsigmoid(x); }

PF_INLINE pf_vf pf_vsoftplus(pf_vf x, pf_vf beta, pf_vf threshold) {
    const pf_vf scaled = x * beta;
    const pf_vf y = pf_log1p_finite(pf_vexp(pf_vmin(pf_vmin(pf_set(88.0f), threshold), scaled))) / beta;
    return pf_where_lt(threshold, scaled, x, y);
}

PF_INLINE pf_vf pf_vlogsigmoid(pf_vf x) {
    return pf_vmin(pf_zero(), x) - pf_log1p_finite(pf_exp_negative(-pf_vabs(x)));
}

#endif
