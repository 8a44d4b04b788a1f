/* The thread team over POSIX threads. Callers put their regions into one list; helpers take part in the first
 * region that wants members, look for the next one for a moment, then sleep. */
#define _GNU_SOURCE
#include "base/team_threads.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef __linux__
#    include <linux/futex.h>
#    include <sys/syscall.h>
#    include <unistd.h>
#endif

#include "base/turns.h"

/* How often a helper looks for work, and a caller for the end of its region, before it sleeps: some ten
 * microseconds, about what waking takes. */
enum { PF_SPINS = 2000, PF_MOST_HELPERS = PF_MOST_THREADS - 1, PF_SEATS = 64, PF_CALLER_SLEEPS = 1 << 30 };

#ifdef __linux__
void pf_sleep(const int32_t *word, int32_t value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void pf_wake(const int32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

static void renew_sleep(void) {}
#else
/* One condition for all words: who sleeps on another one wakes early. */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;

void pf_sleep(const int32_t *word, int32_t value) {
    pthread_mutex_lock(&sleep_lock);
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) pthread_cond_wait(&woken, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

void pf_wake(const int32_t *word) {
    (void)word;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&woken);
    pthread_mutex_unlock(&sleep_lock);
}

static void renew_sleep(void) {
    pthread_mutex_init(&sleep_lock, NULL);
    pthread_cond_init(&woken, NULL);
}
#endif

typedef struct pf_team_region {
    pf_team_fn fn;
    void *context;
    int nthreads, joined; /* joined: members so far, the caller included */
    uint64_t returned;    /* seats of members that gave way, a bit each; seats beyond PF_SEATS are lost */
    bool closed;          /* wants nobody any more */
    int32_t active;       /* helpers inside, and PF_CALLER_SLEEPS */
    int32_t forks;        /* of the process when it began */
    struct pf_team_region *next;
} region;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static region *regions;    /* that still want members, oldest first */
static int helpers;        /* threads that exist */
static int idle;           /* of them, without a region */
static int32_t generation; /* grows with every region; idle helpers sleep on it */
static int32_t sleeping;   /* helpers that sleep or are about to */
static int32_t forks;      /* that led to this process */

static void leave_list(region *r) {
    for (region **at = &regions; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            return;
        }
    }
}

/* Joins the oldest region that wants a member; the lock is held. */
static region *join(int *tid) {
    region *r = regions;
    if (!r) return NULL;
    if (r->returned) {
        *tid = __builtin_ctzll(r->returned);
        r->returned &= r->returned - 1;
    } else {
        *tid = r->joined++;
    }
    __atomic_fetch_add(&r->active, 1, __ATOMIC_RELAXED);
    if (r->joined == r->nthreads && !r->returned) leave_list(r);
    idle--;
    return r;
}

/* Puts a region, which is in no list, at the end of the list; the lock is held. */
static void enter_list(region *r) {
    region **end = &regions;
    while (*end) end = &(*end)->next;
    r->next = NULL;
    *end = r;
}

/* Offers the seat of a member that gave way to the next one; the lock is held. */
static void return_seat(region *r, int tid) {
    if (r->closed || tid >= PF_SEATS) return;
    if (r->joined == r->nthreads && !r->returned) enter_list(r);
    r->returned |= UINT64_C(1) << tid;
}

static void wait_for_region(int32_t seen) {
    for (int spins = 0; spins < PF_SPINS; spins++) {
        if (__atomic_load_n(&generation, __ATOMIC_ACQUIRE) != seen) return;
        pf_pause();
    }
    __atomic_fetch_add(&sleeping, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&generation, __ATOMIC_SEQ_CST) == seen) pf_sleep(&generation, seen);
    pf_turn_begin();
    __atomic_fetch_sub(&sleeping, 1, __ATOMIC_SEQ_CST);
}

static void *helper(void *unused) {
    (void)unused;
    pf_turn_begin();
    pthread_mutex_lock(&lock);
    for (;;) {
        int tid;
        region *r = join(&tid);
        if (!r) {
            const int32_t seen = __atomic_load_n(&generation, __ATOMIC_RELAXED);
            pthread_mutex_unlock(&lock);
            wait_for_region(seen);
            pthread_mutex_lock(&lock);
            continue;
        }
        pthread_mutex_unlock(&lock);
        const bool gives_way = r->fn(r->context, tid, r->nthreads);
        pthread_mutex_lock(&lock);
        if (gives_way) return_seat(r, tid);
        /* The region is its caller's: after this it may be gone, only its address may be used. */
        const int32_t *active = &r->active;
        if (__atomic_sub_fetch(&r->active, 1, __ATOMIC_ACQ_REL) == PF_CALLER_SLEEPS) pf_wake(active);
        if (gives_way) {
            pthread_mutex_unlock(&lock);
            pf_turn_rest();
            pthread_mutex_lock(&lock);
        }
        idle++;
    }
    return NULL;
}

/* Kernels keep blocks of a hundred kilobytes on the stack, more than some systems give a thread. */
enum { LEAST_STACK = 1 << 20 };

/* Helpers never run signal handlers; those are the business of the program's own threads. */
static void start_helper(void) {
    size_t stack = 0;
    pthread_t thread;
    pthread_attr_t attributes;
    sigset_t all, before;
    if (pthread_attr_init(&attributes)) return;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_attr_getstacksize(&attributes, &stack) == 0 && stack < LEAST_STACK)
        pthread_attr_setstacksize(&attributes, LEAST_STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &attributes, helper, NULL) == 0) helpers++, idle++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
}

/* A child process has no helpers and nobody else's regions; the lock may have been taken by a thread that it
 * lacks. */
static void after_fork_in_child(void) {
    pthread_mutex_init(&lock, NULL);
    renew_sleep();
    regions = NULL;
    helpers = idle = 0;
    sleeping = 0;
    forks++;
}

static void install_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

static void open_region(region *r) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handler);
    pthread_mutex_lock(&lock);
    while (helpers < r->nthreads - 1 && helpers < PF_MOST_HELPERS) {
        const int before = helpers;
        start_helper();
        if (helpers == before) break;
    }
    r->forks = forks;
    enter_list(r);
    const int wanted = idle > 0;
    __atomic_fetch_add(&generation, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&lock);
    if (wanted && __atomic_load_n(&sleeping, __ATOMIC_SEQ_CST)) pf_wake(&generation);
}

static void close_region(region *r) {
    pthread_mutex_lock(&lock);
    leave_list(r);
    r->closed = true;
    pthread_mutex_unlock(&lock);
    for (int spins = 0; spins < PF_SPINS; spins++) {
        if (__atomic_load_n(&r->active, __ATOMIC_ACQUIRE) == 0) return;
        pf_pause();
    }
    int32_t active = __atomic_or_fetch(&r->active, PF_CALLER_SLEEPS, __ATOMIC_ACQ_REL);
    while (active != PF_CALLER_SLEEPS) {
        pf_sleep(&r->active, active);
        active = __atomic_load_n(&r->active, __ATOMIC_ACQUIRE);
    }
}

void pf_threads_run(pf_team_fn fn, void *context, int nthreads) {
    region r = {.fn = fn, .context = context, .nthreads = nthreads, .joined = 1};
    open_region(&r);
    fn(context, 0, nthreads);
    close_region(&r);
}

pf_team_region *pf_threads_begin(pf_team_fn fn, void *context, int nthreads) {
    region *r = malloc(sizeof *r);
    if (!r) return NULL;
    *r = (region){.fn = fn, .context = context, .nthreads = nthreads, .joined = 1};
    open_region(r);
    return r;
}

bool pf_team_end(region *r) {
    const bool here = r->forks == forks;
    if (here) {
        r->fn(r->context, 0, r->nthreads);
        close_region(r);
    }
    free(r);
    return here;
}
