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

/* The place that an index outside stands for, or -1, which is reported. */
static int64_t place_outside(const pf_worker *w, int64_t wrap, int64_t size, int64_t index) {
    if (wrap == NEAREST && size > 0) return index < 0 ? 0 : size - 1;
    if (wrap == WRAP && index < 0 && index + size >= 0) return index + size;
    pf_report(w, PF_FAULT_INDEX, index, size);
    return -1;
}

/* The place of an index in a dimension; -1 if there is none. */
#define PF_PLACED(w, wrap, size, i) ((uint64_t)(i) < (uint64_t)(size) ? (i) : place_outside(w, wrap, size, i))

/* Places in a row: where the operands begin, their steps from one to the next in elements, and the indexed
 * dimension. */
typedef struct line {
    const pf_worker *w;
    const char *x, *index;
    char *y;
    int64_t n, xs, js, ys;
    int64_t stride, size, wrap;
} line;

typedef int32_t index_4 __attribute__((aligned(1), may_alias));
typedef int64_t index_8 __attribute__((aligned(1), may_alias));

/* Lines of elements and indices of each size: of y what the index names in x, or onto what it names in y x.
 */
typedef void (*line_fn)(const line *);

#define PF_WALK(name, T, I, statement)                                                                       \
    static void name(const line *l) {                                                                        \
        const T *x = (const T *)l->x;                                                                        \
        const I *index = (const I *)l->index;                                                                \
        T *y = (T *)l->y;                                                                                    \
        const int64_t n = l->n, xs = l->xs, js = l->js, ys = l->ys, stride = l->stride, size = l->size;      \
        for (int64_t c = 0; c < n; c++) {                                                                    \
            const int64_t named = index[c * js], i = PF_PLACED(l->w, l->wrap, size, named);                  \
            statement;                                                                                       \
        }                                                                                                    \
    }
#define PF_PICK(T, I) PF_WALK(pick_##T##_##I, T, I, y[c * ys] = i < 0 ? (T){0} : x[c * xs + i * stride])
#define PF_ADD(T, I)  PF_WALK(add_##T##_##I, T, I, if (i >= 0) y[c * ys + i * stride] += x[c * xs])

typedef uint8_t size_1;
typedef uint16_t size_2 __attribute__((aligned(1), may_alias));
typedef uint32_t size_4 __attribute__((aligned(1), may_alias));
typedef uint64_t size_8 __attribute__((aligned(1), may_alias));
typedef struct size_16 {
    uint64_t half[2];
} __attribute__((packed, may_alias)) size_16;
#define PF_PICKS(T) PF_PICK(T, index_4) PF_PICK(T, index_8)
PF_PICKS(size_1)
PF_PICKS(size_2)
PF_PICKS(size_4)
PF_PICKS(size_8)
PF_PICKS(size_16)

/* What moves single elements of that many bytes; NULL: they are none. */
static line_fn picker(int64_t bytes, int64_t index_size) {
    const bool wide = index_size == 8;
    switch (bytes) {
    case 1:
        return wide ? pick_size_1_index_8 : pick_size_1_index_4;
    case 2:
        return wide ? pick_size_2_index_8 : pick_size_2_index_4;
    case 4:
        return wide ? pick_size_4_index_8 : pick_size_4_index_4;
    case 8:
        return wide ? pick_size_8_index_8 : pick_size_8_index_4;
    case 16:
        return wide ? pick_size_16_index_8 : pick_size_16_index_4;
    default:
        return NULL;
    }
}

/* Whole entries of a dimension, one for each of `count` indices. */
static void copy_rows(const pf_gather_rows_args *a, const pf_worker *w, const char *x, const char *index,
                      char *y, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        const int64_t named = read_index(index + j * a->index_size, a->index_size);
        const int64_t i = PF_PLACED(w, a->wrap, a->size, named);
        if (i >= 0)
            memcpy(y + j * a->ysr, x + i * a->xsr, (size_t)a->inner);
        else
            memset(y + j * a->ysr, 0, (size_t)a->inner);
    }
}

PF_KERNEL_FUNCTION(gather_rows) {
    const pf_gather_rows_args copy =
        *(const pf_gather_rows_args *)args_; /* which bytes written to y do not change */
    const pf_gather_rows_args *a = &copy;
    const char *x = pf_ptr(w, a->x), *index = pf_ptr(w, a->index);
    char *y = pf_ptr(w, a->y);
    line_fn pick = picker(a->inner, a->index_size);
    if (pick && (a->xsr % a->inner || a->ysr % a->inner)) pick = NULL;
    line l = {.w = w, .js = 1, .size = a->size, .wrap = a->wrap};
    if (pick) l.stride = a->xsr / a->inner, l.ys = a->ysr / a->inner;
    int64_t begin, end;
    pf_share(w, a->outer * a->count, 1, &begin, &end);
    for (int64_t r = begin, n; r < end; r += n) {
        const int64_t o = r / a->count, j = r % a->count;
        n = pf_min(a->count - j, end - r);
        const char *from = x + o * a->xso, *at = index + j * a->index_size;
        char *to = y + o * a->yso + j * a->ysr;
        if (pick) {
            l.x = from, l.index = at, l.y = to, l.n = n;
            pick(&l);
        } else {
            copy_rows(a, w, from, at, to, n);
        }
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

/* The line of the r-th position in all dimensions but `skip`; `n` of its places along dimension d. */
static line line_at(const pf_gather_args *a, const pf_worker *w, int64_t r, int64_t skip, int64_t d,
                    int64_t n) {
    const place p = locate(a, r, skip);
    return (line){w,
                  (const char *)pf_ptr(w, a->x) + p.x * a->itemsize,
                  (const char *)pf_ptr(w, a->index) + p.index * a->index_size,
                  (char *)pf_ptr(w, a->y) + p.y * a->itemsize,
                  n,
                  a->xs[d],
                  a->js[d],
                  a->ys[d],
                  a->stride,
                  a->size,
                  a->wrap};
}

PF_KERNEL_FUNCTION(gather) {
    const pf_gather_args *a = args_;
    const int64_t last = a->rank - 1;
    const line_fn pick = picker(a->itemsize, a->index_size);
    int64_t begin, end;
    pf_share(w, count_except(a, last), 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const line l = line_at(a, w, r, last, last, a->shape[last]);
        pick(&l);
    }
}

/* Sums that meet in one element lie on one line along the indexed dimension: threads share the lines, so the
 * order of additions, and with it the result, does not depend on their number. Lines that are neighbours
 * along the last dimension are walked side by side, as they lie in memory. */
static void scatter_add(const pf_gather_args *a, const pf_worker *w, line_fn add, line_fn add_row) {
    const int64_t n = a->shape[a->dim], last = a->rank - 1, row = last == a->dim ? 1 : a->shape[last];
    const bool same = a->js[last] == 0; /* one index for all entries of a row */
    int64_t begin, end;
    pf_share(w, count_except(a, a->dim), 16, &begin, &end);
    for (int64_t r = begin, count; r < end; r += count) {
        count = pf_min(row - r % row, end - r);
        line l = line_at(a, w, r, a->dim, last, count);
        if (last == a->dim) {
            l.n = n;
            add(&l);
            continue;
        }
        for (int64_t c = 0; c < n; c++) {
            (same ? add_row : add)(&l);
            l.x += a->xs[a->dim] * a->itemsize;
            l.index += a->js[a->dim] * a->index_size;
        }
    }
}

/* x onto the one place that the first index names. */
#define PF_ADD_ROW(T, I)                                                                                     \
    static void add_row_##T##_##I(const line *l) {                                                           \
        const T *x = (const T *)l->x;                                                                        \
        const int64_t named = *(const I *)l->index, i = PF_PLACED(l->w, l->wrap, l->size, named);            \
        const int64_t n = l->n, xs = l->xs, ys = l->ys;                                                      \
        if (i < 0) return;                                                                                   \
        T *y = (T *)l->y + i * l->stride;                                                                    \
        for (int64_t k = 0; k < n; k++) y[k * ys] += x[k * xs];                                              \
    }

/* Integers wrap around. */
#define PF_SCATTER(T, E)                                                                                     \
    typedef E T __attribute__((aligned(1), may_alias));                                                      \
    PF_ADD(T, index_4)                                                                                       \
    PF_ADD(T, index_8)                                                                                       \
    PF_ADD_ROW(T, index_4)                                                                                   \
    PF_ADD_ROW(T, index_8)                                                                                   \
    PF_KERNEL_FUNCTION(scatter_add_##T) {                                                                    \
        const pf_gather_args *a = args_;                                                                     \
        if (a->index_size == 8)                                                                              \
            scatter_add(a, w, add_##T##_index_8, add_row_##T##_index_8);                                     \
        else                                                                                                 \
            scatter_add(a, w, add_##T##_index_4, add_row_##T##_index_4);                                     \
    }
PF_SCATTER(f32, float)
PF_SCATTER(f64, double)
PF_SCATTER(i64, uint64_t)
PF_SCATTER(i32, uint32_t)
