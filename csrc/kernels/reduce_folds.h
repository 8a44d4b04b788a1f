/* How reduce.c folds floats, one function for each kind of term: a row of elements that lie together, some
 * rows at once, or columns side by side. */
#ifndef PF_KERNELS_REDUCE_FOLDS_H
#define PF_KERNELS_REDUCE_FOLDS_H

#include "kernels/doubles.h"
#include "kernels/extremes.h"
#include "kernels/reduce_plan.h"
#include "kernels/transpose_tile.h"
#include "kernels/vmath.h"

enum {
    BLOCK = 2048, /* of a row, and */
    FLUSH = 128,  /* rows of columns: so many are folded in float */
    CHUNK = 4,
    COLUMNS = CHUNK * PF_VL,
    WIDE = 1024, /* columns at a time: they stay in L1 */
    DEEP = 8,    /* rows of them at a time */
};

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
    case TERM_OFFSET:
        return v - shift;
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

/* Folds n <= BLOCK contiguous elements into a vector. */
PF_INLINE pf_vf fold_block(term t, const float *x, int64_t n, pf_vf s, float p) {
    pf_vf a[CHUNK] = {pf_set(identity(t)), pf_set(identity(t)), pf_set(identity(t)), pf_set(identity(t))};
    int64_t i = 0;
    for (; i + COLUMNS <= n; i += COLUMNS)
#pragma GCC unroll 4
        for (int k = 0; k < CHUNK; k++) a[k] = join(t, a[k], apply(t, pf_load(x + i + k * PF_VL), s, p));
    for (; i + PF_VL <= n; i += PF_VL) a[0] = join(t, a[0], apply(t, pf_load(x + i), s, p));
    if (i < n)
        a[1] = join(t, a[1], pf_first_lanes(apply(t, pf_loadn(x + i, n - i), s, p), n - i, identity(t)));
    return join(t, join(t, a[0], a[1]), join(t, a[2], a[3]));
}

/* Folds n contiguous elements into acc. */
PF_INLINE double fold_row(term t, const float *x, int64_t n, float shift, float p, double acc) {
    const pf_vf s = pf_set(shift);
    for (; n > 0; x += BLOCK, n -= BLOCK) acc = fold_lanes(t, acc, fold_block(t, x, pf_min(n, BLOCK), s, p));
    return acc;
}

/* Folds n <= BLOCK elements of each of `rows` <= PF_VL rows. */
PF_INLINE pf_vf fold_rows(term t, const float *x, int64_t xs, int64_t rows, int64_t n, pf_vf shift, float p) {
    float shifts[PF_VL];
    pf_vf v[PF_VL];
    pf_store(shifts, shift);
    for (int r = 0; r < PF_VL; r++) {
        const int64_t row = pf_min(r, rows - 1);
        v[r] = fold_block(t, x + row * xs, n, pf_set(shifts[row]), p);
    }
    pf_transpose_tile(v);
#pragma GCC unroll 4
    for (int k = PF_VL / 2; k > 0; k /= 2)
#pragma GCC unroll 8
        for (int r = 0; r < k; r++) v[r] = join(t, v[r], v[r + k]);
    return v[0];
}

PF_INLINE int is_extreme(term t) {
    return t == TERM_MAX || t == TERM_ABS_MAX || t == TERM_MIN || t == TERM_ABS_MIN;
}

/* `count` rows of columns, folded into part, or the first ones there. */
PF_INLINE void fold_deep(term t, const float *x, int64_t step, int64_t n, const float *shift, float p,
                         float *part, const int fresh, const int count) {
    for (int64_t j = 0; j < n; j += PF_VL) {
        const int shifts = t == TERM_EXP || t == TERM_OFFSET || t == TERM_DEVIATION;
        const pf_vf s = shifts ? pf_load(shift + j) : pf_zero();
        const int64_t lanes = n - j;
        pf_vf v[DEEP];
#pragma GCC unroll 8
        for (int i = 0; i < count; i++) v[i] = apply(t, pf_load_upto(x + i * step + j, lanes), s, p);
#pragma GCC unroll 4
        for (int k = count / 2; k > 0; k /= 2)
#pragma GCC unroll 4
            for (int i = 0; i < k; i++) v[i] = join(t, v[i], v[i + k]);
        pf_store(part + j, fresh ? v[0] : join(t, pf_load(part + j), v[0]));
    }
}

/* Moves what was folded in float to acc. */
PF_INLINE void flush(term t, int64_t n, float *part, double *acc) {
    for (int64_t j = 0; j < n; j += PF_VL) {
        pf_vd low, high;
        const pf_vf v = pf_load(part + j);
        memcpy(&low, acc + j, sizeof low);
        memcpy(&high, acc + j + PF_VL / 2, sizeof high);
        if (is_extreme(t))
            low = pf_low_half(v), high = pf_high_half(v);
        else if (t == TERM_PRODUCT)
            low *= pf_low_half(v), high *= pf_high_half(v);
        else
            low += pf_low_half(v), high += pf_high_half(v);
        memcpy(acc + j, &low, sizeof low);
        memcpy(acc + j + PF_VL / 2, &high, sizeof high);
    }
}

/* Whether so many elements are folded in float. */
PF_INLINE int stays_float(term t, int64_t total) { return is_extreme(t) || total <= FLUSH; }

/* Folds n <= WIDE columns over all positions of nest r: into part if that holds all, else into acc. All three
 * arrays have room for whole vectors. */
PF_INLINE void fold_columns(term t, const float *x, const pf_nest *r, int64_t n, const float *shift, float p,
                            float *part, double *acc) {
    pf_nest outer = *r;
    const int64_t length = r->rank ? r->n[r->rank - 1] : 1, step = r->rank ? r->s[0][r->rank - 1] : 0;
    const int only_part = stays_float(t, r->total);
    if (outer.rank) pf_nest_remove(&outer, outer.rank - 1);
    for (int64_t j = 0; !only_part && j < pf_ceil_div(n, PF_VL) * PF_VL; j++) acc[j] = identity(t);
    pf_walk walk;
    pf_walk_start(&walk, &outer, 0);
    int64_t room = only_part ? INT64_MAX : FLUSH;
    int fresh = 1;
    for (int64_t o = 0; o < outer.total; o++, pf_walk_next(&walk, &outer)) {
        const float *row = x + walk.o[0];
        for (int64_t i = 0; i < length;) {
            const int64_t m = pf_min(length - i, room);
            int64_t k = 0;
            for (; k + DEEP <= m; k += DEEP, row += DEEP * step)
                fold_deep(t, row, step, n, shift, p, part, fresh, DEEP), fresh = 0;
            if (k + DEEP / 2 <= m) {
                fold_deep(t, row, step, n, shift, p, part, fresh, DEEP / 2), fresh = 0;
                k += DEEP / 2, row += DEEP / 2 * step;
            }
            for (; k < m; k++, row += step) fold_deep(t, row, step, n, shift, p, part, fresh, 1), fresh = 0;
            i += m, room -= m;
            if (room == 0) flush(t, n, part, acc), room = FLUSH, fresh = 1;
        }
    }
    if (!only_part && !fresh) flush(t, n, part, acc);
}

typedef double (*row_fn)(const float *x, int64_t n, float shift, float p, double acc);
typedef pf_vf (*rows_fn)(const float *x, int64_t xs, int64_t rows, int64_t n, pf_vf shift, float p);
typedef void (*columns_fn)(const float *x, const pf_nest *r, int64_t n, const float *shift, float p,
                           float *part, double *acc);

#define PF_TERMS(X)                                                                                          \
    X(TERM_SUM)                                                                                              \
    X(TERM_ABS)                                                                                              \
    X(TERM_SQUARE)                                                                                           \
    X(TERM_POWER)                                                                                            \
    X(TERM_NONZERO)                                                                                          \
    X(TERM_NUMBER)                                                                                           \
    X(TERM_EXP)                                                                                              \
    X(TERM_OFFSET) X(TERM_DEVIATION) X(TERM_PRODUCT) X(TERM_MAX) X(TERM_MIN) X(TERM_ABS_MAX) X(TERM_ABS_MIN)
#define PF_TERM(t)                                                                                           \
    static double row_##t(const float *x, int64_t n, float shift, float p, double acc) {                     \
        return fold_row(t, x, n, shift, p, acc);                                                             \
    }                                                                                                        \
    static pf_vf rows_##t(const float *x, int64_t xs, int64_t rows, int64_t n, pf_vf shift, float p) {       \
        return fold_rows(t, x, xs, rows, n, shift, p);                                                       \
    }                                                                                                        \
    static void columns_##t(const float *x, const pf_nest *r, int64_t n, const float *shift, float p,        \
                            float *part, double *acc) {                                                      \
        fold_columns(t, x, r, n, shift, p, part, acc);                                                       \
    }
PF_TERMS(PF_TERM)
#define PF_TERM_ROW(t)     [t] = row_##t,
#define PF_TERM_ROWS(t)    [t] = rows_##t,
#define PF_TERM_COLUMNS(t) [t] = columns_##t,
static const row_fn row_folds[TERM_COUNT] = {PF_TERMS(PF_TERM_ROW)};
static const rows_fn rows_folds[TERM_COUNT] = {PF_TERMS(PF_TERM_ROWS)};
static const columns_fn columns_folds[TERM_COUNT] = {PF_TERMS(PF_TERM_COLUMNS)};

#endif
