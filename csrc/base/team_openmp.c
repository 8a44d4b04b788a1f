/* The thread team over OpenMP: shares its threads with other OpenMP code of the process. Empty where the
 * compiler has none. */
#include "base/team_kinds.h"

#ifdef PF_HAVE_OPENMP

#    include <omp.h>
#    include <pthread.h>

/* After fork the runtime waits for threads that the child does not have; the other team knows how to begin
 * anew. */
static void after_fork_in_child(void) { pf_team_choose("threads"); }

static void install_fork_handler(void) { pthread_atfork(NULL, NULL, after_fork_in_child); }

void pf_openmp_run(pf_team_fn fn, void *context, int nthreads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handler);
#    pragma omp parallel num_threads(nthreads)
    fn(context, omp_get_thread_num(), nthreads);
}

#else

typedef int pf_no_openmp;

#endif
