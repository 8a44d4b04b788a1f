/* Depthwise convolution of 8-bit numbers, exact in 32 bits: groups == ic == oc. Vectors run over channels; a
 * tile is a line of neighbouring output pixels, so that an input vector once widened serves all taps of its
 * row. A widened number times a 16-bit weight is half of what a pair-wise product does in one instruction. */
#include <stdio.h>

#include "kernels/args.h"
#include "kernels/int8.h"

enum { PIXELS = 8, CHANNELS = 256, WIDEST = 3 };

/* Up to PIXELS output pixels over channels [channel, channel + channels). */
typedef struct line_tile {
    const pf_conv_int8_args *a;
    const pf_int8_finish *finish;
    const int8_t *x; /* first valid tap row, first column of the window of the first pixel, channel 0 */
    const int32_t *w;
    int64_t ocp, channel, channels;
    int64_t row0, row1; /* valid tap rows */
    int64_t lo, hi;     /* valid columns, relative to x */
    int64_t pixels;
    int64_t y[PIXELS], z[PIXELS];
} line_tile;

/* A copy goes to memory, so that the sums themselves stay in registers. */
PF_INLINE void finish(const line_tile *t, const pf_vi *acc, int64_t c) {
    int32_t sums[PIXELS * PF_VL] __attribute__((aligned(64)));
    PF_UNROLL for (int i = 0; i < PIXELS; i++) pf_storei(sums + i * PF_VL, acc[i]);
    const pf_int8_sums s = {.sums = sums,
                            .rows = (int)t->pixels,
                            .vectors = 1,
                            .channel = c,
                            .n = pf_min(PF_VL, t->channel + t->channels - c),
                            .y = t->y,
                            .z = t->z};
    pf_int8_finish_sums(t->finish, &s);
}

/* n channels from c on. edge: some columns lie in the padding, or pixels are missing. */
PF_INLINE void run_vector(const line_tile *t, const int kw, const int stride, const int edge, int64_t c,
                          int64_t n) {
    const int64_t xsw = t->a->xsw, xstep = t->a->dil_h * t->a->xsh, ocp = t->ocp;
    const int8_t *line = t->x + c;
    const int32_t *w = t->w + t->row0 * kw * ocp + c;
    pf_vi acc[PIXELS];
    PF_UNROLL for (int i = 0; i < PIXELS; i++) acc[i] = pf_seti(0);
    for (int64_t r = t->row0; r < t->row1; r++, line += xstep, w += kw * ocp) {
        const int8_t *x = line;
        pf_vi taps[WIDEST];
        PF_UNROLL for (int k = 0; k < kw; k++) taps[k] = pf_loadi(w + k * ocp);
        PF_UNROLL for (int j = 0; j < (PIXELS - 1) * stride + kw; j++, x += xsw) {
            PF_FORGET(x);
            if (edge && (j < t->lo || j >= t->hi)) continue;
            const pf_vi v = pf_load_int8(x, n);
            PF_UNROLL for (int k = 0; k < kw; k++) {
                const int i = (j - k) / stride;
                if (j >= k && (j - k) % stride == 0 && i < PIXELS) acc[i] = pf_dot2(acc[i], v, taps[k]);
            }
        }
    }
    finish(t, acc, c);
}

PF_INLINE void run_tile(const line_tile *t, const int kw, const int stride, const int edge) {
    const int64_t end = t->channel + t->channels;
    int64_t c = t->channel;
    for (; c + PF_VL <= end; c += PF_VL) run_vector(t, kw, stride, edge, c, PF_VL);
    if (c < end) run_vector(t, kw, stride, edge, c, end - c);
}

/* Any width, stride and dilation. */
static void run_any(const line_tile *t) {
    const pf_conv_int8_args *a = t->a;
    const int64_t end = t->channel + t->channels;
    for (int64_t c = t->channel; c < end; c += PF_VL) {
        const int8_t *x = t->x + c;
        const int32_t *w = t->w + t->row0 * a->kw * t->ocp + c;
        pf_vi acc[PIXELS];
        PF_UNROLL for (int i = 0; i < PIXELS; i++) acc[i] = pf_seti(0);
        for (int64_t r = t->row0; r < t->row1; r++, x += a->dil_h * a->xsh)
            for (int64_t k = 0; k < a->kw; k++, w += t->ocp) {
                const pf_vi tap = pf_loadi(w);
                PF_UNROLL for (int i = 0; i < PIXELS; i++) {
                    const int64_t j = i * a->stride_w + k * a->dil_w;
                    if (i < t->pixels && j >= t->lo && j < t->hi)
                        acc[i] = pf_dot2(acc[i], pf_load_int8(x + j * a->xsw, end - c), tap);
                }
            }
        finish(t, acc, c);
    }
}

typedef void (*tile_fn)(const line_tile *t);
static void inner_1(const line_tile *t) { run_tile(t, 3, 1, 0); }
static void edge_1(const line_tile *t) { run_tile(t, 3, 1, 1); }
static void inner_2(const line_tile *t) { run_tile(t, 3, 2, 0); }
static void edge_2(const line_tile *t) { run_tile(t, 3, 2, 1); }
/* By stride: 0 for any window. */
static const tile_fn tiles[][2] = {{run_any, run_any}, {inner_1, edge_1}, {inner_2, edge_2}};

static const tile_fn *pick(const pf_conv_int8_args *a) {
    return tiles[a->kw == 3 && a->dil_w == 1 && a->stride_w <= 2 ? a->stride_w : 0];
}

static int64_t padded(int64_t oc) { return pf_ceil_div(oc, PF_VL) * PF_VL; }

/* Number of a first valid tap or of the first one behind the valid ones: least k with start + k dil >= bound.
 */
static int64_t first_tap(int64_t start, int64_t dil, int64_t bound, int64_t taps) {
    return start >= bound ? 0 : pf_min(taps, pf_ceil_div(bound - start, dil));
}

/* One output row of an image; the tile holds channels. */
static void run_line(line_tile *t, const int8_t *image, int64_t n, int64_t oy, const tile_fn *functions) {
    const pf_conv_int8_args *a = t->a;
    const int64_t y0 = oy * a->stride_h - a->pad_h;
    t->row0 = first_tap(y0, a->dil_h, 0, a->kh);
    t->row1 = pf_max(t->row0, first_tap(y0, a->dil_h, a->ih, a->kh));
    for (int64_t ox = 0; ox < a->ow; ox += PIXELS) {
        const int64_t x0 = ox * a->stride_w - a->pad_w;
        t->pixels = pf_min(PIXELS, a->ow - ox);
        t->lo = -x0, t->hi = a->iw - x0;
        t->x = image + (y0 + t->row0 * a->dil_h) * a->xsh + x0 * a->xsw;
        for (int64_t i = 0; i < t->pixels; i++) {
            t->y[i] = n * a->ysn + oy * a->ysh + (ox + i) * a->ysw;
            t->z[i] = n * a->zsn + oy * a->zsh + (ox + i) * a->zsw;
        }
        const int inner = t->pixels == PIXELS && x0 >= 0 && (PIXELS - 1) * a->stride_w + a->kw <= t->hi;
        functions[!inner](t);
    }
}

PF_KERNEL_FUNCTION(conv_depthwise_int8) {
    const pf_conv_int8_args *a = args_;
    pf_int8_finish f = pf_int8_finish_make(a->act, a->act_a, a->act_b, a->y_scale);
    f.scale = pf_ptr(w, a->scale), f.bias = pf_ptr(w, a->bias), f.z = pf_ptr(w, a->z);
    f.late = a->z_late != 0, f.y = pf_ptr(w, a->y);
    line_tile t = {.a = a, .finish = &f, .w = pf_ptr(w, a->w), .ocp = padded(a->oc)};
    const int64_t lines = a->n * a->oh;
    for (int64_t i = pf_claim(w, 1); i < lines; i = pf_claim(w, 1)) {
        const int8_t *image = (const int8_t *)pf_ptr(w, a->x) + i / a->oh * a->xsn;
        for (t.channel = 0; t.channel < a->oc; t.channel += CHANNELS) {
            t.channels = pf_min(CHANNELS, a->oc - t.channel);
            run_line(&t, image, i / a->oh, i % a->oh, pick(a));
        }
    }
}

PF_PLAN_FUNCTION(conv_depthwise_int8) {
    const pf_conv_int8_args *a = args_;
    (void)nthreads;
    plan->variant = 0;
    plan->packed_bytes = a->kh * a->kw * padded(a->oc) * (int64_t)sizeof(int32_t);
    plan->scratch_bytes = 0;
    const int special = pick(a) != tiles[0];
    snprintf(plan->label, sizeof plan->label, special ? "int8 k%lds%ld" : "int8", (long)a->kw,
             (long)a->stride_w);
}

/* Weights by tap, channels innermost and padded to whole vectors: the low halves of pairs, whose other is 0.
 */
PF_KERNEL_FUNCTION(conv_depthwise_int8_pack) {
    const pf_pack_args *a = args_;
    const int8_t *x = pf_ptr(w, a->x);
    int32_t *y = pf_ptr(w, a->y);
    const int64_t taps = a->kh * a->kw, ocp = padded(a->oc);
    int64_t begin, end;
    pf_share(w, taps, 1, &begin, &end);
    for (int64_t k = begin; k < end; k++)
        for (int64_t c = 0; c < ocp; c++) y[k * ocp + c] = c < a->oc ? x[c * taps + k] & 0xffff : 0;
}
