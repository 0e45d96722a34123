/* gguf/gguf_words.c: the tokenizer of a GGUF file, as tokenizer.json and
 * tokenizer_config.json.
 *
 * The model "gpt2" is byte-level BPE with merges; the name tokenizer.ggml.pre stands for
 * the expressions that cut texts into words. The model "llama" has scores and is a
 * tokenizer.model of sentencepiece, whose reader gets it in that form. Types of tokens have
 * the same numbers there. */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "data/tokenizer/pretrained/convert.h"
#include "pretrained/gguf/gguf_in.h"

enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

typedef struct words {
    const mf_gguf_in *f;
    const mf_gguf_str *token;
    const int64_t *type; /* NULL: all are NORMAL */
    int64_t n, bos, eos, pad, unk;
    bool add_bos, add_eos;
    mf_jw *w;
} words;

static int refuse(const words *x, const char *what)
{
    return mf_fail(MF_EINPUT, "%s: %s; --no-tokenizer imports the weights alone",
                   mf_gguf_path(x->f), what);
}

/* Returns the text of a token, ended by NUL. The caller frees it. */
static char *copy_of(const words *x, int64_t id)
{
    return mf_strndup(x->token[id].text, x->token[id].n);
}

static int64_t type_of(const words *x, int64_t id)
{
    return x->type ? x->type[id] : NORMAL;
}

static int64_t id_of(const mf_gguf_in *f, const char *key, int64_t n)
{
    int64_t id = -1;
    return mf_gguf_get_int(f, key, &id) && id >= 0 && id < n ? id : -1;
}

/* Sets *ret to false if the file has no tokenizer. */
static int read_words(words *x, bool *ret_some)
{
    const mf_gguf_in *f = x->f;
    int64_t types = 0;
    *ret_some = mf_gguf_get_strs(f, "tokenizer.ggml.tokens", &x->token, &x->n) && x->n > 0;
    if (!*ret_some) return MF_OK;
    if (mf_gguf_get_ints(f, "tokenizer.ggml.token_type", &x->type, &types) && types != x->n)
        return refuse(x, "tokenizer.ggml.token_type: expected a type for each token");
    for (int64_t i = 0; i < x->n; i++)
        if (memchr(x->token[i].text, 0, x->token[i].n) || x->n > INT32_MAX)
            return refuse(x, "tokenizer.ggml.tokens: a token has the byte 0");
    x->bos = id_of(f, "tokenizer.ggml.bos_token_id", x->n);
    x->eos = id_of(f, "tokenizer.ggml.eos_token_id", x->n);
    x->pad = id_of(f, "tokenizer.ggml.padding_token_id", x->n);
    x->unk = id_of(f, "tokenizer.ggml.unknown_token_id", x->n);
    return MF_OK;
}

/* ---- tokenizer_config.json ---- */

static void put_role(const words *x, mf_jw *w, const char *role, int64_t id)
{
    char *name = id >= 0 ? copy_of(x, id) : NULL;
    if (name) mf_jw_kv_string(w, role, name);
    mf_free(name);
}

static char *config_of(const words *x)
{
    mf_gguf_str chat;
    mf_jw *w = mf_jw_new();
    if (!w) return NULL;
    mf_jw_object(w);
    mf_jw_kv_bool(w, "add_bos_token", x->add_bos);
    mf_jw_kv_bool(w, "add_eos_token", x->add_eos);
    put_role(x, w, "bos_token", x->bos);
    put_role(x, w, "eos_token", x->eos);
    put_role(x, w, "pad_token", x->pad);
    put_role(x, w, "unk_token", x->unk);
    if (mf_gguf_get_str(x->f, "tokenizer.chat_template", &chat)) {
        mf_jw_key(w, "chat_template");
        mf_jw_string_n(w, chat.text, chat.n);
    }
    mf_jw_end(w);
    const char *text = mf_jw_text(w, NULL);
    char *ret = text ? mf_strdup(text) : NULL;
    mf_jw_free(w);
    return ret;
}

/* ---- byte-level BPE ---- */

typedef struct pre {
    const char *name;
    const char *pattern[3]; /* names of splitters (pretrained.h) */
    bool ignore_merges;
} pre;
static const pre pres[] = {{"gpt-2", {"gpt2"}, false},
                           {"olmo", {"gpt2"}, false},
                           {"qwen2", {"qwen2"}, false},
                           {"llama-bpe", {"llama3"}, true},
                           {"llama3", {"llama3"}, true},
                           {"smaug-bpe", {"llama3"}, false},
                           {"smollm", {"number", "gpt2"}, false},
                           {"starcoder", {"number", "gpt2"}, false},
                           {"refact", {"number", "gpt2"}, false},
                           {"gpt-4o", {"gpt_oss"}, false},
                           {"deepseek-v3", {"numbers", "cjk", "words"}, false}};

static int find_pre(const words *x, const pre **ret)
{
    mf_gguf_str name = {"gpt-2", 5}; /* files of before this key */
    char text[64], why[256];
    mf_gguf_get_str(x->f, "tokenizer.ggml.pre", &name);
    snprintf(text, sizeof text, "%.*s", (int)(name.n < 60 ? name.n : 60), name.text);
    for (size_t i = 0; i < sizeof pres / sizeof *pres; i++)
        if (strcmp(pres[i].name, text) == 0) {
            *ret = &pres[i];
            return MF_OK;
        }
    snprintf(why, sizeof why,
             "tokenizer.ggml.pre = '%s': expected gpt-2, olmo, starcoder, smollm, refact, "
             "qwen2, llama-bpe, smaug-bpe, gpt-4o or deepseek-v3",
             mf_shown(text));
    return refuse(x, why);
}

static void put_added(const words *x)
{
    mf_jw_key(x->w, "added_tokens");
    mf_jw_array(x->w);
    for (int64_t i = 0; i < x->n; i++) {
        const int64_t type = type_of(x, i);
        char *name =
            type == CONTROL || type == USER_DEFINED || type == UNKNOWN ? copy_of(x, i) : NULL;
        if (name) mf_pt_put_added(x->w, (int32_t)i, name, type != USER_DEFINED);
        mf_free(name);
    }
    mf_jw_end(x->w);
}

static int put_vocab(const words *x)
{
    mf_jw_key(x->w, "vocab");
    mf_jw_object(x->w);
    for (int64_t i = 0; i < x->n; i++) {
        if (type_of(x, i) == UNUSED) continue;
        char *name = copy_of(x, i);
        if (!name) return MF_ENOMEM;
        mf_jw_kv_int(x->w, name, i);
        mf_free(name);
    }
    mf_jw_end(x->w);
    return MF_OK;
}

static int put_merges(const words *x)
{
    const mf_gguf_str *merge;
    int64_t n;
    if (!mf_gguf_get_strs(x->f, "tokenizer.ggml.merges", &merge, &n))
        return refuse(x, "tokenizer.ggml.merges: expected a list of texts");
    mf_jw_key(x->w, "merges");
    mf_jw_array(x->w);
    for (int64_t i = 0; i < n; i++)
        mf_jw_string_n(x->w, merge[i].text, merge[i].n);
    mf_jw_end(x->w);
    return MF_OK;
}

static int put_bpe(words *x)
{
    const pre *p = NULL;
    const char *pattern[3];
    int n = 0;
    int rc = find_pre(x, &p);
    if (rc != MF_OK) return rc;
    for (; n < 3 && p->pattern[n]; n++)
        pattern[n] = mf_pt_pattern_named(p->pattern[n]);
    char *bos = x->add_bos && x->bos >= 0 ? copy_of(x, x->bos) : NULL,
         *eos = x->add_eos && x->eos >= 0 ? copy_of(x, x->eos) : NULL;
    mf_pt_put_head(x->w);
    put_added(x);
    mf_pt_put_byte_level(x->w, n, pattern);
    mf_pt_put_template(x->w, bos, (int32_t)x->bos, eos, (int32_t)x->eos);
    mf_free(bos);
    mf_free(eos);
    mf_jw_key(x->w, "model");
    mf_jw_object(x->w);
    mf_jw_kv_string(x->w, "type", "BPE");
    mf_jw_kv_bool(x->w, "ignore_merges", p->ignore_merges);
    rc = put_vocab(x);
    if (rc == MF_OK) rc = put_merges(x);
    mf_jw_end(x->w);
    return rc;
}

/* ---- sentencepiece ---- */

/* A message of protocol buffers that grows. */
typedef struct message {
    char *bytes;
    size_t n, room;
    bool full; /* no memory */
} message;

static void add(message *m, const void *bytes, size_t n)
{
    if (m->room - m->n < n && !m->full) {
        const size_t room = 2 * m->room + n + 4096;
        char *larger = mf_realloc(m->bytes, m->room, room);
        m->full = !larger;
        if (larger) {
            m->bytes = larger;
            m->room = room;
        }
    }
    if (m->full) return;
    memcpy(m->bytes + m->n, bytes, n);
    m->n += n;
}

static void add_varint(message *m, uint64_t v)
{
    unsigned char byte;
    do {
        byte = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        add(m, &byte, 1);
        v >>= 7;
    } while (v > 0);
}

enum { VARINT = 0, BYTES = 2, FIXED32 = 5 };

static void add_number(message *m, uint64_t field, uint64_t v)
{
    add_varint(m, field << 3 | VARINT);
    add_varint(m, v);
}

static void add_bytes(message *m, uint64_t field, const void *bytes, size_t n)
{
    add_varint(m, field << 3 | BYTES);
    add_varint(m, n);
    add(m, bytes, n);
}

/* Fields of a piece: 1 text, 2 score, 3 type. */
static void add_piece(message *m, const words *x, int64_t id, float score, int64_t type)
{
    message piece = {NULL, 0, 0, false};
    add_bytes(&piece, 1, x->token[id].text, x->token[id].n);
    add_varint(&piece, 2 << 3 | FIXED32);
    add(&piece, &score, sizeof score);
    add_number(&piece, 3, (uint64_t)type);
    add_bytes(m, 1, piece.bytes, piece.n);
    m->full = m->full || piece.full;
    mf_free(piece.bytes);
}

/* Fields: 1 pieces; 2 training: 3 kind (2: BPE), 35 bytes for unknown characters, 41 and
 * 42 the tokens of begin and end; 3 normalizer: 3 blank before a text, 4 runs of blanks
 * become one. */
static int make_model(words *x, message *m)
{
    const float *score;
    int64_t n = 0, unk = x->unk >= 0 ? x->unk : 0;
    bool bytes = false, prefix = true;
    message part = {NULL, 0, 0, false};
    if (!mf_gguf_get_reals(x->f, "tokenizer.ggml.scores", &score, &n) || n != x->n)
        return refuse(x, "tokenizer.ggml.scores: expected a score for each token");
    for (int64_t i = 0; i < x->n; i++)
        if (type_of(x, i) == UNKNOWN) unk = i;
    for (int64_t i = 0; i < x->n; i++) {
        add_piece(m, x, i, score[i], i == unk ? UNKNOWN : type_of(x, i));
        bytes = bytes || type_of(x, i) == BYTE;
    }
    mf_gguf_get_bool(x->f, "tokenizer.ggml.add_space_prefix", &prefix);
    add_number(&part, 3, 2);
    add_number(&part, 35, bytes);
    add_number(&part, 41, (uint64_t)x->bos);
    add_number(&part, 42, (uint64_t)x->eos);
    add_bytes(m, 2, part.bytes, part.n);
    part.n = 0;
    add_number(&part, 3, prefix);
    add_number(&part, 4, 0);
    add_bytes(m, 3, part.bytes, part.n);
    m->full = m->full || part.full;
    mf_free(part.bytes);
    return m->full ? MF_ENOMEM : MF_OK;
}

static int convert_model(words *x, const char *config, char **ret)
{
    message m = {NULL, 0, 0, false};
    mf_json *doc = NULL;
    size_t n;
    int rc = make_model(x, &m);
    if (rc == MF_OK) rc = mf_json_parse("tokenizer_config.json", config, strlen(config), &doc);
    if (rc == MF_OK) rc = mf_pt_convert_spm(mf_gguf_path(x->f), m.bytes, m.n, doc, ret, &n);
    mf_json_free(doc);
    mf_free(m.bytes);
    return rc;
}

/* ---- both ---- */

static int convert_bpe(words *x, char **ret)
{
    size_t n;
    x->w = mf_jw_new();
    if (!x->w) return MF_ENOMEM;
    const int rc = put_bpe(x);
    if (rc == MF_OK) return mf_pt_put_end(x->w, ret, &n);
    mf_jw_free(x->w);
    return rc;
}

int mf_gguf_tokenizer(const mf_gguf_in *f, char **ret, char **ret_config)
{
    words x = {.f = f};
    mf_gguf_str model = {"no_vocab", 8};
    bool some;
    *ret = *ret_config = NULL;
    mf_gguf_get_str(f, "tokenizer.ggml.model", &model);
    int rc = read_words(&x, &some);
    if (rc != MF_OK || !some || (model.n == 8 && memcmp(model.text, "no_vocab", 8) == 0))
        return rc;
    const bool bpe = model.n == 4 && memcmp(model.text, "gpt2", 4) == 0,
               spm = model.n == 5 && memcmp(model.text, "llama", 5) == 0;
    if (!bpe && !spm) return refuse(&x, "tokenizer.ggml.model: expected gpt2 or llama");
    x.add_bos = spm; /* as programs do without the key */
    mf_gguf_get_bool(f, "tokenizer.ggml.add_bos_token", &x.add_bos);
    mf_gguf_get_bool(f, "tokenizer.ggml.add_eos_token", &x.add_eos);
    *ret_config = config_of(&x);
    rc = !*ret_config ? MF_ENOMEM
         : bpe        ? convert_bpe(&x, ret)
                      : convert_model(&x, *ret_config, ret);
    if (rc == MF_OK) return rc;
    mf_free(*ret_config);
    *ret_config = NULL;
    return rc;
}
