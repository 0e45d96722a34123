/* data/tokenizer/tokenizer_wordpiece.c: tokens of BERT. BERT's basic tokenizer separates words.
 * Each word is divided from its beginning into the longest tokens of the vocabulary (Devlin et
 * al. 2019; Wu et al. 2016, section 4.1). Tokens inside a word begin with ##. A word of more
 * than 100 characters, or a word that the vocabulary cannot spell, is [UNK]. A special token's
 * name in a text is ordinary text. */
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/letters.h"
#include "data/tokenizer/merges.h"
#include "data/tokenizer/tokenizer_kinds.h"

#include <string.h>

enum { WORD_MAX = 100, LETTER_MAX = 4, HASHES = 2, VOCAB_DEFAULT = 8000, TOKEN_MAX = 1 << 16 };

static const char *const special_names[MF_SPECIALS] = {[MF_SPECIAL_PAD] = "[PAD]",
                                                       [MF_SPECIAL_UNK] = "[UNK]",
                                                       [MF_SPECIAL_CLS] = "[CLS]",
                                                       [MF_SPECIAL_SEP] = "[SEP]",
                                                       [MF_SPECIAL_MASK] = "[MASK]"};

typedef struct wordpiece {
    mf_tokenizer base;
    mf_strings tokens;
    char *shown; /* decoded text of all tokens, one after another */
    size_t *shown_begin;
    size_t longest; /* length of the longest token in bytes */
    bool lower;     /* case and accents are removed from letters */
} wordpiece;

/* ---- words ---- */

typedef struct reader {
    const char *source, *text;
    size_t base, n, at;
    bool lower;
    int code;
    /* the letters of the last character read: letter[next] to letter[n_letters - 1] are not yet
     * in a word */
    mf_letter letter[MF_UNICODE_DECOMPOSED];
    size_t next, n_letters;
    size_t start; /* offset of the last character read */
} reader;

typedef struct word {
    /* the first two bytes are kept free for the hashes */
    char text[HASHES + WORD_MAX * LETTER_MAX];
    size_t start[WORD_MAX * LETTER_MAX + 1]; /* offset in the text of each byte's letter */
    size_t n;                                /* length in bytes */
    /* number of letters; those after WORD_MAX are not stored */
    size_t letters;
} word;

static void add_letter(word *w, uint32_t c, size_t start)
{
    if (w->letters++ >= WORD_MAX) return;
    size_t n = mf_unicode_write(c, w->text + HASHES + w->n);
    for (size_t i = 0; i < n; i++)
        w->start[w->n + i] = start;
    w->n += n;
}

/* Reads the next character. Returns false at the end, or with r->code set if it is
 * not UTF-8. */
static bool next_letters(reader *r)
{
    uint32_t c;
    if (r->at >= r->n) return false;
    const size_t length = mf_unicode_read(r->text + r->at, r->n - r->at, &c);
    if (length == 0) {
        r->code = mf_fail(MF_EINPUT,
                          "%s: byte %zu (0x%02x) is not valid UTF-8, which tokenizer "
                          "wordpiece needs; tokenizer byte takes any file",
                          r->source, r->base + r->at, (unsigned char)r->text[r->at]);
        return false;
    }
    r->next = 0;
    r->n_letters = 1;
    r->letter[0] = (mf_letter){c, mf_letter_classify(c)};
    if (r->lower) r->n_letters = mf_letter_fold(c, r->letter);
    r->start = r->base + r->at;
    r->at += length;
    return true;
}

/* Reads the next word. Returns false at the end, or with r->code set if the text is
 * not UTF-8. */
static bool next_word(reader *r, word *w)
{
    w->n = w->letters = 0;
    while (r->next < r->n_letters || next_letters(r))
        while (r->next < r->n_letters) {
            const mf_letter *letter = &r->letter[r->next];
            if (letter->class == MF_LETTER_ALONE && w->n > 0) return true;
            r->next++;
            if (letter->class >= MF_LETTER_ALONE) add_letter(w, letter->c, r->start);
            if (w->n > 0 &&
                (letter->class == MF_LETTER_ALONE || letter->class == MF_LETTER_SPACE))
                return true;
        }
    return r->code == MF_OK && w->n > 0;
}

/* ---- encoding ---- */

static int encode_word(const wordpiece *t, word *w, mf_ids *ids)
{
    size_t before = ids->n, at = 0;
    int rc = MF_OK;
    while (at < w->n && w->letters <= WORD_MAX && rc == MF_OK) {
        char *from = w->text + HASHES + at;
        size_t hashes = at > 0 ? HASHES : 0, n = w->n - at;
        char kept[HASHES];
        memcpy(kept, from - hashes, hashes);
        memset(from - hashes, '#', hashes);
        if (n > t->longest) n = t->longest;
        int32_t id = -1;
        for (; n > 0 && id < 0; n -= id < 0)
            if (at + n == w->n || (from[n] & 0xC0) != 0x80)
                id = mf_strings_find(&t->tokens, from - hashes, n + hashes);
        memcpy(from - hashes, kept, hashes);
        if (id < 0) break;
        rc = mf_ids_push(ids, id, w->start[at]);
        at += n;
    }
    if (rc != MF_OK || at == w->n) return rc;
    ids->n = before;
    return mf_ids_push(ids, t->base.special[MF_SPECIAL_UNK], w->start[0]);
}

static int encode(const mf_tokenizer *base, const char *source, size_t offset, const char *text,
                  size_t n, mf_ids *ids)
{
    const wordpiece *t = (const wordpiece *)base;
    reader r = {.source = source, .text = text, .base = offset, .n = n, .lower = t->lower};
    word w;
    while (next_word(&r, &w)) {
        int rc = encode_word(t, &w, ids);
        if (rc != MF_OK) return rc;
    }
    return r.code;
}

static const char *piece(const mf_tokenizer *base, int32_t id, size_t *ret_n)
{
    const wordpiece *t = (const wordpiece *)base;
    *ret_n = t->shown_begin[id + 1] - t->shown_begin[id];
    return t->shown + t->shown_begin[id];
}

/* ---- construction and reading ---- */

static void destroy(mf_tokenizer *base)
{
    wordpiece *t = (wordpiece *)base;
    mf_strings_free(&t->tokens);
    mf_free(t->shown);
    mf_free(t->shown_begin);
    mf_free(t);
}

static bool is_special(const wordpiece *t, int32_t id)
{
    for (int s = 0; s < MF_SPECIALS; s++)
        if (t->base.special[s] == id) return true;
    return false;
}

/* Makes the decoded texts. A token that begins a word is preceded by a blank. The text of a
 * special token is empty. */
static int show(wordpiece *t)
{
    int32_t count = t->tokens.n;
    t->shown = mf_alloc(t->tokens.n_bytes + (size_t)count + 1, 1);
    t->shown_begin = mf_alloc((size_t)count + 1, sizeof *t->shown_begin);
    if (!t->shown || !t->shown_begin) return MF_ENOMEM;
    for (int32_t i = 0; i < count; i++) {
        size_t n, at = t->shown_begin[i];
        const char *token = mf_strings_get(&t->tokens, i, &n);
        if (n > t->longest) t->longest = n;
        if (n > HASHES && memcmp(token, "##", HASHES) == 0) {
            token += HASHES;
            n -= HASHES;
        } else if (!is_special(t, i)) {
            t->shown[at++] = ' ';
        } else {
            n = 0;
        }
        memcpy(t->shown + at, token, n);
        t->shown_begin[i + 1] = at + n;
        n = t->shown_begin[i + 1] - t->shown_begin[i];
        if (n > t->base.longest) t->base.longest = n;
    }
    return MF_OK;
}

/* The only constructor. It takes ownership of the tokens, also if it fails. */
static int make(const char *source, mf_strings *tokens, bool lower, mf_tokenizer **ret)
{
    wordpiece *t = mf_alloc(1, sizeof *t);
    *ret = NULL;
    if (!t) {
        mf_strings_free(tokens);
        return MF_ENOMEM;
    }
    t->tokens = *tokens;
    t->lower = lower;
    *tokens = (mf_strings){0};
    t->base = (mf_tokenizer){
        .ops = &mf_tokenizer_wordpiece, .pieces = t->tokens.n, .own_specials = true};
    for (int s = 0; s < MF_SPECIALS; s++)
        t->base.special[s] =
            special_names[s] != NULL
                ? mf_strings_find(&t->tokens, special_names[s], strlen(special_names[s]))
                : -1;
    int rc = t->base.special[MF_SPECIAL_UNK] < 0
                 ? mf_fail(MF_EINPUT, "%s: the vocabulary has no token [UNK]", source)
                 : show(t);
    if (rc == MF_OK)
        *ret = &t->base;
    else
        destroy(&t->base);
    return rc;
}

static int add_token(const char *source, const char *what, mf_strings *tokens, const char *text,
                     size_t n)
{
    int32_t id, count = tokens->n;
    bool added = false;
    const char *fault = NULL;
    if (n == 0 || n > TOKEN_MAX)
        fault = "is empty or too long";
    else if (mf_utf8_check(text, n) < n || memchr(text, 0, n) != NULL)
        fault = "is not valid UTF-8";
    if (!fault) {
        int rc = mf_strings_add(tokens, text, n, &id, &added);
        if (rc != MF_OK || added) return rc;
        return mf_fail(MF_EINPUT, "%s: %s %d is there before, as %s %d", source, what,
                       (int)count + 1, what, (int)id + 1);
    }
    return mf_fail(MF_EINPUT, "%s: %s %d %s: expected one token of the vocabulary", source,
                   what, (int)count + 1, fault);
}

bool mf_wordpiece_is_list(const char *text, size_t n)
{
    static const char unknown[] = "[UNK]";
    enum { LENGTH = sizeof unknown - 1 };
    for (const char *at = text, *end = text + n; (size_t)(end - at) >= LENGTH;) {
        bool ends = at + LENGTH == end || at[LENGTH] == '\n' || at[LENGTH] == '\r';
        if (ends && memcmp(at, unknown, LENGTH) == 0) return true;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        if (!newline) break;
        at = newline + 1;
    }
    return false;
}

/* Whether any token, apart from those in brackets, has capital letters. Then the vocabulary
 * is case-sensitive. */
static bool is_cased(const mf_strings *tokens)
{
    for (int32_t i = 0; i < tokens->n; i++) {
        size_t n;
        const char *text = mf_strings_get(tokens, i, &n);
        if (text[0] == '[' && text[n - 1] == ']') continue;
        for (size_t j = 0; j < n; j++)
            if (text[j] >= 'A' && text[j] <= 'Z') return true;
    }
    return false;
}

int mf_wordpiece_read_list(const char *source, const char *text, size_t n, mf_tokenizer **ret)
{
    mf_strings tokens = {0};
    int rc = MF_OK;
    *ret = NULL;
    for (const char *at = text, *end = text + n; at < end && rc == MF_OK;) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        size_t length = (size_t)(stop - at);
        if (length > 0 && stop[-1] == '\r') length--;
        rc = add_token(source, "line", &tokens, at, length);
        at = newline ? newline + 1 : end;
    }
    if (rc == MF_OK) return make(source, &tokens, !is_cased(&tokens), ret);
    mf_strings_free(&tokens);
    return rc;
}

static int read_members(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    const mf_json *list = mf_json_get(object, "vocabulary");
    mf_strings tokens = {0};
    bool lower;
    int rc = MF_OK;
    if (!mf_json_bool(mf_json_get(object, "lower"), &lower))
        return mf_fail(MF_EINPUT, "%s: \"lower\": expected true or false", source);
    if (mf_json_typeof(list) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "%s: \"vocabulary\": expected a list of tokens", source);
    for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++) {
        size_t n = 0;
        const char *text = mf_json_string(mf_json_at(list, i), &n);
        rc = add_token(source, "\"vocabulary\": entry", &tokens, text, text ? n : 0);
    }
    if (rc == MF_OK) return make(source, &tokens, lower, ret);
    mf_strings_free(&tokens);
    return rc;
}

static int write_members(const mf_tokenizer *base, mf_jw *w)
{
    const wordpiece *t = (const wordpiece *)base;
    mf_jw_kv_bool(w, "lower", t->lower);
    mf_jw_key(w, "vocabulary");
    mf_jw_array(w);
    for (int32_t i = 0; i < t->tokens.n; i++) {
        size_t n;
        const char *text = mf_strings_get(&t->tokens, i, &n);
        mf_jw_string_n(w, text, n);
    }
    mf_jw_end(w);
    return MF_OK;
}

/* ---- training ---- */

/* Passes the letters of a new word to the learner as symbols. All letters except the first get
 * the prefix ##. */
static int cut(mf_learner *l, const word *w)
{
    int32_t symbol[WORD_MAX], n = 0;
    for (size_t at = 0; at < w->n;) {
        char text[HASHES + LETTER_MAX] = "##";
        size_t length = mf_utf8_length(w->text + HASHES + at, w->n - at);
        size_t hashes = at > 0 ? HASHES : 0;
        bool added;
        memcpy(text + hashes, w->text + HASHES + at, length);
        int rc = mf_strings_add(&l->symbols, text, hashes + length, &symbol[n++], &added);
        if (rc != MF_OK) return rc;
        at += length;
    }
    return mf_learner_cut(l, symbol, n);
}

static int learn(mf_learner *l, const char *source, const char *text, size_t n, int32_t vocab)
{
    reader r = {.source = source, .text = text, .n = n, .lower = true};
    word w;
    while (next_word(&r, &w)) {
        bool new;
        if (w.letters > WORD_MAX) continue;
        int rc = mf_learner_word(l, w.text + HASHES, w.n, &new);
        if (rc == MF_OK && new) rc = cut(l, &w);
        if (rc != MF_OK) return rc;
    }
    if (r.code != MF_OK) return r.code;
    int32_t specials = 0;
    for (int s = 0; s < MF_SPECIALS; s++)
        specials += special_names[s] != NULL;
    if (l->symbols.n == 0)
        return mf_fail(MF_EINPUT, "%s: no word to make a vocabulary of", source);
    if (l->symbols.n > vocab - specials)
        return mf_fail(MF_EINPUT,
                       "%s: a vocabulary of %d cannot hold its letters: expected %d or more",
                       source, (int)vocab, (int)(l->symbols.n + specials));
    mf_learner_rule rule = {.likely = true,
                            .hashes = true,
                            .max_merges = INT32_MAX,
                            .max_symbols = vocab - specials};
    return mf_learner_run(l, &rule);
}

static int train(const char *source, const char *text, size_t n,
                 const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    mf_learner l = {0};
    mf_strings tokens = {0};
    *ret = NULL;
    int rc = learn(&l, source, text, n,
                   options->vocab_size > 0 ? options->vocab_size : VOCAB_DEFAULT);
    for (int s = 0; s < MF_SPECIALS && rc == MF_OK; s++)
        if (special_names[s])
            rc =
                add_token(source, "token", &tokens, special_names[s], strlen(special_names[s]));
    for (int32_t i = 0; i < l.symbols.n && rc == MF_OK; i++) {
        size_t length;
        const char *symbol = mf_strings_get(&l.symbols, i, &length);
        rc = add_token(source, "token", &tokens, symbol, length);
    }
    mf_learner_free(&l);
    if (rc == MF_OK) return make(source, &tokens, true, ret);
    mf_strings_free(&tokens);
    return rc;
}

/* Cuts after a blank, which ends a word and is part of no word. */
static size_t cut_at_blank(const mf_tokenizer *base, const char *text, size_t n)
{
    (void)base;
    while (n > 0 && text[n - 1] != ' ' && text[n - 1] != '\n')
        n--;
    return n;
}

const mf_tokenizer_ops mf_tokenizer_wordpiece = {
    .name = "wordpiece",
    .encode = encode,
    .piece = piece,
    .write = write_members,
    .free = destroy,
    .train = train,
    .read = read_members,
    .cut = cut_at_blank,
};
