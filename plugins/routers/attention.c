/* attention: experts are keys, and the token is the query (DBGW, arXiv 2506.16419,
 * section III-B2).
 *
 *     q = Wq x,   logit_e = q . k_e / (sqrt(dk) temperature),   P = softmax(logits)
 *
 * Wq [dk,d], keys k [E,dk]; with bias q = Wq x + b. With l2_normalize q and the keys have L2
 * norm 1 and the logit is cos(q, k_e) / temperature. Parameters: d dk + E dk (+ dk with bias);
 * for example 49,664 for d 768, 8 experts, dk 64. */
#include <moefw/moefw.h>
#include <math.h>

enum { NORMAL, UNIFORM };
static const char *const key_starts[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t qk_dim, bias, l2_normalize, key_init;
    double init_std, temperature;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    /* Both kinds have the same standard deviation: numbers drawn from [-a,a) have a standard
     * deviation of a / sqrt(3). */
    const mf_init keys = c->key_init == UNIFORM
                             ? mf_init_of(MF_INIT_UNIFORM, c->init_std * sqrt(3.0), 0)
                             : MF_NORMAL(c->init_std);
    int rc = mf->param(ctx, "query", mf_shape2(c->qk_dim, dims->dim), MF_NORMAL(c->init_std));
    if (rc == MF_OK) rc = mf->param(ctx, "keys", mf_shape2(dims->experts, c->qk_dim), keys);
    if (rc == MF_OK && c->bias) rc = mf->param(ctx, "bias", mf_shape1(c->qk_dim), MF_ZEROS);
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *bias = c->bias ? mf->use(ctx, g, "bias") : NULL;
    mf_tensor *q = mf_linear(g, in->x, mf->use(ctx, g, "query"), bias);
    mf_tensor *k = mf->use(ctx, g, "keys");
    if (c->l2_normalize) {
        q = mf_l2_normalize(g, q, 1e-12);
        k = mf_l2_normalize(g, k, 1e-12);
    }
    mf_tensor *logits = mf_linear(g, q, k, NULL);
    if (!c->l2_normalize) logits = mf_scale(g, logits, 1 / sqrt((double)c->qk_dim));
    out->logits = mf_div(g, logits, mf->live(ctx, g, "temperature"));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, qk_dim, "64", 1, 65536, 0, "width dk of query and keys"),
    MF_OPTION_BOOL(conf, bias, "no", 0, "add a bias to the query"),
    MF_OPTION_BOOL(conf, l2_normalize, "no", 0, "cosine instead of the scaled inner product"),
    MF_OPTION_ENUM(conf, key_init, "normal", key_starts, "start of the experts' keys"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "attention", "1.0", "MIT",
                                  "the token as query, learned keys as experts", options, conf,
                                  router, &vtable);
