/* Which kind of team runs the regions. */
#include "base/team_kinds.h"

#include <string.h>

typedef struct team {
    const char *name;
    void (*run)(pf_team_fn fn, void *context, int nthreads);
    pf_team_region *(*begin)(pf_team_fn fn, void *context, int nthreads); /* NULL: not without the caller */
} team;

static const team kinds[] = {
    {"threads", pf_threads_run, pf_threads_begin},
#ifdef PF_HAVE_OPENMP
    {"openmp", pf_openmp_run, NULL},
#endif
};

static const team *chosen = kinds;

int pf_team_choose(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i].name, name) != 0) continue;
        __atomic_store_n(&chosen, &kinds[i], __ATOMIC_RELEASE);
        return 0;
    }
    return -1;
}

const char *pf_team_name(void) { return __atomic_load_n(&chosen, __ATOMIC_ACQUIRE)->name; }

void pf_team_run(pf_team_fn fn, void *context, int nthreads) {
    if (nthreads <= 1)
        fn(context, 0, 1);
    else
        __atomic_load_n(&chosen, __ATOMIC_ACQUIRE)->run(fn, context, nthreads);
}

pf_team_region *pf_team_begin(pf_team_fn fn, void *context, int nthreads) {
    const team *kind = __atomic_load_n(&chosen, __ATOMIC_ACQUIRE);
    return nthreads > 1 && kind->begin ? kind->begin(fn, context, nthreads) : NULL;
}
