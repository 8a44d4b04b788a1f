/* Places of extremes and running extremes along an axis, of one type of elements. places.c includes this for
 * each: PF_T names it, PF_V is the type, PF_P that of places beside neighbouring elements, PF_FIRST_IN_ROW,
 * where it is given, finds the place in a row of elements that lie together. */
#define PF_OF(name) PF_JOIN(name, PF_T)

typedef PF_V PF_OF(any) __attribute__((aligned(1), may_alias));

/* Up to COLUMNS lines that lie side by side, or one. */
typedef void (*PF_OF(lines_fn))(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                                int64_t count, int least);

static void PF_OF(each)(const pf_axis_args *a, const pf_worker *w, PF_OF(lines_fn) line,
                        PF_OF(lines_fn) columns, int least) {
    pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, a->js);
    const PF_OF(any) *x = pf_ptr(w, a->x);
    PF_V *y = pf_ptr(w, a->y);
    int64_t *index = pf_ptr(w, a->index), d = -1, begin, end;
    if (t.total == 0 || a->n == 0) return;
    for (int64_t e = 0; e < t.rank; e++)
        if (t.s[0][e] == 1 && (!y || t.s[1][e] == 1) && (!index || t.s[2][e] == 1)) d = e;
    if (a->xsn == 1 || a->n > INT32_MAX) d = -1;
    const int64_t n = d < 0 ? 1 : t.n[d], width = d < 0 ? 1 : COLUMNS, blocks = pf_ceil_div(n, width);
    if (d >= 0) pf_nest_remove(&t, d);
    pf_share(w, t.total * blocks, 1, &begin, &end);
    if (begin >= end) return;
    int64_t block = begin % blocks;
    pf_walk p;
    pf_walk_start(&p, &t, begin / blocks);
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = block * width;
        (d < 0 ? line : columns)(a, x + p.o[0] + c, y ? y + p.o[1] + c : NULL,
                                 index ? index + p.o[2] + c : NULL, pf_min(width, n - c), least);
        if (++block < blocks) continue;
        block = 0;
        pf_walk_next(&p, &t);
    }
}

PF_INLINE int64_t PF_OF(first_at)(const PF_OF(any) * x, int64_t n, int64_t step, int least) {
    int64_t at = 0;
    PF_V best = x[0];
    for (int64_t i = 1; i < n; i++)
        if (PF_BEYOND(x[i * step], best)) best = x[i * step], at = i;
    return at;
}

#ifndef PF_FIRST_IN_ROW
/* The extreme first, in vectors, then its place. The last vectors overlap those before them. */
PF_INLINE int64_t PF_OF(first_in_row)(const PF_OF(any) * x, int64_t n, int least) {
    PF_V lanes[LANES];
    if (n < LANES) return PF_OF(first_at)(x, n, 1, least);
    for (int k = 0; k < LANES; k++) lanes[k] = x[k];
    for (int64_t i = LANES; i < n; i += LANES) {
        const PF_OF(any) *at = x + pf_min(i, n - LANES);
        PF_ROLLED for (int k = 0; k < LANES; k++) lanes[k] = PF_BEYOND(at[k], lanes[k]) ? at[k] : lanes[k];
    }
#    pragma GCC unroll 8
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++)
            lanes[k] = PF_BEYOND(lanes[k + half], lanes[k]) ? lanes[k + half] : lanes[k];
    const PF_V best = lanes[0];
    for (int64_t i = 0;; i += LANES) {
        const int64_t at = pf_min(i, n - LANES);
        uint32_t found = 0;
        PF_ROLLED for (int k = 0; k < LANES; k++) {
            const PF_V v = x[at + k];
            found |= (uint32_t)((v == best) | (v != v)) << k;
        }
        if (found) return at + __builtin_ctz(found);
    }
}
#    define PF_FIRST_IN_ROW PF_OF(first_in_row)
#endif

static void PF_OF(place_line)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                              int64_t count, int least) {
    (void)count;
    int64_t at;
    if (a->xsn == 1)
        at = least ? PF_FIRST_IN_ROW(x, a->n, 1) : PF_FIRST_IN_ROW(x, a->n, 0);
    else
        at = PF_OF(first_at)(x, a->n, a->xsn, least);
    if (y) *y = x[at * a->xsn];
    if (index) *index = at;
}

PF_INLINE void PF_OF(place_beside)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *best, PF_P *at,
                                   int64_t count, int least) {
    for (int64_t i = 0; i < a->n; i++, x += a->xsn)
        for (int64_t k = 0; k < count; k++) {
            const PF_V v = x[k];
            const int better = PF_BEYOND(v, best[k]);
            best[k] = better ? v : best[k];
            at[k] = better ? (PF_P)i : at[k];
        }
}
static void PF_OF(place_columns)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                                 int64_t count, int least) {
    PF_V best[COLUMNS];
    PF_P at[COLUMNS] = {0};
    for (int64_t k = 0; k < count; k++) best[k] = x[k];
    if (least)
        PF_OF(place_beside)(a, x, best, at, count, 1);
    else
        PF_OF(place_beside)(a, x, best, at, count, 0);
    for (int64_t k = 0; y && k < count; k++) y[k] = best[k];
    for (int64_t k = 0; index && k < count; k++) index[k] = at[k];
}

PF_KERNEL_FUNCTION(PF_JOIN(argmax, PF_T)) {
    PF_OF(each)(args_, w, PF_OF(place_line), PF_OF(place_columns), 0);
}
PF_KERNEL_FUNCTION(PF_JOIN(argmin, PF_T)) {
    PF_OF(each)(args_, w, PF_OF(place_line), PF_OF(place_columns), 1);
}

/* The last of equal ones counts. */
PF_INLINE void PF_OF(run_along)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                                int least) {
    const int64_t n = a->n, xs = a->xsn, ys = a->ysn;
    int64_t at = 0;
    PF_V best = x[0];
    for (int64_t i = 0; i < n; i++) {
        const PF_V v = x[i * xs];
        const int better = PF_REACHES(v, best);
        best = better ? v : best;
        at = better ? i : at;
        y[i * ys] = best;
        index[i * ys] = at;
    }
}
static void PF_OF(run_line)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                            int64_t count, int least) {
    (void)count;
    if (least)
        PF_OF(run_along)(a, x, y, index, 1);
    else
        PF_OF(run_along)(a, x, y, index, 0);
}

PF_INLINE void PF_OF(run_beside)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                                 int64_t count, int least) {
    PF_V best[COLUMNS];
    PF_P at[COLUMNS] = {0};
    for (int64_t k = 0; k < count; k++) best[k] = x[k];
    for (int64_t i = 0; i < a->n; i++, x += a->xsn, y += a->ysn, index += a->ysn) {
        for (int64_t k = 0; k < count; k++) {
            const PF_V v = x[k];
            const int better = PF_REACHES(v, best[k]);
            best[k] = better ? v : best[k];
            at[k] = better ? (PF_P)i : at[k];
        }
        for (int64_t k = 0; k < count; k++) y[k] = best[k];
        for (int64_t k = 0; k < count; k++) index[k] = at[k];
    }
}
static void PF_OF(run_columns)(const pf_axis_args *a, const PF_OF(any) * x, PF_V *y, int64_t *index,
                               int64_t count, int least) {
    if (least)
        PF_OF(run_beside)(a, x, y, index, count, 1);
    else
        PF_OF(run_beside)(a, x, y, index, count, 0);
}

PF_KERNEL_FUNCTION(PF_JOIN(cummax, PF_T)) { PF_OF(each)(args_, w, PF_OF(run_line), PF_OF(run_columns), 0); }
PF_KERNEL_FUNCTION(PF_JOIN(cummin, PF_T)) { PF_OF(each)(args_, w, PF_OF(run_line), PF_OF(run_columns), 1); }

#undef PF_OF
#undef PF_FIRST_IN_ROW
#undef PF_T
#undef PF_V
#undef PF_P
