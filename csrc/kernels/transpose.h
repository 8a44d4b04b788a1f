/* Transposition of float planes by tiles in registers, and the interleaving of two or three channels. Used by
 * the strided copy and by kernels that bring single rows into another layout. */
#ifndef PF_KERNELS_TRANSPOSE_H
#define PF_KERNELS_TRANSPOSE_H

#include <stdbool.h>
#include <string.h>

#include "kernels/kernel.h"
#include "kernels/transpose_tile.h"

/* A plane to copy: element (a, b) from x[a xa + b xb] to y[a ya + b yb]. */
typedef struct pf_plane {
    int64_t na, nb, xa, xb, ya, yb;
} pf_plane;

/* One tile of at most PF_VL x PF_VL elements. */
PF_INLINE void pf_transpose_part(const float *x, int64_t xa, float *y, int64_t yb, int64_t na, int64_t nb) {
    pf_vf v[PF_VL];
    pf_load_transposed(x, xa, na, nb, v);
#pragma GCC unroll 16
    for (int b = 0; b < PF_VL; b++)
        if (b < nb && na >= PF_VL)
            pf_store(y + b * yb, v[b]);
        else if (b < nb)
            pf_storen(y + b * yb, v[b], na);
}

PF_INLINE void pf_transpose_full(const float *x, int64_t xa, float *y, int64_t yb) {
    pf_vf v[PF_VL];
#pragma GCC unroll 16
    for (int a = 0; a < PF_VL; a++) v[a] = pf_load(x + a * xa);
    pf_transpose_tile(v);
#pragma GCC unroll 16
    for (int b = 0; b < PF_VL; b++) pf_store(y + b * yb, v[b]);
}

/* Side of a block that uses up the cache lines that it touches, whatever PF_VL is. */
enum { PF_BLOCK = 16 };

/* Fetches what blocks behind this one read and write where rows lie so far apart that no processor foresees
 * it. */
static inline void pf_fetch_block(const pf_plane *p, const float *x, float *y, int64_t a0, int64_t b0) {
    enum { AHEAD = 4 * PF_BLOCK, APART = 256 };
    for (int64_t a = a0; p->xa >= APART && a < pf_min(a0 + PF_BLOCK, p->na); a++)
        __builtin_prefetch(x + a * p->xa + b0 + AHEAD);
    for (int64_t b = b0; p->yb >= APART && b < pf_min(b0 + PF_BLOCK, p->nb); b++)
        __builtin_prefetch(y + b * p->yb + a0 + AHEAD, 1);
}

PF_INLINE void pf_transpose_blocks(const pf_plane *p, const float *x, float *y, const bool far) {
    for (int64_t b0 = 0; b0 < p->nb; b0 += PF_BLOCK)
        for (int64_t a0 = 0; a0 < p->na; a0 += PF_BLOCK) {
            if (far) pf_fetch_block(p, x, y, a0, b0);
            for (int64_t b = b0; b < pf_min(b0 + PF_BLOCK, p->nb); b += PF_VL)
                for (int64_t a = a0; a < pf_min(a0 + PF_BLOCK, p->na); a += PF_VL) {
                    const int64_t na = p->na - a, nb = p->nb - b;
                    if (na >= PF_VL && nb >= PF_VL)
                        pf_transpose_full(x + a * p->xa + b, p->xa, y + a + b * p->yb, p->yb);
                    else
                        pf_transpose_part(x + a * p->xa + b, p->xa, y + a + b * p->yb, p->yb, na, nb);
                }
        }
}

static inline void pf_transpose_wide(const pf_plane *p, const float *x, float *y) {
    pf_transpose_blocks(p, x, y, false);
}

static inline void pf_transpose_rest(const pf_plane *p, const float *x, float *y, int64_t a0, int64_t b0,
                                     int64_t nb) {
    for (int64_t b = b0; b < nb; b++)
        for (int64_t a = a0; a < p->na; a++) y[b * p->yb + a] = x[a * p->xa + b];
}

static inline void pf_transpose_narrow(const pf_plane *p, const float *x, float *y) {
    const int64_t na = p->na / 4 * 4, nb = p->nb / 4 * 4;
    for (int64_t b = 0; b < nb; b += 4)
        for (int64_t a = 0; a < na; a += 4) {
            pf_f4 r[4];
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) r[i] = *(const pf_f4_any *)(x + (a + i) * p->xa + b);
            pf_transpose4(r);
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++) *(pf_f4_any *)(y + (b + i) * p->yb + a) = r[i];
        }
    if (na < p->na) pf_transpose_rest(p, x, y, na, 0, nb);
    pf_transpose_rest(p, x, y, 0, nb, p->nb);
}

/* Three planes to packed pixels: every 16-byte store but the last of the plane is completed by its successor.
 */
static inline void pf_interleave3(const pf_plane *p, const float *x, float *y) {
    int64_t b = 0;
#if defined(PF_AVX512)
    /* Of each result vector: its lanes from the first two planes, then those of the third (16 and more). */
    const __m512i pair[3] = {_mm512_setr_epi32(0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5),
                             _mm512_setr_epi32(21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26),
                             _mm512_setr_epi32(0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0)};
    const __m512i third[3] = {_mm512_setr_epi32(0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15),
                              _mm512_setr_epi32(0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15),
                              _mm512_setr_epi32(26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31)};
    for (; b + PF_VL <= p->nb; b += PF_VL) {
        const __m512 u = _mm512_loadu_ps(x + b), v = _mm512_loadu_ps(x + p->xa + b),
                     w = _mm512_loadu_ps(x + 2 * p->xa + b);
#    pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            const __m512 uv = _mm512_permutex2var_ps(u, pair[i], v);
            _mm512_storeu_ps(y + 3 * b + i * PF_VL, _mm512_permutex2var_ps(uv, third[i], w));
        }
    }
#endif
    for (; b + 5 <= p->nb; b += 4) {
        pf_f4 r[4] = {*(const pf_f4_any *)(x + b),
                      *(const pf_f4_any *)(x + p->xa + b),
                      *(const pf_f4_any *)(x + 2 * p->xa + b),
                      {0}};
        pf_transpose4(r);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) *(pf_f4_any *)(y + (b + i) * 3) = r[i];
    }
    pf_transpose_rest(p, x, y, 0, b, p->nb);
}

/* Packed pixels of three channels to planes; reads no more than the pixels of the plane. */
static inline void pf_deinterleave3(const pf_plane *p, const float *x, float *y) {
    int64_t a = 0;
    for (; a + 5 <= p->na; a += 4) {
        pf_f4 r[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) r[i] = *(const pf_f4_any *)(x + (a + i) * 3);
        pf_transpose4(r);
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) *(pf_f4_any *)(y + i * p->yb + a) = r[i];
    }
    for (; a < p->na; a++)
        for (int64_t b = 0; b < p->nb; b++) y[b * p->yb + a] = x[a * p->xa + b];
}

/* Two planes to packed pairs, or back. */
PF_INLINE void pf_interleave2(const pf_plane *p, const float *x, float *y) {
    int64_t b = 0;
#if defined(PF_AVX512)
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    for (; b + PF_VL <= p->nb; b += PF_VL) {
        const __m512 u = _mm512_loadu_ps(x + b), v = _mm512_loadu_ps(x + p->xa + b);
        _mm512_storeu_ps(y + 2 * b, _mm512_permutex2var_ps(u, low, v));
        _mm512_storeu_ps(y + 2 * b + PF_VL, _mm512_permutex2var_ps(u, high, v));
    }
#endif
    for (; b + 4 <= p->nb; b += 4) {
        const pf_f4 u = *(const pf_f4_any *)(x + b), v = *(const pf_f4_any *)(x + p->xa + b);
        *(pf_f4_any *)(y + 2 * b) = pf_mix4(u, v, 0, 4, 1, 5);
        *(pf_f4_any *)(y + 2 * b + 4) = pf_mix4(u, v, 2, 6, 3, 7);
    }
    pf_transpose_rest(p, x, y, 0, b, p->nb);
}

PF_INLINE void pf_deinterleave2(const pf_plane *p, const float *x, float *y) {
    int64_t a = 0;
#if defined(PF_AVX512)
    for (; a + PF_VL <= p->na; a += PF_VL) {
        const pf_vf u = pf_load(x + 2 * a), v = pf_load(x + 2 * a + PF_VL);
        pf_store(y + a, pf_every_second(u, v, 0)), pf_store(y + p->yb + a, pf_every_second(u, v, 1));
    }
#endif
    for (; a + 4 <= p->na; a += 4) {
        const pf_f4 u = *(const pf_f4_any *)(x + 2 * a), v = *(const pf_f4_any *)(x + 2 * a + 4);
        *(pf_f4_any *)(y + a) = pf_mix4(u, v, 0, 2, 4, 6);
        *(pf_f4_any *)(y + p->yb + a) = pf_mix4(u, v, 1, 3, 5, 7);
    }
    for (; a < p->na; a++) y[a] = x[2 * a], y[p->yb + a] = x[2 * a + 1];
}

/* Two planes to pairs that lie apart, or back. */
static void pf_scatter_pairs(const pf_plane *p, const float *x, float *y) {
    const int64_t step = p->yb, apart = p->xa, whole = p->nb / 4 * 4;
    float *to = y;
    for (int64_t b = 0; b < whole; b += 4) {
        const pf_f4 u = *(const pf_f4_any *)(x + b), v = *(const pf_f4_any *)(x + apart + b);
        const pf_f4 r[2] = {pf_mix4(u, v, 0, 4, 1, 5), pf_mix4(u, v, 2, 6, 3, 7)};
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, to += step) memcpy(to, (const float *)r + 2 * i, 8);
    }
    pf_transpose_rest(p, x, y, 0, whole, p->nb);
}

static void pf_gather_pairs(const pf_plane *p, const float *x, float *y) {
    const int64_t step = p->xa, apart = p->yb, whole = p->na / 4 * 4;
    for (int64_t a = 0; a < whole; a += 4) {
        pf_f4 r[2];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++, x += step) memcpy((float *)r + 2 * i, x, 8);
        *(pf_f4_any *)(y + a) = pf_mix4(r[0], r[1], 0, 2, 4, 6);
        *(pf_f4_any *)(y + apart + a) = pf_mix4(r[0], r[1], 1, 3, 5, 7);
    }
    for (int64_t a = whole; a < p->na; a++, x += step) y[a] = x[0], y[apart + a] = x[1];
}

/* ya and xb are 1. far: the plane is a part of tensors that come from and go to memory. */
PF_INLINE void pf_transpose_plane(const pf_plane *p, const float *x, float *y, const bool far) {
    if (p->na == 3 && p->yb == 3)
        pf_interleave3(p, x, y);
    else if (p->nb == 3 && p->xa == 3)
        pf_deinterleave3(p, x, y);
    else if (p->na == 2 && p->yb == 2)
        pf_interleave2(p, x, y);
    else if (p->nb == 2 && p->xa == 2)
        pf_deinterleave2(p, x, y);
    else if (p->na == 2)
        pf_scatter_pairs(p, x, y);
    else if (p->nb == 2)
        pf_gather_pairs(p, x, y);
    else if (p->na > PF_VL / 2 && p->nb > PF_VL / 2)
        pf_transpose_blocks(p, x, y, far);
    else
        pf_transpose_narrow(p, x, y);
}

static inline void pf_transpose(const pf_plane *p, const float *x, float *y) {
    pf_transpose_plane(p, x, y, false);
}

static inline void pf_transpose_far(const pf_plane *p, const float *x, float *y) {
    pf_transpose_plane(p, x, y, true);
}

#endif
