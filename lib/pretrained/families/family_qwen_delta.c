/* families/family_qwen_delta.c: Qwen3-Next (2025) and the text model of Qwen3.5 with experts
 * (2026), also in a folder with its vision model: blocks with the gated delta rule between
 * blocks of attention, whose heads have gates, norms with 1 + weight, and a shared expert with
 * a gate. Modules that predict further tokens are skipped. */
#include "pretrained/families/family_rules.h"

#include <string.h>

static bool is_linear(mf_keys *k, int64_t layer)
{
    if (!mf_keys_has(k, "layer_types"))
        return (layer + 1) % mf_keys_int_or(k, "full_attention_interval", 4, 1, 1024) != 0;
    const mf_json *list = mf_json_get(k->json, "layer_types");
    const char *type = mf_json_string(mf_json_at(list, (size_t)layer), NULL);
    const bool linear = type && strcmp(type, "linear_attention") == 0;
    if (!linear && (!type || strcmp(type, "full_attention") != 0))
        mf_keys_refuse(k, "layer_types",
                       "expected linear_attention or full_attention for each of %lld blocks",
                       (long long)k->layers);
    return linear;
}

static void delta(mf_keys *k, bool grouped)
{
    static const char *const sizes[][2] = {{"delta_heads", "linear_num_value_heads"},
                                           {"delta_key_heads", "linear_num_key_heads"},
                                           {"delta_key_dim", "linear_key_head_dim"},
                                           {"delta_value_dim", "linear_value_head_dim"},
                                           {"delta_taps", "linear_conv_kernel_dim"}};
    mf_keys_blocks_where(k, "delta_layers", is_linear);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        mf_keys_set(k, "model.%s=%lld", sizes[i][0],
                    (long long)mf_keys_int(k, sizes[i][1], 1, 1024));
    mf_keys_set(k, "model.delta_grouped=%s", grouped ? "yes" : "no");
}

static void decoder(mf_keys *k, bool grouped, bool renormalize)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_partial_rope(k, 0.25);
    if (mf_keys_bool(k, "attention_bias"))
        mf_keys_refuse(k, "attention_bias",
                       "expected false: gates of heads would have biases, too");
    mf_keys_set(k, "model.norm_shift=yes");
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_set(k, "model.attention_gate=yes");
    delta(k, grouped);
    mf_keys_experts(k, "num_local_experts|num_experts", "moe_intermediate_size", renormalize);
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld",
                (long long)mf_keys_int(k, "shared_expert_intermediate_size", 1, 1048576));
    mf_keys_set(k, "moe.shared_gate=yes");
}

static void qwen3_next(mf_keys *k)
{
    decoder(k, true, mf_keys_bool(k, "norm_topk_prob"));
    mf_keys_dense_blocks(k);
}

static void qwen3_5(mf_keys *k)
{
    decoder(k, false, true);
}

#define MIXER "model.layers.{l}.linear_attn."
#define DELTA(theirs, ours)                                                                    \
    {                                                                                          \
        MIXER theirs, "layers.{l}.delta." ours, MF_PART_ALL, 0, NULL                           \
    }
#define SHARED(name) "model.layers.{l}.mlp.shared_expert." name ".weight"

/* The rule of queries must precede MF_RULES_DECODER, which takes all rows of this tensor
 * for queries. */
#define RULES                                                                                  \
    {"model.layers.{l}.self_attn.q_proj.weight", "layers.{l}.attention.qkv.weight",            \
     MF_PART_Q_HEADS, 0, "layers.{l}.attention.out_gate.weight"},                              \
        MF_RULES_DECODER, MF_RULES_QK_NORM, MF_RULES_DENSE, MF_RULES_ROUTER, MF_RULES_EXPERTS, \
        {SHARED("gate_proj"), "layers.{l}.shared.w13", MF_PART_GATE, 0, NULL},                 \
        {SHARED("up_proj"), "layers.{l}.shared.w13", MF_PART_UP, 0, NULL},                     \
        {SHARED("down_proj"), "layers.{l}.shared.w2", MF_PART_ALL, 0, NULL},                   \
        {"model.layers.{l}.mlp.shared_expert_gate.weight", "layers.{l}.shared_gate.weight",    \
         MF_PART_ALL, 0, NULL},                                                                \
        {MIXER "conv1d.weight", "layers.{l}.delta.conv.weight", MF_PART_ALL, MF_RULE_FUSED,    \
         NULL},                                                                                \
        DELTA("A_log", "a_log"), DELTA("dt_bias", "dt_bias"),                                  \
        DELTA("norm.weight", "norm.weight"), DELTA("out_proj.weight", "out.weight")

static const mf_family_rule rules_next[] = {RULES, DELTA("in_proj_qkvz.weight", "qkvz.weight"),
                                            DELTA("in_proj_ba.weight", "ba.weight"),
                                            MF_RULES_END};
static const mf_family_rule rules_3_5[] = {RULES,
                                           DELTA("in_proj_qkv.weight", "qkv.weight"),
                                           DELTA("in_proj_z.weight", "z.weight"),
                                           DELTA("in_proj_b.weight", "b.weight"),
                                           DELTA("in_proj_a.weight", "a.weight"),
                                           MF_RULES_END};

static const mf_key_default defaults_next[] = {{"vocab_size", "151936"},
                                               {"hidden_size", "2048"},
                                               {"intermediate_size", "5632"},
                                               {"num_hidden_layers", "48"},
                                               {"num_attention_heads", "16"},
                                               {"num_key_value_heads", "2"},
                                               {"head_dim", "256"},
                                               {"hidden_act", "silu"},
                                               {"max_position_embeddings", "32768"},
                                               {"rms_norm_eps", "1e-06"},
                                               {"tie_word_embeddings", "false"},
                                               {"attention_bias", "false"},
                                               {"linear_conv_kernel_dim", "4"},
                                               {"linear_key_head_dim", "128"},
                                               {"linear_value_head_dim", "128"},
                                               {"linear_num_key_heads", "16"},
                                               {"linear_num_value_heads", "32"},
                                               {"decoder_sparse_step", "1"},
                                               {"mlp_only_layers", "null"},
                                               {"moe_intermediate_size", "512"},
                                               {"shared_expert_intermediate_size", "512"},
                                               {"num_experts_per_tok", "10"},
                                               {"num_experts", "512"},
                                               {"norm_topk_prob", "true"},
                                               {"output_router_logits", "false"},
                                               {"router_aux_loss_coef", "0.001"},
                                               {"layer_types", "null"},
                                               {"partial_rotary_factor", "0.25"},
                                               {"rope_theta", "10000.0"},
                                               MF_DEFAULTS_END};
static const mf_key_default defaults_3_5[] = {{"vocab_size", "248320"},
                                              {"hidden_size", "2048"},
                                              {"num_hidden_layers", "40"},
                                              {"num_attention_heads", "16"},
                                              {"num_key_value_heads", "2"},
                                              {"head_dim", "256"},
                                              {"hidden_act", "silu"},
                                              {"max_position_embeddings", "32768"},
                                              {"rms_norm_eps", "1e-06"},
                                              {"tie_word_embeddings", "false"},
                                              {"attention_bias", "false"},
                                              {"linear_conv_kernel_dim", "4"},
                                              {"linear_key_head_dim", "128"},
                                              {"linear_value_head_dim", "128"},
                                              {"linear_num_key_heads", "16"},
                                              {"linear_num_value_heads", "32"},
                                              {"moe_intermediate_size", "512"},
                                              {"shared_expert_intermediate_size", "512"},
                                              {"num_experts_per_tok", "8"},
                                              {"num_experts", "256"},
                                              {"output_router_logits", "false"},
                                              {"router_aux_loss_coef", "0.001"},
                                              {"layer_types", "null"},
                                              {"partial_rotary_factor", "0.25"},
                                              {"rope_theta", "10000.0"},
                                              MF_DEFAULTS_END};

static const char *const types_next[] = {"qwen3_next", NULL},
                         *const types_3_5[] = {"qwen3_5_moe_text", NULL},
                         *const whole[] = {"qwen3_5_moe", NULL},
                         *const others[] = {"mtp.", "model.visual.", "visual.", NULL};
const mf_family mf_family_qwen3_next = {.name = "qwen3_next",
                                        .peft_takes_experts = true,
                                        .types = types_next,
                                        .skipped = others,
                                        .rules = rules_next,
                                        .defaults = defaults_next,
                                        .settings = qwen3_next};
const mf_family mf_family_qwen3_5_moe_text = {.name = "qwen3_5_moe_text",
                                              .peft_takes_experts = true,
                                              .types = types_3_5,
                                              .whole_types = whole,
                                              .inner = "model.language_model.",
                                              .skipped = others,
                                              .rules = rules_3_5,
                                              .defaults = defaults_3_5,
                                              .settings = qwen3_5};
