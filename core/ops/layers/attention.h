/* ops/layers/attention.h: attention with two features that only core uses. One is a window. The
 * other is the second output, from which core computes sinks and the entropy of the weights. */
#ifndef MF_OPS_ATTENTION_H
#define MF_OPS_ATTENTION_H

#include "ops/ops.h"

/* The arguments of mf_attention, and further arguments that plugins do not need. */
typedef struct mf_attend_args {
    mf_tensor *q, *k, *v; /* k and v NULL: both are packed in q */
    mf_tensor *mask, *kv_len;
    int batch, heads, kv_heads;
    bool causal;
    int64_t window; /* window in keys; 0: no window */
    double scale;
    /* [B T] i32: the first key of each query, not decreasing within a sequence; NULL: each
     * query begins at the first key of its sequence. since excludes window. */
    mf_tensor *since;
} mf_attend_args;
/* Returns y [B T, heads hd] like mf_attention. *ret_lse [B T, heads] is ln sum e^score of
 * each query and head; gradients pass through it if they also pass through y. ret_lse may
 * be NULL. */
static inline mf_tensor *mf_attend(mf_graph *g, const mf_attend_args *a, mf_tensor **ret_lse)
{
    mf_tensor *in[6] = {a->q, a->k, a->v, a->mask, a->kv_len, a->since}, *out[2] = {NULL, NULL};
    const mf_attr attr = {
        .i = {a->batch, a->heads, a->kv_heads, a->causal, a->window, a->since != NULL},
        .f = {a->scale}};
    mf_graph_op(g, &mf_op_attention, a->since ? 6 : 5, in, &attr, 2, out);
    if (ret_lse) *ret_lse = out[1];
    return out[0];
}

#endif
