/* Reductions and running sums and products of one type of elements other than float. reduce_typed.c includes
 * this for each: PF_T names it, PF_RUNS says whether running ones are wanted, PF_V is the type, PF_U that in
 * which sums wrap around, PF_TERMS lists what can be folded as X(name after TERM_, identity, term of an
 * element x, how accumulator a takes a term v). */
#define PF_OF(name) PF_JOIN(name, PF_T)

typedef PF_V PF_OF(any) __attribute__((aligned(1), may_alias));

/* Folds n elements at distance step into an accumulator, or each of n neighbouring ones into one of its own.
 */
typedef PF_V (*PF_OF(row_fn))(const PF_OF(any) * from, int64_t n, int64_t step, PF_V shift, double p,
                              PF_V acc);
typedef void (*PF_OF(columns_fn))(const PF_OF(any) * from, int64_t n, const PF_V *shifts, double p,
                                  PF_V *acc);

#define PF_FOLD(name, loop, identity, term, join)                                                            \
    PF_INLINE PF_V PF_OF(take_##name)(PF_V a, PF_V x, PF_V shift, double p) {                                \
        (void)shift, (void)p;                                                                                \
        const PF_V v = term;                                                                                 \
        return (PF_V)(join);                                                                                 \
    }                                                                                                        \
    PF_INLINE PF_V PF_OF(join_##name)(PF_V a, PF_V v) { return (PF_V)(join); }                               \
    static PF_V PF_OF(row_##name)(const PF_OF(any) * from, int64_t n, int64_t step, PF_V shift, double p,    \
                                  PF_V acc) {                                                                \
        PF_V lanes[LANES];                                                                                   \
        int64_t i = 0;                                                                                       \
        if (step == 1 && n >= LANES) {                                                                       \
            for (int k = 0; k < LANES; k++) lanes[k] = identity;                                             \
            for (; i + LANES <= n; i += LANES)                                                               \
                loop for (int k = 0; k < LANES; k++) lanes[k] =                                              \
                    PF_OF(take_##name)(lanes[k], from[i + k], shift, p);                                     \
            for (int half = LANES / 2; half > 0; half /= 2)                                                  \
                for (int k = 0; k < half; k++) lanes[k] = PF_OF(join_##name)(lanes[k], lanes[k + half]);     \
            acc = PF_OF(join_##name)(acc, lanes[0]);                                                         \
        }                                                                                                    \
        for (; i < n; i++) acc = PF_OF(take_##name)(acc, from[i * step], shift, p);                          \
        return acc;                                                                                          \
    }                                                                                                        \
    static void PF_OF(columns_##name)(const PF_OF(any) * from, int64_t n, const PF_V *shifts, double p,      \
                                      PF_V *acc) {                                                           \
        for (int64_t i = 0; i < n; i++) acc[i] = PF_OF(take_##name)(acc[i], from[i], shifts[i], p);          \
    }
PF_TERMS(PF_FOLD)

#define PF_ENTRY(name, loop, identity, term, join)                                                           \
    [TERM_##name] = {identity, PF_OF(row_##name), PF_OF(columns_##name)},
static const struct {
    PF_V identity;
    PF_OF(row_fn) row;
    PF_OF(columns_fn) columns;
} PF_OF(folds)[] = {PF_TERMS(PF_ENTRY)};

/* All elements at the positions of nest r, for one place of the result. */
static PF_V PF_OF(fold_nest)(const pf_reduce_args *a, term t, const PF_OF(any) * x, const pf_nest *r,
                             PF_V shift) {
    PF_V acc = PF_OF(folds)[t].identity;
    if (r->total == 0) return acc;
    pf_nest outer = *r;
    const int64_t n = r->rank ? r->n[r->rank - 1] : 1, step = r->rank ? r->s[0][r->rank - 1] : 1;
    if (outer.rank) pf_nest_remove(&outer, outer.rank - 1);
    pf_walk walk;
    pf_walk_start(&walk, &outer, 0);
    for (int64_t o = 0; o < outer.total; o++, pf_walk_next(&walk, &outer))
        acc = PF_OF(folds)[t].row(x + walk.o[0], n, step, shift, a->p, acc);
    return acc;
}

/* The mean, variance or deviation of the elements at the positions of nest r, found step by step. */
static PF_V PF_OF(by_steps)(const pf_reduce_args *a, const PF_OF(any) * x, const pf_nest *r) {
    double mean = r->total ? 0 : NAN, squares = 0;
    pf_walk walk;
    pf_walk_start(&walk, r, 0);
    for (int64_t i = 0; i < r->total; pf_walk_next(&walk, r)) {
        const double v = (double)x[walk.o[0]], delta = v - mean;
        mean += delta / (double)++i;
        squares += delta * (v - mean);
    }
    if (pf_reduce_plans[a->op].finish == FINISH_MEAN) return (PF_V)mean;
    return (PF_V)pf_reduce_finish(a, (double)r->total, squares, mean, mean);
}

static void PF_OF(reduce_rows)(const pf_reduce_args *a, const pf_worker *w, const pf_nest *kept,
                               const pf_nest *r) {
    const pf_reduce_plan *plan = &pf_reduce_plans[a->op];
    const PF_OF(any) *x = pf_ptr(w, a->x);
    PF_V *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, kept->total, 1, &begin, &end);
    if (begin >= end) return;
    pf_walk walk;
    pf_walk_start(&walk, kept, begin);
    for (int64_t i = begin; i < end; i++, pf_walk_next(&walk, kept)) {
        PF_V shift = r->total ? (PF_V)pf_reduce_origin(a, (double)x[walk.o[0]]) : 0;
        PF_V value = PF_OF(fold_nest)(a, plan->first, x + walk.o[0], r, shift);
        if (plan->passes == 2) {
            shift = (PF_V)pf_reduce_shift(a, (double)r->total, (double)value, (double)shift);
            value = PF_OF(fold_nest)(a, plan->second, x + walk.o[0], r, shift);
        }
        PF_V *to = y + walk.o[1];
        *to = PF_FINISH(a, (double)r->total, value, shift);
        if (pf_reduce_by_steps(a, (double)*to)) *to = PF_OF(by_steps)(a, x + walk.o[0], r);
    }
}

/* n neighbouring places of the result, whose elements neighbour each other, too. */
static void PF_OF(reduce_block)(const pf_reduce_args *a, const PF_OF(any) * x, PF_V *y, int64_t ys,
                                const pf_nest *r, int64_t n) {
    PF_V acc[COLUMNS] = {0}, shift[COLUMNS] = {0};
    const pf_reduce_plan *plan = &pf_reduce_plans[a->op];
    for (int64_t i = 0; i < n; i++) shift[i] = (PF_V)pf_reduce_origin(a, (double)x[i]);
    for (int pass = 0; pass < plan->passes; pass++) {
        const term t = pass ? plan->second : plan->first;
        for (int64_t i = 0; i < n; i++) {
            if (pass) shift[i] = (PF_V)pf_reduce_shift(a, (double)r->total, (double)acc[i], (double)shift[i]);
            acc[i] = PF_OF(folds)[t].identity;
        }
        pf_walk walk;
        pf_walk_start(&walk, r, 0);
        for (int64_t o = 0; o < r->total; o++, pf_walk_next(&walk, r))
            PF_OF(folds)[t].columns(x + walk.o[0], n, shift, a->p, acc);
    }
    for (int64_t i = 0; i < n; i++) {
        PF_V *to = y + i * ys;
        *to = PF_FINISH(a, (double)r->total, acc[i], shift[i]);
        if (pf_reduce_by_steps(a, (double)*to)) *to = PF_OF(by_steps)(a, x + i, r);
    }
}

PF_KERNEL_FUNCTION(PF_JOIN(reduce, PF_T)) {
    const pf_reduce_args *a = args_;
    pf_nest kept = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    const pf_nest r = pf_nest_make(a->rrank, a->rshape, a->rxs, NULL, NULL);
    if (kept.total == 0) return;
    const int64_t d = pf_reduce_column(&kept, &r);
    if (d < 0 || r.total == 0) {
        PF_OF(reduce_rows)(a, w, &kept, &r);
        return;
    }
    const PF_OF(any) *x = pf_ptr(w, a->x);
    PF_V *y = pf_ptr(w, a->y);
    const int64_t n = kept.n[d], ys = kept.s[1][d], blocks = pf_ceil_div(n, COLUMNS);
    pf_nest_remove(&kept, d);
    int64_t begin, end;
    pf_share(w, kept.total * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t c = i % blocks * COLUMNS;
        pf_walk walk;
        pf_walk_start(&walk, &kept, i / blocks);
        PF_OF(reduce_block)(a, x + walk.o[0] + c, y + walk.o[1] + c * ys, ys, &r, pf_min(COLUMNS, n - c));
    }
}

#define PF_ADD(a, b)      (PF_V)((PF_U)(a) + (PF_U)(b))
#define PF_MULTIPLY(a, b) (PF_V)((PF_U)(a) * (PF_U)(b))
/* Running sums or products of `count` lines that lie side by side, or of one. */
#define PF_RUNNING(name, first, join)                                                                        \
    static void PF_OF(name)(const pf_axis_args *a, const PF_OF(any) * x, PF_V * y, int64_t count) {          \
        PF_V acc[COLUMNS], one = first;                                                                      \
        if (count == 1) {                                                                                    \
            const int64_t n = a->n, xs = a->xsn, ys = a->ysn;                                                \
            for (int64_t i = 0; i < n; i++) y[i * ys] = one = join(one, x[i * xs]);                          \
            return;                                                                                          \
        }                                                                                                    \
        for (int64_t k = 0; k < count; k++) acc[k] = first;                                                  \
        for (int64_t i = 0; i < a->n; i++, x += a->xsn, y += a->ysn)                                         \
            for (int64_t k = 0; k < count; k++) y[k] = acc[k] = join(acc[k], x[k]);                          \
    }
#if PF_RUNS
PF_RUNNING(sums, 0, PF_ADD)
PF_RUNNING(products, 1, PF_MULTIPLY)

static void PF_OF(running)(const pf_axis_args *a, const pf_worker *w, int product) {
    pf_nest t = pf_nest_make(a->rank, a->shape, a->xs, a->ys, NULL);
    if (t.total == 0 || a->n == 0) return;
    const int64_t d = a->xsn == 1 ? -1 : pf_nest_unit(&t, 1), width = d < 0 ? 1 : COLUMNS,
                  n = d < 0 ? 1 : t.n[d];
    if (d >= 0) pf_nest_remove(&t, d);
    const int64_t blocks = pf_ceil_div(n, width);
    int64_t begin, end;
    pf_share(w, t.total * blocks, 1, &begin, &end);
    for (int64_t b = begin; b < end; b++) {
        const int64_t c = b % blocks * width, count = pf_min(width, n - c);
        pf_walk walk;
        pf_walk_start(&walk, &t, b / blocks);
        const PF_OF(any) *x = (const PF_OF(any) *)pf_ptr(w, a->x) + walk.o[0] + c;
        PF_V *y = (PF_V *)pf_ptr(w, a->y) + walk.o[1] + c;
        (product ? PF_OF(products) : PF_OF(sums))(a, x, y, count);
    }
}
PF_KERNEL_FUNCTION(PF_JOIN(cumsum, PF_T)) { PF_OF(running)(args_, w, 0); }
PF_KERNEL_FUNCTION(PF_JOIN(cumprod, PF_T)) { PF_OF(running)(args_, w, 1); }
#endif

#undef PF_OF
#undef PF_ADD
#undef PF_MULTIPLY
#undef PF_RUNNING
#undef PF_FOLD
#undef PF_ENTRY
#undef PF_T
#undef PF_RUNS
#undef PF_V
#undef PF_U
#undef PF_TERMS
#undef PF_FINISH
