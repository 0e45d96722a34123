/* families/family_granite.c: Granite 3 with experts (granitemoe, granitemoeshared): decoders of
 * the Llama form with factors on embeddings, scores of attention, outputs of half blocks, and
 * logits. All experts of a layer are two tensors. */
#include "pretrained/families/family_rules.h"

static double factor(mf_keys *k, const char *name)
{
    return mf_keys_real_or(k, name, 1);
}

static void granitemoe(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    mf_keys_experts(k, "num_local_experts", "intermediate_size", true);
    mf_keys_set(k, "model.embed_scale=%.17g", factor(k, "embedding_multiplier"));
    mf_keys_set(k, "model.residual_scale=%.17g", factor(k, "residual_multiplier"));
    mf_keys_set(k, "model.attention_scale=%.17g", factor(k, "attention_multiplier"));
    mf_keys_set(k, "model.logit_scale=%.17g", 1 / factor(k, "logits_scaling"));
}

static void granitemoeshared(mf_keys *k)
{
    granitemoe(k);
    const int64_t shared = mf_keys_int(k, "shared_intermediate_size", 0, 1048576);
    if (shared == 0) return;
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)shared);
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    {"model.layers.{l}.block_sparse_moe.router.layer.weight", "layers.{l}.router.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.block_sparse_moe.input_linear.weight", "layers.{l}.expert.w13",
     MF_PART_ALL, MF_RULE_FUSED, NULL},
    {"model.layers.{l}.block_sparse_moe.output_linear.weight", "layers.{l}.expert.w2",
     MF_PART_ALL, MF_RULE_FUSED, NULL},
    {"model.layers.{l}.shared_mlp.input_linear.weight", "layers.{l}.shared.w13", MF_PART_ALL, 0,
     NULL},
    {"model.layers.{l}.shared_mlp.output_linear.weight", "layers.{l}.shared.w2", MF_PART_ALL, 0,
     NULL},
    MF_RULES_END};

static const mf_key_default defaults_granitemoe[] = {{"vocab_size", "32000"},
                                                     {"hidden_size", "4096"},
                                                     {"intermediate_size", "11008"},
                                                     {"num_hidden_layers", "32"},
                                                     {"num_attention_heads", "32"},
                                                     {"num_key_value_heads", "null"},
                                                     {"hidden_act", "silu"},
                                                     {"max_position_embeddings", "2048"},
                                                     {"rms_norm_eps", "1e-06"},
                                                     {"tie_word_embeddings", "false"},
                                                     {"attention_bias", "false"},
                                                     {"num_local_experts", "8"},
                                                     {"num_experts_per_tok", "2"},
                                                     {"output_router_logits", "false"},
                                                     {"router_aux_loss_coef", "0.001"},
                                                     {"embedding_multiplier", "1.0"},
                                                     {"logits_scaling", "1.0"},
                                                     {"residual_multiplier", "1.0"},
                                                     {"attention_multiplier", "1.0"},
                                                     {"rope_theta", "10000.0"},
                                                     MF_DEFAULTS_END};

static const mf_key_default defaults_granitemoeshared[] = {{"vocab_size", "32000"},
                                                           {"hidden_size", "4096"},
                                                           {"intermediate_size", "11008"},
                                                           {"num_hidden_layers", "32"},
                                                           {"num_attention_heads", "32"},
                                                           {"num_key_value_heads", "null"},
                                                           {"hidden_act", "silu"},
                                                           {"max_position_embeddings", "2048"},
                                                           {"rms_norm_eps", "1e-06"},
                                                           {"tie_word_embeddings", "false"},
                                                           {"attention_bias", "false"},
                                                           {"num_local_experts", "8"},
                                                           {"num_experts_per_tok", "2"},
                                                           {"output_router_logits", "false"},
                                                           {"router_aux_loss_coef", "0.001"},
                                                           {"embedding_multiplier", "1.0"},
                                                           {"logits_scaling", "1.0"},
                                                           {"residual_multiplier", "1.0"},
                                                           {"attention_multiplier", "1.0"},
                                                           {"shared_intermediate_size", "0"},
                                                           {"rope_theta", "10000.0"},
                                                           MF_DEFAULTS_END};

#define FAMILY(id)                                                                             \
    static const char *const types_##id[] = {#id, NULL};                                       \
    const mf_family mf_family_##id = {.name = #id,                                             \
                                      .types = types_##id,                                     \
                                      .rules = rules,                                          \
                                      .defaults = defaults_##id,                               \
                                      .settings = id};
FAMILY(granitemoe)
FAMILY(granitemoeshared)
