/* soft: soft routing (Puigcerver et al. 2023, Soft MoE, eq. 1 and 2).
 *
 *     logits = scale (x / |x|) (Phi / |Phi|)^T    [T, E p]
 *     dispatch = softmax over the tokens of a sequence, combine = softmax over the slots */
#include <moefw/moefw.h>

typedef struct {
    int64_t slots;
} conf;

typedef struct {
    const conf *c;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((router *)self_)->c = conf_;
    int rc =
        mf->param(ctx, "phi", mf_shape2(dims->experts * c->slots, dims->dim), MF_NORMAL(1));
    return rc == MF_OK ? mf->param(ctx, "scale", mf_shape1(1), MF_CONST(1)) : rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const conf *c = ((router *)self_)->c;
    const int64_t B = in->batch, n = in->seq, S = in->experts * c->slots, T = B * n;
    mf_tensor *phi = mf_l2_normalize(g, mf->use(ctx, g, "phi"), 1e-6);
    mf_tensor *logits = mf_linear(g, mf_l2_normalize(g, in->x, 1e-6), phi, NULL);
    logits = mf_mul(g, logits, mf->use(ctx, g, "scale"));
    /* softmax works on rows, so the tokens of a sequence become a row: [B,S,n]. Padding is
     * given the weight 0. */
    mf_tensor *by_slot = mf_transpose(g, mf_reshape(g, logits, mf_shape3(B, n, S)), 0, 2, 1, 3);
    if (in->mask) {
        mf_tensor *hidden = mf_affine(g, in->mask, 1e9, -1e9);
        by_slot = mf_add(g, by_slot, mf_reshape(g, hidden, mf_shape3(B, 1, n)));
    }
    mf_tensor *dispatch = mf_transpose(g, mf_softmax(g, by_slot), 0, 2, 1, 3);
    out->dispatch = mf_reshape(g, dispatch, mf_shape2(T, S));
    out->combine = mf_softmax(g, logits);
    if (in->mask) {
        mf_tensor *real = mf_reshape(g, in->mask, mf_shape2(T, 1));
        out->dispatch = mf_mul(g, out->dispatch, real);
        out->combine = mf_mul(g, out->combine, real);
    }
    out->slots = (int32_t)c->slots;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, slots, "1", 1, 4096, 0, "slots of each expert"), MF_END_OPTIONS};

static const mf_router vtable = {
    .size = sizeof(mf_router), .flags = MF_ROUTER_NOT_CAUSAL, .init = init, .route = route};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "soft", "1.0", "MIT", "soft routing",
                                  options, conf, router, &vtable);
