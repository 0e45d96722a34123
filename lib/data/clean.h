/* data/clean.h: simplifies text before it is tokenized (data.clean). */
#ifndef MF_DATA_CLEAN_H
#define MF_DATA_CLEAN_H

#include <stddef.h>

/* Expands contractions ("don't" -> "do not", "we've" -> "we have"), then removes all characters
 * except letters, digits, '.' and '%' (ASCII): an apostrophe is removed, any other character is
 * replaced by a blank. Runs of blanks, tabs and newlines become one blank, runs of periods one
 * period; blanks at both ends are removed. *ret is NUL-terminated; the caller frees it with
 * mf_free. The only error is MF_ENOMEM. */
int mf_clean_text(const char *text, size_t n, char **ret, size_t *ret_n);
/* The same as mf_clean_text, line by line: newlines stay, and lines that become empty
 * are removed. */
int mf_clean_lines(const char *text, size_t n, char **ret, size_t *ret_n);

#endif
