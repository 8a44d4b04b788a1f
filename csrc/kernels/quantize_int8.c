/* Floats to int8: times a scale, rounded. Layouts are free; where both tensors have neighbours in one
 * dimension, vectors run along it. */
#include "kernels/int8.h"
#include "kernels/nest.h"

enum { RUN_CHUNK = 8192 };

/* n numbers; scale holds as many as there are numbers, or one. */
static void quantize_run(const float *x, const float *scale, int each, int64_t n, int8_t *y) {
    for (int64_t i = 0; i < n; i += PF_VL) {
        const pf_vf s = each ? pf_load_upto(scale + i, n - i) : pf_set(*scale);
        pf_store_int8(y + i, pf_round_int8(pf_load_upto(x + i, n - i) * s), n - i);
    }
}

PF_KERNEL_FUNCTION(quantize_int8) {
    const pf_quantize_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    int8_t *y = pf_ptr(w, a->y);
    const int each = a->scales > 1;
    pf_nest t = pf_nest_make(each ? a->rank - 1 : a->rank, a->shape, a->ys, a->xs, NULL);
    int64_t n = 1, xs = 1, ys = 1;
    if (each) {
        n = a->shape[a->rank - 1], xs = a->xs[a->rank - 1], ys = a->ys[a->rank - 1];
    } else if (t.rank) {
        const int64_t unit = pf_nest_unit(&t, 1), d = unit < 0 ? t.rank - 1 : unit;
        n = t.n[d], ys = t.s[0][d], xs = t.s[1][d];
        pf_nest_remove(&t, d);
    }
    if (t.total == 0 || n == 0) return;
    const int64_t chunks = pf_ceil_div(n, RUN_CHUNK);
    int64_t begin, end;
    pf_share(w, t.total * chunks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        pf_walk p;
        pf_walk_start(&p, &t, i / chunks);
        const int64_t first = i % chunks * RUN_CHUNK, count = pf_min(RUN_CHUNK, n - first);
        const float *from = x + p.o[1] + first * xs, *factors = scale + (each ? first : 0);
        int8_t *to = y + p.o[0] + first * ys;
        if (xs == 1 && ys == 1)
            quantize_run(from, factors, each, count, to);
        else
            for (int64_t j = 0; j < count; j++)
                quantize_run(from + j * xs, factors + (each ? j : 0), 0, 1, to + j * ys);
    }
}
