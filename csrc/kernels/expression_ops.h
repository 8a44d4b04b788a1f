/* The operations of the expression VM on floats as loops over tiles, one function and one table entry for
 * each line of expression_ops.def. Included by expression_vm.c alone. An operand is a run of floats, or one
 * value repeated. */
#ifndef PF_KERNELS_EXPRESSION_OPS_H
#define PF_KERNELS_EXPRESSION_OPS_H

#include "kernels/expression_types.h"
#include "kernels/half.h"
#include "kernels/vmath_pow.h"

PF_INLINE pf_vf pf_truth(pf_vi mask) { return (pf_vf)(mask & (pf_vi)pf_set(1.0f)); }

PF_INLINE pf_vf pf_vselu(pf_vf x) {
    const pf_vf y = pf_where_lt(x, pf_zero(), 1.67326324f * pf_vexpm1(x), x);
    return y * 1.05070099f;
}

PF_INLINE pf_vf pf_with_sign(pf_vf x, pf_vf sign) {
    return (pf_vf)(((pf_vi)x & 0x7fffffff) | ((pf_vi)sign & ~0x7fffffff));
}

/* Exact, as fmodf is. The rounded quotient is never below the whole one and at most 1 above it, and what a
 * fused multiplication leaves is a multiple of the last bit of y below y, so nothing is rounded while the
 * quotient is exact; others, and processors that cannot fuse, go one by one. */
PF_INLINE pf_vf pf_vfmod(pf_vf x, pf_vf y) {
#if defined(__FMA__) || defined(__aarch64__)
    const pf_vf a = pf_vabs(x), b = pf_vabs(y), q = pf_vfloor(a / b);
    if (!pf_any((q >= 8388608.0f) & (b > 0.0f) & (a < INFINITY))) {
        const pf_vf r = pf_fma(-q, b, a);
        return pf_with_sign(pf_select(a < b, a, pf_select(r < 0.0f, r + b, r)), x);
    }
#endif
    pf_vf r = x;
    for (int i = 0; i < PF_VL; i++) r[i] = fmodf(x[i], y[i]);
    return r;
}

/* Where rounding towards zero is not rounding down. */
PF_INLINE pf_vi pf_too_high(pf_vf r, pf_vf y) { return (r != 0.0f) & ((r < 0.0f) ^ (y < 0.0f)); }

PF_INLINE pf_vf pf_vremainder(pf_vf x, pf_vf y) {
    const pf_vf r = pf_vfmod(x, y);
    return pf_select(pf_too_high(r, y), r + y, r);
}

PF_INLINE pf_vf pf_vfloor_divide(pf_vf x, pf_vf y) {
    const pf_vf r = pf_vfmod(x, y), all = x / y, down = (x - r) / y;
    const pf_vf q = pf_select(pf_too_high(r, y), down - 1.0f, down), low = pf_vfloor(q);
    const pf_vf whole = pf_select(q - low > 0.5f, low + 1.0f, low);
    return pf_select(y == 0.0f, all, pf_select(q == 0.0f, pf_with_sign(pf_zero(), all), whole));
}

#define PF_USE1(load)      const pf_vf x = load(p0, d0);
#define PF_USE2(load)      PF_USE1(load) const pf_vf y = load(p1, d1);
#define PF_USE3(load)      PF_USE2(load) const pf_vf z = load(p2, d2);
#define PF_LOAD_ONE(p, d)  pf_load(p)
#define PF_LOAD_AT(p, d)   pf_load((p) + k * (d))
#define PF_LOAD_LAST(p, d) pf_load((p) + ((d) ? n - PF_VL : 0))
#define PF_LOAD_TAIL(p, d) pf_loadn(p, n)
#define PF_LOAD_UPTO(p, d) pf_load_upto(p, n)

#define PF_VM_HEAD(name)                                                                                     \
    static void vm_##name(const pf_run *s0, const pf_run *s1, const pf_run *s2, void *result, int64_t n) {   \
        float *out = result;                                                                                 \
        const float *p0 = s0->data, *p1 = s1->data, *p2 = s2->data;                                          \
        const int64_t d0 = s0->step, d1 = s1->step, d2 = s2->step;                                           \
        (void)p1, (void)p2, (void)d1, (void)d2;
#define PF_VM_ADVANCE(m) n -= m * PF_VL, out += m * PF_VL, p0 += m * d0, p1 += m * d1, p2 += m * d2

/* Cheap bodies: the counting of a loop would take as long. Numbers that fill no vector are taken with some
 * before them, from what these were, as the result may lie where an operand does. */
#define PF_VM(USE, TIMES, name, body)                                                                        \
    PF_VM_HEAD(name)                                                                                         \
    if (n < PF_VL) {                                                                                         \
        if (n <= 0) return;                                                                                  \
        USE(PF_LOAD_TAIL) pf_storen(out, body, n);                                                           \
        return;                                                                                              \
    }                                                                                                        \
    float *const end = out + n - PF_VL;                                                                      \
    pf_vf rest = pf_zero();                                                                                  \
    if (n % PF_VL) {                                                                                         \
        USE(PF_LOAD_LAST) rest = body;                                                                       \
    }                                                                                                        \
    for (; n >= TIMES * PF_VL; PF_VM_ADVANCE(TIMES)) {                                                       \
        PF_UNROLL                                                                                            \
        for (int k = 0; k < TIMES; k++) {                                                                    \
            USE(PF_LOAD_AT) pf_store(out + k * PF_VL, body);                                                 \
        }                                                                                                    \
    }                                                                                                        \
    for (; n >= PF_VL; PF_VM_ADVANCE(1)) {                                                                   \
        USE(PF_LOAD_ONE) pf_store(out, body);                                                                \
    }                                                                                                        \
    if (n > 0) pf_store(end, rest);                                                                          \
    }
#define PF_VML(USE, name, body)                                                                              \
    PF_VM_HEAD(name)                                                                                         \
    for (; n >= PF_VL; PF_VM_ADVANCE(1)) {                                                                   \
        USE(PF_LOAD_ONE) pf_store(out, body);                                                                \
    }                                                                                                        \
    if (n > 0) {                                                                                             \
        USE(PF_LOAD_TAIL) pf_storen(out, body, n);                                                           \
    }                                                                                                        \
    }
#define PF_VMH(USE, name, body)                                                                              \
    PF_VM_HEAD(name)                                                                                         \
    for (; n > 0; PF_VM_ADVANCE(1)) {                                                                        \
        USE(PF_LOAD_UPTO) pf_store_upto(out, body, n);                                                       \
    }                                                                                                        \
    }
/* A repeated vector is one value. */
#define PF_VMD(name)                                                                                         \
    PF_VM_HEAD(name)                                                                                         \
    PF_NAME(PF_JOIN(vm_in_double, name))(p0, out, d0 ? n : pf_min(n, 1));                                    \
    for (int64_t i = 1; d0 == 0 && i < n; i++) out[i] = out[0];                                              \
    }

#define PF_VMN(name)
#define PF_VM1(name, body)  PF_VM(PF_USE1, 4, name, body)
#define PF_VM2(name, body)  PF_VM(PF_USE2, 4, name, body)
#define PF_VM3(name, body)  PF_VM(PF_USE3, 2, name, body)
#define PF_VM1L(name, body) PF_VML(PF_USE1, name, body)
#define PF_VM1H(name, body) PF_VMH(PF_USE1, name, body)
#define PF_VM2H(name, body) PF_VMH(PF_USE2, name, body)
#define PF_VM3H(name, body) PF_VMH(PF_USE3, name, body)

#define PF_CHEAP_add(a, b)      ((a) + (b))
#define PF_CHEAP_sub(a, b)      ((a) - (b))
#define PF_CHEAP_rsub(a, b)     ((b) - (a))
#define PF_CHEAP_mul(a, b)      ((a) * (b))
#define PF_CHEAP_at_least(a, b) pf_vmax(b, a)
#define PF_CHEAP_at_most(a, b)  pf_vmin(b, a)
#define PF_PAIR(f, g)           PF_VM3(f##_##g, PF_CHEAP_##g(PF_CHEAP_##f(x, y), z))
#include "kernels/expression_ops.def"

#define PF_VM_NAME(name) vm_##name,
#define PF_VMN(name)     NULL,
static const pf_vm_op vm_f32[] = {
#include "kernels/expression_ops.def"
};

#endif
