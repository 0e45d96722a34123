/* hybrid: a mixture of a linear and an attention router (DBGW, arXiv 2506.16419,
 * section III-B5).
 *
 *     mix = prob    P = w1 softmax(W x / t) + w2 softmax(q . k / (sqrt(dk) t))
 *     mix = logit   P = softmax(w1 W x / t + w2 q . k / (sqrt(dk) t))     t: temperature
 *
 * The paper prints the second form and reports values that only the first form produces. w1 and
 * w2 are learned (weights = learned) or keep their initial values.
 *
 * A probability is not negative. So with mix = prob a learned weight counts as 1e-6 if training
 * has moved it below 0, and neither weight may begin below 0.
 *
 * Parameters: E d + d dk + E dk + 2 (d 768, 8 experts, dk 64: 55,810). */
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
    const double least = fmin(c->linear_weight, c->attention_weight),
                 most = fmax(c->linear_weight, c->attention_weight);
    if (c->mix == PROB && (least < 0 || most <= 0 || (c->weights == LEARNED && least <= 0)))
        return mf->fail(ctx, MF_ECONFIG,
                        "mix = prob needs weights %s 0, not linear_weight = %g and "
                        "attention_weight = %g: probabilities are not negative",
                        c->weights == LEARNED ? "above" : "of at least 0, and one above",
                        c->linear_weight, c->attention_weight);
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

/* Returns the weight of a distribution. Training can move a parameter below 0, for example
 * because this makes a balance loss smaller. If both weights were 0, there would be no expert
 * to choose. */
static mf_tensor *positive(const conf *c, mf_graph *g, mf_tensor *w)
{
    return c->weights == LEARNED ? mf_clamp(g, w, 1e-6, 1e30) : w;
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
        out->prob = mf_add(g, mf_mul(g, mf_softmax(g, linear), positive(c, g, w1)),
                           mf_mul(g, mf_softmax(g, attention), positive(c, g, w2)));
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
