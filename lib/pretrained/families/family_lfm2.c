/* families/family_lfm2.c: LFM2 with experts (Liquid AI 2025): short convolutions in place of
 * attention in most blocks, norms of queries and keys by head, and a router that chooses by
 * sigmoids and a bias. transformers adds 1e-6 to the sum by which it divides the gates. This
 * makes them smaller by a few millionths, and is not done here. */
#include "pretrained/families/family_rules.h"

#include <string.h>

static bool is_convolution(mf_keys *k, int64_t layer)
{
    const mf_json *list = mf_json_get(k->json, "layer_types");
    const char *type = mf_json_string(mf_json_at(list, (size_t)layer), NULL);
    const bool is = type && strcmp(type, "conv") == 0;
    if (!is && (!type || strcmp(type, "full_attention") != 0))
        mf_keys_refuse(k, "layer_types",
                       "expected conv or full_attention for each of %lld blocks",
                       (long long)k->layers);
    return is;
}

static bool is_dense(mf_keys *k, int64_t layer)
{
    return layer < mf_keys_int(k, "num_dense_layers", 0, 1024);
}

static void settings(mf_keys *k)
{
    mf_keys_decoder_by(k, "norm_eps", NULL);
    k->tied = mf_keys_bool(k, "tie_embedding|tie_word_embeddings");
    mf_keys_set(k, "model.tie_embeddings=%s", k->tied ? "yes" : "no");
    mf_keys_rope(k, NULL);
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_blocks_where(k, "conv_layers", is_convolution);
    mf_keys_set(k, "model.conv_taps=%lld", (long long)mf_keys_int(k, "conv_L_cache", 2, 64));
    mf_keys_set(k, "model.conv_bias=%s", mf_keys_bool(k, "conv_bias") ? "yes" : "no");
    mf_keys_dense_where(k, is_dense);
    mf_keys_shared_experts(k, "num_experts", "moe_intermediate_size", NULL);
    if (!mf_keys_bool(k, "use_expert_bias"))
        mf_keys_refuse(k, "use_expert_bias",
                       "expected true: the tensor expert_bias is the state of the router");
    mf_keys_sigmoid_router(k, mf_keys_real(k, "routed_scaling_factor"),
                           mf_keys_bool(k, "norm_topk_prob"));
}

#define RULE(theirs, ours, part)                                                               \
    {                                                                                          \
        "model.layers.{l}." theirs ".weight", "layers.{l}." ours, part, 0, NULL                \
    }
#define CONVOLUTION(theirs, ours)                                                              \
    RULE("conv." theirs, "conv." ours ".weight", MF_PART_ALL),                                 \
    {                                                                                          \
        "model.layers.{l}.conv." theirs ".bias", "layers.{l}.conv." ours ".bias", MF_PART_ALL, \
            0, NULL                                                                            \
    }

static const mf_family_rule rules[] = {
    {"model.embed_tokens.weight", "embed.weight", MF_PART_ALL, 0, NULL},
    {"model.embedding_norm.weight", "norm.weight", MF_PART_ALL, 0, NULL},
    {"lm_head.weight", "head.weight", MF_PART_ALL, 0, NULL},
    {"lm_head.weight", "embed.weight", MF_PART_ALL, MF_RULE_TIED, "the tied output head"},
    RULE("operator_norm", "norm1.weight", MF_PART_ALL),
    RULE("ffn_norm", "norm2.weight", MF_PART_ALL),
    RULE("self_attn.q_proj", "attention.qkv.weight", MF_PART_Q),
    RULE("self_attn.k_proj", "attention.qkv.weight", MF_PART_K),
    RULE("self_attn.v_proj", "attention.qkv.weight", MF_PART_V),
    RULE("self_attn.out_proj", "attention.out.weight", MF_PART_ALL),
    RULE("self_attn.q_layernorm", "attention.q_norm.weight", MF_PART_ALL),
    RULE("self_attn.k_layernorm", "attention.k_norm.weight", MF_PART_ALL),
    {"model.layers.{l}.conv.conv.weight", "layers.{l}.conv.conv.weight", MF_PART_ALL,
     MF_RULE_FUSED, NULL},
    CONVOLUTION("in_proj", "in"),
    CONVOLUTION("out_proj", "out"),
    {"model.layers.{l}.conv.conv.bias", "layers.{l}.conv.conv.bias", MF_PART_ALL, 0, NULL},
    RULE("feed_forward.w1", "ffn.w1", MF_PART_GATE),
    RULE("feed_forward.w3", "ffn.w1", MF_PART_UP),
    RULE("feed_forward.w2", "ffn.w2", MF_PART_ALL),
    RULE("feed_forward.gate", "router.weight", MF_PART_ALL),
    {"model.layers.{l}.feed_forward.expert_bias", "layers.{l}.router.bias", MF_PART_ALL, 0,
     NULL},
    RULE("feed_forward.experts.{e}.w1", "expert.w13", MF_PART_GATE),
    RULE("feed_forward.experts.{e}.w3", "expert.w13", MF_PART_UP),
    RULE("feed_forward.experts.{e}.w2", "expert.w2", MF_PART_ALL),
    MF_RULES_END};

static const mf_key_default defaults_lfm2_moe[] = {{"vocab_size", "65536"},
                                                   {"hidden_size", "2048"},
                                                   {"intermediate_size", "7168"},
                                                   {"moe_intermediate_size", "1792"},
                                                   {"num_hidden_layers", "32"},
                                                   {"num_attention_heads", "32"},
                                                   {"num_key_value_heads", "8"},
                                                   {"max_position_embeddings", "128000"},
                                                   {"norm_eps", "1e-05"},
                                                   {"tie_word_embeddings", "true"},
                                                   {"conv_bias", "false"},
                                                   {"conv_L_cache", "3"},
                                                   {"num_dense_layers", "2"},
                                                   {"num_experts", "32"},
                                                   {"num_experts_per_tok", "4"},
                                                   {"use_expert_bias", "true"},
                                                   {"routed_scaling_factor", "1.0"},
                                                   {"norm_topk_prob", "true"},
                                                   {"rope_theta", "1000000.0"},
                                                   MF_DEFAULTS_END};

static const char *const types[] = {"lfm2_moe", NULL};
const mf_family mf_family_lfm2_moe = {.name = "lfm2_moe",
                                      .types = types,
                                      .rules = rules,
                                      .defaults = defaults_lfm2_moe,
                                      .settings = settings};
