/* two_level: chooses a group of experts, then an expert of the group (Jordan, Jacobs 1994,
 * Hierarchical Mixtures of Experts, eq. 2; Shazeer et al. 2017, appendix B).
 *
 *     P(e) = softmax(V x)_group(e)  softmax over the group of (W x)_e
 *
 * Groups consist of neighbouring experts and have the same size; groups = 0 uses the largest
 * divisor of E up to its root as the number of groups. With open = n > 0 experts are chosen
 * only from the n most probable groups, as in Shazeer et al., whose two levels are sparse; P
 * does not change. Shazeer et al. add noise to the logits; this router does not.
 * Parameters: (E + groups) d. */
#include <moefw/moefw.h>

typedef struct {
    int64_t groups, open;
    double init_std;
} conf;

typedef struct {
    const conf *c;
    int64_t groups, size;
} router;

/* Returns the largest divisor of E that is at most its square root. */
static int64_t near_root(int64_t experts)
{
    int64_t best = 1;
    for (int64_t r = 1; r * r <= experts; r++)
        if (experts % r == 0) best = r;
    return best;
}

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    const conf *c = self->c = conf_;
    self->groups = c->groups > 0 ? c->groups : near_root(dims->experts);
    self->size = dims->experts / self->groups;
    if (dims->experts % self->groups != 0)
        return mf->fail(ctx, MF_ECONFIG, "groups = %d does not divide the %d experts",
                        (int)self->groups, (int)dims->experts);
    if (c->open > self->groups || (c->open > 0 && c->open * self->size < dims->top_k))
        return mf->fail(ctx, MF_ECONFIG,
                        "open = %d of %d groups with %d experts each cannot give %d experts",
                        (int)c->open, (int)self->groups, (int)self->size, (int)dims->top_k);
    const mf_init start = MF_NORMAL(c->init_std);
    int rc = mf->param(ctx, "weight", mf_shape2(dims->experts, dims->dim), start);
    if (rc == MF_OK && self->groups > 1)
        rc = mf->param(ctx, "group", mf_shape2(self->groups, dims->dim), start);
    return rc;
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq, G = self->groups, n = self->size;
    mf_tensor *logits = mf_linear(g, in->x, mf->use(ctx, g, "weight"), NULL);
    if (G == 1) {
        out->logits = logits;
        return mf->status(g);
    }
    mf_tensor *group = mf_softmax(g, mf_linear(g, in->x, mf->use(ctx, g, "group"), NULL));
    mf_tensor *within = mf_softmax(g, mf_reshape(g, logits, mf_shape3(T, G, n)));
    mf_tensor *p = mf_mul(g, within, mf_reshape(g, group, mf_shape3(T, G, 1)));
    out->prob = mf_reshape(g, p, mf_shape2(T, in->experts));
    /* the experts of the other groups get a score below 0 */
    if (self->c->open > 0 && self->c->open < G) {
        mf_tensor *top = mf_topk(g, group, self->c->open), *still = mf_stop_gradient(g, group);
        mf_tensor *open = mf_put(g, mf_affine(g, mf_take(g, still, top), 0, 1), top, G);
        mf_tensor *score =
            mf_add(g, mf_stop_gradient(g, p),
                   mf_affine(g, mf_reshape(g, open, mf_shape3(T, G, 1)), 1e4, -1e4));
        out->score = mf_reshape(g, score, mf_shape2(T, in->experts));
    }
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_INT(conf, groups, "0", 0, 4096, 0, "number of groups; 0: near the root of E"),
    MF_OPTION_INT(conf, open, "0", 0, 4096, 0,
                  "most probable groups from which experts are chosen; 0: all"),
    MF_OPTION_REAL(conf, init_std, "0.02", 0, 10, 0, "standard deviation of the start weights"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_ROUTER, mf_router, "two_level", "1.0", "MIT",
                                  "a group of experts, and an expert of the group", options,
                                  conf, router, &vtable);
