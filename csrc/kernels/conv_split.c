/* Convolution by products of split floats (split.h) over channels-last tensors; linear layers and 1x1 kernels
 * are the case of one tap. The windows of some output pixels are split into tiles of rows, which stay in L2
 * while all columns pass; before that they can be scaled, shifted and activated by channel. */
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/epilogue.h"
#include "kernels/split.h"

enum {
    ROWS_BYTES = 1 << 20, /* split rows of a thread: half of an L2 of processors with matrix tiles */
    CHUNK_TILES = 32,     /* most tiles of rows at a time */
    UNITS_EACH = 8,       /* wanted by each of several threads: some to give away */
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
} conv;

static conv plan_conv(const pf_conv_args *a, int nthreads) {
    conv c = {.a = *a, .ic = a->ic / a->groups, .oc = a->oc / a->groups, .pixels = a->n * a->oh * a->ow};
    c.l = pf_split_layout(a->groups, c.oc, a->kh * a->kw * c.ic);
    if (c.pixels == 0 || c.oc == 0) return c;
    c.tiles = pf_ceil_div(c.pixels, PF_SPLIT_SIDE);
    const int64_t most = ROWS_BYTES / pf_max(1, c.l.tile) & -2;
    c.chunks = pf_ceil_div(c.tiles, pf_max(2, pf_min(most, CHUNK_TILES)));
    const int64_t wanted = nthreads > 1 ? UNITS_EACH * nthreads : 1;
    c.sets = pf_min(c.l.columns, pf_ceil_div(wanted, c.chunks * a->groups));
    c.pointwise = a->kh * a->kw == 1 && a->pad_h == 0 && a->pad_w == 0 && (a->oh - 1) * a->stride_h < a->ih &&
                  (a->ow - 1) * a->stride_w < a->iw;
    c.joined = a->groups == 1 && a->dil_w == 1 && a->xsw == a->ic;
    c.act = pf_act_make(a->act, a->act_a, a->act_b);
    return c;
}

/* -- rows -- */

/* What a thread has split: a chunk of the rows of a group. */
typedef struct rows {
    char *tiles;
    float *window; /* a line of taps in whole vectors */
    int64_t first, count; /* its tiles */
    int64_t y[CHUNK_TILES * PF_SPLIT_SIDE], z[CHUNK_TILES * PF_SPLIT_SIDE]; /* where results lie */
    float scales[CHUNK_TILES * PF_SPLIT_SIDE]; /* 0: cut */
} rows;

static int64_t window_bytes(const conv *c) { return pf_ceil_div(c->l.depth, LINE) * LINE * (int64_t)sizeof(float); }

/* Of a thread. */
static int64_t rows_bytes(const conv *c) {
    return pf_ceil_div(c->tiles, c->chunks) * c->l.tile + window_bytes(c);
}

static int64_t chunk_start(const conv *c, int64_t chunk) { return c->tiles * chunk / c->chunks; }

/* An output pixel. */
typedef struct place {
    int64_t image, oy, ox;
} place;

/* Element of x where the window of a pixel begins, perhaps outside of the image. */
static const float *window_of(const conv *c, const place *p, int64_t group) {
    const pf_conv_args *a = &c->a;
    const int64_t y = p->oy * a->stride_h - a->pad_h, x = p->ox * a->stride_w - a->pad_w;
    const int64_t offset = p->image * a->xsn + y * a->xsh + x * a->xsw + group * c->ic;
    return (const float *)((uintptr_t)c->x + (uintptr_t)offset * sizeof(float));
}

/* Copies a window, tap by tap, with zeros for the padding. */
static void copy_window(const conv *c, const place *p, const float *window, float *to) {
    const pf_conv_args *a = &c->a;
    const int64_t y0 = p->oy * a->stride_h - a->pad_h, x0 = p->ox * a->stride_w - a->pad_w;
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
        const pf_vf v = pf_fma(pf_load_upto(x + i, n), pf_load_upto(c->scale + i, n), pf_load_upto(c->shift + i, n));
        pf_store_upto(to + i, pf_act_vector(&c->before, v), n);
    }
}

/* Splits the rows of a chunk. */
static void split_rows(const conv *c, int64_t group, int64_t chunk, rows *r) {
    const pf_conv_args *a = &c->a;
    r->first = chunk_start(c, chunk), r->count = chunk_start(c, chunk + 1) - r->first;
    const float *uneven = (const float *)(c->w + c->l.uneven) + group;
    const float *factors = *uneven ? (const float *)(c->w + c->l.factors) + group * c->l.depth : NULL;
    int64_t pixel = r->first * SIDE;
    const int64_t end = pf_min(c->pixels, pixel + r->count * PF_SPLIT_SIDE);
    place p = {pixel / a->ow / a->oh, pixel / a->ow % a->oh, pixel % a->ow};
    for (int64_t i = 0; pixel < end; pixel++, i++) {
        const float *x = window_of(c, &p, group);
        if (c->changed)
            change_row(c, x, r->window);
        else if (!c->pointwise)
            copy_window(c, &p, x, r->window);
        else if (factors)
            memcpy(r->window, x, (size_t)c->ic * sizeof *x);
        if (factors) multiply(r->window, factors, c->l.depth);
        if (c->changed || !c->pointwise || factors) x = r->window;
        char *to = r->tiles + i / SIDE * c->l.tile + i % SIDE * PF_SPLIT_DEPTH;
        r->scales[i] = pf_split_row(x, c->l.depth, c->l.steps, to);
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
    float *sums;
    int64_t rows;
    const float *scales;
    const int64_t *y, *z;
    int64_t column, n;
} sums;

/* Scales, bias, residual and activation. */
static void finish(const conv *c, const sums *s, const float *scales, const float *bias) {
    enum { VECTORS = SIDE / PF_VL };
    const int late = pf_act_is_late(c->act.code), z_late = c->z && c->a.z_late;
    pf_vf by[VECTORS], first[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        by[v] = pf_load(scales + v * PF_VL);
        first[v] = bias ? pf_load_upto(bias + v * PF_VL, s->n - v * PF_VL) : pf_zero();
    }
    for (int64_t r = 0; r < s->rows; r++) {
        float *from = s->sums + r * SIDE, *to = late || z_late ? from : c->y + s->y[r] + s->column;
        const pf_vf scale = pf_set(s->scales[r] == 0.0f ? 1.0f : s->scales[r]);
        pf_vf v[VECTORS];
        for (int i = 0; i < VECTORS; i++) v[i] = pf_fma(pf_load(from + i * PF_VL) * scale, by[i], first[i]);
        for (int i = 0; c->z && !z_late && i < VECTORS; i++)
            v[i] += pf_load_upto(c->z + s->z[r] + s->column + i * PF_VL, s->n - i * PF_VL);
        pf_act_early(&c->act, v, VECTORS);
        for (int i = 0; i < VECTORS; i++) pf_store_upto(to + i * PF_VL, v[i], s->n - i * PF_VL);
    }
    if (!late && !z_late) return;
    pf_act_late(c->act.code, s->sums, SIDE, s->rows, s->n);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i += PF_VL) {
            pf_vf v = pf_load(s->sums + r * SIDE + i);
            if (z_late) v += pf_load_upto(c->z + s->z[r] + s->column + i, s->n - i);
            pf_store_upto(c->y + s->y[r] + s->column + i, v, s->n - i);
        }
}

/* Whether matrix tiles can multiply some rows by a tile of columns. */
static int takes_tiles(const conv *c, const float *rows, int64_t count, const float *columns) {
#if defined(PF_AMX)
    int takes = columns[0] != 0.0f && c->l.depth <= PF_SPLIT_LONGEST;
    for (int64_t i = 0; i < count; i++) takes &= rows[i] != 0.0f;
    return takes;
#else
    (void)c, (void)rows, (void)count, (void)columns;
    return 0;
#endif
}

/* One or two tiles of the rows by one of the columns, and what becomes of their sums. */
static void run_tiles(const conv *c, const rows *r, int64_t group, int64_t tile, int64_t column) {
    static const float one[SIDE] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    float numbers[2 * SIDE * SIDE] __attribute__((aligned(64)));
    const int64_t bytes = c->l.tile, row = tile * SIDE, first = column * SIDE;
    const int64_t tiles = pf_min(2, r->count - tile);
    sums s = {.sums = numbers, .scales = r->scales + row, .y = r->y + row, .z = r->z + row, .column = first};
    s.rows = pf_min(tiles * SIDE, c->pixels - r->first * SIDE - row);
    s.n = pf_min(SIDE, c->oc - first);
    const char *a = r->tiles + tile * bytes, *b = c->w + (group * c->l.columns + column) * bytes;
    const float *scales = (const float *)(c->w + c->l.scales) + (group * c->l.columns + column) * SIDE;
    if (!takes_tiles(c, s.scales, s.rows, scales))
        for (int i = 0; i < tiles; i++)
            pf_split_by_vectors(a + i * bytes, s.scales + i * SIDE, b, scales[0] == 0.0f, c->l.steps,
                                numbers + i * SIDE * SIDE);
#if defined(PF_AMX)
    else if (tiles == 2)
        pf_split_sums(2, a, bytes, b, c->l.steps, numbers);
    else
        pf_split_sums(1, a, bytes, b, c->l.steps, numbers);
#endif
    finish(c, &s, scales[0] == 0.0f ? one : scales, c->bias ? c->bias + group * c->oc + first : NULL);
}

static void run_conv(conv c, const pf_worker *w) {
    if (c.pixels == 0 || c.oc == 0) return;
    c.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w), c.bias = pf_ptr(w, c.a.bias), c.z = pf_ptr(w, c.a.z);
    c.y = pf_ptr(w, c.a.y);
    rows r = {.tiles = (char *)pf_ptr(w, c.a.scratch) + w->tid * rows_bytes(&c)};
    r.window = (float *)(r.tiles + rows_bytes(&c) - window_bytes(&c));
    int64_t have = -1;
    const int64_t units = c.a.groups * c.chunks * c.sets;
    pf_split_begin();
    for (int64_t i = pf_claim_near(w, units); i < units; i = pf_claim_near(w, units)) {
        const int64_t set = i % c.sets, chunk = i / c.sets % c.chunks, group = i / c.sets / c.chunks;
        if (have != i / c.sets) split_rows(&c, group, chunk, &r);
        have = i / c.sets;
        const int64_t end = c.l.columns * (set + 1) / c.sets;
        for (int64_t column = c.l.columns * set / c.sets; column < end; column++)
            for (int64_t tile = 0; tile < r.count; tile += 2) run_tiles(&c, &r, group, tile, column);
    }
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

static void describe(const conv *c, int nthreads, pf_plan *plan) {
    plan->variant = 0;
    plan->packed_bytes = c->l.bytes;
    plan->scratch_bytes = c->pixels && c->oc ? nthreads * rows_bytes(c) : 0;
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
