/* The operations of the expression VM on one type of elements: loops over runs, which the compiler makes
 * vectors of. expression_types.c includes this for each type: PF_T names it, PF_E is the type of an element
 * in memory, PF_V that of a value, PF_U the type in which sums wrap around, PF_FLOAT whether it has
 * fractions; of integers PF_RATIO is the type in which they are divided, PF_Q that of their quotients, and
 * PF_WRAPS whether one may be too large for it. Truth is 1 or 0. */
#define PF_OP(name) PF_JOIN(PF_T, name)

#define PF_LOOP(name, USE, body)                                                                             \
    static void PF_OP(name)(const pf_run *s0, const pf_run *s1, const pf_run *s2, void *result, int64_t n) { \
        const PF_E *p0 = s0->data, *p1 = s1->data, *p2 = s2->data;                                           \
        PF_E *out = result;                                                                                  \
        (void)p1, (void)p2;                                                                                  \
        PF_IVDEP for (int64_t i = 0; i < n; i++) {                                                           \
            USE;                                                                                             \
            out[i] = (PF_V)(body);                                                                           \
        }                                                                                                    \
    }
#define PF_1(name, body) PF_LOOP(name, const PF_V x = p0[i], body)
#define PF_2(name, body) PF_LOOP(name, const PF_V x = p0[i]; const PF_V y = p1[i], body)
#define PF_3(name, body) PF_LOOP(name, const PF_V x = p0[i]; const PF_V y = p1[i]; const PF_V z = p2[i], body)

#define PF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define PF_MIN(a, b) ((a) < (b) ? (a) : (b))

#define PF_FOR_ALL(X1, X2, X3)                                                                               \
    X1(copy, x)                                                                                              \
    X1(abs, PF_ABS(x))                                                                                       \
    X1(neg, -(PF_U)x)                                                                                        \
    X1(sign, (x > 0) - (x < 0))                                                                              \
    X1(square, (PF_U)x *(PF_U)x)                                                                             \
    X1(relu, x < 0 ? 0 : x)                                                                                  \
    X1(relu6, x < 0 ? 0 : x > 6 ? 6 : x)                                                                     \
    X1(logical_not, x == 0)                                                                                  \
    X1(to_bool, x != 0)                                                                                      \
    X2(add, (PF_U)x + (PF_U)y)                                                                               \
    X2(sub, (PF_U)x - (PF_U)y)                                                                               \
    X2(mul, (PF_U)x *(PF_U)y)                                                                                \
    X2(maximum, PF_LARGER(x, y))                                                                             \
    X2(minimum, PF_SMALLER(x, y))                                                                            \
    X2(at_least, y > x ? y : x)                                                                              \
    X2(at_most, y < x ? y : x)                                                                               \
    X2(eq, x == y)                                                                                           \
    X2(ne, x != y)                                                                                           \
    X2(lt, x < y)                                                                                            \
    X2(le, x <= y)                                                                                           \
    X2(gt, x > y)                                                                                            \
    X2(ge, x >= y)                                                                                           \
    X2(logical_and, (x != 0) & (y != 0))                                                                     \
    X2(logical_or, (x != 0) | (y != 0))                                                                      \
    X2(logical_xor, (x != 0) ^ (y != 0))                                                                     \
    X3(where, x != 0 ? y : z)                                                                                \
    X3(clamp, PF_SMALLER(PF_LARGER(x, y), z))                                                                \
    X3(clip, x<y ? (y < z ? y : z) : x> z ? z : x)                                                           \
    X3(threshold, x <= y ? z : x)

#if PF_FLOAT
#    define PF_ABS(x)   fabs(x)
#    define PF_CLIP6(x) ((x) < 0 ? 0 : (x) > 6 ? 6 : (x))
/* NaN wins. */
#    define PF_LARGER(x, y)  (((x) > (y)) | ((x) != (x)) ? (x) : (y))
#    define PF_SMALLER(x, y) (((x) < (y)) | ((x) != (x)) ? (x) : (y))
#    define PF_FOR_KIND(X1, X2, X3)                                                                          \
        X1(reciprocal, 1 / x)                                                                                \
        X1(sqrt, sqrt(x))                                                                                    \
        X1(rsqrt, 1 / sqrt(x))                                                                               \
        X1(floor, floor(x))                                                                                  \
        X1(ceil, ceil(x))                                                                                    \
        X1(round, rint(x))                                                                                   \
        X1(trunc, trunc(x))                                                                                  \
        X1(exp, pf_exp64(x))                                                                                 \
        X1(exp2, exp2(x))                                                                                    \
        X1(expm1, pf_expm1_64(x))                                                                            \
        X1(log, pf_log64(x))                                                                                 \
        X1(log2, log2(x))                                                                                    \
        X1(log10, log10(x))                                                                                  \
        X1(log1p, pf_log1p64(x))                                                                             \
        X1(sin, sin(x))                                                                                      \
        X1(cos, cos(x))                                                                                      \
        X1(tan, tan(x))                                                                                      \
        X1(asin, asin(x))                                                                                    \
        X1(acos, acos(x))                                                                                    \
        X1(atan, atan(x))                                                                                    \
        X1(sinh, sinh(x))                                                                                    \
        X1(cosh, cosh(x))                                                                                    \
        X1(tanh, pf_tanh64(x))                                                                               \
        X1(asinh, asinh(x))                                                                                  \
        X1(acosh, acosh(x))                                                                                  \
        X1(atanh, atanh(x))                                                                                  \
        X1(erf, erf(x))                                                                                      \
        X1(erfc, erfc(x))                                                                                    \
        X1(lgamma, pf_lgamma64(x))                                                                           \
        X1(digamma, pf_digamma64(x))                                                                         \
        X1(erfinv, pf_erfinv64(x))                                                                           \
        X1(hardsigmoid, PF_CLIP6(x + 3) / 6)                                                                 \
        X1(hardswish, x *PF_CLIP6(x + 3) / 6)                                                                \
        X1(sigmoid, 1 / (1 + pf_exp64(-x)))                                                                  \
        X1(silu, x / (1 + pf_exp64(-x)))                                                                     \
        X1(gelu, x * (0.5 * erfc(-x * 0.70710678118654752440)))                                              \
        X1(gelu_tanh, x / (1 + pf_exp64(-1.59576912160573071176 * (x + 0.044715 * x * x * x))))              \
        X1(mish, x *pf_tanh64(PF_SOFTPLUS(x)))                                                               \
        X1(selu, 1.0507009873554804934193349852946 *                                                         \
                     (x < 0 ? 1.6732632423543772848170429916717 * pf_expm1_64(x) : x))                       \
        X1(logsigmoid, (x > 0 ? 0 : x) - pf_log1p64(pf_exp64(-fabs(x))))                                     \
        X1(softsign, x / (1 + fabs(x)))                                                                      \
        X1(tanhshrink, x - pf_tanh64(x))                                                                     \
        X1(isnan, x != x)                                                                                    \
        X1(isinf, fabs(x) == INFINITY)                                                                       \
        X1(isfinite, fabs(x) < INFINITY)                                                                     \
        X2(div, x / y)                                                                                       \
        X2(floor_divide, pf_floor_divide(x, y))                                                              \
        X2(remainder, pf_remainder(x, y))                                                                    \
        X2(fmod, fmod(x, y))                                                                                 \
        X2(pow, pow(x, y))                                                                                   \
        X2(atan2, atan2(x, y))                                                                               \
        X2(hypot, pf_hypot64(x, y))                                                                          \
        X2(leaky_relu, x > 0 ? x : x * y)                                                                    \
        X2(hardshrink, (x >= -y) & (x <= y) ? 0 : x)                                                         \
        X2(softshrink, x > y ? x - y : x < -y ? x + y : x * 0)                                               \
        X2(elu, x < 0 ? y * pf_expm1_64(x) : x)                                                              \
        X2(celu, x < 0 ? y * pf_expm1_64(x / y) : x)                                                         \
        X3(softplus, x *y > z ? x : pf_log1p64(pf_exp64(x * y)) / y)
/* log(1 + exp x) without overflow. */
#    define PF_SOFTPLUS(x) (((x) < 0 ? 0 : (x)) + pf_log1p64(pf_exp64(-fabs(x))))
#else
#    define PF_ABS(x)         ((x) < 0 ? -(PF_U)(x) : (PF_U)(x))
#    define PF_LARGER(x, y)   PF_MAX(x, y)
#    define PF_SMALLER(x, y)  PF_MIN(x, y)
#    define PF_BITS           ((PF_V)(8 * sizeof(PF_E)))
/* Counts of bits outside the type's width leave the sign, or nothing. */
#    define PF_COUNTED(y)     (((y) >= 0) & ((y) < PF_BITS))

/* The quotient towards zero, of fractions that hold it exactly where the type has any. Zero as a divisor is
 * reported elsewhere; the smallest number by -1 wraps around. */
static inline PF_Q PF_OP(quotient)(PF_V x, PF_V y) {
    const bool negates = PF_WRAPS && y == (PF_V)-1;
    const PF_Q d = (y == 0) | negates ? 1 : y, q = (PF_Q)((PF_RATIO)x / (PF_RATIO)d);
    return negates ? (PF_Q) - (PF_U)x : q;
}
static inline PF_Q PF_OP(rest)(PF_V x, PF_V y) {
    return (PF_Q)((PF_U)x - (PF_U)PF_OP(quotient)(x, y) * (PF_U)y);
}
/* Whether a remainder lies on the other side of zero than the divisor. */
#    define PF_TOO_HIGH(r, y) ((PF_Q)(((r) != 0) & (((r) ^ (y)) < 0)))

static bool PF_OP(has_zero)(const void *from, int64_t n) {
    const PF_E *x = from;
    PF_V found = 0;
    PF_IVDEP for (int64_t i = 0; i < n; i++) found = (PF_V)(found | (x[i] == 0));
    return found != 0;
}
#    define PF_FOR_KIND(X1, X2, X3)                                                                          \
        X1(isnan, x & 0)                                                                                     \
        X1(isinf, x & 0)                                                                                     \
        X1(isfinite, (x & 0) + 1)                                                                            \
        X2(bitwise_and, x &y)                                                                                \
        X2(bitwise_or, x | y)                                                                                \
        X2(bitwise_xor, x ^ y)                                                                               \
        X1(bitwise_not, ~x)                                                                                  \
        X2(left_shift, PF_COUNTED(y) ? (PF_U)x << (y & (PF_BITS - 1)) : 0)                                   \
        X2(right_shift, PF_COUNTED(y) ? x >> (y & (PF_BITS - 1)) : x < 0 ? -1 : 0)                           \
        X2(floor_divide, PF_OP(quotient)(x, y) - PF_TOO_HIGH(PF_OP(rest)(x, y), y))                          \
        X2(remainder, PF_OP(rest)(x, y) + (-PF_TOO_HIGH(PF_OP(rest)(x, y), y) & y))                          \
        X2(fmod, PF_OP(rest)(x, y))
#endif

PF_FOR_ALL(PF_1, PF_2, PF_3)
PF_FOR_KIND(PF_1, PF_2, PF_3)

static void PF_OP(load_truths)(void *to, const uint8_t *from, int64_t step, int64_t n) {
    PF_E *out = to;
    if (step == 1)
        PF_IVDEP for (int64_t i = 0; i < n; i++) out[i] = from[i] != 0;
    else
        for (int64_t i = 0; i < n; i++) out[i] = from[i * step] != 0;
}

static void PF_OP(store_truths)(uint8_t *to, int64_t step, const void *from, int64_t n) {
    const PF_E *x = from;
    if (step == 1)
        PF_IVDEP for (int64_t i = 0; i < n; i++) to[i] = x[i] != 0;
    else
        for (int64_t i = 0; i < n; i++) to[i * step] = x[i] != 0;
}

#define PF_ENTRY(name, body) [PF_VM_##name] = PF_OP(name),
static const pf_vm_op PF_OP(ops)[PF_VM_SINGLE] = {PF_FOR_ALL(PF_ENTRY, PF_ENTRY, PF_ENTRY)
                                                      PF_FOR_KIND(PF_ENTRY, PF_ENTRY, PF_ENTRY)};
const vm_type PF_NAME(PF_JOIN(vm, PF_T)) = {
    sizeof(PF_E), 0, PF_OP(ops), PF_OP(load_truths), PF_OP(store_truths),
#if PF_FLOAT
    NULL
#else
    PF_OP(has_zero)
#endif
};

#undef PF_OP
#undef PF_LOOP
#undef PF_1
#undef PF_2
#undef PF_3
#undef PF_MAX
#undef PF_MIN
#undef PF_CLIP6
#undef PF_FOR_ALL
#undef PF_FOR_KIND
#undef PF_ABS
#undef PF_LARGER
#undef PF_SMALLER
#undef PF_SOFTPLUS
#undef PF_BITS
#undef PF_COUNTED
#undef PF_TOO_HIGH
#undef PF_RATIO
#undef PF_Q
#undef PF_WRAPS
#undef PF_ENTRY
#undef PF_T
#undef PF_E
#undef PF_V
#undef PF_U
#undef PF_FLOAT
