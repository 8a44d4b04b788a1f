/* Runs a chain of convolutions strip by strip: for some lines of the last result, every stage computes the
 * lines that the next one still lacks, by a call of its kernel on arguments narrowed to these lines. Lines
 * that windows of the next strip need as well are kept. Knows shapes of convolutions, but no kernel. */
#include "exec/strips.h"

#include <string.h>

/* A thread on its way through a band of an image: lines [kept, done) of each result exist. */
typedef struct walk {
    const pf_strips_args *a;
    const pf_worker *w;
    char *scratch;
    int64_t image;
    int64_t kept[PF_STRIP_STAGES], done[PF_STRIP_STAGES];
} walk;

/* First input line, inside of the image, of the window of output line y. */
static int64_t first_line(const pf_stem_args *a, int64_t y) {
    return pf_min(a->ih, pf_max(0, y * a->stride_h - a->pad_h));
}

/* One past the last such line. */
static int64_t last_line(const pf_stem_args *a, int64_t y) {
    return pf_min(a->ih, y * a->stride_h - a->pad_h + (a->kh - 1) * a->dil_h + 1);
}

static void shift(pf_ref *r, int64_t elements) {
    if (r->base >= 0) r->offset += elements * (int64_t)sizeof(float);
}

static pf_ref line_at(const walk *k, int64_t stage, int64_t line, int64_t stride) {
    const int64_t skip = (line - k->kept[stage]) * stride * (int64_t)sizeof(float);
    return (pf_ref){0, (int64_t)(uintptr_t)k->scratch + k->a->stages[stage].buffer + skip};
}

/* Makes room for lines up to `end`: drops those that the next stage has used. */
static void make_room(walk *k, int64_t stage, int64_t end) {
    const pf_strip_stage *s = &k->a->stages[stage];
    if (end - k->kept[stage] <= s->lines) return;
    const int64_t keep = pf_min(first_line(&s[1].args, k->done[stage + 1]), k->done[stage]);
    const size_t line = (size_t)s->args.ysh * sizeof(float), count = (size_t)(k->done[stage] - keep);
    char *lines = k->scratch + s->buffer;
    memmove(lines, lines + (size_t)(keep - k->kept[stage]) * line, count * line);
    k->kept[stage] = keep;
}

/* Computes lines [done, end) of a stage. */
static void run_stage(walk *k, int64_t stage, int64_t end) {
    const pf_strip_stage *s = &k->a->stages[stage];
    const int64_t begin = k->done[stage], top = begin * s->args.stride_h - s->args.pad_h;
    if (begin >= end) return;
    int64_t next = 0;
    const pf_worker alone = {k->w->tid, 1, k->w->bases, &next, k->w->step, k->w->fault};
    pf_stem_args a = s->args;
    const int64_t first = first_line(&a, begin);
    a.n = 1, a.oh = end - begin, a.pad_h = first - top;
    if (stage == 0) {
        a.ih -= first;
        shift(&a.x, k->image * a.xsn + first * a.xsh);
    } else {
        a.ih = k->done[stage - 1] - first;
        a.x = line_at(k, stage - 1, first, a.xsh);
    }
    if (stage + 1 == k->a->count) {
        shift(&a.y, k->image * a.ysn + begin * a.ysh);
    } else {
        make_room(k, stage, end);
        a.y = line_at(k, stage, begin, a.ysh);
    }
    shift(&a.z, k->image * a.zsn + begin * a.zsh);
    s->run(&a, &alone);
    k->done[stage] = end;
}

/* Lines [begin, end) of the last result. */
static void run_band(walk *k, int64_t begin, int64_t end) {
    const int64_t last = k->a->count - 1;
    int64_t until[PF_STRIP_STAGES];
    k->done[last] = begin;
    for (int64_t s = last; s > 0; s--)
        k->kept[s - 1] = k->done[s - 1] = first_line(&k->a->stages[s].args, k->done[s]);
    for (int64_t line = begin; line < end; line += k->a->lines) {
        until[last] = pf_min(line + k->a->lines, end);
        for (int64_t s = last; s > 0; s--) until[s - 1] = last_line(&k->a->stages[s].args, until[s] - 1);
        for (int64_t s = 0; s <= last; s++) run_stage(k, s, until[s]);
    }
}

void pf_strips_step(const void *args_, const pf_worker *w) {
    const pf_strips_args *a = args_;
    const pf_stem_args *result = &a->stages[a->count - 1].args;
    walk k = {.a = a, .w = w, .scratch = (char *)pf_ptr(w, a->scratch) + w->tid * a->thread_bytes};
    for (int64_t u = pf_claim(w, 1); u < result->n * a->bands; u = pf_claim(w, 1)) {
        const int64_t band = u % a->bands;
        k.image = u / a->bands;
        run_band(&k, result->oh * band / a->bands, result->oh * (band + 1) / a->bands);
    }
}
