/* Parsing of integers, decimals and scalar parameter values. */
#include "text/number.h"

#include <math.h>
#include <string.h>

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool starts_number(const char *p, const char *end) {
    if (p < end && *p == '-') p++;
    return p < end && is_digit(*p);
}

pf_code pf_parse_i64(pf_span text, int64_t *value) {
    const char *p = text.begin;
    if (!starts_number(p, text.end)) return PF_EFORMAT;
    bool negative = *p == '-';
    p += negative;
    uint64_t sum = 0;
    bool overflow = false;
    for (; p < text.end; p++) {
        if (!is_digit(*p)) return PF_EFORMAT;
        overflow |= __builtin_mul_overflow(sum, (uint64_t)10, &sum);
        overflow |= __builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum);
    }
    if (overflow || sum > (uint64_t)INT64_MAX + negative) return PF_ELIMIT;
    *value = (int64_t)(negative ? 0 - sum : sum);
    return PF_OK;
}

/* Digits before and after the point, without leading zeros. */
static const char *read_digits(const char *p, const char *end, pf_decimal *decimal) {
    const int most = 100000000; /* any exponent like this is zero or infinity, whatever the digits */
    bool after_point = false, lost = false;
    decimal->n = decimal->point = 0;
    for (; p < end; p++) {
        if (*p == '.' && !after_point) {
            after_point = true;
            continue;
        }
        if (!is_digit(*p)) break;
        if (decimal->n == 0 && *p == '0') {
            decimal->point -= after_point && decimal->point > -most;
            continue;
        }
        if (decimal->n < PF_DECIMAL_DIGITS)
            decimal->digit[decimal->n++] = (uint8_t)(*p - '0');
        else
            lost |= *p != '0';
        decimal->point += !after_point && decimal->point < most;
    }
    while (decimal->n && !decimal->digit[decimal->n - 1]) decimal->n--;
    if (lost) {
        memset(decimal->digit + decimal->n, 0, (size_t)(PF_DECIMAL_DIGITS - decimal->n));
        decimal->digit[PF_DECIMAL_DIGITS] = 1;
        decimal->n = PF_DECIMAL_DIGITS + 1;
    }
    return p;
}

static const char *read_exponent(const char *p, const char *end, pf_decimal *decimal) {
    if (p == end || (*p != 'e' && *p != 'E')) return p;
    const char *digits = p + 1;
    bool negative = digits < end && *digits == '-';
    digits += digits < end && (*digits == '-' || *digits == '+');
    if (digits == end || !is_digit(*digits)) return p;
    int exponent = 0;
    for (p = digits; p < end && is_digit(*p); p++)
        if (exponent < 100000000) exponent = 10 * exponent + (*p - '0');
    decimal->point += negative ? -exponent : exponent;
    return p;
}

/* Few digits and a small power of ten: both are exact, so one operation rounds right. */
static bool convert_fast(const pf_decimal *decimal, double *value) {
    static const double pow10[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    int exponent = decimal->point - decimal->n;
    if (decimal->n > 15 || exponent < -22 || exponent > 22) return false;
    double mantissa = 0;
    for (int i = 0; i < decimal->n; i++) mantissa = 10 * mantissa + decimal->digit[i];
    *value = exponent < 0 ? mantissa / pow10[-exponent] : mantissa * pow10[exponent];
    return true;
}

const char *pf_parse_decimal(pf_span text, pf_precision precision, double *value) {
    const char *p = text.begin;
    if (!starts_number(p, text.end)) return p;
    bool negative = *p == '-';
    pf_decimal decimal;
    p = read_digits(p + negative, text.end, &decimal);
    p = read_exponent(p, text.end, &decimal);
    if (precision != PF_FLOAT64 || !convert_fast(&decimal, value))
        *value = pf_decimal_to_binary(&decimal, precision);
    if (negative) *value = -*value;
    return p;
}

/* A part of a complex number; returns what follows it. */
static const char *read_part(const char *p, const char *end, double *value) {
    const char *word = p + (p < end && *p == '-');
    if (end - word < 3 || (memcmp(word, "inf", 3) != 0 && memcmp(word, "nan", 3) != 0))
        return pf_parse_decimal((pf_span){p, end}, PF_FLOAT64, value);
    *value = *word == 'i' ? INFINITY : NAN;
    if (word > p) *value = -*value;
    return word + 3;
}

/* Real and imaginary part like 1.0e+00-2.5e+00j, where also +- may join them. */
static bool parse_complex(pf_span text, pf_scalar *scalar) {
    const char *last = text.end - 1;
    if (last < text.begin || *last != 'j') return false;
    const char *p = read_part(text.begin, last, &scalar->real);
    if (p == text.begin || p == last || (*p != '+' && *p != '-')) return false;
    p += *p == '+';
    return p < last && read_part(p, last, &scalar->imaginary) == last;
}

pf_code pf_parse_scalar(pf_span text, pf_scalar *scalar) {
    if (parse_complex(text, scalar)) {
        scalar->kind = PF_COMPLEX;
        return PF_OK;
    }
    if (!starts_number(text.begin, text.end)) {
        scalar->kind = PF_STRING;
        return PF_OK;
    }
    if (pf_span_find(text, '.') != text.end || pf_span_find(text, 'e') != text.end) {
        scalar->kind = PF_FLOAT;
        pf_parse_decimal(text, PF_FLOAT64, &scalar->real);
        return PF_OK;
    }
    /* Like C's strtol: what follows the digits is ignored. */
    pf_span digits = {text.begin, text.begin + 1};
    while (digits.end < text.end && is_digit(*digits.end)) digits.end++;
    scalar->kind = PF_INT;
    return pf_parse_i64(digits, &scalar->integer);
}
