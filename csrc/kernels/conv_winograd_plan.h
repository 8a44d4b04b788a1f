/* How a convolution is cut for Winograd's method, and what the transforms of all forms share: where a tile
 * lies in the image, and the epilogue of its outputs. Used by conv_winograd.c, which plans, and by the files
 * of forms. */
#ifndef PF_KERNELS_CONV_WINOGRAD_PLAN_H
#define PF_KERNELS_CONV_WINOGRAD_PLAN_H

#include "kernels/args.h"
#include "kernels/conv_winograd.h"
#include "kernels/conv_winograd_line.h"
#include "kernels/epilogue.h"

typedef struct pf_wino_plan {
    const pf_winograd_args *a;
    const float *x, *u, *bias, *z;
    float *y, *v, *products;
    int m, side;
    int phases;                      /* stride 2 */
    int pairs;                       /* products in pairs: */
    const float *scales, *starts;    /* of columns and of their sums */
    const float *plain;              /* of the group: not 0 where there are none after all */
    float *tile_scales, *row_starts; /* of tiles and of their sums, [point][tile] */
    int v_points, u_points, points;  /* of inputs, weights and products: they differ with stride 2 */
    int mh, mw, sh, sw;              /* outputs and inputs of a tile in both directions */
    pf_wino_line line;               /* without taps where tiles are squares */
    int64_t ic, oc;                  /* of one group */
    int64_t rows, columns, tiles;    /* tiles of an image; of all images */
    int64_t block, blocks;           /* most tiles of a register tile; such blocks of all tiles */
    int64_t chunks, chunk;           /* tiles of the largest one */
    int alone;                       /* one thread, which has the memory to itself */
    int whole;                       /* chunks consist of these blocks; else each is cut into its own */
    int64_t depth;                   /* input channels, whole vectors */
    int64_t v_step, m_step;          /* from point to point */
    int64_t panels, panel_width;
    int64_t together; /* panels whose products are kept at a time */
    int64_t scratch;  /* floats of a thread */
    pf_activation act;
} pf_wino_plan;

/* How `nthreads` threads do it. */
pf_wino_plan PF_NAME(wino_plan)(const pf_winograd_args *a, int nthreads);

/* First tile of a chunk. One thread takes whole blocks; several take equal shares. */
static inline int64_t pf_wino_chunk_start(const pf_wino_plan *p, int64_t chunks, int64_t chunk) {
    if (!p->whole) return p->tiles * chunk / chunks;
    return p->tiles * (p->blocks * chunk / chunks) / pf_max(1, p->blocks);
}

static inline pf_panel pf_wino_panel(const pf_wino_plan *p, int64_t i) {
    return pf_wino_panel_at(p->pairs, p->oc, i);
}

/* Whether the products have kernels of their own, which exist for few heights of blocks. */
static inline int pf_wino_is_narrow(int64_t depth, int vectors) { return vectors <= 2 && depth <= 2 * PF_VL; }

enum { PF_WINO_CHUNKS_PER_THREAD = 4 };

/* With few chunks, threads share the panels of a chunk. */
static inline int pf_wino_shares_panels(const pf_wino_plan *p, int64_t chunks, int nthreads) {
    return nthreads > 1 && chunks * p->a->groups < PF_WINO_CHUNKS_PER_THREAD * nthreads;
}

typedef struct pf_wino_place {
    int64_t image, ty, tx;
} pf_wino_place;

/* Transforms are told the number of their tile and find its place here: handed on in memory, it would be
 * stored in parts and loaded as a vector, which waits until all stores before it are done. */
PF_INLINE pf_wino_place pf_wino_place_of(const pf_wino_plan *p, int64_t tile) {
    const int64_t row = tile / p->columns, image = row / p->rows;
    return (pf_wino_place){image, row - image * p->rows, tile - row * p->columns};
}

/* Inputs of a tile: address of its first one, which may lie outside of the image, and the part that is
 * inside. */
static inline const float *pf_wino_tile_inputs(const pf_wino_plan *p, int64_t tile, pf_wino_part *part) {
    const pf_winograd_args *a = p->a;
    const pf_wino_place at = pf_wino_place_of(p, tile);
    const int64_t y0 = at.ty * p->mh * a->stride_h - a->pad_h, x0 = at.tx * p->mw * a->stride_w - a->pad_w;
    *part = (pf_wino_part){(int)pf_max(0, -y0), (int)pf_min(p->sh, a->ih - y0), (int)pf_max(0, -x0),
                           (int)pf_min(p->sw, a->iw - x0)};
    const int64_t first = at.image * a->xsn + y0 * a->xsh + x0 * a->xsw;
    return (const float *)((uintptr_t)p->x + (uintptr_t)first * sizeof(float));
}

enum { PF_WINO_AHEAD = 2, PF_WINO_LINE = 64 / sizeof(float), PF_WINO_WIDEST = 8 /* input tile */ };

/* Starts to fetch rows x columns pixels that a later tile reads or writes, for the vector of channels at c:
 * tiles touch a few pixels here and there, of which the hardware makes no streams. The address may lie
 * outside of the image. */
PF_INLINE void pf_wino_fetch(const float *x, int64_t c, int64_t distance, int64_t row, int64_t pixel,
                             const int rows, const int columns, const int write) {
    if (c % PF_WINO_LINE != 0) return;
    const uintptr_t first = (uintptr_t)x + (uintptr_t)(c + distance * pixel) * sizeof(float);
    row *= (int64_t)sizeof(float), pixel *= (int64_t)sizeof(float);
    PF_WINO_UNROLL for (int i = 0; i < rows; i++) {
        PF_WINO_UNROLL for (int j = 0; j < columns; j++) {
            const void *line = (const void *)(first + (uintptr_t)(i * row + j * pixel));
            if (write)
                __builtin_prefetch(line, 1);
            else
                __builtin_prefetch(line);
        }
    }
}

/* The panel's first column, number of columns, width and weights. */
typedef struct pf_wino_columns {
    int64_t column, n, width;
    const float *u;
    const float *scales; /* of products in pairs, else NULL; */
    float scale;         /* that of a tile */
} pf_wino_columns;

/* The outputs of one tile for the channels [column, column + n) of a panel. */
typedef struct pf_wino_target {
    int64_t tile;
    const float *bias, *z, *late, *u, *products; /* late: a residual that is added after the activation */
    float *y;
    int64_t n, rows, columns; /* valid ones of the tile */
    int64_t width;            /* of the panel */
    const float *scales;      /* as those of pf_wino_columns */
    float scale;
} pf_wino_target;

static inline pf_wino_target pf_wino_target_of(const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o,
                                               const float *products) {
    const pf_winograd_args *a = p->a;
    const pf_wino_place at = pf_wino_place_of(p, tile);
    pf_wino_target t = {.tile = tile, .u = o->u, .products = products, .n = o->n, .width = o->width};
    t.scales = o->scales, t.scale = o->scale;
    if (p->bias) t.bias = p->bias + o->column;
    const int64_t oy = at.ty * p->mh, ox = at.tx * p->mw;
    t.rows = pf_min(p->mh, a->oh - oy);
    t.columns = pf_min(p->mw, a->ow - ox);
    t.y = p->y + at.image * a->ysn + oy * a->ysh + ox * a->ysw + o->column;
    const float *residual = p->z ? p->z + at.image * a->zsn + oy * a->zsh + ox * a->zsw + o->column : NULL;
    t.late = a->z_late ? residual : NULL;
    t.z = a->z_late ? NULL : residual;
    return t;
}

/* Epilogue of one row of outputs; whole: all are inside of the image and all lanes are valid. */
PF_INLINE void pf_wino_finish_row(const int m, const int whole, const pf_wino_plan *p,
                                  const pf_wino_target *t, pf_vf *out, int64_t row, int64_t c) {
    const pf_winograd_args *a = p->a;
    const int64_t n = t->n - c;
    if (!whole && row >= t->rows) return;
    if (t->z) {
        const float *z = t->z + row * a->zsh + c;
        PF_WINO_UNROLL for (int j = 0; j < m; j++) {
            if (whole)
                out[j] += pf_load(z + j * a->zsw);
            else if (j < t->columns)
                out[j] += pf_load_upto(z + j * a->zsw, n);
        }
    }
    pf_act_early(&p->act, out, m);
    float *y = t->y + row * a->ysh + c;
    PF_WINO_UNROLL for (int j = 0; j < m; j++) {
        if (whole)
            pf_store(y + j * a->ysw, out[j]);
        else if (j < t->columns)
            pf_store_upto(y + j * a->ysw, out[j], n);
    }
}

/* What is left to do when all outputs of a tile are stored. */
static inline void pf_wino_finish_late(const pf_wino_plan *p, const pf_wino_target *t) {
    const pf_winograd_args *a = p->a;
    const float *z = t->late;
    if (!z && !pf_act_is_late(p->act.code)) return;
    for (int64_t i = 0; i < t->rows; i++)
        pf_late_rows(&p->act, t->y + i * a->ysh, a->ysw, z ? z + i * a->zsh : NULL, a->zsw, t->columns, t->n);
}

/* What lies inside of the image of one tile and n channels; x is the first pixel of the tile. */
static inline void pf_wino_copy_inside(const int side, const pf_winograd_args *a, const pf_wino_part *part,
                                       const float *x, int64_t n, float *patch) {
    for (int i = part->i0; i < part->i1; i++) {
        const float *from = x + i * a->xsh + part->j0 * a->xsw;
        float *to = patch + (i * side + part->j0) * PF_VL;
        for (int j = part->j0; j < part->j1; j++, from += a->xsw, to += PF_VL)
            pf_store(to, pf_load_upto(from, n));
    }
}

/* V of one tile and one vector of channels, the points `step` apart. */
typedef void (*pf_wino_transform)(const float *d, int64_t row, int64_t pixel, float *v, int64_t step);

/* V of one tile, m pixels from the next one; fetches what the transform `ahead` tiles further on reads. */
PF_INLINE void pf_wino_input_tile(const int side, int m, int ahead, pf_wino_transform transform,
                                  const pf_wino_plan *p, int64_t tile, float *v) {
    const int64_t row = p->a->xsh, pixel = p->a->xsw;
    pf_wino_part part;
    const float *d = pf_wino_tile_inputs(p, tile, &part);
    const int inside = part.i0 == 0 && part.i1 == side && part.j0 == 0 && part.j1 == side;
    const int64_t whole = inside ? p->ic / PF_VL * PF_VL : 0;
    for (int64_t c = 0; c < whole; c += PF_VL) {
        pf_wino_fetch(d, c, side + (ahead - 1) * m, row, pixel, side, m, 0);
        transform(d + c, row, pixel, v + c, p->v_step);
    }
    if (whole == p->ic) return;
    float patch[PF_WINO_WIDEST * PF_WINO_WIDEST * PF_VL] __attribute__((aligned(64)));
    for (int i = 0; i < side * side; i++) pf_store(patch + i * PF_VL, pf_zero());
    for (int64_t c = whole; c < p->ic; c += PF_VL) {
        pf_wino_copy_inside(side, p->a, &part, d + c, p->ic - c, patch);
        transform(patch, side * PF_VL, PF_VL, v + c, p->v_step);
    }
}

/* The transforms of each form. */
typedef struct pf_wino_transforms {
    int m, side, pairs, phases;
    void (*input)(const pf_wino_plan *p, int64_t tile, float *v);
    void (*output)(const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o, const float *products);
} pf_wino_transforms;

/* A point of the products: the sum over pairs of a point of inputs and one of weights. */
typedef struct pf_wino_sum {
    int count, v[4], u[4];
} pf_wino_sum;

/* Products in pairs (conv_winograd_pairs.c): finds what they need in weights and scratch; brings a
 * transformed tile of a chunk to its scale; one point of so many tiles by a panel. next: weights that are
 * fetched meanwhile, or NULL. */
void PF_NAME(wino_pairs_begin)(pf_wino_plan *p, pf_wino_extra e);
void PF_NAME(wino_pairs_prepare)(const pf_wino_plan *p, int64_t tile);
void PF_NAME(wino_pairs_products)(const pf_wino_plan *p, int64_t panel, int64_t point, int64_t count,
                                  const float *u, const float *next, float *products);

/* Tiles of 6x6 outputs (conv_winograd_six.c). */
void PF_NAME(wino_six_input)(const pf_wino_plan *p, int64_t tile, float *v);
void PF_NAME(wino_six_output)(const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o,
                              const float *products);

/* For stride 2 (conv_winograd_phases.c): points of inputs and of products for tiles of m x m outputs, the sum
 * that a product is, and the transforms. */
int PF_NAME(wino_phases_inputs)(int m);
int PF_NAME(wino_phases_products)(int m);
pf_wino_sum PF_NAME(wino_phases_sum)(int m, int product);
void PF_NAME(wino_phases_input)(const pf_wino_plan *p, int64_t tile, float *v);
void PF_NAME(wino_phases_output)(const pf_wino_plan *p, int64_t tile, const pf_wino_columns *o,
                                 const float *products);

#endif
