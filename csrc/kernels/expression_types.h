/* The types of elements that the expression VM computes in, each with a table of its operations. */
#ifndef PF_KERNELS_EXPRESSION_TYPES_H
#define PF_KERNELS_EXPRESSION_TYPES_H

#include <stdbool.h>

#include "kernels/kernel.h"

/* An operand of an operation: a run of elements. Those on floats may also be given one vector that is read
 * again and again: step is what an operand moves by after each vector, PF_VL or 0. */
typedef struct pf_run {
    const void *data;
    int64_t step;
} pf_run;

typedef void (*pf_vm_op)(const pf_run *s0, const pf_run *s1, const pf_run *s2, void *result, int64_t n);

/* A type of elements: their size, whether its operations take one vector for a repeated value, its operations
 * by their codes (NULL: none), runs of bytes that become 0 or 1, and back, and whether a run has what this
 * type cannot be divided by (NULL: nothing). */
typedef struct vm_type {
    int64_t size;
    int64_t repeats;
    const pf_vm_op *ops;
    void (*load_truths)(void *to, const uint8_t *from, int64_t step, int64_t n);
    void (*store_truths)(uint8_t *to, int64_t step, const void *from, int64_t n);
    bool (*has_zero)(const void *from, int64_t n);
} vm_type;

/* Operations on n floats that are computed in double. */
void PF_NAME(vm_in_double_lgamma)(const float *from, float *to, int64_t n);
void PF_NAME(vm_in_double_digamma)(const float *from, float *to, int64_t n);
void PF_NAME(vm_in_double_erfinv)(const float *from, float *to, int64_t n);

/* The code of each operation. */
#define PF_VM_NAME(name) PF_VM_##name,
#define PF_VMN(name)     PF_VM_##name,
#define PF_PAIR(f, g)
enum {
#include "kernels/expression_ops.def"
    PF_VM_SINGLE /* those without pairs, which are all that types other than float have */
};

extern const vm_type PF_NAME(vm_f64), PF_NAME(vm_i64), PF_NAME(vm_i32), PF_NAME(vm_i16), PF_NAME(vm_i8),
    PF_NAME(vm_u8);

#endif
