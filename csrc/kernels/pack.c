/* Packing of weights at load into the panels that the register tile reads: [group][panel][tap][k][columns of
 * the panel], the last vector filled with zeros. The caller gives the PyTorch tensor as it lies in the file.
 */
#include "kernels/args.h"
#include "kernels/tile.h"

enum {
    BLOCK_FLOATS = 4096
}; /* what is written at a time: the strided side of the transposition stays in L1 */

/* Channels [k0, k1) of one panel. */
static void pack_block(const pf_pack_args *a, const float *x, const float *scale, float *y, pf_panel panel,
                       int64_t oc, int64_t k0, int64_t k1) {
    const int64_t ic = a->ic / a->groups, taps = a->kh * a->kw, width = panel.vectors * PF_VL;
    const int64_t column0 = panel.start * PF_VL;
    for (int64_t j = 0; j < width; j++) {
        const int real = column0 + j < oc;
        const float factor = real && scale ? scale[column0 + j] : 1.0f;
        const float *row = x + (real ? column0 + j : 0) * ic * taps;
        for (int64_t k = k0; k < k1; k++)
            for (int64_t tap = 0; tap < taps; tap++)
                y[(tap * ic + k) * width + j] = real ? row[k * taps + tap] * factor : 0.0f;
    }
}

PF_KERNEL_FUNCTION(conv_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    float *y = pf_ptr(w, a->y);
    const int64_t ic = a->ic / a->groups, oc = a->oc / a->groups, taps = a->kh * a->kw, depth = taps * ic;
    const int64_t group_size = depth * pf_ceil_div(oc, PF_VL) * PF_VL, panels = pf_panel_count(oc);
    const int64_t step = pf_max(1, BLOCK_FLOATS / (taps * PF_TILE_VECTORS * PF_VL)),
                  blocks = pf_ceil_div(ic, step);
    int64_t begin, end;
    pf_share(w, a->groups * panels * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = i % blocks, group = i / blocks / panels;
        const pf_panel panel = pf_panel_at(oc, i / blocks % panels);
        pack_block(a, x + group * oc * depth, scale ? scale + group * oc : NULL,
                   y + group * group_size + panel.start * PF_VL * depth, panel, oc, block * step,
                   pf_min(block * step + step, ic));
    }
}
