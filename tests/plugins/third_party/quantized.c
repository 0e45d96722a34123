/* quantized: a router on rounded inputs, with three ops of its own and a buffer m, which is 4.
 *
 *     q = round(8 x / m) m / 8              straight-through: dq/dx = 1
 *     logits = cap tanh(q W^T / cap)        with its derivative
 *     peak = max |x| over all numbers       no gradient; a metric */
#include <moefw/moefw.h>
#include <math.h>

typedef struct {
    double cap;
} conf;

typedef struct {
    const conf *c;
} router;

static int same_shape(mf_infer *in)
{
    if (in->n_in < 1 || in->in[0].dtype != MF_F32 || in->in[0].shape.rank < 0)
        return in->fail(in, "expected x of f32");
    in->n_out = 1;
    in->out[0].dtype = MF_F32;
    in->out[0].shape = in->in[0].shape;
    return MF_OK;
}

/* ---- q: x, m -> q; a composed gradient rule that is not the derivative ---- */

static int infer_round(mf_infer *in)
{
    if (in->n_in != 2 || mf_shape_count(in->in[1].shape) != 1)
        return in->fail(in, "expected x and one number m, found %d inputs", in->n_in);
    return same_shape(in);
}

static int forward_round(const mf_call *call)
{
    const float *x = call->in[0].data, m = *(const float *)call->in[1].data;
    float *y = call->out[0].data;
    const int64_t n = mf_shape_count(call->in[0].shape);
    const float step = (m > 0 ? m : 1) / 8;
    for (int64_t i = 0; i < n; i++)
        y[i] = roundf(x[i] / step) * step;
    return MF_OK;
}

static int grad_round(mf_graph *g, const mf_gradient *at)
{
    (void)g;
    at->din[0] = at->dout[0];
    return MF_OK;
}

static const mf_opdef op_round = {.size = sizeof(mf_opdef),
                                  .flags = MF_OP_STRAIGHT_THROUGH,
                                  .name = "quantized_round",
                                  .formula = "y = round(8 x / m) m / 8, dx = dy",
                                  .infer = infer_round,
                                  .forward = forward_round,
                                  .grad = grad_round,
                                  .diff_in = 1};

/* ---- cap tanh(x / cap): a fused gradient rule, spread over threads ---- */

enum { TILE = 4096 };

typedef struct {
    const float *x, *y, *dy;
    float *out;
    float cap;
    int64_t n;
} tiles;

static void tile_forward(void *arg, int64_t t)
{
    const tiles *p = arg;
    const int64_t end = (t + 1) * TILE < p->n ? (t + 1) * TILE : p->n;
    for (int64_t i = t * TILE; i < end; i++)
        p->out[i] = p->cap * tanhf(p->x[i] / p->cap);
}

static void tile_backward(void *arg, int64_t t)
{
    const tiles *p = arg;
    const int64_t end = (t + 1) * TILE < p->n ? (t + 1) * TILE : p->n;
    for (int64_t i = t * TILE; i < end; i++) {
        const float s = p->y[i] / p->cap;
        p->out[i] = p->dy ? p->dy[i] * (1 - s * s) : 0;
    }
}

static int forward_cap(const mf_call *call)
{
    tiles p = {.x = call->in[0].data,
               .out = call->out[0].data,
               .cap = (float)call->attr->f[0],
               .n = mf_shape_count(call->in[0].shape)};
    call->exec->parallel(call->exec, (p.n + TILE - 1) / TILE, tile_forward, &p);
    return MF_OK;
}

static int backward_cap(const mf_call *call)
{
    enum { X, Y, DY };
    tiles p = {.y = call->in[Y].data,
               .dy = call->in[DY].data,
               .out = call->out[0].data,
               .cap = (float)call->attr->f[0],
               .n = mf_shape_count(call->in[Y].shape)};
    if (p.out) call->exec->parallel(call->exec, (p.n + TILE - 1) / TILE, tile_backward, &p);
    return MF_OK;
}

static const mf_opdef op_cap = {.size = sizeof(mf_opdef),
                                .name = "quantized_cap",
                                .formula = "y = c tanh(x / c)",
                                .infer = same_shape,
                                .forward = forward_cap,
                                .backward = backward_cap,
                                .backward_out = 1,
                                .diff_in = 1};

/* ---- max |x|: no gradient ---- */

static int infer_peak(mf_infer *in)
{
    int rc = same_shape(in);
    in->out[0].shape = mf_shape1(1);
    return rc;
}

static int forward_peak(const mf_call *call)
{
    const float *x = call->in[0].data;
    const int64_t n = mf_shape_count(call->in[0].shape);
    float peak = 0;
    for (int64_t i = 0; i < n; i++)
        peak = fabsf(x[i]) > peak ? fabsf(x[i]) : peak;
    *(float *)call->out[0].data = peak;
    return MF_OK;
}

static const mf_opdef op_peak = {.size = sizeof(mf_opdef),
                                 .flags = MF_OP_NO_GRAD,
                                 .name = "quantized_peak",
                                 .formula = "y = max |x|",
                                 .infer = infer_peak,
                                 .forward = forward_peak};

/* ---- the router ---- */

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    ((router *)self_)->c = conf_;
    int rc = mf->buffer(ctx, "peak", mf_shape1(1), MF_CONST(4));
    return rc == MF_OK
               ? mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.1))
               : rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    mf_tensor *args[2];
    mf_attr attr = mf_attr0();
    attr.f[0] = self->c->cap;
    args[0] = in->x;
    args[1] = mf->use(ctx, g, "peak");
    mf->metric(ctx, g, "peak", mf->custom(g, &op_peak, 1, args, NULL, 1, NULL));
    mf_tensor *q = mf->custom(g, &op_round, 2, args, NULL, 1, NULL);
    mf_tensor *logits = mf_linear(g, q, mf->use(ctx, g, "weight"), NULL);
    out->logits = mf->custom(g, &op_cap, 1, &logits, &attr, 1, NULL);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, cap, "5", 0.1, 1000, 0, "largest logit"), MF_END_OPTIONS};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

static const mf_op_example examples[] = {
    {.size = sizeof(mf_op_example),
     .n_in = 2,
     .op = &op_round,
     .shape = {{2, 0, {7, 5}}, {1, 0, {1}}},
     .lo = {-3, 3},
     .hi = {3, 4}},
    {.size = sizeof(mf_op_example),
     .n_in = 1,
     .op = &op_cap,
     .shape = {{2, 0, {3, 4000}}},
     .attr = {.f = {2}}},
    {.size = sizeof(mf_op_example), .n_in = 1, .op = &op_peak, .shape = {{1, 0, {33}}}}};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT_OPS(MF_ROUTER, mf_router, "quantized", "1.0", "MIT",
                       "logits of rounded inputs", options, conf, router, &vtable, examples, 3);
