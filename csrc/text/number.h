/* Numbers in text files: exact, and independent of the locale.
 * Used by the text module; knows nothing of files. */
#ifndef PF_TEXT_NUMBER_H
#define PF_TEXT_NUMBER_H

#include "base/status.h"
#include "text/decimal.h"
#include "text/scan.h"

/* A whole span as a decimal integer: PF_EFORMAT when it is none, PF_ELIMIT when it does not fit. */
pf_code pf_parse_i64(pf_span text, int64_t *value);

/* The decimal number that a span begins with, like strtod but without inf, nan and hexadecimals. Returns the
 * end of the number, which is the beginning of the span when there is none. Too large becomes infinity. */
const char *pf_parse_decimal(pf_span text, pf_precision precision, double *value);

/* What kind of value a text is, by PNNX's rules; the numbers are its codes of parameter types. Python knows
 * them from here, by way of the text module. */
typedef enum pf_kind {
    PF_NULL = 0,
    PF_BOOL = 1,
    PF_INT = 2,
    PF_FLOAT = 3,
    PF_STRING = 4,
    PF_INTS = 5,
    PF_FLOATS = 6,
    PF_STRINGS = 7,
    PF_COMPLEX = 10,
    PF_COMPLEXES = 11
} pf_kind;

typedef struct pf_scalar {
    pf_kind kind;
    int64_t integer;
    double real, imaginary;
} pf_scalar;

/* A value that is not a list. PF_ELIMIT when it is an integer that does not fit. */
pf_code pf_parse_scalar(pf_span text, pf_scalar *scalar);

#endif
