/* The team of the package's own threads, for team_choice.c alone. */
#ifndef PF_BASE_TEAM_THREADS_H
#define PF_BASE_TEAM_THREADS_H

#include "base/team.h"

/* Runs a region as pf_team_run promises, of two threads or more. */
void pf_threads_run(pf_team_fn fn, void *context, int nthreads);
pf_team_region *pf_threads_begin(pf_team_fn fn, void *context, int nthreads);

#endif
