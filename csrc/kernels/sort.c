/* Lines sorted, equal elements in their order: short ones by insertion, others digit by digit, from the
 * lowest to the highest that differ within the line. */
#include "kernels/order.h"

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

PF_PLAN_FUNCTION(sort) {
    const pf_topk_args *a = args_;
    plan->scratch_bytes = pf_lines_scratch(a, nthreads, 2 * a->n);
}

/* Either result may be absent. */
PF_KERNEL_FUNCTION(sort) {
    const pf_topk_args *a = args_;
    const lines mine = pf_lines(a, w, 2 * a->n);
    for (int64_t line = mine.begin; line < mine.end; line++) {
        const elements x = pf_line(a, w, line);
        pf_entries(mine.e, &x, a->n);
        pf_put_line(sort(mine.e, mine.e + a->n, a->n), &x, a, w, line, a->n);
    }
}
