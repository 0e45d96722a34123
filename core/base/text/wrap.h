/* base/text/wrap.h: lines for people, broken at blanks where the terminal ends. */
#ifndef MF_BASE_WRAP_H
#define MF_BASE_WRAP_H

#include <stdio.h>
#include "base/error.h"

/* Columns of the stream: COLUMNS, else the terminal's own, else 80 (also if it is over 10000);
 * at least 20. */
int mf_columns(FILE *out);

/* Breaks a text in place: the blanks at which a line of `columns` ends become newlines. A word
 * that is longer has a line of its own. columns 0: no limit. */
void mf_wrap(char *text, int columns);
/* Prints a text and a newline. The cursor stands in column `at`; later lines begin with so
 * many blanks. */
void mf_wrap_put(FILE *out, int columns, int at, const char *text);
/* Prints one line of up to 4,095 bytes and its newline. On a terminal it is broken where that
 * ends, and what follows is indented. */
MF_PRINTF(3, 4) void mf_wrap_line(FILE *out, int indent, const char *fmt, ...);

/* A line that is put together from parts; zero at the start. Beyond 4,095 bytes it is cut. */
typedef struct mf_line {
    char text[4096];
} mf_line;
MF_PRINTF(2, 3) void mf_line_add(mf_line *line, const char *fmt, ...);

#endif
