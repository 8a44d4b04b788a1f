/* The tokenizer of text files: blanks are what C++ streams skip, lines end at a newline. */
#include "text/scan.h"

#include <string.h>

static bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r' && c != '\n'); }

static void skip_blanks(pf_scan *scan) {
    while (scan->at < scan->end && is_blank(*scan->at)) scan->at++;
}

void pf_scan_start(pf_scan *scan, const char *text, size_t size) {
    scan->at = scan->line_begin = text;
    scan->end = text + size;
    scan->line = 0;
}

bool pf_scan_line(pf_scan *scan) {
    for (;;) {
        if (scan->line > 0) {
            const char *newline = memchr(scan->at, '\n', (size_t)(scan->end - scan->at));
            if (!newline) {
                scan->at = scan->end;
                return false;
            }
            scan->at = newline + 1;
        }
        scan->line_begin = scan->at;
        scan->line++;
        skip_blanks(scan);
        if (scan->at < scan->end && *scan->at != '\n') return true;
    }
}

bool pf_scan_token(pf_scan *scan, pf_span *token) {
    skip_blanks(scan);
    token->begin = scan->at;
    while (scan->at < scan->end && *scan->at != '\n' && !is_blank(*scan->at)) scan->at++;
    token->end = scan->at;
    return token->end > token->begin;
}

const char *pf_span_find(pf_span span, char byte) {
    const char *found = memchr(span.begin, byte, (size_t)(span.end - span.begin));
    return found ? found : span.end;
}
