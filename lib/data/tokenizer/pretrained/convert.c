/* data/tokenizer/pretrained/convert.c: what the converters have in common: parts of a
 * tokenizer.json, and the model of tokens that have ranks. tiktoken merges the two neighbours
 * whose joined bytes have the lowest rank, so every way to divide a token into two tokens is a
 * merge with the token's rank. */
#include "data/tokenizer/pretrained/convert.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/file/io.h"
#include "io/base64.h"
#include "io/lfs.h"

#include <string.h>

void mf_pt_put_head(mf_jw *w)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "version", "1.0");
    mf_jw_key(w, "truncation");
    mf_jw_null(w);
    mf_jw_key(w, "padding");
    mf_jw_null(w);
}

void mf_pt_put_added(mf_jw *w, int32_t id, const char *name, bool special)
{
    mf_jw_object(w);
    mf_jw_kv_int(w, "id", id);
    mf_jw_kv_string(w, "content", name);
    mf_jw_kv_bool(w, "single_word", false);
    mf_jw_kv_bool(w, "lstrip", false);
    mf_jw_kv_bool(w, "rstrip", false);
    mf_jw_kv_bool(w, "normalized", false);
    mf_jw_kv_bool(w, "special", special);
    mf_jw_end(w);
}

/* ---- the template ---- */

static void put_item(mf_jw *w, const char *kind, const char *name, int type)
{
    mf_jw_object(w);
    mf_jw_key(w, kind);
    mf_jw_object(w);
    mf_jw_kv_string(w, "id", name);
    mf_jw_kv_int(w, "type_id", type);
    mf_jw_end(w);
    mf_jw_end(w);
}

static void put_texts(mf_jw *w, const char *key, int texts, const char *before,
                      const char *behind)
{
    mf_jw_key(w, key);
    mf_jw_array(w);
    for (int i = 0; i < texts; i++) {
        if (before) put_item(w, "SpecialToken", before, i);
        put_item(w, "Sequence", i ? "B" : "A", i);
        if (behind) put_item(w, "SpecialToken", behind, i);
    }
    mf_jw_end(w);
}

static void put_token(mf_jw *w, const char *name, int32_t id)
{
    mf_jw_key(w, name);
    mf_jw_object(w);
    mf_jw_kv_string(w, "id", name);
    mf_jw_key(w, "ids");
    mf_jw_array(w);
    mf_jw_int(w, id);
    mf_jw_end(w);
    mf_jw_key(w, "tokens");
    mf_jw_array(w);
    mf_jw_string(w, name);
    mf_jw_end(w);
    mf_jw_end(w);
}

void mf_pt_put_template(mf_jw *w, const char *before, int32_t before_id, const char *behind,
                        int32_t behind_id)
{
    mf_jw_key(w, "post_processor");
    if (!before && !behind) {
        mf_jw_null(w);
        return;
    }
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "TemplateProcessing");
    put_texts(w, "single", 1, before, behind);
    put_texts(w, "pair", 2, before, behind);
    mf_jw_key(w, "special_tokens");
    mf_jw_object(w);
    if (before) put_token(w, before, before_id);
    if (behind) put_token(w, behind, behind_id);
    mf_jw_end(w);
    mf_jw_end(w);
}

/* ---- byte-level BPE ---- */

static void put_bytes(mf_jw *w)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "ByteLevel");
    mf_jw_kv_bool(w, "add_prefix_space", false);
    mf_jw_kv_bool(w, "trim_offsets", true);
    mf_jw_kv_bool(w, "use_regex", false);
    mf_jw_end(w);
}

void mf_pt_put_byte_level(mf_jw *w, int n, const char *const *patterns)
{
    mf_jw_key(w, "normalizer");
    mf_jw_null(w);
    mf_jw_key(w, "pre_tokenizer");
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "Sequence");
    mf_jw_key(w, "pretokenizers");
    mf_jw_array(w);
    for (int i = 0; i < n; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "type", "Split");
        mf_jw_key(w, "pattern");
        mf_jw_object(w);
        mf_jw_kv_string(w, "Regex", patterns[i]);
        mf_jw_end(w);
        mf_jw_kv_string(w, "behavior", "Isolated");
        mf_jw_kv_bool(w, "invert", false);
        mf_jw_end(w);
    }
    put_bytes(w);
    mf_jw_end(w);
    mf_jw_end(w);
    mf_jw_key(w, "decoder");
    put_bytes(w);
}

int mf_pt_add_rank(const char *where, const char *text, size_t n, mf_pt_ranks *r)
{
    char *bytes;
    size_t size = 0;
    int32_t id;
    bool new = false;
    int rc = mf_base64_read(where, text, n, &bytes, &size);
    if (rc != MF_OK) return rc;
    if (size == 0 || size > 1024)
        rc = mf_fail(MF_EINPUT, "%s: rank %d: expected a token of 1 to 1024 bytes", where,
                     (int)r->bytes.n);
    else
        rc = mf_strings_add(&r->bytes, bytes, size, &id, &new);
    if (rc == MF_OK && !new)
        rc = mf_fail(MF_EINPUT, "%s: rank %d: its token is that of rank %d", where,
                     (int)r->bytes.n, (int)id);
    mf_free(bytes);
    return rc;
}

/* Writes the name of a token: the letters of its bytes. */
static void name_of(const char *bytes, size_t n, char out[2 * 1024 + 1])
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += mf_unicode_write(mf_pt_letter_of((unsigned char)bytes[i]), out + at);
    out[at] = '\0';
}

static void put_merges(const mf_pt_ranks *r, mf_jw *w)
{
    char left[2 * 1024 + 1], right[2 * 1024 + 1];
    mf_jw_key(w, "merges");
    mf_jw_array(w);
    for (int32_t i = 0; i < r->bytes.n; i++) {
        size_t n;
        const char *bytes = mf_strings_get(&r->bytes, i, &n);
        for (size_t k = 1; k < n; k++) {
            if (mf_strings_find(&r->bytes, bytes, k) < 0 ||
                mf_strings_find(&r->bytes, bytes + k, n - k) < 0)
                continue;
            name_of(bytes, k, left);
            name_of(bytes + k, n - k, right);
            mf_jw_array(w);
            mf_jw_string(w, left);
            mf_jw_string(w, right);
            mf_jw_end(w);
        }
    }
    mf_jw_end(w);
}

int mf_pt_put_ranked_model(const char *where, const mf_pt_ranks *r, const mf_strings *specials,
                           int32_t first, mf_jw *w)
{
    char name[2 * 1024 + 1];
    int rc = MF_OK;
    mf_jw_key(w, "model");
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "BPE");
    mf_jw_kv_bool(w, "ignore_merges", true);
    mf_jw_key(w, "vocab");
    mf_jw_object(w);
    for (int32_t i = 0; i < first; i++) {
        size_t n;
        mf_jw_kv_int(w, mf_strings_get(specials, i, &n), i);
    }
    for (int32_t i = 0; i < r->bytes.n && rc == MF_OK; i++) {
        size_t n;
        const char *bytes = mf_strings_get(&r->bytes, i, &n);
        name_of(bytes, n, name);
        mf_jw_kv_int(w, name, first + i);
    }
    mf_jw_end(w);
    put_merges(r, w);
    mf_jw_end(w);
    if (r->bytes.n == 0) rc = mf_fail(MF_EINPUT, "%s: no tokens", where);
    return rc;
}

int mf_pt_put_end(mf_jw *w, char **ret, size_t *ret_n)
{
    size_t n = 0;
    mf_jw_end(w);
    const char *text = mf_jw_text(w, &n);
    *ret = text ? mf_memdup(text, n) : NULL;
    *ret_n = n;
    mf_jw_free(w);
    return *ret ? MF_OK : MF_ENOMEM;
}

/* ---- folders ---- */

int mf_pt_convert_folder(const char *folder, const mf_json *config, char **ret, size_t *ret_n)
{
    enum { FILE_MAX = 64 << 20 };
    static const struct {
        const char *name;
        int (*convert)(const char *where, const char *text, size_t n, const mf_json *config,
                       char **ret, size_t *ret_n);
    } files[] = {{"tokenizer.model", mf_pt_convert_spm},
                 {"sentencepiece.bpe.model", mf_pt_convert_spm},
                 {"spiece.model", mf_pt_convert_spm},
                 {"tekken.json", mf_pt_convert_tekken},
                 {"tiktoken.model", mf_pt_convert_tiktoken}};
    *ret = NULL;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const unsigned long before = mf_faults();
        char *path = mf_path_join(folder, files[i].name), *text = NULL;
        size_t n = 0;
        if (!path) return MF_ENOMEM;
        const bool there = mf_exists(path);
        int rc = there                   ? mf_read_file(path, FILE_MAX, &text, &n)
                 : mf_faults() != before ? mf_fail(MF_EIO, "%s: cannot look at it", path)
                                         : MF_OK;
        if (rc == MF_OK && there) rc = mf_lfs_judge(path, text, n);
        if (rc == MF_OK && there) rc = files[i].convert(path, text, n, config, ret, ret_n);
        mf_free(text);
        mf_free(path);
        if (rc != MF_OK || there) return rc;
    }
    return MF_OK;
}
