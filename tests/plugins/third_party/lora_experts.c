/* lora_experts: all experts share one matrix; each adds a low-rank matrix of its own,
 * y = W x + B_e A_e x (Zadouri et al. 2023, Pushing Mixture of Experts to the Limit, eq. 3). */
#include <moefw/moefw.h>

typedef struct {
    int64_t rank;
} conf;

typedef struct {
    const conf *c;
} expert;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    const conf *c = ((expert *)self_)->c = conf_;
    int rc = mf->param(ctx, "shared", mf_shape2(dims->dim, dims->dim), MF_NORMAL(0.1));
    if (rc == MF_OK)
        rc = mf->param(ctx, "down", mf_shape3(dims->experts, c->rank, dims->dim),
                       MF_NORMAL(0.1));
    if (rc == MF_OK)
        rc = mf->param(ctx, "up", mf_shape3(dims->experts, dims->dim, c->rank), MF_ZEROS);
    return rc;
}

static int forward(void *self, mf_ctx *ctx, mf_graph *g, const mf_expert_in *in,
                   mf_tensor **ret_y)
{
    (void)self;
    mf_tensor *thin = mf_grouped_linear(g, in->x, mf->use(ctx, g, "down"), in->offset, NULL);
    mf_tensor *own = mf_grouped_linear(g, thin, mf->use(ctx, g, "up"), in->offset, NULL);
    *ret_y = mf_add(g, mf_linear(g, in->x, mf->use(ctx, g, "shared"), NULL), own);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, rank, "4", 1, 512, 0, "width of the thin matrices"), MF_END_OPTIONS};

static const mf_expert vtable = {.size = sizeof(mf_expert), .init = init, .forward = forward};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_EXPERT, mf_expert, "lora_experts", "1.0", "MIT",
                                  "one matrix, and a low-rank change per expert", options,
                                  conf, expert, &vtable);
