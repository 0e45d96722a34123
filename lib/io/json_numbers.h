/* io/json_numbers.h: numbers that jansson refuses: whole numbers beyond 64 bits, reals
 * beyond double, and Infinity and NaN, which Python writes. Files hold them where nobody needs
 * them ("no limit" is 1e30), so they are reals, and only who asks for such a number fails. */
#ifndef MF_IO_JSON_NUMBERS_H
#define MF_IO_JSON_NUMBERS_H

#include <stddef.h>
#include "base/mem.h"

typedef struct mf_json_number {
    size_t index; /* among all numbers of the text, from 0 */
    double value;
} mf_json_number;

typedef struct mf_json_numbers {
    char *text; /* the text with 0.00... in the place of each, of the same length */
    mf_json_number *number;
    size_t n, cap;
} mf_json_numbers; /* {0} is empty; all is in the arena */

/* Finds them; text is not set if there are none. MF_ENOMEM. */
int mf_json_numbers_find(const char *text, size_t size, mf_arena *arena, mf_json_numbers *ret);
/* Sets *value if number `index` of the text is one of them. */
void mf_json_numbers_give(const mf_json_numbers *numbers, size_t index, double *value);

#endif
