/* Programs on the thread team without Python: several callers at once run steps of all modes, a user's
 * operator among them, over plain memory, so that ThreadSanitizer sees every missing order between them. Exit
 * code 0: all results are right. With the argument "race" it races on purpose, with "clock" it measures known
 * work beside busy threads, with "choose" the kind of team changes meanwhile. Knows no kernels. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/team.h"
#include "exec/native.h"
#include "exec/program.h"

enum { ITEMS = 4096, CALLERS = 3, RUNS = 60, ROWS = 64 };
enum { PIECES = 8, PIECE = 10000, TIMED_STEPS = 12, TIMED_RUNS = 60, BUSY = 3, MEMBERS = 2, CHOICES = 300 };

typedef struct memory {
    int32_t x[ITEMS], doubled[ITEMS], other[ITEMS], summed[ITEMS], native[ITEMS];
    int64_t total;
} memory;

static memory *memory_of(const pf_worker *w) { return (memory *)w->bases[1]; }

/* Pieces claimed from the step's counter. */
static void twice(const void *args, const pf_worker *w) {
    memory *m = memory_of(w);
    (void)args;
    for (int64_t begin; (begin = pf_claim(w, 100)) < ITEMS;)
        for (int64_t i = begin; i < pf_min(begin + 100, ITEMS); i++) m->doubled[i] = 2 * m->x[i];
}

/* Shares by thread number; does not depend on `twice`. */
static void plus_one(const void *args, const pf_worker *w) {
    memory *m = memory_of(w);
    int64_t begin, end;
    (void)args;
    pf_share(w, ITEMS, 16, &begin, &end);
    for (int64_t i = begin; i < end; i++) m->other[i] = m->x[i] + 1;
}

static void add(const void *args, const pf_worker *w) {
    memory *m = memory_of(w);
    int64_t begin, end;
    (void)args;
    pf_share(w, ITEMS, 64, &begin, &end);
    for (int64_t i = begin; i < end; i++) m->summed[i] = m->doubled[ITEMS - 1 - i] + m->other[ITEMS - 1 - i];
}

static void total(const void *args, const pf_worker *w) {
    memory *m = memory_of(w);
    (void)args;
    m->total = 0;
    for (int64_t i = 0; i < ITEMS; i++) m->total += m->native[i];
}

/* A step without bases, for runs that helpers begin alone. Each row is claimed once, near or far. */
static void count_up(const void *args, const pf_worker *w) {
    int32_t *out = (int32_t *)(uintptr_t)args;
    for (int64_t row, n; (row = pf_claim_some(w, ROWS, 5, 1, &n)) < ROWS;)
        for (int64_t i = row * ITEMS / ROWS; i < (row + n) * ITEMS / ROWS; i++) out[i] += (int32_t)i;
}

/* One row of the operator's work. */
static void rows(void *context, int64_t begin, int64_t end) {
    const pf_op_tensor *tensors = context;
    const int32_t *x = tensors[0].data;
    int32_t *y = tensors[1].data;
    for (int64_t i = begin * ITEMS / ROWS; i < end * ITEMS / ROWS; i++) y[i] += x[i];
}

static int operator_run(void *state, const pf_op_tensor *inputs, int32_t ninputs, const pf_op_tensor *outputs,
                        int32_t noutputs, const pf_op_host *host) {
    pf_op_tensor both[2] = {inputs[0], outputs[0]};
    (void)state, (void)ninputs, (void)noutputs;
    memset(outputs[0].data, 0, ITEMS * sizeof(int32_t));
    for (int loop = 0; loop < 3; loop++) host->parallel_for(host, ROWS, 1 + loop, rows, both);
    return 0;
}

static pf_native_args *operator_args(void) {
    pf_native_args *a = calloc(1, sizeof *a + 2 * sizeof *a->tensors);
    if (!a) exit(2);
    *a = (pf_native_args){.run = operator_run, .scratch = {-1, 0}, .ninputs = 1, .noutputs = 1};
    for (int i = 0; i < 2; i++) {
        const int64_t offset = (int64_t)(i ? offsetof(memory, native) : offsetof(memory, summed));
        a->tensors[i] = (pf_native_tensor){.data = {1, offset}, .shape = {ITEMS}, .strides = {1}, .rank = 1};
        a->tensors[i].dtype = PF_OP_I32;
    }
    return a;
}

static const pf_native_args *op;
static int wrong;

static void *caller(void *p) {
    const int nthreads = 2 + (int)(intptr_t)p;
    memory *m = malloc(sizeof *m);
    char *bases[2] = {NULL, (char *)m};
    const pf_step steps[] = {{.run = twice, .mode = PF_STEP_TEAM, .free = 1},
                             {.run = plus_one, .mode = PF_STEP_TEAM},
                             {.run = add, .mode = PF_STEP_TEAM},
                             {.run = pf_native_step, .args = op, .mode = PF_STEP_GANG},
                             {.run = total, .mode = PF_STEP_SERIAL}};
    const pf_step early[] = {{.run = count_up, .mode = PF_STEP_TEAM, .free = 1},
                             {.run = count_up, .mode = PF_STEP_SERIAL, .free = 1}};
    if (!m) exit(2);
    for (int run = 0; run < RUNS; run++) {
        pf_fault fault;
        pf_step begun[2] = {early[0], early[1]};
        begun[0].args = memset(m->doubled, 0, sizeof m->doubled);
        begun[1].args = memset(m->other, 0, sizeof m->other);
        pf_pending *pending = pf_begin_steps(begun, 2, nthreads);
        for (int i = 0; i < ITEMS; i++) m->x[i] = i + run;
        while (run % 2 && pending && !pf_steps_over(pending)) sched_yield();
        if (!pending || pf_end_steps(pending, &fault)) exit(2);
        for (int i = 0; i < ITEMS; i++)
            if (m->doubled[i] != i || m->other[i] != i) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
        const int failed = pf_run_steps(steps, sizeof steps / sizeof *steps, bases, nthreads, NULL, &fault);
        int64_t wanted = 0;
        for (int i = 0; i < ITEMS; i++) wanted += 3 * (3 * (int64_t)(i + run) + 1);
        if (failed || fault.code || m->total != wanted) __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED);
    }
    free(m);
    return NULL;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Pieces that take a known time at least. */
static void pass_time(const void *args, const pf_worker *w) {
    (void)args;
    while (pf_claim(w, 1) < PIECES)
        for (const int64_t end = now_ns() + PIECE; now_ns() < end;) continue;
}

static void *busy(void *over) {
    while (!__atomic_load_n((int *)over, __ATOMIC_RELAXED)) continue;
    return NULL;
}

/* Whatever CPUs the members lose, no step can be faster than all of them together. */
static int check_clock(void) {
    pthread_t threads[BUSY];
    pf_step steps[TIMED_STEPS];
    char *bases[1] = {NULL};
    int64_t clock[TIMED_STEPS + 1];
    int over = 0, bad = 0;
    for (int i = 0; i < TIMED_STEPS; i++)
        steps[i] =
            (pf_step){.run = pass_time, .mode = i % 4 ? PF_STEP_TEAM : PF_STEP_SERIAL, .free = i % 3 == 1};
    for (int i = 0; i < BUSY; i++)
        if (pthread_create(&threads[i], NULL, busy, &over)) return 2;
    for (int run = 0; run < TIMED_RUNS; run++) {
        pf_fault fault;
        const int64_t begin = now_ns();
        if (pf_run_steps(steps, TIMED_STEPS, bases, MEMBERS, clock, &fault)) return 2;
        bad += clock[0] < begin || clock[TIMED_STEPS] > now_ns();
        for (int i = 0; i < TIMED_STEPS; i++)
            bad += clock[i + 1] - clock[i] < PIECES * PIECE / (i % 4 ? MEMBERS : 1);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < BUSY; i++) pthread_join(threads[i], NULL);
    if (bad) printf("%d impossible times\n", bad);
    return bad != 0;
}

/* A team of one, in OpenMP's place: its runtime is not made with ThreadSanitizer. */
static void run_alone(pf_team_fn fn, void *context, int nthreads) { fn(context, 0, nthreads); }

static void *choose(void *over) {
    for (int i = 0; i < CHOICES; i++) {
        pf_team_choose_openmp(run_alone);
        sched_yield();
        if (i % 2) pf_team_choose_threads();
    }
    __atomic_store_n((int *)over, 1, __ATOMIC_RELAXED);
    return NULL;
}

static bool count_in(void *context, int tid, int nthreads) {
    (void)nthreads;
    if (tid == 0) ++*(int *)context;
    return false;
}

static int check_choice(void) {
    pthread_t thread;
    int over = 0, wanted = 0, members = 0;
    if (pthread_create(&thread, NULL, choose, &over)) return 2;
    for (; !__atomic_load_n(&over, __ATOMIC_RELAXED); wanted++) pf_team_run(count_in, &members, MEMBERS);
    pthread_join(thread, NULL);
    return members != wanted;
}

static bool race(void *context, int tid, int nthreads) {
    (void)nthreads;
    for (int i = 0; i < 100000; i++) *(volatile int *)context += tid + 1;
    return false;
}

int main(int argc, char **argv) {
    pthread_t threads[CALLERS];
    pf_team_choose_threads();
    if (argc > 1 && !strcmp(argv[1], "race")) {
        int counter = 0;
        for (int run = 0; run < 100; run++) pf_team_run(race, &counter, 2);
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "clock")) return check_clock();
    if (argc > 1 && !strcmp(argv[1], "choose")) return check_choice();
    op = operator_args();
    for (intptr_t i = 0; i < CALLERS; i++)
        if (pthread_create(&threads[i], NULL, caller, (void *)i)) return 2;
    for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
    free((void *)(uintptr_t)op);
    if (wrong) puts("wrong results");
    return wrong;
}
