/* The table of all kernels of one ISA level, made from kernels.def. */
#include "kernels/args.h"
#include "kernels/kernel.h"

/* A kernel's function, or its plan function, of the level that has it. */
#define PF_AT_HOME(name) PF_JOIN(PF_JOIN(pf, name), PF_HOME)

#define PF_GANG(name, kind)   PF_PLANNED(name, kind)
#define PF_KERNEL(name, kind) void PF_AT_HOME(name)(const void *args, const pf_worker *w);
#define PF_PLANNED(name, kind)                                                                               \
    PF_KERNEL(name, kind)                                                                                    \
    void PF_AT_HOME(name##_plan)(const void *args, int nthreads, pf_plan *plan);
#include "kernels/kernels.def"
#undef PF_KERNEL
#undef PF_PLANNED

#define PF_KERNEL(name, kind)  {#name, PF_KIND_##kind, PF_AT_HOME(name), NULL},
#define PF_PLANNED(name, kind) {#name, PF_KIND_##kind, PF_AT_HOME(name), PF_AT_HOME(name##_plan)},
static const pf_kernel_entry entries[] = {
#include "kernels/kernels.def"
};

#define PF_TEXT2(x) #x
#define PF_TEXT(x)  PF_TEXT2(x)
extern const pf_kernel_table PF_NAME(table);
const pf_kernel_table PF_NAME(table) = {PF_TEXT(PF_ISA), entries,
                                        (int32_t)(sizeof entries / sizeof entries[0])};
