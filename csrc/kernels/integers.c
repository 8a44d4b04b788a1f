/* Sums, differences, products and comparisons of two tensors of 64-bit integers, of any strides: places in
 * tables, masks. Arithmetic wraps around. Longer integer expressions are not made here. */
#include "kernels/kernel.h"
#include "kernels/nest.h"

/* Inputs may lie anywhere. */
typedef int64_t word __attribute__((aligned(1), may_alias));
typedef uint8_t truth;

typedef void (*run_fn)(const word *x, int64_t xs, const word *z, int64_t zs, void *y, int64_t ys, int64_t n);

#define PF_LOOP(expr, xs, zs, ys)                                                                            \
    for (int64_t i = 0; i < n; i++) {                                                                        \
        const int64_t a = x[i * (xs)], b = z[i * (zs)];                                                      \
        to[i * (ys)] = (expr);                                                                               \
    }
#define PF_RUN(name, type, expr)                                                                             \
    static void name(const word *x, int64_t xs, const word *z, int64_t zs, void *y, int64_t ys, int64_t n) { \
        type *to = y;                                                                                        \
        if (xs == 1 && zs == 1 && ys == 1)                                                                   \
            PF_LOOP(expr, 1, 1, 1)                                                                           \
        else if (xs == 1 && zs == 0 && ys == 1)                                                              \
            PF_LOOP(expr, 1, 0, 1)                                                                           \
        else                                                                                                 \
            PF_LOOP(expr, xs, zs, ys)                                                                        \
    }

PF_RUN(sums, word, (int64_t)((uint64_t)a + (uint64_t)b))
PF_RUN(differences, word, (int64_t)((uint64_t)a - (uint64_t)b))
PF_RUN(products, word, (int64_t)((uint64_t)a * (uint64_t)b))
PF_RUN(equal, truth, a == b)
PF_RUN(not_equal, truth, a != b)
PF_RUN(less, truth, a < b)
PF_RUN(less_or_equal, truth, a <= b)
PF_RUN(greater, truth, a > b)
PF_RUN(greater_or_equal, truth, a >= b)

/* In the order of the codes that PF_INTEGERS_ARGS names. */
static const run_fn runs[] = {sums, differences,   products, equal,           not_equal,
                              less, less_or_equal, greater,  greater_or_equal};
enum { FIRST_COMPARISON = 3 };

PF_KERNEL_FUNCTION(integers) {
    const pf_integers_args *a = args_;
    const pf_pieces pieces = pf_pieces_make(pf_nest_make(a->rank, a->shape, a->ys, a->xs, a->zs));
    const int64_t size = a->op < FIRST_COMPARISON ? (int64_t)sizeof(word) : (int64_t)sizeof(truth),
                  *s = pieces.s;
    const word *x = pf_ptr(w, a->x), *z = pf_ptr(w, a->z);
    char *y = pf_ptr(w, a->y);
    int64_t begin, end, o[PF_NEST_TENSORS];
    pf_share(w, pieces.total, 1, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        const int64_t count = pf_piece_at(&pieces, i, o);
        runs[a->op](x + o[1], s[1], z + o[2], s[2], y + o[0] * size, s[0], count);
    }
}
