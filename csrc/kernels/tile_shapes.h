/* Tables of register tiles, one instance for every width and height: what tile.c, tile_run.c and tile_int8.c
 * share, and the brackets of tile_narrow.c, which has heights of its own. To be included by these alone. */
#ifndef PF_KERNELS_TILE_SHAPES_H
#define PF_KERNELS_TILE_SHAPES_H

#include "kernels/simd.h"

#define PF_ROWS_4(X, v)  X(v, 1) X(v, 2) X(v, 3) X(v, 4)
#define PF_ROWS_6(X, v)  PF_ROWS_4(X, v) X(v, 5) X(v, 6)
#define PF_ROWS_8(X, v)  PF_ROWS_6(X, v) X(v, 7) X(v, 8)
#define PF_ROWS_10(X, v) PF_ROWS_8(X, v) X(v, 9) X(v, 10)
#define PF_ROWS_12(X, v) PF_ROWS_10(X, v) X(v, 11) X(v, 12)

/* X(vectors, rows) for all widths, BEGIN and END around each; heights as in pf_tile_rows. */
#if PF_REGISTERS == 32
#    define PF_TILE_SHAPES(X, BEGIN, END)                                                                    \
        BEGIN PF_ROWS_10(X, 1) END BEGIN PF_ROWS_12(X, 2) END BEGIN PF_ROWS_8(X, 3)                          \
            END BEGIN PF_ROWS_6(X, 4) END
#else
#    define PF_TILE_SHAPES(X, BEGIN, END)                                                                    \
        BEGIN PF_ROWS_10(X, 1) END BEGIN PF_ROWS_6(X, 2) END BEGIN PF_ROWS_4(X, 3) END
#endif

/* Definitions stand side by side, entries of a table in braces. */
#define PF_NOTHING
#define PF_OPEN {
#define PF_CLOSE                                                                                             \
    }                                                                                                        \
    ,

/* The functions of half tiles, and a table of all kinds (tile.h). */
#if PF_HALVES
#    define PF_HALF_SHAPES(X) PF_TILE_SHAPES(X, PF_NOTHING, PF_NOTHING)
#    define PF_TILE_TABLE(ENTRY, HALF)                                                                       \
        {                                                                                                    \
            {PF_TILE_SHAPES(ENTRY, PF_OPEN, PF_CLOSE)}, { PF_TILE_SHAPES(HALF, PF_OPEN, PF_CLOSE) }          \
        }
#else
#    define PF_HALF_SHAPES(X)
#    define PF_TILE_TABLE(ENTRY, HALF)                                                                       \
        {                                                                                                    \
            {                                                                                                \
                PF_TILE_SHAPES(ENTRY, PF_OPEN, PF_CLOSE)                                                     \
            }                                                                                                \
        }
#endif

#endif
