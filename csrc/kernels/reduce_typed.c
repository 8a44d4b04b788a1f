/* Reductions over any set of dimensions, and running sums and products, of float64 and int64. Other types are
 * made of these: by casts. Integers wrap around. */
#include "kernels/reduce_plan.h"
#include "kernels/simd.h"

enum { LANES = 16, COLUMNS = 64 };

#define PF_T f64
#define PF_V double
#define PF_U double
#define PF_TERMS(X)                                                                                          \
    X(SUM, 0, x, a + v)                                                                                      \
    X(PRODUCT, 1, x, a *v)                                                                                   \
    X(MAX, -INFINITY, x, (v > a) | (v != v) ? v : a)                                                         \
    X(MIN, INFINITY, x, (v < a) | (v != v) ? v : a)                                                          \
    X(ABS, 0, fabs(x), a + v)                                                                                \
    X(SQUARE, 0, x *x, a + v)                                                                                \
    X(NONZERO, 0, x != 0, a + v)                                                                             \
    X(ABS_MAX, -INFINITY, fabs(x), (v > a) | (v != v) ? v : a)                                               \
    X(ABS_MIN, INFINITY, fabs(x), (v < a) | (v != v) ? v : a)                                                \
    X(POWER, 0, pow(fabs(x), p), a + v)                                                                      \
    X(EXP, 0, exp(x - shift), a + v)                                                                         \
    X(DEVIATION, 0, (x - shift) * (x - shift), a + v)
#define PF_FINISH(a, count, value, shift) pf_reduce_finish(a, count, value, shift, shift)
#include "kernels/reduce_typed.h"

#define PF_T i64
#define PF_V int64_t
#define PF_U uint64_t
#define PF_TERMS(X)                                                                                          \
    X(SUM, 0, x, (uint64_t)a + (uint64_t)v)                                                                  \
    X(PRODUCT, 1, x, (uint64_t)a *(uint64_t)v)                                                               \
    X(MAX, INT64_MIN, x, v > a ? v : a)                                                                      \
    X(MIN, INT64_MAX, x, v < a ? v : a)
#define PF_FINISH(a, count, value, shift) (value)
#include "kernels/reduce_typed.h"
