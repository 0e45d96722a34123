/* mixed: feed-forward experts, and experts that cost nearly nothing (Jin et al. 2024, MoE++,
 * eq. 3-5; AdaMoE, Zeng et al. 2024; LongCat-Flash 2025).
 *
 *     the first experts    y = W2 (silu(W1 x) * W3 x), or y = W2 act(W1 x), set by `form`
 *     then `constants`     y = c1 x + c2 v,  c = softmax(V x);  v [d], V [2,d] of each
 *     then `copies`        y = x
 *     the last `zeros`     y = 0
 *
 * The order is that of the released MoE++ code, whose layers have 2 constants, a copy and a
 * zero. AdaMoE's null experts are zeros, LongCat-Flash's zero-computation experts are copies.
 * plain_constants = yes: y = v. moe.experts is the number of experts of all kinds together, and
 * a token's top_k may contain any of them. The router `residual` implements the zeros and the
 * balance of MoE++, the controller `expert_budget` implements the balance of LongCat-Flash.
 *
 * Parameters: 3 d h, or 2 d h, of a feed-forward expert; 3 d of a constant. */
#include <moefw/moefw.h>
#include <math.h>

enum { SWIGLU, RELU, GELU, RELU2 };
static const char *const forms[] = {"swiglu", "relu", "gelu", "relu2", NULL};

typedef struct {
    int64_t hidden, form, constants, plain_constants, copies, zeros;
    double init_std;
} conf;

typedef struct {
    const conf *c;
} expert;

static mf_init by_expert(double std)
{
    return mf_init_of(MF_INIT_NORMAL, std, MF_PARAM_BY_EXPERT);
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((expert *)self_)->c = conf_;
    const int64_t d = dims->dim, h = c->hidden ? c->hidden : 4 * d, C = c->constants;
    const int64_t n = dims->experts - C - c->copies - c->zeros;
    /* Residual branches start smaller in deeper models (Radford et al. 2019). */
    const double out_std = c->init_std / sqrt(2.0 * (dims->n_layers > 0 ? dims->n_layers : 1));
    if (n < 1)
        return mf->fail(ctx, MF_ECONFIG,
                        "constants, copies and zeros are %d experts: expected fewer than "
                        "moe.experts, %d",
                        (int)(dims->experts - n), (int)dims->experts);
    mf_init in = by_expert(c->init_std);
    if (c->form == SWIGLU) in.flags |= MF_PARAM_HALVES;
    int rc = c->form == SWIGLU ? mf->param(ctx, "w13", mf_shape3(n, 2 * h, d), in)
                               : mf->param(ctx, "w1", mf_shape3(n, h, d), in);
    if (rc == MF_OK) rc = mf->param(ctx, "w2", mf_shape3(n, d, h), by_expert(out_std));
    if (rc == MF_OK && C > 0)
        rc = mf->param(ctx, "constant", mf_shape3(C, d, 1), by_expert(c->init_std));
    if (rc == MF_OK && C > 0 && !c->plain_constants)
        rc = mf->param(ctx, "share", mf_shape3(C, 2, d), by_expert(c->init_std));
    return rc;
}

/* Returns the offsets of the n experts from `first` on. A grouped op with these offsets returns
 * 0 for the rows of all other experts. */
static mf_tensor *part(mf_graph *g, const mf_expert_in *in, int64_t first, int64_t n)
{
    return mf_slice(g, in->offset, 0, first, n + 1);
}

/* Returns [R,1]: 1 in the rows of these experts, else 0. */
static mf_tensor *rows_of(mf_graph *g, const mf_expert_in *in, int64_t first, int64_t n,
                          int64_t R)
{
    const int32_t one = 1;
    mf_tensor *row = mf_arange(g, R), *ones = mf->constant(g, MF_I32, mf_shape1(1), &one);
    mf_tensor *before = mf_sub(g, mf_slice(g, in->offset, 0, first, 1), ones),
              *end = mf_slice(g, in->offset, 0, first + n, 1);
    mf_tensor *inside = mf_mul(g, mf_greater(g, row, before), mf_greater(g, end, row));
    return mf_reshape(g, mf_cast(g, inside, MF_F32), mf_shape2(R, 1));
}

static mf_tensor *feed_forward(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                               int64_t n)
{
    const int64_t form = c->form;
    mf_tensor *offset = part(g, in, 0, n);
    const char *first = form == SWIGLU ? "w13" : "w1";
    mf_tensor *h = mf_grouped_linear(g, in->x, mf->use(ctx, g, first), offset, NULL);
    h = form == SWIGLU ? mf_swiglu(g, h, NULL) : form == GELU ? mf_gelu(g, h) : mf_relu(g, h);
    if (form == RELU2) h = mf_square(g, h);
    return mf_grouped_linear(g, h, mf->use(ctx, g, "w2"), offset, NULL);
}

static mf_tensor *constants(const conf *c, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                            int64_t first, int64_t R)
{
    mf_tensor *offset = part(g, in, first, c->constants);
    mf_tensor *mine = rows_of(g, in, first, c->constants, R);
    mf_tensor *v = mf_grouped_linear(g, mine, mf->use(ctx, g, "constant"), offset, NULL);
    if (c->plain_constants) return v;
    mf_tensor *share = mf_grouped_linear(g, in->x, mf->use(ctx, g, "share"), offset, NULL);
    share = mf_mul(g, mf_softmax(g, share), mine);
    return mf_add(g, mf_mul(g, in->x, mf_slice(g, share, 1, 0, 1)),
                  mf_mul(g, v, mf_slice(g, share, 1, 1, 1)));
}

static int forward(void *self_, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const conf *c = ((const expert *)self_)->c;
    const int64_t R = mf->shape(in->x).dim[0], after = in->experts - c->zeros - c->copies,
                  full = after - c->constants;
    mf_tensor *y = feed_forward(c, ctx, g, in, full);
    if (c->constants > 0) y = mf_add(g, y, constants(c, ctx, g, in, full, R));
    if (c->copies > 0) y = mf_add(g, y, mf_mul(g, in->x, rows_of(g, in, after, c->copies, R)));
    *ret_y = y;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, hidden, "0", 0, 1048576, 0, "hidden width h; 0 means 4 x dim"),
    MF_OPTION_ENUM(conf, form, "swiglu", forms, "feed-forward layer"),
    MF_OPTION_INT(conf, constants, "0", 0, 4096, 0, "number of constant experts"),
    MF_OPTION_BOOL(conf, plain_constants, "no", 0, "constants are v, without c"),
    MF_OPTION_INT(conf, copies, "0", 0, 4096, 0, "number of experts that give their input"),
    MF_OPTION_INT(conf, zeros, "0", 0, 4096, 0, "number of experts that give 0"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_expert vtable = {sizeof(mf_expert), 0, init, NULL, forward, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "mixed", "1.0", "MIT",
                                  "feed-forward, constant, copy and zero experts (MoE++)",
                                  options, conf, expert, &vtable);
