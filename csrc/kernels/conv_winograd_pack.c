/* Transformed weights for conv_winograd.c: U = G g G' in double precision, rounded once. Layout:
 * [group][panel][point][input channel][columns of the panel], the last vector filled with zeros. */
#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_winograd.h"
#include "kernels/tile.h"

typedef double lanes __attribute__((vector_size(8 * sizeof(double)))); /* eight output channels */
enum { LANES = 8, CHANNELS = 4 };

/* One dimension of the weight transform. */
static inline void weight_line(int m, const lanes *g, lanes *u) {
    if (m == 2) {
        const lanes outer = 0.5 * (g[0] + g[2]), middle = 0.5 * g[1];
        u[0] = g[0], u[1] = outer + middle, u[2] = outer - middle, u[3] = g[2];
        return;
    }
    const double a = PF_WINO_A, b = PF_WINO_B;
    const lanes even_a = -(g[0] + 0.5 * g[2]) / 1.5, odd_a = -a * g[1] / 1.5;
    const lanes even_b = (g[0] + 2.0 * g[2]) / 6.0, odd_b = b * g[1] / 6.0;
    u[0] = g[0];
    u[1] = even_a + odd_a, u[2] = even_a - odd_a;
    u[3] = even_b + odd_b, u[4] = even_b - odd_b;
    u[5] = g[2];
}

static void transform(int m, lanes g[3][3], lanes u[PF_WINO_SIDE][PF_WINO_SIDE]) {
    lanes columns[3][PF_WINO_SIDE];
    for (int j = 0; j < 3; j++) {
        const lanes line[3] = {g[0][j], g[1][j], g[2][j]};
        weight_line(m, line, columns[j]);
    }
    for (int i = 0; i < m + 2; i++) {
        const lanes line[3] = {columns[0][i], columns[1][i], columns[2][i]};
        weight_line(m, line, u[i]);
    }
}

/* Up to LANES output channels from o on, of input channel c; element (point, l) goes to y + point * step + l.
 */
static void pack_lanes(const pf_pack_args *a, int m, const float *x, const float *scale, int64_t o, int64_t c,
                       int64_t count, float *y, int64_t step) {
    const int side = m + 2;
    lanes g[3][3] = {0}, u[PF_WINO_SIDE][PF_WINO_SIDE];
    for (int l = 0; l < LANES && o + l < a->oc; l++)
        for (int k = 0; k < 9; k++) {
            const double factor = scale ? (double)scale[o + l] : 1.0;
            g[k / 3][k % 3][l] = factor * (double)x[((o + l) * a->ic + c) * 9 + k];
        }
    transform(m, g, u);
    for (int point = 0; point < side * side; point++)
        for (int l = 0; l < count; l++) y[point * step + l] = (float)u[point / side][point % side][l];
}

/* Input channels [c0, c0 + n) of one panel. The points of a channel lie far apart in memory, often at
 * distances that meet in one set of the caches: they are collected first and stored in long runs. */
static void pack_block(const pf_pack_args *a, int m, const float *x, const float *scale, pf_panel panel,
                       int64_t c0, int64_t n, float *y) {
    float block[PF_WINO_SIDE * PF_WINO_SIDE * CHANNELS * PF_TILE_VECTORS * PF_VL];
    const int points = (m + 2) * (m + 2);
    const int64_t width = panel.vectors * PF_VL, step = n * width, column = panel.start * PF_VL;
    for (int64_t c = 0; c < n; c++)
        for (int64_t j = 0; j < width; j += LANES)
            pack_lanes(a, m, x, scale, column + j, c0 + c, pf_min(LANES, width - j), block + c * width + j,
                       step);
    for (int point = 0; point < points; point++)
        memcpy(y + column * points * a->ic + (point * a->ic + c0) * width, block + point * step,
               (size_t)step * sizeof(float));
}

PF_KERNEL_FUNCTION(conv_winograd_pack_f32) {
    const pf_pack_args *a = args_;
    pf_pack_args one = *a; /* group */
    one.ic = a->ic / a->groups;
    one.oc = a->oc / a->groups;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    float *y = pf_ptr(w, a->y);
    const int m = a->variant == 2 ? 2 : 4;
    const int64_t panels = pf_panel_count(one.oc), blocks = pf_ceil_div(one.ic, CHANNELS);
    const int64_t size = (m + 2) * (m + 2) * one.ic * (pf_ceil_div(one.oc, PF_VL) * PF_VL);
    int64_t begin, end;
    pf_share(w, a->groups * panels * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t group = i / blocks / panels, c0 = i % blocks * CHANNELS;
        pack_block(&one, m, x + group * one.oc * one.ic * 9, scale ? scale + group * one.oc : NULL,
                   pf_panel_at(one.oc, i / blocks % panels), c0, pf_min(CHANNELS, one.ic - c0),
                   y + group * size);
    }
}
