/* Reductions over any set of dimensions: sums, products, extremes, norms, log-sum-exp, variance. Sums are
 * taken in short float blocks that are added up in double, so that results do not depend on the length. Where
 * the reduced elements lie together they are folded as rows; where the kept ones do, as columns side by side,
 * and so are short rows, transposed.
 */
#include <string.h>

#include "kernels/reduce_folds.h"
#include "kernels/transpose.h"

enum {
    LONG_ROW = 512, /* rows that are folded one by one */
    STRIPS_EACH = 4,
};

/* Folds the elements at the positions of nest r; strided runs are gathered first. */
static double fold_nest(term t, const pf_reduce_args *a, const float *x, const pf_nest *r, float shift) {
    const int64_t n = r->rank ? r->n[r->rank - 1] : 1, step = r->rank ? r->s[0][r->rank - 1] : 1;
    if (r->rank == 1 && step == 1) return row_folds[t](x, n, shift, (float)a->p, identity(t));
    pf_nest outer = *r;
    if (outer.rank) pf_nest_remove(&outer, outer.rank - 1);
    double acc = identity(t);
    pf_walk walk;
    pf_walk_start(&walk, &outer, 0);
    for (int64_t o = 0; o < outer.total; o++, pf_walk_next(&walk, &outer)) {
        const float *row = x + walk.o[0];
        if (step == 1) {
            acc = row_folds[t](row, n, shift, (float)a->p, acc);
            continue;
        }
        for (int64_t i = 0; i < n; i += BLOCK) {
            float block[BLOCK];
            const int64_t m = pf_min(n - i, BLOCK);
            for (int64_t j = 0; j < m; j++) block[j] = row[(i + j) * step];
            acc = row_folds[t](block, m, shift, (float)a->p, acc);
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
        float shift = r->total ? (float)pf_reduce_origin(a, x[walk.o[0]]) : 0;
        double value = r->total ? fold_nest(plan->first, a, x + walk.o[0], r, shift) : identity(plan->first);
        double exact = shift;
        if (plan->passes == 2) {
            exact = pf_reduce_shift(a, (double)r->total, value, shift);
            shift = (float)exact;
            value = r->total ? fold_nest(plan->second, a, x + walk.o[0], r, shift) : 0;
        }
        float *to = y + walk.o[1];
        *to = (float)pf_reduce_finish(a, (double)r->total, value, exact, shift);
        if (pf_reduce_by_steps(a, *to)) *to = by_steps(a, x + walk.o[0], r);
    }
}

/* How neighbouring outputs are found: as columns, as rows one below the other, or as short rows, which become
 * columns. */
typedef enum manner { AS_COLUMNS, AS_ROWS, AS_SHORT_ROWS } manner;

/* What n <= WIDE outputs have been folded into; there is room for whole vectors. */
typedef struct strip {
    const float *x;
    int64_t xs, n;
    const pf_nest *r;
    float part[WIDE], shift[WIDE];
    double value[WIDE], exact[WIDE];
} strip;

/* Leaves what was folded in part or in value, and returns whether it is part. */
static int fold_strip(const pf_reduce_args *a, manner how, int pass, strip *s) {
    const pf_reduce_plan *plan = &pf_reduce_plans[a->op];
    const term t = pass == 0 ? plan->first : plan->second;
    const float p = (float)a->p;
    if (how != AS_ROWS) {
        columns_folds[t](s->x, s->r, s->n, s->shift, p, s->part, s->value);
        return stays_float(t, s->r->total);
    }
    for (int64_t i = 0; i < s->n; i += PF_VL) {
        const pf_vf shift = plan->finish < FINISH_LOG ? pf_zero() : pf_load(s->shift + i);
        const int64_t rows = pf_min(PF_VL, s->n - i);
        pf_store(s->part + i, rows_folds[t](s->x + i * s->xs, s->xs, rows, s->r->total, shift, p));
    }
    return 1;
}

static void widen_parts(strip *s) {
    for (int64_t i = 0; i < s->n; i++) s->value[i] = s->part[i];
}

/* What the first pass takes off. */
static void set_origin(const pf_reduce_args *a, strip *s) {
    for (int64_t i = 0; i < s->n; i++)
        s->exact[i] = s->shift[i] = (float)pf_reduce_origin(a, s->x[i * s->xs]);
    for (int64_t i = s->n; i % PF_VL != 0; i++) s->shift[i] = 0;
}

/* What the second pass takes off, from the first one. */
static void set_shift(const pf_reduce_args *a, strip *s) {
    for (int64_t i = 0; i < s->n; i++) {
        s->exact[i] = pf_reduce_shift(a, (double)s->r->total, s->value[i], s->shift[i]);
        s->shift[i] = (float)s->exact[i];
    }
}

/* Results that are a multiple of a sum or an extreme, or its root. */
static void finish_vectors(const strip *s, int in_part, double scale, int root, float *y) {
    for (int64_t i = 0; i < s->n; i += PF_VL) {
        pf_vf v = pf_zero();
        if (in_part && scale == 1.0) {
            v = pf_load(s->part + i);
        } else if (in_part) {
            v = pf_load(s->part + i);
            v = pf_join(pf_low_half(v) * scale, pf_high_half(v) * scale);
        } else {
            pf_vd low, high;
            memcpy(&low, s->value + i, sizeof low);
            memcpy(&high, s->value + i + PF_VL / 2, sizeof high);
            v = pf_join(low * scale, high * scale);
        }
        pf_store_upto(y + i, root ? pf_vsqrt(v) : v, s->n - i);
    }
}

static void reduce_strip(const pf_reduce_args *a, manner how, strip *s, float *y, int64_t ys) {
    const pf_reduce_plan *plan = &pf_reduce_plans[a->op];
    const int shifted = plan->finish >= FINISH_LOG;
    if (shifted) set_origin(a, s);
    const int in_part = fold_strip(a, how, 0, s);
    if (ys == 1 && (plan->finish == FINISH_SCALE || (plan->finish == FINISH_SQRT && in_part))) {
        const int root = plan->finish == FINISH_SQRT;
        finish_vectors(s, in_part, root ? 1.0 : a->scale, root, y);
        return;
    }
    if (!shifted) set_origin(a, s);
    if (in_part) widen_parts(s);
    if (plan->passes == 2) {
        set_shift(a, s);
        if (fold_strip(a, how, 1, s)) widen_parts(s);
    }
    for (int64_t i = 0; i < s->n; i++) {
        float *to = y + i * ys;
        *to = (float)pf_reduce_finish(a, (double)s->r->total, s->value[i], s->exact[i], s->shift[i]);
        if (pf_reduce_by_steps(a, *to)) *to = by_steps(a, s->x + i * s->xs, s->r);
    }
}

/* Rows of at most COLUMNS elements, as columns. */
static void reduce_short_rows(const pf_reduce_args *a, strip *s, float *y, int64_t ys) {
    float block[COLUMNS * COLUMNS];
    pf_nest line = *s->r;
    line.s[0][0] = COLUMNS;
    const pf_plane plane = {.na = s->n, .nb = s->r->total, .xa = s->xs, .xb = 1, .ya = 1, .yb = COLUMNS};
    pf_transpose(&plane, s->x, block);
    s->x = block, s->xs = 1, s->r = &line;
    reduce_strip(a, AS_SHORT_ROWS, s, y, ys);
}

/* Outputs of a strip: there are some strips for each thread. */
static int64_t strip_width(const pf_worker *w, manner how, int64_t n, int64_t total) {
    if (how != AS_COLUMNS) return COLUMNS;
    int64_t most = WIDE;
    if (w->nthreads > 1) most = pf_max(COLUMNS, pf_min(WIDE, total / (STRIPS_EACH * w->nthreads)));
    return pf_ceil_div(pf_ceil_div(n, pf_ceil_div(n, most)), PF_VL) * PF_VL;
}

/* Outputs along kept dimension d side by side. */
static void reduce_strips(const pf_reduce_args *a, const pf_worker *w, manner how, pf_nest kept,
                          const pf_nest *r, int64_t d) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t n = kept.n[d], xs = kept.s[0][d], ys = kept.s[1][d];
    const int64_t width = strip_width(w, how, n, kept.total), strips = pf_ceil_div(n, width);
    strip s;
    pf_nest_remove(&kept, d);
    int64_t begin, end;
    pf_share(w, kept.total * strips, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = i % strips * width;
        pf_walk walk;
        pf_walk_start(&walk, &kept, i / strips);
        s.x = x + walk.o[0] + first * xs, s.xs = xs, s.n = pf_min(width, n - first), s.r = r;
        float *to = y + walk.o[1] + first * ys;
        if (how == AS_SHORT_ROWS)
            reduce_short_rows(a, &s, to, ys);
        else
            reduce_strip(a, how, &s, to, ys);
    }
}

/* Whether rows are so short that what follows their last element would take most of the time: then some are
 * folded together. */
static int are_short(const pf_nest *kept, const pf_nest *r) {
    if (r->rank != 1 || r->s[0][0] != 1 || r->total > LONG_ROW || kept->rank == 0) return 0;
    const int64_t rows = kept->n[kept->rank - 1];
    return r->total <= COLUMNS ? rows * 2 >= PF_VL : rows >= PF_VL;
}

PF_KERNEL_FUNCTION(reduce) {
    const pf_reduce_args *a = args_;
    const pf_nest kept = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const pf_nest r = pf_nest_make(a->rrank, a->rshape, a->rxs, NULL, NULL);
    if (kept.total == 0) return;
    const int64_t column = pf_reduce_column(&kept, &r);
    if (r.total == 0)
        reduce_rows(a, w, &kept, &r);
    else if (column >= 0)
        reduce_strips(a, w, AS_COLUMNS, kept, &r, column);
    else if (are_short(&kept, &r))
        reduce_strips(a, w, r.total <= COLUMNS ? AS_SHORT_ROWS : AS_ROWS, kept, &r, kept.rank - 1);
    else
        reduce_rows(a, w, &kept, &r);
}
