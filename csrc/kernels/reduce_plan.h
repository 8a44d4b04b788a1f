/* What reductions of all types share: what is folded, what is made of it, and along which dimension columns
 * lie. */
#ifndef PF_KERNELS_REDUCE_PLAN_H
#define PF_KERNELS_REDUCE_PLAN_H

#include <math.h>

#include "kernels/nest.h"

/* What is folded; the shift is the first element, or the maximum or mean that an earlier pass has found. */
typedef enum term {
    TERM_SUM,
    TERM_ABS,
    TERM_SQUARE,
    TERM_POWER,
    TERM_NONZERO,
    TERM_EXP,
    TERM_OFFSET,
    TERM_DEVIATION,
    TERM_PRODUCT,
    TERM_MAX,
    TERM_MIN,
    TERM_ABS_MAX,
    TERM_ABS_MIN,
    TERM_NUMBER,
    TERM_COUNT
} term;

typedef enum finish {
    FINISH_SCALE,
    FINISH_SQRT,
    FINISH_ROOT,
    FINISH_LOG,
    FINISH_VAR,
    FINISH_STD,
    FINISH_MEAN
} finish;

/* The term of the first pass, whose result shifts that of the second, and what is made of the result. */
typedef struct pf_reduce_plan {
    term first, second;
    int passes;
    finish finish;
} pf_reduce_plan;

static const pf_reduce_plan pf_reduce_plans[PF_REDUCE_COUNT] = {
    [PF_REDUCE_SUM] = {TERM_SUM, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_PROD] = {TERM_PRODUCT, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_MAX] = {TERM_MAX, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_MIN] = {TERM_MIN, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_NORM1] = {TERM_ABS, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_SQUARES] = {TERM_SQUARE, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_NORM2] = {TERM_SQUARE, TERM_SUM, 1, FINISH_SQRT},
    [PF_REDUCE_NORM0] = {TERM_NONZERO, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_LARGEST] = {TERM_ABS_MAX, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_SMALLEST] = {TERM_ABS_MIN, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_NORM] = {TERM_POWER, TERM_SUM, 1, FINISH_ROOT},
    [PF_REDUCE_LOGSUMEXP] = {TERM_MAX, TERM_EXP, 2, FINISH_LOG},
    [PF_REDUCE_VAR] = {TERM_OFFSET, TERM_DEVIATION, 2, FINISH_VAR},
    [PF_REDUCE_STD] = {TERM_OFFSET, TERM_DEVIATION, 2, FINISH_STD},
    [PF_REDUCE_NANSUM] = {TERM_NUMBER, TERM_SUM, 1, FINISH_SCALE},
    [PF_REDUCE_MEAN] = {TERM_SUM, TERM_OFFSET, 2, FINISH_MEAN},
};

/* What the first pass takes off each element. Sums of distances from the first one are 0 where all are equal,
 * so that nothing is left of their variance. A first element far from the others does no harm: what the mean
 * is off by counts squared. The mean itself takes a second pass, over distances from what the first one
 * found. */
static inline double pf_reduce_origin(const pf_reduce_args *a, double first) {
    return pf_reduce_plans[a->op].first == TERM_OFFSET ? first : 0.0;
}

/* The exact shift between the passes: the largest element or the mean. */
static inline double pf_reduce_shift(const pf_reduce_args *a, double count, double value, double origin) {
    if (pf_reduce_plans[a->op].finish == FINISH_LOG) return isinf(value) ? 0.0 : value;
    return origin + value / count;
}

/* The result of the last pass, which used `shift` for what is exactly `exact`. */
static inline double pf_reduce_finish(const pf_reduce_args *a, double count, double value, double exact,
                                      double shift) {
    switch (pf_reduce_plans[a->op].finish) {
    case FINISH_SQRT:
        return sqrt(value);
    case FINISH_ROOT:
        return pow(value, 1.0 / a->p);
    case FINISH_LOG:
        return log(value) + shift;
    case FINISH_VAR:
    case FINISH_STD: {
        /* The deviations were taken from the rounded mean. */
        const double sum = value - count * (exact - shift) * (exact - shift), free = count - a->p;
        const double var = (sum < 0 ? 0.0 : sum) / (free > 0 ? free : 0.0);
        return pf_reduce_plans[a->op].finish == FINISH_STD ? sqrt(var) : var;
    }
    case FINISH_MEAN:
        return shift + value / count;
    default:
        return a->scale == 1.0 ? value : value * a->scale;
    }
}

/* Whether a variance, or the mean beside it, is to be found step by step as PyTorch finds them: infinities
 * make the mean NaN on the way, unless there is one that comes last, and large numbers do not overflow. */
static inline int pf_reduce_by_steps(const pf_reduce_args *a, double y) {
    return pf_reduce_plans[a->op].finish >= FINISH_VAR && !isfinite(y);
}

/* The kept dimension whose elements are neighbours, where those of a result are not; -1: none. */
static inline int64_t pf_reduce_column(const pf_nest *kept, const pf_nest *r) {
    int64_t column = -1;
    if (!(r->rank && r->s[0][r->rank - 1] == 1))
        for (int64_t d = 0; d < kept->rank; d++)
            if (kept->s[0][d] == 1) column = d;
    return column;
}

#endif
