/* Small pages become huge ones by an advice that Linux has known since 6.1. */
#define _GNU_SOURCE
#include "base/pages.h"

#ifdef __linux__
#    include <stdio.h>
#    include <string.h>
#    include <sys/mman.h>

#    ifndef MADV_COLLAPSE
#        define MADV_COLLAPSE 25
#    endif

int pf_pages_join_here(void) {
    char text[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    if (!file) return 0;
    const int some = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    /* The advice would pay no heed to what is set there. An empty range tells whether it is known. */
    return some && !strstr(text, "[never]") && madvise(NULL, 0, MADV_COLLAPSE) == 0;
}

int pf_pages_join(void *start) {
    if (madvise(start, (size_t)PF_HUGE_PAGE, MADV_HUGEPAGE)) return -1;
    return madvise(start, (size_t)PF_HUGE_PAGE, MADV_COLLAPSE) ? -1 : 0;
}
#else
int pf_pages_join_here(void) { return 0; }

int pf_pages_join(void *start) {
    (void)start;
    return -1;
}
#endif
