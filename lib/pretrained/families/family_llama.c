/* families/family_llama.c: dense decoders of the Llama form (Touvron et al. 2023), with
 * rmsnorm, rope that rotates the halves of a head, and SwiGLU in all blocks: Llama itself,
 * Mistral, Qwen2, Qwen3, Seed-OSS, SmolLM3. They differ in biases, windows, norms of queries
 * and keys, and blocks without rope. */
#include "pretrained/families/family_rules.h"

static void decoder(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_dense(k);
}

static void llama(mf_keys *k)
{
    decoder(k);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.ffn_bias=%s", mf_keys_bool(k, "mlp_bias") ? "yes" : "no");
}

static void mistral(mf_keys *k)
{
    decoder(k);
    mf_keys_window(k, mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX), false, 1, 0,
                   k->layers);
}

/* Sets a window in the blocks from max_window_layers on, unless layer_types names
 * the blocks. */
static void late_window(mf_keys *k)
{
    mf_keys_window(k, mf_keys_optional_window(k), true, 1,
                   mf_keys_int(k, "max_window_layers", 0, INT32_MAX), k->layers);
}

static void qwen2(mf_keys *k)
{
    decoder(k);
    mf_keys_set(k, "model.attention_bias=yes");
    late_window(k);
}

static void qwen3(mf_keys *k)
{
    decoder(k);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.qk_norm=head");
    late_window(k);
}

static void seed_oss(mf_keys *k)
{
    decoder(k);
    mf_keys_set(k, "model.attention_bias=%s", mf_keys_bool(k, "attention_bias") ? "yes" : "no");
    mf_keys_set(k, "model.attention_out_bias=%s",
                mf_keys_bool(k, "attention_out_bias") ? "yes" : "no");
    mf_keys_set(k, "model.ffn_bias=%s", mf_keys_bool(k, "mlp_bias") ? "yes" : "no");
}

static void smollm3(mf_keys *k)
{
    llama(k);
    if (mf_keys_has(k, "no_rope_layers"))
        mf_keys_rope_blocks(k, "no_rope_layers");
    else
        mf_keys_rope_except(k, mf_keys_int(k, "no_rope_layer_interval", 1, 1024));
    if (mf_keys_bool(k, "use_sliding_window") && mf_keys_has(k, "sliding_window"))
        mf_keys_refuse(k, "use_sliding_window", "expected false");
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    MF_RULES_QK_NORM,
    MF_RULES_DENSE,
    {"model.layers.{l}.mlp.gate_proj.bias", "layers.{l}.ffn.b1", MF_PART_GATE, 0, NULL},
    {"model.layers.{l}.mlp.up_proj.bias", "layers.{l}.ffn.b1", MF_PART_UP, 0, NULL},
    {"model.layers.{l}.mlp.down_proj.bias", "layers.{l}.ffn.b2", MF_PART_ALL, 0, NULL},
    MF_RULES_END};

static const mf_key_default defaults_llama[] = {{"vocab_size", "32000"},
                                                {"hidden_size", "4096"},
                                                {"intermediate_size", "11008"},
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
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const mf_key_default defaults_mistral[] = {{"vocab_size", "32000"},
                                                  {"hidden_size", "4096"},
                                                  {"intermediate_size", "14336"},
                                                  {"num_hidden_layers", "32"},
                                                  {"num_attention_heads", "32"},
                                                  {"num_key_value_heads", "8"},
                                                  {"head_dim", "null"},
                                                  {"hidden_act", "silu"},
                                                  {"max_position_embeddings", "131072"},
                                                  {"rms_norm_eps", "1e-06"},
                                                  {"tie_word_embeddings", "false"},
                                                  {"sliding_window", "4096"},
                                                  {"rope_theta", "10000.0"},
                                                  MF_DEFAULTS_END};

static const mf_key_default defaults_qwen2[] = {
    {"vocab_size", "151936"},        {"hidden_size", "4096"},
    {"intermediate_size", "22016"},  {"num_hidden_layers", "32"},
    {"num_attention_heads", "32"},   {"num_key_value_heads", "32"},
    {"hidden_act", "silu"},          {"max_position_embeddings", "32768"},
    {"rms_norm_eps", "1e-06"},       {"tie_word_embeddings", "false"},
    {"use_sliding_window", "false"}, {"sliding_window", "4096"},
    {"max_window_layers", "28"},     {"layer_types", "null"},
    {"rope_theta", "10000.0"},       MF_DEFAULTS_END};

static const mf_key_default defaults_qwen3[] = {{"vocab_size", "151936"},
                                                {"hidden_size", "4096"},
                                                {"intermediate_size", "22016"},
                                                {"num_hidden_layers", "32"},
                                                {"num_attention_heads", "32"},
                                                {"num_key_value_heads", "32"},
                                                {"head_dim", "128"},
                                                {"hidden_act", "silu"},
                                                {"max_position_embeddings", "32768"},
                                                {"rms_norm_eps", "1e-06"},
                                                {"tie_word_embeddings", "false"},
                                                {"attention_bias", "false"},
                                                {"use_sliding_window", "false"},
                                                {"sliding_window", "4096"},
                                                {"max_window_layers", "28"},
                                                {"layer_types", "null"},
                                                {"rope_theta", "10000.0"},
                                                MF_DEFAULTS_END};

static const mf_key_default defaults_seed_oss[] = {{"vocab_size", "155136"},
                                                   {"hidden_size", "4096"},
                                                   {"intermediate_size", "27648"},
                                                   {"num_hidden_layers", "64"},
                                                   {"num_attention_heads", "80"},
                                                   {"num_key_value_heads", "8"},
                                                   {"head_dim", "128"},
                                                   {"hidden_act", "silu"},
                                                   {"max_position_embeddings", "524288"},
                                                   {"rms_norm_eps", "1e-06"},
                                                   {"tie_word_embeddings", "false"},
                                                   {"attention_bias", "true"},
                                                   {"attention_out_bias", "false"},
                                                   {"mlp_bias", "false"},
                                                   {"rope_theta", "10000.0"},
                                                   MF_DEFAULTS_END};

static const mf_key_default defaults_smollm3[] = {{"vocab_size", "128256"},
                                                  {"hidden_size", "2048"},
                                                  {"intermediate_size", "11008"},
                                                  {"num_hidden_layers", "36"},
                                                  {"num_attention_heads", "16"},
                                                  {"num_key_value_heads", "4"},
                                                  {"hidden_act", "silu"},
                                                  {"max_position_embeddings", "32768"},
                                                  {"rms_norm_eps", "1e-06"},
                                                  {"tie_word_embeddings", "true"},
                                                  {"attention_bias", "false"},
                                                  {"mlp_bias", "false"},
                                                  {"use_sliding_window", "false"},
                                                  {"sliding_window", "null"},
                                                  {"layer_types", "null"},
                                                  {"no_rope_layers", "null"},
                                                  {"no_rope_layer_interval", "4"},
                                                  {"rope_theta", "2000000.0"},
                                                  MF_DEFAULTS_END};

#define FAMILY(id)                                                                             \
    static const char *const types_##id[] = {#id, NULL};                                       \
    const mf_family mf_family_##id = {.name = #id,                                             \
                                      .types = types_##id,                                     \
                                      .rules = rules,                                          \
                                      .defaults = defaults_##id,                               \
                                      .settings = id};
FAMILY(llama)
FAMILY(mistral)
FAMILY(qwen2)
FAMILY(qwen3)
FAMILY(seed_oss)
FAMILY(smollm3)
