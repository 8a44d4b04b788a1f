/* Packing of weights into tiles of digits (split.h). Groups have factors of their own (pack_sizes.h). */
#include <string.h>

#include "kernels/pack_uneven.h"
#include "kernels/split.h"

enum { SIDE = PF_SPLIT_SIDE };

#define NORMAL 0x1p-126f

typedef struct weights {
    pf_uneven u;
    char *y;
    pf_split_weights l;
} weights;

/* PF_SPLIT_DEPTH numbers of a column from `begin` on, in a buffer unless they lie so in memory. Digits flush
 * denormal numbers by themselves. */
static const float *numbers_of(const pf_uneven *p, const float *x, int64_t begin, const float *factors,
                               float *buffer, int64_t *n) {
    *n = pf_min(PF_SPLIT_DEPTH, p->depth - begin);
    if (p->taps == 1 && !factors) return x + begin;
    pf_gather_column(p, x, begin, PF_SPLIT_DEPTH, factors, buffer);
    return buffer;
}

/* The digits of one step of a tile of columns. */
static void pack_step(const pf_uneven *p, const float *x, int64_t columns, int64_t begin,
                      const float *factors, const float *inverses, int cut, char *to) {
    char rows[PF_SPLIT_STEP] __attribute__((aligned(64)));
    for (int64_t j = 0; j < columns; j++, x += p->depth) {
        float buffer[PF_SPLIT_DEPTH];
        int64_t n;
        const float *numbers = numbers_of(p, x, begin, factors, buffer, &n);
        int8_t *row = (int8_t *)rows + j * PF_SPLIT_DEPTH;
        if (cut)
            pf_split_numbers(numbers, n, 0.0f, 1, row);
        else
            pf_split_fast(numbers, n, inverses[j], row);
    }
    for (int i = 0; i < PF_SPLIT_DIGITS; i++) {
        char *part = rows + i * PF_SPLIT_PART;
        memset(part + columns * PF_SPLIT_DEPTH, 0, (size_t)((SIDE - columns) * PF_SPLIT_DEPTH));
        pf_split_transpose(part, to + i * PF_SPLIT_PART);
    }
}

/* One tile of columns; if the largest size of one is out of range, all are cut. */
static void pack_tile(const pf_uneven *p, const pf_piece *t, const float *factors, const float *largest) {
    const weights *q = (const weights *)p;
    float inverses[SIDE], *scales = p->scales + t->number * SIDE;
    char *to = q->y + t->number * q->l.tile;
    int cut = 0;
    for (int64_t j = 0; j < SIDE; j++) {
        const float size = j < t->columns && !(largest[j] < NORMAL) ? largest[j] : 0.0f;
        cut |= !pf_split_fits(size);
        inverses[j] = pf_split_inverse(size);
        /* Columns of zeros are to count as small. */
        scales[j] = pf_split_scale(size == 0.0f ? PF_SPLIT_LEAST : size);
    }
    if (cut) memset(scales, 0, SIDE * sizeof *scales);
    /* Steps of the same inputs follow each other: their taps lie side by side in the file. */
    const int64_t apart = pf_max(1, p->ic / PF_SPLIT_DEPTH);
    for (int64_t first = 0; first < apart; first++)
        for (int64_t s = first; s < q->l.steps; s += apart)
            pack_step(p, t->x, t->columns, s * PF_SPLIT_DEPTH, factors, inverses, cut,
                      to + s * PF_SPLIT_STEP);
}

PF_KERNEL_FUNCTION(conv_split_pack_f32) {
    const pf_pack_args *a = args_;
    weights p = {.u = pf_uneven_of(a, w), .y = pf_ptr(w, a->y)};
    pf_uneven *u = &p.u;
    p.l = pf_split_layout(a->groups, u->oc, u->depth);
    u->side = SIDE, u->pieces = p.l.columns;
    u->scales = (float *)(p.y + p.l.scales), u->factors = (float *)(p.y + p.l.factors);
    u->uneven = (float *)(p.y + p.l.uneven), u->factors_step = u->depth;
    u->free = p.y, u->free_step = p.l.columns * p.l.tile;
    u->unit = 127.0f, u->least = PF_SPLIT_LEAST, u->pack = pack_tile;
    pf_uneven_run(u, w);
}
