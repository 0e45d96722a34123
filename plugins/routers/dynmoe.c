/* dynmoe: each expert has a threshold, and a token is assigned to every expert whose similarity
 * exceeds the threshold (Guo et al. 2024, DynMoE; as in LINs-lab/DynMoE, gated_multi_gate_t.py
 * and losses.py).
 *
 *     s_e = sigmoid(t cos(x, w_e)),  d_e = max(0, s_e - sigmoid(t g_e)),  K = number of d_e > 0
 *     experts with d_e > 0, each with gate 1 / K
 *     gradient: as if sign(d_e) were d_e in sign(d_e) / sum_f sign(d_f)
 *
 * w [E,d] and the thresholds g [E], which begin at 0, are learned. t = exp(min(theta, ln 100));
 * theta begins at ln t and is learned unless learned_temperature = no (one of the two released
 * codes). In training a token with K = 0 has no expert and passes through the layer unchanged.
 * In evaluation it has the expert with the largest s, with gate 1. top_k has no effect on the
 * choice; a capacity uses it.
 *
 * diverse_weight > 0 adds the loss of that code, |n n^T - I| + mean_e |w_e|, where the rows of
 * n are the rows of w divided by their length, and |.| are Frobenius and Euclidean norms. The
 * paper adds and removes experts during training; here the number of experts is fixed, and
 * experts without tokens cost nothing. Parameters: E d + E + 1. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdlib.h>

typedef struct {
    int64_t learned_temperature;
    double temperature, diverse_weight, init_std;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    const mf_shape one = mf_shape1(1);
    int rc =
        mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), MF_NORMAL(c->init_std));
    if (rc == MF_OK) rc = mf->param(ctx, "threshold", mf_shape1(dims->experts), MF_ZEROS);
    if (rc == MF_OK && c->learned_temperature)
        rc = mf->param(ctx, "theta", one, MF_CONST(log(c->temperature)));
    return rc;
}

/* |n n^T - I| + mean |w_e| */
static mf_tensor *diverse(mf_ctx *ctx, mf_graph *g, mf_tensor *w)
{
    const int64_t E = mf->shape(w).dim[0];
    float *eye = calloc((size_t)(E * E), sizeof *eye);
    if (!eye) {
        mf->fail(ctx, MF_ENOMEM, "no memory for a matrix of %d experts", (int)E);
        return NULL;
    }
    for (int64_t e = 0; e < E; e++)
        eye[e * (E + 1)] = 1;
    mf_tensor *I = mf->constant(g, MF_F32, mf_shape2(E, E), eye);
    free(eye);
    mf_tensor *n = mf_l2_normalize(g, w, 1e-12);
    mf_tensor *away = mf_sub(g, mf_matmul(g, n, false, n, true, 1), I);
    away = mf_sqrt(g, mf_affine(g, mf_sum(g, mf_square(g, away), MF_ALL, false), 1, 1e-12));
    mf_tensor *length =
        mf_sqrt(g, mf_affine(g, mf_sum(g, mf_square(g, w), 2u, false), 1, 1e-12));
    return mf_add(g, away, mf_mean(g, length, MF_ALL, false));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    const float fixed = (float)c->temperature;
    const int32_t one = 1;
    mf_tensor *t = c->learned_temperature
                       ? mf_exp(g, mf_clamp(g, mf->use(ctx, g, "theta"), -1e30, log(100)))
                       : mf->constant(g, MF_F32, mf_shape1(1), &fixed);
    mf_tensor *w = mf->use(ctx, g, "weight");
    mf_tensor *cosine =
        mf_linear(g, mf_l2_normalize(g, in->x, 1e-12), mf_l2_normalize(g, w, 1e-12), NULL);
    out->logits = mf_mul(g, cosine, t);
    mf_tensor *s = mf_sigmoid(g, out->logits);
    mf_tensor *bar = mf_sigmoid(g, mf_mul(g, mf->use(ctx, g, "threshold"), t));
    mf_tensor *d = mf_relu(g, mf_sub(g, s, bar)), *still = mf_stop_gradient(g, d);
    mf_tensor *open = mf_sign(g, still); /* [T,E] 0 or 1 */
    /* the value is that of `open`, the gradient is that of d */
    mf_tensor *sign = mf_add(g, open, mf_sub(g, d, still));
    if (!mf->training(g)) {
        /* [T,1]: 1 for tokens with K = 0, else 0 */
        mf_tensor *none = mf_affine(g, mf_clamp(g, mf_sum(g, open, 2u, true), 0, 1), -1, 1);
        mf_tensor *best = mf_one_hot(g, mf_reshape(g, mf_topk(g, s, 1), mf_shape1(T)), E);
        best = mf_mul(g, best, none);
        open = mf_add(g, open, best);
        sign = mf_add(g, sign, best);
    }
    mf_tensor *gate = mf_div(g, sign, mf_clamp(g, mf_sum(g, sign, 2u, true), 1e-7, 1e30));
    /* (e + 1) open - 1: the expert, or -1 */
    mf_tensor *number = mf_affine(g, mf_cast(g, mf_arange(g, E), MF_F32), 1, 1);
    mf_tensor *expert = mf_cast(g, mf_mul(g, open, number), MF_I32);
    expert = mf_sub(g, expert, mf->constant(g, MF_I32, mf_shape1(1), &one));
    out->expert = mf_reshape(g, expert, mf_shape1(T * E));
    out->gate = mf_reshape(g, mf_mul(g, gate, open), mf_shape1(T * E));
    out->own_top_k = (int32_t)E;
    out->prob = mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20));
    if (c->diverse_weight > 0) {
        out->loss_name[0] = "diverse";
        out->loss[0] = mf_scale(g, diverse(ctx, g, w), c->diverse_weight);
        out->n_losses = 1;
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, temperature, "10", 0.01, 100, 0, "t, its start if it is learned"),
    MF_OPTION_BOOL(conf, learned_temperature, "yes", 0, "train t"),
    MF_OPTION_REAL(conf, diverse_weight, "0", 0, 100, 0,
                   "weight of the loss that keeps w apart and short"),
    MF_OPTION_REAL(conf, init_std, "0.02", 1e-6, 10, 0,
                   "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "dynmoe", "1.0", "MIT",
                                  "all experts above a threshold of their own (DynMoE)",
                                  options, conf, router, &vtable);
