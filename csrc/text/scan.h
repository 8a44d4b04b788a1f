/* Lines and blank-separated tokens of a text file, as spans into the text itself: nothing is copied or
 * allocated. Used by the readers of .param files through the text module; knows nothing of what the tokens
 * mean. */
#ifndef PF_TEXT_SCAN_H
#define PF_TEXT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pf_span {
    const char *begin;
    const char *end;
} pf_span;

typedef struct pf_scan {
    const char *at; /* next byte to look at */
    const char *end;
    const char *line_begin;
    int64_t line; /* counted from 1; 0 before the first call of pf_scan_line */
} pf_scan;

void pf_scan_start(pf_scan *scan, const char *text, size_t size);

/* Moves to the next line that is not blank; false when there is none. */
bool pf_scan_line(pf_scan *scan);

/* The next token of the current line; at the end of the line false, and token is the empty span there. */
bool pf_scan_token(pf_scan *scan, pf_span *token);

/* First occurrence of a byte in a span, or its end. */
const char *pf_span_find(pf_span span, char byte);

#endif
