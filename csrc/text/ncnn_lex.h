/* The lexer of ncnn's text .param files: words that newlines merely separate, and `id=value` pairs that end
 * with their line. Used by the text module; knows nothing of layers. Spans point into the text itself. */
#ifndef PF_TEXT_NCNN_LEX_H
#define PF_TEXT_NCNN_LEX_H

#include "base/status.h"
#include "text/scan.h"

/* Parameters of a layer, bytes of a word or string, and what marks the number of a parameter that is an
 * array. */
enum { PF_NCNN_SLOTS = 32, PF_NCNN_TEXT = 255, PF_NCNN_ARRAY = 23300 };

/* The numbers are ncnn's codes of parameter types. Texts tell whether a number is an integer; in binary files
 * it may be either. */
typedef enum pf_ncnn_kind {
    PF_NCNN_END = 0, /* unset; the line has no further pair */
    PF_NCNN_ANY = 1,
    PF_NCNN_INT = 2,
    PF_NCNN_FLOAT = 3,
    PF_NCNN_ANYS = 4,
    PF_NCNN_INTS = 5,
    PF_NCNN_FLOATS = 6,
    PF_NCNN_STRING = 7
} pf_ncnn_kind;

typedef struct pf_ncnn_lexer {
    const char *at; /* next byte to look at; after a failure the place of the fault */
    const char *begin;
    const char *end;
    const char *reason; /* after a failure: what is wrong */
} pf_ncnn_lexer;

typedef struct pf_ncnn_number {
    pf_ncnn_kind kind; /* PF_NCNN_INT or PF_NCNN_FLOAT */
    int32_t integer;
    float real;
} pf_ncnn_number;

typedef struct pf_ncnn_param {
    int32_t id;
    pf_ncnn_kind kind;
    pf_span text;  /* a string without quotes, a number, or what follows the length of an old array */
    pf_span token; /* the whole pair */
    int64_t count; /* of an old array `-(23300+id)=n,a,b`; else -1 */
} pf_ncnn_param;

void pf_ncnn_start(pf_ncnn_lexer *lexer, const char *text, size_t size);

/* The next word of at most PF_NCNN_TEXT bytes, over lines. */
pf_code pf_ncnn_word(pf_ncnn_lexer *lexer, pf_span *word);

/* The next word as an int32. */
pf_code pf_ncnn_count(pf_ncnn_lexer *lexer, int32_t *value);

/* The next pair of the current line; at the end of the line its kind is PF_NCNN_END and the newline consumed.
 */
pf_code pf_ncnn_pair(pf_ncnn_lexer *lexer, pf_ncnn_param *param);

/* The next element of a list; text->begin moves behind it and its comma. `force` makes an integer a float,
 * or a float an error, as ncnn's new arrays do by their first element; PF_NCNN_END leaves each as it is. */
pf_code pf_ncnn_element(pf_span *text, pf_ncnn_kind force, pf_ncnn_number *number);

#endif
