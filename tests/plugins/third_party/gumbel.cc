// gumbel: in training, Gumbel noise is added to the logits, so that the choice is a draw from
// softmax(logits) (Jang et al. 2017, Categorical Reparameterization, eq. 1). C++17.
#include <moefw/moefw.h>

namespace {

struct conf {
    double tau;
};

struct router {
    const conf *c;
};

int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    static_cast<router *>(self)->c = static_cast<const conf *>(c);
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(0.3));
}

int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf &c = *static_cast<router *>(self)->c;
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), nullptr);
    if (mf->training(g)) {
        mf_tensor *u = mf_clamp(g, mf_uniform(g, mf->shape(logits)), 1e-7, 1 - 1e-7);
        mf_tensor *noise = mf_scale(g, mf_ln(g, mf_scale(g, mf_ln(g, u), -1)), -1);
        logits = mf_scale(g, mf_add(g, logits, noise), 1 / c.tau);
    }
    out->logits = logits;
    return mf->status(g);
}

const mf_option options[] = {
    MF_OPTION_REAL(conf, tau, "1", 0.05, 100, 0, "temperature of the noisy softmax"),
    MF_END_OPTIONS};

const mf_router vtable = {sizeof(mf_router), 0, init, nullptr, route, nullptr};

} // namespace

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "gumbel", "1.0", "MIT",
                                  "a draw from softmax in training", options, conf, router,
                                  &vtable);
