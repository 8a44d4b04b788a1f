/* Activations that convolution, linear and similar kernels apply before storing; a and b are parameters.
 * Cheap ones are applied to registers, the late ones to tiles that pass through a small buffer. */
#ifndef PF_KERNELS_EPILOGUE_H
#define PF_KERNELS_EPILOGUE_H

#include "kernels/codes.h"
#include "kernels/simd.h"
#include "kernels/vmath.h"

typedef struct pf_activation {
    int32_t code;
    float a, b;
} pf_activation;

/* ReLU is the clip to [0, inf), so that kernels need one case for both. */
PF_INLINE pf_activation pf_act_make(int64_t code, double a, double b) {
    if (code == PF_ACT_RELU) return (pf_activation){PF_ACT_RELU, 0.0f, INFINITY};
    return (pf_activation){(int32_t)code, (float)a, (float)b};
}

/* Whether the activation is applied to stored rows by pf_late_rows. */
PF_INLINE int pf_act_is_late(int32_t code) {
    return code == PF_ACT_SIGMOID || code == PF_ACT_SILU || code >= PF_ACT_GELU;
}

/* Operand order keeps NaN: min and max return their second operand when one is NaN. */
PF_INLINE pf_vf pf_act_clip(pf_vf x, pf_vf a, pf_vf b) { return pf_vmin(b, pf_vmax(a, x)); }
PF_INLINE pf_vf pf_act_leaky(pf_vf x, pf_vf a) { return pf_select(x > pf_zero(), x, a * x); }
PF_INLINE pf_vf pf_act_hsigmoid(pf_vf x) {
    return pf_act_clip(x + pf_set(3.0f), pf_zero(), pf_set(6.0f)) * pf_set(1.0f / 6.0f);
}
PF_INLINE pf_vf pf_act_hswish(pf_vf x) { return x * pf_act_hsigmoid(x); }

/* The activations that are not late, on `count` (a constant) accumulators. */
PF_INLINE void pf_act_early(const pf_activation *act, pf_vf *v, const int count) {
    const pf_vf a = pf_set(act->a), b = pf_set(act->b);
#define PF_ACT_EACH(value)                                                                                   \
    _Pragma("GCC unroll 16") for (int i = 0; i < count; i++) v[i] = value;                                   \
    break
    switch (act->code) {
    case PF_ACT_RELU:
    case PF_ACT_CLIP:
        PF_ACT_EACH(pf_act_clip(v[i], a, b));
    case PF_ACT_LEAKY:
        PF_ACT_EACH(pf_act_leaky(v[i], a));
    case PF_ACT_HSWISH:
        PF_ACT_EACH(pf_act_hswish(v[i]));
    case PF_ACT_HSIGMOID:
        PF_ACT_EACH(pf_act_hsigmoid(v[i]));
    default:
        break;
    }
#undef PF_ACT_EACH
}

/* Gelu in a loop: what it wants before, and of a vector. */
#if defined(PF_AVX512) && !defined(PF_EMULATED)
/* Without the empty statement the compiler reads the table again for every vector. */
#    define PF_GELU_BEFORE                                                                                   \
        pf_gelu_table table = pf_gelu_load();                                                                \
        for (int k = 0; k < 7; k++) __asm__("" : "+v"(table.low[k]), "+v"(table.high[k]))
#    define PF_GELU(x) pf_gelu_by(&table, x)
#else
#    define PF_GELU_BEFORE
#    define PF_GELU(x) pf_vgelu(x)
#endif

/* LOOP(function) for the function of a late activation. */
#define PF_LATE_SWITCH(code, LOOP)                                                                           \
    switch (code) {                                                                                          \
    case PF_ACT_SIGMOID:                                                                                     \
        LOOP(pf_vsigmoid);                                                                                   \
        break;                                                                                               \
    case PF_ACT_SILU:                                                                                        \
        LOOP(pf_vsilu);                                                                                      \
        break;                                                                                               \
    case PF_ACT_GELU: {                                                                                      \
        PF_GELU_BEFORE;                                                                                      \
        LOOP(PF_GELU);                                                                                       \
        break;                                                                                               \
    }                                                                                                        \
    case PF_ACT_GELU_TANH:                                                                                   \
        LOOP(pf_vgelu_tanh);                                                                                 \
        break;                                                                                               \
    case PF_ACT_TANH:                                                                                        \
        LOOP(pf_vtanh);                                                                                      \
        break;                                                                                               \
    case PF_ACT_MISH:                                                                                        \
        LOOP(pf_vmish);                                                                                      \
        break;                                                                                               \
    default:                                                                                                 \
        break;                                                                                               \
    }

/* Rows one behind the other are one row. In place, the load of a short row would wait for the store of the
 * one before it, whose vector reaches into it. */
PF_INLINE void pf_join_rows(int64_t step, int64_t *rows, int64_t *n) {
    if (step == *n) *n *= *rows, *rows = 1;
}

/* A late activation of n neighbours in each row, in place. Not inlined: the loops want all registers. */
static __attribute__((noinline, unused)) void pf_act_late(int32_t code, float *y, int64_t step, int64_t rows,
                                                          int64_t n) {
    pf_join_rows(step, &rows, &n);
#define PF_LATE_LOOP(function)                                                                               \
    for (int64_t r = 0; r < rows; r++, y += step) {                                                          \
        int64_t i = 0;                                                                                       \
        for (; i + PF_VL <= n; i += PF_VL) pf_store(y + i, function(pf_load(y + i)));                        \
        if (i < n) pf_storen(y + i, function(pf_loadn(y + i, n - i)), n - i);                                \
    }
    PF_LATE_SWITCH(code, PF_LATE_LOOP)
#undef PF_LATE_LOOP
}

/* Clips and late activations leave nothing for this: other activations of n neighbours in each row, in place.
 */
static __attribute__((noinline, unused)) void pf_act_early_rows(const pf_activation *act, float *y,
                                                                int64_t step, int64_t rows, int64_t n) {
    pf_join_rows(step, &rows, &n);
#define PF_EARLY_LOOP(value)                                                                                 \
    for (int64_t r = 0; r < rows; r++, y += step) {                                                          \
        for (int64_t i = 0; i < n; i += PF_VL) {                                                             \
            const pf_vf x = pf_load_upto(y + i, n - i);                                                      \
            pf_store_upto(y + i, value, n - i);                                                              \
        }                                                                                                    \
    }                                                                                                        \
    break
    switch (act->code) {
    case PF_ACT_LEAKY:
        PF_EARLY_LOOP(pf_act_leaky(x, pf_set(act->a)));
    case PF_ACT_HSWISH:
        PF_EARLY_LOOP(pf_act_hswish(x));
    case PF_ACT_HSIGMOID:
        PF_EARLY_LOOP(pf_act_hsigmoid(x));
    default:
        break;
    }
#undef PF_EARLY_LOOP
}

/* What remains for stored rows of n values, in place: a late activation, then the addition of a late residual
 * z (NULL: none). */
static inline void pf_late_rows(const pf_activation *act, float *y, int64_t ystep, const float *z,
                                int64_t zstep, int64_t rows, int64_t n) {
    pf_act_late(act->code, y, ystep, rows, n);
    if (ystep == zstep) pf_join_rows(ystep, &rows, &n);
    for (int64_t r = 0; z && r < rows; r++, y += ystep, z += zstep)
        for (int64_t i = 0; i < n; i += PF_VL)
            pf_store_upto(y + i, pf_load_upto(y + i, n - i) + pf_load_upto(z + i, n - i), n - i);
}

/* The same after a clip, or none, whatever the activation. */
static inline void pf_rest_rows(const pf_activation *act, float *y, int64_t ystep, const float *z,
                                int64_t zstep, int64_t rows, int64_t n) {
    pf_act_early_rows(act, y, ystep, rows, n);
    pf_late_rows(act, y, ystep, z, zstep, rows, n);
}

/* A late activation of one vector; others leave it as it is. */
PF_INLINE pf_vf pf_act_late_vector(int32_t code, pf_vf x) {
    switch (code) {
    case PF_ACT_SIGMOID:
        return pf_vsigmoid(x);
    case PF_ACT_SILU:
        return pf_vsilu(x);
    case PF_ACT_GELU:
        return pf_vgelu(x);
    case PF_ACT_GELU_TANH:
        return pf_vgelu_tanh(x);
    case PF_ACT_TANH:
        return pf_vtanh(x);
    case PF_ACT_MISH:
        return pf_vmish(x);
    default:
        return x;
    }
}

/* Any activation of one vector. */
PF_INLINE pf_vf pf_act_vector(const pf_activation *act, pf_vf x) {
    if (pf_act_is_late(act->code)) return pf_act_late_vector(act->code, x);
    pf_act_early(act, &x, 1);
    return x;
}

#endif
