/* Which kind of team runs the regions. */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/team_threads.h"

typedef struct team {
    const char *name;
    pf_region_fn run;
    pf_team_region *(*begin)(pf_team_fn fn, void *context, int nthreads); /* NULL: not without the caller */
} team;

static const team threads = {"threads", pf_threads_run, pf_threads_begin};
static team openmp = {"openmp", NULL, NULL};
static const team *chosen = &threads;

void pf_team_choose_threads(void) { __atomic_store_n(&chosen, &threads, __ATOMIC_RELEASE); }

/* After fork OpenMP's runtime waits for threads that the child does not have; the other team, which knows how
 * to begin anew, runs what the child does from then on. */
static bool forked;

static void after_fork_in_child(void) {
    forked = true;
    pf_team_choose_threads();
}

static void install_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

void pf_team_choose_openmp(pf_region_fn run) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handler);
    if (forked) return;
    /* Others may run regions meanwhile: a function that was chosen before. */
    __atomic_store_n(&openmp.run, run, __ATOMIC_RELAXED);
    __atomic_store_n(&chosen, &openmp, __ATOMIC_RELEASE);
}

const char *pf_team_name(void) { return __atomic_load_n(&chosen, __ATOMIC_ACQUIRE)->name; }

void pf_team_run(pf_team_fn fn, void *context, int nthreads) {
    if (nthreads <= 1) {
        fn(context, 0, 1);
    } else {
        const team *kind = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
        __atomic_load_n(&kind->run, __ATOMIC_RELAXED)(fn, context, nthreads);
    }
}

pf_team_region *pf_team_begin(pf_team_fn fn, void *context, int nthreads) {
    const team *kind = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    return nthreads > 1 && kind->begin ? kind->begin(fn, context, nthreads) : NULL;
}
