/* gumbel: in training the choice is a draw from softmax(logits), by Gumbel noise (Jang et al.
 * 2017, Categorical Reparameterization with Gumbel-Softmax, eq. 1-2).
 *
 *     z = W x,   z' = z + G,  G = -ln(-ln u), u from U(0, 1);   in evaluation z' = z
 *     the k largest z' are chosen; they are a draw of k experts without replacement
 *     gate = soft      P = softmax(z' / tau)     the relaxation of eq. 2, also in evaluation
 *     gate = clean     P = softmax(z)                  noise affects only the choice
 *     gate = straight  value 1 / k, gradient of softmax(z' / tau) (straight-through)
 *
 * moe.renormalize decides whether soft and clean gates are divided by their sum. Parameters:
 * E d. */
#include <moefw/moefw.h>

enum { SOFT, CLEAN, STRAIGHT };
static const char *const gates[] = {"soft", "clean", "straight", NULL};

typedef struct {
    int64_t gate;
    double tau, init_std;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t T = (int64_t)in->batch * in->seq, k = in->top_k;
    mf_tensor *z = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL), *noisy = z;
    if (mf->training(g)) {
        mf_tensor *u = mf_clamp(g, mf_uniform(g, mf->shape(z)), 1e-7, 1 - 1e-7);
        noisy = mf_sub(g, z, mf_ln(g, mf_scale(g, mf_ln(g, u), -1)));
    }
    out->logits = z;
    if (c->gate == CLEAN) {
        out->prob = mf_softmax(g, z);
        out->score = mf_stop_gradient(g, noisy);
        return mf->status(g);
    }
    out->prob = mf_softmax(g, mf_div(g, noisy, mf->live(ctx, g, "tau")));
    if (c->gate == STRAIGHT) {
        mf_tensor *top = mf_topk(g, noisy, k), *p = mf_take(g, out->prob, top);
        p = mf_sub(g, p, mf_stop_gradient(g, p)); /* 0, with the gradient of p */
        out->expert = mf_reshape(g, top, mf_shape1(T * k));
        out->gate = mf_reshape(g, mf_affine(g, p, 1, 1.0 / (double)k), mf_shape1(T * k));
        out->own_top_k = (int32_t)k;
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, gate, "soft", gates, "what the gates are"),
    MF_OPTION_REAL(conf, tau, "1", 0.05, 100, MF_OPT_LIVE,
                   "temperature of the relaxation; smaller values are nearer to a choice"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "gumbel", "1.0", "MIT",
                                  "in training a draw from the softmax (Gumbel)", options, conf,
                                  router, &vtable);
