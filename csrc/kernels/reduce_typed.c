/* Reductions over any set of dimensions, and running sums and products, of float64, int64 and int32; the
 * extremes of bytes. Other types are made of these: by casts. Integers wrap around. */
#include "kernels/reduce_plan.h"
#include "kernels/simd.h"
#include "kernels/vmath_f64.h"

enum { LANES = 16, COLUMNS = 64 };

/* How the loop over lanes is compiled: exponentials, and extremes where NaN wins, become
 * vectors only as long as it is one. */
#define PF_ROLLED _Pragma("GCC unroll 1")
#define PF_FREE

#define PF_T    f64
#define PF_RUNS 1
#define PF_V    double
#define PF_U    double
#define PF_TERMS(X)                                                                                          \
    X(SUM, PF_FREE, 0, x, a + v)                                                                             \
    X(PRODUCT, PF_FREE, 1, x, a *v)                                                                          \
    X(MAX, PF_ROLLED, -INFINITY, x, (v > a) | (v != v) ? v : a)                                              \
    X(MIN, PF_ROLLED, INFINITY, x, (v < a) | (v != v) ? v : a)                                               \
    X(ABS, PF_FREE, 0, fabs(x), a + v)                                                                       \
    X(SQUARE, PF_FREE, 0, x *x, a + v)                                                                       \
    X(NONZERO, PF_FREE, 0, x != 0, a + v)                                                                    \
    X(ABS_MAX, PF_ROLLED, -INFINITY, fabs(x), (v > a) | (v != v) ? v : a)                                    \
    X(ABS_MIN, PF_ROLLED, INFINITY, fabs(x), (v < a) | (v != v) ? v : a)                                     \
    X(POWER, PF_FREE, 0, pow(fabs(x), p), a + v)                                                             \
    X(EXP, PF_ROLLED, 0, pf_exp64(x - shift), a + v)                                                         \
    X(OFFSET, PF_FREE, 0, x - shift, a + v)                                                                  \
    X(DEVIATION, PF_FREE, 0, (x - shift) * (x - shift), a + v)                                               \
    X(NUMBER, PF_FREE, 0, x == x ? x : 0, a + v)
#define PF_FINISH(a, count, value, shift) pf_reduce_finish(a, count, value, shift, shift)
#include "kernels/reduce_typed.h"

#define PF_WHOLE(X, U, least, most)                                                                          \
    X(SUM, PF_FREE, 0, x, (U)a + (U)v)                                                                       \
    X(PRODUCT, PF_FREE, 1, x, (U)a *(U)v)                                                                    \
    X(MAX, PF_FREE, least, x, v > a ? v : a)                                                                 \
    X(MIN, PF_FREE, most, x, v < a ? v : a)

#define PF_T                              i64
#define PF_RUNS                           1
#define PF_V                              int64_t
#define PF_U                              uint64_t
#define PF_TERMS(X)                       PF_WHOLE(X, uint64_t, INT64_MIN, INT64_MAX)
#define PF_FINISH(a, count, value, shift) (value)
#include "kernels/reduce_typed.h"

#define PF_T                              i32
#define PF_RUNS                           1
#define PF_V                              int32_t
#define PF_U                              uint32_t
#define PF_TERMS(X)                       PF_WHOLE(X, uint32_t, INT32_MIN, INT32_MAX)
#define PF_FINISH(a, count, value, shift) (value)
#include "kernels/reduce_typed.h"

/* Bytes and booleans. */
#define PF_T                              u8
#define PF_RUNS                           0
#define PF_V                              uint8_t
#define PF_U                              uint32_t
#define PF_TERMS(X)                       PF_WHOLE(X, uint32_t, 0, UINT8_MAX)
#define PF_FINISH(a, count, value, shift) (value)
#include "kernels/reduce_typed.h"
