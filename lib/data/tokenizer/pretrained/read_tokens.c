/* data/tokenizer/pretrained/read_tokens.c: reads the members "decoder", "added_tokens" and
 * "post_processor" of a tokenizer.json, and the roles of special tokens. show.c applies the
 * decoder once to each id. */
#include "data/tokenizer/pretrained/pretrained.h"

#include "base/error.h"
#include "base/mem.h"

#include <string.h>

/* ---- "decoder" ---- */

static int read_trim(const char *source, const mf_json *v, mf_pt_decoding *ret)
{
    const char *what = mf_json_string(mf_json_get(v, "content"), NULL);
    const int64_t start = mf_json_int_or_0(v, "start"), stop = mf_json_int_or_0(v, "stop");
    if (!what || strcmp(what, " ") != 0 || start < 0 || start > 1 || stop != 0)
        return mf_fail(MF_EINPUT,
                       "%s: \"decoder\": Strip: expected \" \", at most one in front", source);
    if (start == 1) ret->trim_first = true;
    return MF_OK;
}

static int read_replace(const char *source, const mf_json *v, mf_pt_decoding *ret)
{
    const char *from = mf_json_string(mf_json_get(mf_json_get(v, "pattern"), "String"), NULL),
               *to = mf_json_string(mf_json_get(v, "content"), NULL);
    if (!from || !to || strcmp(from, "\xE2\x96\x81") != 0 || strcmp(to, " ") != 0)
        return mf_fail(MF_EINPUT, "%s: \"decoder\": Replace: expected U+2581 by a blank",
                       source);
    ret->bars = true;
    return MF_OK;
}

static int read_bars(const mf_json *v, mf_pt_decoding *ret)
{
    const char *scheme = mf_json_string(mf_json_get(v, "prepend_scheme"), NULL);
    ret->bars = true;
    ret->trim_first =
        scheme ? strcmp(scheme, "never") != 0 : mf_pt_true(v, "add_prefix_space", true);
    return MF_OK;
}

static int read_part(const char *source, const mf_json *v, mf_pt_decoding *ret)
{
    int rc = MF_OK;
    if (mf_pt_is(v, "Sequence")) {
        const mf_json *list = mf_json_get(v, "decoders");
        for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++)
            rc = read_part(source, mf_json_at(list, i), ret);
        return rc;
    }
    if (mf_pt_is(v, "Replace")) return read_replace(source, v, ret);
    if (mf_pt_is(v, "Strip")) return read_trim(source, v, ret);
    if (mf_pt_is(v, "Metaspace")) return read_bars(v, ret);
    if (mf_pt_is(v, "Fuse")) return MF_OK;
    if (mf_pt_is(v, "ByteLevel")) {
        ret->bytes = true;
    } else if (mf_pt_is(v, "ByteFallback")) {
        ret->byte_fallback = true;
    } else if (mf_pt_is(v, "BPEDecoder")) {
        ret->suffix = true;
    } else if (mf_pt_is(v, "WordPiece")) {
        ret->words = ret->trim_first = true;
        ret->clean = mf_pt_true(v, "cleanup", true);
    } else {
        rc = mf_pt_refuse(
            source, "decoder", mf_json_get(v, "type"),
            "ByteLevel, WordPiece, BPEDecoder, Metaspace, Replace, ByteFallback, Fuse, "
            "Strip, "
            "or a Sequence of them");
    }
    return rc;
}

int mf_pt_read_decoding(const char *source, const mf_json *v, mf_pt_decoding *ret)
{
    if (mf_json_typeof(v) != MF_JSON_NULL) return read_part(source, v, ret);
    ret->joined = ret->trim_first = true;
    return MF_OK;
}

/* ---- "added_tokens" ---- */

/* Returns the id of a token of the vocabulary or of an added token; -1: not found. */
static int32_t find_token(const mf_pretrained *t, const char *name, size_t n)
{
    const int32_t id = mf_pt_id(&t->model, name, n);
    if (id >= 0) return id;
    const int32_t index = mf_strings_find(&t->added_names, name, n);
    return index >= 0 ? t->added[index].id : -1;
}

/* Adds a token that is searched after normalization. Its text is normalized first. */
static int add_normalized(mf_pretrained *t, const char *name, size_t n, int32_t index)
{
    mf_pt_text work[2] = {{0}};
    const mf_pt_view whole = {name, n, NULL, 0};
    mf_pt_view normal;
    int rc = mf_pt_normalize(&t->steps, &whole, work, &normal);
    if (rc == MF_OK && normal.n > 0)
        rc = mf_pt_trie_add(&t->normal, normal.bytes, normal.n, index);
    mf_pt_text_free(&work[0]);
    mf_pt_text_free(&work[1]);
    return rc;
}

static int read_added(const char *source, const mf_json *v, size_t i, mf_pretrained *t)
{
    size_t n = 0;
    int64_t id = -1;
    int32_t index;
    bool new;
    const char *name = mf_json_string(mf_json_get(v, "content"), &n);
    mf_json_int(mf_json_get(v, "id"), &id);
    const int32_t known = name ? mf_pt_id(&t->model, name, n) : -1;
    if (!name || n == 0 || id < 0 || id > INT32_MAX / 2 || (known >= 0 && known != id))
        return mf_fail(MF_EINPUT,
                       "%s: \"added_tokens\": entry %zu: expected \"content\" and \"id\", the "
                       "same as in the vocabulary",
                       source, i);
    /* The library gives a new token the next free id and ignores the id in the file. */
    const int64_t size = t->model.names.n,
                  next = t->added_last >= size ? t->added_last + 1 : size;
    if (known < 0 && id != next)
        return mf_fail(
            MF_EINPUT,
            "%s: \"added_tokens\": entry %zu, \"%.40s\": expected id %lld, which is the "
            "next one and which tokenizers gives it, found %lld",
            source, i, name, (long long)next, (long long)id);
    if (id > t->added_last) t->added_last = id;
    int rc = mf_strings_add(&t->added_names, name, n, &index, &new);
    if (rc == MF_OK && !new)
        rc = mf_fail(MF_EINPUT, "%s: \"added_tokens\": entry %zu is there twice", source, i);
    if (rc != MF_OK) return rc;
    t->added[index] = (mf_pt_added_token){
        .id = (int32_t)id,
        .single_word = mf_pt_true(v, "single_word", false),
        .lstrip = mf_pt_true(v, "lstrip", false),
        .rstrip = mf_pt_true(v, "rstrip", false),
        .normalized = mf_pt_true(v, "normalized", !mf_pt_true(v, "special", false)),
        .special = mf_pt_true(v, "special", false)};
    return t->added[index].normalized ? add_normalized(t, name, n, index)
                                      : mf_pt_trie_add(&t->plain, name, n, index);
}

int mf_pt_read_added(const char *source, const mf_json *v, mf_pretrained *t)
{
    int rc = MF_OK;
    t->added = mf_alloc(mf_json_size(v) + 1, sizeof *t->added);
    t->added_last = -1;
    if (!t->added) return MF_ENOMEM;
    for (size_t i = 0; i < mf_json_size(v) && rc == MF_OK; i++)
        rc = read_added(source, mf_json_at(v, i), i, t);
    return rc;
}

/* ---- "post_processor" ---- */

enum { TEMPLATE_MAX = 64 };

static int bad_template(const char *source, const char *what)
{
    return mf_fail(MF_EINPUT, "%s: \"post_processor\": expected %s", source, what);
}

/* Appends the ids of a token of the template. They are the ids in "special_tokens", which may
 * be several, and may differ from the token's id in the vocabulary. */
static int add_special(const char *source, const mf_json *specials, const char *name,
                       int32_t type, mf_template *to)
{
    const mf_json *ids = mf_json_get(mf_json_get(specials, name), "ids");
    if (mf_json_typeof(ids) != MF_JSON_ARRAY)
        return mf_fail(MF_EINPUT,
                       "%s: \"post_processor\": \"special_tokens\": expected \"%.40s\" with "
                       "\"ids\"",
                       source, name);
    for (size_t i = 0; i < mf_json_size(ids); i++) {
        int64_t id;
        if (!mf_json_int(mf_json_at(ids, i), &id) || id < 0 || id > INT32_MAX / 2)
            return bad_template(source, "\"ids\" of tokens");
        if (to->n == TEMPLATE_MAX) return bad_template(source, "at most 64 items");
        to->item[to->n++] = (mf_template_item){(int32_t)id, type};
    }
    return MF_OK;
}

static int read_item(const char *source, const mf_json *v, const mf_json *specials,
                     mf_template *to)
{
    const mf_json *special = mf_json_get(v, "SpecialToken"), *text = mf_json_get(v, "Sequence");
    size_t n = 0;
    const char *name = mf_json_string(mf_json_get(special ? special : text, "id"), &n);
    const int64_t type = mf_json_int_or_0(special ? special : text, "type_id");
    if (!name || type < 0 || type > INT16_MAX)
        return bad_template(source,
                            "items SpecialToken or Sequence with \"id\" and \"type_id\"");
    if (special) return add_special(source, specials, name, (int32_t)type, to);
    if (to->n == TEMPLATE_MAX) return bad_template(source, "at most 64 items");
    to->item[to->n++] = (mf_template_item){
        strcmp(name, "A") == 0 ? MF_TEMPLATE_FIRST : MF_TEMPLATE_SECOND, (int32_t)type};
    return MF_OK;
}

static int read_items(const char *source, const mf_json *list, const mf_json *specials,
                      mf_template *ret)
{
    int rc = MF_OK;
    mf_free(ret->item);
    *ret = (mf_template){.item = mf_alloc(TEMPLATE_MAX, sizeof *ret->item)};
    if (!ret->item) return MF_ENOMEM;
    for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++)
        rc = read_item(source, mf_json_at(list, i), specials, ret);
    return rc;
}

/* BertProcessing: [CLS] A [SEP] B [SEP], the second text of type 1; RobertaProcessing: two
 * separators between the texts, all of type 0. "sep" and "cls" are [name, id]. */
static int read_fixed(const char *source, const mf_json *v, mf_pretrained *t)
{
    const bool roberta = mf_pt_is(v, "RobertaProcessing");
    int64_t cls, sep;
    const int32_t second = roberta ? 0 : 1;
    if (!mf_json_int(mf_json_at(mf_json_get(v, "cls"), 1), &cls) ||
        !mf_json_int(mf_json_at(mf_json_get(v, "sep"), 1), &sep) || cls < 0 || sep < 0 ||
        cls > INT32_MAX / 2 || sep > INT32_MAX / 2)
        return bad_template(source, "\"cls\" and \"sep\", tokens with their ids");
    const int32_t c = (int32_t)cls, s = (int32_t)sep;
    const mf_template_item items[] = {{c, 0},
                                      {MF_TEMPLATE_FIRST, 0},
                                      {s, 0},
                                      {s, roberta ? 0 : -1},
                                      {MF_TEMPLATE_SECOND, second},
                                      {s, second}};
    for (int pair = 0; pair < 2; pair++) {
        mf_template *to = &t->base.template[pair];
        mf_free(to->item);
        *to = (mf_template){.item = mf_alloc(6, sizeof *to->item)};
        if (!to->item) return MF_ENOMEM;
        for (int i = 0; i < (pair ? 6 : 3); i++)
            if (items[i].type >= 0) to->item[to->n++] = items[i];
    }
    return MF_OK;
}

int mf_pt_read_template(const char *source, const mf_json *v, mf_pretrained *t)
{
    int rc = MF_OK;
    if (mf_json_typeof(v) == MF_JSON_NULL || mf_pt_is(v, "ByteLevel")) return MF_OK;
    if (mf_pt_is(v, "Sequence")) {
        const mf_json *list = mf_json_get(v, "processors");
        for (size_t i = 0; i < mf_json_size(list) && rc == MF_OK; i++)
            rc = mf_pt_read_template(source, mf_json_at(list, i), t);
        return rc;
    }
    if (mf_pt_is(v, "BertProcessing") || mf_pt_is(v, "RobertaProcessing"))
        return read_fixed(source, v, t);
    if (!mf_pt_is(v, "TemplateProcessing"))
        return mf_pt_refuse(source, "post_processor", mf_json_get(v, "type"),
                            "TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, "
                            "or a Sequence of them");
    const mf_json *specials = mf_json_get(v, "special_tokens");
    rc = read_items(source, mf_json_get(v, "single"), specials, &t->base.template[0]);
    return rc == MF_OK
               ? read_items(source, mf_json_get(v, "pair"), specials, &t->base.template[1])
               : rc;
}

/* ---- roles of special tokens ---- */

/* Returns the text of a token in tokenizer_config.json: a string, or an object
 * with "content". */
static const char *named(const mf_json *object, const char *key, size_t *ret_n)
{
    const mf_json *v = mf_json_get(object, key);
    return mf_json_string(mf_json_typeof(v) == MF_JSON_OBJECT ? mf_json_get(v, "content") : v,
                          ret_n);
}

void mf_pt_find_roles(mf_pretrained *t, const mf_json *config, const mf_json *map)
{
    static const char *const keys[MF_SPECIALS] = {
        [MF_SPECIAL_PAD] = "pad_token",  [MF_SPECIAL_UNK] = "unk_token",
        [MF_SPECIAL_BOS] = "bos_token",  [MF_SPECIAL_EOS] = "eos_token",
        [MF_SPECIAL_CLS] = "cls_token",  [MF_SPECIAL_SEP] = "sep_token",
        [MF_SPECIAL_MASK] = "mask_token"};
    static const char *const usual[MF_SPECIALS][4] = {
        [MF_SPECIAL_PAD] = {"[PAD]", "<pad>", "<|padding|>"},
        [MF_SPECIAL_UNK] = {"[UNK]", "<unk>"},
        [MF_SPECIAL_BOS] = {"<s>", "<|startoftext|>",
                            "<\xEF\xBD\x9C"
                            "begin\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"},
        [MF_SPECIAL_EOS] = {"</s>", "<|endoftext|>",
                            "<\xEF\xBD\x9C"
                            "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"},
        [MF_SPECIAL_CLS] = {"[CLS]"},
        [MF_SPECIAL_SEP] = {"[SEP]"},
        [MF_SPECIAL_MASK] = {"[MASK]", "<mask>"}};
    for (int s = 0; s < MF_SPECIALS; s++) {
        size_t n = 0;
        const char *name = named(config, keys[s], &n);
        if (!name) name = named(map, keys[s], &n);
        t->base.special[s] = name ? find_token(t, name, n) : -1;
        for (int i = 0; i < 4 && t->base.special[s] < 0 && usual[s][i]; i++) {
            /* In a vocabulary, "<s>" may be a part of ordinary text. */
            const int32_t added =
                mf_strings_find(&t->added_names, usual[s][i], strlen(usual[s][i]));
            if (added >= 0) t->base.special[s] = t->added[added].id;
        }
    }
    if (t->model.unk >= 0) t->base.special[MF_SPECIAL_UNK] = t->model.unk;
}
