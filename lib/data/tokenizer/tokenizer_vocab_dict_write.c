/* data/tokenizer/tokenizer_vocab_dict_write.c: writes a vocabulary of kind bpe in the layout
 * vocab_dict (see tokenizer_vocab_dict.c). The text is read again and compared, so a vocabulary
 * that the format cannot represent is refused. */
#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/tokenizer/bpe.h"

#include <string.h>

enum { ROOM = MF_BPE_CHUNK_BYTES + 8 };

size_t mf_bpe_vocab_dict_text(const char *text, size_t n, char *out, size_t room)
{
    static const char end[] = "</w>";
    const bool ends = n > 0 && text[n - 1] == ' ';
    const size_t rest = ends ? n - 1 : n, more = ends ? sizeof end - 1 : 0;
    if (rest + more > room) return 0;
    memcpy(out, text, rest);
    memcpy(out + rest, end, more);
    return rest + more;
}

/* Writes the text of a symbol to out, NUL-terminated. MF_EINPUT if the symbol contains a NUL,
 * which a key cannot contain. */
static int symbol_text(const mf_strings *symbols, int32_t symbol, char out[ROOM])
{
    size_t n;
    const char *text = mf_strings_get(symbols, symbol, &n);
    if (memchr(text, 0, n) != NULL)
        return mf_fail(MF_EINPUT, "a token holds the character NUL, which its keys cannot");
    n = mf_bpe_vocab_dict_text(text, n, out, ROOM - 1);
    out[n] = 0;
    return MF_OK;
}

static int write_vocabulary(const mf_tokenizer *t, const mf_bpe_parts *parts, mf_jw *w)
{
    int rc = MF_OK;
    char text[ROOM];
    mf_jw_key(w, "vocab_dict");
    mf_jw_object(w);
    for (int32_t id = 0; id < t->vocab && rc == MF_OK; id++) {
        const char *name = mf_tokenizer_special(t, id);
        if (!name) rc = symbol_text(parts->symbols, mf_bpe_symbol_of(t, id), text);
        if (rc == MF_OK) mf_jw_kv_int(w, name ? name : text, id);
    }
    mf_jw_end(w);
    return rc;
}

static int write_merges(const mf_bpe_parts *parts, mf_jw *w)
{
    int rc = MF_OK;
    char key[2 * ROOM], right[ROOM], made[ROOM];
    mf_jw_key(w, "merges");
    mf_jw_object(w);
    for (int32_t i = 0; i < parts->n_merges; i++) {
        const mf_merge *m = &parts->merges[i];
        rc = symbol_text(parts->symbols, m->left, key);
        if (rc == MF_OK) rc = symbol_text(parts->symbols, m->right, right);
        if (rc == MF_OK) rc = symbol_text(parts->symbols, m->made, made);
        if (rc != MF_OK) break;
        strcat(strcat(key, ":"), right);
        mf_jw_kv_string(w, key, made);
    }
    mf_jw_end(w);
    return rc;
}

static bool same_symbol(const mf_bpe_parts *a, int32_t i, const mf_bpe_parts *b, int32_t k)
{
    size_t n, m;
    const char *x = mf_strings_get(a->symbols, i, &n), *y = mf_strings_get(b->symbols, k, &m);
    return n == m && memcmp(x, y, n) == 0;
}

/* Checks that reading the text returns this tokenizer. */
static int compare(const mf_tokenizer *t, const mf_bpe_parts *a, const mf_tokenizer *back)
{
    mf_bpe_parts b = {0};
    if (!mf_bpe_parts_of(back, &b) || back->vocab != t->vocab || b.n_merges != a->n_merges)
        return mf_fail(MF_EINPUT, "%d ids and %d merges would be read as %d and %d",
                       (int)t->vocab, (int)a->n_merges, (int)back->vocab, (int)b.n_merges);
    for (int32_t id = 0; id < t->vocab; id++) {
        const int32_t i = mf_bpe_symbol_of(t, id), k = mf_bpe_symbol_of(back, id);
        if ((i < 0) != (k < 0) || (i >= 0 && !same_symbol(a, i, &b, k)))
            return mf_fail(MF_EINPUT, "id %d would be read as another token", (int)id);
    }
    for (int32_t i = 0; i < a->n_merges; i++)
        if (!same_symbol(a, a->merges[i].left, &b, b.merges[i].left))
            return mf_fail(
                MF_EINPUT,
                "merge %d would be read as one of other tokens: it has no sign for a "
                "colon within a token",
                (int)i);
    return MF_OK;
}

static int make(const mf_tokenizer *t, const mf_bpe_parts *parts, mf_jw *w, const char **ret,
                size_t *ret_n)
{
    mf_jw_object(w);
    int rc = write_vocabulary(t, parts, w);
    if (rc == MF_OK) rc = write_merges(parts, w);
    if (rc != MF_OK) return rc;
    mf_jw_kv_int(w, "max_iter", parts->max_iter > 0 ? parts->max_iter : parts->n_merges);
    mf_jw_end(w);
    *ret = mf_jw_text(w, ret_n);
    if (*ret == NULL) return MF_ENOMEM;
    mf_tokenizer *back;
    rc = mf_tokenizer_parse("written so", *ret, *ret_n, &back);
    if (rc != MF_OK) return rc;
    rc = compare(t, parts, back);
    mf_tokenizer_free(back);
    return rc;
}

int mf_tokenizer_save_vocab_dict(const mf_tokenizer *t, const char *path)
{
    mf_bpe_parts parts;
    const char *text = NULL;
    size_t n = 0;
    if (!mf_bpe_parts_of(t, &parts) || t->lossless)
        return mf_fail(
            MF_EINPUT,
            "%s: a tokenizer of kind %s has no form in the layout vocab_dict: expected one of "
            "kind bpe",
            path, t->ops->name);
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    int rc = make(t, &parts, w, &text, &n);
    if (rc == MF_EINPUT)
        rc = mf_fail_context(rc, "%s: this vocabulary has no form in the layout vocab_dict",
                             path);
    if (rc == MF_OK) rc = mf_write_file_atomic(path, text, n);
    mf_jw_free(w);
    return rc;
}
