/* model/moe_latent.c: the linear layers around routed experts of a latent width. MoE layers
 * that share experts share these linear layers, too. */
#include <math.h>
#include <stdio.h>
#include "model/moe.h"
#include "ops/gemm.h"
#include "ops/ops.h"

#define NORM_EPS 1e-5 /* epsilon of the norm of the latent rows */

/* Declares a parameter; layers that share weights get the same parameter. */
static int declare(mf_store *store, int from, const char *name, mf_shape shape, mf_init init,
                   mf_param **ret)
{
    char path[64];
    snprintf(path, sizeof path, "layers.%d.moe.%s", from, name);
    return mf_store_declare(store, path, shape, init, false, ret);
}

int mf_moe_latent_declare(mf_store *store, mf_moe_layer *layer, int from,
                          const mf_model_settings *c)
{
    const int64_t d = c->model.dim, l = layer->config.latent;
    const bool normal = c->model.init == MF_START_NORMAL;
    const double std = c->model.init_std, out = std / sqrt(2.0 * (double)c->model.layers);
    const mf_init uniform = {MF_INIT_KAIMING, 0, 1},
                  down = normal ? (mf_init){MF_INIT_NORMAL, 0, std} : uniform,
                  up = normal ? (mf_init){MF_INIT_NORMAL, 0, out} : uniform,
                  one = {MF_INIT_CONST, MF_PARAM_NO_DECAY, 1};
    int rc = declare(store, from, "down.weight", mf_shape2(l, d), down, &layer->down);
    if (rc == MF_OK && layer->config.latent_norm == MF_LATENT_RMS)
        rc = declare(store, from, "latent_norm", mf_shape1(l), one, &layer->latent_norm);
    return rc == MF_OK ? declare(store, from, "up.weight", mf_shape2(d, l), up, &layer->up)
                       : rc;
}

static mf_tensor *linear(const mf_moe_settings *s, mf_graph *g, const char *site, mf_param *w,
                         mf_tensor *x)
{
    mf_tensor *y = mf_linear(g, x, mf_graph_param(g, w), NULL);
    return s->env ? mf_adapt_linear(s->env, site, x, y) : y;
}

mf_tensor *mf_moe_down(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                       mf_tensor *x)
{
    mf_tensor *y = linear(s, g, "moe.down.weight", layer->down, x);
    if (!layer->latent_norm) return y;
    return mf_rmsnorm(g, y, mf_graph_param(g, layer->latent_norm), NORM_EPS, false);
}

mf_tensor *mf_moe_up(const mf_moe_layer *layer, const mf_moe_settings *s, mf_graph *g,
                     mf_tensor *y)
{
    return linear(s, g, "moe.up.weight", layer->up, y);
}
