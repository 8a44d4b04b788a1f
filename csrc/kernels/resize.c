/* Resampling by tables: every output position is a weighted sum of taps along each axis; what mode and which
 * alignment that is, only the caller knows. Channels-last tensors are worked on in vectors of channels,
 * others row by row: in vectors of outputs where all taps of such a vector lie within a vector of inputs. */
#include "kernels/args.h"
#include "kernels/simd.h"

enum { CHUNK = 4, LINE = 4096, PLANNED = 4096 };

/* The taps of all output positions of one axis. */
typedef struct taps {
    int64_t count, stride;
    const int64_t *index;
    const float *weight; /* NULL: single taps of weight one */
} taps;

static void find_taps(const pf_resize_args *a, const pf_worker *w, taps t[PF_AXES]) {
    const int64_t *index = pf_ptr(w, a->index);
    const float *weight = pf_ptr(w, a->weight);
    for (int d = 0; d < PF_AXES; d++) {
        t[d] = (taps){a->taps[d], a->xs[PF_SPACE + d], index, weight};
        index += a->osize[d] * a->taps[d];
        if (weight) weight += a->osize[d] * a->taps[d];
    }
}

/* The taps of one output position along the outer axes: rows of the input, as offsets, and their weights.
 * Where there are more than fit, the later ones are added to what the earlier ones gave. */
enum { ROWS = 64 };
typedef struct rows {
    int64_t count;
    int adds;
    int64_t offset[ROWS];
    float weight[ROWS];
} rows;

/* Takes taps from number `first` on. */
static void collect_rows(const taps t[PF_AXES], int64_t d, int64_t h, int64_t first, rows *r) {
    const int64_t n = t[1].count, end = pf_min(t[0].count * n, first + ROWS);
    int64_t i = first ? first / n : 0,
            j = first ? first % n : 0; /* quotients take longer than a short line */
    r->adds = first > 0;
    for (r->count = 0; r->count < end - first; r->count++) {
        const int64_t p = d * t[0].count + i, q = h * n + j;
        r->offset[r->count] = t[0].index[p] * t[0].stride + t[1].index[q] * t[1].stride;
        r->weight[r->count] = t[0].weight ? t[0].weight[p] * t[1].weight[q] : 1.0f;
        if (++j == n) j = 0, i++;
    }
}

static void copy_pixel(const float *x, float *y, int64_t c) {
    int64_t i = 0;
    for (; i + PF_VL <= c; i += PF_VL) pf_store(y + i, pf_load(x + i));
    if (i < c) pf_storen(y + i, pf_loadn(x + i, c - i), c - i);
}

/* `count` vectors of channels of one output pixel, the last with `lanes` lanes. */
PF_INLINE void blend(const float *x, float *y, const rows *r, const taps *t, const int64_t *index,
                     const float *weight, int count, int64_t lanes) {
    pf_vf v[CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++)
        v[k] = r->adds ? pf_load_upto(y + k * PF_VL, k + 1 < count ? PF_VL : lanes) : pf_zero();
    for (int64_t i = 0; i < r->count; i++)
        for (int64_t j = 0; j < t->count; j++) {
            const float *at = x + r->offset[i] + index[j] * t->stride;
            const pf_vf f = pf_set(r->weight[i] * weight[j]);
#pragma GCC unroll 4
            for (int k = 0; k < count; k++)
                v[k] = pf_fma(f, pf_load_upto(at + k * PF_VL, k + 1 < count ? PF_VL : lanes), v[k]);
        }
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) pf_store_upto(y + k * PF_VL, v[k], k + 1 < count ? PF_VL : lanes);
}

/* Single taps of weight one. */
static void copy_pixels(const pf_resize_args *a, const taps *t, const float *x, float *y) {
    for (int64_t o = 0; o < a->osize[2]; o++)
        copy_pixel(x + t->index[o] * t->stride, y + o * a->ys[PF_SPACE + 2], a->c);
}

static void resize_pixels(const pf_resize_args *a, const taps *t, const rows *r, const float *x, float *y) {
    if (!t->weight) {
        copy_pixels(a, t, x + r->offset[0], y);
        return;
    }
    for (int64_t o = 0; o < a->osize[2]; o++, y += a->ys[PF_SPACE + 2]) {
        const int64_t *index = t->index + o * t->count;
        const float *weight = t->weight + o * t->count;
        int64_t c = 0;
        for (; c + CHUNK * PF_VL <= a->c; c += CHUNK * PF_VL)
            blend(x + c, y + c, r, t, index, weight, CHUNK, PF_VL);
        for (; c + PF_VL <= a->c; c += PF_VL) blend(x + c, y + c, r, t, index, weight, 1, PF_VL);
        if (c < a->c) blend(x + c, y + c, r, t, index, weight, 1, a->c - c);
    }
}

/* Vectors of outputs along a line: all their taps lie in the PF_VL inputs from `first` on, at `lane`. */
typedef struct line_plan {
    int64_t vectors; /* 0: not possible */
    int64_t whole;   /* of them, the first ones: inputs and outputs are vectors, too */
    int64_t first[PLANNED / PF_VL];
    int32_t lane[PLANNED];
    float weight[PLANNED];
} line_plan;

static void plan_line(line_plan *l, const pf_resize_args *a, const taps *t) {
    const int64_t outputs = a->osize[2], vectors = pf_ceil_div(outputs, PF_VL);
    l->vectors = l->whole = 0;
    if (t->stride != 1 || a->isize[2] > LINE || a->ys[PF_SPACE + 2] != 1) return;
    if (t->count > PLANNED || vectors * PF_VL * t->count > PLANNED) return;
    for (int64_t v = 0; v < vectors; v++) {
        const int64_t begin = v * PF_VL, end = pf_min(begin + PF_VL, outputs);
        int64_t low = t->index[begin * t->count], high = low;
        for (int64_t i = begin * t->count; i < end * t->count; i++)
            low = pf_min(low, t->index[i]), high = pf_max(high, t->index[i]);
        if (high - low >= PF_VL) return;
        l->first[v] = low;
        if (l->whole == v && low + PF_VL <= a->isize[2] && begin + PF_VL <= outputs) l->whole++;
        for (int64_t j = 0; j < t->count; j++)
            for (int64_t o = begin; o < begin + PF_VL; o++) {
                const int64_t from = pf_min(o, end - 1) * t->count + j,
                              to = (v * t->count + j) * PF_VL + o - begin;
                l->lane[to] = (int32_t)(t->index[from] - low);
                l->weight[to] = t->weight ? t->weight[from] : 1.0f;
            }
    }
    l->vectors = vectors;
}

/* Single taps of weight one. */
static void pick_planned(const line_plan *l, const float *x, int64_t width, int64_t outputs, float *y) {
    int64_t v = 0;
    for (; v < l->whole; v++)
        pf_store(y + v * PF_VL, pf_permute(pf_load(x + l->first[v]), pf_loadi(&l->lane[v * PF_VL])));
    for (; v < l->vectors; v++) {
        const pf_vf near = pf_load_upto(x + l->first[v], width - l->first[v]);
        pf_store_upto(y + v * PF_VL, pf_permute(near, pf_loadi(&l->lane[v * PF_VL])), outputs - v * PF_VL);
    }
}

PF_INLINE void sum_planned(const line_plan *l, int64_t count, int64_t outputs, const float *line, int adds,
                           float *y) {
    for (int64_t v = 0; v < l->vectors; v++) {
        const pf_vf near = pf_load(line + l->first[v]);
        const int64_t left = outputs - v * PF_VL, at = v * count * PF_VL;
        pf_vf sum = adds ? pf_load_upto(y + v * PF_VL, left) : pf_zero();
        for (int64_t j = 0; j < count; j++)
            sum = pf_fma(pf_load(&l->weight[at + j * PF_VL]),
                         pf_permute(near, pf_loadi(&l->lane[at + j * PF_VL])), sum);
        pf_store_upto(y + v * PF_VL, sum, left);
    }
}

/* Weighted sums of `count` taps each along a line; a constant count makes the inner loop disappear. */
PF_INLINE void sum_taps(const taps *t, int64_t count, int64_t outputs, const float *line, int adds, float *y,
                        int64_t ys) {
    const int64_t *index = t->index;
    const float *weight = t->weight;
    for (int64_t o = 0; o < outputs; o++, index += count, weight += count, y += ys) {
        float sum = adds ? *y : 0.0f;
        for (int64_t j = 0; j < count; j++) sum += weight[j] * line[index[j]];
        *y = sum;
    }
}

/* The rows are blended to one line first, if it is contiguous and not too long; then the taps along it. */
static void resize_line(const pf_resize_args *a, const taps *t, const line_plan *l, const rows *r,
                        const float *x, float *y) {
    const int64_t ys = a->ys[PF_SPACE + 2], width = a->isize[2], outputs = a->osize[2];
    float line[LINE + PF_VL];
    if (!t->weight && l->vectors) {
        pick_planned(l, x + r->offset[0], width, outputs, y);
        return;
    }
    if (!t->weight) {
        for (int64_t o = 0; o < outputs; o++) y[o * ys] = x[r->offset[0] + t->index[o] * t->stride];
        return;
    }
    if (t->stride != 1 || width > LINE) {
        for (int64_t o = 0; o < outputs; o++) {
            float sum = r->adds ? y[o * ys] : 0.0f;
            for (int64_t j = o * t->count; j < (o + 1) * t->count; j++)
                for (int64_t k = 0; k < r->count; k++)
                    sum += t->weight[j] * r->weight[k] * x[r->offset[k] + t->index[j] * t->stride];
            y[o * ys] = sum;
        }
        return;
    }
    for (int64_t i = 0; i < width; i += PF_VL) {
        pf_vf v = pf_zero();
        for (int64_t k = 0; k < r->count; k++)
            v = pf_fma(pf_set(r->weight[k]), pf_load_upto(x + r->offset[k] + i, width - i), v);
        pf_store(line + i, v);
    }
    pf_store(line + pf_ceil_div(width, PF_VL) * PF_VL, pf_zero());
    if (l->vectors && t->count == 2 && !r->adds)
        sum_planned(l, 2, outputs, line, 0, y);
    else if (l->vectors && t->count == 4 && !r->adds)
        sum_planned(l, 4, outputs, line, 0, y);
    else if (l->vectors)
        sum_planned(l, t->count, outputs, line, r->adds, y);
    else if (t->count == 2 && !r->adds)
        sum_taps(t, 2, outputs, line, 0, y, ys);
    else if (t->count == 4 && !r->adds)
        sum_taps(t, 4, outputs, line, 0, y, ys);
    else
        sum_taps(t, t->count, outputs, line, r->adds, y, ys);
}

/* A line of the output: image, channel, depth and height. */
typedef struct line_place {
    int64_t n, c, d, h;
} line_place;

static line_place place_of(const pf_resize_args *a, int64_t channels, int64_t line) {
    const int64_t plane = line / a->osize[1], volume = plane / a->osize[0];
    return (line_place){volume / channels, volume % channels, plane % a->osize[0], line % a->osize[1]};
}

static void next_place(line_place *p, const pf_resize_args *a, int64_t channels) {
    if (++p->h < a->osize[1]) return;
    p->h = 0;
    if (++p->d < a->osize[0]) return;
    p->d = 0;
    if (++p->c == channels) p->c = 0, p->n++;
}

PF_KERNEL_FUNCTION(resize) {
    const pf_resize_args *a = args_;
    const int last = a->c > 1 && a->xs[PF_CHANNEL] == 1 && a->ys[PF_CHANNEL] == 1;
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    const int64_t channels = last ? 1 : a->c;
    taps t[PF_AXES];
    line_plan plan;
    find_taps(a, w, t);
    if (!last) plan_line(&plan, a, &t[2]);
    int64_t begin, end;
    pf_share(w, a->n * channels * a->osize[0] * a->osize[1], 1, &begin, &end);
    line_place p = place_of(a, channels, begin);
    for (int64_t i = begin; i < end; i++, next_place(&p, a, channels)) {
        const float *from = x + p.n * a->xs[PF_IMAGE] + p.c * a->xs[PF_CHANNEL];
        float *to = y + p.n * a->ys[PF_IMAGE] + p.c * a->ys[PF_CHANNEL] + p.d * a->ys[PF_SPACE] +
                    p.h * a->ys[PF_SPACE + 1];
        for (int64_t first = 0; first < t[0].count * t[1].count; first += ROWS) {
            rows r;
            collect_rows(t, p.d, p.h, first, &r);
            if (last)
                resize_pixels(a, &t[2], &r, from, to);
            else
                resize_line(a, &t[2], &plan, &r, from, to);
        }
    }
}
