/* bent: sigmoid scores with a selection bias, a buffer that after_step changes towards an even
 * load.
 *
 *     s = sigmoid(heat W x),  chosen by s + b,  b_e += rate sign(mean demand - demand_e)
 */
#include <moefw/moefw.h>

typedef struct {
    double rate, heat, weight;
} conf;

typedef struct {
    const conf *c;
    int32_t layer;
} router;

static int init(void *self_, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    router *self = self_;
    self->c = c;
    self->layer = dims->layer;
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                       mf_init_of(MF_INIT_XAVIER, 0.5, 0));
    return rc == MF_OK ? mf->buffer(ctx, "bias", mf_shape1(dims->experts), MF_ZEROS) : rc;
}

/* The mean over real tokens of the mean square of x [T,E]. */
static mf_tensor *mean_square(mf_graph *g, mf_tensor *x, const mf_router_in *in)
{
    mf_tensor *rows = mf_mean(g, mf_square(g, x), 2u, false);
    if (!in->mask) return mf_mean(g, rows, MF_ALL, false);
    return mf_div(g, mf_sum(g, mf_mul(g, rows, in->mask), MF_ALL, false),
                  mf_clamp(g, mf_sum(g, in->mask, MF_ALL, false), 1, 1e30));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((router *)self_)->c;
    out->logits = mf_mul(g, mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL),
                         mf->live(ctx, g, "heat"));
    mf_tensor *s = mf_sigmoid(g, out->logits);
    out->prob = mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20));
    out->score = mf_add(g, mf_stop_gradient(g, s), mf->use(ctx, g, "bias"));
    out->renormalize = 1;
    out->gate_scale = 1.5;
    out->loss_name[0] = "size";
    out->loss[0] = mf_scale(g, mean_square(g, out->logits, in), c->weight);
    out->n_losses = 1;
    mf->metric(ctx, g, "spread", mf_mean(g, mf_row_max(g, s), MF_ALL, false));
    return mf->status(g);
}

static int after_step(void *self_, mf_ctx *ctx, const mf_step *step)
{
    const router *self = self_;
    int64_t n = 0;
    float *b = mf->data(ctx, "bias", &n);
    for (int32_t l = 0; b && l < step->n_layers; l++) {
        /* Records may be longer than this plugin knows. */
        const mf_layer_stats *s = (const mf_layer_stats *)((const char *)step->layers +
                                                           (size_t)l * step->layers[0].size);
        if (s->layer != self->layer || s->experts != n) continue;
        for (int64_t e = 0; e < n; e++) {
            const double gap = 1.0 / (double)n - (double)s->demand[e];
            b[e] += (float)(self->c->rate * (gap > 0 ? 1 : gap < 0 ? -1 : 0));
        }
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, rate, "0.01", 0, 1, MF_OPT_LIVE, "size of one correction of the bias"),
    MF_OPTION_REAL(conf, heat, "1", 0.1, 10, MF_OPT_LIVE, "factor on the logits"),
    MF_OPTION_REAL(conf, weight, "0.01", 0, 10, 0, "weight of the mean square of the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), MF_ROUTER_STATS, init, NULL, route,
                                 after_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "bent", "1.0", "MIT",
                                  "sigmoid scores with a bias that evens out loads", options,
                                  conf, router, &vtable);
