/* A growing text for SVG and HTML. After a failed allocation all later calls do nothing, and
 * mf_doc_string returns NULL. */
#include "report/page/doc.h"

#include "base/mem.h"
#include "base/text/shown.h"
#include "base/text/utf8.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct mf_doc {
    char *text;
    size_t n, room;
    bool failed;
    const char *const *names;
};

mf_doc *mf_doc_new(void)
{
    return mf_alloc(1, sizeof(mf_doc));
}

void mf_doc_free(mf_doc *d)
{
    if (!d) return;
    mf_free(d->text);
    mf_free(d);
}

void mf_doc_set_names(mf_doc *d, const char *const *names)
{
    d->names = names;
}

const char *const *mf_doc_names(const mf_doc *d)
{
    return d->names;
}

/* Makes space for n more bytes and the NUL. */
static bool reserve(mf_doc *d, size_t n)
{
    size_t room = d->room > 0 ? d->room : 4096;
    if (d->failed) return false;
    while (room - d->n <= n && room <= SIZE_MAX / 4)
        room *= 2;
    if (room == d->room) return true;
    char *larger = room - d->n > n ? mf_realloc(d->text, d->n, room) : NULL;
    if (!larger) {
        d->failed = true;
        return false;
    }
    d->text = larger;
    d->room = room;
    return true;
}

static void put(mf_doc *d, const char *text, size_t n)
{
    if (!reserve(d, n)) return;
    memcpy(d->text + d->n, text, n);
    d->n += n;
    d->text[d->n] = '\0';
}

void mf_doc_put(mf_doc *d, const char *text)
{
    put(d, text, strlen(text));
}

void mf_doc_printf(mf_doc *d, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0 || !reserve(d, (size_t)n)) {
        d->failed = true;
        return;
    }
    va_start(args, fmt);
    vsnprintf(d->text + d->n, (size_t)n + 1, fmt, args);
    va_end(args);
    d->n += (size_t)n;
}

/* Whether U+FFFD replaces the character of `length` bytes. It replaces invalid UTF-8 (length
 * 0), and the characters that are replaced on a terminal (base/text/shown.h), except tab and
 * LF. It also replaces U+FFFE and U+FFFF, which XML 1.0 forbids, like most
 * control characters. */
static bool forbidden(const char *c, size_t length)
{
    const unsigned char *u = (const unsigned char *)c;
    if (length == 0) return true;
    if (*c == '\t' || *c == '\n') return false;
    if (mf_char_hidden(c, length)) return true;
    return length == 3 && u[0] == 0xEF && u[1] == 0xBF && u[2] >= 0xBE;
}

static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

void mf_doc_text(mf_doc *d, const char *text)
{
    const size_t n = strlen(text);
    for (size_t i = 0; i < n;) {
        const size_t length = mf_utf8_length(text + i, n - i);
        const char *replaced = forbidden(text + i, length) ? "\xef\xbf\xbd" : entity(text[i]);
        if (replaced)
            mf_doc_put(d, replaced);
        else
            put(d, text + i, length);
        i += length > 0 ? length : 1;
    }
}

void mf_doc_put_path(mf_doc *d, const char *path)
{
    const size_t room = 4 * strlen(path) + 6;
    char *word = mf_alloc_raw(room);
    mf_doc_put(d, word ? mf_shell_word(path, word, room) : path);
    mf_free(word);
}

void mf_doc_number(mf_doc *d, double x)
{
    char text[40];
    snprintf(text, sizeof text, "%.2f", isfinite(x) ? x : 0.0);
    size_t n = strlen(text);
    while (text[n - 1] == '0')
        n--;
    if (text[n - 1] == '.') n--;
    text[n] = '\0';
    put(d, strcmp(text, "-0") == 0 ? "0" : text, strcmp(text, "-0") == 0 ? 1 : n);
}

const char *mf_doc_string(const mf_doc *d, size_t *ret_length)
{
    if (ret_length) *ret_length = d->n;
    return d->failed ? NULL : d->text ? d->text : "";
}
