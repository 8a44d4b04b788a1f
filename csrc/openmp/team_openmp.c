#include "openmp/team_openmp.h"

#include <omp.h>

void pf_openmp_run(pf_team_fn fn, void *context, int nthreads) {
#pragma omp parallel num_threads(nthreads)
    fn(context, omp_get_thread_num(), nthreads);
}
