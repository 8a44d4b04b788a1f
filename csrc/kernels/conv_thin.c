/* Linear layers and 1x1 convolutions of a few pixels by many constant weights. They wait for memory, so each
 * weight takes three bytes of it: the numbers of a column are its scale times integers of 23 bits and sign.
 * What that loses is 6e-8 of the column's largest weight in each product, no more than float32 loses in a
 * sum. Inputs may have factors besides (pack_sizes.h).
 *
 * A panel of a vector of columns has those of k = 0, those of k = 1 and so on; behind all panels are the
 * scales of columns, the factors, and whether there are any but 1. Panels with a number out of range (inf, or
 * next to the ends of what floats can be) are cut instead: they consist of the upper three bytes of floats,
 * and their scales are 0. */
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_place.h"
#include "kernels/epilogue.h"
#include "kernels/pack_columns.h"
#include "kernels/pack_sizes.h"
#include "kernels/pack_turns.h"

enum {
    ROWS = PF_THIN_PIXELS,
    SIDE = 4,          /* panels side by side, as several streams come faster than one */
    SIDE_SUMS = 8,     /* of so many sums at most */
    AHEAD = 2048,      /* bytes by which each stream is fetched ahead */
    BYTES = 3 * PF_VL, /* of a vector of weights */
    LINE = 16,         /* floats of a cache line */
};

/* Integer of the largest weight, below 2^23 by more than its quotient can be off. When they are read,
 * integers are upper bytes of larger ones. */
#define LARGEST 8388600.0f
#define UPPER   256.0f
#define LEAST   0x1p-90f
#define MOST    0x1p90f

/* Where the parts of packed weights are. */
typedef struct layout {
    int64_t panels, panel;           /* how many, and the bytes of one */
    int64_t scales, factors, uneven; /* bytes from the start */
} layout;

static layout layout_of(int64_t oc, int64_t ic) {
    layout l = {.panels = pf_ceil_div(oc, PF_VL), .panel = ic * BYTES};
    l.scales = l.panels * l.panel;
    l.factors = l.scales + l.panels * PF_VL * (int64_t)sizeof(float);
    l.uneven = l.factors + ic * (int64_t)sizeof(float);
    return l;
}

/* -- three bytes -- */

/* Integers whose upper three bytes they are. Reads a whole vector. */
PF_INLINE pf_vi read_upper(const char *p) {
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    const __m512i apart = _mm512_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 9, 10, 11, 0);
    const __m512i upper =
        _mm512_broadcast_i32x4(_mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11));
    return (pf_vi)_mm512_shuffle_epi8(_mm512_permutexvar_epi32(apart, _mm512_loadu_si512(p)), upper);
#elif defined(PF_AVX2)
    const __m256i apart = _mm256_setr_epi32(0, 1, 2, 0, 3, 4, 5, 0);
    const __m256i upper =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11));
    const __m256i all = _mm256_loadu_si256((const __m256i *)p);
    return (pf_vi)_mm256_shuffle_epi8(_mm256_permutevar8x32_epi32(all, apart), upper);
#else
    pf_vi v;
    for (int i = 0; i < PF_VL; i++) {
        uint32_t four;
        memcpy(&four, p + 3 * i, sizeof four);
        v[i] = (int32_t)(four << 8);
    }
    return v;
#endif
}

/* The lower three bytes of integers. */
PF_INLINE void write_lower(char *p, pf_vi v) {
#if defined(PF_AVX512) && !defined(PF_EMULATED)
    const __m512i lower =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m512i joined = _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 3, 3, 3, 3);
    v = (pf_vi)_mm512_permutexvar_epi32(joined, _mm512_shuffle_epi8((__m512i)v, lower));
    memcpy(p, &v, BYTES);
#elif defined(PF_AVX2)
    const __m256i lower =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const __m256i joined = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 3);
    v = (pf_vi)_mm256_permutevar8x32_epi32(_mm256_shuffle_epi8((__m256i)v, lower), joined);
    memcpy(p, &v, BYTES);
#else
    for (int i = 0; i < PF_VL; i++) {
        const uint32_t number = (uint32_t)v[i];
        p[3 * i] = (char)number, p[3 * i + 1] = (char)(number >> 8), p[3 * i + 2] = (char)(number >> 16);
    }
#endif
}

/* -- packing -- */

typedef struct weights {
    const float *x;
    int64_t oc, ic;
    layout l;
    char *y;
    float *scales, *factors, *uneven;
} weights;

static int64_t columns_of(const weights *p, int64_t panel) { return pf_min(PF_VL, p->oc - panel * PF_VL); }

/* Numbers of all columns of a panel from k on, up to PF_VL vectors of them, over their factors (NULL: none).
 */
PF_INLINE void load_square(const weights *p, int64_t panel, const float *factors, int64_t k, pf_vf v[PF_VL]) {
    pf_load_transposed(p->x + panel * PF_VL * p->ic + k, p->ic, columns_of(p, panel), p->ic - k, v);
    for (int i = 0; i < pf_min(PF_VL, p->ic - k); i++) {
        v[i] = pf_flushed(v[i]);
        if (factors) v[i] /= pf_set(factors[k + i]);
    }
}

/* Integers of numbers; none but zero becomes zero, so that infinity times it stays infinity. */
PF_INLINE pf_vi integers_of(pf_vf x, pf_vf inverse) {
    const pf_vi q = pf_toint(x * inverse), lost = (q == 0) & (x != 0.0f);
    return q | (lost & ((x < 0.0f) | 1));
}

/* A panel whose columns have these largest sizes. */
static void pack_panel(const weights *p, int64_t panel, const float *factors, pf_vf largest) {
    char *to = p->y + panel * p->l.panel;
    largest = pf_flushed(largest);
    const int cut = pf_any((largest != 0.0f) & ((largest < LEAST) | (largest > MOST)));
    const pf_vf inverse = pf_select(largest == 0.0f, pf_zero(), pf_set(LARGEST) / largest);
    for (int64_t k = 0; k < p->ic; k += PF_VL) {
        pf_vf v[PF_VL];
        load_square(p, panel, cut ? NULL : factors, k, v);
        for (int i = 0; i < pf_min(PF_VL, p->ic - k); i++, to += BYTES) {
            /* Of NaN, bits that are cut off may be all that tells it from infinity. */
            const pf_vi bits = (pf_vi)v[i] | ((v[i] != v[i]) & 0x400000);
            write_lower(to, cut ? (pf_vi)((pf_vu)bits >> 8) : integers_of(v[i], inverse));
        }
    }
    const pf_vf scales = pf_select(largest == 0.0f, pf_set(1.0f), largest / (UPPER * LARGEST));
    pf_store(p->scales + panel * PF_VL, cut ? pf_zero() : scales);
}

/* Until all panels are packed, sizes of inputs lie where their factors will. */
static void clear(const void *weights_, int64_t part) {
    const weights *p = weights_;
    (void)part;
    memset(p->factors, 0, (size_t)p->ic * sizeof *p->factors);
}

static void pack(const void *weights_, int64_t panel) {
    const weights *p = weights_;
    float largest[PF_VL] = {0.0f};
    /* Inputs keep all their digits whatever their factors are, so small columns may count as they are. */
    pf_look_at(p->x + panel * PF_VL * p->ic, p->ic, columns_of(p, panel), 0.0f, (int32_t *)p->factors,
               largest);
    pack_panel(p, panel, NULL, pf_load(largest));
}

static void settle(const void *weights_, int64_t part) {
    const weights *p = weights_;
    const int pay = pf_factors_pay((const int32_t *)p->factors, p->ic);
    (void)part;
    *p->uneven = (float)pay;
    for (int64_t k = 0; k < p->ic; k++) {
        int32_t size;
        memcpy(&size, p->factors + k, sizeof size);
        p->factors[k] = pay ? pf_factor_of(size) : 1.0f;
    }
}

static void pack_again(const void *weights_, int64_t panel) {
    const weights *p = weights_;
    pf_vi sizes = pf_seti(0);
    if (*p->uneven == 0.0f) return;
    for (int64_t k = 0; k < p->ic; k += PF_VL) {
        pf_vf v[PF_VL];
        load_square(p, panel, p->factors, k, v);
        for (int i = 0; i < pf_min(PF_VL, p->ic - k); i++) sizes = pf_size_larger(sizes, v[i]);
    }
    pack_panel(p, panel, p->factors, (pf_vf)sizes);
}

PF_KERNEL_FUNCTION(conv_thin_pack_f32) {
    const pf_pack_args *a = args_;
    weights p = {.x = pf_ptr(w, a->x), .y = pf_ptr(w, a->y), .oc = a->oc, .ic = a->ic};
    p.l = layout_of(a->oc, a->ic);
    p.scales = (float *)(p.y + p.l.scales), p.factors = (float *)(p.y + p.l.factors);
    p.uneven = (float *)(p.y + p.l.uneven);
    pf_turns t = pf_first_turn(&p, w);
    pf_take_turn(&t, 1, clear);
    pf_take_turn(&t, p.l.panels, pack);
    pf_take_turn(&t, 1, settle);
    pf_take_turn(&t, p.l.panels, pack_again);
}

/* -- sums -- */

/* A pixel: its numbers as they are, for panels that are cut, and times factors, over a power of two that
 * keeps their products with integers in the range of floats. */
typedef struct row {
    const float *x, *scaled, *z;
    float *y;
    float power;
} row;

typedef struct conv {
    const pf_conv_args *a;
    layout l;
    const char *w;
    const float *scales, *bias;
    pf_activation act;
    int64_t pixels, scaled; /* floats of a scaled pixel */
    row rows[ROWS];
} conv;

static conv plan_conv(const pf_conv_args *a) {
    return (conv){.a = a,
                  .l = layout_of(a->oc, a->ic),
                  .pixels = a->n * a->oh * a->ow,
                  .scaled = pf_ceil_div(a->ic, LINE) * LINE};
}

/* The power of two that a size is at least, within the range of factors; of infinity and NaN, beside which no
 * number counts, the largest. */
static float power_of(float size) {
    const float most = 0x1p127f;
    int32_t bits;
    memcpy(&bits, size < most ? &size : &most, sizeof bits);
    return pf_factor_of(bits);
}

static void scale_row(row *r, const float *factors, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i += PF_VL)
        pf_store_upto(to + i, pf_load_upto(r->x + i, n - i) * pf_load_upto(factors + i, n - i), n - i);
    r->power = power_of(pf_size_largest(to, n));
    const pf_vf inverse = pf_set(1.0f / r->power);
    for (int64_t i = 0; i < n; i += PF_VL)
        pf_store_upto(to + i, pf_load_upto(to + i, n - i) * inverse, n - i);
    r->scaled = to;
}

PF_INLINE pf_vf numbers_of(const char *p, const int cut) {
    const pf_vi v = read_upper(p);
    return cut ? (pf_vf)v : pf_tofloat(v);
}

/* Sums of `panels` panels from w on. */
PF_INLINE void add_up(const conv *c, const char *w, const int rows, const int panels, const int cut,
                      pf_vf (*sums)[SIDE]) {
    PF_UNROLL for (int i = 0; i < rows * panels; i++) sums[i / panels][i % panels] = pf_zero();
    const int64_t bytes = c->l.panel, depth = c->a->ic;
    const float *x[ROWS];
    PF_UNROLL for (int i = 0; i < rows; i++) x[i] = cut ? c->rows[i].x : c->rows[i].scaled;
    for (int64_t k = 0; k < depth; k++, w += BYTES) {
        PF_UNROLL for (int p = 0; p < panels; p++) {
            __builtin_prefetch(w + p * bytes + AHEAD, 0, 2);
            const pf_vf b = numbers_of(w + p * bytes, cut);
            PF_UNROLL for (int i = 0; i < rows; i++) sums[i][p] = pf_fma(pf_set(x[i][k]), b, sums[i][p]);
        }
    }
}

/* Scales, bias, residual and activation of the sums of a panel that begins with this column. */
static void finish(const conv *c, const row *r, pf_vf sum, int64_t column) {
    const int64_t n = c->a->oc - column;
    const pf_vf scales = pf_load(c->scales + column);
    pf_vf v = scales[0] == 0.0f ? sum : sum * scales * pf_set(r->power);
    if (c->bias) v += pf_load_upto(c->bias + column, n);
    if (r->z && !c->a->z_late) v += pf_load_upto(r->z + column, n);
    v = pf_act_vector(&c->act, v);
    if (r->z && c->a->z_late) v += pf_load_upto(r->z + column, n);
    pf_store_upto(r->y + column, v, n);
}

/* Panels [begin, end), one by one. */
PF_INLINE void run_panels(const conv *c, int64_t begin, int64_t end, const int rows) {
    for (int64_t p = begin; p < end; p++) {
        pf_vf sums[ROWS][SIDE];
        if (c->scales[p * PF_VL] == 0.0f)
            add_up(c, c->w + p * c->l.panel, rows, 1, 1, sums);
        else
            add_up(c, c->w + p * c->l.panel, rows, 1, 0, sums);
        for (int i = 0; i < rows; i++) finish(c, c->rows + i, sums[i][0], p * PF_VL);
    }
}

static int any_is_cut(const conv *c, int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; p++)
        if (c->scales[p * PF_VL] == 0.0f) return 1;
    return 0;
}

PF_INLINE void run(const conv *c, const pf_worker *w, const int rows) {
    const int side = rows * SIDE > SIDE_SUMS ? SIDE_SUMS / rows : SIDE;
    const int64_t units = pf_ceil_div(c->l.panels, side);
    for (int64_t u = pf_claim_near(w, units); u < units; u = pf_claim_near(w, units)) {
        const int64_t begin = u * side, end = pf_min(c->l.panels, begin + side);
        pf_vf sums[ROWS][SIDE];
        if (end < begin + side || any_is_cut(c, begin, end)) {
            run_panels(c, begin, end, rows);
            continue;
        }
        add_up(c, c->w + begin * c->l.panel, rows, side, 0, sums);
        for (int64_t p = begin; p < end; p++)
            for (int i = 0; i < rows; i++) finish(c, c->rows + i, sums[i][p - begin], p * PF_VL);
    }
}

PF_KERNEL_FUNCTION(conv_thin_f32) {
    const pf_conv_args *a = args_;
    const float *x = pf_ptr(w, a->x), *z = pf_ptr(w, a->z);
    float *y = pf_ptr(w, a->y);
    conv c = plan_conv(a);
    c.w = pf_ptr(w, a->w), c.scales = (const float *)(c.w + c.l.scales), c.bias = pf_ptr(w, a->bias);
    c.act = pf_act_make(a->act, a->act_a, a->act_b);
    float *scaled = (float *)pf_ptr(w, a->scratch) + w->tid * c.pixels * c.scaled;
    for (int64_t i = 0; i < c.pixels; i++, scaled += c.scaled) {
        const pf_conv_place p = pf_conv_place_of(i, a->oh, a->ow);
        row *r = c.rows + i;
        r->x = x + PF_WINDOW_OFFSET(a, &p);
        r->y = y + p.image * a->ysn + p.oy * a->ysh + p.ox * a->ysw;
        r->z = z ? z + p.image * a->zsn + p.oy * a->zsh + p.ox * a->zsw : NULL;
        scale_row(r, (const float *)(c.w + c.l.factors), a->ic, scaled);
    }
    switch (c.pixels) {
    case 1:
        run(&c, w, 1);
        break;
    case 2:
        run(&c, w, 2);
        break;
    case 3:
        run(&c, w, 3);
        break;
    default:
        break;
    }
}

PF_PLAN_FUNCTION(conv_thin_f32) {
    const conv c = plan_conv(args_);
    plan->variant = 0;
    plan->packed_bytes = c.l.uneven + (int64_t)sizeof(float);
    plan->scratch_bytes = nthreads * c.pixels * c.scaled * (int64_t)sizeof(float);
    snprintf(plan->label, sizeof plan->label, "thin %ldx%d", (long)c.pixels, SIDE * PF_VL);
}
