/* families/family_deepseek.c: DeepSeek-V2 and DeepSeek-V3 (DeepSeek-AI 2024), without fp8.
 * Attention reads keys and values from a latent vector; the first blocks are dense; the shared
 * experts are one expert of their width in all. The two differ in router and groups. */
#include "pretrained/families/family_rules.h"

#include <math.h>

/* turns: rotated pairs are neighbours in a head. */
static void attention(mf_keys *k, bool turns)
{
    const int64_t plain = mf_keys_int(k, "qk_nope_head_dim", 1, 65536),
                  rope = mf_keys_int(k, "qk_rope_head_dim", 2, 65536);
    double softmax;
    k->head_dim = plain + rope;
    mf_keys_rope(k, &softmax);
    mf_keys_set(k, "model.head_dim=%lld", (long long)k->head_dim);
    mf_keys_set(k, "model.rope_dims=%lld", (long long)rope);
    mf_keys_set(k, "model.rope_half=%s", turns ? "no" : "yes");
    mf_keys_set(k, "model.latent=%lld", (long long)mf_keys_int(k, "kv_lora_rank", 1, 65536));
    mf_keys_set(k, "model.latent_q=%lld",
                (long long)mf_keys_int_or(k, "q_lora_rank", 0, 0, 65536));
    mf_keys_set(k, "model.value_dim=%lld", (long long)mf_keys_int(k, "v_head_dim", 1, 65536));
    if (softmax != 1)
        mf_keys_set(k, "model.attention_scale=%.17g", softmax / sqrt((double)k->head_dim));
    if (k->kv_heads != k->heads)
        mf_keys_refuse(k, "num_key_value_heads", "expected num_attention_heads");
    if (mf_keys_bool(k, "attention_bias"))
        mf_keys_refuse(k, "attention_bias", "expected false");
}

/* experts: the key of their number. */
static void blocks(mf_keys *k, const char *experts)
{
    const int64_t dense = mf_keys_int_or(k, "first_k_dense_replace", 0, 0, k->layers),
                  width = mf_keys_int(k, "moe_intermediate_size", 1, 1048576),
                  shared = mf_keys_int_or(k, "n_shared_experts", 0, 0, 64),
                  top_k = mf_keys_int(k, "num_experts_per_tok", 1, 4096);
    k->experts = mf_keys_int(k, experts, 1, 4096);
    if (mf_keys_int_or(k, "moe_layer_freq", 1, 1, 1024) != 1)
        mf_keys_refuse(k, "moe_layer_freq", "expected 1");
    if (dense > 0) mf_keys_set(k, "model.dense_layers=0-%lld", (long long)dense - 1);
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=%lld", (long long)top_k);
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld", (long long)width);
    if (shared == 0) return;
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)(shared * width));
}

static void groups(mf_keys *k)
{
    mf_keys_set(k, "router.groups=%lld", (long long)mf_keys_int_or(k, "n_group", 1, 1, 4096));
    mf_keys_set(k, "router.topk_groups=%lld",
                (long long)mf_keys_int_or(k, "topk_group", 1, 1, 4096));
}

static void settings2(mf_keys *k)
{
    mf_keys_decoder(k);
    attention(k, true);
    blocks(k, "num_experts|n_routed_experts");
    mf_keys_expect_text(k, "scoring_func", "softmax");
    mf_keys_expect_text(k, "topk_method", "greedy|group_limited_greedy");
    if (mf_keys_bool_or(k, "norm_topk_prob", false))
        mf_keys_refuse(k, "norm_topk_prob", "expected false");
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "moe.renormalize=no");
    mf_keys_set(k, "moe.gate_scale=%.17g", mf_keys_real(k, "routed_scaling_factor"));
    if (mf_keys_is(k, "topk_method", "group_limited_greedy")) groups(k);
}

static void settings3(mf_keys *k)
{
    mf_keys_decoder(k);
    attention(k, mf_keys_bool_or(k, "rope_interleave", false));
    blocks(k, "num_local_experts|n_routed_experts");
    mf_keys_expect_text(k, "scoring_func", "sigmoid");
    mf_keys_expect_text(k, "topk_method", "noaux_tc");
    mf_keys_set(k, "router.plugin=sigmoid_bias");
    mf_keys_set(
        /* the bias of the trained model stays unless the run sets a rate */
        k, "router.rate=0");
    groups(k);
    mf_keys_set(k, "router.renormalize=%s",
                mf_keys_bool_or(k, "norm_topk_prob", false) ? "yes" : "no");
    mf_keys_set(k, "router.scale=%.17g", mf_keys_real(k, "routed_scaling_factor"));
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    MF_RULES_DENSE,
    MF_RULES_ROUTER,
    MF_RULES_EXPERTS,
    {"model.layers.{l}.mlp.gate.e_score_correction_bias", "layers.{l}.router.bias", MF_PART_ALL,
     0, NULL},
    {"model.layers.{l}.self_attn.q_proj.weight", "layers.{l}.attention.q.weight", MF_PART_ALL,
     0, NULL},
    {"model.layers.{l}.self_attn.q_a_proj.weight", "layers.{l}.attention.q_down.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.q_a_layernorm.weight",
     "layers.{l}.attention.q_latent_norm.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.q_b_proj.weight", "layers.{l}.attention.q_up.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_a_proj_with_mqa.weight",
     "layers.{l}.attention.kv_down.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_a_layernorm.weight",
     "layers.{l}.attention.kv_latent_norm.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_b_proj.weight", "layers.{l}.attention.k_up.weight",
     MF_PART_HEADS, 0, "layers.{l}.attention.v_up.weight"},
    {"model.layers.{l}.mlp.shared_experts.gate_proj.weight", "layers.{l}.shared.w13",
     MF_PART_GATE, 0, NULL},
    {"model.layers.{l}.mlp.shared_experts.up_proj.weight", "layers.{l}.shared.w13", MF_PART_UP,
     0, NULL},
    {"model.layers.{l}.mlp.shared_experts.down_proj.weight", "layers.{l}.shared.w2",
     MF_PART_ALL, 0, NULL},
    MF_RULES_END};

static const char *const types2[] = {"deepseek_v2", NULL}, *const types3[] = {"deepseek_v3",
                                                                              NULL};
const mf_family mf_family_deepseek_v2 = {.name = "deepseek_v2",
                                         .peft_takes_experts = true,
                                         .types = types2,
                                         .rules = rules,
                                         .defaults = mf_defaults_deepseek_v2,
                                         .settings = settings2};
const mf_family mf_family_deepseek_v3 = {.name = "deepseek_v3",
                                         .peft_takes_experts = true,
                                         .types = types3,
                                         .rules = rules,
                                         .defaults = mf_defaults_deepseek_v3,
                                         .settings = settings3};
