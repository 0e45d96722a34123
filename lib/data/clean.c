/* data/clean.c: replaces contractions by whole words and removes the characters that clean.h
 * does not keep. The output follows the published preparation of one corpus exactly, so that
 * results can be compared. */
#include "data/clean.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

enum { WORD = 64 }; /* a word of this length or more is no contraction */

static const struct {
    const char *word, *out;
} whole[] = {{"can't", "can not"},    {"won't", "will not"},   {"shan't", "shall not"},
             {"ain't", "is not"},     {"let's", "let us"},     {"it's", "it is"},
             {"he's", "he is"},       {"she's", "she is"},     {"that's", "that is"},
             {"there's", "there is"}, {"here's", "here is"},   {"what's", "what is"},
             {"who's", "who is"},     {"where's", "where is"}, {"how's", "how is"},
             {"n't", "not"}};

static const struct {
    const char *tail, *out;
} tails[] = {{"n't", " not"},  {"'re", " are"},  {"'ve", " have"},
             {"'ll", " will"}, {"'d", " would"}, {"'m", " am"}};

/* bound for the output bytes per byte of input; the greatest growth is from "'d" (2 bytes) to "
 * would" (6 bytes) */
enum { GROWTH = 4 };

typedef struct sink {
    char *out;
    size_t n;
    bool blank; /* a blank must be written before the next character */
} sink;

static void put(sink *s, char c)
{
    const bool sign = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      (c >= '0' && c <= '9') || c == '.' || c == '%';
    if (c == '\'') return;
    if (!sign) {
        s->blank = true;
        return;
    }
    if (s->blank && s->n > 0) s->out[s->n++] = ' ';
    s->blank = false;
    if (c == '.' && s->n > 0 && s->out[s->n - 1] == '.') return;
    s->out[s->n++] = c;
}

static void put_text(sink *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put(s, text[i]);
}

/* Writes one word of fewer than WORD letters and apostrophes. */
static void put_word(sink *s, const char *word, size_t n)
{
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strlen(whole[i].word) == n && strncasecmp(whole[i].word, word, n) == 0) {
            if (word[0] >= 'A' && word[0] <= 'Z') { /* the word keeps its capital */
                put(s, word[0]);
                put_text(s, whole[i].out + 1, strlen(whole[i].out) - 1);
            } else {
                put_text(s, whole[i].out, strlen(whole[i].out));
            }
            return;
        }
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        const size_t m = strlen(tails[i].tail);
        if (n >= m && strncasecmp(tails[i].tail, word + n - m, m) == 0) {
            put_text(s, word, n - m);
            put_text(s, tails[i].out, strlen(tails[i].out));
            return;
        }
    }
    put_text(s, word, n);
}

static bool in_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '\'';
}

/* Length of the apostrophe at text, ' or U+2019, in bytes; 0 if there is none. */
static size_t apostrophe(const char *text, size_t n)
{
    if (n > 0 && text[0] == '\'') return 1;
    return n >= 3 && memcmp(text, "\xe2\x80\x99", 3) == 0 ? 3 : 0;
}

static void clean(sink *s, const char *text, size_t n)
{
    char word[WORD - 1];
    /* length of the word in bytes; a word of WORD bytes or more is already written */
    size_t length = 0;
    for (size_t i = 0; i < n;) {
        const size_t mark = apostrophe(text + i, n - i);
        const char c = mark > 0 ? '\'' : text[i];
        i += mark > 0 ? mark : 1;
        if (in_word(c)) {
            if (length == sizeof word) put_text(s, word, length);
            if (length < sizeof word)
                word[length] = c;
            else
                put(s, c);
            length++;
            continue;
        }
        if (length < WORD) put_word(s, word, length);
        length = 0;
        put(s, c);
    }
    if (length < WORD) put_word(s, word, length);
}

int mf_clean_text(const char *text, size_t n, char **ret, size_t *ret_n)
{
    sink s = {.out = mf_alloc_raw(GROWTH * n + 1)};
    *ret = s.out;
    if (!s.out) return MF_ENOMEM;
    clean(&s, text, n);
    s.out[s.n] = 0;
    *ret_n = s.n;
    return MF_OK;
}

int mf_clean_lines(const char *text, size_t n, char **ret, size_t *ret_n)
{
    char *out = mf_alloc_raw((GROWTH + 1) * n + 1);
    size_t at = 0;
    *ret = out;
    if (!out) return MF_ENOMEM;
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        const size_t length = end ? (size_t)(end - text) - i : n - i;
        sink s = {.out = out + at};
        clean(&s, text + i, length);
        at += s.n;
        if (s.n > 0 && end) out[at++] = '\n';
        i += length + 1;
    }
    out[at] = 0;
    *ret_n = at;
    return MF_OK;
}
