/* moefw/adapter.h: adapters change values at named points of a transformer block.
 *
 * An INI section [adapter.NAME] puts one instance of its plugin into each block that `layers`
 * selects. While a graph is built, core calls apply once for each point that `at` names. The
 * adapter receives the value at this point and returns another value of the same shape to
 * replace it. If several sections select a point, each receives the value that the previous
 * section returned.
 *
 *     block:  x -> [block_in] -> attention half -> [block_mid] -> second half -> [block_out]
 *     half:   x + [attention](...)  and  x + [ffn](...)          the branches before their sums
 *     attention:  q, k, v -> heads -> [heads] -> output projection with bias [attention_bias]
 *     experts:    assignments -> [expert_in] -> expert -> [expert_out] -> sum by gates
 *
 * Linear layers y = x W^T + b are points, too. `at` selects them by patterns for their names:
 * attention.q, .k, .v, .o; for other layers the name of the weight without its block: ffn.w1,
 * router.weight, expert.w13, head.weight. '*' matches any text; a pattern may omit a
 * trailing ".weight".
 *
 * T: tokens of the graph, batch x sequence. R: assignments by expert. d: width of the model. */
#ifndef MOEFW_ADAPTER_H
#define MOEFW_ADAPTER_H

#include <moefw/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mf_point {
    MF_AT_BLOCK_IN = 1,  /* block_in: [T,d] residual stream */
    MF_AT_BLOCK_MID = 2, /* block_mid: [T,d] residual stream between the halves */
    MF_AT_BLOCK_OUT = 3, /* block_out: [T,d] residual stream */
    /* attention: [T,d] the value that the first half adds to the residual stream, before
     * dropout. If all heads are inactive, it is the bias [d]; without a bias apply is then
     * not called */
    MF_AT_ATTENTION = 4,
    MF_AT_FFN = 5,            /* ffn: [T,d] the value that the second half adds,
                               * before dropout */
    MF_AT_HEADS = 6,          /* heads: [T,n,w] outputs of the n active heads, width w */
    MF_AT_ATTENTION_BIAS = 7, /* attention_bias: [d]; *ret_y may be NULL: no bias */
    MF_AT_EXPERT_IN = 8,      /* expert_in: [R,d] */
    MF_AT_EXPERT_OUT = 9,     /* expert_out: [R,d], before the gates */
    MF_AT_LINEAR = 10,        /* y of a linear layer */
    MF_AT_POINTS
} mf_point;
#define MF_POINT_BIT(point) (1u << (point))

/* One linear layer that a section's `at` selects. */
typedef struct mf_linear_site {
    const char *name;        /* for example "attention.q", "expert.w13" */
    int64_t inputs, outputs; /* counted over all heads, active or not */
    int32_t experts;         /* weights are [experts, outputs, inputs]; 0: [outputs, inputs] */
    /* attention.q, .k, .v: heads among the outputs; .o: heads among the inputs; else 0 */
    int32_t heads;
} mf_linear_site;

#define MF_ADAPTER_TAPS 4

/* The arguments of apply. All tensors belong to the graph that is being built. */
typedef struct mf_adapter_in {
    uint32_t size;
    int32_t point;      /* mf_point */
    int32_t layer;      /* index of the block; -1: the output head */
    int32_t batch, seq; /* T (number of tokens) is batch x seq */
    int32_t experts;    /* number of experts at expert points and grouped linear layers,
                         * else 0 */
    mf_tensor *y;       /* the value at the point; f32 or bf16 */
    /* input of the linear layer; at expert_out, input of the experts; at other points NULL */
    mf_tensor *x;
    /* [E+1] i32: expert e has assignments offset[e] .. offset[e+1]-1; NULL if experts is 0 */
    mf_tensor *offset;
    /* [R] i32: token of each assignment; NULL if experts is 0, and also for linear layers of
     * shared experts */
    mf_tensor *token;
    mf_tensor *mask;                 /* [T] f32: 1 a real token, 0 padding; NULL: no padding */
    mf_tensor *positions;            /* [T] i32: position within the sequence */
    mf_tensor *sequence_ids;         /* [T] i32: index of the sequence in the batch */
    mf_tensor *tap[MF_ADAPTER_TAPS]; /* the values of mf_host.tap, in the order of its calls */
    const mf_linear_site *site;      /* the linear layer; at other points NULL */
    /* `active` [n_active] lists indices of heads. At point heads, attention.q, .k and .v they
     * are the heads in y; at attention.o the heads in x; at attention_bias all active heads.
     * `heads` counts all heads of the layer, active or not; at attention.k and .v these are
     * key-value heads. At other points all three are 0 or NULL. */
    int32_t heads, n_active;
    const int32_t *active;
    /* [n_active,1] f32, 0 or 1. In graphs that measure the loss without a head, core multiplies
     * the heads by these numbers; else NULL */
    mf_tensor *head_mask;
} mf_adapter_in;

/* Flags for mf_host.want, in init. MF_ADAPTER_HEADS: heads can be switched off. The layer gets
 * a buffer `attention.active` [H], H heads. Core does not compute heads whose number is 0
 * there, supports learning rates by head, and measures heads for controllers (mf_head_stats).
 * MF_ADAPTER_SEQUENCE: apply reads other tokens of the batch, so the model decodes without
 * a cache. */
#define MF_ADAPTER_HEADS    1u
#define MF_ADAPTER_SEQUENCE 2u

/* The relation between the gate of a head and its stored number (mf_host.head_gates). */
typedef enum mf_gate_form {
    MF_GATE_SIGMOID = 0, /* the sigmoid of the number */
    MF_GATE_RAW = 1      /* the number, clamped to 0 .. 1 */
} mf_gate_form;

#ifdef __cplusplus
}
#endif
#endif
