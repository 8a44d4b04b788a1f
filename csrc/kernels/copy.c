/* Strided copies and fills: layout changes, slices, borders. The caller has dropped dimensions of size one and merged
 * those that can be merged. */
#include <string.h>

#include "kernels/args.h"
#include "kernels/simd.h"

typedef struct plane {
    int64_t rows, cols, xr, xc, yr, yc; /* strides in elements */
} plane;

#define PF_COPY_PLANE(bits)                                                                                  \
    static void copy_plane_##bits(const plane *p, const char *xb, char *yb) {                                \
        typedef uint##bits##_t element __attribute__((aligned(1), may_alias));                               \
        const element *x = (const element *)xb;                                                              \
        element *y = (element *)yb;                                                                          \
        enum { BLOCK = 16 };                                                                                 \
        for (int64_t r0 = 0; r0 < p->rows; r0 += BLOCK) {                                                    \
            const int64_t r1 = pf_min(r0 + BLOCK, p->rows);                                                  \
            for (int64_t c0 = 0; c0 < p->cols; c0 += BLOCK) {                                                \
                const int64_t c1 = pf_min(c0 + BLOCK, p->cols);                                              \
                for (int64_t r = r0; r < r1; r++)                                                            \
                    for (int64_t c = c0; c < c1; c++) y[r * p->yr + c * p->yc] = x[r * p->xr + c * p->xc];   \
            }                                                                                                \
        }                                                                                                    \
    }
PF_COPY_PLANE(8)
PF_COPY_PLANE(16)
PF_COPY_PLANE(32)
PF_COPY_PLANE(64)

static void copy_plane(const plane *p, int64_t itemsize, const char *x, char *y) {
    if (p->xc == 1 && p->yc == 1) {
        const int64_t n = p->cols * itemsize;
        for (int64_t r = 0; r < p->rows; r++) memcpy(y + r * p->yr * itemsize, x + r * p->xr * itemsize, (size_t)n);
        return;
    }
    switch (itemsize) {
    case 1: copy_plane_8(p, x, y); break;
    case 2: copy_plane_16(p, x, y); break;
    case 4: copy_plane_32(p, x, y); break;
    case 8: copy_plane_64(p, x, y); break;
    default:
        for (int64_t r = 0; r < p->rows; r++)
            for (int64_t c = 0; c < p->cols; c++)
                memcpy(y + (r * p->yr + c * p->yc) * itemsize, x + (r * p->xr + c * p->xc) * itemsize,
                       (size_t)itemsize);
    }
}

/* The last two dimensions are a plane; the planes of the other dimensions are cut into strips of rows. */
PF_KERNEL_FUNCTION(copy) {
    const pf_copy_args *a = args_;
    const int64_t rank = a->rank, size = a->itemsize;
    const char *x = pf_ptr(w, a->x);
    char *y = pf_ptr(w, a->y);
    const int64_t cols = rank > 0 ? a->shape[rank - 1] : 1, rows = rank > 1 ? a->shape[rank - 2] : 1;
    int64_t planes = 1;
    for (int64_t d = 0; d < rank - 2; d++) planes *= a->shape[d];
    const int64_t strip = pf_max(16, pf_min(rows, 65536 / pf_max(1, cols * size) / 16 * 16));
    const int64_t strips = pf_ceil_div(rows, strip);
    int64_t begin, end;
    pf_share(w, planes * strips, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t r0 = i % strips * strip;
        int64_t rest = i / strips, xo = 0, yo = 0;
        plane p = {pf_min(strip, rows - r0), cols, 0, 0, 0, 0};
        if (rank > 0) p.xc = a->xs[rank - 1], p.yc = a->ys[rank - 1];
        if (rank > 1) p.xr = a->xs[rank - 2], p.yr = a->ys[rank - 2];
        for (int64_t d = rank - 3; d >= 0; d--) {
            xo += rest % a->shape[d] * a->xs[d];
            yo += rest % a->shape[d] * a->ys[d];
            rest /= a->shape[d];
        }
        copy_plane(&p, size, x + (xo + r0 * p.xr) * size, y + (yo + r0 * p.yr) * size);
    }
}

PF_KERNEL_FUNCTION(fill) {
    const pf_fill_args *a = args_;
    char *y = pf_ptr(w, a->y);
    const int64_t bits[2] = {a->bits, a->bits_high};
    const int64_t rank = a->rank, inner = rank > 0 ? a->shape[rank - 1] : 1, step = rank > 0 ? a->ys[rank - 1] : 1;
    int64_t rows = 1, begin, end;
    for (int64_t d = 0; d < rank - 1; d++) rows *= a->shape[d];
    pf_share(w, rows, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t rest = i, yo = 0;
        for (int64_t d = rank - 2; d >= 0; d--) {
            yo += rest % a->shape[d] * a->ys[d];
            rest /= a->shape[d];
        }
        char *row = y + yo * a->itemsize;
        for (int64_t c = 0; c < inner; c++) memcpy(row + c * step * a->itemsize, bits, (size_t)a->itemsize);
    }
}
