/* The interpreter loop of a program. */
#define _GNU_SOURCE
#include "exec/program.h"

#include <stdlib.h>
#include <time.h>

#include "base/team.h"

typedef struct run_context {
    const pf_step *steps;
    int64_t count;
    char *const *bases;
    int64_t *clock;
    int64_t *counters; /* one per step, a cache line apart */
    pf_fault *fault;
    pf_barrier barrier;
} run_context;

enum { PF_LINE = 8, PF_LOCAL_STEPS = 16 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void run_member(void *p, int tid, int nthreads) {
    run_context *c = p;
    pf_worker w = {.tid = tid, .nthreads = nthreads, .bases = c->bases, .fault = c->fault};
    pf_worker alone = {.tid = 0, .nthreads = 1, .bases = c->bases, .fault = c->fault};
    for (int64_t i = 0; i < c->count; i++) {
        const pf_step *s = &c->steps[i];
        if (c->clock && tid == 0) c->clock[i] = now_ns();
        pf_worker *me = s->serial ? &alone : &w;
        me->next = &c->counters[i * PF_LINE];
        me->step = i;
        if (!s->serial || tid == 0) s->run(s->args, me);
        if (!s->free || c->clock) pf_barrier_wait(&c->barrier, nthreads);
    }
    if (c->clock && tid == 0) c->clock[c->count] = now_ns();
}

int pf_run_steps(const pf_step *steps, int64_t count, char *const *bases, int nthreads, int64_t *clock,
                 pf_fault *fault) {
    int64_t local[PF_LOCAL_STEPS * PF_LINE] = {0};
    int64_t *counters = local;
    if (count > PF_LOCAL_STEPS) {
        counters = calloc((size_t)count * PF_LINE, sizeof *counters);
        if (!counters) return -1;
    }
    *fault = (pf_fault){PF_FAULT_NONE, 0, 0, 0};
    run_context c = {
        .steps = steps, .count = count, .bases = bases, .clock = clock, .counters = counters, .fault = fault};
    pf_team_run(run_member, &c, nthreads);
    if (counters != local) free(counters);
    return 0;
}
