/* data/tokenizer/pretrained/read_model.c: reads the member "model" of a tokenizer.json: a
 * vocabulary with merges (BPE) or without (WordPiece). Every merge names tokens of the
 * vocabulary, so the result of a merge is always a token of the vocabulary. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_BYTES = 1 << 16 };

void mf_pt_model_free(mf_pt_model *m)
{
    mf_strings_free(&m->names);
    mf_free(m->id_of);
    mf_free(m->merge);
    mf_free(m->score);
    mf_pt_trie_free(&m->trie);
    *m = (mf_pt_model){0};
}

int32_t mf_pt_id(const mf_pt_model *m, const char *name, size_t n)
{
    const int32_t index = mf_strings_find(&m->names, name, n);
    return index >= 0 ? m->id_of[index] : -1;
}

int mf_pt_add_name(const char *source, const char *name, size_t n, int64_t id, mf_pt_model *m)
{
    int32_t index;
    bool new;
    const size_t room = (size_t)m->names.cap;
    if (id < 0 || id > INT32_MAX / 2 || n > NAME_MAX_BYTES)
        return mf_fail(MF_EINPUT,
                       "%s: \"%.*s\": expected an id from 0 to %d, and a name of at most %d "
                       "bytes",
                       source, (int)(n < 40 ? n : 40), name, INT32_MAX / 2, NAME_MAX_BYTES);
    int rc = mf_strings_add(&m->names, name, n, &index, &new);
    if (rc != MF_OK) return rc;
    if (!new)
        return mf_fail(MF_EINPUT, "%s: \"%.*s\" is there twice", source, (int)(n < 40 ? n : 40),
                       name);
    if ((size_t)m->names.cap > room) {
        int32_t *id_of = mf_realloc(m->id_of, (size_t)index * sizeof *id_of,
                                    (size_t)m->names.cap * sizeof *id_of);
        if (!id_of) return MF_ENOMEM;
        m->id_of = id_of;
    }
    m->id_of[index] = (int32_t)id;
    return MF_OK;
}

/* Adds a name that is a key of the file, in which MF_JSON_NUL stands for U+0000. */
static int add_key(const char *source, const char *key, int64_t id, mf_pt_model *m)
{
    enum { MARK = sizeof MF_JSON_NUL - 1 };
    size_t n = 0;
    if (!strstr(key, MF_JSON_NUL)) return mf_pt_add_name(source, key, strlen(key), id, m);
    char *name = mf_alloc_raw(strlen(key) + 1);
    if (!name) return MF_ENOMEM;
    while (*key) {
        const bool nul = strncmp(key, MF_JSON_NUL, MARK) == 0;
        name[n++] = nul ? '\0' : *key;
        key += nul ? MARK : 1;
    }
    const int rc = mf_pt_add_name(source, name, n, id, m);
    mf_free(name);
    return rc;
}

int mf_pt_read_vocabulary(const char *source, const mf_json *v, mf_pt_model *m)
{
    const char *name;
    const mf_json *value;
    int rc = MF_OK;
    if (mf_json_typeof(v) != MF_JSON_OBJECT || mf_json_size(v) == 0)
        return mf_fail(MF_EINPUT, "%s: \"vocab\": expected an object of names and ids", source);
    for (size_t i = 0; rc == MF_OK && mf_json_member(v, i, &name, &value); i++) {
        int64_t id = -1;
        mf_json_int(value, &id);
        rc = add_key(source, name, id, m);
    }
    return rc;
}

/* ---- merges ---- */

static int start_merges(mf_pt_model *m, size_t most)
{
    for (m->slots = 16; m->slots < 2 * most;)
        m->slots *= 2;
    m->merge = mf_alloc(m->slots, sizeof *m->merge);
    return m->merge ? MF_OK : MF_ENOMEM;
}

int mf_pt_name_merge(const char *source, mf_pt_model *m, int32_t rank, size_t most,
                     const char *left, size_t n_left, const char *right, size_t n_right)
{
    char both[256], *name = both;
    int rc = m->merge ? MF_OK : start_merges(m, most);
    if (rc != MF_OK) return rc;
    const char *inside = right; /* without the prefix */
    size_t n_inside = n_right;
    if (n_right >= m->n_prefix && memcmp(right, m->prefix, m->n_prefix) == 0) {
        inside += m->n_prefix;
        n_inside -= m->n_prefix;
    }
    if (n_left + n_right > sizeof both && (name = mf_alloc_raw(n_left + n_right)) == NULL)
        return MF_ENOMEM;
    memcpy(name, left, n_left);
    memcpy(name + n_left, inside, n_inside);
    const int32_t a = mf_pt_id(m, left, n_left), b = mf_pt_id(m, right, n_right),
                  made = mf_pt_id(m, name, n_left + n_inside);
    if (name != both) mf_free(name);
    if (a < 0 || b < 0 || made < 0)
        return mf_fail(MF_EINPUT,
                       "%s: \"merges\": entry %d, \"%.*s %.*s\": %s not in the vocabulary",
                       source, (int)rank, (int)(n_left < 40 ? n_left : 40), left,
                       (int)(n_right < 40 ? n_right : 40), right,
                       a < 0   ? "the left token is"
                       : b < 0 ? "the right token is"
                               : "both as one token are");
    mf_pt_add_merge(m, a, b, rank, made);
    static const char bar[] = "\xE2\x96\x81";
    enum { BAR = sizeof bar - 1 };
    if (n_right >= BAR && memcmp(right, bar, BAR) == 0 &&
        (n_left < BAR || memcmp(left + n_left - BAR, bar, BAR) != 0))
        m->cuts_at_bars = false;
    return MF_OK;
}

/* Reads one merge: "left right", or ["left", "right"]. */
static int read_merge(const char *source, const mf_json *list, size_t i, mf_pt_model *m)
{
    const mf_json *entry = mf_json_at(list, i);
    size_t n = 0, n_left = 0, n_right = 0;
    const char *text = mf_json_string(entry, &n), *left = text, *right = NULL;
    if (text) {
        const char *blank = memchr(text, ' ', n);
        n_left = blank ? (size_t)(blank - text) : 0;
        right = blank ? blank + 1 : NULL;
        n_right = n - n_left - 1;
    } else if (mf_json_size(entry) == 2) {
        left = mf_json_string(mf_json_at(entry, 0), &n_left);
        right = mf_json_string(mf_json_at(entry, 1), &n_right);
    }
    if (!left || !right || n_left == 0 || n_right == 0)
        return mf_fail(MF_EINPUT, "%s: \"merges\": entry %zu: expected two tokens", source, i);
    return mf_pt_name_merge(source, m, (int32_t)i, mf_json_size(list), left, n_left, right,
                            n_right);
}

static int read_merges(const char *source, const mf_json *list, mf_pt_model *m)
{
    int rc = MF_OK;
    if (mf_json_typeof(list) != MF_JSON_ARRAY || mf_json_size(list) > INT32_MAX / 4)
        return mf_fail(MF_EINPUT, "%s: \"merges\": expected a list of pairs of tokens", source);
    m->cuts_at_bars = true;
    for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++)
        rc = mf_json_typeof(mf_json_at(list, i)) == mf_json_typeof(mf_json_at(list, 0))
                 ? read_merge(source, list, i, m)
                 : mf_fail(MF_EINPUT,
                           "%s: \"merges\": entry %zu: expected the form of the first one: all "
                           "texts, or all lists",
                           source, i);
    return rc;
}

/* ---- the models ---- */

/* Sets the ids of single bytes. A vocabulary that was trained without an initial alphabet lacks
 * some of them. Only texts that contain these bytes are refused. */
static void find_bytes(mf_pt_model *m)
{
    for (int b = 0; b < 256; b++) {
        char name[8];
        const size_t n = m->byte_level
                             ? mf_unicode_write(mf_pt_letter_of((unsigned char)b), name)
                             : (size_t)snprintf(name, sizeof name, "<0x%02X>", (unsigned)b);
        m->byte[b] = m->byte_level || m->byte_fallback ? mf_pt_id(m, name, n) : -1;
    }
}

void mf_pt_settle(mf_pt_model *m)
{
    static const char bar[] = "\xE2\x96\x81";
    for (int32_t i = 0; i < m->names.n; i++) {
        size_t n;
        mf_strings_get(&m->names, i, &n);
        if (n > m->longest) m->longest = n;
    }
    m->cuts_at_bars = m->cuts_at_bars && m->kind == MF_PT_BPE && !m->byte_level &&
                      !m->ignore_merges && m->n_prefix + m->n_suffix == 0 &&
                      mf_pt_id(m, bar, strlen(bar)) >= 0;
    if (m->kind != MF_PT_WORDPIECE) find_bytes(m);
}

static int read_unk(const char *source, const mf_json *v, mf_pt_model *m)
{
    size_t n = 0;
    const mf_json *entry = mf_json_get(v, "unk_token");
    const char *name = mf_json_string(entry, &n);
    m->unk = name ? mf_pt_id(m, name, n) : -1;
    const bool needed = m->kind == MF_PT_WORDPIECE || m->kind == MF_PT_WORDLEVEL;
    if (m->unk < 0 && (needed || mf_json_typeof(entry) != MF_JSON_NULL))
        return mf_fail(MF_EINPUT, "%s: \"unk_token\": expected a token of the vocabulary",
                       source);
    return MF_OK;
}

static int read_bpe(const char *source, const mf_json *v, mf_pt_model *m)
{
    double dropout = 0;
    const char *prefix =
                   mf_json_string(mf_json_get(v, "continuing_subword_prefix"), &m->n_prefix),
               *suffix = mf_json_string(mf_json_get(v, "end_of_word_suffix"), &m->n_suffix);
    if (m->n_prefix > sizeof m->prefix || m->n_suffix > sizeof m->suffix)
        return mf_fail(MF_EINPUT,
                       "%s: \"model\": expected \"continuing_subword_prefix\" and "
                       "\"end_of_word_suffix\" of at most %zu bytes",
                       source, sizeof m->prefix);
    memcpy(m->prefix, prefix ? prefix : "", m->n_prefix);
    memcpy(m->suffix, suffix ? suffix : "", m->n_suffix);
    if (mf_json_real(mf_json_get(v, "dropout"), &dropout) && dropout > 0)
        return mf_fail(MF_EINPUT, "%s: \"model\": \"dropout\": expected null or 0", source);
    m->byte_fallback = mf_pt_true(v, "byte_fallback", false);
    m->fuse_unk = mf_pt_true(v, "fuse_unk", false);
    m->ignore_merges = mf_pt_true(v, "ignore_merges", false);
    if (m->byte_fallback && m->n_prefix + m->n_suffix > 0)
        return mf_fail(MF_EINPUT,
                       "%s: \"model\": \"byte_fallback\": expected no "
                       "\"continuing_subword_prefix\" and \"end_of_word_suffix\" with it",
                       source);
    int rc = mf_pt_read_vocabulary(source, mf_json_get(v, "vocab"), m);
    return rc == MF_OK ? read_merges(source, mf_json_get(v, "merges"), m) : rc;
}

static int read_wordpiece(const char *source, const mf_json *v, mf_pt_model *m)
{
    size_t n = 2;
    int64_t most = 100;
    const char *prefix = mf_json_string(mf_json_get(v, "continuing_subword_prefix"), &n);
    mf_json_int(mf_json_get(v, "max_input_chars_per_word"), &most);
    if (n > sizeof m->prefix || most < 1 || most > NAME_MAX_BYTES)
        return mf_fail(MF_EINPUT,
                       "%s: \"model\": expected \"continuing_subword_prefix\" of at most %zu "
                       "bytes, and \"max_input_chars_per_word\" from 1 to %d",
                       source, sizeof m->prefix, NAME_MAX_BYTES);
    m->kind = MF_PT_WORDPIECE;
    m->n_prefix = n;
    m->word_max = (size_t)most;
    memcpy(m->prefix, prefix ? prefix : "##", n);
    return mf_pt_read_vocabulary(source, mf_json_get(v, "vocab"), m);
}

/* Reads the list of Unigram, [[NAME, SCORE], ...]. An id is an index of the list. */
static int read_unigram(const char *source, const mf_json *v, mf_pt_model *m)
{
    const mf_json *list = mf_json_get(v, "vocab");
    const size_t n = mf_json_size(list);
    double least = INFINITY;
    int64_t unk = -1;
    int rc = MF_OK;
    m->kind = MF_PT_UNIGRAM;
    m->byte_fallback = mf_pt_true(v, "byte_fallback", false);
    if (mf_json_typeof(list) != MF_JSON_ARRAY || n == 0 || n > INT32_MAX / 2)
        return mf_fail(MF_EINPUT, "%s: \"vocab\": expected a list of names and scores", source);
    mf_pt_trie_begin(&m->trie);
    m->score = mf_alloc(n, sizeof *m->score);
    if (!m->score) return MF_ENOMEM;
    for (size_t i = 0; i < n && rc == MF_OK; i++) {
        size_t length = 0;
        const mf_json *entry = mf_json_at(list, i);
        const char *name = mf_json_string(mf_json_at(entry, 0), &length);
        if (mf_json_size(entry) != 2 || !name || length == 0 ||
            !mf_json_real(mf_json_at(entry, 1), &m->score[i]))
            return mf_fail(MF_EINPUT, "%s: \"vocab\": entry %zu: expected a name and a score",
                           source, i);
        least = fmin(least, m->score[i]);
        rc = mf_pt_add_name(source, name, length, (int64_t)i, m);
        if (rc == MF_OK) rc = mf_pt_trie_add(&m->trie, name, length, (int32_t)i);
    }
    mf_json_int(mf_json_get(v, "unk_id"), &unk);
    if (rc == MF_OK && (unk < -1 || unk >= (int64_t)n))
        rc = mf_fail(MF_EINPUT, "%s: \"unk_id\": expected an index of \"vocab\"", source);
    m->unk = (int32_t)unk;
    m->unk_score = least - 10;
    if (rc == MF_OK) mf_pt_settle(m);
    return rc;
}

static int read_wordlevel(const char *source, const mf_json *v, mf_pt_model *m)
{
    m->kind = MF_PT_WORDLEVEL;
    return mf_pt_read_vocabulary(source, mf_json_get(v, "vocab"), m);
}

int mf_pt_read_model(const char *source, const mf_json *v, bool byte_level, mf_pt_model *ret)
{
    /* Old files have no "type". */
    const bool typed = mf_json_typeof(mf_json_get(v, "type")) != MF_JSON_NULL,
               merges = mf_json_get(v, "merges") != NULL,
               words = mf_json_get(v, "max_input_chars_per_word") != NULL;
    int rc;
    ret->byte_level = byte_level;
    if (typed ? mf_pt_is(v, "BPE") : merges)
        rc = read_bpe(source, v, ret);
    else if (typed ? mf_pt_is(v, "WordPiece") : words)
        rc = read_wordpiece(source, v, ret);
    else if (mf_pt_is(v, "Unigram"))
        return read_unigram(source, v, ret);
    else if (mf_pt_is(v, "WordLevel"))
        rc = read_wordlevel(source, v, ret);
    else
        return mf_pt_refuse(source, "model", mf_json_get(v, "type"),
                            "BPE, WordPiece, Unigram or WordLevel");
    if (rc == MF_OK) rc = read_unk(source, v, ret);
    if (rc == MF_OK) mf_pt_settle(ret);
    return rc;
}
