/* Runs an immutable list of kernel calls on a thread team: one parallel region for the whole list. Planning
 * of memory is the caller's business. */
#ifndef PF_EXEC_PROGRAM_H
#define PF_EXEC_PROGRAM_H

#include <stdbool.h>

#include "kernels/kernel.h"

/* Who runs a step. TEAM: every member a share, and the shares of members that are missing. SERIAL: one
 * member; for small work. GANG: the members that are there, all at once, because they wait for each other. */
enum { PF_STEP_TEAM = 0, PF_STEP_SERIAL = 1, PF_STEP_GANG = 2 };

typedef struct pf_step {
    pf_kernel_fn run;
    const void *args;
    int32_t mode;
    int32_t free;     /* the next step does not depend on this one, nor is either a gang */
    pf_stretch ahead; /* constants that a later step reads, for kernels that can fetch them meanwhile */
} pf_step;

/* clock: NULL, or count+1 time stamps in nanoseconds: when the first member began, then the end of each step,
 * which is that of its last share. Steps do not overlap then. Returns 0, or -1 when memory is short; fault
 * then tells whether the data let every step do its work. */
int pf_run_steps(const pf_step *steps, int64_t count, char *const *bases, int nthreads, int64_t *clock,
                 pf_fault *fault);

/* A run that helpers begin while the caller does something else, for steps that are all free and name no base
 * but 0. The steps must stay until it ends. NULL when nobody could help: pf_run_steps does it then. */
typedef struct pf_pending pf_pending;
pf_pending *pf_begin_steps(const pf_step *steps, int64_t count, int nthreads);
/* Whether all steps are done. */
bool pf_steps_over(const pf_pending *run);
/* Takes part until all steps are done; frees the run. Returns -1 in a child process that has forked
 * meanwhile: there all steps are to be run again. */
int pf_end_steps(pf_pending *run, pf_fault *fault);

#endif
