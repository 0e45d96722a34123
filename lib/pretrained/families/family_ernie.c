/* families/family_ernie.c: ERNIE 4.5 with experts (Baidu 2025), without biases. Rope turns
 * neighbours. The router chooses by the softmax and a bias, as DeepSeek-V3 does by sigmoids.
 * Blocks before, after and between those with experts are dense. */
#include "pretrained/families/family_rules.h"

static bool is_dense(mf_keys *k, int64_t layer)
{
    const int64_t start = mf_keys_int(k, "moe_layer_start_index", 0, INT32_MAX),
                  end = mf_keys_int(k, "moe_layer_end_index", -1, INT32_MAX),
                  step = mf_keys_int(k, "moe_layer_interval", 1, 1024);
    return (layer + 1) % step != 0 || layer < start || (end >= 0 && layer > end);
}

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_set(k, "model.rope_half=no");
    if (mf_keys_bool_or(k, "use_bias", false))
        mf_keys_refuse(k, "use_bias",
                       "expected false: shared experts would have biases, and the others not");
    mf_keys_dense_where(k, is_dense);
    k->experts = mf_keys_int(k, "num_experts|moe_num_experts", 1, 4096);
    const int64_t top_k = mf_keys_int(k, "num_experts_per_tok|moe_k", 1, k->experts),
                  width = mf_keys_int(k, "moe_intermediate_size", 1, 1048576),
                  shared = mf_keys_int_or(k, "moe_num_shared_experts", 0, 0, 64);
    if (mf_keys_real_or(k, "moe_norm_min", 0) > 1e-6)
        mf_keys_refuse(k, "moe_norm_min", "expected at most 1e-6");
    if (mf_keys_bool_or(k, "output_router_logits", false))
        mf_keys_refuse(k, "output_router_logits",
                       "expected false: this auxiliary loss does not count the model's choice, "
                       "which adds a bias");
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=%lld", (long long)top_k);
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld", (long long)width);
    mf_keys_sigmoid_router(k, 1, true);
    mf_keys_set(k, "router.score=softmax");
    if (shared == 0) return;
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)shared * width);
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    MF_RULES_DENSE,
    MF_RULES_ROUTER,
    MF_RULES_EXPERTS,
    {"model.layers.{l}.mlp.moe_statics.e_score_correction_bias", "layers.{l}.router.bias",
     MF_PART_ALL, MF_RULE_ROW, NULL},
    MF_RULES_SHARED,
    MF_RULES_END};

static const mf_key_default defaults_ernie4_5_moe[] = {{"vocab_size", "103424"},
                                                       {"hidden_size", "2560"},
                                                       {"intermediate_size", "12288"},
                                                       {"num_hidden_layers", "28"},
                                                       {"num_attention_heads", "20"},
                                                       {"num_key_value_heads", "4"},
                                                       {"hidden_act", "silu"},
                                                       {"max_position_embeddings", "131072"},
                                                       {"rms_norm_eps", "1e-05"},
                                                       {"tie_word_embeddings", "true"},
                                                       {"use_bias", "false"},
                                                       {"moe_intermediate_size", "1536"},
                                                       {"moe_k", "6"},
                                                       {"moe_num_experts", "64"},
                                                       {"moe_num_shared_experts", "2"},
                                                       {"moe_layer_start_index", "1"},
                                                       {"moe_layer_end_index", "-1"},
                                                       {"moe_layer_interval", "1"},
                                                       {"moe_norm_min", "1e-12"},
                                                       {"output_router_logits", "false"},
                                                       {"rope_theta", "500000.0"},
                                                       MF_DEFAULTS_END};

static const char *const types[] = {"ernie4_5_moe", NULL};
const mf_family mf_family_ernie4_5_moe = {.name = "ernie4_5_moe",
                                          .types = types,
                                          .rules = rules,
                                          .defaults = defaults_ernie4_5_moe,
                                          .settings = settings};
