/* Floats to int8: times a scale, rounded. Layouts are free; where both tensors have neighbours in one
 * dimension, vectors run along it, and planes of a picture become pixels of a few channels in registers. */
#include <string.h>

#include "kernels/int8.h"
#include "kernels/nest.h"

enum { RUN_CHUNK = 8192, MOST_CHANNELS = 4 };

/* n numbers; scale holds as many as there are numbers, or one. */
static void quantize_run(const float *x, const float *scale, int each, int64_t n, int8_t *y) {
    for (int64_t i = 0; i < n; i += PF_VL) {
        const pf_vf s = each ? pf_load_upto(scale + i, n - i) : pf_set(*scale);
        pf_store_int8(y + i, pf_round_int8(pf_load_upto(x + i, n - i) * s), n - i);
    }
}

/* n pixels of a few channels, which are `plane` floats apart in x and neighbours in y. */
static void quantize_pixels(const float *x, int64_t plane, float scale, int64_t channels, int64_t n,
                            int8_t *y) {
    typedef uint64_t pairs __attribute__((vector_size(PF_VL * 4)));
    const int64_t pixel = 8 * channels;
    for (int64_t i = 0; i < n; i += PF_VL, y += PF_VL * channels) {
        const int64_t count = pf_min(PF_VL, n - i);
        pf_vi all = pf_seti(0);
        for (int64_t k = 0; k < channels; k++) {
            const pf_vf v = pf_load_upto(x + k * plane + i, count) * pf_set(scale);
            all |= (pf_round_int8(v) & 0xff) << (int32_t)(8 * k);
        }
        const pairs two = ((pairs)all & 0xffffffff) | ((pairs)all >> 32 << pixel);
        if ((n - i - PF_VL) * channels >= 8 - 2 * channels) {
            /* Eight bytes at a time: what is too much is overwritten by what follows. */
            PF_UNROLL for (int j = 0; j < PF_VL / 2; j++) {
                const uint64_t both = two[j];
                memcpy(y + 2 * j * channels, &both, sizeof both);
            }
            continue;
        }
        for (int64_t j = 0; j < count; j++)
            for (int64_t k = 0; k < channels; k++) y[j * channels + k] = (int8_t)(all[j] >> (8 * k));
    }
}

/* The innermost loops: n numbers, or n pixels of `channels` with strides xsc and 1. */
typedef struct run {
    int64_t n, xs, ys, channels, xsc;
} run;

/* Takes the innermost loops out of the nest. */
static run take_run(const pf_quantize_args *a, pf_nest *t) {
    const int64_t last = a->rank - 1;
    if (a->scales > 1) return (run){.n = a->shape[last], .xs = a->xs[last], .ys = a->ys[last]};
    if (t->rank == 0) return (run){.n = 1, .xs = 1, .ys = 1};
    const int64_t unit = pf_nest_unit(t, 1), d = t->rank - 1;
    if (unit < 0 && d > 0 && t->s[0][d] == 1 && t->n[d] <= MOST_CHANNELS && t->s[1][d - 1] == 1 &&
        t->s[0][d - 1] == t->n[d]) {
        const run r = {t->n[d - 1], 1, t->n[d], t->n[d], t->s[1][d]};
        pf_nest_remove(t, d);
        pf_nest_remove(t, d - 1);
        return r;
    }
    const int64_t chosen = unit < 0 ? d : unit;
    const run r = {.n = t->n[chosen], .xs = t->s[1][chosen], .ys = t->s[0][chosen]};
    pf_nest_remove(t, chosen);
    return r;
}

PF_KERNEL_FUNCTION(quantize_int8) {
    const pf_quantize_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    int8_t *y = pf_ptr(w, a->y);
    const int each = a->scales > 1;
    pf_nest t = pf_nest_make(each ? a->rank - 1 : a->rank, a->shape, a->ys, a->xs, NULL);
    if (t.total == 0) return;
    const run r = take_run(a, &t);
    const int64_t chunks = pf_ceil_div(r.n, RUN_CHUNK);
    int64_t begin, end;
    pf_share(w, t.total * chunks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        pf_walk p;
        pf_walk_start(&p, &t, i / chunks);
        const int64_t first = i % chunks * RUN_CHUNK, count = pf_min(RUN_CHUNK, r.n - first);
        const float *from = x + p.o[1] + first * r.xs, *factors = scale + (each ? first : 0);
        int8_t *to = y + p.o[0] + first * r.ys;
        if (r.channels)
            quantize_pixels(from, r.xsc, *scale, r.channels, count, to);
        else if (r.xs == 1 && r.ys == 1)
            quantize_run(from, factors, each, count, to);
        else
            for (int64_t j = 0; j < count; j++)
                quantize_run(from + j * r.xs, factors + (each ? j : 0), 0, 1, to + j * r.ys);
    }
}
