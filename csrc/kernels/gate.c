/* Gated units: one half of the channels of each pixel times the other half, activated. A step of its own or a
 * stage of a chain of convolutions, so that the halves need not leave the cache. Pixels are channels-last. */
#include <stdbool.h>

#include "kernels/args.h"
#include "kernels/epilogue.h"

/* Neighbouring pixels of a line: `gate` is the distance of a factor from the other one. */
typedef struct line {
    const float *x;
    float *y;
    int64_t gate, pixels, channels, xstep, ystep;
} line;

/* Pixels have few vectors, so whole ones are a case without a question for each. */
PF_INLINE void multiply(const line *l, const pf_activation *act, const bool whole) {
    const float *x = l->x;
    float *y = l->y;
    for (int64_t p = 0; p < l->pixels; p++, x += l->xstep, y += l->ystep) {
        for (int64_t i = 0; i < l->channels; i += PF_VL) {
            const int64_t n = whole ? PF_VL : l->channels - i;
            const pf_vf g = pf_load_upto(x + l->gate + i, n);
            pf_store_upto(y + i, pf_load_upto(x + i, n) * (act ? pf_act_vector(act, g) : g), n);
        }
    }
}

PF_KERNEL_FUNCTION(gate_f32) {
    const pf_gate_args *a = args_;
    const pf_activation act = pf_act_make(a->act, a->act_a, a->act_b);
    const int64_t lines = a->n * a->oh;
    line l = {NULL, NULL, a->first ? -a->oc : a->oc, a->ow, a->oc, a->xsw, a->ysw};
    for (int64_t u = pf_claim_near(w, lines); u < lines; u = pf_claim_near(w, lines)) {
        const int64_t image = u / a->oh, row = u % a->oh;
        l.x = (const float *)pf_ptr(w, a->x) + image * a->xsn + row * a->xsh + (a->first ? a->oc : 0);
        l.y = (float *)pf_ptr(w, a->y) + image * a->ysn + row * a->ysh;
        if (act.code != PF_ACT_NONE)
            multiply(&l, &act, false);
        else if (a->oc % PF_VL)
            multiply(&l, NULL, false);
        else
            multiply(&l, NULL, true);
    }
}
