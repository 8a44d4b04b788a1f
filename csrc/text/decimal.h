/* Exact conversion between decimal digits and binary floating point, by integer arithmetic of any length.
 * Used by number.c and float_text.c for what their fast paths cannot do. Independent of locale and rounding
 * mode. */
#ifndef PF_TEXT_DECIMAL_H
#define PF_TEXT_DECIMAL_H

#include <stdint.h>

/* Beyond this many significant digits only whether any further one is not zero matters: the shortest decimal
 * that lies exactly between two doubles has at most 767. */
enum { PF_DECIMAL_DIGITS = 780 };

typedef enum pf_precision { PF_FLOAT32 = 24, PF_FLOAT64 = 53 } pf_precision;

/* 0.d1 d2 … dn * 10^point, digits 0..9 with d1 not zero (n == 0 is zero). */
typedef struct pf_decimal {
    int n;
    int point;
    uint8_t digit[PF_DECIMAL_DIGITS + 1];
} pf_decimal;

/* The nearest value of that precision (ties to even), infinity when it is out of range. */
double pf_decimal_to_binary(const pf_decimal *decimal, pf_precision precision);

/* The nearest decimal of n digits (ties to even) to a finite x > 0. */
void pf_binary_to_decimal(double x, int n, pf_decimal *decimal);

#endif
