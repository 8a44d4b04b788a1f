/* Packing of weights at load into the panels that the register tile reads: [group][panel][tap][k][columns of
 * the panel], the last vector filled with zeros. The caller gives the PyTorch tensor as it lies in the file,
 * where the numbers of one column follow each other by k and tap: squares of them are transposed in
 * registers. */
#include "kernels/args.h"
#include "kernels/tile.h"
#include "kernels/transpose.h"

enum { BLOCK = 256 }; /* numbers of every column that are read at a time */

/* Numbers [begin, end) of one vector of columns, counted by k and tap; `to` is that vector in row 0 of the
 * panel. */
static void pack_vector(const float *x, const float *scale, int64_t depth, int64_t columns, int64_t taps,
                        int64_t width, int64_t begin, int64_t end, float *to) {
    const int64_t channels = depth / taps;
    for (int64_t i0 = begin; i0 < end; i0 += PF_VL) {
        const int64_t count = pf_min(PF_VL, end - i0);
        pf_vf v[PF_VL];
#pragma GCC unroll 16
        for (int j = 0; j < PF_VL; j++)
            v[j] = j < columns ? pf_load_upto(x + j * depth + i0, count) : pf_zero();
        if (scale)
            for (int j = 0; j < pf_min(PF_VL, columns); j++) v[j] *= pf_set(scale[j]);
        pf_transpose_tile(v);
        int64_t k = i0 / taps, tap = i0 % taps;
        for (int i = 0; i < count; i++) {
            pf_store(to + (tap * channels + k) * width, v[i]);
            if (++tap == taps) tap = 0, k++;
        }
    }
}

/* Weights of tiles of few columns: [column][tap][k]. */
static void pack_narrow(const pf_pack_args *a, const pf_worker *w, const float *x, const float *scale,
                        float *y) {
    const int64_t ic = a->ic / a->groups, taps = a->kh * a->kw;
    int64_t begin, end;
    pf_share(w, a->oc, 1, &begin, &end);
    for (int64_t column = begin; column < end; column++) {
        const float *from = x + column * ic * taps, factor = scale ? scale[column] : 1.0f;
        float *to = y + column * ic * taps;
        for (int64_t k = 0; k < ic; k++)
            for (int64_t tap = 0; tap < taps; tap++) to[tap * ic + k] = from[k * taps + tap] * factor;
    }
}

PF_KERNEL_FUNCTION(conv_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    float *y = pf_ptr(w, a->y);
    if (a->variant == 1) {
        pack_narrow(a, w, x, scale, y);
        return;
    }
    const int64_t oc = a->oc / a->groups, taps = a->kh * a->kw, depth = taps * (a->ic / a->groups);
    const int64_t group_size = depth * pf_ceil_div(oc, PF_VL) * PF_VL, panels = pf_panel_count(oc);
    const int64_t blocks = pf_ceil_div(depth, BLOCK);
    const int64_t pieces = a->groups * panels * blocks;
    for (int64_t i = pf_claim(w, 1); i < pieces; i = pf_claim(w, 1)) {
        const int64_t first = i % blocks * BLOCK, group = i / blocks / panels;
        const pf_panel panel = pf_panel_at(oc, i / blocks % panels);
        float *to = y + group * group_size + panel.start * PF_VL * depth;
        for (int v = 0; v < panel.vectors; v++) {
            const int64_t column = (panel.start + v) * PF_VL, at = group * oc + column;
            pack_vector(x + at * depth, scale ? scale + at : NULL, depth, oc - column, taps,
                        panel.vectors * PF_VL, first, pf_min(first + BLOCK, depth), to + v * PF_VL);
        }
    }
}

/* Multiplies n packed weights of one input channel. */
PF_INLINE void scale_row(const float *x, float factor, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_VL) pf_store(y + i, pf_load(x + i) * pf_set(factor));
}

/* Packed weights x with each input channel multiplied by its scale (ic), for inputs that were to be scaled.
 */
PF_KERNEL_FUNCTION(conv_scale_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    float *y = pf_ptr(w, a->y);
    const int64_t depth = a->kh * a->kw * a->ic;
    int64_t begin, end;
    pf_share(w, a->variant == 1 ? a->oc : depth, 1, &begin, &end);
    if (a->variant == 1) {
        for (int64_t i = begin * depth; i < end * depth; i++) y[i] = x[i] * scale[i % a->ic];
        return;
    }
    for (int64_t p = 0; p < pf_panel_count(a->oc); p++) {
        const pf_panel panel = pf_panel_at(a->oc, p);
        const int64_t start = panel.start * PF_VL * depth, width = panel.vectors * PF_VL;
        for (int64_t k = begin; k < end; k++)
            scale_row(x + start + k * width, scale[k % a->ic], y + start + k * width, width);
    }
}
