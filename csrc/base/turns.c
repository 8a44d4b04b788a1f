/* Turns of helpers, by the clocks of Linux. Elsewhere they never end. */
#define _GNU_SOURCE
#include "base/turns.h"

#include <sched.h>

/* Of a thread whose CPU nobody knows; that of CPU n is PLACES + n. */
enum { NOWHERE = 1, PLACES = 2 };

#ifdef __linux__

#    include <fcntl.h>
#    include <stdio.h>
#    include <sys/resource.h>
#    include <time.h>
#    include <unistd.h>

/* Nanoseconds. TURN: work between rests, less than a slice of the scheduler. LOST: without the CPU, more than
 * the system's own threads take. LATE: of waking on a CPU that somebody else uses. */
enum { TURN = 1000000, REST = 1000000, LOST = 500000, LATE = 300000, BETWEEN_MOVES = 4000000 };

/* How long a caller watches at least; which share of the time it may lose; how long helpers rest then. */
enum { WATCH = 30000000, LOST_SHARE = 6, LONG_REST = 100000000 };

/* A thread rests between its turns until so many wakings in a row were prompt: after a late one,
 * and after what system threads may cause as well. Beside a competitor, too, every other waking may be
 * prompt. */
enum { CERTAIN = 32, SUSPECTED = 6 };

typedef struct turn {
    int64_t begin;  /* time stamps: of the turn, 0 for threads that take none; */
    int64_t moved;  /* of the last move; */
    int64_t tick;   /* and when the scheduler passed the CPU on to this thread */
    int64_t waited; /* time_waited, and how often another thread was preferred, when the turn began */
    int64_t interruptions;
    int64_t rested; /* so far */
    int wary;       /* prompt wakings still wanted */
    bool crowded;
    cpu_set_t others; /* where others are, if crowded */
} turn;

static _Thread_local turn own;
static int64_t hopeless; /* until then, helpers that know of competitors rest */

static int64_t now_on(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* How long this thread has been ready to run so far while other threads of this system were running. Where
 * that is unknown, how long it has not run: then the host of a virtual machine that gives its CPU to another
 * one looks like a competitor, beside whom short turns help. */
static int64_t time_waited(int64_t now) {
    char text[64];
    long long ran, waited = -1;
    const int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (file >= 0) {
        const ssize_t n = read(file, text, sizeof text - 1);
        text[n > 0 ? n : 0] = 0;
        if (sscanf(text, "%lld %lld", &ran, &waited) != 2) waited = -1;
        close(file);
    }
    return waited >= 0 ? waited : now - own.rested - now_on(CLOCK_THREAD_CPUTIME_ID);
}

/* Begins a turn; tells whether the last one was interrupted. */
static bool next_turn(int64_t now) {
    struct rusage r;
    if (getrusage(RUSAGE_THREAD, &r)) return false;
    const int64_t waited = time_waited(now);
    const bool interrupted = own.begin && r.ru_nivcsw != own.interruptions && waited - own.waited > LOST;
    own.begin = now;
    own.waited = waited;
    own.interruptions = r.ru_nivcsw;
    return interrupted;
}

/* Whether the scheduler is about to look whose turn it is, which it does with a fixed period. */
static bool tick_is_near(int64_t now) {
    struct timespec period;
    if (!own.tick || clock_getres(CLOCK_MONOTONIC_COARSE, &period) || period.tv_nsec <= 0) return false;
    return period.tv_nsec - (now - own.tick) % period.tv_nsec < period.tv_nsec / 8;
}

/* Notes where the others are if one of them is here. */
static bool is_crowded(int32_t place, const int32_t *others, int count) {
    own.crowded = false;
    for (int i = 0; i < count && place != NOWHERE; i++)
        if (__atomic_load_n(&others[i], __ATOMIC_RELAXED) == place) own.crowded = true;
    if (!own.crowded) return false;
    CPU_ZERO(&own.others);
    for (int i = 0; i < count; i++) {
        const int32_t cpu = __atomic_load_n(&others[i], __ATOMIC_RELAXED) - PLACES;
        if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET((size_t)cpu, &own.others);
    }
    return true;
}

/* Leaves the CPU to the others; returns false if there is none to go to, or after a move just now. The
 * scheduler does not tell a thread that others wait for from one that is of no use where it is, so that this
 * takes a change of the CPUs that the thread may use, which is undone as soon as it is there. */
static bool move(int64_t now) {
    cpu_set_t all, free;
    if (now - own.moved < BETWEEN_MOVES || sched_getaffinity(0, sizeof all, &all)) return false;
    CPU_AND(&free, &all, &own.others);
    CPU_XOR(&free, &free, &all);
    if (!CPU_COUNT(&free) || sched_setaffinity(0, sizeof free, &free)) return false;
    own.moved = now;
    /* It may have taken a while until the other CPU was free; somebody may have chosen CPUs meanwhile. */
    cpu_set_t still;
    if (!sched_getaffinity(0, sizeof still, &still) && CPU_EQUAL(&still, &free))
        sched_setaffinity(0, sizeof all, &all);
    return true;
}

void pf_turn_begin(void) { next_turn(now_on(CLOCK_MONOTONIC)); }

int32_t pf_turn_place(void) {
    const int cpu = sched_getcpu();
    return cpu < 0 ? NOWHERE : PLACES + cpu;
}

bool pf_turn_over(int32_t place, const int32_t *others, int count) {
    if (!own.begin) return false;
    if (is_crowded(place, others, count)) return true;
    const int64_t now = now_on(CLOCK_MONOTONIC);
    const bool full = now - own.begin >= TURN;
    if (own.wary > 0) return full || tick_is_near(now) || now < __atomic_load_n(&hopeless, __ATOMIC_RELAXED);
    if (full && next_turn(now)) own.wary = SUSPECTED;
    return false;
}

void pf_turn_watch(void) {
    const turn last = own;
    const int64_t now = now_on(CLOCK_MONOTONIC), time = now - last.begin;
    if (time < WATCH) return;
    next_turn(now);
    const int64_t lost = own.waited - last.waited;
    if (last.begin && own.interruptions - last.interruptions > time / WATCH && lost > time / LOST_SHARE)
        __atomic_store_n(&hopeless, now + LONG_REST, __ATOMIC_RELAXED);
}

void pf_turn_rest(void) {
    const int64_t begin = now_on(CLOCK_MONOTONIC), waited = time_waited(begin);
    if (own.crowded && own.wary < SUSPECTED) own.wary = SUSPECTED;
    const int64_t pause = __atomic_load_n(&hopeless, __ATOMIC_RELAXED) - begin;
    if (pause > 0 || !own.crowded || !move(begin)) {
        const int64_t rest = pause > REST ? pause : REST;
        nanosleep(&(struct timespec){0, rest}, NULL);
        own.rested += rest;
    }
    const int64_t end = now_on(CLOCK_MONOTONIC);
    next_turn(end);
    if (own.waited - waited > LATE) {
        own.wary = CERTAIN;
        own.tick = end;
    } else if (own.wary > 0) {
        own.wary--;
    }
}

#else

void pf_turn_begin(void) {}

int32_t pf_turn_place(void) { return NOWHERE; }

bool pf_turn_over(int32_t place, const int32_t *others, int count) {
    (void)place, (void)others, (void)count;
    return false;
}

void pf_turn_watch(void) {}

void pf_turn_rest(void) { sched_yield(); }

#endif
