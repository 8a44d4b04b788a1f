/* The operations of the expression VM on types other than float. Integers wrap around. */
#include <math.h>

#include "kernels/expression_types.h"
#include "kernels/vmath_special.h"

/* Operands may lie anywhere. */
typedef float any_f32 __attribute__((aligned(1), may_alias));
typedef double any_f64 __attribute__((aligned(1), may_alias));
typedef int64_t any_i64 __attribute__((aligned(1), may_alias));
typedef int32_t any_i32 __attribute__((aligned(1), may_alias));
typedef int16_t any_i16 __attribute__((aligned(1), may_alias));

/* A result may lie where an operand does, place by place. */
#if defined(__clang__)
#    define PF_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#    define PF_IVDEP _Pragma("GCC ivdep")
#endif

/* Where rounding towards zero is not rounding down. */
static inline int too_high(double r, double y) { return r != 0 && (r < 0) != (y < 0); }

static inline double pf_remainder(double x, double y) {
    const double r = fmod(x, y);
    return too_high(r, y) ? r + y : r;
}

static inline double pf_floor_divide(double x, double y) {
    const double r = fmod(x, y), down = (x - r) / y, q = too_high(r, y) ? down - 1 : down, low = floor(q);
    if (y == 0) return x / y;
    return q == 0 ? copysign(0, x / y) : q - low > 0.5 ? low + 1 : low;
}

#define PF_IN_DOUBLE(name, body)                                                                             \
    void PF_NAME(PF_JOIN(vm_in_double, name))(const float *from, float *to, int64_t n) {                     \
        const any_f32 *p = from;                                                                             \
        any_f32 *out = to;                                                                                   \
        PF_IVDEP for (int64_t i = 0; i < n; i++) {                                                           \
            const double x = p[i];                                                                           \
            out[i] = (float)(body);                                                                          \
        }                                                                                                    \
    }
PF_IN_DOUBLE(lgamma, pf_log_gamma64(x))
PF_IN_DOUBLE(digamma, pf_digamma64(x))
PF_IN_DOUBLE(erfinv, pf_erfinv_short(x))

#define PF_T     f64
#define PF_E     any_f64
#define PF_V     double
#define PF_U     double
#define PF_FLOAT 1
#include "kernels/expression_typed.h"

/* Quotients of 32 bits are exact in double, those of fewer in float: the next whole number is farther away
 * than half a unit of the last place. Tests that no number of a type fails are meant. */
#pragma GCC diagnostic ignored "-Wtype-limits"

#define PF_T     i64
#define PF_E     any_i64
#define PF_V     int64_t
#define PF_U     uint64_t
#define PF_FLOAT 0
#define PF_Q     int64_t
#define PF_WRAPS 1
#define PF_RATIO int64_t
#include "kernels/expression_typed.h"

#define PF_T     i32
#define PF_E     any_i32
#define PF_V     int32_t
#define PF_U     uint32_t
#define PF_FLOAT 0
#define PF_Q     int32_t
#define PF_WRAPS 1
#define PF_RATIO double
#include "kernels/expression_typed.h"

#define PF_T     i16
#define PF_E     any_i16
#define PF_V     int16_t
#define PF_U     uint32_t
#define PF_FLOAT 0
#define PF_Q     int32_t
#define PF_WRAPS 0
#define PF_RATIO float
#include "kernels/expression_typed.h"

#define PF_T     i8
#define PF_E     int8_t
#define PF_V     int8_t
#define PF_U     uint32_t
#define PF_FLOAT 0
#define PF_Q     int32_t
#define PF_WRAPS 0
#define PF_RATIO float
#include "kernels/expression_typed.h"

/* Bytes and booleans. */
#define PF_T     u8
#define PF_E     uint8_t
#define PF_V     uint8_t
#define PF_U     uint32_t
#define PF_FLOAT 0
#define PF_Q     int32_t
#define PF_WRAPS 0
#define PF_RATIO float
#include "kernels/expression_typed.h"
