/* What depthwise and grouped convolutions share: vectors run over output channels, a tile is one or two rows
 * of up to PF_LINE_PIXELS neighbouring output pixels, and the padding is known per tile. A family brings its
 * tile functions. */
#ifndef PF_KERNELS_CONV_LINES_H
#define PF_KERNELS_CONV_LINES_H

#include "kernels/args.h"
#include "kernels/epilogue.h"
#include "kernels/simd.h"

enum { PF_LINE_PIXELS = 8, PF_LINE_CACHE = 49152, PF_LINE_BLOCK = 512 };
enum { PF_LINE_REST = 16384 / sizeof(float) }; /* floats of a row that are finished while they are in L1 */
enum { PF_LINE_DENSE = 64 / sizeof(float), PF_LINE_ROOM = 256 << 10 };

/* Output rows that the registers hold at once. */
enum { PF_LINE_ROWS = PF_REGISTERS / 16 };

/* One or two rows of up to PF_LINE_PIXELS output pixels over channels [channel, channel + channels). */
typedef struct pf_line_tile {
    const float
        *x; /* input at the first valid tap row, first column of the window of the first pixel, channel 0 */
    const float *w;        /* weights of the first valid tap row, at `channel` */
    const float *bias, *z; /* z: a residual that is added before the clip, NULL: none */
    float *y;              /* also at `channel` */
    float *sums;           /* of the first row, at `channel`; NULL: not wanted */
    const pf_lines_args *a;
    float low, high; /* what sums are clipped to; other activations follow when they are stored */
    int64_t channel, channels, ocp; /* ocp: output channels, whole vectors */
    int64_t row0, row1;             /* valid tap rows */
    int64_t lo, hi;                 /* valid columns, relative to x */
    int64_t pixels, tiles;          /* to store; tiles in a row, of functions that take several */
} pf_line_tile;

typedef void (*pf_line_fn)(const pf_line_tile *t);

/* Tile functions for a window width and a stride; width 0: any. rows: 2 when there are functions for pairs of
 * rows. */
typedef struct pf_line_shape {
    int64_t kw, stride, rows;
    pf_line_fn tile[2][2]; /* one or two output rows; inner ones, which store all pixels, or edge */
    int64_t runs;          /* inner ones take several tiles in a row */
    int64_t whole;         /* pixels of each row of pairs that need all of a square window; 0: any pair */
} pf_line_shape;

/* n channels; tail (a constant): fewer than a vector. */
PF_INLINE pf_vf pf_line_load(const float *p, int64_t n, const int tail) {
    return tail ? pf_loadn(p, n) : pf_load(p);
}

PF_INLINE void pf_line_store(float *p, pf_vf v, int64_t n, const int tail) {
    if (tail)
        pf_storen(p, v, n);
    else
        pf_store(p, v);
}

/* Residual, clip and stores of `pixels` of `count` (a constant) neighbours in a row, n channels of each. */
PF_INLINE void pf_line_end(float low, float high, pf_vf *acc, const int count, const float *z, int64_t zstep,
                           float *y, int64_t ystep, int64_t pixels, int64_t n, const int tail) {
    if (z) {
        PF_UNROLL for (int i = 0; i < count; i++) {
            if (i < pixels) acc[i] += pf_line_load(z + i * zstep, n, tail);
        }
    }
    const pf_vf a = pf_set(low), b = pf_set(high);
    PF_UNROLL for (int i = 0; i < count; i++, y += ystep) {
        if (i >= pixels) break;
        PF_FORGET(y);
        pf_line_store(y, pf_act_clip(acc[i], a, b), n, tail);
    }
}

/* The same for the row of a tile, for the channels that start at c. */
PF_INLINE void pf_line_finish(const pf_line_tile *t, pf_vf *acc, const float *z, float *y, int64_t c,
                              int64_t n, const int tail) {
    pf_line_end(t->low, t->high, acc, PF_LINE_PIXELS, z ? z + c : NULL, t->a->zsw, y + c, t->a->ysw,
                t->pixels, n, tail);
}

PF_INLINE int64_t pf_line_padded(int64_t oc) { return pf_ceil_div(oc, PF_VL) * PF_VL; }

/* Channels whose weights and input lines of a tile stay in L1 while the rows of an image are walked. */
static inline int64_t pf_line_block(const pf_lines_args *a) {
    const int64_t span = pf_min(a->iw, (a->ow - 1) * a->stride_w + (a->kw - 1) * a->dil_w + 1);
    const int64_t lines = a->kh + (PF_LINE_ROWS - 1) * a->stride_h;
    const int64_t floats = PF_LINE_CACHE / 4 / (lines * span + a->kh * a->kw * (a->ic / a->groups));
    const int64_t vectors = pf_ceil_div(a->oc, PF_VL), fit = pf_max(2, pf_min(floats, PF_LINE_BLOCK) / PF_VL);
    return pf_ceil_div(vectors, pf_ceil_div(vectors, fit)) * PF_VL;
}

/* Adds n channels of the pixels of a row to their sums. */
PF_INLINE void pf_line_add(const pf_line_tile *t, const float *y, float *sums, int64_t n, const int tail,
                           int first) {
    const int64_t step = t->a->ysw, pixels = t->pixels;
    pf_vf even = first ? pf_zero() : pf_line_load(sums, n, tail), odd = pf_zero();
    PF_UNROLL for (int i = 0; i < PF_LINE_PIXELS; i += 2) {
        if (i < pixels) even += pf_line_load(y + i * step, n, tail);
        if (i + 1 < pixels) odd += pf_line_load(y + (i + 1) * step, n, tail);
    }
    if (tail)
        pf_storen(sums, even + odd, n);
    else
        pf_store(sums, even + odd);
}

/* Adds what the tiles stored to the sums of the lines; it is still in L1. */
static inline void pf_line_sum(const pf_line_tile *t, int64_t rows, int first) {
    const int64_t channels = t->channels, width = t->pixels * t->a->ysw;
    for (int64_t r = 0; r < rows; r++) {
        const float *y = t->y + r * t->a->ysh;
        float *sums = t->sums + r * t->a->oc;
        for (int64_t k = 0; k < t->tiles; k++, y += width) {
            int64_t c = 0;
            for (; c + PF_VL <= channels; c += PF_VL)
                pf_line_add(t, y + c, sums + c, PF_VL, 0, first && k == 0);
            if (c < channels) pf_line_add(t, y + c, sums + c, channels - c, 1, first && k == 0);
        }
    }
}

/* Output rows [oy, oy + rows); pointers are those of the image, y and z at the first channel of the block. */
static inline void pf_line_rows(const pf_line_shape *s, pf_line_tile *t, const float *x, const float *w,
                                float *y, const float *z, const pf_activation *rest, int64_t oy,
                                int64_t rows) {
    const pf_lines_args *a = t->a;
    const int64_t iy0 = oy * a->stride_h - a->pad_h, reach = a->kh + (rows - 1) * a->stride_h;
    t->row0 = iy0 < 0 ? pf_ceil_div(-iy0, a->dil_h) : 0;
    t->row1 = pf_max(t->row0, a->ih > iy0 ? pf_min(reach, (a->ih - 1 - iy0) / a->dil_h + 1) : 0);
    t->w = w + t->row0 * a->kw * (a->ic / a->groups) * t->ocp;
    const int64_t step = rows > 1 && s->whole ? s->whole : PF_LINE_PIXELS;
    const int64_t columns = (step - 1) * a->stride_w + (a->kw - 1) * a->dil_w + 1;
    for (int64_t ox = 0; ox < a->ow; ox += step * t->tiles) {
        const int64_t ix0 = ox * a->stride_w - a->pad_w;
        const int64_t skip = (iy0 + t->row0 * a->dil_h) * a->xsh + ix0 * a->xsw;
        t->x = (const float *)((uintptr_t)x + (uintptr_t)skip * sizeof(float));
        t->y = y + oy * a->ysh + ox * a->ysw;
        const float *residual = z ? z + oy * a->zsh + ox * a->zsw : NULL, *late = a->z_late ? residual : NULL;
        t->z = late ? NULL : residual;
        t->pixels = pf_min(step, a->ow - ox);
        t->lo = ix0 < 0 ? -ix0 : 0;
        t->hi = a->iw - ix0;
        t->tiles = 1;
        const int edge = t->lo > 0 || t->hi < columns || t->pixels < step;
        if (!edge && s->runs)
            t->tiles = pf_min((a->ow - ox) / step, (t->hi - columns) / (step * a->stride_w) + 1);
        if (rest) t->tiles = pf_min(t->tiles, pf_max(1, PF_LINE_REST / (step * t->channels)));
        s->tile[rows - 1][edge](t);
        for (int64_t r = 0; r < (rest ? rows : 0); r++)
            pf_rest_rows(rest, t->y + r * a->ysh, a->ysw, late ? late + r * a->zsh : NULL, a->zsw,
                         t->tiles * t->pixels, t->channels);
        if (t->sums) pf_line_sum(t, rows, ox == 0);
    }
}

/* Input rows of so many output rows. */
static inline int64_t pf_line_reach(const pf_lines_args *a, int64_t rows) {
    return (rows - 1) * a->stride_h + (a->kh - 1) * a->dil_h + 1;
}

/* Output rows whose input is copied at once: few enough for the cache, but not less than the window has. This
 * and what follows from it is the same for strips of an image. */
static inline int64_t pf_line_dense_rows(const pf_lines_args *a) {
    const int64_t fit =
        PF_LINE_ROOM / (pf_max(1, a->iw) * PF_LINE_DENSE * (int64_t)sizeof(float)) - a->kh * a->dil_h;
    return pf_max(pf_max(a->kh, PF_LINE_ROWS), fit / a->stride_h);
}

/* Floats that a thread copies to. */
static inline int64_t pf_line_dense_floats(const pf_lines_args *a) {
    return pf_line_reach(a, pf_line_dense_rows(a)) * a->iw * PF_LINE_DENSE;
}

/* Copies n <= PF_LINE_DENSE floats of each place. */
static inline void pf_line_copy(const float *x, int64_t step, int64_t n, float *y, int64_t places) {
    for (int64_t i = 0; i < places; i++, x += step, y += PF_LINE_DENSE)
        for (int64_t c = 0; c < PF_LINE_DENSE; c += PF_VL) pf_store(y + c, pf_load_upto(x + c, n - c));
}

/* What depthwise convolutions do besides. dense: input of a line of cache's worth of channels is copied to
 * where it lies together. phases: of columns, each is a convolution without dilation along the rows. */
typedef struct pf_line_way {
    int dense;
    int64_t phases;
    int apart; /* the weights of each vector of channels lie apart from the others, tap behind tap */
} pf_line_way;

/* A share of the work: a block of channels from c on, of output rows [oy, end) of an image. */
typedef struct pf_line_unit {
    int64_t image, c, oy, end, phase;
} pf_line_unit;

static inline const float *pf_line_moved(const float *p, int64_t floats) {
    return (const float *)((uintptr_t)p + (uintptr_t)floats * sizeof(float));
}

/* Narrows the arguments to every phases-th output column, from number `phase` on; returns the first input
 * column that these read. */
static inline int64_t pf_line_phase(pf_lines_args *a, int64_t phase, int64_t phases) {
    const int64_t before = phase - a->pad_w, first = (before % phases + phases) % phases;
    a->pad_w = (first - before) / phases;
    a->iw = pf_max(0, pf_ceil_div(a->iw - first, phases));
    a->ow = pf_ceil_div(a->ow - phase, phases);
    a->xsw *= phases, a->ysw *= phases, a->zsw *= phases;
    a->dil_w = 1;
    return first;
}

/* Copies the input of a unit to `room`, and tells the tile and its arguments; returns where
 * the image would begin. */
static inline const float *pf_line_gather(pf_line_tile *t, pf_lines_args *a, const pf_line_unit *u,
                                          const float *x, float *room) {
    const int64_t start = u->oy * a->stride_h - a->pad_h, top = pf_max(0, start);
    const int64_t lines = pf_min(a->ih, start + pf_line_reach(a, u->end - u->oy)) - top;
    for (int64_t i = 0; i < lines; i++)
        pf_line_copy(x + u->c + (top + i) * a->xsh, a->xsw, t->channels, room + i * a->iw * PF_LINE_DENSE,
                     a->iw);
    a->xsw = PF_LINE_DENSE, a->xsh = a->iw * PF_LINE_DENSE;
    t->channel = 0;
    return pf_line_moved(room, -top * a->xsh);
}

/* Whether a pair of rows can start with this one. */
static inline int pf_line_pair(const pf_line_shape *s, const pf_lines_args *a, int64_t oy) {
    const int64_t top = oy * a->stride_h - a->pad_h;
    return !s->whole || (top >= 0 && top + a->stride_h + a->kh <= a->ih);
}

/* A band of an image from top to bottom. Large windows read the same lines too often to have them far apart,
 * where they fall into few sets of the cache: their tiles see arguments that tell where a copy lies. */
static inline void pf_line_band(const pf_lines_args *whole, const pf_worker *w, const pf_line_shape *s,
                                const pf_line_way *way, int64_t rows, int64_t block, const pf_line_unit *u) {
    pf_lines_args a = *whole;
    const float *x = pf_ptr(w, a.x), *weights = pf_ptr(w, a.w), *bias = pf_ptr(w, a.bias),
                *z = pf_ptr(w, a.z);
    float *y = pf_ptr(w, a.y), *sums = pf_ptr(w, a.sums);
    const pf_activation act = pf_act_make(a.act, a.act_a, a.act_b);
    const int clips = act.code == PF_ACT_RELU || act.code == PF_ACT_CLIP;
    const pf_activation *rest = (z && a.z_late) || !(clips || act.code == PF_ACT_NONE) ? &act : NULL;
    pf_line_tile t = {.a = &a, .low = -INFINITY, .high = INFINITY, .ocp = pf_line_padded(a.oc)};
    if (clips) t.low = act.a, t.high = act.b;
    t.channel = u->c;
    t.channels = pf_min(block, a.oc - u->c);
    t.bias = bias ? bias + u->c : NULL;
    t.w = weights + u->c * (way->apart ? a.kh * a.kw : 1);
    if (way->apart) t.ocp = PF_VL;
    x += u->image * a.xsn;
    y += u->image * a.ysn + u->c + u->phase * a.ysw;
    if (z) z += u->image * a.zsn + u->c + u->phase * a.zsw;
    if (way->phases > 1) {
        const int64_t step = a.xsw;
        x += pf_line_phase(&a, u->phase, way->phases) * step;
    }
    if (way->dense) {
        float *room = pf_ptr(w, a.scratch);
        x = pf_line_gather(&t, &a, u, x, room + w->tid * pf_line_dense_floats(whole));
    }
    weights = t.w;
    for (int64_t oy = u->oy, step; oy < u->end; oy += step) {
        t.sums = sums ? sums + (u->image * a.oh + oy) * a.oc + u->c : NULL;
        step = pf_line_pair(s, &a, oy) ? pf_min(rows, u->end - oy) : 1;
        pf_line_rows(s, &t, x, weights, y, z, rest, oy, step);
    }
}

/* How the work on an image is cut into units: bands of lines by blocks of channels. */
typedef struct pf_line_cut {
    int64_t bands, blocks, block; /* block: channels of each */
    int64_t sets;                 /* of bands, one after the other, each with all blocks */
} pf_line_cut;

/* Some units for each thread, so that one that is held up does not delay all. Each thread has a set of bands:
 * neighbours in the program are cut along the rows as well. Only where pixels are few and channels many does
 * implicit GEMM cut by channels, so threads take channels of their own here, too. */
static inline pf_line_cut pf_line_cut_of(const pf_lines_args *a, pf_line_way way, int64_t rows,
                                         int64_t nthreads) {
    enum { UNITS = 8, FEW_PIXELS = 192, MANY_VECTORS = 16 };
    const int64_t steps = pf_ceil_div(a->oh, rows), vectors = pf_ceil_div(a->oc, PF_VL);
    const int plain = !way.dense && way.phases == 1, few = a->n * a->ih * a->iw < FEW_PIXELS;
    const int by_channels = nthreads > 1 && plain && few && vectors >= MANY_VECTORS * nthreads;
    pf_line_cut c = {.block = way.dense ? PF_LINE_DENSE : pf_line_block(a)};
    if (by_channels) {
        const int64_t blocks = pf_ceil_div(pf_ceil_div(a->oc, c.block), nthreads) * nthreads;
        c.block = pf_ceil_div(vectors, blocks) * PF_VL;
    }
    c.blocks = pf_ceil_div(a->oc, c.block) * way.phases;
    c.sets = by_channels || a->n >= nthreads ? 1 : pf_min(nthreads, pf_max(1, steps));
    const int64_t all = pf_max(1, a->n * c.blocks * c.sets);
    const int64_t wanted = nthreads > 1 ? pf_ceil_div(UNITS * nthreads, all) : 1;
    const int64_t least = way.dense ? pf_ceil_div(steps, pf_line_dense_rows(a) / rows * c.sets) : 1;
    c.bands = c.sets * pf_max(least, pf_min(wanted, steps / c.sets));
    return c;
}

/* A unit of an image: all bands of a set for one block, whose last input lines are in L1 still when the next
 * band begins, then for the next block. */
static inline pf_line_unit pf_line_unit_at(const pf_lines_args *a, const pf_line_cut *c, pf_line_way way,
                                           int64_t rows, int64_t i) {
    const int64_t each = c->bands * c->blocks, unit = i % each, bands = c->bands / c->sets;
    const int64_t set = unit / (bands * c->blocks), band = set * bands + unit % bands;
    const int64_t block = unit / bands % c->blocks, steps = pf_ceil_div(a->oh, rows);
    return (pf_line_unit){.image = i / each,
                          .c = block / way.phases * c->block,
                          .oy = steps * band / c->bands * rows,
                          .end = pf_min(a->oh, steps * (band + 1) / c->bands * rows),
                          .phase = block % way.phases};
}

/* The whole kernel. */
static inline void pf_line_run(const pf_lines_args *a, const pf_worker *w, const pf_line_shape *s,
                               pf_line_way way) {
    const int square = a->kh == a->kw && a->stride_h == a->stride_w;
    const int64_t rows = a->dil_h == 1 && a->kh >= a->stride_h && (square || !s->whole) ? s->rows : 1;
    const pf_line_cut c = pf_line_cut_of(a, way, rows, w->nthreads);
    const int64_t units = a->n * c.bands * c.blocks;
    /* A unit takes longer elsewhere, where its input is not in the cache. */
    for (int64_t i = pf_claim_most(w, units, 1); i < units; i = pf_claim_most(w, units, 1)) {
        const pf_line_unit u = pf_line_unit_at(a, &c, way, rows, i);
        if (u.oy < u.end) pf_line_band(a, w, s, &way, rows, c.block, &u);
    }
}

#endif
