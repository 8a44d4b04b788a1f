/* Register tiles of products in pairs (pairs.h), one instance for every kind, width and height. */
#include "kernels/pairs.h"
#include "kernels/tile_block.h"

enum { COLS = PF_TILE_VECTORS };

PF_INLINE void start(const int rows, const int vectors, const pf_pairs_tile *t, pf_vf (*acc)[COLS]) {
    if (t->starts && t->plain) {
        pf_block_start(rows, vectors, NULL, PF_VL, acc);
        return;
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const float *from = t->starts ? t->starts : t->sums + r * vectors * PF_VL;
        const pf_vf row = t->starts ? pf_set(t->row_starts[r]) : pf_zero();
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = row + pf_load(from + v * PF_VL);
    }
}

/* x[k + more] + b and c + x[k + more] * b, where the operation itself reads the number; more: a constant.
 * Processors that take vectors in two halves (PF_CPU_HALVES) spread it for nothing then, and beforehand in
 * units that add and multiply. Given base, index and distance, as pf_fma_number of an address would need one
 * for each number of a step, which are more than there are registers. */
#if PF_HALVES && !defined(PF_EMULATED)
/* The compiler, which does not see which number is read, is told of all that may be. */
#    define NUMBER_INPUTS "r"(x), "r"(k), "i"(4 * more), "m"(*(const float (*)[1 << 26]) x)

PF_INLINE pf_vf add_number(const float *x, int64_t k, const int more, pf_vf b) {
    pf_vf sum;
    __asm__("vaddps %c4(%2,%3,4)%{1to16%}, %1, %0" : "=v"(sum) : "v"(b), NUMBER_INPUTS);
    return sum;
}
PF_INLINE pf_vf fma_number(const float *x, int64_t k, const int more, pf_vf b, pf_vf c) {
    __asm__("vfmadd231ps %c4(%2,%3,4)%{1to16%}, %1, %0" : "+v"(c) : "v"(b), NUMBER_INPUTS);
    return c;
}
#else
PF_INLINE pf_vf add_number(const float *x, int64_t k, const int more, pf_vf b) {
    return pf_set(x[k + more]) + b;
}
PF_INLINE pf_vf fma_number(const float *x, int64_t k, const int more, pf_vf b, pf_vf c) {
    return pf_fma(pf_set(x[k + more]), b, c);
}
#endif

/* A pair of inputs. The second one is spread by the additions themselves where both would be too much for the
 * units, and the first one is not, which would be too much for the loads. */
PF_INLINE void add_pair(const int rows, const int vectors, const bool folded, const float *const *a,
                        int64_t k, const float *b, int64_t step, pf_vf (*acc)[COLS]) {
    pf_vf first[COLS], second[COLS];
    PF_UNROLL for (int v = 0; v < vectors; v++) {
        first[v] = pf_load(b + v * PF_VL);
        second[v] = pf_load(b + step + v * PF_VL);
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf x = pf_set(a[r][k]), y = folded ? pf_zero() : pf_set(a[r][k + 1]);
        PF_UNROLL for (int v = 0; v < vectors; v++) {
            const pf_vf other = folded ? add_number(a[r], k, 1, first[v]) : y + first[v];
            acc[r][v] = pf_fma(x + second[v], other, acc[r][v]);
        }
    }
}

/* An input as usual. */
PF_INLINE void add_input(const int rows, const int vectors, const bool folded, const float *const *a,
                         int64_t k, const int more, const float *b, pf_vf (*acc)[COLS]) {
    if (!folded) {
        pf_block_step(rows, vectors, false, a, k + more, b, acc);
        return;
    }
    PF_UNROLL for (int v = 0; v < vectors; v++) {
        const pf_vf by = pf_load(b + v * PF_VL);
        PF_UNROLL for (int r = 0; r < rows; r++) acc[r][v] = fma_number(a[r], k, more, by, acc[r][v]);
    }
}

/* Complete sums. The columns of the next panel are fetched for writing. */
PF_INLINE void finish(const int rows, const int vectors, const pf_pairs_end *e, pf_vf (*acc)[COLS]) {
    const int64_t last = e->n - (vectors - 1) * PF_VL;
    pf_vf by[COLS], first[1][COLS];
    pf_block_start(1, vectors, e->bias, last, first);
    PF_UNROLL for (int v = 0; v < vectors; v++) by[v] = pf_load(e->scales + v * PF_VL);
    PF_UNROLL for (int r = 0; r < rows; r++) {
        const pf_vf scale = pf_set(e->row_scales[r]);
        PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] = pf_fma(acc[r][v], by[v] * scale, first[0][v]);
    }
    if (e->z) {
        PF_UNROLL for (int r = 0; r < rows; r++) {
            const float *z = e->z + e->z_at[r];
            PF_UNROLL for (int v = 0; v < vectors; v++) acc[r][v] +=
                pf_load_upto(z + v * PF_VL, v + 1 < vectors ? PF_VL : last);
        }
    }
    pf_block_activate(rows, vectors, &e->act, acc);
    PF_UNROLL for (int r = 0; r < rows; r++) {
        float *y = e->y + e->y_at[r];
        PF_UNROLL for (int v = 0; v < vectors; v++) {
            pf_store_upto(y + v * PF_VL, acc[r][v], v + 1 < vectors ? PF_VL : last);
            __builtin_prefetch(y + (vectors + v) * PF_VL, 1);
        }
    }
}

/* A row that waits. */
PF_INLINE void finish_row(const pf_pairs_late *w, int row) {
    const float *from = w->sums + row * w->vectors * PF_VL, *z = w->z ? w->z + w->z_at[row] : NULL;
    float *y = w->y + w->y_at[row];
    for (int64_t j = 0; j < w->n; j += PF_VL) {
        const pf_vf v = pf_act_late_vector(w->code, pf_load_upto(from + j, w->n - j));
        pf_store_upto(y + j, z ? v + pf_load_upto(z + j, w->n - j) : v, w->n - j);
    }
}

void PF_NAME(pairs_finish)(const pf_pairs_late *late) {
    for (int row = 0; row < late->rows; row++) finish_row(late, row);
}

/* The inputs of t->k that go in pairs; lines: that are fetched for PF_PAIRS_STEP of them; after each part of
 * them a row that waits is finished. Returns where those of the columns end. */
PF_INLINE const float *pairs(const int rows, const int vectors, const bool folded, const int lines,
                             const float **a, int64_t paired, const pf_pairs_tile *t, pf_vf (*acc)[COLS]) {
    const pf_pairs_late *w = t->late;
    const int parts = w && w->rows > 1 ? w->rows : 1;
    const int64_t each = paired / parts / PF_PAIRS_STEP * PF_PAIRS_STEP, ahead_each = t->ahead_each;
    const int64_t step = vectors * PF_VL;
    const float *b = t->b;
    const char *ahead = t->ahead;
    int64_t k = 0;
    for (int part = 0; part < parts; part++) {
        const int64_t end = part + 1 < parts ? k + each : paired;
        for (; k < end; k += PF_PAIRS_STEP, b += PF_PAIRS_STEP * step) {
            PF_UNROLL for (int i = 0; i < lines; i++) __builtin_prefetch(ahead + i * PF_LINE_BYTES, 0, 2);
            ahead += ahead_each;
            add_pair(rows, vectors, folded, a, k, b, step, acc);
            add_input(rows, vectors, folded, a, k, 2, b + 2 * step, acc);
            add_input(rows, vectors, folded, a, k, 3, b + 3 * step, acc);
        }
        if (w && part < w->rows) finish_row(w, part);
    }
    return b;
}

PF_INLINE void tile(const int rows, const int vectors, const bool folded, const pf_pairs_tile *t) {
    pf_vf acc[PF_TILE_ROWS][COLS];
    const float *a[PF_TILE_ROWS];
    const int64_t paired = t->plain ? 0 : pf_pairs_depth(t->k);
    start(rows, vectors, t, acc);
    PF_UNROLL for (int r = 0; r < rows; r++) a[r] = t->a + r * t->step;
    const float *b = t->ahead_each > 2 * PF_LINE_BYTES ? pairs(rows, vectors, folded, 4, a, paired, t, acc)
                                                       : pairs(rows, vectors, folded, 2, a, paired, t, acc);
    for (int64_t k = paired; k < t->k; k++, b += vectors * PF_VL)
        add_input(rows, vectors, folded, a, k, 0, b, acc);
    if (t->end) {
        finish(rows, vectors, t->end, acc);
        return;
    }
    PF_UNROLL for (int r = 0; r < rows; r++) {
        PF_UNROLL for (int v = 0; v < vectors; v++) pf_store(t->sums + (r * vectors + v) * PF_VL, acc[r][v]);
    }
}

#define TILE(vectors, rows)                                                                                  \
    static void tile_##rows##x##vectors(const pf_pairs_tile *t) { tile(rows, vectors, false, t); }
#define FOLDED_TILE(vectors, rows)                                                                           \
    static void folded_tile_##rows##x##vectors(const pf_pairs_tile *t) { tile(rows, vectors, true, t); }
#define ENTRY(vectors, rows)        tile_##rows##x##vectors,
#define FOLDED_ENTRY(vectors, rows) folded_tile_##rows##x##vectors,
#define ROWS_4(X, v)                X(v, 1) X(v, 2) X(v, 3) X(v, 4)
#if PF_REGISTERS == 32
#    define ALL_ROWS(X, v) ROWS_4(X, v) X(v, 5) X(v, 6) X(v, 7) X(v, 8)
#else
#    define ALL_ROWS(X, v) ROWS_4(X, v)
#endif
#define TABLE(X)                                                                                             \
    {                                                                                                        \
        {ALL_ROWS(X, 1)}, { ALL_ROWS(X, 2) }                                                                 \
    }

ALL_ROWS(TILE, 1)
ALL_ROWS(TILE, 2)
#if PF_PAIRS_KINDS == 2
ALL_ROWS(FOLDED_TILE, 1)
ALL_ROWS(FOLDED_TILE, 2)
#endif

static const pf_pairs_fn tiles[PF_PAIRS_KINDS][PF_PAIRS_VECTORS][PF_PAIRS_ROWS] = {
    TABLE(ENTRY),
#if PF_PAIRS_KINDS == 2
    TABLE(FOLDED_ENTRY),
#endif
};

pf_pairs_tiles PF_NAME(pairs_tiles)(void) { return tiles[pf_takes_halves()]; }
