/* pretrained/gguf/gguf_rules.h: rules that architectures share in their tables. */
#ifndef MF_PRETRAINED_GGUF_RULES_H
#define MF_PRETRAINED_GGUF_RULES_H

#include "pretrained/family.h"

/* Embedding, last norm, head. */
#define MF_GGUF_RULES_ENDS                                                                     \
    {"token_embd.weight", "embed.weight", MF_PART_ALL, 0, NULL},                               \
        {"output_norm.weight", "norm.weight", MF_PART_ALL, 0, NULL},                           \
    {                                                                                          \
        "output.weight", "head.weight", MF_PART_ALL, 0, NULL                                   \
    }

/* The norms of a block. second: name of the second norm. */
#define MF_GGUF_RULES_NORMS(second)                                                            \
    {"blk.{l}.attn_norm.weight", "layers.{l}.norm1.weight", MF_PART_ALL, 0, NULL},             \
    {                                                                                          \
        "blk.{l}." second ".weight", "layers.{l}.norm2.weight", MF_PART_ALL, 0, NULL           \
    }

#define MF_GGUF_RULES_ATTENTION_OUT                                                            \
    {"blk.{l}.attn_output.weight", "layers.{l}.attention.out.weight", MF_PART_ALL, 0, NULL},   \
    {                                                                                          \
        "blk.{l}.attn_output.bias", "layers.{l}.attention.out.bias", MF_PART_ALL, 0, NULL      \
    }

/* flags: flags of the query and key tensors. */
#define MF_GGUF_RULES_ATTENTION(flags)                                                         \
    {"blk.{l}.attn_q.weight", "layers.{l}.attention.qkv.weight", MF_PART_Q, flags, NULL},      \
        {"blk.{l}.attn_k.weight", "layers.{l}.attention.qkv.weight", MF_PART_K, flags, NULL},  \
        {"blk.{l}.attn_v.weight", "layers.{l}.attention.qkv.weight", MF_PART_V, 0, NULL},      \
        {"blk.{l}.attn_q.bias", "layers.{l}.attention.qkv.bias", MF_PART_Q, flags, NULL},      \
        {"blk.{l}.attn_k.bias", "layers.{l}.attention.qkv.bias", MF_PART_K, flags, NULL},      \
        {"blk.{l}.attn_v.bias", "layers.{l}.attention.qkv.bias", MF_PART_V, 0, NULL},          \
        MF_GGUF_RULES_ATTENTION_OUT

#define MF_GGUF_RULES_QK_NORM                                                                  \
    {"blk.{l}.attn_q_norm.weight", "layers.{l}.attention.q_norm.weight", MF_PART_ALL, 0,       \
     NULL},                                                                                    \
    {                                                                                          \
        "blk.{l}.attn_k_norm.weight", "layers.{l}.attention.k_norm.weight", MF_PART_ALL, 0,    \
            NULL                                                                               \
    }

/* A dense half block. */
#define MF_GGUF_RULES_DENSE                                                                    \
    {"blk.{l}.ffn_gate.weight", "layers.{l}.ffn.w1", MF_PART_GATE, 0, NULL},                   \
        {"blk.{l}.ffn_up.weight", "layers.{l}.ffn.w1", MF_PART_UP, 0, NULL},                   \
    {                                                                                          \
        "blk.{l}.ffn_down.weight", "layers.{l}.ffn.w2", MF_PART_ALL, 0, NULL                   \
    }

/* A linear router and its experts. */
#define MF_GGUF_RULES_EXPERTS                                                                  \
    {"blk.{l}.ffn_gate_inp.weight", "layers.{l}.router.weight", MF_PART_ALL, 0, NULL},         \
        {"blk.{l}.ffn_gate_exps.weight", "layers.{l}.expert.w13", MF_PART_GATE, MF_RULE_FUSED, \
         NULL},                                                                                \
        {"blk.{l}.ffn_up_exps.weight", "layers.{l}.expert.w13", MF_PART_UP, MF_RULE_FUSED,     \
         NULL},                                                                                \
    {                                                                                          \
        "blk.{l}.ffn_down_exps.weight", "layers.{l}.expert.w2", MF_PART_ALL, MF_RULE_FUSED,    \
            NULL                                                                               \
    }

/* A shared expert. */
#define MF_GGUF_RULES_SHARED                                                                   \
    {"blk.{l}.ffn_gate_shexp.weight", "layers.{l}.shared.w13", MF_PART_GATE, 0, NULL},         \
        {"blk.{l}.ffn_up_shexp.weight", "layers.{l}.shared.w13", MF_PART_UP, 0, NULL},         \
    {                                                                                          \
        "blk.{l}.ffn_down_shexp.weight", "layers.{l}.shared.w2", MF_PART_ALL, 0, NULL          \
    }

#endif
