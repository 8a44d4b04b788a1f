/* Products of tiles whose last vector is needed for its lower half alone (tile.h). Processors that take a
 * vector of 512 bits in two halves spare one of them there. */
#ifndef PF_KERNELS_TILE_HALF_H
#define PF_KERNELS_TILE_HALF_H

#include "kernels/tile_block.h"

#if PF_HALVES

/* The lower half of a vector; the upper one of the result means nothing. */
PF_INLINE pf_vf pf_load_low(const float *p) { return (pf_vf)_mm512_castps256_ps512(_mm256_loadu_ps(p)); }
PF_INLINE pf_vf pf_set_low(float x) { return (pf_vf)_mm512_castps256_ps512(_mm256_set1_ps(x)); }
PF_INLINE pf_vf pf_fma_low(pf_vf a, pf_vf b, pf_vf c) {
    return (pf_vf)_mm512_castps256_ps512(_mm256_fmadd_ps(_mm512_castps512_ps256((__m512)a),
                                                         _mm512_castps512_ps256((__m512)b),
                                                         _mm512_castps512_ps256((__m512)c)));
}

/* c + x * b, where the multiplication itself reads x. Beside products of halves, to spread x to a whole
 * vector beforehand would take longer than they do. */
PF_INLINE pf_vf pf_fma_number(const float *x, pf_vf b, pf_vf c) {
#    if defined(PF_EMULATED)
    return pf_fma(pf_set(*x), b, c);
#    else
    __asm__("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(c) : "v"(b), "m"(*x));
    return c;
#    endif
}

/* pf_block_step for such tiles. */
PF_INLINE void pf_half_step(const int rows, const int vectors, const float *const *a, int64_t k,
                            const float *b, pf_vf (*acc)[PF_TILE_VECTORS]) {
    const int whole = vectors - 1;
    pf_vf bv[PF_TILE_VECTORS];
    PF_UNROLL for (int v = 0; v < whole; v++) bv[v] = pf_load(b + v * PF_VL);
    bv[whole] = pf_load_low(b + whole * PF_VL);
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf x = whole > 1 ? pf_set(a[r][k]) : pf_set_low(a[r][k]);
        PF_UNROLL for (int v = 0; v < whole; v++) acc[r][v] =
            whole == 1 ? pf_fma_number(a[r] + k, bv[v], acc[r][v]) : pf_fma(x, bv[v], acc[r][v]);
        acc[r][whole] = pf_fma_low(x, bv[whole], acc[r][whole]);
    }
}

#endif

/* acc[r] += a[r][k] * b for one k; half: of the last vector the lower half counts. */
PF_INLINE void pf_tile_step(const int rows, const int vectors, const bool half, const float *const *a,
                            int64_t k, const float *b, pf_vf (*acc)[PF_TILE_VECTORS]) {
#if PF_HALVES
    if (half) {
        pf_half_step(rows, vectors, a, k, b, acc);
        return;
    }
#else
    (void)half;
#endif
    pf_block_step(rows, vectors, true, a, k, b, acc);
}

/* pf_tile_step from k to `end`, b moving on by bstep; fetch: memory ahead goes to the cache meanwhile, `each`
 * bytes a step. Returns how far. */
PF_INLINE const char *pf_tile_sums(const int rows, const int vectors, const bool half, const bool fetch,
                                   const float *const *a, int64_t k, int64_t end, const float *b,
                                   int64_t bstep, const char *ahead, int64_t each,
                                   pf_vf (*acc)[PF_TILE_VECTORS]) {
    const int steps =
        half ? 1 : PF_TILE_STEPS; /* halves are multiplied by what the compiler may move about */
    for (; k <= end - steps; k += steps) {
        PF_UNROLL for (int s = 0; s < steps; s++, b += bstep) {
            if (fetch) __builtin_prefetch(ahead, 0, 2), ahead += each;
            pf_tile_step(rows, vectors, half, a, k + s, b, acc);
        }
    }
    for (; k < end; k++, b += bstep) {
        if (fetch) __builtin_prefetch(ahead, 0, 2), ahead += each;
        pf_tile_step(rows, vectors, half, a, k, b, acc);
    }
    return ahead;
}

#endif
