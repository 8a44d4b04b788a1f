/* Trigonometric and hyperbolic vector functions and their inverses, lengths and the complement of the error
 * function, over the whole range of float. Used by the expression VM. Error bounds in units in the last
 * place: sinh, cosh, acos, hypot 2; sin, cos, asin, atan, asinh, acosh 3; tan, atan2, atanh 4; erfc 6. */
#ifndef PF_KERNELS_VMATH_TRIG_H
#define PF_KERNELS_VMATH_TRIG_H

#include "kernels/vmath.h"

/* y with the lanes of mask replaced by f of those lanes of x. */
static __attribute__((noinline, unused)) pf_vf pf_replace_lanes(pf_vf y, pf_vi mask, pf_vf x,
                                                                float (*f)(float)) {
    float ys[PF_VL], xs[PF_VL];
    int32_t ms[PF_VL];
    pf_store(ys, y);
    pf_store(xs, x);
    pf_storei(ms, mask);
    for (int i = 0; i < PF_VL; i++)
        if (ms[i]) ys[i] = f(xs[i]);
    return pf_load(ys);
}

/* Beyond this the parts of π/2 below have too few bits; the C library takes over. */
#define PF_TRIG_LIMIT 8000.0f

/* x = n π/2 + r with |r| <= π/4. The first three parts have 11 bits, so their products with n are exact. */
PF_INLINE pf_vf pf_reduce_pio2(pf_vf x, pf_vi *n) {
    const pf_vf q = pf_nearest(x * 0.636619772f);
    pf_vf r = pf_fma(q, pf_set(-0x1.92p+0f), x);
    r = pf_fma(q, pf_set(-0x1.fb4p-12f), r);
    r = pf_fma(q, pf_set(-0x1.444p-24f), r);
    r = pf_fma(q, pf_set(-0x1.68c234p-39f), r);
    *n = pf_integer(q);
    return r;
}

PF_INLINE pf_vf pf_sin_reduced(pf_vf r, pf_vf z) { return pf_fma(r * z, PF_POLYNOMIAL(z, PF_SIN_P), r); }
PF_INLINE pf_vf pf_cos_reduced(pf_vf z) {
    return pf_fma(z * z, PF_POLYNOMIAL(z, PF_COS_P), pf_fma(z, pf_set(-0.5f), pf_set(1.0f)));
}

/* sin of x + quarter π/2. */
PF_INLINE pf_vf pf_sin_shifted(pf_vf x, int32_t quarter) {
    const pf_vi far = ~(pf_vabs(x) < PF_TRIG_LIMIT);
    pf_vi n;
    const pf_vf r = pf_reduce_pio2(pf_select(far, pf_zero(), x), &n), z = r * r;
    n += quarter;
    const pf_vf y = pf_select((n & 1) == 0, pf_sin_reduced(r, z), pf_cos_reduced(z));
    const pf_vf signed_y = (pf_vf)((pf_vi)y ^ ((n & 2) << 30));
    if (__builtin_expect(pf_any(far), 0)) return pf_replace_lanes(signed_y, far, x, quarter ? cosf : sinf);
    return signed_y;
}

PF_INLINE pf_vf pf_vsin(pf_vf x) { return pf_select(x == 0.0f, x, pf_sin_shifted(x, 0)); }
PF_INLINE pf_vf pf_vcos(pf_vf x) { return pf_sin_shifted(x, 1); }

PF_INLINE pf_vf pf_vtan(pf_vf x) {
    const pf_vi far = ~(pf_vabs(x) < PF_TRIG_LIMIT);
    pf_vi n;
    const pf_vf r = pf_reduce_pio2(pf_select(far, pf_zero(), x), &n), z = r * r;
    const pf_vf s = pf_sin_reduced(r, z), c = pf_cos_reduced(z);
    const pf_vi odd = (n & 1) != 0;
    const pf_vf y = pf_select(x == 0.0f, x, pf_select(odd, -c, s) / pf_select(odd, s, c));
    if (__builtin_expect(pf_any(far), 0)) return pf_replace_lanes(y, far, x, tanf);
    return y;
}

#define PF_PIO2_HI 1.57079637f
#define PF_PIO2_LO -4.37113883e-08f

/* asin of the magnitude: s + s z A(z), for a > ½ of sqrt((1 - a)/2), to be doubled and taken from π/2. */
PF_INLINE pf_vf pf_asin_part(pf_vf a, pf_vi big) {
    const pf_vf z = pf_select(big, (1.0f - a) * 0.5f, a * a), s = pf_select(big, pf_vsqrt(z), a);
    return pf_fma(s * z, PF_POLYNOMIAL(z, PF_ASIN_P), s);
}

PF_INLINE pf_vf pf_vasin(pf_vf x) {
    const pf_vf a = pf_vabs(x);
    const pf_vi big = a > 0.5f;
    const pf_vf p = pf_asin_part(a, big);
    const pf_vf y = pf_select(big, PF_PIO2_HI - (p + p - PF_PIO2_LO), p);
    return (pf_vf)((pf_vi)y ^ ((pf_vi)x & INT32_MIN));
}

PF_INLINE pf_vf pf_vacos(pf_vf x) {
    const pf_vf a = pf_vabs(x);
    const pf_vi big = a > 0.5f, negative = x < 0.0f;
    const pf_vf p = pf_asin_part(a, big), doubled = p + p;
    const pf_vf outer = pf_select(negative, 2 * PF_PIO2_HI - (doubled - 2 * PF_PIO2_LO), doubled);
    const pf_vf inner = PF_PIO2_HI - (pf_select(negative, -p, p) - PF_PIO2_LO);
    return pf_select(big, outer, inner);
}

/* atan(low / high) for 0 <= low <= high, as a value in [0, π/4]. */
PF_INLINE pf_vf pf_atan_ratio(pf_vf low, pf_vf high) {
    /* Equal operands, infinite ones among them, and two zeros have no quotient. */
    const pf_vi zero = high == 0.0f, equal = (low == high) & ~zero,
                upper = (low > high * 0.414213562f) | equal;
    pf_vf q = pf_select(upper, low - high, low) / pf_select(upper, low + high, high);
    q = pf_select(equal | zero, pf_zero(), q);
    const pf_vf z = q * q, y = pf_fma(q * z, PF_POLYNOMIAL(z, PF_ATAN_P), q);
    return pf_select(upper, PF_PIO2_HI * 0.5f + (y + PF_PIO2_LO * 0.5f), y);
}

PF_INLINE pf_vf pf_vatan(pf_vf x) {
    const pf_vf a = pf_vabs(x), one = pf_set(1.0f);
    const pf_vf y = pf_atan_ratio(pf_vmin(a, one), pf_vmax(a, one));
    const pf_vf turned = pf_where_lt(one, a, PF_PIO2_HI - (y - PF_PIO2_LO), y);
    return pf_select(x != x, x, pf_vsigned(turned, x));
}

PF_INLINE pf_vf pf_vatan2(pf_vf y, pf_vf x) {
    const pf_vf ay = pf_vabs(y), ax = pf_vabs(x);
    /* So that the sum of two huge operands stays finite. */
    const pf_vf shrink = pf_where_lt(pf_set(1e38f), pf_vmax(ax, ay), pf_set(0.25f), pf_set(1.0f));
    pf_vf r = pf_atan_ratio(pf_vmin(ax, ay) * shrink, pf_vmax(ax, ay) * shrink);
    r = pf_where_lt(ax, ay, PF_PIO2_HI - (r - PF_PIO2_LO), r);
    r = pf_select((pf_vi)x < 0, 2 * PF_PIO2_HI - (r - 2 * PF_PIO2_LO), r);
    return pf_select((x != x) | (y != y), x + y, pf_vsigned(r, y));
}

/* exp(a)/2 for a >= 0, which is finite a little longer than exp(a). */
PF_INLINE pf_vf pf_half_exp(pf_vf a) {
    pf_vf n;
    const pf_vf r = pf_reduce_ln2(pf_vmin(pf_set(91.0f), a), &n);
    return pf_scale(pf_exp_reduced(r), n - 1.0f);
}

PF_INLINE pf_vf pf_vcosh(pf_vf x) {
    const pf_vf e = pf_half_exp(pf_vabs(x));
    return e + 0.25f / e;
}

PF_INLINE pf_vf pf_vsinh(pf_vf x) {
    const pf_vf a = pf_vabs(x), z = a * a, e = pf_half_exp(a);
    const pf_vf small = pf_fma(a * z, PF_POLYNOMIAL(z, PF_SINH_P), a);
    return pf_vsigned(pf_where_lt(a, pf_set(1.0f), small, e - 0.25f / e), x);
}

#define PF_LN2 0.693147181f

PF_INLINE pf_vf pf_vasinh(pf_vf x) {
    const pf_vf a = pf_vabs(x), z = a * a;
    const pf_vi big = a > 1e10f;
    const pf_vf t = pf_select(big, a, a + z / (1.0f + pf_vsqrt(z + 1.0f)));
    return pf_vsigned(pf_vlog1p(t) + pf_select(big, pf_set(PF_LN2), pf_zero()), x);
}

PF_INLINE pf_vf pf_vacosh(pf_vf x) {
    const pf_vi big = x > 1e10f;
    const pf_vf d = x - 1.0f, t = pf_select(big, x, d + pf_vsqrt(d + d + d * d));
    const pf_vf y = pf_vlog1p(t) + pf_select(big, pf_set(PF_LN2), pf_zero());
    return pf_where_lt(x, pf_set(1.0f), pf_set(NAN), y);
}

PF_INLINE pf_vf pf_vatanh(pf_vf x) {
    const pf_vf a = pf_vabs(x);
    return pf_vsigned(0.5f * pf_vlog1p((a + a) / (1.0f - a)), x);
}

/* log(exp a + exp b). */
PF_INLINE pf_vf pf_vlogaddexp(pf_vf a, pf_vf b) {
    /* Equal infinities have no difference. */
    const pf_vf d = pf_select(a == b, pf_zero(), pf_vabs(a - b));
    return pf_vmax(a, b) + pf_log1p_finite(pf_exp_moderate(-d));
}

/* exp(-a²) P/Q for |x|, without the digits that the square would lose: its first half is exact. */
PF_INLINE pf_vf pf_verfc(pf_vf x) {
    const pf_vf a = pf_vmin(pf_set(10.1f), pf_vabs(x)), t = a * 1.41421356f;
    const pf_vf high = (pf_vf)((pf_vi)a & ~0xfff), low = (a - high) * (a + high);
    const pf_vf n = pf_nearest(a * a * -PF_LOG2E);
    const pf_vf r = pf_fma(n, pf_set(-PF_LN2_LO), pf_fma(n, pf_set(-PF_LN2_HI), -(high * high)) - low);
    const pf_vf tail = PF_POLYNOMIAL(t, PF_GELU_P) / PF_POLYNOMIAL(t, PF_GELU_Q);
    const pf_vf y = pf_scale(pf_exp_reduced(r) * (tail + tail), n);
    return pf_where_lt(x, pf_zero(), 2.0f - y, y);
}

/* Scaled so that squares stay normal numbers; infinity wins against NaN. */
PF_INLINE pf_vf pf_vhypot(pf_vf x, pf_vf y) {
    const pf_vf a = pf_vabs(x), b = pf_vabs(y), top = pf_vmax(a, b), one = pf_set(1.0f);
    const pf_vi large = top > 0x1p60f, small = top < 0x1p-40f;
    const pf_vf down = pf_select(large, pf_set(0x1p-70f), pf_select(small, pf_set(0x1p100f), one));
    const pf_vf up = pf_select(large, pf_set(0x1p70f), pf_select(small, pf_set(0x1p-100f), one));
    const pf_vf r = pf_vsqrt((a * down) * (a * down) + (b * down) * (b * down)) * up;
    return pf_select((a == INFINITY) | (b == INFINITY), pf_set(INFINITY), r);
}

#endif
