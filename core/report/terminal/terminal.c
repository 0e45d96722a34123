/* What a stream can show (cursor movement, colour, UTF-8, width), and text that is safe for it.
 * Text from outside never reaches a terminal with its control characters. */
#include "report/terminal/terminal.h"

#include "base/text/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool set(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] != '\0';
}

static bool utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++)
        if (set(names[i])) {
            const char *value = getenv(names[i]), *dot = strchr(value, '.');
            return dot && (strcasecmp(dot, ".UTF-8") == 0 || strcasecmp(dot, ".utf8") == 0);
        }
    return false;
}

mf_terminal mf_terminal_of(FILE *out)
{
    const char *term = getenv("TERM");
    mf_terminal t = {.out = out, .utf8 = utf8_locale()};
    t.live = isatty(fileno(out)) && term && term[0] != '\0' && strcmp(term, "dumb") != 0;
    t.colour = t.live && !set("NO_COLOR");
    return t;
}

int mf_terminal_columns(const mf_terminal *t)
{
    struct winsize size;
    long columns = 0;
    if (set("COLUMNS")) columns = strtol(getenv("COLUMNS"), NULL, 10);
    if (columns <= 0 && ioctl(fileno(t->out), TIOCGWINSZ, &size) == 0) columns = size.ws_col;
    if (columns <= 0 || columns > 10000) columns = 80;
    return columns < 20 ? 20 : (int)columns;
}

const char *mf_ink_begin(const mf_terminal *t, mf_ink ink)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m",
                                        "\033[34m", "\033[32m", "\033[33m"};
    return t->colour ? codes[ink] : "";
}

const char *mf_ink_end(const mf_terminal *t)
{
    return t->colour ? "\033[0m" : "";
}

char *mf_terminal_safe(const char *text, bool keep_newlines, char *out, size_t size)
{
    size_t n = strlen(text), used = 0;
    for (size_t i = 0; i < n && used + 5 < size;) {
        const unsigned char *c = (const unsigned char *)text + i;
        size_t length = mf_utf8_length(text + i, n - i);
        bool control = length == 1 ? c[0] < 0x20 || c[0] == 0x7F
                                   : length == 2 && c[0] == 0xC2 && c[1] < 0xA0;
        if (keep_newlines && (*c == '\n' || *c == '\t')) control = false;
        if (length == 0 || control)
            out[used++] = '?';
        else
            for (size_t k = 0; k < length; k++)
                out[used++] = text[i + k];
        i += length > 0 ? length : 1;
    }
    if (size > 0) out[used] = '\0';
    return out;
}

/* Bytes that follow the first byte c of a UTF-8 character. */
static int bytes_after(unsigned char c)
{
    return c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC2 ? 1 : 0;
}

void mf_terminal_put(FILE *out, mf_begun_char *begun, const char *text, size_t n)
{
    if (!isatty(fileno(out))) {
        fwrite(text, 1, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        const bool inside = begun->left > 0 && (c & 0xC0) == 0x80;
        /* U+0080 to U+009F, as C2 and this byte or as this byte alone */
        const bool c1 = c >= 0x80 && c < 0xA0 && (!inside || begun->first == 0xC2);
        putc((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F || c1 ? '?' : c, out);
        if (inside)
            begun->left--;
        else
            *begun = (mf_begun_char){.first = c, .left = bytes_after(c)};
    }
}

const char *mf_duration_text(double seconds, char out[24])
{
    if (!(seconds >= 0) || seconds > 1e9) {
        strcpy(out, "?");
        return out;
    }
    long s = lround(seconds);
    if (s < 3600)
        snprintf(out, 24, "%ld:%02ld", s / 60, s % 60);
    else if (s < 86400)
        snprintf(out, 24, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, 24, "%ldd %02ldh", s / 86400, s / 3600 % 24);
    return out;
}

const char *mf_count_text(double n, char out[24])
{
    static const char units[] = {' ', 'k', 'M', 'G', 'T'};
    int unit = 0;
    double x = fabs(n);
    if (!isfinite(n)) {
        strcpy(out, "?");
        return out;
    }
    for (; x >= 999.5 && unit < 4; unit++)
        x /= 1000;
    if (unit == 0)
        snprintf(out, 24, "%.0f", n);
    else
        snprintf(out, 24, "%s%.*f%c", n < 0 ? "-" : "",
                 x < 9.995   ? 2
                 : x < 99.95 ? 1
                             : 0,
                 x, units[unit]);
    return out;
}
