/* Attention: softmax(scale Q K^T + mask) V for blocks of queries, without a matrix of all scores. Scores are
 * computed transposed, keys by queries, so that K and V are read where they lie, only the block of Q is
 * packed, and the softmax runs down the columns without sums across lanes. Keys come in blocks, with running
 * maximum and sum per query (online softmax: Milakov and Gimelshein, 2018; Dao et al., 2022). Layouts are the
 * lowering's business: the rows of every tensor are contiguous, all other strides are free. */
#include <stdio.h>

#include "kernels/attention.h"
#include "kernels/attention_few.h"
#include "kernels/attention_split.h"

_Static_assert((int)PF_MASK_QUERIES % PF_VL == 0, "rows of masks are read in whole vectors");

#if defined(PF_AVX512)
enum { MAX_NV = 4 };
#else
enum { MAX_NV = 2 };
#endif
static int64_t padded_value(const pf_attention_args *a) { return pf_ceil_div(a->dv, PF_VL) * PF_VL; }

/* Scratch of a thread for blocks that vectors compute, and in all. */
static int64_t block_bytes(const pf_attention_args *a) {
    const int64_t w = QUERY_VECTORS * PF_VL, dp = padded_value(a);
    const int64_t floats =
        (a->d + KEY_BLOCK) * pf_odd_lines(w) + (dp + 3) * w + KEY_BLOCK * pf_odd_lines(dp) + 16;
    return pf_ceil_div(floats, 16) * 64;
}

static int64_t thread_bytes(const pf_attention_args *a) {
    split tiles;
    const int64_t bytes = block_bytes(a);
    return is_worth_splitting(a) ? (int64_t)place_split(&tiles, a, (uintptr_t)bytes) : bytes;
}

/* ---- tiles ---- */

/* C[mr][nv] = A B, plus alpha[row] C or Z, whichever is given. A(r, k) lies at a[r ars + k aks], rows of B
 * are vectors. */
PF_INLINE void tile(const int mr, const int nv, const float *a, int64_t ars, int64_t aks, const float *b,
                    int64_t bs, int64_t n, float *c, int64_t cs, const float *z, int64_t zs,
                    const float *alpha) {
    pf_vf acc[MAX_MR][MAX_NV];
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++)
            acc[r][v] = alpha ? pf_load(c + r * cs + v * PF_VL) * pf_set(alpha[r])
                        : z   ? pf_load(z + r * zs + v * PF_VL)
                              : pf_zero();
    for (int64_t k = 0; k < n; k++) {
        pf_vf row[MAX_NV];
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) row[v] = pf_load(b + k * bs + v * PF_VL);
#pragma GCC unroll 8
        for (int r = 0; r < mr; r++) {
            const pf_vf x = pf_set(a[r * ars + k * aks]);
#pragma GCC unroll 8
            for (int v = 0; v < nv; v++) acc[r][v] = pf_fma(x, row[v], acc[r][v]);
        }
    }
#pragma GCC unroll 8
    for (int r = 0; r < mr; r++)
#pragma GCC unroll 8
        for (int v = 0; v < nv; v++) pf_store(c + r * cs + v * PF_VL, acc[r][v]);
}

/* Rows that are needed soon. They lie so far apart (those of other heads are between) that nothing foresees
 * them but the kernel itself, which asks for some with every tile, unless all operands together are small
 * enough to be in L2 anyway. */
typedef struct stretch {
    const float *start;
    int64_t stride, rows, n; /* n floats each */
} stretch;

enum { STRETCHES = 2, FAR_BYTES = 2 << 20 };

typedef struct ahead {
    stretch s[STRETCHES];
    int64_t each; /* rows to ask for at a time */
} ahead;

static void __attribute__((noinline)) fetch(ahead *x) {
    int64_t wanted = x->each;
    for (stretch *s = x->s; s < x->s + STRETCHES; s++)
        for (; s->rows > 0; s->rows--, s->start += s->stride) {
            if (wanted-- == 0) return;
            fetch_row(s->start, s->n);
        }
}

typedef struct product {
    const float *a, *b;
    int64_t as, bs, n; /* as: row stride of A in scores, step of k in values */
    float *c;
    int64_t cs;
    const float *z; /* of scores: what they are added to, rows zs apart; NULL: nothing */
    int64_t zs;
    const float *alpha; /* of values */
    ahead *ahead;
} product;

/* Scores: rows of A are keys, contiguous in k. Values: A is the transposed block of weights, contiguous in
 * rows. */
#define PF_SCORE_TILE_PLUS(mr, nv, z, zs)                                                                    \
    tile(mr, nv, p->a + r * p->as, p->as, 1, p->b, p->bs, p->n, p->c + r * p->cs, p->cs, z, zs, NULL)
#define PF_SCORE_TILE(mr, nv)                                                                                \
    (p->z ? PF_SCORE_TILE_PLUS(mr, nv, p->z + r * p->zs, p->zs) : PF_SCORE_TILE_PLUS(mr, nv, NULL, 0))
#define PF_VALUE_TILE_PLUS(mr, nv, alpha)                                                                    \
    tile(mr, nv, p->a + r, 1, p->as, p->b, p->bs, p->n, p->c + r * p->cs, p->cs, NULL, 0, alpha)
#define PF_VALUE_TILE(mr, nv)                                                                                \
    (p->alpha ? PF_VALUE_TILE_PLUS(mr, nv, p->alpha + r) : PF_VALUE_TILE_PLUS(mr, nv, NULL))

#define PF_ROWS(name, TILE, mr, nv)                                                                          \
    static void name##_##nv(const product *p, int64_t rows) {                                                \
        int64_t r = 0;                                                                                       \
        for (; r + mr <= rows; r += mr) {                                                                    \
            if (p->ahead) fetch(p->ahead);                                                                   \
            TILE(mr, nv);                                                                                    \
        }                                                                                                    \
        if (mr > 4 && r + 4 <= rows) {                                                                       \
            TILE(4, nv);                                                                                     \
            r += 4;                                                                                          \
        }                                                                                                    \
        if (r + 2 <= rows) {                                                                                 \
            TILE(2, nv);                                                                                     \
            r += 2;                                                                                          \
        }                                                                                                    \
        if (r < rows) TILE(1, nv);                                                                           \
    }

typedef void (*rows_fn)(const product *p, int64_t rows);
#if defined(PF_AVX512)
#    define PF_ROWS_ALL(name, TILE)                                                                          \
        PF_ROWS(name, TILE, 8, 1)                                                                            \
        PF_ROWS(name, TILE, 8, 2)                                                                            \
        PF_ROWS(name, TILE, 8, 3)                                                                            \
        PF_ROWS(name, TILE, 6, 4)                                                                            \
        static const rows_fn name[] = {name##_1, name##_2, name##_3, name##_4};
#else
#    define PF_ROWS_ALL(name, TILE)                                                                          \
        PF_ROWS(name, TILE, 8, 1)                                                                            \
        PF_ROWS(name, TILE, 6, 2)                                                                            \
        static const rows_fn name[] = {name##_1, name##_2};
#endif
PF_ROWS_ALL(score_rows, PF_SCORE_TILE)
PF_ROWS_ALL(value_rows, PF_VALUE_TILE)

/* Cuts the columns into even groups of at most MAX_NV vectors. */
static void multiply(const rows_fn *fns, product p, int64_t rows, int64_t vectors) {
    int64_t groups = pf_ceil_div(vectors, MAX_NV);
    for (; groups > 0; groups--) {
        const int64_t nv = pf_ceil_div(vectors, groups);
        fns[nv - 1](&p, rows);
        p.b += nv * PF_VL;
        p.c += nv * PF_VL;
        if (p.z) p.z += nv * PF_VL;
        p.ahead = NULL;
        vectors -= nv;
    }
}

/* Keys pass all queries a few at a time, and are in the first-level cache then. */
static void multiply_scores(product p, int64_t keys, int64_t vectors) {
    enum { KEYS_AT_ONCE = 12 };
    const int64_t most = vectors > MAX_NV ? KEYS_AT_ONCE : keys;
    for (int64_t k = 0; k < keys; k += most) {
        multiply(score_rows, p, pf_min(most, keys - k), vectors);
        p.a += most * p.as, p.c += most * p.cs;
        if (p.z) p.z += most * p.zs;
    }
}

/* ---- operands ---- */

/* qt[d][query] = scale q[query][d], zero beyond the last query. */
static void pack_queries(const block *b) {
    const pf_attention_args *a = b->a;
    const pf_vf scale = pf_set((float)a->scale);
    for (int64_t i = 0; i < b->tiled * PF_VL; i += PF_VL) {
        const int64_t n = pf_min(PF_VL, b->queries - i);
        for (int64_t d = 0; d < a->d; d += PF_VL) {
            const int64_t m = pf_min(PF_VL, a->d - d);
            float *to = b->qt + d * b->step + i;
            pf_vf t[PF_VL];
            pf_load_transposed(b->q + i * a->qsr + d, a->qsr, n, m, t);
            if (m == PF_VL) {
#pragma GCC unroll 16
                for (int r = 0; r < PF_VL; r++) pf_store(to + r * b->step, t[r] * scale);
            } else {
#pragma GCC unroll 16
                for (int r = 0; r < PF_VL; r++)
                    if (r < m) pf_store(to + r * b->step, t[r] * scale);
            }
        }
    }
}

/* Scores of the few queries from column i on. */
static void score_few(const block *b, int64_t i, int64_t k0, int64_t keys) {
    const pf_attention_args *a = b->a;
    for (int64_t query = i; query < b->queries; query++) {
        const float *q = b->q + query * a->qsr;
        for (int64_t k = 0; k < keys; k += PF_VL) {
            const int64_t n = pf_min(PF_VL, keys - k);
            float sums[PF_VL];
            pf_store(sums, dot_rows(q, b->k + (k0 + k) * a->ksr, a->ksr, n, a->d) * pf_set((float)a->scale));
            float *s = b->s + k * b->step + query;
            if (a->mask_kind == PF_MASK_ROWS)
                for (int64_t r = 0; r < n; r++)
                    sums[r] += ((const float *)b->mask)[(k0 + k + r) * a->msk + query];
            /* The lanes without a query get defined values too. */
            for (int64_t r = 0; r < n; r++)
                if (query == i)
                    pf_store(s + r * b->step, pf_set(sums[r]));
                else
                    s[r * b->step] = sums[r];
        }
    }
}

/* Whether to copy values: those that end within a vector, or whose rows fall into few sets of the cache, if
 * many queries read them and all rows pass once for some columns at a time. */
static bool packs_values(const block *b) {
    enum { MANY = 4 * MAX_MR, FEW_SETS = 512 / (int)sizeof(float) };
    const pf_attention_args *a = b->a;
    return b->dp > a->dv || (b->queries >= MANY && a->vsr % FEW_SETS == 0 && a->dv > MAX_NV * PF_VL);
}

/* Values, padded to whole vectors. */
static const float *pack_values(const block *b, const float *v, int64_t keys) {
    const int64_t dv = b->a->dv, full = dv / PF_VL * PF_VL;
    for (int64_t k = 0; k < keys; k++) {
        const float *from = v + k * b->a->vsr;
        float *to = b->vp + k * pf_odd_lines(b->dp);
        for (int64_t d = 0; d < full; d += PF_VL) pf_store(to + d, pf_load(from + d));
        if (full < dv) pf_store(to + full, pf_loadn(from + full, dv - full));
    }
    return b->vp;
}

/* ---- blocks ---- */

/* Scores become weights relative to the running maximum. */
static void weigh(const block *b, int64_t i, int64_t keys, bool first) {
    const running r = running_top(b, i, keys, first);
    float *s = b->s + i;
    pf_vf sum = pf_zero();
    for (int64_t k = 0; k < keys; k++) {
        const pf_vf p = pf_exp_term(pf_load(s + k * b->step) - r.reference);
        pf_store(s + k * b->step, p);
        sum += p;
    }
    running_sum(b, i, &r, sum, first);
}

static void attend_keys(const block *b, int64_t k0, int64_t keys, bool first, ahead *next) {
    const pf_attention_args *a = b->a;
    ahead coming = {{{b->v + k0 * a->vsr, a->vsr, keys, a->dv}}, MAX_MR};
    product scores = {.a = b->k + k0 * a->ksr, .as = a->ksr, .b = b->qt, .bs = b->step, .n = a->d};
    scores.c = b->s, scores.cs = b->step;
    if (b->far) scores.ahead = &coming;
    if (a->mask_kind == PF_MASK_ROWS) scores.z = (const float *)b->mask + k0 * a->msk, scores.zs = a->msk;
    multiply_scores(scores, keys, b->tiled);
    if (b->tiled < b->vectors) score_few(b, b->tiled * PF_VL, k0, keys);
    for (int64_t i = 0; i < b->w; i += PF_VL) {
        hide_scores(b, i, k0, keys);
        weigh(b, i, keys, first);
    }
    const float *v = b->v + k0 * a->vsr;
    product values = {.a = b->s, .as = b->step, .b = v, .bs = a->vsr, .n = keys, .c = b->o, .cs = b->dp};
    if (b->far) values.ahead = next;
    if (!first) values.alpha = b->alpha;
    if (packs_values(b)) values.b = pack_values(b, v, keys), values.bs = pf_odd_lines(b->dp);
    multiply(value_rows, values, b->queries, b->dp / PF_VL);
}

static void store_block(const block *b) {
    const pf_attention_args *a = b->a;
    invert_sums(b);
    for (int64_t q = 0; q < b->queries; q++) {
        const pf_vf f = pf_set(b->l[q]);
        const float *o = b->o + q * b->dp;
        float *to = b->y + q * a->ysr;
        int64_t d = 0;
        for (; d + PF_VL <= a->dv; d += PF_VL) pf_store(to + d, pf_load(o + d) * f);
        if (d < a->dv) pf_storen(to + d, pf_load(o + d) * f, a->dv - d);
    }
}

static void attend(block *b, split *tiles, ahead *next) {
    const pf_attention_args *a = b->a;
    int64_t keys = a->keys;
    if (a->queries <= FEW) {
        for (int64_t query = 0; query < b->queries; query++) attend_one(b, query);
        return;
    }
    if (a->causal) keys = pf_max(0, pf_min(keys, b->q0 + b->queries + a->diagonal));
    if (tiles && attend_split(tiles, b, keys)) return;
    b->tiled = b->vectors - (b->queries - (b->w - PF_VL) <= FEW);
    pack_queries(b);
    int64_t blocks = pf_ceil_div(keys, KEY_BLOCK);
    if (blocks == 0) {
        memset(b->l, 0, (size_t)b->w * sizeof(float));
        memset(b->o, 0, (size_t)(b->queries * b->dp) * sizeof(float));
    }
    for (int64_t k0 = 0, i = 0; i < blocks; i++) {
        const int64_t n = pf_ceil_div(keys - k0, blocks - i);
        const int64_t k1 = k0 + n, coming = i + 1 < blocks ? pf_ceil_div(keys - k1, blocks - i - 1) : 0;
        ahead more = {{{b->k + k1 * a->ksr, a->ksr, coming, a->d}}, 2 * MAX_MR};
        attend_keys(b, k0, n, i == 0, coming ? &more : next);
        k0 = k1;
    }
    store_block(b);
}

PF_PLAN_FUNCTION(attention_f32) {
    const pf_attention_args *a = args_;
    plan->variant = 0;
    plan->packed_bytes = 0;
    plan->scratch_bytes = nthreads * thread_bytes(a);
    snprintf(plan->label, sizeof plan->label, "%s", is_worth_splitting(a) ? "split" : "online");
}

/* The blocks of queries of all heads. */
typedef struct work {
    const pf_attention_args *a;
    const float *q, *k, *v;
    const char *mask;
    float *y, *scratch;
    int64_t vectors, blocks, items;
    bool far;
} work;

static block make_block(const work *x, int64_t item) {
    const pf_attention_args *a = x->a;
    const int64_t j = item % x->blocks, h = item / x->blocks % a->heads, n = item / x->blocks / a->heads;
    const int64_t v0 = x->vectors * j / x->blocks, v1 = x->vectors * (j + 1) / x->blocks;
    const int64_t mask_size =
        a->mask_kind == PF_MASK_ADD || a->mask_kind == PF_MASK_ROWS ? (int64_t)sizeof(float) : 1;
    const int64_t kv = h / (a->heads / a->kv_heads);
    block b = {.a = a, .q0 = v0 * PF_VL, .vectors = v1 - v0, .w = (v1 - v0) * PF_VL, .dp = padded_value(a)};
    b.far = x->far;
    b.queries = pf_min(b.w, a->queries - b.q0);
    b.q = x->q + n * a->qsb + h * a->qsh + b.q0 * a->qsr;
    b.k = x->k + n * a->ksb + kv * a->ksh;
    b.v = x->v + n * a->vsb + kv * a->vsh;
    b.y = x->y + n * a->ysb + h * a->ysh + b.q0 * a->ysr;
    if (x->mask) b.mask = x->mask + (n % a->mask_batches * a->msb + h * a->msh + b.q0 * a->msq) * mask_size;
    b.qt = x->scratch;
    b.step = pf_odd_lines(b.w);
    b.s = b.qt + a->d * b.step;
    b.o = b.s + KEY_BLOCK * b.step;
    b.m = b.o + b.w * b.dp;
    b.l = b.m + b.w;
    b.alpha = b.l + b.w;
    b.vp = b.alpha + b.w;
    return b;
}

static double operand_bytes(const pf_attention_args *a) {
    const double q = (double)a->heads * (double)a->queries * (double)a->d;
    const double kv = (double)a->kv_heads * (double)a->keys * (double)(a->d + a->dv);
    return (double)a->batch * (q + kv) * (double)sizeof(float);
}

/* Single queries of heads that share keys and values become the queries of one head, for which these are read
 * once. */
static pf_attention_args gathered(const pf_attention_args *given, int64_t nthreads) {
    pf_attention_args a = *given;
    const int64_t group = a.heads / pf_max(1, a.kv_heads);
    if (a.queries != 1 || a.causal || group <= 1 || 2 * a.batch * a.kv_heads < nthreads) return a;
    a.heads = a.kv_heads, a.queries = group;
    a.qsr = a.qsh, a.ysr = a.ysh, a.msq = a.msh;
    a.qsh *= group, a.ysh *= group, a.msh *= group;
    return a;
}

PF_KERNEL_FUNCTION(attention_f32) {
    const pf_attention_args *given = args_, turned = gathered(given, w->nthreads), *a = &turned;
    work x = {.a = a, .q = pf_ptr(w, a->q), .k = pf_ptr(w, a->k), .v = pf_ptr(w, a->v)};
    x.mask = pf_ptr(w, a->mask), x.y = pf_ptr(w, a->y);
    char *scratch = (char *)pf_ptr(w, a->scratch) + w->tid * thread_bytes(given);
    split own, *tiles = is_worth_splitting(given) ? &own : NULL;
    x.scratch = (float *)scratch;
    if (tiles) {
        place_split(tiles, a, (uintptr_t)scratch + (uintptr_t)block_bytes(a));
        pf_split_begin(PF_SPLIT_SIDE);
    }
    x.vectors = pf_ceil_div(a->queries, PF_VL), x.blocks = pf_ceil_div(x.vectors, QUERY_VECTORS);
    x.items = a->batch * a->heads * x.blocks;
    x.far = operand_bytes(a) > FAR_BYTES;
    /* Whoever takes a block of a head has to split its keys: all blocks of a head, where there are many. */
    const int64_t heads = a->batch * a->heads, many = w->nthreads * 16;
    const int64_t chunks = tiles && 4 * heads >= many ? pf_min(heads, many) : pf_min(x.items, many);
    for (int64_t c = pf_claim_near(w, chunks); c < chunks; c = pf_claim_near(w, chunks)) {
        for (int64_t i = x.items * c / chunks, end = x.items * (c + 1) / chunks; i < end; i++) {
            const int64_t next = i + 1; /* What this thread will most likely do next. */
            ahead soon = {.each = 3 * MAX_MR};
            block b = make_block(&x, i);
            if (x.far && next < x.items) {
                const block after = make_block(&x, next);
                soon.s[0] = (stretch){after.q, a->qsr, after.queries, a->d};
                if (after.k != b.k) soon.s[1] = (stretch){after.k, a->ksr, pf_min(a->keys, KEY_BLOCK), a->d};
            }
            attend(&b, tiles, &soon);
        }
    }
    if (tiles) pf_split_end();
}
