/* data/tokenizer/tokenizer.c: the common part of all tokenizers: the table of kinds, special
 * tokens, files, lists of ids. Encoding a text never produces special tokens, with the
 * exception of <unk>. */
#include "data/tokenizer/tokenizer.h"

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretrained/files.h"
#include "data/tokenizer/tokenizer_kinds.h"

#include <string.h>

static const mf_tokenizer_ops *const kinds[] = {
    &mf_tokenizer_byte,      &mf_tokenizer_char,      &mf_tokenizer_bpe,
    &mf_tokenizer_bpe_bytes, &mf_tokenizer_wordpiece, &mf_tokenizer_pretrained};
enum { KINDS = sizeof kinds / sizeof kinds[0] };
static const char *const trained_kinds[] = {"byte",      "char",      "bpe",
                                            "bpe_bytes", "wordpiece", NULL};

static const char *const special_names[MF_SPECIALS] = {"<pad>", "<unk>", "<bos>", "<eos>",
                                                       "<cls>", "<sep>", "<mask>"};

enum { FILE_MAX = 256 << 20, FILE_VERSION = 1 };

const char *mf_special_name(mf_special s)
{
    return (unsigned)s < MF_SPECIALS ? special_names[s] : "";
}

int mf_special_find(const char *name)
{
    for (int s = 0; name && s < MF_SPECIALS; s++)
        if (strcmp(name, special_names[s]) == 0) return s;
    return -1;
}

const char *mf_tokenizer_special(const mf_tokenizer *t, int32_t id)
{
    for (int i = 0; id >= 0 && i < MF_SPECIALS; i++)
        if (t->special[i] == id) return special_names[i];
    return NULL;
}

static const mf_tokenizer_ops *find_kind(const char *name)
{
    for (int i = 0; i < KINDS; i++)
        if (strcmp(kinds[i]->name, name) == 0) return kinds[i];
    return NULL;
}

bool mf_tokenizer_is_kind(const char *name)
{
    const mf_tokenizer_ops *ops = find_kind(name);
    return ops && ops->train;
}

static int unknown_kind(int code, const char *where, const char *name)
{
    const char *nearest = mf_nearest(name, trained_kinds);
    return mf_fail(code,
                   "%s%sunknown tokenizer \"%.60s\": expected byte, char, bpe, "
                   "bpe_bytes, wordpiece, or a file "
                   "(a name with . or /)%s%s%s",
                   where, where[0] ? ": " : "", name, nearest ? "; did you mean " : "",
                   nearest ? nearest : "", nearest ? "?" : "");
}

static void add_specials(mf_tokenizer *t, uint32_t specials)
{
    t->vocab = t->pieces;
    for (int s = 0; s < MF_SPECIALS; s++)
        if (!t->own_specials || t->special[s] < 0)
            t->special[s] = specials & MF_SPECIAL_BIT(s) ? t->vocab++ : -1;
}

int mf_tokenizer_train(const char *kind, const char *source, const char *text, size_t n,
                       const mf_tokenizer_options *options, mf_tokenizer **ret)
{
    *ret = NULL;
    const mf_tokenizer_ops *ops = find_kind(kind);
    if (!ops || !ops->train) return unknown_kind(MF_ECONFIG, "", kind);
    static const mf_tokenizer_options none;
    if (!options) options = &none;
    int rc = ops->train(source, text, n, options, ret);
    if (rc == MF_OK) add_specials(*ret, options->specials);
    return rc;
}

void mf_tokenizer_free(mf_tokenizer *t)
{
    if (t) t->ops->free(t);
}

int mf_tokenizer_encode(const mf_tokenizer *t, const char *source, const char *text, size_t n,
                        mf_ids *ids)
{
    return t->ops->encode(t, source, 0, text, n, ids);
}

const char *mf_tokenizer_piece(const mf_tokenizer *t, int32_t id, size_t *ret_n)
{
    if (id >= 0 && id < t->pieces) return t->ops->piece(t, id, ret_n);
    *ret_n = 0;
    return "";
}

static int push_all(mf_ids *to, const mf_ids *from, int32_t type, mf_ids *types)
{
    int rc = MF_OK;
    for (size_t i = 0; from && i < from->n && rc == MF_OK; i++) {
        rc = mf_ids_push(to, from->id[i], from->start ? from->start[i] : 0);
        if (rc == MF_OK && types) rc = mf_ids_push(types, type, 0);
    }
    return rc;
}

int mf_tokenizer_wrap(const mf_tokenizer *t, const mf_ids *first, const mf_ids *second,
                      mf_ids *ids, mf_ids *types)
{
    static mf_template_item plain[] = {{MF_TEMPLATE_FIRST, 0}, {MF_TEMPLATE_SECOND, 0}};
    mf_template how = t->template[second != NULL];
    int rc = MF_OK;
    if (how.n == 0) how = (mf_template){plain, 2};
    for (int32_t i = 0; i < how.n && rc == MF_OK; i++) {
        const mf_template_item *item = &how.item[i];
        mf_ids one = {.id = (int32_t *)&item->id, .n = 1};
        rc = push_all(ids,
                      item->id == MF_TEMPLATE_FIRST    ? first
                      : item->id == MF_TEMPLATE_SECOND ? second
                                                       : &one,
                      item->type, types);
    }
    return rc;
}

int mf_tokenizer_begin(const mf_tokenizer *t, mf_ids *ids)
{
    const mf_template *how = &t->template[0];
    int rc = MF_OK;
    for (int32_t i = 0; i < how->n && how->item[i].id >= 0 && rc == MF_OK; i++)
        rc = mf_ids_push(ids, how->item[i].id, 0);
    return rc;
}

uint64_t mf_tokenizer_bytes(const mf_tokenizer *t, const int32_t *ids, size_t n)
{
    if (!t->lossless && !t->normal) return 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        size_t piece;
        if (ids[i] >= 0 && ids[i] == t->special[MF_SPECIAL_UNK]) return 0;
        mf_tokenizer_piece(t, ids[i], &piece);
        sum += piece;
    }
    return sum;
}

/* ---- files ---- */

/* Makes the text of a tokenizer file. The writer w owns the text. */
static int write_file(const mf_tokenizer *t, const char *path, mf_jw *w, const char **ret,
                      size_t *ret_n)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "format", "moefw-tokenizer");
    mf_jw_kv_int(w, "version", FILE_VERSION);
    mf_jw_kv_string(w, "kind", t->ops->name);
    mf_jw_key(w, "specials");
    mf_jw_array(w);
    for (int s = 0; s < MF_SPECIALS; s++)
        if (t->special[s] >= 0) mf_jw_string(w, special_names[s]);
    mf_jw_end(w);
    int rc = t->ops->write(t, w);
    mf_jw_end(w);
    *ret = mf_jw_text(w, ret_n);
    if (rc == MF_OK && !*ret) rc = mf_fail(MF_ENOMEM, "%s: out of memory", path);
    return rc;
}

int mf_tokenizer_save(const mf_tokenizer *t, const char *path)
{
    size_t n;
    const char *text;
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    int rc = write_file(t, path, w, &text, &n);
    if (rc == MF_OK) rc = mf_write_file_atomic(path, text, n);
    mf_jw_free(w);
    return rc;
}

int mf_tokenizer_hash(const mf_tokenizer *t, char out[33])
{
    size_t n;
    const char *text;
    mf_jw *w = mf_jw_new();
    if (!w) return MF_ENOMEM;
    const int rc = write_file(t, "tokenizer", w, &text, &n);
    if (rc == MF_OK) mf_hash_bytes(text, n, out);
    mf_jw_free(w);
    return rc;
}

static int read_specials(const char *source, const mf_json *list, uint32_t *ret)
{
    *ret = 0;
    if (mf_json_typeof(list) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT, "%s: \"specials\": expected a list of names", source);
    int last = -1;
    for (size_t i = 0; i < mf_json_size(list); i++) {
        const char *name = mf_json_string(mf_json_at(list, i), NULL);
        const int s = mf_special_find(name);
        if (s < 0)
            return mf_fail(MF_EINPUT,
                           "%s: \"specials\": entry %zu: expected one of <pad>, <unk>, "
                           "<bos>, <eos>, <cls>, <sep>, <mask>",
                           source, i);
        if (s <= last)
            return mf_fail(MF_EINPUT, "%s: \"specials\": %s is out of order", source, name);
        last = s;
        *ret |= MF_SPECIAL_BIT(s);
    }
    return MF_OK;
}

static int read_object(const char *source, const mf_json *object, mf_tokenizer **ret)
{
    const char *format = mf_json_string(mf_json_get(object, "format"), NULL);
    int64_t version = 0;
    if (!format || strcmp(format, "moefw-tokenizer") != 0)
        return mf_fail(MF_EINPUT,
                       "%s: not a tokenizer file: expected \"format\": "
                       "\"moefw-tokenizer\"",
                       source);
    if (!mf_json_int(mf_json_get(object, "version"), &version) || version != FILE_VERSION)
        return mf_fail(MF_EINPUT, "%s: \"version\": expected %d", source, FILE_VERSION);
    const char *kind = mf_json_string(mf_json_get(object, "kind"), NULL);
    if (!kind) return mf_fail(MF_EINPUT, "%s: \"kind\": expected a string", source);
    const mf_tokenizer_ops *ops = find_kind(kind);
    if (!ops) return unknown_kind(MF_EINPUT, source, kind);
    uint32_t specials;
    int rc = read_specials(source, mf_json_get(object, "specials"), &specials);
    if (rc == MF_OK) rc = ops->read(source, object, ret);
    if (rc == MF_OK) add_specials(*ret, specials);
    return rc;
}

int mf_tokenizer_parse(const char *source, const char *text, size_t n, mf_tokenizer **ret)
{
    *ret = NULL;
    if (mf_wordpiece_is_list(text, n)) {
        int rc = mf_wordpiece_read_list(source, text, n, ret);
        if (rc == MF_OK) add_specials(*ret, 0);
        return rc;
    }
    mf_json *document;
    int rc = mf_json_parse_nul(source, text, n, &document);
    if (rc != MF_OK) return rc;
    if (mf_pretrained_is(document)) {
        rc = mf_pretrained_read_text(source, text, n, document, ret);
        mf_json_free(document);
        return rc;
    }
    const bool listed = mf_bpe_is_vocab_dict(document);
    rc = (listed ? mf_bpe_read_vocab_dict : read_object)(source, document, ret);
    if (rc == MF_OK && listed) add_specials(*ret, 0);
    mf_json_free(document);
    return rc;
}

int mf_tokenizer_load(const char *path, mf_tokenizer **ret)
{
    char *text;
    size_t n;
    *ret = NULL;
    if (mf_is_dir(path)) return mf_pretrained_read_folder(path, ret);
    int rc = mf_read_file(path, FILE_MAX, &text, &n);
    if (rc != MF_OK) return rc;
    rc = mf_tokenizer_parse(path, text, n, ret);
    mf_free(text);
    return rc;
}

/* ---- lists of ids ---- */

void mf_ids_free(mf_ids *ids)
{
    mf_free(ids->id);
    mf_free(ids->start);
    bool want_start = ids->want_start;
    *ids = (mf_ids){.want_start = want_start};
}

int mf_ids_reserve(mf_ids *ids, size_t n)
{
    if (n <= ids->cap - ids->n) return MF_OK;
    size_t cap = ids->cap + ids->cap / 2;
    if (cap < ids->n + n) cap = ids->n + n;
    if (cap < ids->n || cap > SIZE_MAX / sizeof(size_t))
        return mf_fail(MF_ENOMEM, "out of memory: a list of %zu tokens", cap);
    int32_t *id = mf_realloc(ids->id, ids->n * sizeof *id, cap * sizeof *id);
    if (!id) return MF_ENOMEM;
    ids->id = id;
    if (ids->want_start) {
        size_t *start = mf_realloc(ids->start, ids->n * sizeof *start, cap * sizeof *start);
        if (!start) return MF_ENOMEM;
        ids->start = start;
    }
    ids->cap = cap;
    return MF_OK;
}

int mf_ids_push(mf_ids *ids, int32_t id, size_t start)
{
    if (ids->n == ids->cap) {
        int rc = mf_ids_reserve(ids, ids->n < 64 ? 64 : 1);
        if (rc != MF_OK) return rc;
    }
    if (ids->want_start) ids->start[ids->n] = start;
    ids->id[ids->n++] = id;
    return MF_OK;
}
