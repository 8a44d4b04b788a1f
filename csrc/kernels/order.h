/* What selection and sorting share. Elements of every type become keys, signed integers in the order in which
 * PyTorch sorts: NaN is the largest value, all NaN are equal, and so are both zeros. `variant` of the
 * kernels' arguments is the type, of PF_DTYPE_CODES. */
#ifndef PF_KERNELS_ORDER_H
#define PF_KERNELS_ORDER_H

#include <stdbool.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/simd.h"

enum { KEYS = 256 }; /* so many are made at a time */

typedef struct entry {
    int64_t key, index;
} entry;

/* Elements one after another or apart, which may lie anywhere. */
typedef struct elements {
    const char *at;
    int64_t step; /* in elements */
    int64_t type;
    int64_t flip; /* -1: the largest come first */
} elements;

/* Bits of a float as a key, given those of infinity: negative numbers count downwards. */
#define PF_FLOAT_KEY(T, bits, most, infinite)                                                                \
    ((bits & most) > infinite ? most : bits < 0 ? (T) - (bits & most) : (T)bits)

#define PF_KEYS(name, T, key)                                                                                \
    typedef T any_##name __attribute__((aligned(1), may_alias));                                             \
    static void keys_##name(int64_t *keys, const elements *x, int64_t first, int64_t n) {                    \
        const any_##name *from = (const any_##name *)x->at;                                                  \
        const int64_t step = x->step, flip = x->flip;                                                        \
        from += first * step;                                                                                \
        if (step == 1)                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const T v = from[i];                                                                         \
                keys[i] = (int64_t)(key) ^ flip;                                                             \
            }                                                                                                \
        else                                                                                                 \
            for (int64_t i = 0; i < n; i++) {                                                                \
                const T v = from[i * step];                                                                  \
                keys[i] = (int64_t)(key) ^ flip;                                                             \
            }                                                                                                \
    }
PF_KEYS(u8, uint8_t, v)
PF_KEYS(i8, int8_t, v)
PF_KEYS(i16, int16_t, v)
PF_KEYS(i32, int32_t, v)
PF_KEYS(i64, int64_t, v)
PF_KEYS(f16, int16_t, PF_FLOAT_KEY(int16_t, v, INT16_MAX, 0x7c00))
PF_KEYS(f32, int32_t, PF_FLOAT_KEY(int32_t, v, INT32_MAX, 0x7f800000))
PF_KEYS(f64, int64_t, PF_FLOAT_KEY(int64_t, v, INT64_MAX, 0x7ff0000000000000))

PF_INLINE pf_vi mixed(pf_vi mask, pf_vi a, pf_vi b) { return (pf_vi)pf_select(mask, (pf_vf)a, (pf_vf)b); }

/* The same of a vector of floats. */
PF_INLINE pf_vi pf_float_keys(pf_vf v, int32_t flip) {
    const pf_vi most = pf_seti(INT32_MAX), size = (pf_vi)v & most, sign = (pf_vi)v >> 31;
    return mixed(size > pf_seti(0x7f800000), most, (size ^ sign) - sign) ^ pf_seti(flip);
}

/* Keys of the n elements from the first-th on. */
static inline void pf_keys(int64_t *keys, const elements *x, int64_t first, int64_t n) {
    static void (*const of_type[PF_DTYPE_COUNT])(int64_t *, const elements *, int64_t, int64_t) = {
        [PF_DTYPE_BOOL] = keys_u8, [PF_DTYPE_U8] = keys_u8,   [PF_DTYPE_I8] = keys_i8,
        [PF_DTYPE_I16] = keys_i16, [PF_DTYPE_I32] = keys_i32, [PF_DTYPE_I64] = keys_i64,
        [PF_DTYPE_F16] = keys_f16, [PF_DTYPE_F32] = keys_f32, [PF_DTYPE_F64] = keys_f64};
    of_type[x->type](keys, x, first, n);
}

static inline void pf_entries(entry *e, const elements *x, int64_t n) {
    int64_t keys[KEYS];
    for (int64_t i = 0; i < n; i += KEYS) {
        const int64_t m = pf_min(KEYS, n - i);
        pf_keys(keys, x, i, m);
        for (int64_t j = 0; j < m; j++) e[i + j] = (entry){keys[j], i + j};
    }
}

/* The elements of n entries, and their places, with the elements' step; either may be absent. */
static inline void pf_put_entries(const entry *e, const elements *x, char *values, int64_t *indices,
                                  int64_t n) {
    const int64_t step = x->step;
    if (indices != NULL)
        for (int64_t i = 0; i < n; i++) indices[i * step] = e[i].index;
#define PF_PUT(size, T)                                                                                      \
case size:                                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                                          \
        ((any_##T *)values)[i * step] = ((const any_##T *)x->at)[e[i].index * step];                         \
    break;
    if (values != NULL) switch (pf_dtype_size(x->type)) {
            PF_PUT(1, u8)
            PF_PUT(2, i16)
            PF_PUT(4, i32)
            PF_PUT(8, i64)
        }
#undef PF_PUT
}

/* The lines of a thread; `room` entries of scratch are its own. There is no more scratch than for all lines.
 */
typedef struct lines {
    int64_t begin, end;
    entry *e;
} lines;

static inline lines pf_lines(const pf_topk_args *a, const pf_worker *w, int64_t room) {
    const int64_t count = a->outer * a->inner;
    lines mine;
    pf_share(w, count, 1, &mine.begin, &mine.end);
    mine.e = (entry *)pf_ptr(w, a->scratch) + (count < w->nthreads ? mine.begin : w->tid) * room;
    return mine;
}

static inline int64_t pf_lines_scratch(const pf_topk_args *a, int nthreads, int64_t room) {
    return pf_min(a->outer * a->inner, nthreads) * room * (int64_t)sizeof(entry);
}

/* Whether PF_VL lines from this one on are neighbours, or follow each other. */
static inline bool pf_lines_fit(const pf_topk_args *a, int64_t line, int64_t end) {
    return line + PF_VL <= end && (a->inner == 1 || line % a->inner + PF_VL <= a->inner);
}

static inline elements pf_line(const pf_topk_args *a, const pf_worker *w, int64_t line) {
    const int64_t at = line / a->inner * a->n * a->inner + line % a->inner;
    const char *x = (const char *)pf_ptr(w, a->x) + at * pf_dtype_size(a->variant);
    return (elements){x, a->inner, a->variant, a->largest ? -1 : 0};
}

/* n entries become the line's results. */
static inline void pf_put_line(const entry *e, const elements *x, const pf_topk_args *a, const pf_worker *w,
                               int64_t line, int64_t n) {
    const int64_t at = line / a->inner * n * a->inner + line % a->inner;
    char *values = pf_ptr(w, a->values);
    int64_t *indices = pf_ptr(w, a->indices);
    pf_put_entries(e, x, values ? values + at * pf_dtype_size(x->type) : NULL, indices ? indices + at : NULL,
                   n);
}

/* Entries that come before others are moved up one by one; equal ones stay in order. */
static inline void pf_insertion_sort(entry *e, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const entry moved = e[i];
        int64_t j = i;
        for (; j > 0 && moved.key < e[j - 1].key; j--) e[j] = e[j - 1];
        e[j] = moved;
    }
}

#endif
