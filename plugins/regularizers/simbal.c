/* simbal: makes the router's rows of different experts dissimilar.
 *
 *     form = offdiag    loss = sum over i != j of (W W^T)_ij^2      (Switch extension SimBal)
 *     form = identity   loss = sum over i, j of |W W^T - I|_ij       (Omi et al. 2025, SimBal)
 *     form = cosine     loss = sum over i, j of (N N^T - I)_ij^2     N: rows W_i / |W_i|
 *                       (ERNIE 4.5, Baidu 2025: orthogonal router)
 *
 * W [E,d] is the parameter named by `param` of each MoE layer's router; layers whose router has
 * no such matrix do not count. The loss is summed over layers. A router that layers share
 * (model.share_layers) counts once. */
#include <moefw/moefw.h>
#include <stdio.h>
#include <stdlib.h>

enum { OFFDIAG, IDENTITY, COSINE };
static const char *const forms[] = {"offdiag", "identity", "cosine", NULL};

typedef struct {
    int64_t form;
    const char *param;
} conf;

typedef struct {
    const conf *c;
} regularizer;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    (void)ctx;
    (void)dims;
    ((regularizer *)self)->c = conf_;
    return MF_OK;
}

#define MAX_EXPERTS 512

/* Returns W W^T with a zero diagonal, W W^T - I, or N N^T - I, as `form` says. */
static mf_tensor *residue(const conf *c, mf_ctx *ctx, mf_graph *g, mf_tensor *w)
{
    const int64_t E = mf->shape(w).dim[0];
    if (E > MAX_EXPERTS) {
        mf->fail(ctx, MF_ECONFIG, "at most %d experts, not %d", MAX_EXPERTS, (int)E);
        return NULL;
    }
    float *mask = malloc((size_t)(E * E) * sizeof *mask);
    if (!mask) {
        mf->fail(ctx, MF_ENOMEM, "no memory for a matrix of %d experts", (int)E);
        return NULL;
    }
    for (int64_t i = 0; i < E * E; i++)
        mask[i] = (i % (E + 1) == 0) == (c->form != OFFDIAG) ? 1.0f : 0.0f;
    mf_tensor *m = mf->constant(g, MF_F32, mf_shape2(E, E), mask);
    free(mask);
    if (c->form == COSINE) w = mf_l2_normalize(g, w, 1e-12);
    mf_tensor *similar = mf_matmul(g, w, false, w, true, 1);
    return c->form == OFFDIAG ? mf_mul(g, similar, m) : mf_sub(g, similar, m);
}

static int loss(void *self, mf_ctx *ctx, mf_graph *g, const mf_routing *const *routing,
                int32_t n, mf_tensor **ret_loss)
{
    const conf *c = ((regularizer *)self)->c;
    const float zero = 0;
    mf_tensor *total = NULL;
    for (int32_t i = 0; i < n; i++) {
        char name[128];
        snprintf(name, sizeof name, "layers.%d.router.%s", (int)routing[i]->layer, c->param);
        if (!mf->find(ctx, name, 0)) continue;
        snprintf(name, sizeof name, "/layers.%d.router.%s", (int)routing[i]->layer, c->param);
        mf_tensor *w = mf->use(ctx, g, name);
        if (!w || mf->shape(w).rank != 2) continue;
        mf_tensor *r = residue(c, ctx, g, w);
        r = c->form == IDENTITY ? mf_abs(g, r) : mf_square(g, r);
        r = mf_sum(g, r, MF_ALL, false);
        total = total ? mf_add(g, total, r) : r;
    }
    *ret_loss = total ? total : mf->constant(g, MF_F32, mf_shape0(), &zero);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(
        conf, form, "offdiag", forms,
        "squares off the diagonal, distance from I, or squared distance of cosines from I"),
    MF_OPTION_STR(conf, param, "weight", "name of the router's matrix [E,d]"),
    MF_END_OPTIONS,
};

static const mf_regularizer vtable = {.size = sizeof(mf_regularizer),
                                      .flags = MF_REGULARIZER_UNEQUAL,
                                      .init = init,
                                      .loss = loss};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_REGULARIZER, mf_regularizer, "simbal", "1.0", "MIT",
                                  "experts' router rows towards orthogonal", options, conf,
                                  regularizer, &vtable);
