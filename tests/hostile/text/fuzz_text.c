/* Fuzz target for everything that reads text: lines and tokens, numbers, values, and the lexer of ncnn's
 * files. With libFuzzer: clang -fsanitize=fuzzer,address -DPF_LIBFUZZER; otherwise fuzz_text COUNT FILE... */
#include "fuzz.h"

#include "text/float_text.h"
#include "text/ncnn_lex.h"
#include "text/number.h"

static void inside(pf_span span, const char *begin, const char *end) {
    if (span.begin < begin || span.end < span.begin || span.end > end) abort();
}

static void numbers(pf_span token) {
    int64_t integer;
    double value;
    pf_scalar scalar;
    char text[PF_FLOAT_TEXT];
    pf_parse_i64(token, &integer);
    for (int k = 0; k < 2; k++) {
        const char *end = pf_parse_decimal(token, k ? PF_FLOAT64 : PF_FLOAT32, &value);
        if (end < token.begin || end > token.end) abort();
    }
    if (pf_parse_scalar(token, &scalar) || scalar.kind != PF_FLOAT) return;
    if (pf_format_float(scalar.real, PF_FLOAT_2026, true, text) > PF_FLOAT_TEXT) abort();
    if (pf_format_scientific(scalar.real, text) > PF_FLOAT_TEXT) abort();
}

static void tokens(const char *text, size_t size) {
    pf_scan scan;
    pf_span token;
    pf_scan_start(&scan, text, size);
    while (pf_scan_line(&scan)) {
        while (pf_scan_token(&scan, &token)) {
            inside(token, text, text + size);
            const char *sign = pf_span_find(token, '=');
            numbers(token);
            if (sign < token.end) numbers((pf_span){sign + 1, token.end});
        }
    }
}

/* As a reader of ncnn's files does: words, then pairs up to the end of the line. */
static void words(const char *text, size_t size) {
    pf_ncnn_lexer lexer;
    pf_span word;
    pf_ncnn_param param;
    pf_ncnn_number number;
    pf_ncnn_start(&lexer, text, size);
    for (;;) {
        if (pf_ncnn_word(&lexer, &word)) return;
        inside(word, text, text + size);
        do {
            if (pf_ncnn_pair(&lexer, &param)) break;
            if (param.kind == PF_NCNN_END) break;
            inside(param.text, text, text + size);
            for (pf_span rest = param.text; rest.begin < rest.end;) {
                const char *before = rest.begin;
                if (pf_ncnn_element(&rest, PF_NCNN_END, &number) || rest.begin <= before) break;
                inside(rest, text, text + size);
            }
        } while (1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    tokens((const char *)data, size);
    words((const char *)data, size);
    return 0;
}

#ifndef PF_LIBFUZZER
static void mutate(uint8_t *data, size_t size) {
    static const char *const pieces[] = {
        "=",   ",",   "\n", "\"", "-23300=", "e+999", "-",  ".",    "1e-45", "999999999999",
        "nan", "inf", "j",  "(",  "#",       "0x",    "\0", "\xff", " ",     "1.7976931348623159e308"};
    for (uint64_t n = 1 + below(6); n && size; n--) {
        const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
        const size_t at = below(size), length = strlen(piece) + !*piece, left = size - at;
        if (below(3))
            memcpy(data + at, piece, length < left ? length : left);
        else
            data[at] = (uint8_t)below(256);
    }
}
#endif
