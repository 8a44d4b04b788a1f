/* Sampling of images at places given by a grid. Output pixels are taken in blocks: along each axis, positions
 * in the input and their weights are found for a whole block in vectors. They are then applied to all
 * channels of one pixel after the other or, where channels are few or far apart, to all pixels of the block
 * side by side. */
#include <math.h>

#include "kernels/args.h"
#include "kernels/vmath.h"

enum { TAPS = 4, MOST_TAPS = 16, BLOCK = 64, CHUNK = 4, FEW_CHANNELS = 4 };

/* A block of output pixels of one image; lanes: their count, rounded up to whole vectors. at: positions along
 * each axis, -1 for none. start: what the sums begin with, NaN where PyTorch's weights are. */
typedef struct block {
    int64_t count, lanes, x, y[BLOCK]; /* offsets of the image and the output pixels */
    int dense, taps[PF_AXES];          /* dense: output pixels lie side by side */
    int32_t at[PF_AXES][TAPS][BLOCK];
    float weight[PF_AXES][TAPS][BLOCK], place[PF_AXES][BLOCK], scale[BLOCK], start[BLOCK];
} block;

static pf_vf unnormalize(pf_vf v, float size, int64_t align) {
    if (align == PF_ALIGN_PIXELS) return v;
    return align == PF_ALIGN_CENTRES ? (v + 1.0f) / 2.0f * (size - 1.0f) : ((v + 1.0f) * size - 1.0f) / 2.0f;
}

/* NaN becomes the first place on planes and the last one elsewhere. */
static pf_vf clamp(const pf_grid_args *a, pf_vf v, float size) {
    const pf_vf top = pf_set(size - 1.0f);
    const pf_vi low = v < 0.0f, none = v != v;
    v = pf_select(a->axes == 2 ? low | none : low, pf_zero(), v);
    return pf_select(v < top, v, top);
}

/* Mirrors between the centres (align) or the edges of the border pixels. */
static pf_vf reflect(pf_vf places, float size, int64_t align) {
    const float low = align == PF_ALIGN_CENTRES ? 0.0f : -0.5f,
                span = align == PF_ALIGN_CENTRES ? size - 1 : size;
    if (span == 0) return pf_zero();
    const pf_vf v = pf_vabs(places - low), period = pf_set(2.0f * span);
    const pf_vf extra = v - pf_vfloor(v / period) * period;
    return pf_vmin(period - extra, extra) + low;
}

/* What no integer can hold lies outside. */
static pf_vf apply_border(const pf_grid_args *a, pf_vf v, float size) {
    if (a->border == PF_BORDER_REFLECT) v = reflect(v, size, a->align);
    if (a->border != PF_BORDER_ZEROS) v = clamp(a, v, size);
    return pf_select((v > -2147483648.0f) & (v < 2147483648.0f), v, pf_set(-100.0f));
}

/* Tap k of the axis at whole places, PF_VL pixels from p on. */
PF_INLINE void set_tap(block *b, int axis, int k, int p, pf_vf place, float size, pf_vf weight) {
    const pf_vi inside = (place >= 0.0f) & (place < size);
    pf_storei(&b->at[axis][k][p], (pf_toint(pf_select(inside, place, pf_zero())) & inside) | ~inside);
    pf_store(&b->weight[axis][k][p], weight);
}

static void cubic_taps(block *b, const pf_grid_args *a, int axis, int p, pf_vf place, float size) {
    const float A = -0.75f;
    const pf_vf low = pf_vfloor(place), t = place - low, x[4] = {t + 1.0f, t, 1.0f - t, 2.0f - t};
    for (int k = 0; k < 4; k++) {
        const pf_vf far = ((A * x[k] - 5 * A) * x[k] + 8 * A) * x[k] - 4 * A;
        const pf_vf near = ((A + 2) * x[k] - (A + 3)) * x[k] * x[k] + 1.0f;
        const pf_vf at = apply_border(a, low + (float)(k - 1), size);
        set_tap(b, axis, k, p, at, size, k == 0 || k == 3 ? far : near);
    }
}

static void find_taps(block *b, const pf_grid_args *a, int axis) {
    static const int taps[] = {[PF_SAMPLE_LINEAR] = 2, [PF_SAMPLE_NEAREST] = 1, [PF_SAMPLE_CUBIC] = 4};
    const float size = (float)a->isize[axis];
    const int weights =
        a->mode == PF_SAMPLE_CUBIC || (a->mode == PF_SAMPLE_LINEAR && a->border == PF_BORDER_ZEROS);
    b->taps[axis] = taps[a->mode];
    for (int p = 0; p < b->lanes; p += PF_VL) {
        const pf_vf v = unnormalize(pf_load(&b->place[axis][p]), size, a->align);
        if (weights && a->axes == 2)
            pf_store(&b->start[p], pf_select(v - v == 0.0f, pf_load(&b->start[p]), pf_set(NAN)));
        if (a->mode == PF_SAMPLE_CUBIC) {
            cubic_taps(b, a, axis, p, v, size);
            continue;
        }
        const pf_vf place = apply_border(a, v, size);
        if (a->mode == PF_SAMPLE_NEAREST) {
            set_tap(b, axis, 0, p, pf_vround(place), size, pf_set(1.0f));
            continue;
        }
        const pf_vf low = pf_vfloor(place), part = place - low;
        set_tap(b, axis, 0, p, low, size, 1.0f - part);
        set_tap(b, axis, 1, p, low + 1.0f, size, part);
    }
}

/* Every step-th number. Vectors of numbers that were stored one by one would be read with a delay. */
static void copy_every(float *to, const float *from, int64_t n, int64_t step) {
    if (step == 1)
        for (int64_t i = 0; i < n; i += PF_VL) pf_store_upto(to + i, pf_load_upto(from + i, n - i), n - i);
    else
        for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
}

/* n pairs. */
static void copy_pairs(float *first, float *second, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_VL, from += 2 * PF_VL) {
        const int64_t left = n - i;
        const pf_vf a = pf_load_upto(from, 2 * left), b = pf_load_upto(from + PF_VL, 2 * left - PF_VL);
        pf_store_upto(first + i, pf_every_second(a, b, 0), left);
        pf_store_upto(second + i, pf_every_second(a, b, 1), left);
    }
}

/* Places of the output pixels from number i on, row by row. */
static void read_places(block *b, const pf_grid_args *a, const pf_worker *w, int64_t i) {
    const float *grid = pf_ptr(w, a->grid), *scale = pf_ptr(w, a->scale);
    int64_t o = i % a->osize[2], h = i / a->osize[2] % a->osize[1];
    int64_t d = i / a->osize[2] / a->osize[1] % a->osize[0], n = i / a->osize[2] / a->osize[1] / a->osize[0];
    b->x = n * a->xs[PF_IMAGE];
    b->dense = a->ys[PF_SPACE + 2] == 1;
    for (int64_t p = 0, run; p < b->count; p += run, o = 0) {
        run = pf_min(a->osize[2] - o, b->count - p);
        const int64_t y =
            n * a->ys[PF_IMAGE] + d * a->ys[PF_SPACE] + h * a->ys[PF_SPACE + 1] + o * a->ys[PF_SPACE + 2];
        const float *at = grid + n * a->gs[0] + d * a->gs[1] + h * a->gs[2] + o * a->gs[3];
        if (p && y != b->y[p - 1] + 1) b->dense = 0;
#pragma GCC unroll 8
        for (int64_t k = 0; k < run; k++) b->y[p + k] = y + k * a->ys[PF_SPACE + 2];
        if (a->axes == 2 && a->gs[3] == 2 && a->gs[4] == 1)
            copy_pairs(&b->place[2][p], &b->place[1][p], at, run);
        else
            for (int64_t k = PF_AXES - a->axes; k < PF_AXES; k++)
                copy_every(&b->place[k][p], at + (2 - k) * a->gs[4], run, a->gs[3]);
        if (scale)
            copy_every(&b->scale[p], scale + n * a->ss[0] + d * a->ss[1] + h * a->ss[2] + o * a->ss[3], run,
                       a->ss[3]);
        if (++h == a->osize[1]) h = 0, d++;
    }
}

/* Output pixels from number i on. */
static void start_block(block *b, const pf_grid_args *a, const pf_worker *w, int64_t i, int64_t count) {
    b->count = count;
    b->lanes = pf_ceil_div(count, PF_VL) * PF_VL;
    read_places(b, a, w, i);
    for (int p = 0; p < b->lanes; p += PF_VL) pf_store(&b->start[p], pf_zero());
    for (int k = 0; k < PF_AXES; k++)
        for (int64_t p = count; p < b->lanes; p++) b->place[k][p] = 0;
    for (int k = 0; k < PF_AXES - (int)a->axes; k++) {
        b->taps[k] = 1;
        for (int p = 0; p < b->lanes; p += PF_VL)
            pf_storei(&b->at[k][0][p], pf_seti(0)), pf_store(&b->weight[k][0][p], pf_set(1.0f));
    }
    for (int k = PF_AXES - (int)a->axes; k < PF_AXES; k++) find_taps(b, a, k);
    if (!pf_ptr(w, a->scale)) return;
    for (int k = 0; k < b->taps[0]; k++)
        for (int p = 0; p < count; p++) b->weight[0][k][p] *= b->scale[p];
}

/* The taps of one pixel that lie inside of the image. */
typedef struct sample {
    int count;
    int64_t offset[MOST_TAPS];
    float weight[MOST_TAPS];
} sample;

static void collect(sample *s, const block *b, const pf_grid_args *a, int64_t p) {
    s->count = 0;
    for (int i = 0; i < b->taps[0]; i++)
        for (int j = 0; j < b->taps[1]; j++) {
            const int64_t d = b->at[0][i][p], h = b->at[1][j][p];
            if (d < 0 || h < 0) continue;
            const int64_t row = b->x + d * a->xs[PF_SPACE] + h * a->xs[PF_SPACE + 1];
            const float weight = b->weight[0][i][p] * b->weight[1][j][p];
            for (int k = 0; k < b->taps[2]; k++) {
                if (b->at[2][k][p] < 0) continue;
                s->offset[s->count] = row + b->at[2][k][p] * a->xs[PF_SPACE + 2];
                s->weight[s->count++] = weight * b->weight[2][k][p];
            }
        }
}

/* The same of a whole block, where offsets in an image fit into lanes of 32 bits: found in vectors, and drawn
 * together where some lie outside. */
typedef struct samples {
    int32_t count[BLOCK], offset[MOST_TAPS][BLOCK];
    float weight[MOST_TAPS][BLOCK];
} samples;

static void find_samples(samples *s, const block *b, const pf_grid_args *a) {
    const int32_t plane = (int32_t)a->xs[PF_SPACE], line = (int32_t)a->xs[PF_SPACE + 1];
    const int32_t pixel = (int32_t)a->xs[PF_SPACE + 2], all = b->taps[0] * b->taps[1] * b->taps[2];
    for (int64_t p = 0; p < b->lanes; p += PF_VL) {
        pf_vi outside = pf_seti(0);
        int n = 0;
        for (int i = 0; i < b->taps[0]; i++)
            for (int j = 0; j < b->taps[1]; j++) {
                const pf_vi d = pf_loadi(&b->at[0][i][p]), h = pf_loadi(&b->at[1][j][p]);
                const pf_vf part = pf_load(&b->weight[0][i][p]) * pf_load(&b->weight[1][j][p]);
                for (int k = 0; k < b->taps[2]; k++, n++) {
                    const pf_vi o = pf_loadi(&b->at[2][k][p]), none = (d | h | o) < 0;
                    outside |= none;
                    pf_storei(&s->offset[n][p], (d * plane + h * line + o * pixel) | none);
                    pf_store(&s->weight[n][p], part * pf_load(&b->weight[2][k][p]));
                }
            }
        pf_storei(&s->count[p], ~outside & all);
    }
    for (int64_t p = 0; p < b->count; p++) {
        if (s->count[p]) continue;
        for (int i = 0; i < all; i++) {
            if (s->offset[i][p] < 0) continue;
            s->offset[s->count[p]][p] = s->offset[i][p];
            s->weight[s->count[p]++][p] = s->weight[i][p];
        }
    }
}

/* All pixels in `count` vectors of channels, the last of which begins at channel `last` and has `lanes`
 * lanes. */
PF_INLINE void blend(const samples *s, const block *b, const float *x, float *y, int count, int64_t last,
                     int64_t lanes) {
    for (int64_t p = 0; p < b->count; p++) {
        pf_vf v[CHUNK];
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) v[k] = pf_set(b->start[p]);
        for (int i = 0; i < s->count[p]; i++) {
            const pf_vf weight = pf_set(s->weight[i][p]);
            const float *at = x + s->offset[i][p];
#pragma GCC unroll 4
            for (int k = 0; k + 1 < count; k++) v[k] = pf_fma(weight, pf_load(at + k * PF_VL), v[k]);
            v[count - 1] = pf_fma(weight, pf_load_upto(at + last, lanes), v[count - 1]);
        }
        float *to = y + b->y[p];
#pragma GCC unroll 4
        for (int k = 0; k + 1 < count; k++) pf_store(to + k * PF_VL, v[k]);
        pf_store_upto(to + last, v[count - 1], lanes);
    }
}

/* A loop for each count of vectors. The last ones overlap, because stores of some lanes are slow on some
 * CPUs. */
static void apply_to_channels(const block *b, const pf_grid_args *a, const float *x, float *y) {
    samples s;
    find_samples(&s, b, a);
    if (a->c < PF_VL) {
        blend(&s, b, x, y, 1, 0, a->c);
        return;
    }
    for (int64_t c = 0; c < a->c; c += CHUNK * PF_VL) {
        const int64_t count = pf_min(CHUNK, pf_ceil_div(a->c - c, PF_VL));
        const int64_t last = pf_min(count * PF_VL, a->c - c) - PF_VL;
#define PF_VECTORS(vectors)                                                                                  \
    case vectors:                                                                                            \
        blend(&s, b, x + c, y + c, vectors, last, PF_VL);                                                    \
        break;
        switch (count) {
            PF_VECTORS(1)
            PF_VECTORS(2)
            PF_VECTORS(3)
            PF_VECTORS(4)
        }
    }
}

/* x[offset] in the lanes of a mask, 0 elsewhere. */
PF_INLINE pf_vf gather(const float *x, pf_vi offset, pf_vi mask) {
#if defined(PF_AVX512)
    return (pf_vf)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_movepi32_mask((__m512i)mask),
                                           (__m512i)offset, x, sizeof *x);
#elif defined(PF_AVX2)
    return (pf_vf)_mm256_mask_i32gather_ps(_mm256_setzero_ps(), x, (__m256i)offset, (__m256)mask, sizeof *x);
#else
    pf_vf v = pf_zero();
    for (int i = 0; i < PF_VL; i++)
        if (mask[i]) v[i] = x[offset[i]];
    return v;
#endif
}

/* Whether all places in a plane have offsets that lanes of 32 bits hold. */
static int is_small(const pf_grid_args *a) {
    int64_t span = 0;
    for (int k = 0; k < PF_AXES; k++) {
        if (a->isize[k] > INT32_MAX || a->xs[PF_SPACE + k] < 0 || a->xs[PF_SPACE + k] > INT32_MAX) return 0;
        span += (a->isize[k] - 1) * a->xs[PF_SPACE + k];
        if (span > INT32_MAX) return 0;
    }
    return 1;
}

/* PF_VL pixels from p on in `count` channels. */
PF_INLINE void blend_pixels(const block *b, const pf_grid_args *a, int64_t p, const float *x, float *y,
                            int count) {
    pf_vf sum[FEW_CHANNELS];
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) sum[c] = pf_load(&b->start[p]);
    for (int i = 0; i < b->taps[0]; i++)
        for (int j = 0; j < b->taps[1]; j++) {
            const pf_vi d = pf_loadi(&b->at[0][i][p]), h = pf_loadi(&b->at[1][j][p]), row = (d | h) >= 0;
            const pf_vi at = (d & row) * (int32_t)a->xs[PF_SPACE] + (h & row) * (int32_t)a->xs[PF_SPACE + 1];
            const pf_vf part = pf_load(&b->weight[0][i][p]) * pf_load(&b->weight[1][j][p]);
            for (int k = 0; k < b->taps[2]; k++) {
                const pf_vi o = pf_loadi(&b->at[2][k][p]), inside = (d | h | o) >= 0;
                const pf_vi offset = inside & (at + (o & inside) * (int32_t)a->xs[PF_SPACE + 2]);
                const pf_vf weight = pf_select(inside, part * pf_load(&b->weight[2][k][p]), pf_zero());
#pragma GCC unroll 4
                for (int c = 0; c < count; c++)
                    sum[c] = pf_fma(weight, gather(x + c * a->xs[PF_CHANNEL], offset, inside), sum[c]);
            }
        }
    const int64_t lanes = pf_min(PF_VL, b->count - p);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
        float values[PF_VL], *to = y + c * a->ys[PF_CHANNEL];
        if (b->dense) {
            pf_store_upto(to + b->y[p], sum[c], lanes);
            continue;
        }
        pf_store(values, sum[c]);
        for (int64_t i = 0; i < lanes; i++) to[b->y[p + i]] = values[i];
    }
}

/* A loop for each count of channels, which keeps the sums in registers. */
static void apply_to_pixels(const block *b, const pf_grid_args *a, const float *x, float *y, int64_t count) {
#define PF_PIXELS(channels)                                                                                  \
    case channels:                                                                                           \
        for (int64_t p = 0; p < b->count; p += PF_VL) blend_pixels(b, a, p, x, y, channels);                 \
        break;
    switch (count) {
        PF_PIXELS(1)
        PF_PIXELS(2)
        PF_PIXELS(3)
        PF_PIXELS(4)
    }
}

typedef int32_t bits_any __attribute__((may_alias));

/* A vector of single loads at once, whose values meet in registers before they are stored. */
static void pick_dense(bits_any *to, const bits_any *from, const int32_t *offset, const int32_t *mask,
                       int64_t n) {
    int64_t p = 0;
    for (; p + PF_VL <= n; p += PF_VL) {
        pf_vi v;
#pragma GCC unroll 16
        for (int i = 0; i < PF_VL; i++) v[i] = from[offset[p + i]];
        pf_storei(to + p, v & pf_loadi(mask + p));
    }
    for (; p < n; p++) to[p] = from[offset[p]] & mask[p];
}

/* The nearest pixels of all channels: places are found once, and have no weights. */
static void pick_pixels(const block *b, const pf_grid_args *a, const float *x, float *y) {
    int32_t offset[BLOCK], mask[BLOCK];
    for (int64_t p = 0; p < b->lanes; p += PF_VL) {
        pf_vi at = pf_seti(0), inside = pf_seti(-1);
        for (int k = PF_AXES - (int)a->axes; k < PF_AXES; k++) {
            const pf_vi i = pf_loadi(&b->at[k][0][p]);
            inside &= i >= 0;
            at += i * (int32_t)a->xs[PF_SPACE + k];
        }
        pf_storei(offset + p, at & inside);
        pf_storei(mask + p, inside);
    }
    /* Single loads are faster than gathers where these are made of loads, too; what lies outside is masked.
     */
    for (int64_t c = 0; c < a->c; c++, x += a->xs[PF_CHANNEL], y += a->ys[PF_CHANNEL]) {
        const bits_any *from = (const bits_any *)x;
        bits_any *to = (bits_any *)y;
        if (b->dense)
            pick_dense(to + b->y[0], from, offset, mask, b->count);
        else
            for (int64_t p = 0; p < b->count; p++) to[b->y[p]] = from[offset[p]] & mask[p];
    }
}

/* Channels one by one, for tensors of any strides and size. */
static void apply_to_strided(const block *b, const pf_grid_args *a, const float *x, float *y) {
    for (int64_t p = 0; p < b->count; p++) {
        sample s;
        collect(&s, b, a, p);
        for (int64_t c = 0; c < a->c; c++) {
            float v = b->start[p];
            for (int i = 0; i < s.count; i++) v += s.weight[i] * x[s.offset[i] + c * a->xs[PF_CHANNEL]];
            y[b->y[p] + c * a->ys[PF_CHANNEL]] = v;
        }
    }
}

PF_KERNEL_FUNCTION(grid_sample) {
    const pf_grid_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int vectors = a->xs[PF_CHANNEL] == 1 && a->ys[PF_CHANNEL] == 1 && a->c > FEW_CHANNELS,
              small = is_small(a);
    const int64_t image = a->osize[0] * a->osize[1] * a->osize[2];
    int64_t begin, end;
    pf_share(w, a->n * image, BLOCK, &begin, &end);
    for (int64_t i = begin, next; i < end; i = next) {
        block b;
        next = pf_min(pf_min(i + BLOCK, (i / image + 1) * image), end);
        start_block(&b, a, w, i, next - i);
        if (!small)
            apply_to_strided(&b, a, x, y);
        else if (vectors)
            apply_to_channels(&b, a, x + b.x, y);
        else if (a->mode == PF_SAMPLE_NEAREST && a->scale.base < 0)
            pick_pixels(&b, a, x + b.x, y);
        else
            for (int64_t c = 0; c < a->c; c += FEW_CHANNELS)
                apply_to_pixels(&b, a, x + b.x + c * a->xs[PF_CHANNEL], y + c * a->ys[PF_CHANNEL],
                                pf_min(FEW_CHANNELS, a->c - c));
    }
}
