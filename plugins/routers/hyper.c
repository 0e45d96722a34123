/* hyper: HyperRouter (Do et al. 2023): a fixed random network computes the router's weights
 * from an embedding, which alone is trained.
 *
 *     [W | b] = V relu(U a),   logits = W x + b
 *
 * a [m] is the parameter and begins with N(0, 1). U [h,m] and V [E (d + 1), h] are buffers that
 * are drawn once and never changed; they are saved with the model. Their standard deviations,
 * 1 / sqrt(m) and init_std sqrt(2 / h), give W and b the standard deviation init_std at the
 * start; the released code uses .02 for both. Row e of [W | b] [E,d+1] has the weights of
 * expert e, and its last number is the bias.
 *
 * Fixed weights keep routers from collapsing; the embedding still lets them learn. As in the
 * released code m = d and h = d / 4 unless the options say otherwise, but h is at least 16: an
 * embedding whose hidden numbers are all below 0 never learns. The paper increases k during
 * training, which the controller `schedule` does with moe.top_k. Parameters: m. */
#include <moefw/moefw.h>
#include <math.h>

typedef struct {
    int64_t embedding, hidden;
    double init_std;
} conf;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = conf_;
    const int64_t E = dims->experts, d = dims->dim, m = c->embedding > 0 ? c->embedding : d;
    const int64_t h = c->hidden > 0 ? c->hidden : d >= 64 ? d / 4 : 16;
    (void)self;
    int rc = mf->param(ctx, "embedding", mf_shape2(1, m), MF_NORMAL(1));
    if (rc == MF_OK)
        rc = mf->buffer(ctx, "fixed.in", mf_shape2(h, m), MF_NORMAL(1 / sqrt((double)m)));
    if (rc == MF_OK)
        rc = mf->buffer(ctx, "fixed.out", mf_shape2(E * (d + 1), h),
                        MF_NORMAL(c->init_std * sqrt(2 / (double)h)));
    return rc;
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t E = in->experts, d = mf->shape(in->x).dim[1];
    (void)self;
    mf_tensor *h = mf_relu(
        g, mf_linear(g, mf->use(ctx, g, "embedding"), mf->use(ctx, g, "fixed.in"), NULL));
    mf_tensor *made = mf_linear(g, h, mf->use(ctx, g, "fixed.out"), NULL);
    made = mf_reshape(g, made, mf_shape2(E, d + 1));
    mf_tensor *bias = mf_reshape(g, mf_slice(g, made, 1, d, 1), mf_shape1(E));
    out->logits = mf_linear(g, in->x, mf_slice(g, made, 1, 0, d), bias);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, embedding, "0", 0, 65536, 0, "width m of the embedding; 0: d"),
    MF_OPTION_INT(conf, hidden, "0", 0, 65536, 0,
                  "hidden width h of the fixed network; 0: d / 4, at least 16"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0,
                   "standard deviation of the weights that the network computes"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {.size = sizeof(mf_router), .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "hyper", "1.0", "MIT",
                                  "weights that a fixed network computes (HyperRouter)",
                                  options, conf, char, &vtable);
