/* Special functions of double, as expressions without branches like those of vmath_f64.h. Errors stay below 3
 * units in the last place for pf_erfinv64, and for pf_digamma64 below 8 of the result or of 1, whichever is
 * larger, for negative arguments of the largest term of the reflection. */
#ifndef PF_KERNELS_VMATH_SPECIAL_H
#define PF_KERNELS_VMATH_SPECIAL_H

#include "kernels/vmath_coefficients_f64.h"
#include "kernels/vmath_f64.h"

#define PF_SERIES64(t, table) pf_series64(t, table, (int)(sizeof table / sizeof table[0]))
PF_INLINE double pf_series64(double t, const double *table, const int count) {
    double y = table[count - 1];
#pragma GCC unroll 24
    for (int i = count - 2; i >= 0; i--) y = pf_fma64(y, t, table[i]);
    return y;
}

/* By polynomials of w = -log(1 - x²), and where it is large of its root. */
PF_INLINE double pf_erfinv64(double x) {
    const double size = fabs(x), w = -pf_log64((1 - size) * (1 + size)), root = sqrt(w < 0 ? 0 : w);
    const double near = PF_SERIES64((w - 3.125) * (1 / 3.125), PF_ERFINV_NEAR);
    const double middle = PF_SERIES64((root - 3.25) * (1 / 0.75), PF_ERFINV_MIDDLE);
    const double far = PF_SERIES64((root - 5.03125) * (1 / 1.03125), PF_ERFINV_FAR);
    const double y = x * (w < 6.25 ? near : w < 16 ? middle : far);
    return size == 1 ? copysign(INFINITY, x) : size > 1 ? NAN : y;
}

/* The same for values of float, within 3e-9 of the result: 1 - |x| is at least 2^-24, and the logarithm that
 * of a normal number. */
PF_INLINE double pf_erfinv_short(double x) {
    const double size = fabs(x), product = (1 - size) * (1 + size), root_half = 0x1.6a09ep-1;
    const uint64_t bits = pf_bits64(product) + (0x3ff0000000000000u - pf_bits64(root_half));
    const double k = pf_double64((bits >> 52) | 0x4330000000000000u) - (0x1p52 + 1023.0);
    const double f = pf_double64((bits & 0x000fffffffffffffu) + pf_bits64(root_half)) - 1;
    const double s = f / (2 + f), z = s * s;
    double p = pf_fma64(2.0 / 11, z, 2.0 / 9);
    p = pf_fma64(p, z, 2.0 / 7);
    p = pf_fma64(p, z, 2.0 / 5);
    p = pf_fma64(p, z, 2.0 / 3);
    p = pf_fma64(p, z, 2.0);
    const double w = -pf_fma64(k, 0.69314718055994530942, p * s), root = sqrt(w < 0 ? 0 : w);
    const double near = PF_SERIES64((w - 3.125) * (1 / 3.125), PF_ERFINV_NEAR_SHORT);
    const double middle = PF_SERIES64((root - 3.25) * (1 / 0.75), PF_ERFINV_MIDDLE_SHORT);
    const double y = x * (w < 6.25 ? near : middle);
    return size == 1 ? copysign(INFINITY, x) : size > 1 ? NAN : y;
}

/* sin(a) / a of q = -a² for |a| <= π/2: the series. */
PF_INLINE double pf_sine_share64(double q) {
    double s = 1.0 / 51090942171709440000.0;
    s = pf_fma64(s, q, 1.0 / 121645100408832000.0);
    s = pf_fma64(s, q, 1.0 / 355687428096000.0);
    s = pf_fma64(s, q, 1.0 / 1307674368000.0);
    s = pf_fma64(s, q, 1.0 / 6227020800);
    s = pf_fma64(s, q, 1.0 / 39916800);
    s = pf_fma64(s, q, 1.0 / 362880);
    s = pf_fma64(s, q, 1.0 / 5040);
    s = pf_fma64(s, q, 1.0 / 120);
    s = pf_fma64(s, q, 1.0 / 6);
    return pf_fma64(s, q, 1.0);
}

/* π / tan(πz) for |z| <= 1/2, by the series of sine and cosine. */
PF_INLINE double pf_cotangent64(double z) {
    const double a = 3.14159265358979323846 * z, q = -(a * a);
    double c = 1.0 / 2432902008176640000.0;
    c = pf_fma64(c, q, 1.0 / 6402373705728000.0);
    c = pf_fma64(c, q, 1.0 / 20922789888000.0);
    c = pf_fma64(c, q, 1.0 / 87178291200.0);
    c = pf_fma64(c, q, 1.0 / 479001600);
    c = pf_fma64(c, q, 1.0 / 3628800);
    c = pf_fma64(c, q, 1.0 / 40320);
    c = pf_fma64(c, q, 1.0 / 720);
    c = pf_fma64(c, q, 1.0 / 24);
    c = pf_fma64(c, q, 0.5);
    c = pf_fma64(c, q, 1.0);
    return c / (pf_sine_share64(q) * z);
}

/* Reflection of what is not positive, recurrence up to 10, whose terms are one quotient, then the asymptotic
 * series. At the poles there is no value but infinity at zero. */
PF_INLINE double pf_digamma64(double x) {
    double y = x > 0 ? x : 1 - x, terms = 0, product = 1;
#pragma GCC unroll 10
    for (int i = 0; i < 10; i++) {
        const double inside = y < 10 ? 1 : 0, factor = y < 10 ? y : 1;
        terms = pf_fma64(terms, factor, inside * product);
        product *= factor;
        y += inside;
    }
    const double r = 1 / (y * y);
    double p = 1.0 / 12;
    p = pf_fma64(p, r, -691.0 / 32760);
    p = pf_fma64(p, r, 1.0 / 132);
    p = pf_fma64(p, r, -1.0 / 240);
    p = pf_fma64(p, r, 1.0 / 252);
    p = pf_fma64(p, r, -1.0 / 120);
    p = pf_fma64(p, r, 1.0 / 12);
    const double positive = (pf_log64(y) - 0.5 / y) - pf_fma64(p, r, terms / product);
    const double z = x - rint(x), mirrored = z == 0 ? NAN : positive - pf_cotangent64(z);
    return x > 0 ? positive : x == 0 ? -copysign(INFINITY, x) : mirrored;
}

/* Recurrence up to 8, then Stirling's series; reflection of what is negative. Errors stay below 3e-14 of the
 * result or of 1, whichever is larger: for floats. */
PF_INLINE double pf_log_gamma64(double x) {
    double y = fabs(x), product = 1;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
        product *= y < 8 ? y : 1;
        y += y < 8 ? 1 : 0;
    }
    const double r = 1 / (y * y);
    double p = 1.0 / 156;
    p = pf_fma64(p, r, -691.0 / 360360);
    p = pf_fma64(p, r, 1.0 / 1188);
    p = pf_fma64(p, r, -1.0 / 1680);
    p = pf_fma64(p, r, 1.0 / 1260);
    p = pf_fma64(p, r, -1.0 / 360);
    p = pf_fma64(p, r, 1.0 / 12);
    const double z = x - rint(x), a = 3.14159265358979323846 * z;
    const double mirror = fabs(x) * fabs(z) * pf_sine_share64(-(a * a));
    const double whole = (y - 0.5) * pf_log64(y) - y + (0.91893853320467274178 + p / y);
    const double value = whole - pf_log64(x < 0 ? product / mirror : product);
    return fabs(x) == INFINITY ? INFINITY : x < 0 ? -value : value;
}

/* The plain lgamma stores a sign in a global, which threads would share. */
static inline double pf_lgamma64(double x) {
#if defined(__GLIBC__)
    extern double lgamma_r(double, int *);
    int sign;
    return isinf(x) ? INFINITY : lgamma_r(x, &sign);
#else
    return lgamma(x);
#endif
}

#endif
