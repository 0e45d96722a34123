/* ops/layers/embedding.c: y[i] = table[ids[i]].
 *
 *   table [V,d], ids any shape up to rank 3, i32 -> [...,d]
 *   dtable[v] = sum of dy[i] with ids[i] = v, in the order of i
 *
 * An id outside the table ends the run. */
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

static int embedding_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 2) || mf_infer_tensor(in, 0, "table", MF_F32, 2, 2) ||
        mf_infer_tensor(in, 1, "ids", MF_I32, 0, MF_MAX_RANK - 1))
        return MF_ESHAPE;
    mf_shape table = in->in[0].shape, y = in->in[1].shape;
    in->backward_work_bytes = mf_kernel_embedding_work(table.dim[0], mf_shape_count(y));
    y.dim[y.rank++] = table.dim[1];
    return mf_infer_set(in, 0, MF_F32, y);
}

static int embedding_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    mf_shape table = call->in[0].shape;
    mf_call_check(call, 1, MF_WHAT_ID, 0, table.dim[0]);
    const mf_stored_rows_args rows = {.w = mf_call_stored(call, 0),
                                      .count = mf_shape_count(call->in[1].shape),
                                      .ids = mf_call_i32(call, 1),
                                      .y = mf_call_out(call, 0)};
    if (rows.w)
        mf_call_kernels(call)->stored_rows(&x, &rows);
    else
        MF_RUN_OP(call, embedding, .vocab = table.dim[0], .n = table.dim[1],
                  .count = rows.count, .table = mf_call_f32(call, 0), .ids = rows.ids,
                  .y = rows.y);
    return MF_OK;
}

static int embedding_backward(const mf_call *call)
{
    enum { DY = 3 };
    mf_shape table = call->in[0].shape;
    MF_RUN_OP(call, embedding_grad, .vocab = table.dim[0], .n = table.dim[1],
              .count = mf_shape_count(call->in[1].shape), .add = false,
              .ids = mf_call_i32(call, 1), .dy = mf_call_f32(call, DY),
              .dtable = mf_call_out(call, 0), .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_embedding = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_ROWS | MF_OP_CHEAP | MF_OP_STORED_0,
    .name = "embedding",
    .formula = "y[i] = table[ids[i]]",
    .infer = embedding_infer,
    .forward = embedding_forward,
    .backward = embedding_backward,
    .backward_in = 2,
    .diff_in = 1,
    .user = &mf_op_embedding_accumulate,
};

/* ---- embedding_accumulate: grad [V,d], ids, dy [..,d] ---- */

static int accumulate_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, 3) || mf_infer_tensor(in, 0, "grad", MF_F32, 2, 2) ||
        mf_infer_tensor(in, 1, "ids", MF_I32, 0, MF_MAX_RANK - 1))
        return MF_ESHAPE;
    mf_shape table = in->in[0].shape, dy = in->in[1].shape;
    in->work_bytes = mf_kernel_embedding_work(table.dim[0], mf_shape_count(dy));
    dy.dim[dy.rank++] = table.dim[1];
    if (mf_infer_shape(in, 2, "dy", MF_F32, dy)) return MF_ESHAPE;
    return mf_infer_set(in, 0, MF_F32, table);
}

static int accumulate_forward(const mf_call *call)
{
    mf_shape table = call->in[0].shape;
    MF_RUN_OP(call, embedding_grad, .vocab = table.dim[0], .n = table.dim[1],
              .count = mf_shape_count(call->in[1].shape), .add = true,
              .ids = mf_call_i32(call, 1), .dy = mf_call_f32(call, 2),
              .dtable = mf_call_out(call, 0), .work = call->work);
    return MF_OK;
}

const mf_opdef mf_op_embedding_accumulate = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_STATE | MF_OP_NO_GRAD,
    .name = "embedding_accumulate",
    .formula = "grad[v] += sum of dy[i], ids[i] = v",
    .infer = accumulate_infer,
    .forward = accumulate_forward,
};
