/* soft: experts compute weighted sums of a sequence's tokens (Puigcerver et al. 2023, Soft MoE,
 * eq. 1-2; google-research/vmoe, SoftRouter).
 *
 *     z = scale (x / |x|) (Phi / |Phi|)^T     [n,S] for a sequence of n tokens, S = slots E
 *     D = softmax of z over the tokens of the sequence,  input of slot s = sum_t D_ts x_t
 *     C = softmax of z over the slots,  output of token t = sum_s C_ts (output of slot s)
 *
 * Phi [S,d] and scale, which begins at 1, are learned. In training with noise > 0 a number
 * drawn from N(0, noise) is added to each z; this is an option of the vmoe code. The vmoe code
 * computes the number of slots from a capacity; here `slots` is the number of slots per expert.
 * The weights of padding are 0.
 *
 * A token's output depends on all tokens of its sequence, including later tokens. So a causal
 * decoder refuses this router unless moe.force_causal = yes. top_k and capacity have no effect.
 * Parameters: slots E d + 1. */
#include <moefw/moefw.h>

typedef struct {
    int64_t slots;
    double noise;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    if (c->slots > dims->seq)
        return mf->fail(ctx, MF_ECONFIG, "slots = %d: expected at most model.seq, %d",
                        (int)c->slots, (int)dims->seq);
    int rc =
        mf->param(ctx, "phi", mf_shape2(dims->experts * c->slots, dims->dim), MF_NORMAL(1));
    return rc == MF_OK ? mf->param(ctx, "scale", mf_shape1(1), MF_CONST(1)) : rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((const router *)self_)->c;
    const int64_t B = in->batch, n = in->seq, S = in->experts * c->slots, T = B * n;
    mf_tensor *phi = mf_l2_normalize(g, mf->use(ctx, g, "phi"), 1e-6);
    mf_tensor *z = mf_linear(g, mf_l2_normalize(g, in->x, 1e-6), phi, NULL);
    z = mf_mul(g, z, mf->use(ctx, g, "scale"));
    if (mf->training(g) && c->noise > 0)
        z = mf_add(g, z, mf_scale(g, mf_gaussian(g, mf_shape2(T, S)), c->noise));
    /* softmax works on rows, so the tokens of a sequence are moved into a row: [B,S,n] */
    mf_tensor *by_slot = mf_transpose(g, mf_reshape(g, z, mf_shape3(B, n, S)), 0, 2, 1, 3);
    if (in->mask) {
        mf_tensor *hidden = mf_affine(g, in->mask, 1e9, -1e9);
        by_slot = mf_add(g, by_slot, mf_reshape(g, hidden, mf_shape3(B, 1, n)));
    }
    mf_tensor *dispatch = mf_transpose(g, mf_softmax(g, by_slot), 0, 2, 1, 3);
    out->dispatch = mf_reshape(g, dispatch, mf_shape2(T, S));
    out->combine = mf_softmax(g, z);
    if (in->mask) {
        mf_tensor *real = mf_reshape(g, in->mask, mf_shape2(T, 1));
        out->dispatch = mf_mul(g, out->dispatch, real);
        out->combine = mf_mul(g, out->combine, real);
    }
    out->slots = (int32_t)c->slots;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, slots, "1", 1, 4096, 0, "slots of each expert in each sequence"),
    MF_OPTION_REAL(conf, noise, "0", 0, 100, 0,
                   "standard deviation of what is added to the logits in training"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {
    sizeof(mf_router), MF_ROUTER_NOT_CAUSAL, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "soft", "1.0", "MIT",
                                  "experts get weighted sums of all tokens (Soft MoE)", options,
                                  conf, router, &vtable);
