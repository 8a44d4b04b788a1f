/* Batched products of matrices neither of which is known before: B is packed into panels of scratch memory
 * while A is read in place, or packed too when its rows are not contiguous. Products of a few
 * vectors have a path of their own (matmul_thin.h). The work is cut by shape alone, so that results do not
 * depend on the number of threads. */
#include <stdio.h>

#include "kernels/args.h"
#include "kernels/matmul_thin.h"
#include "kernels/tile.h"
#include "kernels/transpose.h"

enum {
    PANEL_BYTES = 192 << 10, /* of packed B: it stays in L2 beside the rows of A */
    PACKED_ROWS = 120,       /* of A at a time, a multiple of all tile heights */
    ROW_GAP = 16,            /* floats between packed rows: keeps them out of one cache set */
    WANTED_UNITS = 16,
    UNIT_FLOPS = 2 << 20,
    UNIT_TILES = 10,        /* of a smaller unit */
    SMALL_FLOPS = 64 << 10, /* of products of one tile */
    TINY_PRODUCTS = 64,     /* of a matrix and a vector that no vectors of numbers serve, if there are so */
    TINY_BATCHES = 32,      /* many of them */
};

typedef struct matmul {
    const pf_matmul_args *a;
    int64_t batches, panels, per_unit, sets, tiles, row_blocks, k_block, row_stride;
    int rows, pack_a, direct_b, single, tiny;
    int64_t panel_floats, thread_floats;
} matmul;

/* Operands of one batch. */
typedef struct operands {
    const float *a, *b, *c;
    float *y, *packed_b, *packed_a;
} operands;

static int is_tiny(const pf_matmul_args *a, int64_t batches) {
    if (batches < TINY_BATCHES || pf_min(a->m, a->n) != 1) return 0;
    return pf_max(a->m, a->n) <= TINY_PRODUCTS && a->k <= TINY_PRODUCTS / pf_max(a->m, a->n);
}

static matmul plan_matmul(const pf_matmul_args *a) {
    matmul p = {.a = a, .batches = 1};
    for (int64_t d = 0; d < a->rank; d++) p.batches *= a->shape[d];
    p.tiny = is_tiny(a, p.batches);
    const int widest = pf_panel_widest(a->n), width = widest * PF_VL;
    p.rows = pf_panel_rows(a->n);
    p.panels = pf_panel_count(a->n);
    p.tiles = pf_ceil_div(a->m, p.rows);
    p.pack_a = a->ak != 1 && a->k > 1;
    p.direct_b = a->bn == 1 && a->alpha == 1.0 && p.tiles <= 2;
    const int64_t longest = PANEL_BYTES / (int64_t)sizeof(float) / width / (p.pack_a ? 2 : 1);
    p.k_block = pf_max(1, pf_ceil_div(a->k, pf_max(1, pf_ceil_div(a->k, longest))));
    /* A vector takes as long with few columns. Small units had better use what they pack for many tiles. */
    const double columns = (double)pf_ceil_div(a->n, PF_VL) * PF_VL / (double)pf_max(1, p.panels);
    const double units = 2.0 * (double)a->m * columns * (double)a->k / UNIT_FLOPS;
    const int64_t small = pf_min((int64_t)(2 * units), p.tiles / UNIT_TILES);
    p.row_blocks =
        pf_min(pf_ceil_div(WANTED_UNITS, pf_max(1, p.batches * p.panels)), pf_max((int64_t)units, small));
    if (p.pack_a) p.row_blocks = pf_max(p.row_blocks, pf_ceil_div(a->m, PACKED_ROWS));
    p.row_blocks = pf_max(1, pf_min(p.row_blocks, p.tiles));
    /* Packed rows of A serve several panels. */
    p.per_unit = p.pack_a ? pf_max(1, p.panels * p.row_blocks * p.batches / WANTED_UNITS) : 1;
    p.per_unit = pf_min(p.per_unit, pf_max(1, p.panels));
    p.sets = pf_ceil_div(p.panels, p.per_unit);
    p.row_stride = p.k_block + ROW_GAP;
    p.panel_floats = p.k_block * width;
    const int64_t packed_rows = p.pack_a ? pf_min(a->m, PACKED_ROWS + 2 * p.rows) : 0;
    p.single = p.tiles == 1 && p.panels == 1 && !p.pack_a && p.k_block >= a->k &&
               !(a->c.base >= 0 && !(a->cn == 1 && a->beta == 1.0));
    p.thread_floats = pf_ceil_div(p.panel_floats + packed_rows * p.row_stride, 16) * 16;
    return p;
}

/* n columns of k rows to a panel of `width` columns, whose rest becomes zero. */
static void pack_b(const pf_matmul_args *m, const float *b, int64_t k, int64_t n, int64_t width, float *out) {
    if (m->bn == 1) {
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < width; j += PF_VL)
                pf_store(out + i * width + j, pf_load_upto(b + i * m->bk + j, n - j));
    } else {
        if (n < width)
            for (int64_t i = 0; i < k; i++) pf_store(out + i * width + width - PF_VL, pf_zero());
        if (m->bk == 1) {
            const pf_plane plane = {n, k, m->bn, 1, 1, width};
            pf_transpose(&plane, b, out);
        } else {
            for (int64_t i = 0; i < k; i++)
                for (int64_t j = 0; j < n; j++) out[i * width + j] = b[i * m->bk + j * m->bn];
        }
    }
    if (m->alpha == 1.0) return;
    const pf_vf alpha = pf_set((float)m->alpha);
    for (int64_t i = 0; i < k * width; i += PF_VL) pf_store(out + i, alpha * pf_load(out + i));
}

static void pack_a(const matmul *p, const float *a, int64_t rows, int64_t k, float *out) {
    if (p->a->am == 1) {
        const pf_plane plane = {k, rows, p->a->ak, 1, 1, p->row_stride};
        pf_transpose(&plane, a, out);
        return;
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < k; i++) out[r * p->row_stride + i] = a[r * p->a->am + i * p->a->ak];
}

/* y = beta c on a block, for the c that the tile cannot add by itself. */
static void start_from_c(const pf_matmul_args *m, const operands *o, int64_t r0, int64_t r1, int64_t n0,
                         int64_t n1) {
    const float beta = (float)m->beta;
    for (int64_t r = r0; r < r1; r++)
        for (int64_t j = n0; j < n1; j++) o->y[r * m->ym + j] = beta * o->c[r * m->cm + j * m->cn];
}

/* Tiles [t0, t1) times one panel, for channels [k0, k0 + t->k). */
static void run_tiles(const matmul *p, const operands *o, pf_tile *t, int vectors, int64_t t0, int64_t t1,
                      int64_t k0) {
    const pf_matmul_args *m = p->a;
    const int64_t base = m->m * t0 / p->tiles;
    pf_tap tap = {.number = 0};
    float *y[PF_TILE_ROWS];
    const float *z[PF_TILE_ROWS];
    t->taps = &tap, t->y = y;
    t->z = o->c && m->cn == 1 && m->beta == 1.0 ? z : NULL;
    for (int64_t tile = t0; tile < t1; tile++) {
        const int64_t r0 = m->m * tile / p->tiles, r1 = m->m * (tile + 1) / p->tiles;
        for (int64_t r = r0; r < r1; r++) {
            tap.row[r - r0] = p->pack_a ? o->packed_a + (r - base) * p->row_stride : o->a + r * m->am + k0;
            y[r - r0] = o->y + r * m->ym;
            z[r - r0] = o->c ? o->c + r * m->cm : NULL;
        }
        pf_tile_run(vectors, (int)(r1 - r0), t);
    }
}

/* The same at once, where the panel is dense and its sums are complete: tiles of two heights. Returns whether
 * it is so, and whether the tiles are high enough. */
static int run_dense(const matmul *p, const operands *o, const pf_tile *t, int vectors, int64_t t0,
                     int64_t t1) {
    const pf_matmul_args *m = p->a;
    const int64_t r0 = m->m * t0 / p->tiles, rows = m->m * t1 / p->tiles - r0;
    const int64_t tiles = pf_ceil_div(rows, pf_tile_rows(vectors)), low = rows / tiles, high = rows % tiles;
    if (!t->first || !t->last || t->bstep != vectors * PF_VL || low * vectors < PF_RUN_LEAST) return 0;
    pf_run r = {.b = t->b, .k = t->k, .n = t->n, .ystep = m->ym, .zstep = m->cm};
    r.x = p->pack_a ? o->packed_a : o->a + r0 * m->am;
    r.xstep = p->pack_a ? p->row_stride : m->am;
    r.y = o->y + r0 * m->ym + t->column;
    if (o->c) r.z = o->c + r0 * m->cm + t->column;
    r.tiles = high;
    if (high > 0) pf_run_of(&r, false, vectors, low + 1)(&r);
    const int64_t above = high * (low + 1);
    r.x += above * r.xstep, r.y += above * r.ystep;
    if (r.z) r.z += above * r.zstep;
    r.tiles = tiles - high;
    pf_run_of(&r, false, vectors, low)(&r);
    return 1;
}

/* Rows [t0, t1) of tiles times one panel, for k rows of B from k0 on. */
static void run_panel(const matmul *p, const operands *o, int64_t index, int64_t t0, int64_t t1, int64_t k0,
                      int64_t k) {
    const pf_matmul_args *m = p->a;
    const pf_panel panel = pf_panel_at(m->n, index);
    const int64_t width = panel.vectors * PF_VL, column = panel.start * PF_VL,
                  n = pf_min(width, m->n - column);
    const int prefilled = o->c && !(m->cn == 1 && m->beta == 1.0), direct = p->direct_b && n == width;
    pf_tile t = {.ntaps = 1, .column = column, .n = n, .k = k, .bstep = width, .b = o->packed_b};
    t.first = k0 == 0 && !prefilled;
    t.last = k0 + k == m->k;
    const float *b = o->b + k0 * m->bk + column * m->bn;
    if (k0 == 0 && prefilled)
        start_from_c(m, o, m->m * t0 / p->tiles, m->m * t1 / p->tiles, column, column + n);
    if (direct)
        t.b = b, t.bstep = m->bk;
    else
        pack_b(m, b, k, n, width, o->packed_b);
    if (!run_dense(p, o, &t, panel.vectors, t0, t1)) run_tiles(p, o, &t, panel.vectors, t0, t1, k0);
}

static void run_unit(const matmul *p, const operands *o, int64_t set, int64_t block) {
    const pf_matmul_args *m = p->a;
    const int64_t t0 = p->tiles * block / p->row_blocks, t1 = p->tiles * (block + 1) / p->row_blocks;
    const int64_t r0 = m->m * t0 / p->tiles, r1 = m->m * t1 / p->tiles;
    const int64_t first = set * p->per_unit, end = pf_min(first + p->per_unit, p->panels);
    int64_t k0 = 0;
    do {
        const int64_t k = pf_min(p->k_block, m->k - k0);
        if (p->pack_a) pack_a(p, o->a + r0 * m->am + k0 * m->ak, r1 - r0, k, o->packed_a);
        for (int64_t i = first; i < end; i++) run_panel(p, o, i, t0, t1, k0, k);
        k0 += k;
    } while (k0 < m->k);
}

/* A product of one tile, whose panel needs no cutting. */
static void run_single(const matmul *p, const operands *o) {
    const pf_matmul_args *m = p->a;
    const int vectors = (int)pf_ceil_div(m->n, PF_VL);
    const int64_t width = vectors * PF_VL;
    pf_tile t = {.ntaps = 1, .n = m->n, .k = m->k, .b = o->packed_b, .bstep = width, .first = 1, .last = 1};
    if (p->direct_b && m->n == width)
        t.b = o->b, t.bstep = m->bk;
    else
        pack_b(m, o->b, m->k, m->n, width, o->packed_b);
    run_tiles(p, o, &t, vectors, 0, 1, 0);
}

static operands batch_operands(const pf_matmul_args *m, const pf_worker *w, int64_t batch) {
    operands o = {.a = pf_ptr(w, m->a), .b = pf_ptr(w, m->b), .c = pf_ptr(w, m->c), .y = pf_ptr(w, m->y)};
    for (int64_t d = m->rank - 1; d >= 0; d--) {
        const int64_t i = batch % m->shape[d];
        batch /= m->shape[d];
        o.a += i * m->as[d], o.b += i * m->bs[d], o.y += i * m->ys[d];
        if (o.c) o.c += i * m->cs[d];
    }
    return o;
}

static void next_batch(const pf_matmul_args *m, int64_t at[PF_MAX_RANK], operands *o) {
    for (int64_t d = m->rank - 1; d >= 0; d--) {
        const int64_t step = ++at[d] < m->shape[d] ? 1 : 1 - m->shape[d];
        o->a += step * m->as[d], o->b += step * m->bs[d], o->y += step * m->ys[d];
        if (o->c) o->c += step * m->cs[d];
        if (step == 1) return;
        at[d] = 0;
    }
}

/* A product whose sums are added up number by number. */
static void run_tiny(const pf_matmul_args *m, const operands *o) {
    const float alpha = (float)m->alpha, beta = (float)m->beta;
    for (int64_t i = 0; i < m->m; i++)
        for (int64_t j = 0; j < m->n; j++) {
            const float *a = o->a + i * m->am, *b = o->b + j * m->bn;
            float sum = 0.0f;
            for (int64_t k = 0; k < m->k; k++, a += m->ak, b += m->bk) sum += *a * *b;
            sum *= alpha;
            if (o->c) sum += beta * o->c[i * m->cm + j * m->cn];
            o->y[i * m->ym + j] = sum;
        }
}

/* Many small products: a unit is a run of them. */
static void run_singles(const matmul *p, const pf_worker *w) {
    const pf_matmul_args *m = p->a;
    const int64_t work = pf_max(1, 2 * m->m * m->n * m->k);
    const int64_t run = pf_max(1, pf_min(p->batches / WANTED_UNITS, SMALL_FLOPS / work));
    for (int64_t u = pf_claim(w, run); u < p->batches; u = pf_claim(w, run)) {
        const int64_t end = pf_min(u + run, p->batches);
        operands o = batch_operands(m, w, u);
        int64_t at[PF_MAX_RANK];
        for (int64_t d = m->rank - 1, i = u; d >= 0; i /= m->shape[d--]) at[d] = i % m->shape[d];
        if (!p->tiny) o.packed_b = (float *)pf_ptr(w, m->scratch) + w->tid * p->thread_floats;
        for (int64_t i = u; i < end; i++, next_batch(m, at, &o)) {
            if (p->tiny)
                run_tiny(m, &o);
            else
                run_single(p, &o);
        }
    }
}

static pf_thin_batch thin_batch(const pf_matmul_args *m, const pf_worker *w, const pf_thin *t,
                                int64_t batch) {
    const operands o = batch_operands(m, w, batch);
    return (pf_thin_batch){t->transposed ? o.b : o.a, t->transposed ? o.a : o.b, o.c, o.y};
}

/* Adds up the pieces of all sums and finishes them. */
static void finish_pieces(const pf_matmul_args *m, const pf_worker *w, const pf_thin *t, float *sums) {
    for (int64_t i = 0; i < t->batches * t->parts; i++, sums += t->pieces * PF_THIN_PADDED) {
        const int64_t first = i % t->parts * t->part, n = pf_min(t->part, t->columns - first);
        for (int64_t p = 1; p < t->pieces; p++)
            for (int64_t r = 0; r < t->rows; r++)
                for (int64_t j = 0; j < n; j++)
                    sums[r * t->part + j] += sums[p * PF_THIN_PADDED + r * t->part + j];
        const pf_thin_batch o = thin_batch(m, w, t, i / t->parts);
        pf_thin_finish(m, t, &o, first, n, sums);
    }
}

static void run_thin(const pf_matmul_args *m, const pf_worker *w, const pf_thin *t) {
    const int64_t units = pf_thin_units(t);
    float here[PF_THIN_PADDED], *pieces = t->pieces > 1 ? pf_ptr(w, m->scratch) : NULL;
    for (int64_t u = pf_claim(w, 1); u < units; u = pf_claim(w, 1)) {
        const int64_t part = u / t->pieces, first = part % t->parts * t->part, k0 = u % t->pieces * t->piece;
        const int64_t n = pf_min(t->part, t->columns - first), k = pf_min(t->piece, t->k - k0);
        const pf_thin_batch o = thin_batch(m, w, t, part / t->parts);
        float *sums = pieces ? pieces + u * PF_THIN_PADDED : here;
        pf_thin_sums(t, o.v + k0 * t->vk, o.x + k0 * t->xk + first * t->xc, n, k, sums);
        if (!pieces)
            pf_thin_finish(m, t, &o, first, n, sums);
        else if (__atomic_add_fetch(&w->next[1], 1, __ATOMIC_ACQ_REL) == units)
            finish_pieces(m, w, t, pieces);
    }
}

PF_KERNEL_FUNCTION(matmul_f32) {
    const pf_matmul_args *m = args_;
    const matmul p = plan_matmul(m);
    pf_thin thin;
    if (m->m == 0 || m->n == 0) return;
    if (!p.tiny && pf_thin_plan(m, p.batches, &thin)) {
        run_thin(m, w, &thin);
        return;
    }
    if (p.tiny || p.single) {
        run_singles(&p, w);
        return;
    }
    const int64_t parts = p.sets * p.row_blocks;
    for (int64_t u = pf_claim(w, 1); u < p.batches * parts; u = pf_claim(w, 1)) {
        operands o = batch_operands(m, w, u / parts);
        const int64_t part = u % parts;
        o.packed_b = (float *)pf_ptr(w, m->scratch) + w->tid * p.thread_floats;
        o.packed_a = o.packed_b + p.panel_floats;
        run_unit(&p, &o, part / p.row_blocks, part % p.row_blocks);
    }
}

PF_PLAN_FUNCTION(matmul_f32) {
    const matmul p = plan_matmul(args_);
    pf_thin thin;
    if (p.tiny) {
        snprintf(plan->label, sizeof plan->label, "matmul tiny");
        return;
    }
    if (pf_thin_plan(args_, p.batches, &thin)) {
        plan->scratch_bytes = pf_thin_scratch(&thin);
        snprintf(plan->label, sizeof plan->label, thin.dots ? "matmul dot" : "matmul rows");
        return;
    }
    plan->scratch_bytes = nthreads * p.thread_floats * (int64_t)sizeof(float);
    snprintf(plan->label, sizeof plan->label, "matmul %dx%d", p.rows, pf_panel_usual(p.a->n) * PF_VL);
}
