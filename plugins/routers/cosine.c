/* cosine: compares only directions (Chi et al. 2022, X-MoE, eq. 5; Tutel's cosine_top).
 *
 *     logit_e = cos(W x, k_e) / temperature,   P = softmax(logits)
 *
 * W [p,d] projects to a low dimension p, where tokens and the experts' keys k [E,p] are
 * compared by angle. So no expert can win by the norm of its key. learned_temperature makes the
 * temperature a parameter that starts at the option's value and is limited to 0.01 .. 1000.
 * Parameters: d p + E p (+ 1). */
#include <moefw/moefw.h>

typedef struct {
    int64_t proj_dim, learned_temperature;
    double init_std, temperature;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    int rc =
        mf->param(ctx, "project", mf_shape2(c->proj_dim, dims->dim), MF_NORMAL(c->init_std));
    if (rc == MF_OK)
        rc = mf->param(ctx, "keys", mf_shape2(dims->experts, c->proj_dim),
                       MF_NORMAL(c->init_std));
    if (rc == MF_OK && c->learned_temperature)
        rc = mf->param(ctx, "temperature", mf_shape1(1), MF_CONST(c->temperature));
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *x =
        mf_l2_normalize(g, mf_linear(g, in->x, mf->use(ctx, g, "project"), NULL), 1e-6);
    mf_tensor *k = mf_l2_normalize(g, mf->use(ctx, g, "keys"), 1e-6);
    mf_tensor *t = c->learned_temperature
                       ? mf_clamp(g, mf->use(ctx, g, "temperature"), 0.01, 1e3)
                       : mf->live(ctx, g, "temperature");
    out->logits = mf_div(g, mf_linear(g, x, k, NULL), t);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, proj_dim, "64", 1, 65536, 0, "width p in which angles are taken"),
    MF_OPTION_BOOL(conf, learned_temperature, "yes", 0, "train the temperature"),
    MF_OPTION_REAL(conf, init_std, "0.02", 1e-6, 10, 0,
                   "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "0.3", 0.01, 1e3, MF_OPT_LIVE,
                   "divides the cosines (the start value if it is learned)"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "cosine", "1.0", "MIT",
                                  "cosine of token and expert in a low dimension", options,
                                  conf, router, &vtable);
