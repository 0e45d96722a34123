/* Lets a router learn before it is measured: steps of Adam on the router's own losses, such as
 * those of self-supervised ones, and on a regularizer if one is named. The experts take no
 * part: without a task there is nothing that their output could be compared with. */
#include "lab/bench/router_bench_parts.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "ops/ops.h"
#include "plugin/load/open.h"
#include "train/optim/optim.h"

int mf_bench_seal(const mf_bench_layer *b)
{
    for (int i = 0; b->spec->learn > 0 && i < mf_store_count(b->store); i++) {
        mf_param *p = mf_store_at(b->store, i);
        p->frozen = p->frozen || strncmp(p->name, "layers.0.router.", 16) != 0;
    }
    return mf_store_seal(b->store, 1, b->spec->learn > 0);
}

static bool has_parameters(const mf_bench_layer *b)
{
    for (int i = 0; i < mf_store_count(b->store); i++) {
        const mf_param *p = mf_store_at(b->store, i);
        if (!p->frozen && !p->buffer) return true;
    }
    return false;
}

/* Adds a loss to the sum of those before it, which may be NULL. */
static mf_tensor *plus(mf_graph *g, mf_tensor *sum, mf_tensor *loss)
{
    mf_tensor *one = mf_reshape(g, loss, mf_shape0());
    return sum ? mf_add(g, sum, one) : one;
}

/* *ret_loss is NULL if the router has neither a loss of its own nor probabilities. */
static int losses(const mf_bench_layer *b, const mf_bench_graph *bg, mf_tensor **ret_loss)
{
    const mf_routing *r = &bg->out.routing;
    const char *on = b->spec->learn_on;
    mf_tensor *sum = NULL;
    const mf_loaded *plugin;
    bool found = false;
    int rc = on ? mf_plugin_load(MF_REGULARIZER, on, NULL, 0, &plugin) : MF_OK;
    for (int32_t i = 0; i < r->n_losses; i++)
        sum = plus(bg->g, sum, r->loss[i]);
    for (int i = 0; rc == MF_OK && on && i < b->n_regularizers; i++) {
        mf_tensor *loss;
        if (mf_instance_plugin(b->regularizers[i]) != plugin) continue;
        found = true;
        if (!r->prob) continue; /* it has nothing to learn from */
        rc = mf_bench_regularize(b, i, b->spec->batch, b->spec->seq, bg, &loss);
        if (rc == MF_OK) sum = plus(bg->g, sum, mf_scale(bg->g, loss, b->spec->alpha));
    }
    if (rc == MF_OK && on && !found)
        rc = mf_fail(MF_EUSAGE, "--learn-on=%s: expected a regularizer that needs no options",
                     on);
    *ret_loss = sum;
    return rc;
}

static int build(const mf_bench_layer *b, mf_bench_graph *bg, mf_tensor **ret_loss)
{
    const mf_graph_options options = {.training = true};
    const mf_moe_settings settings = {.config = &b->config, .keep = true};
    const mf_lab_layer sizes = mf_bench_sizes(b, NULL, b->spec->batch, b->spec->seq);
    *bg = (mf_bench_graph){.g = mf_graph_new(&options)};
    *ret_loss = NULL;
    if (!bg->g) return MF_ENOMEM;
    bg->in = mf_lab_inputs(&sizes, bg->g, false);
    int rc = mf_moe_choose(&b->layer, &settings, bg->g, &bg->in, &bg->out);
    if (rc == MF_OK) rc = losses(b, bg, ret_loss);
    if (rc == MF_OK) rc = mf_graph_status(bg->g);
    if (rc != MF_OK || !*ret_loss) return rc;
    mf_graph_keep(*ret_loss);
    rc = mf_graph_backward(bg->g, *ret_loss, 0, NULL);
    return rc == MF_OK ? mf_graph_finish(bg->g) : rc;
}

static int learn(const mf_bench_layer *b, const mf_bench_graph *bg, mf_tensor *loss,
                 mf_optim *o, uint64_t seed)
{
    int rc = MF_OK;
    for (int64_t i = 0; rc == MF_OK && i < b->spec->learn; i++) {
        const mf_run run = {.seed = seed, .step = (uint64_t)i};
        const mf_optim_step step = {.step = i, .lr = b->spec->learn_lr, .grad_scale = 1};
        /* other batches than those of the measurements, whose seeds are below 2^32 */
        mf_bench_fill(b, bg, seed + ((uint64_t)(i + 1) << 32));
        rc = mf_graph_run(bg->g, &run);
        const float *value = rc == MF_OK ? mf_tensor_host(loss) : NULL;
        if (rc == MF_OK && !value) rc = mf_error_code() ? mf_error_code() : MF_ENOMEM;
        if (rc == MF_OK && !isfinite(*value))
            rc = mf_fail(MF_ENONFINITE,
                         "its loss is %g in step %lld of %d; a smaller --learn-lr may help",
                         (double)*value, (long long)i + 1, (int)b->spec->learn);
        if (rc == MF_OK) rc = mf_optim_measure(o);
        if (rc == MF_OK) rc = mf_optim_update(o, &step);
    }
    return rc;
}

int mf_bench_learn(const mf_bench_layer *b, uint64_t seed)
{
    const mf_train_config c = {.optimizer = MF_OPTIMIZER_ADAM,
                               .lr = b->spec->learn_lr,
                               .beta1 = 0.9,
                               .beta2 = 0.999,
                               .eps = 1e-8};
    mf_bench_graph bg;
    mf_optim *o = NULL;
    mf_tensor *loss;
    if (!has_parameters(b)) return MF_OK;
    int rc = build(b, &bg, &loss);
    if (rc == MF_OK && loss) {
        rc = mf_store_zero(b->store, MF_BLOCK_MOMENT1);
        if (rc == MF_OK) rc = mf_store_zero(b->store, MF_BLOCK_MOMENT2);
        if (rc == MF_OK) rc = mf_optim_new(b->store, &c, &o);
        if (rc == MF_OK) rc = learn(b, &bg, loss, o, seed);
    }
    mf_optim_free(o);
    mf_graph_free(bg.g);
    return rc;
}
