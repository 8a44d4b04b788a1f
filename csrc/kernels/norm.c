/* Normalisations: of rows (layer and root-mean-square norm, with an optional residual), of groups of channels
 * (group and instance norm), and the affine map a batch norm becomes when its statistics are known. */
#include <float.h>
#include <math.h>

#include "kernels/epilogue.h"
#include "kernels/moments.h"

/* -- rows -- */

static void add_rows(const float *x, const float *z, float *s, int64_t n) {
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(s + i, pf_load(x + i) + pf_load(z + i));
    if (i < n) pf_storen(s + i, pf_loadn(x + i, n - i) + pf_loadn(z + i, n - i), n - i);
}

/* y = (x - mean) scale + rest, where mean + rest / -scale is the exact mean: its rounding would show where it
 * is large. With an infinite scale it would decide between infinity and NaN; there y = x scale + rest, and
 * what is infinite in float32 counts as that. */
typedef struct centring {
    float mean, scale, rest;
} centring;

static centring centre(double mean, double scale, double shift) {
    if (isinf((float)scale)) return (centring){0.0f, (float)scale, (float)(shift - mean * (float)scale)};
    const float middle = (float)mean;
    return (centring){middle, (float)scale, (float)(shift - (mean - middle) * scale)};
}

/* w or b may be NULL. */
PF_INLINE void normalize_part(const float *x, const float *w, const float *b, float *y, centring c,
                              int64_t n) {
    pf_vf v = pf_fma(pf_load_upto(x, n) - c.mean, pf_set(c.scale), pf_set(c.rest));
    if (w) v *= pf_load_upto(w, n);
    if (b) v += pf_load_upto(b, n);
    pf_store_upto(y, v, n);
}

static void normalize_row(const float *x, const float *w, const float *b, float *y, int64_t n, centring c) {
    int64_t i = 0;
    if (w && b)
        for (; i + PF_VL <= n; i += PF_VL) normalize_part(x + i, w + i, b + i, y + i, c, PF_VL);
    else if (w)
        for (; i + PF_VL <= n; i += PF_VL) normalize_part(x + i, w + i, NULL, y + i, c, PF_VL);
    for (; i < n; i += PF_VL) normalize_part(x + i, w ? w + i : NULL, b ? b + i : NULL, y + i, c, n - i);
}

static centring row_centring(const pf_row_norm_args *a, const float *x) {
    if (a->rms) {
        double squares = 0;
        for (int64_t i = 0; i < a->n; i += PF_MOMENT_BLOCK)
            squares += pf_moment_pass(x + i, pf_min(PF_MOMENT_BLOCK, a->n - i), 0.0f).squares;
        return (centring){0, (float)(1.0 / sqrt(squares / (double)a->n + a->eps)), 0};
    }
    if (a->n <= PF_MOMENT_BLOCK) {
        const double share = 1.0 / (double)a->n;
        const float shift = (float)(pf_moment_pass(x, a->n, 0.0f).sum * share);
        const pf_sums p = pf_moment_pass(x, a->n, shift);
        const double var = (p.squares - p.sum * p.sum * share) * share;
        return centre(shift + p.sum * share, 1.0 / sqrt(pf_not_negative(var) + a->eps), 0);
    }
    pf_moments m = {0, 0, 0};
    pf_moments_add(&m, x, a->n);
    return centre(m.mean, 1.0 / sqrt(m.m2 / m.n + a->eps), 0);
}

/* Rows so short that a vector's worth of them stays in the L1 cache: each lane finds the statistics of a row,
 * as roots and quotients of one row after the other would take longer than its elements. */
enum { TOGETHER = PF_VL, SHORT = 256 };

typedef struct row_place {
    int64_t at[PF_MAX_RANK], x, z, y, s; /* offsets in elements */
} row_place;

static void next_row(row_place *p, const pf_row_norm_args *a) {
    for (int64_t d = a->rank - 1; d >= 0; d--) {
        const int64_t step = ++p->at[d] < a->shape[d] ? 1 : 1 - a->shape[d];
        p->x += step * a->xs[d], p->z += step * a->zs[d], p->y += step * a->ys[d], p->s += step * a->ss[d];
        if (step == 1) return;
        p->at[d] = 0;
    }
}

static row_place find_row(const pf_row_norm_args *a, int64_t i) {
    row_place p = {{0}, 0, 0, 0, 0};
    for (int64_t d = a->rank - 1; d >= 0; i /= a->shape[d--]) {
        const int64_t k = p.at[d] = i % a->shape[d];
        p.x += k * a->xs[d], p.z += k * a->zs[d], p.y += k * a->ys[d], p.s += k * a->ss[d];
    }
    return p;
}

static void centre_together(const pf_row_norm_args *a, const float *const *x, int64_t count, centring *c) {
    float mean[TOGETHER] = {0}, sum[TOGETHER] = {0}, squares[TOGETHER] = {0}, scale[TOGETHER], rest[TOGETHER];
    const float share = 1.0f / (float)a->n;
    for (int64_t i = 0; i < count && !a->rms; i++)
        mean[i] = (float)pf_moment_pass(x[i], a->n, 0.0f).sum * share;
    for (int64_t i = 0; i < count; i++) {
        const pf_sums p = pf_moment_pass(x[i], a->n, mean[i]);
        sum[i] = a->rms ? 0.0f : (float)p.sum, squares[i] = (float)p.squares;
    }
    const pf_vf shift = pf_load(mean), further = pf_load(sum) * share, exact = shift + further;
    /* Squares that overflow stay infinite, though those of the sum may do so, too. */
    const pf_vf mean_square = pf_load(squares) * share;
    const pf_vf var = pf_select(mean_square < INFINITY, mean_square - further * further, mean_square);
    const pf_vf factor = 1.0f / pf_vsqrt(pf_select(var < 0.0f, pf_zero(), var) + (float)a->eps);
    pf_store(scale, factor);
    pf_store(rest, ((exact - shift) - further) * factor);
    pf_store(mean, exact);
    for (int64_t i = 0; i < count; i++) c[i] = (centring){mean[i], scale[i], rest[i]};
}

PF_KERNEL_FUNCTION(row_norm) {
    const pf_row_norm_args *a = args_;
    const float *x = pf_ptr(w, a->x), *z = pf_ptr(w, a->z), *weight = pf_ptr(w, a->w),
                *bias = pf_ptr(w, a->b);
    float *y = pf_ptr(w, a->y), *s = pf_ptr(w, a->s);
    /* Single precision must hold what keeps a constant row finite. */
    const int together = a->n <= SHORT && (a->eps == 0.0 || a->eps >= FLT_MIN);
    int64_t rows = 1, begin, end, count;
    for (int64_t d = 0; d < a->rank; d++) rows *= a->shape[d];
    pf_share(w, rows, 1, &begin, &end);
    row_place p = begin < end ? find_row(a, begin) : (row_place){{0}, 0, 0, 0, 0};
    for (int64_t i = begin; i < end; i += count) {
        const float *from[TOGETHER];
        float *to[TOGETHER];
        centring c[TOGETHER];
        count = pf_min(together ? TOGETHER : 1, end - i);
        for (int64_t k = 0; k < count; k++, next_row(&p, a)) {
            from[k] = x + p.x, to[k] = y + p.y;
            if (!z) continue;
            float *sum = s ? s + p.s : to[k];
            add_rows(from[k], z + p.z, sum, a->n);
            from[k] = sum;
        }
        if (together)
            centre_together(a, from, count, c);
        else
            c[0] = row_centring(a, from[0]);
        for (int64_t k = 0; k < count; k++) normalize_row(from[k], weight, bias, to[k], a->n, c[k]);
    }
}

/* -- channels -- */

enum { COLUMNS = PF_MOMENT_CHUNK * PF_VL, WIDEST = 64, STRIP = 64 };

static pf_nest space_of(const pf_channels_args *a) {
    return pf_nest_make(a->rank, a->shape, a->xs + PF_SPACE, a->ys + PF_SPACE, NULL);
}

/* The centrings of up to COLUMNS neighbouring channels. */
typedef struct column_maps {
    float mean[COLUMNS], scale[COLUMNS], rest[COLUMNS];
} column_maps;

static void set_column(column_maps *m, int64_t k, centring c) {
    m->mean[k] = c.mean, m->scale[k] = c.scale, m->rest[k] = c.rest;
}

/* Zeros behind n channels in the last vector: what memory held might be denormal, which takes long. */
static void fill_columns(column_maps *m, int64_t n) {
    for (; n % PF_VL; n++) set_column(m, n, (centring){0.0f, 0.0f, 0.0f});
}

/* Applied to n channels of the pixels [begin, end): runs along the innermost spatial dimension, vector after
 * vector. */
static void map_columns(const pf_channels_args *a, const pf_nest *space, const float *x, float *y,
                        const column_maps *m, int64_t n, int64_t begin, int64_t end) {
    const pf_activation act = pf_act_make(a->act, a->act_a, a->act_b);
    const int64_t last = space->rank - 1, xs = last < 0 ? 0 : space->s[0][last],
                  ys = last < 0 ? 0 : space->s[1][last];
    int64_t run;
    for (int64_t i = begin; i < end; i += run) {
        pf_walk p;
        pf_walk_start(&p, space, i);
        run = last < 0 ? 1 : pf_min(pf_min(end - i, STRIP), space->n[last] - p.at[last]);
        const float *from = x + p.o[0];
        float *to = y + p.o[1];
        for (int64_t c = 0; c < n; c += PF_VL) {
            const pf_vf mean = pf_load(m->mean + c), scale = pf_load(m->scale + c),
                        rest = pf_load(m->rest + c);
            const int64_t lanes = n - c;
            for (int64_t j = 0; j < run; j++) {
                pf_vf v = pf_fma(pf_load_upto(from + j * xs + c, lanes) - mean, scale, rest);
                pf_act_early(&act, &v, 1);
                pf_store_upto(to + j * ys + c, v, lanes);
            }
        }
        pf_act_late(act.code, to, ys, run, n);
    }
}

/* The same for n neighbouring pixels of one channel; returns how many of them are done. */
static int64_t map_vectors(const pf_activation *act, const float *x, float *y, int64_t n, centring c) {
    enum { COUNT = 4 };
    const pf_vf mean = pf_set(c.mean), scale = pf_set(c.scale), rest = pf_set(c.rest);
    int64_t i = 0;
    if (pf_act_is_late(act->code)) return 0;
    for (; i + COUNT * PF_VL <= n; i += COUNT * PF_VL) {
        pf_vf v[COUNT];
        PF_UNROLL
        for (int k = 0; k < COUNT; k++) v[k] = pf_fma(pf_load(x + i + k * PF_VL) - mean, scale, rest);
        pf_act_early(act, v, COUNT);
        PF_UNROLL
        for (int k = 0; k < COUNT; k++) pf_store(y + i + k * PF_VL, v[k]);
    }
    return i;
}

/* The same for one channel whose pixels need not be neighbours of those of others. */
static void map_channel(const pf_channels_args *a, pf_nest space, const float *x, float *y, centring c) {
    const pf_activation act = pf_act_make(a->act, a->act_a, a->act_b);
    const int64_t last = space.rank - 1, n = last >= 0 ? space.n[last] : 1;
    const int64_t xs = last >= 0 ? space.s[0][last] : 1, ys = last >= 0 ? space.s[1][last] : 1;
    if (last >= 0) pf_nest_remove(&space, last);
    pf_walk p;
    pf_walk_start(&p, &space, 0);
    for (int64_t i = 0; i < space.total; i++, pf_walk_next(&p, &space)) {
        const float *from = x + p.o[0];
        float *to = y + p.o[1];
        for (int64_t k = xs == 1 && ys == 1 ? map_vectors(&act, from, to, n, c) : 0; k < n; k += PF_VL) {
            const int64_t m = pf_min(PF_VL, n - k);
            pf_vf v = pf_zero();
            if (xs == 1)
                v = pf_load_upto(from + k, m);
            else
                for (int64_t j = 0; j < m; j++) v[j] = from[(k + j) * xs];
            v = pf_act_vector(&act, pf_fma(v - c.mean, pf_set(c.scale), pf_set(c.rest)));
            if (ys == 1)
                pf_store_upto(to + k, v, m);
            else
                for (int64_t j = 0; j < m; j++) to[(k + j) * ys] = v[j];
        }
    }
}

static void add_channel(pf_moments *m, pf_nest space, const float *x) {
    const int64_t last = space.rank - 1, n = last >= 0 ? space.n[last] : 1,
                  step = last >= 0 ? space.s[0][last] : 1;
    if (last >= 0) pf_nest_remove(&space, last);
    pf_walk p;
    pf_walk_start(&p, &space, 0);
    for (int64_t i = 0; i < space.total; i++, pf_walk_next(&p, &space)) {
        if (step == 1) {
            pf_moments_add(m, x + p.o[0], n);
            continue;
        }
        for (int64_t k = 0; k < n; k += PF_MOMENT_BLOCK / 4) {
            float block[PF_MOMENT_BLOCK / 4];
            const int64_t count = pf_min(PF_MOMENT_BLOCK / 4, n - k);
            for (int64_t j = 0; j < count; j++) block[j] = x[p.o[0] + (k + j) * step];
            pf_moments_add(m, block, count);
        }
    }
}

/* The map of channel c, whose group has moments m. */
static centring channel_centring(const pf_moments *m, double eps, const float *w, const float *b, int64_t c) {
    return centre(m->mean, (w ? w[c] : 1.0) / sqrt(m->m2 / m->n + eps), b ? b[c] : 0.0);
}

/* Groups [g, g + count) of one image: channels in chunks of columns. */
static void norm_groups_last(const pf_channels_args *a, const pf_nest *space, const float *x, float *y,
                             const float *w, const float *b, int64_t g, int64_t count) {
    const int64_t size = a->c / a->groups, first = g * size, end = (g + count) * size;
    pf_moments group[WIDEST] = {{0, 0, 0}};
    for (int64_t c = first; c < end; c += COLUMNS) {
        const int64_t n = pf_min(COLUMNS, end - c);
        pf_column_moments m;
        pf_moments_of_columns(&m, x + c, space, n);
        for (int64_t k = 0; k < n; k++)
            pf_moments_merge(&group[(c + k - first) / size], m.n, m.mean[k], m.m2[k]);
    }
    for (int64_t c = first; c < end; c += COLUMNS) {
        column_maps maps;
        const int64_t n = pf_min(COLUMNS, end - c);
        for (int64_t k = 0; k < n; k++)
            set_column(&maps, k, channel_centring(&group[(c + k - first) / size], a->eps, w, b, c + k));
        fill_columns(&maps, n);
        map_columns(a, space, x + c, y + c, &maps, n, 0, space->total);
    }
}

static void norm_group(const pf_channels_args *a, const pf_nest *space, const float *x, float *y,
                       const float *w, const float *b, int64_t g) {
    const int64_t size = a->c / a->groups;
    pf_moments m = {0, 0, 0};
    for (int64_t c = g * size; c < (g + 1) * size; c++) add_channel(&m, *space, x + c * a->xs[PF_CHANNEL]);
    for (int64_t c = g * size; c < (g + 1) * size; c++)
        map_channel(a, *space, x + c * a->xs[PF_CHANNEL], y + c * a->ys[PF_CHANNEL],
                    channel_centring(&m, a->eps, w, b, c));
}

/* Weights that are infinite, or may become so in the scale, belong to it (see centring), which rows do not
 * know. */
static int stay_finite(const float *w, int64_t n) {
    pf_vf zeros = pf_zero();
    for (int64_t i = 0; w && i < n; i += PF_VL) zeros += pf_load_upto(w + i, n - i) * 0x1p20f * 0.0f;
    return !isnan(pf_hsum(zeros));
}

/* Channels of one pixel: a group is a row. */
static void norm_group_row(const pf_channels_args *a, const float *x, float *y, const float *w,
                           const float *b, int64_t g) {
    const pf_activation act = pf_act_make(a->act, a->act_a, a->act_b);
    const int64_t size = a->c / a->groups, first = g * size;
    float *row = y + first;
    pf_moments m = {0, 0, 0};
    pf_moments_add(&m, x + first, size);
    normalize_row(x + first, w ? w + first : NULL, b ? b + first : NULL, row, size,
                  centre(m.mean, 1.0 / sqrt(m.m2 / m.n + a->eps), 0));
    pf_act_late(act.code, row, 0, 1, size);
    if (act.code == PF_ACT_NONE || pf_act_is_late(act.code)) return;
    for (int64_t i = 0; i < size; i += PF_VL) {
        pf_vf v = pf_load_upto(row + i, size - i);
        pf_act_early(&act, &v, 1);
        pf_store_upto(row + i, v, size - i);
    }
}

static int is_channels_last(const pf_channels_args *a) {
    return a->c > 1 && a->xs[PF_CHANNEL] == 1 && a->ys[PF_CHANNEL] == 1;
}

/* Channels-last work is cut into whole groups, of about so many channels that all threads get some. */
PF_KERNEL_FUNCTION(group_norm) {
    const pf_channels_args *a = args_;
    const float *x = pf_ptr(w, a->x), *weight = pf_ptr(w, a->w), *bias = pf_ptr(w, a->b);
    float *y = pf_ptr(w, a->y);
    const pf_nest space = space_of(a);
    if (a->n * a->c * space.total == 0) return;
    int64_t width = WIDEST, begin, end;
    while (width > 16 && a->n * a->c < width * 2 * w->nthreads) width /= 2;
    const int last = is_channels_last(a), one_pixel = last && space.total == 1 && stay_finite(weight, a->c);
    const int64_t count = last && !one_pixel ? pf_max(1, width / (a->c / a->groups)) : 1;
    const int64_t blocks = pf_ceil_div(a->groups, count);
    pf_share(w, a->n * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / blocks, g = i % blocks * count;
        const float *image = x + n * a->xs[PF_IMAGE];
        if (one_pixel)
            norm_group_row(a, image, y + n * a->ys[PF_IMAGE], weight, bias, g);
        else if (last)
            norm_groups_last(a, &space, image, y + n * a->ys[PF_IMAGE], weight, bias, g,
                             pf_min(count, a->groups - g));
        else
            norm_group(a, &space, image, y + n * a->ys[PF_IMAGE], weight, bias, g);
    }
}

static centring affine(const float *w, const float *b, int64_t c) {
    return (centring){0.0f, w ? w[c] : 1.0f, b ? b[c] : 0.0f};
}

/* Channels-last images are cut into strips of pixels, others into channels. */
PF_KERNEL_FUNCTION(channel_affine) {
    const pf_channels_args *a = args_;
    const float *x = pf_ptr(w, a->x), *weight = pf_ptr(w, a->w), *bias = pf_ptr(w, a->b);
    float *y = pf_ptr(w, a->y);
    const pf_nest space = space_of(a);
    const int last = is_channels_last(a);
    const int64_t blocks = last ? pf_ceil_div(space.total, STRIP) : a->c;
    int64_t begin, end;
    if (a->n * a->c * space.total == 0) return;
    pf_share(w, a->n * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t n = i / blocks, k = i % blocks;
        const float *from = x + n * a->xs[PF_IMAGE];
        float *to = y + n * a->ys[PF_IMAGE];
        if (!last) {
            map_channel(a, space, from + k * a->xs[PF_CHANNEL], to + k * a->ys[PF_CHANNEL],
                        affine(weight, bias, k));
            continue;
        }
        for (int64_t c = 0; c < a->c; c += COLUMNS) {
            column_maps maps;
            const int64_t m = pf_min(COLUMNS, a->c - c);
            for (int64_t j = 0; j < m; j++) set_column(&maps, j, affine(weight, bias, c + j));
            fill_columns(&maps, m);
            map_columns(a, &space, from + c, to + c, &maps, m, k * STRIP,
                        pf_min((k + 1) * STRIP, space.total));
        }
    }
}
