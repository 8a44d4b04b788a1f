/* Packing of weights at load into the panels that the register tile reads: [group][panel][tap][k][columns of
 * the panel], the last vector filled with zeros. The caller gives the PyTorch tensor as it lies in the file,
 * where the numbers of one column follow each other by k and tap: squares of them are transposed in
 * registers. */
#include "kernels/args.h"
#include "kernels/pack_columns.h"
#include "kernels/tile.h"

enum { BLOCK = 256 }; /* numbers of every column that are read at a time */

/* Weights of tiles of few columns: [column][tap][k]. */
static void pack_narrow(const pf_pack_args *a, const pf_worker *w, const float *x, float *y) {
    const int64_t ic = a->ic / a->groups, taps = a->kh * a->kw;
    int64_t begin, end;
    pf_share(w, a->oc, 1, &begin, &end);
    for (int64_t column = begin; column < end; column++) {
        const float *from = x + column * ic * taps;
        float *to = y + column * ic * taps;
        for (int64_t k = 0; k < ic; k++)
            for (int64_t tap = 0; tap < taps; tap++)
                to[tap * ic + k] = pf_flushed(pf_set(from[k * taps + tap]))[0];
    }
}

/* Rows [begin, end) of a panel, which are read channel by channel and written tap by tap. */
static void pack_rows(const float *x, int64_t depth, int64_t columns, int64_t taps, int vectors,
                      int64_t begin, int64_t end, float *to) {
    float block[PF_COLLECT ? BLOCK * PF_TILE_VECTORS * PF_VL : 1] __attribute__((aligned(64)));
    const int64_t width = vectors * PF_VL, channels = depth / taps, n = end - begin;
    for (int64_t c = 0; c < width; c += PF_VL) {
        if (PF_COLLECT)
            pf_pack_columns(x + c * depth + begin, depth, columns - c, 1, width, 0, n, block + c);
        else
            pf_pack_columns(x + c * depth, depth, columns - c, taps, width, begin, end, to + c);
    }
    if (PF_COLLECT && taps == 1) pf_stream_run(to + begin * width, block, n * width);
    for (int64_t i = begin; PF_COLLECT && taps > 1 && i < end; i++)
        pf_stream_run(to + (i % taps * channels + i / taps) * width, block + (i - begin) * width, width);
}

PF_KERNEL_FUNCTION(conv_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x);
    float *y = pf_ptr(w, a->y);
    if (a->variant == 1) {
        pack_narrow(a, w, x, y);
        return;
    }
    const int64_t oc = a->oc / a->groups, taps = a->kh * a->kw, depth = taps * (a->ic / a->groups);
    const int64_t group_size = depth * pf_ceil_div(oc, PF_VL) * PF_VL, panels = pf_panel_count(oc);
    const int64_t blocks = pf_ceil_div(depth, BLOCK);
    const int64_t pieces = a->groups * panels * blocks;
    for (int64_t i = pf_claim_near(w, pieces); i < pieces; i = pf_claim_near(w, pieces)) {
        const int64_t first = i % blocks * BLOCK, group = i / blocks / panels;
        const pf_panel panel = pf_panel_at(oc, i / blocks % panels);
        const int64_t start = panel.start * PF_VL;
        pack_rows(x + (group * oc + start) * depth, depth, oc - start, taps, panel.vectors, first,
                  pf_min(first + BLOCK, depth), y + group * group_size + start * depth);
    }
    pf_stream_end();
}

/* Multiplies n packed weights of one input channel. */
PF_INLINE void scale_row(const float *x, float factor, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i += PF_VL) pf_store(y + i, pf_load(x + i) * pf_set(factor));
}

/* Packed weights x with each input channel multiplied by its scale (ic), for inputs that were to be scaled.
 */
PF_KERNEL_FUNCTION(conv_scale_f32) {
    const pf_conv_scale_args *a = args_;
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
