/* data/tokenizer/pretrained/convert_spm.c: tokenizer.model of sentencepiece, a message of
 * protocol buffers. These fields are used: the pieces with scores and types, the kind of model,
 * bytes for unknown characters, and the normalizer. Others, as those of training, are not. */
#include "data/tokenizer/pretrained/convert.h"

#include "base/error.h"
#include "base/mem.h"
#include "base/text/utf8.h"
#include "io/base64.h"

#include <stdlib.h>
#include <string.h>

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1, BPE = 2 };

/* ---- messages ---- */

typedef struct message {
    const unsigned char *at, *end;
    bool bad;
} message;
/* A field: a number, or n bytes. */
typedef struct field {
    uint64_t number, value; /* the number of the field; its value */
    const unsigned char *bytes;
    size_t n;
} field;

static uint64_t varint(message *m)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        const unsigned char byte = *m->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    m->bad = true;
    return 0;
}

static bool next_field(message *m, field *f)
{
    if (m->bad || m->at == m->end) return false;
    const uint64_t tag = varint(m);
    *f = (field){.number = tag >> 3};
    const int type = (int)(tag & 7);
    if (type == 0) {
        f->value = varint(m);
        return !m->bad;
    }
    f->n = type == 1 ? 8 : type == 5 ? 4 : type == 2 ? varint(m) : SIZE_MAX;
    m->bad = m->bad || f->n > (size_t)(m->end - m->at);
    if (m->bad) return false;
    f->bytes = m->at;
    m->at += f->n;
    return true;
}

static message inside(const field *f)
{
    if (!f->bytes) return (message){.bad = true}; /* a number in the place of a message */
    return (message){.at = f->bytes, .end = f->bytes + f->n};
}

static float as_float(const field *f)
{
    float x = 0;
    if (f->n == 4) memcpy(&x, f->bytes, 4);
    return x;
}

/* ---- the file ---- */

typedef struct piece {
    char *name; /* ended by NUL; owned */
    float score;
    int type;
} piece;
typedef struct model {
    mf_strings names;
    piece *piece; /* [names.n] */
    size_t cap;
    uint64_t kind;
    int64_t unk, bos, eos;
    bool byte_fallback, prefix, trim;
    const unsigned char *charsmap;
    size_t n_charsmap;
} model;

static int add_piece(const char *where, const field *f, model *m)
{
    message in = inside(f);
    field g;
    const char *name = "";
    size_t n = 0;
    int32_t id;
    bool new;
    piece p = {.type = NORMAL};
    while (next_field(&in, &g)) {
        if (g.number == 1) {
            name = (const char *)g.bytes;
            n = g.n;
        }
        if (g.number == 2) p.score = as_float(&g);
        if (g.number == 3) p.type = (int)g.value;
    }
    if (in.bad || n == 0 || !name || memchr(name, 0, n) || mf_utf8_check(name, n) < n)
        return mf_fail(MF_EINPUT, "%s: piece %d: expected a text in UTF-8", where,
                       (int)m->names.n);
    if ((size_t)m->names.n == m->cap) {
        const size_t cap = 2 * m->cap + 256;
        piece *larger = mf_realloc(m->piece, m->cap * sizeof *larger, cap * sizeof *larger);
        if (!larger) return MF_ENOMEM;
        m->piece = larger;
        m->cap = cap;
    }
    m->piece[m->names.n] = (piece){0};
    const int rc = mf_strings_add(&m->names, name, n, &id, &new);
    if (rc == MF_OK && !new)
        return mf_fail(MF_EINPUT, "%s: piece %d is that of id %d", where, (int)m->names.n,
                       (int)id);
    if (rc != MF_OK) return rc;
    p.name = mf_strndup(name, n);
    m->piece[id] = p;
    if (p.type == UNKNOWN) m->unk = id;
    return p.name ? MF_OK : MF_ENOMEM;
}

static void read_trainer(const field *f, model *m, message *all)
{
    message in = inside(f);
    for (field g; next_field(&in, &g);) {
        if (g.number == 3) m->kind = g.value;
        if (g.number == 35) m->byte_fallback = g.value != 0;
        if (g.number == 41) m->bos = (int32_t)g.value;
        if (g.number == 42) m->eos = (int32_t)g.value;
    }
    all->bad = all->bad || in.bad;
}

static void read_normalizer(const field *f, model *m, message *all)
{
    message in = inside(f);
    for (field g; next_field(&in, &g);) {
        if (g.number == 2 && g.bytes) {
            m->charsmap = g.bytes;
            m->n_charsmap = g.n;
        }
        if (g.number == 3) m->prefix = g.value != 0;
        if (g.number == 4) m->trim = g.value != 0;
    }
    all->bad = all->bad || in.bad;
}

static int read_model(const char *where, const char *text, size_t n, model *m)
{
    const unsigned char *bytes = (const unsigned char *)text;
    message all = {.at = bytes, .end = bytes + n};
    int rc = MF_OK;
    *m = (model){.kind = UNIGRAM, .unk = -1, .bos = 1, .eos = 2, .prefix = true, .trim = true};
    for (field f; rc == MF_OK && next_field(&all, &f);) {
        if (f.number == 1) rc = add_piece(where, &f, m);
        if (f.number == 2) read_trainer(&f, m, &all);
        if (f.number == 3) read_normalizer(&f, m, &all);
    }
    if (rc != MF_OK) return rc;
    if (all.bad || m->names.n == 0)
        return mf_fail(MF_EINPUT, "%s: expected a model of sentencepiece", where);
    if (m->kind != UNIGRAM && m->kind != BPE)
        return mf_fail(MF_EINPUT, "%s: model type %d: expected 1 (Unigram) or 2 (BPE)", where,
                       (int)m->kind);
    if (m->unk < 0) return mf_fail(MF_EINPUT, "%s: no piece for unknown characters", where);
    return MF_OK;
}

/* ---- merges ---- */

typedef struct ranked {
    float score;
    int32_t id;
} ranked;

static int by_score(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

typedef struct halves {
    int32_t left, right;
} halves;

static int by_ids(const void *a, const void *b)
{
    const halves *x = a, *y = b;
    if (x->left != y->left) return x->left < y->left ? -1 : 1;
    return x->right < y->right ? -1 : x->right > y->right;
}

/* Writes the ways to divide a piece into two others. */
static int put_halves(const model *m, int32_t id, mf_jw *w)
{
    size_t n, count = 0;
    const char *name = mf_strings_get(&m->names, id, &n);
    halves *list = mf_alloc(n, sizeof *list);
    if (!list) return MF_ENOMEM;
    for (size_t k = 1; k < n; k++) {
        if (((unsigned char)name[k] & 0xc0) == 0x80) continue;
        const halves h = {mf_strings_find(&m->names, name, k),
                          mf_strings_find(&m->names, name + k, n - k)};
        if (h.left >= 0 && h.right >= 0) list[count++] = h;
    }
    qsort(list, count, sizeof *list, by_ids);
    for (size_t k = 0; k < count; k++) {
        mf_jw_array(w);
        mf_jw_string(w, m->piece[list[k].left].name);
        mf_jw_string(w, m->piece[list[k].right].name);
        mf_jw_end(w);
    }
    mf_free(list);
    return MF_OK;
}

/* sentencepiece merges the two neighbours whose joined piece has the greatest score. */
static int put_merges(const model *m, mf_jw *w)
{
    int32_t n = 0;
    int rc = MF_OK;
    ranked *list = mf_alloc((size_t)m->names.n, sizeof *list);
    if (!list) return MF_ENOMEM;
    for (int32_t i = 0; i < m->names.n; i++)
        if (m->piece[i].type == NORMAL) list[n++] = (ranked){m->piece[i].score, i};
    qsort(list, (size_t)n, sizeof *list, by_score);
    mf_jw_key(w, "merges");
    mf_jw_array(w);
    for (int32_t i = 0; i < n && rc == MF_OK; i++)
        rc = put_halves(m, list[i].id, w);
    mf_jw_end(w);
    mf_free(list);
    return rc;
}

/* ---- tokenizer.json ---- */

static int put_model(const model *m, mf_jw *w)
{
    int rc = MF_OK;
    mf_jw_key(w, "model");
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", m->kind == BPE ? "BPE" : "Unigram");
    mf_jw_kv_bool(w, "byte_fallback", m->byte_fallback);
    if (m->kind == UNIGRAM) mf_jw_kv_int(w, "unk_id", m->unk);
    if (m->kind == BPE) {
        mf_jw_kv_string(w, "unk_token", m->piece[m->unk].name);
        mf_jw_kv_bool(w, "fuse_unk", true);
    }
    mf_jw_key(w, "vocab");
    if (m->kind == BPE)
        mf_jw_object(w);
    else
        mf_jw_array(w);
    for (int32_t i = 0; i < m->names.n; i++) {
        const char *name = m->piece[i].name;
        if (m->kind == BPE) {
            mf_jw_kv_int(w, name, i);
            continue;
        }
        mf_jw_array(w);
        mf_jw_string(w, name);
        mf_jw_decimal(w, (double)m->piece[i].score);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    if (m->kind == BPE) rc = put_merges(m, w);
    mf_jw_end(w);
    return rc;
}

static void put_replace(mf_jw *w, const char *kind, const char *what, const char *with)
{
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "Replace");
    mf_jw_key(w, "pattern");
    mf_jw_object(w);
    mf_jw_kv_string(w, kind, what);
    mf_jw_end(w);
    mf_jw_kv_string(w, "content", with);
    mf_jw_end(w);
}

static const char bar[] = "\xE2\x96\x81"; /* U+2581 */

/* Whether blanks become U+2581 by the normalizer, and the text is not cut into words. */
static bool has_whole_text(const model *m)
{
    return m->kind == UNIGRAM && m->n_charsmap == 0 && !m->trim;
}

static int put_normalizer(const model *m, mf_jw *w)
{
    mf_jw_key(w, "normalizer");
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "Sequence");
    mf_jw_key(w, "normalizers");
    mf_jw_array(w);
    if (m->n_charsmap > 0) {
        char *map = mf_base64_write(m->charsmap, m->n_charsmap);
        if (!map) return MF_ENOMEM;
        mf_jw_object(w);
        mf_jw_kv_string(w, "type", "Precompiled");
        mf_jw_kv_string(w, "precompiled_charsmap", map);
        mf_jw_end(w);
        mf_free(map);
    }
    if (m->trim) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "type", "Strip");
        mf_jw_kv_bool(w, "strip_left", false);
        mf_jw_kv_bool(w, "strip_right", true);
        mf_jw_end(w);
        put_replace(w, "Regex", " {2,}", bar);
    }
    if (has_whole_text(m)) {
        if (m->prefix) {
            mf_jw_object(w);
            mf_jw_kv_string(w, "type", "Prepend");
            mf_jw_kv_string(w, "prepend", bar);
            mf_jw_end(w);
        }
        put_replace(w, "String", " ", bar);
    }
    mf_jw_end(w);
    mf_jw_end(w);
    return MF_OK;
}

static void put_bars(const model *m, const char *key, mf_jw *w)
{
    mf_jw_key(w, key);
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "Metaspace");
    mf_jw_kv_string(w, "replacement", bar);
    mf_jw_kv_string(w, "prepend_scheme",
                    !m->prefix       ? "never"
                    : m->kind == BPE ? "first"
                                     : "always");
    mf_jw_kv_bool(w, "split", m->kind == UNIGRAM);
    mf_jw_end(w);
}

static void put_decoder(const model *m, mf_jw *w)
{
    if (!m->byte_fallback) {
        put_bars(m, "decoder", w);
        return;
    }
    static const char *const parts[] = {"ByteFallback", "Fuse"};
    mf_jw_key(w, "decoder");
    mf_jw_object(w);
    mf_jw_kv_string(w, "type", "Sequence");
    mf_jw_key(w, "decoders");
    mf_jw_array(w);
    put_replace(w, "String", bar, " ");
    for (int i = 0; i < 2; i++) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "type", parts[i]);
        mf_jw_end(w);
    }
    if (m->prefix) {
        mf_jw_object(w);
        mf_jw_kv_string(w, "type", "Strip");
        mf_jw_kv_string(w, "content", " ");
        mf_jw_kv_int(w, "start", 1);
        mf_jw_kv_int(w, "stop", 0);
        mf_jw_end(w);
    }
    mf_jw_end(w);
    mf_jw_end(w);
}

/* Without a word in tokenizer_config.json a text gets <s> in front, or </s> behind it if there
 * is no <s>. */
static void put_ends(const model *m, const mf_json *config, mf_jw *w)
{
    const bool has_bos = m->bos >= 0 && m->bos < m->names.n,
               has_eos = m->eos >= 0 && m->eos < m->names.n,
               bos = has_bos && mf_pt_true(config, "add_bos_token", true),
               eos = has_eos && mf_pt_true(config, "add_eos_token", !has_bos);
    mf_pt_put_template(w, bos ? m->piece[m->bos].name : NULL, (int32_t)m->bos,
                       eos ? m->piece[m->eos].name : NULL, (int32_t)m->eos);
}

static int put_all(const model *m, const mf_json *config, mf_jw *w)
{
    mf_pt_put_head(w);
    mf_jw_key(w, "added_tokens");
    mf_jw_array(w);
    for (int32_t i = 0; i < m->names.n; i++) {
        const int type = m->piece[i].type;
        if (type == UNKNOWN || type == CONTROL || type == USER_DEFINED)
            mf_pt_put_added(w, i, m->piece[i].name, type != USER_DEFINED);
    }
    mf_jw_end(w);
    int rc = put_normalizer(m, w);
    if (has_whole_text(m)) {
        mf_jw_key(w, "pre_tokenizer");
        mf_jw_null(w);
    } else {
        put_bars(m, "pre_tokenizer", w);
    }
    put_ends(m, config, w);
    put_decoder(m, w);
    return rc == MF_OK ? put_model(m, w) : rc;
}

int mf_pt_convert_spm(const char *where, const char *text, size_t n, const mf_json *config,
                      char **ret, size_t *ret_n)
{
    model m;
    *ret = NULL;
    int rc = read_model(where, text, n, &m);
    mf_jw *w = rc == MF_OK ? mf_jw_new() : NULL;
    if (rc == MF_OK) rc = w ? put_all(&m, config, w) : MF_ENOMEM;
    for (int32_t i = 0; i < m.names.n && (size_t)i < m.cap; i++)
        mf_free(m.piece[i].name);
    mf_strings_free(&m.names);
    mf_free(m.piece);
    if (rc == MF_OK) return mf_pt_put_end(w, ret, ret_n);
    mf_jw_free(w);
    return rc;
}
