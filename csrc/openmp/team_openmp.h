/* The thread team over OpenMP, which shares its threads with other OpenMP code of the process. A library of
 * its own: only those who choose this team load OpenMP's runtime. */
#ifndef PF_OPENMP_TEAM_OPENMP_H
#define PF_OPENMP_TEAM_OPENMP_H

#include "base/team.h"

/* Runs a region as pf_team_run promises, of two threads or more. */
void pf_openmp_run(pf_team_fn fn, void *context, int nthreads);

#endif
