/* How the taps, channels, panels and rows of an implicit GEMM are cut, so that weights stay in L2 and rows in
 * L3 while others pass. Used by conv_igemm.c alone. */
#ifndef PF_KERNELS_CONV_IGEMM_UNITS_H
#define PF_KERNELS_CONV_IGEMM_UNITS_H

#include "kernels/conv_igemm.h"

enum {
    PF_IGEMM_CACHED_BYTES = 384 << 10, /* weights that a thread works on: they stay in L2 while pixels pass */
    /* Weights of the panels that a unit visits in turn, beside its rows in L2, which is larger on processors
     * with more registers. Where every unit has to change its pixels first, it should take most panels. */
    PF_IGEMM_SET_BYTES = PF_REGISTERS == 32 ? PF_IGEMM_CACHED_BYTES : 192 << 10,
    PF_IGEMM_CHANGED_BYTES = 768 << 10,
    PF_IGEMM_FAR_BYTES = 1 << 20, /* pixels of a thread that L2 holds no longer when they are read */
    PF_IGEMM_ZEROS = 4096,        /* longest run of channels when there is padding */
    PF_IGEMM_TAPS = 32,           /* size of the pointer table of a tile */
    PF_IGEMM_UNITS_ALONE = 32,    /* wanted by one thread */
    PF_IGEMM_UNITS_EACH = 8,      /* by each of several: some to give away */
    PF_IGEMM_FEW_TILES = 32,
    PF_IGEMM_OWN_TILES = 8,        /* so many for each thread are worth light weights that all of them read */
    PF_IGEMM_OWN_ROWS = 384,       /* so many for each thread are worth weights that all of them read */
    PF_IGEMM_ROWS_BYTES = 2 << 20, /* rows that all panels pass by: they stay in L3 */
    PF_IGEMM_PANELS_EACH = 4,      /* so many for each thread suffice */
    PF_IGEMM_UNIT_FLOPS = 4 << 20, /* least work of a unit */
    PF_IGEMM_SHARED_FLOPS = 1 << 19, /* where threads share: a small convolution has a unit for each */
};

/* Blocks of taps and channels: one block of a panel is to stay in L2 while all pixels pass. A single tile
 * reads each weight once whatever the order. */
static inline void pf_igemm_choose_blocks(pf_igemm *c, int64_t row_bytes) {
    const int64_t longest = c->tiles > 1 ? PF_IGEMM_CACHED_BYTES / row_bytes : c->ic;
    const int64_t k_most = c->padded ? pf_min(longest, PF_IGEMM_ZEROS) : longest;
    c->k_block = c->ic ? pf_ceil_div(c->ic, pf_ceil_div(c->ic, k_most)) : 0;
    c->tap_block = 1;
    if (c->k_block == c->ic) {
        const int64_t most = c->tiles > 1 ? pf_max(1, longest / pf_max(1, c->ic)) : c->taps;
        c->tap_block = pf_ceil_div(c->taps, pf_ceil_div(c->taps, pf_min(most, PF_IGEMM_TAPS)));
    }
}

/* Where tiles are found and edges are handled, all groups are alike: tiles visit groups whose weights stay in
 * L2 in turn. Sums that are cut take one group after the other. */
static inline int64_t pf_igemm_group_sets(const pf_igemm *c, int whole, int nthreads) {
    const int64_t bytes = c->ic * c->taps * c->columns * (int64_t)sizeof(float), groups = c->a.groups;
    if (!whole || c->panel_sets > 1 || groups == 1) return groups;
    const int64_t most = pf_min(PF_IGEMM_CACHED_BYTES / pf_max(1, bytes), PF_IGEMM_ZEROS / pf_max(1, c->ic));
    const int64_t sets = pf_ceil_div(groups, pf_max(1, most));
    return c->tiles < PF_IGEMM_FEW_TILES ? pf_min(groups, pf_ceil_div(sets, nthreads) * nthreads) : sets;
}

/* Panels are cut into sets whose weights stay in L2, rows into blocks. Few tiles are cut by panels alone
 * where these suffice: each thread then reads weights of its own, and walks over many rows with each. Where
 * there are many, or the weights are light, a thread takes rows of its own, which it wrote in the step before
 * and reads in the next.
 * Every set reads all rows of a block: rows that L3 does not hold are cut into blocks that it does, unless
 * there are more of these, each of which reads all weights, than sets. */
static inline void pf_igemm_choose_units(pf_igemm *c, int64_t row_bytes, int nthreads) {
    const int whole = c->k_block == c->ic && c->tap_block == c->taps, share = nthreads > 1 && !c->changed;
    const int64_t panel_bytes = c->ic * c->taps * row_bytes;
    const int light = share && c->panels * panel_bytes <= PF_IGEMM_CACHED_BYTES &&
                      c->tiles >= PF_IGEMM_OWN_TILES * nthreads;
    const int few = c->tiles < PF_IGEMM_FEW_TILES && c->a.groups < PF_IGEMM_PANELS_EACH * nthreads && !light;
    const int64_t wanted = nthreads > 1 ? PF_IGEMM_UNITS_EACH * nthreads : PF_IGEMM_UNITS_ALONE;
    int64_t most = 1; /* panels that a unit visits per tile */
    const int64_t set_bytes = c->changed ? PF_IGEMM_CHANGED_BYTES : PF_IGEMM_SET_BYTES;
    if (whole) most = pf_max(1, pf_min(c->panels, set_bytes / pf_max(1, panel_bytes)));
    if (few && !(c->changed && nthreads == 1))
        most = pf_max(1, pf_min(most, c->panels * c->tiles / PF_IGEMM_FEW_TILES));
    if (few && share && c->panels >= PF_IGEMM_PANELS_EACH * nthreads) most = 1;
    most = pf_ceil_div(most, c->side) * c->side;
    c->panel_sets = pf_ceil_div(c->panels, most);
    c->group_sets = pf_igemm_group_sets(c, whole, nthreads);
    const int64_t x_sets = pf_ceil_div(c->pixels * c->ic * (int64_t)sizeof(float), PF_IGEMM_ROWS_BYTES);
    const int64_t near = whole && !c->changed && x_sets < c->panel_sets ? x_sets : 1;
    c->rows_first = c->a.groups == 1 && c->panel_sets > 1 &&
                    (share ? c->pixels >= PF_IGEMM_OWN_ROWS * nthreads : near > 1);
    if (c->rows_first) {
        const int64_t units = share ? pf_ceil_div(PF_IGEMM_UNITS_EACH, c->panel_sets) : 1;
        c->row_blocks = nthreads * pf_max(units, pf_ceil_div(near, nthreads));
        return;
    }
    if (c->panel_sets > 1 && share)
        c->panel_sets = pf_min(c->panels, pf_ceil_div(c->panel_sets, nthreads) * nthreads);
    const double flops = 2.0 * (double)c->pixels * (double)(c->ic * c->taps) * (double)c->a.oc;
    const double least = nthreads > 1 ? PF_IGEMM_SHARED_FLOPS : PF_IGEMM_UNIT_FLOPS;
    const int64_t sets = c->panel_sets * c->group_sets, cheap = (int64_t)(flops / (double)sets / least);
    int64_t blocks = pf_min(pf_ceil_div(wanted, sets), cheap);
    if (sets * blocks % nthreads != 0) blocks *= 2;
    if (!whole) blocks = pf_min(blocks, c->tiles / 8);
    c->row_blocks = pf_max(1, pf_min(blocks, c->tiles));
}

#endif
