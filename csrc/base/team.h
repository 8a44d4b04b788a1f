/* The thread team: the only interface to threads in the C core. There are two of a kind. "threads": helper
 * threads, shared by all callers of the process, join a region when they are free; the caller never waits for
 * one that has not begun. "openmp": a parallel region, by a function of another library
 * (openmp/team_openmp.h). */
#ifndef PF_BASE_TEAM_H
#define PF_BASE_TEAM_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* Members of the largest team. */
enum { PF_MOST_THREADS = 1024 };

/* Returns whether the member gives way: it would rather rest for a moment and then be called again. */
typedef bool (*pf_team_fn)(void *context, int tid, int nthreads);

/* Calls fn(context, 0, nthreads) here and, from helpers that are free meanwhile, fn(context, tid, nthreads)
 * for tid = 1 … nthreads-1, each maybe never, and again only after it gave way. Returns when all calls that
 * began have returned. Safe after fork and from several threads at once. */
void pf_team_run(pf_team_fn fn, void *context, int nthreads);

/* A region in two parts: helpers that are free take part from now on, as members 1 to nthreads-1, while the
 * caller does something else; pf_team_end calls fn as member 0 and waits as pf_team_run does. fn must not
 * need member 0 to be there. NULL when nobody could help: run it with pf_team_run then. */
typedef struct pf_team_region pf_team_region;
pf_team_region *pf_team_begin(pf_team_fn fn, void *context, int nthreads);

/* Ends and frees a region. False in a child process that has forked meanwhile: its helpers are gone, with
 * their work half done, and fn was not called. */
bool pf_team_end(pf_team_region *region);

/* What runs a region of two threads or more as pf_team_run promises. */
typedef void (*pf_region_fn)(pf_team_fn fn, void *context, int nthreads);

/* Takes a team from now on; openmp by the function that runs its regions. */
void pf_team_choose_threads(void);
void pf_team_choose_openmp(pf_region_fn run);

/* The team in use. */
const char *pf_team_name(void);

/* CPUs that this process may use: affinity mask, cgroup quota, OMP_NUM_THREADS; 1 to PF_MOST_THREADS. */
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
static inline void pf_wait_turn(unsigned spins) {
    enum { PF_LOOKS = 2000 };
    if (spins < PF_LOOKS)
        pf_pause();
    else
        sched_yield();
}

#endif
