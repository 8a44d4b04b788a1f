/* Convolution by products of split floats (split.h) over channels-last tensors; linear layers and 1x1 kernels
 * are the case of one tap. The windows of some output pixels are split into tiles of rows, which stay in L2
 * while all columns pass; before that they can be scaled, shifted and activated by channel. */
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_place.h"
#include "kernels/epilogue.h"
#include "kernels/split.h"

enum {
    ROWS_BYTES = 1280 << 10, /* split rows of a thread: they stay in the L2 of processors with matrix tiles */
    CHUNK_TILES = 32,        /* most tiles of rows at a time */
    UNITS_EACH = 8,          /* wanted by each of several threads: some to give away */
    LIGHT_BYTES = 512 << 10, /* weights that L2 holds besides: threads share the rows, not the columns */
    LEAST_PAIRS = 4,         /* of tiles of rows in a chunk, if there is one for each thread */
    SIDE = PF_SPLIT_SIDE,
    LINE = 64,
};

typedef struct conv {
    pf_conv_args a;
    const float *x, *bias, *z, *scale, *shift;
    const char *w;
    pf_split_weights l; /* of w */
    float *y;
    int64_t ic, oc;        /* of one group */
    int64_t pixels, tiles; /* output pixels of all images; tiles of rows over them */
    int64_t chunks, sets;  /* units are groups x chunks of rows x sets of columns */
    int pointwise, joined; /* one tap, no padding; taps of a filter row lie side by side */
    int changed;           /* x is scaled, shifted and activated first */
    pf_activation before, act;
    float low, high; /* bounds of results, as far as the activation is one */
} conv;

/* Threads that share columns each split the same rows. */
static void choose_units(conv *c, int nthreads) {
    const int64_t most = ROWS_BYTES / pf_max(1, c->l.tile) & -2, pairs = pf_ceil_div(c->tiles, 2);
    c->sets = 1;
    c->chunks = pf_ceil_div(c->tiles, pf_max(2, pf_min(most, CHUNK_TILES)));
    if (nthreads == 1) return;
    const int64_t wanted = UNITS_EACH * nthreads;
    if (pairs >= nthreads && c->l.columns * c->l.tile <= LIGHT_BYTES)
        c->chunks = pf_max(c->chunks, pf_max(nthreads, pf_min(wanted, pairs / LEAST_PAIRS)));
    else
        c->sets = pf_min(c->l.columns, pf_ceil_div(wanted, c->chunks * c->a.groups));
}

static conv plan_conv(const pf_conv_args *a, int nthreads) {
    conv c = {.a = *a, .ic = a->ic / a->groups, .oc = a->oc / a->groups, .pixels = a->n * a->oh * a->ow};
    c.l = pf_split_layout(a->groups, c.oc, a->kh * a->kw * c.ic);
    if (c.pixels == 0 || c.oc == 0) return c;
    c.tiles = pf_ceil_div(c.pixels, PF_SPLIT_SIDE);
    choose_units(&c, nthreads);
    c.pointwise = a->kh * a->kw == 1 && a->pad_h == 0 && a->pad_w == 0 && (a->oh - 1) * a->stride_h < a->ih &&
                  (a->ow - 1) * a->stride_w < a->iw;
    c.joined = a->groups == 1 && a->dil_w == 1 && a->xsw == a->ic;
    c.act = pf_act_make(a->act, a->act_a, a->act_b);
    c.low = c.act.code == PF_ACT_NONE ? -INFINITY : c.act.a,
    c.high = c.act.code == PF_ACT_NONE ? INFINITY : c.act.b;
    return c;
}

/* -- rows -- */

/* What a thread has split: a chunk of the rows of a group. */
typedef struct rows {
    char *tiles;
    float *window;        /* a line of taps in whole vectors */
    int64_t first, count; /* its tiles */
    int64_t y[CHUNK_TILES * PF_SPLIT_SIDE], z[CHUNK_TILES * PF_SPLIT_SIDE]; /* where results lie */
    float scales[CHUNK_TILES * PF_SPLIT_SIDE];                              /* 0: cut */
    int cut[CHUNK_TILES]; /* whether a tile has such rows, or more inputs than sums may have */
} rows;

static int64_t window_bytes(const conv *c) {
    return pf_ceil_div(c->l.depth, LINE) * LINE * (int64_t)sizeof(float);
}

/* Of a thread. */
static int64_t rows_bytes(const conv *c) {
    return 2 * pf_ceil_div(pf_ceil_div(c->tiles, 2), c->chunks) * c->l.tile + window_bytes(c);
}

/* Chunks consist of pairs of tiles. */
static int64_t chunk_start(const conv *c, int64_t chunk) {
    return pf_min(c->tiles, 2 * (pf_ceil_div(c->tiles, 2) * chunk / c->chunks));
}

/* Element of x where the window of a pixel begins, perhaps outside of the image. */
static const float *window_of(const conv *c, const pf_conv_place *p, int64_t group) {
    const int64_t offset = PF_WINDOW_OFFSET(&c->a, p) + group * c->ic;
    return (const float *)((uintptr_t)c->x + (uintptr_t)offset * sizeof(float));
}

/* Copies a window, tap by tap, with zeros for the padding. */
static void copy_window(const conv *c, const pf_conv_place *p, const float *window, float *to) {
    const pf_conv_args *a = &c->a;
    const int64_t y0 = PF_WINDOW_Y(a, p), x0 = PF_WINDOW_X(a, p);
    const int whole = c->joined && x0 >= 0 && x0 + a->kw <= a->iw;
    for (int64_t ky = 0; ky < a->kh; ky++) {
        const int64_t iy = y0 + ky * a->dil_h;
        const int outside = iy < 0 || iy >= a->ih;
        const uintptr_t line = (uintptr_t)window + (uintptr_t)(ky * a->dil_h * a->xsh) * sizeof(float);
        if (whole && !outside) {
            memcpy(to, (const float *)line, (size_t)(a->kw * c->ic) * sizeof *to);
            to += a->kw * c->ic;
            continue;
        }
        for (int64_t kx = 0; kx < a->kw; kx++, to += c->ic) {
            const int64_t ix = x0 + kx * a->dil_w;
            const uintptr_t tap = line + (uintptr_t)(kx * a->dil_w * a->xsw) * sizeof(float);
            if (outside || ix < 0 || ix >= a->iw)
                memset(to, 0, (size_t)c->ic * sizeof *to);
            else
                memcpy(to, (const float *)tap, (size_t)c->ic * sizeof *to);
        }
    }
}

static void multiply(float *x, const float *by, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_VL)
        pf_store_upto(x + i, pf_load_upto(x + i, n - i) * pf_load_upto(by + i, n - i), n - i);
}

/* Scales, shifts and activates the channels of a pixel. */
static void change_row(const conv *c, const float *x, float *to) {
    for (int64_t i = 0; i < c->ic; i += PF_VL) {
        const int64_t n = c->ic - i;
        const pf_vf shift = c->shift ? pf_load_upto(c->shift + i, n) : pf_zero();
        const pf_vf v = pf_fma(pf_load_upto(x + i, n), pf_load_upto(c->scale + i, n), shift);
        pf_store_upto(to + i, pf_act_vector(&c->before, v), n);
    }
}

/* The window of a pixel as it is to be split, in a buffer unless it lies so in memory. */
static const float *prepare(const conv *c, const pf_conv_place *p, int64_t group, const float *factors,
                            float *to) {
    const float *x = window_of(c, p, group);
    if (c->changed)
        change_row(c, x, to);
    else if (!c->pointwise)
        copy_window(c, p, x, to);
    else if (factors)
        memcpy(to, x, (size_t)c->ic * sizeof *x);
    else
        return x;
    if (factors) multiply(to, factors, c->l.depth);
    return to;
}

/* Splits the rows of a chunk. */
static void split_rows(const conv *c, int64_t group, int64_t chunk, rows *r) {
    const pf_conv_args *a = &c->a;
    r->first = chunk_start(c, chunk), r->count = chunk_start(c, chunk + 1) - r->first;
    const float *uneven = (const float *)(c->w + c->l.uneven) + group;
    const float *factors = *uneven ? (const float *)(c->w + c->l.factors) + group * c->l.depth : NULL;
    const int direct = c->pointwise && !c->changed && !factors;
    int64_t pixel = r->first * SIDE;
    const int64_t end = pf_min(c->pixels, pixel + r->count * SIDE);
    pf_conv_place p = pf_conv_place_of(pixel, a->oh, a->ow);
    const float *x[SIDE];
    for (int64_t i = 0; i < r->count; i++) r->cut[i] = c->l.depth > PF_SPLIT_LONGEST;
    for (int64_t i = 0; pixel < end; pixel++, i++) {
        char *tile = r->tiles + i / SIDE * c->l.tile;
        const int row = (int)(i % SIDE);
        x[row] = prepare(c, &p, group, factors, r->window);
        if (!direct)
            r->scales[i] = pf_split_row(x[row], c->l.depth, c->l.steps, tile + row * PF_SPLIT_DEPTH);
        else if (row == SIDE - 1 || pixel == end - 1)
            pf_split_rows(x, row + 1, c->l.depth, c->l.steps, tile, r->scales + i - row);
        if (row == SIDE - 1 || pixel == end - 1)
            for (int k = 0; k <= row; k++) r->cut[i / SIDE] |= r->scales[i - k] == 0.0f;
        r->y[i] = p.image * a->ysn + p.oy * a->ysh + p.ox * a->ysw + group * c->oc;
        r->z[i] = p.image * a->zsn + p.oy * a->zsh + p.ox * a->zsw + group * c->oc;
        if (++p.ox < a->ow) continue;
        p.ox = 0;
        if (++p.oy == a->oh) p.oy = 0, p.image++;
    }
}

/* -- results -- */

/* Some rows of sums, dense, on their way to n columns of y. */
typedef struct sums {
    const conv *c;
    int32_t parts[PF_SPLIT_SUMS] __attribute__((aligned(64)));   /* by matrix tiles */
    float numbers[2 * SIDE * SIDE] __attribute__((aligned(64))); /* by vectors, and room for them */
    int exact;                                                   /* by vectors */
    int64_t rows, done;                                          /* how many, and how many are in y */
    const float *row_scales, *scales, *bias;                     /* NULL: none */
    const int64_t *y, *z;
    int64_t column, n;
} sums;

/* Scales, bias, residual and activation of rows [begin, end). Bounds: an activation that is some, or none. */
PF_INLINE void finish_rows(sums *s, int64_t begin, int64_t end, const int bounds) {
    enum { VECTORS = SIDE / PF_VL };
    const conv *c = s->c;
    const float *early = c->a.z_late ? NULL : c->z, *late = c->a.z_late ? c->z : NULL;
    const int buffered = pf_act_is_late(c->act.code) || late;
    const pf_vf low = pf_set(c->low), high = pf_set(c->high);
    pf_vf by[VECTORS], first[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        by[v] = s->scales ? pf_load(s->scales + v * PF_VL) : pf_set(1.0f);
        first[v] = s->bias ? pf_load_upto(s->bias + v * PF_VL, s->n - v * PF_VL) : pf_zero();
    }
    for (int64_t r = begin; r < end; r++) {
        const float scale = s->row_scales[r];
        float *from = s->numbers + r * SIDE, *to = buffered ? from : c->y + s->y[r] + s->column;
        pf_vf v[VECTORS];
        for (int i = 0; i < VECTORS; i++) {
            const int64_t at = r * SIDE + i * PF_VL, n = s->n - i * PF_VL;
            const pf_vf sum = s->exact ? pf_load(s->numbers + at) : pf_split_sum(s->parts + at);
            v[i] = pf_fma(sum * pf_set(scale == 0.0f ? 1.0f : scale), by[i], first[i]);
            if (early) v[i] += pf_load_upto(early + s->z[r] + s->column + i * PF_VL, n);
            if (bounds) v[i] = pf_act_clip(v[i], low, high);
        }
        if (!bounds) pf_act_early(&c->act, v, VECTORS);
        for (int i = 0; i < VECTORS; i++) pf_store_upto(to + i * PF_VL, v[i], s->n - i * PF_VL);
    }
    if (!buffered) return;
    pf_act_late(c->act.code, s->numbers + begin * SIDE, SIDE, end - begin, s->n);
    for (int64_t r = begin; r < end; r++)
        for (int64_t i = 0; i < s->n; i += PF_VL) {
            pf_vf v = pf_load(s->numbers + r * SIDE + i);
            if (late) v += pf_load_upto(late + s->z[r] + s->column + i, s->n - i);
            pf_store_upto(c->y + s->y[r] + s->column + i, v, s->n - i);
        }
}

/* The next rows, of which there are so many parts left. */
static void finish_some(void *context, int64_t parts) {
    sums *s = context;
    const int64_t begin = s->done, end = begin + pf_ceil_div(s->rows - begin, parts);
    if (begin == s->rows) return;
    if (s->c->act.code <= PF_ACT_CLIP)
        finish_rows(s, begin, end, 1);
    else
        finish_rows(s, begin, end, 0);
    s->done = end;
}

/* Sums that are being made, and those made before, which are finished meanwhile. */
typedef struct turns {
    sums both[2];
    int now;
} turns;

/* One or two tiles of the rows by one of the columns. The tile of columns that follows comes from memory
 * meanwhile. */
static void run_tiles(const conv *c, const rows *r, int64_t group, int64_t tile, int64_t column, turns *t) {
    enum { LINES = PF_SPLIT_STEP / LINE };
    const int64_t row = tile * SIDE, first = column * SIDE, number = group * c->l.columns + column;
    sums *before = &t->both[t->now], *s = &t->both[t->now ^= 1];
    pf_split_product p = {.tiles = pf_min(2, r->count - tile), .steps = c->l.steps};
    s->c = c, s->row_scales = r->scales + row, s->y = r->y + row, s->z = r->z + row;
    s->column = first, s->n = pf_min(SIDE, c->oc - first);
    s->rows = pf_min(p.tiles * SIDE, c->pixels - r->first * SIDE - row), s->done = 0;
    s->scales = (const float *)(c->w + c->l.scales) + number * SIDE;
    if (s->scales[0] == 0.0f) s->scales = NULL;
    s->bias = c->bias ? c->bias + group * c->oc + first : NULL;
    p.a = r->tiles + tile * c->l.tile, p.b = c->w + number * c->l.tile;
    p.lines = r->count == 1 ? 0 : pf_ceil_div(LINES, pf_ceil_div(r->count, 2));
    p.ahead = p.b + c->l.tile + tile / 2 * p.steps * p.lines * LINE;
    p.work = finish_some, p.context = before;
    s->exact = !PF_SPLIT_TILES || p.steps == 0 || !s->scales || r->cut[tile] || r->cut[tile + p.tiles - 1];
    if (!s->exact) {
        pf_split_sums(&p, s->parts);
        return;
    }
    for (int i = 0; i < p.tiles; i++)
        pf_split_by_vectors(p.a + i * c->l.tile, s->row_scales + i * SIDE, p.b, !s->scales, p.steps,
                            s->numbers + i * SIDE * SIDE);
    finish_some(before, 1);
}

static void run_conv(conv c, const pf_worker *w) {
    if (c.pixels == 0 || c.oc == 0) return;
    c.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w), c.bias = pf_ptr(w, c.a.bias), c.z = pf_ptr(w, c.a.z);
    c.y = pf_ptr(w, c.a.y);
    rows r = {.tiles = (char *)pf_ptr(w, c.a.scratch) + w->tid * rows_bytes(&c)};
    r.window = (float *)(r.tiles + rows_bytes(&c) - window_bytes(&c));
    turns t = {.now = 0};
    int64_t have = -1;
    const int64_t units = c.a.groups * c.chunks * c.sets;
    pf_split_begin();
    for (int64_t i = pf_claim_near(w, units); i < units; i = pf_claim_near(w, units)) {
        const int64_t set = i % c.sets, chunk = i / c.sets % c.chunks, group = i / c.sets / c.chunks;
        if (have != i / c.sets) {
            finish_some(&t.both[t.now], 1);
            split_rows(&c, group, chunk, &r);
            have = i / c.sets;
        }
        const int64_t end = c.l.columns * (set + 1) / c.sets;
        for (int64_t column = c.l.columns * set / c.sets; column < end; column++)
            for (int64_t tile = 0; tile < r.count; tile += 2) run_tiles(&c, &r, group, tile, column, &t);
    }
    finish_some(&t.both[t.now], 1);
    pf_split_end();
}

PF_KERNEL_FUNCTION(conv_split_f32) { run_conv(plan_conv(args_, w->nthreads), w); }

PF_KERNEL_FUNCTION(conv_split_affine_f32) {
    const pf_conv_affine_args *args = args_;
    conv c = plan_conv(args_, w->nthreads);
    c.changed = 1;
    c.scale = pf_ptr(w, args->scale), c.shift = pf_ptr(w, args->shift);
    c.before = pf_act_make(args->before, args->before_a, args->before_b);
    run_conv(c, w);
}

/* Fewer threads may make larger chunks, for which the scratch has to suffice. */
static void describe(const conv *c, int nthreads, pf_plan *plan) {
    const conv alone = plan_conv(&c->a, 1);
    plan->variant = 0;
    plan->packed_bytes = c->l.bytes;
    plan->scratch_bytes = c->pixels && c->oc ? nthreads * pf_max(rows_bytes(c), rows_bytes(&alone)) : 0;
    snprintf(plan->label, sizeof plan->label, "split %dx%d", 2 * SIDE, SIDE);
}

PF_PLAN_FUNCTION(conv_split_f32) {
    const conv c = plan_conv(args_, nthreads);
    describe(&c, nthreads, plan);
}

/* Without scratch: not to be had for this shape. */
PF_PLAN_FUNCTION(conv_split_affine_f32) {
    const conv c = plan_conv(args_, nthreads);
    describe(&c, nthreads, plan);
    if (!c.pointwise || c.a.groups > 1) plan->scratch_bytes = 0;
}
