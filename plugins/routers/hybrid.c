/* hybrid: a mixture of a linear and an attention router (DBGW, arXiv 2506.16419, section
 * III-B5).
 *
 *     mix = prob    P = w1 softmax(W x / t) + w2 softmax(q . k / (sqrt(dk) t))
 *     mix = logit   P = softmax(w1 W x / t + w2 q . k / (sqrt(dk) t))     t: temperature
 *
 * The paper prints the second form and reports values that only the first one gives. w1 and w2
 * are learned (weights = learned) or keep their initial values. Parameters:
 * E d + d dk + E dk + 2 (d 768, 8 experts, dk 64: 55,810). */
#include <moefw/moefw.h>
#include <math.h>

enum { PROB, LOGIT };
static const char *const mixes[] = {"prob", "logit", NULL};
enum { LEARNED, FIXED };
static const char *const weight_kinds[] = {"learned", "fixed", NULL};

typedef struct {
    int64_t qk_dim, mix, weights;
    double linear_weight, attention_weight, init_std, temperature;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    const mf_init normal = MF_NORMAL(c->init_std);
    const uint32_t frozen = c->weights == FIXED ? MF_PARAM_FROZEN : 0u;
    mf_init w1 = MF_CONST(c->linear_weight), w2 = MF_CONST(c->attention_weight);
    w1.flags |= frozen;
    w2.flags |= frozen;
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), normal);
    if (rc == MF_OK) rc = mf->param(ctx, "query", mf_shape2(c->qk_dim, dims->dim), normal);
    if (rc == MF_OK) rc = mf->param(ctx, "keys", mf_shape2(dims->experts, c->qk_dim), normal);
    if (rc == MF_OK) rc = mf->param(ctx, "mix_linear", mf_shape1(1), w1);
    if (rc == MF_OK) rc = mf->param(ctx, "mix_attention", mf_shape1(1), w2);
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *t = mf->live(ctx, g, "temperature");
    mf_tensor *w1 = mf->use(ctx, g, "mix_linear"), *w2 = mf->use(ctx, g, "mix_attention");
    mf_tensor *linear = mf_div(g, mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL), t);
    mf_tensor *q = mf_linear(g, in->x, mf->use(ctx, g, "query"), NULL);
    mf_tensor *attention = mf_scale(g, mf_linear(g, q, mf->use(ctx, g, "keys"), NULL),
                                    1 / sqrt((double)c->qk_dim));
    attention = mf_div(g, attention, t);
    if (c->mix == PROB) {
        out->prob = mf_add(g, mf_mul(g, mf_softmax(g, linear), w1),
                           mf_mul(g, mf_softmax(g, attention), w2));
    } else {
        out->logits = mf_add(g, mf_mul(g, linear, w1), mf_mul(g, attention, w2));
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, qk_dim, "64", 1, 65536, 0, "width dk of query and keys"),
    MF_OPTION_ENUM(conf, mix, "prob", mixes, "mix probabilities or logits"),
    MF_OPTION_ENUM(conf, weights, "learned", weight_kinds,
                   "are the two mixing weights trained"),
    MF_OPTION_REAL(conf, linear_weight, "0.5", -100, 100, 0, "start of w1"),
    MF_OPTION_REAL(conf, attention_weight, "0.5", -100, 100, 0, "start of w2"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides both logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "hybrid", "1.0", "MIT",
                                  "a mixture of the linear and the attention router", options,
                                  conf, router, &vtable);
