/* Winograd's method with products in pairs (pairs.h): tiles and output channels have scales, which are
 * applied to the outputs, as the transforms are linear. Used by conv_winograd.c. */
#include "kernels/conv_winograd_plan.h"
#include "kernels/pairs.h"
#include "kernels/sizes.h"
#include "kernels/tile.h"

static pf_vf squares_of(const float *v, int64_t n, pf_vf sum) {
    for (int64_t i = 0; i < n; i += PF_VL) {
        const pf_vf x = pf_load(v + i);
        sum = pf_fma(x, x, sum);
    }
    return sum;
}

/* What a tile is multiplied with, by the root mean square of all points (some of them may vanish together, as
 * those on the diagonal do where a tile is antisymmetric), or by the largest number where squares leave the
 * range of floats. Returns 0 if all are zeros, NaN if some are not finite: outputs are
 * computed directly then. */
static float scale_of(const pf_wino_plan *p, const float *v) {
    pf_vf sum = pf_zero();
    for (int point = 0; point < p->points; point++) sum = squares_of(v + point * p->v_step, p->depth, sum);
    const float squares = pf_hsum(sum);
    if (squares > PF_SQUARES_LEAST && squares < PF_SQUARES_MOST)
        return pf_inverse_root(squares / (float)(p->points * p->ic));
    float largest = 0.0f;
    for (int point = 0; point < p->points; point++) {
        const float next = pf_size_largest(v + point * p->v_step, p->depth);
        if (!(next <= largest)) largest = next;
        if (!(largest < INFINITY)) return NAN;
    }
    return largest == 0.0f ? 0.0f : 1.0f / pf_power_near(largest);
}

/* What the vector of inputs from i on is multiplied with. */
PF_INLINE pf_vf factors_at(int64_t i, float by) {
    const pf_vi lanes = pf_numbers() + (PF_VL % PF_PAIRS_PERIOD == 0 ? 0 : (int32_t)(i % PF_PAIRS_PERIOD));
    return pf_select((lanes & pf_seti(PF_PAIRS_PERIOD - 1)) == PF_PAIRS_TURNED, pf_set(-by), pf_set(by));
}

/* Scales a row of V, gives its inputs their signs and returns what its sums start from. */
static float prepare_row(float *v, float by, int64_t n) {
    const pf_vi lanes = pf_numbers(), begins = pf_pairs_begins();
    const int64_t paired = pf_pairs_depth(n);
    pf_vf sum = pf_zero();
    int64_t i = 0;
    for (; i + PF_VL <= paired; i += PF_VL) {
        const pf_vf x = pf_load(v + i) * factors_at(i, by);
        pf_store(v + i, x);
        sum = pf_pairs_add(x, begins, sum);
    }
    for (; i < n; i += PF_VL) {
        const pf_vi inside = lanes < pf_seti((int32_t)pf_max(0, paired - i));
        const pf_vf x = pf_load(v + i) * pf_select(inside, factors_at(i, by), pf_set(by));
        pf_store(v + i, x);
        sum = pf_pairs_add(x, begins & inside, sum);
    }
    return -pf_hsum(sum);
}

void PF_NAME(wino_pairs_begin)(pf_wino_plan *p, pf_wino_extra e) {
    p->scales = p->u + e.scales, p->starts = p->u + e.starts, p->plain = p->u + e.plain;
    p->row_starts = p->products + p->together * p->points * p->m_step;
    p->tile_scales = p->row_starts + p->points * p->chunk;
}

void PF_NAME(wino_pairs_prepare)(const pf_wino_plan *p, int64_t tile) {
    float *v = p->v + tile * p->depth;
    const float scale = scale_of(p, v);
    const float by = scale > 0.0f ? scale : 1.0f;
    p->tile_scales[tile] = scale == 0.0f ? 0.0f : 1.0f / by;
    for (int point = 0; point < p->points; point++) {
        const float start = prepare_row(v + point * p->v_step, by, p->ic);
        p->row_starts[point * p->chunk + tile] = scale == scale ? start : NAN;
    }
}

void PF_NAME(wino_pairs_products)(const pf_wino_plan *p, int64_t panel, int64_t point, int64_t count,
                                  const float *u, const float *next, float *products) {
    const pf_panel at = pf_wino_panel(p, panel);
    const pf_pairs_fn *by_rows = PF_NAME(pairs_tiles)()[at.vectors - 1];
    const int64_t width = at.vectors * PF_VL, blocks = pf_ceil_div(count, PF_PAIRS_ROWS);
    const int64_t steps = pf_ceil_div(p->ic, PF_PAIRS_STEP);
    pf_pairs_tile t = {.b = u, .step = p->depth, .k = p->ic, .plain = *p->plain != 0.0f};
    t.starts = p->starts + at.start * PF_VL * p->points + point * width;
    t.ahead = (const char *)(next ? next : u);
    if (next) t.ahead_each = pf_ceil_div(p->ic * width * (int64_t)sizeof(float), steps * blocks);
    for (int64_t block = 0; block < blocks; block++, t.ahead += steps * t.ahead_each) {
        const int64_t begin = count * block / blocks, end = count * (block + 1) / blocks;
        t.a = p->v + point * p->v_step + begin * p->depth;
        t.row_starts = p->row_starts + point * p->chunk + begin;
        t.sums = products + begin * width;
        by_rows[end - begin - 1](&t);
    }
}
