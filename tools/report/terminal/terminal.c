/* Detects what a stream can show (cursor movement, colour, UTF-8, width), and makes text safe
 * for it. Control characters in text from outside are never written to a terminal. */
#include "report/terminal/terminal.h"

#include "base/text/shown.h"
#include "base/text/utf8.h"
#include "base/text/wrap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
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
    return mf_columns(t->out);
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

/* Number of bytes that follow the first byte c of a UTF-8 character; 0 also if no character
 * begins with c. */
static int bytes_after(unsigned char c)
{
    return c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC2 ? 1 : 0;
}

/* Writes the bytes of a character that is complete, or that an unexpected byte has ended. */
static void put_char(FILE *out, mf_begun_char *begun)
{
    const char *at = begun->byte;
    const size_t n = (size_t)begun->n;
    const bool kept = n == 1 && (at[0] == '\n' || at[0] == '\t');
    const bool valid = mf_utf8_length(at, n) == n;
    if (kept || (valid && !mf_char_hidden(at, n)))
        fwrite(at, 1, n, out);
    else
        for (size_t i = 0; i < (valid ? 1 : n); i++)
            putc('?', out);
    begun->n = 0;
}

void mf_terminal_put(FILE *out, mf_begun_char *begun, const char *text, size_t n)
{
    if (!isatty(fileno(out))) {
        fwrite(text, 1, n, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (begun->n > 0 && ((unsigned char)text[i] & 0xC0) != 0x80) put_char(out, begun);
        begun->byte[begun->n++] = text[i];
        if (begun->n > bytes_after((unsigned char)begun->byte[0])) put_char(out, begun);
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
