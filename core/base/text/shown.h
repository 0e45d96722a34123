/* base/text/shown.h: text of unknown origin as it may be printed. Class names, file names,
 * manifests and names in plugins may hold bytes that move the cursor of a terminal, change the
 * order of what is read, or pretend to be lines of the program. */
#ifndef MF_BASE_SHOWN_H
#define MF_BASE_SHOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Whether a valid UTF-8 character of `length` bytes is shown as '?': control characters (C0,
 * DEL, C1), marks and overrides of the direction of writing, line and paragraph separators. */
bool mf_char_hidden(const char *at, size_t length);

/* Copies text: hidden characters and each byte that is no UTF-8 become '?'. keep_newlines: LF
 * and tab are kept. Writes at most `size` bytes with the NUL, and cuts longer text between two
 * characters. Returns out. */
char *mf_safe_text(const char *text, bool keep_newlines, char *out, size_t size);

/* The text as an argument of printf: itself if nothing in it is to be replaced, else a copy of
 * up to 2,047 bytes. The copy belongs to the thread and is valid until its eighth call from
 * here. NULL gives "". */
const char *mf_shown(const char *text);

/* The text as one word of a shell, in quotes if it needs them; cut if out, of `size` bytes, is
 * too small: 4 n + 6 hold any text of n bytes. Returns out. */
char *mf_shell_word(const char *text, char *out, size_t size);

/* mf_shown if `out` is a terminal, else the text itself: for paths, which scripts read. */
const char *mf_shown_on(FILE *out, const char *text);

#endif
