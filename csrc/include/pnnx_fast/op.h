/* The C interface of operators that users write. A plugin includes this file and nothing else, is linked with
 * nothing, and hands pnnx_fast a pf_op: a table of functions. It must not know how pnnx_fast plans memory or
 * threads.
 *
 * Stability: version 1 of the interface stays as it is. Later versions append fields to the structs and raise
 * PF_OP_ABI; `size` tells how many bytes of a struct its maker knew, so old plugins keep working. */
#ifndef PNNX_FAST_OP_H
#define PNNX_FAST_OP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PF_OP_ABI      1
#define PF_OP_MAX_RANK 8

/* PNNX's numbers of dtypes. */
enum {
    PF_OP_F32 = 1,
    PF_OP_F64 = 2,
    PF_OP_F16 = 3,
    PF_OP_I32 = 4,
    PF_OP_I64 = 5,
    PF_OP_I16 = 6,
    PF_OP_I8 = 7,
    PF_OP_U8 = 8,
    PF_OP_BOOL = 9
};

/* Memory order. In pf_op: what run wants to be given; in pf_op_tensor: what it is given. */
enum {
    PF_OP_PLAIN = 0, /* C order without gaps */
    PF_OP_CHANNELS_LAST =
        1,            /* tensors of rank 3 and more: stride of dimension 1 is 1; others as PF_OP_PLAIN */
    PF_OP_STRIDED = 2 /* inputs as they are, results as PF_OP_PLAIN */
};

/* A tensor. While shapes are inferred, and for the results then, data is NULL. Strides count elements. */
typedef struct pf_op_tensor {
    void *data;
    const int64_t *shape;
    const int64_t *strides;
    int32_t rank;
    int32_t dtype;
    int32_t layout;
    int32_t reserved;
} pf_op_tensor;

/* Shape and dtype of a result, filled by infer. */
typedef struct pf_op_info {
    int64_t shape[PF_OP_MAX_RANK];
    int32_t rank;
    int32_t dtype;
} pf_op_info;

/* A parameter of the operator in the graph. type: 0 none, 1 bool, 2 int, 3 float, 4 string, 5, 6, 7 lists of
 * the last three. Booleans and integers are in ints, floats in floats, strings in strings. */
typedef struct pf_op_param {
    const char *name;
    const int64_t *ints;
    const double *floats;
    const char *const *strings;
    int32_t type;
    int32_t count;
} pf_op_param;

typedef struct pf_op_weight {
    const char *name;
    pf_op_tensor tensor; /* PF_OP_PLAIN; stays valid until release */
} pf_op_weight;

typedef void (*pf_op_body)(void *context, int64_t begin, int64_t end);

/* What the host offers while run runs. */
typedef struct pf_op_host {
    uint32_t abi;
    uint32_t size;
    int32_t nthreads;
    int32_t reserved;
    void *scratch; /* as many bytes as infer asked for, aligned to 64; contents undefined */
    /* Calls body(context, begin, end) for pieces of [0, total) of at most grain items on the threads of the
     * model and returns when all are done. Called from inside a body it works on the calling thread alone. */
    void (*parallel_for)(const struct pf_op_host *host, int64_t total, int64_t grain, pf_op_body body,
                         void *context);
} pf_op_host;

/* An operator. Functions return 0, or a number of their own that becomes part of an exception. They are
 * called without Python's global lock and must not call Python. init, infer and release may be NULL; without
 * infer the one result is like the first input.
 *
 * init:    once an operator of a model; makes *state from parameters and weights.
 * infer:   once a combination of input shapes; fills infos and, if wanted, *scratch_bytes.
 * run:     once a call of the model, possibly from several threads at once: state is read only.
 * release: frees the state when the model goes. */
typedef struct pf_op {
    uint32_t abi;     /* PF_OP_ABI */
    uint32_t size;    /* sizeof(pf_op) */
    const char *type; /* e.g. "pnnx.custom_op.mine.op"; several names are separated by blanks */
    int32_t layout;
    int32_t reserved;
    int (*init)(void **state, const pf_op_param *params, int32_t nparams, const pf_op_weight *weights,
                int32_t nweights);
    int (*infer)(void *state, const pf_op_tensor *inputs, int32_t ninputs, pf_op_info *infos,
                 int32_t noutputs, int64_t *scratch_bytes);
    int (*run)(void *state, const pf_op_tensor *inputs, int32_t ninputs, const pf_op_tensor *outputs,
               int32_t noutputs, const pf_op_host *host);
    void (*release)(void *state);
} pf_op;

#if defined(_WIN32)
#    define PF_OP_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#    define PF_OP_EXPORT __attribute__((visibility("default")))
#else
#    define PF_OP_EXPORT
#endif

/* What a shared library with operators exports: its operators by number, NULL after the last one.
 *     PF_OP_EXPORT const pf_op *pnnx_fast_operator(int32_t index); */

#ifdef __cplusplus
}
#endif

#endif
