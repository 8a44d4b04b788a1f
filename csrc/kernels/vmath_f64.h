/* Exponential functions and logarithms of double, as expressions without branches: the compiler makes vectors
 * of the loops they stand in. NaN gives NaN, infinities and overflow are those of the exact functions. Errors
 * stay below 1 unit in the last place for pf_exp64, 2 for pf_log64, 3 for the others. */
#ifndef PF_KERNELS_VMATH_F64_H
#define PF_KERNELS_VMATH_F64_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "kernels/simd.h"

PF_INLINE double pf_fma64(double a, double b, double c) {
#if defined(__FMA__) || defined(__aarch64__)
    return __builtin_fma(a, b, c);
#else
    return a * b + c;
#endif
}

PF_INLINE uint64_t pf_bits64(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
PF_INLINE double pf_double64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Added to a number below 2^51, this leaves its nearest integer in the lowest bits. */
#define PF_SHIFT64 0x1.8p52
/* 2^n for n in [-1022, 1023]. */
PF_INLINE double pf_power64(double n) { return pf_double64((pf_bits64(n + PF_SHIFT64) + 1023) << 52); }

/* ln 2 in two parts, of which multiples of the first up to 2^11 are exact. */
#define PF_LN2_HI64 0x1.62e42feep-1
#define PF_LN2_LO64 0x1.a39ef35793c76p-33

/* x as n ln 2 plus what it returns, of at most half of ln 2. */
PF_INLINE double pf_reduce64(double x, double *n) {
    *n = (x * 1.4426950408889634074 + PF_SHIFT64) - PF_SHIFT64;
    return pf_fma64(-*n, PF_LN2_LO64, pf_fma64(-*n, PF_LN2_HI64, x));
}

/* exp r - 1 within half of ln 2: the series. */
PF_INLINE double pf_exp_series64(double r) {
    double p = 1.0 / 6227020800;
    p = pf_fma64(p, r, 1.0 / 479001600);
    p = pf_fma64(p, r, 1.0 / 39916800);
    p = pf_fma64(p, r, 1.0 / 3628800);
    p = pf_fma64(p, r, 1.0 / 362880);
    p = pf_fma64(p, r, 1.0 / 40320);
    p = pf_fma64(p, r, 1.0 / 5040);
    p = pf_fma64(p, r, 1.0 / 720);
    p = pf_fma64(p, r, 1.0 / 120);
    p = pf_fma64(p, r, 1.0 / 24);
    p = pf_fma64(p, r, 1.0 / 6);
    p = pf_fma64(p, r, 0.5);
    return pf_fma64(p * r, r, r);
}

/* Powers of two in two factors: the result may be denormal, and is rounded once. */
PF_INLINE double pf_exp64(double x) {
    const double within = x > 710 ? 710 : x < -746 ? -746 : x;
    double n;
    const double p = 1 + pf_exp_series64(pf_reduce64(within, &n));
    const double half = (n * 0.5 + PF_SHIFT64) - PF_SHIFT64;
    return p * pf_power64(half) * pf_power64(n - half);
}

/* Twice half of it: the power of two of the largest results would overflow. */
PF_INLINE double pf_expm1_64(double x) {
    const double within = x > 710 ? 710 : x < -40 ? -40 : x;
    double n;
    const double q = pf_exp_series64(pf_reduce64(within, &n)), power = pf_power64(n - 1);
    const double y = 2 * pf_fma64(power, q, power - 0.5);
    return fabs(x) < 0x1p-1000 ? x : y;
}

PF_INLINE double pf_tanh64(double x) {
    const double size = fabs(x), e = pf_expm1_64(2 * (size > 22 ? 22 : size));
    return copysign(e / (e + 2), x);
}

/* m 2^k with m around 1; then the series of 2 artanh((m - 1) / (m + 1)). */
PF_INLINE double pf_log64(double x) {
    const double y = x < 0x1p-1022 ? x * 0x1p54 : x;
    const uint64_t bits = pf_bits64(y) + (0x3ff0000000000000u - 0x3fe6a09e00000000u);
    const double raised = pf_double64((bits >> 52) | 0x4330000000000000u) - 0x1p52; /* k + 1023 */
    const double k = raised - (x < 0x1p-1022 ? 1077.0 : 1023.0);
    const double m = pf_double64((bits & 0x000fffffffffffffu) + 0x3fe6a09e00000000u);
    const double f = m - 1, s = f / (2 + f), z = s * s;
    double p = 2.0 / 21;
    p = pf_fma64(p, z, 2.0 / 19);
    p = pf_fma64(p, z, 2.0 / 17);
    p = pf_fma64(p, z, 2.0 / 15);
    p = pf_fma64(p, z, 2.0 / 13);
    p = pf_fma64(p, z, 2.0 / 11);
    p = pf_fma64(p, z, 2.0 / 9);
    p = pf_fma64(p, z, 2.0 / 7);
    p = pf_fma64(p, z, 2.0 / 5);
    p = pf_fma64(p, z, 2.0 / 3);
    /* 2 s = f - s f, and s f = f² / 2 - s f² / 2. */
    const double square = 0.5 * f * f;
    const double small = pf_fma64(k, PF_LN2_LO64, s * (square + p * z));
    const double finite = pf_fma64(k, PF_LN2_HI64, f - (square - small));
    const double edge = x == 0 ? -INFINITY : x < 0 ? NAN : x;
    return (x > 0) & (x < INFINITY) ? finite : edge;
}

/* Scaled so that squares stay normal numbers; infinity wins against NaN. */
PF_INLINE double pf_hypot64(double x, double y) {
    const double a = fabs(x), b = fabs(y), top = a > b ? a : b;
    const double down = top > 0x1p500 ? 0x1p-600 : top < 0x1p-400 ? 0x1p600 : 1;
    const double up = top > 0x1p500 ? 0x1p600 : top < 0x1p-400 ? 0x1p-600 : 1;
    const double r = sqrt((a * down) * (a * down) + (b * down) * (b * down)) * up;
    return (a == INFINITY) | (b == INFINITY) ? INFINITY : r;
}

PF_INLINE double pf_log1p64(double x) {
    const double u = 1 + x, y = pf_log64(u) + (x - (u - 1)) / u;
    return (u == 0) | (u == INFINITY) | (x == 0) ? (x == 0 ? x : pf_log64(u)) : y;
}

#endif
