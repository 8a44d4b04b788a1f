/* Products of complex numbers of any layout: (a + bi) z = a z + b (i z), so that a vector holds both parts of
 * its numbers. */
#include <stdbool.h>

#include "kernels/nest.h"
#include "kernels/simd.h"

enum { NUMBERS = PF_VL / 2 }; /* of a vector */

typedef float number[2];

/* Of each number of a vector: one part for both, or the parts swapped. */
PF_INLINE pf_vf part(pf_vf v, const int which) {
    pf_vi lanes;
    for (int i = 0; i < PF_VL; i++) lanes[i] = (i & ~1) + which;
    return pf_permute(v, lanes);
}

PF_INLINE pf_vf swapped(pf_vf v) {
    pf_vi lanes;
    for (int i = 0; i < PF_VL; i++) lanes[i] = i ^ 1;
    return pf_permute(v, lanes);
}

PF_INLINE pf_vf product(pf_vf x, pf_vf z) {
    pf_vi sign;
    for (int i = 0; i < PF_VL; i++) sign[i] = i & 1 ? 0 : INT32_MIN;
    return part(x, 0) * z + (pf_vf)((pf_vi)part(x, 1) ^ sign) * swapped(z);
}

/* All lanes hold the same number. */
PF_INLINE pf_vf repeated(const float *x) {
    pf_vf v;
    for (int i = 0; i < PF_VL; i++) v[i] = x[i & 1];
    return v;
}

PF_INLINE pf_vf upto(const number *x, int64_t i, int64_t n, const bool same, pf_vf all) {
    return same ? all : n >= NUMBERS ? pf_load(x[i]) : pf_loadn(x[i], 2 * n);
}

/* A line of dense numbers, of which each factor may be one and the same. */
PF_INLINE void dense(const number *x, const number *z, number *y, int64_t n, const bool same) {
    const pf_vf all = same && n > 0 ? repeated(z[0]) : pf_zero();
    int64_t i = 0;
    for (; i + NUMBERS <= n; i += NUMBERS)
        pf_store(y[i], product(pf_load(x[i]), upto(z, i, NUMBERS, same, all)));
    if (i < n)
        pf_storen(y[i], product(pf_loadn(x[i], 2 * (n - i)), upto(z, i, n - i, same, all)), 2 * (n - i));
}

static void multiply(const pf_pieces *p, const number *x, const number *z, number *y, int64_t n) {
    const int64_t ys = p->s[0], xs = p->s[1], zs = p->s[2];
    if (ys == 1 && xs == 1 && zs == 1)
        dense(x, z, y, n, false);
    else if (ys == 1 && xs == 1 && zs == 0)
        dense(x, z, y, n, true);
    else if (ys == 1 && xs == 0 && zs == 1)
        dense(z, x, y, n, true);
    else
        for (int64_t i = 0; i < n; i++) {
            const float *a = x[i * xs], *b = z[i * zs];
            const float re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];
            y[i * ys][0] = re;
            y[i * ys][1] = im;
        }
}

PF_KERNEL_FUNCTION(complex_mul_f32) {
    const pf_pair_args *a = args_;
    const pf_pieces p = pf_pieces_make(pf_nest_make(a->rank, a->shape, a->ys, a->xs, a->zs));
    const number *x = pf_ptr(w, a->x), *z = pf_ptr(w, a->z);
    number *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, p.total, pf_ceil_div(512, pf_max(p.n, 1)), &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t at[PF_NEST_TENSORS];
        const int64_t n = pf_piece_at(&p, i, at);
        multiply(&p, x + at[1], z + at[2], y + at[0], n);
    }
}
