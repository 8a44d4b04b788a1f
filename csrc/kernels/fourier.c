/* Fourier transforms of lines, real or complex, by Stockham's method with the radices 8, 4, 2 and odd primes:
 * no reordering, for each stage reads one buffer and writes another. A vector holds the same place of as many
 * lines, none of which sees anything of another. (Van Loan, Computational Frameworks for the FFT, 1992.)
 *
 * Real lines of even length are complex ones of half as many places, each of two neighbours, whose spectra
 * give those wanted; of odd length every stage leaves out the half of its results that mirrors the other. */
#include <stdio.h>
#include <string.h>

#include "kernels/doubles.h"
#include "kernels/nest.h"
#include "kernels/transpose.h"

enum {
    MOST = 1 << 14, /* length of a line */
    LONG = 256,     /* lines of more than this have to fill a third of a vector */
    MOST_RADIX = 61,
    FEW = 4, /* where fewer lines lie side by side, numbers are moved one by one */
    MOST_STAGES = 16
};

enum { WHOLE, HALF, REAL }; /* kinds of transforms and stages, see there */

static int is_real(const pf_fourier_args *a) { return a->x_parts == 1 || a->y_parts == 1; }

/* Places of the transforms that lines are made of. */
static int64_t places_of(const pf_fourier_args *a) { return is_real(a) && a->n % 2 == 0 ? a->n / 2 : a->n; }

/* Radices of the stages; their number, 0 where there are none. Every stage reads and writes all places, so
 * there are as few as can be, and 4 x 4 in place of 8 x 2. */
static int stages_of(int64_t n, int *radices) {
    int count = 0, twos = 0;
    if (n < 1) return 0;
    for (; n % 2 == 0; n /= 2) twos++;
    for (; twos == 3 || twos > 4; twos -= 3) radices[count++] = 8;
    for (; twos > 1; twos -= 2) radices[count++] = 4;
    if (twos) radices[count++] = 2;
    for (int r = 3; n > 1; r++)
        for (; n % r == 0; n /= r) {
            if (r > MOST_RADIX) return 0;
            radices[count++] = r;
        }
    if (count == 0) radices[count++] = 1;
    return count;
}

/* What the plan says: two buffers of the whole team, or that the lines are not for this kernel. */
static void plan_lines(const pf_fourier_args *a, int64_t lanes, int nthreads, pf_plan *plan) {
    int radices[MOST_STAGES];
    int64_t lines = 1;
    for (int64_t d = 0; d < a->rank; d++) lines *= a->shape[d];
    const int taken = a->n <= MOST && (a->n <= LONG || lines * 3 > lanes);
    const int count = taken ? stages_of(places_of(a), radices) : 0;
    plan->variant = count > 0;
    plan->scratch_bytes = count > 0 ? nthreads * 4 * (a->n + 2) * (int64_t)sizeof(pf_vf) : 0;
    for (int i = 0, at = 0; i < count && at < (int)sizeof plan->label; i++)
        at += snprintf(plan->label + at, sizeof plan->label - (size_t)at, i ? "x%d" : "%d", radices[i]);
}

PF_PLAN_FUNCTION(fourier_f32) { plan_lines(args_, PF_VL, nthreads, plan); }
PF_PLAN_FUNCTION(fourier_f64) { plan_lines(args_, PF_VL / 2, nthreads, plan); }

#define PF_T   f32
#define PF_V   float
#define PF_FMA pf_fma
#include "kernels/fourier_typed.h"

#define PF_T   f64
#define PF_V   double
#define PF_FMA pf_fmad
#include "kernels/fourier_typed.h"
