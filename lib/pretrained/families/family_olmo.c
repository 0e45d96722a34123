/* families/family_olmo.c: OLMoE (Muennighoff et al. 2024), OLMo 2, OLMo 3, FlexOlmo. Queries
 * and keys are normalised over all heads together. In OLMoE queries, keys and values are then
 * clipped. In the others the outputs of half blocks are normalised, not their inputs. OLMo 3
 * has blocks with a window, whose rope is not scaled. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    mf_keys_experts(k, "num_local_experts|num_experts", "intermediate_size",
                    mf_keys_bool(k, "norm_topk_prob"));
    mf_keys_set(k, "model.qk_norm=all");
    mf_keys_set(k, "model.clip_qkv=%.17g", mf_keys_real_or(k, "clip_qkv", 0));
}

/* The norms are applied to the output of the half block. */
static void outputs(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.norm_place=output");
    mf_keys_set(k, "model.qk_norm=all");
}

static void olmo2(mf_keys *k)
{
    outputs(k);
    mf_keys_rope(k, NULL);
    mf_keys_dense(k);
}

/* In transformers the base of rope in blocks with a window is 500000, unless they have their
 * own, whatever the key rope_theta is. */
static void olmo3(mf_keys *k)
{
    outputs(k);
    mf_keys_dense(k);
    mf_keys_rope_kinds(k, mf_keys_sliding(k, 4), 500000);
    const int64_t width = mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX);
    if (mf_keys_has(k, "layer_types"))
        mf_keys_window(k, width, true, 1, 0, 0);
    else
        mf_keys_window_except(k, width, 4);
}

static void flex_olmo(mf_keys *k)
{
    outputs(k);
    mf_keys_rope(k, NULL);
    mf_keys_experts(k, "num_local_experts|num_experts", "intermediate_size",
                    mf_keys_bool(k, "norm_topk_prob"));
}

/* These rules must precede MF_RULES_DECODER, which assigns tensors with these names to
 * other parameters. */
#define OUTPUT_NORMS                                                                           \
    {"model.layers.{l}.post_attention_layernorm.weight", "layers.{l}.norm1.weight",            \
     MF_PART_ALL, 0, NULL},                                                                    \
    {                                                                                          \
        "model.layers.{l}.post_feedforward_layernorm.weight", "layers.{l}.norm2.weight",       \
            MF_PART_ALL, 0, NULL                                                               \
    }

static const mf_family_rule rules_olmo2[] = {OUTPUT_NORMS, MF_RULES_DECODER, MF_RULES_QK_NORM,
                                             MF_RULES_DENSE, MF_RULES_END};
static const mf_family_rule rules_flex[] = {OUTPUT_NORMS,    MF_RULES_DECODER, MF_RULES_QK_NORM,
                                            MF_RULES_ROUTER, MF_RULES_EXPERTS, MF_RULES_END};
static const mf_family_rule rules[] = {MF_RULES_DECODER, MF_RULES_QK_NORM, MF_RULES_ROUTER,
                                       MF_RULES_EXPERTS, MF_RULES_END};

static const mf_key_default defaults_olmoe[] = {{"vocab_size", "50304"},
                                                {"hidden_size", "2048"},
                                                {"intermediate_size", "2048"},
                                                {"num_hidden_layers", "16"},
                                                {"num_attention_heads", "16"},
                                                {"num_key_value_heads", "null"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "4096"},
                                                {"rms_norm_eps", "1e-05"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"clip_qkv", "null"},
                                                {"num_experts_per_tok", "8"},
                                                {"num_experts", "64"},
                                                {"output_router_logits", "false"},
                                                {"router_aux_loss_coef", "0.01"},
                                                {"norm_topk_prob", "false"},
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const char *const types[] = {"olmoe", NULL};
const mf_family mf_family_olmoe = {.name = "olmoe",
                                   .peft_takes_experts = true,
                                   .types = types,
                                   .rules = rules,
                                   .defaults = defaults_olmoe,
                                   .settings = settings};

static const mf_key_default defaults_olmo2[] = {{"vocab_size", "50304"},
                                                {"hidden_size", "4096"},
                                                {"intermediate_size", "11008"},
                                                {"num_hidden_layers", "32"},
                                                {"num_attention_heads", "32"},
                                                {"num_key_value_heads", "null"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "2048"},
                                                {"rms_norm_eps", "1e-05"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const mf_key_default defaults_olmo3[] = {{"vocab_size", "50304"},
                                                {"hidden_size", "4096"},
                                                {"intermediate_size", "11008"},
                                                {"num_hidden_layers", "32"},
                                                {"num_attention_heads", "32"},
                                                {"num_key_value_heads", "null"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "2048"},
                                                {"rms_norm_eps", "1e-05"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"sliding_window", "4096"},
                                                {"layer_types", "null"},
                                                {"rope_theta", "500000.0"},
                                                MF_DEFAULTS_END};

static const mf_key_default defaults_flex_olmo[] = {{"vocab_size", "100352"},
                                                    {"hidden_size", "4096"},
                                                    {"intermediate_size", "11008"},
                                                    {"num_hidden_layers", "32"},
                                                    {"num_attention_heads", "32"},
                                                    {"num_key_value_heads", "null"},
                                                    {"hidden_act", "silu"},
                                                    {"max_position_embeddings", "4096"},
                                                    {"rms_norm_eps", "1e-06"},
                                                    {"tie_word_embeddings", "false"},
                                                    {"attention_bias", "false"},
                                                    {"norm_topk_prob", "false"},
                                                    {"num_experts", "7"},
                                                    {"num_experts_per_tok", "5"},
                                                    {"output_router_logits", "false"},
                                                    {"router_aux_loss_coef", "0.01"},
                                                    {"rope_theta", "500000.0"},
                                                    MF_DEFAULTS_END};

static const char *const types_olmo2[] = {"olmo2", NULL},
                         *const types_olmo3[] = {"olmo3", NULL},
                         *const types_flex[] = {"flex_olmo", NULL};
const mf_family mf_family_olmo2 = {.name = "olmo2",
                                   .types = types_olmo2,
                                   .rules = rules_olmo2,
                                   .defaults = defaults_olmo2,
                                   .settings = olmo2};
const mf_family mf_family_olmo3 = {.name = "olmo3",
                                   .types = types_olmo3,
                                   .rules = rules_olmo2,
                                   .defaults = defaults_olmo3,
                                   .settings = olmo3};
const mf_family mf_family_flex_olmo = {.name = "flex_olmo",
                                       .peft_takes_experts = true,
                                       .types = types_flex,
                                       .rules = rules_flex,
                                       .defaults = defaults_flex_olmo,
                                       .settings = flex_olmo};
