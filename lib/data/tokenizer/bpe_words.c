/* data/tokenizer/bpe_words.c: finds where words begin and end for the tokenizers bpe and
 * bpe_bytes. Merges never cross the end of a word. */
#include "base/error.h"
#include "base/text/utf8.h"
#include "data/tokenizer/bpe.h"

#include <string.h>

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static int byte_class(char c)
{
    if (is_blank(c)) return 0;
    if (c >= '0' && c <= '9') return 1;
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c & 0x80) != 0 ? 2 : 3;
}

/* Length of the word at text in bytes, n > 0. */
static size_t byte_word(const char *text, size_t n)
{
    size_t at = n > 1 && text[0] == ' ' && !is_blank(text[1]) ? 1 : 0;
    int class = byte_class(text[at]);
    while (at < n && at < MF_BPE_CHUNK && byte_class(text[at]) == class)
        at++;
    /* The last space of a run of blanks belongs to the word that follows. */
    if (class == 0 && at > 1 && at < n && text[at - 1] == ' ' && !is_blank(text[at])) at--;
    return at;
}

bool mf_bpe_next_word(bool bytes, const char *source, size_t base, const char *text, size_t n,
                      mf_bpe_word *w, int *code)
{
    size_t at = w->end;
    while (!bytes && at < n && is_blank(text[at]))
        at++;
    w->start = at;
    w->n = 0;
    if (at == n) return false;
    if (bytes) {
        w->text = text + at;
        w->n = byte_word(text + at, n - at);
        w->end = at + w->n;
        return true;
    }
    for (int i = 0; i < MF_BPE_CHUNK && at < n && !is_blank(text[at]); i++) {
        size_t length = mf_utf8_length(text + at, n - at);
        if (length == 0) {
            *code = mf_fail(MF_EINPUT,
                            "%s: byte %zu (0x%02x) is not valid UTF-8, which tokenizer bpe "
                            "needs; tokenizer bpe_bytes takes any file",
                            source, base + at, (unsigned char)text[at]);
            return false;
        }
        memcpy(w->buffer + w->n, text + at, length);
        w->n += length;
        at += length;
    }
    if (at == n || is_blank(text[at])) w->buffer[w->n++] = ' ';
    w->text = w->buffer;
    w->end = at;
    return true;
}

size_t mf_bpe_unit(bool bytes, const char *text, size_t n)
{
    return bytes ? 1 : mf_utf8_length(text, n);
}

/* bpe is cut after a blank, which ends a word. bpe_bytes is cut before a letter that follows a
 * newline. There, a run of blanks is a separate word, or its last space is the beginning of the
 * next word. */
size_t mf_bpe_cut(const mf_tokenizer *t, const char *text, size_t n)
{
    const bool bytes = t->lossless;
    if (bytes && n > 0) n--; /* the byte after the text is unknown */
    for (; n > 0; n--)
        if (bytes ? text[n - 1] == '\n' && !is_blank(text[n]) : is_blank(text[n - 1])) return n;
    return 0;
}
