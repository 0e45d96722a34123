/* data/strings.h: distinct strings with ids from 0, in the order in which they were added.
 *
 * Strings are found by hashing and may contain any bytes. The pointer from mf_strings_get is
 * valid until the next string is added. */
#ifndef MF_DATA_STRINGS_H
#define MF_DATA_STRINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mf_strings {
    char *bytes; /* all strings, one after another */
    size_t n_bytes, cap_bytes;
    size_t *begin; /* [n + 1] offset of each string */
    int32_t n, cap;
    int32_t *slot; /* id + 1 of each slot, 0: free; the number of slots is a power of two */
    size_t slots;
} mf_strings; /* {0} is empty */

void mf_strings_free(mf_strings *s);
/* Finds the id of a string. A new string is added. text must not point into s. The only error
 * is MF_ENOMEM. */
int mf_strings_add(mf_strings *s, const char *text, size_t n, int32_t *ret_id, bool *ret_new);
/* Returns the id of a string; -1: not found. */
int32_t mf_strings_find(const mf_strings *s, const char *text, size_t n);
const char *mf_strings_get(const mf_strings *s, int32_t id, size_t *ret_n);

#endif
