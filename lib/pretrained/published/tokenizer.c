/* published/tokenizer.c: writes tokenizers of our own kinds as tokenizer.json.
 *
 *   byte       byte-level BPE without merges: the name of a byte is its letter
 *   char       BPE of characters without merges
 *   bpe        BPE of words that end in a blank: a normalizer makes one blank of all between
 *              two words, and puts one behind the last
 *   bpe_bytes  byte-level BPE, with an expression that finds the same words
 *   wordpiece  WordPiece with the normalizer of BERT
 *
 * Special tokens become added tokens, so a text that contains the name of one gets its id
 * there; our own kinds never do this. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/pretrained/pretrained.h"
#include "pretrained/published/parts.h"

typedef struct writer {
    const mf_tokenizer *t;
    mf_jw *w;
    mf_json *members; /* the members of the kind in a tokenizer file */
} writer;

static int refuse(const char *what)
{
    return mf_fail(MF_EINPUT, "the tokenizer cannot be said as tokenizer.json: %s", what);
}

/* ---- tokens ---- */

/* Writes the name of a byte-level token. Returns its length, 0 if it is too long. */
static size_t letters(const char *bytes, size_t n, char *out, size_t room)
{
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        if (at + 8 > room) return 0;
        at += mf_unicode_write(mf_pt_letter_of((unsigned char)bytes[i]), out + at);
    }
    out[at] = '\0';
    return at;
}

static bool is(const writer *x, const char *kind)
{
    return strcmp(x->t->ops->name, kind) == 0;
}

/* The special token that is the id; -1: it is another token. */
static int special_of(const writer *x, int32_t id)
{
    for (int s = 0; s < MF_SPECIALS; s++)
        if (x->t->special[s] == id) return s;
    return -1;
}

/* The name of a token of the vocabulary. */
static int name_of(const writer *x, int32_t id, char *out, size_t room)
{
    size_t n;
    const char *text = mf_tokenizer_piece(x->t, id, &n);
    if (is(x, "bpe") && n == 0 && special_of(x, id) >= 0) {
        text = mf_special_name((mf_special)special_of(x, id));
        n = strlen(text);
    }
    if (is(x, "byte")) {
        const char byte = (char)id;
        return letters(&byte, 1, out, room) > 0 ? MF_OK : MF_EINVAL;
    }
    if (is(x, "bpe_bytes"))
        return letters(text, n, out, room) > 0 ? MF_OK : refuse("a token is too long");
    if (is(x, "wordpiece"))
        text =
            mf_json_string(mf_json_at(mf_json_get(x->members, "vocabulary"), (size_t)id), &n);
    if (!text || n == 0 || n >= room || memchr(text, 0, n))
        return refuse("a token is empty, too long, or contains U+0000");
    memcpy(out, text, n);
    out[n] = '\0';
    return MF_OK;
}

static int special_name(const writer *x, mf_special s, char *out, size_t room);

/* A file of JSON holds each name once. */
static int judge_name(const writer *x, int32_t id, const char *name)
{
    char special[MF_BPE_CHUNK_BYTES];
    int rc = MF_OK;
    for (int s = 0; rc == MF_OK && s < MF_SPECIALS; s++) {
        if (x->t->special[s] < 0 || x->t->special[s] == id) continue;
        rc = special_name(x, (mf_special)s, special, sizeof special);
        if (rc == MF_OK && strcmp(name, special) == 0)
            rc = refuse("a token has the name of a special token");
    }
    return rc;
}

static int put_vocabulary(const writer *x)
{
    char name[4 * MF_BPE_CHUNK_BYTES];
    int rc = MF_OK;
    mf_jw_key(x->w, "vocab");
    mf_jw_object(x->w);
    for (int32_t id = 0; rc == MF_OK && id < x->t->vocab; id++) {
        const char *special = id < x->t->pieces ? NULL : mf_tokenizer_special(x->t, id);
        if (!special) rc = name_of(x, id, name, sizeof name);
        if (!special && rc == MF_OK) rc = judge_name(x, id, name);
        if (rc == MF_OK) mf_jw_kv_int(x->w, special ? special : name, id);
    }
    mf_jw_end(x->w);
    return rc;
}

/* The text of a special token. */
static int special_name(const writer *x, mf_special s, char *out, size_t room)
{
    const int32_t id = x->t->special[s];
    if (id < x->t->pieces) return name_of(x, id, out, room);
    snprintf(out, room, "%s", mf_special_name(s));
    return MF_OK;
}

static int put_added(const writer *x)
{
    int rc = MF_OK;
    char name[MF_BPE_CHUNK_BYTES];
    mf_jw_key(x->w, "added_tokens");
    mf_jw_array(x->w);
    for (int s = 0; rc == MF_OK && s < MF_SPECIALS; s++) {
        if (x->t->special[s] < 0) continue;
        rc = special_name(x, (mf_special)s, name, sizeof name);
        if (rc != MF_OK) break;
        mf_jw_object(x->w);
        mf_jw_kv_int(x->w, "id", x->t->special[s]);
        mf_jw_kv_string(x->w, "content", name);
        mf_jw_kv_bool(x->w, "single_word", false);
        mf_jw_kv_bool(x->w, "lstrip", false);
        mf_jw_kv_bool(x->w, "rstrip", false);
        mf_jw_kv_bool(x->w, "normalized", false);
        mf_jw_kv_bool(x->w, "special", true);
        mf_jw_end(x->w);
    }
    mf_jw_end(x->w);
    return rc;
}

/* ---- merges ---- */

/* Published programs merge in the order of ranks, and our tokenizer merges in the order of
 * learning. Checks that both orders have the same result. They differ if a token that is made
 * twice is merged further before the second time. */
static int judge_order(const mf_bpe_parts *p)
{
    int32_t *first = mf_alloc((size_t)p->symbols->n + 1, sizeof *first);
    int32_t *used = mf_alloc((size_t)p->symbols->n + 1, sizeof *used);
    int rc = first && used ? MF_OK : MF_ENOMEM;
    for (int32_t i = 0; rc == MF_OK && i < p->n_merges; i++) {
        const mf_merge *m = &p->merges[i];
        if (first[m->made] > 0 && used[m->made] > 0)
            rc = refuse("two merges make the same token, and one between them reads it");
        if (first[m->made] == 0) first[m->made] = i + 1;
        used[m->left]++;
        used[m->right]++;
    }
    mf_free(first);
    mf_free(used);
    return rc;
}

/* The name of a symbol of a merge. */
static int name_of_symbol(const writer *x, const mf_bpe_parts *p, int32_t symbol, char *out,
                          size_t room)
{
    size_t n;
    if (is(x, "bpe_bytes")) return name_of(x, symbol, out, room);
    const char *text = mf_strings_get(p->symbols, symbol, &n);
    if (n == 0 || n >= room || memchr(text, 0, n))
        return refuse("a token is empty, too long, or contains U+0000");
    memcpy(out, text, n);
    out[n] = '\0';
    return MF_OK;
}

/* Published programs know a symbol by its id. Those of an imported vocabulary may have none. */
static int judge_ids(const writer *x, const mf_bpe_parts *p)
{
    bool *has = mf_alloc((size_t)p->symbols->n + 1, sizeof *has);
    int rc = has ? MF_OK : MF_ENOMEM;
    for (int32_t id = 0; rc == MF_OK && id < x->t->pieces; id++) {
        const int32_t symbol = mf_bpe_symbol_of(x->t, id);
        if (symbol >= 0) has[symbol] = true;
    }
    for (int32_t i = 0; rc == MF_OK && i < p->n_merges; i++) {
        const mf_merge *m = &p->merges[i];
        if (!has[m->left] || !has[m->right] || !has[m->made])
            rc = refuse("a symbol of a merge has no id");
    }
    mf_free(has);
    return rc;
}

static int put_merges(const writer *x)
{
    mf_bpe_parts p = {.n_merges = 0};
    char text[4 * MF_BPE_CHUNK_BYTES];
    int rc = MF_OK;
    mf_jw_key(x->w, "merges");
    mf_jw_array(x->w);
    if (mf_bpe_parts_of(x->t, &p)) rc = judge_order(&p);
    if (rc == MF_OK && p.n_merges > 0) rc = judge_ids(x, &p);
    for (int32_t i = 0; rc == MF_OK && i < p.n_merges; i++) {
        const int32_t both[2] = {p.merges[i].left, p.merges[i].right};
        mf_jw_array(x->w);
        for (int j = 0; rc == MF_OK && j < 2; j++) {
            rc = name_of_symbol(x, &p, both[j], text, sizeof text);
            if (rc == MF_OK) mf_jw_string(x->w, text);
        }
        mf_jw_end(x->w);
    }
    mf_jw_end(x->w);
    return rc;
}

/* ---- the parts of a tokenizer.json ---- */

static void put_type(mf_jw *w, const char *type)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", type);
}

static void put_byte_level(mf_jw *w)
{
    put_type(w, "ByteLevel");
    mf_jw_kv_bool(w, "add_prefix_space", false);
    mf_jw_kv_bool(w, "trim_offsets", false);
    mf_jw_kv_bool(w, "use_regex", false);
    mf_jw_end(w);
}

static void put_pattern(mf_jw *w, const char *pattern)
{
    mf_jw_key(w, "pattern");
    mf_jw_object(w);
    mf_jw_kv_string(w, "Regex", pattern);
    mf_jw_end(w);
}

static void put_split(mf_jw *w, const char *pattern)
{
    put_type(w, "Split");
    put_pattern(w, pattern);
    mf_jw_kv_string(w, "behavior", "Isolated");
    mf_jw_kv_bool(w, "invert", false);
    mf_jw_end(w);
}

static void put_words(const writer *x)
{
    mf_jw *w = x->w;
    const char *kind = x->t->ops->name;
    mf_jw_key(w, "pre_tokenizer");
    if (strcmp(kind, "byte") == 0) {
        put_byte_level(w);
    } else if (strcmp(kind, "bpe") == 0) {
        put_split(w, "[^ ]{1,256} ?"); /* MF_BPE_CHUNK characters */
    } else if (strcmp(kind, "bpe_bytes") == 0) {
        put_type(w, "Sequence");
        mf_jw_key(w, "pretokenizers");
        mf_jw_array(w);
        put_split(w, mf_pt_pattern_own);
        put_byte_level(w);
        mf_jw_end(w);
        mf_jw_end(w);
    } else if (strcmp(kind, "wordpiece") == 0) {
        put_type(w, "BertPreTokenizer");
        mf_jw_end(w);
    } else {
        mf_jw_null(w);
    }
}

/* One blank for all blanks of ASCII between two words, none in front of the first word, and one
 * behind the last word. */
static void put_blanks(mf_jw *w)
{
    static const char *const pattern[] = {"[\\t-\\r ]+", "\\A ", "(?<=[^ ])\\z"},
                             *const content[] = {" ", "", " "};
    put_type(w, "Sequence");
    mf_jw_key(w, "normalizers");
    mf_jw_array(w);
    for (int i = 0; i < 3; i++) {
        put_type(w, "Replace");
        put_pattern(w, pattern[i]);
        mf_jw_kv_string(w, "content", content[i]);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

static void put_normalizer(const writer *x)
{
    bool lower = true;
    mf_jw_key(x->w, "normalizer");
    if (is(x, "bpe")) {
        put_blanks(x->w);
        return;
    }
    if (strcmp(x->t->ops->name, "wordpiece") != 0) {
        mf_jw_null(x->w);
        return;
    }
    mf_json_bool(mf_json_get(x->members, "lower"), &lower);
    put_type(x->w, "BertNormalizer");
    mf_jw_kv_bool(x->w, "clean_text", true);
    mf_jw_kv_bool(x->w, "handle_chinese_chars", true);
    mf_jw_kv_bool(x->w, "strip_accents", lower);
    mf_jw_kv_bool(x->w, "lowercase", lower);
    mf_jw_end(x->w);
}

static void put_decoder(const writer *x)
{
    const char *kind = x->t->ops->name;
    mf_jw_key(x->w, "decoder");
    if (strcmp(kind, "char") == 0 || strcmp(kind, "bpe") == 0) {
        put_type(x->w, "Fuse");
        mf_jw_end(x->w);
    } else if (strcmp(kind, "wordpiece") == 0) {
        put_type(x->w, "WordPiece");
        mf_jw_kv_string(x->w, "prefix", "##");
        mf_jw_kv_bool(x->w, "cleanup", false);
        mf_jw_end(x->w);
    } else {
        put_byte_level(x->w);
    }
}

static int put_model(const writer *x)
{
    mf_jw *w = x->w;
    const bool pieces = strcmp(x->t->ops->name, "wordpiece") == 0;
    char unk[MF_BPE_CHUNK_BYTES] = "";
    int rc = MF_OK;
    if (x->t->special[MF_SPECIAL_UNK] >= 0)
        rc = special_name(x, MF_SPECIAL_UNK, unk, sizeof unk);
    mf_jw_key(w, "model");
    put_type(w, pieces ? "WordPiece" : "BPE");
    mf_jw_key(w, "unk_token");
    if (unk[0] != '\0')
        mf_jw_string(w, unk);
    else
        mf_jw_null(w);
    if (pieces) {
        mf_jw_kv_string(w, "continuing_subword_prefix", "##");
        mf_jw_kv_int(w, "max_input_chars_per_word", 100);
    } else {
        static const char *const absent[] = {"dropout", "continuing_subword_prefix",
                                             "end_of_word_suffix"};
        for (int i = 0; i < 3; i++) {
            mf_jw_key(w, absent[i]);
            mf_jw_null(w);
        }
        mf_jw_kv_bool(w, "fuse_unk", false);
        mf_jw_kv_bool(w, "byte_fallback", false);
        mf_jw_kv_bool(w, "ignore_merges", false);
    }
    if (rc == MF_OK) rc = put_vocabulary(x);
    if (rc == MF_OK && !pieces) rc = put_merges(x);
    mf_jw_end(w);
    return rc;
}

/* ---- the files ---- */

/* Adds the text of the JSON writer to the record as a file, and empties the writer. */
static int add_file(writer *x, const char *name, mf_record *record)
{
    size_t n = 0;
    const char *text = mf_jw_text(x->w, &n);
    const int rc = text ? mf_published_add(record, name, text, n) : MF_ENOMEM;
    mf_jw_reset(x->w);
    return rc;
}

static int put_tokenizer(writer *x, mf_record *record)
{
    mf_jw *w = x->w;
    mf_jw_object(w);
    mf_jw_kv_string(w, "version", "1.0");
    mf_jw_key(w, "truncation");
    mf_jw_null(w);
    mf_jw_key(w, "padding");
    mf_jw_null(w);
    int rc = put_added(x);
    if (rc == MF_OK) {
        put_normalizer(x);
        put_words(x);
        mf_jw_key(w, "post_processor");
        mf_jw_null(w);
        put_decoder(x);
        rc = put_model(x);
    }
    mf_jw_end(w);
    return rc == MF_OK ? add_file(x, "tokenizer.json", record) : rc;
}

static int put_config(writer *x, int64_t seq, mf_record *record)
{
    static const char *const keys[MF_SPECIALS] = {
        [MF_SPECIAL_PAD] = "pad_token",  [MF_SPECIAL_UNK] = "unk_token",
        [MF_SPECIAL_BOS] = "bos_token",  [MF_SPECIAL_EOS] = "eos_token",
        [MF_SPECIAL_CLS] = "cls_token",  [MF_SPECIAL_SEP] = "sep_token",
        [MF_SPECIAL_MASK] = "mask_token"};
    char name[MF_BPE_CHUNK_BYTES];
    int rc = MF_OK;
    mf_jw_object(x->w);
    mf_jw_kv_string(x->w, "tokenizer_class", "PreTrainedTokenizerFast");
    mf_jw_kv_int(x->w, "model_max_length", seq);
    mf_jw_kv_bool(x->w, "clean_up_tokenization_spaces", false);
    for (int s = 0; rc == MF_OK && s < MF_SPECIALS; s++) {
        if (x->t->special[s] < 0) continue;
        rc = special_name(x, (mf_special)s, name, sizeof name);
        if (rc == MF_OK) mf_jw_kv_string(x->w, keys[s], name);
    }
    mf_jw_end(x->w);
    return rc == MF_OK ? add_file(x, "tokenizer_config.json", record) : rc;
}

/* Adds the files from which a published tokenizer was read. */
static int copy_files(const mf_tokenizer *t, mf_record *record)
{
    const mf_pretrained *p = (const mf_pretrained *)(const void *)t;
    int rc = MF_OK;
    for (int i = 0; rc == MF_OK && i < MF_PT_FILES; i++)
        if (p->files.text[i])
            rc = mf_published_add(record, mf_pt_file_name[i], p->files.text[i], p->files.n[i]);
    return rc;
}

/* Reads the members that the kind writes into a tokenizer file. */
static int read_members(writer *x)
{
    size_t n = 0;
    mf_jw_object(x->w);
    int rc = x->t->ops->write ? x->t->ops->write(x->t, x->w) : MF_OK;
    mf_jw_end(x->w);
    const char *text = rc == MF_OK ? mf_jw_text(x->w, &n) : NULL;
    if (rc == MF_OK) rc = text ? mf_json_parse("tokenizer", text, n, &x->members) : MF_ENOMEM;
    mf_jw_reset(x->w);
    return rc;
}

int mf_published_tokenizer(const mf_tokenizer *t, int64_t seq, mf_record *record)
{
    static const char *const kinds[] = {"byte", "char", "bpe", "bpe_bytes", "wordpiece", NULL};
    int kind = 0;
    if (strcmp(t->ops->name, "pretrained") == 0) return copy_files(t, record);
    while (kinds[kind] && strcmp(kinds[kind], t->ops->name) != 0)
        kind++;
    if (!kinds[kind])
        return refuse("expected the kind byte, char, bpe, bpe_bytes or wordpiece");
    writer x = {.t = t, .w = mf_jw_new()};
    int rc = x.w ? read_members(&x) : MF_ENOMEM;
    if (rc == MF_OK) rc = put_tokenizer(&x, record);
    if (rc == MF_OK) rc = put_config(&x, seq, record);
    mf_json_free(x.members);
    mf_jw_free(x.w);
    return rc;
}
