/* ops/layers/attention.h: attention with its second output, which core measures. */
#ifndef MF_OPS_ATTENTION_H
#define MF_OPS_ATTENTION_H

#include "ops/ops.h"

/* As mf_attention; *ret_lse [B T, heads] is ln sum e^score of each row, without gradient. */
static inline mf_tensor *mf_attention_lse(mf_graph *g, mf_tensor *q, mf_tensor *k, mf_tensor *v,
                                          mf_tensor *mask, int batch, int heads, int kv_heads,
                                          bool causal, double scale, mf_tensor **ret_lse)
{
    mf_tensor *in[5] = {q, k, v, mask, NULL}, *out[2] = {NULL, NULL};
    const mf_attr attr = {.i = {batch, heads, kv_heads, causal}, .f = {scale}};
    mf_graph_op(g, &mf_op_attention, 5, in, &attr, 2, out);
    *ret_lse = out[1];
    return out[0];
}

#endif
