/* Reductions over any set of dimensions: sums, products, extremes, norms, log-sum-exp, variance. Sums are
 * taken in short float blocks that are added up in double, so that results do not depend on the length. Where
 * the reduced elements lie together they are folded as rows; where the kept ones do, as columns side by side,
 * and so are short rows, transposed.
 */
#include <string.h>

#include "kernels/doubles.h"
#include "kernels/extremes.h"
#include "kernels/reduce_plan.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"

enum { BLOCK = 2048, FLUSH = 128, CHUNK = 4, COLUMNS = CHUNK * PF_VL };

PF_INLINE float identity(term t) {
    return t == TERM_MAX || t == TERM_ABS_MAX   ? -INFINITY
           : t == TERM_MIN || t == TERM_ABS_MIN ? INFINITY
           : t == TERM_PRODUCT                  ? 1.0f
                                                : 0.0f;
}

/* |v|^p; zero to a negative power is infinite, as in powf. */
PF_INLINE pf_vf power(pf_vf v, float p) {
    v = pf_vabs(v);
    return p == 3.0f ? v * v * v : p == 0.5f ? pf_vsqrt(v) : pf_vexp(pf_vlog(v) * p);
}

PF_INLINE pf_vf apply(term t, pf_vf v, pf_vf shift, float p) {
    switch (t) {
    case TERM_ABS:
    case TERM_ABS_MAX:
    case TERM_ABS_MIN:
        return pf_vabs(v);
    case TERM_SQUARE:
        return v * v;
    case TERM_POWER:
        return power(v, p);
    case TERM_NONZERO:
        return pf_select(v != 0.0f, pf_set(1.0f), pf_zero());
    case TERM_EXP:
        return pf_vexp(v - shift);
    case TERM_DEVIATION:
        return (v - shift) * (v - shift);
    case TERM_NUMBER:
        return pf_select(v == v, v, pf_zero());
    default:
        return v;
    }
}

PF_INLINE pf_vf join(term t, pf_vf a, pf_vf v) {
    if (t == TERM_MAX || t == TERM_ABS_MAX) return pf_nanmax(a, v);
    if (t == TERM_MIN || t == TERM_ABS_MIN) return pf_nanmin(a, v);
    return t == TERM_PRODUCT ? a * v : a + v;
}

PF_INLINE double join1(term t, double a, float v) {
    if (t == TERM_MAX || t == TERM_ABS_MAX) return pf_nanmax1((float)a, v);
    if (t == TERM_MIN || t == TERM_ABS_MIN) return pf_nanmin1((float)a, v);
    return t == TERM_PRODUCT ? a * v : a + v;
}

PF_INLINE double fold_lanes(term t, double acc, pf_vf v) {
    if (t == TERM_MAX || t == TERM_ABS_MAX) return join1(t, acc, pf_hmax(v));
    if (t == TERM_MIN || t == TERM_ABS_MIN) return join1(t, acc, pf_hmin(v));
    if (t == TERM_PRODUCT) {
        for (int k = 0; k < PF_VL; k++) acc *= v[k];
        return acc;
    }
    /* A tree of halves: the chain of sixteen additions would take longer than a short row. */
    double lanes[PF_VL / 2];
    const pf_vd sums = pf_low_half(v) + pf_high_half(v);
    memcpy(lanes, &sums, sizeof lanes);
#pragma GCC unroll 4
    for (int n = PF_VL / 4; n > 0; n /= 2)
#pragma GCC unroll 4
        for (int k = 0; k < n; k++) lanes[k] += lanes[k + n];
    return acc + lanes[0];
}

/* Folds n contiguous elements into acc. */
PF_INLINE double fold_row(term t, const float *x, int64_t n, float shift, float p, double acc) {
    const pf_vf s = pf_set(shift);
    for (; n > 0; x += BLOCK, n -= BLOCK) {
        const int64_t m = pf_min(n, BLOCK);
        pf_vf a[CHUNK] = {pf_set(identity(t)), pf_set(identity(t)), pf_set(identity(t)), pf_set(identity(t))};
        int64_t i = 0;
        for (; i + COLUMNS <= m; i += COLUMNS)
#pragma GCC unroll 4
            for (int k = 0; k < CHUNK; k++) a[k] = join(t, a[k], apply(t, pf_load(x + i + k * PF_VL), s, p));
        for (; i + PF_VL <= m; i += PF_VL) a[0] = join(t, a[0], apply(t, pf_load(x + i), s, p));
        if (i < m)
            a[1] = join(t, a[1], pf_first_lanes(apply(t, pf_loadn(x + i, m - i), s, p), m - i, identity(t)));
        acc = fold_lanes(t, acc, join(t, join(t, a[0], a[1]), join(t, a[2], a[3])));
    }
    return acc;
}

PF_INLINE void flush_columns(term t, pf_vf a[CHUNK], int count, double *acc) {
    float lanes[COLUMNS];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        pf_store(lanes + k * PF_VL, a[k]);
        a[k] = pf_set(identity(t));
    }
    for (int i = 0; i < count * PF_VL; i++) acc[i] = join1(t, acc[i], lanes[i]);
}

/* The same for sums, in vectors. */
PF_INLINE void flush_sums(pf_vf a[CHUNK], int count, double *acc) {
#pragma GCC unroll 4
    for (int k = 0; k < count; k++, acc += PF_VL) {
        pf_vd low, high;
        memcpy(&low, acc, sizeof low);
        memcpy(&high, acc + PF_VL / 2, sizeof high);
        low += pf_low_half(a[k]), high += pf_high_half(a[k]);
        memcpy(acc, &low, sizeof low);
        memcpy(acc + PF_VL / 2, &high, sizeof high);
        a[k] = pf_zero();
    }
}

PF_INLINE int is_sum(term t) {
    return t == TERM_SUM || t == TERM_ABS || t == TERM_SQUARE || t == TERM_POWER || t == TERM_NONZERO ||
           t == TERM_EXP || t == TERM_DEVIATION || t == TERM_NUMBER;
}

PF_INLINE void flush(term t, pf_vf a[CHUNK], int count, double *acc) {
    if (is_sum(t))
        flush_sums(a, count, acc);
    else
        flush_columns(t, a, count, acc);
}

/* Folds `count` vectors of columns, the last with `lanes` lanes, over all positions of nest r into acc. */
PF_INLINE void fold_columns(term t, const float *x, const pf_nest *r, int count, int64_t lanes,
                            const float *shift, float p, double *acc) {
    pf_nest outer = *r;
    const int64_t n = r->rank ? r->n[r->rank - 1] : 1, step = r->rank ? r->s[0][r->rank - 1] : 0;
    if (outer.rank) pf_nest_remove(&outer, outer.rank - 1);
    pf_vf a[CHUNK], s[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) a[k] = pf_set(identity(t)), s[k] = pf_load(shift + k * PF_VL);
    pf_walk walk;
    pf_walk_start(&walk, &outer, 0);
    int64_t room = FLUSH;
    for (int64_t o = 0; o < outer.total; o++, pf_walk_next(&walk, &outer)) {
        const float *row = x + walk.o[0];
        for (int64_t i = 0; i < n;) {
            const int64_t m = pf_min(n - i, room);
            for (int64_t j = 0; j < m; j++, row += step)
#pragma GCC unroll 4
                for (int k = 0; k < count; k++) {
                    const pf_vf v = pf_load_upto(row + k * PF_VL, k + 1 < count ? PF_VL : lanes);
                    a[k] = join(t, a[k], apply(t, v, s[k], p));
                }
            i += m, room -= m;
            if (room == 0) flush(t, a, count, acc), room = FLUSH;
        }
    }
    flush(t, a, count, acc);
}

typedef double (*row_fn)(const float *x, int64_t n, float shift, float p, double acc);
typedef void (*columns_fn)(const float *x, const pf_nest *r, int count, int64_t lanes, const float *shift,
                           float p, double *acc);

#define PF_TERMS(X)                                                                                          \
    X(TERM_SUM)                                                                                              \
    X(TERM_ABS)                                                                                              \
    X(TERM_SQUARE)                                                                                           \
    X(TERM_POWER)                                                                                            \
    X(TERM_NONZERO)                                                                                          \
    X(TERM_NUMBER)                                                                                           \
    X(TERM_EXP) X(TERM_DEVIATION) X(TERM_PRODUCT) X(TERM_MAX) X(TERM_MIN) X(TERM_ABS_MAX) X(TERM_ABS_MIN)
#define PF_TERM(t)                                                                                           \
    static double row_##t(const float *x, int64_t n, float shift, float p, double acc) {                     \
        return fold_row(t, x, n, shift, p, acc);                                                             \
    }                                                                                                        \
    static void columns_##t(const float *x, const pf_nest *r, int count, int64_t lanes, const float *shift,  \
                            float p, double *acc) {                                                          \
        if (count == CHUNK)                                                                                  \
            fold_columns(t, x, r, CHUNK, lanes, shift, p, acc);                                              \
        else                                                                                                 \
            fold_columns(t, x, r, 1, lanes, shift, p, acc);                                                  \
    }
PF_TERMS(PF_TERM)
#define PF_TERM_ROW(t)     [t] = row_##t,
#define PF_TERM_COLUMNS(t) [t] = columns_##t,
static const row_fn rows[TERM_COUNT] = {PF_TERMS(PF_TERM_ROW)};
static const columns_fn columns[TERM_COUNT] = {PF_TERMS(PF_TERM_COLUMNS)};

/* Folds the elements at the positions of nest r; strided runs are gathered first. */
static double fold_nest(term t, const pf_reduce_args *a, const float *x, const pf_nest *r, float shift) {
    const int64_t n = r->rank ? r->n[r->rank - 1] : 1, step = r->rank ? r->s[0][r->rank - 1] : 1;
    if (r->rank == 1 && step == 1) return rows[t](x, n, shift, (float)a->p, identity(t));
    pf_nest outer = *r;
    if (outer.rank) pf_nest_remove(&outer, outer.rank - 1);
    double acc = identity(t);
    pf_walk walk;
    pf_walk_start(&walk, &outer, 0);
    for (int64_t o = 0; o < outer.total; o++, pf_walk_next(&walk, &outer)) {
        const float *row = x + walk.o[0];
        if (step == 1) {
            acc = rows[t](row, n, shift, (float)a->p, acc);
            continue;
        }
        for (int64_t i = 0; i < n; i += BLOCK) {
            float block[BLOCK];
            const int64_t m = pf_min(n - i, BLOCK);
            for (int64_t j = 0; j < m; j++) block[j] = row[(i + j) * step];
            acc = rows[t](block, m, shift, (float)a->p, acc);
        }
    }
    return acc;
}

/* The mean, variance or deviation of the elements at the positions of nest r, found step by step. */
static float by_steps(const pf_reduce_args *a, const float *x, const pf_nest *r) {
    double mean = r->total ? 0 : NAN, squares = 0;
    pf_walk walk;
    pf_walk_start(&walk, r, 0);
    for (int64_t i = 0; i < r->total; pf_walk_next(&walk, r)) {
        const double v = x[walk.o[0]], delta = v - mean;
        mean += delta / (double)++i;
        squares += delta * (v - mean);
    }
    if (pf_reduce_plans[a->op].finish == FINISH_MEAN) return (float)mean;
    return (float)pf_reduce_finish(a, (double)r->total, squares, mean, mean);
}

static void reduce_rows(const pf_reduce_args *a, const pf_worker *w, const pf_nest *kept, const pf_nest *r) {
    const pf_reduce_plan *plan = &pf_reduce_plans[a->op];
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, kept->total, 1, &begin, &end);
    if (begin >= end) return;
    pf_walk walk;
    pf_walk_start(&walk, kept, begin);
    for (int64_t i = begin; i < end; i++, pf_walk_next(&walk, kept)) {
        double value = r->total ? fold_nest(plan->first, a, x + walk.o[0], r, 0) : identity(plan->first);
        double exact = value;
        float shift = 0;
        if (plan->passes == 2) {
            exact = pf_reduce_shift(a, (double)r->total, exact);
            shift = (float)exact;
            value = r->total ? fold_nest(plan->second, a, x + walk.o[0], r, shift) : 0;
        }
        float *to = y + walk.o[1];
        *to = (float)pf_reduce_finish(a, (double)r->total, value, exact, shift);
        if (pf_reduce_by_steps(a, *to)) *to = by_steps(a, x + walk.o[0], r);
    }
}

/* n outputs that lie together, each its sum times the scale. */
PF_INLINE void scale_values(const double *value, double scale, int64_t n, float *y) {
    for (int64_t i = 0; i < n; i += PF_VL) {
        pf_vd low, high;
        memcpy(&low, value + i, sizeof low);
        memcpy(&high, value + i + PF_VL / 2, sizeof high);
        pf_store_upto(y + i, pf_join(low * scale, high * scale), n - i);
    }
}

/* Up to COLUMNS neighbouring outputs. */
static void reduce_block(const pf_reduce_args *a, const float *x, float *y, int64_t ys, const pf_nest *r,
                         int64_t n) {
    const pf_reduce_plan *plan = &pf_reduce_plans[a->op];
    const int count = n > PF_VL ? CHUNK : 1;
    double value[COLUMNS], exact[COLUMNS];
    float shift[COLUMNS] = {0};
    for (int i = 0; i < count * PF_VL; i++) value[i] = identity(plan->first);
    columns[plan->first](x, r, count, n - (count - 1) * PF_VL, shift, (float)a->p, value);
    for (int i = 0; i < count * PF_VL; i++) exact[i] = value[i];
    if (plan->passes == 2) {
        for (int64_t i = 0; i < n; i++) {
            exact[i] = pf_reduce_shift(a, (double)r->total, exact[i]);
            shift[i] = (float)exact[i];
            value[i] = 0;
        }
        columns[plan->second](x, r, count, n - (count - 1) * PF_VL, shift, (float)a->p, value);
    }
    if (ys == 1 && plan->finish == FINISH_SCALE) {
        scale_values(value, a->scale, n, y);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float *to = y + i * ys;
        *to = (float)pf_reduce_finish(a, (double)r->total, value[i], exact[i], shift[i]);
        if (pf_reduce_by_steps(a, *to)) *to = by_steps(a, x + i, r);
    }
}

/* The same of rows of at most COLUMNS elements at distance xs, which are transposed. */
static void reduce_short_block(const pf_reduce_args *a, const float *x, int64_t xs, float *y, int64_t ys,
                               const pf_nest *r, int64_t n) {
    float block[COLUMNS * COLUMNS];
    pf_nest line = *r;
    line.s[0][0] = COLUMNS;
    pf_transpose(&(pf_plane){.na = n, .nb = r->total, .xa = xs, .xb = 1, .ya = 1, .yb = COLUMNS}, x, block);
    reduce_block(a, block, y, ys, &line, n);
}

/* Outputs along kept dimension d side by side: columns where x holds them so, else short rows. */
static void reduce_columns(const pf_reduce_args *a, const pf_worker *w, pf_nest kept, const pf_nest *r,
                           int64_t d) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t n = kept.n[d], xs = kept.s[0][d], ys = kept.s[1][d], full = n / COLUMNS;
    const int64_t blocks = full + pf_ceil_div(n - full * COLUMNS, PF_VL);
    pf_nest_remove(&kept, d);
    int64_t begin, end;
    pf_share(w, kept.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t k = i % blocks, c = k < full ? k * COLUMNS : full * COLUMNS + (k - full) * PF_VL;
        pf_walk walk;
        pf_walk_start(&walk, &kept, i / blocks);
        const int64_t m = k < full ? COLUMNS : pf_min(PF_VL, n - c);
        if (xs == 1)
            reduce_block(a, x + walk.o[0] + c, y + walk.o[1] + c * ys, ys, r, m);
        else
            reduce_short_block(a, x + walk.o[0] + c * xs, xs, y + walk.o[1] + c * ys, ys, r, m);
    }
}

/* Whether rows are so short that what follows their last element would take most of the time. */
static int are_short(const pf_nest *kept, const pf_nest *r) {
    return r->rank == 1 && r->s[0][0] == 1 && r->total <= COLUMNS && kept->rank &&
           kept->n[kept->rank - 1] * 2 >= PF_VL;
}

PF_KERNEL_FUNCTION(reduce) {
    const pf_reduce_args *a = args_;
    const pf_nest kept = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const pf_nest r = pf_nest_make(a->rrank, a->rshape, a->rxs, NULL, NULL);
    if (kept.total == 0) return;
    int64_t column = pf_reduce_column(&kept, &r);
    if (column < 0 && are_short(&kept, &r)) column = kept.rank - 1;
    if (column < 0 || r.total == 0)
        reduce_rows(a, w, &kept, &r);
    else
        reduce_columns(a, w, kept, &r, column);
}
