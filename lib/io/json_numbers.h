/* io/json_numbers.h: numbers that jansson refuses: whole numbers beyond 64 bits, reals beyond
 * double, and Infinity and NaN, which Python writes. Files often contain them in members that
 * nobody reads (1e30 means "no limit"). Therefore they are read as reals, and only reading the
 * value of such a number fails. */
#ifndef MF_IO_JSON_NUMBERS_H
#define MF_IO_JSON_NUMBERS_H

#include <stddef.h>
#include "base/mem.h"

typedef struct mf_json_number {
    size_t index; /* index among all numbers of the text, from 0 */
    double value;
} mf_json_number;

typedef struct mf_json_numbers {
    char *text; /* the text, in which 0.00... of the same length replaces each of
                 * these numbers */
    mf_json_number *number;
    size_t n, cap;
} mf_json_numbers; /* {0} is empty; the arena owns all arrays */

/* Finds the numbers that jansson refuses. If there are none, text is not set. MF_ENOMEM. */
int mf_json_numbers_find(const char *text, size_t size, mf_arena *arena, mf_json_numbers *ret);
/* Sets *value if number `index` of the text is one of the numbers found. */
void mf_json_numbers_give(const mf_json_numbers *numbers, size_t index, double *value);

#endif
