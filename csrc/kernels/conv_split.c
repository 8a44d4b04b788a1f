/* Convolution by products of split floats (split.h) over channels-last tensors; linear layers and 1x1 kernels
 * are the case of one tap. The windows of some output pixels are split into tiles of rows, which stay in L2
 * while all columns pass; before that they can be scaled, shifted and activated by channel. */
#include <stdio.h>
#include <string.h>

#include "kernels/conv_windows.h"
#include "kernels/epilogue.h"
#include "kernels/split.h"

enum {
    ROWS_BYTES = 1280 << 10, /* split rows of a thread: they stay in the L2 of processors with matrix tiles */
    CHUNK_TILES = 32,        /* most tiles of rows at a time */
    UNITS_EACH = 8,          /* wanted by each of several threads: some to give away */
    LIGHT_BYTES = 512 << 10, /* weights that L2 holds besides: threads share the rows, not the columns */
    SHORT_STEPS = 8,         /* of sums whose rows stay in L1 */
    FEW_BYTES = 1 << 20,     /* weights that stay in L2 while rows pass */
    HIDING = 10,             /* tiles of columns whose products take as long as splitting the next rows */
    AHEAD_STEPS = 2,         /* how far ahead columns are fetched that wait for memory */
    SIDE = PF_SPLIT_SIDE,
    LINE = 64,
};

/* Bytes from step to step of rows: a tile of few ones, too, is to lie in all sets of a cache. */
enum { APART = PF_SPLIT_STEP + LINE };

typedef struct conv {
    pf_conv_args a;
    pf_windows in;
    const float *bias, *z;
    const char *w;
    pf_split_weights l; /* of w */
    float *y;
    int64_t oc;            /* of one group */
    int64_t tile;          /* bytes of a tile of split rows */
    int64_t pixels, tiles; /* output pixels of all images; tiles of rows over them */
    int64_t chunks, sets;  /* units are groups x chunks of rows x sets of columns, */
    int by_pairs;          /* or groups x pairs of tiles of rows */
    pf_activation act;
    float low, high; /* bounds of results, as far as the activation is one */
} conv;

/* Threads that share columns each split the same rows. Chunks, and so the scratch of a thread, do not depend
 * on their number. */
static void choose_units(conv *c, int nthreads) {
    const int64_t most = ROWS_BYTES / pf_max(1, c->tile) & -2, pairs = pf_ceil_div(c->tiles, 2);
    c->sets = 1;
    c->chunks = pf_ceil_div(c->tiles, pf_max(2, pf_min(most, CHUNK_TILES)));
    c->by_pairs = nthreads > 1 && pairs >= nthreads && c->l.columns * c->l.tile <= LIGHT_BYTES;
    if (nthreads > 1 && !c->by_pairs)
        c->sets = pf_min(c->l.columns, pf_ceil_div(UNITS_EACH * nthreads, c->chunks * c->a.groups));
}

static conv plan_conv(const pf_conv_args *a, int nthreads) {
    conv c = {.a = *a, .in = pf_windows_of(a), .oc = a->oc / a->groups, .pixels = a->n * a->oh * a->ow};
    c.l = pf_split_layout(a->groups, c.oc, c.in.depth);
    if (c.pixels == 0 || c.oc == 0) return c;
    c.tile = c.l.steps * APART;
    c.tiles = pf_ceil_div(c.pixels, PF_SPLIT_SIDE);
    choose_units(&c, nthreads);
    c.act = pf_act_make(a->act, a->act_a, a->act_b);
    c.low = c.act.code == PF_ACT_NONE ? -INFINITY : c.act.a,
    c.high = c.act.code == PF_ACT_NONE ? INFINITY : c.act.b;
    return c;
}

/* -- rows -- */

/* A row on its way: what is split, and its largest size. */
typedef struct row {
    const float *x;
    float largest;
    float *window; /* for x: a line of taps in whole vectors */
} row;

/* A chunk of the rows of a group, which a thread splits one after the other. Each one is measured while that
 * before it is split. */
typedef struct rows {
    char *tiles;
    const float *factors; /* NULL: none */
    int64_t group;
    int64_t first, count; /* its tiles */
    int64_t total, split; /* its rows; how many are split */
    row turn[2];
    pf_conv_place next;                                                     /* window that is measured next */
    int64_t y[CHUNK_TILES * PF_SPLIT_SIDE], z[CHUNK_TILES * PF_SPLIT_SIDE]; /* where results lie */
    float scales[CHUNK_TILES * PF_SPLIT_SIDE];                              /* 0: cut */
    int cut[CHUNK_TILES]; /* whether a tile has such rows, or more inputs than sums may have */
} rows;

static int64_t window_bytes(const conv *c) {
    return pf_ceil_div(c->l.depth, LINE) * LINE * (int64_t)sizeof(float);
}

/* Of a thread. */
static int64_t rows_bytes(const conv *c) {
    return 2 * pf_ceil_div(pf_ceil_div(c->tiles, 2), c->chunks) * c->tile + 2 * window_bytes(c);
}

/* Chunks consist of pairs of tiles. */
static int64_t chunk_start(const conv *c, int64_t chunk) {
    return pf_min(c->tiles, 2 * (pf_ceil_div(c->tiles, 2) * chunk / c->chunks));
}

static void multiply(float *x, const float *by, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_VL)
        pf_store_upto(x + i, pf_load_upto(x + i, n - i) * pf_load_upto(by + i, n - i), n - i);
}

/* The window of a pixel as it is to be split, in a buffer unless it lies so in memory. */
static const float *prepare(const conv *c, const pf_conv_place *p, int64_t group, const float *factors,
                            float *to) {
    const float *x = pf_window_of(&c->in, p, group, to);
    if (!factors) return x;
    if (x != to) memcpy(to, x, (size_t)c->l.depth * sizeof *x);
    multiply(to, factors, c->l.depth);
    return to;
}

static void measure_row(const conv *c, rows *r, int64_t i) {
    const pf_conv_args *a = &c->a;
    pf_conv_place *p = &r->next;
    row *now = &r->turn[i % 2];
    if (i >= r->total) return;
    now->x = prepare(c, p, r->group, r->factors, now->window);
    now->largest = pf_size_largest(now->x, c->l.depth);
    r->y[i] = p->image * a->ysn + p->oy * a->ysh + p->ox * a->ysw + r->group * c->oc;
    r->z[i] = p->image * a->zsn + p->oy * a->zsh + p->ox * a->zsw + r->group * c->oc;
    if (++p->ox == a->ow) pf_conv_place_next_line(p, a->oh);
}

static void begin_rows(const conv *c, int64_t group, int64_t first, int64_t end, rows *r) {
    const float *uneven = (const float *)(c->w + c->l.uneven) + group;
    r->factors = *uneven ? (const float *)(c->w + c->l.factors) + group * c->l.depth : NULL;
    r->group = group;
    r->first = first, r->count = end - first;
    r->total = pf_min(c->pixels - r->first * SIDE, r->count * SIDE), r->split = 0;
    r->next = pf_conv_place_of(r->first * SIDE, c->a.oh, c->a.ow);
    for (int64_t i = 0; i < r->count; i++) r->cut[i] = c->l.depth > PF_SPLIT_LONGEST;
    measure_row(c, r, 0);
}

/* Splits rows of the chunk until there are so many. */
static void split_until(const conv *c, rows *r, int64_t end) {
    for (int64_t i = r->split; i < end; i++) {
        const row *now = &r->turn[i % 2];
        char *to = r->tiles + i / SIDE * c->tile + i % SIDE * PF_SPLIT_DEPTH;
        measure_row(c, r, i + 1);
        r->scales[i] = pf_split_row(now->x, c->l.depth, now->largest, c->l.steps, APART, to);
        r->cut[i / SIDE] |= r->scales[i] == 0.0f;
    }
    r->split = pf_max(r->split, end);
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

/* Scales, bias, residual and activation of rows [begin, end). Bounds: an activation that is some, or none,
 * and no late residual. Whole: sums by matrix tiles for as many columns. */
PF_INLINE void finish_rows(sums *s, int64_t begin, int64_t end, const int bounds, const int whole) {
    enum { VECTORS = SIDE / PF_VL };
    const conv *c = s->c;
    const float *early = c->a.z_late ? NULL : c->z, *late = c->a.z_late ? c->z : NULL;
    const int buffered = !bounds && (pf_act_is_late(c->act.code) || late), exact = !whole && s->exact;
    const int64_t columns = whole ? SIDE : s->n;
    const pf_vf low = pf_set(c->low), high = pf_set(c->high);
    float *y = c->y + s->column;
    pf_vf by[VECTORS], first[VECTORS];
    for (int v = 0; v < VECTORS; v++) {
        by[v] = s->scales ? pf_load(s->scales + v * PF_VL) : pf_set(1.0f);
        first[v] = s->bias ? pf_load_upto(s->bias + v * PF_VL, columns - v * PF_VL) : pf_zero();
    }
    for (int64_t r = begin; r < end; r++) {
        const float scale = s->row_scales[r];
        float *from = s->numbers + r * SIDE, *to = buffered ? from : y + s->y[r];
        pf_vf v[VECTORS];
        __builtin_prefetch(y + s->y[r] + SIDE, 1); /* for the next tile of columns */
        for (int i = 0; i < VECTORS; i++) {
            const int64_t at = r * SIDE + i * PF_VL, n = columns - i * PF_VL;
            const pf_vf sum = exact ? pf_load(s->numbers + at) : pf_split_sum(s->parts + at);
            v[i] = pf_fma(sum * pf_set(!whole && scale == 0.0f ? 1.0f : scale), by[i], first[i]);
            if (early) v[i] += pf_load_upto(early + s->z[r] + s->column + i * PF_VL, n);
            if (bounds) v[i] = pf_act_clip(v[i], low, high);
        }
        if (!bounds) pf_act_early(&c->act, v, VECTORS);
        for (int i = 0; i < VECTORS; i++) pf_store_upto(to + i * PF_VL, v[i], columns - i * PF_VL);
    }
    if (!buffered) return;
    pf_act_late(c->act.code, s->numbers + begin * SIDE, SIDE, end - begin, columns);
    for (int64_t r = begin; r < end; r++)
        for (int64_t i = 0; i < columns; i += PF_VL) {
            pf_vf v = pf_load(s->numbers + r * SIDE + i);
            if (late) v += pf_load_upto(late + s->z[r] + s->column + i, columns - i);
            pf_store_upto(y + s->y[r] + i, v, columns - i);
        }
}

/* The next rows, of which there are so many parts left. */
static void finish_some(sums *s, int64_t parts) {
    const int64_t begin = s->done, end = begin + pf_ceil_div(s->rows - begin, parts);
    if (begin == s->rows) return;
    const int bounds = s->c->act.code <= PF_ACT_CLIP && !s->c->a.z_late;
    if (s->exact || s->n < SIDE)
        finish_rows(s, begin, end, 0, 0);
    else if (bounds)
        finish_rows(s, begin, end, 1, 1);
    else
        finish_rows(s, begin, end, 0, 1);
    s->done = end;
}

/* -- products -- */

/* What a thread is about: sums that are being made, those made before, which are finished meanwhile, and rows
 * that are split meanwhile. */
typedef struct turns {
    const conv *c;
    rows *r;
    sums both[2];
    int now;
    int64_t wanted, later; /* rows that are to be split when so many further products have been made */
    int warm;              /* the weights are in L2 from the rows before */
    int64_t fetches; /* products among which the fetching of the next tile of columns is shared; 0: none */
} turns;

/* One turn of each step is enough for what is to be done here. */
static void work_behind(void *context, int64_t turns_left) {
    turns *t = context;
    int64_t parts = turns_left / PF_SPLIT_TURNS + 1;
    if (turns_left % PF_SPLIT_TURNS != PF_SPLIT_TURNS - 1) return;
    finish_some(&t->both[!t->now], parts);
    const int64_t left = t->wanted - t->r->split;
    if (left <= 0) return;
    parts += t->later * t->c->l.steps;
    split_until(t->c, t->r, t->r->split + (2 * left + parts) / (2 * parts));
}

/* One or two tiles of the rows by one of the columns. The tile of columns that follows comes from memory
 * meanwhile. */
static void run_tiles(turns *t, int64_t tile, int64_t column) {
    enum { LINES = PF_SPLIT_STEP / LINE };
    const conv *c = t->c;
    const rows *r = t->r;
    const int64_t begin = tile * SIDE, first = column * SIDE, number = r->group * c->l.columns + column;
    sums *s = &t->both[t->now ^= 1];
    pf_split_product p = {.tiles = pf_min(2, r->count - tile), .steps = c->l.steps, .apart = APART};
    s->c = c, s->row_scales = r->scales + begin, s->y = r->y + begin, s->z = r->z + begin;
    s->column = first, s->n = pf_min(SIDE, c->oc - first);
    s->rows = pf_min(p.tiles * SIDE, r->total - begin), s->done = 0;
    s->scales = (const float *)(c->w + c->l.scales) + number * SIDE;
    if (s->scales[0] == 0.0f) s->scales = NULL;
    s->bias = c->bias ? c->bias + r->group * c->oc + first : NULL;
    p.a = r->tiles + tile * c->tile, p.b = c->w + number * c->l.tile;
    p.lines = t->fetches == 0 ? 0 : pf_ceil_div(LINES, t->fetches);
    p.ahead = p.b + c->l.tile + (t->fetches > 1 ? tile / 2 * p.steps * p.lines * LINE : 0);
    if (r->count == 1 && c->l.columns * c->l.tile > FEW_BYTES)
        p.lines = LINES, p.ahead = p.b + AHEAD_STEPS * PF_SPLIT_STEP;
    p.work = work_behind, p.context = t;
    s->exact = !PF_SPLIT_TILES || p.steps == 0 || !s->scales || r->cut[tile] || r->cut[tile + p.tiles - 1];
    if (!s->exact) {
        pf_split_sums(&p, s->parts);
        return;
    }
    for (int i = 0; i < p.tiles; i++)
        pf_split_by_vectors(p.a + i * c->tile, APART, s->row_scales + i * SIDE, p.b, !s->scales, p.steps,
                            s->numbers + i * SIDE * SIDE);
    finish_some(&t->both[!t->now], 1);
}

static int is_short(const conv *c) {
    return c->l.steps <= SHORT_STEPS && c->l.columns * c->l.tile <= FEW_BYTES;
}

/* A pair of tiles of rows by columns [begin, end). */
static void run_pair(turns *t, int64_t tile, int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; column++) {
        t->later = end - column - 1;
        run_tiles(t, tile, column);
    }
}

/* All rows of a chunk by columns [begin, end). Few columns with short sums: two tiles of rows stay in L1
 * while all columns pass, and the next two are split meanwhile. Else each tile of columns stays while all
 * rows pass. */
static void run_chunk(turns *t, int64_t begin, int64_t end) {
    rows *r = t->r;
    if (is_short(t->c)) {
        for (int64_t tile = 0; tile < r->count; tile += 2) {
            split_until(t->c, r, pf_min(r->total, (tile + 2) * SIDE));
            t->wanted = pf_min(r->total, (tile + 4) * SIDE);
            t->fetches = tile == 0 && r->count > 1;
            run_pair(t, tile, begin, end);
        }
        return;
    }
    split_until(t->c, r, r->total);
    t->fetches = r->count == 1 || t->warm ? 0 : pf_ceil_div(r->count, 2);
    for (int64_t column = begin; column < end; column++)
        for (int64_t tile = 0; tile < r->count; tile += 2) run_tiles(t, tile, column);
}

static void run_chunks(turns *t, const pf_worker *w) {
    const conv *c = t->c;
    const int64_t units = c->a.groups * c->chunks * c->sets;
    int64_t have = -1;
    for (int64_t i = pf_claim_near(w, units); i < units; i = pf_claim_near(w, units)) {
        const int64_t set = i % c->sets, chunk = i / c->sets % c->chunks, group = i / c->sets / c->chunks;
        if (have != i / c->sets) {
            finish_some(&t->both[t->now], 1);
            begin_rows(c, group, chunk_start(c, chunk), chunk_start(c, chunk + 1), t->r);
            have = i / c->sets;
        }
        run_chunk(t, c->l.columns * set / c->sets, c->l.columns * (set + 1) / c->sets);
    }
}

/* Short sums of pairs of tiles of rows by all columns. A pair is claimed late, so that a slow thread holds
 * few of them, and split behind the last products of the one before it if it follows in memory. */
static void run_pairs(turns *t, const pf_worker *w, int64_t pairs) {
    const conv *c = t->c;
    rows *r = t->r;
    const int64_t units = c->a.groups * pairs, most = chunk_start(c, 1);
    const int64_t columns = c->l.columns, late = pf_max(0, columns - HIDING);
    int64_t tile = 0, last = -2, next;
    for (int64_t i = pf_claim_near(w, units); i < units; last = i, i = next) {
        const int64_t first = i % pairs * 2;
        tile += 2;
        if (i != last + 1 || first == 0 || tile >= r->count) {
            finish_some(&t->both[t->now], 1);
            begin_rows(c, i / pairs, first, pf_min(c->tiles, first + most), r);
            tile = 0;
        }
        t->wanted = pf_min(r->total, (tile + 2) * SIDE);
        t->fetches = !t->warm, t->warm = 1;
        split_until(c, r, t->wanted);
        run_pair(t, tile, 0, late);
        next = pf_claim_near(w, units);
        if (next == i + 1) t->wanted = pf_min(r->total, (tile + 4) * SIDE);
        run_pair(t, tile, late, columns);
    }
}

/* Long sums of pairs, several at a time, which each tile of columns passes by. */
static void run_pair_groups(turns *t, const pf_worker *w, int64_t pairs) {
    const conv *c = t->c;
    const int64_t units = c->a.groups * pairs, most = chunk_start(c, 1) / 2;
    for (int64_t i, n; (i = pf_claim_some(w, units, most, 0, &n)) < units;)
        for (int64_t end = i + n, part; i < end; i += part) { /* of one group each */
            const int64_t first = i % pairs * 2;
            part = pf_min(end - i, pairs - i % pairs);
            finish_some(&t->both[t->now], 1);
            begin_rows(c, i / pairs, first, pf_min(c->tiles, first + 2 * part), t->r);
            run_chunk(t, 0, c->l.columns);
            t->warm = 1;
        }
}

static void run_conv(conv c, const pf_worker *w) {
    if (c.pixels == 0 || c.oc == 0) return;
    c.in.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w), c.bias = pf_ptr(w, c.a.bias), c.z = pf_ptr(w, c.a.z);
    c.y = pf_ptr(w, c.a.y);
    rows r = {.tiles = (char *)pf_ptr(w, c.a.scratch) + w->tid * rows_bytes(&c)};
    for (int i = 0; i < 2; i++)
        r.turn[i].window = (float *)(r.tiles + rows_bytes(&c) - (i + 1) * window_bytes(&c));
    turns t = {.c = &c, .r = &r};
    pf_split_begin(pf_min(SIDE, c.pixels));
    if (!c.by_pairs)
        run_chunks(&t, w);
    else if (is_short(&c))
        run_pairs(&t, w, pf_ceil_div(c.tiles, 2));
    else
        run_pair_groups(&t, w, pf_ceil_div(c.tiles, 2));
    finish_some(&t.both[t.now], 1);
    pf_split_end();
}

PF_KERNEL_FUNCTION(conv_split_f32) { run_conv(plan_conv(args_, w->nthreads), w); }

PF_KERNEL_FUNCTION(conv_split_affine_f32) {
    conv c = plan_conv(args_, w->nthreads);
    pf_windows_change(&c.in, args_, w);
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
    if (!pf_windows_may_change(&c.in)) plan->scratch_bytes = 0;
}
