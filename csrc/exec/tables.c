/* Collects what the per-ISA objects define. */
#include "exec/tables.h"

#include <stddef.h>

#include "base/cpu.h"

/* Best last: emulated levels are for tests, and no one's choice. */
#define PF_LEVELS(X)                                                                                         \
    X(avx512_emulated, PF_CPU_AVX2)                                                                          \
    X(avx512vnni_emulated, PF_CPU_AVX2)                                                                      \
    X(amx_emulated, PF_CPU_AVX2)                                                                             \
    X(generic, 0)                                                                                            \
    X(avx2, PF_CPU_AVX2)                                                                                     \
    X(avx512, PF_CPU_AVX512)                                                                                 \
    X(avx512vnni, PF_CPU_AVX512 | PF_CPU_VNNI)                                                               \
    X(amx, PF_CPU_AVX512 | PF_CPU_VNNI | PF_CPU_AMX)

extern const pf_kernel_table pf_table_generic;
#define PF_TABLE_generic &pf_table_generic
#ifdef PF_BUILD_avx2
extern const pf_kernel_table pf_table_avx2;
#    define PF_TABLE_avx2 &pf_table_avx2
#else
#    define PF_TABLE_avx2 NULL
#endif
#ifdef PF_BUILD_avx512
extern const pf_kernel_table pf_table_avx512;
#    define PF_TABLE_avx512 &pf_table_avx512
#else
#    define PF_TABLE_avx512 NULL
#endif
#ifdef PF_BUILD_avx512vnni
extern const pf_kernel_table pf_table_avx512vnni;
#    define PF_TABLE_avx512vnni &pf_table_avx512vnni
#else
#    define PF_TABLE_avx512vnni NULL
#endif
#ifdef PF_BUILD_amx
extern const pf_kernel_table pf_table_amx;
#    define PF_TABLE_amx &pf_table_amx
#else
#    define PF_TABLE_amx NULL
#endif
#ifdef PF_BUILD_avx512_emulated
extern const pf_kernel_table pf_table_avx512_emulated;
#    define PF_TABLE_avx512_emulated &pf_table_avx512_emulated
#else
#    define PF_TABLE_avx512_emulated NULL
#endif
#ifdef PF_BUILD_avx512vnni_emulated
extern const pf_kernel_table pf_table_avx512vnni_emulated;
#    define PF_TABLE_avx512vnni_emulated &pf_table_avx512vnni_emulated
#else
#    define PF_TABLE_avx512vnni_emulated NULL
#endif
#ifdef PF_BUILD_amx_emulated
extern const pf_kernel_table pf_table_amx_emulated;
#    define PF_TABLE_amx_emulated &pf_table_amx_emulated
#else
#    define PF_TABLE_amx_emulated NULL
#endif

int pf_tables(const pf_kernel_table **out, int capacity) {
    const uint32_t have = pf_cpu_features();
    const struct {
        const pf_kernel_table *table;
        uint32_t need;
    } levels[] = {
#define PF_LEVEL(isa, need) {PF_TABLE_##isa, need},
        PF_LEVELS(PF_LEVEL)};
    int n = 0;
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (levels[i].table && (have & levels[i].need) == levels[i].need && n < capacity)
            out[n++] = levels[i].table;
    return n;
}

#define PF_KERNEL(name, kind)  false,
#define PF_PLANNED(name, kind) false,
#define PF_GANG(name, kind)    true,
static const bool gangs[] = {
#include "kernels/kernels.def"
};

bool pf_is_gang(int kernel, const pf_kernel_entry *entry, const void *args, int nthreads) {
    pf_plan plan = {0};
    if (!gangs[kernel]) return false;
    entry->plan(args, nthreads, &plan);
    return plan.variant != 0;
}

#define PF_FIELD(kind, type, name) {#name, #type, (int64_t)offsetof(pf_##kind##_args, name)},
#define PF_FIELDS(kind, FIELDS)    static const pf_field fields_##kind[] = {FIELDS(PF_FIELD, kind)};
PF_ARG_KINDS(PF_FIELDS)

#define PF_KIND(kind, FIELDS)                                                                                \
    {#kind, fields_##kind, (int32_t)(sizeof fields_##kind / sizeof fields_##kind[0]),                        \
     (int64_t)sizeof(pf_##kind##_args)},
static const pf_kind kinds[] = {PF_ARG_KINDS(PF_KIND)};

const pf_kind *pf_kinds(void) { return kinds; }

#define PF_CODE_NAME(LIST, NAME, text) text,
#define PF_CODE_NAMES(list, LIST) static const char *const names_##list[] = {PF_##LIST##_CODES(PF_CODE_NAME)};
PF_CODE_LISTS(PF_CODE_NAMES)

#define PF_VM_NAME(name) #name,
#define PF_VMN(name)     #name,
static const char *const names_operation[] = {
#include "kernels/expression_ops.def"
};

#define PF_CODE_LIST(list, LIST)                                                                             \
    {#list, names_##list, (int32_t)(sizeof names_##list / sizeof names_##list[0])},
static const pf_code_list code_lists[] = {PF_CODE_LISTS(PF_CODE_LIST) PF_CODE_LIST(operation, )};

int pf_code_lists(const pf_code_list **out) {
    *out = code_lists;
    return (int)(sizeof code_lists / sizeof code_lists[0]);
}
