/* The thread team: the only interface to threads in the C core. There are two of a kind. "threads": helper
 * threads, shared by all callers of the process, join a region when they are free; the caller never waits for
 * one that has not begun. "openmp": a parallel region, where the compiler has OpenMP. */
#ifndef PF_BASE_TEAM_H
#define PF_BASE_TEAM_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns whether the member gives way: it would rather rest for a moment and then be called again. */
typedef bool (*pf_team_fn)(void *context, int tid, int nthreads);

/* Calls fn(context, 0, nthreads) here and, from helpers that are free meanwhile, fn(context, tid, nthreads)
 * for tid = 1 … nthreads-1, each maybe never, and again only after it gave way. Returns when all calls that
 * began have returned. Safe after fork and from several threads at once. */
void pf_team_run(pf_team_fn fn, void *context, int nthreads);

/* Takes the team of that name from now on; returns -1 when this build has none. */
int pf_team_choose(const char *name);

/* The team in use. */
const char *pf_team_name(void);

/* CPUs that this process may use: affinity mask, cgroup quota, OMP_NUM_THREADS; at least 1. */
int pf_team_default_threads(void);

/* Gives the CPU up until *word differs from `value` or somebody wakes its waiters; may return early. */
void pf_sleep(const int32_t *word, int32_t value);
/* Wakes all that sleep on a word. */
void pf_wake(const int32_t *word);

/* Lets the CPU's other hardware thread go first for a moment, in loops that wait. */
static inline void pf_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* The spins-th turn of a loop that waits for a partner at work: he may have lost his CPU, so after a while
 * give ours away rather than burn his time. */
static inline void pf_wait_turn(int spins) {
    enum { PF_LOOKS = 2000 };
    if (spins < PF_LOOKS)
        pf_pause();
    else
        sched_yield();
}

#endif
