/* seq_topk: k experts per token on the average of its sequence (Route Experts by Sequence, Not
 * by Token, 2025, arXiv 2511.06494; as in seqtopk_routing, proposed for Megatron-LM).
 *
 *     s = z | softmax(z) | sigmoid(z),  z = W x
 *     of the n real tokens of a sequence the n k pairs (token, expert) with the largest s are
 *     chosen, at most `most` of one token
 *     gate = softmax of z over the token's chosen experts | s | s / sum of the chosen s
 *
 * The three columns belong to score = logit, softmax and sigmoid. A token may have no expert,
 * and then passes through the layer unchanged. most = 0: up to E. Padding is never chosen, and
 * does not count in n. If several s are equal, the lower token is chosen first, then the
 * lower expert.
 *
 * The experts of a token depend on all tokens of its sequence, including later tokens. So a
 * causal decoder refuses this router unless moe.force_causal = yes. The paper's decoding, which
 * carries a budget from token to token, is not implemented. Work grows with n E; if n k is at
 * least 4096, it takes much longer. Parameters: E d. */
#include <moefw/moefw.h>

enum { LOGIT, SOFTMAX, SIGMOID };
static const char *const scores[] = {"logit", "softmax", "sigmoid", NULL};

typedef struct {
    int64_t score, most;
    double init_std;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    if (c->most > 0 && c->most < dims->top_k)
        return mf->fail(ctx, MF_ECONFIG, "most = %d is below the mean of %d experts a token",
                        (int)c->most, (int)dims->top_k);
    return mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim),
                     MF_NORMAL(c->init_std));
}

/* Returns s [T,E] with a very small number for pairs that may not be chosen: padding, and all
 * experts except the `most` best experts of a token. */
static mf_tensor *candidates(mf_graph *g, const mf_router_in *in, mf_tensor *s, int64_t most)
{
    const int64_t T = (int64_t)in->batch * in->seq, E = in->experts;
    mf_tensor *left = s;
    if (most < E) {
        mf_tensor *top = mf_topk(g, s, most);
        mf_tensor *keep = mf_put(g, mf_affine(g, mf_take(g, s, top), 0, 1), top, E);
        left = mf_add(g, mf_mul(g, s, keep), mf_affine(g, keep, 1e30, -1e30));
    }
    if (!in->mask) return left;
    mf_tensor *real = mf_reshape(g, in->mask, mf_shape2(T, 1));
    return mf_add(g, mf_mul(g, left, real), mf_affine(g, real, 1e30, -1e30));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t B = in->batch, n = in->seq, T = B * n, E = in->experts;
    const int64_t most = c->most > 0 && c->most < E ? c->most : E, picks = n * in->top_k;
    const int32_t by = in->experts, length = in->seq;
    mf_tensor *z = out->logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    mf_tensor *s = c->score == SIGMOID ? mf_sigmoid(g, z) : mf_softmax(g, z);
    out->prob =
        c->score == SIGMOID ? mf_div(g, s, mf_affine(g, mf_sum(g, s, 2u, true), 1, 1e-20)) : s;
    mf_tensor *order = mf_stop_gradient(g, c->score == LOGIT ? z : s);
    order = mf_reshape(g, candidates(g, in, order, most), mf_shape2(B, n * E));
    mf_tensor *pair = mf_topk(g, order, picks); /* [B,n k]: pair number E token + expert,
                                                 * best first */

    /* budget [B,n k]: 1 for the first k n pairs of the n real tokens, else 0 */
    mf_tensor *budget = mf_affine(g, mf_take(g, order, pair), 0, 1);
    if (in->mask) {
        mf_tensor *real = mf_sum(g, mf_reshape(g, in->mask, mf_shape2(B, n)), 2u, true);
        mf_tensor *rank =
            mf_reshape(g, mf_cast(g, mf_arange(g, picks), MF_F32), mf_shape2(1, picks));
        budget =
            mf_greater(g, mf_broadcast(g, mf_scale(g, real, in->top_k), mf_shape2(B, picks)),
                       mf_broadcast(g, rank, mf_shape2(B, picks)));
    }
    mf_tensor *chosen = mf_reshape(g, mf_put(g, budget, pair, n * E), mf_shape2(T, E));
    mf_tensor *gate = NULL;
    if (c->score == LOGIT) { /* softmax over the chosen experts; 0 if no expert is chosen */
        mf_tensor *high = mf_stop_gradient(g, mf_row_max(g, z));
        gate = mf_mul(g, mf_exp(g, mf_sub(g, z, high)), chosen);
    } else {
        gate = mf_mul(g, s, chosen);
    }
    if (c->score != SOFTMAX)
        gate = mf_div(g, gate, mf_clamp(g, mf_sum(g, gate, 2u, true), 1e-30, 1e30));
    gate = mf_take(g, mf_reshape(g, gate, mf_shape2(B, n * E)), pair);
    out->gate = mf_reshape(g, gate, mf_shape1(B * picks));

    /* the token of a pair in the batch, and its expert or -1 */
    mf_tensor *width = mf->constant(g, MF_I32, mf_shape1(1), &by),
              *stride = mf->constant(g, MF_I32, mf_shape1(1), &length);
    mf_tensor *token = mf_div(g, pair, width);
    mf_tensor *expert = mf_sub(g, pair, mf_mul(g, token, width));
    mf_tensor *taken = mf_cast(g, budget, MF_I32);
    const int32_t one = 1;
    mf_tensor *ones = mf->constant(g, MF_I32, mf_shape1(1), &one);
    expert = mf_sub(g, mf_mul(g, mf_add(g, expert, ones), taken), ones);
    mf_tensor *first = mf_mul(g, mf_reshape(g, mf_arange(g, B), mf_shape2(B, 1)), stride);
    out->token = mf_reshape(g, mf_add(g, token, first), mf_shape1(B * picks));
    out->expert = mf_reshape(g, expert, mf_shape1(B * picks));
    out->own_top_k = in->top_k;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, score, "logit", scores, "what is compared, and what the gates are"),
    MF_OPTION_INT(conf, most, "0", 0, 4096, 0, "most experts of one token; 0: all"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    sizeof(mf_router), MF_ROUTER_NOT_CAUSAL, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "seq_topk", "1.0", "MIT",
                                  "k experts a token on the average of a sequence (SeqTopK)",
                                  options, conf, router, &vtable);
