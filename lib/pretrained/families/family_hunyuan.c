/* families/family_hunyuan.c: Hunyuan-A13B (hunyuan_v1_moe): the Llama form with norms of
 * queries and keys after rope, experts with a linear router, and a shared expert of the
 * same width. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    const int64_t width = mf_keys_int(k, "intermediate_size", 1, 1048576);
    k->experts = mf_keys_int(k, "num_local_experts|num_experts", 1, 4096);
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_set(k, "model.qk_norm_late=yes");
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=%lld",
                (long long)mf_keys_int(k, "num_experts_per_tok|moe_topk", 1, 4096));
    mf_keys_set(k, "moe.renormalize=yes");
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)width);
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld", (long long)width);
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    MF_RULES_EXPERTS,
    {"model.layers.{l}.self_attn.query_layernorm.weight", "layers.{l}.attention.q_norm.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.key_layernorm.weight", "layers.{l}.attention.k_norm.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.mlp.gate.wg.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.mlp.shared_mlp.gate_proj.weight", "layers.{l}.shared.w13", MF_PART_GATE,
     0, NULL},
    {"model.layers.{l}.mlp.shared_mlp.up_proj.weight", "layers.{l}.shared.w13", MF_PART_UP, 0,
     NULL},
    {"model.layers.{l}.mlp.shared_mlp.down_proj.weight", "layers.{l}.shared.w2", MF_PART_ALL, 0,
     NULL},
    MF_RULES_END};

static const mf_key_default defaults_hunyuan_v1_moe[] = {{"vocab_size", "290943"},
                                                         {"hidden_size", "4096"},
                                                         {"intermediate_size", "11008"},
                                                         {"num_hidden_layers", "32"},
                                                         {"num_attention_heads", "32"},
                                                         {"num_key_value_heads", "null"},
                                                         {"head_dim", "null"},
                                                         {"hidden_act", "silu"},
                                                         {"max_position_embeddings", "2048"},
                                                         {"rms_norm_eps", "1e-05"},
                                                         {"tie_word_embeddings", "false"},
                                                         {"attention_bias", "false"},
                                                         {"num_experts", "1"},
                                                         {"moe_topk", "1"},
                                                         {"rope_theta", "10000.0"},
                                                         MF_DEFAULTS_END};

static const char *const types[] = {"hunyuan_v1_moe", NULL};
const mf_family mf_family_hunyuan_v1_moe = {.name = "hunyuan_v1_moe",
                                            .peft_takes_experts = true,
                                            .types = types,
                                            .rules = rules,
                                            .defaults = defaults_hunyuan_v1_moe,
                                            .settings = settings};
