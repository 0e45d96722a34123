/* linear: the router of Shazeer et al. 2017 and Switch (Fedus et al. 2022, eq. 1).
 *
 *     logits = (W (x * u) + b) / temperature,   P = softmax(logits)
 *
 * W [E,d]; b [E] only if bias = yes. u is 1; in training with jitter e > 0 each element of u is
 * drawn from U(1 - e, 1 + e) (Fedus et al., section 2.2). Core selects the k most probable
 * experts of each token. It is the simplest router and the baseline.
 *
 * Parameters: E d (+ E). */
#include <moefw/moefw.h>
#include <math.h>

enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t bias, init;
    double init_std, temperature, jitter;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    self->c = conf_;
    const bool uniform = self->c->init == UNIFORM;
    const double bound = 1 / sqrt((double)dims->dim);
    int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                  uniform ? mf_init_of(MF_INIT_KAIMING, 1, 0) : MF_NORMAL(self->c->init_std));
    if (rc == MF_OK && self->c->bias)
        rc = mf->param(ctx, "bias", mf_shape1(dims->experts),
                       uniform ? mf_init_of(MF_INIT_UNIFORM, bound, MF_PARAM_NO_DECAY)
                               : MF_ZEROS);
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    mf_tensor *bias = self->c->bias ? mf->use(ctx, g, "bias") : NULL;
    mf_tensor *x = in->x;
    if (mf->training(g) && self->c->jitter > 0) {
        mf_tensor *u = mf_uniform(g, mf->shape(x));
        x = mf_mul(g, x, mf_affine(g, u, 2 * self->c->jitter, 1 - self->c->jitter));
    }
    mf_tensor *logits = mf_linear(g, x, mf->use(ctx, g, "weight"), bias);
    out->logits = mf_div(g, logits, mf->live(ctx, g, "temperature"));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_BOOL(conf, bias, "no", 0, "add a bias to each expert's logit"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE,
                   "divides the logits; below 1 sharpens the choice"),
    MF_OPTION_REAL(conf, jitter, "0", 0, 1, 0,
                   "noise on the input in training; Switch uses 0.01"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "linear", "1.0", "MIT",
                   "one linear layer and a softmax", options, conf, router, &vtable);
