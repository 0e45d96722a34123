/* prune: deactivates a share of all attention heads at one step, the heads with the lowest
 * scores first.
 *
 * Runs with different shares produce curves of quality and speed against the share of pruned
 * heads. Scores:
 *     by = gate, gradient, importance   lowest first (importance: see moefw-plugin(7))
 *     by = entropy                      highest first (the heads that attend to everything)
 *     by = magnitude                    norm of the head's rows of W_q and columns of W_o,
 *                                       lowest first
 *     by = random                       a random order, from the seed
 *     by = spread                       evenly over the layers, last heads first: for timings
 *
 * Each change sets the live option layers.N.attention.active.H. */
#include <moefw/moefw.h>
#include <math.h>
#include <stdio.h>

enum { GATE, ENTROPY, GRADIENT, IMPORTANCE, MAGNITUDE, RANDOM, SPREAD };
static const char *const measures[] = {"gate",      "entropy", "gradient", "importance",
                                       "magnitude", "random",  "spread",   NULL};

typedef struct {
    double share;
    int64_t at, by, keep, seed;
} conf;

typedef struct {
    const conf *c;
    bool warned;
    int32_t layers, heads, head_dim, dim;
} controller;

static int init(void *self_, mf_ctx *ctx, const void *conf_, const mf_dims *dims)
{
    controller *self = self_;
    self->c = conf_;
    self->layers = dims->n_layers;
    self->heads = dims->heads;
    self->dim = dims->dim;
    self->head_dim = dims->head_dim;
    /* The heads with the lowest scores are pruned first. */
    return mf->buffer(ctx, "score", mf_shape2(dims->n_layers, dims->heads), MF_ZEROS);
}

static double magnitude(const controller *s, mf_ctx *ctx, int32_t layer, int32_t head)
{
    char name[64];
    const int64_t hd = s->head_dim, d = s->dim;
    double sum = 0;
    snprintf(name, sizeof name, "/layers.%d.attention.qkv.weight", (int)layer);
    const float *w = mf->data(ctx, name, NULL);
    for (int64_t i = head * hd * d; w && i < (head + 1) * hd * d; i++)
        sum += (double)w[i] * (double)w[i];
    snprintf(name, sizeof name, "/layers.%d.attention.out.weight", (int)layer);
    w = mf->data(ctx, name, NULL);
    for (int64_t row = 0; w && row < d; row++)
        for (int64_t i = row * d + head * hd; i < row * d + (head + 1) * hd; i++)
            sum += (double)w[i] * (double)w[i];
    return sqrt(sum);
}

/* Returns a number of the mixing function of SplitMix (Steele, Lea, Flood 2014), scaled
 * to [0,1). */
static double drawn(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 40) / 16777216.0;
}

static double score(const controller *s, mf_ctx *ctx, const mf_head_stats *l, int32_t h)
{
    switch (s->c->by) {
    case GATE:
        return (double)l->gate[h];
    case ENTROPY:
        return l->entropy ? -(double)l->entropy[h] : 0;
    case GRADIENT:
        return l->grad_norm ? (double)l->grad_norm[h] : 0;
    case MAGNITUDE:
        return magnitude(s, ctx, l->layer, h);
    case RANDOM:
        return drawn((uint64_t)s->c->seed * 65536 + (uint64_t)(l->layer * s->heads + h));
    case SPREAD:
        return -(double)h * s->layers - l->layer;
    default:
        return 0;
    }
}

static const mf_head_stats *layer_of(const mf_step *step, int32_t l)
{
    return (const mf_head_stats *)(const void *)((const char *)step->heads +
                                                 (size_t)l * step->heads[0].size);
}

static int take(const controller *s, mf_ctx *ctx, int32_t i, double value)
{
    char name[64], why[96];
    snprintf(name, sizeof name, "layers.%d.attention.active.%d", (int)(i / s->heads),
             (int)(i % s->heads));
    snprintf(why, sizeof why, "among %.3g of all heads by %s: %.4g", s->c->share,
             measures[s->c->by], value);
    return mf->set_live(ctx, name, 0, why);
}

/* Warns once if no head of the model has a gate, because the controller can then
 * change nothing. */
static void warn(controller *self, mf_ctx *ctx)
{
    if (!self->warned)
        mf->log(ctx, 1,
                "heads have no gates here, there is nothing to do: an adapter head_gates "
                "gives them");
    self->warned = true;
}

static int on_step(void *self, mf_ctx *ctx, const mf_step *step)
{
    controller *s = self;
    if (step->step != s->c->at) return MF_OK;
    if (!step->heads || step->n_head_layers != s->layers) {
        warn(s, ctx);
        return MF_OK;
    }
    const int32_t n = s->layers * s->heads;
    float *list = mf->data(ctx, "score", NULL);
    if (!list) return mf->fail(ctx, MF_EPLUGIN, "its buffer is gone");
    int32_t left = (int32_t)(s->c->share * n + 0.5);
    for (int32_t i = 0; i < n; i++) {
        const mf_head_stats *l = layer_of(step, i / s->heads);
        list[i] = (float)score(s, ctx, l, i % s->heads);
        left -= l->active[i % s->heads] == 0;
    }
    if (s->c->by == IMPORTANCE && mf->head_importance(ctx, n, list) != n)
        return mf->fail(ctx, MF_EPLUGIN, "importance could not be measured");
    for (; left > 0; left--) {
        int32_t lowest = -1;
        for (int32_t i = 0; i < n; i++) {
            char name[64];
            snprintf(name, sizeof name, "/layers.%d.attention.active", (int)(i / s->heads));
            const float *active = mf->data(ctx, name, NULL);
            int64_t others = 0;
            for (int32_t h = 0; h < s->heads; h++)
                others += h != i % s->heads && active[h] != 0;
            if (active[i % s->heads] == 0 || others < s->c->keep) continue;
            if (lowest < 0 || list[i] < list[lowest]) lowest = i;
        }
        if (lowest < 0) return MF_OK;
        int rc = take(s, ctx, lowest, (double)list[lowest]);
        if (rc != MF_OK) return rc;
    }
    return MF_OK;
}

static const mf_option options[] = {
    MF_OPTION_REAL(conf, share, "0.3", 0, 1, 0, "of all heads that are to be pruned then"),
    MF_OPTION_INT(conf, at, "1", 1, 9e15, 0, "optimizer step"),
    MF_OPTION_ENUM(conf, by, "importance", measures, "what decides which heads go"),
    MF_OPTION_INT(conf, keep, "0", 0, 1024, 0, "heads that every layer keeps"),
    MF_OPTION_INT(conf, seed, "1", 0, 9e15, 0, "by = random"),
    MF_END_OPTIONS,
};

static const mf_controller vtable = {sizeof(mf_controller), 0, init, NULL, on_step};

MF_EXPORT_PLUGIN = MF_PLUGIN_INIT(MF_CONTROLLER, mf_controller, "prune", "1.0", "MIT",
                                  "takes a share of the attention heads out at one step",
                                  options, conf, controller, &vtable);
