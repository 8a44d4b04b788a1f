/* Convolution of few input channels, as at the entrance of a network. Input rows are copied, channels
 * innermost and padded, into a ring of rows in scratch memory; there all columns of a filter row lie side by
 * side, so that a k x k window is k taps of k * channels numbers. Reads plain and channels-last images alike;
 * weights are those of conv_f32. */
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/tile.h"
#include "kernels/transpose.h"

enum { WANTED_UNITS = 16, LEAST_ROWS = 4, LEAST_PIXELS = 512, LARGEST_FILTER = 32, GAP = 16 };

/* When windows are copied, to lie whole behind each other, so that tiles follow each other in one function.
 * Where registers are few, tiles are small, and taps of so few numbers cost more than their sums. Weights of
 * so many bytes do not stay in L2, and should meet the pixels of some output rows, whose windows do. */
enum { SHORT_TAP = PF_REGISTERS == 16 ? 16 : 0, HEAVY_BYTES = 512 << 10, WINDOW_BYTES = 512 << 10 };

typedef struct stem {
    const pf_stem_args *a;
    int64_t span;     /* rows of the ring: what one output row needs */
    int64_t row;      /* floats of a ring row */
    int64_t pixels;   /* of a ring row */
    int64_t per_unit; /* output rows of a unit */
    int64_t units;    /* of rows, per image */
    int64_t parts;    /* of an output row: few long rows, as those of sound, are cut */
    int64_t tiles;    /* of a part */
    int64_t thread_floats;
    int64_t copied; /* output rows whose windows are copied at a time; 0: none */
    int in_place;   /* windows that follow each other in a row of the ring need no copy */
    int rows;
    pf_pointers x_steps, y_steps, z_steps;
} stem;

static int64_t rows_to_copy(const stem *s, int64_t width) {
    const pf_stem_args *a = s->a;
    const int64_t depth_bytes = a->kh * a->kw * a->ic * (int64_t)sizeof(float);
    const int64_t most = WINDOW_BYTES / pf_max(1, width * depth_bytes);
    if (depth_bytes * a->oc > HEAVY_BYTES && most > 0) return pf_min(most, s->per_unit);
    return a->kw * a->ic < SHORT_TAP && width * s->rows >= PF_RUN_LEAST;
}

/* For parts of output rows that are `width` pixels long. */
static void set_width(stem *s, int64_t width) {
    s->pixels = (width - 1) * s->a->stride_w + s->a->kw;
    s->tiles = pf_ceil_div(width, s->rows);
}

/* With output rows cut into so many parts; 0: as many as suit. */
static stem plan_stem(const pf_stem_args *a, int64_t parts) {
    stem s = {.a = a, .span = (a->kh - 1) * a->dil_h + 1, .rows = pf_panel_rows(a->oc)};
    s.per_unit = pf_max(LEAST_ROWS, pf_ceil_div(a->oh * a->n, WANTED_UNITS));
    s.units = pf_ceil_div(a->oh, s.per_unit);
    s.parts = parts ? parts : pf_max(1, pf_min(a->ow / LEAST_PIXELS, WANTED_UNITS / (a->n * s.units)));
    const int64_t width = pf_ceil_div(a->ow, s.parts);
    set_width(&s, width);
    s.row = pf_ceil_div(s.pixels * a->ic, GAP) * GAP + GAP;
    s.in_place = a->kh == 1 && a->stride_w == a->kw;
    s.copied = s.in_place ? 1 : rows_to_copy(&s, width);
    s.thread_floats = s.span * s.row;
    if (s.copied && !s.in_place)
        s.thread_floats += pf_ceil_div(s.copied * width * a->kh * a->kw * a->ic, GAP) * GAP + GAP;
    pf_tile_steps(&s.x_steps, a->stride_w * a->ic);
    pf_tile_steps(&s.y_steps, a->ysw);
    pf_tile_steps(&s.z_steps, a->zsw);
    return s;
}

/* The plan for `width` pixels of each output row from x0 on: an image whose left side is cut off, as padding
 * below zero does. */
static stem plan_part(const stem *s, int64_t x0, int64_t width, pf_stem_args *own) {
    stem part = *s;
    *own = *s->a;
    own->ow = width, own->pad_w -= x0 * own->stride_w;
    part.a = own;
    set_width(&part, width);
    return part;
}

/* Copies input row iy of an image into a ring row; rows outside of the image are zero. */
static void load_row(const stem *s, const float *image, int64_t iy, float *to) {
    const pf_stem_args *a = s->a;
    const int64_t left = pf_max(0, pf_min(a->pad_w, s->pixels)), first = pf_max(0, -a->pad_w);
    const int64_t count = pf_max(0, pf_min(a->iw - first, s->pixels - left));
    if (iy < 0 || iy >= a->ih) {
        memset(to, 0, (size_t)(s->pixels * a->ic) * sizeof(float));
        return;
    }
    const float *from = image + iy * a->xsh + first * a->xsw;
    memset(to, 0, (size_t)(left * a->ic) * sizeof(float));
    float *inside = to + left * a->ic, *behind = inside + count * a->ic;
    if (a->xsc == 1 && a->xsw == a->ic) {
        memcpy(inside, from, (size_t)(count * a->ic) * sizeof(float));
    } else if (a->xsw == 1) {
        const pf_plane plane = {a->ic, count, a->xsc, 1, 1, a->ic};
        pf_transpose(&plane, from, inside);
    } else {
        for (int64_t p = 0; p < count; p++)
            for (int64_t c = 0; c < a->ic; c++) inside[p * a->ic + c] = from[p * a->xsw + c * a->xsc];
    }
    memset(behind, 0, (size_t)((s->pixels - left - count) * a->ic) * sizeof(float));
}

/* One row of output, all panels; `ring` holds the rows that it reads. */
static void run_row(const stem *s, const float *ring, int64_t oy, pf_tile *t, const float *w, float *y,
                    const float *z) {
    const pf_stem_args *a = s->a;
    const int64_t depth = a->kh * a->kw * a->ic, columns = pf_ceil_div(a->oc, PF_VL), top = oy * a->stride_h;
    pf_tap table[LARGEST_FILTER];
    pf_pointers y_rows, z_rows;
    t->taps = table, t->y = (float *const *)&y_rows;
    t->z = z && !a->z_late ? (const float *const *)&z_rows : NULL;
    t->late = z && a->z_late ? (const float *const *)&z_rows : NULL;
    float *y_row = y + oy * a->ysh;
    const float *z_row = z ? z + oy * a->zsh : NULL;
    for (int64_t tile = 0, x0 = 0; tile < s->tiles; tile++) {
        const int rows = (int)(a->ow * (tile + 1) / s->tiles - x0);
        for (int64_t ky = 0, slot = top % s->span; ky < a->kh; ky++) {
            const float *row = ring + slot * s->row + x0 * a->stride_w * a->ic;
            *(pf_pointers *)&table[ky] = s->x_steps + (int64_t)(uintptr_t)row;
            table[ky].number = ky;
            slot += a->dil_h;
            if (slot >= s->span) slot -= s->span;
        }
        y_rows = s->y_steps + (int64_t)(uintptr_t)(y_row + x0 * a->ysw);
        if (z) z_rows = s->z_steps + (int64_t)(uintptr_t)(z_row + x0 * a->zsw);
        for (int64_t v = 0; v < columns;) {
            const int vectors = pf_panel_vectors(columns - v);
            t->bstep = vectors * PF_VL, t->btap = t->k * t->bstep;
            t->column = v * PF_VL, t->n = pf_min(t->bstep, a->oc - t->column);
            t->b = w + t->column * depth;
            pf_tile_run(vectors, rows, t);
            v += vectors;
        }
        x0 += rows;
    }
}

/* Copies the windows of an output row, whose lines take so many vectors. These may pass the end of a line:
 * what comes next is written later, and there is room behind the last one. */
PF_INLINE void copy_lines(const stem *s, const float *const *line, const int64_t vectors, float *to) {
    const pf_stem_args *a = s->a;
    const int64_t n = a->kw * a->ic, step = a->stride_w * a->ic;
    for (int64_t x = 0; x < a->ow * step; x += step) {
        for (int64_t ky = 0; ky < a->kh; ky++, to += n) {
            PF_UNROLL for (int64_t v = 0; v < vectors; v++)
                pf_store(to + v * PF_VL, pf_load(line[ky] + x + v * PF_VL));
        }
    }
}

static void copy_windows(const stem *s, const float *ring, int64_t oy, float *to) {
    const pf_stem_args *a = s->a;
    const float *line[LARGEST_FILTER];
    for (int64_t ky = 0; ky < a->kh; ky++)
        line[ky] = ring + (oy * a->stride_h + ky * a->dil_h) % s->span * s->row;
    switch (pf_ceil_div(a->kw * a->ic, PF_VL)) {
    case 1:
        copy_lines(s, line, 1, to);
        break;
    case 2:
        copy_lines(s, line, 2, to);
        break;
    default:
        copy_lines(s, line, pf_ceil_div(a->kw * a->ic, PF_VL), to);
    }
}

/* Pixels that follow each other in y and z, from their windows. Tiles differ by at most one row. */
static void run_windows(const stem *s, const float *windows, int64_t pixels, const pf_tile *t, const float *w,
                        float *y, const float *z) {
    const pf_stem_args *a = s->a;
    const int64_t depth = a->kh * a->kw * a->ic, columns = pf_ceil_div(a->oc, PF_VL);
    const int late = a->z_late || pf_act_is_late(t->act.code);
    pf_waiting waiting;
    waiting.turn = waiting.rows = 0;
    pf_run r = {.k = depth, .xstep = depth, .ystep = a->ysw, .zstep = a->zsw, .act = t->act};
    r.z_late = a->z_late, r.waiting = &waiting;
    for (int64_t v = 0, vectors; v < columns; v += vectors) {
        const int64_t column = v * PF_VL;
        vectors = pf_panel_vectors(columns - v);
        r.b = w + column * depth, r.n = pf_min(vectors * PF_VL, a->oc - column);
        r.bias = t->bias ? t->bias + column : NULL;
        const int64_t tiles = pf_ceil_div(pixels, pf_min(s->rows, pf_tile_rows((int)vectors)));
        for (int64_t x0 = 0, rows; x0 < pixels; x0 += r.tiles * rows) {
            rows = x0 ? pixels / tiles : pf_ceil_div(pixels, tiles);
            r.tiles = x0 ? (pixels - x0) / rows : tiles - (tiles * rows - pixels);
            r.x = windows + x0 * depth, r.y = y + x0 * a->ysw + column;
            r.z = z ? z + x0 * a->zsw + column : NULL;
            pf_run_of(&r, late, vectors, rows)(&r);
        }
    }
    PF_NAME(finish_run)(&waiting);
}

/* Output rows [oy, oy + count) from their windows: at once, where they follow each other. */
static void run_copied(const stem *s, const float *windows, int64_t oy, int64_t count, const pf_tile *t,
                       const float *w, float *y, const float *z) {
    const pf_stem_args *a = s->a;
    const int dense = a->ysh == a->ow * a->ysw && (!z || a->zsh == a->ow * a->zsw);
    const int64_t at_once = dense ? count : 1, depth = a->kh * a->kw * a->ic;
    y += oy * a->ysh;
    if (z) z += oy * a->zsh;
    for (int64_t i = 0; i < count; i += at_once)
        run_windows(s, windows + i * a->ow * depth, at_once * a->ow, t, w, y + i * a->ysh,
                    z ? z + i * a->zsh : NULL);
}

/* Has the ring hold what output row oy reads; rows below `ready`, counted from the top of the padding, were
 * loaded before. Returns the new bound. */
static int64_t load_rows(const stem *s, const float *image, int64_t oy, int64_t ready, float *ring) {
    const int64_t first = oy * s->a->stride_h;
    for (ready = pf_max(ready, first); ready < first + s->span; ready++)
        load_row(s, image, ready - s->a->pad_h, ring + ready % s->span * s->row);
    return ready;
}

/* Output rows [oy0, oy1) of an image, or a part of each; x, y and z: of that image and part. */
static void run_unit(const stem *s, const float *x, int64_t oy0, int64_t oy1, float *ring, pf_tile *t,
                     const float *w, float *y, const float *z) {
    const pf_stem_args *a = s->a;
    const int64_t depth = a->kh * a->kw * a->ic;
    float *windows = s->in_place ? ring : ring + s->span * s->row;
    for (int64_t oy = oy0, ready = oy0 * a->stride_h, count; oy < oy1; oy += count) {
        count = pf_max(1, pf_min(s->copied, oy1 - oy));
        for (int64_t i = 0; i < count; i++) {
            ready = load_rows(s, x, oy + i, ready, ring);
            if (s->copied && !s->in_place) copy_windows(s, ring, oy + i, windows + i * a->ow * depth);
        }
        if (s->copied)
            run_copied(s, windows, oy, count, t, w, y, z);
        else
            run_row(s, ring, oy, t, w, y, z);
    }
}

PF_KERNEL_FUNCTION(conv_stem_f32) {
    const pf_stem_args *a = args_;
    const float *x = pf_ptr(w, a->x), *z = pf_ptr(w, a->z), *weights = pf_ptr(w, a->w);
    float *y = pf_ptr(w, a->y);
    if (a->n * a->oh * a->ow * a->oc == 0) return;
    const stem s = plan_stem(a, 0);
    float *ring = (float *)pf_ptr(w, a->scratch) + w->tid * s.thread_floats;
    pf_tile t = {.ntaps = a->kh,
                 .k = a->kw * a->ic,
                 .bias = pf_ptr(w, a->bias),
                 .first = 1,
                 .last = 1,
                 .act = pf_act_make(a->act, a->act_a, a->act_b)};
    const int64_t per_image = s.units * s.parts, units = a->n * per_image;
    for (int64_t u = pf_claim_near(w, units); u < units; u = pf_claim_near(w, units)) {
        const int64_t image = u / per_image, part = u % s.parts, oy0 = u % per_image / s.parts * s.per_unit;
        const int64_t x0 = a->ow * part / s.parts, x1 = a->ow * (part + 1) / s.parts;
        pf_stem_args own;
        const stem of_part = plan_part(&s, x0, x1 - x0, &own);
        run_unit(&of_part, x + image * a->xsn, oy0, pf_min(oy0 + s.per_unit, a->oh), ring, &t, weights,
                 y + image * a->ysn + x0 * a->ysw, z ? z + image * a->zsn + x0 * a->zsw : NULL);
    }
}

PF_PLAN_FUNCTION(conv_stem_f32) {
    const pf_stem_args *a = args_;
    const int64_t columns = pf_ceil_div(a->oc, PF_VL) * PF_VL;
    plan->variant = 0;
    plan->packed_bytes = a->kh * a->kw * a->ic * columns * (int64_t)sizeof(float);
    if (a->n * a->oh * a->ow * a->oc == 0) return;
    const stem s = plan_stem(a, 0);
    /* Strips of the image have fewer rows, which are cut into more parts. */
    int64_t most = s.thread_floats;
    for (int64_t parts = 1; parts <= pf_min(a->ow / LEAST_PIXELS, WANTED_UNITS); parts++)
        most = pf_max(most, plan_stem(a, parts).thread_floats);
    plan->scratch_bytes = nthreads * most * (int64_t)sizeof(float);
    snprintf(plan->label, sizeof plan->label, "stem %dx%d", s.rows, pf_panel_usual(a->oc) * PF_VL);
}
