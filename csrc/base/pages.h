/* Pages of memory that is in use already, for those who lay out weights and activations. */
#ifndef PF_BASE_PAGES_H
#define PF_BASE_PAGES_H

#include <stdint.h>

/* Bytes of a huge page, and its alignment. */
#define PF_HUGE_PAGE ((int64_t)2 << 20)

/* Whether this system can move the contents of small pages to huge ones. */
int pf_pages_join_here(void);

/* Moves [start, start + PF_HUGE_PAGE), which is aligned, to a huge page; others may read and write it
 * meanwhile. Returns -1 when it stays where it is: nothing has been written there, or no huge page is at
 * hand. */
int pf_pages_join(void *start);

#endif
