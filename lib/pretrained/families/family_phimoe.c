/* families/family_phimoe.c: Phi-3.5-MoE (Abdin et al. 2024): layernorm with biases, biases on
 * attention and on the head, and the router sparsemixer, which chooses two experts whatever
 * num_experts_per_tok is. */
#include "pretrained/families/family_rules.h"

#include <stdio.h>
#include <string.h>

/* With any scaling of rope, this family multiplies rotated values by short_mscale, in sequences
 * of up to the original length, in place of what the kind of scaling gives. */
static void magnitude(mf_keys *k)
{
    const char *kind = mf_keys_setting(k, "model", "rope_scaling");
    if (!kind) return;
    if (strcmp(kind, "given") != 0) {
        mf_keys_refuse(k, "rope_scaling", "expected rope_type default or longrope");
        return;
    }
    const char *object =
        mf_keys_has(k, "rope_scaling.short_factor") ? "rope_scaling" : "rope_parameters";
    char name[64];
    snprintf(name, sizeof name, "%s.short_mscale", object);
    const double factor = mf_keys_real(k, name);
    if (k->rc == MF_OK && !(factor > 0))
        mf_keys_refuse(k, name, "expected a number above 0, found %g", factor);
    mf_keys_set(k, "model.rope_magnitude=%.17g", factor);
}

static void settings(mf_keys *k)
{
    mf_keys_decoder(k);
    mf_keys_rope(k, NULL);
    magnitude(k);
    mf_keys_attention_bias(k);
    mf_keys_window(k, mf_keys_int_or(k, "sliding_window", k->seq, 1, INT32_MAX), false, 1, 0,
                   k->layers);
    k->experts = mf_keys_int(k, "num_experts|num_local_experts", 2, 4096);
    if (mf_keys_bool(k, "output_router_logits"))
        mf_keys_refuse(k, "output_router_logits",
                       "expected false: this auxiliary loss counts the choice of a softmax, "
                       "which is not the model's");
    if (mf_keys_bool(k, "lm_head_bias")) mf_keys_set(k, "model.head_bias=yes");
    mf_keys_set(k, "model.norm=layernorm");
    mf_keys_set(k, "moe.experts=%lld", (long long)k->experts);
    mf_keys_set(k, "moe.top_k=2");
    mf_keys_set(k, "moe.capacity_factor=0");
    mf_keys_set(k, "router.plugin=sparsemixer");
    mf_keys_set(k, "router.jitter=%.17g", mf_keys_real(k, "router_jitter_noise"));
    mf_keys_set(k, "expert.plugin=swiglu");
    mf_keys_set(k, "expert.hidden=%lld",
                (long long)mf_keys_int(k, "intermediate_size", 1, 1048576));
}

static const mf_family_rule rules[] = {
    MF_RULES_DECODER,
    MF_RULES_SPARSE_MOE,
    {"model.norm.bias", "norm.bias", MF_PART_ALL, 0, NULL},
    {"lm_head.bias", "head.bias", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.input_layernorm.bias", "layers.{l}.norm1.bias", MF_PART_ALL, 0, NULL},
    {"model.layers.{l}.post_attention_layernorm.bias", "layers.{l}.norm2.bias", MF_PART_ALL, 0,
     NULL},
    MF_RULES_END};

static const mf_key_default defaults_phimoe[] = {{"vocab_size", "32064"},
                                                 {"hidden_size", "4096"},
                                                 {"intermediate_size", "6400"},
                                                 {"num_hidden_layers", "32"},
                                                 {"num_attention_heads", "32"},
                                                 {"num_key_value_heads", "8"},
                                                 {"hidden_act", "silu"},
                                                 {"max_position_embeddings", "131072"},
                                                 {"rms_norm_eps", "1e-05"},
                                                 {"tie_word_embeddings", "false"},
                                                 {"attention_bias", "false"},
                                                 {"lm_head_bias", "false"},
                                                 {"sliding_window", "null"},
                                                 {"num_local_experts", "16"},
                                                 {"output_router_logits", "false"},
                                                 {"router_jitter_noise", "0.01"},
                                                 {"rope_theta", "1000000.0"},
                                                 MF_DEFAULTS_END};

static const char *const types[] = {"phimoe", NULL};
const mf_family mf_family_phimoe = {.name = "phimoe",
                                    .types = types,
                                    .rules = rules,
                                    .defaults = defaults_phimoe,
                                    .settings = settings};
