/* mutual_information: the negative mutual information of token and expert.
 *
 *     loss = mean over real tokens of H(p_t) - H(mean of p_t)
 *
 * The loss is a difference of two numbers near ln E, of which f32 keeps few digits; a gradient
 * check must allow for that. FACTOR, if it is defined, multiplies the gradient of each entropy;
 * the gradient is then wrong unless FACTOR is 1. */
#include <moefw/moefw.h>

#ifdef FACTOR
static int same_infer(mf_infer *in)
{
    in->n_out = 1;
    in->out[0] = in->in[0];
    return MF_OK;
}

static int copy(const mf_call *c, const float *from, float factor)
{
    float *to = c->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(c->in[0].shape); i++)
        to[i] = factor * from[i];
    return MF_OK;
}

static int same_forward(const mf_call *c)
{
    return copy(c, c->in[0].data, 1);
}

static int wrong_backward(const mf_call *c)
{
    return copy(c, c->in[2].data, FACTOR);
}

static const mf_opdef wrong = {.size = sizeof(mf_opdef),
                               .name = "wrong",
                               .infer = same_infer,
                               .forward = same_forward,
                               .backward = wrong_backward,
                               .diff_in = 1};
#endif

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)self;
    (void)ctx;
    (void)conf;
    (void)dims;
    return MF_OK;
}

static mf_tensor *entropy(mf_graph *g, mf_tensor *p)
{
    mf_tensor *h = mf_scale(g, mf_sum(g, mf_xlogx(g, p), 2u, true), -1);
#ifdef FACTOR
    h = mf->custom(g, &wrong, 1, &h, NULL, 1, NULL);
#endif
    return h;
}

static mf_tensor *of_layer(mf_graph *g, const mf_routing *r)
{
    const int64_t T = r->tokens, E = r->experts;
    const float one = 1;
    mf_tensor *w = r->mask ? r->mask : mf->constant(g, MF_F32, mf_shape1(1), &one);
    mf_tensor *real = r->mask ? mf_clamp(g, mf_sum(g, w, MF_ALL, false), 1, 1e30)
                              : mf_scale(g, mf->constant(g, MF_F32, mf_shape0(), &one),
                                         (double)T);
    mf_tensor *column = r->mask ? mf_reshape(g, w, mf_shape2(T, 1)) : w;
    mf_tensor *mean = mf_div(g, mf_sum(g, mf_mul(g, r->prob, column), 1u, false), real);
    mf_tensor *each = mf_sum(g, mf_mul(g, entropy(g, r->prob), column), MF_ALL, false);
    mf_tensor *whole =
        mf_sum(g, entropy(g, mf_reshape(g, mean, mf_shape2(1, E))), MF_ALL, false);
    return mf_sub(g, mf_div(g, each, real), whole);
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)self;
    (void)ctx;
    const float zero = 0;
    mf_tensor *total = mf->constant(g, MF_F32, mf_shape0(), &zero);
    for (int32_t i = 0; i < n; i++)
        if (routing[i]->prob) total = mf_add(g, total, of_layer(g, routing[i]));
    *ret_loss = total;
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};
static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "mutual_information", "1",
                                  "MIT", "mutual information of token and expert", options,
                                  char, char, &vtable);
