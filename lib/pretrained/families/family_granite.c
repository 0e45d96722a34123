/* families/family_granite.c: Granite 3 with experts (granitemoe, granitemoeshared), with
 * windows and sinks (granitemoe_swa), and Granite 4 if no block is of Mamba (granitemoehybrid).
 * They are decoders of the Llama form with factors on embeddings, scores of attention, outputs
 * of half blocks, and logits. All experts of a layer are two tensors. */
#include "pretrained/families/family_rules.h"

#include <string.h>

static double factor(mf_keys *k, const char *name)
{
    return mf_keys_real_or(k, name, 1);
}

static void decoder(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    mf_keys_attention_bias(k);
    mf_keys_set(k, "model.embed_scale=%.17g", factor(k, "embedding_multiplier"));
    mf_keys_set(k, "model.residual_scale=%.17g", factor(k, "residual_multiplier"));
    mf_keys_set(k, "model.attention_scale=%.17g", factor(k, "attention_multiplier"));
    mf_keys_set(k, "model.logit_scale=%.17g", 1 / factor(k, "logits_scaling"));
}

static void granitemoe(mf_keys *k)
{
    decoder(k);
    mf_keys_experts(k, "num_local_experts", "intermediate_size", true);
}

static void granitemoeshared(mf_keys *k)
{
    granitemoe(k);
    const int64_t shared = mf_keys_int(k, "shared_intermediate_size", 0, 1048576);
    if (shared == 0) return;
    mf_keys_set(k, "moe.shared_experts=1");
    mf_keys_set(k, "moe.shared_hidden=%lld", (long long)shared);
}

/* Returns the base of rope of a block; 0: it has no rope. */
static double base_of(mf_keys *k, int64_t layer)
{
    double theta = -1;
    const mf_json *list = mf_json_get(k->json, "layer_rope_theta");
    if (!mf_json_real(mf_json_at(list, (size_t)layer), &theta) || theta < 0)
        mf_keys_refuse(k, "layer_rope_theta", "expected a number for each of %lld blocks",
                       (long long)k->layers);
    return theta;
}

static bool has_base(mf_keys *k, int64_t layer)
{
    return base_of(k, layer) != 0;
}

static bool is_windowed(mf_keys *k, int64_t layer)
{
    (void)k;
    return layer % 4 != 0;
}

/* All blocks that have rope must have the same base. */
static void bases(mf_keys *k)
{
    double theta = 0;
    if (mf_json_typeof(mf_json_get(k->json, "layer_rope_theta")) == MF_JSON_NULL) return;
    for (int64_t l = 0; k->rc == MF_OK && l < k->layers; l++) {
        const double own = base_of(k, l);
        if (own == 0) continue;
        if (theta != 0 && own != theta)
            mf_keys_refuse(k, "layer_rope_theta", "expected the same base for all blocks");
        theta = own;
    }
    if (theta != 0) mf_keys_set(k, "model.rope_theta=%.17g", theta);
    mf_keys_rope_where(k, has_base);
}

static void granitemoe_swa(mf_keys *k)
{
    granitemoeshared(k);
    bases(k);
    mf_keys_set(k, "model.sinks=yes");
    const int64_t width = mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX);
    if (mf_keys_has(k, "layer_types"))
        mf_keys_window(k, width, true, 1, 0, k->layers);
    else
        mf_keys_window_where(k, width, is_windowed);
}

/* Checks that no block is of Mamba. Files also have this type without "full_" in front. */
static void attention_only(mf_keys *k)
{
    static const char type_name[] = "full_attention";
    const char *name =
        mf_json_get(k->json, "layer_types") ? "layer_types" : "layers_block_type";
    const mf_json *list = mf_json_get(k->json, name);
    for (int64_t l = 0; l < k->layers; l++) {
        const char *type = mf_json_string(mf_json_at(list, (size_t)l), NULL);
        if (!type || (strcmp(type, type_name) != 0 && strcmp(type, type_name + 5) != 0))
            mf_keys_refuse(k, name,
                           "expected full_attention for each of %lld blocks: blocks of Mamba "
                           "are not read",
                           (long long)k->layers);
    }
}

static void granitemoehybrid(mf_keys *k)
{
    decoder(k);
    attention_only(k);
    if (!mf_keys_has(k, "position_embedding_type"))
        mf_keys_set(k, "model.position=none");
    else
        mf_keys_expect_text(k, "position_embedding_type", "rope");
    const int64_t width = mf_keys_int(k, "shared_intermediate_size", 1, 1048576);
    if (mf_keys_int(k, "num_local_experts", 0, 4096) > 0) {
        mf_keys_experts(k, "num_local_experts", "intermediate_size", true);
        mf_keys_set(k, "moe.shared_experts=1");
        mf_keys_set(k, "moe.shared_hidden=%lld", (long long)width);
        return;
    }
    mf_keys_dense(k);
    mf_keys_set(k, "model.ffn_hidden=%lld", (long long)width);
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    {"model.layers.{l}.self_attn.sinks", "layers.{l}.attention.sinks", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.block_sparse_moe.router.layer.weight", "layers.{l}.router.weight",
     MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.block_sparse_moe.input_linear.weight", "layers.{l}.expert.w13",
     MF_PART_ALL, MF_RULE_FUSED, NULL},
    {"model.layers.{l}.block_sparse_moe.output_linear.weight", "layers.{l}.expert.w2",
     MF_PART_ALL, MF_RULE_FUSED, NULL},
    {"model.layers.{l}.block_sparse_moe.router.weight", "layers.{l}.router.weight", MF_PART_ALL,
     0, NULL},
    {"model.layers.{l}.block_sparse_moe.experts.gate_up_proj", "layers.{l}.expert.w13",
     MF_PART_ALL, MF_RULE_FUSED, NULL},
    {"model.layers.{l}.block_sparse_moe.experts.down_proj", "layers.{l}.expert.w2", MF_PART_ALL,
     MF_RULE_FUSED, NULL},
    {"model.layers.{l}.shared_mlp.input_linear.weight", "layers.{l}.shared.w13", MF_PART_ALL, 0,
     NULL},
    {"model.layers.{l}.shared_mlp.output_linear.weight", "layers.{l}.shared.w2", MF_PART_ALL, 0,
     NULL},
    {"model.layers.{l}.shared_mlp.input_linear.weight", "layers.{l}.ffn.w1", MF_PART_ALL, 0,
     NULL},
    {"model.layers.{l}.shared_mlp.output_linear.weight", "layers.{l}.ffn.w2", MF_PART_ALL, 0,
     NULL},
    MF_RULES_END};

/* the defaults that all types of this file share */
#define COMMON_DEFAULTS                                                                        \
    {"vocab_size", "32000"}, {"hidden_size", "4096"}, {"intermediate_size", "11008"},          \
        {"num_hidden_layers", "32"}, {"num_attention_heads", "32"},                            \
        {"num_key_value_heads", "null"}, {"hidden_act", "silu"},                               \
        {"max_position_embeddings", "2048"}, {"rms_norm_eps", "1e-06"},                        \
        {"tie_word_embeddings", "false"}, {"attention_bias", "false"},                         \
        {"num_local_experts", "8"}, {"num_experts_per_tok", "2"},                              \
        {"output_router_logits", "false"}, {"router_aux_loss_coef", "0.001"},                  \
        {"embedding_multiplier", "1.0"}, {"logits_scaling", "1.0"},                            \
        {"residual_multiplier", "1.0"},                                                        \
    {                                                                                          \
        "attention_multiplier", "1.0"                                                          \
    }

static const mf_key_default defaults_granitemoe[] = {
    COMMON_DEFAULTS, {"rope_theta", "10000.0"}, MF_DEFAULTS_END};

static const mf_key_default defaults_granitemoeshared[] = {COMMON_DEFAULTS,
                                                           {"shared_intermediate_size", "0"},
                                                           {"rope_theta", "10000.0"},
                                                           MF_DEFAULTS_END};

static const mf_key_default defaults_granitemoe_swa[] = {
    COMMON_DEFAULTS,         {"shared_intermediate_size", "0"}, {"sliding_window", "128"},
    {"layer_types", "null"}, {"layer_rope_theta", "null"},      {"rope_theta", "10000.0"},
    MF_DEFAULTS_END};

static const mf_key_default defaults_granitemoehybrid[] = {COMMON_DEFAULTS,
                                                           {"shared_intermediate_size", "1024"},
                                                           {"position_embedding_type", "null"},
                                                           {"layer_types", "null"},
                                                           {"rope_theta", "10000.0"},
                                                           MF_DEFAULTS_END};

#define FAMILY(id)                                                                             \
    static const char *const types_##id[] = {#id, NULL};                                       \
    const mf_family mf_family_##id = {.name = #id,                                             \
                                      .types = types_##id,                                     \
                                      .rules = rules,                                          \
                                      .defaults = defaults_##id,                               \
                                      .settings = id};
FAMILY(granitemoe)
FAMILY(granitemoeshared)
FAMILY(granitemoe_swa)
FAMILY(granitemoehybrid)
