/* Writes at places that index tensors name: elements put there, added, multiplied, or their extremes. Every
 * index is checked: one out of range is reported, and nothing is written for it. */
#include "kernels/half.h"
#include "kernels/indexed.h"

typedef struct writer {
    line_fn line, row;
} writer;

/* Elements of x onto what the index names in y, line by line, or a row of x onto the one place that the first
 * index names. `join` makes the new element of the old one, a, and that of x, v. */
#define PF_ONTO(T, to, from, join)                                                                           \
    do {                                                                                                     \
        const T a = (to), v = (from);                                                                        \
        (void)a;                                                                                             \
        (to) = join;                                                                                         \
    } while (0)
#define PF_WRITER(name, T, I, join)                                                                          \
    PF_WALK(line_##name##_##I, T, I, if (i >= 0) PF_ONTO(T, y[c * ys + i * stride], x[c * xs], join))        \
    static void row_##name##_##I(const line *l) {                                                            \
        const T *x = (const T *)l->x;                                                                        \
        const int64_t named = *(const I *)l->index, i = PF_PLACED(l->w, l->wrap, l->size, named);            \
        const int64_t n = l->n, xs = l->xs, ys = l->ys;                                                      \
        if (i < 0) return;                                                                                   \
        T *y = (T *)l->y + i * l->stride;                                                                    \
        if (xs == 1 && ys == 1)                                                                              \
            for (int64_t k = 0; k < n; k++) PF_ONTO(T, y[k], x[k], join);                                    \
        else                                                                                                 \
            for (int64_t k = 0; k < n; k++) PF_ONTO(T, y[k * ys], x[k * xs], join);                          \
    }
#define PF_WRITERS(name, T, join) PF_WRITER(name, T, index_4, join) PF_WRITER(name, T, index_8, join)
#define PF_BOTH(name)                                                                                        \
    {                                                                                                        \
        {line_##name##_index_4, row_##name##_index_4}, { line_##name##_index_8, row_##name##_index_8 }       \
    }

PF_WRITERS(put_1, size_1, v)
PF_WRITERS(put_2, size_2, v)
PF_WRITERS(put_4, size_4, v)
PF_WRITERS(put_8, size_8, v)
PF_WRITERS(put_16, size_16, v)

static const writer puts_[][2] = {PF_BOTH(put_1), PF_BOTH(put_2), PF_BOTH(put_4), PF_BOTH(put_8),
                                  PF_BOTH(put_16)};

/* Integers wrap around in U; of floats NaN wins. */
#define PF_ARITHMETIC(name, T, V, U)                                                                         \
    typedef V T __attribute__((aligned(1), may_alias));                                                      \
    PF_WRITERS(add_##name, T, (V)((U)a + (U)v))                                                              \
    PF_WRITERS(multiply_##name, T, (V)((U)a * (U)v))                                                         \
    PF_WRITERS(maximum_##name, T, (v > a) | (v != v) ? v : a)                                                \
    PF_WRITERS(minimum_##name, T, (v < a) | (v != v) ? v : a)
PF_ARITHMETIC(f32, any_f32, float, float)
PF_ARITHMETIC(f64, any_f64, double, double)
PF_ARITHMETIC(i32, any_i32, int32_t, uint32_t)
PF_ARITHMETIC(i64, any_i64, int64_t, uint64_t)
PF_WRITERS(add_f16, size_2, pf_to_half(pf_from_half(a) + pf_from_half(v)))
PF_WRITERS(multiply_f16, size_2, pf_to_half(pf_from_half(a) * pf_from_half(v)))

#define PF_KNOWN(name)                                                                                       \
    [PF_DTYPE_F32] = PF_BOTH(name##_f32), [PF_DTYPE_F64] = PF_BOTH(name##_f64),                              \
    [PF_DTYPE_I32] = PF_BOTH(name##_i32), [PF_DTYPE_I64] = PF_BOTH(name##_i64)
static const writer joins[PF_SCATTER_COUNT][PF_DTYPE_COUNT][2] = {
    [PF_SCATTER_ADD] = {[PF_DTYPE_F16] = PF_BOTH(add_f16), PF_KNOWN(add)},
    [PF_SCATTER_MULTIPLY] = {[PF_DTYPE_F16] = PF_BOTH(multiply_f16), PF_KNOWN(multiply)},
    [PF_SCATTER_MAX] = {PF_KNOWN(maximum)},
    [PF_SCATTER_MIN] = {PF_KNOWN(minimum)},
};

/* What meets in one element lies on one line along the indexed dimension: threads share the lines, so the
 * order of writes, and with it the result, does not depend on their number. Lines that are neighbours along
 * the last dimension are walked side by side, as they lie in memory. */
PF_KERNEL_FUNCTION(scatter) {
    const pf_scatter_args *given = args_;
    const pf_gather_args *a = args_; /* the fields in front are the same */
    const writer *pair = given->op == PF_SCATTER_PUT ? puts_[__builtin_ctzll((uint64_t)a->itemsize)]
                                                     : joins[given->op][given->type];
    const writer write = pair[a->index_size == 8];
    const int64_t n = a->shape[a->dim], last = a->rank - 1, row = last == a->dim ? 1 : a->shape[last];
    const bool same = a->js[last] == 0; /* one index for all entries of a row */
    int64_t begin, end;
    pf_share(w, count_except(a, a->dim), 16, &begin, &end);
    for (int64_t r = begin, count; r < end; r += count) {
        count = pf_min(row - r % row, end - r);
        line l = line_at(a, w, r, a->dim, last, count);
        if (last == a->dim) {
            l.n = n;
            write.line(&l);
            continue;
        }
        for (int64_t c = 0; c < n; c++) {
            (same ? write.row : write.line)(&l);
            l.x += a->xs[a->dim] * a->itemsize;
            l.index += a->js[a->dim] * a->index_size;
        }
    }
}
