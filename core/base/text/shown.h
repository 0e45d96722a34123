/* base/text/shown.h: makes text of unknown origin safe to print. Class names, file names,
 * manifests and names in plugins may contain bytes that move the cursor of a terminal, change
 * the order of the printed text, or imitate lines of the program. */
#ifndef MF_BASE_SHOWN_H
#define MF_BASE_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Whether a valid UTF-8 character of `length` bytes is shown as '?': control characters (C0,
 * DEL, C1), marks and overrides of the direction of writing, line and paragraph separators. */
bool mf_char_hidden(const char *at, size_t length);

/* Copies text: hidden characters, and each byte that is no valid UTF-8, become '?'.
 * keep_newlines: LF and tab are kept. Writes at most `size` bytes including the NUL, and cuts
 * longer text between two characters. Returns out. */
char *mf_safe_text(const char *text, bool keep_newlines, char *out, size_t size);

/* Returns the text as an argument of printf. If nothing must be replaced, this is the text
 * itself, otherwise a copy of up to 2,047 bytes. The copy belongs to the thread; the eighth
 * later call in the same thread overwrites it. For NULL it returns "". */
const char *mf_shown(const char *text);

/* Writes the text as one word of a shell, in quotes if necessary. The word is cut if out, of
 * `size` bytes, is too small: 4 n + 6 bytes are enough for any text of n bytes. Returns out. */
char *mf_shell_word(const char *text, char *out, size_t size);

/* Returns mf_shown(text) if `out` is a terminal, otherwise the text itself. It is for paths,
 * because scripts read them. */
const char *mf_shown_on(FILE *out, const char *text);

#endif
