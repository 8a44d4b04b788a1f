/* Status codes and the error record that every fallible function of the C core fills. Nothing here prints,
 * aborts or allocates; the Python binding turns a record into an exception. */
#ifndef PF_BASE_STATUS_H
#define PF_BASE_STATUS_H

#include <stdint.h>

typedef enum pf_code {
    PF_OK = 0,
    PF_EFORMAT = 1, /* the bytes do not follow the format; offset says where */
    PF_ELIMIT = 2,  /* a size is larger than allowed or does not fit in 64 bits */
    PF_EMEMORY = 3, /* an allocation failed */
    PF_EIO = 4,     /* the operating system refused a read or write */
} pf_code;

typedef struct pf_error {
    int32_t code;
    int64_t offset; /* byte offset in the input, -1 when there is none */
    char message[256];
} pf_error;

/* Fills err (which may be NULL) and returns code, so that callers can write `return pf_fail(...)`. */
int pf_fail(pf_error *err, pf_code code, int64_t offset, const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 4, 5)))
#endif
    ;

#endif
