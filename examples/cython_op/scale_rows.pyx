# cython: language_level=3
"""An operator in Cython: an ``api`` function, which `pnnx_fast.native.define` takes from the module's ``__pyx_capi__``."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "pnnx_fast/op.h" nogil:
    ctypedef void (*pf_op_body)(void *context, int64_t begin, int64_t end) noexcept nogil
    ctypedef struct pf_op_tensor:
        void *data
        const int64_t *shape
        int32_t rank
        int32_t dtype
    int32_t PF_OP_F32
    ctypedef struct pf_op_host:
        void (*parallel_for)(const pf_op_host *host, int64_t total, int64_t grain, pf_op_body body,
                             void *context) noexcept nogil


cdef struct Rows:
    const float *source
    float *target
    int64_t length


cdef void some_rows(void *context, int64_t begin, int64_t end) noexcept nogil:
    cdef Rows *rows = <Rows *> context
    cdef int64_t i, j
    for i in range(begin, end):
        for j in range(rows.length):
            rows.target[i * rows.length + j] = rows.source[i * rows.length + j] * (i + 1)


cdef api int scale_rows(void *state, const pf_op_tensor *inputs, int32_t ninputs, const pf_op_tensor *outputs,
                        int32_t noutputs, const pf_op_host *host) noexcept nogil:
    """Multiplies the rows of a matrix by 1, 2, 3, …, on the threads of the model."""
    cdef Rows rows
    if ninputs != 1 or inputs.rank != 2 or inputs.dtype != PF_OP_F32:  # the model file decides what arrives
        return 1
    rows.source, rows.target = <const float *> inputs.data, <float *> outputs.data
    rows.length = inputs.shape[1]
    host.parallel_for(host, inputs.shape[0], 16, some_rows, &rows)
    return 0
