/* Work along an axis that is neither a reduction nor a softmax: running sums and products, division by a
 * norm, local response normalisation. Places of extremes are in places.c. */
#include <math.h>

#include "kernels/doubles.h"
#include "kernels/extremes.h"
#include "kernels/nest.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"

enum { RUNNING = 512, SHARE = 4 * PF_VL, DEEP = 4 };

/* Calls fn for every line along the axis of this thread's share, with the offsets of x and y. */
typedef void (*line_fn)(const pf_axis_args *a, const float *x, float *y);

static void each_line(const pf_axis_args *a, const pf_worker *w, line_fn fn) {
    const pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, t.total, 1, &begin, &end);
    if (begin >= end || a->n == 0) return;
    pf_walk p;
    pf_walk_start(&p, &t, begin);
    for (int64_t i = begin; i < end; i++, pf_walk_next(&p, &t)) fn(a, x + p.o[0], y + p.o[1]);
}

/* Calls for up to RUNNING lines side by side, where lines are such columns, else for single lines. */
typedef void (*columns_fn)(const pf_axis_args *a, const float *x, float *y, int64_t count);

/* Calls for PF_VL contiguous lines at distances xs and ys. */
typedef void (*lines_fn)(const pf_axis_args *a, const float *x, int64_t xs, float *y, int64_t ys);

/* Whether there are so many contiguous lines that all threads find some to take at once. */
static int are_many_lines(const pf_axis_args *a, const pf_worker *w, const pf_nest *t) {
    return a->xsn == 1 && a->ysn == 1 && t->rank > 0 && t->n[t->rank - 1] >= PF_VL &&
           t->total >= PF_VL * w->nthreads;
}

static void each_lines(const pf_axis_args *a, const pf_worker *w, pf_nest t, line_fn line, lines_fn lines) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t d = t.rank - 1, n = t.n[d], xs = t.s[0][d], ys = t.s[1][d], blocks = pf_ceil_div(n, PF_VL);
    pf_nest_remove(&t, d);
    int64_t begin, end;
    pf_share(w, t.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % blocks * PF_VL;
        pf_walk p;
        pf_walk_start(&p, &t, i / blocks);
        const float *from = x + p.o[0] + first * xs;
        float *to = y + p.o[1] + first * ys;
        if (n - first >= PF_VL)
            lines(a, from, xs, to, ys);
        else
            for (int64_t k = 0; k < n - first; k++) line(a, from + k * xs, to + k * ys);
    }
}

static void each(const pf_axis_args *a, const pf_worker *w, line_fn line, lines_fn lines,
                 columns_fn columns) {
    pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t d = pf_nest_unit(&t, 1);
    int64_t begin, end;
    if (t.total == 0 || a->n == 0) return;
    if (are_many_lines(a, w, &t)) {
        each_lines(a, w, t, line, lines);
        return;
    }
    if (d < 0 || a->xsn == 1) {
        each_line(a, w, line);
        return;
    }
    /* Pieces of a row, some for each thread. */
    const int64_t n = t.n[d], most = w->nthreads > 1 ? t.total / (4 * w->nthreads) : RUNNING;
    const int64_t width = pf_max(SHARE, pf_min(RUNNING, most) / SHARE * SHARE),
                  blocks = pf_ceil_div(n, width);
    pf_nest_remove(&t, d);
    pf_share(w, t.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = i % blocks * width;
        pf_walk p;
        pf_walk_start(&p, &t, i / blocks);
        columns(a, x + p.o[0] + c, y + p.o[1] + c, pf_min(width, n - c));
    }
}

/* -- running sums and products, in double as PyTorch takes them -- */

static void sum_line(const pf_axis_args *a, const float *x, float *y) {
    double sum = 0;
    for (int64_t i = 0; i < a->n; i++) y[i * a->ysn] = (float)(sum += x[i * a->xsn]);
}
static void product_line(const pf_axis_args *a, const float *x, float *y) {
    double product = 1;
    for (int64_t i = 0; i < a->n; i++) y[i * a->ysn] = (float)(product *= x[i * a->xsn]);
}

/* One vector of lines side by side, `rows` elements further. */
PF_INLINE void run_vector(const pf_axis_args *a, const float *x, float *y, int64_t lanes, double *state,
                          int64_t rows, int product) {
    pf_vd low = *(const pf_vd_any *)state, high = *(const pf_vd_any *)(state + PF_VL / 2);
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; i++) {
        const pf_vf v = pf_load_upto(x + i * a->xsn, lanes);
        low = product ? low * pf_low_half(v) : low + pf_low_half(v);
        high = product ? high * pf_high_half(v) : high + pf_high_half(v);
        pf_store_upto(y + i * a->ysn, pf_join(low, high), lanes);
    }
    *(pf_vd_any *)state = low, *(pf_vd_any *)(state + PF_VL / 2) = high;
}
PF_INLINE void run_rows(const pf_axis_args *a, const float *x, float *y, int64_t count, double *state,
                        int64_t rows, int product) {
    int64_t c = 0;
    for (; c + PF_VL <= count; c += PF_VL) run_vector(a, x + c, y + c, PF_VL, state + c, rows, product);
    if (c < count) run_vector(a, x + c, y + c, count - c, state + c, rows, product);
}
/* The same for up to RUNNING lines side by side: long pieces of rows, as single lines of the cache, which lie
 * far apart, are not foreseen. */
PF_INLINE void run_columns(const pf_axis_args *a, const float *x, float *y, int64_t count, int product) {
    double state[RUNNING];
    for (int64_t c = 0; c < pf_ceil_div(count, PF_VL) * PF_VL; c++) state[c] = product ? 1.0 : 0.0;
    int64_t i = 0;
    for (; i + DEEP <= a->n; i += DEEP)
        run_rows(a, x + i * a->xsn, y + i * a->ysn, count, state, DEEP, product);
    for (; i < a->n; i++) run_rows(a, x + i * a->xsn, y + i * a->ysn, count, state, 1, product);
}
/* The same for PF_VL contiguous lines, which are transposed tile by tile. */
PF_INLINE void run_lines(const pf_axis_args *a, const float *x, int64_t xs, float *y, int64_t ys,
                         int product) {
    pf_vd low = (pf_vd){0} + (product ? 1.0 : 0.0), high = low;
    for (int64_t c = 0; c < a->n; c += PF_VL) {
        const int64_t count = pf_min(PF_VL, a->n - c);
        pf_vf v[PF_VL];
        pf_load_transposed(x + c, xs, PF_VL, count, v);
#pragma GCC unroll 16
        for (int i = 0; i < PF_VL; i++) {
            low = product ? low * pf_low_half(v[i]) : low + pf_low_half(v[i]);
            high = product ? high * pf_high_half(v[i]) : high + pf_high_half(v[i]);
            v[i] = pf_join(low, high);
        }
        pf_transpose_tile(v);
#pragma GCC unroll 16
        for (int i = 0; i < PF_VL; i++)
            if (count == PF_VL)
                pf_store(y + i * ys + c, v[i]);
            else
                pf_storen(y + i * ys + c, v[i], count);
    }
}
static void sum_lines(const pf_axis_args *a, const float *x, int64_t xs, float *y, int64_t ys) {
    run_lines(a, x, xs, y, ys, 0);
}
static void product_lines(const pf_axis_args *a, const float *x, int64_t xs, float *y, int64_t ys) {
    run_lines(a, x, xs, y, ys, 1);
}
static void sum_columns(const pf_axis_args *a, const float *x, float *y, int64_t count) {
    run_columns(a, x, y, count, 0);
}
static void product_columns(const pf_axis_args *a, const float *x, float *y, int64_t count) {
    run_columns(a, x, y, count, 1);
}
PF_KERNEL_FUNCTION(cumsum) { each(args_, w, sum_line, sum_lines, sum_columns); }
PF_KERNEL_FUNCTION(cumprod) { each(args_, w, product_line, product_lines, product_columns); }

/* -- x / max(|x|_p, eps) -- */

static double norm_of(const float *x, int64_t n, int64_t step, double p) {
    double sum = 0;
    float top = 0;
    if (isinf(p)) {
        for (int64_t i = 0; i < n; i++) top = pf_nanmax1(top, fabsf(x[i * step]));
        return top;
    }
    for (int64_t i = 0; i < n; i++) {
        const double v = fabs((double)x[i * step]);
        sum += p == 2 ? v * v : p == 1 ? v : p == 0 ? v != 0 : pow(v, p);
    }
    return p == 2 ? sqrt(sum) : p == 1 || p == 0 ? sum : pow(sum, 1 / p);
}

static double squares_of_row(const float *x, int64_t n) {
    enum { BLOCK = 2048 };
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK) {
        const int64_t m = pf_min(BLOCK, n - b);
        pf_vf s[2] = {pf_zero(), pf_zero()};
        for (int64_t i = 0; i < m; i += 2 * PF_VL)
#pragma GCC unroll 2
            for (int k = 0; k < 2; k++) {
                const pf_vf v = pf_load_upto(x + b + i + k * PF_VL, m - i - k * PF_VL);
                s[k] += v * v;
            }
        sum += pf_hsum(s[0] + s[1]);
    }
    return sum;
}

static void normalize_line(const pf_axis_args *a, const float *x, float *y) {
    const int contiguous = a->xsn == 1 && a->ysn == 1;
    const double norm =
        contiguous && a->a == 2 ? sqrt(squares_of_row(x, a->n)) : norm_of(x, a->n, a->xsn, a->a);
    const float divisor = norm < a->b ? (float)a->b : (float)norm;
    if (!contiguous) {
        for (int64_t i = 0; i < a->n; i++) y[i * a->ysn] = x[i * a->xsn] / divisor;
        return;
    }
    for (int64_t i = 0; i < a->n; i += PF_VL)
        pf_store_upto(y + i, pf_load_upto(x + i, a->n - i) / pf_set(divisor), a->n - i);
}
PF_KERNEL_FUNCTION(normalize) { each_line(args_, w, normalize_line); }

/* -- x / (k + alpha * mean of squares over `size` neighbours)^beta -- */

PF_INLINE pf_vf response(pf_vf x, pf_vf squares, float alpha, float beta, float k) {
    const pf_vf base = pf_fma(pf_set(alpha), squares, pf_set(k));
    if (beta == 1.0f) return x / base;
    const pf_vf root = pf_vsqrt(base);
    if (beta == 0.5f) return x / root;
    if (beta == 0.75f) return x / (root * pf_vsqrt(root));
    return x * pf_vexp(pf_vlog(base) * -beta);
}

/* A vector of lines, or of neighbouring elements of one line when `step` is the axis itself. */
PF_INLINE pf_vf squares_around(const pf_axis_args *a, const float *x, int64_t i, int64_t lanes,
                               int64_t before) {
    const int64_t size = (int64_t)a->a;
    const int64_t first = pf_max(0, i - before), last = pf_min(a->n, i - before + size);
    pf_vf sum = pf_zero();
    for (int64_t j = first; j < last; j++) {
        const pf_vf v = pf_load_upto(x + j * a->xsn, lanes);
        sum = pf_fma(v, v, sum);
    }
    return sum;
}

static void response_line(const pf_axis_args *a, const float *x, float *y) {
    const int64_t size = (int64_t)a->a, before = size / 2, after = size - before - 1;
    const float alpha = (float)(a->b / a->a), beta = (float)a->c, k = (float)a->d;
    const int vectors = a->xsn == 1 && a->ysn == 1 && before + PF_VL + after <= a->n;
    int64_t i = 0;
    while (i < a->n) {
        if (vectors && i >= before && i < a->n - after) {
            /* The last vector repeats elements of the one before it. */
            i = pf_min(i, a->n - after - PF_VL);
            pf_vf sum = pf_zero();
            for (int64_t j = i - before; j <= i + after; j++)
                sum = pf_fma(pf_load(x + j), pf_load(x + j), sum);
            pf_store(y + i, response(pf_load(x + i), sum, alpha, beta, k));
            i += PF_VL;
            continue;
        }
        const pf_vf v = pf_loadn(x + i * a->xsn, 1);
        y[i * a->ysn] = response(v, squares_around(a, x, i, 1, before), alpha, beta, k)[0];
        i++;
    }
}

PF_KERNEL_FUNCTION(local_response_norm) {
    const pf_axis_args *a = args_;
    pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const int64_t d = pf_nest_unit(&t, 1);
    if (a->xsn == 1 || d < 0 || t.total == 0) {
        each_line(a, w, response_line);
        return;
    }
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const float alpha = (float)(a->b / a->a), beta = (float)a->c, k = (float)a->d;
    const int64_t n = t.n[d], blocks = pf_ceil_div(n, PF_VL), before = (int64_t)a->a / 2;
    int64_t begin, end;
    pf_nest_remove(&t, d);
    pf_share(w, t.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = i % blocks * PF_VL, lanes = pf_min(PF_VL, n - c);
        pf_walk p;
        pf_walk_start(&p, &t, i / blocks);
        for (int64_t j = 0; j < a->n; j++) {
            const pf_vf sum = squares_around(a, x + p.o[0] + c, j, lanes, before);
            const pf_vf v = pf_load_upto(x + p.o[0] + c + j * a->xsn, lanes);
            pf_store_upto(y + p.o[1] + c + j * a->ysn, response(v, sum, alpha, beta, k), lanes);
        }
    }
}
