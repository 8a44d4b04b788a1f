/* Batched products of matrices of doubles; blocks and tiles are those of product_f64.h. */
#include <stdio.h>

#include "kernels/product_f64.h"

/* Rows times alpha; see operands. */
static void pack_a(const operands *o, const pf_matmul_args *m, int64_t row, int64_t rows, int64_t k0,
                   int64_t k) {
    const double *a = o->a + row * m->am + k0 * m->ak;
    double *out = o->packed_a;
    for (int64_t r = 0; r < rows; r += ROWS, a += ROWS * m->am)
        for (int64_t i = 0; i < k; i++, out += ROWS)
            if (r + ROWS <= rows)
                for (int64_t j = 0; j < ROWS; j++) out[j] = m->alpha * a[j * m->am + i * m->ak];
            else
                for (int64_t j = 0; j < ROWS; j++)
                    out[j] = r + j < rows ? m->alpha * a[j * m->am + i * m->ak] : 0.0;
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
    const matmul p = plan_matmul(m, m->m == 1);
    const int64_t units = p.row_blocks * p.column_blocks;
    if (m->m == 0 || m->n == 0) return;
    for (int64_t u = pf_claim(w, 1); u < p.batches * units; u = pf_claim(w, 1)) {
        operands o = {.a = pf_ptr(w, m->a),
                      .b = pf_ptr(w, m->b),
                      .c = pf_ptr(w, m->c),
                      .y = pf_ptr(w, m->y),
                      .pack = m->ak == 1 && m->alpha == 1.0 ? NULL : pack_a};
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
    const matmul p = plan_matmul(m->n == 1 ? &turned : m, m->n == 1 || m->m == 1);
    plan->scratch_bytes = nthreads * p.thread_doubles * (int64_t)sizeof(double);
    snprintf(plan->label, sizeof plan->label, "matmul %dx%d", ROWS, WIDTH);
}
