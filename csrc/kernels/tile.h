/* The register tile that all matrix-like kernels share: rows x (vectors * PF_VL) of
 *     y[r][n] = act(bias[n] + z[r][n] + sum over taps and k of A[tap][r][k] * B[tap][k][n]).
 * Rows of A come by pointer, so a tile serves 1x1, k x k, strided, dilated and transposed convolutions,
 * linear layers, Winograd products and attention alike. B is a packed panel: k steps of `bstep` floats, its
 * last vector padded. */
#ifndef PF_KERNELS_TILE_H
#define PF_KERNELS_TILE_H

#include <stdbool.h>

#include "base/cpu.h"
#include "kernels/epilogue.h"
#include "kernels/kernel.h"
#include "kernels/simd.h"

/* Widest and highest tiles. The accumulators, one row of B and a broadcast have to fit the registers; the
 * instances are listed in tile_shapes.h. */
#if PF_REGISTERS == 32
enum { PF_TILE_VECTORS = 4, PF_TILE_ROWS = 12 };
#else
enum { PF_TILE_VECTORS = 3, PF_TILE_ROWS = 10 };
#endif

enum { PF_TILE_FLOATS = 24 * PF_VL }; /* of the largest tile */

/* Most rows of a tile with so many vectors. */
PF_INLINE int pf_tile_rows(int vectors) {
#if PF_REGISTERS == 32
    static const int8_t rows[] = {0, 10, 12, 8, 6};
#else
    static const int8_t rows[] = {0, 10, 6, 4};
#endif
    return rows[vectors];
}

/* One tap of a tile: the rows of A and the number of the tap in B. Whole cache lines, so that the vector
 * stores which make the pointers can be forwarded to the loads that take them. */
enum { PF_TILE_POINTERS = 16 };
typedef struct pf_tap {
    const float *row[PF_TILE_POINTERS - 1];
    int64_t number;
} __attribute__((aligned(64))) pf_tap;

typedef struct pf_tile {
    const pf_tap *taps;
    int64_t ntaps, k;
    const float *b;
    int64_t btap, bstep; /* elements of B from tap to tap and from k to k + 1 */
    int64_t bpanel;      /* of tiles side by side: from panel to panel */
    float *const *y;
    const float *const *z;    /* NULL: no residual before the activation */
    const float *const *late; /* NULL: none after it */
    const float *bias;        /* of column 0 of y; NULL: none */
    int64_t column, n; /* first column of y, z and bias; number of columns: in the last vector of the tile */
    int32_t row0;      /* the first row, of those that the taps have */
    int32_t first, last; /* blocks of k: the first one adds bias and z, the last one activates */
    pf_activation act;
    const void *ahead;  /* memory to fetch into L2 meanwhile, `ahead_each` bytes for every k; NULL: none */
    int64_t ahead_each; /* at most a cache line */
} pf_tile;

/* Bytes of memory ahead to fetch for every k. A line in each step would hold up what the tile itself reads,
 * so many tiles fetch a little each. */
enum { PF_AHEAD_LEAST = 8 };

/* So many where there are so many steps to fetch so many bytes in. */
PF_INLINE int64_t pf_ahead_each(int64_t bytes, int64_t steps) {
    return pf_max(PF_AHEAD_LEAST, pf_min(PF_LINE_BYTES, pf_ceil_div(bytes, pf_max(1, steps))));
}

/* Kinds of tiles: those of whole vectors, and those that take the lower half of the last one (tile_half.h),
 * which is faster on some processors (PF_CPU_HALVES). Both give the same bits. */
enum { PF_TILE_KINDS = PF_HALVES ? 2 : 1 };

/* Whether this processor takes vectors in two halves; emulated levels, which are for tests, act as if it did.
 */
PF_INLINE bool pf_takes_halves(void) {
#if defined(PF_EMULATED)
    return PF_HALVES;
#else
    return PF_HALVES && (pf_cpu_features() & PF_CPU_HALVES);
#endif
}

/* The kind for so many columns in so many vectors. */
PF_INLINE int pf_tile_kind(int64_t vectors, int64_t columns) {
    return 2 * columns <= (2 * vectors - 1) * PF_VL && pf_takes_halves();
}

/* staging: where the rows go instead of y, whole vectors one after the other; NULL: to y. */
typedef void (*pf_tile_fn)(const pf_tile *tile, float *staging);
extern const pf_tile_fn PF_NAME(tiles)[PF_TILE_KINDS][PF_TILE_VECTORS][PF_TILE_ROWS];

/* Moves rows of n values from a staging buffer of so many vectors a row to y, through the activation if it is
 * a late one, plus z unless that is NULL. */
void PF_NAME(unstage)(const float *from, int vectors, int32_t code, float *const *y, const float *const *z,
                      int rows, int64_t column, int64_t n);

/* Late activations take the sums from a buffer that stays in L1, so that they never wait for y. */
PF_INLINE void pf_tile_once(int vectors, int rows, const pf_tile *t) {
    float staging[PF_TILE_FLOATS] __attribute__((aligned(64)));
    const int late = t->last && (t->late || pf_act_is_late(t->act.code));
    PF_NAME(tiles)[pf_tile_kind(vectors, t->n)][vectors - 1][rows - 1](t, late ? staging : NULL);
    if (late) PF_NAME(unstage)(staging, vectors, t->act.code, t->y, t->late, rows, t->column, t->n);
}

/* A tile that is too high for a wide panel (pf_panel_rows) falls into two. */
PF_INLINE void pf_tile_run(int vectors, int rows, const pf_tile *t) {
    if (rows <= pf_tile_rows(vectors)) {
        pf_tile_once(vectors, rows, t);
        return;
    }
    const int upper = rows / 2;
    pf_tile_once(vectors, upper, t);
    pf_tile rest = *t;
    rest.row0 += upper, rest.y += upper, rest.ahead = NULL;
    if (t->z) rest.z += upper;
    if (t->late) rest.late += upper;
    pf_tile_once(vectors, rows - upper, &rest);
}

/* Tiles one below the other (tile_run.c): rows of A, y and z lie at equal distances, there is one tap, and
 * its sums are complete. Addresses are those of the first row and column. */
typedef struct pf_run {
    const float *x, *b, *bias, *z; /* bias, z: may be NULL */
    float *y;
    int64_t xstep, ystep, zstep; /* elements from row to row */
    int64_t k, n, tiles;         /* n: columns; panels of B are dense */
    pf_activation act;
    bool z_late;        /* z is added after it */
    const void *ahead;  /* memory to fetch into L2 meanwhile, `ahead_each` bytes for every k; NULL: none */
    int64_t ahead_each; /* at most a cache line */
    int64_t ahead_step; /* bytes from where one tile fetches to where the next one does */
    struct pf_waiting *waiting; /* for late runs */
} pf_run;

/* Sums wait for what is late, a late activation or residual. With many registers those of one tile do: it is
 * done between the sums of the tile after, which leave slots free. Else those of some tiles, one below the
 * other, do: what is late is then done in one loop, which starts and ends once for all of them. A chain of
 * late runs starts with nothing that waits. */
enum { PF_WAITING_TILES = PF_REGISTERS == 32 ? 2 : 8 };

typedef struct pf_waiting {
    float sums[PF_WAITING_TILES][PF_TILE_FLOATS] __attribute__((aligned(64)));
    int turn;          /* with many registers: which of them the next tile fills */
    int rows, vectors; /* that wait; no rows: none */
    int32_t code;      /* of their late activation, or PF_ACT_NONE */
    float *y;
    const float *z; /* NULL: none that is late */
    int64_t ystep, zstep, n;
} pf_waiting;

typedef void (*pf_run_fn)(const pf_run *run);
extern const pf_run_fn PF_NAME(tile_runs)[PF_TILE_KINDS][PF_TILE_VECTORS][PF_TILE_ROWS];
extern const pf_run_fn PF_NAME(late_runs)[PF_TILE_KINDS][PF_TILE_VECTORS][PF_TILE_ROWS];

/* The function for a run of tiles of so many vectors and rows; late: as pf_waiting says. */
PF_INLINE pf_run_fn pf_run_of(const pf_run *r, bool late, int64_t vectors, int64_t rows) {
    const int kind = pf_tile_kind(vectors, r->n);
    return (late ? PF_NAME(late_runs) : PF_NAME(tile_runs))[kind][vectors - 1][rows - 1];
}

/* Ends a chain of late runs. */
void PF_NAME(finish_run)(pf_waiting *w);

/* With fewer accumulators pf_tile_run is faster, which runs several sums over k. */
enum { PF_RUN_LEAST = 8 };

/* Tiles of few columns (tile_narrow.c). */
#if PF_REGISTERS == 32
enum { PF_NARROW_COLUMNS = 8, PF_NARROW_ROWS = 8 };
#else
enum { PF_NARROW_COLUMNS = 4, PF_NARROW_ROWS = 8 };
#endif

typedef void (*pf_narrow_fn)(const pf_tile *tile);
extern const pf_narrow_fn PF_NAME(narrow_tiles)[PF_NARROW_COLUMNS][PF_NARROW_ROWS];

/* Most rows of a tile of so many columns. */
PF_INLINE int pf_narrow_rows(int64_t columns) {
#if PF_REGISTERS == 32
    static const int8_t rows[] = {0, 8, 8, 6, 5, 4, 4, 3, 3};
#else
    static const int8_t rows[] = {0, 8, 5, 3, 3};
#endif
    return rows[columns];
}

/* Whether few columns of so many products are better summed over the lanes: the lanes that a panel would
 * waste against the sums over lanes. */
PF_INLINE int pf_narrow_pays(int64_t columns, int64_t depth) {
    const int64_t lanes = pf_tile_kind(1, columns) ? PF_VL / 2 : PF_VL;
    return columns <= PF_NARROW_COLUMNS && columns < lanes &&
           depth * (lanes - columns) > 14 * columns * PF_VL;
}

/* Pointers of the rows of a tile are made all at once, from steps in bytes; those behind the last row are
 * never read. */
typedef int64_t pf_pointers __attribute__((vector_size(8 * PF_TILE_POINTERS), aligned(64), may_alias));

PF_INLINE void pf_tile_steps(pf_pointers *steps, int64_t floats) {
    for (int r = 0; r < PF_TILE_POINTERS; r++) (*steps)[r] = r * floats * (int64_t)sizeof(float);
}

/* Columns are cut into panels of whole vectors: first those that a rest forces, then full tiles only. So
 * there is no narrow rest that a better cut avoids (5 vectors are 3 + 2, 6 are 3 + 3 where 4 are full). */
typedef struct pf_panel {
    int64_t start; /* first vector */
    int vectors;
} pf_panel;

#if PF_REGISTERS == 32
enum { PF_PANEL_MAIN = 4, PF_PANEL_OTHER = 3 };
#else
enum { PF_PANEL_MAIN = 2, PF_PANEL_OTHER = 3 };
#endif

PF_INLINE int pf_panel_vectors(int64_t rest) {
    return rest % PF_PANEL_MAIN == 0 ? PF_PANEL_MAIN : rest >= PF_PANEL_OTHER ? PF_PANEL_OTHER : (int)rest;
}

PF_INLINE int64_t pf_panel_count(int64_t columns) {
    int64_t count = 0, rest = pf_ceil_div(columns, PF_VL);
    for (; rest % PF_PANEL_MAIN != 0; count++) rest -= pf_panel_vectors(rest);
    return count + rest / PF_PANEL_MAIN;
}

PF_INLINE pf_panel pf_panel_at(int64_t columns, int64_t index) {
    const int64_t total = pf_ceil_div(columns, PF_VL);
    int64_t start = 0;
    for (; index > 0 && (total - start) % PF_PANEL_MAIN != 0; index--)
        start += pf_panel_vectors(total - start);
    start += index * PF_PANEL_MAIN;
    return (pf_panel){start, pf_panel_vectors(total - start)};
}

/* Vectors of the widest panel. */
PF_INLINE int pf_panel_widest(int64_t columns) {
    int64_t rest = pf_ceil_div(columns, PF_VL);
    int widest = 1;
    for (; rest % PF_PANEL_MAIN != 0; rest -= pf_panel_vectors(rest))
        if (widest < pf_panel_vectors(rest)) widest = pf_panel_vectors(rest);
    return rest > 0 && widest < PF_PANEL_MAIN ? PF_PANEL_MAIN : widest;
}

/* Vectors of the panels that most columns fall into, and rows of the tiles that suit them. A wider panel,
 * which a rest forced, takes more tiles of fewer rows. */
PF_INLINE int pf_panel_usual(int64_t columns) {
    const int widest = pf_panel_widest(columns);
    return widest > PF_PANEL_MAIN && columns > widest * PF_VL ? PF_PANEL_MAIN : widest;
}

PF_INLINE int pf_panel_rows(int64_t columns) { return pf_tile_rows(pf_panel_usual(columns)); }

/* Few rows wait for memory, and several streams of weights come faster than one: tiles of full panels side by
 * side. They sum over k in order, so that results do not depend on how many go together. */
enum { PF_SIDE_PANELS = 4, PF_SIDE_ROWS = 3 };
extern const pf_tile_fn PF_NAME(side_tiles)[PF_SIDE_PANELS][PF_SIDE_ROWS];

/* Most panels side by side with so many rows; 1: none. */
PF_INLINE int pf_side_panels(int64_t rows) {
    static const int8_t panels[] = {1, 4, 3, 2};
    return rows <= PF_SIDE_ROWS ? panels[rows] : 1;
}

/* pf_tile_run for tiles side by side; n: all columns. */
PF_INLINE void pf_side_run(int panels, int rows, const pf_tile *t) {
    float staging[PF_TILE_FLOATS] __attribute__((aligned(64)));
    const int late = t->last && (t->late || pf_act_is_late(t->act.code)), width = PF_PANEL_MAIN * PF_VL;
    PF_NAME(side_tiles)[panels - 1][rows - 1](t, late ? staging : NULL);
    for (int p = 0; late && p < panels; p++)
        PF_NAME(unstage)(staging + p * rows * width, PF_PANEL_MAIN, t->act.code, t->y, t->late, rows,
                         t->column + p * width, pf_min(width, t->n - p * width));
}

#endif
