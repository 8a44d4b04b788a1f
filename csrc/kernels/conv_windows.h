/* The windows of output pixels as rows of numbers: for convolutions that copy what they multiply,
 * conv_split.c and conv_pairs.c. Linear layers and 1x1 kernels have windows of one tap, which need no copy.
 * Before they are multiplied, the channels of such can be scaled, shifted and activated. */
#ifndef PF_KERNELS_CONV_WINDOWS_H
#define PF_KERNELS_CONV_WINDOWS_H

#include <string.h>

#include "kernels/args.h"
#include "kernels/conv_place.h"
#include "kernels/epilogue.h"

typedef struct pf_windows {
    const pf_conv_args *a;
    const float *x, *scale, *shift;
    int64_t ic, depth;     /* channels of a group, numbers of a window */
    int pointwise, joined; /* one tap, no padding; taps of a filter row lie side by side */
    int changed;           /* x is scaled, shifted and activated first */
    pf_activation before;
} pf_windows;

static inline pf_windows pf_windows_of(const pf_conv_args *a) {
    pf_windows p = {.a = a, .ic = a->ic / a->groups};
    p.depth = a->kh * a->kw * p.ic;
    p.pointwise = a->kh * a->kw == 1 && a->pad_h == 0 && a->pad_w == 0 && (a->oh - 1) * a->stride_h < a->ih &&
                  (a->ow - 1) * a->stride_w < a->iw;
    p.joined = a->groups == 1 && a->dil_w == 1 && a->xsw == a->ic;
    return p;
}

/* Whether x can be scaled, shifted and activated before it is multiplied. */
static inline int pf_windows_may_change(const pf_windows *p) { return p->pointwise && p->a->groups == 1; }

/* Takes what is done to x from the arguments of a convolution with an affine map before it. */
static inline void pf_windows_change(pf_windows *p, const pf_conv_affine_args *args, const pf_worker *w) {
    p->changed = 1;
    p->scale = pf_ptr(w, args->scale), p->shift = pf_ptr(w, args->shift);
    p->before = pf_act_make(args->before, args->before_a, args->before_b);
}

/* Element of x where the window of a pixel begins, perhaps outside of the image. */
static inline const float *pf_window_start(const pf_windows *p, const pf_conv_place *at, int64_t group) {
    const int64_t offset = PF_WINDOW_OFFSET(p->a, at) + group * p->ic;
    return (const float *)((uintptr_t)p->x + (uintptr_t)offset * sizeof(float));
}

/* Copies a window, tap by tap, with zeros for the padding. */
static inline void pf_window_copy(const pf_windows *p, const pf_conv_place *at, const float *window,
                                  float *to) {
    const pf_conv_args *a = p->a;
    const int64_t y0 = PF_WINDOW_Y(a, at), x0 = PF_WINDOW_X(a, at);
    const int whole = p->joined && x0 >= 0 && x0 + a->kw <= a->iw;
    for (int64_t ky = 0; ky < a->kh; ky++) {
        const int64_t iy = y0 + ky * a->dil_h;
        const int outside = iy < 0 || iy >= a->ih;
        const uintptr_t line = (uintptr_t)window + (uintptr_t)(ky * a->dil_h * a->xsh) * sizeof(float);
        if (whole && !outside) {
            memcpy(to, (const float *)line, (size_t)(a->kw * p->ic) * sizeof *to);
            to += a->kw * p->ic;
            continue;
        }
        for (int64_t kx = 0; kx < a->kw; kx++, to += p->ic) {
            const int64_t ix = x0 + kx * a->dil_w;
            const uintptr_t tap = line + (uintptr_t)(kx * a->dil_w * a->xsw) * sizeof(float);
            if (outside || ix < 0 || ix >= a->iw)
                memset(to, 0, (size_t)p->ic * sizeof *to);
            else
                memcpy(to, (const float *)tap, (size_t)p->ic * sizeof *to);
        }
    }
}

/* Scales, shifts and activates the channels of a pixel. */
static inline void pf_window_change(const pf_windows *p, const float *x, float *to) {
    for (int64_t i = 0; i < p->ic; i += PF_VL) {
        const int64_t n = p->ic - i;
        const pf_vf shift = p->shift ? pf_load_upto(p->shift + i, n) : pf_zero();
        const pf_vf v = pf_fma(pf_load_upto(x + i, n), pf_load_upto(p->scale + i, n), shift);
        pf_store_upto(to + i, pf_act_vector(&p->before, v), n);
    }
}

/* The numbers of a window: where they lie in memory, or else in `to`. */
static inline const float *pf_window_of(const pf_windows *p, const pf_conv_place *at, int64_t group,
                                        float *to) {
    const float *x = pf_window_start(p, at, group);
    if (p->changed)
        pf_window_change(p, x, to);
    else if (!p->pointwise)
        pf_window_copy(p, at, x, to);
    else
        return x;
    return to;
}

#endif
