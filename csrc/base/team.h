/* The thread team: the only interface to threads in the C core. A region runs one function on every member;
 * members meet at barriers. The implementation (OpenMP or serial) is chosen when the library is built. */
#ifndef PF_BASE_TEAM_H
#define PF_BASE_TEAM_H

#include <stdint.h>

typedef void (*pf_team_fn)(void *context, int tid, int nthreads);

/* Calls fn(context, tid, n) for tid = 0 … n-1, in parallel, and returns when all have returned. n <= nthreads
 * is what the system grants. Safe after fork and from several threads at once. */
void pf_team_run(pf_team_fn fn, void *context, int nthreads);

/* "openmp" or "serial". */
const char *pf_team_name(void);

/* CPUs that this process may use: affinity mask, cgroup quota, OMP_NUM_THREADS; at least 1. */
int pf_team_default_threads(void);

/* A barrier for the members of one region. Zero-initialise. */
typedef struct pf_barrier {
    _Alignas(64) _Atomic int32_t arrived;
    _Alignas(64) _Atomic int32_t phase;
} pf_barrier;

void pf_barrier_wait(pf_barrier *barrier, int nthreads);

#endif
