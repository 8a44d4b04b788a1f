/* Packing of weights for products in pairs (pairs.h). */
#include "kernels/pack_uneven.h"
#include "kernels/pairs.h"

typedef struct weights {
    pf_uneven u;
    pf_pairs_weights l;
    float *y;
} weights;

/* The scale of a column of this size: 0 if all are zeros, 1 if they are not finite. */
static float scale_of(float size) {
    if (size == 0.0f) return 0.0f;
    return size < INFINITY ? pf_power_near(size) : 1.0f;
}

/* The root mean square of a column over its factors, or its largest size where squares leave the range of
 * floats. */
static float size_of(const pf_uneven *p, const float *column, const float *factors, float largest) {
    float block[PF_SIZES_BLOCK];
    pf_vf squares = pf_zero();
    for (int64_t k = 0; k < p->depth; k += PF_SIZES_BLOCK) {
        const float *x = column + k;
        int64_t n = pf_min(PF_SIZES_BLOCK, p->depth - k);
        if (factors) n = pf_gather_column(p, column, k, PF_SIZES_BLOCK, factors, block), x = block;
        for (int64_t i = 0; i < n; i += PF_VL) {
            const pf_vf v = pf_load_upto(x + i, n - i);
            squares = pf_fma(v, v, squares);
        }
    }
    const float sum = pf_hsum(squares);
    return sum > PF_SQUARES_LEAST && sum < INFINITY ? sqrtf(sum / (float)p->depth) : largest;
}

float PF_NAME(pairs_scale)(const float *column, int64_t n) {
    const pf_uneven p = {.depth = n};
    return scale_of(size_of(&p, column, NULL, pf_size_largest(column, n)));
}

/* One vector of columns of a panel, each number times the inverse of its column and over the factor of its
 * input. */
static void pack_columns(const pf_uneven *p, const pf_piece *t, const float *factors, pf_vf inverses,
                         int64_t width, float *to) {
    int64_t channel = 0, tap = 0;
    for (int64_t i = 0; i < p->depth; i += PF_VL) {
        pf_vf v[PF_VL];
        pf_load_transposed(t->x + i, p->depth, t->columns, p->depth - i, v);
        for (int j = 0; j < pf_min(PF_VL, p->depth - i); j++) {
            const int64_t input = tap * p->ic + channel;
            const float sign = pf_pairs_sign(input, p->depth), by = factors ? sign / factors[input] : sign;
            pf_store(to + input * width, pf_flushed(v[j]) * inverses * pf_set(by));
            if (++tap == p->taps) tap = 0, channel++;
        }
    }
}

/* Less what their pairs have too much. */
pf_vf PF_NAME(pairs_starts)(const float *columns, int64_t n, int64_t step) {
    pf_vf sum = pf_zero();
    for (int64_t k = 0; k < pf_pairs_depth(n); k += PF_PAIRS_STEP)
        sum -= pf_load(columns + k * step) * pf_load(columns + (k + 1) * step);
    return sum;
}

static void pack(const pf_uneven *p, const pf_piece *t, const float *factors, const float *largest) {
    const weights *q = (const weights *)p;
    const int64_t vector = t->number % p->pieces, panel = vector / PF_PAIRS_VECTORS;
    const int64_t width = pf_pairs_vectors(&q->l, panel) * PF_VL;
    float *to = q->y + t->group * q->l.columns * p->depth + panel * PF_PAIRS_WIDTH * p->depth +
                vector % PF_PAIRS_VECTORS * PF_VL;
    float *scales = p->scales + t->number * PF_VL, inverses[PF_VL];
    for (int64_t j = 0; j < PF_VL; j++) {
        const float size = j < t->columns ? size_of(p, t->x + j * p->depth, factors, largest[j]) : 0.0f;
        scales[j] = scale_of(size);
        inverses[j] = scales[j] == 0.0f ? 0.0f : 1.0f / scales[j];
    }
    pack_columns(p, t, factors, pf_load(inverses), width, to);
    pf_store(q->y + q->l.starts + t->number * PF_VL, PF_NAME(pairs_starts)(to, p->depth, width));
}

/* The factors of a group with their signs, and whether its sums need to be made as usual: because of weights
 * that are not finite. */
static void finish(const void *weights_, int64_t group) {
    const weights *q = weights_;
    const pf_uneven *p = &q->u;
    float *factors = pf_factors_at(p, group), *plain = q->y + q->l.plain + group;
    for (int64_t i = 0; i < p->factors_step; i++) {
        const float factor = p->uneven[group] != 0.0f && i < p->depth ? factors[i] : 1.0f;
        factors[i] = factor * pf_pairs_sign(i, p->depth);
    }
    const float *starts = q->y + q->l.starts + group * q->l.columns;
    *plain = 0.0f;
    for (int64_t j = 0; j < q->l.columns; j++)
        if (!(fabsf(starts[j]) < INFINITY)) *plain = 1.0f;
}

PF_KERNEL_FUNCTION(conv_pairs_pack_f32) {
    const pf_pack_args *a = args_;
    weights p = {.u = pf_uneven_of(a, w), .y = pf_ptr(w, a->y)};
    pf_uneven *u = &p.u;
    p.l = pf_pairs_layout(a->groups, u->oc, u->depth);
    u->side = PF_VL, u->pieces = p.l.columns / PF_VL;
    u->scales = p.y + p.l.scales, u->factors = p.y + p.l.factors, u->uneven = p.y + p.l.uneven;
    u->factors_step = pf_ceil_div(u->depth, PF_VL) * PF_VL;
    u->free = (char *)p.y, u->free_step = u->depth * p.l.columns * (int64_t)sizeof(float);
    u->unit = 1.0f, u->least = 0x1p-100f, u->pack = pack;
    pf_turns t = pf_uneven_run(u, w);
    pf_take_turn(&t, u->groups, finish);
}
