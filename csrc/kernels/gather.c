/* Reads at places that index tensors name: rows (embedding, index_select) and single elements (gather). Every
 * index is checked: one out of range is reported, its place reads as zero. */
#include <string.h>

#include "kernels/indexed.h"

static int64_t read_index(const char *p, int64_t itemsize) {
    if (itemsize == 8) {
        int64_t v;
        memcpy(&v, p, sizeof v);
        return v;
    }
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Indices and results lie together in most lines; several of these share the counting of the loop. */
#define PF_PICK(T, I)                                                                                        \
    PF_WALK(pick_apart_##T##_##I, T, I, y[c * ys] = i < 0 ? (T){0} : x[c * xs + i * stride])                 \
    static void pick_##T##_##I(const line *l) {                                                              \
        if (l->js != 1 || l->ys != 1) {                                                                      \
            pick_apart_##T##_##I(l);                                                                         \
            return;                                                                                          \
        }                                                                                                    \
        const pf_worker *w = l->w;                                                                           \
        const T *x = (const T *)l->x;                                                                        \
        const I *index = (const I *)l->index;                                                                \
        T *y = (T *)l->y;                                                                                    \
        const int64_t n = l->n, xs = l->xs, stride = l->stride, size = l->size, wrap = l->wrap;              \
        _Pragma("GCC unroll 4") for (int64_t c = 0; c < n; c++, x += xs) {                                   \
            const int64_t named = index[c], i = PF_PLACED(w, wrap, size, named);                             \
            y[c] = i < 0 ? (T){0} : x[i * stride];                                                           \
        }                                                                                                    \
    }
#define PF_PICKS(T) PF_PICK(T, index_4) PF_PICK(T, index_8)
PF_PICKS(size_1)
PF_PICKS(size_2)
PF_PICKS(size_4)
PF_PICKS(size_8)
PF_PICKS(size_16)

/* What moves single elements of that many bytes; NULL: they are none. */
static line_fn picker(int64_t bytes, int64_t index_size) {
    const bool wide = index_size == 8;
    switch (bytes) {
    case 1:
        return wide ? pick_size_1_index_8 : pick_size_1_index_4;
    case 2:
        return wide ? pick_size_2_index_8 : pick_size_2_index_4;
    case 4:
        return wide ? pick_size_4_index_8 : pick_size_4_index_4;
    case 8:
        return wide ? pick_size_8_index_8 : pick_size_8_index_4;
    case 16:
        return wide ? pick_size_16_index_8 : pick_size_16_index_4;
    default:
        return NULL;
    }
}

/* Whole entries of a dimension, one for each of `count` indices. */
static void copy_rows(const pf_gather_rows_args *a, const pf_worker *w, const char *x, const char *index,
                      char *y, int64_t count) {
    for (int64_t j = 0; j < count; j++) {
        const int64_t named = read_index(index + j * a->index_size, a->index_size);
        const int64_t i = PF_PLACED(w, a->wrap, a->size, named);
        if (i >= 0)
            memcpy(y + j * a->ysr, x + i * a->xsr, (size_t)a->inner);
        else
            memset(y + j * a->ysr, 0, (size_t)a->inner);
    }
}

PF_KERNEL_FUNCTION(gather_rows) {
    const pf_gather_rows_args copy =
        *(const pf_gather_rows_args *)args_; /* which bytes written to y do not change */
    const pf_gather_rows_args *a = &copy;
    const char *x = pf_ptr(w, a->x), *index = pf_ptr(w, a->index);
    char *y = pf_ptr(w, a->y);
    line_fn pick = picker(a->inner, a->index_size);
    if (pick && (a->xsr % a->inner || a->ysr % a->inner)) pick = NULL;
    line l = {.w = w, .js = 1, .size = a->size, .wrap = a->wrap};
    if (pick) l.stride = a->xsr / a->inner, l.ys = a->ysr / a->inner;
    int64_t begin, end;
    pf_share(w, a->outer * a->count, 1, &begin, &end);
    for (int64_t r = begin, n; r < end; r += n) {
        const int64_t o = r / a->count, j = r % a->count;
        n = pf_min(a->count - j, end - r);
        const char *from = x + o * a->xso, *at = index + j * a->index_size;
        char *to = y + o * a->yso + j * a->ysr;
        if (pick) {
            l.x = from, l.index = at, l.y = to, l.n = n;
            pick(&l);
        } else {
            copy_rows(a, w, from, at, to, n);
        }
    }
}

PF_KERNEL_FUNCTION(gather) {
    const pf_gather_args *a = args_;
    const int64_t last = a->rank - 1;
    const line_fn pick = picker(a->itemsize, a->index_size);
    int64_t begin, end;
    pf_share(w, count_except(a, last), 1, &begin, &end);
    for (int64_t r = begin; r < end; r++) {
        const line l = line_at(a, w, r, last, last, a->shape[last]);
        pick(&l);
    }
}
