/* Reductions over any set of dimensions, and running sums and products, of float64 and int64. Other types are
 * made of these: by casts. Integers wrap around. */
#include <math.h>

#include "kernels/nest.h"
#include "kernels/simd.h"

enum { LANES = 16, COLUMNS = 64 };

/* The codes that PF_REDUCE_ARGS names: the places in PF_TERMS of the term of the first pass and of the
 * second, which takes the shift between them (-1: one pass), and what is made of the result. */
typedef enum finish { FINISH_SCALE, FINISH_SQRT, FINISH_ROOT, FINISH_LOG, FINISH_VAR, FINISH_STD } finish;
static const struct {
    int first, second;
    finish finish;
} plans[] = {
    {0, -1, FINISH_SCALE}, {1, -1, FINISH_SCALE}, {2, -1, FINISH_SCALE}, {3, -1, FINISH_SCALE},
    {4, -1, FINISH_SCALE}, {5, -1, FINISH_SCALE}, {5, -1, FINISH_SQRT},  {6, -1, FINISH_SCALE},
    {7, -1, FINISH_SCALE}, {8, -1, FINISH_SCALE}, {9, -1, FINISH_ROOT},  {2, 10, FINISH_LOG},
    {0, 11, FINISH_VAR},   {0, 11, FINISH_STD},
};

/* The shift between the passes: the largest element or the mean. */
static double shift_of(const pf_reduce_args *a, double count, double value) {
    return plans[a->op].finish == FINISH_LOG ? (isinf(value) ? 0.0 : value) : value / count;
}

static double finish_of(const pf_reduce_args *a, double count, double value, double shift) {
    switch (plans[a->op].finish) {
    case FINISH_SQRT:
        return sqrt(value);
    case FINISH_ROOT:
        return pow(value, 1.0 / a->p);
    case FINISH_LOG:
        return log(value) + shift;
    case FINISH_VAR:
    case FINISH_STD: {
        const double left = count - a->p, var = value / (left > 0 ? left : 0.0);
        return plans[a->op].finish == FINISH_STD ? sqrt(var) : var;
    }
    default:
        return a->scale == 1.0 ? value : value * a->scale;
    }
}

#define PF_T f64
#define PF_V double
#define PF_U double
#define PF_TERMS(X)                                                                                          \
    X(sum, 0, x, a + v)                                                                                      \
    X(product, 1, x, a *v)                                                                                   \
    X(largest, -INFINITY, x, (v > a) | (v != v) ? v : a)                                                     \
    X(smallest, INFINITY, x, (v < a) | (v != v) ? v : a)                                                     \
    X(magnitude, 0, fabs(x), a + v)                                                                          \
    X(square, 0, x *x, a + v)                                                                                \
    X(nonzero, 0, x != 0, a + v)                                                                             \
    X(largest_magnitude, -INFINITY, fabs(x), (v > a) | (v != v) ? v : a)                                     \
    X(smallest_magnitude, INFINITY, fabs(x), (v < a) | (v != v) ? v : a)                                     \
    X(power, 0, pow(fabs(x), p), a + v)                                                                      \
    X(exponential, 0, exp(x - shift), a + v)                                                                 \
    X(deviation, 0, (x - shift) * (x - shift), a + v)
#define PF_FINISH(a, count, value, shift) finish_of(a, count, value, shift)
#include "kernels/reduce_typed.h"

#define PF_T i64
#define PF_V int64_t
#define PF_U uint64_t
#define PF_TERMS(X)                                                                                          \
    X(sum, 0, x, (uint64_t)a + (uint64_t)v)                                                                  \
    X(product, 1, x, (uint64_t)a *(uint64_t)v)                                                               \
    X(largest, INT64_MIN, x, v > a ? v : a)                                                                  \
    X(smallest, INT64_MAX, x, v < a ? v : a)
#define PF_FINISH(a, count, value, shift) (value)
#include "kernels/reduce_typed.h"
