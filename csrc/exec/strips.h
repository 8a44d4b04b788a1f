/* The step that runs a chain of convolutions, pools and copies strip by strip, so that what one hands to the
 * next stays in the cache of the core. The binding packs its arguments; the program runs it like any other
 * step.
 */
#ifndef PF_EXEC_STRIPS_H
#define PF_EXEC_STRIPS_H

#include <stdbool.h>

#include "kernels/args.h"

enum { PF_STRIP_STAGES = 8 };

/* Places of the axis of lines among the dimensions of a copy: image, channels of planes, line, pixel,
 * channels of pixels; one of the two is 1. */
enum { PF_STRIP_LINE = 2 };

/* A link of the chain: its kernel and its arguments as if it ran alone, except that results of all but the
 * last have no place in memory: strides are set, references are absent. Their lines go to a buffer of `lines`
 * lines, `buffer` bytes from the start of a thread's scratch. The kernel gets a team of one; it may keep
 * scratch by the number of the thread. */
typedef struct pf_strip_stage {
    pf_kernel_fn run;
    int64_t kind; /* of args: a pool is one of channels-last tensors */
    int64_t lines, buffer;
    int64_t pad; /* of a copy, which has none */
    union {
        pf_stem_args conv; /* begins with the fields of every two-dimensional convolution */
        pf_lines_args lines;
        pf_pool_args pool;
        pf_gate_args gate;
        pf_copy_args copy;
    } args;
} pf_strip_stage;

/* lines: of the last result in a strip; bands: parts of an image that threads take; thread_bytes: scratch of
 * a thread. */
typedef struct pf_strips_args {
    pf_ref scratch;
    int64_t thread_bytes, lines, bands, count;
    pf_strip_stage stages[];
} pf_strips_args;

/* Whether the arguments of a stage hold those of a kind. */
bool pf_strips_take(int64_t kind);

void pf_strips_step(const void *args, const pf_worker *w);

#endif
