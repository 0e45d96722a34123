/* base/text/wrap.h: prints lines for people, and breaks them at blanks to the width of
 * the terminal. */
#ifndef MF_BASE_WRAP_H
#define MF_BASE_WRAP_H

#include <stdio.h>
#include "base/error.h"

/* Returns the number of columns of the stream: the variable COLUMNS, else the terminal's width,
 * else 80. A value over 10000 also becomes 80. The result is at least 20. */
int mf_columns(FILE *out);

/* Breaks a text in place: the blanks after which a line would be longer than `columns` become
 * newlines. A word that is longer than a line gets a line of its own. columns 0: no limit. */
void mf_wrap(char *text, int columns);
/* Prints a text and a newline. The cursor is in column `at`; every later line begins with
 * `at` blanks. */
void mf_wrap_put(FILE *out, int columns, int at, const char *text);
/* Prints one line of up to 4,095 bytes and its newline. On a terminal a longer line is broken
 * at the terminal's width, and its later lines are indented. */
MF_PRINTF(3, 4) void mf_wrap_line(FILE *out, int indent, const char *fmt, ...);

/* A line that is built from parts. It must be zero at the start, and it is cut beyond
 * 4,095 bytes. */
typedef struct mf_line {
    char text[4096];
} mf_line;
MF_PRINTF(2, 3) void mf_line_add(mf_line *line, const char *fmt, ...);

#endif
