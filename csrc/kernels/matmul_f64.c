/* Batched products of matrices of doubles. Blocks of both operands are packed, so that every stride is the
 * same to the tiles: 6 rows of A, k by k, against some vectors of columns of B. The work is cut by shape
 * alone, so that results do not depend on the number of threads. */
#include <stdio.h>
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

/* Operands of one batch, and scratch. */
typedef struct operands {
    const double *a, *b, *c;
    double *y, *packed_a, *packed_b;
} operands;

static matmul plan_matmul(const pf_matmul_args *a) {
    matmul p = {.a = a, .batches = 1, .columns = COLUMN_BLOCK};
    for (int64_t d = 0; d < a->rank; d++) p.batches *= a->shape[d];
    p.row_panels = pf_ceil_div(a->m, ROWS);
    p.row_blocks = pf_ceil_div(a->m, ROW_BLOCK);
    if (a->m == 1) p.columns = VECTOR_COLUMNS;
    while (a->m > 1 && p.columns > LEAST_COLUMNS &&
           p.batches * p.row_blocks * pf_ceil_div(a->n, p.columns) < WANTED_UNITS)
        p.columns /= 2;
    p.column_blocks = pf_ceil_div(a->n, p.columns);
    p.depth = pf_min(a->k, a->m == 1 ? VECTOR_DEPTH : DEPTH);
    const int64_t panels = pf_ceil_div(p.row_panels, pf_max(1, p.row_blocks));
    const int64_t columns = pf_ceil_div(pf_min(a->n, p.columns), WIDTH) * WIDTH;
    p.a_doubles = pf_ceil_div((a->m == 1 ? 1 : panels * ROWS) * p.depth, 8) * 8;
    p.thread_doubles = p.a_doubles + (a->m == 1 ? 0 : pf_ceil_div(columns * p.depth, 8) * 8);
    return p;
}

/* ---- packing ---- */

/* Panels of ROWS rows times alpha, the rows of each element by element; missing ones are zero. */
static void pack_a(const pf_matmul_args *m, const double *a, int64_t rows, int64_t k, double *out) {
    for (int64_t r = 0; r < rows; r += ROWS, a += ROWS * m->am)
        for (int64_t i = 0; i < k; i++, out += ROWS)
            if (r + ROWS <= rows)
                for (int64_t j = 0; j < ROWS; j++) out[j] = m->alpha * a[j * m->am + i * m->ak];
            else
                for (int64_t j = 0; j < ROWS; j++)
                    out[j] = r + j < rows ? m->alpha * a[j * m->am + i * m->ak] : 0.0;
}

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

/* C[rows][vectors] = A B of packed panels, rows WIDTH apart. */
PF_INLINE void tile(const int rows, const int vectors, const double *a, const double *b, int64_t k,
                    double *c) {
    pf_vd acc[ROWS][VECTORS];
    PF_UNROLL
    for (int r = 0; r < rows; r++) PF_UNROLL
    for (int v = 0; v < vectors; v++) acc[r][v] = (pf_vd){0};
    for (; k > 0; k--, a += ROWS, b += WIDTH) {
        pf_vd row[VECTORS];
        PF_UNROLL
        for (int v = 0; v < vectors; v++) row[v] = *(const pf_vd_any *)(b + v * LANES);
        PF_UNROLL
        for (int r = 0; r < rows; r++) {
            const pf_vd x = a[r] - (pf_vd){0};
            PF_UNROLL
            for (int v = 0; v < vectors; v++) acc[r][v] = pf_fmad(x, row[v], acc[r][v]);
        }
    }
    PF_UNROLL
    for (int r = 0; r < rows; r++) PF_UNROLL
    for (int v = 0; v < vectors; v++) *(pf_vd_any *)(c + r * WIDTH + v * LANES) = acc[r][v];
}

static void run_tile(int64_t rows, int64_t columns, const double *a, const double *b, int64_t k, double *c) {
    if (rows <= FEW_ROWS)
        tile(FEW_ROWS, VECTORS, a, b, k, c);
    else if (columns <= LANES)
        tile(ROWS, 1, a, b, k, c);
    else
        tile(ROWS, VECTORS, a, b, k, c);
}

/* Adds a tile to what is there: beta c at first, thereafter y. */
static void add_tile(const pf_matmul_args *m, const operands *o, const double *t, int64_t r0, int64_t n0,
                     int64_t rows, int64_t columns, int first) {
    for (int64_t r = 0; r < rows; r++, t += WIDTH) {
        double *y = o->y + (r0 + r) * m->ym + n0;
        const double *c = o->c ? o->c + (r0 + r) * m->cm + n0 * m->cn : NULL;
        if (!first)
            for (int64_t j = 0; j < columns; j++) y[j] += t[j];
        else if (c)
            for (int64_t j = 0; j < columns; j++) y[j] = t[j] + m->beta * c[j * m->cn];
        else
            for (int64_t j = 0; j < columns; j++) y[j] = t[j];
    }
}

static void run_unit(const matmul *p, const operands *o, int64_t row_block, int64_t column_block) {
    const pf_matmul_args *m = p->a;
    const int64_t r0 = p->row_panels * row_block / p->row_blocks * ROWS;
    const int64_t r1 = pf_min(m->m, p->row_panels * (row_block + 1) / p->row_blocks * ROWS);
    const int64_t n0 = column_block * p->columns, n1 = pf_min(m->n, n0 + p->columns);
    int64_t k0 = 0;
    do {
        const int64_t k = pf_min(p->depth, m->k - k0);
        pack_a(m, o->a + r0 * m->am + k0 * m->ak, r1 - r0, k, o->packed_a);
        pack_b(m, o->b + k0 * m->bk + n0 * m->bn, k, n1 - n0, o->packed_b);
        for (int64_t n = n0; n < n1; n += WIDTH)
            for (int64_t r = r0; r < r1; r += ROWS) {
                const int64_t rows = pf_min(ROWS, r1 - r), columns = pf_min(WIDTH, n1 - n);
                double t[ROWS * WIDTH];
                run_tile(rows, columns, o->packed_a + (r - r0) * k, o->packed_b + (n - n0) * k, k, t);
                add_tile(m, o, t, r, n, rows, columns, k0 == 0);
            }
        k0 += k;
    } while (k0 < m->k);
}

/* ---- vectors ---- */

static double dot(const double *x, const double *v, int64_t k) {
    pf_vd s[4] = {0};
    int64_t i = 0;
    for (; i + 4 * LANES <= k; i += 4 * LANES) PF_UNROLL
    for (int j = 0; j < 4; j++)
        s[j] =
            pf_fmad(*(const pf_vd_any *)(x + i + j * LANES), *(const pf_vd_any *)(v + i + j * LANES), s[j]);
    s[0] = (s[0] + s[1]) + (s[2] + s[3]);
    double sum = 0.0;
    for (int j = 0; j < LANES; j++) sum += s[0][j];
    for (; i < k; i++) sum += x[i] * v[i];
    return sum;
}

/* t += k elements of a times rows of B, four at a time where that goes on. */
static void add_rows(const double *a, const double *b, int64_t bk, int64_t bn, int64_t k, int64_t n,
                     double *t) {
    int64_t i = 0;
    for (; bn == 1 && i + 4 <= k; i += 4, b += 4 * bk)
        for (int64_t j = 0; j < n; j++)
            t[j] +=
                (a[i] * b[j] + a[i + 1] * b[bk + j]) + (a[i + 2] * b[2 * bk + j] + a[i + 3] * b[3 * bk + j]);
    for (; i < k; i++, b += bk)
        for (int64_t j = 0; j < n; j++) t[j] += a[i] * b[j * bn];
}

/* The single row of A times columns [n0, n1) of B; elements of y are yn apart. */
static void run_row(const matmul *p, const operands *o, int64_t yn, int64_t n0, int64_t n1) {
    const pf_matmul_args *m = p->a;
    double t[VECTOR_COLUMNS] = {0}, *a = o->packed_a;
    for (int64_t k0 = 0; k0 < m->k; k0 += p->depth) {
        const int64_t k = pf_min(p->depth, m->k - k0);
        const double *b = o->b + k0 * m->bk + n0 * m->bn;
        for (int64_t i = 0; i < k; i++) a[i] = m->alpha * o->a[(k0 + i) * m->ak];
        if (m->bk == 1)
            for (int64_t j = 0; j < n1 - n0; j++) t[j] += dot(a, b + j * m->bn, k);
        else
            add_rows(a, b, m->bk, m->bn, k, n1 - n0, t);
    }
    for (int64_t j = n0; j < n1; j++) o->y[j * yn] = t[j - n0] + (o->c ? m->beta * o->c[j * m->cn] : 0.0);
}

/* The transposed product, of which a column of A B is a row. */
static pf_matmul_args transposed(const pf_matmul_args *m) {
    pf_matmul_args t = *m;
    t.a = m->b, t.b = m->a, t.m = m->n, t.n = m->m;
    memcpy(t.as, m->bs, sizeof t.as), memcpy(t.bs, m->as, sizeof t.bs);
    t.am = m->bn, t.ak = m->bk, t.bk = m->ak, t.bn = m->am, t.cm = m->cn, t.cn = m->cm;
    return t;
}

/* ---- the kernel ---- */

PF_KERNEL_FUNCTION(matmul_f64) {
    const pf_matmul_args *given = args_, *m = given, turned = transposed(given);
    const int64_t yn = given->n == 1 ? given->ym : 1;
    if (given->n == 1) m = &turned;
    const matmul p = plan_matmul(m);
    const int64_t units = p.row_blocks * p.column_blocks;
    if (m->m == 0 || m->n == 0) return;
    for (int64_t u = pf_claim(w, 1); u < p.batches * units; u = pf_claim(w, 1)) {
        operands o = {.a = pf_ptr(w, m->a), .b = pf_ptr(w, m->b), .c = pf_ptr(w, m->c), .y = pf_ptr(w, m->y)};
        int64_t batch = u / units;
        for (int64_t d = m->rank - 1; d >= 0; batch /= m->shape[d], d--) {
            const int64_t i = batch % m->shape[d];
            o.a += i * m->as[d], o.b += i * m->bs[d], o.y += i * m->ys[d];
            if (o.c) o.c += i * m->cs[d];
        }
        o.packed_a = (double *)pf_ptr(w, m->scratch) + w->tid * p.thread_doubles;
        o.packed_b = o.packed_a + p.a_doubles;
        const int64_t row = u % units / p.column_blocks, column = u % p.column_blocks;
        if (m->m == 1)
            run_row(&p, &o, yn, column * p.columns, pf_min(m->n, (column + 1) * p.columns));
        else
            run_unit(&p, &o, row, column);
    }
}

PF_PLAN_FUNCTION(matmul_f64) {
    const pf_matmul_args *m = args_, turned = transposed(m);
    const matmul p = plan_matmul(m->n == 1 ? &turned : m);
    plan->scratch_bytes = nthreads * p.thread_doubles * (int64_t)sizeof(double);
    snprintf(plan->label, sizeof plan->label, "matmul %dx%d", ROWS, WIDTH);
}
