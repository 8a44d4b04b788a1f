/* Runs a chain of convolutions, pools and copies strip by strip: for some lines of the last result, every
 * stage computes the lines that the next one still lacks, by a call of its kernel on arguments narrowed to
 * these lines. Lines that windows of the next strip need as well are kept. Knows shapes of stages, but no
 * kernel. */
#include "exec/strips.h"

#include <string.h>

/* What all stages have in common: addresses (but z, which a copy has not), heights, and what the windows of
 * lines are. */
typedef struct shape {
    pf_ref *x, *y, *z;
    int64_t *images, *ih, *oh, *pad;
    int64_t stride, extent;
    int64_t xsn, xsh, ysn, ysh, zsn, zsh;
} shape;

static shape shape_of(pf_strip_stage *s) {
    if (s->kind == PF_KIND_pool) {
        pf_pool_args *a = &s->args.pool;
        return (shape){.x = &a->x,
                       .y = &a->y,
                       .z = &a->index,
                       .images = &a->n,
                       .ih = &a->isize[1],
                       .oh = &a->osize[1],
                       .pad = &a->pad[1],
                       .stride = a->stride[1],
                       .extent = (a->window[1] - 1) * a->dilation[1] + 1,
                       .xsn = a->xs[0],
                       .xsh = a->xs[3],
                       .ysn = a->ys[0],
                       .ysh = a->ys[3]};
    }
    if (s->kind == PF_KIND_copy) {
        pf_copy_args *a = &s->args.copy;
        int64_t *const lines = &a->shape[PF_STRIP_LINE];
        return (shape){.x = &a->x,
                       .y = &a->y,
                       .images = &a->shape[0],
                       .ih = lines,
                       .oh = lines,
                       .pad = &s->pad,
                       .stride = 1,
                       .extent = 1,
                       .xsn = a->xs[0],
                       .xsh = a->xs[PF_STRIP_LINE],
                       .ysn = a->ys[0],
                       .ysh = a->ys[PF_STRIP_LINE]};
    }
    pf_stem_args *a = &s->args.conv;
    return (shape){
        &a->x,  &a->y,  &a->z,  &a->n,  &a->ih, &a->oh, &a->pad_h, a->stride_h, (a->kh - 1) * a->dil_h + 1,
        a->xsn, a->xsh, a->ysn, a->ysh, a->zsn, a->zsh};
}

/* A thread on its way through a band of an image: lines [kept, done) of each result exist. */
typedef struct walk {
    const pf_worker *w;
    char *scratch;
    int64_t count, image;
    int64_t kept[PF_STRIP_STAGES], done[PF_STRIP_STAGES];
    pf_strip_stage stages[PF_STRIP_STAGES];
    shape shapes[PF_STRIP_STAGES];
} walk;

/* First input line, inside of the image, of the window of output line y. */
static int64_t first_line(const shape *s, int64_t y) {
    return pf_min(*s->ih, pf_max(0, y * s->stride - *s->pad));
}

/* One past the last such line. */
static int64_t last_line(const shape *s, int64_t y) {
    return pf_min(*s->ih, pf_max(0, y * s->stride - *s->pad + s->extent));
}

static void shift(pf_ref *r, int64_t elements) {
    if (r && r->base >= 0) r->offset += elements * (int64_t)sizeof(float);
}

static pf_ref line_at(const walk *k, int64_t stage, int64_t line, int64_t stride) {
    const int64_t skip = (line - k->kept[stage]) * stride * (int64_t)sizeof(float);
    return (pf_ref){0, (int64_t)(uintptr_t)k->scratch + k->stages[stage].buffer + skip};
}

/* Makes room for lines up to `end`: drops those that the next stage has used. */
static void make_room(walk *k, int64_t stage, int64_t end) {
    const pf_strip_stage *s = &k->stages[stage];
    if (end - k->kept[stage] <= s->lines) return;
    const int64_t keep = pf_min(first_line(&k->shapes[stage + 1], k->done[stage + 1]), k->done[stage]);
    const size_t line = (size_t)k->shapes[stage].ysh * sizeof(float), count = (size_t)(k->done[stage] - keep);
    char *lines = k->scratch + s->buffer;
    memmove(lines, lines + (size_t)(keep - k->kept[stage]) * line, count * line);
    k->kept[stage] = keep;
}

/* Computes lines [done, end) of a stage. */
static void run_stage(walk *k, int64_t stage, int64_t end) {
    const shape *whole = &k->shapes[stage];
    const int64_t begin = k->done[stage], top = begin * whole->stride - *whole->pad;
    if (begin >= end) return;
    int64_t next = 0, range = 0;
    const int64_t kind = k->stages[stage].kind;
    /* Pools and copies share their work by the number of the thread, convolutions keep scratch by it. */
    const pf_worker alone = {kind == PF_KIND_pool || kind == PF_KIND_copy ? 0 : k->w->tid,
                             1,
                             k->w->bases,
                             &next,
                             &range,
                             k->w->step,
                             k->w->fault,
                             {NULL, 0}};
    pf_strip_stage part = k->stages[stage];
    const shape s = shape_of(&part);
    const int64_t first = first_line(whole, begin);
    /* No lines behind the windows: where windows are pixels, input and output then agree, and kernels may
     * take lines for one. */
    *s.images = 1, *s.oh = end - begin, *s.pad = first - top, *s.ih = last_line(whole, end - 1) - first;
    if (stage == 0) {
        shift(s.x, k->image * s.xsn + first * s.xsh);
    } else {
        *s.x = line_at(k, stage - 1, first, s.xsh);
    }
    if (stage + 1 == k->count) {
        shift(s.y, k->image * s.ysn + begin * s.ysh);
    } else {
        make_room(k, stage, end);
        *s.y = line_at(k, stage, begin, s.ysh);
    }
    shift(s.z, k->image * s.zsn + begin * s.zsh);
    if (part.kind == PF_KIND_lines)
        shift(&part.args.lines.sums, (k->image * *whole->oh + begin) * part.args.lines.oc);
    part.run(&part.args, &alone);
    k->done[stage] = end;
}

/* Begins at line `begin` of the last result, unless the walk has just come there: then the lines that windows
 * share need not be computed again. */
static void go_to(walk *k, int64_t image, int64_t begin) {
    const int64_t last = k->count - 1;
    if (k->image == image && k->done[last] == begin) return;
    k->image = image;
    k->done[last] = begin;
    for (int64_t s = last; s > 0; s--)
        k->kept[s - 1] = k->done[s - 1] = first_line(&k->shapes[s], k->done[s]);
}

/* Lines up to `end` of the last result. */
static void run_band(walk *k, int64_t end, int64_t lines) {
    const int64_t last = k->count - 1;
    int64_t until[PF_STRIP_STAGES];
    while (k->done[last] < end) {
        until[last] = pf_min(k->done[last] + lines, end);
        for (int64_t s = last; s > 0; s--) until[s - 1] = last_line(&k->shapes[s], until[s] - 1);
        for (int64_t s = 0; s <= last; s++) run_stage(k, s, until[s]);
    }
}

bool pf_strips_take(int64_t kind) {
    return kind == PF_KIND_conv || kind == PF_KIND_stem || kind == PF_KIND_lines || kind == PF_KIND_pool ||
           kind == PF_KIND_gate || kind == PF_KIND_copy;
}

void pf_strips_step(const void *args_, const pf_worker *w) {
    const pf_strips_args *a = args_;
    walk k = {.count = a->count,
              .image = -1,
              .w = w,
              .scratch = (char *)pf_ptr(w, a->scratch) + w->tid * a->thread_bytes};
    for (int64_t s = 0; s < a->count; s++) {
        k.stages[s] = a->stages[s];
        k.shapes[s] = shape_of(&k.stages[s]);
    }
    const shape *last = &k.shapes[a->count - 1];
    const int64_t total = *last->images * a->bands;
    for (int64_t u = pf_claim_near(w, total); u < total; u = pf_claim_near(w, total)) {
        const int64_t band = u % a->bands;
        go_to(&k, u / a->bands, *last->oh * band / a->bands);
        run_band(&k, *last->oh * (band + 1) / a->bands, a->lines);
    }
}
