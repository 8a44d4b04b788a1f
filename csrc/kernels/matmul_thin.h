/* Products of a few vectors and a matrix, which wait for memory: the matrix is streamed once, as it lies.
 * Where its columns are contiguous they are multiplied as dot products, some at once; where its rows are,
 * multiples of some rows at once are added up. The columns are cut into parts, and long ones into pieces,
 * whose sums whoever finishes last adds up in order. All of this by shape alone, so that results do not
 * depend on the number of threads. Used by matmul.c alone. */
#ifndef PF_KERNELS_MATMUL_THIN_H
#define PF_KERNELS_MATMUL_THIN_H

#include "kernels/args.h"
#include "kernels/simd.h"

enum {
    PF_THIN_ROWS = 4,
    PF_THIN_COLUMNS = 2048, /* of a unit, at most, and of sums, which stay in L1 */
    PF_THIN_SUMS = 4096,
    PF_THIN_LINE = 64,         /* columns that units are multiples of */
    PF_THIN_UNITS = 16,        /* wanted, of */
    PF_THIN_FLOATS = 32 << 10, /* so much of the matrix at least */
    PF_THIN_PIECE = 4096,      /* least elements of a piece of a dot product, or */
    PF_THIN_PIECE_ROWS = 64,   /* rows of a piece of others */
    PF_THIN_LARGE = 64 << 10,  /* matrices that are not read from L1 and L2 */
    PF_THIN_PADDED = PF_THIN_SUMS + PF_THIN_ROWS * PF_THIN_LINE, /* sums of a unit */
};

/* y[r, c] = alpha (sum over k of v[r, k] x[k, c]) + beta z[r, c]: y, or its transpose. */
typedef struct pf_thin {
    int64_t rows, columns, k, vr, vk, xk, xc, yr, yc, zr, zc;
    int transposed, dots;
    int64_t batches, part, parts, piece, pieces; /* columns of a part, elements of a piece */
} pf_thin;

typedef struct pf_thin_batch {
    const float *v, *x, *z;
    float *y;
} pf_thin_batch;

static inline int pf_thin_fits(pf_thin *t) {
    const int large = t->columns * t->k >= PF_THIN_LARGE;
    if (t->rows > PF_THIN_ROWS || t->columns < t->rows) return 0;
    t->dots = (t->xk == 1 || t->k <= 1) && (t->vk == 1 || t->k <= 1);
    /* A matrix of a tile's width is as good a panel; a square is no matrix unless its sums are long. */
    if (t->dots) return t->columns > t->rows || t->k >= PF_THIN_LINE;
    return t->xc == 1 && 2 * t->columns >= PF_VL && (t->rows == 1 || large);
}

static inline void pf_thin_cut(pf_thin *t) {
    const double all = (double)t->batches * (double)t->columns * (double)t->k / PF_THIN_FLOATS;
    const int64_t wanted = all < 1 ? 1 : all < PF_THIN_UNITS ? (int64_t)all : PF_THIN_UNITS;
    const int64_t least = t->dots ? PF_THIN_LINE : 4 * PF_THIN_LINE;
    int64_t parts = pf_ceil_div(t->columns, pf_min(PF_THIN_COLUMNS, PF_THIN_SUMS / t->rows));
    if (parts * t->batches < wanted)
        parts = pf_max(parts, pf_min(pf_ceil_div(wanted, t->batches), t->columns / least));
    t->part = pf_ceil_div(pf_ceil_div(t->columns, parts), PF_THIN_LINE) * PF_THIN_LINE;
    t->parts = pf_ceil_div(t->columns, t->part);
    t->pieces = pf_max(
        1, pf_min(wanted / (t->parts * t->batches), t->k / (t->dots ? PF_THIN_PIECE : PF_THIN_PIECE_ROWS)));
    t->piece = pf_ceil_div(pf_ceil_div(t->k, t->pieces), PF_THIN_LINE) * PF_THIN_LINE;
    t->pieces = t->k ? pf_ceil_div(t->k, t->piece) : 1;
}

/* Whether the product is such a one; then also how. */
static inline int pf_thin_plan(const pf_matmul_args *m, int64_t batches, pf_thin *t) {
    if (m->m == 0 || m->n == 0 || batches == 0) return 0;
    *t = (pf_thin){
        .rows = m->m, .columns = m->n, .k = m->k, .vr = m->am, .vk = m->ak, .xk = m->bk, .xc = m->bn};
    t->yr = m->ym, t->yc = 1, t->zr = m->cm, t->zc = m->cn, t->batches = batches;
    int fits = pf_thin_fits(t);
    if (!fits) {
        *t = (pf_thin){
            .rows = m->n, .columns = m->m, .k = m->k, .vr = m->bn, .vk = m->bk, .xk = m->ak, .xc = m->am};
        t->yr = 1, t->yc = m->ym, t->zr = m->cn, t->zc = m->cm, t->batches = batches, t->transposed = 1;
        fits = pf_thin_fits(t);
    }
    if (fits) pf_thin_cut(t);
    return fits;
}

static inline int64_t pf_thin_units(const pf_thin *t) { return t->batches * t->parts * t->pieces; }

/* Sums of pieces, where there are several. */
static inline int64_t pf_thin_scratch(const pf_thin *t) {
    return t->pieces > 1 ? pf_thin_units(t) * PF_THIN_PADDED * (int64_t)sizeof(float) : 0;
}

/* `rows` vectors times `columns` columns of x, with `steps` vectors of each at once. */
PF_INLINE void pf_thin_dots(const float *v, int64_t vr, const float *x, int64_t xc, int64_t k, float *sums,
                            int64_t step, const int rows, const int columns, const int steps) {
    pf_vf s[PF_THIN_ROWS][4][4];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++)
#pragma GCC unroll 4
            for (int i = 0; i < steps; i++) s[r][c][i] = pf_zero();
    int64_t j = 0;
    for (; j + steps * PF_VL <= k; j += steps * PF_VL)
#pragma GCC unroll 4
        for (int i = 0; i < steps; i++)
#pragma GCC unroll 4
            for (int c = 0; c < columns; c++) {
                const pf_vf b = pf_load(x + c * xc + j + i * PF_VL);
#pragma GCC unroll 4
                for (int r = 0; r < rows; r++)
                    s[r][c][i] = pf_fma(b, pf_load(v + r * vr + j + i * PF_VL), s[r][c][i]);
            }
    for (; j < k; j += PF_VL)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
            const pf_vf b = pf_load_upto(x + c * xc + j, k - j);
#pragma GCC unroll 4
            for (int r = 0; r < rows; r++)
                s[r][c][0] = pf_fma(b, pf_load_upto(v + r * vr + j, k - j), s[r][c][0]);
        }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int c = 0; c < columns; c++) {
#pragma GCC unroll 4
            for (int i = 1; i < steps; i++) s[r][c][0] += s[r][c][i];
            sums[r * step + c] = pf_hsum(s[r][c][0]);
        }
}

PF_INLINE void pf_thin_all_dots(const pf_thin *t, const float *v, const float *x, int64_t n, int64_t k,
                                float *sums, const int rows) {
    const int columns = rows > 2 ? 2 : 4;
    int64_t c = 0;
    for (; c + columns <= n; c += columns)
        pf_thin_dots(v, t->vr, x + c * t->xc, t->xc, k, sums + c, t->part, rows, columns, rows == 1 ? 2 : 1);
    for (; c < n; c++)
        pf_thin_dots(v, t->vr, x + c * t->xc, t->xc, k, sums + c, t->part, rows, 1, rows > 2 ? 2 : 4);
}

/* Adds multiples of `count` rows of x to a vector of sums. */
PF_INLINE void pf_thin_add_vector(const pf_vf f[PF_THIN_ROWS][8], const float *x, int64_t xk, int64_t lanes,
                                  float *sums, int64_t step, const int rows, const int count) {
    pf_vf s[PF_THIN_ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) s[r] = pf_load(sums + r * step);
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
        const pf_vf b = pf_load_upto(x + i * xk, lanes);
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) s[r] = pf_fma(f[r][i], b, s[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++) pf_store(sums + r * step, s[r]);
}

/* The same for n columns. Each row begins another stream, which takes the processor a while to notice: the
 * next ones, at x + next, are fetched meanwhile. */
PF_INLINE void pf_thin_add(const pf_thin *t, const float *v, const float *x, int64_t n, int64_t next,
                           float *sums, const int rows, const int count) {
    enum { LINE = 16 };
    pf_vf f[PF_THIN_ROWS][8];
#pragma GCC unroll 4
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 8
        for (int i = 0; i < count; i++) f[r][i] = pf_set(v[r * t->vr + i * t->vk]);
    int64_t j = 0;
    for (; j + LINE <= n; j += LINE) {
#pragma GCC unroll 8
        for (int i = 0; i < count; i++) __builtin_prefetch(x + next + i * t->xk + j);
#pragma GCC unroll 4
        for (int i = 0; i < LINE; i += PF_VL)
            pf_thin_add_vector(f, x + j + i, t->xk, PF_VL, sums + j + i, t->part, rows, count);
    }
    for (; j < n; j += PF_VL) pf_thin_add_vector(f, x + j, t->xk, n - j, sums + j, t->part, rows, count);
}

PF_INLINE void pf_thin_add_all(const pf_thin *t, const float *v, const float *x, int64_t n, int64_t k,
                               float *sums, const int rows) {
    const int count = rows == 1 ? 8 : rows == 2 ? 4 : 2;
    int64_t i = 0;
    for (int r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j += PF_VL) pf_store(sums + r * t->part + j, pf_zero());
    for (; i + count <= k; i += count)
        pf_thin_add(t, v + i * t->vk, x + i * t->xk, n, i + 2 * count <= k ? count * t->xk : 0, sums, rows,
                    count);
    for (; i < k; i++) pf_thin_add(t, v + i * t->vk, x + i * t->xk, n, 0, sums, rows, 1);
}

/* Sums of n columns over k elements. */
static void pf_thin_sums(const pf_thin *t, const float *v, const float *x, int64_t n, int64_t k,
                         float *sums) {
    switch (t->dots ? -t->rows : t->rows) {
#define PF_THIN_CASE(rows)                                                                                   \
case -rows:                                                                                                  \
    pf_thin_all_dots(t, v, x, n, k, sums, rows);                                                             \
    return;                                                                                                  \
case rows:                                                                                                   \
    pf_thin_add_all(t, v, x, n, k, sums, rows);                                                              \
    return;
        PF_THIN_CASE(1)
        PF_THIN_CASE(2)
        PF_THIN_CASE(3)
        PF_THIN_CASE(4)
    default:
        return;
    }
}

/* What is made of the sums of n columns from column `first` on. */
static void pf_thin_finish(const pf_matmul_args *m, const pf_thin *t, const pf_thin_batch *o, int64_t first,
                           int64_t n, const float *sums) {
    const float alpha = (float)m->alpha, beta = (float)m->beta;
    for (int64_t r = 0; r < t->rows; r++, sums += t->part) {
        float *y = o->y + r * t->yr + first * t->yc;
        const float *z = o->z ? o->z + r * t->zr + first * t->zc : NULL;
        if (t->yc == 1 && !z)
            for (int64_t j = 0; j < n; j += PF_VL) pf_store_upto(y + j, alpha * pf_load(sums + j), n - j);
        else
            for (int64_t j = 0; j < n; j++)
                y[j * t->yc] = z ? alpha * sums[j] + beta * z[j * t->zc] : alpha * sums[j];
    }
}

#endif
