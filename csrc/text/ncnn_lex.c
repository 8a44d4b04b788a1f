/* Words, numbers and parameters of ncnn's text format, with the limits that ncnn sets. */
#include "text/ncnn_lex.h"

#include "text/number.h"

#include <math.h>

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static pf_code fail(pf_ncnn_lexer *lexer, const char *at, const char *reason) {
    lexer->at = at;
    lexer->reason = reason;
    return PF_EFORMAT;
}

void pf_ncnn_start(pf_ncnn_lexer *lexer, const char *text, size_t size) {
    lexer->at = lexer->begin = text;
    lexer->end = text + size;
    lexer->reason = "";
}

pf_code pf_ncnn_word(pf_ncnn_lexer *lexer, pf_span *word) {
    const char *p = lexer->at;
    while (p < lexer->end && is_space(*p)) p++;
    word->begin = p;
    while (p < lexer->end && !is_space(*p)) p++;
    word->end = p;
    if (word->begin == word->end) return fail(lexer, p, "the file ends here");
    if (word->end - word->begin > PF_NCNN_TEXT)
        return fail(lexer, word->begin, "a word of more than 255 bytes");
    lexer->at = p;
    return PF_OK;
}

/* A whole span as an int32 with an optional sign. */
static bool parse_int(pf_span text, int32_t *value) {
    int64_t wide = 0;
    if (text.begin < text.end && *text.begin == '+') {
        text.begin++;
        if (text.begin < text.end && *text.begin == '-') return false;
    }
    if (pf_parse_i64(text, &wide) != PF_OK || wide < INT32_MIN || wide > INT32_MAX) return false;
    *value = (int32_t)wide;
    return true;
}

pf_code pf_ncnn_count(pf_ncnn_lexer *lexer, int32_t *value) {
    pf_span word;
    pf_code code = pf_ncnn_word(lexer, &word);
    if (code != PF_OK) return code;
    return parse_int(word, value) ? PF_OK : fail(lexer, word.begin, "not an integer of 32 bits");
}

static bool has_point_or_exponent(pf_span text) {
    for (const char *p = text.begin; p < text.end; p++)
        if (*p == '.' || *p == 'e' || *p == 'E') return true;
    return false;
}

/* A whole span as a finite float, also without digits on one side of the point. */
static bool parse_float(pf_span text, float *value) {
    char padded[PF_NCNN_TEXT + 2];
    size_t n = 0;
    const char *p = text.begin;
    if (p < text.end && (*p == '+' || *p == '-')) {
        if (*p == '-') padded[n++] = '-';
        p++;
    }
    if (p < text.end && *p == '.') {
        if (p + 1 == text.end || p[1] < '0' || p[1] > '9') return false;
        padded[n++] = '0';
    } else if (p == text.end || *p < '0' || *p > '9') {
        return false;
    }
    if (text.end - p > PF_NCNN_TEXT - 2) return false;
    while (p < text.end) padded[n++] = *p++;
    double wide = 0;
    pf_span whole = {padded, padded + n};
    if (pf_parse_decimal(whole, PF_FLOAT32, &wide) != whole.end) return false;
    *value = (float)wide;
    return isfinite(*value);
}

pf_code pf_ncnn_element(pf_span *text, pf_ncnn_kind force, pf_ncnn_number *number) {
    pf_span item = {text->begin, pf_span_find(*text, ',')};
    text->begin = item.end < text->end ? item.end + 1 : item.end;
    bool real = has_point_or_exponent(item);
    if (force == PF_NCNN_INT && real) return PF_EFORMAT;
    number->kind = real || force == PF_NCNN_FLOAT ? PF_NCNN_FLOAT : PF_NCNN_INT;
    number->integer = 0;
    number->real = 0;
    bool good =
        number->kind == PF_NCNN_FLOAT ? parse_float(item, &number->real) : parse_int(item, &number->integer);
    return good ? PF_OK : PF_EFORMAT;
}

static pf_code read_string(pf_ncnn_lexer *lexer, const char *p, pf_ncnn_param *param) {
    const char *end = lexer->end;
    bool quoted = *p == '"';
    p += quoted;
    param->kind = PF_NCNN_STRING;
    param->text.begin = p;
    if (quoted)
        while (p < end && *p != '"' && *p != '\n' && *p != '\r') p++;
    else
        while (p < end && !is_space(*p)) p++;
    param->text.end = p;
    if (quoted && (p == end || *p != '"'))
        return fail(lexer, param->text.begin, "a quoted string without its end");
    p += quoted;
    if (p < end && !is_space(*p)) return fail(lexer, p, "something follows a quoted string without a blank");
    if (param->text.end - param->text.begin > PF_NCNN_TEXT)
        return fail(lexer, param->text.begin, "a string of more than 255 bytes");
    param->token.end = lexer->at = p;
    return PF_OK;
}

/* The length of an old array; what follows it stays in text. */
static pf_code read_length(pf_ncnn_lexer *lexer, pf_ncnn_param *param) {
    pf_span length = {param->text.begin, pf_span_find(param->text, ',')};
    int32_t count = 0;
    if (!parse_int(length, &count) || count < 0) return fail(lexer, length.begin, "not a length of an array");
    param->text.begin = length.end < param->text.end ? length.end + 1 : length.end;
    param->kind = PF_NCNN_INTS;
    param->count = count;
    if (count == 0 && length.end != param->text.end)
        return fail(lexer, length.end, "elements in an empty array");
    if (count > 0 && count > (param->text.end - param->text.begin + 1) / 2)
        return fail(lexer, length.begin, "an array with fewer elements than its length says");
    return PF_OK;
}

static pf_code read_value(pf_ncnn_lexer *lexer, const char *p, bool old_array, pf_ncnn_param *param) {
    const char *end = lexer->end;
    if (p == end || is_space(*p)) return fail(lexer, p, "a value is missing");
    if (!old_array && (*p == '"' || is_letter(*p))) return read_string(lexer, p, param);
    param->text.begin = p;
    while (p < end && !is_space(*p)) p++;
    param->text.end = param->token.end = lexer->at = p;
    if (old_array) return read_length(lexer, param);
    pf_span first = {param->text.begin, pf_span_find(param->text, ',')};
    bool real = has_point_or_exponent(first);
    bool list = first.end < param->text.end;
    param->kind = list ? (real ? PF_NCNN_FLOATS : PF_NCNN_INTS) : (real ? PF_NCNN_FLOAT : PF_NCNN_INT);
    return PF_OK;
}

pf_code pf_ncnn_pair(pf_ncnn_lexer *lexer, pf_ncnn_param *param) {
    const char *p = lexer->at, *end = lexer->end;
    while (p < end && is_space(*p) && *p != '\n') p++;
    param->kind = PF_NCNN_END;
    if (p == end || *p == '\n') {
        lexer->at = p < end ? p + 1 : p;
        return PF_OK;
    }
    param->token.begin = p;
    param->count = -1;
    while (p < end && *p != '=' && !is_space(*p)) p++;
    pf_span id = {param->token.begin, p};
    if (p == end || *p != '=' || !parse_int(id, &param->id))
        return fail(lexer, id.begin, "expected a parameter number and '='");
    bool old_array = param->id <= -PF_NCNN_ARRAY;
    if (old_array) param->id = -PF_NCNN_ARRAY - param->id;
    if (param->id < 0 || param->id >= PF_NCNN_SLOTS)
        return fail(lexer, id.begin, "a parameter number outside 0 to 31");
    return read_value(lexer, p + 1, old_array, param);
}
