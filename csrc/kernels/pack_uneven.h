/* The turns in which weights are packed whose columns have scales and whose inputs may have factors
 * (pack_sizes.h): all without factors, then those of the groups again that turn out to be uneven. Used by
 * pack_split.c and pack_pairs.c. */
#ifndef PF_KERNELS_PACK_UNEVEN_H
#define PF_KERNELS_PACK_UNEVEN_H

#include "kernels/args.h"
#include "kernels/pack_columns.h"
#include "kernels/pack_sizes.h"
#include "kernels/pack_turns.h"

typedef struct pf_uneven pf_uneven;

/* Some columns that are packed together. */
typedef struct pf_piece {
    const float *x;
    int64_t number, group, columns; /* number: through all groups */
} pf_piece;

struct pf_uneven {
    const float *x;
    int64_t groups, ic, oc, taps, depth;
    int64_t side, pieces;             /* columns of a piece, pieces of a group */
    float *scales, *factors, *uneven; /* of columns, of inputs, and of groups: 0 if they have no factors */
    int64_t factors_step;             /* from group to group */
    char *free;                       /* memory of a group that will be packed again, */
    int64_t free_step;                /* and from group to group */
    float unit, least;                /* of scales: what size they stand for; least sizes of columns */
    /* Packs a piece with factors, by tap and channel (NULL: none). largest: sizes of its columns. */
    void (*pack)(const pf_uneven *p, const pf_piece *t, const float *factors, const float *largest);
};

/* What the arguments of packing say; the rest is up to the caller. */
static inline pf_uneven pf_uneven_of(const pf_pack_args *a, const pf_worker *w) {
    pf_uneven p = {.x = pf_ptr(w, a->x), .groups = a->groups, .taps = a->kh * a->kw};
    p.ic = a->ic / a->groups, p.oc = a->oc / a->groups;
    p.depth = p.ic * p.taps;
    return p;
}

static inline float *pf_factors_at(const pf_uneven *p, int64_t group) {
    return p->factors + group * p->factors_step;
}

/* The largest sizes of inputs in the order of the file: they lie where the factors will. */
static inline int32_t *pf_input_sizes(const pf_uneven *p, int64_t group) {
    return (int32_t *)pf_factors_at(p, group);
}

static inline pf_piece pf_piece_at(const pf_uneven *p, int64_t i) {
    const int64_t group = i / p->pieces, column = i % p->pieces * p->side;
    return (pf_piece){p->x + (group * p->oc + column) * p->depth, i, group, pf_min(p->side, p->oc - column)};
}

/* -- numbers of a column -- */

/* A vector of numbers so far apart. */
PF_INLINE pf_vf pf_load_apart(const float *x, int64_t step) {
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (pf_vf)_mm512_i32gather_ps(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)step)), x, 4);
#else
    float v[PF_VL];
    for (int i = 0; i < PF_VL; i++) v[i] = x[i * step];
    return pf_load(v);
#endif
}

/* At most `most` numbers of a column from `begin` on, counted by tap and channel, over their factors (NULL:
 * none); returns how many. Denormal ones become zeros, as in other kernels. */
static inline int64_t pf_gather_column(const pf_uneven *p, const float *x, int64_t begin, int64_t most,
                                       const float *factors, float *to) {
    enum { FARTHEST = 1 << 20 }; /* taps up to which numbers of a vector lie close enough to be gathered */
    const int64_t n = pf_min(most, p->depth - begin);
    int64_t tap = begin / p->ic, k = begin % p->ic, run;
    for (int64_t i = 0; i < n; i += run, k = 0, tap++) {
        const float *from = x + k * p->taps + tap;
        int64_t j = 0;
        run = pf_min(n - i, p->ic - k);
        for (; j + PF_VL <= run && p->taps < FARTHEST; j += PF_VL)
            pf_store(to + i + j, pf_load_apart(from + j * p->taps, p->taps));
        for (; j < run; j++) to[i + j] = from[j * p->taps];
    }
    for (int64_t i = 0; i < n; i += PF_VL) {
        pf_vf v = pf_flushed(pf_load_upto(to + i, n - i));
        if (factors) v /= pf_load_upto(factors + begin + i, n - i);
        pf_store_upto(to + i, v, n - i);
    }
    return n;
}

/* -- turns -- */

static inline void pf_uneven_clear(const void *weights, int64_t group) {
    const pf_uneven *p = weights;
    memset(pf_input_sizes(p, group), 0, (size_t)p->depth * sizeof(int32_t));
}

static inline void pf_uneven_pack(const void *weights, int64_t i) {
    const pf_uneven *p = weights;
    const pf_piece t = pf_piece_at(p, i);
    float largest[PF_SIZES_COLUMNS];
    pf_look_at(t.x, p->depth, t.columns, 0.0f, pf_input_sizes(p, t.group), largest);
    p->pack(p, &t, NULL, largest);
}

/* If the factors of a group seem worth the trouble, its inputs are measured again, now that all its columns
 * are known: the least unit is noted then, and else 0. */
static inline void pf_uneven_judge(const void *weights, int64_t group) {
    const pf_uneven *p = weights;
    const float usual = p->unit * pf_usual_size(p->scales + group * p->pieces * p->side, p->oc);
    const float least = usual > p->least ? PF_UNITS_LEAST * usual : p->least;
    const int pay = pf_factors_pay(pf_input_sizes(p, group), p->depth);
    p->uneven[group] = pay ? least : 0.0f;
    if (pay) pf_uneven_clear(p, group);
}

static inline void pf_uneven_measure(const void *weights, int64_t i) {
    const pf_uneven *p = weights;
    const pf_piece t = pf_piece_at(p, i);
    const float least = p->uneven[t.group];
    float largest[PF_SIZES_COLUMNS];
    if (least != 0.0f) pf_look_at(t.x, p->depth, t.columns, least, pf_input_sizes(p, t.group), largest);
}

/* If the factors of a group are still worth the trouble, they replace the sizes. */
static inline void pf_uneven_settle(const void *weights, int64_t group) {
    const pf_uneven *p = weights;
    const int32_t *sizes = pf_input_sizes(p, group);
    if (p->uneven[group] == 0.0f) return;
    if (!pf_factors_pay(sizes, p->depth)) {
        p->uneven[group] = 0.0f;
        return;
    }
    /* Taps come first in their order: the way leads through memory that will be written again. */
    int32_t *copy = (int32_t *)(p->free + group * p->free_step);
    memcpy(copy, sizes, (size_t)p->depth * sizeof *copy);
    for (int64_t i = 0; i < p->depth; i++)
        pf_factors_at(p, group)[i % p->taps * p->ic + i / p->taps] = pf_factor_of(copy[i]);
}

static inline void pf_uneven_again(const void *weights, int64_t i) {
    const pf_uneven *p = weights;
    const pf_piece t = pf_piece_at(p, i);
    const float *factors = pf_factors_at(p, t.group);
    float largest[PF_SIZES_COLUMNS], block[PF_SIZES_BLOCK];
    if (p->uneven[t.group] == 0.0f) return;
    for (int64_t j = 0; j < t.columns; j++) {
        largest[j] = 0.0f;
        for (int64_t k = 0; k < p->depth; k += PF_SIZES_BLOCK) {
            const int64_t n = pf_gather_column(p, t.x + j * p->depth, k, PF_SIZES_BLOCK, factors, block);
            const float next = pf_size_largest(block, n);
            if (largest[j] == largest[j] && !(next <= largest[j])) largest[j] = next; /* NaN stays */
        }
    }
    p->pack(p, &t, factors, largest);
}

/* All of them; returns the turns, after which others may follow. */
static inline pf_turns pf_uneven_run(const pf_uneven *p, const pf_worker *w) {
    const int64_t pieces = p->groups * p->pieces;
    pf_turns t = pf_first_turn(p, w);
    pf_take_turn(&t, p->groups, pf_uneven_clear);
    pf_take_turn(&t, pieces, pf_uneven_pack);
    pf_take_turn(&t, p->groups, pf_uneven_judge);
    pf_take_turn(&t, pieces, pf_uneven_measure);
    pf_take_turn(&t, p->groups, pf_uneven_settle);
    pf_take_turn(&t, pieces, pf_uneven_again);
    return t;
}

#endif
