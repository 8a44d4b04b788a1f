/* Mean and sum of squared deviations, gathered block by block: two passes over a block while it is in the L1
 * cache, then the pairwise merge of Chan et al., so that accuracy depends neither on length nor on the size
 * of the mean. */
#ifndef PF_KERNELS_MOMENTS_H
#define PF_KERNELS_MOMENTS_H

#include <string.h>

#include "kernels/extremes.h"
#include "kernels/nest.h"

enum { PF_MOMENT_BLOCK = 4096, PF_MOMENT_CHUNK = 4, PF_MOMENT_ROWS = 128 };
enum { PF_MOMENT_COLUMNS = PF_MOMENT_CHUNK * PF_VL };

typedef struct pf_moments {
    double n, mean, m2;
} pf_moments;

static inline void pf_moments_merge(pf_moments *m, double n, double mean, double m2) {
    const double total = m->n + n, delta = mean - m->mean;
    if (n == 0) return;
    m->mean += delta * (n / total);
    m->m2 += m2 + delta * delta * (m->n * n / total);
    m->n = total;
}

typedef struct pf_sums {
    double sum, squares;
} pf_sums;

/* Sums of the elements minus shift and of the squares of that. */
PF_INLINE pf_sums pf_moment_pass(const float *x, int64_t n, float shift) {
    pf_vf s[PF_MOMENT_CHUNK] = {pf_zero(), pf_zero(), pf_zero(), pf_zero()};
    pf_vf q[PF_MOMENT_CHUNK] = {pf_zero(), pf_zero(), pf_zero(), pf_zero()};
    int64_t i = 0;
    for (; i + PF_MOMENT_CHUNK * PF_VL <= n; i += PF_MOMENT_CHUNK * PF_VL)
#pragma GCC unroll 4
        for (int k = 0; k < PF_MOMENT_CHUNK; k++) {
            const pf_vf v = pf_load(x + i + k * PF_VL) - shift;
            s[k] += v;
            q[k] = pf_fma(v, v, q[k]);
        }
    for (; i < n; i += PF_VL) {
        const pf_vf v = pf_load_or(x + i, n - i, shift) - shift;
        s[0] += v;
        q[0] = pf_fma(v, v, q[0]);
    }
    return (pf_sums){pf_hsum((s[0] + s[1]) + (s[2] + s[3])), pf_hsum((q[0] + q[1]) + (q[2] + q[3]))};
}

static inline double pf_not_negative(double v) { return v < 0 ? 0 : v; }

/* n contiguous elements. */
static inline void pf_moments_add(pf_moments *m, const float *x, int64_t n) {
    for (; n > 0; x += PF_MOMENT_BLOCK, n -= PF_MOMENT_BLOCK) {
        const int64_t k = pf_min(n, PF_MOMENT_BLOCK);
        const float shift = (float)(pf_moment_pass(x, k, 0.0f).sum / (double)k);
        const pf_sums p = pf_moment_pass(x, k, shift);
        pf_moments_merge(m, (double)k, shift + p.sum / (double)k,
                         pf_not_negative(p.squares - p.sum * p.sum / (double)k));
    }
}

/* The moments of neighbouring columns, all of n elements. */
typedef struct pf_column_moments {
    double n, mean[PF_MOMENT_COLUMNS], m2[PF_MOMENT_COLUMNS];
} pf_column_moments;

/* `count` vectors of columns from column `at` on, the last with `lanes` lanes, over n rows `step` apart: one
 * block. */
PF_INLINE void pf_moments_add_block(pf_column_moments *m, int64_t at, const float *x, int64_t n, int64_t step,
                                    int count, int64_t lanes) {
    pf_vf shift[PF_MOMENT_CHUNK], sum[PF_MOMENT_CHUNK], squares[PF_MOMENT_CHUNK];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) shift[k] = sum[k] = squares[k] = pf_zero();
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int k = 0; k < count; k++)
            shift[k] += pf_load_upto(x + i * step + k * PF_VL, k + 1 < count ? PF_VL : lanes);
    const double share = 1.0 / (double)n, weight = (double)n / (m->n + (double)n), spread = m->n * weight;
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) shift[k] *= (float)share;
    for (int64_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (int k = 0; k < count; k++) {
            const pf_vf v = pf_load_upto(x + i * step + k * PF_VL, k + 1 < count ? PF_VL : lanes) - shift[k];
            sum[k] += v;
            squares[k] = pf_fma(v, v, squares[k]);
        }
    float parts[3][PF_MOMENT_COLUMNS];
#pragma GCC unroll 4
    for (int k = 0; k < count; k++) {
        pf_store(parts[0] + k * PF_VL, shift[k]);
        pf_store(parts[1] + k * PF_VL, sum[k]);
        pf_store(parts[2] + k * PF_VL, squares[k]);
    }
    for (int c = 0; c < count * PF_VL; c++) {
        const double s = parts[1][c], m2 = parts[2][c] - s * s * share;
        const double delta = parts[0][c] + s * share - m->mean[at + c];
        m->mean[at + c] += delta * weight;
        m->m2[at + c] += (m2 < 0 ? 0 : m2) + delta * delta * spread;
    }
}

/* Moments of up to PF_MOMENT_COLUMNS columns at the positions of nest r. */
static inline void pf_moments_of_columns(pf_column_moments *m, const float *x, const pf_nest *r,
                                         int64_t columns) {
    pf_nest outer = *r;
    const int64_t n = r->rank ? r->n[r->rank - 1] : 1, step = r->rank ? r->s[0][r->rank - 1] : 0;
    if (outer.rank) pf_nest_remove(&outer, outer.rank - 1);
    memset(m, 0, sizeof *m);
    pf_walk walk;
    pf_walk_start(&walk, &outer, 0);
    for (int64_t o = 0; o < outer.total; o++, pf_walk_next(&walk, &outer))
        for (int64_t i = 0; i < n; i += PF_MOMENT_ROWS) {
            const float *at = x + walk.o[0] + i * step;
            const int64_t k = pf_min(PF_MOMENT_ROWS, n - i);
            if (columns == PF_MOMENT_COLUMNS)
                pf_moments_add_block(m, 0, at, k, step, PF_MOMENT_CHUNK, PF_VL);
            else
                for (int64_t c = 0; c < columns; c += PF_VL)
                    pf_moments_add_block(m, c, at + c, k, step, 1, pf_min(PF_VL, columns - c));
            m->n += (double)k;
        }
}

#endif
