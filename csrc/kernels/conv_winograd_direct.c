/* What Winograd's method cannot do: its tiles mix inputs, so that an infinity or NaN would spread to outputs
 * whose windows do not hold it. Rows of a tile that are not finite are computed again here as direct sums,
 * with weights taken back from the transformed ones. Rare, therefore simple. Used by conv_winograd.c. */
#include "kernels/conv_winograd.h"

/* One dimension of the inverse of the weight transform, from elements 0, 1, 2 and m + 1. */
static void weight_line(int m, const pf_vf *u, pf_vf *g) {
    g[0] = u[0];
    g[1] = m == 2 ? u[1] - u[2] : (u[2] - u[1]) * (float)(0.75 / PF_WINO_A);
    g[2] = u[3];
}

static void weights(int m, const float *u, int64_t step, pf_vf g[3][3]) {
    const int places[4] = {0, 1, 2, m + 1};
    pf_vf lines[3][4], line[4];
    for (int i = 0; i < 4; i++) {
        pf_vf back[3];
        for (int j = 0; j < 4; j++) line[j] = pf_load(u + (places[i] * (m + 2) + places[j]) * step);
        weight_line(m, line, back);
        for (int k = 0; k < 3; k++) lines[k][i] = back[k];
    }
    for (int k = 0; k < 3; k++) {
        pf_vf back[3];
        weight_line(m, lines[k], back);
        for (int i = 0; i < 3; i++) g[i][k] = back[i];
    }
}

void PF_NAME(wino_direct)(const pf_wino_direct *t, int m, int parity, pf_vf (*y)[4]) {
    const pf_wino_part *p = &t->part;
    for (int i = 0; i < m / 2; i++)
        for (int j = 0; j < m; j++) y[i][j] = pf_zero();
    for (int64_t c = 0; c < t->ic; c++) {
        pf_vf g[3][3];
        weights(m, t->u + c * t->u_row, t->u_step, g);
        for (int i = 0; i < m / 2; i++)
            for (int j = 0; j < m; j++)
                for (int tap = 0; tap < 9; tap++) {
                    const int row = parity + 2 * i + tap / 3, column = j + tap % 3;
                    if (row < p->i0 || row >= p->i1 || column < p->j0 || column >= p->j1) continue;
                    const pf_vf x = pf_set(t->x[row * t->row + column * t->pixel + c]);
                    y[i][j] = pf_fma(x, g[tap / 3][tap % 3], y[i][j]);
                }
    }
}
