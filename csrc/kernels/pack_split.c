/* Packing of weights into tiles of digits (split.h). Groups have factors of their own (pack_sizes.h). */
#include <string.h>

#include "kernels/args.h"
#include "kernels/pack_columns.h"
#include "kernels/pack_sizes.h"
#include "kernels/split.h"

enum {
    SIDE = PF_SPLIT_SIDE,
    FARTHEST = 1 << 20, /* taps up to which numbers of a vector lie close enough to be gathered */
};

#define NORMAL 0x1p-126f

typedef struct weights {
    const float *x;
    char *y;
    int64_t ic, oc, taps;
    pf_split_weights l;
} weights;

static float *factors_of(const weights *p, int64_t group) {
    return (float *)(p->y + p->l.factors) + group * p->l.depth;
}

/* The largest sizes of inputs in the order of the file: they lie where the factors will. */
static int32_t *sizes_of(const weights *p, int64_t group) { return (int32_t *)factors_of(p, group); }

static float *uneven_of(const weights *p, int64_t group) { return (float *)(p->y + p->l.uneven) + group; }

/* Those of a tile of columns, counted through all groups. */
static float *scales_of(const weights *p, int64_t piece) {
    return (float *)(p->y + p->l.scales) + piece * SIDE;
}

/* -- sizes -- */

static void clear(const void *weights_, int64_t group) {
    const weights *p = weights_;
    memset(sizes_of(p, group), 0, (size_t)p->l.depth * sizeof(int32_t));
}

/* If the factors of a group seem worth the trouble, its inputs are measured again, now that all its columns
 * are known: `uneven` is the least unit then, and else 0. */
static void judge(const void *weights_, int64_t group) {
    const weights *p = weights_;
    const float usual = 127.0f * pf_usual_size(scales_of(p, group * p->l.columns), p->oc);
    const float least = usual > PF_SPLIT_LEAST ? PF_UNITS_LEAST * usual : PF_SPLIT_LEAST;
    const int pay = pf_factors_pay(sizes_of(p, group), p->l.depth);
    *uneven_of(p, group) = pay ? least : 0.0f;
    if (pay) clear(p, group);
}

/* If the factors of a group are still worth the trouble, they replace the sizes. */
static void settle(const void *weights_, int64_t group) {
    const weights *p = weights_;
    const int32_t *sizes = sizes_of(p, group);
    if (*uneven_of(p, group) == 0.0f) return;
    if (!pf_factors_pay(sizes, p->l.depth)) {
        *uneven_of(p, group) = 0.0f;
        return;
    }
    /* Taps come first in their order: the way leads through memory of tiles, which will be written again. */
    int32_t *copy = (int32_t *)(p->y + group * p->l.columns * p->l.tile);
    memcpy(copy, sizes, (size_t)p->l.depth * sizeof *copy);
    for (int64_t i = 0; i < p->l.depth; i++)
        factors_of(p, group)[i % p->taps * p->ic + i / p->taps] = pf_factor_of(copy[i]);
}

/* -- digits -- */

/* A vector of numbers so far apart. */
PF_INLINE pf_vf load_apart(const float *x, int64_t step) {
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (pf_vf)_mm512_i32gather_ps(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)step)), x, 4);
#else
    float v[PF_VL];
    for (int i = 0; i < PF_VL; i++) v[i] = x[i * step];
    return pf_load(v);
#endif
}

/* PF_SPLIT_DEPTH numbers of a column from `begin` on, counted by tap and channel, over their factors (NULL:
 * none); returns how many. Denormal ones become zeros, as in other kernels. */
static int64_t gather_column(const weights *p, const float *x, int64_t begin, const float *factors,
                             float *to) {
    const int64_t n = pf_min(PF_SPLIT_DEPTH, p->l.depth - begin);
    int64_t tap = begin / p->ic, k = begin % p->ic, run;
    for (int64_t i = 0; i < n; i += run, k = 0, tap++) {
        const float *from = x + k * p->taps + tap;
        int64_t j = 0;
        run = pf_min(n - i, p->ic - k);
        for (; j + PF_VL <= run && p->taps < FARTHEST; j += PF_VL)
            pf_store(to + i + j, load_apart(from + j * p->taps, p->taps));
        for (; j < run; j++) to[i + j] = from[j * p->taps];
    }
    for (int64_t i = 0; i < n; i += PF_VL) {
        pf_vf v = pf_flushed(pf_load_upto(to + i, n - i));
        if (factors) v /= pf_load_upto(factors + begin + i, n - i);
        pf_store_upto(to + i, v, n - i);
    }
    return n;
}

/* The same, in a buffer unless they lie so in memory. Digits flush denormal numbers by themselves. */
static const float *numbers_of(const weights *p, const float *x, int64_t begin, const float *factors,
                               float *buffer, int64_t *n) {
    *n = pf_min(PF_SPLIT_DEPTH, p->l.depth - begin);
    if (p->taps == 1 && !factors) return x + begin;
    gather_column(p, x, begin, factors, buffer);
    return buffer;
}

/* The largest size of a column over its factors. */
static float largest_of(const weights *p, const float *column, const float *factors) {
    float buffer[PF_SPLIT_DEPTH], largest = 0.0f;
    for (int64_t i = 0; i < p->l.depth; i += PF_SPLIT_DEPTH) {
        const float next = pf_size_largest(buffer, gather_column(p, column, i, factors, buffer));
        if (largest == largest && !(next <= largest)) largest = next; /* NaN stays */
    }
    return largest;
}

/* The digits of one step of a tile of columns. */
static void pack_step(const weights *p, const float *x, int64_t columns, int64_t begin, const float *factors,
                      const float *inverses, int cut, char *to) {
    char rows[PF_SPLIT_STEP] __attribute__((aligned(64)));
    for (int64_t j = 0; j < columns; j++, x += p->l.depth) {
        float buffer[PF_SPLIT_DEPTH];
        int64_t n;
        const float *numbers = numbers_of(p, x, begin, factors, buffer, &n);
        int8_t *row = (int8_t *)rows + j * PF_SPLIT_DEPTH;
        if (cut)
            pf_split_numbers(numbers, n, 0.0f, 1, row);
        else
            pf_split_fast(numbers, n, inverses[j], row);
    }
    for (int i = 0; i < PF_SPLIT_DIGITS; i++) {
        char *part = rows + i * PF_SPLIT_PART;
        memset(part + columns * PF_SPLIT_DEPTH, 0, (size_t)((SIDE - columns) * PF_SPLIT_DEPTH));
        pf_split_transpose(part, to + i * PF_SPLIT_PART);
    }
}

/* One tile of columns with these largest sizes; if one of them is out of range, all are cut. */
static void pack_tile(const weights *p, const float *x, int64_t columns, const float *factors,
                      const float *largest, char *to, float *scales) {
    float inverses[SIDE];
    int cut = 0;
    for (int64_t j = 0; j < SIDE; j++) {
        const float size = j < columns && !(largest[j] < NORMAL) ? largest[j] : 0.0f;
        cut |= !pf_split_fits(size);
        inverses[j] = pf_split_inverse(size);
        /* Columns of zeros are to count as small. */
        scales[j] = pf_split_scale(size == 0.0f ? PF_SPLIT_LEAST : size);
    }
    if (cut) memset(scales, 0, SIDE * sizeof *scales);
    /* Steps of the same inputs follow each other: their taps lie side by side in the file. */
    const int64_t apart = pf_max(1, p->ic / PF_SPLIT_DEPTH);
    for (int64_t first = 0; first < apart; first++)
        for (int64_t s = first; s < p->l.steps; s += apart)
            pack_step(p, x, columns, s * PF_SPLIT_DEPTH, factors, inverses, cut, to + s * PF_SPLIT_STEP);
}

/* -- turns -- */

/* A tile of columns, counted through all groups. */
typedef struct piece {
    const float *x;
    int64_t group, columns;
} piece;

static piece piece_of(const weights *p, int64_t i) {
    const int64_t group = i / p->l.columns, column = i % p->l.columns * SIDE;
    return (piece){p->x + (group * p->oc + column) * p->l.depth, group, pf_min(SIDE, p->oc - column)};
}

static void pack(const void *weights_, int64_t i) {
    const weights *p = weights_;
    const piece t = piece_of(p, i);
    float largest[SIDE];
    pf_look_at(t.x, p->l.depth, t.columns, 0.0f, sizes_of(p, t.group), largest);
    pack_tile(p, t.x, t.columns, NULL, largest, p->y + i * p->l.tile, scales_of(p, i));
}

static void measure_again(const void *weights_, int64_t i) {
    const weights *p = weights_;
    const piece t = piece_of(p, i);
    const float least = *uneven_of(p, t.group);
    float largest[SIDE];
    if (least != 0.0f) pf_look_at(t.x, p->l.depth, t.columns, least, sizes_of(p, t.group), largest);
}

static void pack_again(const void *weights_, int64_t i) {
    const weights *p = weights_;
    const piece t = piece_of(p, i);
    const float *factors = factors_of(p, t.group);
    float largest[SIDE];
    if (*uneven_of(p, t.group) == 0.0f) return;
    for (int64_t j = 0; j < t.columns; j++) largest[j] = largest_of(p, t.x + j * p->l.depth, factors);
    pack_tile(p, t.x, t.columns, factors, largest, p->y + i * p->l.tile, scales_of(p, i));
}

PF_KERNEL_FUNCTION(conv_split_pack_f32) {
    const pf_pack_args *a = args_;
    weights p = {
        .x = pf_ptr(w, a->x), .y = pf_ptr(w, a->y), .ic = a->ic / a->groups, .oc = a->oc / a->groups};
    p.taps = a->kh * a->kw;
    p.l = pf_split_layout(a->groups, p.oc, p.ic * p.taps);
    const int64_t pieces = a->groups * p.l.columns;
    pf_turns t = pf_first_turn(&p, w);
    pf_take_turn(&t, a->groups, clear);
    pf_take_turn(&t, pieces, pack);
    pf_take_turn(&t, a->groups, judge);
    pf_take_turn(&t, pieces, measure_again);
    pf_take_turn(&t, a->groups, settle);
    pf_take_turn(&t, pieces, pack_again);
}
