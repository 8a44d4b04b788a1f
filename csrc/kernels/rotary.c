/* Rotary embeddings: the pairs of numbers of a row turned by angles that belong to the row's position.
 * Members of a pair are neighbours, or stand at the same place of the row's two halves. */
#include <stdbool.h>

#include "kernels/args.h"
#include "kernels/simd.h"

enum { SHARE = 2048 };

/* Pointers of one row. */
typedef struct row {
    const float *x, *c, *s;
    float *y;
} row;

PF_INLINE void turn_halves(const row *r, const int64_t half, const bool whole) {
    for (int64_t i = 0; i < half; i += PF_VL) {
        const int64_t n = whole ? PF_VL : half - i;
        const pf_vf a = pf_load_upto(r->x + i, n), b = pf_load_upto(r->x + half + i, n);
        const pf_vf c = pf_load_upto(r->c + i, n), s = pf_load_upto(r->s + i, n);
        pf_store_upto(r->y + i, a * c - b * s, n);
        pf_store_upto(r->y + half + i, b * c + a * s, n);
    }
}

/* One vector of neighbours: numbers of `pairs` from lane `first` on, each for two lanes. */
PF_INLINE pf_vf turn_vector(pf_vf x, pf_vf c, pf_vf s, const int first) {
    pf_vi twice, other, sign;
    for (int i = 0; i < PF_VL; i++)
        twice[i] = first + i / 2, other[i] = i ^ 1, sign[i] = i & 1 ? 0 : INT32_MIN;
    const pf_vf sine = (pf_vf)((pf_vi)pf_permute(s, twice) ^ sign);
    return x * pf_permute(c, twice) + pf_permute(x, other) * sine;
}

PF_INLINE void turn_neighbours(const row *r, const int64_t half, const bool whole) {
    for (int64_t i = 0; i < half; i += PF_VL) {
        const int64_t n = whole ? PF_VL : half - i, low = 2 * n, high = 2 * n - PF_VL;
        const pf_vf c = pf_load_upto(r->c + i, n), s = pf_load_upto(r->s + i, n);
        const pf_vf a = pf_load_upto(r->x + 2 * i, low), b = pf_load_upto(r->x + 2 * i + PF_VL, high);
        pf_store_upto(r->y + 2 * i, turn_vector(a, c, s, 0), low);
        pf_store_upto(r->y + 2 * i + PF_VL, turn_vector(b, c, s, PF_VL / 2), high);
    }
}

PF_KERNEL_FUNCTION(rotary_f32) {
    const pf_rotary_args *a = args_;
    const int64_t rows = a->rows, planes = a->n * a->heads, half = a->half;
    if (half == 0) return;
    int64_t begin, end;
    pf_share(w, planes * rows, pf_ceil_div(SHARE, 2 * half), &begin, &end);
    while (begin < end) {
        const int64_t plane = begin / rows, first = begin % rows, last = pf_min(rows, first + end - begin);
        const int64_t image = plane / a->heads, head = plane % a->heads;
        row r = {(const float *)pf_ptr(w, a->x) + image * a->xsn + head * a->xsh + first * a->xsr,
                 (const float *)pf_ptr(w, a->c) + image * a->csn + first * a->csr,
                 (const float *)pf_ptr(w, a->s) + image * a->ssn + first * a->ssr,
                 (float *)pf_ptr(w, a->y) + image * a->ysn + head * a->ysh + first * a->ysr};
        for (int64_t i = first; i < last; i++, r.x += a->xsr, r.y += a->ysr, r.c += a->csr, r.s += a->ssr) {
            if (a->neighbours && half % PF_VL)
                turn_neighbours(&r, half, false);
            else if (a->neighbours)
                turn_neighbours(&r, half, true);
            else
                turn_halves(&r, half, half % PF_VL == 0);
        }
        begin += last - first;
    }
}
