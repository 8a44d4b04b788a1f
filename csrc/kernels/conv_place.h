/* Where the window of an output pixel begins in a channels-last image: for kernels that copy windows,
 * conv_int8.c and conv_windows.h. */
#ifndef PF_KERNELS_CONV_PLACE_H
#define PF_KERNELS_CONV_PLACE_H

#include <stdint.h>

/* An output pixel. */
typedef struct pf_conv_place {
    int64_t image, oy, ox;
} pf_conv_place;

static inline pf_conv_place pf_conv_place_of(int64_t pixel, int64_t oh, int64_t ow) {
    return (pf_conv_place){pixel / ow / oh, pixel / ow % oh, pixel % ow};
}

/* To the first pixel of the next line. */
static inline void pf_conv_place_next_line(pf_conv_place *p, int64_t oh) {
    p->ox = 0;
    if (++p->oy == oh) p->oy = 0, p->image++;
}

/* First row and column of the window of place *p, perhaps outside of the image, and its distance from the
 * start of x in elements. a: arguments of any convolution. */
#define PF_WINDOW_Y(a, p) ((p)->oy * (a)->stride_h - (a)->pad_h)
#define PF_WINDOW_X(a, p) ((p)->ox * (a)->stride_w - (a)->pad_w)
#define PF_WINDOW_OFFSET(a, p)                                                                               \
    ((p)->image * (a)->xsn + PF_WINDOW_Y(a, p) * (a)->xsh + PF_WINDOW_X(a, p) * (a)->xsw)

#endif
