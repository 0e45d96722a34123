/* base: balanced assignment in training (Lewis et al. 2021, BASE Layers).
 *
 *     s = x W^T [T,E];  training:   maximize sum_t s[t,e(t)], each expert with at most
 *                                   ceil(n / E) of the n real tokens (auction, Bertsekas 1992)
 *                       evaluation: e(t) = argmax_e s[t,e], which depends on token t only
 *     gate = sigmoid(s[t,e(t)])
 *
 * Each token has one expert, regardless of top_k. In the released code (fairseq, base_layer.py)
 * an expert has its own residual branch, and its output is mixed with its input:
 * a (x + f(x)) + (1 - a) x. This equals x + a f(x), the result of a gate in a block with a
 * residual branch. The released code distributes tokens randomly over devices, and each device
 * assigns its own tokens; here the tokens of a micro-batch are assigned together. Their number
 * need not be a multiple of E. The sum of the scores is smaller than the maximum by at most a
 * thousandth of the scores' range for each token. Ties and the order of bids depend on indices
 * only; scores that are not finite count as the lowest. P of the record is softmax(s).
 * Parameters: E d. */
#include <moefw/moefw.h>
#include <math.h>

enum { SCORES, MASK };

/* ---- the op: s [T,E], mask [T] or none -> e [T] i32, -1 for padding ---- */

/* Scratch memory of the auction. An expert has `room` entries of owner and bid. */
typedef struct {
    float *price, *bid; /* [E], [E room] */
    int32_t *n, *owner; /* [E], [E room] */
    int32_t *waiting;   /* [T] stack of the tokens that have no expert yet */
    int64_t experts, room;
} auction;

static int infer_assign(mf_infer *in)
{
    if (in->n_in < 1 || in->in[SCORES].dtype != MF_F32 || in->in[SCORES].shape.rank != 2)
        return in->fail(in, "expected s [T,E] of f32");
    const int64_t T = in->in[SCORES].shape.dim[0], E = in->in[SCORES].shape.dim[1];
    in->n_out = 1;
    in->out[0].dtype = MF_I32;
    in->out[0].shape = mf_shape1(T);
    in->work_bytes = sizeof(float) * (size_t)(2 * E + 2 * (T + E) + T);
    return MF_OK;
}

/* Returns the score of an expert minus its price; a score that is not a number counts as
 * the lowest. */
static float value(const auction *a, const float *s, int64_t e)
{
    return (s[e] > -1e30f ? s[e] < 1e30f ? s[e] : 1e30f : -1e30f) - a->price[e];
}

/* Returns the index of the lowest bid for an expert. */
static int64_t lowest(const auction *a, int64_t e)
{
    int64_t at = e * a->room;
    for (int64_t i = at + 1; i < e * a->room + a->n[e]; i++)
        if (a->bid[i] < a->bid[at]) at = i;
    return at;
}

/* Token t bids for the expert that has the largest value for it. The bid is the expert's price,
 * plus the difference to the second largest value, plus step. Returns the token that loses its
 * place at the expert; -1: none. */
static int32_t bid(auction *a, const float *s, int32_t t, float step)
{
    int64_t best = 0;
    float second = -INFINITY;
    for (int64_t e = 1; e < a->experts; e++) {
        const float v = value(a, s, e), top = value(a, s, best);
        if (v > top) {
            second = top;
            best = e;
        } else if (v > second) {
            second = v;
        }
    }
    const float more = value(a, s, best) - second;
    int64_t at = best * a->room + a->n[best];
    int32_t loser = -1;
    if (a->n[best] == a->room) {
        at = lowest(a, best);
        loser = a->owner[at];
    } else {
        a->n[best]++;
    }
    a->owner[at] = t;
    a->bid[at] = a->price[best] + (a->experts > 1 ? more : 0) + step;
    if (a->n[best] == a->room) a->price[best] = a->bid[lowest(a, best)];
    return loser;
}

static auction start(const mf_call *call, int64_t T, int64_t E, int64_t n)
{
    const int64_t places = T + E;
    auction a = {.experts = E, .room = (n + E - 1) / E};
    a.price = call->work;
    a.bid = a.price + E;
    a.n = (int32_t *)(void *)(a.bid + places);
    a.owner = a.n + E;
    a.waiting = a.owner + places;
    for (int64_t e = 0; e < E; e++)
        a.price[e] = 0, a.n[e] = 0;
    return a;
}

/* Returns a thousandth of the range of finite scores. The sum may be smaller than the maximum
 * by this number for each token. */
static float step_of(const float *s, int64_t n)
{
    float lo = INFINITY, hi = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(s[i])) continue;
        lo = s[i] < lo ? s[i] : lo;
        hi = s[i] > hi ? s[i] : hi;
    }
    return hi > lo && hi - lo < 1e6f ? 1e-3f * (hi - lo) : 1;
}

/* Assigns the tokens that are still waiting to any free entries. */
static void place_rest(auction *a, int64_t left)
{
    for (int64_t e = 0; e < a->experts && left > 0; e++)
        while (a->n[e] < a->room && left > 0)
            a->owner[e * a->room + a->n[e]++] = a->waiting[--left];
}

static int forward_assign(const mf_call *call)
{
    const float *s = call->in[SCORES].data;
    const float *mask = call->n_in > MASK ? call->in[MASK].data : NULL;
    const int64_t T = call->in[SCORES].shape.dim[0], E = call->in[SCORES].shape.dim[1];
    int32_t *expert = call->out[0].data;
    int64_t n = 0;
    for (int64_t t = 0; t < T; t++) {
        expert[t] = -1;
        n += !mask || mask[t] != 0;
    }
    if (n == 0) return MF_OK;
    auction a = start(call, T, E, n);
    int64_t left = 0;
    for (int64_t t = T - 1; t >= 0; t--) /* token 0 bids first */
        if (!mask || mask[t] != 0) a.waiting[left++] = (int32_t)t;
    const float step = step_of(s, T * E);
    for (int64_t bids = 0; left > 0 && bids < 200 * n; bids++) {
        const int32_t t = a.waiting[--left];
        const int32_t loser = bid(&a, s + t * E, t, step);
        if (loser >= 0) a.waiting[left++] = loser;
    }
    place_rest(&a, left);
    for (int64_t e = 0; e < E; e++)
        for (int32_t i = 0; i < a.n[e]; i++)
            expert[a.owner[e * a.room + i]] = (int32_t)e;
    return MF_OK;
}

static const mf_opdef op_assign = {.size = sizeof(mf_opdef),
                                   .flags = MF_OP_NO_GRAD,
                                   .name = "base_assign",
                                   .formula = "e = argmax of sum_t s[t,e(t)], balanced",
                                   .infer = infer_assign,
                                   .forward = forward_assign};

/* ---- the router ---- */

typedef struct {
    double init_std;
} conf;

static int init(void *self, mf_ctx *ctx, const void *c, const mf_dims *dims)
{
    (void)self;
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(((const conf *)c)->init_std));
}

static int route(void *self, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const int64_t T = (int64_t)in->batch * in->seq;
    (void)self;
    out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    out->prob = mf_softmax(g, out->logits); /* P is used by losses and statistics */
    mf_tensor *args[2] = {mf_stop_gradient(g, out->logits), in->mask}, *e;
    if (mf->training(g))
        e = mf->custom(g, &op_assign, in->mask ? 2 : 1, args, NULL, 1, NULL);
    else
        e = mf_reshape(g, mf_topk(g, args[0], 1), mf_shape1(T));
    out->expert = e;
    out->own_top_k = 1;
    mf_tensor *gate = mf_take(g, out->logits, mf_reshape(g, e, mf_shape2(T, 1)));
    out->gate = mf_reshape(g, mf_sigmoid(g, gate), mf_shape1(T));
    out->renormalize = 0;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    sizeof(mf_router), MF_ROUTER_TRAIN_BATCH, init, NULL, route, NULL};

/* Examples for `plugin check`: with and without padding, and with a number of tokens that is no
 * multiple of E. */
static const mf_op_example examples[] = {
    {.size = sizeof(mf_op_example), .n_in = 1, .op = &op_assign, .shape = {{2, 0, {37, 5}}}},
    {.size = sizeof(mf_op_example),
     .n_in = 2,
     .op = &op_assign,
     .shape = {{2, 0, {64, 8}}, {1, 0, {64}}},
     .lo = {0, 0},
     .hi = {0, 1}}};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT_OPS(MF_ROUTER, mf_router, "base", "1.0", "MIT",
                                      "balanced assignment in training by an auction (BASE)",
                                      options, conf, char, &vtable, examples, 2);
