/* Lines sorted, equal elements in their order: many short ones of floats together (sort_lanes.h), other short
 * ones by insertion, the rest digit by digit, from the lowest to the highest that differ within the line. */
#include "kernels/order.h"
#include "kernels/sort_lanes.h"

enum { SHORT = 24, LONG = 4096, NARROW = 8, WIDE = 11 };

/* Entries in the order of one digit of keys - least. */
static void pass(const entry *from, entry *to, int64_t n, int64_t least, int shift, int bits) {
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    int64_t starts[1 << WIDE];
#define PF_DIGIT(e) (((uint64_t)(e).key - (uint64_t)least) >> shift & mask)
    memset(starts, 0, sizeof starts[0] << bits);
    for (int64_t i = 0; i < n; i++) starts[PF_DIGIT(from[i])]++;
    for (int64_t d = 0, sum = 0; d <= (int64_t)mask; d++) {
        const int64_t count = starts[d];
        starts[d] = sum;
        sum += count;
    }
    for (int64_t i = 0; i < n; i++) to[starts[PF_DIGIT(from[i])]++] = from[i];
#undef PF_DIGIT
}

/* n entries sorted; they end where `e` or where `other` is. */
static entry *sort(entry *e, entry *other, int64_t n) {
    if (n <= SHORT) {
        pf_insertion_sort(e, n);
        return e;
    }
    int64_t least = e[0].key, most = e[0].key;
    for (int64_t i = 1; i < n; i++) {
        least = e[i].key < least ? e[i].key : least;
        most = e[i].key > most ? e[i].key : most;
    }
    const uint64_t span = (uint64_t)most - (uint64_t)least;
    if (span == 0) return e;
    const int width = 64 - __builtin_clzll(span), digit = n < LONG ? NARROW : WIDE;
    const int passes = (width + digit - 1) / digit, bits = (width + passes - 1) / passes;
    for (int i = 0; i < passes; i++) {
        pass(e, other, n, least, i * bits, bits);
        entry *const t = e;
        e = other;
        other = t;
    }
    return e;
}

/* Entries that a thread needs for a line, or for those that it sorts together. */
static int64_t room_of(const pf_topk_args *a) { return (lanes_fit(a) ? LANE_LINES : 2) * a->n; }

PF_PLAN_FUNCTION(sort) {
    const pf_topk_args *a = args_;
    plan->scratch_bytes = pf_lines_scratch(a, nthreads, room_of(a));
}

static void sort_line(entry *e, const pf_topk_args *a, const pf_worker *w, int64_t line) {
    const elements x = pf_line(a, w, line);
    pf_entries(e, &x, a->n);
    pf_put_line(sort(e, e + a->n, a->n), &x, a, w, line, a->n);
}

/* PF_VL lines. */
static void sort_lines(placed *e, const pf_topk_args *a, const pf_worker *w, int64_t first) {
    const int64_t apart = a->inner == 1 ? a->n : 1;
    sort_together(e, (const float *)pf_line(a, w, first).at, a->n, a->inner, a->largest ? -1 : 0);
    for (int half = 0; half < 2; half++, e += a->n) {
        const elements x = pf_line(a, w, first + half * LANE_LINES);
        const int64_t at = (x.at - (const char *)pf_ptr(w, a->x)) / (int64_t)sizeof(float);
        int32_t *values = pf_ptr(w, a->values);
        int64_t *indices = pf_ptr(w, a->indices);
        put_together(e, (const int32_t *)x.at, values ? values + at : NULL, indices ? indices + at : NULL,
                     a->n, a->inner, apart);
    }
}

/* Either result may be absent. */
PF_KERNEL_FUNCTION(sort) {
    const pf_topk_args *a = args_;
    const lines mine = pf_lines(a, w, room_of(a));
    for (int64_t line = mine.begin; line < mine.end;) {
        if (lanes_fit_from(a, line, mine.end)) {
            sort_lines((placed *)mine.e, a, w, line);
            line += PF_VL;
        } else {
            sort_line(mine.e, a, w, line++);
        }
    }
}

/* NaN comes last among others, but equals nothing. */
static bool is_missing(const elements *x, int64_t key) {
    return (x->type == PF_DTYPE_F32 && key == INT32_MAX) || (x->type == PF_DTYPE_F16 && key == INT16_MAX) ||
           (x->type == PF_DTYPE_F64 && key == INT64_MAX);
}

/* As the C++ library orders few entries where NaN is neither less nor more than anything. */
static void insert_with_missing(entry *e, const elements *x, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const entry moved = e[i];
        int64_t j = i;
#define PF_BEFORE(other) (moved.key < (other).key && !is_missing(x, (other).key))
        if (PF_BEFORE(e[0]))
            for (; j > 0; j--) e[j] = e[j - 1];
        else
            for (; PF_BEFORE(e[j - 1]); j--) e[j] = e[j - 1];
#undef PF_BEFORE
        e[j] = moved;
    }
}

/* Of sorted entries the last one of the first longest run of equal ones. */
static entry most_frequent(const entry *e, const elements *x, int64_t n) {
    int64_t best = 0, most = 0, start = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i + 1 < n && e[i + 1].key == e[i].key && !is_missing(x, e[i].key)) continue;
        if (i + 1 - start > most) best = i, most = i + 1 - start;
        start = i + 1;
    }
    return e[best];
}

PF_PLAN_FUNCTION(mode) { PF_NAME(sort_plan)(args_, nthreads, plan); }

PF_KERNEL_FUNCTION(mode) {
    enum { FEW = 16 };
    const pf_topk_args *a = args_;
    const lines mine = pf_lines(a, w, 2 * a->n);
    for (int64_t line = mine.begin; line < mine.end; line++) {
        const elements x = pf_line(a, w, line);
        entry *e = mine.e;
        bool missing = false;
        pf_entries(e, &x, a->n);
        for (int64_t i = 0; a->n <= FEW && i < a->n; i++) missing |= is_missing(&x, e[i].key);
        if (missing)
            insert_with_missing(e, &x, a->n);
        else
            e = sort(e, mine.e + a->n, a->n);
        const entry found = most_frequent(e, &x, a->n);
        pf_put_line(&found, &x, a, w, line, 1);
    }
}
