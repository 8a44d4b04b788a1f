/* Pooling over 1 to 3 spatial dimensions (missing ones have size 1): maximum, average and power average, with
 * fixed or adaptive windows. Channels-last tensors are worked on in vectors of channels, planes line by line
 * (pool_planes.c), others element by element. Where the places of maxima are asked for, pool_places.c finds
 * both. */
#include <math.h>

#include "kernels/extremes.h"
#include "kernels/pool.h"

enum { CHUNK = 4, TAPS = 64, LINE = 4096, PREFETCHED = 9, AHEAD = 512, WIDE = 64 };

typedef enum fold { FOLD_MAX, FOLD_SUM, FOLD_POWER } fold;

/* What the sum is multiplied with. PyTorch takes the power average as kernel size times an average. */
static float window_scale(fold f, const pf_pool_args *a, const pf_span s[PF_AXES]) {
    int64_t count = 1, whole = 1;
    for (int d = 0; d < PF_AXES; d++) {
        count *= a->include_pad ? s[d].extent : pf_span_count(s[d]);
        whole *= a->window[d];
    }
    return f == FOLD_POWER ? (float)whole / (float)count : 1.0f / (float)(a->divisor ? a->divisor : count);
}

/* What a number counts as. */
PF_INLINE pf_vf value(fold f, pf_vf v, float p) {
    if (f != FOLD_POWER || p == 1.0f) return v;
    if (p == 2.0f) return v * v;
    if (p == 3.0f) return v * v * v;
    for (int i = 0; i < PF_VL; i++) v[i] = powf(v[i], p);
    return v;
}

PF_INLINE pf_vf join(fold f, pf_vf a, pf_vf b) { return f == FOLD_MAX ? pf_nanmax(a, b) : a + b; }

PF_INLINE pf_vf step(fold f, pf_vf acc, pf_vf v, float p) { return join(f, acc, value(f, v, p)); }

PF_INLINE float root(float sum, float p) {
    return p == 2.0f ? sqrtf(sum) : p == 1.0f ? sum : powf(sum, 1.0f / p);
}

PF_INLINE pf_vf finish(fold f, pf_vf acc, float scale, float p) {
    if (f == FOLD_MAX) return acc;
    acc *= scale;
    if (f == FOLD_POWER)
        for (int i = 0; i < PF_VL; i++) acc[i] = root(acc[i], p);
    return acc;
}

/* `count` vectors of channels of one output pixel, from windows of few positions: taps are their offsets.
 * Only the first `lanes` lanes of the last vector exist. */
PF_INLINE void fold_taps(fold f, const float *x, const int64_t *taps, int64_t ntaps, float *y, float scale,
                         float p, int count, int64_t lanes) {
    pf_vf m[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) m[k] = pf_set(f == FOLD_MAX ? -INFINITY : 0.0f);
    for (int64_t t = 0; t < ntaps; t++) {
        const float *v = x + taps[t];
#pragma GCC unroll 4
        for (int k = 0; k < count; k++)
            m[k] =
                step(f, m[k], k + 1 < count ? pf_load(v + k * PF_VL) : pf_load_upto(v + k * PF_VL, lanes), p);
    }
#pragma GCC unroll 4
    for (int k = 0; k < count; k++)
        pf_store_upto(y + k * PF_VL, finish(f, m[k], scale, p), k + 1 < count ? PF_VL : lanes);
}

/* A vector of channels at four positions of a line. */
PF_INLINE pf_vf fold_four(fold f, const float *x, int64_t next, float p, int64_t lanes) {
    pf_vf m[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < CHUNK; k++) m[k] = value(f, pf_load_upto(x + k * next, lanes), p);
    return join(f, join(f, m[0], m[1]), join(f, m[2], m[3]));
}

/* The positions of a line, `next` floats apart, of a vector of channels. */
PF_INLINE pf_vf fold_column(fold f, const float *x, int64_t next, int64_t n, float p, int64_t lanes,
                            pf_vf acc) {
    for (; n >= CHUNK; n -= CHUNK, x += CHUNK * next) acc = join(f, acc, fold_four(f, x, next, p, lanes));
    for (; n > 0; n--, x += next) acc = step(f, acc, pf_load_upto(x, lanes), p);
    return acc;
}

/* The same of up to WIDE vectors. Sums of few of them wait for memory if they do not stay in registers. */
PF_INLINE void fold_line(fold f, const float *x, int64_t next, int64_t n, float p, int64_t channels,
                         pf_vf *line) {
    const int64_t whole = channels / PF_VL, rest = channels % PF_VL;
    for (; whole > 2 && n >= CHUNK; n -= CHUNK, x += CHUNK * next) {
        for (int64_t v = 0; v < whole; v++)
            line[v] = join(f, line[v], fold_four(f, x + v * PF_VL, next, p, PF_VL));
        if (rest) line[whole] = join(f, line[whole], fold_four(f, x + whole * PF_VL, next, p, rest));
    }
    for (int64_t v = 0; v < whole; v++) line[v] = fold_column(f, x + v * PF_VL, next, n, p, PF_VL, line[v]);
    if (rest) line[whole] = fold_column(f, x + whole * PF_VL, next, n, p, rest, line[whole]);
}

/* The same for windows of any size and up to WIDE vectors of channels, which are read as they lie: pixels far
 * apart come slowly. Lines are summed on their own, which keeps sums of large windows accurate. */
PF_INLINE void fold_lines(fold f, const pf_pool_args *a, const float *x, float *y, const pf_span s[PF_AXES],
                          float scale, int64_t channels) {
    const float p = (float)a->norm, empty = f == FOLD_MAX ? -INFINITY : 0.0f;
    const int64_t next = s[2].step * a->xs[PF_SPACE + 2], vectors = pf_ceil_div(channels, PF_VL);
    pf_vf total[WIDE], line[WIDE];
    for (int64_t v = 0; v < vectors; v++) total[v] = pf_set(empty);
    x += s[2].first * a->xs[PF_SPACE + 2];
    for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
        for (int64_t h = s[1].first; h < s[1].end; h += s[1].step) {
            for (int64_t v = 0; v < vectors; v++) line[v] = pf_set(empty);
            fold_line(f, x + d * a->xs[PF_SPACE] + h * a->xs[PF_SPACE + 1], next, pf_span_count(s[2]), p,
                      channels, line);
            for (int64_t v = 0; v < vectors; v++) total[v] = join(f, total[v], line[v]);
        }
    for (int64_t v = 0; v < vectors; v++)
        pf_store_upto(y + v * PF_VL, finish(f, total[v], scale, p), channels - v * PF_VL);
}

/* Offsets of the positions of a window from its first one; returns their number. */
static int64_t list_taps(const pf_pool_args *a, const pf_span s[PF_AXES], int64_t *taps) {
    int64_t n = 0;
    for (int64_t d = 0; d < s[0].end - s[0].first; d += s[0].step)
        for (int64_t h = 0; h < s[1].end - s[1].first; h += s[1].step)
            for (int64_t i = 0; i < s[2].end - s[2].first; i += s[2].step)
                taps[n++] = d * a->xs[PF_SPACE] + h * a->xs[PF_SPACE + 1] + i * a->xs[PF_SPACE + 2];
    return n;
}

/* Output positions [lo, hi) along the width whose windows lie inside the input. */
static void find_inner(const pf_pool_args *a, int64_t *lo, int64_t *hi) {
    const int64_t reach = (a->window[2] - 1) * a->dilation[2] + 1, last = a->isize[2] + a->pad[2] - reach;
    *lo = a->adaptive ? a->osize[2] : pf_min(a->osize[2], pf_ceil_div(a->pad[2], a->stride[2]));
    *hi = a->adaptive || last < 0 ? *lo : pf_max(*lo, pf_min(a->osize[2], last / a->stride[2] + 1));
}

/* Channels [c0, c1) of one row of output pixels. */
PF_INLINE void fold_row(fold f, const pf_pool_args *a, const float *x, float *y, pf_span s[PF_AXES],
                        int64_t c0, int64_t c1) {
    const float p = (float)a->norm;
    /* Pixels with gaps between them defeat the prefetcher of the hardware. */
    const int gaps = a->xs[PF_SPACE + 2] > a->c;
    int64_t lo, hi, taps[TAPS], ntaps = 0;
    float scale = 1.0f;
    find_inner(a, &lo, &hi);
    for (int64_t o = 0; o < a->osize[2]; o++, y += a->ys[PF_SPACE + 2]) {
        if (o <= lo || o >= hi) {
            s[2] = pf_span_of(a, 2, o);
            scale = f == FOLD_MAX ? 1.0f : window_scale(f, a, s);
            ntaps = pf_span_count(s[0]) * pf_span_count(s[1]) * pf_span_count(s[2]);
            if (ntaps <= TAPS) list_taps(a, s, taps);
        } else {
            s[2].first += a->stride[2], s[2].end += a->stride[2];
        }
        const float *at = x + s[0].first * a->xs[PF_SPACE] + s[1].first * a->xs[PF_SPACE + 1] +
                          s[2].first * a->xs[PF_SPACE + 2];
        int64_t c = c0;
        if (ntaps > TAPS) {
            for (; c < c1; c += WIDE * PF_VL)
                fold_lines(f, a, x + c, y + c, s, scale, pf_min(WIDE * PF_VL, c1 - c));
            continue;
        }
        for (int64_t t = 0; gaps && t < pf_min(ntaps, PREFETCHED); t++)
            __builtin_prefetch(at + taps[t] + AHEAD);
        for (; c + CHUNK * PF_VL <= c1; c += CHUNK * PF_VL)
            fold_taps(f, at + c, taps, ntaps, y + c, scale, p, CHUNK, PF_VL);
        for (; c + PF_VL <= c1; c += PF_VL) fold_taps(f, at + c, taps, ntaps, y + c, scale, p, 1, PF_VL);
        if (c < c1) fold_taps(f, at + c, taps, ntaps, y + c, scale, p, 1, c1 - c);
    }
}

static void max_row(const pf_pool_args *a, const float *x, float *y, pf_span *s, int64_t c0, int64_t c1) {
    fold_row(FOLD_MAX, a, x, y, s, c0, c1);
}
static void sum_row(const pf_pool_args *a, const float *x, float *y, pf_span *s, int64_t c0, int64_t c1) {
    fold_row(FOLD_SUM, a, x, y, s, c0, c1);
}
static void power_row(const pf_pool_args *a, const float *x, float *y, pf_span *s, int64_t c0, int64_t c1) {
    fold_row(FOLD_POWER, a, x, y, s, c0, c1);
}

/* Large windows that overlap much: the maximum over rows goes to a line buffer, the maximum along the line
 * follows. */
static int is_separable(const pf_pool_args *a) {
    const int64_t overlap = a->window[1] * a->window[2] / pf_max(1, a->stride[2]);
    return !a->adaptive && a->dilation[2] == 1 && overlap >= 16 && a->isize[2] * PF_VL <= LINE;
}

PF_INLINE void max_line(const pf_pool_args *a, const float *x, float *y, const pf_span s[PF_AXES], int count,
                        int64_t lanes) {
    float line[LINE];
    const int64_t width = a->isize[2], pitch = count * PF_VL;
    for (int64_t i = 0; i < width; i++) {
        pf_vf m[CHUNK];
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) m[k] = pf_set(-INFINITY);
        for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
            for (int64_t h = s[1].first; h < s[1].end; h += s[1].step) {
                const float *at = x + d * a->xs[PF_SPACE] + h * a->xs[PF_SPACE + 1] + i * a->xs[PF_SPACE + 2];
#pragma GCC unroll 4
                for (int k = 0; k < count; k++)
                    m[k] = pf_nanmax(m[k], pf_load_upto(at + k * PF_VL, k + 1 < count ? PF_VL : lanes));
            }
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) pf_store(line + i * pitch + k * PF_VL, m[k]);
    }
    for (int64_t o = 0; o < a->osize[2]; o++, y += a->ys[PF_SPACE + 2]) {
        const pf_span w = pf_span_of(a, 2, o);
        pf_vf m[CHUNK];
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) m[k] = pf_set(-INFINITY);
        for (int64_t i = w.first; i < w.end; i++)
#pragma GCC unroll 4
            for (int k = 0; k < count; k++) m[k] = pf_nanmax(m[k], pf_load(line + i * pitch + k * PF_VL));
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) pf_store_upto(y + k * PF_VL, m[k], k + 1 < count ? PF_VL : lanes);
    }
}

static void max_row_separable(const pf_pool_args *a, const float *x, float *y, pf_span *s, int64_t c0,
                              int64_t c1) {
    int64_t c = c0;
    if (a->isize[2] * PF_VL * CHUNK <= LINE)
        for (; c + CHUNK * PF_VL <= c1; c += CHUNK * PF_VL) max_line(a, x + c, y + c, s, CHUNK, PF_VL);
    for (; c < c1; c += PF_VL) max_line(a, x + c, y + c, s, 1, c1 - c);
}

typedef void (*row_fn)(const pf_pool_args *, const float *, float *, pf_span *, int64_t, int64_t);

/* Work is cut into rows of output pixels, and where rows are few into blocks of channels: even ones of whole
 * chunks, no more than are needed to give every thread some. */
static void pool_channels_last(const pf_pool_args *a, const pf_worker *w, row_fn row) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t rows = a->n * a->osize[0] * a->osize[1];
    const int64_t chunks = pf_ceil_div(a->c, CHUNK * PF_VL),
                  wanted = pf_ceil_div(4 * w->nthreads, pf_max(1, rows));
    const int64_t block = pf_ceil_div(chunks, pf_max(1, pf_min(wanted, chunks))) * CHUNK * PF_VL,
                  blocks = pf_ceil_div(a->c, block);
    int64_t begin, end;
    pf_share(w, rows * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t r = i / blocks, c = i % blocks * block;
        const int64_t h = r % a->osize[1], d = r / a->osize[1] % a->osize[0],
                      n = r / a->osize[1] / a->osize[0];
        pf_span s[PF_AXES] = {pf_span_of(a, 0, d), pf_span_of(a, 1, h)};
        row(a, x + n * a->xs[PF_IMAGE],
            y + n * a->ys[PF_IMAGE] + d * a->ys[PF_SPACE] + h * a->ys[PF_SPACE + 1], s, c,
            pf_min(c + block, a->c));
    }
}

/* One output element. */
static float fold_element(fold f, const pf_pool_args *a, const float *x, const pf_span s[PF_AXES]) {
    const float p = (float)a->norm;
    double sum = 0;
    float best = -INFINITY;
    for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
        for (int64_t h = s[1].first; h < s[1].end; h += s[1].step)
            for (int64_t i = s[2].first; i < s[2].end; i += s[2].step) {
                const float v = x[d * a->xs[PF_SPACE] + h * a->xs[PF_SPACE + 1] + i * a->xs[PF_SPACE + 2]];
                if (f == FOLD_MAX)
                    best = pf_nanmax1(best, v);
                else
                    sum += f == FOLD_SUM || p == 1.0f ? v : p == 2.0f ? v * v : powf(v, p);
            }
    if (f == FOLD_MAX) return best;
    const float scaled = (float)(sum * window_scale(f, a, s));
    return f == FOLD_SUM ? scaled : root(scaled, p);
}

static void pool_any(const pf_pool_args *a, const pf_worker *w, fold f) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, a->n * a->osize[0] * a->osize[1], 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const int64_t h = r % a->osize[1], d = r / a->osize[1] % a->osize[0],
                      n = r / a->osize[1] / a->osize[0];
        pf_span s[PF_AXES] = {pf_span_of(a, 0, d), pf_span_of(a, 1, h)};
        for (int64_t o = 0; o < a->osize[2]; o++) {
            const int64_t at[] = {n, 0, d, h, o};
            int64_t yo = 0;
            for (int k = 0; k < 5; k++) yo += at[k] * a->ys[k];
            s[2] = pf_span_of(a, 2, o);
            for (int64_t c = 0; c < a->c; c++)
                y[yo + c * a->ys[PF_CHANNEL]] =
                    fold_element(f, a, x + n * a->xs[PF_IMAGE] + c * a->xs[PF_CHANNEL], s);
        }
    }
}

static int is_channels_last(const pf_pool_args *a) {
    return a->c > 1 && a->xs[PF_CHANNEL] == 1 && a->ys[PF_CHANNEL] == 1;
}

PF_KERNEL_FUNCTION(max_pool) {
    const pf_pool_args *a = args_;
    if (pf_ptr(w, a->index))
        PF_NAME(max_pool_places)(a, w);
    else if (pf_pool_has_lines(a))
        PF_NAME(max_pool_lines)(a, w);
    else if (!is_channels_last(a))
        pool_any(a, w, FOLD_MAX);
    else
        pool_channels_last(a, w, is_separable(a) ? max_row_separable : max_row);
}

PF_KERNEL_FUNCTION(avg_pool) {
    const pf_pool_args *a = args_;
    if (pf_pool_has_lines(a))
        PF_NAME(avg_pool_lines)(a, w);
    else if (is_channels_last(a))
        pool_channels_last(a, w, sum_row);
    else
        pool_any(a, w, FOLD_SUM);
}

PF_KERNEL_FUNCTION(lp_pool) {
    const pf_pool_args *a = args_;
    if (is_channels_last(a))
        pool_channels_last(a, w, power_row);
    else
        pool_any(a, w, FOLD_POWER);
}
