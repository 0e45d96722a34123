/* pretrained/gguf/gguf_tables.c: the architectures llama, qwen2moe, qwen3moe, olmoe, gpt-oss
 * and gpt2. A parameter for which the table has no tensor is refused when the parameters
 * are counted. */
#include "pretrained/gguf/gguf_arch.h"

#include <stdio.h>
#include <string.h>
#include "pretrained/families/family_rules.h"
#include "pretrained/gguf/gguf_rules.h"

static const mf_config *config_of(const mf_export_run *x)
{
    return x->session->config;
}

/* Refuses models with dense blocks between those with experts. */
static int judge_dense(const mf_export_run *x)
{
    const mf_model_config *m = &config_of(x)->model;
    if (m->moe_every == 1 && m->dense_layers[0] == '\0') return MF_OK;
    return mf_gguf_refuse("a model with dense blocks",
                          "its architecture has experts in all blocks");
}

static int judge_renormalize(const mf_export_run *x, bool expected)
{
    if ((mf_gguf_moe(x).renormalize != 0) == expected) return MF_OK;
    return expected ? mf_gguf_refuse("moe.renormalize = no",
                                     "programs divide the gates of this architecture by their "
                                     "sum")
                    : mf_gguf_refuse("moe.renormalize = yes",
                                     "programs do not divide the gates of this architecture by "
                                     "their sum");
}

/* Refuses models in which the total width of the heads differs from the width of the model. */
static int judge_width(const mf_export_run *x)
{
    const mf_keys *k = &x->record->keys;
    if (k->heads * k->head_dim == k->dim) return MF_OK;
    return mf_gguf_refuse("model.head_dim", "this architecture has heads of dim / heads");
}

/* ---- llama: Mixtral, and dense decoders ---- */

static const mf_family_rule llama_rules[] = {MF_GGUF_RULES_ENDS,
                                             MF_GGUF_RULES_NORMS("ffn_norm"),
                                             MF_GGUF_RULES_ATTENTION(MF_RULE_TURNS),
                                             MF_GGUF_RULES_DENSE,
                                             MF_GGUF_RULES_EXPERTS,
                                             MF_RULES_END};

static int llama_judge(const mf_export_run *x)
{
    return x->record->keys.experts > 0 ? judge_renormalize(x, true) : MF_OK;
}

static void llama_keys(const mf_export_run *x, mf_gguf *w)
{
    const mf_keys *k = &x->record->keys;
    mf_gguf_arch_u32(w, &mf_gguf_llama, "vocab_size", k->vocab);
    mf_gguf_arch_u32(w, &mf_gguf_llama, "rope.dimension_count", k->head_dim);
}

static const char *const llama_families[] = {"mixtral", "llama", NULL};
const mf_gguf_arch mf_gguf_llama = {.name = "llama",
                                    .families = llama_families,
                                    .rules = llama_rules,
                                    .judge = llama_judge,
                                    .keys = llama_keys};

/* ---- qwen2moe ---- */

static const mf_family_rule qwen2moe_rules[] = {MF_GGUF_RULES_ENDS,
                                                MF_GGUF_RULES_NORMS("ffn_norm"),
                                                MF_GGUF_RULES_ATTENTION(0),
                                                MF_GGUF_RULES_EXPERTS,
                                                MF_GGUF_RULES_SHARED,
                                                {"blk.{l}.ffn_gate_inp_shexp.weight",
                                                 "layers.{l}.shared_gate.weight", MF_PART_ALL,
                                                 0, NULL},
                                                MF_RULES_END};

static int qwen2moe_judge(const mf_export_run *x)
{
    int rc = judge_dense(x);
    if (rc == MF_OK) rc = judge_renormalize(x, false);
    return rc == MF_OK ? judge_width(x) : rc;
}

static void qwen2moe_keys(const mf_export_run *x, mf_gguf *w)
{
    mf_gguf_arch_u32(w, &mf_gguf_qwen2moe, "expert_feed_forward_length",
                     (int64_t)mf_gguf_setting(x, "expert.hidden"));
    mf_gguf_arch_u32(w, &mf_gguf_qwen2moe, "expert_shared_feed_forward_length",
                     mf_gguf_moe(x).shared_hidden);
}

static const char *const qwen2moe_families[] = {"qwen2_moe", NULL};
const mf_gguf_arch mf_gguf_qwen2moe = {.name = "qwen2moe",
                                       .families = qwen2moe_families,
                                       .rules = qwen2moe_rules,
                                       .own_head = true,
                                       .judge = qwen2moe_judge,
                                       .keys = qwen2moe_keys};

/* ---- qwen3moe ---- */

static const mf_family_rule qwen3moe_rules[] = {
    MF_GGUF_RULES_ENDS,    MF_GGUF_RULES_NORMS("ffn_norm"), MF_GGUF_RULES_ATTENTION(0),
    MF_GGUF_RULES_QK_NORM, MF_GGUF_RULES_EXPERTS,           MF_RULES_END};

static int qwen3moe_judge(const mf_export_run *x)
{
    const int rc = judge_dense(x);
    if (rc == MF_OK && config_of(x)->model.attention_out_bias)
        return mf_gguf_refuse("attention_bias",
                              "this architecture has no bias behind attention");
    return rc == MF_OK ? judge_renormalize(x, true) : rc;
}

static void qwen3moe_keys(const mf_export_run *x, mf_gguf *w)
{
    mf_gguf_arch_u32(w, &mf_gguf_qwen3moe, "expert_feed_forward_length",
                     (int64_t)mf_gguf_setting(x, "expert.hidden"));
}

static const char *const qwen3moe_families[] = {"qwen3_moe", NULL};
const mf_gguf_arch mf_gguf_qwen3moe = {.name = "qwen3moe",
                                       .families = qwen3moe_families,
                                       .rules = qwen3moe_rules,
                                       .judge = qwen3moe_judge,
                                       .keys = qwen3moe_keys};

/* ---- olmoe ---- */

static int olmoe_judge(const mf_export_run *x)
{
    const mf_keys *k = &x->record->keys;
    const mf_model_config *m = &config_of(x)->model;
    int rc = judge_renormalize(x, false);
    if (rc == MF_OK) rc = judge_width(x);
    if (rc == MF_OK && m->clip_qkv > 0)
        rc = mf_gguf_refuse("clip_qkv", "programs would compute without this limit");
    if (rc == MF_OK && k->kv_heads != k->heads)
        rc = mf_gguf_refuse("num_key_value_heads",
                            "this architecture has as many heads of keys as of queries");
    if (rc == MF_OK && m->attention_out_bias)
        rc = mf_gguf_refuse("attention_bias", "this architecture has none");
    return rc;
}

static const char *const olmoe_families[] = {"olmoe", NULL};
const mf_gguf_arch mf_gguf_olmoe = {.name = "olmoe",
                                    .families = olmoe_families,
                                    .rules = qwen3moe_rules,
                                    .own_head = true,
                                    .judge = olmoe_judge};

/* ---- gpt-oss ---- */

static const mf_family_rule gpt_oss_rules[] = {
    MF_GGUF_RULES_ENDS,
    MF_GGUF_RULES_NORMS("post_attention_norm"),
    MF_GGUF_RULES_ATTENTION(0),
    MF_GGUF_RULES_EXPERTS,
    {"blk.{l}.attn_sinks.weight", "layers.{l}.attention.sinks", MF_PART_ALL, 0, NULL},
    {"blk.{l}.ffn_gate_inp.bias", "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
    {"blk.{l}.ffn_gate_exps.bias", "layers.{l}.expert.b13", MF_PART_GATE, MF_RULE_FUSED, NULL},
    {"blk.{l}.ffn_up_exps.bias", "layers.{l}.expert.b13", MF_PART_UP, MF_RULE_FUSED, NULL},
    {"blk.{l}.ffn_down_exps.bias", "layers.{l}.expert.b2", MF_PART_ALL, MF_RULE_FUSED, NULL},
    MF_RULES_END};

static int gpt_oss_judge(const mf_export_run *x)
{
    const mf_model_config *m = &config_of(x)->model;
    bool bad, pattern = true;
    for (int64_t l = 0; m->window > 0 && l < m->layers; l++)
        pattern = pattern && mf_model_in_layers(m->window_layers, l, &bad) == (l % 2 == 0);
    if (!pattern)
        return mf_gguf_refuse("layer_types",
                              "programs give blocks 0, 2, 4, ... a window, and no others");
    if (mf_gguf_setting(x, "expert.limit") != 7)
        return mf_gguf_refuse("swiglu_limit", "programs always limit to 7");
    if (mf_gguf_setting(x, "expert.alpha") != 1.702)
        return mf_gguf_refuse("swiglu_alpha", "programs always compute with 1.702");
    if (!m->attention_bias || !m->attention_out_bias)
        return mf_gguf_refuse("attention_bias = false", "this architecture has biases");
    return MF_OK;
}

static void gpt_oss_keys(const mf_export_run *x, mf_gguf *w)
{
    const int64_t window = config_of(x)->model.window;
    mf_gguf_arch_u32(w, &mf_gguf_gpt_oss, "attention.sliding_window",
                     window > 0 ? window : x->record->keys.seq);
    mf_gguf_arch_u32(w, &mf_gguf_gpt_oss, "expert_feed_forward_length",
                     (int64_t)mf_gguf_setting(x, "expert.hidden"));
}

static const char *const gpt_oss_families[] = {"gpt_oss", NULL};
const mf_gguf_arch mf_gguf_gpt_oss = {.name = "gpt-oss",
                                      .families = gpt_oss_families,
                                      .rules = gpt_oss_rules,
                                      .own_head = true,
                                      .judge = gpt_oss_judge,
                                      .keys = gpt_oss_keys};

/* ---- gpt2 ---- */

static const mf_family_rule gpt2_rules[] = {
    MF_GGUF_RULES_ENDS,
    {"position_embd.weight", "position.weight", MF_PART_ALL, 0, NULL},
    {"output_norm.bias", "norm.bias", MF_PART_ALL, 0, NULL},
    MF_GGUF_RULES_NORMS("ffn_norm"),
    {"blk.{l}.attn_norm.bias", "layers.{l}.norm1.bias", MF_PART_ALL, 0, NULL},
    {"blk.{l}.ffn_norm.bias", "layers.{l}.norm2.bias", MF_PART_ALL, 0, NULL},
    {"blk.{l}.attn_qkv.weight", "layers.{l}.attention.qkv.weight", MF_PART_ALL, 0, NULL},
    {"blk.{l}.attn_qkv.bias", "layers.{l}.attention.qkv.bias", MF_PART_ALL, 0, NULL},
    MF_GGUF_RULES_ATTENTION_OUT,
    {"blk.{l}.ffn_up.weight", "layers.{l}.ffn.w1", MF_PART_ALL, 0, NULL},
    {"blk.{l}.ffn_up.bias", "layers.{l}.ffn.b1", MF_PART_ALL, 0, NULL},
    {"blk.{l}.ffn_down.weight", "layers.{l}.ffn.w2", MF_PART_ALL, 0, NULL},
    {"blk.{l}.ffn_down.bias", "layers.{l}.ffn.b2", MF_PART_ALL, 0, NULL},
    MF_RULES_END};

static int gpt2_judge(const mf_export_run *x)
{
    if (config_of(x)->model.ffn_activation == MF_FFN_GELU_TANH) return MF_OK;
    return mf_gguf_refuse("activation_function = gelu", "programs compute the form with tanh");
}

static const char *const gpt2_families[] = {"gpt2", NULL};
const mf_gguf_arch mf_gguf_gpt2 = {
    .name = "gpt2", .families = gpt2_families, .rules = gpt2_rules, .judge = gpt2_judge};
