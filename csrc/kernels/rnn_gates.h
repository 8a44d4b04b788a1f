/* What gates of recurrent cells are made of: products with sigmoids and hyperbolic tangents, whose divisors
 * are multiplied before they divide. For rnn_cells.h; knows no memory.
 *
 * With vectors of 8 and more numbers powers of two come from a table in a register, which leaves a tangent
 * near 0.01 fewer digits of its own: it is within 2.2e-7 of the exact one, and within 2.6e-6 relative to
 * that. A sigmoid is within 7 units in the last place, below 1e-8 within 22; below 2e-38 it may be zero. */
#ifndef PF_KERNELS_RNN_GATES_H
#define PF_KERNELS_RNN_GATES_H

#include "kernels/vmath.h"

#if PF_VL >= 8
/* 1 + exp(-x) for x in [-87, 88], or NaN. */
PF_INLINE pf_vf one_plus_exp(pf_vf x) {
    pf_vf rest;
    const pf_vf power = pf_power_rooted(x, -PF_LOG2E, 0.0f, 0.0f, &rest);
    return pf_fma(power, rest * PF_POLYNOMIAL(rest, PF_ROOT_EXCESS_P), power) + 1.0f;
}

/* exp(2 x) - 1 for x in [-10, 10] or NaN. */
PF_INLINE pf_vf exp_minus_one(pf_vf x) {
    pf_vf rest;
    const pf_vf power = pf_power_rooted(x, 2 * PF_LOG2E, 0.0f, 0.0f, &rest);
    return pf_fma(power, rest * PF_POLYNOMIAL(rest, PF_ROOT_EXCESS_P), power - 1.0f);
}

/* The same for all x, infinite where its inverse vanishes. */
PF_INLINE pf_vf one_plus_exp_of_any(pf_vf x) {
    const pf_vf low = pf_set(-87.0f), inverse = one_plus_exp(pf_clip(x, low, pf_set(88.0f)));
    return pf_where_lt(x, low, pf_set(INFINITY), inverse);
}
#else
PF_INLINE pf_vf one_plus_exp(pf_vf x) { return pf_one_plus_exp_bounded(x); }

PF_INLINE pf_vf one_plus_exp_of_any(pf_vf x) { return pf_one_plus_exp_bounded(pf_within_exp(x)); }

PF_INLINE pf_vf exp_minus_one(pf_vf x) {
    pf_vf n;
    const pf_vf r = pf_reduce_ln2(x + x, &n);
    const pf_vf p = pf_fma(r * r, PF_POLYNOMIAL(r, PF_EXPM1_P), r), scale = pf_exponent(pf_integer(n));
    return pf_fma(scale, p, scale - 1.0f);
}
#endif

/* 1 / sigmoid(x), at most 1e38: for products with numbers that are finite. */
PF_INLINE pf_vf inverse_sigmoid(pf_vf x) { return one_plus_exp(pf_clip(x, pf_set(-87.0f), pf_set(87.0f))); }

/* a sigmoid(x) for any a: infinity times a sigmoid that vanishes is NaN. */
PF_INLINE pf_vf times_sigmoid(pf_vf a, pf_vf x) { return a / one_plus_exp_of_any(x); }

/* tanh(x) / inverse, which is at least one. */
PF_INLINE pf_vf tanh_over(pf_vf x, pf_vf inverse) {
    const pf_vf t = exp_minus_one(pf_clip(x, pf_set(-10.0f), pf_set(10.0f)));
    return t / (inverse * (t + 2.0f));
}

#endif
