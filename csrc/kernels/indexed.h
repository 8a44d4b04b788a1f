/* What gathering and scattering share: places that an index names, checked, and lines of elements along which
 * they are walked. An index out of range is reported. */
#ifndef PF_KERNELS_INDEXED_H
#define PF_KERNELS_INDEXED_H

#include <stdbool.h>

#include "kernels/args.h"

/* The place that an index outside stands for, or -1, which is reported. Out of line, so that loops over
 * places inside stay short. */
static __attribute__((noinline, cold)) int64_t pf_place_outside(const pf_worker *w, int64_t wrap,
                                                                int64_t size, int64_t index) {
    if (wrap == PF_OUTSIDE_NEAREST && size > 0) return index < 0 ? 0 : size - 1;
    if (wrap == PF_OUTSIDE_WRAP && index < 0 && index + size >= 0) return index + size;
    pf_report(w, PF_FAULT_INDEX, index, size);
    return -1;
}

/* The place of an index in a dimension; -1 if there is none. */
#define PF_PLACED(w, wrap, size, i)                                                                          \
    ((uint64_t)(i) < (uint64_t)(size) ? (i) : pf_place_outside(w, wrap, size, i))

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

/* Lines of elements and indices of each size; i: the place that an index names, -1 if there is none. */
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

typedef uint8_t size_1;
typedef uint16_t size_2 __attribute__((aligned(1), may_alias));
typedef uint32_t size_4 __attribute__((aligned(1), may_alias));
typedef uint64_t size_8 __attribute__((aligned(1), may_alias));
typedef struct size_16 {
    uint64_t half[2];
} __attribute__((packed, may_alias)) size_16;

/* Offsets, in elements, of a position in all dimensions but one. */
typedef struct place {
    int64_t x, y, index;
} place;

static inline place locate(const pf_gather_args *a, int64_t i, int64_t skip) {
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

static inline int64_t count_except(const pf_gather_args *a, int64_t skip) {
    int64_t n = 1;
    for (int64_t d = 0; d < a->rank; d++)
        if (d != skip) n *= a->shape[d];
    return n;
}

/* The line of the r-th position in all dimensions but `skip`; `n` of its places along dimension d. */
static inline line line_at(const pf_gather_args *a, const pf_worker *w, int64_t r, int64_t skip, int64_t d,
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

#endif
