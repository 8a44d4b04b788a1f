/* Convolution as implicit GEMM: every output pixel is a row, every filter tap a run of input channels, found
 * by pointer. Padding is a row of zeros, so nothing is copied or gathered. Linear layers and 1x1 convolutions
 * are the case of one tap. The work is cut by shape alone, never by the number of threads: results do not
 * depend on it. */
#include <stdio.h>

#include "kernels/args.h"
#include "kernels/tile.h"

enum {
    CACHED_BYTES = 384 << 10, /* weights that a thread works on: they stay in L2 while pixels stream past */
    ZERO_LENGTH = 4096,       /* longest run of channels when there is padding */
    TAPS_AT_ONCE = 32,        /* size of the pointer table of a tile */
    WANTED_UNITS = 32,
    UNIT_FLOPS = 4 << 20,
};

static float zero_row[ZERO_LENGTH];

typedef struct conv {
    pf_conv_args a; /* dimensions that address memory uniformly are merged */
    const float *x, *w, *bias, *z;
    float *y;
    int64_t ic, oc, taps;           /* of one group */
    int64_t pixels, tiles;          /* output pixels of all images; register tiles over them */
    int64_t panels, per_unit;       /* column panels; how many of them a unit visits per tile */
    int64_t tap_block, k_block;     /* what a pass over the pixels sums up */
    int64_t row_blocks, panel_sets; /* units are groups x panel sets x row blocks */
    int rows;                       /* most rows of a tile */
    pf_activation act;
} conv;

static void merge_dimensions(pf_conv_args *a) {
    const int pointwise = a->kh == 1 && a->kw == 1 && a->stride_h == 1 && a->stride_w == 1 && a->pad_h == 0 &&
                          a->pad_w == 0 && a->oh == a->ih && a->ow == a->iw;
    const int no_z = a->z.base < 0;
    if (!pointwise) return;
    if (a->xsh == a->iw * a->xsw && a->ysh == a->ow * a->ysw && (no_z || a->zsh == a->ow * a->zsw)) {
        a->iw *= a->ih, a->ow *= a->oh;
        a->ih = a->oh = 1;
    }
    if (a->ih == 1 && a->xsn == a->iw * a->xsw && a->ysn == a->ow * a->ysw &&
        (no_z || a->zsn == a->ow * a->zsw)) {
        a->iw *= a->n, a->ow *= a->n;
        a->n = 1;
    }
}

/* Blocks of taps and channels: one block of a panel is to stay in L2 while all pixels pass. A single tile
 * reads each weight once whatever the order. */
static void choose_blocks(conv *c, int widest) {
    const int64_t row_bytes = widest * PF_VL * (int64_t)sizeof(float),
                  padded = c->a.pad_h > 0 || c->a.pad_w > 0 ||
                           (c->a.oh - 1) * c->a.stride_h + (c->a.kh - 1) * c->a.dil_h >= c->a.ih ||
                           (c->a.ow - 1) * c->a.stride_w + (c->a.kw - 1) * c->a.dil_w >= c->a.iw;
    const int64_t longest = c->tiles > 1 ? CACHED_BYTES / row_bytes : c->ic;
    const int64_t k_most = padded ? pf_min(longest, ZERO_LENGTH) : longest;
    c->k_block = pf_ceil_div(c->ic, pf_ceil_div(c->ic, k_most));
    c->tap_block = 1;
    if (c->k_block == c->ic) {
        const int64_t most = c->tiles > 1 ? pf_max(1, longest / c->ic) : c->taps;
        c->tap_block = pf_ceil_div(c->taps, pf_ceil_div(c->taps, pf_min(most, TAPS_AT_ONCE)));
    }
}

static void choose_units(conv *c, int widest) {
    const int whole = c->k_block == c->ic && c->tap_block == c->taps;
    const int64_t panel_bytes = c->ic * c->taps * widest * PF_VL * (int64_t)sizeof(float);
    c->per_unit = 1;
    if (whole) c->per_unit = pf_max(1, pf_min(c->panels, CACHED_BYTES / panel_bytes));
    if (c->tiles < WANTED_UNITS)
        c->per_unit = pf_max(1, pf_min(c->per_unit, c->panels * c->tiles / WANTED_UNITS));
    c->panel_sets = pf_ceil_div(c->panels, c->per_unit);
    const double flops = 2.0 * (double)c->pixels * (double)c->ic * (double)c->taps * (double)c->oc;
    const int64_t sets = c->panel_sets * c->a.groups, few = c->a.groups;
    int64_t blocks =
        pf_min(pf_ceil_div(WANTED_UNITS, sets), (int64_t)(flops * (double)few / (double)sets / UNIT_FLOPS));
    if (!whole) blocks = pf_min(blocks, c->tiles / 8);
    c->row_blocks = pf_max(1, pf_min(blocks, c->tiles));
}

static conv plan_conv(const pf_conv_args *args) {
    conv c = {.a = *args};
    merge_dimensions(&c.a);
    c.ic = c.a.ic / c.a.groups;
    c.oc = c.a.oc / c.a.groups;
    c.taps = c.a.kh * c.a.kw;
    c.pixels = c.a.n * c.a.oh * c.a.ow;
    c.panels = pf_panel_count(c.oc);
    const int widest = pf_panel_widest(c.oc);
    c.rows = pf_tile_rows(widest);
    c.tiles = pf_ceil_div(c.pixels, c.rows);
    c.act = pf_act_make(c.a.act, c.a.act_a, c.a.act_b);
    choose_blocks(&c, widest);
    choose_units(&c, widest);
    return c;
}

/* The rows of one tile: where each pixel lies in x, y and z. */
typedef struct tile_rows {
    int count, inside;                          /* inside: no tap of any row falls into the padding */
    int64_t y0[PF_TILE_ROWS], x0[PF_TILE_ROWS]; /* input position of tap (0, 0) */
    uintptr_t x[PF_TILE_ROWS];                  /* its address, perhaps outside of the image */
    float *y[PF_TILE_ROWS];
    const float *z[PF_TILE_ROWS];
} tile_rows;

static void locate_rows(const conv *c, int64_t group, int64_t first, int64_t end, tile_rows *t) {
    const pf_conv_args *a = &c->a;
    int64_t ox = first % a->ow, oy = first / a->ow % a->oh, image = first / (a->ow * a->oh);
    const int64_t reach_y = (a->kh - 1) * a->dil_h, reach_x = (a->kw - 1) * a->dil_w;
    t->count = (int)(end - first);
    t->inside = 1;
    for (int r = 0; r < t->count; r++) {
        const int64_t y0 = oy * a->stride_h - a->pad_h, x0 = ox * a->stride_w - a->pad_w;
        t->y0[r] = y0, t->x0[r] = x0;
        t->x[r] = (uintptr_t)c->x +
                  (uintptr_t)(image * a->xsn + y0 * a->xsh + x0 * a->xsw + group * c->ic) * sizeof(float);
        t->inside &= (y0 >= 0) & (y0 + reach_y < a->ih) & (x0 >= 0) & (x0 + reach_x < a->iw);
        t->y[r] = c->y + (image * a->ysn + oy * a->ysh + ox * a->ysw + group * c->oc);
        if (c->z) t->z[r] = c->z + (image * a->zsn + oy * a->zsh + ox * a->zsw + group * c->oc);
        if (++ox < a->ow) continue;
        ox = 0;
        if (++oy < a->oh) continue;
        oy = 0;
        image++;
    }
}

/* Writes the records of taps [tap0, tap1) from channel k0; returns how many. Taps that meet only padding are
 * left out. */
static int64_t fill_taps(const conv *c, const tile_rows *t, int64_t tap0, int64_t tap1, int64_t k0,
                         pf_tap *out) {
    const pf_conv_args *a = &c->a;
    const pf_tap *begin = out;
    const int64_t stride = 1 + t->count;
    int64_t ky = tap0 / a->kw, kx = tap0 % a->kw;
    for (int64_t tap = tap0; tap < tap1; tap++) {
        const int64_t dy = ky * a->dil_h, dx = kx * a->dil_w;
        const uintptr_t offset = (uintptr_t)(dy * a->xsh + dx * a->xsw + k0) * sizeof(float);
        out->number = tap;
        if (t->inside) {
            for (int r = 0; r < t->count; r++) out[1 + r].row = (const float *)(t->x[r] + offset);
            out += stride;
        } else {
            int any = 0;
            for (int r = 0; r < t->count; r++) {
                const int in = (uint64_t)(t->y0[r] + dy) < (uint64_t)a->ih &&
                               (uint64_t)(t->x0[r] + dx) < (uint64_t)a->iw;
                out[1 + r].row = in ? (const float *)(t->x[r] + offset) : zero_row;
                any |= in;
            }
            out += any ? stride : 0;
        }
        if (++kx == a->kw) kx = 0, ky++;
    }
    return (out - begin) / stride;
}

/* One unit: its panels over its tiles, block of taps and channels after block. */
static void run_unit(const conv *c, int64_t group, int64_t set, int64_t block) {
    const int64_t tile0 = c->tiles * block / c->row_blocks, tile1 = c->tiles * (block + 1) / c->row_blocks;
    const int64_t panel0 = set * c->per_unit, panel1 = pf_min(panel0 + c->per_unit, c->panels);
    const int64_t depth = c->taps * c->ic, group_size = depth * pf_ceil_div(c->oc, PF_VL) * PF_VL;
    pf_tap table[TAPS_AT_ONCE * (1 + PF_TILE_ROWS)];
    tile_rows rows;
    pf_tile t = {.taps = table, .y = rows.y, .z = c->z ? rows.z : NULL, .act = c->act};
    t.bias = c->bias ? c->bias + group * c->oc : NULL;
    for (int64_t tap0 = 0; tap0 < c->taps; tap0 += c->tap_block) {
        const int64_t tap1 = pf_min(tap0 + c->tap_block, c->taps);
        for (int64_t k0 = 0; k0 < c->ic; k0 += c->k_block) {
            t.k = pf_min(c->k_block, c->ic - k0);
            t.first = tap0 == 0 && k0 == 0;
            t.last = tap1 == c->taps && k0 + t.k == c->ic;
            for (int64_t tile = tile0; tile < tile1; tile++) {
                locate_rows(c, group, c->pixels * tile / c->tiles, c->pixels * (tile + 1) / c->tiles, &rows);
                t.ntaps = fill_taps(c, &rows, tap0, tap1, k0, table);
                for (int64_t p = panel0; p < panel1; p++) {
                    const pf_panel panel = pf_panel_at(c->oc, p);
                    t.bstep = panel.vectors * PF_VL;
                    t.btap = c->ic * t.bstep;
                    t.column = panel.start * PF_VL;
                    t.n = pf_min(t.bstep, c->oc - t.column);
                    t.b = c->w + group * group_size + panel.start * PF_VL * depth + k0 * t.bstep;
                    pf_tile_run(panel.vectors, rows.count, &t);
                }
            }
        }
    }
}

PF_KERNEL_FUNCTION(conv_f32) {
    conv c = plan_conv(args_);
    c.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w), c.bias = pf_ptr(w, c.a.bias), c.z = pf_ptr(w, c.a.z);
    c.y = pf_ptr(w, c.a.y);
    const int64_t units = c.a.groups * c.panel_sets * c.row_blocks;
    if (c.pixels == 0) return;
    for (int64_t u = pf_claim(w, 1); u < units; u = pf_claim(w, 1)) {
        const int64_t block = u % c.row_blocks, rest = u / c.row_blocks;
        run_unit(&c, rest / c.panel_sets, rest % c.panel_sets, block);
    }
}

PF_PLAN_FUNCTION(conv_f32) {
    (void)nthreads;
    const conv c = plan_conv(args_);
    const int64_t columns = pf_ceil_div(c.oc, PF_VL) * PF_VL;
    plan->variant = 0;
    plan->packed_bytes = c.a.groups * c.taps * c.ic * columns * (int64_t)sizeof(float);
    plan->scratch_bytes = 0;
    snprintf(plan->label, sizeof plan->label, "igemm %dx%d", c.rows, pf_panel_widest(c.oc) * PF_VL);
}
