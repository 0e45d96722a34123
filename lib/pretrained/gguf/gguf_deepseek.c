/* pretrained/gguf/gguf_deepseek.c: the architecture deepseek2, of DeepSeek-V2 and V3.
 *
 * Programs keep one latent vector per token as keys and values of all heads. Therefore the
 * second halves of the latent weights are two tensors with a dimension of heads, and there is
 * one head of keys. */
#include "pretrained/gguf/gguf_arch.h"

#include <math.h>
#include <string.h>
#include "model/rope.h"
#include "pretrained/families/family_rules.h"
#include "pretrained/gguf/gguf_rules.h"

static const mf_family_rule rules[] = {
    MF_GGUF_RULES_ENDS,
    MF_GGUF_RULES_NORMS("ffn_norm"),
    MF_GGUF_RULES_ATTENTION_OUT,
    MF_GGUF_RULES_DENSE,
    MF_GGUF_RULES_EXPERTS,
    MF_GGUF_RULES_SHARED,
    {"blk.{l}.exp_probs_b.bias", "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
    {"blk.{l}.attn_q.weight", "layers.{l}.attention.q.weight", MF_PART_ALL, 0, NULL},
    {"blk.{l}.attn_q_a.weight", "layers.{l}.attention.q_down.weight", MF_PART_ALL, 0, NULL},
    {"blk.{l}.attn_q_a_norm.weight", "layers.{l}.attention.q_latent_norm.weight", MF_PART_ALL,
     0, NULL},
    {"blk.{l}.attn_q_b.weight", "layers.{l}.attention.q_up.weight", MF_PART_ALL, 0, NULL},
    {"blk.{l}.attn_kv_a_mqa.weight", "layers.{l}.attention.kv_down.weight", MF_PART_ALL, 0,
     NULL},
    {"blk.{l}.attn_kv_a_norm.weight", "layers.{l}.attention.kv_latent_norm.weight", MF_PART_ALL,
     0, NULL},
    {"blk.{l}.attn_k_b.weight", "layers.{l}.attention.k_up.weight", MF_PART_ALL,
     MF_RULE_BY_HEADS | MF_RULE_TRANSPOSED, NULL},
    {"blk.{l}.attn_v_b.weight", "layers.{l}.attention.v_up.weight", MF_PART_ALL,
     MF_RULE_BY_HEADS, NULL},
    MF_RULES_END};

static const mf_config *config_of(const mf_export_run *x)
{
    return x->session->config;
}

static bool is_v3(const mf_export_run *x)
{
    return strcmp(x->record->family->name, "deepseek_v3") == 0;
}

/* Number of groups that restrict the choice of experts; 0: no restriction. */
static int64_t groups_of(const mf_export_run *x)
{
    const int64_t n = (int64_t)mf_gguf_setting(x, "router.groups"),
                  open = (int64_t)mf_gguf_setting(x, "router.topk_groups");
    return n > 1 && open < n ? n : 0;
}

/* Number of dense blocks at the beginning. */
static int64_t dense_blocks(const mf_export_run *x)
{
    const mf_model_config *m = &config_of(x)->model;
    int64_t n = 0;
    bool bad;
    while (n < m->layers && mf_model_in_layers(m->dense_layers, n, &bad))
        n++;
    return n;
}

/* YaRN multiplies the scores by m squared, where m = multiplier ln(rope_factor) + 1. Returns
 * the multiplier; 0 if YaRN or attention_scale is not set. */
static double multiplier_of(const mf_model_config *m)
{
    if (m->rope_scaling != MF_ROPE_YARN || m->attention_scale <= 0 || m->rope_factor <= 1)
        return 0;
    const double square = m->attention_scale * sqrt((double)mf_model_head_dim(m));
    return (sqrt(square) - 1) / log(m->rope_factor);
}

static int judge(const mf_export_run *x)
{
    const mf_model_config *m = &config_of(x)->model;
    const bool lite = m->layers == 26 || m->layers == 27;
    const double own =
        m->rope_scaling == MF_ROPE_YARN && m->rope_factor > 1 && multiplier_of(m) == 0
            ? 0.1 * log(m->rope_factor) + 1
            : 1;
    if (m->rope_half) return mf_gguf_refuse("rope_interleave = false", "programs turn pairs");
    if (!is_v3(x) && groups_of(x) > 0)
        return mf_gguf_refuse(
            "topk_method = group_limited_greedy",
            "programs score a group by its two best experts, not by its best");
    if (fabs(mf_rope_magnitude(m) - own) > 1e-6)
        return mf_gguf_refuse("mscale other than mscale_all_dim",
                              "programs have one number for both");
    if (own != 1)
        return mf_gguf_refuse("yarn without mscale_all_dim",
                              "programs would also scale the scores");
    if (lite != (m->latent_q == 0))
        return mf_gguf_refuse(m->latent_q == 0 ? "q_lora_rank = null" : "q_lora_rank",
                              m->latent_q == 0 ? "programs expect it of all models but those "
                                                 "of 26 or 27 blocks"
                                               : "programs expect none of models of 26 or 27 "
                                                 "blocks");
    if (mf_gguf_moe(x).shared_experts == 0)
        return mf_gguf_refuse("n_shared_experts = 0", "this architecture has a shared expert");
    if (fabs(m->norm_eps - 1e-6) > 1e-12)
        return mf_gguf_refuse("rms_norm_eps",
                              "the norms of latent vectors have 1e-6, and programs give all "
                              "norms the same; expected 1e-6");
    return MF_OK;
}

static void keys(const mf_export_run *x, mf_gguf *w)
{
    const mf_gguf_arch *a = &mf_gguf_deepseek2;
    const mf_config *c = config_of(x);
    const mf_model_config *m = &c->model;
    const int64_t width = (int64_t)mf_gguf_setting(x, "expert.hidden");
    const double scale =
        is_v3(x) ? mf_gguf_setting(x, "router.scale") : mf_gguf_moe(x).gate_scale;
    const char *sum = mf_keys_setting(&x->record->keys, "router", "renormalize");
    if (groups_of(x) > 0) {
        mf_gguf_arch_u32(w, a, "expert_group_count", groups_of(x));
        mf_gguf_arch_u32(w, a, "expert_group_used_count",
                         (int64_t)mf_gguf_setting(x, "router.topk_groups"));
    }
    mf_gguf_arch_u32(w, a, "expert_gating_func", is_v3(x) ? 2 : 1); /* 2: sigmoid, 1: softmax */
    mf_gguf_arch_u32(w, a, "attention.key_length", m->latent + m->rope_dims);
    mf_gguf_arch_u32(w, a, "attention.value_length", m->latent);
    mf_gguf_arch_u32(w, a, "leading_dense_block_count", dense_blocks(x));
    mf_gguf_arch_u32(w, a, "vocab_size", x->record->keys.vocab);
    if (m->latent_q > 0) mf_gguf_arch_u32(w, a, "attention.q_lora_rank", m->latent_q);
    mf_gguf_arch_u32(w, a, "attention.kv_lora_rank", m->latent);
    mf_gguf_arch_u32(w, a, "attention.key_length_mla", mf_model_head_dim(m));
    mf_gguf_arch_u32(w, a, "attention.value_length_mla", mf_model_value_dim(m));
    mf_gguf_arch_u32(w, a, "expert_feed_forward_length", width);
    mf_gguf_arch_u32(w, a, "expert_shared_count", mf_gguf_moe(x).shared_hidden / width);
    mf_gguf_arch_f32(w, a, "expert_weights_scale", scale);
    if (is_v3(x) && sum && strcmp(sum, "yes") == 0)
        mf_gguf_bool(w, "deepseek2.expert_weights_norm", true);
    mf_gguf_arch_u32(w, a, "rope.dimension_count", m->rope_dims);
    if (multiplier_of(m) != 0)
        mf_gguf_arch_f32(w, a, "rope.scaling.yarn_log_multiplier", multiplier_of(m));
}

static const char *const families[] = {"deepseek_v2", "deepseek_v3", NULL};
const mf_gguf_arch mf_gguf_deepseek2 = {
    .name = "deepseek2", .families = families, .rules = rules, .judge = judge, .keys = keys};
