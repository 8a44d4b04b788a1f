/* Maximum pooling that also tells the places of the maxima, as PyTorch finds them: the first of equal values,
 * of NaN the last. Channels-last tensors are worked on in vectors of channels, planes in vectors of outputs
 * along the width, the rest one by one. */
#include "kernels/extremes.h"
#include "kernels/pool.h"

enum { CHUNK = 4, LAST = PF_SPACE + 2 };

typedef int64_t longs __attribute__((vector_size(PF_VL * 8)));
typedef int64_t longs_any __attribute__((vector_size(PF_VL * 8), aligned(1), may_alias));

/* The largest values so far and their places. */
typedef struct largest {
    pf_vf value;
    pf_vi place;
} largest;

#if defined(PF_AVX512)
PF_INLINE void take(largest *l, pf_vf v, pf_vi place) {
    const __mmask16 larger = _mm512_cmp_ps_mask((__m512)v, (__m512)l->value, _CMP_GT_OQ) |
                             _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    l->value = (pf_vf)_mm512_mask_mov_ps((__m512)l->value, larger, (__m512)v);
    l->place = (pf_vi)_mm512_mask_mov_ps((__m512)l->place, larger, (__m512)place);
}
#elif defined(PF_AVX2)
PF_INLINE void take(largest *l, pf_vf v, pf_vi place) {
    const __m256 larger = (__m256)((v > l->value) | (v != v));
    l->value = (pf_vf)_mm256_blendv_ps((__m256)l->value, (__m256)v, larger);
    l->place = (pf_vi)_mm256_blendv_ps((__m256)l->place, (__m256)place, larger);
}
#else
PF_INLINE void take(largest *l, pf_vf v, pf_vi place) {
    const pf_vi larger = (v > l->value) | (v != v);
    l->value = pf_select(larger, v, l->value);
    l->place = (larger & place) | (~larger & l->place);
}
#endif

static int64_t offset_of(const int64_t *strides, int64_t n, int64_t d, int64_t h) {
    return n * strides[PF_IMAGE] + d * strides[PF_SPACE] + h * strides[PF_SPACE + 1];
}

/* The first `lanes` places, `step` apart. */
PF_INLINE void store_places(int64_t *to, pf_vi place, int64_t step, int64_t lanes) {
    if (step == 1 && lanes >= PF_VL) {
        *(longs_any *)to = __builtin_convertvector(place, longs);
        return;
    }
    int32_t places[PF_VL];
    pf_storei(places, place);
    for (int64_t i = 0; i < pf_min(lanes, PF_VL); i++) to[i * step] = places[i];
}

static int64_t first_place(const pf_pool_args *a, const pf_span s[PF_AXES]) {
    return (s[0].first * a->isize[1] + s[1].first) * a->isize[2] + s[2].first;
}

/* One output of the channel at x. */
static float find_largest(const pf_pool_args *a, const float *x, const pf_span s[PF_AXES], int64_t *place) {
    float best = -INFINITY;
    *place = first_place(a, s);
    for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
        for (int64_t h = s[1].first; h < s[1].end; h += s[1].step)
            for (int64_t i = s[2].first; i < s[2].end; i += s[2].step) {
                const float v = x[offset_of(a->xs, 0, d, h) + i * a->xs[LAST]];
                if (!(v > best) && v == v) continue;
                best = v;
                *place = (d * a->isize[1] + h) * a->isize[2] + i;
            }
    return best;
}

/* -- channels last -- */

/* `count` vectors of channels of one output pixel, the last with `lanes` lanes. */
PF_INLINE void places_of_channels(const pf_pool_args *a, const float *x, const pf_span s[PF_AXES], float *y,
                                  int64_t *index, int count, int64_t lanes) {
    largest l[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) l[k] = (largest){pf_set(-INFINITY), pf_seti((int32_t)first_place(a, s))};
    for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
        for (int64_t h = s[1].first; h < s[1].end; h += s[1].step) {
            const float *row = x + offset_of(a->xs, 0, d, h);
            const int64_t place = (d * a->isize[1] + h) * a->isize[2];
            for (int64_t i = s[2].first; i < s[2].end; i += s[2].step) {
                const float *at = row + i * a->xs[LAST];
                const pf_vi here = pf_seti((int32_t)(place + i));
#pragma GCC unroll 4
                for (int k = 0; k < count; k++)
                    take(&l[k], pf_load_upto(at + k * PF_VL, k + 1 < count ? PF_VL : lanes), here);
            }
        }
    const int64_t step = a->js[PF_CHANNEL];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        const int64_t n = k + 1 < count ? PF_VL : lanes;
        pf_store_upto(y + k * PF_VL, l[k].value, n);
        store_places(index + k * PF_VL * step, l[k].place, step, n);
    }
}

/* One row of output pixels; s has the windows of the other axes. */
static void channels_row(const pf_pool_args *a, const float *x, pf_span *s, float *y, int64_t *index) {
    const int64_t step = a->js[PF_CHANNEL];
    for (int64_t o = 0; o < a->osize[2]; o++, y += a->ys[LAST], index += a->js[LAST]) {
        s[2] = pf_span_of(a, 2, o);
        int64_t c = 0;
        for (; c + CHUNK * PF_VL <= a->c; c += CHUNK * PF_VL)
            places_of_channels(a, x + c, s, y + c, index + c * step, CHUNK, PF_VL);
        for (; c + PF_VL <= a->c; c += PF_VL)
            places_of_channels(a, x + c, s, y + c, index + c * step, 1, PF_VL);
        if (c < a->c) places_of_channels(a, x + c, s, y + c, index + c * step, 1, a->c - c);
    }
}

/* -- planes -- */

/* PF_VL numbers, `step` apart; reads none behind the last. */
PF_INLINE pf_vf load_each(const float *x, int64_t step) {
    pf_vf v = pf_zero();
    if (step == 1) return pf_load(x);
    if (step == 2) {
        pf_vi even, odd, low;
        for (int i = 0; i < PF_VL; i++) even[i] = 2 * i, odd[i] = 2 * i + 1, low[i] = -(i < PF_VL / 2);
        return pf_select(low, pf_permute(pf_load(x), even), pf_permute(pf_load(x + PF_VL - 1), odd));
    }
    for (int i = 0; i < PF_VL; i++) v[i] = x[i * step];
    return v;
}

/* PF_VL outputs of a row, whose windows all lie inside; s has that of the first one. */
PF_INLINE void places_of_plane(const pf_pool_args *a, const float *x, const pf_span s[PF_AXES], float *y,
                               int64_t *index, int64_t stride) {
    pf_vi apart;
    for (int i = 0; i < PF_VL; i++) apart[i] = i;
    apart *= (int32_t)stride;
    largest l = {pf_set(-INFINITY), apart + (int32_t)first_place(a, s)};
    for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
        for (int64_t h = s[1].first; h < s[1].end; h += s[1].step) {
            const float *row = x + offset_of(a->xs, 0, d, h);
            const int64_t place = (d * a->isize[1] + h) * a->isize[2];
            for (int64_t i = s[2].first; i < s[2].end; i += s[2].step)
                take(&l, load_each(row + i, stride), apart + (int32_t)(place + i));
        }
    pf_store(y, l.value);
    store_places(index, l.place, a->js[LAST], PF_VL);
}

/* One row of a plane of outputs; those whose windows reach over a border, and those that fill no vector, are
 * found one by one. */
PF_INLINE void plane_row_by(const pf_pool_args *a, const float *x, pf_span *s, float *y, int64_t *index,
                            int64_t stride) {
    const int64_t n = a->osize[2], reach = (a->window[2] - 1) * a->dilation[2] + 1;
    const int64_t last = a->isize[2] + a->pad[2] - reach;
    const int64_t lo = pf_min(n, pf_ceil_div(a->pad[2], stride));
    const int64_t hi = last < 0 ? lo : pf_max(lo, pf_min(n, last / stride + 1));
    for (int64_t o = 0; o < n;) {
        /* The last vector begins early rather than to leave a rest. */
        if (o == lo && hi - lo >= PF_VL) {
            for (; o < hi; o += PF_VL) {
                o = pf_min(o, hi - PF_VL);
                s[2] = pf_span_of(a, 2, o);
                places_of_plane(a, x, s, y + o, index + o * a->js[LAST], stride);
            }
            continue;
        }
        s[2] = pf_span_of(a, 2, o);
        y[o] = find_largest(a, x, s, &index[o * a->js[LAST]]);
        o++;
    }
}

static void plane_row(const pf_pool_args *a, const float *x, pf_span *s, float *y, int64_t *index) {
    if (a->stride[2] == 1)
        plane_row_by(a, x, s, y, index, 1);
    else if (a->stride[2] == 2)
        plane_row_by(a, x, s, y, index, 2);
    else
        plane_row_by(a, x, s, y, index, a->stride[2]);
}

/* -- all -- */

static void any_row(const pf_pool_args *a, const float *x, pf_span *s, float *y, int64_t *index) {
    for (int64_t o = 0; o < a->osize[2]; o++) {
        s[2] = pf_span_of(a, 2, o);
        y[o * a->ys[LAST]] = find_largest(a, x, s, &index[o * a->js[LAST]]);
    }
}

void PF_NAME(max_pool_places)(const pf_pool_args *a, const pf_worker *w) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    int64_t *index = pf_ptr(w, a->index), begin, end;
    const int small = a->isize[0] * a->isize[1] * a->isize[2] <= INT32_MAX; /* places fit lanes */
    const int planes = small && !a->adaptive && a->xs[LAST] == 1 && a->ys[LAST] == 1;
    const int last = small && a->c > 1 && a->xs[PF_CHANNEL] == 1 && a->ys[PF_CHANNEL] == 1;
    /* Rows of pixels with all their channels, or of single channels. */
    const int64_t channels = last ? 1 : a->c;
    pf_share(w, a->n * channels * a->osize[0] * a->osize[1], 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const int64_t h = r % a->osize[1], p = r / a->osize[1], d = p % a->osize[0], i = p / a->osize[0];
        const int64_t c = i % channels, n = i / channels;
        const float *from = x + n * a->xs[PF_IMAGE] + c * a->xs[PF_CHANNEL];
        float *to = y + offset_of(a->ys, n, d, h) + c * a->ys[PF_CHANNEL];
        int64_t *places = index + offset_of(a->js, n, d, h) + c * a->js[PF_CHANNEL];
        pf_span s[PF_AXES] = {pf_span_of(a, 0, d), pf_span_of(a, 1, h)};
        (last ? channels_row : planes ? plane_row : any_row)(a, from, s, to, places);
    }
}
