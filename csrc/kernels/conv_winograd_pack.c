/* Transformed weights for conv_winograd.c: U = G g G' in double precision, rounded once. Layout:
 * [group][panel][point][input channel][columns of the panel], the last vector filled with zeros. Tiles of
 * weights are transposed in registers, so that vectors run over output channels; two vectors of doubles hold
 * one of floats. */
#include "kernels/args.h"
#include "kernels/conv_winograd.h"
#include "kernels/conv_winograd_line.h"
#include "kernels/doubles.h"
#include "kernels/pack_columns.h"
#include "kernels/pack_sizes.h"
#include "kernels/pack_turns.h"
#include "kernels/pairs.h"
#include "kernels/tile.h"

enum {
    CHANNELS = 16, /* input channels of a tile: their taps are whole vectors */
    LONGEST = 5    /* side of a window */
};

/* Weights of some input channels for one vector of output channels, and where they go: element (point, c) to
 * y + point * step + c * width. */
typedef struct weights {
    const float *taps; /* [channel][tap][PF_VL] */
    float *y;
    int64_t channels, step, width;
    const pf_wino_line *line;
} weights;

/* One dimension of the transform with r taps; phases: outputs on the side of a tile with stride 2, else 0. */
PF_INLINE void weight_line(const int side, const int phases, const int r, const pf_vd *g, pf_vd *u) {
    if (phases) {
        const pf_vd sum = g[0] + g[2];
        u[0] = g[0], u[phases] = g[2], u[phases + 1] = g[1];
        u[1] = phases == 2 ? sum : -0.5 * sum;
        if (phases == 4) u[2] = (g[0] - g[2]) * (-1.0 / 6.0), u[3] = (g[0] + 2.0 * g[2]) * (1.0 / 6.0);
        return;
    }
    u[0] = g[0], u[side - 1] = g[r - 1];
    if (side == 4) {
        const pf_vd outer = 0.5 * (g[0] + g[2]), middle = 0.5 * g[1];
        u[1] = outer + middle, u[2] = outer - middle;
        return;
    }
    if (side == PF_WINO_LARGEST) {
        static const double POINTS[] = {1.0, 2.0, 0.5}, SCALES[] = {-2.0 / 9.0, 1.0 / 90.0, 32.0 / 45.0};
        PF_WINO_UNROLL for (int i = 0; i < 3; i++) {
            const pf_vd even = SCALES[i] * (g[0] + POINTS[i] * POINTS[i] * g[2]);
            const pf_vd odd = SCALES[i] * POINTS[i] * g[1];
            u[2 * i + 1] = even + odd, u[2 * i + 2] = even - odd;
        }
        return;
    }
    pf_vd even_a = g[0] + 0.5 * g[2], odd_a = g[1], even_b = g[0] + 2.0 * g[2], odd_b = g[1];
    if (r == 5) {
        even_a += 0.25 * g[4], odd_a += 0.5 * g[3];
        even_b += 4.0 * g[4], odd_b += 2.0 * g[3];
    }
    even_a *= -1.0 / 1.5, odd_a *= PF_WINO_A / -1.5, even_b *= 1.0 / 6.0, odd_b *= PF_WINO_B / 6.0;
    u[1] = even_a + odd_a, u[2] = even_a - odd_a, u[3] = even_b + odd_b, u[4] = even_b - odd_b;
}

/* Windows of r x r. */
PF_INLINE void squares(const int side, const int phases, const int r, const weights *w) {
    for (int64_t c = 0; c < w->channels; c++) {
        const float *g = w->taps + c * r * r * PF_VL;
        float *y = w->y + c * w->width;
        pf_vd columns[2][LONGEST][PF_WINO_LARGEST], line[LONGEST], u[2][PF_WINO_LARGEST];
        PF_WINO_UNROLL for (int half = 0; half < 2; half++) {
            PF_WINO_UNROLL for (int j = 0; j < r; j++) {
                PF_WINO_UNROLL for (int k = 0; k < r; k++) line[k] = pf_widen(g + (k * r + j) * PF_VL, half);
                weight_line(side, phases, r, line, columns[half][j]);
            }
        }
        PF_WINO_UNROLL for (int k = 0; k < side; k++) {
            PF_WINO_UNROLL for (int half = 0; half < 2; half++) {
                PF_WINO_UNROLL for (int j = 0; j < r; j++) line[j] = columns[half][j][k];
                weight_line(side, phases, r, line, u[half]);
            }
            PF_WINO_UNROLL for (int j = 0; j < side; j++, y += w->step)
                pf_stream(y, pf_join(u[0][j], u[1][j]));
        }
    }
}

static void stride1_4(const weights *w) { squares(4, 0, 3, w); }
static void stride1_6(const weights *w) { squares(6, 0, 3, w); }
static void stride1_8(const weights *w) { squares(8, 0, 3, w); }
static void five_taps(const weights *w) { squares(6, 0, 5, w); }
static void stride2_4(const weights *w) { squares(4, 2, 3, w); }
static void stride2_6(const weights *w) { squares(6, 4, 3, w); }

/* Windows in a line. The points of a pair share what even taps add up to, and odd ones. */
PF_INLINE void lines(const int taps, const weights *w) {
    double matrix[PF_LINE_POINTS][PF_LINE_TAPS];
    PF_NAME(wino_line_matrix)(w->line, matrix);
    for (int64_t c = 0; c < w->channels; c++) {
        pf_vd g[2][PF_LINE_TAPS], even[2], odd[2];
        PF_WINO_UNROLL for (int i = 0; i < 2 * taps; i++) g[i % 2][i / 2] =
            pf_widen(w->taps + (c * taps + i / 2) * PF_VL, i % 2);
        float *y = w->y + c * w->width;
        pf_stream(y, pf_join(g[0][0] * matrix[0][0], g[1][0] * matrix[0][0]));
        for (int point = 1; point < taps + 2; point += 2) {
            const double *m = matrix[point];
            PF_WINO_UNROLL for (int half = 0; half < 2; half++) {
                even[half] = g[half][0] * m[0], odd[half] = g[half][1] * m[1];
                PF_WINO_UNROLL for (int k = 2; k < taps; k += 2) even[half] += g[half][k] * m[k];
                PF_WINO_UNROLL for (int k = 3; k < taps; k += 2) odd[half] += g[half][k] * m[k];
            }
            pf_stream(y += w->step, pf_join(even[0] + odd[0], even[1] + odd[1]));
            pf_stream(y += w->step, pf_join(even[0] - odd[0], even[1] - odd[1]));
        }
        pf_stream(y + w->step, pf_join(g[0][taps - 1], g[1][taps - 1]));
    }
}

static void line_3(const weights *w) { lines(3, w); }
static void line_5(const weights *w) { lines(5, w); }
static void line_7(const weights *w) { lines(7, w); }

typedef void (*transform)(const weights *w);

static transform transform_of(const pf_pack_args *a) {
    const pf_wino_form form = pf_wino_form_of(a->variant, a->kh);
    const int64_t taps = pf_max(a->kh, a->kw);
    if (pf_wino_is_line(a->kh, a->kw)) return taps == 3 ? line_3 : taps == 5 ? line_5 : line_7;
    if (form.phases) return form.side == 4 ? stride2_4 : stride2_6;
    if (form.side == PF_WINO_LARGEST) return stride1_8;
    return taps == 5 ? five_taps : form.side == 4 ? stride1_4 : stride1_6;
}

typedef struct pack {
    const float *x;
    float *y;
    int64_t groups, ic, oc, taps, points; /* channels of a group */
    float *scales, *starts, *plain;       /* of products in pairs, else NULL */
    int32_t *sizes;
    pf_wino_line line;
    transform run;
} pack;

/* Input channels from `first` on of one vector of output channels, over the scales of these and with their
 * signs (NULL: none). Missing channels become zeros. */
static void pack_vector(const pack *p, const float *x, int64_t columns, int64_t first, const float *scales,
                        weights *to) {
    float tile[CHANNELS * LONGEST * LONGEST * PF_VL] __attribute__((aligned(64)));
    const int64_t count = to->channels * p->taps;
    for (int64_t i = 0; i < count; i += PF_VL) {
        pf_vf rows[PF_VL];
        pf_load_transposed(x + i, p->ic * p->taps, columns, count - i, rows);
#pragma GCC unroll 16
        for (int k = 0; k < PF_VL; k++) pf_store(tile + (i + k) * PF_VL, rows[k]);
    }
    const pf_vf scale = scales ? pf_load(scales) : pf_set(1.0f);
    const pf_vf inverse = pf_select(scale == 0.0f, pf_zero(), 1.0f / scale);
    for (int64_t i = 0; scales && i < count; i++) {
        const float sign = pf_pairs_sign(first + i / p->taps, p->ic);
        pf_store(tile + i * PF_VL, pf_load(tile + i * PF_VL) * inverse * sign);
    }
    to->taps = tile;
    p->run(to);
}

/* Input channels [c, c + n) of a panel. The points of a channel lie far apart in memory, often at distances
 * that meet in one set of the caches: what is collected goes there in long runs. */
static void pack_panel(const pack *p, const float *x, pf_panel panel, int64_t c, int64_t n,
                       const float *scales, float *y) {
    enum { LINE = PF_LINE_BYTES / sizeof(float) };
    float block[PF_COLLECT ? (CHANNELS * PF_TILE_VECTORS * PF_VL + LINE) * PF_WINO_LARGEST * PF_WINO_LARGEST
                           : 1];
    const int64_t width = panel.vectors * PF_VL, start = panel.start * PF_VL, step = p->ic * width;
    y += start * p->points * p->ic + c * width;
    weights to = {
        .channels = n, .width = width, .line = &p->line, .step = PF_COLLECT ? n * width + LINE : step};
    for (int64_t v = 0; v < width; v += PF_VL) {
        to.y = (PF_COLLECT ? block : y) + v;
        pack_vector(p, x + ((start + v) * p->ic + c) * p->taps, p->oc - start - v, c,
                    scales ? scales + start + v : NULL, &to);
    }
    for (int64_t i = 0; PF_COLLECT && i < p->points; i++)
        pf_stream_run(y + i * step, block + i * to.step, n * width);
}

static int64_t columns_of(const pack *p) { return pf_ceil_div(p->oc, PF_VL) * PF_VL; }

static int64_t panels_of(const pack *p) { return pf_wino_panel_count(p->scales != NULL, p->oc); }

static pf_panel panel_at(const pack *p, int64_t i) { return pf_wino_panel_at(p->scales != NULL, p->oc, i); }

static int64_t pieces_of(const pack *p) { return p->groups * panels_of(p) * pf_ceil_div(p->ic, CHANNELS); }

/* A piece: some input channels of a panel. */
static void pack_piece(const void *weights_, int64_t i) {
    const pack *p = weights_;
    const int64_t panels = panels_of(p), blocks = pf_ceil_div(p->ic, CHANNELS);
    const int64_t group = i / blocks / panels, c = i % blocks * CHANNELS;
    pack_panel(p, p->x + group * p->oc * p->ic * p->taps, panel_at(p, i / blocks % panels), c,
               pf_min(CHANNELS, p->ic - c), p->scales ? p->scales + group * columns_of(p) : NULL,
               p->y + group * p->points * p->ic * columns_of(p));
    pf_stream_end();
}

static void clear_sizes(const void *weights_, int64_t group) {
    const pack *p = weights_;
    memset(p->sizes + group * p->ic * p->taps, 0, (size_t)(p->ic * p->taps) * sizeof *p->sizes);
}

/* The scales of a vector of columns of all groups; notes the sizes of their inputs. */
static void find_scales(const void *weights_, int64_t i) {
    const pack *p = weights_;
    const int64_t vectors = columns_of(p) / PF_VL, group = i / vectors, column = i % vectors * PF_VL;
    const int64_t depth = p->ic * p->taps, count = pf_min(PF_VL, p->oc - column);
    float largest[PF_SIZES_COLUMNS];
    pf_look_at(p->x + (group * p->oc + column) * depth, depth, count, 0.0f, p->sizes + group * depth,
               largest);
    for (int64_t j = 0; j < PF_VL; j++) {
        const float *x = p->x + (group * p->oc + column + j) * p->ic * p->taps;
        p->scales[i * PF_VL + j] = column + j < p->oc ? PF_NAME(pairs_scale)(x, p->ic * p->taps) : 0.0f;
    }
}

/* Whether input channels of a group differ so much that they should not go in pairs: each counts by its
 * largest tap. */
static void judge(const void *weights_, int64_t group) {
    const pack *p = weights_;
    int32_t *sizes = p->sizes + group * p->ic * p->taps;
    for (int64_t c = 0; c < p->ic; c++) {
        int32_t most = 0;
        for (int64_t tap = 0; tap < p->taps; tap++) most = (int32_t)pf_max(most, sizes[c * p->taps + tap]);
        sizes[c] = most;
    }
    p->plain[group] = pf_factors_pay(sizes, p->ic) ? 1.0f : 0.0f;
}

/* What the sums of a panel of all groups start from. */
static void find_starts(const void *weights_, int64_t i) {
    const pack *p = weights_;
    const int64_t panels = panels_of(p), group = i / panels;
    const pf_panel panel = panel_at(p, i % panels);
    const int64_t width = panel.vectors * PF_VL, start = panel.start * PF_VL;
    const float *u = p->y + (group * columns_of(p) + start) * p->points * p->ic;
    float *to = p->starts + (group * columns_of(p) + start) * p->points;
    for (int64_t point = 0; point < p->points; point++, u += p->ic * width)
        for (int64_t v = 0; v < width; v += PF_VL, to += PF_VL)
            pf_store(to, PF_NAME(pairs_starts)(u + v, p->ic, width));
}

PF_KERNEL_FUNCTION(conv_winograd_pack_f32) {
    const pf_pack_args *a = args_;
    const pf_wino_form form = pf_wino_form_of(a->variant, a->kh);
    pack p = {.x = pf_ptr(w, a->x), .y = pf_ptr(w, a->y), .groups = a->groups};
    p.ic = a->ic / a->groups, p.oc = a->oc / a->groups;
    p.taps = a->kh * a->kw, p.points = form.side * form.side, p.run = transform_of(a);
    if (pf_wino_is_line(a->kh, a->kw)) {
        p.line = PF_NAME(wino_line_make)(p.taps);
        p.points = p.line.points;
    }
    if (form.pairs) {
        const pf_wino_extra e = pf_wino_extra_of(p.groups, p.points, p.ic, columns_of(&p));
        p.scales = p.y + e.scales, p.starts = p.y + e.starts, p.plain = p.y + e.plain;
        p.sizes = (int32_t *)(p.y + e.sizes);
        pf_turns t = pf_first_turn(&p, w);
        pf_take_turn(&t, p.groups, clear_sizes);
        pf_take_turn(&t, p.groups * columns_of(&p) / PF_VL, find_scales);
        pf_take_turn(&t, pieces_of(&p), pack_piece);
        pf_take_turn(&t, p.groups * panels_of(&p), find_starts);
        pf_take_turn(&t, p.groups, judge);
        return;
    }
    const int64_t pieces = pieces_of(&p);
    for (int64_t i = pf_claim_near(w, pieces); i < pieces; i = pf_claim_near(w, pieces)) pack_piece(&p, i);
}
