/* Transformed weights for conv_winograd.c: U = G g G' in double precision, rounded once. Layout:
 * [panel][point][input channel][columns of the panel], the last vector filled with zeros. */
#include "kernels/args.h"
#include "kernels/conv_winograd.h"
#include "kernels/tile.h"

typedef double lanes __attribute__((vector_size(8 * sizeof(double)))); /* eight output channels */
enum { LANES = 8 };

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

/* count <= LANES output channels from o on, of input channel c; y is their first column in the panel. */
static void pack_lanes(const pf_pack_args *a, int m, const float *x, const float *scale, int64_t o, int64_t c,
                       int64_t width, int64_t count, float *y) {
    const int side = m + 2;
    lanes g[3][3] = {0}, u[PF_WINO_SIDE][PF_WINO_SIDE];
    for (int l = 0; l < LANES && o + l < a->oc; l++)
        for (int k = 0; k < 9; k++) {
            const double factor = scale ? (double)scale[o + l] : 1.0;
            g[k / 3][k % 3][l] = factor * (double)x[((o + l) * a->ic + c) * 9 + k];
        }
    transform(m, g, u);
    for (int point = 0; point < side * side; point++)
        for (int l = 0; l < count; l++)
            y[(point * a->ic + c) * width + l] = (float)u[point / side][point % side][l];
}

PF_KERNEL_FUNCTION(conv_winograd_pack_f32) {
    const pf_pack_args *a = args_;
    const float *x = pf_ptr(w, a->x), *scale = pf_ptr(w, a->scale);
    float *y = pf_ptr(w, a->y);
    const int m = a->variant == 2 ? 2 : 4, points = (m + 2) * (m + 2);
    const int64_t panels = pf_panel_count(a->oc), step = 16, blocks = pf_ceil_div(a->ic, step);
    int64_t begin, end;
    pf_share(w, panels * blocks, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const pf_panel panel = pf_panel_at(a->oc, i / blocks);
        const int64_t width = panel.vectors * PF_VL, column = panel.start * PF_VL, c0 = i % blocks * step;
        for (int64_t c = c0; c < pf_min(c0 + step, a->ic); c++)
            for (int64_t j = 0; j < width; j += LANES)
                pack_lanes(a, m, x, scale, column + j, c, width, pf_min(LANES, width - j),
                           y + column * points * a->ic + j);
    }
}
