/* Register tiles (tile.h) one below the other over rows at equal distances: the loop over tiles is inside of
 * the function, so that short sums do not wait for calls and tables of pointers. For products of one tap that
 * are summed at once: 1x1 convolutions and linear layers. */
#include "kernels/tile_half.h"
#include "kernels/tile_shapes.h"

enum { COLS = PF_TILE_VECTORS };

/* Whether rows of the tile before are finished between the sums of the next one. Where registers are few,
 * that moves most of the block out of them and back, for one row at a time. */
enum { BETWEEN = PF_REGISTERS == 32 };

PF_INLINE void add_residual(const int rows, const int vectors, const float *z, int64_t step, int64_t last,
                            pf_vf (*acc)[COLS]) {
    PF_UNROLL for (int r = 0; r < rows; r++, z += step) {
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) acc[r][v] += pf_load(z + v * PF_VL);
        acc[r][vectors - 1] += pf_load_last(z + (vectors - 1) * PF_VL, last);
    }
}

PF_INLINE void store(const int rows, const int vectors, float *y, int64_t step, int64_t last,
                     pf_vf (*acc)[COLS]) {
    if (last == PF_VL) {
        PF_UNROLL for (int r = 0; r < rows; r++, y += step) {
            PF_UNROLL for (int v = 0; v < vectors; v++) pf_store(y + v * PF_VL, acc[r][v]);
        }
        return;
    }
    PF_UNROLL for (int r = 0; r < rows; r++, y += step) {
        PF_UNROLL for (int v = 0; v < vectors - 1; v++) pf_store(y + v * PF_VL, acc[r][v]);
        pf_storen(y + (vectors - 1) * PF_VL, acc[r][vectors - 1], last);
    }
}

/* A row of the tile that waits. */
PF_INLINE void finish_row(const pf_waiting *w, int row) {
    const float *s = w->sums[!w->turn] + row * w->vectors * PF_VL, *z = w->z ? w->z + row * w->zstep : NULL;
    float *y = w->y + row * w->ystep;
    for (int64_t j = 0; j < w->n; j += PF_VL) {
        const pf_vf v = pf_act_late_vector(w->code, pf_load(s + j));
        pf_store_upto(y + j, z ? v + pf_load_upto(z + j, w->n - j) : v, w->n - j);
    }
}

/* All rows through a function of vectors. */
#define FINISH(function)                                                                                     \
    for (int r = 0; r < rows; r++, s += step, y += ystep) {                                                  \
        for (int64_t i = 0; i < n; i += PF_VL) {                                                             \
            const pf_vf v = function(pf_load(s + i));                                                        \
            pf_store_upto(y + i, z ? v + pf_load_upto(z + i, n - i) : v, n - i);                             \
        }                                                                                                    \
        if (z) z += zstep;                                                                                   \
    }

void PF_NAME(finish_run)(pf_waiting *w) {
    if (w->rows == 0) return;
    const int rows = w->rows, step = w->vectors * PF_VL;
    const int64_t n = w->n, ystep = w->ystep, zstep = w->zstep;
    const float *s = w->sums[BETWEEN ? !w->turn : 0], *z = w->z;
    float *y = w->y;
    if (pf_act_is_late(w->code)) {
        PF_LATE_SWITCH(w->code, FINISH)
    } else {
        FINISH()
    }
    w->rows = 0;
}

/* The sums over k of one tile, whose first row is x. After each part of them a row of the tile that waits is
 * finished (NULL: there is none in this run). */
PF_INLINE void multiply(const int rows, const int vectors, const bool half, const pf_run *t, const float *x,
                        const char *ahead, const pf_waiting *waiting, pf_vf (*acc)[COLS]) {
    const float *a[PF_TILE_ROWS];
    const int parts = waiting && waiting->rows > 1 ? waiting->rows : 1;
    const int64_t each = waiting ? t->k / parts : t->k;
    /* Counting up to zero saves the register of the bound. */
    PF_UNROLL for (int r = 0; r < rows; r++) a[r] = x + r * t->xstep + t->k;
    int64_t k = -t->k;
    for (int part = 0; part < parts; part++) {
        const int64_t end = part + 1 < parts ? k + each : 0;
        const float *b = t->b + (t->k + k) * vectors * PF_VL;
        if (ahead)
            ahead = pf_tile_sums(rows, vectors, half, true, a, k, end, b, vectors * PF_VL, ahead,
                                 t->ahead_each, acc);
        else
            pf_tile_sums(rows, vectors, half, false, a, k, end, b, vectors * PF_VL, NULL, 0, acc);
        k = end;
        if (waiting && part < waiting->rows) finish_row(waiting, part);
    }
}

/* Whether a tile that begins at y and z goes on where those that wait end, and there is room. */
PF_INLINE bool follows(const pf_waiting *w, const int rows, const int vectors, const float *y, const float *z,
                       int64_t n) {
    const bool fits = (w->rows + rows) * vectors * PF_VL <= (int64_t)(sizeof w->sums / sizeof(float));
    return fits && w->vectors == vectors && w->n == n && w->y + w->rows * w->ystep == y &&
           (w->z ? w->z + w->rows * w->zstep : NULL) == z;
}

/* Leaves the block of a tile to a later one. */
PF_INLINE void leave(const int rows, const int vectors, const pf_run *t, float *y, const float *z,
                     pf_vf (*acc)[COLS]) {
    pf_waiting *w = t->waiting;
    if (!BETWEEN && w->rows > 0) {
        store(rows, vectors, w->sums[0] + w->rows * vectors * PF_VL, vectors * PF_VL, PF_VL, acc);
        w->rows += rows;
        return;
    }
    store(rows, vectors, w->sums[BETWEEN ? w->turn : 0], vectors * PF_VL, PF_VL, acc);
    w->turn = !w->turn;
    w->rows = rows, w->vectors = vectors;
    w->code = pf_act_is_late(t->act.code) ? t->act.code : PF_ACT_NONE;
    w->y = y, w->ystep = t->ystep;
    w->z = z, w->zstep = t->zstep;
    w->n = t->n;
}

PF_INLINE void run(const int rows, const int vectors, const bool half, const bool late, const pf_run *t) {
    const int64_t last = t->n - (vectors - 1) * PF_VL;
    const float *x = t->x, *z = t->z;
    const char *ahead = t->ahead;
    float *y = t->y;
    for (int64_t i = 0; i < t->tiles; i++, x += rows * t->xstep, y += rows * t->ystep) {
        pf_vf acc[PF_TILE_ROWS][COLS];
        if (late && (BETWEEN ? t->k < t->waiting->rows
                             : t->waiting->rows > 0 &&
                                   !follows(t->waiting, rows, vectors, y, t->z_late ? z : NULL, t->n)))
            PF_NAME(finish_run)(t->waiting);
        pf_block_start(rows, vectors, t->bias, last, acc);
        if (z) {
            PF_UNROLL for (int r = 0; r < rows; r++) {
                PF_UNROLL for (int v = 0; v < vectors; v++) __builtin_prefetch(z + r * t->zstep + v * PF_VL);
            }
        }
        multiply(rows, vectors, half, t, x, ahead, late && BETWEEN ? t->waiting : NULL, acc);
        if (ahead) ahead += t->ahead_step;
        if (z && !t->z_late) add_residual(rows, vectors, z, t->zstep, last, acc);
        pf_block_activate(rows, vectors, &t->act, acc);
        if (late)
            leave(rows, vectors, t, y, t->z_late ? z : NULL, acc);
        else
            store(rows, vectors, y, t->ystep, last, acc);
        if (z) z += rows * t->zstep;
    }
}

#define RUNS(kind, half, vectors, rows)                                                                      \
    static void kind##_run_##rows##x##vectors(const pf_run *t) { run(rows, vectors, half, false, t); }       \
    static void kind##_late_##rows##x##vectors(const pf_run *t) { run(rows, vectors, half, true, t); }
#define WHOLE(vectors, rows)      RUNS(whole, false, vectors, rows)
#define HALF(vectors, rows)       RUNS(half, true, vectors, rows)
#define ENTRY(vectors, rows)      whole_run_##rows##x##vectors,
#define LATE_ENTRY(vectors, rows) whole_late_##rows##x##vectors,
#define HALF_ENTRY(vectors, rows) half_run_##rows##x##vectors,
#define HALF_LATE(vectors, rows)  half_late_##rows##x##vectors,

PF_TILE_SHAPES(WHOLE, PF_NOTHING, PF_NOTHING)
PF_HALF_SHAPES(HALF)

const pf_run_fn PF_NAME(tile_runs)[PF_TILE_KINDS][PF_TILE_VECTORS][PF_TILE_ROWS] = PF_TILE_TABLE(ENTRY,
                                                                                                 HALF_ENTRY);
const pf_run_fn PF_NAME(late_runs)[PF_TILE_KINDS][PF_TILE_VECTORS][PF_TILE_ROWS] = PF_TILE_TABLE(LATE_ENTRY,
                                                                                                 HALF_LATE);
