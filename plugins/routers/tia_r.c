/* tia_r: routing that depends on the importance of tokens (the Switch extension TIA-R).
 *
 *     s_t = |x_t|_2,   s~_t = (s_t - mean(s)) / (std(s) + 1e-6),   l' = W x + b + lambda s~_t
 *
 * The formula adds the same number to all logits of a token, so softmax and choice do not
 * change: as printed (mode = literal) it changes only the size of the logits. The paper's code
 * uses s~ to decide which tokens are admitted when an expert is full: mode = priority, the
 * default. This has an effect only with a capacity, and replaces moe.priority. x is the output
 * of a norm, RMSNorm or LayerNorm, so all s_t are nearly sqrt(d) until training has made the
 * norm's weights different. Until then rounding errors mostly decide the order. mean and std
 * are over the real tokens of the batch; std divides by n (population) or n - 1 (sample).
 * Parameters: E d, with bias E more. */
#include <moefw/moefw.h>
#include <math.h>

enum { PRIORITY, LITERAL };
static const char *const modes[] = {"priority", "literal", NULL};
enum { POPULATION, SAMPLE };
static const char *const stds[] = {"population", "sample", NULL};
enum { NORMAL, UNIFORM };
static const char *const inits[] = {"normal", "uniform", NULL};

typedef struct {
    int64_t mode, std, bias, init;
    double lambda, init_std;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    const bool uniform = c->init == UNIFORM;
    const double bound = 1 / sqrt((double)dims->dim);
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                       uniform ? mf_init_of(MF_INIT_KAIMING, 1, 0) : MF_NORMAL(c->init_std));
    if (rc == MF_OK && c->bias)
        rc = mf->param(ctx, "bias", mf_shape1(dims->experts),
                       uniform ? mf_init_of(MF_INIT_UNIFORM, bound, MF_PARAM_NO_DECAY)
                               : MF_ZEROS);
    return rc;
}

/* Returns the square root, whose gradient is set to 0 at 0. */
static mf_tensor *root(mf_graph *g, mf_tensor *x)
{
    return mf_sqrt(g, mf_clamp(g, x, 1e-30, 1e30));
}

/* Returns s~ [T,1]. With mode = literal it has a gradient to x, as in the printed formula. With
 * mode = priority it only ranks tokens, and has none. */
static mf_tensor *importance(const conf *c, mf_graph *g, const mf_router_in *in)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    mf_tensor *x = c->mode == LITERAL ? in->x : mf_stop_gradient(g, in->x);
    mf_tensor *s = root(g, mf_sum(g, mf_square(g, x), 2u, true));
    mf_tensor *real = NULL, *mean, *square;
    double less = c->std == SAMPLE ? 1 : 0;
    if (in->mask) {
        mf_tensor *m = mf_reshape(g, in->mask, mf_shape2(T, 1));
        real = mf_sum(g, m, MF_ALL, false);
        mean = mf_div(g, mf_sum(g, mf_mul(g, s, m), MF_ALL, false), mf_clamp(g, real, 1, 1e30));
        square = mf_sum(g, mf_mul(g, mf_square(g, mf_sub(g, s, mean)), m), MF_ALL, false);
        square = mf_div(g, square, mf_clamp(g, mf_affine(g, real, 1, -less), 1, 1e30));
    } else {
        mean = mf_mean(g, s, MF_ALL, false);
        square = mf_sum(g, mf_square(g, mf_sub(g, s, mean)), MF_ALL, false);
        square = mf_scale(g, square, 1 / ((double)T - less > 1 ? (double)T - less : 1));
    }
    return mf_div(g, mf_sub(g, s, mean), mf_affine(g, root(g, square), 1, 1e-6));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    mf_tensor *bias = c->bias ? mf->use(ctx, g, "bias") : NULL;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), bias);
    mf_tensor *s = mf_mul(g, importance(c, g, in), mf->live(ctx, g, "lambda"));
    if (c->mode == LITERAL)
        out->logits = mf_add(g, out->logits, s);
    else
        out->priority = mf_reshape(g, s, mf_shape1((int64_t)in->batch * in->seq));
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, mode, "priority", modes,
                   "rank under a capacity, or the printed formula"),
    MF_OPTION_ENUM(conf, std, "population", stds, "divide by n or by n - 1"),
    MF_OPTION_BOOL(conf, bias, "no", 0, "add a bias to each expert's logit"),
    MF_OPTION_REAL(conf, lambda, "1", -1e3, 1e3, MF_OPT_LIVE,
                   "size of the importance; below 0 the shortest vectors come first"),
    MF_OPTION_ENUM(conf, init, "normal", inits,
                   "start weights: N(0, init_std), or U(-1, 1) / sqrt(inputs)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "tia_r", "1.0", "MIT",
                                  "important tokens first when an expert is full", options,
                                  conf, router, &vtable);
