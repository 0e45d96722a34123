/* gate_penalty: sum of the gates of attention heads (Adaptive Transformer with Sentinel Gates,
 * section 4.1).
 *
 *     loss = sum over layers l and active heads h of sigmoid(logit_lh)
 *
 * With form = raw of the adapter head_gates the gates themselves are added, limited to 0 .. 1.
 * The published code uses the weight 1e-4. Pruned heads do not count. If the heads of the model
 * have no gates, the penalty is 0. */
#include <moefw/moefw.h>
#include <stdio.h>

typedef struct {
    int32_t layers;
    bool raw;
} regularizer;

static int init(void *self, mf_ctx *ctx, const void *conf, const mf_dims *dims)
{
    (void)ctx;
    (void)conf;
    ((regularizer *)self)->layers = dims->n_layers;
    ((regularizer *)self)->raw = dims->raw_gates != 0;
    return MF_OK;
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    mf_tensor *total = NULL;
    (void)routing;
    (void)n;
    for (int32_t l = 0; l < ((regularizer *)self)->layers; l++) {
        char gate[64], active[64];
        snprintf(gate, sizeof gate, "/layers.%d.attention.gate", (int)l);
        snprintf(active, sizeof active, "/layers.%d.attention.active", (int)l);
        if (!mf->find(ctx, gate, 0)) continue;
        mf_tensor *kept = mf->use(ctx, g, gate);
        mf_tensor *value =
            ((regularizer *)self)->raw ? mf_clamp(g, kept, 0, 1) : mf_sigmoid(g, kept);
        mf_tensor *sum = mf_sum(g, mf_mul(g, value, mf->use(ctx, g, active)), MF_ALL, false);
        total = total ? mf_add(g, total, sum) : sum;
    }
    if (!total && mf->status(g) == MF_OK) {
        const float zero = 0;
        if (mf->training(g))
            mf->log(ctx, 1,
                    "heads have no gates here, the penalty is 0: an adapter head_gates "
                    "gives them");
        total = mf->constant(g, MF_F32, mf_shape0(), &zero);
    }
    *ret_loss = total;
    return mf->status(g);
}

static const mf_option options[] = {MF_END_OPTIONS};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_ANY_MODEL,
                                      .init = init,
                                      .loss = loss};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "gate_penalty", "1.0", "MIT",
                   "sum of the gates of attention heads", options, char, regularizer, &vtable);
