/* comm/expert_merge.c: the ops that put rows of several senders into one order, and back.
 *
 *   expert_merge    y = rows of x [n R,d] by expert, then by rank   dx = expert_unmerge(dy)
 *   expert_unmerge  y = rows of x [n R,d] by rank, then by expert   dx = expert_merge(dy)
 *   expert_offset   offset[l] = sum of counts[r,l] over r           no gradient
 *
 * There are n ranks, each with at most R rows, and L experts on this rank. counts [n,L+1] are
 * the offsets of each sender's rows in the L experts (comm/expert_ranks.h). The first two ops
 * move blocks of rows and set all other rows to 0. */
#include "comm/expert_merge.h"

#include <string.h>

#include "ops/infer.h"
#include "ops/ops.h"

static int infer_rows(mf_infer *in)
{
    const mf_dtype type = in->in[0].dtype;
    if (mf_infer_inputs(in, 2)) return MF_ESHAPE;
    if (mf_infer_tensor(in, 0, "x", type == MF_BF16 ? MF_BF16 : MF_F32, 2, 2)) return MF_ESHAPE;
    if (mf_infer_tensor(in, 1, "counts", MF_I32, 2, 2)) return MF_ESHAPE;
    const mf_shape x = in->in[0].shape, counts = in->in[1].shape;
    if (x.dim[0] % counts.dim[0] != 0)
        return in->fail(in, "expected a multiple of %lld rows, found %lld",
                        (long long)counts.dim[0], (long long)x.dim[0]);
    return mf_infer_set(in, 0, type, x);
}

static int move_rows(const mf_call *call, bool merge)
{
    const mf_view *x = &call->in[0], *y = &call->out[0];
    const int32_t *counts = call->in[1].data;
    const int64_t ranks = call->in[1].shape.dim[0], experts = call->in[1].shape.dim[1] - 1,
                  rows = x->shape.dim[0] / ranks;
    const size_t width = (size_t)x->shape.dim[1] * (x->dtype == MF_BF16 ? 2 : 4);
    const char *from = x->data;
    char *to = y->data;
    int64_t at = 0; /* next row of the merged order */
    for (int64_t e = 0; e < experts; e++) {
        for (int64_t r = 0; r < ranks; r++) {
            const int32_t *c = counts + r * (experts + 1) + e;
            const int64_t n = c[1] - c[0], apart = r * rows + c[0];
            memcpy(to + (size_t)(merge ? at : apart) * width,
                   from + (size_t)(merge ? apart : at) * width, (size_t)n * width);
            at += n;
        }
    }
    if (merge) memset(to + (size_t)at * width, 0, (size_t)(ranks * rows - at) * width);
    for (int64_t r = 0; !merge && r < ranks; r++) {
        const int64_t used = counts[r * (experts + 1) + experts];
        memset(to + (size_t)(r * rows + used) * width, 0, (size_t)(rows - used) * width);
    }
    return MF_OK;
}

static int forward_merge(const mf_call *call)
{
    return move_rows(call, true);
}

static int forward_unmerge(const mf_call *call)
{
    return move_rows(call, false);
}

static int grad_merge(mf_graph *g, const mf_gradient *at);
static int grad_unmerge(mf_graph *g, const mf_gradient *at);

static const mf_opdef merge_op = {.size = sizeof(mf_opdef),
                                  .name = "expert_merge",
                                  .formula = "rows of all ranks, by expert",
                                  .infer = infer_rows,
                                  .forward = forward_merge,
                                  .grad = grad_merge,
                                  .diff_in = 1u,
                                  .bf16_in = 1u};
static const mf_opdef unmerge_op = {.size = sizeof(mf_opdef),
                                    .name = "expert_unmerge",
                                    .formula = "rows of all ranks, by rank",
                                    .infer = infer_rows,
                                    .forward = forward_unmerge,
                                    .grad = grad_unmerge,
                                    .diff_in = 1u,
                                    .bf16_in = 1u};

static mf_tensor *add(mf_graph *g, const mf_opdef *op, mf_tensor *x, mf_tensor *counts)
{
    mf_tensor *in[2] = {x, counts};
    return mf_graph_op(g, op, 2, in, NULL, 1, NULL);
}

static int grad_merge(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = add(g, &unmerge_op, at->dout[0], at->in[1]);
    return mf_graph_status(g);
}

static int grad_unmerge(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = add(g, &merge_op, at->dout[0], at->in[1]);
    return mf_graph_status(g);
}

/* ---- offsets ---- */

static int infer_offset(mf_infer *in)
{
    if (mf_infer_inputs(in, 1) || mf_infer_tensor(in, 0, "counts", MF_I32, 2, 2))
        return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_I32, mf_shape1(in->in[0].shape.dim[1]));
}

static int forward_offset(const mf_call *call)
{
    const int32_t *counts = call->in[0].data;
    const int64_t ranks = call->in[0].shape.dim[0], n = call->in[0].shape.dim[1];
    int32_t *offset = call->out[0].data;
    for (int64_t i = 0; i < n; i++) {
        offset[i] = 0;
        for (int64_t r = 0; r < ranks; r++)
            offset[i] += counts[r * n + i];
    }
    return MF_OK;
}

static const mf_opdef offset_op = {.size = sizeof(mf_opdef),
                                   .flags = MF_OP_NO_GRAD,
                                   .name = "expert_offset",
                                   .formula = "offsets of the rows of all ranks, by expert",
                                   .infer = infer_offset,
                                   .forward = forward_offset};

/* ---- building ---- */

mf_tensor *mf_expert_merge(mf_graph *g, const mf_expert_routes *r, mf_tensor *x)
{
    return add(g, &merge_op, x, r->counts);
}

mf_tensor *mf_expert_unmerge(mf_graph *g, const mf_expert_routes *r, mf_tensor *y)
{
    return add(g, &unmerge_op, y, r->counts);
}

mf_tensor *mf_expert_merged_offset(mf_graph *g, const mf_expert_routes *r)
{
    mf_tensor *counts = r->counts;
    return mf_graph_op(g, &offset_op, 1, &counts, NULL, 1, NULL);
}
