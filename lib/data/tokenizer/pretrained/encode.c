/* data/tokenizer/pretrained/encode.c: converts a text to ids in four steps: added tokens,
 * normalization, words, tokens. The words of a long text repeat, so a call keeps their tokens
 * in a table. The tokenizer itself never changes. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"

#include <string.h>

enum {
    SLOTS = 1 << 15,      /* greatest number of words in the table; a new word may
                           * replace another */
    KEPT_WORD = 64,       /* greatest length in bytes of a word that is kept */
    KEPT_TOKENS = 6,      /* greatest number of tokens of a word that is kept */
    WORTH_A_TABLE = 4096, /* least length in bytes of a text for which the table is used */
};

typedef struct kept {
    uint32_t n; /* number of bytes; 0: free */
    uint32_t n_tokens;
    char word[KEPT_WORD];
    mf_pt_token token[KEPT_TOKENS];
} kept;

typedef struct encoder {
    const mf_pretrained *t;
    mf_ids *ids;
    mf_pt_found found;
    mf_pt_text work[2];  /* work memory of normalization */
    mf_pt_text words[2]; /* work memory of the pre-tokenizers that change the text */
    mf_pt_text
        letters[MF_PT_RULES]; /* a text whose bytes are letters, for each pre-tokenizer */
    mf_regex_scan *scan[MF_PT_RULES]; /* for each expression; NULL: not used yet */
    kept *table;                      /* [slots]; NULL: no table, because the text is short */
    size_t slots;                     /* a power of two */
    size_t first;                     /* offset of the whole text in its source */
    const char *source;
} encoder;

/* ---- words ---- */

static int push(encoder *e, const mf_pt_view *word, const mf_pt_token *token, size_t n)
{
    size_t at = 0;
    int rc = mf_ids_reserve(e->ids, n);
    for (size_t i = 0; i < n && rc == MF_OK; i++) {
        rc = mf_ids_push(e->ids, token[i].id, mf_pt_origin(word, at));
        at += token[i].n;
    }
    return rc;
}

static uint64_t hash_of(const char *text, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u, part;
    for (; n >= 8; text += 8, n -= 8) {
        memcpy(&part, text, 8);
        h = (h ^ part) * 0x9fb21c651e98df25u;
        h ^= h >> 32;
    }
    part = 0;
    memcpy(&part, text, n);
    h = (h ^ part) * 0x9fb21c651e98df25u;
    return h ^ h >> 29;
}

static int find_tokens(encoder *e, const mf_pt_view *w)
{
    const mf_pt_model *m = &e->t->model;
    e->found.n = 0;
    switch (m->kind) {
    case MF_PT_WORDPIECE:
        return mf_pt_piece_word(m, w->bytes, w->n, &e->found);
    case MF_PT_UNIGRAM:
        return mf_pt_unigram_word(m, w->bytes, w->n, &e->found);
    case MF_PT_WORDLEVEL:
        return mf_pt_level_word(m, w->bytes, w->n, &e->found);
    case MF_PT_BPE:
        break;
    }
    return mf_pt_merge_word(m, w->bytes, w->n, &e->found);
}

static int add_word(encoder *e, const mf_pt_view *w)
{
    kept *k = NULL;
    if (e->table && w->n <= KEPT_WORD) {
        k = &e->table[hash_of(w->bytes, w->n) & (e->slots - 1)];
        if (k->n == w->n && memcmp(k->word, w->bytes, w->n) == 0)
            return push(e, w, k->token, k->n_tokens);
    }
    int rc = find_tokens(e, w);
    if (rc == MF_EINPUT)
        return mf_fail_context(rc, "%s: word at byte %zu", e->source, mf_pt_origin(w, 0));
    if (rc != MF_OK) return rc;
    if (k && e->found.n <= KEPT_TOKENS) {
        k->n = (uint32_t)w->n;
        k->n_tokens = (uint32_t)e->found.n;
        memcpy(k->word, w->bytes, w->n);
        memcpy(k->token, e->found.token, e->found.n * sizeof *k->token);
    }
    return push(e, w, e->found.token, e->found.n);
}

/* ---- pre-tokenizers ---- */

static int split(encoder *e, const mf_pt_view *v, int level);

/* Passes a part of a text to the next pre-tokenizer. read: the text in which begin and end are
 * offsets, v itself or its letters. */
static int pass_on(encoder *e, const mf_pt_view *v, const mf_pt_view *read, size_t begin,
                   size_t end, int level)
{
    if (e->t->words.rule[level - 1].letters) {
        begin = begin < read->n ? read->from[begin] : v->n;
        end = end < read->n ? read->from[end] : v->n;
    }
    const mf_pt_view part = mf_pt_part(v, begin, end);
    return split(e, &part, level);
}

/* Cuts a text by a function. The text between two matches is a word. */
static int split_by_function(encoder *e, const mf_pt_view *v, const mf_pt_view *read, int level)
{
    const mf_pt_splitter function = e->t->words.rule[level].split;
    size_t begin = 0;
    int rc = MF_OK;
    for (size_t at = 0; at <= read->n && rc == MF_OK;) {
        bool drop = false;
        const size_t n = at < read->n ? function(read->bytes, read->n, at, &drop) : 0;
        uint32_t c;
        if (n == 0 && at < read->n) {
            at += mf_unicode_read(read->bytes + at, read->n - at, &c);
            continue;
        }
        if (at > begin) rc = pass_on(e, v, read, begin, at, level + 1);
        if (rc == MF_OK && n > 0 && !drop) rc = pass_on(e, v, read, at, at + n, level + 1);
        begin = at += n;
        if (at == read->n) break;
    }
    return rc;
}

/* Cuts a text at the matches of an expression or a string. */
static int split_at_matches(encoder *e, const mf_pt_view *v, const mf_pt_view *read, int level)
{
    const mf_pt_rule *cut = &e->t->words.rule[level];
    mf_pt_pieces p;
    size_t begin, end;
    bool more = true;
    int rc = MF_OK;
    if (cut->regex && !e->scan[level]) rc = mf_regex_scan_new(cut->regex, &e->scan[level]);
    if (rc == MF_OK) rc = mf_pt_pieces_begin(&p, cut, e->scan[level], read->bytes, read->n);
    while (rc == MF_OK && more) {
        rc = mf_pt_pieces_next(&p, &begin, &end, &more);
        if (rc == MF_OK && more) rc = pass_on(e, v, read, begin, end, level + 1);
    }
    return rc;
}

/* Writes the bytes of a text as the letters that represent them. The origin of a letter is the
 * offset of its byte in v. */
static int to_letters(encoder *e, const mf_pt_view *v, int level, mf_pt_view *ret)
{
    mf_pt_text *to = &e->letters[level];
    int rc = MF_OK;
    to->mapped = true;
    to->n = 0;
    for (size_t i = 0; i < v->n && rc == MF_OK; i++) {
        char letter[4];
        const size_t n = mf_unicode_write(mf_pt_letter_of((unsigned char)v->bytes[i]), letter);
        rc = mf_pt_text_add(to, letter, n, NULL, i, false);
    }
    *ret = mf_pt_whole(to);
    return rc;
}

/* Replaces blanks by U+2581, and may put one U+2581 in front. */
static int to_bars(encoder *e, const mf_pt_view *v, mf_pt_bar how, mf_pt_view *ret)
{
    static const char bar[] = "\xE2\x96\x81"; /* U+2581 */
    enum { BAR = sizeof bar - 1 };
    static const mf_pt_steps steps = {
        .step = {{.kind = MF_PT_REPLACE,
                  .text = (char *)" ",
                  .with = (char *)bar,
                  .n_text = 1,
                  .n_with = BAR},
                 {.kind = MF_PT_PREPEND, .text = (char *)bar, .n_text = BAR}},
        .n = 2};
    const bool begins =
        (v->n >= BAR && memcmp(v->bytes, bar, BAR) == 0) || (v->n > 0 && v->bytes[0] == ' ');
    mf_pt_steps some = steps;
    if (begins || how == MF_PT_BAR_NEVER ||
        (how == MF_PT_BAR_FIRST && mf_pt_origin(v, 0) != e->first))
        some.n = 1;
    return mf_pt_normalize(&some, v, e->words, ret);
}

static int with_blank(encoder *e, const mf_pt_view *v, mf_pt_view *ret)
{
    static const mf_pt_steps blank = {
        .step = {{.kind = MF_PT_PREPEND, .text = (char *)" ", .n_text = 1}}, .n = 1};
    *ret = *v;
    return v->bytes[0] == ' ' ? MF_OK : mf_pt_normalize(&blank, v, e->words, ret);
}

/* Applies the pre-tokenizers from `level` on to a text. */
static int split(encoder *e, const mf_pt_view *v, int level)
{
    const mf_pt_words *w = &e->t->words;
    mf_pt_view read = *v;
    int rc = MF_OK;
    if (v->n == 0) return MF_OK;
    if (level == w->n) return add_word(e, v);
    const mf_pt_rule *cut = &w->rule[level];
    if (cut->kind == MF_PT_BARS || cut->kind == MF_PT_BLANK) {
        rc = cut->kind == MF_PT_BARS ? to_bars(e, v, cut->prepend, &read)
                                     : with_blank(e, v, &read);
        return rc == MF_OK ? split(e, &read, level + 1) : rc;
    }
    if (cut->letters) rc = to_letters(e, v, level, &read);
    if (rc != MF_OK) return rc;
    return cut->split ? split_by_function(e, v, &read, level)
                      : split_at_matches(e, v, &read, level);
}

static int add_text(encoder *e, const mf_pt_view *v)
{
    return split(e, v, 0);
}

/* ---- added tokens ---- */

typedef int (*part_fn)(encoder *e, const mf_pt_view *v);

/* Finds the added tokens of a trie, and passes the text between them to `other`. */
static int add_parts(encoder *e, const mf_pt_trie *trie, const mf_pt_view *v, part_fn other)
{
    const mf_pretrained *t = e->t;
    mf_pt_match m = {0};
    int rc = MF_OK;
    if (trie->n == 0) return other(e, v);
    while (rc == MF_OK && mf_pt_next_added(trie, t->added, v->bytes, v->n, &m)) {
        if (m.begin > m.from) {
            const mf_pt_view between = mf_pt_part(v, m.from, m.begin);
            rc = other(e, &between);
        }
        if (rc != MF_OK || m.token < 0) break;
        /* If the previous token took the blanks of this token, this token begins at the end of
         * the text, where no byte has an origin. */
        const size_t at = m.begin < v->n ? m.begin : v->n - 1;
        rc = mf_ids_push(e->ids, t->added[m.token].id, mf_pt_origin(v, at));
    }
    return rc;
}

static int add_normalized(encoder *e, const mf_pt_view *v)
{
    mf_pt_view normal;
    int rc = mf_pt_normalize(&e->t->steps, v, e->work, &normal);
    return rc == MF_OK ? add_parts(e, &e->t->normal, &normal, add_text) : rc;
}

int mf_pt_encode(const mf_tokenizer *base, const char *source, size_t offset, const char *text,
                 size_t n, mf_ids *ids)
{
    if (n > INT32_MAX)
        return mf_fail(MF_EINPUT, "%s: %zu bytes at once: expected fewer than 2^31", source, n);
    const size_t valid = mf_utf8_check(text, n);
    if (valid < n)
        return mf_fail(MF_EINPUT,
                       "%s: byte %zu (0x%02x) is not valid UTF-8, which this tokenizer needs; "
                       "tokenizer byte takes any file",
                       source, offset + valid, (unsigned char)text[valid]);
    encoder e = {
        .t = (const mf_pretrained *)base, .ids = ids, .first = offset, .source = source};
    const bool mapped = ids->want_start || e.t->words.prepend == MF_PT_BAR_FIRST;
    for (int i = 0; i < 2; i++)
        e.work[i].mapped = e.words[i].mapped = mapped;
    int rc = MF_OK;
    if (n >= WORTH_A_TABLE) {
        e.slots = 512;
        while (e.slots < SLOTS && e.slots * 32 < n)
            e.slots *= 2;
        if ((e.table = mf_alloc(e.slots, sizeof *e.table)) == NULL) rc = MF_ENOMEM;
    }
    const mf_pt_view whole = {text, n, NULL, offset};
    if (rc == MF_OK && n > 0) rc = add_parts(&e, &e.t->plain, &whole, add_normalized);
    for (int i = 0; i < 2; i++) {
        mf_pt_text_free(&e.work[i]);
        mf_pt_text_free(&e.words[i]);
    }
    for (int i = 0; i < MF_PT_RULES; i++) {
        mf_pt_text_free(&e.letters[i]);
        mf_regex_scan_free(e.scan[i]);
    }
    mf_pt_found_free(&e.found);
    mf_free(e.table);
    return rc;
}

/* ---- cutting ---- */

static bool plain(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether a word always ends before and after a newline between two letters or digits
 * of ASCII. */
static bool splits_lines(const mf_pretrained *t)
{
    static const char *const names[] = {"gpt2", "qwen2", "llama3", "gpt_oss", "words"};
    for (int i = 0; i < t->words.n; i++) {
        const mf_pt_splitter function = t->words.rule[i].split;
        const char *name = function ? mf_pt_split_name(function) : NULL;
        if (t->words.rule[i].cuts_lines) return true;
        if (t->words.rule[i].letters || (!function && t->words.rule[i].kind != MF_PT_CUT_SIGNS))
            return false;
        if (function == mf_pt_split_bytes || function == mf_pt_split_bert) return true;
        for (size_t k = 0; name && k < sizeof names / sizeof *names; k++)
            if (strcmp(name, names[k]) == 0) return true;
    }
    return false;
}

/* Whether nothing is added or removed at the ends of a text. */
static bool ends_freely(const mf_pretrained *t)
{
    if (t->words.bars || t->words.blank) return false;
    for (int i = 0; i < t->steps.n; i++)
        if (t->steps.step[i].kind >= MF_PT_PREPEND) return false;
    for (int32_t i = 0; i < t->added_names.n; i++) {
        size_t n;
        const char *name = mf_strings_get(&t->added_names, i, &n);
        if (n == 0 || plain(name[0]) || plain(name[n - 1]) || memchr(name, '\n', n))
            return false;
    }
    return true;
}

size_t mf_pt_cut(const mf_tokenizer *base, const char *text, size_t n)
{
    const mf_pretrained *t = (const mf_pretrained *)base;
    if (!splits_lines(t) || !ends_freely(t)) return 0;
    for (size_t at = n; at >= 3; at--)
        if (plain(text[at - 1]) && text[at - 2] == '\n' && plain(text[at - 3])) return at - 1;
    return 0;
}
