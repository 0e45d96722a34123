/* families/family_deepseek.c: DeepSeek-V2 and DeepSeek-V3 (DeepSeek-AI 2024), without fp8, and
 * models of the form of V3: DeepSeek-V3.2 and GLM-5 within their index_topk, GLM-4.7-Flash,
 * Sarvam-105B, and Mistral 4 within its original length.
 * Attention reads keys and values from a latent vector. The first blocks are dense. The shared
 * experts are one expert with their total width. The router of V2 differs from the others. */
#include "pretrained/families/family_rules.h"

#include <math.h>
#include "base/log.h"
#include "base/text/number.h"

/* Sets the latent attention of DeepSeek. turns: the two values of a rotated pair are neighbours
 * in a head. */
static void attention(mf_keys *k, bool turns)
{
    const int64_t plain = mf_keys_int(k, "qk_nope_head_dim", 1, 65536),
                  rope = mf_keys_int(k, "qk_rope_head_dim", 2, 65536);
    double softmax;
    k->head_dim = plain + rope;
    mf_keys_rope(k, &softmax);
    mf_keys_set(k, "model.head_dim=%lld", (long long)k->head_dim);
    mf_keys_set(k, "model.rope_dims=%lld", (long long)rope);
    mf_keys_set(k, "model.rope_half=%s", turns ? "no" : "yes");
    mf_keys_set(k, "model.latent=%lld", (long long)mf_keys_int(k, "kv_lora_rank", 1, 65536));
    mf_keys_set(k, "model.latent_q=%lld",
                (long long)mf_keys_int_or(k, "q_lora_rank", 0, 0, 65536));
    mf_keys_set(k, "model.value_dim=%lld", (long long)mf_keys_int(k, "v_head_dim", 1, 65536));
    if (softmax != 1)
        mf_keys_set(k, "model.attention_scale=%.17g", softmax / sqrt((double)k->head_dim));
    if (k->kv_heads != k->heads)
        mf_keys_refuse(k, "num_key_value_heads", "expected num_attention_heads");
    mf_keys_attention_bias(k);
}

static void settings2(mf_keys *k)
{
    mf_keys_decoder(k);
    attention(k, true);
    mf_keys_dense_first(k, 0);
    mf_keys_shared_experts(k, "num_experts|n_routed_experts", "moe_intermediate_size",
                           "n_shared_experts");
    mf_keys_expect_text(k, "scoring_func", "softmax");
    mf_keys_expect_text(k, "topk_method", "greedy|group_limited_greedy");
    if (mf_keys_bool_or(k, "norm_topk_prob", false))
        mf_keys_refuse(k, "norm_topk_prob", "expected false");
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "moe.renormalize=no");
    mf_keys_set(k, "moe.gate_scale=%.17g", mf_keys_real(k, "routed_scaling_factor"));
    if (!mf_keys_is(k, "topk_method", "group_limited_greedy")) return;
    mf_keys_set(k, "router.groups=%lld", (long long)mf_keys_int_or(k, "n_group", 1, 1, 4096));
    mf_keys_set(k, "router.topk_groups=%lld",
                (long long)mf_keys_int_or(k, "topk_group", 1, 1, 4096));
}

/* What DeepSeek-V3 and the families after it have in common. */
static void third(mf_keys *k, const char *experts, const char *shared, int64_t dense)
{
    attention(k, mf_keys_bool_or(k, "rope_interleave", false));
    mf_keys_dense_first(k, dense);
    mf_keys_shared_experts(k, experts, "moe_intermediate_size", shared);
    mf_keys_sigmoid_router(k, mf_keys_real(k, "routed_scaling_factor"),
                           mf_keys_bool_or(k, "norm_topk_prob", false));
}

static void settings3(mf_keys *k)
{
    mf_keys_decoder(k);
    third(k, "num_local_experts|n_routed_experts", "n_shared_experts", 0);
    mf_keys_expect_text(k, "scoring_func", "sigmoid");
    mf_keys_expect_text(k, "topk_method", "noaux_tc");
}

static void settings_glm(mf_keys *k)
{
    mf_keys_decoder(k);
    third(k, "num_local_experts|n_routed_experts", "n_shared_experts", 1);
}

static void settings_sarvam(mf_keys *k)
{
    mf_keys_decoder(k);
    third(k, "num_local_experts|num_experts|n_routed_experts",
          "num_shared_experts|n_shared_experts", 1);
}

/* The indexer chooses index_topk positions for each token. If there are no more positions than
 * this, it chooses all, and the model is equal to DeepSeek-V3. */
static void settings32(mf_keys *k)
{
    mf_keys_decoder(k);
    attention(k, true);
    mf_keys_dense_first(k, 3);
    mf_keys_shared_experts(k, "num_local_experts|num_experts|n_routed_experts",
                           "moe_intermediate_size", "n_shared_experts");
    mf_keys_sigmoid_router(k, mf_keys_real(k, "routed_scaling_factor"),
                           mf_keys_bool_or(k, "norm_topk_prob", false));
    const int64_t positions = mf_keys_int(k, "index_topk", 1, INT32_MAX);
    if (k->rc != MF_OK || positions >= k->seq) return;
    mf_log(MF_LOG_WARN,
           "%s: model.seq = %lld of %lld positions: beyond index_topk the indexer would choose "
           "among them, which is not read",
           k->path, (long long)positions, (long long)k->seq);
    k->seq = positions;
    mf_keys_set(k, "model.seq=%lld", (long long)positions);
}

/* Queries of positions beyond the original length have a further factor, which is not read.
 * Therefore the run's sequences are not longer than this length. */
static void settings_mistral(mf_keys *k)
{
    mf_keys_decoder(k);
    const int64_t plain = mf_keys_int(k, "qk_nope_head_dim", 1, 65536),
                  rope = mf_keys_int(k, "qk_rope_head_dim", 2, 65536);
    k->rope_share = (double)rope / (double)(plain + rope);
    attention(k, mf_keys_bool_or(k, "rope_interleave", false));
    mf_keys_dense_first(k, 0);
    mf_keys_shared_experts(k, "num_local_experts|n_routed_experts", "moe_intermediate_size",
                           "n_shared_experts");
    mf_keys_sigmoid_router(k, mf_keys_real(k, "routed_scaling_factor"),
                           mf_keys_bool_or(k, "norm_topk_prob", false));
    mf_keys_set(k, "router.score=softmax");
    const char *text = mf_keys_setting(k, "model", "rope_original");
    double original;
    if (!text || !mf_parse_f64(text, &original) || original >= (double)k->seq) return;
    k->seq = (int64_t)original;
    mf_keys_set(k, "model.seq=%lld", (long long)k->seq);
}

#define INDEXER "the indexer, which chooses all positions up to index_topk"

/* The first rule is not used by a family whose router has no bias. */
static const mf_family_rule rules[] = {
    {"model.layers.{l}.mlp.gate.e_score_correction_bias", "layers.{l}.router.bias", MF_PART_ALL,
     0, NULL},
    MF_RULES_DECODER,
    MF_RULES_DENSE,
    MF_RULES_ROUTER,
    MF_RULES_EXPERTS,
    {"model.layers.{l}.self_attn.q_proj.weight", "layers.{l}.attention.q.weight", MF_PART_ALL,
     0, NULL},
    {"model.layers.{l}.self_attn.q_a_proj.weight", "layers.{l}.attention.q_down.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.q_a_proj.bias", "layers.{l}.attention.q_down.bias",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_a_proj_with_mqa.bias", "layers.{l}.attention.kv_down.bias",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.q_a_layernorm.weight",
     "layers.{l}.attention.q_latent_norm.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.q_b_proj.weight", "layers.{l}.attention.q_up.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_a_proj_with_mqa.weight",
     "layers.{l}.attention.kv_down.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_a_layernorm.weight",
     "layers.{l}.attention.kv_latent_norm.weight", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.self_attn.kv_b_proj.weight", "layers.{l}.attention.k_up.weight",
     MF_PART_HEADS, 0, "layers.{l}.attention.v_up.weight"},
    MF_RULES_SHARED,
    {"model.layers.{l}.self_attn.indexer.wq_b.weight", NULL, MF_PART_ALL, 0, INDEXER},
    {"model.layers.{l}.self_attn.indexer.wk.weight", NULL, MF_PART_ALL, 0, INDEXER},
    {"model.layers.{l}.self_attn.indexer.k_norm.weight", NULL, MF_PART_ALL, 0, INDEXER},
    {"model.layers.{l}.self_attn.indexer.k_norm.bias", NULL, MF_PART_ALL, 0, INDEXER},
    {"model.layers.{l}.self_attn.indexer.weights_proj.weight", NULL, MF_PART_ALL, 0, INDEXER},
    MF_RULES_END};

static const mf_key_default defaults_deepseek_v2[] = {
    {"vocab_size", "102400"},        {"hidden_size", "4096"},
    {"intermediate_size", "11008"},  {"num_hidden_layers", "32"},
    {"num_attention_heads", "32"},   {"num_key_value_heads", "null"},
    {"hidden_act", "silu"},          {"max_position_embeddings", "2048"},
    {"rms_norm_eps", "1e-06"},       {"tie_word_embeddings", "false"},
    {"attention_bias", "false"},     {"first_k_dense_replace", "0"},
    {"kv_lora_rank", "512"},         {"q_lora_rank", "1536"},
    {"qk_nope_head_dim", "128"},     {"qk_rope_head_dim", "64"},
    {"v_head_dim", "128"},           {"n_group", "null"},
    {"topk_group", "null"},          {"topk_method", "greedy"},
    {"norm_topk_prob", "false"},     {"routed_scaling_factor", "1.0"},
    {"n_routed_experts", "64"},      {"n_shared_experts", "2"},
    {"num_experts_per_tok", "null"}, {"moe_intermediate_size", "1407"},
    {"scoring_func", "softmax"}, /* older files */
    {"rope_theta", "10000.0"},       MF_DEFAULTS_END};

static const mf_key_default defaults_deepseek_v3[] = {
    {"vocab_size", "129280"},
    {"hidden_size", "7168"},
    {"intermediate_size", "18432"},
    {"num_hidden_layers", "61"},
    {"num_attention_heads", "128"},
    {"num_key_value_heads", "128"},
    {"hidden_act", "silu"},
    {"max_position_embeddings", "4096"},
    {"rms_norm_eps", "1e-06"},
    {"tie_word_embeddings", "false"},
    {"attention_bias", "false"},
    {"first_k_dense_replace", "3"},
    {"kv_lora_rank", "512"},
    {"q_lora_rank", "1536"},
    {"qk_nope_head_dim", "128"},
    {"qk_rope_head_dim", "64"},
    {"v_head_dim", "128"},
    {"rope_interleave", "true"},
    {"n_group", "8"},
    {"topk_group", "4"},
    {"norm_topk_prob", "true"},
    {"routed_scaling_factor", "2.5"},
    {"n_routed_experts", "256"},
    {"n_shared_experts", "1"},
    {"num_experts_per_tok", "8"},
    {"moe_intermediate_size", "2048"},
    {"scoring_func", "sigmoid"}, /* older files */
    {"topk_method", "noaux_tc"}, /* older files */
    {"rope_theta", "10000.0"},
    MF_DEFAULTS_END};

static const mf_key_default defaults_deepseek_v32[] = {{"vocab_size", "129280"},
                                                       {"hidden_size", "7168"},
                                                       {"intermediate_size", "18432"},
                                                       {"num_hidden_layers", "61"},
                                                       {"num_attention_heads", "128"},
                                                       {"num_key_value_heads", "128"},
                                                       {"hidden_act", "silu"},
                                                       {"max_position_embeddings", "163840"},
                                                       {"rms_norm_eps", "1e-06"},
                                                       {"tie_word_embeddings", "false"},
                                                       {"attention_bias", "false"},
                                                       {"mlp_layer_types", "null"},
                                                       {"first_k_dense_replace", "3"},
                                                       {"kv_lora_rank", "512"},
                                                       {"q_lora_rank", "1536"},
                                                       {"qk_nope_head_dim", "128"},
                                                       {"qk_rope_head_dim", "64"},
                                                       {"v_head_dim", "128"},
                                                       {"n_group", "8"},
                                                       {"topk_group", "4"},
                                                       {"norm_topk_prob", "true"},
                                                       {"routed_scaling_factor", "2.5"},
                                                       {"n_routed_experts", "256"},
                                                       {"n_shared_experts", "1"},
                                                       {"num_experts_per_tok", "8"},
                                                       {"moe_intermediate_size", "2048"},
                                                       {"index_topk", "2048"},
                                                       {"rope_theta", "10000.0"},
                                                       MF_DEFAULTS_END};

static const mf_key_default defaults_glm4_moe_lite[] = {{"vocab_size", "154880"},
                                                        {"hidden_size", "2048"},
                                                        {"intermediate_size", "10240"},
                                                        {"num_hidden_layers", "47"},
                                                        {"num_attention_heads", "20"},
                                                        {"num_key_value_heads", "20"},
                                                        {"hidden_act", "silu"},
                                                        {"max_position_embeddings", "202752"},
                                                        {"rms_norm_eps", "1e-05"},
                                                        {"tie_word_embeddings", "false"},
                                                        {"attention_bias", "false"},
                                                        {"mlp_layer_types", "null"},
                                                        {"kv_lora_rank", "512"},
                                                        {"q_lora_rank", "768"},
                                                        {"qk_nope_head_dim", "192"},
                                                        {"qk_rope_head_dim", "64"},
                                                        {"v_head_dim", "256"},
                                                        {"rope_interleave", "true"},
                                                        {"n_group", "1"},
                                                        {"topk_group", "1"},
                                                        {"norm_topk_prob", "true"},
                                                        {"routed_scaling_factor", "1.8"},
                                                        {"n_routed_experts", "64"},
                                                        {"n_shared_experts", "1"},
                                                        {"num_experts_per_tok", "4"},
                                                        {"moe_intermediate_size", "1536"},
                                                        {"rope_theta", "10000.0"},
                                                        MF_DEFAULTS_END};

static const mf_key_default defaults_sarvam_mla[] = {{"vocab_size", "262144"},
                                                     {"hidden_size", "4096"},
                                                     {"intermediate_size", "16384"},
                                                     {"num_hidden_layers", "32"},
                                                     {"num_attention_heads", "64"},
                                                     {"num_key_value_heads", "null"},
                                                     {"hidden_act", "silu"},
                                                     {"max_position_embeddings", "4096"},
                                                     {"rms_norm_eps", "1e-06"},
                                                     {"tie_word_embeddings", "false"},
                                                     {"attention_bias", "false"},
                                                     {"first_k_dense_replace", "1"},
                                                     {"kv_lora_rank", "512"},
                                                     {"q_lora_rank", "null"},
                                                     {"qk_nope_head_dim", "128"},
                                                     {"qk_rope_head_dim", "64"},
                                                     {"v_head_dim", "128"},
                                                     {"rope_interleave", "true"},
                                                     {"n_group", "1"},
                                                     {"topk_group", "1"},
                                                     {"norm_topk_prob", "true"},
                                                     {"routed_scaling_factor", "2.5"},
                                                     {"n_routed_experts", "128"},
                                                     {"n_shared_experts", "1"},
                                                     {"num_experts_per_tok", "8"},
                                                     {"moe_intermediate_size", "2048"},
                                                     {"rope_theta", "10000.0"},
                                                     MF_DEFAULTS_END};

static const mf_key_default defaults_glm_moe_dsa[] = {{"vocab_size", "154880"},
                                                      {"hidden_size", "6144"},
                                                      {"intermediate_size", "12288"},
                                                      {"num_hidden_layers", "78"},
                                                      {"num_attention_heads", "64"},
                                                      {"num_key_value_heads", "64"},
                                                      {"hidden_act", "silu"},
                                                      {"max_position_embeddings", "202752"},
                                                      {"rms_norm_eps", "1e-05"},
                                                      {"tie_word_embeddings", "false"},
                                                      {"attention_bias", "false"},
                                                      {"mlp_layer_types", "null"},
                                                      {"first_k_dense_replace", "3"},
                                                      {"kv_lora_rank", "512"},
                                                      {"q_lora_rank", "2048"},
                                                      {"qk_nope_head_dim", "192"},
                                                      {"qk_rope_head_dim", "64"},
                                                      {"v_head_dim", "256"},
                                                      {"n_group", "1"},
                                                      {"topk_group", "1"},
                                                      {"norm_topk_prob", "true"},
                                                      {"routed_scaling_factor", "2.5"},
                                                      {"n_routed_experts", "256"},
                                                      {"n_shared_experts", "1"},
                                                      {"num_experts_per_tok", "8"},
                                                      {"moe_intermediate_size", "2048"},
                                                      {"index_topk", "2048"},
                                                      {"rope_theta", "10000.0"},
                                                      MF_DEFAULTS_END};

static const mf_key_default defaults_mistral4[] = {
    {"vocab_size", "131072"},
    {"hidden_size", "4096"},
    {"intermediate_size", "12288"},
    {"num_hidden_layers", "36"},
    {"num_attention_heads", "32"},
    {"num_key_value_heads", "32"},
    {"hidden_act", "silu"},
    {"max_position_embeddings", "1048576"},
    {"rms_norm_eps", "1e-06"},
    {"tie_word_embeddings", "false"},
    {"attention_bias", "false"},
    {"first_k_dense_replace", "0"},
    {"kv_lora_rank", "256"},
    {"q_lora_rank", "1024"},
    {"qk_nope_head_dim", "64"},
    {"qk_rope_head_dim", "64"},
    {"v_head_dim", "128"},
    {"rope_interleave", "true"},
    {"n_group", "1"},
    {"topk_group", "1"},
    {"norm_topk_prob", "true"},
    {"routed_scaling_factor", "1.0"},
    {"n_routed_experts", "128"},
    {"n_shared_experts", "1"},
    {"num_experts_per_tok", "4"},
    {"moe_intermediate_size", "2048"},
    {"rope_theta", "10000.0"},
    {"rope_parameters.rope_type", "yarn"},
    {"rope_parameters.factor", "128.0"},
    {"rope_parameters.original_max_position_embeddings", "8192"},
    {"rope_parameters.beta_fast", "32.0"},
    {"rope_parameters.beta_slow", "1.0"},
    {"rope_parameters.mscale_all_dim", "1.0"},
    {"rope_parameters.mscale", "1.0"},
    MF_DEFAULTS_END};

/* Families that differ only in their keys. */
#define FAMILY(id, read, further)                                                              \
    static const char *const types_##id[] = {#id, NULL};                                       \
    const mf_family mf_family_##id = {.name = #id,                                             \
                                      .peft_takes_experts = true,                              \
                                      .further_blocks = (further),                             \
                                      .types = types_##id,                                     \
                                      .rules = rules,                                          \
                                      .defaults = defaults_##id,                               \
                                      .settings = (read)};
FAMILY(deepseek_v2, settings2, false)
FAMILY(deepseek_v3, settings3, true)
FAMILY(deepseek_v32, settings32, true)
FAMILY(glm_moe_dsa, settings32, true)

static const char *const types_mistral4[] = {"mistral4", NULL};
const mf_family mf_family_mistral4 = {.name = "mistral4",
                                      .peft_takes_experts = true,
                                      .types = types_mistral4,
                                      .rules = rules + 1,
                                      .defaults = defaults_mistral4,
                                      .settings = settings_mistral};
FAMILY(glm4_moe_lite, settings_glm, true)
FAMILY(sarvam_mla, settings_sarvam, true)
