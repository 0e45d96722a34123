/* families/family_llama4.c: the text model of Llama 4 (Meta 2025), also in a folder with its
 * vision model. Blocks with rope see chunks of the text, and normalise rotated queries and keys
 * without weights. Blocks without rope see all earlier tokens, and their queries grow with the
 * position. The router's sigmoids are factors on the inputs of experts. */
#include "pretrained/families/family_rules.h"

#include <string.h>

/* Whether the block has rope. */
static bool has_rope(mf_keys *k, int64_t layer)
{
    int64_t rope = 0;
    const mf_json *list = mf_json_get(k->json, "no_rope_layers");
    if (mf_json_size(list) == 0)
        return (layer + 1) % mf_keys_int(k, "no_rope_layer_interval", 1, 1024) != 0;
    if (!mf_json_int(mf_json_at(list, (size_t)layer), &rope))
        mf_keys_refuse(k, "no_rope_layers", "expected a number for each of %lld blocks",
                       (long long)k->layers);
    return rope != 0;
}

/* Whether the block sees chunks of the text. */
static bool has_chunks(mf_keys *k, int64_t layer)
{
    if (!mf_keys_has(k, "layer_types")) return has_rope(k, layer);
    const mf_json *list = mf_json_get(k->json, "layer_types");
    const char *type = mf_json_string(mf_json_at(list, (size_t)layer), NULL);
    const bool chunks = type && strcmp(type, "chunked_attention") == 0;
    if (!chunks && (!type || strcmp(type, "full_attention") != 0))
        mf_keys_refuse(k, "layer_types",
                       "expected chunked_attention or full_attention for each of %lld blocks",
                       (long long)k->layers);
    return chunks;
}

/* Whether the block has no experts. */
static bool is_dense(mf_keys *k, int64_t layer)
{
    int64_t number;
    const mf_json *list = mf_json_get(k->json, "moe_layers");
    if (!mf_keys_has(k, "moe_layers"))
        return (layer + 1) % mf_keys_int(k, "interleave_moe_layer_step", 1, 1024) != 0;
    for (size_t i = 0; i < mf_json_size(list); i++) {
        if (!mf_json_int(mf_json_at(list, i), &number))
            mf_keys_refuse(k, "moe_layers", "expected a list of numbers of blocks");
        else if (number == layer)
            return false;
    }
    return true;
}

static void attention(mf_keys *k)
{
    const int64_t width = mf_keys_int_or(k, "attention_chunk_size", k->seq, 1, INT32_MAX);
    mf_keys_set(k, "model.rope_half=no");
    mf_keys_rope_where(k, has_rope);
    mf_keys_window_where(k, width, has_chunks);
    mf_keys_set(k, "model.window_chunks=yes");
    const char *position = mf_keys_setting(k, "model", "position"),
               *layers = mf_keys_setting(k, "model", "rope_layers");
    if (mf_keys_bool(k, "use_qk_norm") && layers && strcmp(position, "rope") == 0) {
        mf_keys_set(k, "model.qk_norm=head");
        mf_keys_set(k, "model.qk_norm_late=yes");
        mf_keys_set(k, "model.qk_norm_weights=no");
        mf_keys_set(k, "model.qk_norm_layers=%s", layers);
    }
    if (!mf_keys_bool(k, "attn_temperature_tuning")) return;
    mf_keys_set(k, "model.query_growth=%.17g", mf_keys_real(k, "attn_scale"));
    mf_keys_set(k, "model.query_growth_step=%lld",
                (long long)mf_keys_int(k, "floor_scale", 1, INT32_MAX));
}

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    attention(k);
    const int64_t width = mf_keys_int(k, "intermediate_size", 1, 1048576);
    mf_keys_dense_where(k, is_dense);
    mf_keys_set(k, "model.ffn_hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size_mlp", 1, 1048576));
    mf_keys_shared_experts(k, "num_experts|num_local_experts", "intermediate_size", NULL);
    mf_keys_sigmoid_router(k, 1, false);
    mf_keys_set(k, "moe.gate_inputs=yes");
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)width);
}

#define HALF "model.layers.{l}.feed_forward."

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    {HALF "router.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL},
    {HALF "experts.gate_up_proj", "layers.{l}.expert.w13", MF_PART_ALL,
     MF_RULE_FUSED | MF_RULE_TRANSPOSED, NULL},
    {HALF "experts.down_proj", "layers.{l}.expert.w2", MF_PART_ALL,
     MF_RULE_FUSED | MF_RULE_TRANSPOSED, NULL},
    {HALF "shared_expert.gate_proj.weight", "layers.{l}.shared.w13", MF_PART_GATE, 0, NULL},
    {HALF "shared_expert.up_proj.weight", "layers.{l}.shared.w13", MF_PART_UP, 0, NULL},
    {HALF "shared_expert.down_proj.weight", "layers.{l}.shared.w2", MF_PART_ALL, 0, NULL},
    {HALF "gate_proj.weight", "layers.{l}.ffn.w1", MF_PART_GATE, 0, NULL},
    {HALF "up_proj.weight", "layers.{l}.ffn.w1", MF_PART_UP, 0, NULL},
    {HALF "down_proj.weight", "layers.{l}.ffn.w2", MF_PART_ALL, 0, NULL},
    MF_RULES_END};

static const mf_key_default defaults_llama4[] = {{"vocab_size", "202048"},
                                                 {"hidden_size", "5120"},
                                                 {"intermediate_size", "8192"},
                                                 {"intermediate_size_mlp", "16384"},
                                                 {"num_hidden_layers", "48"},
                                                 {"num_attention_heads", "40"},
                                                 {"num_key_value_heads", "8"},
                                                 {"head_dim", "128"},
                                                 {"hidden_act", "silu"},
                                                 {"max_position_embeddings", "131072"},
                                                 {"rms_norm_eps", "1e-05"},
                                                 {"tie_word_embeddings", "false"},
                                                 {"attention_bias", "false"},
                                                 {"num_experts_per_tok", "1"},
                                                 {"num_local_experts", "16"},
                                                 {"moe_layers", "null"},
                                                 {"interleave_moe_layer_step", "1"},
                                                 {"use_qk_norm", "true"},
                                                 {"no_rope_layers", "null"},
                                                 {"no_rope_layer_interval", "4"},
                                                 {"attention_chunk_size", "8192"},
                                                 {"layer_types", "null"},
                                                 {"attn_temperature_tuning", "true"},
                                                 {"floor_scale", "8192"},
                                                 {"attn_scale", "0.1"},
                                                 {"rope_theta", "500000.0"},
                                                 MF_DEFAULTS_END};

static const char *const types[] = {"llama4_text", NULL}, *const whole[] = {"llama4", NULL},
                         *const vision[] = {"vision_model.", "multi_modal_projector.", NULL};
const mf_family mf_family_llama4_text = {.name = "llama4_text",
                                         .types = types,
                                         .whole_types = whole,
                                         .prefix = "language_model.",
                                         .skipped = vision,
                                         .rules = rules,
                                         .defaults = defaults_llama4,
                                         .settings = settings};
