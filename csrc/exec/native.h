/* The step that calls a user's operator (pnnx_fast/op.h). The binding packs its arguments; the program runs
 * it like any other step. */
#ifndef PF_EXEC_NATIVE_H
#define PF_EXEC_NATIVE_H

#include "kernels/kernel.h"
#include "pnnx_fast/op.h"

enum { PF_NATIVE_MAX = 64 };

typedef int (*pf_native_fn)(void *state, const pf_op_tensor *inputs, int32_t ninputs,
                            const pf_op_tensor *outputs, int32_t noutputs, const pf_op_host *host);

typedef struct pf_native_tensor {
    pf_ref data;
    int64_t shape[PF_OP_MAX_RANK];
    int64_t strides[PF_OP_MAX_RANK];
    int32_t rank, dtype, layout, unused;
} pf_native_tensor;

/* tensors: inputs, then outputs; at most PF_NATIVE_MAX together. */
typedef struct pf_native_args {
    pf_native_fn run;
    void *state;
    pf_ref scratch;
    int32_t ninputs, noutputs;
    pf_native_tensor tensors[];
} pf_native_args;

void pf_native_step(const void *args, const pf_worker *w);

#endif
