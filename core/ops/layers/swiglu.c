/* ops/layers/swiglu.c: y = g silu(a) b, silu(a) = a / (1 + e^-a) (Shazeer 2020, eq. 6).
 *
 *   a and b [...,h]; or a [...,2h] with b absent: its first half gates the second. -> [...,h]
 *   all f32 or all bf16
 *   g f32, one value per row; absent: 1
 *   da = g dy b s (1 + a (1 - s)),  db = g dy a s,  s the sigmoid of a,  dg = <dy, silu(a) b>
 *
 * The backward function can recompute y in the memory of dy, because it has all inputs of y. */
#include "ops/call.h"
#include "ops/infer.h"
#include "ops/ops.h"

enum { A, B, GATE };

static int swiglu_infer(mf_infer *in)
{
    mf_dtype type = mf_infer_float(in, A);
    if ((in->n_in != 2 && mf_infer_inputs(in, 3)) ||
        mf_infer_tensor(in, A, "a", type, 1, MF_MAX_RANK))
        return MF_ESHAPE;
    mf_shape y = in->in[A].shape;
    if (mf_infer_absent(in, B)) {
        if (mf_shape_last(y) % 2 != 0)
            return in->fail(in, "expected rows of even length without b, found %lld",
                            (long long)mf_shape_last(y));
        y.dim[y.rank - 1] /= 2;
    } else if (mf_infer_shape(in, B, "b", type, y)) {
        return MF_ESHAPE;
    }
    if (in->n_in > GATE && !mf_infer_absent(in, GATE)) {
        mf_shape gate = y;
        gate.dim[y.rank - 1] = 1;
        if (mf_infer_shape(in, GATE, "gate", MF_F32, gate)) return MF_ESHAPE;
    }
    return mf_infer_set(in, 0, type, y);
}

/* Returns the address of element h of a row that begins at p; NULL if p is NULL. */
static void *behind(const void *p, mf_cast_type type, int64_t h)
{
    return p ? (char *)(uintptr_t)p + h * mf_cast_size((int)type) : NULL;
}

static int swiglu_forward(const mf_call *call)
{
    bool packed = call->in[B].shape.rank < 0;
    int64_t h = mf_shape_last(call->out[0].shape), ld = packed ? 2 * h : h;
    const int64_t rows = mf_shape_rows(call->out[0].shape);
    const float *gate = call->n_in > GATE ? mf_call_f32(call, GATE) : NULL;
    const mf_cast_type type = mf_call_type(&call->in[A]);
    const void *a = call->in[A].data, *b = packed ? behind(a, type, h) : call->in[B].data;
    MF_RUN_OP(call, swiglu, .type = (int)type, .rows = rows, .n = h, .a = a, .lda = ld, .b = b,
              .ldb = ld, .gate = gate, .y = call->out[0].data);
    return MF_OK;
}

static int swiglu_backward(const mf_call *call)
{
    const int n_in = call->n_in - 2; /* number of inputs without y and dy */
    const mf_view *dy = &call->in[n_in + 1];
    bool packed = call->in[B].shape.rank < 0;
    int64_t h = mf_shape_last(dy->shape), ld = packed ? 2 * h : h;
    const int64_t rows = mf_shape_rows(dy->shape);
    const float *gate = n_in > GATE ? mf_call_f32(call, GATE) : NULL;
    float *dgate = n_in > GATE ? mf_call_out(call, GATE) : NULL;
    void *y = call->n_out > n_in ? call->out[n_in].data : NULL;
    const mf_cast_type type = mf_call_type(&call->in[A]);
    const void *a = call->in[A].data, *b = packed ? behind(a, type, h) : call->in[B].data;
    void *da = call->out[A].data, *db = packed ? behind(da, type, h) : call->out[B].data;
    MF_RUN_OP(call, swiglu_backward, .type = (int)type, .rows = rows, .n = h, .a = a, .lda = ld,
              .b = b, .ldb = ld, .gate = gate, .dy = dy->data, .da = da, .db = db,
              .dgate = dgate, .y = y);
    return MF_OK;
}

const mf_opdef mf_op_swiglu = {
    .size = sizeof(mf_opdef),
    .flags = MF_OP_CHEAP | MF_OP_RECOMPUTES_OUT,
    .name = "swiglu",
    .formula = "y = g silu(a) b",
    .infer = swiglu_infer,
    .forward = swiglu_forward,
    .backward = swiglu_backward,
    .backward_in = 7,
    .diff_in = 7,
    .backward_over = 3,
    .bf16_in = 3,
};
