/* families/family_rules.h: rules that families share in their tables: a decoder of the Llama
 * form, and names of experts. */
#ifndef MF_PRETRAINED_FAMILY_RULES_H
#define MF_PRETRAINED_FAMILY_RULES_H

#include "pretrained/family.h"

/* The end of a table of defaults. The table contains the keys that its family reads, and the
 * values that these keys have if config.json lacks them, as in transformers 5.24.0. These are
 * the defaults of the fields of its configuration class, its base of rope, and the numbers of
 * rope for a configuration without any. tests/golden/pretrained/defaults contains the values of
 * transformers. Keys with the comment "older files" belong to the models' own programs.
 * transformers does not read these keys, and computes as the listed values say. */
#define MF_DEFAULTS_END                                                                        \
    {                                                                                          \
        NULL, NULL                                                                             \
    }

#define MF_RULES_END                                                                           \
    {                                                                                          \
        NULL, NULL, MF_PART_ALL, 0, NULL                                                       \
    }

/* Embedding, head, norms, attention. */
#define MF_RULES_DECODER                                                                       \
    {"model.embed_tokens.weight", "embed.weight", MF_PART_ALL, 0, NULL},                       \
        {"model.norm.weight", "norm.weight", MF_PART_ALL, 0, NULL},                            \
        {"lm_head.weight", "head.weight", MF_PART_ALL, 0, NULL},                               \
        {"lm_head.weight", "embed.weight", MF_PART_ALL, MF_RULE_TIED, "the tied output head"}, \
        {"model.layers.{l}.input_layernorm.weight", "layers.{l}.norm1.weight", MF_PART_ALL, 0, \
         NULL},                                                                                \
        {"model.layers.{l}.post_attention_layernorm.weight", "layers.{l}.norm2.weight",        \
         MF_PART_ALL, 0, NULL},                                                                \
        {"model.layers.{l}.self_attn.q_proj.weight", "layers.{l}.attention.qkv.weight",        \
         MF_PART_Q, 0, NULL},                                                                  \
        {"model.layers.{l}.self_attn.k_proj.weight", "layers.{l}.attention.qkv.weight",        \
         MF_PART_K, 0, NULL},                                                                  \
        {"model.layers.{l}.self_attn.v_proj.weight", "layers.{l}.attention.qkv.weight",        \
         MF_PART_V, 0, NULL},                                                                  \
        {"model.layers.{l}.self_attn.q_proj.bias", "layers.{l}.attention.qkv.bias", MF_PART_Q, \
         0, NULL},                                                                             \
        {"model.layers.{l}.self_attn.k_proj.bias", "layers.{l}.attention.qkv.bias", MF_PART_K, \
         0, NULL},                                                                             \
        {"model.layers.{l}.self_attn.v_proj.bias", "layers.{l}.attention.qkv.bias", MF_PART_V, \
         0, NULL},                                                                             \
        {"model.layers.{l}.self_attn.o_proj.weight", "layers.{l}.attention.out.weight",        \
         MF_PART_ALL, 0, NULL},                                                                \
        {"model.layers.{l}.self_attn.o_proj.bias", "layers.{l}.attention.out.bias",            \
         MF_PART_ALL, 0, NULL},                                                                \
    {                                                                                          \
        "model.layers.{l}.self_attn.rotary_emb.inv_freq", NULL, MF_PART_ALL, 0,                \
            "wavelengths of rope"                                                              \
    }

/* Norms of queries and keys. */
#define MF_RULES_QK_NORM                                                                       \
    {"model.layers.{l}.self_attn.q_norm.weight", "layers.{l}.attention.q_norm.weight",         \
     MF_PART_ALL, 0, NULL},                                                                    \
    {                                                                                          \
        "model.layers.{l}.self_attn.k_norm.weight", "layers.{l}.attention.k_norm.weight",      \
            MF_PART_ALL, 0, NULL                                                               \
    }

/* A dense half block. */
#define MF_RULES_DENSE                                                                         \
    {"model.layers.{l}.mlp.gate_proj.weight", "layers.{l}.ffn.w1", MF_PART_GATE, 0, NULL},     \
        {"model.layers.{l}.mlp.up_proj.weight", "layers.{l}.ffn.w1", MF_PART_UP, 0, NULL},     \
    {                                                                                          \
        "model.layers.{l}.mlp.down_proj.weight", "layers.{l}.ffn.w2", MF_PART_ALL, 0, NULL     \
    }

/* A linear router. */
#define MF_RULES_ROUTER                                                                        \
    {                                                                                          \
        "model.layers.{l}.mlp.gate.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL   \
    }

/* Router and experts in the names of Mixtral. */
#define MF_RULES_SPARSE_MOE                                                                    \
    {"model.layers.{l}.block_sparse_moe.gate.weight", "layers.{l}.router.weight", MF_PART_ALL, \
     0, NULL},                                                                                 \
        {"model.layers.{l}.block_sparse_moe.experts.{e}.w1.weight", "layers.{l}.expert.w13",   \
         MF_PART_GATE, 0, NULL},                                                               \
        {"model.layers.{l}.block_sparse_moe.experts.{e}.w3.weight", "layers.{l}.expert.w13",   \
         MF_PART_UP, 0, NULL},                                                                 \
    {                                                                                          \
        "model.layers.{l}.block_sparse_moe.experts.{e}.w2.weight", "layers.{l}.expert.w2",     \
            MF_PART_ALL, 0, NULL                                                               \
    }

/* Experts as separate tensors, or all experts of a layer in two tensors. */
#define MF_RULES_EXPERTS                                                                       \
    {"model.layers.{l}.mlp.experts.{e}.gate_proj.weight", "layers.{l}.expert.w13",             \
     MF_PART_GATE, 0, NULL},                                                                   \
        {"model.layers.{l}.mlp.experts.{e}.up_proj.weight", "layers.{l}.expert.w13",           \
         MF_PART_UP, 0, NULL},                                                                 \
        {"model.layers.{l}.mlp.experts.{e}.down_proj.weight", "layers.{l}.expert.w2",          \
         MF_PART_ALL, 0, NULL},                                                                \
        {"model.layers.{l}.mlp.experts.gate_up_proj", "layers.{l}.expert.w13", MF_PART_ALL,    \
         MF_RULE_FUSED, NULL},                                                                 \
    {                                                                                          \
        "model.layers.{l}.mlp.experts.down_proj", "layers.{l}.expert.w2", MF_PART_ALL,         \
            MF_RULE_FUSED, NULL                                                                \
    }

/* Shared experts. */
#define MF_RULES_SHARED                                                                        \
    {"model.layers.{l}.mlp.shared_experts.gate_proj.weight", "layers.{l}.shared.w13",          \
     MF_PART_GATE, 0, NULL},                                                                   \
        {"model.layers.{l}.mlp.shared_experts.up_proj.weight", "layers.{l}.shared.w13",        \
         MF_PART_UP, 0, NULL},                                                                 \
    {                                                                                          \
        "model.layers.{l}.mlp.shared_experts.down_proj.weight", "layers.{l}.shared.w2",        \
            MF_PART_ALL, 0, NULL                                                               \
    }

#endif
