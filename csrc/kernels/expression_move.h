/* How operands and results of the expression VM are moved between memory and the buffers of a tile, whatever
 * their strides and types. Included by expression_vm.c alone. */
#ifndef PF_KERNELS_EXPRESSION_MOVE_H
#define PF_KERNELS_EXPRESSION_MOVE_H

#include <stdbool.h>
#include <string.h>

#include "kernels/args.h"
#include "kernels/expression_types.h"
#include "kernels/half.h"

enum { PF_VECTOR = PF_VL * 4 }; /* bytes */

/* How a tile of an operand is reached. */
typedef enum vm_access {
    VM_DIRECT, /* in place */
    VM_REPEAT, /* one value a tile */
    VM_ROWS,   /* in place, row by row */
    VM_VALUES, /* one value a row */
    VM_COPY,   /* copied for every tile */
    VM_FIXED,  /* prepared once: the same in every tile */
} vm_access;

typedef struct vm_operand {
    const char *data;
    const int64_t *strides; /* in elements, per dimension */
    int64_t inner, row;     /* strides of the last two dimensions */
    int64_t at;             /* offset of the current line, in elements */
    char *buffer;
    pf_operand_code kind;
    vm_access access;
} vm_operand;

static inline int64_t vm_itemsize(pf_operand_code kind, int64_t size) {
    return kind == PF_OPERAND_OWN ? size : kind == PF_OPERAND_BOOL ? 1 : (int64_t)sizeof(pf_half);
}

/* -- truth -- */

typedef uint8_t bytes __attribute__((vector_size(PF_VL)));
typedef uint8_t bytes_any __attribute__((vector_size(PF_VL), aligned(1), may_alias));

static inline pf_vi widen(const uint8_t *from) {
#if defined(PF_AVX512)
    return (pf_vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)from));
#elif defined(PF_AVX2)
    return (pf_vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
#else
    return __builtin_convertvector(*(const bytes_any *)from, pf_vi);
#endif
}

static void load_truths_f32(void *to_, const uint8_t *from, int64_t step, int64_t n) {
    float *to = to_;
    int64_t i = 0;
    if (step == 1)
        for (; i + PF_VL <= n; i += PF_VL)
            pf_store(to + i, (pf_vf)((widen(from + i) != 0) & (pf_vi)pf_set(1.0f)));
    for (; i < n; i++) to[i] = from[i * step] ? 1.0f : 0.0f;
}

static void store_truths_f32(uint8_t *to, int64_t step, const void *from_, int64_t n) {
    const float *from = from_;
    int64_t i = 0;
#if defined(PF_AVX2) && !defined(PF_AVX512)
    for (; step == 1 && i + 4 * PF_VL <= n; i += 4 * PF_VL) {
        __m256i truth[4];
        for (int k = 0; k < 4; k++) truth[k] = (__m256i)(pf_load(from + i + k * PF_VL) != 0.0f);
        const __m256i words = _mm256_packs_epi16(_mm256_packs_epi32(truth[0], truth[1]),
                                                 _mm256_packs_epi32(truth[2], truth[3]));
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        const __m256i ones = _mm256_and_si256(_mm256_permutevar8x32_epi32(words, order), _mm256_set1_epi8(1));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), ones);
    }
#endif
    if (step == 1)
        for (; i + PF_VL <= n; i += PF_VL) {
            const pf_vi truth = (pf_load(from + i) != 0.0f) & 1;
            *(bytes_any *)(to + i) = __builtin_convertvector(truth, bytes);
        }
    for (; i < n; i++) to[i * step] = from[i] != 0.0f;
}

/* -- elements of the VM's own type -- */

typedef uint16_t word2 __attribute__((aligned(1), may_alias));
typedef uint32_t word4 __attribute__((aligned(1), may_alias));
typedef uint64_t word8 __attribute__((aligned(1), may_alias));

#define PF_MOVES(size, T)                                                                                    \
    static void move_##size(char *to_, int64_t ts, const char *from_, int64_t fs, int64_t n) {               \
        T *to = (T *)to_;                                                                                    \
        const T *from = (const T *)from_;                                                                    \
        for (int64_t i = 0; i < n; i++) to[i * ts] = from[i * fs];                                           \
    }
PF_MOVES(1, uint8_t)
PF_MOVES(2, word2)
PF_MOVES(4, word4)
PF_MOVES(8, word8)

/* n elements at distance fs to places at distance ts. */
static void vm_move(char *to, int64_t ts, const char *from, int64_t fs, int64_t size, int64_t n) {
    if (size == 4)
        move_4(to, ts, from, fs, n);
    else if (size == 8)
        move_8(to, ts, from, fs, n);
    else if (size == 2)
        move_2(to, ts, from, fs, n);
    else
        move_1(to, ts, from, fs, n);
}

/* Rows are often shorter than what a call of memcpy takes. */
static inline void copy_row(char *to_, const char *from_, int64_t bytes) {
    float *to = (float *)(void *)to_;
    const float *from = (const float *)(const void *)from_;
    const int64_t n = bytes / 4;
    int64_t i = 0;
    for (; i + PF_VL <= n; i += PF_VL) pf_store(to + i, pf_load(from + i));
    if (i < n) pf_storen(to + i, pf_loadn(from + i, n - i), n - i);
    for (i = n * 4; i < bytes; i++) to_[i] = from_[i];
}

/* n times the element at `value`. */
static inline void vm_fill(char *to, const void *value, int64_t size, int64_t n) {
    if (size == 4) {
        float v;
        memcpy(&v, value, sizeof v);
        int64_t i = 0;
        for (; i + PF_VL <= n; i += PF_VL) pf_store(to + i * 4, pf_set(v));
        if (i < n) pf_storen(to + i * 4, pf_set(v), n - i);
    } else if (size > 1) {
        vm_move(to, 1, value, 0, size, n);
    } else {
        memset(to, *(const char *)value, (size_t)n);
    }
}

/* -- pairs: the parts of complex numbers, as one word of a vector each -- */

typedef uint64_t pairs __attribute__((vector_size(PF_VL * 4)));
typedef uint64_t pairs_any __attribute__((vector_size(PF_VL * 4), aligned(1), may_alias));
typedef uint32_t halves __attribute__((vector_size(PF_VL * 2)));
typedef uint32_t halves_any __attribute__((vector_size(PF_VL * 2), aligned(1), may_alias));

/* Where n pairs are read a vector at a time, the last one may end beyond memory, and is left to the scalar
 * loop. */
enum { PAIRS = PF_VL / 2 };

static void first_of_pairs(word4 *to, const word4 *from, int64_t n) {
    int64_t i = 0;
    for (; i + PAIRS < n; i += PAIRS)
        *(halves_any *)(to + i) = __builtin_convertvector(*(const pairs_any *)(from + 2 * i), halves);
    for (; i < n; i++) to[i] = from[2 * i];
}

/* The first of each pair twice, of places at distance 2. */
static void first_twice(word4 *to, const word4 *from, int64_t n) {
    int64_t i = 0;
    for (; i + PAIRS < n; i += PAIRS) {
        const pairs v = *(const pairs_any *)(from + 2 * i);
        *(pairs_any *)(to + 2 * i) = (v << 32) | (v << 32 >> 32);
    }
    for (; i < n; i++) to[2 * i] = to[2 * i + 1] = from[2 * i];
}

static void each_twice(word4 *to, const word4 *from, int64_t n) {
    int64_t i = 0;
    for (; i + PAIRS <= n; i += PAIRS) {
        const pairs v = __builtin_convertvector(*(const halves_any *)(from + i), pairs);
        *(pairs_any *)(to + 2 * i) = (v << 32) | v;
    }
    for (; i < n; i++) to[2 * i] = to[2 * i + 1] = from[i];
}

static void swap_pairs(word4 *to, const word4 *from, int64_t n) {
    int64_t i = 0;
    for (; i + PAIRS <= n; i += PAIRS) {
        const pairs v = *(const pairs_any *)(from + 2 * i);
        *(pairs_any *)(to + 2 * i) = (v << 32) | (v >> 32);
    }
    for (; i < n; i++) to[2 * i] = from[2 * i + 1], to[2 * i + 1] = from[2 * i];
}

/* n rows of two elements into the buffer of an operand, if they are pairs. */
static bool vm_pairs(const vm_operand *o, const char *data, int64_t n) {
    word4 *to = (word4 *)(void *)o->buffer;
    const word4 *from = (const word4 *)(const void *)data;
    if (o->inner == 0 && o->row == 1)
        each_twice(to, from, n);
    else if (o->inner == 0 && o->row == 2)
        first_twice(to, from, n);
    else if (o->inner == -1 && o->row == 2)
        swap_pairs(to, from - 1, n);
    else
        return false;
    return true;
}

/* rows x n elements of an operand into its buffer. */
static void vm_gather(const vm_operand *o, const vm_type *type, const char *data, int64_t rows, int64_t n) {
    const int64_t size = type->size, from_size = vm_itemsize(o->kind, size);
    if (o->inner == 1 && o->row == n) n *= rows, rows = 1;
    if (n == 2 && size == 4 && o->kind == PF_OPERAND_OWN && vm_pairs(o, data, rows)) return;
    if (o->kind == PF_OPERAND_OWN && o->row == 1 && o->inner > 1 && rows > 1) {
        for (int64_t i = 0; i < n; i++)
            vm_move(o->buffer + i * size, n, data + i * o->inner * size, 1, size, rows);
        return;
    }
    for (int64_t r = 0; r < rows; r++) {
        const char *from = data + r * o->row * from_size;
        char *to = o->buffer + r * n * size;
        if (o->kind == PF_OPERAND_BOOL)
            type->load_truths(to, (const uint8_t *)from, o->inner, n);
        else if (o->kind == PF_OPERAND_HALF)
            pf_widen_halves(from, o->inner, (float *)(void *)to, n);
        else if (o->inner == 1)
            copy_row(to, from, n * size);
        else if (o->inner == 0)
            vm_fill(to, from, size, n);
        else if (o->inner == 2 && size == 4)
            first_of_pairs((word4 *)(void *)to, (const word4 *)(const void *)from, n);
        else
            vm_move(to, 1, from, o->inner, size, n);
    }
}

static void vm_scatter(const vm_operand *o, const vm_type *type, char *data, int64_t rows, int64_t n) {
    const int64_t size = type->size, to_size = vm_itemsize(o->kind, size);
    if (o->inner == 1 && o->row == n) n *= rows, rows = 1;
    for (int64_t r = 0; r < rows; r++) {
        const char *from = o->buffer + r * n * size;
        char *to = data + r * o->row * to_size;
        if (o->kind == PF_OPERAND_BOOL)
            type->store_truths((uint8_t *)to, o->inner, from, n);
        else if (o->kind == PF_OPERAND_HALF)
            pf_narrow_halves((const float *)(const void *)from, to, o->inner, n);
        else if (o->inner == 1)
            copy_row(to, from, n * size);
        else
            vm_move(to, o->inner, from, 1, size, n);
    }
}

#endif
