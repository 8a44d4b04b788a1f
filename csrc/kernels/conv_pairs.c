/* Convolution by products in pairs (pairs.h) over channels-last tensors; linear layers and 1x1 kernels are
 * the case of one tap. The windows of some output pixels are copied into rows that stay in L2 while all
 * columns pass, panel by panel. */
#include <stdio.h>

#include "kernels/conv_windows.h"
#include "kernels/pairs_rows.h"

enum {
    ROWS_BYTES = 320 << 10,  /* rows of a thread: they stay in L2, beside */
    BLOCK_BYTES = 192 << 10, /* a block of the inputs of a panel */
    ROWS_LEAST = 208,        /* so many rows are worth a pass over the weights, */
    ROWS_MOST = 512,
    UNITS_EACH = 8,          /* wanted by each of several threads: some to give away */
    LIGHT_BYTES = 384 << 10, /* weights that L2 holds beside few rows */
    OWN_PARTS = 4, /* so many pairs of tiles for each thread are worth such weights that all of them read, */
    OWN_ROWS = 96, /* and so many rows any weights */
    TILE = PF_PAIRS_ROWS,
    WIDTH = PF_PAIRS_WIDTH,
};

typedef struct conv {
    pf_conv_args a;
    pf_windows in;
    const float *bias, *z, *w;
    pf_pairs_weights l; /* of w */
    float *y;
    int64_t oc;                    /* of one group */
    int64_t pixels;                /* of all images */
    int64_t block, step;           /* inputs of a block; floats from row to row */
    int64_t chunks, sets;          /* units are groups x chunks of rows x sets of panels */
    int64_t most;                  /* rows of a chunk */
    const char *ahead, *ahead_end; /* what a later step reads and is still to be fetched */
    float share;                   /* of an input in the sums of a row */
    pf_activation act;
} conv;

/* One thread takes as many rows as stay close. Several take small parts of them where L2 holds all weights,
 * else large parts of their own, panel by panel, unless rows are few: threads that share these each copy the
 * same rows. */
static void choose_units(conv *c, int nthreads) {
    const int64_t row = c->step * (int64_t)sizeof(float), fitting = ROWS_BYTES / row / TILE * TILE;
    const int64_t most = pf_max(ROWS_LEAST, pf_min(ROWS_MOST, fitting)), each = pf_ceil_div(c->pixels, most);
    const int64_t units = nthreads > 1 ? (int64_t)UNITS_EACH * nthreads : 1;
    const int64_t weights = c->in.depth * c->l.columns * (int64_t)sizeof(float);
    const int64_t tiles = pf_ceil_div(c->pixels, 2 * TILE);
    c->chunks = each;
    if (nthreads > 1 && weights <= LIGHT_BYTES && tiles >= OWN_PARTS * (int64_t)nthreads)
        c->chunks = pf_max(each, pf_min(tiles, units));
    else if (nthreads > 1 && c->pixels >= OWN_ROWS * (int64_t)nthreads)
        c->chunks = pf_ceil_div(each, nthreads) * nthreads;
    c->most = pf_ceil_div(c->pixels, each);
    c->sets = pf_min(c->l.panels, pf_ceil_div(units, c->chunks * c->a.groups));
}

static conv plan_conv(const pf_conv_args *a, int nthreads) {
    conv c = {.a = *a, .in = pf_windows_of(a), .oc = a->oc / a->groups, .pixels = a->n * a->oh * a->ow};
    c.l = pf_pairs_layout(a->groups, c.oc, c.in.depth);
    if (c.pixels == 0 || c.oc == 0) return c;
    const int64_t longest = BLOCK_BYTES / (WIDTH * (int64_t)sizeof(float)), depth = c.in.depth;
    const int64_t blocks = pf_max(1, pf_ceil_div(depth, longest));
    c.block = pf_ceil_div(pf_ceil_div(depth, blocks), PF_PAIRS_PERIOD) * PF_PAIRS_PERIOD;
    c.step = pf_odd_lines(pf_max(1, depth));
    c.share = 1.0f / (float)pf_max(1, depth);
    choose_units(&c, nthreads);
    c.act = pf_act_make(a->act, a->act_a, a->act_b);
    return c;
}

/* First row of a chunk. */
static int64_t chunk_start(const conv *c, int64_t chunk) { return c->pixels * chunk / c->chunks; }

/* -- rows -- */

/* The rows of a chunk, of a thread. */
typedef struct rows {
    float *numbers, *sums; /* sums of one panel, where they are made block by block */
    float buffers[2][TILE * WIDTH] __attribute__((aligned(64))); /* of sums that wait, */
    pf_pairs_late late;                                          /* which are these; those of the tile */
    int turn;                                                    /* after it go to the other one */
    int64_t group, count;
    int64_t dense[TILE];                        /* where rows of a buffer begin */
    int64_t y[ROWS_MOST], z[ROWS_MOST];         /* where results lie */
    float starts[ROWS_MOST], scales[ROWS_MOST]; /* of sums, and what they are multiplied with */
    unsigned char plain[ROWS_MOST];             /* rows without pairs */
    int usual;                                  /* the group has none */
} rows;

/* Floats of a thread. */
static int64_t rows_floats(const conv *c) {
    return c->most * (c->step + (c->block < c->in.depth ? WIDTH : 0));
}

static void prepare_rows(const conv *c, int64_t group, int64_t chunk, rows *r) {
    const pf_conv_args *a = &c->a;
    const int64_t first = chunk_start(c, chunk), end = chunk_start(c, chunk + 1);
    const float *factors = c->w + c->l.factors + group * pf_ceil_div(c->l.depth, PF_VL) * PF_VL;
    pf_conv_place p = pf_conv_place_of(first, a->oh, a->ow);
    r->group = group, r->count = end - first;
    r->usual = c->w[c->l.plain + group] != 0.0f;
    for (int64_t i = 0; i < r->count; i++) {
        float *to = r->numbers + i * c->step;
        const float *window = pf_window_of(&c->in, &p, group, to);
        const pf_pairs_row row = pf_pairs_prepare(window, factors, c->in.depth, c->share, r->usual, to);
        r->starts[i] = row.start, r->scales[i] = row.scale, r->plain[i] = row.plain;
        r->y[i] = p.image * a->ysn + p.oy * a->ysh + p.ox * a->ysw + group * c->oc;
        r->z[i] = p.image * a->zsn + p.oy * a->zsh + p.ox * a->zsw + group * c->oc;
        if (++p.ox == a->ow) pf_conv_place_next_line(&p, a->oh);
    }
}

/* -- products -- */

/* Rows [first, first + count), whose sums are in the buffer whose turn it is, wait for what is late. */
static void leave(const conv *c, rows *r, int64_t first, int64_t count, int64_t column,
                  const pf_pairs_end *e) {
    r->late.sums = r->buffers[r->turn], r->turn = !r->turn;
    r->late.rows = (int)count, r->late.vectors = e->n > PF_VL ? 2 : 1;
    r->late.code = c->act.code;
    r->late.y = c->y + column, r->late.y_at = r->y + first;
    r->late.z = c->a.z_late && c->z ? c->z + column : NULL, r->late.z_at = r->z + first;
    r->late.n = e->n;
}

/* Lets tiles that have so many steps fetch bytes from `start` on. */
static void fetch(pf_pairs_tile *t, const char *start, int64_t bytes, int64_t steps) {
    t->ahead = start, t->ahead_each = pf_ceil_div(bytes, pf_max(1, steps));
}

/* The same for this thread's part of what a later step reads. */
static void fetch_later(conv *c, pf_pairs_tile *t, int64_t most, int64_t steps) {
    const int64_t bytes = pf_min(most, c->ahead_end - c->ahead);
    fetch(t, bytes > 0 ? c->ahead : (const char *)t->b, bytes, steps);
    c->ahead += bytes;
}

/* All rows by one panel. Each block of its inputs stays in L2 while the rows pass, and what follows it in
 * memory is fetched meanwhile unless it is there already (warm). */
static void run_panel(conv *c, rows *r, int64_t panel, bool warm) {
    const int vectors = pf_pairs_vectors(&c->l, panel);
    const pf_pairs_fn *by_rows = PF_NAME(pairs_tiles)()[vectors - 1];
    const int64_t width = vectors * PF_VL, column = panel * WIDTH, depth = c->in.depth;
    const int64_t tiles = pf_ceil_div(r->count, TILE), at = r->group * c->l.columns + column;
    const bool late = (c->z && c->a.z_late) || pf_act_is_late(c->act.code);
    pf_pairs_end e = {.act = c->act, .n = pf_min(width, c->oc - column)};
    e.scales = c->w + c->l.scales + at;
    e.bias = c->bias ? c->bias + r->group * c->oc + column : NULL;
    e.z = c->z && !c->a.z_late ? c->z + column : NULL;
    for (int i = 0; i < TILE; i++) r->dense[i] = i * width;
    int64_t begin = 0;
    do {
        pf_pairs_tile t = {.step = c->step, .k = pf_min(c->block, depth - begin)};
        t.b = c->w + at * depth + begin * width;
        t.starts = begin == 0 ? c->w + c->l.starts + at : NULL;
        t.end = begin + t.k == depth ? &e : NULL;
        const int64_t steps = pf_ceil_div(t.k, PF_PAIRS_STEP), bytes = t.k * width * (int64_t)sizeof(float);
        if (warm || (t.end && panel + 1 == c->l.panels))
            fetch_later(c, &t, bytes, steps * tiles);
        else
            fetch(&t, (const char *)t.b + bytes, bytes, steps * tiles);
        for (int64_t tile = 0; tile < tiles; tile++) {
            const int64_t first = r->count * tile / tiles, count = r->count * (tile + 1) / tiles - first;
            t.late = late ? &r->late : NULL;
            for (int64_t i = 0, n; i < count; i += n) {
                const int64_t row = first + i;
                n = pf_pairs_alike(r->plain + row, count - i);
                t.sums = r->sums + row * width, t.a = r->numbers + row * c->step + begin;
                t.row_starts = r->starts + row, t.plain = r->usual || r->plain[row];
                e.row_scales = r->scales + row, e.z_at = r->z + row;
                e.y = late ? r->buffers[r->turn] + i * width : c->y + column;
                e.y_at = late ? r->dense : r->y + row;
                by_rows[n - 1](&t);
                r->late.rows = 0;
            }
            if (late && t.end) leave(c, r, first, count, column, &e);
            t.ahead += steps * t.ahead_each;
        }
        begin += c->block;
    } while (begin < depth);
}

static void finish_waiting(rows *r) {
    PF_NAME(pairs_finish)(&r->late);
    r->late.rows = 0;
}

static void run_conv(conv c, const pf_worker *w) {
    if (c.pixels == 0 || c.oc == 0) return;
    c.in.x = pf_ptr(w, c.a.x), c.w = pf_ptr(w, c.a.w), c.bias = pf_ptr(w, c.a.bias), c.z = pf_ptr(w, c.a.z);
    c.y = pf_ptr(w, c.a.y);
    c.ahead = w->ahead.start + w->tid * (w->ahead.bytes / w->nthreads);
    c.ahead_end = c.ahead + w->ahead.bytes / w->nthreads;
    rows r;
    r.numbers = (float *)pf_ptr(w, c.a.scratch) + w->tid * rows_floats(&c);
    r.sums = r.numbers + c.most * c.step;
    r.turn = r.late.rows = 0;
    const int64_t units = c.a.groups * c.chunks * c.sets;
    int64_t have = -1;
    bool warm = false;
    for (int64_t i = pf_claim_near(w, units); i < units; i = pf_claim_near(w, units)) {
        const int64_t set = i % c.sets, chunk = i / c.sets;
        if (have != chunk) {
            warm = c.sets == 1 && have >= 0 && have / c.chunks == chunk / c.chunks;
            finish_waiting(&r);
            prepare_rows(&c, chunk / c.chunks, chunk % c.chunks, &r), have = chunk;
        }
        for (int64_t p = c.l.panels * set / c.sets; p < c.l.panels * (set + 1) / c.sets; p++)
            run_panel(&c, &r, p, warm);
    }
    finish_waiting(&r);
}

PF_KERNEL_FUNCTION(conv_pairs_f32) { run_conv(plan_conv(args_, w->nthreads), w); }

PF_KERNEL_FUNCTION(conv_pairs_affine_f32) {
    conv c = plan_conv(args_, w->nthreads);
    pf_windows_change(&c.in, args_, w);
    run_conv(c, w);
}

static void describe(const conv *c, int nthreads, pf_plan *plan) {
    plan->variant = 0;
    plan->packed_bytes = c->l.floats * (int64_t)sizeof(float);
    plan->scratch_bytes = c->pixels && c->oc ? nthreads * rows_floats(c) * (int64_t)sizeof(float) : 0;
    snprintf(plan->label, sizeof plan->label, "pairs %dx%d", TILE, WIDTH);
}

PF_PLAN_FUNCTION(conv_pairs_f32) {
    const conv c = plan_conv(args_, nthreads);
    describe(&c, nthreads, plan);
}

/* Without scratch: not to be had for this shape. */
PF_PLAN_FUNCTION(conv_pairs_affine_f32) {
    const conv c = plan_conv(args_, nthreads);
    describe(&c, nthreads, plan);
    if (!pf_windows_may_change(&c.in)) plan->scratch_bytes = 0;
}
