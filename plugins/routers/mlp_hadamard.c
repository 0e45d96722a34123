/* mlp_hadamard: Hadamard products of features, or a fixed orthogonal mixture of them, before
 * the last layer (DBGW, arXiv 2506.16419, section III-B6 and VI).
 *
 *     h = act(W1 n(x) + b1)                                h [hidden]
 *     mode = product   u = h * (Wp n(x))                   eq. 7
 *     mode = pooled    u = h * pool(n(x))  pool: means of d/hidden neighbouring features
 *     mode = walsh     u = s H h           H: Sylvester's matrix of +1 and -1, not learned
 *     logits = W2 u + b2,   P = softmax(logits / temperature)
 *     mode = matrix    logits = first E elements of s H n(x) (the paper's first attempt, which
 *                      sends nearly all tokens to one expert; only the norm has parameters)
 *
 * s is 1/sqrt(size) if scale = orthogonal, else 1. n is LayerNorm or the identity. If k_experts
 * is above 0, the k_experts largest logits of a token are kept, and the probabilities of its
 * other experts are 0. The paper's count, 101,000, is that of the MLP router: the paper's run
 * had no Wp, so its Hadamard step had no parameters.
 *
 * start = kaiming draws weights and biases from U(-1/sqrt(fan_in), 1/sqrt(fan_in)), and
 * start = normal draws weights from N(0, init_std) and sets biases to zero. The defaults
 * (walsh, no scale, GELU, kaiming) are nearest to the published values for N(0,1) input: mean
 * entropy 1.110 and mean top-2 probability .398, compared with 1.1003 and .4152 (distance
 * .020). Two random starts differ by .027 and .004. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdlib.h>

enum { PRODUCT, POOLED, WALSH, MATRIX };
static const char *const modes[] = {"product", "pooled", "walsh", "matrix", NULL};
enum { ORTHOGONAL, PLAIN };
static const char *const scales[] = {"orthogonal", "none", NULL};
enum { NONE, LAYERNORM };
static const char *const norms[] = {"none", "layernorm", NULL};
enum { NORMAL, KAIMING };
static const char *const starts[] = {"normal", "kaiming", NULL};
enum { GELU, RELU };
static const char *const activations[] = {"gelu", "relu", NULL};

#define MAX_SIDE 1024
typedef struct {
    int64_t hidden, mode, scale, input_norm, activation, k_experts, start;
    double init_std, temperature;
} conf;

typedef struct {
    const conf *c;
    int64_t dim, experts;
} router;

static bool power_of_two(int64_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

static int judge(mf_ctx *ctx, const conf *c, const mf_dims *dims)
{
    const int64_t side = c->mode == MATRIX ? dims->dim : c->hidden;
    if ((c->mode == WALSH || c->mode == MATRIX) && side > MAX_SIDE)
        return mf->fail(ctx, MF_ECONFIG, "the Walsh matrix has at most %d rows, not %d",
                        MAX_SIDE, (int)side);
    if (c->mode == WALSH && !power_of_two(c->hidden))
        return mf->fail(ctx, MF_ECONFIG, "mode = walsh needs hidden to be a power of 2, not %d",
                        (int)c->hidden);
    if (c->mode == POOLED && dims->dim % c->hidden != 0)
        return mf->fail(ctx, MF_ECONFIG,
                        "mode = pooled needs hidden to divide dim = %d, not %d", (int)dims->dim,
                        (int)c->hidden);
    if (c->k_experts > dims->experts)
        return mf->fail(ctx, MF_ECONFIG, "k_experts = %d, but there are only %d experts",
                        (int)c->k_experts, (int)dims->experts);
    return MF_OK;
}

static int layer(mf_ctx *ctx, const conf *c, const char *weight, const char *bias, int64_t out,
                 int64_t in)
{
    const bool kaiming = c->start == KAIMING;
    int rc = mf->param(ctx, weight, mf_shape2(out, in),
                       kaiming ? mf_init_of(MF_INIT_KAIMING, 1, 0) : MF_NORMAL(c->init_std));
    if (rc != MF_OK || !bias) return rc;
    const mf_init spread = mf_init_of(MF_INIT_UNIFORM, 1 / sqrt((double)in), MF_PARAM_NO_DECAY);
    return mf->param(ctx, bias, mf_shape1(out), kaiming ? spread : MF_ZEROS);
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->dim = dims->dim;
    self->experts = dims->experts;
    int rc = judge(ctx, c, dims);
    if (rc == MF_OK && c->input_norm == LAYERNORM) {
        rc = mf->param(ctx, "norm.weight", mf_shape1(dims->dim), MF_CONST(1));
        if (rc == MF_OK) rc = mf->param(ctx, "norm.bias", mf_shape1(dims->dim), MF_ZEROS);
    }
    if (rc != MF_OK || c->mode == MATRIX) return rc;
    rc = layer(ctx, c, "w1", "b1", c->hidden, dims->dim);
    if (rc == MF_OK && c->mode == PRODUCT) rc = layer(ctx, c, "wp", NULL, c->hidden, dims->dim);
    return rc == MF_OK ? layer(ctx, c, "w2", "b2", dims->experts, c->hidden) : rc;
}

/* s x H^T [T,rows] for x [T,n]. H: the first `rows` rows of Sylvester's matrix,
 * H[i,j] = (-1)^popcount(i & j); s: 1/sqrt(n) or 1. */
static mf_tensor *walsh(const conf *c, mf_ctx *ctx, mf_graph *g, mf_tensor *x, int64_t n,
                        int64_t rows)
{
    float sign[2] = {1, -1};
    if (c->scale == ORTHOGONAL) {
        sign[0] = (float)(1 / sqrt((double)n));
        sign[1] = -sign[0];
    }
    float *h = malloc((size_t)(rows * n) * sizeof *h);
    if (!h) {
        mf->fail(ctx, MF_ENOMEM, "no memory for %d rows of the Walsh matrix", (int)rows);
        return NULL;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t odd = 0;
            for (int64_t bits = i & j; bits; bits &= bits - 1)
                odd ^= 1;
            h[i * n + j] = sign[odd];
        }
    mf_tensor *matrix = mf->constant(g, MF_F32, mf_shape2(rows, n), h);
    free(h);
    return mf_linear(g, x, matrix, NULL);
}

static mf_tensor *mix(const router *self, mf_ctx *ctx, mf_graph *g, mf_tensor *h, mf_tensor *x)
{
    const conf *c = self->c;
    if (c->mode == WALSH) return walsh(c, ctx, g, h, c->hidden, c->hidden);
    if (c->mode == PRODUCT) return mf_mul(g, h, mf_linear(g, x, mf->use(ctx, g, "wp"), NULL));
    const int64_t T = mf_shape_count(mf->shape(x)) / self->dim;
    mf_tensor *groups = mf_reshape(g, x, mf_shape3(T, c->hidden, self->dim / c->hidden));
    return mf_mul(g, h, mf_mean(g, groups, 4u, false));
}

static mf_tensor *keep_largest(const router *self, mf_graph *g, mf_tensor *logits)
{
    mf_tensor *top = mf_topk(g, logits, self->c->k_experts);
    mf_tensor *kept = mf_softmax(g, mf_take(g, logits, top));
    return mf_put(g, kept, top, self->experts);
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const conf *c = self->c;
    mf_tensor *x = in->x, *logits;
    if (c->input_norm == LAYERNORM)
        x = mf_layernorm(g, x, mf->use(ctx, g, "norm.weight"), mf->use(ctx, g, "norm.bias"),
                         1e-5);
    if (c->mode == MATRIX) {
        logits = walsh(c, ctx, g, x, self->dim, self->experts);
    } else {
        mf_tensor *h = mf_linear(g, x, mf->use(ctx, g, "w1"), mf->use(ctx, g, "b1"));
        h = c->activation == GELU ? mf_gelu(g, h) : mf_relu(g, h);
        logits =
            mf_linear(g, mix(self, ctx, g, h, x), mf->use(ctx, g, "w2"), mf->use(ctx, g, "b2"));
    }
    out->logits = mf_div(g, logits, mf->live(ctx, g, "temperature"));
    if (c->k_experts > 0) out->prob = keep_largest(self, g, out->logits);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "128", 1, 65536, 0, "hidden width"),
    MF_OPTION_ENUM(conf, mode, "walsh", modes, "which Hadamard step"),
    MF_OPTION_ENUM(conf, scale, "none", scales, "of the Walsh matrix"),
    MF_OPTION_ENUM(conf, input_norm, "layernorm", norms, "norm before the first layer"),
    MF_OPTION_ENUM(conf, activation, "gelu", activations, "nonlinearity"),
    MF_OPTION_ENUM(conf, start, "kaiming", starts, "how weights and biases begin"),
    MF_OPTION_INT(conf, k_experts, "0", 0, 65536, 0,
                  "experts with a probability at all; 0: all"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_OPTION_REAL(conf, temperature, "1", 1e-3, 1e3, MF_OPT_LIVE, "divides the logits"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "mlp_hadamard", "1.0", "MIT",
                   "an MLP router with a Hadamard step inside", options, conf, router, &vtable);
