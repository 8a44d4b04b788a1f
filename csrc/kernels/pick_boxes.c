/* The best boxes of each class: sorted by score, without those that overlap a better one too much. Equal
 * scores are ordered as ncnn's quicksort leaves them, because the order decides which of two boxes is kept.
 */
#include <stdbool.h>

#include "kernels/args.h"
#include "kernels/simd.h"

typedef struct entry {
    float score;
    int32_t index;
} entry;

/* Boxes that were kept, by coordinate, so that a candidate meets a vector of them at once. */
typedef struct kept {
    float *x0, *y0, *x1, *y1, *area;
    int64_t count;
} kept;

/* Bytes of one array of coordinates: whole vectors of every ISA level. */
static int64_t row_bytes(const pf_pick_args *a) { return pf_ceil_div(pf_max(a->keep, 1), 16) * 64; }

/* Scratch of one thread. */
static int64_t own_bytes(const pf_pick_args *a) {
    return pf_ceil_div(pf_max(a->n, 1) * (int64_t)sizeof(entry), 64) * 64 + 5 * row_bytes(a);
}

PF_PLAN_FUNCTION(pick_boxes_f32) { plan->scratch_bytes = nthreads * own_bytes(args_); }

/* Exchanges by halves round the middle entry; the shorter half waits on the stack, whose depth so stays below
 * the number of bits of a count. */
static void best_first(entry *e, int64_t n) {
    int64_t stack[64][2], depth = 0, low = 0, high = n - 1;
    while (n > 0) {
        int64_t i = low, j = high;
        const float middle = e[low + (high - low) / 2].score;
        while (i <= j) {
            while (e[i].score > middle) i++;
            while (e[j].score < middle) j--;
            if (i > j) break;
            const entry t = e[i];
            e[i++] = e[j];
            e[j--] = t;
        }
        const bool left = low < j, right = i < high;
        const bool left_is_longer = j - low > high - i;
        if (left && right) {
            stack[depth][0] = left_is_longer ? low : i;
            stack[depth++][1] = left_is_longer ? j : high;
        }
        if (left && !(right && left_is_longer))
            high = j;
        else if (right)
            low = i;
        else if (depth > 0)
            low = stack[--depth][0], high = stack[depth][1];
        else
            return;
    }
}

/* Whether a box shares more than `limit` of the area of both with one that was kept. Boxes without an area
 * have a share that is no number with each other: it counts in variant 1. */
static bool overlaps(const pf_pick_args *a, const kept *k, const float *box, float area) {
    const pf_vf x0 = pf_set(box[0]), y0 = pf_set(box[1]), x1 = pf_set(box[2]), y1 = pf_set(box[3]);
    for (int64_t i = 0; i < k->count; i += PF_VL) {
        const pf_vf wide = pf_vmin(x1, pf_load(k->x1 + i)) - pf_vmax(x0, pf_load(k->x0 + i));
        const pf_vf high = pf_vmin(y1, pf_load(k->y1 + i)) - pf_vmax(y0, pf_load(k->y0 + i));
        const pf_vf common = pf_vmax(wide, pf_zero()) * pf_vmax(high, pf_zero());
        const pf_vf share = common / (pf_load(k->area + i) + area - common);
        pf_vi over = share > (float)a->limit;
        if (a->variant > 0) over |= share != share;
        int32_t lanes[PF_VL], any = 0;
        pf_storei(lanes, over);
        for (int64_t l = 0; l < pf_min(PF_VL, k->count - i); l++) any |= lanes[l];
        if (any) return true;
    }
    return false;
}

/* Lanes that hold no box yet are NaN; they are computed with, but not asked. */
static void add(kept *k, const float *box, float area) {
    float *const rows[5] = {k->x0, k->y0, k->x1, k->y1, k->area};
    const float values[5] = {box[0], box[1], box[2], box[3], area};
    for (int64_t r = 0; r < 5; r++) {
        if (k->count % PF_VL == 0) pf_store(rows[r] + k->count, pf_set(NAN));
        rows[r][k->count] = values[r];
    }
    k->count++;
}

static int64_t candidates(const pf_pick_args *a, const float *scores, entry *e) {
    int64_t count = 0;
    for (int64_t i = 0; i < a->n; i++) {
        const float score = scores[i * a->score_stride];
        if (score > -INFINITY) e[count++] = (entry){score, (int32_t)i};
    }
    return count;
}

/* Drops what overlaps; returns the number of entries left at the front. */
static int64_t suppress(const pf_pick_args *a, const float *boxes, entry *e, int64_t n, kept *k) {
    int64_t count = 0;
    for (int64_t i = 0; i < n && count < a->keep; i++) {
        const float *box = boxes + 4 * (int64_t)e[i].index;
        const float area = (box[2] - box[0]) * (box[3] - box[1]);
        if (overlaps(a, k, box, area)) continue;
        add(k, box, area);
        e[count++] = e[i];
    }
    return count;
}

PF_KERNEL_FUNCTION(pick_boxes_f32) {
    const pf_pick_args *a = args_;
    const float *boxes = pf_ptr(w, a->boxes), *scores = pf_ptr(w, a->scores);
    char *own = (char *)pf_ptr(w, a->scratch) + w->tid * own_bytes(a);
    entry *e = (entry *)own;
    float *rows[5];
    for (int64_t r = 0; r < 5; r++) rows[r] = (float *)(own + own_bytes(a) - (5 - r) * row_bytes(a));
    for (int64_t c; (c = pf_claim(w, 1)) < a->classes;) {
        kept k = {rows[0], rows[1], rows[2], rows[3], rows[4], 0};
        int64_t *index = (int64_t *)pf_ptr(w, a->index) + c * a->keep;
        float *best = (float *)pf_ptr(w, a->best) + c * a->keep;
        int64_t n = candidates(a, scores + c * a->class_stride, e);
        best_first(e, n);
        n = pf_min(n, a->top);
        n = boxes != NULL ? suppress(a, boxes, e, n, &k) : pf_min(n, a->keep);
        for (int64_t i = 0; i < a->keep; i++) {
            index[i] = i < n ? e[i].index : -1;
            best[i] = i < n ? e[i].score : -INFINITY;
        }
    }
}
