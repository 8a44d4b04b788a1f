/* Calls a user's operator on one member of the team; the others wait for pieces of its parallel loops. They
 * meet in the step's own cache line of counters, so a program that runs several times at once needs no more
 * memory. */
#define _GNU_SOURCE
#include "exec/native.h"

#include "base/team.h"

/* What the words of the step's cache line hold. ROUND: number of the loop, PF_OVER at the end; LEFT: visits
 * of other members that are over, all loops together. */
enum { CLAIMED = 0, JOB = 1, ROUND = 2, LEFT = 3, BUSY = 4, PF_OVER = -1 };

typedef struct job {
    pf_op_body body;
    void *context;
    int64_t total, grain;
} job;

typedef struct team_host {
    pf_op_host host; /* first: a pointer to it is one to the whole */
    int64_t *words;
} team_host;

static int64_t load(const int64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store(int64_t *p, int64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

/* Waits until *p differs from `old` and returns the new value. */
static int64_t wait_change(const int64_t *p, int64_t old) {
    int64_t v;
    for (unsigned spins = 0; (v = load(p)) == old; spins++) pf_wait_turn(spins);
    return v;
}

static void take_part(int64_t *words, const job *j) {
    for (;;) {
        const int64_t begin = __atomic_fetch_add(&words[CLAIMED], j->grain, __ATOMIC_RELAXED);
        if (begin >= j->total) return;
        j->body(j->context, begin, pf_min(begin + j->grain, j->total));
    }
}

static void run_pieces(const job *j) {
    for (int64_t begin = 0; begin < j->total; begin += pf_min(j->grain, j->total - begin))
        j->body(j->context, begin, begin + pf_min(j->grain, j->total - begin));
}

static void parallel_for(const pf_op_host *host, int64_t total, int64_t grain, pf_op_body body,
                         void *context) {
    int64_t *words = ((const team_host *)host)->words;
    const int64_t others = host->nthreads - 1;
    const job j = {body, context, total, pf_max(1, pf_min(grain, total))};
    int64_t idle = 0;
    if (total <= 0) return;
    /* The counter of claims runs past the total by at most one piece a member: keep that sum in range. */
    const int fits = total <= INT64_MAX / 2 / host->nthreads;
    if (others == 0 || j.grain == total || !fits ||
        !__atomic_compare_exchange_n(&words[BUSY], &idle, 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        run_pieces(&j);
        return;
    }
    const int64_t round = words[ROUND] + 1;
    words[CLAIMED] = 0;
    words[JOB] = (int64_t)(uintptr_t)&j;
    store(&words[ROUND], round);
    take_part(words, &j);
    /* j lives on this stack: nobody may look at it any more. */
    int64_t left = load(&words[LEFT]);
    while (left != round * others) left = wait_change(&words[LEFT], left);
    store(&words[BUSY], 0);
}

static void serve(int64_t *words) {
    int64_t round = 0;
    while ((round = wait_change(&words[ROUND], round)) != PF_OVER) {
        take_part(words, (const job *)(uintptr_t)words[JOB]);
        __atomic_fetch_add(&words[LEFT], 1, __ATOMIC_ACQ_REL);
    }
}

void pf_native_step(const void *args_, const pf_worker *w) {
    const pf_native_args *a = args_;
    pf_op_tensor tensors[PF_NATIVE_MAX];
    int64_t alone[PF_COUNTERS] = {0};
    int64_t *words = w->nthreads > 1 ? w->next : alone;
    if (w->tid != 0) {
        serve(words);
        return;
    }
    for (int32_t i = 0; i < a->ninputs + a->noutputs; i++) {
        const pf_native_tensor *t = &a->tensors[i];
        tensors[i] =
            (pf_op_tensor){pf_ptr(w, t->data), t->shape, t->strides, t->rank, t->dtype, t->layout, 0};
    }
    const team_host h = {.host = {.abi = PF_OP_ABI,
                                  .size = sizeof(pf_op_host),
                                  .nthreads = w->nthreads,
                                  .scratch = pf_ptr(w, a->scratch),
                                  .parallel_for = parallel_for},
                         .words = words};
    const int status = a->run(a->state, tensors, a->ninputs, tensors + a->ninputs, a->noutputs, &h.host);
    if (w->nthreads > 1) store(&words[ROUND], PF_OVER);
    if (status) pf_report(w, PF_FAULT_NATIVE, status, 0);
}
