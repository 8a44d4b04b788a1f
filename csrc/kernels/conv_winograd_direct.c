/* What Winograd's method cannot do: its tiles mix inputs, so that an infinity or NaN would spread to outputs
 * whose windows do not hold it. Rows of a tile that are not finite are computed again here as direct sums,
 * with weights taken back from the transformed ones. Rare, therefore simple. Used by conv_winograd.c. */
#include <math.h>

#include "kernels/conv_winograd.h"
#include "kernels/pairs.h"

enum { TAPS = 5 };

/* One dimension of the inverse of the weight transform, for r taps. */
static void weight_line(int side, int r, const pf_vf *u, pf_vf *g) {
    g[0] = u[0];
    g[r - 1] = u[side - 1];
    if (side == 4) {
        g[1] = u[1] - u[2];
        return;
    }
    /* Odd parts at both points: g[1] + g[3] / 2 and g[1] + 2 g[3]. */
    const pf_vf odd_a = (u[2] - u[1]) * (float)(0.75 / PF_WINO_A),
                odd_b = (u[3] - u[4]) * (float)(3.0 / PF_WINO_B);
    g[1] = odd_a;
    if (r == 3) return;
    g[3] = (odd_b - odd_a) * (float)(1.0 / 1.5);
    g[1] = odd_a - g[3] * 0.5f;
    g[2] = ((u[1] + u[2]) * -0.75f - g[0] - g[4] * 0.25f) * 2.0f;
}

static void weights(int side, int r, const float *u, int64_t step, pf_vf g[TAPS][TAPS]) {
    pf_vf lines[TAPS][PF_WINO_SIDE], line[PF_WINO_SIDE], back[TAPS];
    for (int i = 0; i < side; i++) {
        for (int j = 0; j < side; j++) line[j] = pf_load(u + (i * side + j) * step);
        weight_line(side, r, line, back);
        for (int k = 0; k < r; k++) lines[k][i] = back[k];
    }
    for (int k = 0; k < r; k++) {
        weight_line(side, r, lines[k], back);
        for (int i = 0; i < r; i++) g[i][k] = back[i];
    }
}

static int has_nan(const float *x, int64_t n) {
    for (int64_t c = 0; c < n; c += PF_VL) {
        const pf_vf v = pf_load_upto(x + c, n - c);
        if (pf_any((pf_vi)(v != v))) return 1;
    }
    return 0;
}

int PF_NAME(wino_nan_row)(const pf_wino_direct *t, int r, int m, int row, pf_vf *y) {
    const pf_wino_part *p = &t->part;
    const int64_t top = pf_max(row, p->i0), bottom = pf_min(row + r, p->i1);
    for (int j = 0; j < m; j++) {
        const int64_t left = pf_max(j, p->j0), right = pf_min(j + r, p->j1);
        int found = 0;
        for (int64_t i = top; i < bottom && !found; i++)
            for (int64_t k = left; k < right && !found; k++)
                found = has_nan(t->x + i * t->row + k * t->pixel, t->ic);
        if (!found && top < bottom && left < right) return 0;
        y[j] = pf_set(found ? NAN : 0.0f);
    }
    return 1;
}

void PF_NAME(wino_direct)(const pf_wino_direct *t, int m, int side, int parity, pf_vf (*y)[4]) {
    const pf_wino_part *p = &t->part;
    const int r = side - m + 1;
    int known = 1;
    for (int i = 0; i < m / 2; i++) known = known && PF_NAME(wino_nan_row)(t, r, m, parity + 2 * i, y[i]);
    if (known) return;
    for (int i = 0; i < m / 2; i++)
        for (int j = 0; j < m; j++) y[i][j] = pf_zero();
    for (int64_t c = 0; c < t->ic; c++) {
        pf_vf g[TAPS][TAPS];
        weights(side, r, t->u + c * t->u_row, t->u_step, g);
        const float sign = t->pairs ? pf_pairs_sign(c, t->ic) : 1.0f;
        for (int i = 0; i < m / 2; i++)
            for (int j = 0; j < m; j++)
                for (int tap = 0; tap < r * r; tap++) {
                    const int row = parity + 2 * i + tap / r, column = j + tap % r;
                    if (row < p->i0 || row >= p->i1 || column < p->j0 || column >= p->j1) continue;
                    const pf_vf x = pf_set(sign * t->x[row * t->row + column * t->pixel + c]);
                    y[i][j] = pf_fma(x, g[tap / r][tap % r], y[i][j]);
                }
    }
}
