/* pretrained/keys.c: reads values of config.json, and the groups of keys that families share.
 *
 * Numbers come from a third party. Each number is bounded here, before anything is computed
 * from it. */
#include "pretrained/keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/log.h"
#include "base/text/number.h"

enum { KEY_MAX = 64, POSITIONS_MAX = 1048576 };

/* ---- single keys ---- */

/* Returns the member of a name; "a.b" is the member b of the object a. NULL: there is none. */
static const mf_json *member(const mf_json *object, const char *name)
{
    char outer[KEY_MAX];
    const char *dot = strchr(name, '.');
    if (!dot) return mf_json_get(object, name);
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
    return member(mf_json_get(object, outer), dot + 1);
}

/* name: spellings of one key, separated by '|'. Returns the value of the first spelling that
 * the object contains, also if it is null; *ret_at, *ret_n: offset and length of this spelling
 * in name. NULL: the object contains none. */
static const mf_json *find(const mf_keys *k, const char *name, int *ret_at, int *ret_n)
{
    char one[KEY_MAX];
    if (k->asked && k->asked->n < (int)(sizeof k->asked->name / sizeof *k->asked->name))
        k->asked->name[k->asked->n++] = name;
    for (const char *at = name; *at;) {
        const size_t n = strcspn(at, "|");
        *ret_at = (int)(at - name);
        *ret_n = (int)n;
        if (n < sizeof one) {
            memcpy(one, at, n);
            one[n] = '\0';
            const mf_json *v = member(k->json, one);
            if (v) return v;
        }
        at += n + (at[n] == '|');
    }
    return NULL;
}

/* The same as find, without the spelling. */
static const mf_json *get(const mf_keys *k, const char *name)
{
    int at, n;
    return find(k, name, &at, &n);
}

static bool is_null(const mf_json *v)
{
    return mf_json_typeof(v) == MF_JSON_NULL;
}

bool mf_keys_has(const mf_keys *k, const char *name)
{
    return !is_null(get(k, name));
}

const char *mf_keys_usual(const mf_keys *k, const char *name)
{
    const char *end = strrchr(name, '|');
    const char *own = end ? end + 1 : name;
    for (const mf_key_default *d = k->defaults; d && d->key; d++)
        if (strcmp(d->key, own) == 0) return strcmp(d->value, "null") == 0 ? NULL : d->value;
    return NULL;
}

void mf_keys_refuse(mf_keys *k, const char *name, const char *fmt, ...)
{
    char why[512];
    int at = 0, n = 0;
    va_list args;
    if (k->rc != MF_OK) return;
    va_start(args, fmt);
    vsnprintf(why, sizeof why, fmt, args);
    va_end(args);
    find(k, name, &at, &n); /* if no spelling is in the file, find returns the last spelling */
    k->rc = mf_fail(MF_EINPUT, "%s: %.*s: %s", k->path, n, name + at, why);
}

static int64_t read_int(mf_keys *k, const char *name, const mf_json *v, int64_t lo, int64_t hi)
{
    int64_t value;
    if (!mf_json_int(v, &value) || value < lo || value > hi) {
        mf_keys_refuse(k, name, "expected a whole number from %lld to %lld%s", (long long)lo,
                       (long long)hi, is_null(v) ? ", found null" : "");
        return lo;
    }
    return value;
}

int64_t mf_keys_int_or(mf_keys *k, const char *name, int64_t null, int64_t lo, int64_t hi)
{
    const mf_json *v = get(k, name);
    const char *usual = v ? NULL : mf_keys_usual(k, name);
    long long value;
    if (usual && mf_parse_i64(usual, &value)) return value;
    return k->rc == MF_OK && !is_null(v) ? read_int(k, name, v, lo, hi) : null;
}

int64_t mf_keys_int(mf_keys *k, const char *name, int64_t lo, int64_t hi)
{
    const mf_json *v = get(k, name);
    if (!v && !mf_keys_usual(k, name))
        mf_keys_refuse(k, name, "expected this key, a whole number");
    if (k->rc != MF_OK) return lo;
    return v ? read_int(k, name, v, lo, hi) : mf_keys_int_or(k, name, lo, lo, hi);
}

double mf_keys_real_or(mf_keys *k, const char *name, double null)
{
    const mf_json *v = get(k, name);
    const char *usual = v ? NULL : mf_keys_usual(k, name);
    double value;
    if (usual && mf_parse_f64(usual, &value)) return value;
    if (k->rc != MF_OK || is_null(v)) return null;
    if (mf_json_real(v, &value)) return value;
    mf_keys_refuse(k, name, "expected a number");
    return null;
}

double mf_keys_real(mf_keys *k, const char *name)
{
    const mf_json *v = get(k, name);
    if (v ? is_null(v) : !mf_keys_usual(k, name))
        mf_keys_refuse(k, name, "expected a number%s", v ? ", found null" : "");
    return mf_keys_real_or(k, name, 1);
}

bool mf_keys_bool_or(mf_keys *k, const char *name, bool null)
{
    const mf_json *v = get(k, name);
    const char *usual = v ? NULL : mf_keys_usual(k, name);
    bool value;
    if (usual && mf_parse_bool(usual, &value)) return value;
    if (k->rc != MF_OK || is_null(v)) return null;
    if (mf_json_bool(v, &value)) return value;
    mf_keys_refuse(k, name, "expected true or false");
    return null;
}

bool mf_keys_bool(mf_keys *k, const char *name)
{
    const mf_json *v = get(k, name);
    if (v && is_null(v)) mf_keys_refuse(k, name, "expected true or false, found null");
    return mf_keys_bool_or(k, name, false);
}

bool mf_keys_is(const mf_keys *k, const char *name, const char *text)
{
    const mf_json *v = get(k, name);
    const char *found = v ? mf_json_string(v, NULL) : mf_keys_usual(k, name);
    return found && strcmp(found, text) == 0;
}

/* Returns the index for an assignment: the index of an earlier assignment to the same option,
 * or a new index. */
static int place_for(const mf_keys *k, const char *text)
{
    const size_t n = strcspn(text, "=") + 1;
    int at = 0;
    while (at < k->n && strncmp(k->set[at], text, n) != 0)
        at++;
    return at;
}

void mf_keys_set(mf_keys *k, const char *fmt, ...)
{
    char text[256];
    va_list args;
    if (k->rc != MF_OK) return;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const int at = place_for(k, text);
    if (n < 0 || (size_t)n >= sizeof text || at == MF_KEYS_SET_MAX)
        k->rc = mf_fail(MF_EINPUT, "%s: '%.64s': too long for a setting", k->path, text);
    else if (!(k->set[at] = mf_arena_strdup(k->arena, text)))
        k->rc = MF_ENOMEM;
    else if (at == k->n)
        k->n++;
}

const char *mf_keys_setting(const mf_keys *k, const char *section, const char *key)
{
    const size_t n = strlen(section), m = strlen(key);
    for (int i = 0; i < k->n; i++)
        if (strncmp(k->set[i], section, n) == 0 && k->set[i][n] == '.' &&
            strncmp(k->set[i] + n + 1, key, m) == 0 && k->set[i][n + 1 + m] == '=')
            return k->set[i] + n + m + 2;
    return NULL;
}

void mf_keys_expect_text(mf_keys *k, const char *name, const char *names)
{
    const mf_json *v = get(k, name);
    const char *value = v ? mf_json_string(v, NULL) : mf_keys_usual(k, name);
    if (!value) {
        mf_keys_refuse(k, name, "expected a text, one of %s", names);
        return;
    }
    const size_t n = strlen(value);
    for (const char *at = names; *at;) {
        const size_t m = strcspn(at, "|");
        if (m == n && strncmp(at, value, n) == 0) return;
        at += m + (at[m] == '|');
    }
    mf_keys_refuse(k, name, "expected %s, found '%.64s'", names, value);
}

/* ---- groups ---- */

void mf_keys_decoder(mf_keys *k)
{
    mf_keys_decoder_by(k, "rms_norm_eps", "hidden_act");
}

void mf_keys_decoder_by(mf_keys *k, const char *norm_eps, const char *activation)
{
    k->vocab = mf_keys_int(k, "vocab_size", 1, 16777216);
    k->dim = mf_keys_int(k, "hidden_size", 1, 65536);
    k->layers = mf_keys_int(k, "num_hidden_layers", 1, 1024);
    k->heads = mf_keys_int(k, "num_attention_heads", 1, 1024);
    k->kv_heads = mf_keys_int_or(k, "num_key_value_heads", k->heads, 1, 1024);
    k->head_dim = mf_keys_int_or(k, "head_dim", k->dim / k->heads, 1, 65536);
    const int64_t positions = mf_keys_int(k, "max_position_embeddings", 1, INT32_MAX);
    k->seq = positions < POSITIONS_MAX ? positions : POSITIONS_MAX;
    if (k->rc == MF_OK && positions > POSITIONS_MAX)
        mf_log(MF_LOG_WARN,
               "%s: model.seq = %lld of %lld positions, which is its largest value", k->path,
               (long long)k->seq, (long long)positions);
    k->tied = mf_keys_bool(k, "tie_word_embeddings");
    const double eps = mf_keys_real(k, norm_eps);
    if (activation) mf_keys_expect_text(k, activation, "silu|swish");
    mf_keys_set(k, "model.task=lm");
    mf_keys_set(k, "model.dim=%lld", (long long)k->dim);
    mf_keys_set(k, "model.layers=%lld", (long long)k->layers);
    mf_keys_set(k, "model.heads=%lld", (long long)k->heads);
    mf_keys_set(k, "model.kv_heads=%lld", (long long)k->kv_heads);
    mf_keys_set(k, "model.head_dim=%lld", (long long)k->head_dim);
    mf_keys_set(k, "model.seq=%lld", (long long)k->seq);
    mf_keys_set(k, "model.vocab=%lld", (long long)k->vocab);
    mf_keys_set(k, "model.norm=rmsnorm");
    mf_keys_set(k, "model.norm_place=pre");
    mf_keys_set(k, "model.norm_eps=%.17g", eps);
    mf_keys_set(k, "model.position=rope");
    mf_keys_set(k, "model.rope_half=yes");
    mf_keys_set(k, "model.tie_embeddings=%s", k->tied ? "yes" : "no");
    mf_keys_set(k, "model.ffn_activation=swiglu");
}

void mf_keys_experts(mf_keys *k, const char *experts, const char *hidden, bool renormalize)
{
    mf_keys_experts_by(k, experts, "num_experts_per_tok", hidden, "router_aux_loss_coef",
                       renormalize);
}

void mf_keys_experts_by(mf_keys *k, const char *experts, const char *per_token,
                        const char *hidden, const char *loss, bool renormalize)
{
    k->experts = mf_keys_int(k, experts, 1, 4096);
    const int64_t top_k = mf_keys_int(k, per_token, 1, k->experts),
                  width = mf_keys_int(k, hidden, 1, 1048576);
    const bool adds = mf_keys_bool(k, "output_router_logits");
    const double weight = mf_keys_real(k, loss);
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=%lld", (long long)top_k);
    mf_keys_set(k, "moe.renormalize=%s", renormalize ? "yes" : "no");
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld", (long long)width);
    mf_keys_set(k, "regularizer.balance.plugin=load_balance");
    mf_keys_set(k, "regularizer.balance.f=tokens");
    mf_keys_set(k, "regularizer.balance.scope=global");
    mf_keys_set(k, "regularizer.balance.weight=%.17g", adds ? weight : 0);
}

void mf_keys_attention_bias(mf_keys *k)
{
    const char *bias = mf_keys_bool(k, "attention_bias") ? "yes" : "no";
    mf_keys_set(k, "model.attention_bias=%s", bias);
    mf_keys_set(k, "model.attention_out_bias=%s", bias);
}

/* A choice of blocks. The key has a text for each block, yes or no, and the blocks with `yes`
 * are chosen. key NULL: the blocks from begin to end - 1 whose number is a multiple of step. */
typedef struct choice {
    const char *key, *yes, *no;
    int64_t step, begin, end;
    bool numbers; /* the key has a number for each block, and blocks whose number is not 0
                   * are chosen */
    bool except;  /* with key NULL: all blocks except each `step`-th block */
    bool (*is)(mf_keys *k, int64_t layer); /* decides alone if it is not NULL */
} choice;

static bool has_block(mf_keys *k, const choice *c, int64_t l)
{
    if (c->is) return c->is(k, l);
    if (!c->key && c->except) return (l + 1) % c->step != 0;
    if (!c->key) return l % c->step == 0 && l >= c->begin && l < c->end;
    int64_t number = 0;
    if (c->numbers) {
        if (!mf_json_int(mf_json_at(get(k, c->key), (size_t)l), &number))
            mf_keys_refuse(k, c->key, "expected a number for each of %lld blocks",
                           (long long)k->layers);
        return number != 0;
    }
    const char *type = mf_json_string(mf_json_at(get(k, c->key), (size_t)l), NULL);
    const bool has = type && strcmp(type, c->yes) == 0;
    if (!has && (!type || strcmp(type, c->no) != 0))
        mf_keys_refuse(k, c->key, "expected %s or %s for each of %lld blocks", c->yes, c->no,
                       (long long)k->layers);
    return has;
}

enum { BLOCKS_MAX = 160 };

/* Writes the numbers of the blocks. Consecutive numbers are written as a range: "0-2,5". */
static void list_blocks(mf_keys *k, const choice *c, char out[BLOCKS_MAX])
{
    size_t at = 0;
    int64_t from = 0;
    out[0] = '\0';
    for (int64_t l = 0; l <= k->layers && k->rc == MF_OK; l++) {
        if (l < k->layers && has_block(k, c, l)) continue;
        if (l > from && at + 16 >= BLOCKS_MAX)
            mf_keys_refuse(k, "num_hidden_layers", "expected a shorter list of blocks");
        else if (l > from)
            at += (size_t)snprintf(out + at, BLOCKS_MAX - at,
                                   l - 1 > from ? "%s%lld-%lld" : "%s%lld", at > 0 ? "," : "",
                                   (long long)from, (long long)l - 1);
        from = l + 1;
    }
}

static void set_window(mf_keys *k, int64_t width, const choice *c)
{
    char list[BLOCKS_MAX];
    if (k->rc != MF_OK || width >= k->seq) return;
    list_blocks(k, c, list);
    if (list[0] == '\0') return;
    mf_keys_set(k, "model.window=%lld", (long long)width);
    mf_keys_set(k, "model.window_layers=%s", list);
}

void mf_keys_window_where(mf_keys *k, int64_t width, bool (*is)(mf_keys *k, int64_t layer))
{
    set_window(k, width, &(choice){.is = is});
}

void mf_keys_window_except(mf_keys *k, int64_t width, int64_t step)
{
    set_window(k, width, &(choice){.step = step, .except = true});
}

void mf_keys_window(mf_keys *k, int64_t width, bool types, int64_t step, int64_t begin,
                    int64_t end)
{
    choice c = {.yes = "sliding_attention",
                .no = "full_attention",
                .step = step,
                .begin = begin,
                .end = end};
    if (types && mf_keys_has(k, "layer_types")) c.key = "layer_types";
    set_window(k, width, &c);
}

static void set_rope(mf_keys *k, const choice *c)
{
    char list[BLOCKS_MAX];
    list_blocks(k, c, list);
    if (list[0] == '\0')
        mf_keys_set(k, "model.position=none");
    else
        mf_keys_set(k, "model.rope_layers=%s", list);
}

void mf_keys_rope_blocks(mf_keys *k, const char *name)
{
    const choice c = {.key = name, .numbers = true};
    if (mf_keys_has(k, name)) set_rope(k, &c);
}

void mf_keys_blocks_where(mf_keys *k, const char *option, bool (*is)(mf_keys *k, int64_t layer))
{
    char list[BLOCKS_MAX];
    list_blocks(k, &(choice){.is = is}, list);
    if (list[0] != '\0') mf_keys_set(k, "model.%s=%s", option, list);
}

void mf_keys_rope_except(mf_keys *k, int64_t step)
{
    const choice c = {.step = step, .except = true};
    set_rope(k, &c);
}

void mf_keys_rope_where(mf_keys *k, bool (*is)(mf_keys *k, int64_t layer))
{
    set_rope(k, &(choice){.is = is});
}

static const choice sliding = {
    .key = "layer_types", .yes = "sliding_attention", .no = "full_attention"};

void mf_keys_rope_sliding(mf_keys *k)
{
    set_rope(k, &sliding);
}

const char *mf_keys_sliding(mf_keys *k, int64_t step)
{
    const choice each = {.step = step, .except = true};
    char list[BLOCKS_MAX];
    list_blocks(k, mf_keys_has(k, sliding.key) ? &sliding : &each, list);
    const char *copy = list[0] != '\0' ? mf_arena_strdup(k->arena, list) : NULL;
    if (list[0] != '\0' && !copy && k->rc == MF_OK) k->rc = MF_ENOMEM;
    return copy;
}

int64_t mf_keys_optional_window(mf_keys *k)
{
    const int64_t width = mf_keys_int_or(k, "sliding_window", 0, 0, INT32_MAX);
    return mf_keys_bool(k, "use_sliding_window") && width > 0 ? width : k->seq;
}

void mf_keys_dense(mf_keys *k)
{
    mf_keys_set(k, "model.moe_every=0");
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
}

static void set_dense(mf_keys *k, const choice *c)
{
    char list[BLOCKS_MAX];
    list_blocks(k, c, list);
    if (list[0] == '\0') return;
    mf_keys_set(k, "model.dense_layers=%s", list);
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
}

void mf_keys_dense_where(mf_keys *k, bool (*is)(mf_keys *k, int64_t layer))
{
    set_dense(k, &(choice){.is = is});
}

void mf_keys_dense_first(mf_keys *k, int64_t usual)
{
    choice c = {.yes = "dense", .no = "sparse", .step = 1, .end = usual};
    if (mf_keys_has(k, "mlp_layer_types"))
        c.key = "mlp_layer_types";
    else if (mf_keys_usual(k, "first_k_dense_replace"))
        c.end = mf_keys_int_or(k, "first_k_dense_replace", usual, 0, k->layers);
    set_dense(k, &c);
}

void mf_keys_shared_experts(mf_keys *k, const char *experts, const char *hidden,
                            const char *shared)
{
    const int64_t width = mf_keys_int(k, hidden, 1, 1048576),
                  together = shared ? mf_keys_int_or(k, shared, 0, 0, 64) : 0,
                  top_k = mf_keys_int(k, "num_experts_per_tok", 1, 4096);
    k->experts = mf_keys_int(k, experts, 1, 4096);
    if (mf_keys_int_or(k, "moe_layer_freq", 1, 1, 1024) != 1)
        mf_keys_refuse(k, "moe_layer_freq", "expected 1");
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=%lld", (long long)top_k);
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld", (long long)width);
    if (together == 0) return;
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)together * width);
}

void mf_keys_sigmoid_router(mf_keys *k, double scale, bool renormalize)
{
    mf_keys_set(k, "router.plugin=sigmoid_bias");
    mf_keys_set(k, "router.rate=0");
    mf_keys_set(k, "router.groups=%lld", (long long)mf_keys_int_or(k, "n_group", 1, 1, 4096));
    mf_keys_set(k, "router.topk_groups=%lld",
                (long long)mf_keys_int_or(k, "topk_group", 1, 1, 4096));
    mf_keys_set(k, "router.renormalize=%s", renormalize ? "yes" : "no");
    mf_keys_set(k, "router.scale=%.17g", scale);
}

void mf_keys_dense_blocks(mf_keys *k)
{
    char list[160] = "";
    size_t at = 0;
    const mf_json *only = get(k, "mlp_only_layers");
    const int64_t step = mf_keys_int(k, "decoder_sparse_step", 1, 1024);
    for (size_t i = 0; i < mf_json_size(only); i++) {
        int64_t l;
        if (!mf_json_int(mf_json_at(only, i), &l) || l < 0 || l >= k->layers ||
            at + 8 > sizeof list) {
            mf_keys_refuse(k, "mlp_only_layers", "expected a short list of numbers of blocks");
            return;
        }
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%lld", i > 0 ? "," : "",
                               (long long)l);
    }
    mf_keys_set(k, "model.moe_every=%lld", (long long)step);
    mf_keys_set(k, "model.dense_layers=%s", list);
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
}
