/* The one writer of error records. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>

int pf_fail(pf_error *err, pf_code code, int64_t offset, const char *format, ...) {
    if (err) {
        va_list args;
        va_start(args, format);
        vsnprintf(err->message, sizeof err->message, format, args);
        va_end(args);
        err->code = code;
        err->offset = offset;
    }
    return code;
}
