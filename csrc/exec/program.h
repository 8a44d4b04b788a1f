/* Runs an immutable list of kernel calls on a thread team: one parallel region for the whole list, a barrier
 * between steps. Planning of memory is the caller's business. */
#ifndef PF_EXEC_PROGRAM_H
#define PF_EXEC_PROGRAM_H

#include "kernels/kernel.h"

typedef struct pf_step {
    pf_kernel_fn run;
    const void *args;
    int32_t serial; /* small work: one thread runs it while the others wait */
    int32_t free;   /* no barrier after this step: the next one does not depend on it */
} pf_step;

/* clock: NULL, or count+1 time stamps in nanoseconds, taken by thread 0. Returns 0, or -1 when memory is
 * short; fault then tells whether the data let every step do its work. */
int pf_run_steps(const pf_step *steps, int64_t count, char *const *bases, int nthreads, int64_t *clock,
                 pf_fault *fault);

#endif
