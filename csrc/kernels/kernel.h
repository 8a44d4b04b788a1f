/* What a kernel is: a function that every thread of the team calls with the same arguments. The thread number
 * selects its share of the work. Kernel sources are compiled once per ISA level; PF_NAME keeps the copies
 * apart. */
#ifndef PF_KERNELS_KERNEL_H
#define PF_KERNELS_KERNEL_H

#include <stddef.h>
#include <stdint.h>

/* A place in memory: bases[base] + offset, resolved when the kernel runs. Base 0 is the null pointer, so its
 * offset is an address (constants); base -1 means absent. */
typedef struct pf_ref {
    int64_t base;
    int64_t offset;
} pf_ref;

/* What the data of a run made impossible. The first report of a run is kept; the run goes on with defined
 * values, so that no thread waits at a barrier for one that gave up. */
enum {
    PF_FAULT_NONE,
    PF_FAULT_INDEX,  /* value is not an index into a dimension of size limit */
    PF_FAULT_NATIVE, /* value is what the run of a user's operator returned */
    PF_FAULT_ZERO,   /* an integer was divided by zero */
};

typedef struct pf_fault {
    int64_t code, step, value, limit;
} pf_fault;

/* A piece of memory; of no bytes: none. */
typedef struct pf_stretch {
    const char *start;
    int64_t bytes;
} pf_stretch;

/* Counters that a team shares for a step; the most ranges that it cuts items into; words from the counter of
 * a range to the next one, each of which lies in a cache line of its own. */
enum { PF_COUNTERS = 8, PF_RANGES = 8, PF_RANGE_WORDS = 8 };

typedef struct pf_worker {
    int32_t tid, nthreads;
    char *const *bases;
    int64_t *next;    /* the counters of the team, which start at 0: see pf_claim */
    int64_t *ranges;  /* those of the ranges: see pf_claim_near */
    int64_t step;     /* number of the running step */
    pf_fault *fault;  /* shared by the team for the whole run: use pf_report */
    pf_stretch ahead; /* what a later step reads: a kernel may fetch its thread's part meanwhile */
} pf_worker;

/* What a planned kernel tells the lowering about given arguments. */
typedef struct pf_plan {
    int64_t variant;       /* goes into the arguments: which tile or algorithm, */
    int64_t chunks;        /* and into how many parts the work is cut, for kernels that take it */
    int64_t packed_bytes;  /* size of the packed weights, 0 if none */
    int64_t scratch_bytes; /* scratch for the whole team */
    char label[32];        /* for profiles, e.g. "6x64" */
} pf_plan;

typedef void (*pf_kernel_fn)(const void *args, const pf_worker *w);
typedef void (*pf_plan_fn)(const void *args, int nthreads, pf_plan *plan);

typedef struct pf_kernel_entry {
    const char *name;
    int32_t kind;
    pf_kernel_fn run;
    pf_plan_fn plan; /* NULL unless planned */
} pf_kernel_entry;

typedef struct pf_kernel_table {
    const char *isa;
    const pf_kernel_entry *entries;
    int32_t count;
} pf_kernel_table;

#define PF_JOIN2(a, b) a##_##b
#define PF_JOIN(a, b)  PF_JOIN2(a, b)
#define PF_NAME(name)  PF_JOIN(PF_JOIN(pf, name), PF_ISA)
/* Heads of the two functions a kernel source defines. */
#define PF_KERNEL_FUNCTION(name) void PF_NAME(name)(const void *args_, const pf_worker *w)
#define PF_PLAN_FUNCTION(name)   void PF_NAME(name##_plan)(const void *args_, int nthreads, pf_plan *plan)

static inline void *pf_ptr(const pf_worker *w, pf_ref r) {
    return r.base < 0 ? NULL : (void *)((uintptr_t)w->bases[r.base] + (uintptr_t)r.offset);
}

/* The share [begin, end) of `total` items, in blocks of `grain`, of this thread. */
static inline void pf_share(const pf_worker *w, int64_t total, int64_t grain, int64_t *begin, int64_t *end) {
    const int64_t blocks = (total + grain - 1) / grain;
    int64_t b = blocks * w->tid / w->nthreads * grain, e = blocks * (w->tid + 1) / w->nthreads * grain;
    *begin = b < total ? b : total;
    *end = e < total ? e : total;
}

/* Takes the next `n` items from the step's shared counter and returns the first. */
static inline int64_t pf_claim(const pf_worker *w, int64_t n) {
    return __atomic_fetch_add(w->next, n, __ATOMIC_RELAXED);
}

/* Ranges for a team: one a thread, unless these are many. */
static inline int64_t pf_range_count(int64_t nthreads) { return nthreads < PF_RANGES ? nthreads : PF_RANGES; }

/* A number of `total` items that follow each other: the first one, or `total` when none is left for this
 * thread, and how many. Each thread walks through a range of its own, from which it takes at once half of
 * what is left or the last two, but at most so many; then it takes single ones from the ends of those of the
 * others, where it leaves the last `kept` items. A counter has the items that its owner took in its lower
 * half, in the upper half those that others took; no range has 2^31. */
static inline int64_t pf_claim_some(const pf_worker *w, int64_t total, int64_t most, int64_t kept,
                                    int64_t *n) {
    enum { HALF = 32 };
    const int64_t ranges = pf_range_count(w->nthreads);
    int64_t r = w->tid * ranges / w->nthreads % ranges; /* a stage of a chain has a number, but no team */
    for (int64_t k = 0; k < ranges; k++, r = r + 1 < ranges ? r + 1 : 0) {
        const int64_t begin = total * r / ranges, count = total * (r + 1) / ranges - begin;
        int64_t *counter = w->ranges + r * PF_RANGE_WORDS, v = __atomic_load_n(counter, __ATOMIC_RELAXED);
        int64_t left = count - (uint32_t)v - (v >> HALF), some = 1;
        if (left <= (k ? kept : 0)) continue;
        if (k == 0 && most > 1) some = left <= 2 ? left : (left + 1) / 2;
        if (some > most) some = most;
        v = __atomic_fetch_add(counter, k ? (int64_t)1 << HALF : some, __ATOMIC_RELAXED);
        left = count - (uint32_t)v - (v >> HALF);
        *n = some < left ? some : left;
        if (left > 0) return begin + (k ? count - 1 - (v >> HALF) : (uint32_t)v);
    }
    return total;
}

/* The next of `total` items, or `total`; of the ranges of others all but the last `kept` are taken. Steps in
 * a row that are cut alike find what the last one wrote in the cache of the same core. */
static inline int64_t pf_claim_most(const pf_worker *w, int64_t total, int64_t kept) {
    int64_t n;
    return pf_claim_some(w, total, 1, kept, &n);
}

/* The same where helping with everything pays. */
static inline int64_t pf_claim_near(const pf_worker *w, int64_t total) { return pf_claim_most(w, total, 0); }

/* Reports a fault; the caller goes on. */
static inline void pf_report(const pf_worker *w, int64_t code, int64_t value, int64_t limit) {
    int64_t none = PF_FAULT_NONE;
    if (!__atomic_compare_exchange_n(&w->fault->code, &none, code, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        return;
    w->fault->step = w->step;
    w->fault->value = value;
    w->fault->limit = limit;
}

static inline int64_t pf_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pf_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t pf_ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum { PF_LINE_BYTES = 64 }; /* of a cache */

/* At least n floats: rows that lie an odd number of lines apart use all sets of a cache, others only some. */
static inline int64_t pf_odd_lines(int64_t n) {
    enum { LINE = PF_LINE_BYTES / (int)sizeof(float) };
    return (pf_ceil_div(n, LINE) | 1) * LINE;
}

#endif
