/* ops/grouped_norm.c: layer normalisation of rows grouped by expert, with the weights of each.
 *
 *   y[r] = w[e] (x[r] - mean) / sqrt(var + eps) + b[e]
 *
 *   x [R,n], offset [E+1] i32, w and b [E,n]; f0 eps -> y [R,n], zero past offset[E]
 *
 * Each group is one call of the kernels of layernorm.
 */
#include "ops/call.h"
#include "ops/index.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { X, OFFSET, W, BIAS, INPUTS };

static int norm_infer(mf_infer *in)
{
    if (mf_infer_inputs(in, INPUTS) || mf_infer_tensor(in, X, "x", MF_F32, 2, 2) ||
        mf_infer_tensor(in, OFFSET, "offset", MF_I32, 1, 1))
        return MF_ESHAPE;
    const mf_shape x = in->in[X].shape;
    const int64_t groups = in->in[OFFSET].shape.dim[0] - 1;
    if (groups < 1) return in->fail(in, "expected offset [E+1] with E >= 1, found [1]");
    if (!(in->attr->f[0] >= 0))
        return in->fail(in, "expected eps >= 0, found %g", in->attr->f[0]);
    const mf_shape each = mf_shape2(groups, x.dim[1]);
    if (mf_infer_shape(in, W, "w", MF_F32, each) || mf_infer_shape(in, BIAS, "b", MF_F32, each))
        return MF_ESHAPE;
    in->backward_work_bytes = mf_kernel_norm_work(x.dim[1]);
    return mf_infer_set(in, 0, MF_F32, x);
}

/* Zeros in rows past the last group. */
static void clear_rest(const mf_call *call, float *a)
{
    const mf_kctx x = mf_call_kctx(call);
    const int64_t groups = call->in[OFFSET].shape.dim[0] - 1, n = call->in[X].shape.dim[1];
    const int64_t used = mf_call_i32(call, OFFSET)[groups], rows = call->in[X].shape.dim[0];
    if (a && used < rows) mf_call_kernels(call)->set(&x, (rows - used) * n, 0, a + used * n);
}

static int norm_forward(const mf_call *call)
{
    const mf_kctx x = mf_call_kctx(call);
    const int64_t groups = call->in[OFFSET].shape.dim[0] - 1, n = call->in[X].shape.dim[1];
    const int32_t *offset = mf_call_i32(call, OFFSET);
    const float *a = mf_call_f32(call, X), *w = mf_call_f32(call, W);
    const float *b = mf_call_f32(call, BIAS);
    float *y = mf_call_out(call, 0);
    int err = mf_call_check_offset(call, OFFSET, call->in[X].shape.dim[0]);
    if (err) return err;
    for (int64_t e = 0; e < groups; e++) {
        const int64_t rows = offset[e + 1] - offset[e], at = offset[e] * n;
        if (rows > 0)
            mf_call_kernels(call)->layernorm(&x, rows, n, (float)call->attr->f[0], a + at,
                                             w + e * n, b + e * n, y + at);
    }
    clear_rest(call, y);
    return MF_OK;
}

static int norm_backward(const mf_call *call)
{
    enum { DY = INPUTS + 1 };
    const mf_kctx x = mf_call_kctx(call);
    const mf_kernels *k = mf_call_kernels(call);
    const int64_t groups = call->in[OFFSET].shape.dim[0] - 1, n = call->in[X].shape.dim[1];
    const int32_t *offset = mf_call_i32(call, OFFSET);
    float *dx = mf_call_out(call, X), *dw = mf_call_out(call, W), *db = mf_call_out(call, BIAS);
    int err = mf_call_check_offset(call, OFFSET, call->in[X].shape.dim[0]);
    if (err) return err;
    for (int64_t e = 0; e < groups; e++) {
        const int64_t rows = offset[e + 1] - offset[e], at = offset[e] * n;
        float *dw_e = dw ? dw + e * n : NULL, *db_e = db ? db + e * n : NULL;
        if (rows > 0) {
            k->layernorm_backward(&x, rows, n, (float)call->attr->f[0],
                                  mf_call_f32(call, X) + at, mf_call_f32(call, W) + e * n,
                                  mf_call_f32(call, DY) + at, dx ? dx + at : NULL, dw_e, db_e,
                                  call->work);
            continue;
        }
        if (dw_e) k->set(&x, n, 0, dw_e);
        if (db_e) k->set(&x, n, 0, db_e);
    }
    clear_rest(call, dx);
    return MF_OK;
}

const mf_opdef mf_op_grouped_layernorm = {
    .size = sizeof(mf_opdef),
    .name = "grouped_layernorm",
    .formula = "y = w_e (x - mean) / sqrt(var + eps) + b_e for the rows of expert e",
    .infer = norm_infer,
    .forward = norm_forward,
    .backward = norm_backward,
    .backward_in = 1u << X | 1u << OFFSET | 1u << W,
    .diff_in = 1u << X | 1u << W | 1u << BIAS,
};
