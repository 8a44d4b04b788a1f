/* Tensors in another dtype, as C converts: towards zero, around the end, what is not zero is true. Half
 * precision is float32 in between, also from and to float64 and integers, as in PyTorch. */
#include "kernels/half.h"
#include "kernels/nest.h"

enum { BLOCK = 256 };

/* Operands may lie anywhere. */
#define PF_FREE __attribute__((aligned(1), may_alias))
typedef uint8_t type_U8 PF_FREE;
typedef int8_t type_I8 PF_FREE;
typedef int16_t type_I16 PF_FREE;
typedef int32_t type_I32 PF_FREE;
typedef int64_t type_I64 PF_FREE;
typedef float type_F32 PF_FREE;
typedef double type_F64 PF_FREE;

typedef void (*run_fn)(const void *x, int64_t xs, void *y, int64_t ys, int64_t n);

#define PF_LOOP(expr, xs, ys)                                                                                \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        const __typeof__(*from) v = from[i * (xs)];                                                          \
        to[i * (ys)] = (expr);                                                                               \
    }
#define PF_RUN(name, source, target, expr)                                                                   \
    static void name(const void *x, int64_t xs, void *y, int64_t ys, int64_t n) {                            \
        const type_##source *from = x;                                                                       \
        type_##target *to = y;                                                                               \
        if (xs == 1 && ys == 1)                                                                              \
            PF_LOOP(expr, 1, 1)                                                                              \
        else                                                                                                 \
            PF_LOOP(expr, xs, ys)                                                                            \
    }
/* Floats reach small integers through 32 bits, those of double precision bytes without a sign through 64. */
#define PF_RUNS(source, small, byte)                                                                         \
    PF_RUN(source##_BOOL, source, U8, v != 0)                                                                \
    PF_RUN(source##_U8, source, U8, (uint8_t)(byte)v)                                                        \
    PF_RUN(source##_I8, source, I8, (int8_t)(small)v)                                                        \
    PF_RUN(source##_I16, source, I16, (int16_t)(small)v)                                                     \
    PF_RUN(source##_I32, source, I32, (int32_t)v)                                                            \
    PF_RUN(source##_I64, source, I64, (int64_t)v)                                                            \
    PF_RUN(source##_F32, source, F32, (float)v)                                                              \
    PF_RUN(source##_F64, source, F64, (double)v)
PF_RUNS(U8, uint8_t, uint8_t)
PF_RUNS(I8, int8_t, int8_t)
PF_RUNS(I16, int16_t, int16_t)
PF_RUNS(I32, int32_t, int32_t)
PF_RUNS(I64, int64_t, int64_t)
PF_RUNS(F32, int32_t, int32_t)
PF_RUNS(F64, int32_t, int64_t)

#define PF_ROW(source)                                                                                       \
    {                                                                                                        \
        [PF_DTYPE_BOOL] = source##_BOOL, [PF_DTYPE_U8] = source##_U8,   [PF_DTYPE_I8] = source##_I8,         \
        [PF_DTYPE_I16] = source##_I16,   [PF_DTYPE_I32] = source##_I32, [PF_DTYPE_I64] = source##_I64,       \
        [PF_DTYPE_F32] = source##_F32,   [PF_DTYPE_F64] = source##_F64,                                      \
    }
static const run_fn runs[PF_DTYPE_COUNT][PF_DTYPE_COUNT] = {
    [PF_DTYPE_BOOL] = PF_ROW(U8), [PF_DTYPE_U8] = PF_ROW(U8),   [PF_DTYPE_I8] = PF_ROW(I8),
    [PF_DTYPE_I16] = PF_ROW(I16), [PF_DTYPE_I32] = PF_ROW(I32), [PF_DTYPE_I64] = PF_ROW(I64),
    [PF_DTYPE_F32] = PF_ROW(F32), [PF_DTYPE_F64] = PF_ROW(F64),
};

/* n numbers from half precision or to it. */
static void run_half(const pf_convert_args *a, const char *x, int64_t xs, char *y, int64_t ys, int64_t n) {
    const int64_t xb = xs * pf_dtype_size(a->source), yb = ys * pf_dtype_size(a->target);
    float buffer[BLOCK];
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t m = pf_min(BLOCK, n - i);
        const char *from = x + i * xb;
        char *to = y + i * yb;
        const int direct = a->target == PF_DTYPE_F32 && ys == 1;
        float *wide = direct ? (float *)(void *)to : buffer;
        if (a->source == PF_DTYPE_F16)
            pf_widen_halves(from, xs, wide, m);
        else if (a->source == PF_DTYPE_F32 && xs == 1)
            wide = (float *)(uintptr_t)from;
        else
            runs[a->source][PF_DTYPE_F32](from, xs, wide, 1, m);
        if (a->target == PF_DTYPE_F16)
            pf_narrow_halves(wide, to, ys, m);
        else if (!direct)
            runs[PF_DTYPE_F32][a->target](wide, 1, to, ys, m);
    }
}

PF_KERNEL_FUNCTION(convert) {
    const pf_convert_args *a = args_;
    const pf_pieces pieces = pf_pieces_make(pf_nest_make(a->rank, a->shape, a->ys, a->xs, NULL));
    const char *x = pf_ptr(w, a->x);
    char *y = pf_ptr(w, a->y);
    int64_t begin, end, o[PF_NEST_TENSORS];
    pf_share(w, pieces.total, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t count = pf_piece_at(&pieces, i, o), xs = pieces.s[1], ys = pieces.s[0];
        const char *from = x + o[1] * pf_dtype_size(a->source);
        char *to = y + o[0] * pf_dtype_size(a->target);
        if (a->source == PF_DTYPE_F16 || a->target == PF_DTYPE_F16)
            run_half(a, from, xs, to, ys, count);
        else
            runs[a->source][a->target](from, xs, to, ys, count);
    }
}
