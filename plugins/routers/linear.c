/* linear: the router of Shazeer et al. 2017 and Switch (Fedus et al. 2022, eq. 1).
 *
 *     logits = (W (x * u) + b) / temperature,   P = softmax(logits)
 *
 * W [E,d]; b [E] only if bias = yes. u is 1; in training with jitter e > 0 each element of u is
 * drawn from U(1 - e, 1 + e) (Fedus et al., section 2.2). Core selects the k most probable
 * experts of each token. With groups > 1 the experts form that many groups of neighbours; a
 * group's score is its largest P, and experts are chosen only from the topk_groups best groups
 * (DeepSeek-V2 2024, section 2.2.2). With gate_norm = p >= 1 the gates of a token are
 * P_i / (sum_j P_j^p)^(1/p) over its chosen experts (DBRX 2024). This is the simplest router
 * and the baseline.
 *
 * Parameters: E d (+ E). */
#include <moefw/moefw.h>
#include <math.h>

enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t bias, init, groups, topk_groups;
    double init_std, temperature, jitter, gate_norm;
} conf;

typedef struct {
    const conf *c;
    int32_t experts;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->experts = dims->experts;
    if (dims->experts % c->groups != 0)
        return mf->fail(ctx, MF_ECONFIG, "groups = %d does not divide the %d experts",
                        (int)c->groups, (int)dims->experts);
    if (c->topk_groups > c->groups ||
        c->topk_groups * (dims->experts / c->groups) < dims->top_k)
        return mf->fail(
            ctx, MF_ECONFIG,
            "topk_groups = %d of %d groups with %d experts each cannot give %d experts",
            (int)c->topk_groups, (int)c->groups, (int)(dims->experts / c->groups),
            (int)dims->top_k);
    if (c->gate_norm > 0 && c->gate_norm < 1)
        return mf->fail(ctx, MF_ECONFIG, "gate_norm = %g: expected 0, or an order of 1 or more",
                        c->gate_norm);
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

/* prob [T,E], minus 10,000 for the experts of closed groups */
static mf_tensor *open_groups(const router *self, mf_graph *g, mf_tensor *prob, int64_t T)
{
    const int64_t G = self->c->groups, n = self->experts / G;
    mf_tensor *rows = mf_reshape(g, mf_stop_gradient(g, prob), mf_shape3(T, G, n));
    mf_tensor *group = mf_reshape(g, mf_row_max(g, rows), mf_shape2(T, G));
    mf_tensor *top = mf_topk(g, group, self->c->topk_groups);
    mf_tensor *ones = mf_affine(g, mf_take(g, group, top), 0, 1);
    mf_tensor *open = mf_reshape(g, mf_put(g, ones, top, G), mf_shape3(T, G, 1));
    rows = mf_add(g, rows, mf_affine(g, open, 1e4, -1e4));
    return mf_reshape(g, rows, mf_shape2(T, self->experts));
}

/* Chooses the experts, and divides their probabilities by their norm. */
static void norm_gates(const router *self, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const double p = self->c->gate_norm;
    const int64_t T = (int64_t)in->batch * in->seq;
    const mf_shape rows = mf_shape1(T * in->top_k);
    if (!out->prob) out->prob = mf_softmax(g, out->logits);
    mf_tensor *top = mf_topk(g, out->score ? out->score : out->prob, in->top_k),
              *chosen = mf_take(g, out->prob, top);
    /* relative to the largest one, so that no power of p underflows in the sum */
    mf_tensor *largest =
        mf_reshape(g, mf_row_max(g, mf_stop_gradient(g, chosen)), mf_shape2(T, 1));
    mf_tensor *share = mf_div(g, chosen, largest);
    mf_tensor *power = mf_exp(g, mf_scale(g, mf_ln(g, mf_clamp(g, share, 1e-30, 2)), p));
    mf_tensor *norm = mf_exp(g, mf_scale(g, mf_ln(g, mf_sum(g, power, 2u, true)), 1 / p));
    out->expert = mf_reshape(g, top, rows);
    out->gate = mf_reshape(g, mf_div(g, share, norm), rows);
    out->own_top_k = in->top_k;
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
    if (self->c->groups > 1) {
        out->prob = mf_softmax(g, out->logits);
        out->score = open_groups(self, g, out->prob, (int64_t)in->batch * in->seq);
    }
    if (self->c->gate_norm > 0) norm_gates(self, g, in, out);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, groups, "1", 1, 4096, 0, "groups that the experts lie in"),
    MF_OPTION_INT(conf, topk_groups, "1", 1, 4096, 0, "groups open to a token"),
    MF_OPTION_BOOL(conf, bias, "no", 0, "add a bias to each expert's logit"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE,
                   "divides the logits; below 1 sharpens the choice"),
    MF_OPTION_REAL(conf, jitter, "0", 0, 1, 0,
                   "noise on the input in training; Switch uses 0.01"),
    MF_OPTION_REAL(conf, gate_norm, "0", 0, 100, 0,
                   "p: a token's gates over their norm of order p; biases of controllers then "
                   "move no choice; 0: as moe.renormalize says"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "linear", "1.0", "MIT",
                   "one linear layer and a softmax", options, conf, router, &vtable);
