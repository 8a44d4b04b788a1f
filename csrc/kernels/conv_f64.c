/* Convolutions of doubles in one to three dimensions over channels-last tensors. A row of the left matrix is
 * what a window sees at one place: blocks of such rows are gathered when they are packed, and the matrix
 * itself is never made. The right one holds the weights as (group, tap, channel of the input, channel of the
 * output). Depthwise convolutions add up the taps place by place, over vectors of channels. */
#include <stdio.h>

#include "kernels/product_f64.h"

/* How the columns of the left matrix lie in the input: spans of `length` doubles that are neighbours there.
 * Such a span is a tap's channels, or a whole line of taps where nothing lies between them. */
typedef struct conv {
    const pf_conv3d_args *a;
    int64_t channels; /* of the input, of a group */
    int64_t line, length;
    bool depthwise;
} conv;

/* Where a window begins, perhaps outside, and whether all of it lies in the image. */
typedef struct corner {
    int64_t d, h, w;
    bool inside;
} corner;

/* The operands of a unit, and its windows. */
typedef struct windows {
    operands o;
    const conv *p;
    corner corners[ROW_BLOCK];
    const double *first[ROW_BLOCK]; /* their first pixels, perhaps outside */
    int64_t at[ROW_BLOCK];
} windows;

static conv plan_conv(const pf_conv3d_args *a) {
    conv p = {.a = a, .channels = a->ic / a->groups};
    const bool joined = a->dil_w == 1 && a->groups == 1 && (a->xsw == a->ic || a->kw == 1);
    p.line = joined ? a->kw : 1;
    p.length = p.line * p.channels;
    p.depthwise = a->groups > 1 && a->groups == a->ic && a->groups == a->oc;
    return p;
}

/* The product that a convolution is; groups are batches. */
static pf_matmul_args as_product(const pf_conv3d_args *a) {
    return (pf_matmul_args){.m = a->n * a->od * a->oh * a->ow,
                            .n = a->oc / a->groups,
                            .k = a->kd * a->kh * a->kw * (a->ic / a->groups),
                            .bk = a->oc / a->groups,
                            .bn = 1,
                            .cn = 1,
                            .alpha = 1,
                            .beta = 1,
                            .rank = 1,
                            .shape = {a->groups}};
}

/* ---- windows ---- */

/* The windows of the rows [r0, r1) of all images, and where their results go. */
static void place_windows(windows *u, const double *x, int64_t r0, int64_t r1) {
    const pf_conv3d_args *a = u->p->a;
    int64_t w = r0 % a->ow, h = r0 / a->ow % a->oh, d = r0 / a->ow / a->oh % a->od;
    int64_t n = r0 / a->ow / a->oh / a->od;
    for (int64_t r = 0; r < r1 - r0; r++) {
        corner *c = u->corners + r;
        *c = (corner){.d = d * a->stride_d - a->pad_d,
                      .h = h * a->stride_h - a->pad_h,
                      .w = w * a->stride_w - a->pad_w};
        u->first[r] = x + n * a->xsn + c->d * a->xsd + c->h * a->xsh + c->w * a->xsw;
        c->inside = pf_min(c->d, pf_min(c->h, c->w)) >= 0 && c->d + (a->kd - 1) * a->dil_d < a->id &&
                    c->h + (a->kh - 1) * a->dil_h < a->ih && c->w + (a->kw - 1) * a->dil_w < a->iw;
        u->at[r] = n * a->ysn + d * a->ysd + h * a->ysh + w * a->ysw;
        if (++w < a->ow) continue;
        w = 0;
        if (++h < a->oh) continue;
        h = 0;
        if (++d < a->od) continue;
        d = 0, n++;
    }
}

/* The taps that a span begins with, along each axis, and how far they are from the first. */
typedef struct tap {
    int64_t d, h, w, offset;
} tap;

PF_INLINE tap tap_of(const conv *p, int64_t span) {
    const pf_conv3d_args *a = p->a;
    const int64_t across = a->kw / p->line;
    tap t = {span / across / a->kh, span / across % a->kh, span % across, 0};
    t.d *= a->dil_d, t.h *= a->dil_h, t.w *= a->dil_w;
    t.offset = t.d * a->xsd + t.h * a->xsh + t.w * a->xsw;
    return t;
}

/* The part [*from, *to) of a window's span that lies in the image. */
PF_INLINE void clip_span(const conv *p, const corner *c, const tap *t, int64_t *from, int64_t *to) {
    const pf_conv3d_args *a = p->a;
    const int64_t d = c->d + t->d, h = c->h + t->h, w = c->w + t->w;
    const int64_t first = pf_max(0, -w), last = pf_min(p->line, a->iw - w);
    const bool some = (uint64_t)d < (uint64_t)a->id && (uint64_t)h < (uint64_t)a->ih && first < last;
    *from = some ? first * p->channels : 0, *to = some ? last * p->channels : 0;
}

/* n doubles of ROWS spans, element by element. */
PF_INLINE void interleave(const double *const *x, int64_t n, double *out) {
    for (int64_t i = 0; i < n; i++) PF_UNROLL
    for (int j = 0; j < ROWS; j++) out[i * ROWS + j] = x[j][i];
}

/* Elements [begin, begin + n) of the span of a panel's windows; rows that are missing are zero. */
static void pack_border(const windows *u, int64_t r, int64_t rows, const tap *t, int64_t begin, int64_t n,
                        double *out) {
    for (int64_t j = 0; j < ROWS; j++) {
        int64_t from = 0, to = 0;
        if (r + j < rows) clip_span(u->p, u->corners + r + j, t, &from, &to);
        const double *x = from < to ? u->first[r + j] + t->offset + begin : NULL;
        for (int64_t i = 0; i < n; i++) out[i * ROWS + j] = begin + i >= from && begin + i < to ? x[i] : 0.0;
    }
}

static void pack_windows(const operands *o, const pf_matmul_args *m, int64_t row, int64_t rows, int64_t k0,
                         int64_t k) {
    const windows *u = (const windows *)o;
    const conv *p = u->p;
    double *out = o->packed_a;
    (void)m, (void)row;
    for (int64_t r = 0; r < rows; r += ROWS) {
        bool inside = r + ROWS <= rows;
        for (int64_t j = 0; inside && j < ROWS; j++) inside = u->corners[r + j].inside;
        for (int64_t i = k0, n; i < k0 + k; i += n, out += n * ROWS) {
            const int64_t begin = i % p->length;
            const tap t = tap_of(p, i / p->length);
            n = pf_min(p->length - begin, k0 + k - i);
            const double *x[ROWS];
            for (int64_t j = 0; inside && j < ROWS; j++) x[j] = u->first[r + j] + t.offset + begin;
            if (inside)
                interleave(x, n, out);
            else
                pack_border(u, r, rows, &t, begin, n, out);
        }
    }
}

/* ---- depthwise ---- */

/* The taps of a window that lie in the image: from lo on, before hi, along each axis. */
typedef struct reach {
    int64_t lo[3], hi[3];
} reach;

static reach reach_of(const pf_conv3d_args *a, const corner *c) {
    const int64_t first[] = {c->d, c->h, c->w}, sizes[] = {a->id, a->ih, a->iw},
                  taps[] = {a->kd, a->kh, a->kw};
    const int64_t steps[] = {a->dil_d, a->dil_h, a->dil_w};
    reach r;
    for (int i = 0; i < 3; i++) {
        r.lo[i] = c->inside || first[i] >= 0 ? 0 : pf_ceil_div(-first[i], steps[i]);
        r.hi[i] =
            c->inside ? taps[i] : pf_min(taps[i], pf_ceil_div(pf_max(0, sizes[i] - first[i]), steps[i]));
    }
    return r;
}

/* One window over `vectors` vectors of channels, or over a single channel. */
PF_INLINE void sum_taps(const pf_conv3d_args *a, const reach *r, const double *x, const double *weight,
                        const double *bias, const int vectors, double *y) {
    pf_vd sums[4] = {0};
    double sum = bias ? *bias : 0.0;
    PF_UNROLL
    for (int v = 0; v < vectors && bias; v++) sums[v] = *(const pf_vd_any *)(bias + v * LANES);
    for (int64_t kd = r->lo[0]; kd < r->hi[0]; kd++)
        for (int64_t kh = r->lo[1]; kh < r->hi[1]; kh++)
            for (int64_t kw = r->lo[2]; kw < r->hi[2]; kw++) {
                const double *at =
                    x + kd * a->dil_d * a->xsd + kh * a->dil_h * a->xsh + kw * a->dil_w * a->xsw;
                const double *w = weight + ((kd * a->kh + kh) * a->kw + kw) * a->oc;
                if (vectors == 0) sum += *at * *w;
                PF_UNROLL
                for (int v = 0; v < vectors; v++)
                    sums[v] = pf_fmad(*(const pf_vd_any *)(at + v * LANES),
                                      *(const pf_vd_any *)(w + v * LANES), sums[v]);
            }
    if (vectors == 0) *y = sum;
    PF_UNROLL
    for (int v = 0; v < vectors; v++) *(pf_vd_any *)(y + v * LANES) = sums[v];
}

static void run_depthwise(const windows *u, int64_t rows) {
    const pf_conv3d_args *a = u->p->a;
    for (int64_t row = 0; row < rows; row++) {
        const reach r = reach_of(a, u->corners + row);
        const double *x = u->first[row], *w = u->o.b, *bias = u->o.c;
        double *y = u->o.y + u->at[row];
        int64_t i = 0;
        for (; i + 4 * LANES <= a->oc; i += 4 * LANES)
            sum_taps(a, &r, x + i, w + i, bias ? bias + i : NULL, 4, y + i);
        for (; i + LANES <= a->oc; i += LANES)
            sum_taps(a, &r, x + i, w + i, bias ? bias + i : NULL, 1, y + i);
        for (; i < a->oc; i++) sum_taps(a, &r, x + i, w + i, bias ? bias + i : NULL, 0, y + i);
    }
}

/* ---- the kernel ---- */

PF_KERNEL_FUNCTION(conv_f64) {
    const pf_conv3d_args *a = args_;
    const conv c = plan_conv(a);
    const pf_matmul_args m = as_product(a);
    const matmul p = plan_matmul(&m, false);
    const int64_t groups = c.depthwise ? 1 : a->groups, columns = c.depthwise ? 1 : p.column_blocks;
    const double *x = pf_ptr(w, a->x), *weight = pf_ptr(w, a->w), *bias = pf_ptr(w, a->bias);
    if (m.m == 0 || m.n == 0) return;
    /* The groups of a block of rows follow each other: they read the same lines of the cache. */
    for (int64_t i = pf_claim(w, 1); i < p.row_blocks * groups * columns; i = pf_claim(w, 1)) {
        const int64_t block = i / columns / groups, g = i / columns % groups;
        int64_t r0, r1;
        windows u;
        u.p = &c;
        rows_of_block(&p, block, &r0, &r1);
        place_windows(&u, x + g * c.channels, r0, r1);
        double *packed = (double *)pf_ptr(w, a->scratch) + w->tid * p.thread_doubles;
        u.o = (operands){.b = weight + g * m.k * m.n,
                         .c = bias ? bias + g * m.n : NULL,
                         .y = (double *)pf_ptr(w, a->y) + g * m.n,
                         .packed_a = packed,
                         .packed_b = packed + p.a_doubles,
                         .pack = pack_windows,
                         .at = u.at};
        if (c.depthwise)
            run_depthwise(&u, r1 - r0);
        else
            run_unit(&p, &u.o, block, i % columns);
    }
}

PF_PLAN_FUNCTION(conv_f64) {
    const pf_conv3d_args *a = args_;
    const pf_matmul_args m = as_product(a);
    const matmul p = plan_matmul(&m, false);
    plan->scratch_bytes = nthreads * p.thread_doubles * (int64_t)sizeof(double);
    snprintf(plan->label, sizeof plan->label, "%dx%d", ROWS, WIDTH);
}
