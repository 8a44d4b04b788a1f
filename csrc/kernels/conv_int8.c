/* Convolution of 8-bit numbers, exact in 32 bits, over channels-last tensors; 1x1 kernels and linear layers
 * are the case of one tap. The window of each output pixel is gathered into a row of a small buffer, in the
 * form that products want (int8.h), with padding and, of a float input, quantised on the way: so the tile
 * knows nothing of taps, and no run of channels needs a length or an end that suits it. A block of rows meets
 * all panels of a unit. */
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_place.h"
#include "kernels/tile_int8.h"
#include "kernels/transpose_tile.h"

enum {
    CACHED_BYTES = 512 << 10, /* weights that a thread works on: they stay in L2 */
    BLOCK_BYTES = 24 << 10,   /* gathered rows: they stay in L1 */
    BLOCK_ROWS = 96,
    WANTED_UNITS = 32,
    UNIT_PRODUCTS = 4 << 20, /* least work of a unit */
    SHARED_PRODUCTS = 1 << 19,
    LINE = 64,
    SLACK = 2 * LINE, /* behind the rows: their last numbers are written as whole vectors */
    WIDE = sizeof(pf_int8_wide),
    STEP_BYTES = 4,
};

typedef struct conv {
    pf_conv_int8_args a;
    const char *x, *w;
    int64_t ic, oc, depth, steps;   /* of one group: depth is taps x channels */
    int64_t pixels, tiles;          /* output pixels of all images; register tiles over them */
    int64_t at_once, stride;        /* tiles of a block; bytes of a gathered row */
    int64_t panels, per_unit;       /* column panels; how many of them a unit visits */
    int64_t row_blocks, panel_sets; /* units are groups x panel sets x row blocks */
    int64_t column_bytes, group_bytes;
    int64_t itemsize;
    int joined;    /* the taps of a filter row lie side by side in memory */
    int pointwise; /* one tap, no padding */
    int rows;      /* most rows of a tile */
    pf_int8_finish finish;
} conv;

static int64_t steps_of(int64_t depth) { return pf_ceil_div(depth, PF_INT8_STEP); }

/* Bytes of the packed weights of one column: what its sum starts from, then its steps. */
static int64_t packed_column(int64_t depth) { return (1 + steps_of(depth)) * STEP_BYTES; }

static int64_t packed_group(int64_t columns, int64_t depth) {
    return pf_ceil_div(columns, PF_VL) * PF_VL * packed_column(depth);
}

static void choose_units(conv *c, int nthreads) {
    const int64_t panel_bytes = pf_panel_widest(c->oc) * PF_VL * c->column_bytes;
    c->per_unit = pf_max(1, pf_min(c->panels, CACHED_BYTES / panel_bytes));
    if (c->tiles < WANTED_UNITS)
        c->per_unit = pf_max(1, pf_min(c->per_unit, c->panels * c->tiles / WANTED_UNITS));
    c->panel_sets = pf_ceil_div(c->panels, c->per_unit);
    const double products = (double)c->pixels * (double)c->depth * (double)c->oc;
    const double least = nthreads > 1 ? SHARED_PRODUCTS : UNIT_PRODUCTS;
    const int64_t cheap = (int64_t)(products / (double)c->panel_sets / least);
    const int64_t blocks = pf_min(pf_ceil_div(WANTED_UNITS, c->panel_sets * c->a.groups), cheap);
    c->row_blocks = pf_max(1, pf_min(blocks, c->tiles));
}

static conv plan_conv(const pf_conv_int8_args *a, int nthreads) {
    conv c = {.a = *a, .ic = a->ic / a->groups, .oc = a->oc / a->groups};
    c.depth = a->kh * a->kw * c.ic;
    c.steps = steps_of(c.depth);
    c.column_bytes = packed_column(c.depth);
    c.group_bytes = packed_group(c.oc, c.depth);
    c.pixels = a->n * a->oh * a->ow;
    if (c.pixels == 0 || c.oc == 0) return c;
    c.panels = pf_panel_count(c.oc);
    c.rows = pf_tile_rows(pf_panel_widest(c.oc));
    c.tiles = pf_ceil_div(c.pixels, c.rows);
    _Static_assert(STEP_BYTES == sizeof(float), "steps are counted as floats");
    c.stride = pf_odd_lines(c.steps) * STEP_BYTES;
    c.at_once = pf_max(1, pf_min(BLOCK_ROWS, BLOCK_BYTES / c.stride) / c.rows);
    c.itemsize = a->x_scale == 0 ? 1 : (int64_t)sizeof(float);
    c.pointwise = a->kh * a->kw == 1 && a->pad_h == 0 && a->pad_w == 0 && (a->oh - 1) * a->stride_h < a->ih &&
                  (a->ow - 1) * a->stride_w < a->iw;
    c.joined = a->groups == 1 && a->dil_w == 1 && a->xsw == a->ic;
    c.finish = pf_int8_finish_make(a->act, a->act_a, a->act_b, a->y_scale);
    choose_units(&c, nthreads);
    return c;
}

static int64_t scratch_of_thread(const conv *c) { return c->at_once * c->rows * c->stride + SLACK; }

/* -- gathering -- */

/* What is copied into rows: `count` runs of n numbers, xstep numbers and step bytes apart. */
typedef struct runs {
    const void *x;
    int64_t xstep, count, n;
    char *to;
    int64_t step;
} runs;

/* May write up to a vector behind each run; so may gather_floats. */
static void gather_bytes(const runs *g) {
    const int8_t *x = g->x;
    char *to = g->to;
#if defined(PF_VNNI)
    const __m512i flip = _mm512_set1_epi8((char)PF_INT8_OFFSET);
    const int64_t whole = g->n & -(int64_t)LINE;
    const __mmask64 rest = ((__mmask64)1 << (g->n - whole)) - 1;
    for (int64_t r = 0; r < g->count; r++, x += g->xstep, to += g->step) {
        for (int64_t i = 0; i < whole; i += LINE)
            _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(x + i), flip));
        if (!rest) continue;
        const __m512i last = _mm512_maskz_loadu_epi8(rest, x + whole);
        _mm512_storeu_si512(to + whole, _mm512_xor_si512(last, flip));
    }
#else
    for (int64_t r = 0; r < g->count; r++, x += g->xstep, to += g->step) {
        pf_int8_wide *wide = (pf_int8_wide *)to;
        int64_t i = 0;
#    if defined(PF_AVX512)
        for (; i + 32 <= g->n; i += 32)
            _mm512_storeu_si512(wide + i, _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(x + i))));
#    elif defined(PF_AVX2)
        for (; i + 16 <= g->n; i += 16)
            _mm256_storeu_si256((__m256i *)(wide + i),
                                _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(x + i))));
#    endif
        for (; i < g->n; i++) wide[i] = x[i];
    }
#endif
}

/* Quantises. */
static void gather_floats(const runs *g, float scale) {
    typedef pf_int8_wide wide __attribute__((vector_size(PF_VL * WIDE)));
    typedef pf_int8_wide wide_any __attribute__((vector_size(PF_VL * WIDE), aligned(1), may_alias));
    const float *x = g->x;
    char *to = g->to;
    for (int64_t r = 0; r < g->count; r++, x += g->xstep, to += g->step)
        for (int64_t i = 0; i < g->n; i += PF_VL) {
            const pf_vi v = pf_round_int8(pf_load_upto(x + i, g->n - i) * pf_set(scale)) + PF_INT8_OFFSET;
            *(wide_any *)(to + i * WIDE) = __builtin_convertvector(v, wide);
        }
}

static void gather(const conv *c, const runs *g) {
    if (c->a.x_scale == 0)
        gather_bytes(g);
    else
        gather_floats(g, (float)c->a.x_scale);
}

/* Element of x where the window of a pixel begins, perhaps outside of the image. */
static const char *window_of(const conv *c, const pf_conv_place *p, int64_t group) {
    const int64_t offset = PF_WINDOW_OFFSET(&c->a, p) + group * c->ic;
    return (const char *)((uintptr_t)c->x + (uintptr_t)(offset * c->itemsize));
}

/* The window of one pixel, tap by tap. */
static void gather_taps(const conv *c, const pf_conv_place *p, const char *window, char *to) {
    const pf_conv_int8_args *a = &c->a;
    const int64_t y0 = PF_WINDOW_Y(a, p), x0 = PF_WINDOW_X(a, p);
    runs g = {.count = 1, .n = c->ic};
    for (int64_t ky = 0; ky < a->kh; ky++)
        for (int64_t kx = 0; kx < a->kw; kx++, to += c->ic * WIDE) {
            const int64_t iy = y0 + ky * a->dil_h, ix = x0 + kx * a->dil_w;
            if (iy < 0 || iy >= a->ih || ix < 0 || ix >= a->iw) {
                memset(to, PF_INT8_OFFSET, (size_t)(c->ic * WIDE));
                continue;
            }
            const int64_t offset = ky * a->dil_h * a->xsh + kx * a->dil_w * a->xsw;
            g.x = (const void *)((uintptr_t)window + (uintptr_t)(offset * c->itemsize)), g.to = to;
            gather(c, &g);
        }
}

/* The windows of n neighbours in a line, for one group. */
static void gather_line(const conv *c, const pf_conv_place *first, int64_t group, int64_t n, char *to) {
    const pf_conv_int8_args *a = &c->a;
    if (c->pointwise) {
        const runs g = {window_of(c, first, group), a->stride_w * a->xsw, n, c->ic, to, c->stride};
        gather(c, &g);
        return;
    }
    const int64_t y0 = PF_WINDOW_Y(a, first), line = a->kw * c->ic;
    const int inside = c->joined && y0 >= 0 && y0 + (a->kh - 1) * a->dil_h < a->ih;
    pf_conv_place p = *first;
    for (int64_t i = 0; i < n; i++, p.ox++, to += c->stride) {
        const char *window = window_of(c, &p, group);
        const int64_t x0 = PF_WINDOW_X(a, &p);
        if (inside && x0 >= 0 && x0 + a->kw <= a->iw) {
            const runs g = {window, a->dil_h * a->xsh, a->kh, line, to, line * WIDE};
            gather(c, &g);
        } else {
            gather_taps(c, &p, window, to);
        }
    }
}

/* Rows of a block: where their results and residuals lie. */
typedef struct block {
    int64_t y[BLOCK_ROWS], z[BLOCK_ROWS];
} block;

static void gather_rows(const conv *c, int64_t group, int64_t pixel, int64_t count, char *rows, block *b) {
    const pf_conv_int8_args *a = &c->a;
    pf_conv_place p = pf_conv_place_of(pixel, a->oh, a->ow);
    for (int64_t r = 0, n; r < count; r += n) {
        n = pf_min(count - r, a->ow - p.ox);
        gather_line(c, &p, group, n, rows + r * c->stride);
        const int64_t y = p.image * a->ysn + p.oy * a->ysh + p.ox * a->ysw;
        const int64_t z = p.image * a->zsn + p.oy * a->zsh + p.ox * a->zsw;
        for (int64_t i = 0; i < n; i++) b->y[r + i] = y + i * a->ysw, b->z[r + i] = z + i * a->zsw;
        pf_conv_place_next_line(&p, a->oh);
    }
}

/* -- products -- */

static int64_t tile_start(const conv *c, int64_t tile) {
    return tile * (c->pixels / c->tiles) + pf_min(tile, c->pixels % c->tiles);
}

/* Tiles [tile0, tile1), which one block holds, times panels [panel0, panel1). */
static void run_block(const conv *c, int64_t group, int64_t tile0, int64_t tile1, int64_t panel0,
                      int64_t panel1, char *rows) {
    int32_t staging[PF_TILE_FLOATS] __attribute__((aligned(64)));
    block b;
    const int64_t first = tile_start(c, tile0);
    gather_rows(c, group, first, tile_start(c, tile1) - first, rows, &b);
    pf_panel panel = pf_panel_at(c->oc, panel0);
    for (int64_t p = panel0; p < panel1; p++) {
        const char *w = c->w + group * c->group_bytes + panel.start * PF_VL * c->column_bytes;
        pf_int8_sums s = {.sums = staging, .vectors = panel.vectors};
        s.channel = group * c->oc + panel.start * PF_VL;
        s.n = pf_min(panel.vectors * PF_VL, c->oc - panel.start * PF_VL);
        for (int64_t tile = tile0; tile < tile1; tile++) {
            const int64_t row = tile_start(c, tile) - first;
            s.rows = (int)(tile_start(c, tile + 1) - first - row);
            s.y = b.y + row, s.z = b.z + row;
            PF_NAME(int8_tiles)
            [panel.vectors - 1][s.rows - 1](rows + row *c->stride, c->stride, w, c->steps, staging);
            pf_int8_finish_sums(&c->finish, &s);
        }
        panel.start += panel.vectors;
        panel.vectors = pf_panel_vectors(pf_ceil_div(c->oc, PF_VL) - panel.start);
    }
}

PF_KERNEL_FUNCTION(conv_int8) {
    conv c = plan_conv(args_, w->nthreads);
    c.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w);
    c.finish.scale = pf_ptr(w, c.a.scale), c.finish.bias = pf_ptr(w, c.a.bias);
    c.finish.z = pf_ptr(w, c.a.z), c.finish.late = c.a.z_late != 0, c.finish.y = pf_ptr(w, c.a.y);
    if (c.pixels == 0 || c.oc == 0) return;
    char *rows = (char *)pf_ptr(w, c.a.scratch) + w->tid * scratch_of_thread(&c);
    const int64_t units = c.a.groups * c.panel_sets * c.row_blocks;
    for (int64_t i = pf_claim(w, 1); i < units; i = pf_claim(w, 1)) {
        const int64_t part = i % c.row_blocks, set = i / c.row_blocks % c.panel_sets;
        const int64_t group = i / c.row_blocks / c.panel_sets;
        const int64_t end = c.tiles * (part + 1) / c.row_blocks, panel = set * c.per_unit;
        for (int64_t tile = c.tiles * part / c.row_blocks; tile < end; tile += c.at_once)
            run_block(&c, group, tile, pf_min(tile + c.at_once, end), panel,
                      pf_min(panel + c.per_unit, c.panels), rows);
    }
}

PF_PLAN_FUNCTION(conv_int8) {
    const pf_conv_int8_args *a = args_;
    const conv c = plan_conv(a, nthreads);
    plan->variant = 0;
    plan->packed_bytes = a->groups * c.group_bytes;
    plan->scratch_bytes = c.pixels && c.oc ? nthreads * scratch_of_thread(&c) : 0;
    snprintf(plan->label, sizeof plan->label, "int8 %dx%d", c.rows, pf_panel_widest(c.oc) * PF_VL);
}

/* -- packing -- */

/* Numbers [begin, begin + count) of a column, counted by tap and channel; returns their sum. */
static int32_t gather_column(const int8_t *x, int64_t channels, int64_t taps, int64_t begin, int64_t count,
                             pf_int8_weight *to) {
    int32_t total = 0;
    for (int64_t tap = begin / channels, k = begin % channels; count > 0; tap++, k = 0) {
        const int64_t n = pf_min(channels - k, count);
        const int8_t *from = x + k * taps + tap;
        for (int64_t i = 0; i < n; i++, from += taps) total += to[i] = *from;
        to += n, count -= n;
    }
    return total;
}

/* One vector of columns; `to` is its place in the first row of the panel, whose rows are `width` bytes apart.
 */
static void pack_vector(const int8_t *x, int64_t columns, int64_t channels, int64_t taps, int64_t width,
                        char *to) {
    enum { NUMBERS = PF_VL * PF_INT8_STEP };
    const int64_t depth = channels * taps;
    int64_t totals[PF_VL] = {0};
    for (int64_t first = 0; first < depth; first += NUMBERS) {
        pf_int8_weight numbers[PF_VL][NUMBERS] __attribute__((aligned(64))) = {{0}};
        const int64_t count = pf_min(NUMBERS, depth - first);
        for (int64_t j = 0; j < pf_min(PF_VL, columns); j++)
            totals[j] += gather_column(x + j * depth, channels, taps, first, count, numbers[j]);
        pf_vf rows[PF_VL];
        for (int j = 0; j < PF_VL; j++) rows[j] = pf_load(numbers[j]);
        pf_transpose_tile(rows);
        for (int64_t s = 0; s < steps_of(count); s++)
            pf_store(to + (first / PF_INT8_STEP + s + 1) * width, rows[s]);
    }
    for (int j = 0; j < PF_VL; j++) ((pf_int_any *)to)[j] = (int32_t)(-PF_INT8_OFFSET * totals[j]);
}

PF_KERNEL_FUNCTION(conv_int8_pack) {
    const pf_pack_args *a = args_;
    const int8_t *x = pf_ptr(w, a->x);
    char *y = pf_ptr(w, a->y);
    const int64_t ic = a->ic / a->groups, oc = a->oc / a->groups, taps = a->kh * a->kw, depth = ic * taps;
    const int64_t panels = pf_panel_count(oc);
    const int64_t pieces = a->groups * panels * PF_TILE_VECTORS;
    for (int64_t i = pf_claim_near(w, pieces); i < pieces; i = pf_claim_near(w, pieces)) {
        const int64_t group = i / PF_TILE_VECTORS / panels, v = i % PF_TILE_VECTORS;
        const pf_panel panel = pf_panel_at(oc, i / PF_TILE_VECTORS % panels);
        if (v >= panel.vectors) continue;
        const int64_t column = (panel.start + v) * PF_VL;
        char *to = y + group * packed_group(oc, depth) + panel.start * PF_VL * packed_column(depth);
        pack_vector(x + (group * oc + column) * depth, oc - column, ic, taps,
                    panel.vectors * PF_VL * STEP_BYTES, to + v * PF_VL * STEP_BYTES);
    }
}
