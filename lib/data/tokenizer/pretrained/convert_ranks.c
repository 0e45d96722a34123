/* data/tokenizer/pretrained/convert_ranks.c: tiktoken.model, a line with a token in base64 and
 * its rank for each token, and tekken.json of mistral-common. */
#include "data/tokenizer/pretrained/convert.h"

#include "base/error.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- tiktoken.model ---- */

/* The file has no expression. That of Kimi is meant, whose folders have this file and no
 * tokenizer.json. */
#define UPPER  "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]"
#define LOWER  "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]"
#define BEFORE "[^\\r\\n\\p{L}\\p{N}]?"
#define BEHIND "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
static const char kimi[] =
    "[\\p{Han}]+|" BEFORE "[" UPPER "]*[" LOWER "]+" BEHIND "|" BEFORE "[" UPPER "]+[" LOWER
    "]*" BEHIND "|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

static int read_ranks(const char *where, const char *text, size_t n, mf_pt_ranks *r)
{
    int rc = MF_OK;
    size_t line = 0;
    for (size_t at = 0, end; at < n && rc == MF_OK; at = end + 1) {
        const char *newline = memchr(text + at, '\n', n - at);
        end = newline ? (size_t)(newline - text) : n;
        line++;
        if (end == at) continue;
        const char *blank = memchr(text + at, ' ', end - at);
        char rank[16] = "";
        const size_t digits = blank ? (size_t)(text + end - blank) - 1 : 0;
        if (digits > 0 && digits < sizeof rank) memcpy(rank, blank + 1, digits);
        int value = -1;
        char rest;
        if (sscanf(rank, "%d %c", &value, &rest) != 1 || value != r->bytes.n)
            return mf_fail(MF_EINPUT,
                           "%s:%zu: expected a token in base64, a blank, and the rank %d",
                           where, line, (int)r->bytes.n);
        rc = mf_pt_add_rank(where, text + at, (size_t)(blank - text) - at, r);
    }
    return rc;
}

/* Writes the special tokens of tokenizer_config.json. Their ids follow the ranks. An id without
 * a name gets one, because the ids of added tokens have no gaps. */
static int put_specials(const char *where, const mf_json *config, int32_t first, mf_jw *w)
{
    const mf_json *list = mf_json_get(config, "added_tokens_decoder"), *value;
    const char *key;
    int32_t last = first - 1;
    for (size_t i = 0; mf_json_member(list, i, &key, &value); i++) {
        int id = -1;
        if (sscanf(key, "%d", &id) == 1 && id > last && id < first + UINT16_MAX) last = id;
    }
    mf_jw_key(w, "added_tokens");
    mf_jw_array(w);
    for (int32_t id = first; id <= last; id++) {
        char number[16], other[32];
        snprintf(number, sizeof number, "%d", (int)id);
        snprintf(other, sizeof other, "<|reserved_token_%d|>", (int)id);
        value = mf_json_get(list, number);
        const char *name = mf_json_string(mf_json_get(value, "content"), NULL);
        if (value && (!name || !name[0]))
            return mf_fail(MF_EINPUT,
                           "%s: tokenizer_config.json: \"added_tokens_decoder\": \"%s\": "
                           "expected \"content\"",
                           where, number);
        mf_pt_put_added(w, id, name ? name : other, mf_pt_true(value, "special", true));
    }
    mf_jw_end(w);
    return MF_OK;
}

int mf_pt_convert_tiktoken(const char *where, const char *text, size_t n, const mf_json *config,
                           char **ret, size_t *ret_n)
{
    mf_pt_ranks r = {{0}};
    mf_jw *w = mf_jw_new();
    *ret = NULL;
    if (!w) return MF_ENOMEM;
    mf_pt_put_head(w);
    int rc = read_ranks(where, text, n, &r);
    if (rc == MF_OK) rc = put_specials(where, config, r.bytes.n, w);
    mf_pt_put_byte_level(w, 1, (const char *const[]){kimi});
    mf_pt_put_template(w, NULL, 0, NULL, 0);
    if (rc == MF_OK) rc = mf_pt_put_ranked_model(where, &r, NULL, 0, w);
    mf_strings_free(&r.bytes);
    if (rc == MF_OK) return mf_pt_put_end(w, ret, ret_n);
    mf_jw_free(w);
    return rc;
}

/* ---- tekken.json ---- */

/* Special tokens of files that do not list them. */
static const char *const usual[] = {"<unk>",
                                    "<s>",
                                    "</s>",
                                    "[INST]",
                                    "[/INST]",
                                    "[AVAILABLE_TOOLS]",
                                    "[/AVAILABLE_TOOLS]",
                                    "[TOOL_RESULTS]",
                                    "[/TOOL_RESULTS]",
                                    "[TOOL_CALLS]",
                                    "<pad>",
                                    "[PREFIX]",
                                    "[MIDDLE]",
                                    "[SUFFIX]"};
enum { USUAL = sizeof usual / sizeof *usual, SPECIALS_MAX = 1 << 16 };

/* Names all special tokens; those that the file does not name are <SPECIAL_i>. */
static int name_specials(const char *where, const mf_json *list, int64_t count, mf_strings *ret)
{
    int rc = MF_OK;
    for (int64_t i = 0; i < count && rc == MF_OK; i++) {
        char other[32];
        int32_t id;
        bool new = false;
        snprintf(other, sizeof other, "<SPECIAL_%d>", (int)i);
        const mf_json *entry = mf_json_at(list, (size_t)i);
        const char *name = entry ? mf_json_string(mf_json_get(entry, "token_str"), NULL)
                           : !list && i < USUAL ? usual[i]
                                                : other;
        if (!name || !name[0] || (entry && mf_json_int_or_0(entry, "rank") != i))
            return mf_fail(MF_EINPUT,
                           "%s: \"special_tokens\": entry %d: expected \"token_str\", and "
                           "\"rank\" %d",
                           where, (int)i, (int)i);
        rc = mf_strings_add(ret, name, strlen(name) + 1, &id, &new); /* with its NUL */
        if (rc == MF_OK && !new)
            rc = mf_fail(MF_EINPUT, "%s: \"special_tokens\": \"%.40s\" is there twice", where,
                         name);
    }
    return rc;
}

static int read_tekken_ranks(const char *where, const mf_json *list, int64_t count,
                             mf_pt_ranks *r)
{
    int rc = MF_OK;
    for (int64_t i = 0; i < count && rc == MF_OK; i++) {
        size_t n = 0;
        int64_t rank = -1;
        const mf_json *entry = mf_json_at(list, (size_t)i);
        const char *bytes = mf_json_string(mf_json_get(entry, "token_bytes"), &n);
        mf_json_int(mf_json_get(entry, "rank"), &rank);
        rc = bytes && rank == i
                 ? mf_pt_add_rank(where, bytes, n, r)
                 : mf_fail(MF_EINPUT,
                           "%s: \"vocab\": entry %d: expected \"token_bytes\", and \"rank\" %d",
                           where, (int)i, (int)i);
    }
    return rc;
}

static int32_t find(const mf_strings *s, const char *name)
{
    return mf_strings_find(s, name, strlen(name) + 1);
}

static int put_tekken(const char *where, const mf_json *doc, mf_jw *w)
{
    const mf_json *about = mf_json_get(doc, "config"), *list = mf_json_get(doc, "vocab"),
                  *names = mf_json_get(doc, "special_tokens");
    const char *pattern = mf_json_string(mf_json_get(about, "pattern"), NULL);
    const int64_t all = mf_json_int_or_0(about, "default_vocab_size"),
                  special = mf_json_int_or_0(about, "default_num_special_tokens");
    mf_pt_ranks r = {{0}};
    mf_strings specials = {0};
    if (!pattern || special < 0 || special > SPECIALS_MAX || all <= special ||
        all - special > (int64_t)mf_json_size(list) || (int64_t)mf_json_size(names) > special)
        return mf_fail(MF_EINPUT,
                       "%s: \"config\": expected \"pattern\", \"default_num_special_tokens\" "
                       "as many as are listed or more, and \"default_vocab_size\" at most the "
                       "tokens of the file",
                       where);
    int rc = name_specials(where, names, special, &specials);
    if (rc == MF_OK) rc = read_tekken_ranks(where, list, all - special, &r);
    mf_jw_key(w, "added_tokens");
    mf_jw_array(w);
    for (int32_t i = 0; i < specials.n; i++) {
        size_t n;
        mf_pt_put_added(w, i, mf_strings_get(&specials, i, &n), true);
    }
    mf_jw_end(w);
    mf_pt_put_byte_level(w, 1, &pattern);
    const int32_t bos = find(&specials, "<s>");
    mf_pt_put_template(w, bos >= 0 ? "<s>" : NULL, bos, NULL, 0);
    if (rc == MF_OK) rc = mf_pt_put_ranked_model(where, &r, &specials, specials.n, w);
    mf_strings_free(&specials);
    mf_strings_free(&r.bytes);
    return rc;
}

int mf_pt_convert_tekken(const char *where, const char *text, size_t n, const mf_json *config,
                         char **ret, size_t *ret_n)
{
    mf_json *doc;
    (void)config;
    *ret = NULL;
    int rc = mf_json_parse(where, text, n, &doc);
    if (rc != MF_OK) return rc;
    mf_jw *w = mf_jw_new();
    if (w) mf_pt_put_head(w);
    rc = w ? put_tekken(where, doc, w) : MF_ENOMEM;
    mf_json_free(doc);
    if (rc == MF_OK) return mf_pt_put_end(w, ret, ret_n);
    mf_jw_free(w);
    return rc;
}
