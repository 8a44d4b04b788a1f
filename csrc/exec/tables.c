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

#define PF_DECLARE_TABLE(isa, need) extern const pf_kernel_table pf_table_##isa;
PF_LEVELS(PF_DECLARE_TABLE)

/* The table of a level that is built, for which the build defines PF_BUILD_<isa> as 1, and NULL for others:
 * what stands in the second place, into which a comma in front moves the table. */
#define PF_COMMA_1                    ,
#define PF_SECOND(first, second, ...) second
#define PF_PICK(...)                  PF_SECOND(__VA_ARGS__)
#define PF_TABLE(isa)                 PF_PICK(PF_JOIN(PF_COMMA, PF_BUILD_##isa)(&pf_table_##isa), NULL, )

int pf_tables(const pf_kernel_table **out, int capacity) {
    const uint32_t have = pf_cpu_features();
    const struct {
        const pf_kernel_table *table;
        uint32_t need;
    } levels[] = {
#define PF_LEVEL(isa, need) {PF_TABLE(isa), need},
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
