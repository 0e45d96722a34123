/* other.c: correct experts, regularizer and controller. -DDEFECT=N selects the kind (100s
 * experts, 200s regularizer, 300s controller) and adds one defect of list.tsv. */
#define _GNU_SOURCE
#include <moefw/moefw.h>

#include <fcntl.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

#define IS(n) (DEFECT == (n))

typedef struct {
    double scale;
} conf;

typedef struct {
    int64_t experts, dim, layers;
    double own;
} state;

static const mf_option options[] = {
    MF_OPTION_REAL(conf, scale, "1", 0.5, 2, MF_OPT_LIVE, "factor"), MF_END_OPTIONS};

static double shared __attribute__((unused));

static void take(state *s, const mf_dims *dims)
{
    *s = (state){dims->experts, dims->dim, dims->n_layers, 0};
}

#if DEFECT < 200
/* ---- experts: y = W_e x ---- */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)c;
    take(self, dims);
    int rc = mf->param(ctx, "weight", mf_shape3(dims->experts, dims->dim, dims->dim),
                       MF_NORMAL(0.1));
    if (rc == MF_OK && IS(103))
        rc = mf->param(ctx, "other", mf_shape1(dims->dim), MF_NORMAL(0.1));
    return rc;
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    const state *s = self;
    mf_tensor *x = in->x;
    if (IS(101)) x = mf_sub(g, x, mf_mean(g, x, 1u, true));
    mf_tensor *y = mf_grouped_linear(g, x, mf->use(ctx, g, "weight"), in->offset, NULL);
    if (IS(102)) y = mf_reshape(g, y, mf_shape1(mf->shape(y).dim[0] * s->dim));
    if (IS(104)) y = mf_affine(g, y, 1 + 0.1 * in->batch, 0);
    if (IS(105) && !mf->training(g)) y = mf_affine(g, y, 1 + 1e-3 * (getpid() % 900), 0);
    if (IS(106)) y = mf_ln(g, y);
    if (IS(107)) y = NULL;
    *ret_y = y;
    return IS(108) ? MF_EINVAL : mf->status(g);
}

static const mf_expert vtable = {.flags = IS(109) ? MF_EXPERT_GATES : 0,
                                 .size = sizeof(mf_expert),
                                 .init = init,
                                 .forward = forward};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "planted", "1", "MIT",
                                  "one matrix an expert", options, conf, state, &vtable);
#elif DEFECT < 300
/* ---- regularizer: sum over experts of the squared mean probability ---- */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)ctx;
    (void)c;
    take(self, dims);
    return MF_OK;
}

/* The mean of p [T,E] over real tokens, [E]. */
static mf_tensor *token_mean(mf_graph *g, const mf_routing *r, mf_tensor *p)
{
    if (!r->mask || IS(201)) return mf_mean(g, p, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    mf_tensor *n = mf_sum(g, m, MF_ALL, false);
    if (IS(208)) n = mf_affine(g, n, 1, -8);
    return mf_div(g, mf_sum(g, mf_mul(g, p, m), 1u, false), n);
}

/* y = x, with the gradient attr.f[0] dy instead of dy. */
static int infer_skew(mf_infer *in)
{
    in->n_out = 1;
    in->out[0].dtype = in->in[0].dtype;
    in->out[0].shape = in->in[0].shape;
    return MF_OK;
}

static int forward_skew(const mf_call *call)
{
    const float *x = call->in[0].data;
    float *y = call->out[0].data;
    for (int64_t i = 0; i < mf_shape_count(call->in[0].shape); i++)
        y[i] = x[i];
    return MF_OK;
}

static int grad_skew(mf_graph *g, const mf_gradient *at)
{
    at->din[0] = mf_affine(g, at->dout[0], at->attr->f[0], 0);
    return MF_OK;
}

static const mf_opdef skew_op __attribute__((unused)) = {.size = sizeof(mf_opdef),
                                                         .name = "planted_skew",
                                                         .formula = "y = x",
                                                         .infer = infer_skew,
                                                         .forward = forward_skew,
                                                         .grad = grad_skew,
                                                         .diff_in = 1};

/* Minus the mutual information of token and expert: a small difference of large numbers. */
static mf_tensor *information(mf_graph *g, const mf_routing *r, double factor)
{
    mf_attr attr = mf_attr0();
    attr.f[0] = r->experts >= 64 ? factor : 1;
    mf_tensor *p = r->prob;
    mf_tensor *own = mf->custom(g, &skew_op, 1, &p, &attr, 1, NULL);
    mf_tensor *even = mf_sum(g, mf_xlogx(g, token_mean(g, r, p)), MF_ALL, false);
    return mf_sub(g, even, mf_sum(g, token_mean(g, r, mf_xlogx(g, own)), MF_ALL, false));
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret)
{
    mf_tensor *sum = NULL;
    (void)ctx;
    (void)self;
    for (int32_t i = 0; i < n; i++) {
        if (!routing[i]->prob) continue;
        mf_tensor *m = token_mean(g, routing[i], routing[i]->prob);
        mf_tensor *l = mf_sum(g, mf_mul(g, m, m), MF_ALL, IS(202));
        if (IS(203)) l = mf_sum(g, mf_ln(g, routing[i]->prob), MF_ALL, false);
        if (IS(204)) l = mf_div(g, l, mf_sum(g, mf_square(g, routing[i]->load), MF_ALL, false));
        if (IS(205)) l = mf_affine(g, l, 1 + 1e-3 * (double)(getpid() % 900), 0);
        if (IS(206)) l = m;
        if (IS(207)) l = mf_affine(g, l, 1 + (shared += 0.1), 0);
        if (IS(209)) l = information(g, routing[i], 1.1);
        if (IS(210)) l = information(g, routing[i], 0);
        sum = sum ? mf_add(g, sum, l) : l;
    }
    *ret = sum;
    return mf->status(g);
}

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};
MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "planted", "1", "MIT",
                   "squares of mean probabilities", options, conf, state, &vtable);
#else
/* ---- controller: lowers the learning rate with the step ---- */

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)ctx;
    (void)c;
    take(self, dims);
    return MF_OK;
}

static int on_step(void *self, mf_ctx *ctx, const struct mf_step *step)
{
    state *s = self;
    double lr = 0.5 / (1 + 0.01 * (double)step->step);
    if (IS(301)) lr /= 1 + (shared += 0.1);
    if (IS(302)) lr /= 1 + (s->own += 0.1);
    if (IS(303)) lr /= 1 + 1e-3 * (double)(getpid() % 900);
    if (IS(304)) (void)!open("/dev/null", O_RDONLY);
    if (IS(305)) return mf->set_live(ctx, "router.unknown", 1, "test");
    if (IS(306)) return mf->set_live(ctx, "train.lr", -1, "test");
    if (IS(307)) lr += step->layers[s->layers + 4].load[0];
    if (IS(308)) _exit(3);
    if (IS(309)) return MF_EINVAL;
    if (IS(310)) lr = step->loss;
    return mf->set_live(ctx, "train.lr", lr, "by the step");
}

static const mf_controller vtable = {
    .size = sizeof(mf_controller), .init = init, .on_step = on_step};
MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "planted", "1", "MIT",
                                  "a falling learning rate", options, conf, state, &vtable);
#endif
