/* residual: the logits of the previous MoE layer are an input of the logits (Jin et al. 2024,
 * MoE++, eq. 6; SkyworkAI/MoE-plus-plus, moe_plus_plus_layer.py).
 *
 *     z_l = W_l x + G_l z_(l-1)      without the second term in the first layer
 *     P = softmax(z); the k largest P are chosen; gate = P
 *     the gate of a zero expert is set to 0; then gates are divided by their sum
 *
 * z_(l-1) includes its own second term. W may be two layers, W2 tanh(W1 x) with 8 E hidden
 * values (two_layers = yes: the default of the released code). The last zero_experts experts
 * return 0 (expert plugin `mixed`, where they are the last). Their gates are set to 0 before
 * the division, so the other experts of the token share the whole gate, as in the released code
 * (the published layer has 1 zero expert). All gates are 0 if all chosen experts are zero
 * experts. With zero_experts above 0 the router chooses experts itself, and moe.renormalize has
 * no effect.
 *
 * balance_weight > 0 adds the loss of the paper (eq. 7), balance_weight sum_e h_e f_e P_e. f_e
 * is the share of the tokens that chose expert e, P_e the mean of its probability, h_e = tau
 * for the last cheap_experts experts (zero, copy and constant experts), else 1. A smaller tau
 * sends more tokens to these experts. The released layer also multiplies the input of experts
 * by k, unless its configuration turns this off; this is not done here.
 *
 * Parameters: E d (two layers: 8 E (d + E)), + E^2 in later layers. */
#include <moefw/moefw.h>
#include <stdlib.h>

enum { EYE, UNIFORM, ZERO };
static const char *const starts[] = {"eye", "uniform", "zero", NULL};

typedef struct {
    int64_t two_layers, zero_experts, cheap_experts, start;
    double init_std, tau, balance_weight;
} conf;

typedef struct {
    const conf *c;
    int later; /* G was declared */
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    const int64_t E = dims->experts, d = dims->dim;
    const mf_init start = MF_NORMAL(c->init_std);
    /* blocks without a router come before the MoE layers */
    self->later = dims->layer > dims->n_layers - dims->moe_layers;
    if (c->zero_experts > 0 && c->zero_experts >= E)
        return mf->fail(ctx, MF_ECONFIG, "zero_experts = %d leaves none of the %d experts",
                        (int)c->zero_experts, (int)E);
    int rc = mf->param(ctx, "weight", mf_shape2(E, c->two_layers ? 8 * E : d), start);
    if (rc == MF_OK && c->two_layers) rc = mf->param(ctx, "first", mf_shape2(8 * E, d), start);
    if (rc == MF_OK && self->later)
        rc = mf->param(ctx, "gate", mf_shape2(E, E),
                       c->start == EYE       ? mf_init_of(MF_INIT_EYE, 1, 0)
                       : c->start == UNIFORM ? mf_init_of(MF_INIT_KAIMING, 1, 0)
                                             : mf_init_of(MF_INIT_ZERO, 0, 0));
    return rc;
}

/* Chooses the k best experts by prob, with gates that exclude the zero experts. */
static void choose(const conf *c, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts, k = in->top_k;
    const float bar = (float)(E - c->zero_experts) - 0.5f;
    mf_tensor *top = mf_topk(g, out->prob, k);
    mf_tensor *works =
        mf_greater(g, mf->constant(g, MF_F32, mf_shape1(1), &bar), mf_cast(g, top, MF_F32));
    mf_tensor *gate = mf_mul(g, mf_take(g, out->prob, top), works);
    gate = mf_div(g, gate, mf_clamp(g, mf_sum(g, gate, 2u, true), 1e-20, 1e30));
    out->expert = mf_reshape(g, top, mf_shape1(T * k));
    out->gate = mf_reshape(g, gate, mf_shape1(T * k));
    out->own_top_k = (int32_t)k;
}

/* sum_e h_e f_e P_e */
static mf_tensor *balance(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_router_in *in,
                          mf_tensor *prob)
{
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    float *weight = malloc((size_t)E * sizeof *weight);
    if (!weight) {
        mf->fail(ctx, MF_ENOMEM, "no memory for the weights of %d experts", (int)E);
        return NULL;
    }
    for (int64_t e = 0; e < E; e++)
        weight[e] = e < E - c->cheap_experts ? 1 : (float)c->tau;
    mf_tensor *h = mf->constant(g, MF_F32, mf_shape1(E), weight), *tokens = NULL;
    free(weight);
    mf_tensor *top = mf_topk(g, prob, in->top_k), *still = mf_stop_gradient(g, prob);
    mf_tensor *hot = mf_put(g, mf_affine(g, mf_take(g, still, top), 0, 1), top, E);
    if (in->mask) {
        mf_tensor *m = mf_reshape(g, in->mask, mf_shape2(T, 1));
        hot = mf_mul(g, hot, m);
        prob = mf_mul(g, prob, m);
        tokens = mf_clamp(g, mf_sum(g, in->mask, MF_ALL, false), 1, 1e30);
    }
    mf_tensor *f = mf_sum(g, hot, 1u, false), *p = mf_sum(g, prob, 1u, false);
    f = tokens ? mf_div(g, f, tokens) : mf_scale(g, f, 1.0 / (double)T);
    p = tokens ? mf_div(g, p, tokens) : mf_scale(g, p, 1.0 / (double)T);
    return mf_sum(g, mf_mul(g, mf_mul(g, f, h), p), MF_ALL, false);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const mf_routing *before = MF_HAS(in, mf_router_in, previous) ? in->previous : NULL;
    mf_tensor *x = in->x;
    if (self->c->two_layers) x = mf_tanh(g, mf_linear(g, x, mf->use(ctx, g, "first"), NULL));
    out->logits = mf_linear(g, x, mf->use(ctx, g, "weight"), NULL);
    if (self->later && before && before->logits && before->experts != in->experts)
        return mf->fail(
            ctx, MF_ECONFIG,
            "the previous layer has %d experts, expected %d: the gate of its logits "
            "is a square matrix",
            (int)before->experts, (int)in->experts);
    if (self->later && before && before->logits)
        out->logits =
            mf_add(g, out->logits, mf_linear(g, before->logits, mf->use(ctx, g, "gate"), NULL));
    out->prob = mf_softmax(g, out->logits);
    if (self->c->zero_experts > 0) choose(self->c, g, in, out);
    if (self->c->balance_weight > 0) {
        out->loss_name[0] = "balance";
        out->loss[0] =
            mf_scale(g, balance(self->c, ctx, g, in, out->prob), self->c->balance_weight);
        out->n_losses = 1;
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_BOOL(conf, two_layers, "no", 0, "W2 tanh(W1 x) instead of W x"),
    MF_OPTION_INT(conf, zero_experts, "0", 0, 4096, 0, "number of zero experts, the last ones"),
    MF_OPTION_INT(conf, cheap_experts, "0", 0, 4096, 0,
                  "number of experts that cost little, the last ones"),
    MF_OPTION_REAL(conf, balance_weight, "0", 0, 100, 0, "weight of the balance loss"),
    MF_OPTION_REAL(conf, tau, "0.75", 0, 10, 0, "weight of cheap experts in that loss"),
    MF_OPTION_ENUM(conf, start, "eye", starts,
                   "start of G: the identity, U(-1, 1) / sqrt(E) (released code), or 0"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "residual", "1.0", "MIT",
                                  "logits that go on from the layer before (MoE++)", options,
                                  conf, router, &vtable);
