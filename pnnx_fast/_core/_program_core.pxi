# What the binding uses of the C core. Included by program.pyx.

cdef extern from "kernels/kernel.h" nogil:
    ctypedef struct pf_ref:
        int64_t base
        int64_t offset
    ctypedef struct pf_plan:
        int64_t variant
        int64_t chunks
        int64_t packed_bytes
        int64_t scratch_bytes
        char label[32]
    ctypedef struct pf_fault:
        int64_t code
        int64_t step
        int64_t value
        int64_t limit
    ctypedef struct pf_stretch:
        const char *start
        int64_t bytes
    ctypedef void (*pf_kernel_fn)(const void *, const void *)
    ctypedef void (*pf_plan_fn)(const void *, int, pf_plan *)
    ctypedef struct pf_kernel_entry:
        const char *name
        int32_t kind
        pf_kernel_fn run
        pf_plan_fn plan
    ctypedef struct pf_kernel_table:
        const char *isa
        const pf_kernel_entry *entries
        int32_t count

cdef extern from "exec/tables.h" nogil:
    ctypedef struct pf_field:
        const char *name
        const char *type
        int64_t offset
    ctypedef struct pf_kind:
        const char *name
        const pf_field *fields
        int32_t count
        int64_t size
    ctypedef struct pf_code_list:
        const char *name
        const char *const *names
        int32_t count
    int PF_FAULT_NATIVE, PF_FAULT_ZERO, PF_KIND_COUNT, PF_MAX_RANK, PF_MAX_INS, PF_MAX_OPERATIONS
    int PF_POOL_REACH, PF_POOL_STEP, PF_WINO_PHASES, PF_WINO_PAIRS, PF_MASK_QUERIES
    int PF_SPLIT_SIDE, PF_SPLIT_DEPTH, PF_SPLIT_DIGITS
    int PF_THIN_PIXELS
    int pf_tables(const pf_kernel_table **out, int capacity)
    bint pf_is_gang(int kernel, const pf_kernel_entry *entry, const void *args, int nthreads)
    const pf_kind *pf_kinds()
    int pf_code_lists(const pf_code_list **out)

cdef extern from "base/cpu.h" nogil:
    int PF_CPU_ADDERS, PF_CPU_HALVES
    unsigned int pf_cpu_features()

cdef extern from "kernels/pool.h" nogil:
    int PF_POOL_LINE

cdef extern from "exec/program.h" nogil:
    ctypedef struct pf_step:
        pf_kernel_fn run
        const void *args
        int32_t mode
        int32_t free
        pf_stretch ahead
    int PF_STEP_TEAM
    int PF_STEP_SERIAL
    int PF_STEP_GANG
    int pf_run_steps(const pf_step *steps, int64_t count, char *const *bases, int nthreads, int64_t *clock,
                     pf_fault *fault)
    ctypedef struct pf_pending:
        pass
    pf_pending *pf_begin_steps(const pf_step *steps, int64_t count, int nthreads)
    bint pf_steps_over(const pf_pending *run)
    int pf_end_steps(pf_pending *run, pf_fault *fault)

cdef extern from "exec/native.h" nogil:
    int PF_NATIVE_MAX
    ctypedef int (*pf_native_fn)(void *, const void *, int32_t, const void *, int32_t, const void *)
    ctypedef struct pf_native_tensor:
        pf_ref data
        int64_t shape[8]
        int64_t strides[8]
        int32_t rank
        int32_t dtype
        int32_t layout
    ctypedef struct pf_native_args:
        pf_native_fn run
        void *state
        pf_ref scratch
        int32_t ninputs
        int32_t noutputs
        pf_native_tensor tensors[64]
    void pf_native_step(const void *, const void *)

cdef extern from "exec/strips.h" nogil:
    int PF_STRIP_STAGES
    ctypedef struct pf_strip_stage:
        pf_kernel_fn run
        int64_t kind
        int64_t lines
        int64_t buffer
        int64_t args
    ctypedef struct pf_strips_args:
        pf_ref scratch
        int64_t thread_bytes, lines, bands, count
        pf_strip_stage stages[8]
    bint pf_strips_take(int64_t kind)
    void pf_strips_step(const void *, const void *)

cdef extern from "base/team.h" nogil:
    enum: PF_MOST_THREADS
    const char *pf_team_name()
    ctypedef void (*pf_region_fn)(void *, void *, int) nogil
    void pf_team_choose_threads()
    void pf_team_choose_openmp(pf_region_fn)
    int pf_team_default_threads()
