/* The kernel tables of all ISA levels in the library, and the field tables of the argument structs. */
#ifndef PF_EXEC_TABLES_H
#define PF_EXEC_TABLES_H

#include <stdbool.h>

#include "kernels/args.h"

/* Levels that are built in and that this CPU runs, best last. Returns the count (>= 1). */
int pf_tables(const pf_kernel_table **out, int capacity);

/* Whether the threads of an entry, by its place in the tables, wait for each other with these arguments. */
bool pf_is_gang(int kernel, const pf_kernel_entry *entry, const void *args, int nthreads);

typedef struct pf_field {
    const char *name, *type;
    int64_t offset;
} pf_field;

typedef struct pf_kind {
    const char *name;
    const pf_field *fields;
    int32_t count;
    int64_t size; /* of the struct in bytes */
} pf_kind;

const pf_kind *pf_kinds(void); /* PF_KIND_COUNT entries */

/* The names of codes; the place of each is its code. */
typedef struct pf_code_list {
    const char *name;
    const char *const *names;
    int32_t count;
} pf_code_list;

/* The lists of codes.h and, as "operation", that of expression_ops.def. Returns the count. */
int pf_code_lists(const pf_code_list **out);

#endif
