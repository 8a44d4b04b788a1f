/* What all packing of weights shares: columns that are dense in memory become rows of a panel, by stores of
 * what is read much later. Knows no kernel. */
#ifndef PF_KERNELS_PACK_COLUMNS_H
#define PF_KERNELS_PACK_COLUMNS_H

#include "kernels/kernel.h"
#include "kernels/transpose_tile.h"

/* Denormal numbers as zeros. Training leaves them behind in channels that died, and some processors take
 * sixty times as long for every product that has one in any lane. */
PF_INLINE pf_vf pf_flushed(pf_vf x) { return (pf_vf)((pf_vi)x & (((pf_vi)x & pf_seti(0x7f800000)) != 0)); }

/* Packed weights are written once and read when everything has been packed: whole cache lines go to memory
 * without being read before. */
PF_INLINE void pf_stream(float *y, pf_vf v) {
    v = pf_flushed(v);
#if defined(PF_AVX512)
    if ((uintptr_t)y % sizeof v == 0) {
        _mm512_stream_ps(y, (__m512)v);
        return;
    }
#endif
    pf_store(y, v);
}

/* Whether vectors are shorter than a cache line. The parts of a line have to be streamed one after the other,
 * so what is packed vector by vector is collected first. */
enum { PF_COLLECT = PF_VL * (int)sizeof(float) < PF_LINE_BYTES };

/* Copies n collected numbers, whole vectors of them. */
PF_INLINE void pf_stream_run(float *y, const float *x, int64_t n) {
#if defined(PF_AVX2) && !defined(PF_AVX512)
    if ((uintptr_t)y % PF_LINE_BYTES == 0 && n % (2 * PF_VL) == 0) {
        for (int64_t i = 0; i < n; i += PF_VL) _mm256_stream_ps(y + i, (__m256)pf_load(x + i));
        return;
    }
#endif
    for (int64_t i = 0; i < n; i += PF_VL) pf_store(y + i, pf_load(x + i));
}

/* Orders streamed stores before what other threads do next. */
PF_INLINE void pf_stream_end(void) {
#if defined(PF_AVX2) || defined(PF_AVX512)
    _mm_sfence();
#endif
}

/* Numbers [begin, end) of one vector of columns, which count channels and taps inside of these; row
 * tap * channels + channel of the result lies at `to` + width times its number. */
static inline void pf_pack_columns(const float *x, int64_t depth, int64_t columns, int64_t taps,
                                   int64_t width, int64_t begin, int64_t end, float *to) {
    const int64_t channels = depth / taps;
    int64_t channel = begin / taps, tap = begin % taps;
    for (int64_t i0 = begin; i0 < end; i0 += PF_VL) {
        pf_vf v[PF_VL];
        pf_load_transposed(x + i0, depth, columns, end - i0, v);
        for (int i = 0; i < pf_min(PF_VL, end - i0); i++) {
            pf_stream(to + (tap * channels + channel) * width, v[i]);
            if (++tap == taps) tap = 0, channel++;
        }
    }
}

#endif
