/* Breaks lines at blanks. A UTF-8 character takes one column. A blank at the end of a line is
 * not printed; other blanks are kept, so columns of a table keep their positions. */
#include "base/text/wrap.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int mf_columns(FILE *out)
{
    struct winsize size;
    const char *set = getenv("COLUMNS");
    long columns = set && set[0] != '\0' ? strtol(set, NULL, 10) : 0;
    if (columns <= 0 && ioctl(fileno(out), TIOCGWINSZ, &size) == 0) columns = size.ws_col;
    if (columns <= 0 || columns > 10000) columns = 80;
    return columns < 20 ? 20 : (int)columns;
}

/* Returns how many bytes of the text fit into `columns` columns. The part ends before a blank
 * and contains at least one word. */
static size_t fit(const char *text, int columns)
{
    size_t end = 0;
    int used = 0;
    for (size_t i = 0;; i++) {
        const bool ends = text[i] == '\0' || text[i] == '\n';
        if ((ends || text[i] == ' ') && i > strspn(text, " ") && (end == 0 || used <= columns))
            end = i;
        if (ends) return end > 0 ? end : i;
        if (used > columns && end > 0) return end;
        used += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
}

void mf_wrap(char *text, int columns)
{
    while (columns > 0) {
        text += fit(text, columns);
        if (*text == '\0') return;
        *text++ = '\n';
    }
}

void mf_wrap_put(FILE *out, int columns, int at, const char *text)
{
    const int room = columns > at ? columns - at : 1;
    while (columns > 0) {
        const size_t n = fit(text, room);
        fwrite(text, 1, n, out);
        text += n + strspn(text + n, " \n");
        if (*text == '\0') break;
        fprintf(out, "\n%*s", at, "");
    }
    fprintf(out, "%s\n", text);
}

void mf_wrap_line(FILE *out, int indent, const char *fmt, ...)
{
    char line[4096];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    const int columns = isatty(fileno(out)) ? mf_columns(out) : 0;
    const size_t n = columns > 0 ? fit(line, columns) : strlen(line);
    const char *rest = line + n + strspn(line + n, " ");
    fprintf(out, "%.*s\n", (int)n, line);
    if (*rest == '\0') return;
    fprintf(out, "%*s", indent, "");
    mf_wrap_put(out, columns, indent, rest);
}

void mf_line_add(mf_line *line, const char *fmt, ...)
{
    const size_t n = strlen(line->text);
    va_list args;
    va_start(args, fmt);
    vsnprintf(line->text + n, sizeof line->text - n, fmt, args);
    va_end(args);
}
