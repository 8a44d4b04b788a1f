/* Softmax and its logarithm along one axis: of contiguous rows, of columns side by side where another
 * dimension is the contiguous one, or of anything else element by element. A NaN makes its whole row NaN, as
 * does +inf or only -inf. */
#include <math.h>

#include "kernels/extremes.h"
#include "kernels/nest.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"

enum { CHUNK = 4, COLUMNS = CHUNK * PF_VL, BLOCK = 4096, FLUSH = 128 };

PF_INLINE pf_vf row_tops(const float *x, int64_t n, float f) {
    pf_vf m[CHUNK] = {pf_set(-INFINITY), pf_set(-INFINITY), pf_set(-INFINITY), pf_set(-INFINITY)};
    int64_t i = 0;
    for (; i + COLUMNS <= n; i += COLUMNS)
#pragma GCC unroll 4
        for (int k = 0; k < CHUNK; k++) m[k] = pf_vmax(m[k], pf_load(x + i + k * PF_VL) * f);
    for (; i + PF_VL <= n; i += PF_VL) m[0] = pf_vmax(m[0], pf_load(x + i) * f);
    if (i < n) m[1] = pf_vmax(m[1], pf_first_lanes(pf_loadn(x + i, n - i) * f, n - i, -INFINITY));
    return pf_vmax(pf_vmax(m[0], m[1]), pf_vmax(m[2], m[3]));
}

PF_INLINE float row_max(const float *x, int64_t n, float f) { return pf_hmax(row_tops(x, n, f)); }

/* Sums of exp(f x - top) for n <= BLOCK elements; the terms go to y unless that is NULL. */
PF_INLINE pf_vf block_exp(const float *x, float *y, int64_t n, float f, float top) {
    pf_vf s[2] = {pf_zero(), pf_zero()};
    int64_t i = 0;
    for (; i + 2 * PF_VL <= n; i += 2 * PF_VL)
#pragma GCC unroll 2
        for (int k = 0; k < 2; k++) {
            const pf_vf e = pf_exp_term(pf_load(x + i + k * PF_VL) * f - top);
            if (y) pf_store(y + i + k * PF_VL, e);
            s[k] += e;
        }
    for (; i < n; i += PF_VL) {
        const pf_vf e = pf_exp_term(pf_load_upto(x + i, n - i) * f - top);
        if (y) pf_store_upto(y + i, e, n - i);
        s[0] += pf_first_lanes(e, n - i, 0.0f);
    }
    return s[0] + s[1];
}

/* Sum of exp(f x - top). Blocks are added up in double. */
PF_INLINE double row_exp(const float *x, float *y, int64_t n, float f, float top) {
    double sum = 0;
    for (int64_t b = 0; b < n; b += BLOCK)
        sum += pf_hsum(block_exp(x + b, y ? y + b : NULL, pf_min(BLOCK, n - b), f, top));
    return sum;
}

/* A row of at most `count` vectors stays in registers. */
PF_INLINE void short_row(const float *x, float *y, int64_t n, float f, int count) {
    pf_vf v[CHUNK], m = pf_set(-INFINITY), sum = pf_zero();
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        const int64_t lanes = n - k * PF_VL;
        v[k] = (k + 1 < count ? pf_load(x + k * PF_VL) : pf_load_or(x + k * PF_VL, lanes, 0.0f)) * f;
        m = pf_vmax(m, k + 1 < count ? v[k] : pf_first_lanes(v[k], lanes, -INFINITY));
    }
    const pf_vf top = pf_set(pf_hmax(m));
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        v[k] = pf_exp_term(v[k] - top);
        sum += k + 1 < count ? v[k] : pf_first_lanes(v[k], n - k * PF_VL, 0.0f);
    }
    const pf_vf scale = pf_set(1.0f / pf_hsum(sum));
#pragma GCC unroll 4
    for (int k = 0; k < count; k++)
        pf_store_upto(y + k * PF_VL, v[k] * scale, k + 1 < count ? PF_VL : n - k * PF_VL);
}

static void softmax_row(const float *x, float *y, int64_t n, float f) {
    switch (pf_ceil_div(n, PF_VL)) {
    case 1:
        short_row(x, y, n, f, 1);
        return;
    case 2:
        short_row(x, y, n, f, 2);
        return;
    case 3:
        short_row(x, y, n, f, 3);
        return;
    case 4:
        short_row(x, y, n, f, 4);
        return;
    default:
        break;
    }
    const float scale = (float)(1.0 / row_exp(x, y, n, f, row_max(x, n, f)));
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(y + i, pf_load(y + i) * scale);
    if (i < n) pf_storen(y + i, pf_loadn(y + i, n - i) * scale, n - i);
}

static void log_softmax_row(const float *x, float *y, int64_t n, float f) {
    const float top = row_max(x, n, f), log_sum = (float)log(row_exp(x, NULL, n, f, top));
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(y + i, (pf_load(x + i) * f - top) - log_sum);
    if (i < n) pf_storen(y + i, (pf_loadn(x + i, n - i) * f - top) - log_sum, n - i);
}

/* `count` vectors of columns, the last with `lanes` lanes; the axis runs over rows. */
PF_INLINE void columns(const pf_axis_args *a, const float *x, float *y, int logarithm, int count,
                       int64_t lanes) {
    const float f = (float)a->a;
    pf_vf top[CHUNK], part[CHUNK], sum[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) top[k] = pf_set(-INFINITY), part[k] = sum[k] = pf_zero();
    for (int64_t i = 0; i < a->n; i++)
#pragma GCC unroll 4
        for (int k = 0; k < count; k++)
            top[k] =
                pf_vmax(top[k], pf_load_upto(x + i * a->xsn + k * PF_VL, k + 1 < count ? PF_VL : lanes) * f);
    for (int64_t i = 0; i < a->n; i++)
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) {
            const int64_t m = k + 1 < count ? PF_VL : lanes;
            const pf_vf e = pf_exp_term(pf_load_upto(x + i * a->xsn + k * PF_VL, m) * f - top[k]);
            if (!logarithm) pf_store_upto(y + i * a->ysn + k * PF_VL, e, m);
            part[k] += e;
            if (i % FLUSH == FLUSH - 1) sum[k] += part[k], part[k] = pf_zero();
        }
#pragma GCC unroll 4
    for (int k = 0; k < count; k++)
        sum[k] = logarithm ? pf_vlog(sum[k] + part[k]) : 1.0f / (sum[k] + part[k]);
    for (int64_t i = 0; i < a->n; i++)
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) {
            const int64_t m = k + 1 < count ? PF_VL : lanes;
            const float *from = logarithm ? x + i * a->xsn : y + i * a->ysn;
            const pf_vf v = pf_load_upto(from + k * PF_VL, m);
            pf_store_upto(y + i * a->ysn + k * PF_VL, logarithm ? (v * f - top[k]) - sum[k] : v * sum[k], m);
        }
}

static void softmax_columns(const pf_axis_args *a, const float *x, float *y, int64_t n) {
    if (n >= COLUMNS)
        columns(a, x, y, 0, CHUNK, PF_VL);
    else
        columns(a, x, y, 0, 1, n);
}

static void log_softmax_columns(const pf_axis_args *a, const float *x, float *y, int64_t n) {
    if (n >= COLUMNS)
        columns(a, x, y, 1, CHUNK, PF_VL);
    else
        columns(a, x, y, 1, 1, n);
}

/* The extreme or the sum of lanes that belong to the same of c columns, in all of these lanes. */
PF_INLINE pf_vf over_columns(pf_vf v, int64_t c, int extreme) {
    float lanes[PF_VL];
    pf_store(lanes, v);
    for (int64_t k = c; k < PF_VL; k++)
        lanes[k % c] = extreme ? pf_nanmax1(lanes[k % c], lanes[k]) : lanes[k % c] + lanes[k];
    for (int64_t k = c; k < PF_VL; k++) lanes[k] = lanes[k % c];
    return pf_load(lanes);
}

/* All of c columns that are the whole of their rows: vectors run over several rows. */
PF_INLINE void few_columns(const pf_axis_args *a, const float *x, float *y, int64_t c, int logarithm) {
    const float f = (float)a->a;
    const int64_t total = a->n * c;
    pf_vf top = pf_set(-INFINITY), part = pf_zero(), sum = pf_zero();
    for (int64_t i = 0; i < total; i += PF_VL)
        top = pf_vmax(top, pf_first_lanes(pf_load_upto(x + i, total - i) * f, total - i, -INFINITY));
    top = over_columns(top, c, 1);
    for (int64_t i = 0, flush = 0; i < total; i += PF_VL) {
        const pf_vf e = pf_exp_term(pf_load_upto(x + i, total - i) * f - top);
        if (!logarithm) pf_store_upto(y + i, e, total - i);
        part += pf_first_lanes(e, total - i, 0.0f);
        if (++flush == FLUSH) sum += part, part = pf_zero(), flush = 0;
    }
    sum = over_columns(sum + part, c, 0);
    sum = logarithm ? pf_vlog(sum) : 1.0f / sum;
    for (int64_t i = 0; i < total; i += PF_VL) {
        const pf_vf v = pf_load_upto((logarithm ? x : y) + i, total - i);
        pf_store_upto(y + i, logarithm ? (v * f - top) - sum : v * sum, total - i);
    }
}

static void strided(const pf_axis_args *a, const float *x, float *y, int logarithm) {
    const float f = (float)a->a;
    float top = -INFINITY;
    double sum = 0;
    for (int64_t i = 0; i < a->n; i++) top = pf_nanmax1(top, x[i * a->xsn] * f);
    for (int64_t i = 0; i < a->n; i++) sum += expf(x[i * a->xsn] * f - top);
    const float factor = (float)(1.0 / sum), log_sum = (float)log(sum);
    for (int64_t i = 0; i < a->n; i++) {
        const float v = x[i * a->xsn] * f - top;
        y[i * a->ysn] = logarithm ? v - log_sum : expf(v) * factor;
    }
}

typedef void (*row_fn)(const float *x, float *y, int64_t n, float f);
typedef void (*rows_fn)(const float *x, int64_t xs, float *y, int64_t ys, int64_t n, float f);
typedef void (*columns_fn)(const pf_axis_args *a, const float *x, float *y, int64_t n);

/* Those of softmax, or of its logarithm. */
typedef struct functions {
    row_fn row;
    rows_fn short_rows; /* PF_VL of them */
    columns_fn columns;
    int logarithm;
} functions;

static void run_columns(const pf_axis_args *a, const pf_worker *w, pf_nest t, int64_t d, columns_fn fn) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t n = t.n[d], full = n / COLUMNS, blocks = full + pf_ceil_div(n - full * COLUMNS, PF_VL);
    pf_nest_remove(&t, d);
    int64_t begin, end;
    pf_share(w, t.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i % blocks, c = k < full ? k * COLUMNS : full * COLUMNS + (k - full) * PF_VL;
        pf_walk walk;
        pf_walk_start(&walk, &t, i / blocks);
        fn(a, x + walk.o[0] + c, y + walk.o[1] + c, k < full ? COLUMNS : pf_min(PF_VL, n - c));
    }
}

static int are_few_columns(const pf_axis_args *a, int64_t c) {
    return 2 * c <= PF_VL && PF_VL % c == 0 && a->xsn == c && a->ysn == c && a->n * c >= 2 * PF_VL;
}

static void run_few_columns(const pf_axis_args *a, const pf_worker *w, pf_nest t, int64_t d, int logarithm) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t c = t.n[d];
    pf_nest_remove(&t, d);
    int64_t begin, end;
    pf_share(w, t.total, 1, &begin, &end);
    if (begin >= end) return;
    pf_walk walk;
    pf_walk_start(&walk, &t, begin);
    for (int64_t i = begin; i < end; i++, pf_walk_next(&walk, &t))
        if (logarithm)
            few_columns(a, x + walk.o[0], y + walk.o[1], c, 1);
        else
            few_columns(a, x + walk.o[0], y + walk.o[1], c, 0);
}

enum { TILE = 16, TURNED = 64, SHORT = 256 }; /* rows below TURNED are transposed */

/* PF_VL rows of TILE elements, as the box distributions of detectors have them: transposed, so that every
 * lane works on a row of its own. */
static void softmax_tile(const float *x, int64_t xs, float *y, int64_t ys, float f) {
    pf_vf v[TILE];
#pragma GCC unroll 4
    for (int c = 0; c < TILE; c += PF_VL) {
#pragma GCC unroll 16
        for (int i = 0; i < PF_VL; i++) v[c + i] = pf_load(x + i * xs + c) * f;
        pf_transpose_tile(v + c);
    }
    pf_vf top = v[0], sum = pf_zero();
#pragma GCC unroll 16
    for (int i = 1; i < TILE; i++) top = pf_vmax(top, v[i]);
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i++) sum += v[i] = pf_exp_term(v[i] - top);
    const pf_vf scale = 1.0f / sum;
#pragma GCC unroll 16
    for (int i = 0; i < TILE; i++) v[i] *= scale;
#pragma GCC unroll 4
    for (int c = 0; c < TILE; c += PF_VL) {
        pf_transpose_tile(v + c);
#pragma GCC unroll 16
        for (int i = 0; i < PF_VL; i++) pf_store(y + i * ys + c, v[c + i]);
    }
}

/* Stores the first n < PF_VL lanes of rows that follow each other: each is completed by the next one. */
PF_INLINE void store_narrow(const pf_vf v[PF_VL], float *y, int64_t ys, int64_t n) {
#pragma GCC unroll 16
    for (int i = 0; i < PF_VL; i++)
        if (ys == n && i + PF_VL / n < PF_VL)
            pf_store(y + i * ys, v[i]);
        else
            pf_storen(y + i * ys, v[i], n);
}

/* The same for any n < TURNED, and the logarithm. The last tile overlaps the one before. */
PF_INLINE void short_rows(const float *x, int64_t xs, float *y, int64_t ys, int64_t n, float f,
                          int logarithm) {
    pf_vf v[TURNED], top = pf_set(-INFINITY), sum = pf_zero();
    int64_t c = 0;
    do {
        const int64_t first = pf_max(0, pf_min(c, n - PF_VL));
        pf_load_transposed(x + first, xs, PF_VL, n, v + first);
        c += PF_VL;
    } while (c < n);
    for (int64_t i = 0; i < n; i++) top = pf_vmax(top, v[i] *= f);
    for (int64_t i = 0; i < n; i++) {
        v[i] -= top;
        const pf_vf e = pf_exp_term(v[i]);
        if (!logarithm) v[i] = e;
        sum += e;
    }
    sum = logarithm ? pf_vlog(sum) : 1.0f / sum;
    for (int64_t i = 0; i < n; i++) v[i] = logarithm ? v[i] - sum : v[i] * sum;
    pf_vf last[PF_VL];
    for (int i = 0; i < PF_VL; i++) last[i] = v[pf_max(0, n - PF_VL) + i];
    for (c = 0; c + PF_VL < n; c += PF_VL) {
        pf_transpose_tile(v + c);
        for (int i = 0; i < PF_VL; i++) pf_store(y + i * ys + c, v[c + i]);
    }
    pf_transpose_tile(last);
    if (n < PF_VL)
        store_narrow(last, y, ys, n);
    else
        for (int i = 0; i < PF_VL; i++) pf_store(y + i * ys + n - PF_VL, last[i]);
}

/* The same for longer rows, each by itself but for the steps that its extreme and its sum take from lane to
 * lane. */
PF_INLINE void rows_together(const float *x, int64_t xs, float *y, int64_t ys, int64_t n, float f,
                             int logarithm) {
    float top[PF_VL], end[PF_VL];
    pf_vf v[PF_VL];
    for (int r = 0; r < PF_VL; r++) v[r] = row_tops(x + r * xs, n, f);
    pf_transpose_tile(v);
    for (int r = 1; r < PF_VL; r++) v[0] = pf_vmax(v[0], v[r]);
    pf_store(top, v[0]);
    for (int r = 0; r < PF_VL; r++) v[r] = block_exp(x + r * xs, logarithm ? NULL : y + r * ys, n, f, top[r]);
    pf_transpose_tile(v);
    for (int r = 1; r < PF_VL; r++) v[0] += v[r];
    pf_store(end, logarithm ? pf_vlog(v[0]) : 1.0f / v[0]);
    for (int r = 0; r < PF_VL; r++, x += xs, y += ys)
        for (int64_t i = 0; i < n; i += PF_VL) {
            const pf_vf e = pf_load_upto((logarithm ? x : y) + i, n - i);
            pf_store_upto(y + i, logarithm ? e * f - top[r] - end[r] : e * end[r], n - i);
        }
}

static __attribute__((noinline)) void softmax_rows(const float *x, int64_t xs, float *y, int64_t ys,
                                                   int64_t n, float f) {
    rows_together(x, xs, y, ys, n, f, 0);
}

static __attribute__((noinline)) void log_softmax_rows(const float *x, int64_t xs, float *y, int64_t ys,
                                                       int64_t n, float f) {
    rows_together(x, xs, y, ys, n, f, 1);
}

static void softmax_short_rows(const float *x, int64_t xs, float *y, int64_t ys, int64_t n, float f) {
    if (n == TILE)
        softmax_tile(x, xs, y, ys, f);
    else if (n >= TURNED)
        softmax_rows(x, xs, y, ys, n, f);
    else
        short_rows(x, xs, y, ys, n, f, 0);
}

static void log_softmax_short_rows(const float *x, int64_t xs, float *y, int64_t ys, int64_t n, float f) {
    if (n >= TURNED)
        log_softmax_rows(x, xs, y, ys, n, f);
    else
        short_rows(x, xs, y, ys, n, f, 1);
}

/* Short rows, in blocks along the innermost other dimension. */
static void run_short_rows(const pf_axis_args *a, const pf_worker *w, pf_nest t, const functions *fn) {
    const float *x = pf_ptr(w, a->x), f = (float)a->a;
    float *y = pf_ptr(w, a->y);
    const int64_t last = t.rank - 1, n = t.n[last], xs = t.s[0][last], ys = t.s[1][last],
                  blocks = pf_ceil_div(n, PF_VL);
    pf_nest_remove(&t, last);
    int64_t begin, end;
    pf_share(w, t.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        pf_walk walk;
        pf_walk_start(&walk, &t, i / blocks);
        const int64_t first = i % blocks * PF_VL;
        const float *from = x + walk.o[0] + first * xs;
        float *to = y + walk.o[1] + first * ys;
        if (n - first >= PF_VL)
            fn->short_rows(from, xs, to, ys, a->n, f);
        else
            for (int64_t k = 0; k < n - first; k++) fn->row(from + k * xs, to + k * ys, a->n, f);
    }
}

static void run(const pf_axis_args *a, const pf_worker *w, const functions *fn) {
    const pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    if (t.total == 0 || a->n == 0) return;
    const int contiguous = a->xsn == 1 && a->ysn == 1;
    const int64_t d = pf_nest_unit(&t, 1);
    if (!contiguous && d >= 0 && are_few_columns(a, t.n[d])) {
        run_few_columns(a, w, t, d, fn->logarithm);
        return;
    }
    if (!contiguous && d >= 0) {
        run_columns(a, w, t, d, fn->columns);
        return;
    }
    if (contiguous && a->n <= SHORT && t.rank) {
        run_short_rows(a, w, t, fn);
        return;
    }
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, t.total, 1, &begin, &end);
    pf_walk walk;
    pf_walk_start(&walk, &t, begin);
    for (int64_t i = begin; i < end; i++, pf_walk_next(&walk, &t)) {
        if (contiguous)
            fn->row(x + walk.o[0], y + walk.o[1], a->n, (float)a->a);
        else
            strided(a, x + walk.o[0], y + walk.o[1], fn->logarithm);
    }
}

PF_KERNEL_FUNCTION(softmax) {
    static const functions fn = {softmax_row, softmax_short_rows, softmax_columns, 0};
    run(args_, w, &fn);
}

PF_KERNEL_FUNCTION(log_softmax) {
    static const functions fn = {log_softmax_row, log_softmax_short_rows, log_softmax_columns, 1};
    run(args_, w, &fn);
}
