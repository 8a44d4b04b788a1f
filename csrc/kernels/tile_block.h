/* What the register tiles of tile.c, tile_run.c and conv_winograd_products.c do alike with their block of
 * accumulators, rows x vectors: start from a bias, add products and activate. All loops unroll completely;
 * the block lives in registers. */
#ifndef PF_KERNELS_TILE_BLOCK_H
#define PF_KERNELS_TILE_BLOCK_H

#include "kernels/tile.h"

/* The last vector of a row, of which n values count. */
PF_INLINE pf_vf pf_load_last(const float *p, int64_t n) { return n == PF_VL ? pf_load(p) : pf_loadn(p, n); }

/* Every row starts from the bias (NULL: from zero), whose last vector has `last` values. */
PF_INLINE void pf_block_start(const int rows, const int vectors, const float *bias, int64_t last,
                              pf_vf (*acc)[PF_TILE_VECTORS]) {
    pf_vf first[PF_TILE_VECTORS];
    PF_UNROLL for (int v = 0; v < vectors; v++) first[v] = pf_zero();
    if (bias) {
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) first[v] = pf_load(bias + v * PF_VL);
        first[vectors - 1] = pf_load_last(bias + (vectors - 1) * PF_VL, last);
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = first[v];
    }
}

/* Steps in one pass of a loop over k. What a pass costs besides them takes slots of the processor, which are
 * scarce where another thread shares its core. With few registers, longer loops move sums to the stack. */
enum { PF_TILE_STEPS = PF_REGISTERS == 32 ? 4 : 1 };

/* acc[r] += a[r][k] * b for one k; in_place: one step of several in a pass (pf_fma_in_place). */
PF_INLINE void pf_block_step(const int rows, const int vectors, const bool in_place, const float *const *a,
                             int64_t k, const float *b, pf_vf (*acc)[PF_TILE_VECTORS]) {
    pf_vf bv[PF_TILE_VECTORS];
    PF_UNROLL for (int v = 0; v < vectors; v++) bv[v] = pf_load(b + v * PF_VL);
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf x = pf_set(a[r][k]);
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] =
            in_place ? pf_fma_in_place(x, bv[v], acc[r][v]) : pf_fma(x, bv[v], acc[r][v]);
    }
}

#define PF_FOR_BLOCK(statement)                                                                              \
    PF_UNROLL for (int r = 0; r < rows; r++) {                                                               \
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = statement;                                   \
    }

/* An early activation; a late one (epilogue.h) leaves the block as it is. */
PF_INLINE void pf_block_activate(const int rows, const int vectors, const pf_activation *act,
                                 pf_vf (*acc)[PF_TILE_VECTORS]) {
    const pf_vf a = pf_set(act->a), b = pf_set(act->b);
    switch (act->code) {
    case PF_ACT_RELU:
        PF_FOR_BLOCK(pf_vmax(pf_zero(), acc[r][v])) break;
    case PF_ACT_CLIP:
        PF_FOR_BLOCK(pf_act_clip(acc[r][v], a, b)) break;
    case PF_ACT_LEAKY:
        PF_FOR_BLOCK(pf_act_leaky(acc[r][v], a)) break;
    case PF_ACT_HSWISH:
        PF_FOR_BLOCK(pf_act_hswish(acc[r][v])) break;
    case PF_ACT_HSIGMOID:
        PF_FOR_BLOCK(pf_act_hsigmoid(acc[r][v])) break;
    default:
        break;
    }
}

#undef PF_FOR_BLOCK

#endif
