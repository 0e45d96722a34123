/* data/tokenizer/tokenizer_char.c: one token per Unicode code point.
 *
 * The vocabulary is a list of distinct characters (in the order of code points, which is also
 * the order of their bytes) and a table from code point to id. */
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/tokenizer_kinds.h"

#include <string.h>

enum { CODE_POINTS = 0x110000, PAGE = 256, PAGES = CODE_POINTS / PAGE, LONGEST = 4 };

typedef struct piece_text {
    char bytes[LONGEST];
    uint8_t n;
} piece_text;

typedef struct char_tokenizer {
    mf_tokenizer base;
    piece_text *piece; /* [pieces] */
    /* id + 1 of each code point, 0: unknown; page NULL: no code point of the page is known */
    int32_t *page[PAGES];
} char_tokenizer;

/* Returns the code point of a character that mf_utf8_length accepted. */
static uint32_t code_point(const char *text, size_t n)
{
    const unsigned char *s = (const unsigned char *)text;
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = s[0] & first[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3fu);
    return c;
}

static int invalid(const char *source, size_t offset, const char *text)
{
    return mf_fail(MF_EINPUT,
                   "%s: byte %zu (0x%02x) is not valid UTF-8, which tokenizer char needs; "
                   "tokenizer byte takes any file",
                   source, offset, (unsigned char)*text);
}

static void destroy(mf_tokenizer *base)
{
    char_tokenizer *t = (char_tokenizer *)base;
    for (int i = 0; i < PAGES; i++)
        mf_free(t->page[i]);
    mf_free(t->piece);
    mf_free(t);
}

/* Makes the tokenizer whose vocabulary is the characters of the text. ordered: the text must
 * contain each character once, in order of code points; else MF_EINPUT. Training and reading
 * both use this constructor. After a failure *ret may hold an incomplete tokenizer. */
static int make(const char *source, const char *text, size_t n, bool ordered,
                mf_tokenizer **ret)
{
    char_tokenizer *t = mf_alloc(1, sizeof *t);
    if (!t) return MF_ENOMEM;
    t->base = (mf_tokenizer){.ops = &mf_tokenizer_char, .longest = LONGEST, .lossless = true};
    *ret = &t->base;
    int64_t last = -1;
    for (size_t at = 0; at < n;) {
        size_t length = mf_utf8_length(text + at, n - at);
        if (length == 0) return invalid(source, at, text + at);
        uint32_t c = code_point(text + at, length);
        if (ordered && (int64_t)c <= last)
            return mf_fail(
                MF_EINPUT,
                "%s: \"vocabulary\": U+%04X at byte %zu: expected each character once, "
                "in order of code points",
                source, (unsigned)c, at);
        last = c;
        int32_t **page = &t->page[c / PAGE];
        if (*page == NULL && (*page = mf_alloc(PAGE, sizeof **page)) == NULL) return MF_ENOMEM;
        t->base.pieces += (*page)[c % PAGE] == 0;
        (*page)[c % PAGE] = 1;
        at += length;
    }
    if (t->base.pieces == 0)
        return mf_fail(MF_EINPUT, "%s: no character to make a vocabulary of", source);
    t->piece = mf_alloc((size_t)t->base.pieces, sizeof *t->piece);
    if (!t->piece) return MF_ENOMEM;
    int32_t id = 0;
    for (int32_t p = 0; p < PAGES; p++)
        for (int32_t i = 0; t->page[p] && i < PAGE; i++)
            if (t->page[p][i] != 0) t->page[p][i] = ++id;
    for (size_t at = 0; at < n;) {
        size_t length = mf_utf8_length(text + at, n - at);
        uint32_t c = code_point(text + at, length);
        piece_text *piece = &t->piece[t->page[c / PAGE][c % PAGE] - 1];
        memcpy(piece->bytes, text + at, length);
        piece->n = (uint8_t)length;
        at += length;
    }
    return MF_OK;
}

static int make_or_nothing(const char *source, const char *text, size_t n, bool ordered,
                           mf_tokenizer **ret)
{
    *ret = NULL;
    int rc = make(source, text, n, ordered, ret);
    if (rc != MF_OK && *ret != NULL) {
        destroy(*ret);
        *ret = NULL;
    }
    return rc;
}

static int train(const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    (void)options;
    return make_or_nothing(source, text, n, false, ret);
}

static int read_members(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    size_t n = 0;
    const char *text = mf_json_string(mf_json_get(object, "vocabulary"), &n);
    if (!text)
        return mf_fail(MF_EINPUT, "%s: \"vocabulary\": expected a string of all characters",
                       source);
    return make_or_nothing(source, text, n, true, ret);
}

static int write_members(const mf_tokenizer *base, mf_jw *w)
{
    const char_tokenizer *t = (const char_tokenizer *)base;
    char *text = mf_alloc((size_t)base->pieces, LONGEST);
    if (!text) return MF_ENOMEM;
    size_t n = 0;
    for (int32_t i = 0; i < base->pieces; i++) {
        memcpy(text + n, t->piece[i].bytes, t->piece[i].n);
        n += t->piece[i].n;
    }
    mf_jw_key(w, "vocabulary");
    mf_jw_string_n(w, text, n);
    mf_free(text);
    return MF_OK;
}

static int encode(const mf_tokenizer *base, const char *source, size_t offset, const char *text,
                  size_t n, mf_ids *ids)
{
    const char_tokenizer *t = (const char_tokenizer *)base;
    int32_t unknown = base->special[MF_SPECIAL_UNK];
    for (size_t at = 0; at < n;) {
        size_t length = mf_utf8_length(text + at, n - at);
        if (length == 0) return invalid(source, offset + at, text + at);
        uint32_t c = code_point(text + at, length);
        const int32_t *page = t->page[c / PAGE];
        int32_t id = page ? page[c % PAGE] - 1 : -1;
        if (id < 0) id = unknown;
        if (id < 0)
            return mf_fail(MF_EINPUT,
                           "%s: byte %zu: character U+%04X is not in the vocabulary of %d "
                           "characters",
                           source, offset + at, (unsigned)c, (int)base->pieces);
        int rc = mf_ids_push(ids, id, offset + at);
        if (rc != MF_OK) return rc;
        at += length;
    }
    return MF_OK;
}

static const char *piece(const mf_tokenizer *base, int32_t id, size_t *ret_n)
{
    const piece_text *p = &((const char_tokenizer *)base)->piece[id];
    *ret_n = p->n;
    return p->bytes;
}

/* Cuts before the last character, which may continue after the end of the text. */
static size_t cut(const mf_tokenizer *base, const char *text, size_t n)
{
    (void)base;
    while (n > 0 && ((unsigned char)text[n - 1] & 0xC0) == 0x80)
        n--;
    return n > 0 ? n - 1 : 0;
}

const mf_tokenizer_ops mf_tokenizer_char = {
    .name = "char",
    .encode = encode,
    .piece = piece,
    .write = write_members,
    .free = destroy,
    .train = train,
    .read = read_members,
    .cut = cut,
};
