/* Pooling of planes, whose pixels lie side by side along the width: the rows of a window are folded into a
 * line in the L1 cache, from which neighbouring outputs are folded in vectors. */
#include "kernels/extremes.h"
#include "kernels/pool.h"

enum { LINE = PF_POOL_LINE, PART = 512, CHUNK = 4 };

PF_INLINE pf_vf fold(int max, pf_vf acc, pf_vf v) { return max ? pf_nanmax(acc, v) : acc + v; }

/* PF_VL numbers, `step` apart. */
PF_INLINE pf_vf load_every(const float *x, int64_t step) {
    if (step == 1) return pf_load(x);
    if (step == 2) return pf_every_second(pf_load(x), pf_load(x + PF_VL), 0);
    pf_vf v = pf_zero();
    for (int i = 0; i < PF_VL; i++) v[i] = x[i * step];
    return v;
}

/* `count` vectors of columns, the last with `lanes` lanes, folded over the rows of a window. */
PF_INLINE void fold_columns(int max, const pf_pool_args *a, const float *x, const pf_span s[2], float *line,
                            int count, int64_t lanes) {
    pf_vf v[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) v[k] = pf_set(max ? -INFINITY : 0.0f);
    for (int64_t d = s[0].first; d < s[0].end; d += s[0].step)
        for (int64_t h = s[1].first; h < s[1].end; h += s[1].step) {
            const float *at = x + d * a->xs[PF_SPACE] + h * a->xs[PF_SPACE + 1];
#pragma GCC unroll 4
            for (int k = 0; k < count; k++)
                v[k] = fold(max, v[k], pf_load_upto(at + k * PF_VL, k + 1 < count ? PF_VL : lanes));
        }
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) pf_store(line + k * PF_VL, v[k]);
}

/* The columns [first, end) of the input and at least a vector more; what pads stands outside of the input. */
PF_INLINE void fold_rows(int max, const pf_pool_args *a, const float *x, const pf_span s[2], float *line,
                         int64_t first, int64_t end) {
    const int64_t lo = pf_max(first, 0), hi = pf_max(lo, pf_min(end, a->isize[2]));
    const pf_vf empty = pf_set(max ? -INFINITY : 0.0f);
    int64_t i = lo;
    for (int64_t k = first; k < lo; k += PF_VL) pf_store(line + (k - first), empty);
    for (; i + CHUNK * PF_VL <= hi; i += CHUNK * PF_VL)
        fold_columns(max, a, x + i, s, line + (i - first), CHUNK, PF_VL);
    for (; i < hi; i += PF_VL) fold_columns(max, a, x + i, s, line + (i - first), 1, hi - i);
    for (int64_t k = hi; k < end + PF_VL; k += PF_VL) pf_store(line + (k - first), empty);
}

/* n outputs of one row. Their windows start at places `stride` apart in the line. */
PF_INLINE void fold_line(int max, const pf_pool_args *a, const float *line, float *y, int64_t n,
                         int64_t stride, const float *counts, float rows) {
    for (int64_t o = 0; o < n; o += PF_VL) {
        pf_vf v = load_every(line + o * stride, stride);
        for (int64_t t = 1; t < a->window[2]; t++)
            v = fold(max, v, load_every(line + o * stride + t * a->dilation[2], stride));
        if (!max) v *= 1.0f / (pf_load(counts + o) * rows);
        pf_store_upto(y + o, v, n - o);
    }
}

/* Where the windows of a part of a row lie along it: how many positions of each an average counts, first
 * positions and widths. */
typedef struct windows {
    float counts[PART + PF_VL];
    int32_t first[PART], width[PART];
} windows;

/* n outputs of one row, from windows of their own; the line starts at position `first`. */
PF_INLINE void fold_windows(int max, const windows *ws, const float *line, int64_t first, float *y, int64_t n,
                            float rows) {
    const float empty = max ? -INFINITY : 0.0f;
    for (int64_t o = 0; o < n; o++) {
        const float *at = line + (ws->first[o] - first);
        const int64_t width = ws->width[o];
        float value = empty;
        int64_t i = 0;
        if (width >= PF_VL) {
            pf_vf v = pf_set(empty);
            for (; i + PF_VL <= width; i += PF_VL) v = fold(max, v, pf_load(at + i));
            value = max ? pf_hmax(v) : pf_hsum(v);
        }
        for (; i < width; i++) value = max ? pf_nanmax1(value, at[i]) : value + at[i];
        y[o] = max ? value : value / (ws->counts[o] * rows);
    }
}

/* Positions of a window that an average counts along one axis. */
static int64_t counted(const pf_pool_args *a, pf_span s) {
    return a->divisor ? 1 : a->include_pad ? s.extent : pf_span_count(s);
}

/* A part of a row of outputs. */
typedef struct place {
    int64_t n, c, d, h, o;
} place;

static place find_place(const pf_pool_args *a, int64_t i, int64_t part) {
    const int64_t h = i % a->osize[1], plane = i / a->osize[1], d = plane % a->osize[0],
                  image = plane / a->osize[0];
    return (place){image / a->c % a->n, image % a->c, d, h, image / a->c / a->n * part};
}

static void next_place(place *p, const pf_pool_args *a, int64_t part) {
    if (++p->h < a->osize[1]) return;
    p->h = 0;
    if (++p->d < a->osize[0]) return;
    p->d = 0;
    if (++p->c < a->c) return;
    p->c = 0;
    if (++p->n < a->n) return;
    p->n = 0, p->o += part;
}

/* The windows of n outputs of a row from number o on. */
static void find_windows(windows *ws, const pf_pool_args *a, int64_t o, int64_t n) {
    for (int64_t k = 0; k < n; k++) {
        const pf_span s = pf_span_of(a, 2, o + k);
        ws->counts[k] = (float)counted(a, s);
        ws->first[k] = (int32_t)s.first, ws->width[k] = (int32_t)(s.end - s.first);
    }
    for (int64_t k = n; k % PF_VL; k++) ws->counts[k] = 1.0f;
}

/* Whether windows differ in width, or are so far apart that vectors are better taken along them. */
static int are_apart(const pf_pool_args *a) {
    if (a->adaptive) return 1;
    return a->stride[2] > 2 && a->dilation[2] == 1 && a->window[2] >= PF_VL && a->isize[2] <= LINE;
}

PF_INLINE void pool_lines(int max, const pf_pool_args *a, const pf_worker *w, int64_t stride,
                          const int apart) {
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    float line[LINE + 2 * PF_VL];
    windows ws;
    const int64_t reach = (a->window[2] - 1) * a->dilation[2] + 1;
    /* As many outputs as read a line, with whole vectors of them. */
    const int64_t part = apart ? PART : pf_min(PART, ((LINE - reach) / stride - PF_VL) / PF_VL * PF_VL);
    const int64_t parts = pf_ceil_div(a->osize[2], part), rows = a->osize[0] * a->osize[1];
    int64_t begin, end, known = -1;
    pf_share(w, parts * a->n * a->c * rows, 1, &begin, &end);
    if (begin == end) return;
    place p = find_place(a, begin, part);
    for (int64_t i = begin; i < end; i++, next_place(&p, a, part)) {
        const int64_t count = pf_min(part, a->osize[2] - p.o), whole = (count + PF_VL - 1) / PF_VL * PF_VL;
        const pf_span s[2] = {pf_span_of(a, 0, p.d), pf_span_of(a, 1, p.h)};
        if ((!max || apart) && p.o != known) find_windows(&ws, a, p.o, count);
        known = p.o;
        const int64_t first = apart ? ws.first[0] : p.o * stride - a->pad[2],
                      last = apart ? ws.first[count - 1] + ws.width[count - 1]
                                   : first + (whole - 1) * stride + reach;
        float *to = y + p.n * a->ys[PF_IMAGE] + p.c * a->ys[PF_CHANNEL] + p.d * a->ys[PF_SPACE] +
                    p.h * a->ys[PF_SPACE + 1] + p.o;
        const float counts =
            max ? 1.0f : (float)(a->divisor ? a->divisor : counted(a, s[0]) * counted(a, s[1]));
        fold_rows(max, a, x + p.n * a->xs[PF_IMAGE] + p.c * a->xs[PF_CHANNEL], s, line, first, last);
        if (apart)
            fold_windows(max, &ws, line, first, to, count, counts);
        else
            fold_line(max, a, line, to, count, stride, ws.counts, counts);
    }
}

#define PF_POOL_LINES(name, max)                                                                             \
    void PF_NAME(name)(const pf_pool_args *a, const pf_worker *w) {                                          \
        if (are_apart(a))                                                                                    \
            pool_lines(max, a, w, a->stride[2], 1);                                                          \
        else if (a->stride[2] == 1)                                                                          \
            pool_lines(max, a, w, 1, 0);                                                                     \
        else if (a->stride[2] == 2)                                                                          \
            pool_lines(max, a, w, 2, 0);                                                                     \
        else                                                                                                 \
            pool_lines(max, a, w, a->stride[2], 0);                                                          \
    }
PF_POOL_LINES(max_pool_lines, 1)
PF_POOL_LINES(avg_pool_lines, 0)
