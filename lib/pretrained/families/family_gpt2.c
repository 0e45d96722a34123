/* families/family_gpt2.c: GPT-2 (Radford et al. 2019) and DistilGPT2. Their linear layers store
 * weights as [in, out]. Older files contain a buffer of the causal mask, attn.bias. */
#include "pretrained/families/family_rules.h"

static void settings(mf_keys *k)
{
    k->vocab = mf_keys_int(k, "vocab_size", 1, 16777216);
    k->dim = mf_keys_int(k, "hidden_size|n_embd", 1, 65536);
    k->layers = mf_keys_int(k, "num_hidden_layers|n_layer", 1, 1024);
    k->heads = k->kv_heads = mf_keys_int(k, "num_attention_heads|n_head", 1, 1024);
    k->head_dim = k->dim / k->heads;
    k->seq = mf_keys_int(k, "max_position_embeddings|n_positions", 1, 1048576);
    k->tied = mf_keys_bool(k, "tie_word_embeddings");
    const int64_t hidden = mf_keys_int_or(k, "n_inner", 4 * k->dim, 1, 1048576);
    const bool exact = mf_keys_is(k, "activation_function", "gelu");
    mf_keys_expect_text(k, "activation_function", "gelu_new|gelu_pytorch_tanh|gelu");
    if (mf_keys_bool(k, "add_cross_attention"))
        mf_keys_refuse(k, "add_cross_attention", "expected false");
    mf_keys_set(k, "model.task=lm");
    mf_keys_set(k, "model.dim=%lld", (long long)k->dim);
    mf_keys_set(k, "model.layers=%lld", (long long)k->layers);
    mf_keys_set(k, "model.heads=%lld", (long long)k->heads);
    mf_keys_set(k, "model.seq=%lld", (long long)k->seq);
    mf_keys_set(k, "model.vocab=%lld", (long long)k->vocab);
    mf_keys_set(k, "model.norm=layernorm");
    mf_keys_set(k, "model.norm_place=pre");
    mf_keys_set(k, "model.norm_eps=%.17g", mf_keys_real(k, "layer_norm_epsilon"));
    mf_keys_set(k, "model.position=learned");
    mf_keys_set(k, "model.positions=%lld", (long long)k->seq);
    mf_keys_set(k, "model.attention_bias=yes");
    mf_keys_set(k, "model.attention_out_bias=yes");
    mf_keys_set(k, "model.tie_embeddings=%s", k->tied ? "yes" : "no");
    if (!mf_keys_bool(k, "scale_attn_weights")) mf_keys_set(k, "model.attention_scale=1");
    if (mf_keys_bool(k, "scale_attn_by_inverse_layer_idx"))
        mf_keys_set(k, "model.attention_scale_by_layer=yes");
    mf_keys_set(k, "model.ffn_activation=%s", exact ? "gelu" : "gelu_tanh");
    mf_keys_set(k, "model.ffn_hidden=%lld", (long long)hidden);
    mf_keys_set(k, "model.moe_every=0");
    mf_keys_set(k, "router.plugin=linear");
    mf_keys_set(k, "expert.plugin=swiglu");
}

static const mf_family_rule rules[] = {
    {"wte.weight", "embed.weight", MF_PART_ALL, 0, NULL},
    {"wpe.weight", "position.weight", MF_PART_ALL, 0, NULL},
    {"ln_f.weight", "norm.weight", MF_PART_ALL, 0, NULL},
    {"ln_f.bias", "norm.bias", MF_PART_ALL, 0, NULL},
    {"lm_head.weight", "head.weight", MF_PART_ALL, 0, NULL},
    {"lm_head.weight", "embed.weight", MF_PART_ALL, MF_RULE_TIED, "the tied output head"},
    {"h.{l}.ln_1.weight", "layers.{l}.norm1.weight", MF_PART_ALL, 0, NULL},
    {"h.{l}.ln_1.bias", "layers.{l}.norm1.bias", MF_PART_ALL, 0, NULL},
    {"h.{l}.ln_2.weight", "layers.{l}.norm2.weight", MF_PART_ALL, 0, NULL},
    {"h.{l}.ln_2.bias", "layers.{l}.norm2.bias", MF_PART_ALL, 0, NULL},
    {"h.{l}.attn.c_attn.weight", "layers.{l}.attention.qkv.weight", MF_PART_ALL,
     MF_RULE_TRANSPOSED, NULL},
    {"h.{l}.attn.c_attn.bias", "layers.{l}.attention.qkv.bias", MF_PART_ALL, 0, NULL},
    {"h.{l}.attn.c_proj.weight", "layers.{l}.attention.out.weight", MF_PART_ALL,
     MF_RULE_TRANSPOSED, NULL},
    {"h.{l}.attn.c_proj.bias", "layers.{l}.attention.out.bias", MF_PART_ALL, 0, NULL},
    {"h.{l}.mlp.c_fc.weight", "layers.{l}.ffn.w1", MF_PART_ALL, MF_RULE_TRANSPOSED, NULL},
    {"h.{l}.mlp.c_fc.bias", "layers.{l}.ffn.b1", MF_PART_ALL, 0, NULL},
    {"h.{l}.mlp.c_proj.weight", "layers.{l}.ffn.w2", MF_PART_ALL, MF_RULE_TRANSPOSED, NULL},
    {"h.{l}.mlp.c_proj.bias", "layers.{l}.ffn.b2", MF_PART_ALL, 0, NULL},
    {"h.{l}.attn.bias", NULL, MF_PART_ALL, 0, "the causal mask"},
    {"h.{l}.attn.masked_bias", NULL, MF_PART_ALL, 0, "the score of masked tokens"},
    MF_RULES_END};

static const mf_key_default defaults_gpt2[] = {{"vocab_size", "50257"},
                                               {"n_positions", "1024"},
                                               {"n_embd", "768"},
                                               {"n_layer", "12"},
                                               {"n_head", "12"},
                                               {"n_inner", "null"},
                                               {"activation_function", "gelu_new"},
                                               {"layer_norm_epsilon", "1e-05"},
                                               {"scale_attn_weights", "true"},
                                               {"scale_attn_by_inverse_layer_idx", "false"},
                                               {"add_cross_attention", "false"},
                                               {"tie_word_embeddings", "true"},
                                               MF_DEFAULTS_END};

static const char *const types[] = {"gpt2", NULL};
const mf_family mf_family_gpt2 = {.name = "gpt2",
                                  .types = types,
                                  .prefix = "transformer.",
                                  .rules = rules,
                                  .defaults = defaults_gpt2,
                                  .settings = settings};
