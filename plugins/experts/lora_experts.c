/* lora_experts: all experts share one feed-forward layer; each expert adds its own low-rank
 * changes (Zadouri et al. 2023, MoLORA, eq. 3; Li et al. 2024, MixLoRA;
 * TUDB-Labs/MixLoRA, model.py).
 *
 *     L_e(W, x) = W x + (alpha / rank) B_e A_e x          A [rank, in], B [out, rank]
 *     form = swiglu         y = L_e(W2, silu(L_e(W1, x)) * L_e(W3, x))
 *     form = relu, gelu, gelu_tanh    y = L_e(W2, act(L_e(W1, x) + b1)) + b2
 *     form = linear         y = L_e(W, x),  W [d,d]
 *
 * B begins at 0, so all experts begin as the layer that they share. `moefw import FOLDER
 * --upcycle experts=8,top_k=2,expert.plugin=lora_experts` copies that layer from a dense model
 * and freezes everything in the model. So only the changes and the router are trained: a
 * mixture of LoRA over a frozen model. In training with dropout > 0, elements of the input of A
 * are dropped. The shared layer is computed for each assignment. Weights W1 and W3 are one
 * after the other in "w13" [2h,d], and their A is "lora.w13.a".
 *
 * Parameters of the shared layer, and of each expert:
 *
 *     form = swiglu                   3 d h                             3 rank (d + h)
 *     form = relu, gelu, gelu_tanh    2 d h, + h + d with bias = yes    2 rank (d + h)
 *     form = linear                   d d                               2 rank d */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>

enum { SWIGLU, RELU, GELU, GELU_TANH, LINEAR };
static const char *const forms[] = {"swiglu", "relu", "gelu", "gelu_tanh", "linear", NULL};

typedef struct {
    int64_t form, hidden, rank, bias;
    double alpha, dropout, init_std;
} conf;

typedef struct {
    const conf *c;
} expert;

/* lora_in declares the matrices A [E,rank,in] of a weight, and lora_out the B [E,out,rank]. */
static int lora_in(mf_ctx *ctx, const mf_dims *dims, const char *name, int64_t in, int64_t rank)
{
    return mf->param(ctx, name, mf_shape3(dims->experts, rank, in),
                     mf_init_of(MF_INIT_KAIMING, 1, MF_PARAM_BY_EXPERT));
}

static int lora_out(mf_ctx *ctx, const mf_dims *dims, const char *name, int64_t out,
                    int64_t rank)
{
    return mf->param(ctx, name, mf_shape3(dims->experts, out, rank),
                     mf_init_of(MF_INIT_ZERO, 0, MF_PARAM_BY_EXPERT));
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((expert *)self_)->c = conf_;
    const int64_t d = dims->dim, h = c->hidden ? c->hidden : 4 * d, r = c->rank;
    /* Residual branches start smaller in deeper models (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    mf_init start = MF_NORMAL(c->init_std);
    if (c->form == LINEAR) {
        int rc = mf->param(ctx, "weight", mf_shape2(d, d), start);
        if (rc == MF_OK) rc = lora_in(ctx, dims, "lora.weight.a", d, r);
        return rc == MF_OK ? lora_out(ctx, dims, "lora.weight.b", d, r) : rc;
    }
    const bool pair = c->form == SWIGLU;
    if (pair) start.flags |= MF_PARAM_HALVES;
    int rc = pair ? mf->param(ctx, "w13", mf_shape2(2 * h, d), start)
                  : mf->param(ctx, "w1", mf_shape2(h, d), start);
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape2(d, h), MF_NORMAL(out_std));
    if (rc == MF_OK && !pair && c->bias) rc = mf->param(ctx, "b1", mf_shape1(h), MF_ZEROS);
    if (rc == MF_OK && !pair && c->bias) rc = mf->param(ctx, "b2", mf_shape1(d), MF_ZEROS);
    if (rc == MF_OK)
        rc = pair ? lora_in(ctx, dims, "lora.w13.a", d, 2 * r)
                  : lora_in(ctx, dims, "lora.w1.a", d, r);
    if (rc == MF_OK) rc = lora_out(ctx, dims, "lora.w1.b", h, r);
    if (rc == MF_OK && pair) rc = lora_out(ctx, dims, "lora.w3.b", h, r);
    if (rc == MF_OK) rc = lora_in(ctx, dims, "lora.w2.a", h, r);
    return rc == MF_OK ? lora_out(ctx, dims, "lora.w2.b", d, r) : rc;
}

/* Returns (alpha / rank) B low, where low = A x [R,rank]. */
static mf_tensor *change(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                         mf_tensor *low, const char *b)
{
    mf_tensor *y = mf_grouped_linear(g, low, mf->use(ctx, g, b), in->offset, NULL);
    return mf_scale(g, y, c->alpha / (double)c->rank);
}

/* Returns A x, with dropout on x. */
static mf_tensor *lowered(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                          mf_tensor *x, const char *a)
{
    if (c->dropout > 0) x = mf_dropout(g, x, c->dropout);
    return mf_grouped_linear(g, x, mf->use(ctx, g, a), in->offset, NULL);
}

static mf_tensor *linear(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                         mf_tensor *x, const char *w, const char *bias)
{
    char a[32], b[32];
    snprintf(a, sizeof a, "lora.%s.a", w);
    snprintf(b, sizeof b, "lora.%s.b", w);
    mf_tensor *y = mf_linear(g, x, mf->use(ctx, g, w), bias ? mf->use(ctx, g, bias) : NULL);
    return mf_add(g, y, change(c, ctx, g, in, lowered(c, ctx, g, in, x, a), b));
}

static mf_tensor *gated(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in)
{
    const int64_t r = c->rank;
    mf_tensor *both = mf_linear(g, in->x, mf->use(ctx, g, "w13"), NULL);
    const int64_t h = mf->shape(both).dim[1] / 2;
    mf_tensor *low = lowered(c, ctx, g, in, in->x, "lora.w13.a");
    mf_tensor *u = mf_slice(g, both, 1, 0, h), *v = mf_slice(g, both, 1, h, h);
    u = mf_add(g, u, change(c, ctx, g, in, mf_slice(g, low, 1, 0, r), "lora.w1.b"));
    v = mf_add(g, v, change(c, ctx, g, in, mf_slice(g, low, 1, r, r), "lora.w3.b"));
    return mf_swiglu(g, u, v);
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const conf *c = ((const expert *)self)->c;
    mf_tensor *h = NULL;
    if (c->form == LINEAR) {
        *ret_y = linear(c, ctx, g, in, in->x, "weight", NULL);
        return mf->status(g);
    }
    if (c->form == SWIGLU) {
        h = gated(c, ctx, g, in);
    } else {
        h = linear(c, ctx, g, in, in->x, "w1", c->bias ? "b1" : NULL);
        h = c->form == RELU   ? mf_relu(g, h)
            : c->form == GELU ? mf_gelu(g, h)
                              : mf_gelu_tanh(g, h);
    }
    *ret_y = linear(c, ctx, g, in, h, "w2", c->form != SWIGLU && c->bias ? "b2" : NULL);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, form, "swiglu", forms, "the layer that is shared"),
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_BOOL(conf, bias, "yes", 0, "biases b1 and b2 (not with swiglu and linear)"),
    MF_OPTION_INT(conf, rank, "8", 1, 4096, 0, "rank of each change"),
    MF_OPTION_REAL(conf, alpha, "16", 0, 1e6, 0, "the changes are multiplied by alpha / rank"),
    MF_OPTION_REAL(conf, dropout, "0", 0, 0.99, 0, "share of what A gets set to 0 in training"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0,
                   "standard deviation of the shared layer's start weights"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "lora_experts", "1.0", "MIT",
                                  "one shared layer, and low-rank changes of each expert",
                                  options, conf, expert, &vtable);
