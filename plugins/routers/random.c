/* random: draws k experts at random for each token.
 *
 *     gate = 1 / k,   P = 1 / E for every expert
 *
 * In a comparison it is the lower bound: the quality that experts reach without routing.
 * Nothing is learned; loads are even on average. draw = step draws in each step, so no expert
 * can learn anything that the other experts do not. draw = position chooses experts by the
 * token's position in its sequence, the weakest fixed rule: experts can specialise in
 * positions, and in nothing else. A token's gates always sum to 1, so moe.renormalize has no
 * effect. No parameters. */
#include <moefw/moefw.h>

enum { STEP, POSITION };
static const char *const draws[] = {"step", "position", NULL};

typedef struct {
    int64_t draw;
} conf;

typedef struct {
    const conf *c;
    int64_t experts, seq;
} router;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    router *self = self_;
    self->c = conf_;
    self->experts = dims->experts;
    self->seq = dims->seq;
    if (self->c->draw != POSITION) return MF_OK;
    /* The scores per position are a buffer, so they are drawn from the seed and saved. */
    return mf->buffer(ctx, "scores", mf_shape2(self->seq, self->experts),
                      mf_init_of(MF_INIT_UNIFORM, 1, 0));
}

static int route(void *self_, mf_ctx *ctx, mf_graph *g, const mf_router_in *in, mf_routing *out)
{
    const router *self = self_;
    const int64_t T = (int64_t)in->batch * in->seq;
    /* Core selects the k largest scores; with uniform numbers this is a fair draw of
     * k experts. */
    if (self->c->draw == POSITION)
        out->score = mf_gather_rows(g, mf->use(ctx, g, "scores"), in->positions);
    else
        out->score = mf_uniform(g, mf_shape2(T, self->experts));
    out->prob = mf_affine(g, out->score, 0, 1.0 / (double)self->experts);
    out->renormalize = 1;
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, draw, "step", draws, "anew in each step, or fixed by position"),
    MF_END_OPTIONS,
};

static const mf_router vtable = {sizeof(mf_router), 0, init, NULL, route, NULL};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ROUTER, mf_router, "random", "1.0", "MIT",
                   "experts drawn at random: the lower bound", options, conf, router, &vtable);
