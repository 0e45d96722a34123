/* families/family_dbrx.c: DBRX (Databricks 2024): layernorm without biases, queries, keys and
 * values in one tensor and limited in size, and experts whose hidden units are the rows of
 * three tensors, one expert behind the other. Keys of attention and of experts are in
 * two objects. */
#include "pretrained/families/family_rules.h"

/* Reads the base of rope. transformers reads it beside the objects. If it is missing there, the
 * base in attn_config counts, as in the program of the model's authors. */
static void rope(mf_keys *k)
{
    mf_keys_rope(k, NULL);
    if (mf_keys_has(k, "rope_parameters.rope_theta") || mf_keys_has(k, "rope_theta") ||
        mf_keys_has(k, "rope_scaling.rope_theta") || !mf_keys_has(k, "attn_config.rope_theta"))
        return;
    const double theta = mf_keys_real(k, "attn_config.rope_theta");
    if (!(theta >= 1 && theta <= 1e9))
        mf_keys_refuse(k, "attn_config.rope_theta", "expected a number from 1 to 1e9, found %g",
                       theta);
    mf_keys_set(k, "model.rope_theta=%.17g", theta);
}

static void attention(mf_keys *k)
{
    const double clip = mf_keys_real_or(k, "attn_config.clip_qkv", 0);
    if (mf_keys_has(k, "attn_config.clip_qkv") && !(clip > 0 && clip <= 1e6))
        mf_keys_refuse(k, "attn_config.clip_qkv",
                       "expected null, or a number above 0 up to 1e6, "
                       "found %g",
                       clip);
    mf_keys_set(k, "model.position=rope");
    mf_keys_set(k, "model.rope_half=yes");
    mf_keys_set(k, "model.clip_qkv=%.17g", clip);
    rope(k);
}

/* Gates are divided by their norm of order moe_normalize_expert_weights. null: they are
 * not divided. */
static void experts(mf_keys *k)
{
    static const char order[] = "ffn_config.moe_normalize_expert_weights";
    const double p = mf_keys_real_or(k, order, 0);
    if (mf_keys_has(k, order) && !(p >= 1 && p <= 100))
        mf_keys_refuse(k, order, "expected null, or a number from 1 to 100, found %g", p);
    if (mf_keys_has(k, "ffn_config.ffn_act_fn.name"))
        mf_keys_expect_text(k, "ffn_config.ffn_act_fn.name", "silu|swish");
    mf_keys_experts_by(k, "ffn_config.moe_num_experts", "ffn_config.moe_top_k",
                       "ffn_config.ffn_hidden_size", "ffn_config.moe_loss_weight", p == 1);
    if (p > 1) mf_keys_set(k, "router.gate_norm=%.17g", p);
}

static void objects(mf_keys *k)
{
    static const char *const names[] = {"attn_config", "ffn_config", "ffn_config.ffn_act_fn"};
    for (int i = 0; i < 3; i++) {
        const mf_json *v = i < 2 ? mf_json_get(k->json, names[i])
                                 : mf_json_get(mf_json_get(k->json, names[1]), "ffn_act_fn");
        if (v && mf_json_typeof(v) != MF_JSON_NULL && mf_json_typeof(v) != MF_JSON_OBJECT)
            mf_keys_refuse(k, names[i], "expected null or an object");
    }
}

static void settings(mf_keys *k)
{
    objects(k);
    k->vocab = mf_keys_int(k, "vocab_size", 1, 16777216);
    k->dim = mf_keys_int(k, "hidden_size|d_model", 1, 65536);
    k->layers = mf_keys_int(k, "num_hidden_layers|n_layers", 1, 1024);
    k->heads = mf_keys_int(k, "num_attention_heads|n_heads", 1, 1024);
    k->kv_heads = mf_keys_int(k, "attn_config.kv_n_heads", 1, 1024);
    k->head_dim = k->dim / k->heads;
    k->seq = mf_keys_int(k, "max_position_embeddings|max_seq_len", 1, 1048576);
    if (mf_keys_bool(k, "tie_word_embeddings"))
        mf_keys_refuse(k, "tie_word_embeddings", "expected false");
    mf_keys_set(k, "model.task=lm");
    mf_keys_set(k, "model.dim=%lld", (long long)k->dim);
    mf_keys_set(k, "model.layers=%lld", (long long)k->layers);
    mf_keys_set(k, "model.heads=%lld", (long long)k->heads);
    mf_keys_set(k, "model.kv_heads=%lld", (long long)k->kv_heads);
    mf_keys_set(k, "model.seq=%lld", (long long)k->seq);
    mf_keys_set(k, "model.vocab=%lld", (long long)k->vocab);
    mf_keys_set(k, "model.norm=layernorm");
    mf_keys_set(k, "model.norm_place=pre");
    mf_keys_set(k, "model.norm_bias=no");
    mf_keys_set(k, "model.norm_eps=1e-5");
    attention(k);
    experts(k);
}

#define BLOCK  "transformer.blocks.{l}."
#define JOINED BLOCK "ffn.experts.mlp."

static const mf_family_rule rules[] = {
    {"transformer.wte.weight", "embed.weight", MF_PART_ALL, 0, NULL},
    {"transformer.norm_f.weight", "norm.weight", MF_PART_ALL, 0, NULL},
    {"lm_head.weight", "head.weight", MF_PART_ALL, 0, NULL},
    {BLOCK "norm_attn_norm.norm_1.weight", "layers.{l}.norm1.weight", MF_PART_ALL, 0, NULL},
    {BLOCK "norm_attn_norm.norm_2.weight", "layers.{l}.norm2.weight", MF_PART_ALL, 0, NULL},
    {BLOCK "norm_attn_norm.attn.Wqkv.weight", "layers.{l}.attention.qkv.weight", MF_PART_ALL, 0,
     NULL},
    {BLOCK "norm_attn_norm.attn.out_proj.weight", "layers.{l}.attention.out.weight",
     MF_PART_ALL, 0, NULL},
    {BLOCK "ffn.router.layer.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL},
    {JOINED "w1", "layers.{l}.expert.w13", MF_PART_GATE, MF_RULE_JOINED, NULL},
    {JOINED "v1", "layers.{l}.expert.w13", MF_PART_UP, MF_RULE_JOINED, NULL},
    {JOINED "w2", "layers.{l}.expert.w2", MF_PART_ALL, MF_RULE_JOINED | MF_RULE_TRANSPOSED,
     NULL},
    MF_RULES_END};

static const mf_key_default defaults_dbrx[] = {
    {"vocab_size", "32000"},
    {"d_model", "2048"},
    {"n_layers", "24"},
    {"n_heads", "16"},
    {"max_seq_len", "2048"},
    {"tie_word_embeddings", "false"},
    {"output_router_logits", "false"},
    {"attn_config.clip_qkv", "null"},
    {"attn_config.kv_n_heads", "1"},
    {"ffn_config.ffn_hidden_size", "3584"},
    {"ffn_config.moe_num_experts", "4"},
    {"ffn_config.moe_top_k", "1"},
    {"ffn_config.moe_loss_weight", "0.01"},
    {"ffn_config.moe_normalize_expert_weights", "1.0"},
    {"rope_theta", "10000.0"},
    MF_DEFAULTS_END};

static const char *const types[] = {"dbrx", NULL};
const mf_family mf_family_dbrx = {.name = "dbrx",
                                  .types = types,
                                  .rules = rules,
                                  .defaults = defaults_dbrx,
                                  .settings = settings};
