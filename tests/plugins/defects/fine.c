/* fine.c: plugins that keep every rule in an unusual way. None of them may be refused. -DFINE=N
 * selects a plugin:
 *
 *   1       experts with a kink in each of many units
 *   2       a router with a parameter that only more than 6 experts use
 *   3       a router for models that are not decoders
 *   4 to 6  straight-through gradients by stop_gradient
 *   7       a router that reads statistics and declares it
 *   8       a router that needs labels and declares it
 *   9       a live option that requests new graphs at 0
 *   10      a penalty that compares tokens with one another, so it grows with ln T
 *   11      experts that multiply by their gates
 *   12      a router that adds noise in training and declares it */
#include <moefw/moefw.h>

typedef struct {
    double scale;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, dim, hidden;
} state;

static const mf_option options[] __attribute__((unused)) = {
    MF_OPTION_REAL(conf, scale, "1", 0, 4, MF_OPT_LIVE | MF_OPT_STRUCTURAL, "factor"),
    MF_END_OPTIONS};

static void take(state *s, const void *c, const mf_dims *dims)
{
    *s = (state){c, dims->experts, dims->dim, 40 * dims->dim};
}

#if FINE == 1 || FINE == 11
static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    state *s = self;
    take(s, c, dims);
    int rc = mf->param(ctx, "up", mf_shape3(s->experts, s->hidden, s->dim), MF_NORMAL(0.3));
    return rc == MF_OK ? mf->param(ctx, "down", mf_shape3(s->experts, s->dim, s->hidden),
                                   MF_NORMAL(0.3))
                       : rc;
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    mf_tensor *h = mf_grouped_linear(g, in->x, mf->use(ctx, g, "up"), in->offset, NULL);
    h = FINE == 1 ? mf_relu(g, h) : mf_silu(g, h);
    if (FINE == 11 && in->gate) h = mf_mul(g, h, in->gate);
    *ret_y = mf_grouped_linear(g, h, mf->use(ctx, g, "down"), in->offset, NULL);
    return mf->status(g);
}

static const mf_option none[] = {MF_END_OPTIONS};
static const mf_expert vtable = {.size = sizeof(mf_expert),
                                 .flags = FINE == 11 ? MF_EXPERT_GATES : 0,
                                 .init = init,
                                 .forward = forward};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "fine", "1", "MIT", "two layers", none,
                                  conf, state, &vtable);
#elif FINE == 10
static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)ctx;
    take(self, c, dims);
    return MF_OK;
}

/* The loss: sum over layers of ln sum_t exp(sum_e p_te^2), a soft maximum over tokens. */
static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret)
{
    const float zero = 0;
    mf_tensor *sum = mf->constant(g, MF_F32, mf_shape0(), &zero);
    (void)self, (void)ctx;
    for (int32_t i = 0; i < n; i++) {
        const mf_routing *r = routing[i];
        if (!r->prob) continue;
        mf_tensor *each = mf_exp(g, mf_sum(g, mf_square(g, r->prob), 2u, true));
        if (r->mask) each = mf_mul(g, each, mf_reshape(g, r->mask, mf_shape2(r->tokens, 1)));
        mf_tensor *all = mf_affine(g, mf_sum(g, each, MF_ALL, false), 1, 1e-6);
        sum = mf_add(g, sum, mf_ln(g, all));
    }
    *ret = sum;
    return mf->status(g);
}

static const mf_option none[] = {MF_END_OPTIONS};
static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "fine", "1", "MIT",
                                  "a soft maximum", none, conf, state, &vtable);
#else
static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    state *s = self;
    take(s, c, dims);
    if (FINE == 3 && dims->causal)
        return mf->fail(ctx, MF_ECONFIG, "expected model.causal = no: it looks at all tokens");
    if (FINE == 8 && dims->labels < 1) return mf->fail(ctx, MF_ECONFIG, "expected labels");
    int rc = mf->param(ctx, "weight", mf_shape2(s->experts, s->dim), MF_NORMAL(0.2));
    if (rc == MF_OK && FINE == 2)
        rc = mf->param(ctx, "more", mf_shape1(s->dim), MF_NORMAL(0.2));
    if (rc == MF_OK && FINE == 7) rc = mf->buffer(ctx, "seen", mf_shape1(s->experts), MF_ZEROS);
    return rc;
}

static mf_tensor *sequence_mean(mf_graph *g, const mf_router_in *in, int64_t d)
{
    mf_tensor *x = mf_reshape(g, in->x, mf_shape3(in->batch, in->seq, d));
    mf_tensor *m = in->mask ? mf_reshape(g, in->mask, mf_shape3(in->batch, in->seq, 1)) : NULL;
    mf_tensor *mean = m ? mf_div(g, mf_sum(g, mf_mul(g, x, m), 2u, true),
                                 mf_clamp(g, mf_sum(g, m, 2u, true), 1, 1e30))
                        : mf_mean(g, x, 2u, true);
    mean = mf_broadcast(g, mean, mf_shape3(in->batch, in->seq, d));
    return mf_reshape(g, mean, mf_shape2((int64_t)in->batch * in->seq, d));
}

/* A quarter of the signs of w, with the gradient of the identity. */
static mf_tensor *sign(mf_graph *g, mf_tensor *w)
{
    const float zero = 0;
    mf_tensor *hard = mf_greater(g, w, mf->constant(g, MF_F32, mf_shape0(), &zero));
    hard = mf_affine(g, hard, 0.5, -0.25);
    return mf_add(g, w, mf_stop_gradient(g, mf_sub(g, hard, w)));
}

/* 0.9 for the best expert, plus 0.1 of the softmax for each expert, with the gradient of
 * the softmax. */
static mf_tensor *hardened(mf_graph *g, mf_tensor *l, int64_t T, int64_t E)
{
    mf_tensor *p = mf_softmax(g, l);
    mf_tensor *best = mf_reshape(g, mf_one_hot(g, mf_topk(g, p, 1), E), mf_shape2(T, E));
    mf_tensor *mixed = mf_add(g, mf_affine(g, best, 0.9, 0), mf_affine(g, p, 0.1, 0));
    return mf_add(g, p, mf_stop_gradient(g, mf_sub(g, mixed, p)));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const state *s = self;
    const int64_t T = (int64_t)in->batch * in->seq, E = s->experts;
    mf_tensor *x = in->x, *w = mf->use(ctx, g, "weight");
    if (FINE == 2 && E > 6) x = mf_mul(g, x, mf_affine(g, mf->use(ctx, g, "more"), 1, 1));
    if (FINE == 3) x = mf_add(g, x, sequence_mean(g, in, s->dim));
    if (FINE == 4) w = sign(g, w);
    mf_tensor *l = mf_linear(g, x, w, NULL);
    if (FINE == 6) l = mf_add(g, l, mf_stop_gradient(g, mf_sub(g, mf_tanh(g, l), l)));
    if (FINE == 7) l = mf_sub(g, l, mf->use(ctx, g, "seen"));
    if (FINE == 8 && in->labels)
        l = mf_add(g, l, mf_reshape(g, mf_one_hot(g, in->labels, E), mf_shape2(T, E)));
    if (FINE == 12 && mf->training(g))
        l = mf_add(g, l, mf_affine(g, mf_gaussian(g, mf_shape2(T, E)), 0.1, 0));
    if (s->c->scale != 0) l = mf_mul(g, l, mf->live(ctx, g, "scale"));
    out->logits = l;
    if (FINE == 5) out->prob = hardened(g, l, T, E);
    return mf->status(g);
}

static int after_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    int64_t n;
    (void)self;
    float *seen = FINE == 7 ? mf->data(ctx, "seen", &n) : NULL;
    const mf_layer_stats *l = step->n_layers > 0 ? step->layers : NULL;
    for (int64_t e = 0; seen && l && l->experts == n && e < n; e++)
        seen[e] = 0.9f * seen[e] + 0.1f * l->load[e];
    return MF_OK;
}

static const mf_router vtable = {.size = sizeof(mf_router),
                                 .flags = (FINE == 3 ? MF_ROUTER_NOT_CAUSAL : 0) |
                                          (FINE == 7 ? MF_ROUTER_STATS : 0),
                                 .init = init,
                                 .route = route,
                                 .after_step = after_step};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "fine", "1", "MIT", "one linear layer",
                                  options, conf, state, &vtable);
#endif
