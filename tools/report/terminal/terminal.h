/* report/terminal/terminal.h: capabilities of the stream that people look at. */
#ifndef MF_REPORT_TERMINAL_H
#define MF_REPORT_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

typedef struct mf_terminal {
    FILE *out;
    bool live;   /* a terminal that can move its cursor, so lines may be redrawn */
    bool colour; /* the stream is live, and NO_COLOR is not set */
    bool utf8;   /* the locale's encoding is UTF-8, by LC_ALL, LC_CTYPE, LANG */
} mf_terminal;

mf_terminal mf_terminal_of(FILE *out);
/* Number of columns of the terminal (base/text/wrap.h). */
int mf_terminal_columns(const mf_terminal *t);

typedef enum mf_ink {
    MF_INK_PLAIN,
    MF_INK_BOLD,
    MF_INK_DIM,
    MF_INK_BLUE,
    MF_INK_GREEN,
    MF_INK_YELLOW
} mf_ink;
/* The escape sequences (SGR) that begin and end an ink; "" if the stream has no colour. */
const char *mf_ink_begin(const mf_terminal *t, mf_ink ink);
const char *mf_ink_end(const mf_terminal *t);

/* A UTF-8 character of which mf_terminal_put has received only the first bytes; zero at
 * the start. */
typedef struct mf_begun_char {
    char byte[4]; /* the bytes received so far */
    int n;
} mf_begun_char;
/* Writes n bytes of text. If the stream is a terminal, control characters other than LF and tab
 * become '?', so the text cannot control it. A character may be split between two calls with
 * the same `begun`. */
void mf_terminal_put(FILE *out, mf_begun_char *begun, const char *text, size_t n);

/* A duration as text: "0:07", "12:40", "3:05:00", "2d 04h"; "?" if it is negative, not finite
 * or over 1e9. */
const char *mf_duration_text(double seconds, char out[24]);
/* A count as text: "950", "52.1k", "3.20M"; "?" if it is not finite. */
const char *mf_count_text(double n, char out[24]);

#endif
