/* The register tile of 8-bit products: rows x (vectors * PF_VL) sums in 32 bits. Rows lie in a buffer,
 * gathered and widened; columns in a packed panel, which begins with what each sum starts from. Shapes and
 * panels are those of the float tile (tile.h). */
#ifndef PF_KERNELS_TILE_INT8_H
#define PF_KERNELS_TILE_INT8_H

#include "kernels/int8.h"
#include "kernels/tile.h"

/* a: the first row, others `stride` bytes apart; b: a panel; steps of four bytes. Sums go to `sums`, row by
 * row. */
typedef void (*pf_int8_tile_fn)(const char *a, int64_t stride, const char *b, int64_t steps, int32_t *sums);
extern const pf_int8_tile_fn PF_NAME(int8_tiles)[PF_TILE_VECTORS][PF_TILE_ROWS];

#endif
