/* families/family_afmoe.c: AFMoE (Arcee's Trinity 2025): norms before and after each half
 * block, norms of queries and keys by head, and gates on the outputs of heads. Only blocks with
 * a window have rope. The router chooses by sigmoids and a bias. */
#include "pretrained/families/family_rules.h"

#include <math.h>

static bool is_dense(mf_keys *k, int64_t layer)
{
    return layer < mf_keys_int_or(k, "num_dense_layers", 0, 0, 1024);
}

static void windows(mf_keys *k)
{
    const int64_t width = mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX);
    if (mf_keys_has(k, "layer_types")) {
        mf_keys_window(k, width, true, 1, 0, 0);
        mf_keys_rope_sliding(k);
    } else {
        const int64_t step = mf_keys_int(k, "global_attn_every_n_layers", 1, 1024);
        mf_keys_window_except(k, width, step);
        mf_keys_rope_except(k, step);
    }
}

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.norm_place=both");
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_set(k, "model.attention_gate=yes");
    if (mf_keys_bool_or(k, "mup_enabled", false))
        mf_keys_set(k, "model.embed_scale=%.17g", sqrt((double)k->dim));
    windows(k);
    mf_keys_dense_where(k, is_dense);
    mf_keys_shared_experts(k, "num_local_experts|num_experts", "moe_intermediate_size",
                           "num_shared_experts");
    mf_keys_sigmoid_router(k, mf_keys_real_or(k, "route_scale", 1), true);
}

#define NORM(theirs, ours)                                                                     \
    {                                                                                          \
        "model.layers.{l}." theirs ".weight", "layers.{l}." ours ".weight", MF_PART_ALL, 0,    \
            NULL                                                                               \
    }

/* The rules of norms must precede MF_RULES_DECODER, which assigns tensors with these names to
 * other parameters. */
static const mf_family_rule rules[] = {
    NORM("post_attention_layernorm", "norm1_out"),
    NORM("pre_mlp_layernorm", "norm2"),
    NORM("post_mlp_layernorm", "norm2_out"),
    MF_RULES_DECODER,
    MF_RULES_QK_NORM,
    MF_RULES_DENSE,
    MF_RULES_EXPERTS,
    MF_RULES_SHARED,
    NORM("self_attn.gate_proj", "attention.out_gate"),
    NORM("mlp.router.gate", "router"),
    {"model.layers.{l}.mlp.expert_bias", "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
    MF_RULES_END};

static const mf_key_default defaults_afmoe[] = {{"vocab_size", "200192"},
                                                {"hidden_size", "2048"},
                                                {"intermediate_size", "6144"},
                                                {"moe_intermediate_size", "1408"},
                                                {"num_hidden_layers", "32"},
                                                {"num_dense_layers", "1"},
                                                {"num_attention_heads", "16"},
                                                {"num_key_value_heads", "null"},
                                                {"head_dim", "128"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "16384"},
                                                {"rms_norm_eps", "1e-05"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"num_experts", "64"},
                                                {"num_experts_per_tok", "6"},
                                                {"num_shared_experts", "2"},
                                                {"route_scale", "1.0"},
                                                {"global_attn_every_n_layers", "4"},
                                                {"sliding_window", "1024"},
                                                {"layer_types", "null"},
                                                {"mup_enabled", "false"},
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const char *const types[] = {"afmoe", NULL};
const mf_family mf_family_afmoe = {.name = "afmoe",
                                   .peft_takes_experts = true,
                                   .types = types,
                                   .rules = rules,
                                   .defaults = defaults_afmoe,
                                   .settings = settings};
