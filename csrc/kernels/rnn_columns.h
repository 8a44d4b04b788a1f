/* How the recurrent weights of a layer are packed. For rnn.c. */
#ifndef PF_KERNELS_RNN_COLUMNS_H
#define PF_KERNELS_RNN_COLUMNS_H

#include <stdbool.h>

#include "kernels/pairs.h"
#include "kernels/rnn_cells.h"
#include "kernels/rnn_tall.h"
#include "kernels/tile.h"

/* How weights are packed: for register tiles, in wide blocks, or for products in pairs. */
enum { BY_TILES, BY_WIDE_BLOCKS, BY_PAIRS };

/* A matrix of gates x units columns, packed in blocks of up to `vectors` vectors of units for every gate. A
 * block is cut into panels of [k][vectors][PF_VL] each: that of each gate where it is wide, else as a tile
 * takes them. In pairs (rnn_pairs.h) it is a panel of each gate. */
typedef struct columns {
    int64_t gates, units, k;
    int vectors;
    bool wide, paired;
} columns;

static columns make_columns(int64_t gates, int64_t units, int64_t k, int64_t form) {
    columns c = {.gates = gates, .units = units, .k = k, .vectors = gates == PLAIN ? PF_PANEL_MAIN : 1};
    if (form == BY_WIDE_BLOCKS) c.wide = true, c.vectors = WIDE;
    if (form == BY_PAIRS) c.paired = true, c.vectors = PF_PAIRS_VECTORS;
    return c;
}

static int64_t unit_vectors(const columns *c) { return pf_ceil_div(c->units, PF_VL); }
static int64_t block_count(const columns *c) { return pf_ceil_div(unit_vectors(c), c->vectors); }

/* First vector of a block, and how many it has. Wide blocks leave a single vector to none: the last two then
 * have two each. */
static int64_t block_start(const columns *c, int64_t block) {
    const int64_t start = block * c->vectors, total = unit_vectors(c);
    return c->wide && start == total - 1 && total > 1 ? start - 1 : pf_min(start, total);
}

static int block_vectors(const columns *c, int64_t block) {
    return c->wide ? (int)(block_start(c, block + 1) - block_start(c, block)) : c->vectors;
}

/* Sums of a row of a full block. */
static int64_t block_width(const columns *c) { return c->gates * c->vectors * PF_VL; }

/* Floats from gate to gate, and from vector to vector, of a row of sums. */
static int64_t gate_step(const columns *c) { return (c->paired ? c->vectors : 1) * PF_VL; }
static int64_t vector_step(const columns *c) { return (c->paired ? 1 : c->gates) * PF_VL; }

/* Where the weights of a block are. */
static int64_t block_offset(const columns *c, int64_t block) {
    return c->gates * block_start(c, block) * PF_VL * c->k;
}

static int64_t packed_floats(const columns *c) {
    if (c->paired) return pf_pairs_layout(1, c->gates * c->units, c->k).floats;
    const int64_t vectors = c->wide ? unit_vectors(c) : block_count(c) * c->vectors;
    return c->gates * vectors * PF_VL * c->k;
}

#endif
