/* Long integers of 32-bit words, just enough of them to scale a fraction and draw its digits, binary or
 * decimal. */
#include "text/decimal.h"

#include <math.h>
#include <string.h>

/* The largest numbers are 10^(324 + 780) with room to shift. */
enum { WORDS = 128 };

typedef struct integer {
    int n; /* words in use, the highest not zero */
    uint32_t word[WORDS];
} integer;

static void set(integer *a, uint64_t value) {
    a->n = 0;
    for (; value; value >>= 32) a->word[a->n++] = (uint32_t)value;
}

static void multiply_add(integer *a, uint32_t factor, uint32_t carry) {
    uint64_t sum = carry;
    for (int i = 0; i < a->n; i++, sum >>= 32) {
        sum += (uint64_t)a->word[i] * factor;
        a->word[i] = (uint32_t)sum;
    }
    if (sum) a->word[a->n++] = (uint32_t)sum;
}

static void multiply_pow10(integer *a, int exponent) {
    for (; exponent >= 9; exponent -= 9) multiply_add(a, 1000000000u, 0);
    for (; exponent > 0; exponent--) multiply_add(a, 10, 0);
}

static void shift_left(integer *a, int bits) {
    int words = bits / 32;
    if (a->n == 0) return;
    multiply_add(a, (uint32_t)1 << bits % 32, 0);
    memmove(a->word + words, a->word, (size_t)a->n * sizeof a->word[0]);
    memset(a->word, 0, (size_t)words * sizeof a->word[0]);
    a->n += words;
}

static int compare(const integer *a, const integer *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->word[i] != b->word[i]) return a->word[i] < b->word[i] ? -1 : 1;
    return 0;
}

/* a -= b, where a >= b. */
static void subtract(integer *a, const integer *b) {
    uint64_t borrow = 0;
    for (int i = 0; i < a->n; i++) {
        uint64_t take = (i < b->n ? b->word[i] : 0) + borrow;
        borrow = a->word[i] < take;
        a->word[i] = (uint32_t)(a->word[i] - take);
    }
    while (a->n && !a->word[a->n - 1]) a->n--;
}

static int bit_length(const integer *a) { return a->n ? 32 * a->n - __builtin_clz(a->word[a->n - 1]) : 0; }

/* a / b as an integer part of one digit below base, a becoming the remainder. */
static int draw_digit(integer *a, const integer *b) {
    int digit = 0;
    for (; compare(a, b) >= 0; digit++) subtract(a, b);
    return digit;
}

double pf_decimal_to_binary(const pf_decimal *decimal, pf_precision precision) {
    const int bits = precision;
    const int top = precision == PF_FLOAT32 ? 128 : 1024;        /* the first power of two out of range */
    const int bottom = (precision == PF_FLOAT32 ? -149 : -1074); /* the last bit of a subnormal number */
    if (decimal->n == 0 || decimal->point < -330) return 0;
    if (decimal->point > 310) return INFINITY;
    integer a, b;
    set(&a, 0);
    set(&b, 1);
    for (int i = 0; i < decimal->n; i++) multiply_add(&a, 10, decimal->digit[i]);
    int exponent10 = decimal->point - decimal->n;
    multiply_pow10(exponent10 >= 0 ? &a : &b, exponent10 >= 0 ? exponent10 : -exponent10);
    /* Scale to 1 <= a / b < 2; the value is a / b * 2^exponent. */
    int exponent = bit_length(&a) - bit_length(&b);
    shift_left(exponent >= 0 ? &b : &a, exponent >= 0 ? exponent : -exponent);
    if (compare(&a, &b) < 0) {
        exponent--;
        shift_left(&a, 1);
    }
    int last = exponent - bits + 1 > bottom ? exponent - bits + 1 : bottom;
    uint64_t mantissa = 0;
    for (int bit = exponent; bit >= last; bit--) {
        mantissa = 2 * mantissa + (uint64_t)draw_digit(&a, &b);
        shift_left(&a, 1);
    }
    if (exponent < last - 1) return 0;
    int rest = compare(&a, &b); /* what is left against half of the last bit */
    mantissa += rest > 0 || (rest == 0 && (mantissa & 1));
    double value = ldexp((double)mantissa, last);
    return value < ldexp(1, top - 1) * 2 ? value : INFINITY;
}

void pf_binary_to_decimal(double x, int n, pf_decimal *decimal) {
    int exponent;
    uint64_t mantissa = (uint64_t)ldexp(frexp(x, &exponent), 53);
    exponent -= 53;
    integer a, b;
    set(&a, mantissa);
    set(&b, 1);
    shift_left(exponent >= 0 ? &a : &b, exponent >= 0 ? exponent : -exponent);
    /* An estimate of the decimal exponent that is right or one too small. */
    int point = (int)floor((exponent + 52) * 0.30102999566398119);
    multiply_pow10(point >= 0 ? &b : &a, point >= 0 ? point : -point);
    integer ten = b;
    multiply_add(&ten, 10, 0);
    while (compare(&a, &ten) >= 0) {
        point++;
        b = ten;
        multiply_add(&ten, 10, 0);
    }
    decimal->n = n;
    decimal->point = point + 1;
    for (int i = 0; i < n; i++) {
        decimal->digit[i] = (uint8_t)draw_digit(&a, &b);
        multiply_add(&a, 10, 0);
    }
    /* a is ten times the remainder: compare with half of the last digit. */
    multiply_add(&b, 5, 0);
    int rest = compare(&a, &b);
    if (rest < 0 || (rest == 0 && !(decimal->digit[n - 1] & 1))) return;
    int i = n - 1;
    for (; i >= 0 && decimal->digit[i] == 9; i--) decimal->digit[i] = 0;
    if (i >= 0) {
        decimal->digit[i]++;
    } else {
        decimal->digit[0] = 1;
        decimal->point++;
    }
}
