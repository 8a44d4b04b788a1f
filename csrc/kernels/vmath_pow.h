/* x to the power of y on vectors, within 2 units in the last place: the logarithm and its product with y are
 * computed in double precision, half a vector at a time. Used by the expression VM. */
#ifndef PF_KERNELS_VMATH_POW_H
#define PF_KERNELS_VMATH_POW_H

#include "kernels/doubles.h"
#include "kernels/vmath_trig.h"

/* y log2(2^e (1 + f)) = n + r: log2(1 + f) is an odd series in f/(f + 2). */
PF_INLINE pf_vd pf_log2_product(pf_vd f, pf_vd e, pf_vd y, pf_vd *n) {
    static const double c[] = {2.8853900817779268,  0.96179669392597555, 0.57707801635558531,
                               0.41219858311113239, 0.32059889797532520, 0.26230818925253880,
                               0.22195308321368668, 0.19235933878519512};
    const pf_vd t = f / (f + 2.0), z = t * t;
    pf_vd p = c[7] - (pf_vd){0};
#pragma GCC unroll 8
    for (int i = 6; i >= 0; i--) p = pf_fmad(p, z, c[i] - (pf_vd){0});
    const pf_vd product = y * pf_fmad(t, p, e), shift = 6755399441055744.0 - (pf_vd){0};
    *n = (product + shift) - shift;
    return product - *n;
}

static __attribute__((noinline, unused)) pf_vf pf_pow_lanes(pf_vf result, pf_vi mask, pf_vf x, pf_vf y) {
    float rs[PF_VL], xs[PF_VL], ys[PF_VL];
    int32_t ms[PF_VL];
    pf_store(rs, result);
    pf_store(xs, x);
    pf_store(ys, y);
    pf_storei(ms, mask);
    for (int i = 0; i < PF_VL; i++)
        if (ms[i]) rs[i] = powf(xs[i], ys[i]);
    return pf_load(rs);
}

PF_INLINE pf_vf pf_vpow(pf_vf x, pf_vf y) {
    const pf_vf a = pf_vabs(x), infinity = pf_set(INFINITY);
    const pf_vi usual = (a > 0.0f) & (a < infinity) & (pf_vabs(y) < infinity);
    pf_vf e;
    const pf_vf f = pf_split(pf_select(usual, a, pf_set(1.0f)), &e);
    pf_vd n_low, n_high;
    const pf_vd r_low = pf_log2_product(pf_low_half(f), pf_low_half(e), pf_low_half(y), &n_low);
    const pf_vd r_high = pf_log2_product(pf_high_half(f), pf_high_half(e), pf_high_half(y), &n_high);
    const pf_vf n = pf_clip(pf_join(n_low, n_high), pf_set(-200.0f), pf_set(200.0f));
    /* Of a product beyond 2^52 the rest is rounding error. */
    const pf_vf r = pf_within(pf_join(r_low, r_high), 0.5f);
    pf_vf result = pf_scale(pf_exp_reduced(r * PF_LN2), n);
    /* A negative base has a power where y is integral, negative where y is odd. */
    const pf_vf whole = pf_vround(y), half = y * 0.5f;
    const pf_vi odd = pf_vround(half) != half, negative = x < 0.0f;
    result = (pf_vf)((pf_vi)result ^ (negative & odd & INT32_MIN));
    result = pf_select(negative & (whole != y), pf_set(NAN), result);
    if (__builtin_expect(pf_any(~usual), 0)) return pf_pow_lanes(result, ~usual, x, y);
    return result;
}

#endif
