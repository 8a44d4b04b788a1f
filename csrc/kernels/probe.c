/* A kernel that only shows what the machine can do at this ISA level: multiply-adds that stay in registers.
 * Benchmarks of kernels take their shares of peak from here; no model uses it. */
#include "kernels/args.h"
#include "kernels/simd.h"

/* Separate variables, all different: an array might leave the registers, and equal chains are one chain to
 * the compiler. Two for each unit and cycle of latency would be plenty; with 16 registers there is room for
 * twelve. */
PF_KERNEL_FUNCTION(probe_fma_f32) {
    const pf_probe_args *a = args_;
    float *y = (float *)pf_ptr(w, a->y) + w->tid * PF_VL;
    const pf_vf start = pf_load(y), b = start * 1e-6f, f = pf_set(1.0f) - b;
    pf_vf c0 = b, c1 = c0 + b, c2 = c1 + b, c3 = c2 + b, c4 = c3 + b, c5 = c4 + b;
    pf_vf c6 = c5 + b, c7 = c6 + b, c8 = c7 + b, c9 = c8 + b, c10 = c9 + b, c11 = c10 + b;
    for (int64_t i = 0; i < a->count; i++) {
        c0 = pf_fma(c0, f, b), c1 = pf_fma(c1, f, b), c2 = pf_fma(c2, f, b), c3 = pf_fma(c3, f, b);
        c4 = pf_fma(c4, f, b), c5 = pf_fma(c5, f, b), c6 = pf_fma(c6, f, b), c7 = pf_fma(c7, f, b);
        c8 = pf_fma(c8, f, b), c9 = pf_fma(c9, f, b), c10 = pf_fma(c10, f, b), c11 = pf_fma(c11, f, b);
    }
    pf_store(y, c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11);
}
