/* Windows of pooling kernels: which positions of the input an output position covers along an axis, for the
 * kernels over pixels (pool.c) and over lines (pool_planes.c). */
#ifndef PF_KERNELS_POOL_H
#define PF_KERNELS_POOL_H

#include "kernels/args.h"

enum { PF_POOL_LINE = 4096 }; /* pixels of a line that a buffer holds */

/* Positions first, first + step, … < end of the input along one axis; extent counts padding too. */
typedef struct pf_span {
    int64_t first, end, step, extent;
} pf_span;

static inline pf_span pf_span_of(const pf_pool_args *a, int axis, int64_t o) {
    const int64_t size = a->isize[axis];
    if (a->adaptive) {
        const int64_t first = o * size / a->osize[axis], end = pf_ceil_div((o + 1) * size, a->osize[axis]);
        return (pf_span){first, end, 1, end - first};
    }
    const int64_t dil = a->dilation[axis], k = a->window[axis];
    const int64_t start = o * a->stride[axis] - a->pad[axis];
    const int64_t first = start < 0 ? start + pf_ceil_div(-start, dil) * dil : start;
    const int64_t end = pf_min(start + (k - 1) * dil + 1, size);
    return (pf_span){first, end, dil, pf_min(start + k, size + a->pad[axis]) - start};
}

static inline int64_t pf_span_count(pf_span s) {
    return s.end > s.first ? (s.end - s.first + s.step - 1) / s.step : 0;
}

/* Whether the pixels of a line lie side by side, and a buffer holds what the windows of a vector of outputs
 * or, where their widths differ, those of a line cover. */
static inline int pf_pool_has_lines(const pf_pool_args *a) {
    const int64_t last = PF_SPACE + 2;
    if (a->xs[last] != 1 || a->ys[last] != 1) return 0;
    if (a->adaptive) return a->isize[2] <= PF_POOL_LINE;
    return a->stride[2] <= PF_POOL_STEP && a->pad[2] <= PF_POOL_REACH &&
           (a->window[2] - 1) * a->dilation[2] < PF_POOL_REACH;
}

/* The maximum or the average where pf_pool_has_lines. */
void PF_NAME(max_pool_lines)(const pf_pool_args *a, const pf_worker *w);
void PF_NAME(avg_pool_lines)(const pf_pool_args *a, const pf_worker *w);

/* The maximum and its places, wherever a->index is given. */
void PF_NAME(max_pool_places)(const pf_pool_args *a, const pf_worker *w);

#endif
