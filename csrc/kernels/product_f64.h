/* Products of matrices of doubles, block by block: blocks of both operands are packed, so that every stride
 * is the same to the tiles: 6 rows of A, k by k, against some vectors of columns of B. The work is cut by
 * shape alone, so that results do not depend on the number of threads. */
#ifndef PF_KERNELS_PRODUCT_F64_H
#define PF_KERNELS_PRODUCT_F64_H

#include <stdbool.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/doubles.h"

enum {
    LANES = PF_VL / 2,
    ROWS = 6,
    FEW_ROWS = 2, /* of a tile for vectors */
    VECTORS = PF_REGISTERS == 32 ? 4 : 2,
    WIDTH = VECTORS * LANES,
    DEPTH = 256, /* a panel of B of that depth stays in L1, blocks of both operands in L2 */
    ROW_BLOCK = 96,
    COLUMN_BLOCK = 128,
    LEAST_COLUMNS = 64, /* of a block that is narrow so that there are WANTED_UNITS */
    WANTED_UNITS = 16,
    VECTOR_COLUMNS = 256, /* of a block for a single row */
    VECTOR_DEPTH = 16384,
};

typedef struct matmul {
    const pf_matmul_args *a;
    int64_t batches, row_panels, row_blocks, columns, column_blocks, depth;
    int64_t a_doubles, thread_doubles; /* of packed A, of all scratch of a thread */
} matmul;

/* Operands of one batch, and scratch. pack: puts k columns from k0 on of `rows` rows of A into panels of ROWS
 * rows, the rows of each element by element; missing ones are zero. NULL: rows of A are contiguous and read
 * as they lie. at: where the rows of a unit begin in y, or NULL. */
typedef struct operands {
    const double *a, *b, *c;
    double *y, *packed_a, *packed_b;
    void (*pack)(const struct operands *o, const pf_matmul_args *m, int64_t row, int64_t rows, int64_t k0,
                 int64_t k);
    const int64_t *at;
} operands;

/* vector: a single row, which is not packed into panels. */
static matmul plan_matmul(const pf_matmul_args *a, const bool vector) {
    matmul p = {.a = a, .batches = 1, .columns = COLUMN_BLOCK};
    for (int64_t d = 0; d < a->rank; d++) p.batches *= a->shape[d];
    p.row_panels = pf_ceil_div(a->m, ROWS);
    p.row_blocks = pf_ceil_div(a->m, ROW_BLOCK);
    if (vector) p.columns = VECTOR_COLUMNS;
    while (!vector && p.columns > LEAST_COLUMNS &&
           p.batches * p.row_blocks * pf_ceil_div(a->n, p.columns) < WANTED_UNITS)
        p.columns /= 2;
    p.column_blocks = pf_ceil_div(a->n, p.columns);
    const int64_t deepest = vector ? VECTOR_DEPTH : DEPTH;
    p.depth = pf_ceil_div(a->k, pf_max(1, pf_ceil_div(a->k, deepest)));
    const int64_t panels = pf_ceil_div(p.row_panels, pf_max(1, p.row_blocks));
    const int64_t columns = pf_ceil_div(pf_min(a->n, p.columns), WIDTH) * WIDTH;
    p.a_doubles = pf_ceil_div((vector ? 1 : panels * ROWS) * p.depth, 8) * 8;
    p.thread_doubles = p.a_doubles + (vector ? 0 : pf_ceil_div(columns * p.depth, 8) * 8);
    return p;
}

/* ---- packing ---- */

/* Row i of a panel of columns from j on. */
PF_INLINE void pack_row(const pf_matmul_args *m, const double *b, int64_t i, int64_t j, int64_t n,
                        double *out) {
    const double *from = b + i * m->bk + j * m->bn;
    if (j + WIDTH <= n && m->bn == 1)
        memcpy(out, from, WIDTH * sizeof *out);
    else
        for (int64_t v = 0; v < WIDTH; v++) out[v] = j + v < n ? from[v * m->bn] : 0.0;
}

/* Panels of WIDTH columns, row by row; missing columns are zero. B is read as it lies. */
static void pack_b(const pf_matmul_args *m, const double *b, int64_t k, int64_t n, double *out) {
    if (m->bn == 1)
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < n; j += WIDTH) pack_row(m, b, i, j, n, out + j * k + i * WIDTH);
    else
        for (int64_t j = 0; j < n; j += WIDTH)
            for (int64_t i = 0; i < k; i++) pack_row(m, b, i, j, n, out + j * k + i * WIDTH);
}

/* ---- tiles ---- */

/* Rows of A, whose elements are `step` apart. */
typedef struct tile_rows {
    const double *row[ROWS];
    int64_t step;
} tile_rows;

/* C[rows][vectors] = A B of a packed panel of B, rows WIDTH apart. */
PF_INLINE void tile(const int rows, const int vectors, const tile_rows *a, const double *b, int64_t k,
                    double *c) {
    const double *row[ROWS];
    PF_UNROLL
    for (int r = 0; r < rows; r++) row[r] = a->row[r];
    const int64_t step = a->step;
    pf_vd acc[ROWS][VECTORS];
    PF_UNROLL
    for (int r = 0; r < rows; r++) PF_UNROLL
    for (int v = 0; v < vectors; v++) acc[r][v] = (pf_vd){0};
    for (int64_t i = 0; k > 0; k--, i += step, b += WIDTH) {
        pf_vd columns[VECTORS];
        PF_UNROLL
        for (int v = 0; v < vectors; v++) columns[v] = *(const pf_vd_any *)(b + v * LANES);
        PF_UNROLL
        for (int r = 0; r < rows; r++) {
            const pf_vd x = row[r][i] - (pf_vd){0};
            PF_UNROLL
            for (int v = 0; v < vectors; v++) acc[r][v] = pf_fmad(x, columns[v], acc[r][v]);
        }
    }
    PF_UNROLL
    for (int r = 0; r < rows; r++) PF_UNROLL
    for (int v = 0; v < vectors; v++) *(pf_vd_any *)(c + r * WIDTH + v * LANES) = acc[r][v];
}

static void run_tile(int64_t rows, int64_t columns, const tile_rows *a, const double *b, int64_t k,
                     double *c) {
    if (rows <= FEW_ROWS)
        tile(FEW_ROWS, VECTORS, a, b, k, c);
    else if (columns <= LANES)
        tile(ROWS, 1, a, b, k, c);
    else
        tile(ROWS, VECTORS, a, b, k, c);
}

/* t, plus c unless that is NULL, for a whole row of a tile. */
PF_INLINE void add_whole(const double *t, const double *c, double *y) {
    PF_UNROLL
    for (int v = 0; v < WIDTH; v += LANES) {
        const pf_vd sum = *(const pf_vd_any *)(t + v);
        *(pf_vd_any *)(y + v) = c ? sum + *(const pf_vd_any *)(c + v) : sum;
    }
}

/* Adds a row of a tile to what is there: beta c at first, thereafter y. */
static void add_row(const pf_matmul_args *m, const operands *o, const double *t, double *y, int64_t row,
                    int64_t n, int64_t columns, int first) {
    const double *c = o->c ? o->c + row * m->cm + n * m->cn : NULL;
    if (columns == WIDTH && !(first && c))
        add_whole(t, first ? NULL : y, y);
    else if (!first)
        for (int64_t j = 0; j < columns; j++) y[j] += t[j];
    else if (c)
        for (int64_t j = 0; j < columns; j++) y[j] = t[j] + m->beta * c[j * m->cn];
    else
        for (int64_t j = 0; j < columns; j++) y[j] = t[j];
}

/* `rows` of the rows of a unit, from number r on: of packed A, or of A itself, whose last one stands for
 * those that are missing. */
static tile_rows rows_at(const operands *o, int64_t am, int64_t r, int64_t rows, int64_t k0, int64_t k) {
    tile_rows t = {.step = o->pack ? ROWS : 1};
    for (int64_t i = 0; i < ROWS; i++)
        t.row[i] = o->pack ? o->packed_a + r * k + i : o->a + (r + pf_min(i, rows - 1)) * am + k0;
    return t;
}

/* The rows of a block: from *r0 to *r1. */
static void rows_of_block(const matmul *p, int64_t row_block, int64_t *r0, int64_t *r1) {
    *r0 = p->row_panels * row_block / p->row_blocks * ROWS;
    *r1 = pf_min(p->a->m, p->row_panels * (row_block + 1) / p->row_blocks * ROWS);
}

static void run_unit(const matmul *p, const operands *o, int64_t row_block, int64_t column_block) {
    const pf_matmul_args *m = p->a;
    int64_t r0, r1, k0 = 0;
    rows_of_block(p, row_block, &r0, &r1);
    const int64_t n0 = column_block * p->columns, n1 = pf_min(m->n, n0 + p->columns);
    do {
        const int64_t k = pf_min(p->depth, m->k - k0);
        if (o->pack) o->pack(o, m, r0, r1 - r0, k0, k);
        pack_b(m, o->b + k0 * m->bk + n0 * m->bn, k, n1 - n0, o->packed_b);
        for (int64_t n = n0; n < n1; n += WIDTH)
            for (int64_t r = r0; r < r1; r += ROWS) {
                const int64_t rows = pf_min(ROWS, r1 - r), columns = pf_min(WIDTH, n1 - n);
                double t[ROWS * WIDTH];
                const tile_rows a = rows_at(o, m->am, o->pack ? r - r0 : r, rows, k0, k);
                run_tile(rows, columns, &a, o->packed_b + (n - n0) * k, k, t);
                for (int64_t i = 0; i < rows; i++) {
                    double *y = o->y + n + (o->at ? o->at[r + i - r0] : (r + i) * m->ym);
                    add_row(m, o, t + i * WIDTH, y, r + i, n, columns, k0 == 0);
                }
            }
        k0 += k;
    } while (k0 < m->k);
}

#endif
