/* attention: each expert is a block of self-attention (Golwala 2025, TAGAT, sections 4.3
 * and 5.3).
 *
 * For a token t that was sent to expert i, with keys and values of all tokens j of
 * its sequence:
 *
 *     a_tj = softmax_j(Q_t . K_j / sqrt(d_h)),  O_t = sum_j a_tj V_j, head by head
 *     residual: u = LN(h_t + W_O O_t),  M_i(h_t) = LN(u + W_2 relu(W_1 u))        (listing 3)
 *
 * Only the tokens that were sent to an expert have queries there and pass through its output
 * and feed-forward layers. With residual, out_proj and ffn = no the expert consists of the
 * heads alone (section 4.3). The tokens to which a query attends can be understood in
 * three ways:
 *     sequence  all tokens of the sequence (equation)
 *     zeroed    the same, with zero vectors for tokens that were not sent to the expert: their
 *               keys and values are the biases (released code)
 *     batch     the expert's tokens of all sequences, as one sequence (listing 6, whose x[mask]
 *               loses the ends of sequences)
 * In a decoder a token attends to itself and earlier tokens; padding is never attended to. The
 * sum of listing 3's parameters for d = 128 is 198,272 per expert. */
#include <moefw/moefw.h>
#include <math.h>

enum { SEQUENCE, ZEROED, BATCH };
static const char *const scopes[] = {"sequence", "zeroed", "batch", NULL};
enum { UNIFORM_XAVIER, NORMAL };
static const char *const starts[] = {"uniform_xavier", "normal", NULL};

#define EPS 1e-5

typedef struct {
    int64_t heads, scope, out_proj, ffn, hidden, residual, bias, init;
    double dropout, init_std;
} conf;

typedef struct {
    const conf *c;
    int64_t heads, experts, dim;
    bool causal;
} expert;

typedef struct {
    mf_ctx *ctx;
    const conf *c;
    int rc;
} declarer;

/* Declares a weight with initial values from U(-bound, bound), as in PyTorch, or from
 * N(0, init_std). */
static void weight(declarer *d, const char *name, mf_shape shape, double bound)
{
    if (d->rc != MF_OK) return;
    const mf_init_kind kind = d->c->init == UNIFORM_XAVIER ? MF_INIT_UNIFORM : MF_INIT_NORMAL;
    d->rc = mf->param(d->ctx, name, shape,
                      mf_init_of(kind, d->c->init == UNIFORM_XAVIER ? bound : d->c->init_std,
                                 MF_PARAM_BY_EXPERT));
}

static void vector(declarer *d, const char *name, int64_t experts, int64_t n, mf_init_kind kind,
                   double a)
{
    if (d->rc == MF_OK)
        d->rc = mf->param(d->ctx, name, mf_shape2(experts, n),
                          mf_init_of(kind, a, MF_PARAM_BY_EXPERT | MF_PARAM_NO_DECAY));
}

static void norm(declarer *d, const char *w, const char *b, int64_t experts, int64_t n)
{
    vector(d, w, experts, n, MF_INIT_CONST, 1);
    vector(d, b, experts, n, MF_INIT_ZERO, 0);
}

static int judge(const expert *self, mf_ctx *ctx)
{
    const conf *c = self->c;
    if (self->dim % self->heads != 0)
        return mf->fail(ctx, MF_ECONFIG, "heads = %lld: expected a divisor of the width %lld",
                        (long long)self->heads, (long long)self->dim);
    if (c->scope == BATCH && self->causal)
        return mf->fail(ctx, MF_ECONFIG,
                        "scope = batch: tokens of a decoder would see those of other "
                        "sequences, later ones too; expected sequence or zeroed");
    return MF_OK;
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    expert *self = self_;
    const conf *c = self->c = conf_;
    const int64_t E = dims->experts, d = dims->dim, h = c->hidden ? c->hidden : 4 * d;
    *self = (expert){c, c->heads ? c->heads : dims->heads, E, d, dims->causal != 0};
    declarer to = {ctx, c, judge(self, ctx)};
    /* PyTorch's MultiheadAttention has one matrix [3d,d] with Xavier's bound. Here the same
     * weights are two matrices. */
    const double joint = sqrt(6.0 / (double)(4 * d)), in = 1 / sqrt((double)d);
    const bool drawn = c->init == UNIFORM_XAVIER;
    weight(&to, "wq", mf_shape3(E, d, d), joint);
    weight(&to, "wkv", mf_shape3(E, 2 * d, d), joint);
    if (c->bias) {
        vector(&to, "bq", E, d, MF_INIT_ZERO, 0);
        vector(&to, "bkv", E, 2 * d, MF_INIT_ZERO, 0);
    }
    if (c->out_proj) weight(&to, "wo", mf_shape3(E, d, d), in);
    if (c->out_proj && c->bias) vector(&to, "bo", E, d, MF_INIT_ZERO, 0);
    if (c->residual) norm(&to, "norm1_w", "norm1_b", E, d);
    if (!c->ffn) return to.rc;
    weight(&to, "w1", mf_shape3(E, h, d), in);
    weight(&to, "w2", mf_shape3(E, d, h), 1 / sqrt((double)h));
    if (c->bias) {
        vector(&to, "b1", E, h, drawn ? MF_INIT_UNIFORM : MF_INIT_ZERO, in);
        vector(&to, "b2", E, d, drawn ? MF_INIT_UNIFORM : MF_INIT_ZERO, 1 / sqrt((double)h));
    }
    if (c->residual) norm(&to, "norm2_w", "norm2_b", E, d);
    return to.rc;
}

static mf_tensor *use_if(bool wanted, mf_ctx *ctx, mf_graph *g, const char *name)
{
    return wanted ? mf->use(ctx, g, name) : NULL;
}

/* Returns the row of the keys and values for each assignment: token t of expert e has row t E +
 * e. The result is [R] i32, negative past the last assignment. A gemm whose weights are the
 * experts' numbers computes the expert of each assignment. */
static mf_tensor *places(const expert *self, mf_graph *g, const mf_expert_in *in, int64_t rows)
{
    float number[4096];
    const int64_t E = self->experts;
    for (int64_t e = 0; e < E; e++)
        number[e] = (float)e;
    mf_tensor *token = mf_reshape(g, mf_cast(g, in->token, MF_F32), mf_shape2(rows, 1));
    mf_tensor *w = mf->constant(g, MF_F32, mf_shape3(E, 1, 1), number);
    mf_tensor *e = mf_grouped_linear(g, mf_affine(g, token, 0, 1), w, in->offset, NULL);
    mf_tensor *at = mf_add(g, mf_affine(g, token, (double)E, 0), e);
    return mf_cast(g, mf_reshape(g, at, mf_shape1(rows)), MF_I32);
}

/* Returns keys and values in the layout of mf_grouped_attention. */
static mf_tensor *keys_values(const expert *self, mf_ctx *ctx, mf_graph *g,
                              const mf_expert_in *in)
{
    const int64_t E = self->experts, d = self->dim, T = (int64_t)in->batch * in->seq;
    mf_tensor *w = mf->use(ctx, g, "wkv"), *b = use_if(self->c->bias, ctx, g, "bkv");
    if (self->c->scope == BATCH) return mf_grouped_linear(g, in->x, w, in->offset, b);
    if (self->c->scope == SEQUENCE)
        return mf_linear(g, in->seq_x, mf_reshape(g, w, mf_shape2(2 * E * d, d)),
                         b ? mf_reshape(g, b, mf_shape1(2 * E * d)) : NULL);
    const int64_t rows = mf->shape(in->token).dim[0];
    mf_tensor *sent = mf_grouped_linear(g, in->x, w, in->offset, NULL);
    mf_tensor *kv = mf_scatter_rows(g, sent, places(self, g, in, rows), T * E);
    kv = mf_reshape(g, kv, mf_shape3(T, E, 2 * d));
    return mf_reshape(g, b ? mf_add(g, kv, b) : kv, mf_shape2(T, 2 * E * d));
}

static mf_tensor *feed_forward(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                               mf_tensor *x)
{
    mf_tensor *h = mf_grouped_linear(g, x, mf->use(ctx, g, "w1"), in->offset,
                                     use_if(c->bias, ctx, g, "b1"));
    h = mf_relu(g, h);
    if (c->dropout > 0) h = mf_dropout(g, h, c->dropout);
    h = mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), in->offset,
                          use_if(c->bias, ctx, g, "b2"));
    return c->dropout > 0 ? mf_dropout(g, h, c->dropout) : h;
}

static mf_tensor *add_norm(mf_ctx *ctx, mf_graph *g, const mf_expert_in *in, mf_tensor *x,
                           mf_tensor *y, const char *w, const char *b)
{
    return mf_grouped_layernorm(g, mf_add(g, x, y), in->offset, mf->use(ctx, g, w),
                                mf->use(ctx, g, b), EPS);
}

static int forward(void *self_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const expert *self = self_;
    const conf *c = self->c;
    const bool batch = c->scope == BATCH;
    const double scale = 1 / sqrt((double)self->dim / (double)self->heads);
    mf_tensor *q = mf_grouped_linear(g, in->x, mf->use(ctx, g, "wq"), in->offset,
                                     use_if(c->bias, ctx, g, "bq"));
    mf_tensor *y = mf_grouped_attention(g, q, keys_values(self, ctx, g, in), in->offset,
                                        in->token, batch ? NULL : in->mask, in->batch,
                                        (int)self->heads, self->causal, batch, scale);
    if (c->out_proj)
        y = mf_grouped_linear(g, y, mf->use(ctx, g, "wo"), in->offset,
                              use_if(c->bias, ctx, g, "bo"));
    if (c->residual) y = add_norm(ctx, g, in, in->x, y, "norm1_w", "norm1_b");
    if (c->ffn) {
        mf_tensor *f = feed_forward(c, ctx, g, in, y);
        y = c->residual ? add_norm(ctx, g, in, y, f, "norm2_w", "norm2_b") : f;
    }
    *ret_y = y;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, heads, "0", 0, 1024, 0, "attention heads; 0: as model.heads"),
    MF_OPTION_ENUM(
        conf, scope, "sequence", scopes,
        "who is attended to: the sequence; the same, others zeroed; the whole batch"),
    MF_OPTION_BOOL(conf, out_proj, "yes", 0, "output layer behind the heads"),
    MF_OPTION_BOOL(conf, ffn, "yes", 0, "feed-forward half: two layers with ReLU between"),
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "its hidden width; 0 means 4 x dim"),
    MF_OPTION_BOOL(conf, residual, "yes", 0,
                   "each half adds its input and normalises; no: the bare halves"),
    MF_OPTION_BOOL(conf, bias, "yes", 0, "biases on all linear layers"),
    MF_OPTION_REAL(conf, dropout, "0.1", 0, 0.99, 0,
                   "share set to 0 in training, behind both layers of the feed-forward half"),
    MF_OPTION_ENUM(
        conf, init, "uniform_xavier", starts,
        "start weights: as PyTorch's MultiheadAttention and Linear, or N(0, init_std)"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "init = normal: standard deviation"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {
    sizeof(mf_expert), MF_EXPERT_SEQUENCE, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "attention", "1.0", "MIT",
                                  "a block of self-attention: routed tokens ask their sequence",
                                  options, conf, expert, &vtable);
