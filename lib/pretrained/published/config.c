/* published/config.c: writes the settings of a run as a config.json: the family's table of keys
 * in reverse. Each key of the table gets its value from the run. A key that this file cannot
 * compute keeps its default. The caller compares whether the family reads the same model from
 * the text (judge.h). */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "pretrained/published/parts.h"
#include "run/sections/section_plugins.h"

/* The numbers of a model in the terms of config.json. */
typedef struct sizes {
    int64_t vocab, dim, layers, heads, kv_heads, head_dim, seq, positions;
    int64_t experts, top_k, expert_hidden, dense_hidden, shared_hidden, shared_count;
    int64_t groups, topk_groups, latent, latent_q, plain_dims, rope_dims, value_dim;
    int64_t window, first_dense, one, types, late_window;
    double eps, theta, scale, clip, limit, alpha, partial;
    double embed_scale, residual_scale, logits_scaling, attention_scale;
    bool tied, bias, out_bias, ffn_bias, renormalize, turns, qk_norm, windowed, no;
    bool scaled, by_layer;
} sizes;

typedef struct writer {
    const mf_session *session;
    const mf_config *c;
    mf_moe_config own; /* the [moe] of the first block with experts; all blocks have the same */
    const mf_family *family;
    mf_jw *w;
    sizes f;
    const char *router; /* name of the router plugin */
} writer;

/* ---- options of plugins ---- */

/* Reads an option of a plugin section as a number. Returns `otherwise` if the plugin has
 * no such option. */
static int option(const writer *x, const mf_plugin_section *p, const char *name,
                  double otherwise, double *ret)
{
    const mf_loaded *plugin;
    void *conf = NULL;
    mf_arena *arena = mf_arena_new();
    int rc = arena ? mf_section_plugin(p, x->c->ini, arena, NULL, &plugin, &conf) : MF_ENOMEM;
    *ret = otherwise;
    for (const mf_option *o = rc == MF_OK ? plugin->schema.options : NULL; o && o->name; o++)
        if (strcmp(o->name, name) == 0) *ret = mf_option_number(o, conf);
    mf_arena_free(arena);
    return rc;
}

static int plugin_sizes(writer *x)
{
    const mf_model_settings m = mf_config_model(x->c);
    int64_t first = 0;
    while (first < x->c->model.layers - 1 && !mf_model_has_experts(&x->c->model, first))
        first++;
    const mf_plugin_section *router = mf_model_router(&m, first);
    const mf_plugin_section *expert = mf_model_expert(&m, first);
    sizes *f = &x->f;
    const double k = (double)x->own.top_k;
    double hidden = 0, groups = 1, open = 1, sums = 0, scale = 1, limit = 0, alpha = 1;
    x->router = router->plugin;
    int rc = option(x, expert, "hidden", 0, &hidden);
    if (rc == MF_OK) rc = option(x, expert, "limit", 0, &limit);
    if (rc == MF_OK) rc = option(x, expert, "alpha", 1, &alpha);
    if (rc == MF_OK) rc = option(x, router, "groups", 1, &groups);
    if (rc == MF_OK) rc = option(x, router, "topk_groups", 1, &open);
    if (rc == MF_OK) rc = option(x, router, "renormalize", -1, &sums);
    if (rc == MF_OK) rc = option(x, router, "scale", x->own.gate_scale, &scale);
    /* renormalize of a router: no, yes, auto */
    f->renormalize =
        sums < 0 ? x->own.renormalize == MF_RENORMALIZE_YES : sums == 1 || (sums == 2 && k > 1);
    f->expert_hidden = hidden > 0 ? (int64_t)hidden : 4 * x->c->model.dim;
    f->groups = (int64_t)groups;
    f->topk_groups = (int64_t)open;
    f->scale = scale;
    f->limit = limit;
    f->alpha = alpha;
    return rc;
}

static void find_sizes(writer *x)
{
    const mf_model_config *m = &x->c->model;
    sizes *f = &x->f;
    f->vocab = x->session->model->dims.vocab;
    f->dim = m->dim;
    f->layers = m->layers;
    f->heads = m->heads;
    f->kv_heads = m->kv_heads > 0 ? m->kv_heads : m->heads;
    f->head_dim = mf_model_head_dim(m);
    f->seq = m->position == MF_POS_LEARNED && m->positions > 0 ? m->positions : m->seq;
    f->experts = x->own.experts;
    f->top_k = x->own.top_k;
    f->dense_hidden = m->ffn_hidden > 0 ? m->ffn_hidden : 4 * m->dim;
    f->latent = m->latent;
    f->latent_q = m->latent_q;
    f->rope_dims = m->rope_dims > 0 ? m->rope_dims : f->head_dim;
    f->plain_dims = f->head_dim - f->rope_dims;
    f->value_dim = mf_model_value_dim(m);
    f->window = m->window > 0 && m->window < m->seq ? m->window : 0;
    f->windowed = f->window > 0;
    f->one = 1;
    f->types = m->token_types > 0 ? m->token_types : 1;
    f->eps = m->norm_eps;
    f->theta = m->rope_theta;
    f->clip = m->clip_qkv;
    f->partial = (double)f->rope_dims / (double)f->head_dim;
    f->embed_scale = m->embed_scale;
    f->residual_scale = m->residual_scale;
    f->logits_scaling = 1 / m->logit_scale;
    f->attention_scale =
        m->attention_scale > 0 ? m->attention_scale : 1 / sqrt((double)f->head_dim);
    f->tied = m->tie_embeddings;
    f->bias = m->attention_bias;
    f->out_bias = m->attention_out_bias;
    f->ffn_bias = m->ffn_bias == MF_BIAS_YES;
    f->turns = !m->rope_half;
    f->qk_norm = m->qk_norm == MF_QK_HEAD;
    f->scaled = m->attention_scale != 1;
    f->by_layer = m->attention_scale_by_layer;
    while (f->first_dense < m->layers && !mf_model_has_experts(m, f->first_dense))
        f->first_dense++;
    /* the first block of the last run of blocks with a window */
    f->late_window = f->layers;
    if (f->windowed)
        for (int64_t l = m->layers; l-- > 0;) {
            bool bad;
            if (!mf_model_in_layers(m->window_layers, l, &bad)) break;
            f->late_window = l;
        }
}

static void find_shared(sizes *f, const mf_moe_config *c)
{
    const int64_t width = c->shared_hidden > 0 ? c->shared_hidden : f->expert_hidden;
    f->shared_hidden = c->shared_experts * width;
    f->shared_count = f->expert_hidden > 0 ? f->shared_hidden / f->expert_hidden : 0;
}

/* ---- keys ---- */

typedef enum kind { INT, INT_OR_NULL, REAL, REAL_OR_NULL, BOOL } kind;

static const struct {
    const char *key;
    kind kind;
    size_t at;
} keys[] = {
#define KEY(key, kind, field)                                                                  \
    {                                                                                          \
        key, kind, offsetof(sizes, field)                                                      \
    }
    KEY("vocab_size", INT, vocab),
    KEY("hidden_size", INT, dim),
    KEY("n_embd", INT, dim),
    KEY("num_hidden_layers", INT, layers),
    KEY("n_layer", INT, layers),
    KEY("num_attention_heads", INT, heads),
    KEY("n_head", INT, heads),
    KEY("num_key_value_heads", INT, kv_heads),
    KEY("head_dim", INT, head_dim),
    KEY("max_position_embeddings", INT, seq),
    KEY("n_positions", INT, seq),
    KEY("n_inner", INT, dense_hidden),
    KEY("rms_norm_eps", REAL, eps),
    KEY("layer_norm_eps", REAL, eps),
    KEY("layer_norm_epsilon", REAL, eps),
    KEY("tie_word_embeddings", BOOL, tied),
    KEY("attention_bias", BOOL, bias),
    KEY("qkv_bias", BOOL, bias),
    KEY("attention_out_bias", BOOL, out_bias),
    KEY("mlp_bias", BOOL, ffn_bias),
    KEY("use_qk_norm", BOOL, qk_norm),
    KEY("sliding_window", INT_OR_NULL, window),
    KEY("use_sliding_window", BOOL, windowed),
    KEY("max_window_layers", INT, late_window),
    KEY("num_experts", INT, experts),
    KEY("num_local_experts", INT, experts),
    KEY("n_routed_experts", INT, experts),
    KEY("num_experts_per_tok", INT, top_k),
    KEY("moe_intermediate_size", INT, expert_hidden),
    KEY("shared_expert_intermediate_size", INT, shared_hidden),
    KEY("shared_intermediate_size", INT, shared_hidden),
    KEY("n_shared_experts", INT_OR_NULL, shared_count),
    KEY("norm_topk_prob", BOOL, renormalize),
    KEY("decoder_sparse_step", INT, one),
    KEY("first_k_dense_replace", INT, first_dense),
    KEY("n_group", INT, groups),
    KEY("topk_group", INT, topk_groups),
    KEY("routed_scaling_factor", REAL, scale),
    KEY("kv_lora_rank", INT, latent),
    KEY("q_lora_rank", INT_OR_NULL, latent_q),
    KEY("qk_nope_head_dim", INT, plain_dims),
    KEY("qk_rope_head_dim", INT, rope_dims),
    KEY("v_head_dim", INT, value_dim),
    KEY("rope_interleave", BOOL, turns),
    KEY("rope_theta", REAL, theta),
    KEY("partial_rotary_factor", REAL, partial),
    KEY("clip_qkv", REAL_OR_NULL, clip),
    KEY("swiglu_limit", REAL, limit),
    KEY("swiglu_alpha", REAL, alpha),
    KEY("embedding_multiplier", REAL, embed_scale),
    KEY("residual_multiplier", REAL, residual_scale),
    KEY("logits_scaling", REAL, logits_scaling),
    KEY("attention_multiplier", REAL, attention_scale),
    KEY("scale_attn_weights", BOOL, scaled),
    KEY("scale_attn_by_inverse_layer_idx", BOOL, by_layer),
    KEY("type_vocab_size", INT, types)
#undef KEY
};

static bool lists(const writer *x, const char *key)
{
    for (const mf_key_default *d = x->family->defaults; d->key; d++)
        if (strcmp(d->key, key) == 0) return true;
    return false;
}

/* Writes a real number. A whole number gets a point, because configuration classes of
 * transformers refuse an integer where they expect a real number. */
static void put_real(const writer *x, const char *key, double value)
{
    mf_jw_key(x->w, key);
    mf_jw_decimal(x->w, value);
}

static void put_number(const writer *x, const char *key, kind is, const void *at)
{
    const int64_t *i = at;
    const double *r = at;
    const bool *b = at;
    mf_jw_key(x->w, key);
    if (is == BOOL)
        mf_jw_bool(x->w, *b);
    else if ((is == INT_OR_NULL && *i == 0) || (is == REAL_OR_NULL && *r == 0))
        mf_jw_null(x->w);
    else if (is == INT || is == INT_OR_NULL)
        mf_jw_int(x->w, *i);
    else
        mf_jw_decimal(x->w, *r);
}

/* Writes for each block one of two texts. */
static void put_blocks(const writer *x, const char *key,
                       bool (*is)(const mf_model_config *, int64_t), const char *yes,
                       const char *no)
{
    mf_jw_key(x->w, key);
    mf_jw_array(x->w);
    for (int64_t l = 0; l < x->f.layers; l++)
        mf_jw_string(x->w, is(&x->c->model, l) ? yes : no);
    mf_jw_end(x->w);
}

static bool has_window(const mf_model_config *m, int64_t l)
{
    bool bad;
    return m->window > 0 && m->window < m->seq && mf_model_in_layers(m->window_layers, l, &bad);
}

static void put_dense_blocks(const writer *x)
{
    mf_jw_key(x->w, "mlp_only_layers");
    mf_jw_array(x->w);
    for (int64_t l = 0; l < x->f.layers; l++)
        if (!mf_model_has_experts(&x->c->model, l)) mf_jw_int(x->w, l);
    mf_jw_end(x->w);
}

/* Writes the default of a key, as the table has it. */
static void put_usual(const writer *x, const mf_key_default *d)
{
    double number;
    bool truth;
    mf_jw_key(x->w, d->key);
    if (strcmp(d->value, "null") == 0)
        mf_jw_null(x->w);
    else if (strcmp(d->value, "true") == 0 || strcmp(d->value, "false") == 0)
        mf_jw_bool(x->w, mf_parse_bool(d->value, &truth) && truth);
    else if (!mf_parse_f64(d->value, &number))
        mf_jw_string(x->w, d->value);
    else if (number == floor(number) && !strpbrk(d->value, ".e"))
        mf_jw_int(x->w, (int64_t)number);
    else
        mf_jw_decimal(x->w, number);
}

/* Writes a key whose value is not one of the table `keys`. Returns false if this function does
 * not handle the key. */
static bool put_other(const writer *x, const char *key)
{
    const mf_model_config *m = &x->c->model;
    if (strcmp(key, "layer_types") == 0)
        put_blocks(x, key, has_window, "sliding_attention", "full_attention");
    else if (strcmp(key, "mlp_layer_types") == 0)
        put_blocks(x, key, mf_model_has_experts, "sparse", "dense");
    else if (strcmp(key, "mlp_only_layers") == 0)
        put_dense_blocks(x);
    else if (strcmp(key, "intermediate_size") == 0)
        mf_jw_kv_int(x->w, key,
                     lists(x, "num_experts_per_tok") && !lists(x, "moe_intermediate_size")
                         ? x->f.expert_hidden
                         : x->f.dense_hidden);
    else if (strcmp(key, "hidden_act") == 0 && strcmp(x->family->name, "bert") == 0)
        mf_jw_kv_string(x->w, key, m->ffn_activation == MF_FFN_GELU_TANH ? "gelu_new" : "gelu");
    else if (strcmp(key, "activation_function") == 0)
        mf_jw_kv_string(x->w, key, m->ffn_activation == MF_FFN_GELU ? "gelu" : "gelu_new");
    else if (strcmp(key, "topk_method") == 0 && strcmp(x->family->name, "deepseek_v2") == 0)
        mf_jw_kv_string(x->w, key, x->f.groups > 1 ? "group_limited_greedy" : "greedy");
    else
        return false;
    return true;
}

static void put_key(const writer *x, const mf_key_default *d)
{
    if (strncmp(d->key, "rope_parameters.", sizeof "rope_parameters." - 1) == 0) return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, d->key) == 0) {
            put_number(x, d->key, keys[i].kind, (const char *)&x->f + keys[i].at);
            return;
        }
    if (!put_other(x, d->key)) put_usual(x, d);
}

/* ---- objects ---- */

/* Whether rope has a scaling that a configuration can name. Given factors are none: their run
 * was not imported, or another folder holds them. */
static bool scaled(const mf_model_config *m)
{
    return m->rope_scaling != MF_ROPE_PLAIN && m->rope_scaling != MF_ROPE_GIVEN;
}

/* Writes rope_type: the value of our option rope_scaling, or "default" without scaling. */
static void put_rope_type(const writer *x)
{
    const mf_model_config *m = &x->c->model;
    char text[64] = "default";
    for (const mf_option *o = mf_model_section.options; o->name; o++)
        if (scaled(m) && strcmp(o->name, "rope_scaling") == 0)
            mf_option_text(o, m, text, sizeof text);
    mf_jw_kv_string(x->w, "rope_type", text);
}

static void put_scaling(const writer *x)
{
    const mf_model_config *m = &x->c->model;
    mf_jw_object(x->w);
    put_rope_type(x);
    put_real(x, "rope_theta", m->rope_theta);
    if (lists(x, "partial_rotary_factor")) put_real(x, "partial_rotary_factor", x->f.partial);
    if (scaled(m)) put_real(x, "factor", m->rope_factor);
    if (m->rope_scaling == MF_ROPE_YARN || m->rope_scaling == MF_ROPE_LLAMA3)
        mf_jw_kv_int(x->w, "original_max_position_embeddings", (int64_t)m->rope_original);
    if (m->rope_scaling == MF_ROPE_YARN) {
        put_real(x, "beta_fast", m->rope_beta_fast);
        put_real(x, "beta_slow", m->rope_beta_slow);
        mf_jw_kv_bool(x->w, "truncate", m->rope_truncate);
        if (m->rope_magnitude > 0) put_real(x, "attention_factor", m->rope_magnitude);
    }
    if (m->rope_scaling == MF_ROPE_YARN && m->attention_scale > 0 && m->rope_factor > 1 &&
        lists(x, "kv_lora_rank")) {
        /* scores are multiplied by s^2, s = .1 mscale_all_dim ln(factor) + 1 */
        const double s = sqrt(m->attention_scale * sqrt((double)x->f.head_dim)),
                     all = (s - 1) / (0.1 * log(m->rope_factor));
        put_real(x, "mscale", all);
        put_real(x, "mscale_all_dim", all);
    }
    if (m->rope_scaling == MF_ROPE_LLAMA3) {
        put_real(x, "low_freq_factor", m->rope_low);
        put_real(x, "high_freq_factor", m->rope_high);
    }
    mf_jw_end(x->w);
}

/* Writes rope in both spellings: transformers 5 reads rope_parameters, older versions read
 * rope_scaling. */
static void put_rope(const writer *x)
{
    if (!lists(x, "rope_theta")) return;
    mf_jw_key(x->w, "rope_parameters");
    put_scaling(x);
    if (!scaled(&x->c->model)) return;
    mf_jw_key(x->w, "rope_scaling");
    put_scaling(x);
}

/* Writes the dropout. It matters only if the model is trained further. */
static void put_dropout(const writer *x)
{
    const double p = x->c->train.dropout;
    put_real(x, "attention_dropout", 0);
    if (strcmp(x->family->name, "gpt2") == 0) {
        put_real(x, "resid_pdrop", p);
        put_real(x, "embd_pdrop", p);
        put_real(x, "attn_pdrop", 0);
    } else if (strcmp(x->family->name, "bert") == 0) {
        put_real(x, "hidden_dropout_prob", p);
        put_real(x, "attention_probs_dropout_prob", 0);
        put_real(x, "classifier_dropout", x->c->model.head_dropout);
    }
}

/* Writes the classes as id2label, with the names LABEL_0, LABEL_1, ... */
static void put_classes(const writer *x)
{
    mf_jw_key(x->w, "id2label");
    mf_jw_object(x->w);
    for (int64_t i = 0; i < x->session->model->dims.classes; i++) {
        char id[24], label[32];
        snprintf(id, sizeof id, "%lld", (long long)i);
        snprintf(label, sizeof label, "LABEL_%lld", (long long)i);
        mf_jw_kv_string(x->w, id, label);
    }
    mf_jw_end(x->w);
}

void mf_published_put_specials(mf_jw *w, const mf_tokenizer *t, bool absent)
{
    static const struct {
        mf_special role;
        const char *key;
    } roles[] = {{MF_SPECIAL_BOS, "bos_token_id"},
                 {MF_SPECIAL_EOS, "eos_token_id"},
                 {MF_SPECIAL_PAD, "pad_token_id"}};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const int32_t id = t ? t->special[roles[i].role] : -1;
        if (id < 0 && !absent) continue;
        mf_jw_key(w, roles[i].key);
        if (id >= 0)
            mf_jw_int(w, id);
        else
            mf_jw_null(w);
    }
}

int mf_published_config(const mf_session *s, const mf_published_form *form, char **ret)
{
    writer x = {.session = s, .c = s->config, .family = form->family, .w = mf_jw_new()};
    const bool classifies =
        s->config->model.task == MF_TASK_CLASSIFY && strcmp(form->family->name, "bert") == 0;
    const mf_model_settings m = mf_config_model(s->config);
    *ret = NULL;
    if (!x.w) return MF_ENOMEM;
    x.own = mf_model_moe(&m, -1);
    find_sizes(&x);
    int rc = mf_judge_any_experts(&s->config->model) ? plugin_sizes(&x) : MF_OK;
    find_shared(&x.f, &x.own);
    mf_jw_object(x.w);
    mf_jw_key(x.w, "architectures");
    mf_jw_array(x.w);
    mf_jw_string(x.w, classifies ? "BertForSequenceClassification" : form->class);
    mf_jw_end(x.w);
    mf_jw_kv_string(x.w, "model_type", form->family->types[0]);
    mf_jw_kv_string(x.w, "torch_dtype", "float32");
    for (const mf_key_default *d = form->family->defaults; d->key; d++)
        put_key(&x, d);
    /* a key that the classes of all decoders read, and that some do not list */
    if (!lists(&x, "head_dim") && !lists(&x, "kv_lora_rank") && lists(&x, "rope_theta") &&
        x.f.head_dim * x.f.heads != x.f.dim)
        mf_jw_kv_int(x.w, "head_dim", x.f.head_dim);
    put_rope(&x);
    put_dropout(&x);
    if (classifies) put_classes(&x);
    mf_published_put_specials(x.w, s->tokenizer, true); /* for older programs */
    put_real(&x, "initializer_range", s->config->model.init_std);
    mf_jw_kv_bool(x.w, "use_cache", true);
    mf_jw_end(x.w);
    const char *text = rc == MF_OK ? mf_jw_text(x.w, NULL) : NULL;
    if (rc == MF_OK && (!text || !(*ret = mf_strdup(text)))) rc = MF_ENOMEM;
    mf_jw_free(x.w);
    return rc;
}
