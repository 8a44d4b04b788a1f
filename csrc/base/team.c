/* Thread team over OpenMP, or serial when the compiler has none. This is the only file that knows OpenMP. */
#define _GNU_SOURCE
#include "base/team.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef PF_HAVE_OPENMP
#    include <omp.h>
#    include <pthread.h>
#    include <stdatomic.h>
#endif

#if defined(__x86_64__) || defined(__i386__)
#    define pf_pause() __builtin_ia32_pause()
#elif defined(__aarch64__)
#    define pf_pause() __asm__ volatile("yield")
#else
#    define pf_pause() ((void)0)
#endif

enum { PF_SPINS = 2000 };

void pf_barrier_wait(pf_barrier *b, int nthreads) {
    if (nthreads == 1) return;
    const int32_t phase = b->phase;
    if (__atomic_add_fetch((int32_t *)&b->arrived, 1, __ATOMIC_ACQ_REL) == nthreads) {
        b->arrived = 0;
        b->phase = phase + 1;
        return;
    }
    /* A partner that lost its CPU would make us burn its time slice: spin briefly, then give the CPU away. */
    for (int spins = 0; __atomic_load_n((int32_t *)&b->phase, __ATOMIC_ACQUIRE) == phase; spins++) {
        if (spins < PF_SPINS)
            pf_pause();
        else
            sched_yield();
    }
}

static int cgroup_limit(void) {
    long long quota, period;
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    if (!f) return 0;
    const int n = fscanf(f, "%lld %lld", &quota, &period);
    fclose(f);
    return n == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period) : 0;
}

int pf_team_default_threads(void) {
#ifdef PF_HAVE_OPENMP
    int n = omp_get_num_procs();
    const char *text = getenv("OMP_NUM_THREADS");
    const int wanted = text ? atoi(text) : 0;
    if (wanted > 0 && wanted < n) n = wanted;
    const int quota = cgroup_limit();
    if (quota > 0 && quota < n) n = quota;
    return n > 0 ? n : 1;
#else
    (void)cgroup_limit;
    return 1;
#endif
}

#ifdef PF_HAVE_OPENMP

const char *pf_team_name(void) { return "openmp"; }

static void run_region(pf_team_fn fn, void *context, int nthreads) {
#    pragma omp parallel num_threads(nthreads)
    fn(context, omp_get_thread_num(), omp_get_num_threads());
}

/* After fork the calling thread's OpenMP team refers to threads that do not exist in the child; a region
 * would wait for them for ever. A fresh thread has no team yet, so the child runs its regions from one. */
static _Atomic int forked;
static _Atomic int used;

static void after_fork_in_child(void) {
    if (used) forked = 1;
}

typedef struct region {
    pf_team_fn fn;
    void *context;
    int nthreads;
} region;

static void *leader(void *p) {
    const region *r = p;
    run_region(r->fn, r->context, r->nthreads);
    return NULL;
}

static void install_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

void pf_team_run(pf_team_fn fn, void *context, int nthreads) {
    if (nthreads <= 1) {
        fn(context, 0, 1);
        return;
    }
    if (!used) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, install_fork_handler);
        used = 1;
    }
    pthread_t thread;
    region r = {fn, context, nthreads};
    if (!forked) {
        run_region(fn, context, nthreads);
    } else if (pthread_create(&thread, NULL, leader, &r) == 0) {
        pthread_join(thread, NULL);
    } else {
        fn(context, 0, 1);
    }
}

#else

const char *pf_team_name(void) { return "serial"; }

void pf_team_run(pf_team_fn fn, void *context, int nthreads) {
    (void)nthreads;
    fn(context, 0, 1);
}

#endif
