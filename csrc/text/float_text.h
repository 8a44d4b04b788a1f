/* Text of floating-point numbers as the writers of PNNX files print them.
 * Used by the text module; knows nothing of files. */
#ifndef PF_TEXT_FLOAT_TEXT_H
#define PF_TEXT_FLOAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* PNNX changed its text of floats: by year of the rule. */
typedef enum pf_float_style {
    PF_FLOAT_2021 = 2021,
    PF_FLOAT_2025 = 2025,
    PF_FLOAT_2026 = 2026
} pf_float_style;

enum { PF_FLOAT_TEXT = 48 };

/* Writes the text of x and returns its length. Without wide, x is rounded to float32 first, as the format
 * does, unless that would make it zero or infinite. */
size_t pf_format_float(double x, pf_float_style style, bool wide, char out[PF_FLOAT_TEXT]);

/* Like printf's %e, with more digits where float32 needs them to be read back. */
size_t pf_format_scientific(double x, char out[PF_FLOAT_TEXT]);

#endif
