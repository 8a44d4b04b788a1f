/* Winograd products for few channels: with sums of at most two vectors of inputs, the pointers and calls of a
 * general register tile would cost as much as its arithmetic. Here one call serves all points, and rows lie
 * at distances that the compiler knows. Used by conv_winograd.c. */
#include "kernels/conv_winograd.h"
#include "kernels/tile.h"

PF_INLINE void products(const int rows, const int vectors, const int depth, const pf_wino_narrow *t) {
    const float *v = t->v, *u = t->u;
    float *y = t->products;
    for (int64_t point = 0; point < t->points; point++, v += t->v_step, y += t->m_step) {
        pf_vf acc[PF_TILE_ROWS][2];
        PF_UNROLL for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = pf_zero();
        const float *a = v;
        for (int64_t k = 0; k < t->ic; k++, a++, u += vectors * PF_VL) {
            pf_vf b[2];
            PF_UNROLL for (int j = 0; j < vectors; j++) b[j] = pf_load(u + j * PF_VL);
            PF_UNROLL for (int r = 0; r < rows; r++) {
                const pf_vf x = pf_set(a[r * depth * PF_VL]);
                PF_UNROLL for (int j = 0; j < vectors; j++) acc[r][j] = pf_fma(x, b[j], acc[r][j]);
            }
        }
        PF_UNROLL for (int r = 0; r < rows; r++) {
            PF_UNROLL for (int j = 0; j < vectors; j++) pf_store(y + (r * vectors + j) * PF_VL, acc[r][j]);
        }
    }
}

/* Blocks are as high as the highest register tile or one row less; 14x14 outputs make two of eight rows,
 * 7x7 outputs one of four. */
#if PF_REGISTERS == 32
#    define PF_NARROW_AT(X, depth)                                                                           \
        X(10, 1, depth)                                                                                      \
        X(9, 1, depth)                                                                                       \
        X(12, 2, depth) X(11, 2, depth) X(8, 1, depth) X(8, 2, depth) X(4, 1, depth) X(4, 2, depth)
#else
#    define PF_NARROW_AT(X, depth)                                                                           \
        X(10, 1, depth) X(9, 1, depth) X(6, 2, depth) X(5, 2, depth) X(8, 1, depth) X(4, 1, depth)
#endif
#define PF_NARROW(X) PF_NARROW_AT(X, 1) PF_NARROW_AT(X, 2)
#define PF_NARROW_FN(rows, vectors, depth)                                                                   \
    static void products_##rows##x##vectors##x##depth(const pf_wino_narrow *t) {                             \
        products(rows, vectors, depth, t);                                                                   \
    }
PF_NARROW(PF_NARROW_FN)

static const struct {
    int64_t rows, vectors, depth;
    void (*run)(const pf_wino_narrow *t);
} shapes[] = {
#define PF_NARROW_ROW(rows, vectors, depth) {rows, vectors, depth, products_##rows##x##vectors##x##depth},
    PF_NARROW(PF_NARROW_ROW)};

int PF_NAME(wino_narrow)(const pf_wino_narrow *t, int64_t rows, int vectors, int64_t depth) {
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        if (shapes[i].rows == rows && shapes[i].vectors == vectors && shapes[i].depth * PF_VL == depth) {
            shapes[i].run(t);
            return 1;
        }
    return 0;
}
