/* pretrained/gguf/gguf_tokens.c: keys tokenizer.*.
 *
 * Programs identify pre-tokenizers by name, so a tokenizer is written only if its pattern has a
 * name. Byte-level BPE is the model "gpt2", with merges. BPE of characters with bytes for
 * unknown characters is the model "llama", which has no merges but a score for each token. The
 * pair whose token has the highest score is merged first, so scores fall with the rank of the
 * merge that makes a token. Normal forms are not written: programs use texts unchanged. */
#include "pretrained/gguf/gguf_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/tokenizer/pretrained/pretrained.h"

#define BAR "\xE2\x96\x81" /* U+2581 */

typedef enum token_type {
    NORMAL = 1,
    CONTROL = 3,
    USER_DEFINED = 4,
    UNUSED = 5,
    BYTE = 6
} token_type;

typedef struct tokens {
    const mf_export_run *x;
    const mf_gguf_arch *arch;
    mf_gguf *w;
    const mf_pretrained *t;
    int64_t n;         /* number of ids of the model */
    const char **name; /* [n]; NULL: an id without a token */
    size_t *length;    /* [n] bytes of name */
    int32_t *type;     /* [n] */
} tokens;

static int refuse(const char *what)
{
    return mf_fail(MF_EINPUT,
                   "the tokenizer cannot be said in GGUF: %s; --no-tokenizer writes the "
                   "weights alone",
                   what);
}

/* ---- tokens ---- */

static bool is_byte(const char *name, size_t n)
{
    return n == 6 && memcmp(name, "<0x", 3) == 0 && name[5] == '>';
}

static int list_tokens(tokens *k)
{
    const mf_pt_model *m = &k->t->model;
    k->name = mf_alloc((size_t)k->n, sizeof *k->name);
    k->length = mf_alloc((size_t)k->n, sizeof *k->length);
    k->type = mf_alloc((size_t)k->n, sizeof *k->type);
    if (!k->name || !k->length || !k->type) return MF_ENOMEM;
    for (int32_t i = 0; i < m->names.n; i++) {
        const int32_t id = m->id_of[i];
        if (id >= k->n) continue;
        k->name[id] = mf_strings_get(&m->names, i, &k->length[id]);
        k->type[id] = m->byte_fallback && is_byte(k->name[id], k->length[id]) ? BYTE : NORMAL;
    }
    for (int32_t i = 0; i < k->t->added_names.n; i++) {
        const int32_t id = k->t->added[i].id;
        if (id >= k->n) continue;
        k->name[id] = mf_strings_get(&k->t->added_names, i, &k->length[id]);
        k->type[id] = k->t->added[i].special ? CONTROL : USER_DEFINED;
    }
    return MF_OK;
}

static void put_tokens(const tokens *k)
{
    mf_gguf_array(k->w, "tokenizer.ggml.tokens", MF_GGUF_ITEM_TEXT, (uint64_t)k->n);
    for (int64_t i = 0; i < k->n; i++) {
        char pad[32];
        const int n = snprintf(pad, sizeof pad, "[PAD%lld]", (long long)i);
        if (k->name[i])
            mf_gguf_item_text(k->w, k->name[i], k->length[i]);
        else
            mf_gguf_item_text(k->w, pad, (size_t)n);
    }
}

static void put_types(const tokens *k)
{
    mf_gguf_array(k->w, "tokenizer.ggml.token_type", MF_GGUF_ITEM_I32, (uint64_t)k->n);
    for (int64_t i = 0; i < k->n; i++)
        mf_gguf_item_i32(k->w, k->name[i] ? k->type[i] : UNUSED);
}

/* ---- merges and scores ---- */

static int by_rank(const void *a, const void *b)
{
    const mf_pt_merge *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

/* Lists all merges in the order of their ranks. The caller frees the list. */
static int list_merges(const mf_pt_model *m, mf_pt_merge **ret, size_t *ret_n)
{
    size_t n = 0;
    mf_pt_merge *list = mf_alloc(m->slots + 1, sizeof *list);
    if (!list) return MF_ENOMEM;
    for (size_t i = 0; i < m->slots; i++)
        if (m->merge[i].key != 0) list[n++] = m->merge[i];
    qsort(list, n, sizeof *list, by_rank);
    *ret = list;
    *ret_n = n;
    return MF_OK;
}

static int put_merges(const tokens *k, const mf_pt_merge *list, size_t n)
{
    mf_gguf_array(k->w, "tokenizer.ggml.merges", MF_GGUF_ITEM_TEXT, n);
    for (size_t i = 0; i < n; i++) {
        const int64_t left = (int64_t)(list[i].key >> 32) - 1,
                      right = (int64_t)(list[i].key & 0xffffffff);
        if (left >= k->n || right >= k->n) return refuse("a merge of an id above the model's");
        const size_t size = k->length[left] + 1 + k->length[right];
        char *text = mf_alloc_raw(size);
        if (!text) return MF_ENOMEM;
        memcpy(text, k->name[left], k->length[left]);
        text[k->length[left]] = ' ';
        memcpy(text + k->length[left] + 1, k->name[right], k->length[right]);
        mf_gguf_item_text(k->w, text, size);
        mf_free(text);
    }
    return MF_OK;
}

static int put_scores(const tokens *k, const mf_pt_merge *list, size_t n)
{
    float *score = mf_alloc((size_t)k->n, sizeof *score);
    if (!score) return MF_ENOMEM;
    for (int64_t i = 0; i < k->n; i++)
        score[i] = k->type[i] == NORMAL ? -1e9F : 0;
    for (size_t i = n; i-- > 0;)
        if (list[i].made < k->n && k->type[list[i].made] == NORMAL)
            score[list[i].made] = -(float)(i + 1);
    mf_gguf_array(k->w, "tokenizer.ggml.scores", MF_GGUF_ITEM_F32, (uint64_t)k->n);
    for (int64_t i = 0; i < k->n; i++)
        mf_gguf_item_f32(k->w, score[i]);
    mf_free(score);
    return MF_OK;
}

/* ---- the two models ---- */

/* Returns the name of a byte-level tokenizer's pre-tokenizer; NULL: programs have no name
 * for it. */
static const char *pre_of(const tokens *k)
{
    static const struct {
        const char *patterns, *pre;
        bool ignore_merges;
    } known[] = {{"gpt2", "gpt-2", false},
                 {"qwen2", "qwen2", false},
                 {"llama3", "llama-bpe", true},
                 {"llama3", "smaug-bpe", false},
                 {"gpt_oss", "gpt-4o", false},
                 {"number gpt2", "starcoder", false},
                 {"numbers cjk words", "deepseek-v3", false}};
    const mf_pt_words *words = &k->t->words;
    char text[256] = "";
    size_t at = 0;
    for (int i = 0; i < words->n && at < sizeof text; i++) {
        const mf_pt_splitter split = words->rule[i].split;
        const char *name = !split                       ? NULL
                           : split == mf_pt_split_digit ? "number"
                                                        : mf_pt_split_name(split);
        if (!name) return NULL;
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 0 ? " " : "", name);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].patterns, text) == 0 &&
            known[i].ignore_merges == k->t->model.ignore_merges)
            return i == 0 && k->arch == &mf_gguf_olmoe ? "olmo" : known[i].pre;
    return NULL;
}

static int put_bytes_model(const tokens *k, const mf_pt_merge *list, size_t n)
{
    const char *pre = pre_of(k);
    for (int i = 0; i < k->t->steps.n; i++)
        if (k->t->steps.step[i].kind != MF_PT_FORM)
            return refuse("its normalizer is more than a normal form");
    if (k->t->words.blank) return refuse("it puts a blank before a text");
    if (!pre) return refuse("programs know no name for its pre-tokenizer");
    mf_gguf_text(k->w, "tokenizer.ggml.model", "gpt2");
    mf_gguf_text(k->w, "tokenizer.ggml.pre", pre);
    put_tokens(k);
    put_types(k);
    return put_merges(k, list, n);
}

static bool step_is(const mf_pt_step *s, mf_pt_step_kind kind, const char *text)
{
    return s->kind == kind && s->n_text == strlen(text) &&
           memcmp(s->text, text, s->n_text) == 0;
}

static int put_characters_model(const tokens *k, const mf_pt_merge *list, size_t n)
{
    const mf_pt_words *words = &k->t->words;
    bool bars = words->bars, prefix = words->bars && words->prepend != MF_PT_BAR_NEVER;
    for (int i = 0; i < k->t->steps.n; i++) {
        const mf_pt_step *s = &k->t->steps.step[i];
        if (step_is(s, MF_PT_PREPEND, BAR))
            prefix = true;
        else if (step_is(s, MF_PT_REPLACE, " ") && s->n_with == strlen(BAR) &&
                 memcmp(s->with, BAR, s->n_with) == 0)
            bars = true;
        else
            return refuse("its normalizer does more than U+2581 for blanks");
    }
    for (int i = 0; i < words->n; i++)
        bars = bars &&
               (words->rule[i].kind == MF_PT_BARS || words->rule[i].split == mf_pt_split_bars ||
                words->rule[i].split == mf_pt_split_each_bar);
    if (!bars) return refuse("it is neither byte-level nor of sentencepiece's form");
    if (!k->t->model.byte_fallback) return refuse("it has no tokens of bytes");
    mf_gguf_text(k->w, "tokenizer.ggml.model", "llama");
    mf_gguf_text(k->w, "tokenizer.ggml.pre", "default");
    put_tokens(k);
    const int rc = put_scores(k, list, n);
    put_types(k);
    if (!prefix) mf_gguf_bool(k->w, "tokenizer.ggml.add_space_prefix", false);
    return rc;
}

/* ---- special tokens ---- */

/* Returns the id of a role. The sources are tokenizer_config.json, then config.json, then
 * usual names. */
static int64_t role_id(const tokens *k, mf_special role, const char *token, const char *key)
{
    const mf_json *v = mf_json_get(k->x->record->keys.json, key);
    int64_t id = k->t->base.special[role];
    const char *config = k->t->files.text[MF_PT_CONFIG],
               *map = k->t->files.text[MF_PT_SPECIALS];
    const bool named = (config && strstr(config, token)) || (map && strstr(map, token));
    if (mf_json_typeof(v) == MF_JSON_ARRAY) v = mf_json_at(v, 0);
    if (!named || id < 0) mf_json_int(v, &id);
    return id < k->n ? id : -1;
}

static void put_specials(const tokens *k)
{
    static const struct {
        mf_special role;
        const char *token, *key, *gguf;
    } roles[] = {
        {MF_SPECIAL_BOS, "\"bos_token\"", "bos_token_id", "tokenizer.ggml.bos_token_id"},
        {MF_SPECIAL_EOS, "\"eos_token\"", "eos_token_id", "tokenizer.ggml.eos_token_id"},
        {MF_SPECIAL_PAD, "\"pad_token\"", "pad_token_id", "tokenizer.ggml.padding_token_id"},
        {MF_SPECIAL_UNK, "\"unk_token\"", "unk_token_id", "tokenizer.ggml.unknown_token_id"}};
    const mf_template *around = &k->t->base.template[0];
    int64_t id[sizeof roles / sizeof *roles];
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        id[i] = role_id(k, roles[i].role, roles[i].token, roles[i].key);
        if (id[i] >= 0) mf_gguf_u32(k->w, roles[i].gguf, (uint32_t)id[i]);
    }
    const bool bos = around->n > 0 && id[0] >= 0 && around->item[0].id == id[0],
               eos = around->n > 0 && id[1] >= 0 && around->item[around->n - 1].id == id[1];
    mf_gguf_bool(k->w, "tokenizer.ggml.add_bos_token", bos);
    mf_gguf_bool(k->w, "tokenizer.ggml.add_eos_token", eos);
    if (k->t->chat_template) mf_gguf_text(k->w, "tokenizer.chat_template", k->t->chat_template);
}

int mf_gguf_tokens(const mf_export_run *x, const mf_gguf_arch *a, bool none, mf_gguf *w)
{
    const mf_tokenizer *own = x->session->tokenizer;
    mf_pt_merge *list = NULL;
    size_t n = 0;
    if (none || !own || strcmp(own->ops->name, "pretrained") != 0) {
        if (own && !none)
            mf_log(MF_LOG_WARN,
                   "a tokenizer of kind %s cannot be said in GGUF; the file has none",
                   own->ops->name);
        mf_gguf_text(w, "tokenizer.ggml.model", "no_vocab");
        if (a != &mf_gguf_llama && a != &mf_gguf_deepseek2)
            mf_gguf_arch_u32(w, a, "vocab_size", x->record->keys.vocab);
        return MF_OK;
    }
    tokens k = {.x = x,
                .arch = a,
                .w = w,
                .t = (const mf_pretrained *)(const void *)own,
                .n = x->record->keys.vocab};
    int rc = k.t->model.kind != MF_PT_BPE ? refuse("its model is not BPE") : list_tokens(&k);
    if (rc == MF_OK) rc = list_merges(&k.t->model, &list, &n);
    if (rc == MF_OK)
        rc =
            k.t->words.bytes ? put_bytes_model(&k, list, n) : put_characters_model(&k, list, n);
    if (rc == MF_OK) put_specials(&k);
    mf_free(list);
    mf_free(k.name);
    mf_free(k.length);
    mf_free(k.type);
    return rc;
}
