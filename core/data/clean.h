/* data/clean.h: simplifies text before it is tokenized (data.clean). */
#ifndef MF_DATA_CLEAN_H
#define MF_DATA_CLEAN_H

#include <stddef.h>

/* Writes contractions out ("don't" -> "do not", "we've" -> "we have"), then removes
 * everything but letters, digits, '.' and '%' (ASCII): an apostrophe leaves nothing, any
 * other character leaves a blank. Runs of blanks, tabs and newlines become one blank, runs of
 * periods one period; no blank stays at either end. *ret is NUL-terminated and freed with
 * mf_free. MF_ENOMEM. */
int mf_clean_text(const char *text, size_t n, char **ret, size_t *ret_n);
/* The same, line by line: newlines stay, and lines that become empty are removed. */
int mf_clean_lines(const char *text, size_t n, char **ret, size_t *ret_n);

#endif
