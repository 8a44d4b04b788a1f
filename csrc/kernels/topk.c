/* The k largest or smallest elements of each line, with their indices. Selection is quickselect with the
 * median of three as pivot (Musser's introselect, 1997): the order that it leaves behind is what PyTorch
 * returns when the result need not be sorted. NaN counts as the largest value. */
#include <stdbool.h>

#include "kernels/args.h"

enum { FEW = 64 }; /* up to so many are kept in order while the line is read */

typedef struct entry {
    float value;
    int32_t nan;
    int64_t index;
} entry;

/* Whether x comes before y; `sign` is -1 when the largest come first. */
static inline bool before(const entry *x, const entry *y, float sign) {
    if (x->nan | y->nan) return sign < 0 ? x->nan && !y->nan : !x->nan && y->nan;
    return sign * x->value < sign * y->value;
}

static inline bool before_or_first(const entry *x, const entry *y, float sign) {
    return before(x, y, sign) || (!before(y, x, sign) && x->index < y->index);
}

static inline void swap(entry *x, entry *y) {
    const entry t = *x;
    *x = *y;
    *y = t;
}

static void insertion_sort(entry *e, int64_t n, float sign) {
    for (int64_t i = 1; i < n; i++) {
        const entry moved = e[i];
        int64_t j = i;
        for (; j > 0 && before(&moved, &e[j - 1], sign); j--) e[j] = e[j - 1];
        e[j] = moved;
    }
}

static void sift_down(entry *e, int64_t root, int64_t n, float sign) {
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before_or_first(&e[child], &e[child + 1], sign)) child++;
        if (!before_or_first(&e[root], &e[child], sign)) return;
        swap(&e[root], &e[child]);
    }
}

/* Heap sort; equal values in the order of their indices. */
static void sort(entry *e, int64_t n, float sign) {
    for (int64_t i = n / 2; i-- > 0;) sift_down(e, i, n, sign);
    for (int64_t i = n; i-- > 1;) {
        swap(&e[0], &e[i]);
        sift_down(e, 0, i, sign);
    }
}

/* The median of the second, the middle and the last entry goes to the front. */
static void choose_pivot(entry *e, int64_t n, float sign) {
    entry *a = &e[1], *m = &e[n / 2], *z = &e[n - 1], *median;
    if (before(a, m, sign))
        median = before(m, z, sign) ? m : before(a, z, sign) ? z : a;
    else
        median = before(a, z, sign) ? a : before(m, z, sign) ? z : m;
    swap(e, median);
}

/* Start of the part whose entries do not come before the pivot e[0]; the pivot bounds both walks. */
static int64_t partition(entry *e, int64_t n, float sign) {
    int64_t first = 1, last = n;
    for (;;) {
        while (before(&e[first], &e[0], sign)) first++;
        last--;
        while (before(&e[0], &e[last], sign)) last--;
        if (first >= last) return first;
        swap(&e[first++], &e[last]);
    }
}

/* The first k entries become those that come first. */
static void select_first(entry *e, int64_t n, int64_t k, float sign) {
    int64_t first = 0, last = n, patience = 2;
    for (int64_t m = n; m > 1; m >>= 1) patience += 2;
    while (last - first > 3) {
        if (patience-- == 0) {
            sort(e + first, last - first, sign);
            return;
        }
        choose_pivot(e + first, last - first, sign);
        const int64_t cut = first + partition(e + first, last - first, sign);
        if (cut <= k - 1)
            first = cut;
        else
            last = cut;
    }
    insertion_sort(e + first, last - first, sign);
}

/* The k best of n, sorted: each entry that is better than the worst one so far takes its place among them. */
static void select_few(entry *e, const float *x, int64_t step, int64_t n, int64_t k, float sign) {
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        const float value = x[j * step];
        const bool known = count == k && !e[k - 1].nan && value == value;
        if (known && !(sign * value < sign * e[k - 1].value)) continue;
        const entry moved = {value, value != value, j};
        if (count == k && !before(&moved, &e[k - 1], sign)) continue;
        int64_t i = count < k ? count++ : k - 1;
        for (; i > 0 && before(&moved, &e[i - 1], sign); i--) e[i] = e[i - 1];
        e[i] = moved;
    }
}

PF_PLAN_FUNCTION(topk_f32) {
    const pf_topk_args *a = args_;
    plan->scratch_bytes = nthreads * a->n * (int64_t)sizeof(entry);
}

PF_KERNEL_FUNCTION(topk_f32) {
    const pf_topk_args *a = args_;
    const float *x = pf_ptr(w, a->x), sign = a->largest ? -1.0f : 1.0f;
    float *values = pf_ptr(w, a->values);
    int64_t *indices = pf_ptr(w, a->indices);
    entry *e = (entry *)pf_ptr(w, a->scratch) + w->tid * a->n;
    const bool few = a->sorted && a->k <= FEW && a->k * 16 <= a->n;
    int64_t begin, end;
    if (a->k == 0) return;
    pf_share(w, a->outer * a->inner, 1, &begin, &end);
    for (int64_t line = begin; line < end; line++) {
        const int64_t o = line / a->inner, i = line % a->inner, to = o * a->k * a->inner + i;
        const float *from = x + o * a->n * a->inner + i;
        if (few) {
            select_few(e, from, a->inner, a->n, a->k, sign);
        } else {
            for (int64_t j = 0; j < a->n; j++) {
                const float value = from[j * a->inner];
                e[j] = (entry){value, value != value, j};
            }
            select_first(e, a->n, a->k, sign);
            if (a->sorted) sort(e, a->k, sign);
        }
        for (int64_t j = 0; j < a->k; j++) {
            values[to + j * a->inner] = e[j].value;
            indices[to + j * a->inner] = e[j].index;
        }
    }
}
