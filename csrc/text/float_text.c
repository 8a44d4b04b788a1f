/* printf's %e and %g from exact digits, and PNNX's rules on which of them to take. */
#include "text/float_text.h"

#include <math.h>
#include <string.h>

#include "text/number.h"

typedef struct buffer {
    char *at;
} buffer;

static void put(buffer *b, char c) { *b->at++ = c; }

static void put_word(buffer *b, const char *word) {
    while (*word) put(b, *word++);
}

static bool put_special(buffer *b, double x) {
    if (signbit(x) && !isnan(x)) put(b, '-');
    if (isfinite(x)) return false;
    put_word(b, isnan(x) ? "nan" : "inf");
    return true;
}

static void put_exponent(buffer *b, int exponent, bool brief) {
    put(b, 'e');
    if (exponent < 0) put(b, '-');
    if (exponent >= 0 && !brief) put(b, '+');
    int magnitude = exponent < 0 ? -exponent : exponent;
    if (magnitude >= 100) put(b, (char)('0' + magnitude / 100));
    if (magnitude >= 10 || !brief) put(b, (char)('0' + magnitude / 10 % 10));
    put(b, (char)('0' + magnitude % 10));
}

static void digits_of(double x, int n, pf_decimal *decimal) {
    if (x != 0) {
        pf_binary_to_decimal(fabs(x), n, decimal);
        return;
    }
    memset(decimal->digit, 0, (size_t)n);
    decimal->n = n;
    decimal->point = 1;
}

/* n significant digits with an exponent; brief leaves out its plus sign and leading zero. */
static void put_scientific(buffer *b, double x, int n, bool brief) {
    pf_decimal d;
    if (put_special(b, x)) return;
    digits_of(x, n, &d);
    put(b, (char)('0' + d.digit[0]));
    put(b, '.');
    for (int i = 1; i < n; i++) put(b, (char)('0' + d.digit[i]));
    put_exponent(b, d.point - 1, brief);
}

/* n significant digits without trailing zeros, plain as long as printf's %g is. Returns the digits after the
 * point. */
static int put_general(buffer *b, double x, int n) {
    pf_decimal d;
    if (put_special(b, x)) return 0;
    digits_of(x, n, &d);
    while (d.n > 1 && d.digit[d.n - 1] == 0) d.n--;
    bool plain = d.point > -4 && d.point <= n;
    int whole = plain ? d.point : 1;
    int fraction = d.n > whole ? d.n - whole : 0;
    if (whole <= 0) put(b, '0');
    for (int i = 0; i < whole; i++) put(b, (char)('0' + (i < d.n ? d.digit[i] : 0)));
    if (fraction) put(b, '.');
    for (int i = whole; i < d.n; i++) put(b, (char)('0' + (i < 0 ? 0 : d.digit[i])));
    if (!plain) put_exponent(b, d.point - 1, false);
    return fraction;
}

static bool reads_back(const char *text, const buffer *b, double x, bool wide) {
    double value = NAN;
    pf_parse_decimal((pf_span){text, b->at}, wide ? PF_FLOAT64 : PF_FLOAT32, &value);
    return value == x;
}

static void put_point(buffer *b, const char *text) {
    for (const char *p = text; p < b->at; p++)
        if (*p == '.' || *p == 'e') return;
    put_word(b, ".0");
}

static void put_2026(buffer *b, double x, bool wide, bool plain) {
    const int digits = wide ? 17 : 9;
    const buffer start = *b;
    const char *text = start.at;
    if (plain) {
        put_general(b, x, 6);
        if (reads_back(text, b, x, wide)) return put_point(b, text);
        *b = start;
        if (put_general(b, x, digits) <= digits) return put_point(b, text);
    } else {
        put_scientific(b, x, 7, true);
        if (!isfinite(x) || reads_back(text, b, x, wide)) return;
    }
    *b = start;
    put_scientific(b, x, digits, true);
}

size_t pf_format_scientific(double x, char out[PF_FLOAT_TEXT]) {
    buffer b = {out};
    put_scientific(&b, x, 7, false);
    if (isfinite(x) && !reads_back(out, &b, x, false)) {
        b.at = out;
        put_scientific(&b, x, 9, false);
    }
    return (size_t)(b.at - out);
}

size_t pf_format_float(double x, pf_float_style style, bool wide, char out[PF_FLOAT_TEXT]) {
    buffer b = {out};
    double narrow = (float)x;
    if (!wide) {
        wide = isfinite(x) && (!isfinite(narrow) || (narrow == 0) != (x == 0));
        if (!wide) x = narrow;
    }
    double small = wide ? 0.0001 : 0.0001f;
    bool plain = !(fabs(x) < small || fabs(x) >= 1e6);
    if (style == PF_FLOAT_2021) {
        put_scientific(&b, x, 7, false);
    } else if (x == 0) {
        put_word(&b, "0.0");
    } else if (style == PF_FLOAT_2026) {
        put_2026(&b, x, wide, plain);
    } else if (plain) {
        put_general(&b, x, 6);
        put_point(&b, out);
    } else {
        put_scientific(&b, x, 7, false);
    }
    return (size_t)(b.at - out);
}
