/* Sampling of images at places given by a grid. For every output pixel the taps, input positions with
 * weights, are found once and applied to all channels. */
#include <limits.h>
#include <math.h>

#include "kernels/args.h"
#include "kernels/simd.h"

enum { IMAGE = 0, CHANNEL = 1, SPACE = 2, TAPS = 16 };
typedef enum mode { MODE_LINEAR, MODE_NEAREST, MODE_CUBIC } mode;
typedef enum border { BORDER_ZEROS, BORDER_CLAMP, BORDER_REFLECT } border;

/* start: what the sums begin with, NaN where PyTorch's weights are. */
typedef struct sample {
    int count;
    float start;
    int64_t offset[TAPS];
    float weight[TAPS];
} sample;

static float unnormalize(float v, int64_t size, int align) {
    return align ? (v + 1) / 2 * (float)(size - 1) : ((v + 1) * (float)size - 1) / 2;
}

/* NaN becomes the first place on planes and the last one elsewhere. */
static float clamp(const pf_grid_args *a, float v, int64_t size) {
    const float low = v < 0 || (v != v && a->axes == 2) ? 0 : v;
    return low < (float)(size - 1) ? low : (float)(size - 1);
}

/* Mirrors between the centres (align) or the edges of the border pixels. */
static float reflect(float v, int64_t size, int align) {
    const float low = align ? 0.0f : -0.5f, span = align ? (float)(size - 1) : (float)size;
    if (span == 0) return 0;
    v = fabsf(v - low);
    const float extra = fmodf(v, span);
    return fmodf(floorf(v / span), 2) == 0 ? extra + low : span - extra + low;
}

static float apply_border(const pf_grid_args *a, float v, int64_t size) {
    if (a->border == BORDER_REFLECT) v = reflect(v, size, (int)a->align);
    if (a->border != BORDER_ZEROS) v = clamp(a, v, size);
    return isfinite(v) && v > (float)INT_MIN && v < (float)(INT_MAX - 1) ? v : -100.0f;
}

static void add_tap(sample *s, const pf_grid_args *a, const int64_t at[3], float weight) {
    int64_t offset = 0;
    for (int d = 0; d < 3; d++) {
        if (at[d] < 0 || at[d] >= a->isize[d]) return;
        offset += at[d] * a->xs[SPACE + d];
    }
    s->offset[s->count] = offset;
    s->weight[s->count++] = weight;
}

/* Places in the order depth, height, width; without depth the first is 0. */
static void linear_taps(sample *s, const pf_grid_args *a, const float place[3]) {
    int64_t low[3];
    float part[3];
    for (int d = 0; d < 3; d++) {
        low[d] = (int64_t)floorf(place[d]);
        part[d] = place[d] - (float)low[d];
    }
    for (int corner = 0; corner < (a->axes == 3 ? 8 : 4); corner++) {
        int64_t at[3];
        float weight = 1;
        for (int d = 0; d < 3; d++) {
            const int next = corner >> (2 - d) & 1;
            at[d] = low[d] + next;
            weight *= next ? part[d] : 1 - part[d];
        }
        add_tap(s, a, at, weight);
    }
}

static void cubic_weights(float t, float w[4]) {
    const float A = -0.75f;
    const float x[4] = {t + 1, t, 1 - t, 2 - t};
    for (int i = 0; i < 4; i++)
        w[i] = i == 0 || i == 3 ? ((A * x[i] - 5 * A) * x[i] + 8 * A) * x[i] - 4 * A
                                : ((A + 2) * x[i] - (A + 3)) * x[i] * x[i] + 1;
}

/* Two axes only; the border is applied to each tap. */
static void cubic_taps(sample *s, const pf_grid_args *a, const float place[3]) {
    float w[2][4];
    for (int d = 0; d < 2; d++) cubic_weights(place[d + 1] - floorf(place[d + 1]), w[d]);
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            const float h = apply_border(a, floorf(place[1]) + (float)(i - 1), a->isize[1]);
            const float v = apply_border(a, floorf(place[2]) + (float)(j - 1), a->isize[2]);
            const int64_t at[3] = {0, (int64_t)h, (int64_t)v};
            add_tap(s, a, at, w[0][i] * w[1][j]);
        }
}

static void find_taps(sample *s, const pf_grid_args *a, const float *grid) {
    float place[3] = {0, 0, 0};
    int finite = 1;
    s->count = 0;
    for (int d = 3 - (int)a->axes; d < 3; d++) {
        const float v = unnormalize(grid[(2 - d) * a->gs[4]], a->isize[d], (int)a->align);
        place[d] = a->mode == MODE_CUBIC ? v : apply_border(a, v, a->isize[d]);
        finite &= isfinite(v) != 0;
    }
    const int has_weights = a->mode == MODE_CUBIC || (a->mode == MODE_LINEAR && a->border == BORDER_ZEROS);
    s->start = has_weights && !finite && a->axes == 2 ? NAN : 0;
    if (a->mode == MODE_LINEAR) {
        linear_taps(s, a, place);
    } else if (a->mode == MODE_CUBIC) {
        if (finite) cubic_taps(s, a, place);
    } else {
        const int64_t at[3] = {(int64_t)rintf(place[0]), (int64_t)rintf(place[1]), (int64_t)rintf(place[2])};
        add_tap(s, a, at, 1.0f);
    }
}

static void apply_taps(const pf_grid_args *a, const sample *s, const float *x, float *y) {
    if (a->xs[CHANNEL] == 1 && a->ys[CHANNEL] == 1 && a->c > 1) {
        for (int64_t c = 0; c < a->c; c += PF_VL) {
            pf_vf v = pf_set(s->start);
            for (int k = 0; k < s->count; k++)
                v = pf_fma(pf_set(s->weight[k]), pf_load_upto(x + s->offset[k] + c, a->c - c), v);
            pf_store_upto(y + c, v, a->c - c);
        }
        return;
    }
    for (int64_t c = 0; c < a->c; c++) {
        float v = s->start;
        for (int k = 0; k < s->count; k++) v += s->weight[k] * x[s->offset[k] + c * a->xs[CHANNEL]];
        y[c * a->ys[CHANNEL]] = v;
    }
}

PF_KERNEL_FUNCTION(grid_sample) {
    const pf_grid_args *a = args_;
    const float *x = pf_ptr(w, a->x), *grid = pf_ptr(w, a->grid);
    float *y = pf_ptr(w, a->y);
    int64_t begin, end;
    pf_share(w, a->n * a->osize[0] * a->osize[1], 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t h = i % a->osize[1], d = i / a->osize[1] % a->osize[0],
                      n = i / a->osize[1] / a->osize[0];
        for (int64_t o = 0; o < a->osize[2]; o++) {
            sample s;
            find_taps(&s, a, grid + n * a->gs[0] + d * a->gs[1] + h * a->gs[2] + o * a->gs[3]);
            apply_taps(a, &s, x + n * a->xs[IMAGE],
                       y + n * a->ys[IMAGE] + d * a->ys[SPACE] + h * a->ys[SPACE + 1] + o * a->ys[SPACE + 2]);
        }
    }
}
