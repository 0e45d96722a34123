/* film: scale and shift of an expert's output, computed from the token (FiLM: Perez et al.
 * 2018, eq. 2; on experts: TAGAT).
 *
 *     [gamma - a, beta] = W c + b        W [2d,d], b [2d]
 *     y' = gamma * y + beta
 *
 * condition = input: c is the expert's input. condition = embedding: c is the input of the
 * first block at the token's position, which is the token's embedding. This condition comes
 * from outside of the layer, as in TAGAT's shared modulator (Listing 5).
 *
 * around = one: a = 1, so weights near zero change y little. around = zero: a = 0, as printed
 * in the paper, so gamma begins near 0. There is one W and b for each expert, or one for all
 * experts. Each W and b has (d + 1) 2d parameters. */
#include <moefw/moefw.h>
#include <math.h>

enum { PER_EXPERT, SHARED };
enum { ONE, ZERO };
enum { INPUT, EMBEDDING };
static const char *const modes[] = {"per_expert", "shared", NULL};
static const char *const arounds[] = {"one", "zero", NULL};
static const char *const conditions[] = {"input", "embedding", NULL};

typedef struct {
    int64_t mode, around, condition;
} conf;
typedef struct {
    conf conf;
} state;

static int init(void *self, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    state *s = self;
    s->conf = *(const conf *)conf_;
    const bool shared = s->conf.mode == SHARED;
    const int64_t d = MF_HAS(dims, mf_dims, expert_dim) ? dims->expert_dim : dims->dim,
                  E = dims->experts;
    const uint32_t split = shared ? 0u : MF_PARAM_BY_EXPERT;
    const mf_init weight = dims->normal_start
                               ? mf_init_of(MF_INIT_NORMAL, dims->start_std, split)
                               : mf_init_of(MF_INIT_KAIMING, 1, split);
    const mf_init bias = mf_init_of(dims->normal_start ? MF_INIT_ZERO : MF_INIT_UNIFORM,
                                    1 / sqrt((double)d), split | MF_PARAM_NO_DECAY);
    const int64_t from = s->conf.condition == EMBEDDING ? dims->dim : d;
    int rc = mf->param(ctx, "weight",
                       shared ? mf_shape2(2 * d, from) : mf_shape3(E, 2 * d, from), weight);
    if (rc == MF_OK)
        rc = mf->param(ctx, "bias", shared ? mf_shape1(2 * d) : mf_shape2(E, 2 * d), bias);
    if (rc == MF_OK && s->conf.condition == EMBEDDING) rc = mf->tap(ctx, 0, MF_AT_BLOCK_IN);
    return rc;
}

static int apply(void *self, mf_ctx *ctx, mf_graph *g, const mf_adapter_in *in,
                 mf_tensor **ret_y)
{
    const state *s = self;
    mf_tensor *w = mf->use(ctx, g, "weight"), *b = mf->use(ctx, g, "bias");
    mf_tensor *c =
        s->conf.condition == INPUT ? in->x : mf_gather_rows(g, in->tap[0], in->token);
    mf_tensor *both = s->conf.mode == SHARED ? mf_linear(g, c, w, b)
                                             : mf_grouped_linear(g, c, w, in->offset, b);
    const int64_t d = mf->shape(in->y).dim[1];
    mf_tensor *gamma = mf_affine(g, mf_slice(g, both, 1, 0, d), 1, s->conf.around == ONE),
              *beta = mf_slice(g, both, 1, d, d);
    *ret_y = mf_add(g, mf_mul(g, in->y, gamma), beta);
    return mf->status(g);
}

static const mf_option options[] = {
    MF_OPTION_ENUM(conf, mode, "per_expert", modes,
                   "weights of its own for each expert, or one for all"),
    MF_OPTION_ENUM(conf, condition, "input", conditions, "what scale and shift are made from"),
    MF_OPTION_ENUM(conf, around, "one", arounds,
                   "what is added to the scales that the weights make: 1, so that they begin "
                   "near it, or 0"),
    MF_END_OPTIONS,
};

static const mf_adapter vtable = {.size = sizeof(mf_adapter),
                                  .init = init,
                                  .apply = apply,
                                  .points = MF_POINT_BIT(MF_AT_EXPERT_OUT),
                                  .at = "expert_out"};

MF_EXPORT_PLUGIN =
    MF_PLUGIN_INIT(MF_ADAPTER, mf_adapter, "film", "1.0", "MIT",
                   "scale and shift of what experts put out, made from a condition", options,
                   conf, state, &vtable);
