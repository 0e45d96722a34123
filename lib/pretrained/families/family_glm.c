/* families/family_glm.c: decoders with attention of the Llama form and the experts and the
 * router of DeepSeek-V3: GLM-4.5 (glm4_moe), dots.llm1, Solar Open, Hunyuan 3 (hy_v3),
 * MiniMax-M2, Sarvam-30B, K-EXAONE. They differ in names, norms of queries and keys, biases,
 * and rotation: it affects a share of each head, or only the heads of blocks with a window. */
#include "pretrained/families/family_rules.h"

static void decoder(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_partial_rope(k, 1);
}

static void experts_of(mf_keys *k, const char *experts, const char *shared)
{
    mf_keys_shared_experts(k, experts, "moe_intermediate_size", shared);
    mf_keys_sigmoid_router(k, mf_keys_real(k, "routed_scaling_factor"),
                           mf_keys_bool_or(k, "norm_topk_prob", false));
}

/* Only queries, keys and values have biases. */
static void qkv_bias(mf_keys *k, const char *name)
{
    mf_keys_set(k, "model.attention_bias=%s", mf_keys_bool(k, name) ? "yes" : "no");
}

static void glm4_moe(mf_keys *k)
{
    decoder(k);
    qkv_bias(k, "attention_bias");
    if (mf_keys_bool(k, "use_qk_norm")) mf_keys_set(k, "model.qk_norm=head");
    mf_keys_dense_first(k, 1);
    experts_of(k, "num_local_experts|n_routed_experts", "n_shared_experts");
}

static void dots1(mf_keys *k)
{
    decoder(k);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_window(k, mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX), true, 1,
                   mf_keys_int_or(k, "max_window_layers", k->layers, 0, INT32_MAX), k->layers);
    mf_keys_dense_first(k, 0);
    experts_of(k, "num_local_experts|n_routed_experts", "n_shared_experts");
}

static void solar_open(mf_keys *k)
{
    decoder(k);
    qkv_bias(k, "attention_bias");
    experts_of(k, "num_local_experts|n_routed_experts", "n_shared_experts");
}

static void hy_v3(mf_keys *k)
{
    decoder(k);
    mf_keys_attention_bias(k);
    if (mf_keys_bool(k, "mlp_bias")) mf_keys_refuse(k, "mlp_bias", "expected false");
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_dense_first(k, 1);
    mf_keys_shared_experts(k, "num_local_experts|num_experts", "moe_intermediate_size",
                           "num_shared_experts");
    mf_keys_sigmoid_router(k, mf_keys_real(k, "router_scaling_factor"), true);
}

static void minimax_m2(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    /* released files contain the number of rotated values in rotary_dim */
    mf_keys_partial_rope(k, (double)mf_keys_int_or(k, "rotary_dim", k->head_dim, 2, 65536) /
                                (double)k->head_dim);
    mf_keys_set(k, "model.qk_norm=all");
    mf_keys_shared_experts(k, "num_experts|num_local_experts", "intermediate_size", NULL);
    mf_keys_sigmoid_router(k, 1, true);
    if (mf_keys_bool(k, "output_router_logits"))
        mf_keys_refuse(k, "output_router_logits",
                       "expected false: this auxiliary loss counts the choice of a softmax, "
                       "which is not the model's");
}

static void sarvam_moe(mf_keys *k)
{
    decoder(k);
    qkv_bias(k, "use_qkv_bias|attention_bias");
    if (mf_keys_bool(k, "use_qk_norm")) mf_keys_set(k, "model.qk_norm=head");
    mf_keys_dense_first(k, 1);
    experts_of(k, "num_local_experts|num_experts|n_routed_experts",
               "num_shared_experts|n_shared_experts");
}

static void exaone_moe(mf_keys *k)
{
    decoder(k);
    mf_keys_set(k, "model.qk_norm=head");
    mf_keys_dense_first(k, 1);
    experts_of(k, "num_experts", "num_shared_experts");
    const int64_t width = mf_keys_int_or(k, "sliding_window", 0, 1, INT32_MAX);
    if (width == 0) return;
    if (mf_keys_has(k, "layer_types")) {
        mf_keys_window(k, width, true, 1, 0, 0);
        mf_keys_rope_sliding(k);
    } else {
        const int64_t full = mf_keys_int(k, "sliding_window_pattern", 1, 1024);
        mf_keys_window_except(k, width, full);
        mf_keys_rope_except(k, full);
    }
}

#define SHARED(name)                                                                           \
    {"model.layers.{l}.mlp." name ".gate_proj.weight", "layers.{l}.shared.w13", MF_PART_GATE,  \
     0, NULL},                                                                                 \
        {"model.layers.{l}.mlp." name ".up_proj.weight", "layers.{l}.shared.w13", MF_PART_UP,  \
         0, NULL},                                                                             \
    {                                                                                          \
        "model.layers.{l}.mlp." name ".down_proj.weight", "layers.{l}.shared.w2", MF_PART_ALL, \
            0, NULL                                                                            \
    }

static const mf_family_rule rules[] = {MF_RULES_DECODER,
                                       MF_RULES_QK_NORM,
                                       MF_RULES_DENSE,
                                       MF_RULES_ROUTER,
                                       MF_RULES_EXPERTS,
                                       {"model.layers.{l}.mlp.gate.e_score_correction_bias",
                                        "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
                                       SHARED("shared_experts"),
                                       MF_RULES_END};

static const mf_family_rule rules_exaone[] = {MF_RULES_DECODER,
                                              MF_RULES_QK_NORM,
                                              MF_RULES_DENSE,
                                              MF_RULES_ROUTER,
                                              MF_RULES_EXPERTS,
                                              {"model.layers.{l}.mlp.e_score_correction_bias",
                                               "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
                                              SHARED("shared_experts"),
                                              MF_RULES_END};

static const mf_family_rule rules_hy[] = {
    MF_RULES_DECODER,
    MF_RULES_QK_NORM,
    MF_RULES_DENSE,
    MF_RULES_EXPERTS,
    {"model.layers.{l}.mlp.router.gate.weight", "layers.{l}.router.weight", MF_PART_ALL, 0,
     NULL},
    {"model.layers.{l}.mlp.expert_bias", "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
    SHARED("shared_mlp"),
    MF_RULES_END};

static const mf_family_rule rules_minimax[] = {
    MF_RULES_DECODER,
    MF_RULES_QK_NORM,
    MF_RULES_SPARSE_MOE,
    {"model.layers.{l}.block_sparse_moe.e_score_correction_bias", "layers.{l}.router.bias",
     MF_PART_ALL, 0, NULL},
    MF_RULES_ROUTER,
    MF_RULES_EXPERTS,
    MF_RULES_END};

static const mf_family_rule rules_sarvam[] = {
    MF_RULES_DECODER,
    MF_RULES_DENSE,
    MF_RULES_ROUTER,
    MF_RULES_EXPERTS,
    {"model.word_embeddings.weight", "embed.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.attention.query_key_value.weight", "layers.{l}.attention.qkv.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.attention.query_key_value.bias", "layers.{l}.attention.qkv.bias",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.attention.dense.weight", "layers.{l}.attention.out.weight", MF_PART_ALL,
     0, NULL},
    {"model.layers.{l}.attention.query_layernorm.weight", "layers.{l}.attention.q_norm.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.attention.key_layernorm.weight", "layers.{l}.attention.k_norm.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.mlp.gate.expert_bias", "layers.{l}.router.bias", MF_PART_ALL, 0, NULL},
    SHARED("shared_experts"),
    MF_RULES_END};

static const mf_key_default defaults_dots1[] = {{"vocab_size", "152064"},
                                                {"hidden_size", "4608"},
                                                {"intermediate_size", "10944"},
                                                {"num_hidden_layers", "62"},
                                                {"num_attention_heads", "32"},
                                                {"num_key_value_heads", "32"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "2048"},
                                                {"rms_norm_eps", "1e-06"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"sliding_window", "4096"},
                                                {"max_window_layers", "62"},
                                                {"layer_types", "null"},
                                                {"first_k_dense_replace", "0"},
                                                {"n_group", "1"},
                                                {"topk_group", "1"},
                                                {"norm_topk_prob", "false"},
                                                {"routed_scaling_factor", "1.0"},
                                                {"n_routed_experts", "null"},
                                                {"n_shared_experts", "null"},
                                                {"num_experts_per_tok", "null"},
                                                {"moe_intermediate_size", "1408"},
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const mf_key_default defaults_glm4_moe[] = {{"vocab_size", "151552"},
                                                   {"hidden_size", "4096"},
                                                   {"intermediate_size", "10944"},
                                                   {"num_hidden_layers", "46"},
                                                   {"num_attention_heads", "96"},
                                                   {"num_key_value_heads", "8"},
                                                   {"hidden_act", "silu"},
                                                   {"max_position_embeddings", "131072"},
                                                   {"rms_norm_eps", "1e-05"},
                                                   {"tie_word_embeddings", "false"},
                                                   {"attention_bias", "false"},
                                                   {"first_k_dense_replace", "1"},
                                                   {"n_group", "1"},
                                                   {"topk_group", "1"},
                                                   {"norm_topk_prob", "true"},
                                                   {"routed_scaling_factor", "1.0"},
                                                   {"n_routed_experts", "128"},
                                                   {"n_shared_experts", "1"},
                                                   {"num_experts_per_tok", "8"},
                                                   {"moe_intermediate_size", "1408"},
                                                   {"use_qk_norm", "false"},
                                                   {"partial_rotary_factor", "0.5"},
                                                   {"rope_theta", "10000.0"},
                                                   MF_DEFAULTS_END};

static const mf_key_default defaults_hy_v3[] = {{"vocab_size", "120832"},
                                                {"hidden_size", "4096"},
                                                {"intermediate_size", "13312"},
                                                {"num_hidden_layers", "80"},
                                                {"num_attention_heads", "64"},
                                                {"num_key_value_heads", "8"},
                                                {"head_dim", "128"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "131072"},
                                                {"rms_norm_eps", "1e-05"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"mlp_bias", "false"},
                                                {"mlp_layer_types", "null"},
                                                {"router_scaling_factor", "2.826"},
                                                {"num_experts", "192"},
                                                {"num_shared_experts", "1"},
                                                {"num_experts_per_tok", "8"},
                                                {"moe_intermediate_size", "1536"},
                                                {"rope_theta", "11158840.0"},
                                                MF_DEFAULTS_END};

static const mf_key_default defaults_minimax_m2[] = {{"vocab_size", "200064"},
                                                     {"hidden_size", "3072"},
                                                     {"intermediate_size", "1536"},
                                                     {"num_hidden_layers", "62"},
                                                     {"num_attention_heads", "48"},
                                                     {"num_key_value_heads", "8"},
                                                     {"head_dim", "128"},
                                                     {"hidden_act", "silu"},
                                                     {"max_position_embeddings", "196608"},
                                                     {"rms_norm_eps", "1e-06"},
                                                     {"tie_word_embeddings", "false"},
                                                     {"num_local_experts", "256"},
                                                     {"num_experts_per_tok", "8"},
                                                     {"output_router_logits", "false"},
                                                     {"rope_theta", "5000000.0"},
                                                     MF_DEFAULTS_END};

static const mf_key_default defaults_sarvam_moe[] = {{"vocab_size", "262144"},
                                                     {"hidden_size", "4096"},
                                                     {"intermediate_size", "8192"},
                                                     {"num_hidden_layers", "19"},
                                                     {"num_attention_heads", "64"},
                                                     {"num_key_value_heads", "4"},
                                                     {"head_dim", "64"},
                                                     {"hidden_act", "silu"},
                                                     {"max_position_embeddings", "131072"},
                                                     {"rms_norm_eps", "1e-06"},
                                                     {"tie_word_embeddings", "false"},
                                                     {"attention_bias", "false"},
                                                     {"first_k_dense_replace", "1"},
                                                     {"n_group", "1"},
                                                     {"topk_group", "1"},
                                                     {"norm_topk_prob", "true"},
                                                     {"routed_scaling_factor", "2.5"},
                                                     {"n_routed_experts", "128"},
                                                     {"n_shared_experts", "1"},
                                                     {"num_experts_per_tok", "6"},
                                                     {"moe_intermediate_size", "1024"},
                                                     {"use_qk_norm", "true"},
                                                     {"rope_theta", "8000000.0"},
                                                     MF_DEFAULTS_END};

static const mf_key_default defaults_solar_open[] = {{"vocab_size", "196608"},
                                                     {"hidden_size", "4096"},
                                                     {"num_hidden_layers", "48"},
                                                     {"num_attention_heads", "64"},
                                                     {"num_key_value_heads", "8"},
                                                     {"head_dim", "128"},
                                                     {"hidden_act", "silu"},
                                                     {"max_position_embeddings", "131072"},
                                                     {"rms_norm_eps", "1e-05"},
                                                     {"tie_word_embeddings", "false"},
                                                     {"attention_bias", "false"},
                                                     {"n_group", "1"},
                                                     {"topk_group", "1"},
                                                     {"norm_topk_prob", "true"},
                                                     {"routed_scaling_factor", "1.0"},
                                                     {"n_routed_experts", "128"},
                                                     {"n_shared_experts", "1"},
                                                     {"num_experts_per_tok", "8"},
                                                     {"moe_intermediate_size", "1280"},
                                                     {"rope_theta", "1000000.0"},
                                                     MF_DEFAULTS_END};

static const mf_key_default defaults_exaone_moe[] = {{"vocab_size", "102400"},
                                                     {"hidden_size", "4096"},
                                                     {"intermediate_size", "16384"},
                                                     {"num_hidden_layers", "32"},
                                                     {"num_attention_heads", "32"},
                                                     {"num_key_value_heads", "32"},
                                                     {"hidden_act", "silu"},
                                                     {"max_position_embeddings", "2048"},
                                                     {"rms_norm_eps", "1e-05"},
                                                     {"tie_word_embeddings", "false"},
                                                     {"sliding_window", "4096"},
                                                     {"sliding_window_pattern", "4"},
                                                     {"layer_types", "null"},
                                                     {"mlp_layer_types", "null"},
                                                     {"first_k_dense_replace", "1"},
                                                     {"n_group", "1"},
                                                     {"topk_group", "1"},
                                                     {"norm_topk_prob", "true"},
                                                     {"routed_scaling_factor", "2.5"},
                                                     {"num_experts", "64"},
                                                     {"num_shared_experts", "1"},
                                                     {"num_experts_per_tok", "8"},
                                                     {"moe_intermediate_size", "1024"},
                                                     {"rope_theta", "10000.0"},
                                                     MF_DEFAULTS_END};

#define FAMILY(id, table, ...)                                                                 \
    static const char *const types_##id[] = {#id, NULL};                                       \
    const mf_family mf_family_##id = {.name = #id,                                             \
                                      .types = types_##id,                                     \
                                      .rules = (table),                                        \
                                      .defaults = defaults_##id,                               \
                                      .settings = id,                                          \
                                      __VA_ARGS__};
FAMILY(glm4_moe, rules, .peft_takes_experts = true, .further_blocks = true)
FAMILY(dots1, rules, .peft_takes_experts = true)
FAMILY(solar_open, rules, .peft_takes_experts = true)
FAMILY(hy_v3, rules_hy, .peft_takes_experts = true)
FAMILY(minimax_m2, rules_minimax, .file_part = ".block_sparse_moe.", .module_part = ".mlp.")
FAMILY(sarvam_moe, rules_sarvam, .peft_takes_experts = true, .further_blocks = true)
FAMILY(exaone_moe, rules_exaone, .peft_takes_experts = true)
