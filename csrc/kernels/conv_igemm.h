/* How an implicit GEMM is cut into units of tiles and panels: what conv_igemm.c plans and conv_runs.c, which
 * has the loops over rows at equal distances, computes. */
#ifndef PF_KERNELS_CONV_IGEMM_H
#define PF_KERNELS_CONV_IGEMM_H

#include "kernels/args.h"
#include "kernels/tile.h"

typedef struct pf_igemm {
    pf_conv3d_args a; /* dimensions that address memory uniformly are merged */
    const float *x, *w, *bias, *z;
    float *y;
    int64_t ic, oc, taps;                       /* of one group */
    int64_t pixels, tiles;                      /* output pixels of all images; register tiles over them */
    int64_t panels;                             /* of columns */
    int64_t tap_block, k_block;                 /* what a pass over the pixels sums up */
    int64_t group_sets, row_blocks, panel_sets; /* units are group sets x panel sets x row blocks */
    int rows_first;  /* one after the other: all panel sets of a row block, not all row blocks of a set */
    int64_t columns; /* of packed weights */
    int64_t joined;  /* taps that lie side by side in memory: inside of the image they are one */
    int side;        /* panels that go together: several where rows are so few that memory sets the pace */
    int dense;       /* pixels of x follow each other as rows of a matrix do */
    int far;         /* and x is too large to be in L2 still */
    int rows, padded, narrow; /* most rows of a tile; narrow: tiles of few columns instead of panels */
    int runs, late;           /* whole sums of rows at equal distances; something follows them in late runs */
    pf_pointers x_steps, y_steps, z_steps; /* bytes from the first to the n-th pixel of a line */
    pf_activation act;
    const char *ahead, *ahead_end; /* what a later step reads and is still to be fetched */
    int changed;                   /* x is scaled, shifted and activated before it is multiplied */
    const float *scale, *shift;    /* of its channels */
    pf_activation before;          /* after that */
    float *block;                  /* of this thread: rows of x so changed */
} pf_igemm;

/* What a unit computes: tiles [tile0, tile1) of panels [panel0, panel1) of some groups. */
typedef struct pf_igemm_unit {
    int64_t group, groups, tile0, tile1, panel0, panel1;
    const float *w,
        *next; /* its first weights; those of the unit that this thread is likely to take next, or NULL */
} pf_igemm_unit;

/* First pixel of a tile: the tiles differ by at most one row. */
static inline int64_t pf_igemm_pixel(const pf_igemm *c, int64_t tile) {
    return tile * (c->pixels / c->tiles) + pf_min(tile, c->pixels % c->tiles);
}

/* A unit where runs can do it, and the floats of its block. */
void PF_NAME(igemm_run)(pf_igemm *c, const pf_igemm_unit *u);
int64_t PF_NAME(igemm_block)(const pf_igemm *c);

#endif
