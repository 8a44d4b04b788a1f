/* Nests of loops over strided tensors: dimensions of size one dropped, sorted by the stride of the first
 * tensor, merged where all tensors allow it, and walked with running offsets. Used by kernels that take
 * tensors of any layout. */
#ifndef PF_KERNELS_NEST_H
#define PF_KERNELS_NEST_H

#include "kernels/args.h"

enum { PF_NEST_TENSORS = 3 };

typedef struct pf_nest {
    int64_t rank, total; /* total: product of n */
    int64_t n[PF_MAX_RANK], s[PF_NEST_TENSORS][PF_MAX_RANK];
} pf_nest;

static inline void pf_nest_move(pf_nest *t, int64_t from, int64_t to) {
    t->n[to] = t->n[from];
    for (int k = 0; k < PF_NEST_TENSORS; k++) t->s[k][to] = t->s[k][from];
}

static inline void pf_nest_insert(pf_nest *t, int64_t n, const int64_t *strides) {
    int64_t d = t->rank++;
    for (; d > 0 && t->s[0][d - 1] < strides[0]; d--) pf_nest_move(t, d - 1, d);
    t->n[d] = n;
    for (int k = 0; k < PF_NEST_TENSORS; k++) t->s[k][d] = strides[k];
}

/* Missing tensors are given as NULL. */
static inline pf_nest pf_nest_make(int64_t rank, const int64_t *shape, const int64_t *s0, const int64_t *s1,
                                   const int64_t *s2) {
    pf_nest t = {.rank = 0, .total = 1};
    for (int64_t d = 0; d < rank; d++) {
        const int64_t strides[PF_NEST_TENSORS] = {s0[d], s1 ? s1[d] : 0, s2 ? s2[d] : 0};
        t.total *= shape[d];
        if (shape[d] != 1) pf_nest_insert(&t, shape[d], strides);
    }
    int64_t kept = 0;
    for (int64_t d = 1; d < t.rank; d++) {
        int joins = 1;
        for (int k = 0; k < PF_NEST_TENSORS; k++) joins &= t.s[k][kept] == t.n[d] * t.s[k][d];
        if (joins) {
            const int64_t n = t.n[kept] * t.n[d];
            pf_nest_move(&t, d, kept);
            t.n[kept] = n;
        } else {
            pf_nest_move(&t, d, ++kept);
        }
    }
    if (t.rank) t.rank = kept + 1;
    return t;
}

/* Takes dimension d out of a nest that is not empty. */
static inline void pf_nest_remove(pf_nest *t, int64_t d) {
    t->total /= t->n[d];
    for (t->rank--; d < t->rank; d++) pf_nest_move(t, d + 1, d);
}

/* The dimension whose stride is one in tensors 0 and k, or -1. */
static inline int64_t pf_nest_unit(const pf_nest *t, int k) {
    for (int64_t d = t->rank - 1; d >= 0; d--)
        if (t->s[0][d] == 1 && t->s[k][d] == 1) return d;
    return -1;
}

typedef struct pf_walk {
    int64_t at[PF_MAX_RANK];
    int64_t o[PF_NEST_TENSORS]; /* offsets in elements */
} pf_walk;

/* At the place with this number; a nest without places has a walk all the same, which nobody goes. */
static inline void pf_walk_start(pf_walk *p, const pf_nest *t, int64_t index) {
    for (int k = 0; k < PF_NEST_TENSORS; k++) p->o[k] = 0;
    for (int64_t d = t->rank - 1; d >= 0; d--) {
        const int64_t n = pf_max(1, t->n[d]);
        p->at[d] = index % n;
        index /= n;
        for (int k = 0; k < PF_NEST_TENSORS; k++) p->o[k] += p->at[d] * t->s[k][d];
    }
}

static inline void pf_walk_next(pf_walk *p, const pf_nest *t) {
    for (int64_t d = t->rank - 1; d >= 0; d--) {
        const int64_t step = ++p->at[d] < t->n[d] ? 1 : 1 - t->n[d];
        for (int k = 0; k < PF_NEST_TENSORS; k++) p->o[k] += step * t->s[k][d];
        if (step == 1) return;
        p->at[d] = 0;
    }
}

/* The innermost lines of a nest, cut into pieces for threads to share. */
typedef struct pf_pieces {
    pf_nest outer;
    int64_t n, s[PF_NEST_TENSORS]; /* of a line: numbers and strides */
    int64_t each, total;           /* pieces of a line and of all */
} pf_pieces;

enum { PF_PIECE = 4096 };

static inline pf_pieces pf_pieces_make(pf_nest t) {
    pf_pieces p = {.n = 1, .s = {1, 1, 1}};
    if (t.total == 0) return p;
    if (t.rank > 0) {
        const int64_t last = t.rank - 1;
        p.n = t.n[last];
        for (int k = 0; k < PF_NEST_TENSORS; k++) p.s[k] = t.s[k][last];
        pf_nest_remove(&t, last);
    }
    p.outer = t;
    p.each = pf_ceil_div(p.n, PF_PIECE);
    p.total = t.total * p.each;
    return p;
}

/* Numbers in piece i, and where they begin in each tensor, in elements. */
static inline int64_t pf_piece_at(const pf_pieces *p, int64_t i, int64_t *offsets) {
    const int64_t first = i % p->each * PF_PIECE;
    pf_walk at;
    pf_walk_start(&at, &p->outer, i / p->each);
    for (int k = 0; k < PF_NEST_TENSORS; k++) offsets[k] = at.o[k] + first * p->s[k];
    return pf_min(PF_PIECE, p->n - first);
}

#endif
