/* Packing in turns: all threads do the parts of one turn before one of them begins with the next, inside a
 * single step. Threads claim parts by a counter that runs through all turns. So those who wait do so for
 * parts that running threads have claimed; a thread that comes late, or never, has claimed none and is waited
 * for by nobody. Used by pack_uneven.h, conv_thin.c and conv_winograd_pack.c. */
#ifndef PF_KERNELS_PACK_TURNS_H
#define PF_KERNELS_PACK_TURNS_H

#include "base/team.h"
#include "kernels/kernel.h"

typedef struct pf_turns {
    const void *weights;
    int64_t *taken, *done; /* parts of all turns */
    int64_t begun, mine;   /* parts before this turn; the part that this thread has taken */
} pf_turns;

static inline pf_turns pf_first_turn(const void *weights, const pf_worker *w) {
    const int64_t mine = __atomic_fetch_add(w->next, 1, __ATOMIC_RELAXED);
    return (pf_turns){.weights = weights, .taken = w->next, .done = w->next + 1, .mine = mine};
}

static inline void pf_take_turn(pf_turns *t, int64_t parts, void (*part)(const void *weights, int64_t part)) {
    const int64_t end = t->begun + parts;
    while (t->mine < end) {
        part(t->weights, t->mine - t->begun);
        __atomic_fetch_add(t->done, 1, __ATOMIC_RELEASE);
        t->mine = __atomic_fetch_add(t->taken, 1, __ATOMIC_RELAXED);
    }
    for (unsigned spins = 0; __atomic_load_n(t->done, __ATOMIC_ACQUIRE) < end; spins++) pf_wait_turn(spins);
    t->begun = end;
}

#endif
