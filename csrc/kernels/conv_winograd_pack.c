/* Transformed weights for conv_winograd.c: U = G g G' in double precision, rounded once. Layout:
 * [group][panel][point][input channel][columns of the panel], the last vector filled with zeros. */
#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_winograd.h"
#include "kernels/conv_winograd_line.h"
#include "kernels/tile.h"

typedef double lanes __attribute__((vector_size(8 * sizeof(double)))); /* eight output channels */
enum { LANES = 8, CHANNELS = 4 };

/* One dimension of the weight transform. */
static inline void weight_line(pf_wino_form form, int r, const lanes *g, lanes *u) {
    const int side = form.side;
    if (form.phases) {
        const lanes sum = g[0] + g[2];
        u[0] = g[0], u[form.m] = g[2], u[form.m + 1] = g[1];
        u[1] = form.m == 2 ? sum : -0.5 * sum;
        if (form.m == 4) u[2] = (g[0] - g[2]) / -6.0, u[3] = (g[0] + 2.0 * g[2]) / 6.0;
        return;
    }
    if (side == 4) {
        const lanes outer = 0.5 * (g[0] + g[2]), middle = 0.5 * g[1];
        u[0] = g[0], u[1] = outer + middle, u[2] = outer - middle, u[3] = g[2];
        return;
    }
    const double a = PF_WINO_A, b = PF_WINO_B;
    lanes even_a = g[0] + 0.5 * g[2], odd_a = a * g[1], even_b = g[0] + 2.0 * g[2], odd_b = b * g[1];
    if (r == 5) {
        even_a += 0.25 * g[4], odd_a += 0.5 * a * g[3];
        even_b += 4.0 * g[4], odd_b += 2.0 * b * g[3];
    }
    u[0] = g[0];
    u[1] = (even_a + odd_a) / -1.5, u[2] = (even_a - odd_a) / -1.5;
    u[3] = (even_b + odd_b) / 6.0, u[4] = (even_b - odd_b) / 6.0;
    u[5] = g[r - 1];
}

enum { TAPS = 5 };

static void transform(pf_wino_form form, int r, lanes g[TAPS][TAPS], lanes u[PF_WINO_SIDE][PF_WINO_SIDE]) {
    lanes columns[TAPS][PF_WINO_SIDE], line[TAPS];
    for (int j = 0; j < r; j++) {
        for (int i = 0; i < r; i++) line[i] = g[i][j];
        weight_line(form, r, line, columns[j]);
    }
    for (int i = 0; i < form.side; i++) {
        for (int j = 0; j < r; j++) line[j] = columns[j][i];
        weight_line(form, r, line, u[i]);
    }
}

/* Output channels [o, o + count), of input channel c; element (point, l) goes to y + point * step + l. */
static void pack_lanes(const pf_pack_args *a, pf_wino_form form, const float *x, const float *scale,
                       int64_t o, int64_t c, int64_t count, float *y, int64_t step) {
    const int side = form.side, r = (int)a->kh, taps = r * r;
    lanes g[TAPS][TAPS] = {0}, u[PF_WINO_SIDE][PF_WINO_SIDE];
    for (int l = 0; l < LANES && o + l < a->oc; l++)
        for (int k = 0; k < taps; k++) {
            const double factor = scale ? (double)scale[o + l] : 1.0;
            g[k / r][k % r][l] = factor * (double)x[((o + l) * a->ic + c) * taps + k];
        }
    transform(form, r, g, u);
    for (int point = 0; point < side * side; point++)
        for (int l = 0; l < count; l++) y[point * step + l] = (float)u[point / side][point % side][l];
}

/* How weights in a line are transformed. */
typedef struct line_weights {
    int taps, points;
    double matrix[PF_LINE_POINTS][PF_LINE_TAPS];
} line_weights;

static void pack_line(const pf_pack_args *a, const line_weights *line, const float *x, const float *scale,
                      int64_t o, int64_t c, int64_t count, float *y, int64_t step) {
    lanes g[PF_LINE_TAPS] = {0};
    for (int l = 0; l < LANES && o + l < a->oc; l++)
        for (int k = 0; k < line->taps; k++)
            g[k][l] =
                (scale ? (double)scale[o + l] : 1.0) * (double)x[((o + l) * a->ic + c) * line->taps + k];
    for (int i = 0; i < line->points; i++) {
        lanes u = {0};
        for (int k = 0; k < line->taps; k++) u += line->matrix[i][k] * g[k];
        for (int64_t l = 0; l < count; l++) y[i * step + l] = (float)u[l];
    }
}

/* Input channels [c0, c0 + n) of one panel. The points of a channel lie far apart in memory, often at
 * distances that meet in one set of the caches: they are collected first and stored in long runs. */
static void pack_block(const pf_pack_args *a, const line_weights *line, pf_wino_form form, const float *x,
                       const float *scale, pf_panel panel, int64_t c0, int64_t n, float *y) {
    float block[PF_WINO_SIDE * PF_WINO_SIDE * CHANNELS * PF_TILE_VECTORS * PF_VL];
    const int points = line ? line->points : form.side * form.side;
    const int64_t width = panel.vectors * PF_VL, step = n * width, column = panel.start * PF_VL;
    for (int64_t c = 0; c < n; c++)
        for (int64_t j = 0; j < width; j += LANES) {
            const int64_t count = pf_min(LANES, width - j);
            if (line)
                pack_line(a, line, x, scale, column + j, c0 + c, count, block + c * width + j, step);
            else
                pack_lanes(a, form, x, scale, column + j, c0 + c, count, block + c * width + j, step);
        }
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
    const pf_wino_form form = pf_wino_form_of(a->variant, a->kh);
    const int is_line = pf_wino_is_line(a->kh, a->kw);
    line_weights line = {0};
    if (is_line) {
        const pf_wino_line one_line = PF_NAME(wino_line_make)(pf_max(a->kh, a->kw));
        line.taps = one_line.taps, line.points = one_line.points;
        PF_NAME(wino_line_matrix)(&one_line, line.matrix);
    }
    const int64_t points = is_line ? line.points : form.side * form.side;
    const int64_t panels = pf_panel_count(one.oc), blocks = pf_ceil_div(one.ic, CHANNELS);
    const int64_t size = points * one.ic * (pf_ceil_div(one.oc, PF_VL) * PF_VL);
    const int64_t pieces = a->groups * panels * blocks;
    for (int64_t i = pf_claim(w, 1); i < pieces; i = pf_claim(w, 1)) {
        const int64_t group = i / blocks / panels, c0 = i % blocks * CHANNELS;
        pack_block(&one, is_line ? &line : NULL, form, x + group * one.oc * one.ic * a->kh * a->kw,
                   scale ? scale + group * one.oc : NULL, pf_panel_at(one.oc, i / blocks % panels), c0,
                   pf_min(CHANNELS, one.ic - c0), y + group * size);
    }
}
