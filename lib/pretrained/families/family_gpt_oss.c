/* families/family_gpt_oss.c: gpt-oss (OpenAI 2025), with weights that are not quantised.
 * Every other block attends within a window; heads have sinks. Experts have biases and a limit,
 * and are stored [experts, in, out], with gate and up in even and odd columns. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_experts(k, "num_experts|num_local_experts", "intermediate_size", true);
    mf_keys_window(k, mf_keys_int(k, "sliding_window", 1, INT32_MAX), true, 2, 0, k->layers);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.sinks=yes");
    mf_keys_set(k, "router.bias=yes");
    mf_keys_set(k, "expert.bias=yes");
    mf_keys_set(k, "expert.shift=1");
    mf_keys_set(k, "expert.limit=%.17g", mf_keys_real(k, "swiglu_limit"));
    mf_keys_set(k, "expert.alpha=%.17g", mf_keys_real(k, "swiglu_alpha"));
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    {"model.layers.{l}.self_attn.sinks", "layers.{l}.attention.sinks", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.mlp.router.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.mlp.router.bias", "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.mlp.experts.gate_up_proj", "layers.{l}.expert.w13", MF_PART_PAIRS,
     MF_RULE_FUSED | MF_RULE_TRANSPOSED, NULL},
    {"model.layers.{l}.mlp.experts.gate_up_proj_bias", "layers.{l}.expert.b13", MF_PART_PAIRS,
     MF_RULE_FUSED, NULL},
    {"model.layers.{l}.mlp.experts.down_proj", "layers.{l}.expert.w2", MF_PART_ALL,
     MF_RULE_FUSED | MF_RULE_TRANSPOSED, NULL},
    {"model.layers.{l}.mlp.experts.down_proj_bias", "layers.{l}.expert.b2", MF_PART_ALL,
     MF_RULE_FUSED, NULL},
    MF_RULES_END};

static const mf_key_default defaults_gpt_oss[] = {
    {"vocab_size", "201088"},
    {"hidden_size", "2880"},
    {"intermediate_size", "2880"},
    {"num_hidden_layers", "36"},
    {"num_attention_heads", "64"},
    {"num_key_value_heads", "8"},
    {"head_dim", "64"},
    {"hidden_act", "silu"},
    {"max_position_embeddings", "131072"},
    {"rms_norm_eps", "1e-05"},
    {"tie_word_embeddings", "false"},
    {"attention_bias", "true"},
    {"sliding_window", "128"},
    {"layer_types", "null"},
    {"num_experts_per_tok", "4"},
    {"num_local_experts", "128"},
    {"output_router_logits", "false"},
    {"router_aux_loss_coef", "0.001"},
    {"swiglu_alpha", "1.702"},
    {"swiglu_limit", "7.0"},
    {"rope_theta", "150000.0"},
    {"rope_parameters.rope_type", "yarn"},
    {"rope_parameters.factor", "32.0"},
    {"rope_parameters.beta_fast", "32.0"},
    {"rope_parameters.beta_slow", "1.0"},
    {"rope_parameters.truncate", "false"},
    {"rope_parameters.original_max_position_embeddings", "4096"},
    MF_DEFAULTS_END};

static const char *const types[] = {"gpt_oss", NULL};
const mf_family mf_family_gpt_oss = {.name = "gpt_oss",
                                     .types = types,
                                     .rules = rules,
                                     .defaults = defaults_gpt_oss,
                                     .settings = settings};
