/* The kinds of teams, for team.c alone. Each runs a region as pf_team_run promises, of two threads or more.
 */
#ifndef PF_BASE_TEAM_KINDS_H
#define PF_BASE_TEAM_KINDS_H

#include "base/team.h"

void pf_threads_run(pf_team_fn fn, void *context, int nthreads);
pf_team_region *pf_threads_begin(pf_team_fn fn, void *context, int nthreads);

#ifdef PF_HAVE_OPENMP
void pf_openmp_run(pf_team_fn fn, void *context, int nthreads);
#endif

#endif
