/* Pooling over regions of an image: the maximum over bins, the mean over bins of channels of their own, and
 * means of samples between pixels. All of these fall into rows and columns: an axis gives each bin a range of
 * pixels and a weight for each of them; rows of a bin become one line, of which the bins of columns take
 * their parts. Regions are data, so any numbers may come.
 */
#include <math.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/extremes.h"
#include "kernels/simd.h"

typedef struct axis {
    int64_t size, bins;
    int64_t *from, *to; /* pixels of each bin */
    float *weight;      /* bins x size, of which those between from and to are set */
} axis;

static int64_t axis_bytes(int64_t size, int64_t bins) {
    return pf_ceil_div(2 * bins * (int64_t)sizeof(int64_t) + bins * size * (int64_t)sizeof(float), 64) * 64;
}

static int64_t own_bytes(const pf_region_args *a) {
    return axis_bytes(a->h, a->bins_h) + axis_bytes(a->w, a->bins_w) + pf_ceil_div(a->w + PF_VL, 16) * 64;
}

PF_PLAN_FUNCTION(region_pool_f32) { plan->scratch_bytes = nthreads * own_bytes(args_); }

static axis axis_at(char *memory, int64_t size, int64_t bins) {
    int64_t *bounds = (int64_t *)memory;
    return (axis){size, bins, bounds, bounds + bins, (float *)(bounds + 2 * bins)};
}

/* Between two bounds; NaN is the lower one. */
static float within(float v, float low, float high) { return v > low ? v < high ? v : high : low; }

/* The same from 0 to a size, which as a float may be more than it is. */
static int64_t up_to(float v, int64_t size) { return pf_min((int64_t)within(v, 0, (float)size), size); }

static void set_range(axis *x, int64_t bin, float from, float to, float weight) {
    x->from[bin] = up_to(from, x->size);
    x->to[bin] = up_to(to, x->size);
    const int64_t count = x->to[bin] - x->from[bin];
    for (int64_t i = x->from[bin]; i < x->to[bin]; i++) x->weight[bin * x->size + i] = weight / (float)count;
}

/* Spreads the weight of a sample over the pixels on both sides; beyond the last pixel it is that pixel. */
static void add_sample(axis *x, int64_t bin, float at, float weight) {
    const int64_t last = x->size - 1, low = up_to(at, last);
    const int64_t high = pf_min(low + 1, last);
    const float part = low < last ? within(at - (float)low, 0, 1) : 0;
    float *row = x->weight + bin * x->size;
    if (x->from[bin] >= x->to[bin]) x->from[bin] = x->to[bin] = low;
    while (x->from[bin] > low) row[--x->from[bin]] = 0;
    while (x->to[bin] <= high) row[x->to[bin]++] = 0;
    row[low] += (1 - part) * weight;
    row[high] += part * weight;
}

/* Samples of a bin cut to the image: as many as it is pixels long, unless their number is given. */
static void cut_bin(axis *x, int64_t bin, float start, float step, int64_t ratio) {
    const float low = within(start + (float)bin * step, 0, (float)x->size);
    const float high = within(start + (float)(bin + 1) * step, 0, (float)x->size);
    if (!(high > low)) return;
    const int64_t count = ratio > 0 ? ratio : (int64_t)ceilf(high - low);
    for (int64_t k = 0; k < count; k++)
        add_sample(x, bin, low + ((float)k + 0.5f) * step / (float)count, 1.0f / (float)count);
}

/* Samples at equal distances in all bins; those more than a pixel outside of the image count as 0. Only
 * samples round the image are visited, however long the region is. */
static void equal_bin(axis *x, int64_t bin, float start, float step, int64_t ratio) {
    const float first = start + (float)bin * step, count = ratio > 0 ? (float)ratio : ceilf(step);
    const int forward = step > 0;
    float k = forward ? within(ceilf((-1.0f - first) / step * count - 1.5f), 0, count) : 0;
    for (; k < count && k + 1 > k; k++) {
        const float at = first + (k + 0.5f) * step / count;
        if (at >= -1.0f && at <= (float)x->size)
            add_sample(x, bin, at, 1.0f / count);
        else if (forward && !(at < -1.0f))
            return;
    }
}

/* Bins of a region from `low` to `high` (pixels of the picture) along an axis. */
static void fill_axis(const pf_region_args *a, axis *x, float low, float high) {
    const float scale = (float)a->scale, half = a->aligned ? 0.5f : 0.0f, bins = (float)x->bins;
    const float far = 1e9f;
    float start, length;
    switch (a->kind) {
    case PF_REGION_MAXIMUM:
        start = within(roundf(low * scale), -far, far);
        length = fmaxf(within(roundf(high * scale), -far, far) - start + 1, 1);
        break;
    case PF_REGION_PLACES:
        start = roundf(low) * scale;
        length = fmaxf(roundf(high + 1.0f) * scale - start, 0.1f);
        break;
    default:
        start = low * scale - half;
        length = high * scale - half - start;
        if (!a->aligned) length = fmaxf(length, 1);
    }
    const float step = length / bins;
    for (int64_t i = 0; i < x->bins; i++) {
        x->from[i] = x->to[i] = 0;
        if (x->size == 0) continue;
        const float near = (float)i * step, end = (float)(i + 1) * step;
        if (a->kind == PF_REGION_MAXIMUM)
            set_range(x, i, start + floorf(near), start + ceilf(end), 1);
        else if (a->kind == PF_REGION_PLACES)
            set_range(x, i, floorf(start + near), ceilf(start + end), 1);
        else if (a->kind == PF_REGION_CUT_BINS)
            cut_bin(x, i, start, step, a->ratio);
        else
            equal_bin(x, i, start, step, a->ratio);
    }
}

/* The rows of a bin as one line of columns begin to end. */
PF_INLINE void fold_rows(int maximum, const float *x, const axis *rows, int64_t bin, int64_t width,
                         int64_t begin, int64_t end, float *line) {
    const float *weight = rows->weight + bin * rows->size;
    for (int64_t c = begin; c < end; c += PF_VL) {
        pf_vf sum = pf_set(maximum ? -INFINITY : 0.0f);
        for (int64_t r = rows->from[bin]; r < rows->to[bin]; r++) {
            const pf_vf v = pf_load_upto(x + r * width + c, end - c);
            sum = maximum ? pf_nanmax(sum, v) : pf_fma(v, pf_set(weight[r]), sum);
        }
        pf_store(line + c, sum);
    }
}

PF_INLINE float fold_line(int maximum, const float *line, const axis *columns, int64_t bin) {
    const int64_t from = columns->from[bin], to = columns->to[bin];
    const float *weight = columns->weight + bin * columns->size;
    pf_vf sum = pf_set(maximum ? -INFINITY : 0.0f);
    for (int64_t c = from; c < to; c += PF_VL) {
        const pf_vf v = pf_load_upto(line + c, to - c);
        sum = maximum ? pf_nanmax(sum, pf_first_lanes(v, to - c, -INFINITY))
                      : pf_fma(v, pf_load_upto(weight + c, to - c), sum);
    }
    return maximum ? pf_hmax(sum) : pf_hsum(sum);
}

/* One channel of the result; x is its channel, or for bins of channels of their own the first of these. */
PF_INLINE void pool_channel(int kind, const pf_region_args *a, const float *x, const axis *rows,
                            const axis *columns, float *line, float *y) {
    const int maximum = kind == PF_REGION_MAXIMUM, places = kind == PF_REGION_PLACES;
    int64_t begin = a->w, end = 0;
    for (int64_t j = 0; j < a->bins_w; j++)
        if (columns->from[j] < columns->to[j])
            begin = pf_min(begin, columns->from[j]), end = pf_max(end, columns->to[j]);
    for (int64_t i = 0; i < a->bins_h; i++) {
        const int some = rows->from[i] < rows->to[i];
        if (some && !places) fold_rows(maximum, x, rows, i, a->w, begin, end, line);
        for (int64_t j = 0; j < a->bins_w; j++, y++) {
            *y = 0;
            if (!some || columns->from[j] >= columns->to[j]) continue;
            if (places)
                fold_rows(0, x + (i * a->bins_w + j) * a->h * a->w, rows, i, a->w, columns->from[j],
                          columns->to[j], line);
            *y = fold_line(maximum, line, columns, j);
        }
    }
}

PF_KERNEL_FUNCTION(region_pool_f32) {
    const pf_region_args *a = args_;
    const float *x = pf_ptr(w, a->x), *regions = pf_ptr(w, a->regions);
    float *y = pf_ptr(w, a->y);
    char *own = (char *)pf_ptr(w, a->scratch) + w->tid * own_bytes(a);
    axis rows = axis_at(own, a->h, a->bins_h);
    axis columns = axis_at(own + axis_bytes(a->h, a->bins_h), a->w, a->bins_w);
    float *line = (float *)(own + axis_bytes(a->h, a->bins_h) + axis_bytes(a->w, a->bins_w));
    const int64_t bins = a->bins_h * a->bins_w,
                  plane = a->h * a->w * (a->kind == PF_REGION_PLACES ? bins : 1);
    int64_t begin, end, filled = -1;
    pf_share(w, a->regions_n * a->c, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t region = i / a->c, c = i % a->c;
        const float *box = regions + region * (a->indexed ? 5 : 4) + a->indexed,
                    image = a->indexed ? box[-1] : 0;
        if (!(image >= 0 && image < (float)a->n && (int64_t)image < a->n)) {
            pf_report(w, PF_FAULT_INDEX, (int64_t)within(image, -1, 1e9f), a->n);
            memset(y + i * bins, 0, (size_t)bins * sizeof *y);
            continue;
        }
        if (region != filled) {
            fill_axis(a, &rows, box[1], box[3]);
            fill_axis(a, &columns, box[0], box[2]);
            filled = region;
        }
        const float *from = x + ((int64_t)image * a->c + c) * plane;
        if (a->kind == PF_REGION_MAXIMUM)
            pool_channel(PF_REGION_MAXIMUM, a, from, &rows, &columns, line, y + i * bins);
        else if (a->kind == PF_REGION_PLACES)
            pool_channel(PF_REGION_PLACES, a, from, &rows, &columns, line, y + i * bins);
        else
            pool_channel(PF_REGION_CUT_BINS, a, from, &rows, &columns, line, y + i * bins);
    }
}
