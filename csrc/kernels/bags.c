/* Sums, means or maxima of bags of rows of a table, each bag a range of a list of indices. Every index is
 * checked: one out of range is reported, and counts for nothing. */
#include <stdbool.h>
#include <string.h>

#include "kernels/indexed.h"
#include "kernels/simd.h"

enum { WIDE = 4 * PF_VL }; /* columns that stay in registers */

static inline int64_t read(const char *p, int64_t i, int64_t size) {
    return size == 8 ? ((const index_8 *)(const void *)p)[i] : ((const index_4 *)(const void *)p)[i];
}

/* A bag: its indices, and what its rows are multiplied with, if anything. */
typedef struct bag {
    const char *index;
    const float *scale;
    int64_t begin, end;
} bag;

/* Columns of one bag. PyTorch's maximum is the first row, and then what is larger. */
PF_INLINE int64_t columns(const pf_bags_args *a, const pf_worker *w, const bag *b, const float *table,
                          const int64_t n, pf_vf *v) {
    int64_t count = 0;
    for (int k = 0; k < 4; k++) v[k] = pf_zero();
    for (int64_t j = b->begin; j < b->end; j++) {
        const int64_t named = read(b->index, j, a->index_size);
        const int64_t row = PF_PLACED(w, PF_OUTSIDE_FAULT, a->size, named);
        if (row < 0 || row == a->skip) continue;
        const float *x = table + row * a->columns;
        const pf_vf factor = pf_set(b->scale ? b->scale[j] : 1.0f);
        PF_UNROLL
        for (int k = 0; k < 4; k++) {
            if (k * PF_VL >= n) break;
            const pf_vf t = pf_load_upto(x + k * PF_VL, n - k * PF_VL);
            if (a->kind == PF_BAG_MAX)
                v[k] = count ? pf_select(t > v[k], t, v[k]) : t;
            else
                v[k] += b->scale ? t * factor : t;
        }
        count++;
    }
    return count;
}

static void fill_bag(const pf_bags_args *a, const pf_worker *w, const bag *b, const float *table, float *y) {
    for (int64_t c = 0; c < a->columns; c += WIDE) {
        pf_vf v[4];
        const int64_t n = pf_min(WIDE, a->columns - c);
        const int64_t count =
            n == WIDE ? columns(a, w, b, table + c, WIDE, v) : columns(a, w, b, table + c, n, v);
        const pf_vf divisor = pf_set(a->kind == PF_BAG_MEAN && count ? (float)count : 1.0f);
        for (int k = 0; k * PF_VL < n; k++) pf_store_upto(y + c + k * PF_VL, v[k] / divisor, n - k * PF_VL);
    }
}

/* PyTorch wants the first bag to begin with the first index. Where it looks for maxima, it checks the indices
 * behind the last bag, too. */
static void check_ends(const pf_bags_args *a, const pf_worker *w, const char *starts, const char *index) {
    (void)PF_PLACED(w, PF_OUTSIDE_FAULT, 1, read(starts, 0, a->starts_size));
    const int64_t end = a->closed && a->kind == PF_BAG_MAX ? read(starts, a->bags, a->starts_size) : a->count;
    for (int64_t j = pf_max(end, 0); j < a->count; j++)
        (void)PF_PLACED(w, PF_OUTSIDE_FAULT, a->size, read(index, j, a->index_size));
}

PF_KERNEL_FUNCTION(bags_f32) {
    const pf_bags_args *a = args_;
    const char *starts = pf_ptr(w, a->starts);
    bag b = {.index = pf_ptr(w, a->index), .scale = pf_ptr(w, a->scale)};
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, a->bags, 1, &begin, &end);
    if (begin == 0 && end > 0) check_ends(a, w, starts, b.index);
    for (int64_t i = begin; i < end; i++) {
        b.begin = read(starts, i, a->starts_size);
        b.end = i + 1 < a->bags || a->closed ? read(starts, i + 1, a->starts_size) : a->count;
        for (int k = 0; k < 2; k++) {
            int64_t *at = k ? &b.end : &b.begin;
            if (*at < 0 || *at > a->count) *at = pf_max(PF_PLACED(w, PF_OUTSIDE_FAULT, a->count + 1, *at), 0);
        }
        fill_bag(a, w, &b, pf_ptr(w, a->x), y + i * a->columns);
    }
}
