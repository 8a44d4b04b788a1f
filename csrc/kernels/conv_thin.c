/* Linear layers and 1x1 convolutions of a few pixels by many constant weights. They wait for memory, so each
 * weight takes three bytes of it: the numbers of a column are its scale times integers of 23 bits and sign.
 * What that loses is 6e-8 of the column's largest weight in each product, no more than float32 loses in a
 * sum.
 *
 * A panel of a vector of columns has those of k = 0, those of k = 1 and so on; behind all panels are the
 * scales. Panels with a number out of range (inf, or next to the ends of what floats can be) are cut instead:
 * they consist of the upper three bytes of floats, and their scales are 0. */
#include <stdio.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_place.h"
#include "kernels/epilogue.h"
#include "kernels/pack_columns.h"

enum {
    ROWS = PF_THIN_PIXELS,
    SIDE = 4,          /* panels side by side, as several streams come faster than one */
    SIDE_SUMS = 8,     /* of so many sums at most */
    AHEAD = 2048,      /* bytes by which each stream is fetched ahead */
    BYTES = 3 * PF_VL, /* of a vector of weights */
};

/* Integer of the largest weight, below 2^23 by more than its quotient can be off. When they are read,
 * integers are upper bytes of larger ones. */
#define LARGEST 8388600.0f
#define UPPER   256.0f
#define LEAST   0x1p-90f
#define MOST    0x1p90f

typedef struct conv {
    const pf_conv_args *a;
    int64_t pixels, panels, bytes; /* bytes of a panel */
} conv;

static conv plan_conv(const pf_conv_args *a) {
    return (conv){a, a->n * a->oh * a->ow, pf_ceil_div(a->oc, PF_VL), a->ic * BYTES};
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

/* Sizes of the largest numbers of columns; NaN where one is. */
static pf_vf largest_of(const float *x, int64_t depth, int64_t columns) {
    pf_vi sizes = pf_seti(0);
    for (int64_t k = 0; k < depth; k += PF_VL) {
        pf_vf v[PF_VL];
        pf_load_transposed(x + k, depth, columns, depth - k, v);
        for (int i = 0; i < pf_min(PF_VL, depth - k); i++) {
            const pf_vi size = (pf_vi)v[i] & pf_seti(INT32_MAX), larger = size > sizes;
            sizes = (larger & size) | (~larger & sizes);
        }
    }
    return (pf_vf)pf_flushed((pf_vf)sizes);
}

/* Integers of numbers; none but zero becomes zero, so that infinity times it stays infinity. */
PF_INLINE pf_vi integers_of(pf_vf x, pf_vf inverse) {
    const pf_vi q = pf_toint(x * inverse), lost = (q == 0) & (x != 0.0f);
    return q | (lost & ((x < 0.0f) | 1));
}

static void pack_panel(const float *x, int64_t depth, int64_t columns, char *to, float *scales) {
    const pf_vf largest = largest_of(x, depth, columns);
    const int cut = pf_any((largest != 0.0f) & ((largest < LEAST) | (largest > MOST)));
    const pf_vf inverse = pf_select(largest == 0.0f, pf_zero(), pf_set(LARGEST) / largest);
    for (int64_t k = 0; k < depth; k += PF_VL) {
        pf_vf v[PF_VL];
        pf_load_transposed(x + k, depth, columns, depth - k, v);
        for (int i = 0; i < pf_min(PF_VL, depth - k); i++, to += BYTES) {
            const pf_vf number = pf_flushed(v[i]);
            /* Of NaN, bits that are cut off may be all that tells it from infinity. */
            const pf_vi bits = (pf_vi)number | ((number != number) & 0x400000);
            write_lower(to, cut ? (pf_vi)((pf_vu)bits >> 8) : integers_of(number, inverse));
        }
    }
    pf_store(scales, cut ? pf_zero() : pf_select(largest == 0.0f, pf_set(1.0f), largest / (UPPER * LARGEST)));
}

PF_KERNEL_FUNCTION(conv_thin_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    char *y = pf_ptr(w, a->y);
    const int64_t panels = pf_ceil_div(a->oc, PF_VL), bytes = a->ic * BYTES;
    int64_t begin, end;
    pf_share(w, panels, 1, &begin, &end);
    for (int64_t p = begin; p < end; p++)
        pack_panel(x + p * PF_VL * a->ic, a->ic, a->oc - p * PF_VL, y + p * bytes,
                   (float *)(y + panels * bytes) + p * PF_VL);
}

/* -- sums -- */

/* A pixel: power of two that its numbers are multiplied by, so that no product with an integer leaves the
 * range of floats, and the inverse of that. */
typedef struct row {
    const float *x;
    float *y;
    const float *z;
    float factor, inverse;
} row;

/* Infinity and NaN stay what they are. */
static void make_factor(row *r, int64_t n) {
    enum { MOST_BITS = 0x7e800000, ONE = 0x3f800000 }; /* 2^126: its inverse is no denormal number */
    pf_vi sizes = pf_seti(0);
    int32_t largest = 0;
    for (int64_t i = 0; i < n; i += PF_VL) {
        const pf_vi size = (pf_vi)pf_load_upto(r->x + i, n - i) & pf_seti(INT32_MAX), larger = size > sizes;
        sizes = (larger & size) | (~larger & sizes);
    }
    for (int i = 0; i < PF_VL; i++) largest = largest < sizes[i] ? sizes[i] : largest;
    largest = largest < 0x00800000 || largest >= 0x7f800000 ? ONE : largest & 0x7f800000;
    largest = largest > MOST_BITS ? MOST_BITS : largest;
    const int32_t inverse = 2 * ONE - largest;
    memcpy(&r->inverse, &largest, sizeof largest);
    memcpy(&r->factor, &inverse, sizeof inverse);
}

PF_INLINE pf_vf weights_of(const char *p, const int cut) {
    const pf_vi v = read_upper(p);
    return cut ? (pf_vf)v : pf_tofloat(v);
}

/* Sums of `panels` panels from `w` on. */
PF_INLINE void add_up(const row *r, const char *w, int64_t bytes, int64_t depth, const int rows,
                      const int panels, const int cut, pf_vf (*sums)[SIDE]) {
    PF_UNROLL for (int i = 0; i < rows * panels; i++) sums[i / panels][i % panels] = pf_zero();
    for (int64_t k = 0; k < depth; k++, w += BYTES) {
        pf_vf x[ROWS];
        PF_UNROLL for (int i = 0; i < rows; i++) x[i] = pf_set(cut ? r[i].x[k] : r[i].x[k] * r[i].factor);
        PF_UNROLL for (int p = 0; p < panels; p++) {
            __builtin_prefetch(w + p * bytes + AHEAD, 0, 2);
            const pf_vf b = weights_of(w + p * bytes, cut);
            PF_UNROLL for (int i = 0; i < rows; i++) sums[i][p] = pf_fma(x[i], b, sums[i][p]);
        }
    }
}

/* Scales, bias, residual and activation of a vector of results. */
static void finish(const pf_conv_args *a, const pf_activation *act, const row *r, pf_vf sum,
                   const float *scales, const float *bias, int64_t c) {
    const int64_t n = a->oc - c;
    const pf_vf scale = pf_load(scales + c);
    const pf_vf whole = scale[0] == 0.0f ? sum : sum * scale * pf_set(r->inverse);
    pf_vf v = bias ? whole + pf_load_upto(bias + c, n) : whole;
    if (r->z && !a->z_late) v += pf_load_upto(r->z + c, n);
    v = pf_act_vector(act, v);
    if (r->z && a->z_late) v += pf_load_upto(r->z + c, n);
    pf_store_upto(r->y + c, v, n);
}

PF_INLINE void run(const pf_worker *w, const conv *c, const row *r, const int rows) {
    const int side = rows * SIDE > SIDE_SUMS ? SIDE_SUMS / rows : SIDE;
    const pf_conv_args *a = c->a;
    const char *weights = pf_ptr(w, a->w);
    const float *scales = (const float *)(weights + c->panels * c->bytes), *bias = pf_ptr(w, a->bias);
    const pf_activation act = pf_act_make(a->act, a->act_a, a->act_b);
    const int64_t units = pf_ceil_div(c->panels, side);
    for (int64_t u = pf_claim_near(w, units); u < units; u = pf_claim_near(w, units)) {
        const int64_t end = pf_min(c->panels, (u + 1) * side);
        int whole = end == (u + 1) * side;
        for (int64_t p = u * side; p < end; p++) whole &= scales[p * PF_VL] != 0.0f;
        pf_vf sums[ROWS][SIDE];
        if (whole) add_up(r, weights + u * side * c->bytes, c->bytes, a->ic, rows, side, 0, sums);
        for (int64_t p = u * side; p < end; p++) {
            const char *panel = weights + p * c->bytes;
            pf_vf own[ROWS][SIDE];
            if (!whole && scales[p * PF_VL] == 0.0f) add_up(r, panel, c->bytes, a->ic, rows, 1, 1, own);
            if (!whole && scales[p * PF_VL] != 0.0f) add_up(r, panel, c->bytes, a->ic, rows, 1, 0, own);
            for (int i = 0; i < rows; i++)
                finish(a, &act, r + i, whole ? sums[i][p - u * side] : own[i][0], scales, bias, p * PF_VL);
        }
    }
}

PF_KERNEL_FUNCTION(conv_thin_f32) {
    const pf_conv_args *a = args_;
    const conv c = plan_conv(a);
    row r[ROWS];
    for (int64_t i = 0; i < c.pixels; i++) {
        const pf_conv_place p = pf_conv_place_of(i, a->oh, a->ow);
        const float *z = pf_ptr(w, a->z);
        r[i].x = (const float *)pf_ptr(w, a->x) + PF_WINDOW_OFFSET(a, &p);
        r[i].y = (float *)pf_ptr(w, a->y) + p.image * a->ysn + p.oy * a->ysh + p.ox * a->ysw;
        r[i].z = z ? z + p.image * a->zsn + p.oy * a->zsh + p.ox * a->zsw : NULL;
        make_factor(r + i, a->ic);
    }
    switch (c.pixels) {
    case 1:
        run(w, &c, r, 1);
        break;
    case 2:
        run(w, &c, r, 2);
        break;
    case 3:
        run(w, &c, r, 3);
        break;
    default:
        break;
    }
}

PF_PLAN_FUNCTION(conv_thin_f32) {
    const conv c = plan_conv(args_);
    (void)nthreads;
    plan->variant = 0;
    plan->packed_bytes = c.panels * (c.bytes + PF_VL * (int64_t)sizeof(float));
    plan->scratch_bytes = 0;
    snprintf(plan->label, sizeof plan->label, "thin %ldx%d", (long)c.pixels, SIDE * PF_VL);
}
