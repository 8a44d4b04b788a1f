/* Attention by products of split floats (split.h) on matrix tiles. Keys and values of a head are split once
 * for all blocks of its queries, weights where they are made: lanes are queries there, and four keys fill
 * them with bytes, as columns of tiles want them. So results are summed up transposed, values by queries. */
#ifndef PF_KERNELS_ATTENTION_SPLIT_H
#define PF_KERNELS_ATTENTION_SPLIT_H

#include "kernels/attention.h"
#include "kernels/split.h"

enum {
    SPLIT_KEYS = 256,                  /* most keys of a block: their weights stay in L2 */
    SPLIT_LEAST = 128,                 /* queries and keys that are worth it, */
    SPLIT_NARROWEST = 40,              /* and numbers of each of them, */
    SPLIT_AREA = 1 << 14,              /* and of both together */
    SPLIT_LARGEST = 256,               /* bound of scores, beyond which they may be off by 1e-5 */
    SPLIT_VECTORS = QUERY_VECTORS | 1, /* an odd number of lines: columns of arrays use all of the cache */
    WEIGHT_BITS = 22,                  /* weights are integers up to 2^22 */
    ROWS_AHEAD = 8,                    /* fetched */
};

/* Digits of weights have the size of this. */
#define WEIGHT_SCALE (0x1p16f / (1 << WEIGHT_BITS))

#if defined(PF_AMX)
/* Operands of a thread. Tiles of keys, of values (by block) and of a block's queries and weights lie as
 * pf_split_sums wants them: all steps of a tile in a row. */
typedef struct split {
    const pf_attention_args *a;
    int64_t steps, block, value_tiles;               /* of a key; keys at a time; tiles of a value */
    char *keys, *values, *rows, *queries, *weights;  /* rows: of what is to be turned into tiles */
    float *key_scales, *value_scales, *query_scales; /* of values by block, of queries with that of scores */
    float *inverses, *tops;                          /* of values; of scores so far */
    float *s, *o;                                    /* scores, sums of results */
    int32_t *sums[2];
    const float *k, *v; /* the head whose keys and values are split, */
    int fits;           /* whether all of them are in range, */
    float largest;      /* and the largest size of its keys */
} split;

static char *take(uintptr_t *next, int64_t bytes) {
    char *taken = (char *)*next;
    *next += (uintptr_t)pf_ceil_div(bytes, 64) * 64;
    return taken;
}

static float *take_floats(uintptr_t *next, int64_t n) {
    return (float *)take(next, n * (int64_t)sizeof(float));
}

/* Places everything from `scratch` on, and returns its end. */
static uintptr_t place_split(split *x, const pf_attention_args *a, uintptr_t scratch) {
    enum { SIDE = PF_SPLIT_SIDE, DEPTH = PF_SPLIT_DEPTH, STEP = PF_SPLIT_STEP };
    const int64_t tiles = pf_ceil_div(a->dv, SIDE), width = SPLIT_VECTORS * PF_VL;
    const int64_t least = pf_ceil_div(a->keys, pf_ceil_div(a->keys, SPLIT_KEYS));
    *x = (split){.a = a, .steps = pf_ceil_div(a->d, DEPTH), .value_tiles = tiles};
    x->block = pf_ceil_div(least, DEPTH) * DEPTH;
    const int64_t blocks = pf_ceil_div(a->keys, x->block), block_steps = x->block / DEPTH;
    x->keys = take(&scratch, pf_ceil_div(a->keys, SIDE) * x->steps * STEP);
    x->values = take(&scratch, blocks * tiles * block_steps * STEP);
    x->rows = take(&scratch, pf_max(x->steps, tiles) * STEP);
    x->queries = take(&scratch, QUERY_VECTORS * x->steps * STEP);
    x->weights = take(&scratch, QUERY_VECTORS * block_steps * STEP);
    x->key_scales = take_floats(&scratch, a->keys);
    x->value_scales = take_floats(&scratch, blocks * tiles * SIDE);
    x->query_scales = take_floats(&scratch, width);
    x->inverses = take_floats(&scratch, tiles * SIDE);
    x->tops = take_floats(&scratch, width);
    x->s = take_floats(&scratch, x->block * width);
    x->o = take_floats(&scratch, tiles * SIDE * width);
    for (int i = 0; i < 2; i++) x->sums[i] = (int32_t *)take_floats(&scratch, PF_SPLIT_SUMS);
    return scratch;
}

static int is_worth_splitting(const pf_attention_args *a) {
    const int64_t rows = pf_min(a->queries, a->keys), numbers = pf_min(a->d, a->dv);
    return rows >= SPLIT_LEAST && numbers >= SPLIT_NARROWEST && rows * numbers >= SPLIT_AREA &&
           a->d <= PF_SPLIT_LONGEST;
}

/* -- operands -- */

/* The keys of a block from key k0 on, however many of them take part, and their steps. */
static int64_t keys_from(const split *x, int64_t k0) { return pf_min(x->block, x->a->keys - k0); }
static int64_t steps_from(const split *x, int64_t k0) {
    return pf_ceil_div(keys_from(x, k0), PF_SPLIT_DEPTH);
}

static char *values_from(const split *x, int64_t k0) {
    return x->values + k0 / x->block * x->value_tiles * (x->block / PF_SPLIT_DEPTH) * PF_SPLIT_STEP;
}

static float *value_scales_from(const split *x, int64_t k0) {
    return x->value_scales + k0 / x->block * x->value_tiles * PF_SPLIT_SIDE;
}

static int is_in_range(float largest) { return largest == largest && pf_split_fits(largest); }

/* Scales of n values; those of weights are in them. */
static void measure_values(split *x, const float *v, int64_t n, float *scales) {
    const int64_t dv = x->a->dv, stride = x->a->vsr, padded = x->value_tiles * PF_SPLIT_SIDE;
    memset(scales, 0, (size_t)padded * sizeof *scales);
    for (int64_t k = 0; k < n; k++, v += stride) {
        if (k + ROWS_AHEAD < n) fetch_row(v + ROWS_AHEAD * stride, dv);
        for (int64_t i = 0; i < dv; i += PF_VL)
            pf_store(scales + i,
                     (pf_vf)pf_size_larger((pf_vi)pf_load(scales + i), pf_load_upto(v + i, dv - i)));
    }
    for (int64_t i = 0; i < padded; i++) {
        x->fits &= is_in_range(scales[i]);
        x->inverses[i] = pf_split_inverse(scales[i]);
        scales[i] = pf_split_scale(scales[i]) * WEIGHT_SCALE;
    }
}

/* n values from key k0 on, whose columns become rows of tiles. */
static void split_values(split *x, const float *v, int64_t n, int64_t k0) {
    enum { FOURS = PF_SPLIT_DEPTH / 4 };
    const int64_t dv = x->a->dv, stride = x->a->vsr, steps = steps_from(x, k0);
    const __m512i added = _mm512_set1_epi32(0x808080), high_added = _mm512_set1_epi8((char)0x80);
    measure_values(x, v, n, value_scales_from(x, k0));
    for (int64_t s = 0; s < steps; s++) {
        for (int64_t k = s * PF_SPLIT_DEPTH; k < (s + 1) * PF_SPLIT_DEPTH; k += 4)
            for (int64_t i = 0; i < dv; i += PF_VL) {
                const pf_vf inverse = pf_load(x->inverses + i);
                __m512i integers[4];
                PF_UNROLL for (int r = 0; r < 4; r++) {
                    const pf_vf number =
                        k + r < n ? pf_load_upto(v + (k + r) * stride + i, dv - i) : pf_zero();
                    integers[r] = _mm512_add_epi32(_mm512_cvtps_epi32((__m512)(number * inverse)), added);
                }
                pf_split_fours(integers, high_added,
                               x->rows + i / PF_VL * PF_SPLIT_STEP + k / 4 % FOURS * 64);
            }
        for (int64_t i = 0; i < x->value_tiles * PF_SPLIT_DIGITS; i++)
            pf_split_transpose(x->rows + i * PF_SPLIT_PART,
                               values_from(x, k0) + (i / PF_SPLIT_DIGITS * steps + s) * PF_SPLIT_STEP +
                                   i % PF_SPLIT_DIGITS * PF_SPLIT_PART);
    }
}

/* Keys and values of the head, unless they have been split already. */
static void split_head(split *x, const block *b) {
    const pf_attention_args *a = x->a;
    if (x->k == b->k && x->v == b->v) return;
    x->k = b->k, x->v = b->v, x->fits = 1, x->largest = 0.0f;
    for (int64_t key = 0; key < a->keys && x->fits; key++) {
        const float *row = b->k + key * a->ksr, largest = pf_size_largest(row, a->d);
        char *tile = x->keys + key / PF_SPLIT_SIDE * x->steps * PF_SPLIT_STEP;
        if (key + ROWS_AHEAD < a->keys) fetch_row(row + ROWS_AHEAD * a->ksr, a->d);
        x->fits &= is_in_range(largest);
        x->largest = largest > x->largest ? largest : x->largest;
        x->key_scales[key] = pf_split_row(row, a->d, largest, x->steps, PF_SPLIT_STEP,
                                          tile + key % PF_SPLIT_SIDE * PF_SPLIT_DEPTH);
    }
    for (int64_t k0 = 0; k0 < a->keys && x->fits; k0 += x->block)
        split_values(x, b->v + k0 * a->vsr, keys_from(x, k0), k0);
}

/* A query in the rows that become columns; returns its largest size. Query NULL: zeros. */
static float split_query(split *x, const float *q, int64_t row, float *scale) {
    char *to = x->rows + row * PF_SPLIT_DEPTH;
    if (q) {
        const float largest = pf_size_largest(q, x->a->d);
        *scale = pf_split_row(q, x->a->d, largest, x->steps, PF_SPLIT_STEP, to) * (float)x->a->scale;
        return largest;
    }
    for (int64_t i = 0; i < x->steps * PF_SPLIT_DIGITS; i++)
        memset(to + i * PF_SPLIT_PART, 0, PF_SPLIT_DEPTH);
    *scale = 0.0f;
    return 0.0f;
}

/* The queries of a block; returns whether all of them are in range, and scores with the head's keys. */
static int split_queries(split *x, const block *b) {
    const pf_attention_args *a = x->a;
    float most = 0.0f;
    char *to = x->queries;
    for (int64_t query = 0; query < b->queries; query++) fetch_row(b->q + query * a->qsr, a->d);
    for (int64_t first = 0; first < b->queries; first += PF_SPLIT_SIDE) {
        for (int64_t row = 0; row < PF_SPLIT_SIDE; row++) {
            const int64_t query = first + row;
            const float *q = query < b->queries ? b->q + query * a->qsr : NULL;
            const float largest = split_query(x, q, row, x->query_scales + query);
            if (!is_in_range(largest)) return 0;
            most = largest > most ? largest : most;
        }
        for (int64_t i = 0; i < x->steps * PF_SPLIT_DIGITS; i++, to += PF_SPLIT_PART)
            pf_split_transpose(x->rows + i * PF_SPLIT_PART, to);
    }
    return fabs(a->scale) * sqrt((double)a->d) * (double)x->largest * (double)most <= SPLIT_LARGEST;
}

/* -- products, and what is done behind them -- */

/* What a thread is about in a block of keys: sums that are not finished yet, and weights. Both are worked at
 * while the matrix unit makes the next sums, as it leaves the vector units idle. */
typedef struct behind {
    const split *x;
    const block *b;
    int64_t k0, keys, steps; /* the keys, and their steps, to the end of which weights are zeros */
    bool first, hides;       /* hides: some scores count less or not at all */
    const int32_t *sums;
    int64_t tile, column, done, rows; /* of the sums; so many rows are finished */
    bool scores;                      /* or values */
    int turn;
    running run;
    pf_vf sum;                    /* of weights */
    int64_t weighed, four, fours; /* the vector of queries, and how many fours of keys are weights already */
    int64_t turns;                /* so many turns are left for the rest of them */
} behind;

static void finish_scores(behind *w, int64_t n) {
    const pf_attention_args *a = w->x->a;
    const int64_t i = w->column * PF_VL, first = w->tile * PF_SPLIT_SIDE + w->done, stride = w->b->step;
    const float *scales = w->x->key_scales + w->k0 + first;
    const int32_t *sums = w->sums + w->done * PF_VL;
    const pf_vf by = pf_load(w->x->query_scales + i);
    float *s = w->b->s + first * stride + i;
    pf_vf top = pf_load(w->x->tops + i);
    if (a->mask_kind == PF_MASK_ROWS) {
        const float *mask = (const float *)w->b->mask + (w->k0 + first) * a->msk + i;
        for (int64_t k = 0; k < n; k++, s += stride, mask += a->msk) {
            const pf_vf score = pf_fma(pf_split_sum(sums + k * PF_VL) * pf_set(scales[k]), by, pf_load(mask));
            pf_store(s, score);
            top = pf_vmax(score, top);
        }
    } else {
        for (int64_t k = 0; k < n; k++, s += stride) {
            const pf_vf score = pf_split_sum(sums + k * PF_VL) * pf_set(scales[k]) * by;
            pf_store(s, score);
            top = pf_vmax(score, top);
        }
    }
    pf_store(w->x->tops + i, top);
}

static void finish_values(behind *w, int64_t n) {
    const int64_t i = w->column * PF_VL, first = w->tile * PF_SPLIT_SIDE + w->done, stride = w->b->step;
    const float *scales = value_scales_from(w->x, w->k0) + first;
    const int32_t *sums = w->sums + w->done * PF_VL;
    float *o = w->b->o + first * stride + i;
    if (w->first)
        for (int64_t d = 0; d < n; d++, o += stride)
            pf_store(o, pf_split_sum(sums + d * PF_VL) * pf_set(scales[d]));
    else {
        const pf_vf alpha = pf_load(w->b->alpha + i);
        for (int64_t d = 0; d < n; d++, o += stride)
            pf_store(o, pf_fma(pf_split_sum(sums + d * PF_VL), pf_set(scales[d]), pf_load(o) * alpha));
    }
}

static void finish(behind *w, int64_t n) {
    n = pf_min(n, w->rows - w->done);
    if (n <= 0) return;
    if (w->scores)
        finish_scores(w, n);
    else
        finish_values(w, n);
    w->done += n;
}

/* Scores of n more fours of keys become digits of weights. */
static void weigh_fours(behind *w, int64_t n) {
    enum { FOURS = PF_SPLIT_DEPTH / 4 };
    const int64_t end = pf_min(w->fours, w->four + n), stride = w->b->step;
    const pf_vf reference = w->run.reference, lower = pf_set(0x1p23f + (float)0x8080);
    const float *s = w->b->s + 4 * w->four * stride + w->weighed * PF_VL;
    char *to = w->x->weights + w->weighed * w->steps * PF_SPLIT_STEP;
    pf_vf sum = w->sum;
    for (int64_t four = w->four; four < end; four++, s += 4 * stride) {
        const int64_t left = w->keys - 4 * four;
        char *row = to + four / FOURS * PF_SPLIT_STEP + four % FOURS * 64;
        __m512i integers[4];
        if (left <= 0) {
            for (int i = 0; i < PF_SPLIT_DIGITS; i++) memset(row + i * PF_SPLIT_PART, 0, 64);
            continue;
        }
        PF_UNROLL for (int r = 0; r < 4; r++) {
            const pf_vf p =
                r < left ? pf_exp_lifted(pf_load(s + r * stride) - reference, WEIGHT_BITS) : pf_zero();
            sum += p;
            /* The lowest bits of such a sum are an integer. */
            integers[r] = (__m512i)(p + lower);
        }
        pf_split_fours(integers, _mm512_setzero_si512(), row);
    }
    w->sum = sum, w->four = end;
}

static void begin_weights(behind *w, int64_t column, int64_t turns) {
    const int64_t i = column * PF_VL;
    if (w->scores) finish(w, w->rows);
    if (w->hides) {
        hide_scores(w->b, i, w->k0, w->keys);
        w->run = running_top(w->b, i, w->keys, w->first);
    } else {
        w->run = running_from(w->b, i, pf_load(w->x->tops + i), w->first);
    }
    w->weighed = column, w->four = 0, w->fours = w->steps * (PF_SPLIT_DEPTH / 4), w->turns = turns;
    w->sum = pf_zero();
}

static void end_weights(behind *w) {
    weigh_fours(w, w->fours);
    running_sum(w->b, w->weighed * PF_VL, &w->run, w->sum * pf_set(1.0f / (1 << WEIGHT_BITS)), w->first);
    w->fours = 0;
}

/* Turns of both kinds take turns. */
static void work_behind(void *context, int64_t turns) {
    behind *w = context;
    if (turns % 2 == 0) {
        finish(w, pf_ceil_div(w->rows - w->done, turns / 2));
    } else if (w->four < w->fours) {
        weigh_fours(w, pf_ceil_div(w->fours - w->four, w->turns));
        w->turns = pf_max(1, w->turns - 1);
    }
}

/* Sums of all tiles of rows, by one of columns. */
static void make_sums(behind *w, const bool scores, const char *rows, int64_t tiles, const char *columns,
                      int64_t column, int64_t steps) {
    const int64_t size = steps * PF_SPLIT_STEP;
    for (int64_t tile = 0; tile < tiles; tile += 2) {
        int32_t *sums = w->x->sums[w->turn ^= 1];
        const pf_split_product product = {.a = rows + tile * size,
                                          .b = columns + column * size,
                                          .tiles = pf_min(2, tiles - tile),
                                          .steps = steps,
                                          .apart = PF_SPLIT_STEP,
                                          .work = work_behind,
                                          .context = w};
        const int64_t n = product.tiles * PF_SPLIT_SIDE;
        pf_split_sums(&product, sums);
        finish(w, w->rows);
        w->sums = sums, w->scores = scores, w->tile = tile, w->column = column, w->done = 0;
        w->rows = scores ? pf_min(n, w->keys - tile * PF_SPLIT_SIDE) : n;
    }
}

/* Scores, weights and sums of values of a block of keys. Vectors of queries follow each other: while one is
 * at its weights, the scores of the next are made, and the sums of the one before. */
static void attend_keys_split(const split *x, const block *b, int64_t k0, int64_t keys) {
    enum { TURNS = PF_SPLIT_TURNS / 2 }; /* of a step, for weights */
    const pf_attention_args *a = x->a;
    const int64_t tiles = pf_ceil_div(keys, PF_SPLIT_SIDE), width = b->vectors;
    const char *rows = x->keys + k0 / PF_SPLIT_SIDE * x->steps * PF_SPLIT_STEP;
    behind w = {.x = x, .b = b, .k0 = k0, .keys = keys, .steps = steps_from(x, k0), .first = k0 == 0};
    w.hides = a->causal || (a->mask_kind != PF_MASK_NONE && a->mask_kind != PF_MASK_ROWS);
    const int64_t score_turns = pf_ceil_div(tiles, 2) * x->steps * TURNS;
    const int64_t value_turns = pf_ceil_div(x->value_tiles, 2) * w.steps * TURNS;
    for (int64_t i = 0; i < width + 2; i++) {
        const bool weighs = i > 0 && i <= width;
        if (weighs) begin_weights(&w, i - 1, (i < width ? score_turns : 0) + (i > 1 ? value_turns : 0));
        if (i < width) {
            pf_store(x->tops + i * PF_VL, top_before(b, i * PF_VL, w.first));
            make_sums(&w, true, rows, tiles, x->queries, i, x->steps);
        }
        if (i > 1) make_sums(&w, false, values_from(x, k0), x->value_tiles, x->weights, i - 2, w.steps);
        if (weighs) end_weights(&w);
    }
    finish(&w, w.rows);
}

static void store_split(const split *x, const block *b) {
    const pf_attention_args *a = x->a;
    for (int64_t i = 0; i < b->queries; i += PF_VL) {
        const pf_vf factor = pf_load(b->l + i);
        for (int64_t d = 0; d < a->dv; d += PF_VL) {
            pf_vf t[PF_VL];
            PF_UNROLL for (int r = 0; r < PF_VL; r++) t[r] = pf_load(b->o + (d + r) * b->step + i) * factor;
            pf_transpose_tile(t);
            for (int64_t q = 0; q < pf_min(PF_VL, b->queries - i); q++)
                pf_store_upto(b->y + (i + q) * a->ysr + d, t[q], a->dv - d);
        }
    }
}

/* A block of queries and the first keys of its head; returns 0 if vectors are to do it. */
static int attend_split(split *x, const block *given, int64_t keys) {
    block own = *given, *b = &own;
    if (keys == 0) return 0;
    b->s = x->s, b->o = x->o;
    split_head(x, b);
    if (!x->fits || !split_queries(x, b)) return 0;
    for (int64_t k0 = 0; k0 < keys; k0 += x->block) attend_keys_split(x, b, k0, pf_min(x->block, keys - k0));
    invert_sums(given);
    store_split(x, b);
    return 1;
}
#else
typedef struct split {
    int unused;
} split;

static uintptr_t place_split(split *x, const pf_attention_args *a, uintptr_t scratch) {
    (void)a, x->unused = 0;
    return scratch;
}

static int is_worth_splitting(const pf_attention_args *a) {
    (void)a;
    return 0;
}

static int attend_split(split *x, const block *b, int64_t keys) {
    (void)x, (void)b, (void)keys;
    return 0;
}
#endif

#endif
