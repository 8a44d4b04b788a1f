/* Products of rows a and columns b where half of the inputs go in pairs (S. Winograd, A new algorithm for
 * inner product, 1968):
 *     a0 b0 + a1 b1 = (a0 + b1) (a1 + b0) - a0 a1 - b0 b1.
 * The products on the right belong to a row or a column alone, and are summed up once. So two additions take
 * the place of a multiplication. Processors whose adders work beside their multipliers (PF_CPU_ADDERS) do
 * four inputs, one pair and two as usual, in three quarters of the time of four products.
 *
 * a and b must be alike in size, else the sums lose what the smaller ones have: rows and columns have scales,
 * and inputs have factors, by which weights are divided and inputs multiplied where the largest weights of
 * inputs differ much. All are powers of two. Of inputs that are mostly positive the products a0 a1 would add
 * up to more than the result: every second pair has a1 and b1 with the other sign, so that they cancel.
 *
 * Rows with inf or NaN are summed up as usual, and so is everything where weights are not finite. Used by
 * conv_pairs.c, conv_winograd_pairs.c and rnn_pairs.h, pairs_tile.c and the packing of weights. */
#ifndef PF_KERNELS_PAIRS_H
#define PF_KERNELS_PAIRS_H

#include <stdbool.h>
#include <string.h>

#include "base/cpu.h"
#include "kernels/epilogue.h"
#include "kernels/kernel.h"

enum {
    PF_PAIRS_VECTORS = 2,                       /* of columns of a panel */
    PF_PAIRS_WIDTH = PF_PAIRS_VECTORS * PF_VL,  /* its floats */
    PF_PAIRS_ROWS = PF_REGISTERS == 32 ? 8 : 4, /* most rows of a tile */
    PF_PAIRS_STEP = 4,                          /* inputs of which the first two are a pair */
    PF_PAIRS_PERIOD = 8,                        /* inputs after which signs repeat */
    PF_PAIRS_TURNED = 5,                        /* of these the one with the other sign */
};

/* Whether this processor adds beside its multipliers; emulated levels, which are for tests, act as if it did.
 */
PF_INLINE bool pf_has_adders(void) {
#if defined(PF_EMULATED)
    return true;
#else
    return pf_cpu_features() & PF_CPU_ADDERS;
#endif
}

/* Inputs that fall into whole periods; those after them are summed up as usual. */
static inline int64_t pf_pairs_depth(int64_t depth) { return depth / PF_PAIRS_PERIOD * PF_PAIRS_PERIOD; }

/* What an input is multiplied with besides its factor. */
static inline float pf_pairs_sign(int64_t input, int64_t depth) {
    return input % PF_PAIRS_PERIOD == PF_PAIRS_TURNED && input < pf_pairs_depth(depth) ? -1.0f : 1.0f;
}

/* The lanes of a vector of inputs where pairs begin; adds the products of its pairs that begin in some lanes.
 */
PF_INLINE pf_vi pf_pairs_begins(void) { return (pf_numbers() & pf_seti(PF_PAIRS_STEP - 1)) == 0; }
PF_INLINE pf_vf pf_pairs_add(pf_vf v, pf_vi begins, pf_vf sum) {
    return pf_fma((pf_vf)((pf_vi)v & begins), pf_permute(v, pf_numbers() + 1), sum);
}

/* Sums of squares from which a scale can be taken. */
#define PF_SQUARES_LEAST 0x1p-100f
#define PF_SQUARES_MOST  0x1p100f

/* The power of two next to a size, or the last one whose inverse, too, leaves room for products. */
static inline float pf_power_near(float size) {
    const float root = 1.41421356f, limit = 0x1p100f;
    int32_t bits;
    if (size > limit || size < 1.0f / limit) return size > limit ? limit : 1.0f / limit;
    size *= root;
    memcpy(&bits, &size, sizeof bits);
    bits &= 0x7f800000;
    memcpy(&size, &bits, sizeof size);
    return size;
}

/* The inverse of the power of two next to the root of a number in the range of squares: quicker than by
 * arithmetic. */
static inline float pf_inverse_root(float x) {
    enum { FRACTION = 23, BIAS = 127 };
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    bits = (BIAS - (((bits >> FRACTION) - BIAS + 1) >> 1)) << FRACTION;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The scale of a column of n numbers, and what the sums of a vector of columns start from, of which inputs
 * lie `step` floats apart (pack_pairs.c). */
float PF_NAME(pairs_scale)(const float *column, int64_t n);
pf_vf PF_NAME(pairs_starts)(const float *columns, int64_t n, int64_t step);

/* The kernel that packs weights of convolutions; others call it for theirs. */
PF_KERNEL_FUNCTION(conv_pairs_pack_f32);

/* Packed weights of all groups, in floats: panels of columns, [input][columns], the last one of one vector if
 * that is enough; then for each column its scale and what its sums start from, for each input its factor with
 * its sign, and for each group whether all is summed up as usual, and whether there are factors. */
typedef struct pf_pairs_weights {
    int64_t depth, columns, panels;                 /* of a group; columns in whole vectors */
    int64_t scales, starts, factors, plain, uneven; /* where they begin */
    int64_t floats;
} pf_pairs_weights;

static inline pf_pairs_weights pf_pairs_layout(int64_t groups, int64_t oc, int64_t depth) {
    pf_pairs_weights l = {.depth = depth, .columns = pf_ceil_div(oc, PF_VL) * PF_VL};
    l.panels = pf_ceil_div(l.columns, PF_PAIRS_WIDTH);
    l.scales = groups * depth * l.columns;
    l.starts = l.scales + groups * l.columns;
    l.factors = l.starts + groups * l.columns;
    l.plain = l.factors + groups * pf_ceil_div(depth, PF_VL) * PF_VL;
    l.uneven = l.plain + groups;
    l.floats = l.uneven + groups;
    return l;
}

/* Vectors of a panel. */
static inline int pf_pairs_vectors(const pf_pairs_weights *l, int64_t panel) {
    return (int)pf_min(PF_PAIRS_VECTORS, l->columns / PF_VL - panel * PF_PAIRS_VECTORS);
}

/* Where complete sums go: they are scaled, added to bias and residual, and activated unless that is late. */
typedef struct pf_pairs_end {
    const float *row_scales, *scales, *bias, *z; /* bias, z: NULL: none */
    float *y;
    const int64_t *y_at, *z_at; /* where the rows begin */
    int64_t n;                  /* columns */
    pf_activation act;
} pf_pairs_end;

/* Complete sums of a tile that wait for what is late: it is done between the sums of the next one. */
typedef struct pf_pairs_late {
    float *sums;       /* rows x vectors, dense */
    int rows, vectors; /* no rows: nothing waits */
    int32_t code;      /* of the activation */
    float *y;
    const float *z;             /* added after it; NULL: none */
    const int64_t *y_at, *z_at; /* where the rows begin */
    int64_t n;                  /* columns */
} pf_pairs_late;

/* All rows that wait. */
void PF_NAME(pairs_finish)(const pf_pairs_late *late);

/* Some rows by a panel, from one input on. */
typedef struct pf_pairs_tile {
    const float *a, *b; /* prepared rows, packed weights */
    int64_t step, k;    /* floats from row to row; inputs: whole periods, unless they are the last ones */
    const float *row_starts, *starts; /* of sums; NULL: they go on */
    float *sums;                      /* rows x vectors, dense, unless they are complete: */
    const pf_pairs_end *end;          /* NULL: they are not */
    const pf_pairs_late *late;        /* what waits meanwhile; NULL: nothing */
    bool plain;                       /* no pairs */
    const char *ahead;  /* memory to fetch into L2 meanwhile, so many bytes for every PF_PAIRS_STEP inputs */
    int64_t ahead_each; /* at most four lines */
} pf_pairs_tile;

/* Kinds of tiles: some of AVX-512 spread inputs while they are used, which is faster on some processors
 * (PF_CPU_HALVES). All give the same bits. */
#define PF_PAIRS_KINDS (PF_HALVES ? 2 : 1)

typedef void (*pf_pairs_fn)(const pf_pairs_tile *tile);
typedef const pf_pairs_fn (*pf_pairs_tiles)[PF_PAIRS_ROWS]; /* [vectors - 1][rows - 1] */

/* Those for this processor. */
pf_pairs_tiles PF_NAME(pairs_tiles)(void);

#endif
