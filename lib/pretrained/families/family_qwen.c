/* families/family_qwen.c: Qwen1.5-MoE and Qwen2-MoE, with biases on queries, keys and values
 * and a shared expert with a gate; Qwen3-MoE, with norms of queries and keys by head. Both may
 * have dense blocks and windows. In transformers, the former have a window in every other
 * block, and Qwen3-MoE has one in all blocks. Flint has the form of the latter, with sinks, a
 * shared expert, and a choice by sigmoids; only blocks with a window have rope. */
#include "pretrained/families/family_rules.h"

static void settings2(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_experts(k, "num_experts", "moe_intermediate_size",
                    mf_keys_bool(k, "norm_topk_prob"));
    const bool bias = mf_keys_bool(k, "qkv_bias");
    const int64_t shared = mf_keys_int(k, "shared_expert_intermediate_size", 1, 1048576);
    mf_keys_dense_blocks(k);
    mf_keys_window(k, mf_keys_optional_window(k), true, 2, 0,
                   mf_keys_int(k, "max_window_layers", 0, INT32_MAX));
    mf_keys_set(k, "model.attention_bias=%s", bias ? "yes" : "no");
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)shared);
    mf_keys_set(k, "moe.shared_gate=yes");
}

static const mf_family_rule rules2[] = {MF_RULES_DECODER,
                                        MF_RULES_DENSE,
                                        MF_RULES_ROUTER,
                                        MF_RULES_EXPERTS,
                                        {"model.layers.{l}.mlp.shared_expert.gate_proj.weight",
                                         "layers.{l}.shared.w13", MF_PART_GATE, 0, NULL},
                                        {"model.layers.{l}.mlp.shared_expert.up_proj.weight",
                                         "layers.{l}.shared.w13", MF_PART_UP, 0, NULL},
                                        {"model.layers.{l}.mlp.shared_expert.down_proj.weight",
                                         "layers.{l}.shared.w2", MF_PART_ALL, 0, NULL},
                                        {"model.layers.{l}.mlp.shared_expert_gate.weight",
                                         "layers.{l}.shared_gate.weight", MF_PART_ALL, 0, NULL},
                                        MF_RULES_END};

static void settings3(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    mf_keys_experts(k, "num_local_experts|num_experts", "moe_intermediate_size",
                    mf_keys_bool(k, "norm_topk_prob"));
    mf_keys_dense_blocks(k);
    mf_keys_window(k, mf_keys_optional_window(k), false, 1, 0, k->layers);
    mf_keys_set(k, "model.qk_norm=head");
}

/* The blocks of Flint that have a window if layer_types is missing. */
static bool is_windowed(mf_keys *k, int64_t layer)
{
    return layer >= 2 && layer % 4 != 1 && layer != k->layers - 1;
}

static bool is_dense(mf_keys *k, int64_t layer)
{
    (void)k;
    return layer < 2;
}

static void flint(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    mf_keys_shared_experts(k, "num_experts", "moe_intermediate_size", NULL);
    mf_keys_sigmoid_router(k, 1, mf_keys_bool(k, "norm_topk_prob"));
    if (mf_keys_bool(k, "output_router_logits"))
        mf_keys_refuse(k, "output_router_logits",
                       "expected false: this auxiliary loss counts the choice of a softmax, "
                       "which is not the model's");
    if (mf_keys_has(k, "mlp_only_layers"))
        mf_keys_dense_blocks(k);
    else
        mf_keys_dense_where(k, is_dense);
    const int64_t width = mf_keys_int(k, "sliding_window", 1, INT32_MAX);
    if (mf_keys_has(k, "layer_types")) {
        mf_keys_window(k, width, true, 1, 0, k->layers);
        mf_keys_rope_sliding(k);
    } else {
        mf_keys_window_where(k, width, is_windowed);
        mf_keys_rope_where(k, is_windowed);
    }
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_set(k, "model.sinks=yes");
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld",
                (long long)mf_keys_int(k, "shared_expert_intermediate_size", 1, 1048576));
}

#define SHARED_EXPERT                                                                          \
    {"model.layers.{l}.mlp.shared_expert.gate_proj.weight", "layers.{l}.shared.w13",           \
     MF_PART_GATE, 0, NULL},                                                                   \
        {"model.layers.{l}.mlp.shared_expert.up_proj.weight", "layers.{l}.shared.w13",         \
         MF_PART_UP, 0, NULL},                                                                 \
    {                                                                                          \
        "model.layers.{l}.mlp.shared_expert.down_proj.weight", "layers.{l}.shared.w2",         \
            MF_PART_ALL, 0, NULL                                                               \
    }

static const mf_family_rule rules_flint[] = {
    MF_RULES_DECODER,
    MF_RULES_QK_NORM,
    MF_RULES_DENSE,
    MF_RULES_ROUTER,
    MF_RULES_EXPERTS,
    SHARED_EXPERT,
    {"model.layers.{l}.self_attn.softmax_offset", "layers.{l}.attention.sinks", MF_PART_ALL, 0,
     NULL},
    {"model.layers.{l}.self_attn.sinks", "layers.{l}.attention.sinks", MF_PART_ALL, 0, NULL},
    MF_RULES_END};

static const mf_family_rule rules3[] = {MF_RULES_DECODER, MF_RULES_QK_NORM, MF_RULES_DENSE,
                                        MF_RULES_ROUTER,  MF_RULES_EXPERTS, MF_RULES_END};

static const mf_key_default defaults_qwen2_moe[] = {{"vocab_size", "151936"},
                                                    {"hidden_size", "2048"},
                                                    {"intermediate_size", "5632"},
                                                    {"num_hidden_layers", "24"},
                                                    {"num_attention_heads", "16"},
                                                    {"num_key_value_heads", "16"},
                                                    {"hidden_act", "silu"},
                                                    {"max_position_embeddings", "32768"},
                                                    {"rms_norm_eps", "1e-06"},
                                                    {"tie_word_embeddings", "false"},
                                                    {"use_sliding_window", "false"},
                                                    {"sliding_window", "4096"},
                                                    {"max_window_layers", "28"},
                                                    {"layer_types", "null"},
                                                    {"decoder_sparse_step", "1"},
                                                    {"mlp_only_layers", "null"},
                                                    {"moe_intermediate_size", "1408"},
                                                    {"shared_expert_intermediate_size", "5632"},
                                                    {"num_experts_per_tok", "4"},
                                                    {"num_experts", "60"},
                                                    {"norm_topk_prob", "false"},
                                                    {"output_router_logits", "false"},
                                                    {"router_aux_loss_coef", "0.001"},
                                                    {"qkv_bias", "true"},
                                                    {"rope_theta", "10000.0"},
                                                    MF_DEFAULTS_END};

static const mf_key_default defaults_qwen3_moe[] = {{"vocab_size", "151936"},
                                                    {"hidden_size", "2048"},
                                                    {"intermediate_size", "6144"},
                                                    {"num_hidden_layers", "24"},
                                                    {"num_attention_heads", "32"},
                                                    {"num_key_value_heads", "4"},
                                                    {"hidden_act", "silu"},
                                                    {"max_position_embeddings", "32768"},
                                                    {"rms_norm_eps", "1e-06"},
                                                    {"tie_word_embeddings", "false"},
                                                    {"attention_bias", "false"},
                                                    {"use_sliding_window", "false"},
                                                    {"sliding_window", "4096"},
                                                    {"decoder_sparse_step", "1"},
                                                    {"mlp_only_layers", "null"},
                                                    {"moe_intermediate_size", "768"},
                                                    {"num_experts_per_tok", "8"},
                                                    {"num_experts", "128"},
                                                    {"norm_topk_prob", "false"},
                                                    {"output_router_logits", "false"},
                                                    {"router_aux_loss_coef", "0.001"},
                                                    {"rope_theta", "10000.0"},
                                                    MF_DEFAULTS_END};

static const mf_key_default defaults_flint[] = {{"vocab_size", "150144"},
                                                {"hidden_size", "2048"},
                                                {"intermediate_size", "6144"},
                                                {"num_hidden_layers", "49"},
                                                {"num_attention_heads", "32"},
                                                {"num_key_value_heads", "4"},
                                                {"head_dim", "128"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "262144"},
                                                {"rms_norm_eps", "1e-06"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"sliding_window", "513"},
                                                {"layer_types", "null"},
                                                {"decoder_sparse_step", "1"},
                                                {"mlp_only_layers", "null"},
                                                {"moe_intermediate_size", "512"},
                                                {"shared_expert_intermediate_size", "1024"},
                                                {"num_experts_per_tok", "6"},
                                                {"num_experts", "256"},
                                                {"norm_topk_prob", "true"},
                                                {"output_router_logits", "false"},
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const char *const types_flint[] = {"flint", NULL};
const mf_family mf_family_flint = {.name = "flint",
                                   .types = types_flint,
                                   .rules = rules_flint,
                                   .defaults = defaults_flint,
                                   .settings = flint};
static const char *const types2[] = {"qwen2_moe", NULL}, *const types3[] = {"qwen3_moe", NULL};
const mf_family mf_family_qwen2_moe = {.name = "qwen2_moe",
                                       .types = types2,
                                       .rules = rules2,
                                       .defaults = defaults_qwen2_moe,
                                       .settings = settings2};
const mf_family mf_family_qwen3_moe = {.name = "qwen3_moe",
                                       .peft_takes_experts = true,
                                       .types = types3,
                                       .rules = rules3,
                                       .defaults = defaults_qwen3_moe,
                                       .settings = settings3};
