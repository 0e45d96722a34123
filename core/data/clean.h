/* data/clean.h: text made plain before it becomes tokens, as LaMoE's data are
 * (github.com/harishhirthi/LaMoE).
 */
#ifndef MF_DATA_CLEAN_H
#define MF_DATA_CLEAN_H

#include <stddef.h>

/* Contractions written out ("don't" -> "do not", "we've" -> "we have"), then all but letters,
 * digits, '.' and '%' (ASCII) put away: the apostrophe leaves nothing, other characters a
 * blank. Runs of blanks, tabs and newlines become one blank, runs of periods one period; no
 * blank at either end. *ret is NUL-terminated: mf_free it. MF_ENOMEM. */
int mf_clean_text(const char *text, size_t n, char **ret, size_t *ret_n);
/* The same line by line: newlines stay, and lines that hold nothing go. */
int mf_clean_lines(const char *text, size_t n, char **ret, size_t *ret_n);

#endif
