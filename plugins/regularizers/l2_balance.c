/* l2_balance: squared distance of the mean gates from the even distribution (TAGAT, section 3,
 * listing 9).
 *
 *     u_e = mean over real tokens of the gate of e,   loss = sum_e (u_e - 1/E)^2
 *
 * With several layers, layers = joint averages u over the layers before the square, as printed;
 * layers = each computes one sum per layer and averages the sums. of = gate uses renormalised
 * gates of the k most probable experts, 0 for the others; of = prob uses all probabilities.
 * detach = yes keeps the value and removes the gradient: the released code computes the term
 * from plain numbers, so it has no effect on training there. pad = count includes padding, as
 * the released code does. */
#include <moefw/moefw.h>

enum { GATE, PROB };
static const char *const kinds[] = {"gate", "prob", NULL};
enum { JOINT, EACH };
static const char *const layer_kinds[] = {"joint", "each", NULL};
enum { SKIP, COUNT };
static const char *const pads[] = {"skip", "count", NULL};

typedef struct {
    int64_t of, layers, pad, detach;
} conf;

typedef struct {
    const conf *c;
} regularizer;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx;
    (void)dims;
    ((regularizer *)self)->c = conf_;
    return MF_OK;
}

static mf_tensor *mean_gate(const conf *c, mf_graph *g, const mf_routing *r)
{
    mf_tensor *v = r->prob;
    if (c->of == GATE) {
        mf_tensor *top = mf_topk(g, v, r->top_k < r->experts ? r->top_k : r->experts);
        mf_tensor *p = mf_take(g, v, top);
        p = mf_div(g, p, mf_affine(g, mf_sum(g, p, 2u, true), 1, 1e-20));
        v = mf_put(g, p, top, r->experts);
    }
    if (!r->mask || c->pad == COUNT) return mf_mean(g, v, 1u, false);
    mf_tensor *m = mf_reshape(g, r->mask, mf_shape2(r->tokens, 1));
    return mf_div(g, mf_sum(g, mf_mul(g, v, m), 1u, false),
                  mf_clamp(g, mf_sum(g, r->mask, MF_ALL, false), 1, 1e30));
}

static mf_tensor *distance(mf_graph *g, mf_tensor *u, double experts)
{
    return mf_sum(g, mf_square(g, mf_affine(g, u, 1, -1 / experts)), MF_ALL, false);
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    (void)ctx;
    const conf *c = ((regularizer *)self)->c;
    const float zero = 0;
    mf_tensor *total = NULL, *out;
    double used = 0, experts = 1;
    for (int32_t i = 0; i < n; i++) {
        if (!routing[i]->prob) continue;
        experts = routing[i]->experts;
        mf_tensor *u = mean_gate(c, g, routing[i]);
        if (c->layers == EACH) u = distance(g, u, experts);
        total = total ? mf_add(g, total, u) : u;
        used++;
    }
    if (used == 0)
        out = mf->constant(g, MF_F32, mf_shape0(), &zero);
    else
        out = mf_scale(g, total, 1 / used);
    if (used > 0 && c->layers == JOINT) out = distance(g, out, experts);
    *ret_loss = c->detach ? mf_stop_gradient(g, out) : out;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, of, "gate", kinds, "gates of the chosen, or all probabilities"),
    MF_OPTION_ENUM(conf, layers, "joint", layer_kinds,
                   "average layers before the square, or after"),
    MF_OPTION_ENUM(conf, pad, "skip", pads, "does padding count"),
    MF_OPTION_BOOL(conf, detach, "no", 0, "no gradient, as in the released code"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {
    .size = sizeof(mf_regularizer), .init = init, .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "l2_balance", "1.0", "MIT",
                                  "squared distance of the mean gates from even", options, conf,
                                  regularizer, &vtable);
