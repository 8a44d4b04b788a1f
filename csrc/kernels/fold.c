/* Sums of sliding blocks, the inverse of what takes an image apart into them. Each plane of the result is
 * added up line by line, tap by tap, so that it stays in the cache. */
#include <string.h>

#include "kernels/pool.h"
#include "kernels/simd.h"

enum { H = 1, W = 2 };

/* y[i * step] += x[i] for n places. */
PF_INLINE void add_line(float *y, const float *x, int64_t n, int64_t step) {
    int64_t first = 0;
    if (step == 2) {
        pf_vi low, high, even;
        for (int i = 0; i < PF_VL; i++) low[i] = i / 2, high[i] = (i + PF_VL) / 2, even[i] = -(i % 2 == 0);
        /* What lies behind the last place may be another thread's. */
        for (; first + PF_VL < n; first += PF_VL) {
            const pf_vf v = pf_load(x + first);
            float *at = y + 2 * first;
            pf_store(at, pf_load(at) + pf_select(even, pf_permute(v, low), pf_zero()));
            pf_store(at + PF_VL, pf_load(at + PF_VL) + pf_select(even, pf_permute(v, high), pf_zero()));
        }
    }
    if (step != 1) {
        for (int64_t i = first; i < n; i++) y[i * step] += x[i];
        return;
    }
    for (int64_t i = 0; i < n; i += PF_VL)
        pf_store_upto(y + i, pf_load_upto(y + i, n - i) + pf_load_upto(x + i, n - i), n - i);
}

/* The places [*first, *end) of `count` blocks whose element at distance `start` lies inside of n pixels. */
static void find_inside(int64_t start, int64_t step, int64_t count, int64_t n, int64_t *first, int64_t *end) {
    *first = start < 0 ? pf_ceil_div(-start, step) : 0;
    *end = n > start ? pf_min(count, (n - 1 - start) / step + 1) : 0;
}

PF_INLINE void fold_plane(const pf_pool_args *a, const float *x, float *y, const int64_t step) {
    const int64_t row = a->ys[PF_SPACE + H], line = a->xs[PF_SPACE + H];
    for (int64_t h = 0; h < a->osize[H]; h++) memset(y + h * row, 0, (size_t)a->osize[W] * sizeof *y);
    for (int64_t i = 0; i < a->window[H]; i++)
        for (int64_t j = 0; j < a->window[W]; j++, x += a->xs[PF_SPACE]) {
            const int64_t top = i * a->dilation[H] - a->pad[H], left = j * a->dilation[W] - a->pad[W];
            int64_t r, rows, c, columns;
            find_inside(top, a->stride[H], a->isize[H], a->osize[H], &r, &rows);
            find_inside(left, a->stride[W], a->isize[W], a->osize[W], &c, &columns);
            for (; r < rows; r++)
                add_line(y + (top + r * a->stride[H]) * row + left + c * step, x + r * line + c, columns - c,
                         step);
        }
}

/* x: (n, c, taps, lines, columns) of blocks, isize of which there are; y: (n, c, h, w). Strides have the
 * places of those of a pooling, the taps that of the depth. Lines are dense on both sides. */
PF_KERNEL_FUNCTION(fold_f32) {
    const pf_pool_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, a->n * a->c, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / a->c, c = i % a->c;
        const float *from = x + n * a->xs[PF_IMAGE] + c * a->xs[PF_CHANNEL];
        float *to = y + n * a->ys[PF_IMAGE] + c * a->ys[PF_CHANNEL];
        if (a->stride[W] == 1)
            fold_plane(a, from, to, 1);
        else if (a->stride[W] == 2)
            fold_plane(a, from, to, 2);
        else
            fold_plane(a, from, to, a->stride[W]);
    }
}
