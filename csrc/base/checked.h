/* Arithmetic on sizes that come from files: every result is checked, overflow returns false. */
#ifndef PF_BASE_CHECKED_H
#define PF_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool pf_mul_u64(uint64_t a, uint64_t b, uint64_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

/* True when [offset, offset + size) lies inside [0, total). */
static inline bool pf_in_range(uint64_t offset, uint64_t size, uint64_t total) {
    return offset <= total && size <= total - offset;
}

#endif
