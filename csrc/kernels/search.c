/* Places of values among sorted edges, by bisection of several values at a time. */
#include <math.h>
#include <stdbool.h>

#include "kernels/args.h"

enum { AT_ONCE = 8 };

/* How many edges are less than each of m values (right: not larger); NaN lies behind all numbers. */
static inline __attribute__((always_inline)) void bisect(const float *edges, int64_t n, const float *x,
                                                         int64_t *found, const int64_t m, const bool right) {
    int64_t at[AT_ONCE] = {0};
    for (int64_t left = n; left > 0;) {
        const int64_t half = left - left / 2;
        for (int64_t j = 0; j < m; j++) {
            const float edge = edges[at[j] + half - 1];
            at[j] += (right ? !(edge > x[j]) : !(edge >= x[j])) ? half : 0;
        }
        left /= 2;
    }
    for (int64_t j = 0; j < m; j++) found[j] = at[j];
}

/* The same for one value among edges that end with NaN. An order with NaN depends on which edges are looked
 * at: here those that PyTorch looks at. */
static int64_t bisect_one(const float *edges, int64_t n, float x, bool right) {
    int64_t at = 0;
    while (at < n) {
        const int64_t middle = at + (n - at) / 2;
        if (right ? !(edges[middle] > x) : !(edges[middle] >= x))
            at = middle + 1;
        else
            n = middle;
    }
    return at;
}

PF_KERNEL_FUNCTION(search_f32) {
    const pf_search_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    void *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, a->lines * a->values, 64, &begin, &end);
    for (int64_t i = begin, n; i < end; i += n) {
        const int64_t line = i / a->values, j = i % a->values;
        n = pf_min(AT_ONCE, pf_min(end - i, a->values - j));
        const float *edges = (const float *)pf_ptr(w, a->edges) + line * a->step;
        int64_t found[AT_ONCE];
        if (isnan(edges[a->n - 1]))
            for (int64_t k = 0; k < n; k++) found[k] = bisect_one(edges, a->n, x[i + k], a->right != 0);
        else if (n == AT_ONCE && a->right)
            bisect(edges, a->n, x + i, found, AT_ONCE, true);
        else if (n == AT_ONCE)
            bisect(edges, a->n, x + i, found, AT_ONCE, false);
        else
            bisect(edges, a->n, x + i, found, n, a->right != 0);
        for (int64_t k = 0; k < n; k++)
            if (a->narrow)
                ((int32_t *)y)[i + k] = (int32_t)found[k];
            else
                ((int64_t *)y)[i + k] = found[k];
    }
}
