/* families/family_olmoe.c: OLMoE (Muennighoff et al. 2024). Queries and keys are normalised
 * over all heads together, then queries, keys and values are clipped; gates are not summed
 * to 1. */
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
