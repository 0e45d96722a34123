/* families/family_aria.c: the text model of Aria (Rhymes AI 2024). All experts of a layer are
 * two tensors, stored as [experts, in, out]. The shared experts are one expert with the width
 * of all of them. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    if (mf_keys_bool(k, "mlp_bias"))
        mf_keys_refuse(k, "mlp_bias",
                       "expected false: shared experts would have biases, and the others not");
    k->experts = mf_keys_int(k, "moe_num_experts", 1, 4096);
    const int64_t top_k = mf_keys_int(k, "moe_topk", 1, k->experts),
                  width = mf_keys_int(k, "intermediate_size", 1, 1048576),
                  shared = mf_keys_int(k, "moe_num_shared_experts", 1, 64);
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=%lld", (long long)top_k);
    mf_keys_set(k, "moe.renormalize=yes");
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld", (long long)width);
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)shared * width);
}

#define EXPERTS(first, second)                                                                 \
    {"model.layers.{l}.mlp.experts." first, "layers.{l}.expert.w13", MF_PART_ALL,              \
     MF_RULE_FUSED | MF_RULE_TRANSPOSED, NULL},                                                \
    {                                                                                          \
        "model.layers.{l}.mlp.experts." second, "layers.{l}.expert.w2", MF_PART_ALL,           \
            MF_RULE_FUSED | MF_RULE_TRANSPOSED, NULL                                           \
    }

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    {"model.layers.{l}.mlp.router.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL},
    EXPERTS("fc1.weight", "fc2.weight"),
    EXPERTS("gate_up_proj", "down_proj"),
    MF_RULES_SHARED,
    MF_RULES_END};

static const mf_key_default defaults_aria_text[] = {{"vocab_size", "32000"},
                                                    {"hidden_size", "4096"},
                                                    {"intermediate_size", "4096"},
                                                    {"num_hidden_layers", "32"},
                                                    {"num_attention_heads", "32"},
                                                    {"num_key_value_heads", "null"},
                                                    {"head_dim", "null"},
                                                    {"hidden_act", "silu"},
                                                    {"max_position_embeddings", "2048"},
                                                    {"rms_norm_eps", "1e-06"},
                                                    {"tie_word_embeddings", "false"},
                                                    {"attention_bias", "false"},
                                                    {"mlp_bias", "false"},
                                                    {"moe_num_experts", "8"},
                                                    {"moe_topk", "2"},
                                                    {"moe_num_shared_experts", "2"},
                                                    {"rope_theta", "10000.0"},
                                                    MF_DEFAULTS_END};

static const char *const types[] = {"aria_text", NULL};
const mf_family mf_family_aria_text = {.name = "aria_text",
                                       .types = types,
                                       .rules = rules,
                                       .defaults = defaults_aria_text,
                                       .settings = settings};
