/* data/tokenizer/tokenizer_vocab_dict.c: reads vocabularies in the layout vocab_dict:
 *
 *   {"vocab_dict": {TOKEN: ID, ...}, "merges": {"LEFT:RIGHT": "LEFTRIGHT", ...}, "max_iter": N}
 *
 * Ids are those of the file. An end of word is </w> in the file and a blank in memory, and it
 * decodes to a blank. If a merge makes a symbol that vocab_dict lacks, the symbol has no id and
 * encodes as <unk>. LEFT and RIGHT must each be a character, an end of word, or the result of
 * an earlier merge. If LEFT or RIGHT contains a colon, this rule and then the vocabulary decide
 * at which colon the key is divided. */
#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "data/tokenizer/bpe.h"

#include <string.h>

#define END "</w>"
enum { TEXT_MAX = 1024 };

typedef struct reader {
    const char *source;
    const mf_json *vocabulary;
    /* symbols of the vocabulary, then the symbols of merges that are not in the vocabulary */
    mf_strings symbols;
    int32_t listed; /* number of symbols of the vocabulary */
    mf_merge *merges;
    int32_t n_merges;
} reader;

bool mf_bpe_is_vocab_dict(const mf_json *object)
{
    return mf_json_typeof(mf_json_get(object, "vocab_dict")) == MF_JSON_OBJECT;
}

/* Converts a token of the file: a blank replaces the end of word. Returns its length in bytes;
 * 0 if the token is too long or empty. */
static size_t own_text(const char *text, size_t n, char out[TEXT_MAX])
{
    const size_t end = sizeof END - 1;
    if (n == 0 || n > TEXT_MAX) return 0;
    const bool ends = n >= end && memcmp(text + n - end, END, end) == 0;
    const size_t rest = ends ? n - end : n;
    memcpy(out, text, rest);
    if (ends) out[rest] = ' ';
    return rest + ends;
}

static int read_vocabulary(reader *r)
{
    const char *token;
    const mf_json *value;
    char text[TEXT_MAX];
    for (size_t i = 0; mf_json_member(r->vocabulary, i, &token, &value); i++) {
        int32_t at;
        bool added = false;
        int64_t id;
        if (!mf_json_int(value, &id) || id < 0 || id > INT32_MAX - 1)
            return mf_fail(MF_EINPUT, "%s: \"vocab_dict\": \"%.60s\": expected an id",
                           r->source, token);
        if (mf_special_find(token) >= 0) continue;
        const size_t n = own_text(token, strlen(token), text);
        int rc = n > 0 ? mf_strings_add(&r->symbols, text, n, &at, &added) : MF_OK;
        if (rc != MF_OK) return rc;
        if (!added)
            return mf_fail(MF_EINPUT,
                           "%s: \"vocab_dict\": \"%.60s\": expected a token of 1 to %d "
                           "bytes that is not there before",
                           r->source, token, TEXT_MAX);
    }
    r->listed = r->symbols.n;
    return MF_OK;
}

/* Whether a half of a merge is a character, an end of word, or one of `made`, the results of
 * the earlier merges. */
static bool is_known(const mf_strings *made, const char *text, size_t n)
{
    char own[TEXT_MAX];
    const size_t bytes = own_text(text, n, own);
    if (bytes == 0) return false;
    return mf_utf8_length(own, bytes) == bytes || mf_strings_find(made, own, bytes) >= 0;
}

static bool in_vocabulary(const reader *r, const char *text, size_t n)
{
    char own[TEXT_MAX];
    const size_t bytes = own_text(text, n, own);
    if (bytes == 0) return false;
    const int32_t at = mf_strings_find(&r->symbols, own, bytes);
    return at >= 0 && at < r->listed;
}

/* Returns the offset of the colon at which the key of a merge is divided. Both halves must be
 * known. If this holds for several colons, the colon whose halves are both in the vocabulary is
 * used. 0: no colon divides the key into known halves; -1: the choice is not unique. */
static long find_cut(const reader *r, const mf_strings *made, const char *key)
{
    const size_t n = strlen(key);
    long known = 0, listed = 0;
    int n_known = 0, n_listed = 0;
    for (size_t i = 1; i + 1 < n; i++) {
        if (key[i] != ':' || !is_known(made, key, i) || !is_known(made, key + i + 1, n - i - 1))
            continue;
        known = (long)i;
        n_known++;
        if (!in_vocabulary(r, key, i) || !in_vocabulary(r, key + i + 1, n - i - 1)) continue;
        listed = (long)i;
        n_listed++;
    }
    if (n_known == 1) return known;
    return n_known == 0 ? 0 : n_listed == 1 ? listed : -1;
}

static int symbol(reader *r, const char *text, size_t n, int32_t *ret)
{
    char own[TEXT_MAX];
    bool added;
    return mf_strings_add(&r->symbols, own, own_text(text, n, own), ret, &added);
}

static int read_merge(reader *r, mf_strings *made, const char *key, const char *whole)
{
    const size_t n = strlen(key);
    char own[TEXT_MAX];
    int32_t id;
    bool added;
    const long cut = find_cut(r, made, key);
    if (cut <= 0)
        return mf_fail(MF_EINPUT,
                       cut == 0
                           ? "%s: \"merges\": entry %d, \"%.60s\": expected LEFT:RIGHT, each a "
                             "character, " END ", or made by an earlier merge"
                           : "%s: \"merges\": entry %d, \"%.60s\": more than one of its colons "
                             "can be the one between two tokens",
                       r->source, (int)r->n_merges, key);
    const size_t left = (size_t)cut, right = n - left - 1;
    if (!whole || strlen(whole) != n - 1 || memcmp(whole, key, left) != 0 ||
        memcmp(whole + left, key + left + 1, right) != 0)
        return mf_fail(MF_EINPUT,
                       "%s: \"merges\": entry %d, \"%.60s\": expected its two tokens as "
                       "one",
                       r->source, (int)r->n_merges, key);
    const size_t bytes = own_text(whole, n - 1, own);
    if (bytes == 0)
        return mf_fail(MF_EINPUT,
                       "%s: \"merges\": entry %d makes a token of more than %d bytes",
                       r->source, (int)r->n_merges, TEXT_MAX);
    mf_merge *m = &r->merges[r->n_merges++];
    int rc = symbol(r, key, left, &m->left);
    if (rc == MF_OK) rc = symbol(r, key + left + 1, right, &m->right);
    if (rc == MF_OK) rc = mf_strings_add(&r->symbols, own, bytes, &m->made, &added);
    return rc == MF_OK ? mf_strings_add(made, own, bytes, &id, &added) : rc;
}

static int read_merges(reader *r, const mf_json *merges)
{
    mf_strings made = {0};
    const char *key;
    const mf_json *value;
    int rc = MF_OK;
    if (mf_json_typeof(merges) != MF_JSON_OBJECT || mf_json_size(merges) > INT32_MAX / 4)
        return mf_fail(MF_EINPUT,
                       "%s: \"merges\": expected an object of \"LEFT:RIGHT\": "
                       "\"LEFTRIGHT\"",
                       r->source);
    r->merges = mf_alloc(mf_json_size(merges) + 1, sizeof *r->merges);
    if (!r->merges) return MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && mf_json_member(merges, i, &key, &value); i++)
        rc = read_merge(r, &made, key, mf_json_string(value, NULL));
    mf_strings_free(&made);
    return rc;
}

static int read_numbers(const reader *r, mf_bpe_numbers *ret)
{
    const char *token;
    const mf_json *value;
    char text[TEXT_MAX];
    int rc = mf_bpe_numbers_new(r->symbols.n, MF_SPECIALS, ret);
    for (int32_t i = 0; rc == MF_OK && i < r->symbols.n; i++)
        ret->id[i] = -1;
    for (size_t i = 0; rc == MF_OK && mf_json_member(r->vocabulary, i, &token, &value); i++) {
        const int s = mf_special_find(token);
        int64_t id = -1;
        mf_json_int(value, &id);
        if (s >= 0)
            ret->special[s] = (int32_t)id;
        else
            ret->id[mf_strings_find(&r->symbols, text, own_text(token, strlen(token), text))] =
                (int32_t)id;
    }
    return rc == MF_OK ? mf_bpe_numbers_settle(r->source, r->symbols.n, ret) : rc;
}

int mf_bpe_read_vocab_dict(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    reader r = {.source = source, .vocabulary = mf_json_get(object, "vocab_dict")};
    mf_bpe_numbers numbers = {0};
    *ret = NULL;
    int rc = read_vocabulary(&r);
    if (rc == MF_OK) rc = read_merges(&r, mf_json_get(object, "merges"));
    if (rc == MF_OK) rc = read_numbers(&r, &numbers);
    if (rc == MF_OK) {
        rc = mf_bpe_make(source, false, &r.symbols, r.merges, r.n_merges, &numbers, ret);
        if (rc == MF_OK) mf_bpe_read_max_iter(*ret, object);
        return rc;
    }
    mf_strings_free(&r.symbols);
    mf_free(r.merges);
    mf_bpe_numbers_free(&numbers);
    return rc;
}
