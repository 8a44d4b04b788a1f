/* What packing learns from the sizes of weights that become integers: the scales of columns, and the factors
 * of inputs, powers of two by which weights are divided and inputs multiplied where the largest weights of
 * inputs differ much (the integers of small ones would be few). Weights are read from memory once, as most
 * need no factors: whether these are worth the trouble is known when all are packed, and then all are packed
 * again. Used by pack_split.c and conv_thin.c. */
#ifndef PF_KERNELS_PACK_SIZES_H
#define PF_KERNELS_PACK_SIZES_H

#include <math.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/sizes.h"

enum {
    PF_SIZES_BLOCK = 256,  /* inputs of a column that are looked at together */
    PF_SIZES_COLUMNS = 16, /* most columns */
    PF_FACTORS_EVEN = 8,   /* factors that differ by no more are left out */
    PF_FACTORS_MOST = 100, /* powers of two of a factor */
    PF_UNITS_RARE = 8,     /* of so many columns one may be larger than what is usual */
};

/* Units of columns are no smaller than this part of the usual size. */
#define PF_UNITS_LEAST 0.5f

/* Threads have columns of their own, but share the sizes of inputs. */
static inline void pf_note_sizes(int32_t *sizes, const int32_t *found, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int32_t old = __atomic_load_n(sizes + i, __ATOMIC_RELAXED);
        while (found[i] > old && !__atomic_compare_exchange_n(sizes + i, &old, found[i], 1, __ATOMIC_RELAXED,
                                                              __ATOMIC_RELAXED)) {
        }
    }
}

/* The largest sizes of n inputs, times these inverses of their columns: they stay in registers if these
 * suffice. */
static inline void pf_measure(const float *x, int64_t columns, int64_t step, int64_t n, const float *inverses,
                              int32_t *found) {
    enum { VECTORS = PF_SIZES_BLOCK / PF_VL };
    if (n < PF_SIZES_BLOCK || VECTORS > PF_REGISTERS / 2) {
        memset(found, 0, PF_SIZES_BLOCK * sizeof *found);
        for (int64_t j = 0; j < columns; j++, x += step)
            for (int64_t i = 0; i < n && inverses[j] != 0.0f; i += PF_VL) {
                const pf_vf v = pf_load_upto(x + i, n - i) * pf_set(inverses[j]);
                pf_storei(found + i, pf_size_larger(pf_loadi(found + i), v));
            }
        return;
    }
    pf_vi sizes[VECTORS];
    PF_UNROLL for (int i = 0; i < VECTORS; i++) sizes[i] = pf_seti(0);
    for (int64_t j = 0; j < columns; j++, x += step) {
        const pf_vf inverse = pf_set(inverses[j]);
        if (inverses[j] == 0.0f) continue;
        PF_UNROLL for (int i = 0; i < VECTORS; i++) sizes[i] =
            pf_size_larger(sizes[i], pf_load(x + i * PF_VL) * inverse);
    }
    PF_UNROLL for (int i = 0; i < VECTORS; i++) pf_storei(found + i * PF_VL, sizes[i]);
}

/* The largest of n sizes, and their unit: the geometric mean of their mean and their root mean square. */
static inline float pf_look_along(const float *x, int64_t n, float *unit) {
    const pf_vi sign = pf_seti(INT32_MAX);
    pf_vi even = pf_seti(0), odd = pf_seti(0);
    pf_vf squares = pf_zero(), others = pf_zero(), sum = pf_zero(), rest = pf_zero();
    int64_t i = 0;
    for (; i + 2 * PF_VL <= n; i += 2 * PF_VL) {
        const pf_vf first = pf_load(x + i), second = pf_load(x + i + PF_VL);
        even = pf_size_larger(even, first), odd = pf_size_larger(odd, second);
        squares = pf_fma(first, first, squares), others = pf_fma(second, second, others);
        sum += (pf_vf)((pf_vi)first & sign), rest += (pf_vf)((pf_vi)second & sign);
    }
    for (; i < n; i += PF_VL) {
        const pf_vf last = pf_load_upto(x + i, n - i);
        even = pf_size_larger(even, last);
        squares = pf_fma(last, last, squares);
        sum += (pf_vf)((pf_vi)last & sign);
    }
    even = pf_size_larger(even, (pf_vf)odd);
    const float mean = pf_hsum(sum + rest) / (float)n, root = sqrtf(pf_hsum(squares + others) / (float)n);
    *unit = sqrtf(mean * root);
    return pf_size_largest((const float *)&even, PF_VL);
}

/* A size that some columns reach, but not many: a power of two, from what they have at most. */
static inline float pf_usual_size(const float *largest, int64_t n) {
    enum { FRACTION = 23, EXPONENTS = 256 }; /* of floats */
    int64_t counts[EXPONENTS] = {0}, reached = 0;
    int32_t exponent = EXPONENTS - 1;
    for (int64_t j = 0; j < n; j++) {
        uint32_t bits;
        memcpy(&bits, largest + j, sizeof bits);
        counts[bits >> FRACTION & (EXPONENTS - 1)]++;
    }
    while (exponent > 0 && (reached += counts[exponent]) <= n / PF_UNITS_RARE) exponent--;
    const int32_t bits = exponent << FRACTION;
    float size;
    memcpy(&size, &bits, sizeof size);
    return size;
}

/* The largest sizes of some columns. Those of their inputs are noted in units of their columns, so that
 * neither a column of large weights decides for all inputs, nor an input of large weights for a column. Units
 * grow with a single large weight, but by less than the root mean square. Where squares leave the range of
 * floats, the largest size is the unit. None is below `least`: columns that are small beside the others, as
 * training leaves them behind, are not to decide either. */
static inline void pf_look_at(const float *x, int64_t depth, int64_t columns, float least, int32_t *inputs,
                              float *largest) {
    float inverses[PF_SIZES_COLUMNS];
    int32_t found[PF_SIZES_BLOCK] __attribute__((aligned(64)));
    for (int64_t j = 0; j < columns; j++) {
        float unit;
        largest[j] = pf_look_along(x + j * depth, depth, &unit);
        if (!(unit > 0x1p-50f && unit < 0x1p50f)) unit = largest[j];
        if (unit < least) unit = least;
        inverses[j] = unit > 0x1p-120f && unit < 0x1p120f ? 1.0f / unit : 0.0f;
    }
    for (int64_t begin = 0; begin < depth; begin += PF_SIZES_BLOCK) {
        const int64_t n = pf_min(PF_SIZES_BLOCK, depth - begin);
        pf_measure(x + begin, columns, depth, n, inverses, found);
        pf_note_sizes(inputs + begin, found, n);
    }
}

/* Power of two that the largest weights of an input are at least. Inputs that have no weights become small,
 * however large they are: they would leave the others no bits. */
static inline float pf_factor_of(int32_t size) {
    enum { FRACTION = 23, BIAS = 127, INFINITE = 0x7f800000 }; /* of floats */
    const int32_t exponent =
        (int32_t)pf_min(BIAS + PF_FACTORS_MOST, pf_max(BIAS - PF_FACTORS_MOST, size >> FRACTION));
    const int32_t bits = (size >= INFINITE ? BIAS : exponent) << FRACTION;
    float factor;
    memcpy(&factor, &bits, sizeof factor);
    return factor;
}

/* Whether the factors of inputs differ so much that they are worth the trouble. */
static inline int pf_factors_pay(const int32_t *sizes, int64_t n) {
    float least = INFINITY, most = 0.0f;
    for (int64_t i = 0; i < n; i++) {
        const float factor = pf_factor_of(sizes[i]);
        least = factor < least ? factor : least, most = factor > most ? factor : most;
    }
    return most > PF_FACTORS_EVEN * least;
}

#endif
