/* The losses of a harness: losses of routers, the loss of a regularizer under check, and losses
 * of tokens for plugins that read them. */
#include "lab/harness.h"
#include "ops/ops.h"

bool mf_harness_reads_losses(const mf_loaded *p)
{
    if (p->kind == MF_CONTROLLER)
        return (p->table.controller.flags & MF_CONTROLLER_TOKEN_LOSS) != 0;
    return p->kind == MF_REGULARIZER &&
           (p->table.regularizer.flags & MF_REGULARIZER_TOKEN_LOSS) != 0;
}

/* The losses of tokens. There is no task, so they are mean squares of the output, and 0
 * for padding. */
static mf_tensor *token_losses(mf_harness *harness, mf_tensor *y, mf_tensor **ret_counts)
{
    mf_graph *g = harness->g;
    const mf_shape tokens = mf_shape1((int64_t)harness->spec.batch * harness->spec.seq);
    mf_tensor *loss = mf_mean(g, mf_square(g, mf_stop_gradient(g, y)), 2u, false);
    mf_tensor *counts = harness->in.mask;
    if (!counts) counts = mf_affine(g, loss, 0, 1);
    *ret_counts = mf_reshape(g, counts, tokens);
    return mf_mul(g, mf_reshape(g, loss, tokens), *ret_counts);
}

mf_tensor *mf_harness_add_losses(mf_harness *harness, mf_tensor *y, mf_tensor *total)
{
    const mf_loaded *p = harness->spec.plugin;
    const mf_routing *records[MF_HARNESS_LAYERS];
    mf_tensor *counts = NULL, *losses = NULL;
    if (mf_harness_reads_losses(p)) losses = token_losses(harness, y, &counts);
    for (int32_t l = 0; l < harness->spec.layers; l++) {
        const mf_routing *r = records[l] = &harness->out[l].routing;
        for (int32_t i = 0; i < r->n_losses; i++) {
            mf_graph_keep(r->loss[i]);
            total = mf_add(harness->g, total, mf_reshape(harness->g, r->loss[i], mf_shape0()));
        }
        if (losses && p->kind == MF_CONTROLLER && harness->spec.training)
            mf_moe_losses_count(harness->host, harness->g, r, losses, counts);
    }
    if (!harness->regularizer) return total;
    const mf_regularizer_in in = {.size = sizeof in,
                                  .n = harness->spec.layers,
                                  .routing = records,
                                  .batch = harness->spec.batch,
                                  .seq = harness->spec.seq,
                                  .token_loss = losses,
                                  .targets = harness->in.token_ids,
                                  .mask = harness->in.mask,
                                  .token_ids = harness->in.token_ids,
                                  .positions = harness->in.positions,
                                  .sequence_ids = harness->in.sequence_ids};
    if (mf_instance_loss(harness->regularizer, harness->g, &in, &harness->penalty) != MF_OK)
        return NULL;
    mf_graph_keep(harness->penalty);
    return mf_add(harness->g, total, mf_reshape(harness->g, harness->penalty, mf_shape0()));
}
