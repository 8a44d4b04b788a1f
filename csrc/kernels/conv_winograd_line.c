/* Coefficients of Winograd's method in one dimension, and what it cannot do: tiles with inputs that are not
 * finite are computed by the definition, with weights taken back from the transformed ones. */
#include "kernels/conv_winograd_line.h"

#include <math.h>

#include "kernels/conv_winograd.h"

/* Chosen for small rounding errors. */
static const double POINTS[PF_LINE_PAIRS + 1][PF_LINE_PAIRS] = {
    [2] = {PF_WINO_A, PF_WINO_B}, [3] = {0.5, 1.0, 2.0}, [4] = {0.4, 0.8, 1.3, 2.2}};

/* Coefficients of the product of z - point^2 over all pairs but `without`. */
static void product(const pf_wino_line *line, int without, double *c) {
    int degree = 0;
    c[0] = 1.0;
    for (int i = 0; i < line->pairs; i++) {
        if (i == without) continue;
        const double square = line->point[i] * line->point[i];
        c[degree + 1] = c[degree];
        for (int k = degree; k > 0; k--) c[k] = c[k - 1] - square * c[k];
        c[0] *= -square;
        degree++;
    }
}

pf_wino_line PF_NAME(wino_line_make)(int64_t taps) {
    pf_wino_line line = {.taps = (int)taps, .pairs = (int)(taps + 1) / 2, .points = (int)taps + 3};
    double c[PF_LINE_PAIRS + 1];
    for (int i = 0; i < line.pairs; i++) line.point[i] = POINTS[line.pairs][i];
    product(&line, -1, c);
    for (int k = 0; k <= line.pairs; k++) line.outer[k] = (float)c[k];
    for (int i = 0; i < line.pairs; i++) {
        const double p = line.point[i];
        double value = 0.0, power = 1.0;
        product(&line, i, c);
        for (int k = 0; k < line.pairs; k++, power *= p * p) {
            line.even[i][k] = (float)c[k];
            line.odd[i][k] = (float)(p * c[k]);
            value += c[k] * power;
        }
        line.divisor[i] = 2.0 * p * p * value;
        for (int k = 0; k < PF_LINE_OUTPUTS; k++) line.power[i][k] = (float)pow(p, k);
    }
    return line;
}

void PF_NAME(wino_line_matrix)(const pf_wino_line *line, double (*matrix)[PF_LINE_TAPS]) {
    double zero = 1.0;
    for (int i = 0; i < line->pairs; i++) zero *= -line->point[i] * line->point[i];
    for (int i = 0; i < line->points; i++)
        for (int k = 0; k < line->taps; k++) matrix[i][k] = 0.0;
    matrix[0][0] = 1.0 / zero;
    matrix[line->points - 1][line->taps - 1] = 1.0;
    for (int i = 0; i < 2 * line->pairs; i++) {
        const double p = i % 2 ? -line->point[i / 2] : line->point[i / 2];
        double power = 1.0 / line->divisor[i / 2];
        for (int k = 0; k < line->taps; k++, power *= p) matrix[1 + i][k] = power;
    }
}

/* The matrix that takes weights back: the least squares solution for the taps, by elimination. */
static void invert(const pf_wino_line *line, double back[PF_LINE_TAPS][PF_LINE_POINTS]) {
    const int taps = line->taps, points = line->points;
    double forth[PF_LINE_POINTS][PF_LINE_TAPS], m[PF_LINE_TAPS][PF_LINE_TAPS + PF_LINE_POINTS] = {0};
    PF_NAME(wino_line_matrix)(line, forth);
    for (int k = 0; k < taps; k++)
        for (int i = 0; i < points; i++) {
            for (int j = 0; j < taps; j++) m[k][j] += forth[i][k] * forth[i][j];
            m[k][taps + i] = forth[i][k];
        }
    for (int k = 0; k < taps; k++)
        for (int row = 0; row < taps; row++) {
            if (row == k) continue;
            const double factor = m[row][k] / m[k][k];
            for (int j = k; j < taps + points; j++) m[row][j] -= factor * m[k][j];
        }
    for (int k = 0; k < taps; k++)
        for (int i = 0; i < points; i++) back[k][i] = m[k][taps + i] / m[k][k];
}

void PF_NAME(wino_line_direct)(const pf_wino_line *line, const pf_wino_line_direct *t, pf_vf *y) {
    double back[PF_LINE_TAPS][PF_LINE_POINTS];
    invert(line, back);
    for (int j = 0; j < PF_LINE_OUTPUTS; j++) y[j] = pf_zero();
    for (int64_t c = 0; c < t->ic; c++)
        for (int k = 0; k < line->taps; k++) {
            pf_vf g = pf_zero();
            for (int i = 0; i < line->points; i++)
                g = pf_fma(pf_load(t->u + c * t->u_row + i * t->u_step), pf_set((float)back[k][i]), g);
            for (int j = 0; j < PF_LINE_OUTPUTS; j++)
                if (j + k >= t->begin && j + k < t->end)
                    y[j] = pf_fma(pf_set(t->x[(j + k) * t->pixel + c]), g, y[j]);
        }
}
