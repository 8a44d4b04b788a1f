/* Convolution as implicit GEMM: every output pixel is a row, every filter tap a run of input channels, found
 * by pointer. Padding is a row of zeros, so nothing is copied or gathered. Linear layers and 1x1 convolutions
 * are the case of one tap, two-dimensional convolutions that of depth one. Tiles and sums are cut by shape
 * alone, never by the number of threads: results do not depend on it. */
#include <stdio.h>
#include <string.h>

#include "kernels/conv_igemm_units.h"

enum { SIDE_LEAST = 8 /* panels that are worth taking some side by side */ };

static float zero_row[PF_IGEMM_ZEROS];

static void merge_dimensions(pf_conv3d_args *a) {
    const int pointwise = a->kd * a->kh * a->kw == 1 && a->stride_d == 1 && a->stride_h == 1 &&
                          a->stride_w == 1 && a->od == a->id && a->oh == a->ih && a->ow == a->iw &&
                          !(a->pad_d | a->pad_h | a->pad_w);
    const int no_z = a->z.base < 0;
    if (!pointwise) return;
    if (a->xsh == a->iw * a->xsw && a->ysh == a->ow * a->ysw && (no_z || a->zsh == a->ow * a->zsw)) {
        a->iw *= a->ih, a->ow *= a->oh;
        a->ih = a->oh = 1;
    }
    if (a->ih == 1 && a->xsd == a->iw * a->xsw && a->ysd == a->ow * a->ysw &&
        (no_z || a->zsd == a->ow * a->zsw)) {
        a->iw *= a->id, a->ow *= a->od;
        a->id = a->od = 1;
    }
    if (a->ih * a->id == 1 && a->xsn == a->iw * a->xsw && a->ysn == a->ow * a->ysw &&
        (no_z || a->zsn == a->ow * a->zsw)) {
        a->iw *= a->n, a->ow *= a->n;
        a->n = 1;
    }
}

static int is_padded(const pf_conv3d_args *a) {
    return a->pad_d > 0 || a->pad_h > 0 || a->pad_w > 0 ||
           (a->od - 1) * a->stride_d + (a->kd - 1) * a->dil_d - a->pad_d >= a->id ||
           (a->oh - 1) * a->stride_h + (a->kh - 1) * a->dil_h - a->pad_h >= a->ih ||
           (a->ow - 1) * a->stride_w + (a->kw - 1) * a->dil_w - a->pad_w >= a->iw;
}

/* Whether tile runs can do it. Negative padding, which phases of transposed convolutions have, moves the
 * first pixel, where runs take the input's own. */
static int has_runs(const pf_igemm *c) {
    const int64_t lines = c->a.n * c->a.od * c->a.oh, vectors = c->columns > PF_VL ? 2 : 1;
    const int moved = (c->a.pad_d | c->a.pad_h | c->a.pad_w) != 0;
    return lines == 1 && c->taps == 1 && c->a.groups == 1 && !c->padded && !moved && !c->narrow &&
           c->k_block == c->ic && c->pixels / c->tiles * vectors >= PF_RUN_LEAST;
}

static pf_igemm plan_conv(const pf_conv3d_args *args, int nthreads, int changed) {
    pf_igemm c = {.a = *args, .changed = changed};
    merge_dimensions(&c.a);
    c.ic = c.a.ic / c.a.groups;
    c.oc = c.a.oc / c.a.groups;
    c.taps = c.a.kd * c.a.kh * c.a.kw;
    c.pixels = c.a.n * c.a.od * c.a.oh * c.a.ow;
    c.narrow = c.a.variant == PF_DIRECT_NARROW;
    c.panels = c.narrow ? 1 : pf_panel_count(c.oc);
    c.columns = c.narrow ? c.oc : pf_ceil_div(c.oc, PF_VL) * PF_VL;
    if (c.pixels == 0 || c.oc == 0) return c;
    const int widest = pf_panel_widest(c.oc);
    const int64_t row_bytes = (c.narrow ? c.oc : widest * PF_VL) * (int64_t)sizeof(float);
    c.rows = c.narrow ? pf_narrow_rows(c.oc) : pf_panel_rows(c.oc);
    c.tiles = pf_ceil_div(c.pixels, c.rows);
    c.side = c.panels < SIDE_LEAST ? 1 : pf_side_panels(c.pixels);
    c.act = pf_act_make(c.a.act, c.a.act_a, c.a.act_b);
    c.padded = is_padded(&c.a);
    pf_igemm_choose_blocks(&c, row_bytes);
    c.joined = c.tap_block == c.taps && c.a.groups == 1 && c.a.dil_w == 1 && c.a.xsw == c.ic ? c.a.kw : 1;
    c.dense = c.taps == 1 && !c.padded && c.a.stride_w == 1 && c.a.xsw < 2 * c.ic;
    c.far = c.dense && c.pixels * c.ic * (int64_t)sizeof(float) >= PF_IGEMM_FAR_BYTES * (int64_t)nthreads;
    pf_tile_steps(&c.x_steps, c.a.stride_w * c.a.xsw);
    pf_tile_steps(&c.y_steps, c.a.ysw);
    pf_tile_steps(&c.z_steps, c.a.zsw);
    pf_igemm_choose_units(&c, row_bytes, nthreads);
    c.runs = has_runs(&c);
    c.late = c.a.z_late || pf_act_is_late(c.act.code);
    return c;
}

/* An output pixel. */
typedef struct place {
    int64_t image, oz, oy, ox;
} place;

/* The rows of one tile: where each pixel lies in x (tap 0, perhaps outside of the image), y and z. */
typedef struct tile_rows {
    int count, inside; /* inside: no tap of any row falls into the padding */
    place next;        /* first row of the tile to come */
    pf_pointers x, y, z;
} tile_rows;

static place place_of(const pf_igemm *c, int64_t pixel) {
    const pf_conv3d_args *a = &c->a;
    place p = {.ox = pixel % a->ow};
    pixel /= a->ow;
    p.oy = pixel % a->oh;
    pixel /= a->oh;
    p.oz = pixel % a->od;
    p.image = pixel / a->od;
    return p;
}

/* Moves on by n pixels that lie in one line. */
static void advance(const pf_igemm *c, place *p, int64_t n) {
    p->ox += n;
    if (p->ox < c->a.ow) return;
    p->ox = 0;
    if (++p->oy < c->a.oh) return;
    p->oy = 0;
    if (++p->oz < c->a.od) return;
    p->oz = 0;
    p->image++;
}

/* Rows from `row` on are those of the line that starts at `base`, whose first pixel is that row. */
PF_INLINE void splice(pf_pointers *out, const pf_pointers *steps, uintptr_t base, int row) {
    if (row == 0) {
        *out = *steps + (int64_t)base;
        return;
    }
    const pf_pointers lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const pf_pointers behind = lane >= (int64_t)row, line = *steps + ((int64_t)base - (*steps)[row]);
    *out = (*out & ~behind) | (line & behind);
}

/* Rows [row, row + n) of the tile: neighbours in one line of the output. */
PF_INLINE void locate_run(const pf_igemm *c, int64_t group, int row, int64_t n, tile_rows *t) {
    const pf_conv3d_args *a = &c->a;
    const place *p = &t->next;
    const int64_t z0 = p->oz * a->stride_d - a->pad_d, y0 = p->oy * a->stride_h - a->pad_h;
    const int64_t x0 = p->ox * a->stride_w - a->pad_w,
                  x1 = x0 + (n - 1) * a->stride_w + (a->kw - 1) * a->dil_w;
    if (c->padded)
        t->inside &= (z0 >= 0) & (z0 + (a->kd - 1) * a->dil_d < a->id) & (y0 >= 0) &
                     (y0 + (a->kh - 1) * a->dil_h < a->ih) & (x0 >= 0) & (x1 < a->iw);
    const int64_t x = p->image * a->xsn + z0 * a->xsd + y0 * a->xsh + x0 * a->xsw + group * c->ic;
    const int64_t y = p->image * a->ysn + p->oz * a->ysd + p->oy * a->ysh + p->ox * a->ysw + group * c->oc;
    splice(&t->x, &c->x_steps, (uintptr_t)c->x + (uintptr_t)x * sizeof(float), row);
    splice(&t->y, &c->y_steps, (uintptr_t)(c->y + y), row);
    if (!c->z) return;
    const int64_t z = p->image * a->zsn + p->oz * a->zsd + p->oy * a->zsh + p->ox * a->zsw + group * c->oc;
    splice(&t->z, &c->z_steps, (uintptr_t)(c->z + z), row);
}

/* Locates the next `count` rows. */
static void locate_rows(const pf_igemm *c, int64_t group, int count, tile_rows *t) {
    t->count = count;
    t->inside = 1;
    for (int r = 0; r < count;) {
        const int64_t n = pf_min(count - r, c->a.ow - t->next.ox);
        locate_run(c, group, r, n, t);
        advance(c, &t->next, n);
        r += (int)n;
    }
}

/* The record of one tap for a tile that starts at `p` and touches the padding; returns whether any row reads
 * the image. */
static int fill_edge(const pf_igemm *c, const tile_rows *t, place p, const int64_t d[3], int64_t offset,
                     pf_tap *out) {
    const pf_conv3d_args *a = &c->a;
    int any = 0;
    for (int r = 0; r < t->count; r++) {
        const uint64_t z = (uint64_t)(p.oz * a->stride_d - a->pad_d + d[0]);
        const uint64_t y = (uint64_t)(p.oy * a->stride_h - a->pad_h + d[1]);
        const uint64_t x = (uint64_t)(p.ox * a->stride_w - a->pad_w + d[2]);
        const int in = z < (uint64_t)a->id && y < (uint64_t)a->ih && x < (uint64_t)a->iw;
        out->row[r] = in ? (const float *)(uintptr_t)(t->x[r] + offset) : zero_row;
        any |= in;
        advance(c, &p, 1);
    }
    return any;
}

/* Writes the records of taps [tap0, tap1) from channel k0; returns how many. Taps that meet only padding are
 * left out. */
static int64_t fill_taps(const pf_igemm *c, const tile_rows *t, place start, int64_t tap0, int64_t tap1,
                         int64_t k0, pf_tap *out) {
    const pf_conv3d_args *a = &c->a;
    const int64_t step = t->inside ? c->joined : 1;
    int64_t kx = tap0 % a->kw, ky = tap0 / a->kw % a->kh, kz = tap0 / a->kw / a->kh, used = 0;
    for (int64_t tap = tap0; tap < tap1; tap += step) {
        const int64_t d[3] = {kz * a->dil_d, ky * a->dil_h, kx * a->dil_w};
        const int64_t offset = (d[0] * a->xsd + d[1] * a->xsh + d[2] * a->xsw + k0) * (int64_t)sizeof(float);
        int any = 1;
        if (t->inside)
            *(pf_pointers *)&out[used] = t->x + offset;
        else
            any = fill_edge(c, t, start, d, offset, &out[used]);
        out[used].number = tap;
        used += any;
        kx += step;
        if (kx < a->kw) continue;
        kx = 0;
        if (++ky < a->kh) continue;
        ky = 0, kz++;
    }
    return used;
}

/* What the n-th tile of a panel fetches: its part of the weights that come after the current block, which
 * after the last one is the first block of the next unit. */
static void fetch_weights(const pf_igemm *c, const pf_igemm_unit *u, int64_t tap0, int64_t taps, int64_t k0,
                          int vectors, int64_t n, pf_tile *t) {
    const int64_t steps = c->k_block < c->ic ? t->k : taps * c->ic;
    const int64_t bytes = vectors * PF_VL * (int64_t)sizeof(float);
    t->ahead_each = pf_ahead_each(bytes, u->tile1 - u->tile0);
    t->ahead = NULL;
    if (n * t->ahead_each >= bytes || (t->last && !u->next)) return;
    const float *next =
        t->last ? t->b - k0 * t->bstep + (u->next - u->w) : t->b + tap0 * t->btap + steps * t->bstep;
    t->ahead = (const char *)next + n * steps * t->ahead_each;
}

/* What the other tiles fetch: those of the first panel the rows of x that come next, if these follow, then
 * all of them what a later step reads. */
static void fetch_other(pf_igemm *c, int vectors, int first, int rows, pf_tile *t) {
    t->ahead_each = PF_LINE_BYTES;
    if (first && c->dense) {
        t->ahead = t->taps->row[rows - 1] + c->a.xsw;
    } else if (vectors > 1 && c->ahead < c->ahead_end) {
        t->ahead = c->ahead;
        t->ahead_each = PF_AHEAD_LEAST;
        c->ahead += t->k * t->ntaps * t->ahead_each;
    }
}

/* This thread's part of what a later step reads. */
static void look_ahead(pf_igemm *c, const pf_worker *w) {
    const int64_t part = w->ahead.bytes / w->nthreads;
    if (part == 0) return;
    c->ahead = w->ahead.start + w->tid * part;
    c->ahead_end = c->ahead + part;
}

/* The only tile, all panels of a unit; full ones side by side. */
static void run_sides(const pf_igemm *c, const pf_igemm_unit *u, int64_t k0, int rows, pf_tile *t) {
    const int64_t depth = c->taps * c->ic, vectors = c->columns / PF_VL;
    pf_panel panel = pf_panel_at(c->oc, u->panel0);
    const float *w = u->w - panel.start * PF_VL * depth;
    for (int64_t p = u->panel0, beside; p < u->panel1; p += beside) {
        const int64_t left = u->panel1 - p, full = panel.vectors == PF_PANEL_MAIN;
        beside = full ? pf_ceil_div(left, pf_ceil_div(left, c->side)) : 1;
        t->bstep = panel.vectors * PF_VL;
        t->btap = c->ic * t->bstep, t->bpanel = depth * t->bstep;
        t->column = panel.start * PF_VL;
        t->n = pf_min(beside * t->bstep, c->oc - t->column);
        t->b = w + t->column * depth + k0 * t->bstep;
        if (full)
            pf_side_run((int)beside, rows, t);
        else
            pf_tile_run(panel.vectors, rows, t);
        panel.start += beside * panel.vectors;
        panel.vectors = pf_panel_vectors(vectors - panel.start);
    }
}

/* One tile, all panels of a unit. */
static void run_panels(pf_igemm *c, const pf_igemm_unit *u, int64_t tap0, int64_t tap1, int64_t k0, int rows,
                       int64_t n, pf_tile *t) {
    const int64_t depth = c->taps * c->ic, vectors = c->columns / PF_VL;
    pf_panel panel = pf_panel_at(c->oc, u->panel0);
    const float *w = u->w - panel.start * PF_VL * depth;
    for (int64_t p = u->panel0; p < u->panel1; p++) {
        t->bstep = panel.vectors * PF_VL;
        t->btap = c->ic * t->bstep;
        t->column = panel.start * PF_VL;
        t->n = pf_min(t->bstep, c->oc - t->column);
        t->b = w + t->column * depth + k0 * t->bstep;
        fetch_weights(c, u, tap0, tap1 - tap0, k0, panel.vectors, n, t);
        if (!t->ahead) fetch_other(c, panel.vectors, p == u->panel0, rows, t);
        pf_tile_run(panel.vectors, rows, t);
        panel.start += panel.vectors;
        panel.vectors = pf_panel_vectors(vectors - panel.start);
    }
}

/* Moves a located tile on to the next group. */
static void next_group(const pf_igemm *c, tile_rows *rows, pf_tap *taps, pf_igemm_unit *u, pf_tile *t) {
    const int64_t x = c->ic * (int64_t)sizeof(float), y = c->oc * (int64_t)sizeof(float);
    const pf_pointers step = {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, 0};
    for (int64_t i = 0; i < t->ntaps; i++) *(pf_pointers *)&taps[i] += step;
    rows->y += y;
    if (c->z) rows->z += y;
    if (t->bias) t->bias += c->oc;
    u->w += c->columns * c->taps * c->ic;
    u->next = NULL;
}

/* One located tile of a unit. */
static void run_tile(pf_igemm *c, const pf_igemm_unit *u, int64_t tap0, int64_t tap1, int64_t k0, int rows,
                     int64_t n, pf_tile *t) {
    if (c->narrow) {
        t->bstep = c->taps * c->ic, t->btap = c->ic;
        t->b = u->w + k0;
        PF_NAME(narrow_tiles)[c->oc - 1][rows - 1](t);
    } else if (c->side > 1) {
        run_sides(c, u, k0, rows, t);
    } else {
        run_panels(c, u, tap0, tap1, k0, rows, n, t);
    }
}

/* Taps [tap0, tap1), channels [k0, k0 + t->k) of all tiles and panels of a unit. */
static void run_block(pf_igemm *c, const pf_igemm_unit *u, int64_t tap0, int64_t tap1, int64_t k0,
                      pf_tile *t) {
    pf_tap table[PF_IGEMM_TAPS];
    tile_rows rows = {.next = place_of(c, pf_igemm_pixel(c, u->tile0))};
    t->taps = table, t->y = (float *const *)&rows.y;
    t->z = c->z && !c->a.z_late ? (const float *const *)&rows.z : NULL;
    t->late = c->z && c->a.z_late ? (const float *const *)&rows.z : NULL;
    const int64_t k = t->k, short_rows = c->pixels / c->tiles, longer = c->pixels % c->tiles;
    for (int64_t tile = u->tile0; tile < u->tile1; tile++) {
        const place start = rows.next;
        locate_rows(c, u->group, (int)(short_rows + (tile < longer)), &rows);
        t->ntaps = fill_taps(c, &rows, start, tap0, tap1, k0, table);
        t->k = rows.inside ? k * c->joined : k;
        pf_igemm_unit group = *u;
        t->bias = c->bias ? c->bias + u->group * c->oc : NULL;
        for (int64_t left = u->groups; left > 0; left--) {
            run_tile(c, &group, tap0, tap1, k0, rows.count, tile - u->tile0, t);
            if (left > 1) next_group(c, &rows, table, &group, t);
        }
    }
}

static void run_unit(pf_igemm *c, const pf_igemm_unit *u) {
    if (c->runs) {
        PF_NAME(igemm_run)(c, u);
        return;
    }
    pf_tile t = {.act = c->act};
    for (int64_t tap0 = 0; tap0 < c->taps; tap0 += c->tap_block) {
        const int64_t tap1 = pf_min(tap0 + c->tap_block, c->taps);
        int64_t k0 = 0;
        do {
            t.k = pf_min(c->k_block, c->ic - k0);
            t.first = tap0 == 0 && k0 == 0;
            t.last = tap1 == c->taps && k0 + t.k == c->ic;
            run_block(c, u, tap0, tap1, k0, &t);
            k0 += c->k_block;
        } while (k0 < c->ic);
    }
}

static pf_igemm_unit unit_at(const pf_igemm *c, int64_t index) {
    int64_t block = index % c->row_blocks, set = index / c->row_blocks % c->panel_sets;
    if (c->rows_first) block = index / c->panel_sets, set = index % c->panel_sets;
    const int64_t depth = c->taps * c->ic;
    const int64_t group_set = index / c->row_blocks / c->panel_sets;
    pf_igemm_unit u = {.group = c->a.groups * group_set / c->group_sets};
    u.groups = c->a.groups * (group_set + 1) / c->group_sets - u.group;
    u.tile0 = c->tiles * block / c->row_blocks;
    u.tile1 = c->tiles * (block + 1) / c->row_blocks;
    u.panel0 = c->panels * set / c->panel_sets;
    u.panel1 = c->panels * (set + 1) / c->panel_sets;
    u.w =
        c->w + (u.group * c->columns + (c->narrow ? 0 : pf_panel_at(c->oc, u.panel0).start * PF_VL)) * depth;
    return u;
}

static void run_units(pf_igemm c, const pf_worker *w) {
    c.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w), c.bias = pf_ptr(w, c.a.bias), c.z = pf_ptr(w, c.a.z);
    c.y = pf_ptr(w, c.a.y);
    look_ahead(&c, w);
    const int64_t units = c.group_sets * c.panel_sets * c.row_blocks;
    for (int64_t i = pf_claim_near(w, units); i < units; i = pf_claim_near(w, units)) {
        pf_igemm_unit u = unit_at(&c, i);
        if (i + 1 < units) u.next = unit_at(&c, i + 1).w;
        if (u.next == u.w) u.next = NULL;
        run_unit(&c, &u);
    }
}

static void run_conv(pf_conv3d_args a, const pf_worker *w) { run_units(plan_conv(&a, w->nthreads, 0), w); }

static void describe(pf_conv3d_args a, pf_plan *plan) {
    const int64_t ic = a.ic / a.groups, oc = a.oc / a.groups, taps = a.kd * a.kh * a.kw;
    if (a.variant < 0)
        a.variant = ic >= PF_VL && pf_narrow_pays(oc, ic * taps) ? PF_DIRECT_NARROW : PF_DIRECT_PANELS;
    const pf_igemm c = plan_conv(&a, 1, 0);
    plan->variant = a.variant;
    plan->packed_bytes = a.groups * taps * ic * c.columns * (int64_t)sizeof(float);
    plan->scratch_bytes = 0;
    const int64_t columns = c.narrow ? oc : pf_panel_usual(oc) * PF_VL;
    snprintf(plan->label, sizeof plan->label, "%s %dx%ld", c.narrow ? "narrow" : "igemm", c.rows,
             (long)columns);
}

static pf_conv3d_args flat(const void *a) {
    pf_conv3d_args r = {.id = 1, .od = 1, .kd = 1, .stride_d = 1, .dil_d = 1};
    memcpy(&r, a, sizeof(pf_conv_args));
    return r;
}

PF_KERNEL_FUNCTION(conv_f32) { run_conv(flat(args_), w); }

PF_KERNEL_FUNCTION(conv3d_f32) { run_conv(*(const pf_conv3d_args *)args_, w); }

PF_PLAN_FUNCTION(conv_f32) {
    (void)nthreads;
    describe(flat(args_), plan);
}

PF_PLAN_FUNCTION(conv3d_f32) {
    (void)nthreads;
    describe(*(const pf_conv3d_args *)args_, plan);
}

PF_KERNEL_FUNCTION(conv_affine_f32) {
    const pf_conv_affine_args *args = args_;
    const pf_conv3d_args a = flat(args_);
    pf_igemm c = plan_conv(&a, w->nthreads, 1);
    c.scale = pf_ptr(w, args->scale), c.shift = pf_ptr(w, args->shift);
    c.before = pf_act_make(args->before, args->before_a, args->before_b);
    c.block = (float *)pf_ptr(w, a.scratch) + w->tid * PF_NAME(igemm_block)(&c);
    run_units(c, w);
}

/* Without scratch: not to be had for this shape. */
PF_PLAN_FUNCTION(conv_affine_f32) {
    const pf_conv3d_args a = flat(args_);
    const pf_igemm c = plan_conv(&a, nthreads, 1);
    describe(a, plan);
    if (c.runs) plan->scratch_bytes = nthreads * PF_NAME(igemm_block)(&c) * (int64_t)sizeof(float);
}
