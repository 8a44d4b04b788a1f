/* Padding of any dtype: rows of the output are a piece before, the input's row, and a piece behind.
 * Dimensions come in the order of memory; where the last one is not padded, it is the unit that is moved. */
#include <string.h>

#include "kernels/args.h"
#include "kernels/simd.h"

/* The input index that stands at output position i - before, or -1 for the constant. */
static int64_t source(pf_pad_code mode, int64_t i, int64_t n) {
    if (i >= 0 && i < n) return i;
    switch (mode) {
    case PF_PAD_REFLECT:
        return i < 0 ? -i : 2 * (n - 1) - i;
    case PF_PAD_REPLICATE:
        return i < 0 ? 0 : n - 1;
    case PF_PAD_CIRCULAR:
        return i < 0 ? i + n : i - n;
    default:
        return -1;
    }
}

enum { LONG = 2048, NARROW = 64 };

typedef struct line {
    int64_t unit, size;   /* bytes moved at once, and of an element */
    int64_t n, before;    /* input positions, and output positions in front of them */
    int64_t xs, ys, mode; /* byte strides of the padded dimension */
    const char *pattern;  /* 64 bytes of the constant */
    const int32_t *from;  /* of narrow borders of numbers: the input positions, first those before, then those
                             behind; NULL elsewhere */
} line;

/* Rows are often shorter than what a call of memcpy takes: a vector that reaches back to the middle of the
 * last one serves the rest. */
PF_INLINE void move(char *y, const char *x, int64_t bytes) {
    const int64_t step = sizeof(pf_vf);
    if (bytes < step || bytes > LONG) {
        memcpy(y, x, (size_t)bytes);
        return;
    }
    for (int64_t i = 0; i < bytes - step; i += step) pf_store(y + i, pf_load(x + i));
    pf_store(y + bytes - step, pf_load(x + bytes - step));
}

static void fill(char *y, int64_t bytes, const char *pattern) {
    if (bytes == sizeof(float)) {
        memcpy(y, pattern, sizeof(float));
        return;
    }
    for (; bytes >= 64; bytes -= 64, y += 64) memcpy(y, pattern, 64);
    memcpy(y, pattern, (size_t)bytes);
}

/* The n output positions from y on, which hold the input positions `from`. */
PF_INLINE void copy_border(const line *l, const char *x, char *y, const int32_t *from, int64_t n) {
    for (int64_t i = 0; i < n; i++) memcpy(y + i * l->ys, x + from[i] * l->xs, sizeof(float));
}

/* Output positions [begin, end) that lie outside of the input. */
static void pad_piece(const line *l, const char *x, char *y, int64_t begin, int64_t end) {
    if (l->mode == PF_PAD_CONSTANT && l->ys == l->unit && end > begin) {
        fill(y + begin * l->ys, (end - begin) * l->unit, l->pattern);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        const int64_t from = source((pf_pad_code)l->mode, i - l->before, l->n);
        if (from < 0)
            fill(y + i * l->ys, l->unit, l->pattern);
        else if (l->unit == sizeof(float))
            memcpy(y + i * l->ys, x + from * l->xs, sizeof(float));
        else
            move(y + i * l->ys, x + from * l->xs, l->unit);
    }
}

static void pad_line(const line *l, const char *x, char *y, int64_t count) {
    const int64_t begin = pf_min(pf_max(l->before, 0), count),
                  end = pf_max(begin, pf_min(l->before + l->n, count));
    const char *from = x + (begin - l->before) * l->xs;
    if (l->from)
        copy_border(l, x, y, l->from, begin);
    else
        pad_piece(l, x, y, 0, begin);
    if (l->xs == l->unit && l->ys == l->unit)
        move(y + begin * l->unit, from, (end - begin) * l->unit);
    else
        for (int64_t i = begin; i < end; i++, from += l->xs) move(y + i * l->ys, from, l->unit);
    if (l->from)
        copy_border(l, x, y + end * l->ys, l->from + begin, count - end);
    else
        pad_piece(l, x, y, end, count);
}

/* Where the borders of a line of numbers come from, if that fits NARROW: every line asks for the same. */
static int list_border(const line *l, int64_t count, int32_t *from) {
    const int64_t begin = pf_min(pf_max(l->before, 0), count),
                  end = pf_max(begin, pf_min(l->before + l->n, count)), n = begin + count - end;
    if (l->mode == PF_PAD_CONSTANT || l->unit != sizeof(float) || n > NARROW || l->n > INT32_MAX) return 0;
    for (int64_t i = 0; i < n; i++)
        from[i] = (int32_t)source((pf_pad_code)l->mode, (i < begin ? i : i - begin + end) - l->before, l->n);
    return 1;
}

/* Whether the last dimension is moved as a whole. */
static int is_unit(const pf_pad_args *a) {
    const int64_t d = a->rank - 1;
    return a->rank > 1 && a->before[d] == 0 && a->shape[d] == a->isize[d] && a->xs[d] == 1 && a->ys[d] == 1;
}

PF_KERNEL_FUNCTION(pad) {
    const pf_pad_args *a = args_;
    const char *x = pf_ptr(w, a->x);
    char *y = pf_ptr(w, a->y), pattern[64];
    const int64_t bits[2] = {a->bits, a->bits_high}, size = a->itemsize;
    for (int64_t i = 0; i < 64; i += size) memcpy(pattern + i, bits, (size_t)size);
    const int64_t axis = a->rank - 1 - is_unit(a), unit = is_unit(a) ? a->shape[a->rank - 1] * size : size;
    line l = {unit,    size, a->isize[axis], a->before[axis], a->xs[axis] * size, a->ys[axis] * size, a->mode,
              pattern, NULL};
    int32_t sources[NARROW];
    if (list_border(&l, a->shape[axis], sources)) l.from = sources;
    int64_t rows = 1, begin, end;
    for (int64_t d = 0; d < axis; d++) rows *= a->shape[d];
    if (unit == 0 || a->shape[axis] == 0) return;
    pf_share(w, rows, 1, &begin, &end);
    int64_t at[PF_MAX_RANK];
    for (int64_t d = axis - 1, rest = begin; d >= 0; rest /= a->shape[d--]) at[d] = rest % a->shape[d];
    for (int64_t i = begin; i < end; i++) {
        int64_t xo = 0, yo = 0, inside = 1;
        for (int64_t d = 0; d < axis; d++) {
            const int64_t from = source((pf_pad_code)a->mode, at[d] - a->before[d], a->isize[d]);
            xo += from * a->xs[d], yo += at[d] * a->ys[d];
            inside &= from >= 0;
        }
        for (int64_t d = axis - 1; d >= 0 && ++at[d] == a->shape[d]; d--) at[d] = 0;
        if (inside)
            pad_line(&l, x + xo * size, y + yo * size, a->shape[axis]);
        else if (l.ys == unit)
            fill(y + yo * size, a->shape[axis] * unit, pattern);
        else
            for (int64_t k = 0; k < a->shape[axis]; k++) fill(y + yo * size + k * l.ys, unit, pattern);
    }
}
