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

static const char *const types[] = {"olmoe", NULL};
const mf_family mf_family_olmoe = {.name = "olmoe",
                                   .peft_takes_experts = true,
                                   .types = types,
                                   .rules = rules,
                                   .defaults = mf_defaults_olmoe,
                                   .settings = settings};
