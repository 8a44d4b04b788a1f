/* Reads and writes at places that index tensors name: rows (embedding, index_select), single elements
 * (gather), sums (scatter_add). Every index is checked: one out of range is reported, its place reads as zero
 * and is not written. */
#include <stdbool.h>
#include <string.h>

#include "kernels/args.h"

static int64_t read_index(const char *p, int64_t itemsize) {
    if (itemsize == 8) {
        int64_t v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* What becomes of an index outside: a negative one counts from the end, or any takes the nearest place. */
enum { WRAP = 1, NEAREST = 2 };

static bool check_index(const pf_worker *w, int64_t wrap, int64_t size, int64_t *index) {
    if (wrap == NEAREST && size > 0) {
        *index = *index < 0 ? 0 : pf_min(*index, size - 1);
        return true;
    }
    const int64_t i = wrap == WRAP && *index < 0 ? *index + size : *index;
    if (i < 0 || i >= size) {
        pf_report(w, PF_FAULT_INDEX, *index, size);
        return false;
    }
    *index = i;
    return true;
}

/* Single numbers are copied without a call. */
static inline void copy_some(char *y, const char *x, int64_t bytes) {
    if (bytes == 4)
        memcpy(y, x, 4);
    else if (bytes == 8)
        memcpy(y, x, 8);
    else
        memcpy(y, x, (size_t)bytes);
}

PF_KERNEL_FUNCTION(gather_rows) {
    const pf_gather_rows_args copy =
        *(const pf_gather_rows_args *)args_; /* which bytes written to y do not change */
    const pf_gather_rows_args *a = &copy;
    const char *x = pf_ptr(w, a->x), *index = pf_ptr(w, a->index);
    char *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, a->outer * a->count, 1, &begin, &end);
    int64_t o = begin / pf_max(a->count, 1), j = begin % pf_max(a->count, 1);
    for (int64_t r = begin; r < end; r++) {
        int64_t i = read_index(index + j * a->index_size, a->index_size);
        char *to = y + o * a->yso + j * a->ysr;
        if (check_index(w, a->wrap, a->size, &i))
            copy_some(to, x + o * a->xso + i * a->xsr, a->inner);
        else
            memset(to, 0, (size_t)a->inner);
        if (++j == a->count) j = 0, o++;
    }
}

/* Offsets, in elements, of a position in all dimensions but one. */
typedef struct place {
    int64_t x, y, index;
} place;

static place locate(const pf_gather_args *a, int64_t i, int64_t skip) {
    place p = {0, 0, 0};
    for (int64_t d = a->rank - 1; d >= 0; d--) {
        if (d == skip) continue;
        const int64_t k = i % a->shape[d];
        i /= a->shape[d];
        p.x += k * a->xs[d];
        p.y += k * a->ys[d];
        p.index += k * a->js[d];
    }
    return p;
}

static int64_t count_except(const pf_gather_args *a, int64_t skip) {
    int64_t n = 1;
    for (int64_t d = 0; d < a->rank; d++)
        if (d != skip) n *= a->shape[d];
    return n;
}

PF_KERNEL_FUNCTION(gather) {
    const pf_gather_args *a = args_;
    const char *x = pf_ptr(w, a->x), *index = pf_ptr(w, a->index);
    char *y = pf_ptr(w, a->y);
    const int64_t last = a->rank - 1, n = a->shape[last], bytes = a->itemsize;
    int64_t begin, end;
    pf_share(w, count_except(a, last), 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const place p = locate(a, r, last);
        for (int64_t c = 0; c < n; c++) {
            int64_t i = read_index(index + (p.index + c * a->js[last]) * a->index_size, a->index_size);
            char *to = y + (p.y + c * a->ys[last]) * bytes;
            if (check_index(w, a->wrap, a->size, &i))
                copy_some(to, x + (p.x + c * a->xs[last] + i * a->stride) * bytes, bytes);
            else
                memset(to, 0, (size_t)bytes);
        }
    }
}

/* Sums that meet in one element lie on one line along the indexed dimension: threads share the lines, so the
 * order of additions, and with it the result, does not depend on their number. Lines that are neighbours
 * along the last dimension are walked side by side, as they lie in memory. */
PF_KERNEL_FUNCTION(scatter_add_f32) {
    const pf_gather_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    const char *index = pf_ptr(w, a->index);
    float *y = pf_ptr(w, a->y);
    const int64_t n = a->shape[a->dim], last = a->rank - 1, size = a->index_size;
    const int64_t row = last == a->dim ? 1 : a->shape[last], xs = a->xs[last], ys = a->ys[last],
                  js = a->js[last];
    int64_t begin, end;
    pf_share(w, count_except(a, a->dim), 16, &begin, &end);
    for (int64_t r = begin, count; r < end; r += count) {
        const place p = locate(a, r, a->dim);
        count = pf_min(row - r % row, end - r);
        for (int64_t c = 0; c < n; c++) {
            const char *at = index + (p.index + c * a->js[a->dim]) * size;
            const float *from = x + p.x + c * a->xs[a->dim];
            if (js == 0 && row > 1) {
                int64_t i = read_index(at, size);
                if (!check_index(w, a->wrap, a->size, &i)) continue;
                float *to = y + p.y + i * a->stride;
                for (int64_t k = 0; k < count; k++) to[k * ys] += from[k * xs];
                continue;
            }
            for (int64_t k = 0; k < count; k++) {
                int64_t i = read_index(at + k * js * size, size);
                if (check_index(w, a->wrap, a->size, &i)) y[p.y + k * ys + i * a->stride] += from[k * xs];
            }
        }
    }
}
