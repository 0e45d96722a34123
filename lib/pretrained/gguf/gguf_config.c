/* gguf/gguf_config.c: the config.json of a GGUF file: the keys of its architecture, under
 * the names of the family that has this architecture. What GGUF does not say, because
 * programs know it of the architecture (such as whether gates are divided by their sum), is
 * written as they compute it. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "base/text/shown.h"
#include "model/rope.h"
#include "pretrained/gguf/gguf_arch.h"
#include "pretrained/gguf/gguf_in.h"

typedef struct source {
    const mf_gguf_in *f;
    const char *arch; /* value of general.architecture */
    mf_jw *w;
    int64_t experts, heads, dim, head_dim;
    int rc; /* the first error */
} source;

enum { KEY = 96 };

/* ---- keys ---- */

static bool find_int(const source *s, const char *name, int64_t *ret)
{
    char key[KEY];
    snprintf(key, sizeof key, "%s.%s", s->arch, name);
    return mf_gguf_get_int(s->f, key, ret);
}

static bool find_real(const source *s, const char *name, double *ret)
{
    char key[KEY];
    snprintf(key, sizeof key, "%s.%s", s->arch, name);
    return mf_gguf_get_real(s->f, key, ret);
}

static int refuse(source *s, const char *what)
{
    if (s->rc == MF_OK) s->rc = mf_fail(MF_EINPUT, "%s: %s", mf_gguf_path(s->f), what);
    return s->rc;
}

/* Returns a whole number that must exist. */
static int64_t need(source *s, const char *name)
{
    int64_t v = 0;
    if (s->rc == MF_OK && (!find_int(s, name, &v) || v < 0 || v > INT32_MAX))
        s->rc = mf_fail(MF_EINPUT, "%s: key '%s.%s': expected a whole number of at least 0",
                        mf_gguf_path(s->f), s->arch, name);
    return v;
}

static double need_real(source *s, const char *name)
{
    double v = 0;
    if (s->rc == MF_OK && !find_real(s, name, &v))
        s->rc = mf_fail(MF_EINPUT, "%s: key '%s.%s': expected a real number",
                        mf_gguf_path(s->f), s->arch, name);
    return v;
}

/* Writes a real number as the shortest text of the f32 that it is in the file. */
static void put_real(source *s, const char *key, double v)
{
    mf_jw_key(s->w, key);
    mf_jw_float(s->w, (float)v);
}

static void put(source *s, const char *key, const char *name)
{
    mf_jw_kv_int(s->w, key, need(s, name));
}

/* ---- rope ---- */

/* A scaling of rope, no router. */
static const char by_factor[] = "linear";

static bool is_text(mf_gguf_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.text, text, s.n) == 0;
}

/* The factors that programs divide frequencies by, as a tensor: those of Llama 3, whose own
 * numbers the file does not have. The known models are tried. */
static bool put_llama3(source *s, const mf_gguf_in_tensor *t, double theta)
{
    static const double known[] = {8, 32, 16}; /* Llama 3.1 and 3.3; 3.2; 4 Scout */
    const int64_t n = t->count;
    float *own = mf_alloc((size_t)n + 1, sizeof *own);
    bool found = false;
    for (size_t i = 0; own && t->type == MF_GGUF_F32 && i < sizeof known / sizeof *known; i++) {
        const mf_model_config c = {.rope_scaling = MF_ROPE_LLAMA3,
                                   .rope_theta = theta,
                                   .rope_factor = known[i],
                                   .rope_low = 1,
                                   .rope_high = 4,
                                   .rope_original = 8192};
        float given, most = 0;
        mf_rope_factors(&c, 2 * n, own);
        for (int64_t j = 0; j < n; j++) {
            mf_gguf_decode(t->type, t->data + 4 * j, 1, &given);
            most = fmaxf(most, fabsf(own[j] * given - 1));
        }
        if (!(most < 1e-4F)) continue;
        found = true;
        mf_jw_kv_string(s->w, "rope_type", "llama3");
        mf_jw_kv_real(s->w, "factor", known[i]);
        mf_jw_kv_real(s->w, "low_freq_factor", 1);
        mf_jw_kv_real(s->w, "high_freq_factor", 4);
        mf_jw_kv_int(s->w, "original_max_position_embeddings", 8192);
        break;
    }
    mf_free(own);
    return found;
}

static void put_yarn(source *s)
{
    double v;
    mf_jw_kv_int(s->w, "original_max_position_embeddings",
                 need(s, "rope.scaling.original_context_length"));
    if (find_real(s, "rope.scaling.yarn_beta_fast", &v)) put_real(s, "beta_fast", v);
    if (find_real(s, "rope.scaling.yarn_beta_slow", &v)) put_real(s, "beta_slow", v);
    if (find_real(s, "rope.scaling.attn_factor", &v))
        mf_jw_kv_real(s->w, "attention_factor",
                      v * (0.1 * log(need_real(s, "rope.scaling.factor")) + 1));
    /* mscale of DeepSeek; programs have one number for both */
    if (find_real(s, "rope.scaling.yarn_log_multiplier", &v)) {
        put_real(s, "mscale", v * 10);
        put_real(s, "mscale_all_dim", v * 10);
    }
    /* GGUF does not say it; the published model does not round the bounds of the ramp */
    if (strcmp(s->arch, "gpt-oss") == 0) mf_jw_kv_bool(s->w, "truncate", false);
}

static void put_rope(source *s)
{
    char key[KEY];
    mf_gguf_str type = {"none", 4};
    double theta = 10000, factor;
    const mf_gguf_in_tensor *factors = mf_gguf_tensor_find(s->f, "rope_freqs.weight");
    find_real(s, "rope.freq_base", &theta);
    put_real(s, "rope_theta", theta);
    snprintf(key, sizeof key, "%s.rope.scaling.type", s->arch);
    mf_gguf_get_str(s->f, key, &type);
    const bool linear = is_text(type, by_factor), yarn = is_text(type, "yarn"),
               none = is_text(type, "none");
    if (!linear && !yarn && !none)
        refuse(s, "rope.scaling.type: expected none, linear or yarn");
    if (factors && !none) refuse(s, "rope_freqs.weight beside rope.scaling.type");
    if (none && !factors) { /* some families have a scaling unless it is ruled out */
        mf_jw_key(s->w, "rope_parameters");
        mf_jw_object(s->w);
        mf_jw_kv_string(s->w, "rope_type", "default");
        put_real(s, "rope_theta", theta);
        mf_jw_end(s->w);
        return;
    }
    mf_jw_key(s->w, "rope_scaling");
    mf_jw_object(s->w);
    if (factors && none) {
        if (!put_llama3(s, factors, theta))
            refuse(s, "rope_freqs.weight: expected the factors of Llama 3.1, 3.2 or 3.3");
    } else {
        factor = need_real(s, "rope.scaling.factor");
        mf_jw_kv_string(s->w, "rope_type", linear ? by_factor : "yarn");
        put_real(s, "factor", factor);
        if (yarn) put_yarn(s);
    }
    mf_jw_end(s->w);
}

/* ---- what all decoders say ---- */

static void put_decoder(source *s, const char *type)
{
    int64_t v, key_length;
    mf_jw_kv_string(s->w, "model_type", type);
    put(s, "hidden_size", "embedding_length");
    put(s, "num_hidden_layers", "block_count");
    put(s, "num_attention_heads", "attention.head_count");
    put(s, "max_position_embeddings", "context_length");
    put_real(s, "rms_norm_eps", need_real(s, "attention.layer_norm_rms_epsilon"));
    if (strcmp(s->arch, "deepseek2") != 0) {
        v = s->heads;
        find_int(s, "attention.head_count_kv", &v);
        mf_jw_kv_int(s->w, "num_key_value_heads", v);
        if (find_int(s, "attention.key_length", &key_length)) {
            mf_jw_kv_int(s->w, "head_dim", key_length);
            if (find_int(s, "attention.value_length", &v) && v != key_length)
                refuse(s, "attention.value_length: expected attention.key_length");
        }
    } else {
        mf_jw_kv_int(s->w, "num_key_value_heads", s->heads);
    }
    put_rope(s);
}

static void put_experts(source *s, const char *count)
{
    mf_jw_kv_int(s->w, count, s->experts);
    put(s, "num_experts_per_tok", "expert_used_count");
}

/* ---- the architectures ---- */

static void llama(source *s)
{
    int64_t rotated = s->head_dim;
    put_decoder(s, s->experts > 0 ? "mixtral" : "llama");
    put(s, "intermediate_size", "feed_forward_length");
    if (find_int(s, "rope.dimension_count", &rotated) && rotated != s->head_dim)
        refuse(s, "rope.dimension_count: expected the width of a head");
    if (s->experts > 0) put_experts(s, "num_local_experts");
}

static void qwen2moe(source *s)
{
    put_decoder(s, "qwen2_moe");
    put(s, "intermediate_size", "feed_forward_length");
    put_experts(s, "num_experts");
    put(s, "moe_intermediate_size", "expert_feed_forward_length");
    put(s, "shared_expert_intermediate_size", "expert_shared_feed_forward_length");
    mf_jw_kv_bool(s->w, "norm_topk_prob", false);
    mf_jw_kv_bool(s->w, "use_sliding_window", false);
}

static void qwen3moe(source *s)
{
    put_decoder(s, "qwen3_moe");
    put(s, "intermediate_size", "feed_forward_length");
    put_experts(s, "num_experts");
    put(s, "moe_intermediate_size", "expert_feed_forward_length");
    mf_jw_kv_bool(s->w, "norm_topk_prob", true);
    mf_jw_kv_bool(s->w, "use_sliding_window", false);
}

static void olmoe(source *s)
{
    put_decoder(s, "olmoe");
    put(s, "intermediate_size", "feed_forward_length");
    put_experts(s, "num_experts");
    mf_jw_kv_bool(s->w, "norm_topk_prob", false);
}

static void gpt_oss(source *s)
{
    put_decoder(s, "gpt_oss");
    put_experts(s, "num_local_experts");
    put(s, "intermediate_size", "expert_feed_forward_length");
    put(s, "sliding_window", "attention.sliding_window");
    mf_jw_kv_bool(s->w, "attention_bias", true);
}

static void deepseek2(source *s)
{
    int64_t gating = 1, v, rope = need(s, "rope.dimension_count"), whole = 0;
    bool sums = false;
    find_int(s, "expert_gating_func", &gating);
    const bool v3 = gating == 2;
    if (!v3 && find_int(s, "expert_group_count", &v) && v > 1)
        refuse(s,
               "expert_group_count with expert_gating_func = 1: programs score a group by its "
               "two best experts there, and no family here does");
    if (gating != 1 && gating != 2) refuse(s, "expert_gating_func: expected 1 or 2");
    if (s->rc == MF_OK && !find_int(s, "attention.key_length_mla", &whole))
        refuse(s,
               "key 'deepseek2.attention.key_length_mla' is missing: expected a file of 2025 "
               "or later, which has the halves of the latent weights apart");
    put_decoder(s, v3 ? "deepseek_v3" : "deepseek_v2");
    put(s, "intermediate_size", "feed_forward_length");
    put_experts(s, "n_routed_experts");
    put(s, "moe_intermediate_size", "expert_feed_forward_length");
    put(s, "n_shared_experts", "expert_shared_count");
    put(s, "first_k_dense_replace", "leading_dense_block_count");
    put(s, "kv_lora_rank", "attention.kv_lora_rank");
    mf_jw_key(s->w, "q_lora_rank");
    if (find_int(s, "attention.q_lora_rank", &v))
        mf_jw_int(s->w, v);
    else
        mf_jw_null(s->w);
    mf_jw_kv_int(s->w, "qk_rope_head_dim", rope);
    mf_jw_kv_int(s->w, "qk_nope_head_dim", whole - rope);
    put(s, "v_head_dim", "attention.value_length_mla");
    mf_gguf_get_bool(s->f, "deepseek2.expert_weights_norm", &sums);
    mf_jw_kv_bool(s->w, "norm_topk_prob", sums);
    double scale = 1;
    find_real(s, "expert_weights_scale", &scale);
    put_real(s, "routed_scaling_factor", scale);
    if (!v3) {
        mf_jw_kv_string(s->w, "topk_method", "greedy");
        return;
    }
    v = 1;
    find_int(s, "expert_group_count", &v);
    mf_jw_kv_int(s->w, "n_group", v);
    v = 1;
    find_int(s, "expert_group_used_count", &v);
    mf_jw_kv_int(s->w, "topk_group", v);
}

static void gpt2(source *s)
{
    mf_jw_kv_string(s->w, "model_type", "gpt2");
    put(s, "n_embd", "embedding_length");
    put(s, "n_layer", "block_count");
    put(s, "n_head", "attention.head_count");
    put(s, "n_positions", "context_length");
    put(s, "n_inner", "feed_forward_length");
    put_real(s, "layer_norm_epsilon", need_real(s, "attention.layer_norm_epsilon"));
    mf_jw_kv_string(s->w, "activation_function", "gelu_new");
}

static const struct {
    const mf_gguf_arch *arch;
    void (*put)(source *s);
} architectures[] = {
    {&mf_gguf_llama, llama}, {&mf_gguf_qwen2moe, qwen2moe},   {&mf_gguf_qwen3moe, qwen3moe},
    {&mf_gguf_olmoe, olmoe}, {&mf_gguf_deepseek2, deepseek2}, {&mf_gguf_gpt_oss, gpt_oss},
    {&mf_gguf_gpt2, gpt2}};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

/* Whether the file has no head of its own, or one that repeats the embedding. */
static bool is_tied(const mf_gguf_in *f)
{
    const mf_gguf_in_tensor *head = mf_gguf_tensor_find(f, "output.weight"),
                            *embed = mf_gguf_tensor_find(f, "token_embd.weight");
    return !head || (embed && head->type == embed->type && head->bytes == embed->bytes &&
                     memcmp(head->data, embed->data, head->bytes) == 0);
}

static int put_config(source *s, int at, bool tied)
{
    const mf_gguf_in_tensor *embed = mf_gguf_tensor_find(s->f, "token_embd.weight");
    if (!embed || embed->rank != 2)
        return refuse(s, "tensor 'token_embd.weight': expected a matrix");
    find_int(s, "expert_count", &s->experts);
    s->heads = need(s, "attention.head_count");
    s->dim = need(s, "embedding_length");
    s->head_dim = s->heads > 0 ? s->dim / s->heads : 0;
    find_int(s, "attention.key_length", &s->head_dim);
    mf_jw_object(s->w);
    mf_jw_kv_int(s->w, "vocab_size", embed->shape[0]);
    mf_jw_kv_bool(s->w, "tie_word_embeddings", tied);
    architectures[at].put(s);
    mf_jw_end(s->w);
    return s->rc;
}

int mf_gguf_config(const mf_gguf_in *f, char **ret, const mf_family_rule **ret_rules,
                   bool *ret_tied)
{
    mf_gguf_str name = {"", 0};
    char text[64];
    int at = 0;
    *ret = NULL;
    if (!mf_gguf_get_str(f, "general.architecture", &name))
        return mf_fail(MF_EINPUT, "%s: key 'general.architecture': expected a text",
                       mf_gguf_path(f));
    snprintf(text, sizeof text, "%.*s", (int)(name.n < 60 ? name.n : 60), name.text);
    while (at < ARCHITECTURES && strcmp(architectures[at].arch->name, text) != 0)
        at++;
    if (at == ARCHITECTURES)
        return mf_fail(MF_EINPUT,
                       "%s: architecture '%s' is not imported from GGUF; expected llama, "
                       "qwen2moe, qwen3moe, olmoe, deepseek2, gpt-oss or gpt2, or the folder "
                       "from which the file was made",
                       mf_gguf_path(f), mf_shown(text));
    source s = {.f = f, .arch = architectures[at].arch->name, .w = mf_jw_new()};
    if (!s.w) return MF_ENOMEM;
    *ret_tied = is_tied(f);
    *ret_rules = architectures[at].arch->rules;
    int rc = put_config(&s, at, *ret_tied);
    const char *written = rc == MF_OK ? mf_jw_text(s.w, NULL) : NULL;
    if (rc == MF_OK) rc = written && (*ret = mf_strdup(written)) ? MF_OK : MF_ENOMEM;
    mf_jw_free(s.w);
    return rc;
}
