/* Runs the steps of a program on the members of a team, none of which the others can count on: a member may
 * come late, never, or lose its CPU to another process.
 *
 * A step consists of shares, one a member. Each member runs its own, then those of members that do not show
 * up, and goes on when all shares of the group are done. Within shares, most kernels claim small pieces of
 * the work from the step's counter, so that a share taken over late is empty. A group ends at a step whose
 * result the next one needs. */
#define _GNU_SOURCE
#include "exec/program.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/team.h"
#include "base/turns.h"

/* A cache line that one member alone writes as long as there are few and all keep up: a range of items has
 * the counter, and bits tell whether somebody runs a share, of every PF_RANGES-th one. */
typedef struct range_state {
    int64_t counter; /* for the kernel: see pf_claim_near */
    uint64_t taken[PF_RANGE_WORDS - 1];
} range_state;

/* What members of a run share about one step: two cache lines, so that those who wait do not disturb those
 * who claim work, then a line of each range. */
typedef struct step_state {
    int64_t counter[PF_COUNTERS]; /* for the kernel: see pf_claim */
    int32_t done;                 /* shares of the group that are over, counted at the group's last step */
    int32_t gang;                 /* members of a gang so far, and GANG_CLOSED */
    int32_t members;              /* of the gang, once it is closed */
    int32_t left;                 /* members of the gang that are through */
    int32_t unused[12];
    range_state ranges[];
} step_state;

typedef struct run_context {
    const pf_step *steps;
    int64_t count;
    char *const *bases;
    int64_t *clock;
    char *states;
    size_t stride;
    pf_fault *fault;
    int nthreads;
    int32_t sleepers;
    int32_t *places; /* of members that took part lately and did not sleep since; else ABSENT */
} run_context;

/* SPINS: how often to look before sleeping, some hundred microseconds. PATIENCE: how often before a member
 * that is expected counts as lost, some microseconds. */
enum { SPINS = 4000, PATIENCE = 100, GANG_CLOSED = 1 << 30, LINE = 64, ABSENT = 0 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static step_state *state_of(const run_context *c, int64_t step) {
    return (step_state *)(c->states + (size_t)step * c->stride);
}

static int shares_of(const run_context *c, const pf_step *s) {
    return s->mode == PF_STEP_TEAM ? c->nthreads : 1;
}

static int32_t load(const int32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

_Static_assert(PF_MOST_THREADS <= PF_RANGES * (PF_RANGE_WORDS - 1) * 64, "every share has a bit of its own");

/* The word and the bit that tell whether a share is taken. */
static uint64_t *taken_word(step_state *state, int share, uint64_t *bit) {
    enum { WORD = 64 };
    const int number = share / PF_RANGES;
    *bit = (uint64_t)1 << number % WORD;
    return &state->ranges[share % PF_RANGES].taken[number / WORD];
}

static bool is_taken(step_state *state, int share) {
    uint64_t bit;
    return __atomic_load_n(taken_word(state, share, &bit), __ATOMIC_RELAXED) & bit;
}

static bool take(step_state *state, int share) {
    uint64_t bit, *word = taken_word(state, share, &bit);
    return !(__atomic_load_n(word, __ATOMIC_RELAXED) & bit) &&
           !(__atomic_fetch_or(word, bit, __ATOMIC_ACQ_REL) & bit);
}

/* The run begins with its first member. */
static void start_clock(int64_t *clock) {
    int64_t unknown = 0;
    __atomic_compare_exchange_n(clock, &unknown, now_ns(), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

/* With a clock a group is one step, which ends when its last share does, whoever runs that: the latest stamp
 * counts. It is taken before the share is counted, so that nobody has begun the next step by then. */
static void stamp(int64_t *clock) {
    const int64_t now = now_ns();
    int64_t before = __atomic_load_n(clock, __ATOMIC_RELAXED);
    while (before < now &&
           !__atomic_compare_exchange_n(clock, &before, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

static void finish(run_context *c, int64_t i, step_state *last, int32_t wanted) {
    if (c->clock) stamp(&c->clock[i + 1]);
    if (__atomic_add_fetch(&last->done, 1, __ATOMIC_SEQ_CST) == wanted &&
        __atomic_load_n(&c->sleepers, __ATOMIC_SEQ_CST))
        pf_wake(&last->done);
}

/* Waits until a word has a value; members that sleep are not counted upon meanwhile. */
static void wait_until(run_context *c, const int32_t *word, int32_t wanted, int tid) {
    int32_t v;
    for (unsigned spins = 0; spins < SPINS; spins++) {
        if (load(word) == wanted) return;
        pf_pause();
    }
    __atomic_store_n(&c->places[tid], ABSENT, __ATOMIC_RELAXED);
    __atomic_fetch_add(&c->sleepers, 1, __ATOMIC_SEQ_CST);
    while ((v = __atomic_load_n(word, __ATOMIC_SEQ_CST)) != wanted) pf_sleep(word, v);
    __atomic_fetch_sub(&c->sleepers, 1, __ATOMIC_SEQ_CST);
}

static void run_share(run_context *c, int64_t i, int share, int shares) {
    step_state *state = state_of(c, i);
    pf_worker w = {.tid = share,
                   .nthreads = shares,
                   .bases = c->bases,
                   .next = state->counter,
                   .ranges = &state->ranges[0].counter,
                   .step = i,
                   .fault = c->fault,
                   .ahead = c->steps[i].ahead};
    c->steps[i].run(c->steps[i].args, &w);
}

/* A kernel whose members wait for each other: all take part who are here when the first one closes the door.
 */
static void run_gang(run_context *c, int64_t i, step_state *last, int32_t wanted) {
    step_state *state = state_of(c, i);
    const int32_t rank = __atomic_fetch_add(&state->gang, 1, __ATOMIC_ACQ_REL);
    if (rank & GANG_CLOSED) return;
    if (rank == 0) {
        for (unsigned spins = 0; spins < 8 * PATIENCE && load(&state->gang) < c->nthreads; spins++)
            pf_pause();
        const int32_t members = __atomic_fetch_or(&state->gang, GANG_CLOSED, __ATOMIC_ACQ_REL);
        __atomic_store_n(&state->members, members, __ATOMIC_RELEASE);
    }
    for (unsigned spins = 0; load(&state->members) == 0; spins++) pf_wait_turn(spins);
    const int32_t members = load(&state->members);
    run_share(c, i, rank, members);
    if (__atomic_add_fetch(&state->left, 1, __ATOMIC_ACQ_REL) == members) finish(c, i, last, wanted);
}

/* Runs a share of each step of a group, if nobody else has. */
static void run_group(run_context *c, int64_t begin, int64_t end, int share, step_state *last,
                      int32_t wanted) {
    for (int64_t i = begin; i < end; i++) {
        const pf_step *s = &c->steps[i];
        const int shares = shares_of(c, s);
        if (share >= shares || !take(state_of(c, i), share)) continue;
        run_share(c, i, share, shares);
        finish(c, i, last, wanted);
    }
}

/* Runs the shares of members that are not here: at once for those who have been lost before, else with
 * patience. */
static void stand_in(run_context *c, int64_t begin, int64_t end, int tid, step_state *last, int32_t wanted) {
    for (int other = 0; other < c->nthreads; other++) {
        if (other == tid) continue;
        const int32_t *place = &c->places[other];
        for (unsigned spins = 0; spins < PATIENCE && __atomic_load_n(place, __ATOMIC_RELAXED); spins++) {
            if (load(&last->done) == wanted) return;
            if (is_taken(state_of(c, begin), other)) break;
            pf_pause();
        }
        if (load(&last->done) == wanted) return;
        run_group(c, begin, end, other, last, wanted);
    }
}

/* Whether a helper should rest before the next group; then it is absent. */
static bool gives_way(run_context *c, int tid) {
    const int32_t place = pf_turn_place();
    const bool rests = tid > 0 && pf_turn_over(place, c->places, tid);
    const int32_t now_at = rests ? ABSENT : place;
    if (c->places[tid] != now_at) __atomic_store_n(&c->places[tid], now_at, __ATOMIC_RELAXED);
    return rests;
}

static bool run_member(void *p, int tid, int nthreads) {
    run_context *c = p;
    (void)nthreads;
    if (c->clock) start_clock(c->clock);
    for (int64_t begin = 0, end; begin < c->count; begin = end) {
        int32_t wanted = 0;
        for (end = begin; end == begin || (end < c->count && c->steps[end - 1].free && !c->clock); end++)
            wanted += shares_of(c, &c->steps[end]);
        step_state *last = state_of(c, end - 1);
        if (load(&last->done) == wanted) continue;
        if (gives_way(c, tid)) return true;
        if (c->steps[begin].mode == PF_STEP_GANG) {
            run_gang(c, begin, last, wanted);
        } else {
            run_group(c, begin, end, tid, last, wanted);
            if (load(&last->done) != wanted) stand_in(c, begin, end, tid, last, wanted);
        }
        wait_until(c, &last->done, wanted, tid);
    }
    return false;
}

/* One thread needs none of this. */
static void run_alone(const run_context *c) {
    int64_t counter[PF_COUNTERS], range;
    pf_worker w = {.nthreads = 1, .bases = c->bases, .next = counter, .ranges = &range, .fault = c->fault};
    for (int64_t i = 0; i < c->count; i++) {
        if (c->clock) c->clock[i] = now_ns();
        memset(counter, 0, sizeof counter);
        range = 0;
        w.step = i;
        w.ahead = c->steps[i].ahead;
        c->steps[i].run(c->steps[i].args, &w);
    }
    if (c->clock) c->clock[c->count] = now_ns();
}

/* Makes what the members share; false when memory is short. Ends with free(c->places). */
static bool share(run_context *c) {
    c->stride = sizeof(step_state) + (size_t)pf_range_count(c->nthreads) * sizeof(range_state);
    const size_t members = ((size_t)c->nthreads * sizeof(int32_t) + LINE - 1) / LINE * LINE;
    const size_t size = members + (size_t)c->count * c->stride;
    char *memory = aligned_alloc(LINE, size);
    if (!memory) return false;
    memset(memory, 0, size);
    c->places = (int32_t *)(void *)memory;
    c->states = memory + members;
    return true;
}

int pf_run_steps(const pf_step *steps, int64_t count, char *const *bases, int nthreads, int64_t *clock,
                 pf_fault *fault) {
    *fault = (pf_fault){PF_FAULT_NONE, 0, 0, 0};
    run_context c = {
        .steps = steps, .count = count, .bases = bases, .clock = clock, .fault = fault, .nthreads = nthreads};
    if (nthreads <= 1) {
        run_alone(&c);
        return 0;
    }
    if (!share(&c)) return -1;
    if (clock) memset(clock, 0, ((size_t)count + 1) * sizeof *clock);
    pf_turn_watch();
    pf_team_run(run_member, &c, nthreads);
    free(c.places);
    return 0;
}

struct pf_pending {
    run_context context;
    pf_fault fault;
    pf_team_region *region;
    int32_t wanted; /* shares of all steps, which are one group */
};

pf_pending *pf_begin_steps(const pf_step *steps, int64_t count, int nthreads) {
    static char *const none[1] = {NULL};
    pf_pending *run = count > 0 && nthreads > 1 ? malloc(sizeof *run) : NULL;
    if (!run) return NULL;
    *run = (pf_pending){.fault = {PF_FAULT_NONE, 0, 0, 0}};
    run->context = (run_context){
        .steps = steps, .count = count, .bases = none, .fault = &run->fault, .nthreads = nthreads};
    for (int64_t i = 0; i < count; i++) run->wanted += shares_of(&run->context, &steps[i]);
    if (share(&run->context)) {
        run->region = pf_team_begin(run_member, &run->context, nthreads);
        if (run->region) return run;
        free(run->context.places);
    }
    free(run);
    return NULL;
}

bool pf_steps_over(const pf_pending *run) {
    return load(&state_of(&run->context, run->context.count - 1)->done) == run->wanted;
}

int pf_end_steps(pf_pending *run, pf_fault *fault) {
    const int status = pf_team_end(run->region) ? 0 : -1;
    *fault = run->fault;
    free(run->context.places);
    free(run);
    return status;
}
