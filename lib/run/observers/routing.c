/* run/observers/routing.c: measures routing in a step. If routing is requested in the step,
 * tallies sum over its micro-batches, for each MoE layer. If layers share a router, a further
 * tally sums over all of these layers. Dropped and reassigned assignments are counted in every
 * step, because the metrics log sums them between records. */
#include "base/mem.h"
#include "run/observers/observers.h"

typedef struct routing {
    int32_t n, experts;
    mf_moe_tally **tallies; /* [n] */
    mf_moe_tally *shared;   /* sums over all MoE layers; NULL: each has its own router */
    mf_moe_tally **one;     /* [n] tally of each layer in one micro-batch */
    mf_layer_stats *stats;  /* [n + 1] statistics of each layer; the last element is that
                             * of `shared` */
    /* [n + 1][MF_MOE_SHARES][experts] memory to which stats point; experts: the most of
     * a layer */
    float *shares;
} routing;

static int before_step(void *self, mf_trainer *t, mf_step_result *r)
{
    routing *o = self;
    (void)t;
    for (int32_t i = 0; (r->wanted & MF_WANT_ROUTING) && i < o->n; i++)
        mf_moe_tally_reset(o->tallies[i]);
    if ((r->wanted & MF_WANT_ROUTING) && o->shared) mf_moe_tally_reset(o->shared);
    return MF_OK;
}

/* Number of values: for each layer the dropped and the reassigned assignments, and the tally if
 * routing is requested. */
static int64_t numbers(void *self, const mf_trainer *t, const mf_step_result *r)
{
    const routing *o = self;
    (void)t;
    int64_t n = 2 * o->n;
    for (int32_t i = 0; (r->wanted & MF_WANT_ROUTING) && i < o->n; i++)
        n += mf_moe_tally_numbers(o->one[i]);
    return n;
}

static int measure(void *self, mf_trainer *t, mf_step_result *r, double *out)
{
    routing *o = self;
    (void)t;
    for (int32_t i = 0; i < o->n; i++) {
        mf_moe_overflow(&r->graph->moe[i], &out[0], &out[1]);
        out += 2;
        if (!(r->wanted & MF_WANT_ROUTING)) continue;
        mf_moe_tally_reset(o->one[i]);
        mf_moe_tally_add(o->one[i], &r->graph->moe[i]);
        mf_moe_tally_put(o->one[i], out);
        out += mf_moe_tally_numbers(o->one[i]);
        o->tallies[i]->top_k = o->one[i]->top_k;
        if (o->shared) o->shared->top_k = o->one[i]->top_k;
    }
    return MF_OK;
}

static int fold(void *self, mf_trainer *t, mf_step_result *r, const double *in)
{
    routing *o = self;
    (void)t;
    for (int32_t i = 0; i < o->n; i++) {
        r->dropped += in[0];
        r->reassigned += in[1];
        in += 2;
        if (!(r->wanted & MF_WANT_ROUTING)) continue;
        mf_moe_tally_take(o->tallies[i], o->one[i]->labels, in);
        if (o->shared) mf_moe_tally_take(o->shared, o->one[i]->labels, in);
        in += mf_moe_tally_numbers(o->one[i]);
    }
    return MF_OK;
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    routing *o = self;
    (void)t;
    for (int32_t i = 0; (r->wanted & MF_WANT_ROUTING) && i < o->n; i++)
        mf_moe_tally_stats(o->tallies[i], o->shares + (int64_t)i * MF_MOE_SHARES * o->experts,
                           &o->stats[i]);
    if ((r->wanted & MF_WANT_ROUTING) && o->shared)
        mf_moe_tally_stats(o->shared, o->shares + (int64_t)o->n * MF_MOE_SHARES * o->experts,
                           &o->stats[o->n]);
    r->layers = o->stats;
    r->shared = o->shared ? &o->stats[o->n] : NULL;
    r->n_layers = o->n;
    return MF_OK;
}

static void free_routing(void *self)
{
    routing *o = self;
    for (int32_t i = 0; o->tallies && i < o->n; i++)
        mf_moe_tally_free(o->tallies[i]);
    for (int32_t i = 0; o->one && i < o->n; i++)
        mf_moe_tally_free(o->one[i]);
    mf_moe_tally_free(o->shared);
    mf_free(o->tallies);
    mf_free(o->one);
    mf_free(o->stats);
    mf_free(o->shares);
    mf_free(o);
}

static int allocate(routing *o, const mf_model *m)
{
    const size_t n = (size_t)m->n_moe + 1;
    o->n = m->n_moe;
    o->experts = mf_model_most_experts(m->config);
    o->tallies = mf_alloc(n, sizeof *o->tallies);
    o->one = mf_alloc(n, sizeof *o->one);
    o->stats = mf_alloc(n, sizeof *o->stats);
    o->shares = mf_alloc(n * MF_MOE_SHARES * (size_t)o->experts, sizeof *o->shares);
    int rc = o->tallies && o->one && o->stats && o->shares ? MF_OK : MF_ENOMEM;
    for (int32_t i = 0; rc == MF_OK && i < o->n; i++) {
        const mf_moe_layer *l = &m->moe[i];
        const int32_t experts = (int32_t)l->config.experts, k = (int32_t)l->config.top_k;
        rc = mf_moe_tally_new(l->layer, experts, k, m->dims.labels, &o->tallies[i]);
        if (rc == MF_OK) rc = mf_moe_tally_new(0, experts, k, m->dims.labels, &o->one[i]);
        if (rc == MF_OK && i == 0 && m->config->model.share_layers)
            rc = mf_moe_tally_new(l->layer, experts, k, 0, &o->shared);
    }
    return rc;
}

int mf_observe_routing(mf_trainer *t)
{
    static const mf_observer ops = {.name = "routing",
                                    .before_step = before_step,
                                    .numbers = numbers,
                                    .measure = measure,
                                    .fold = fold,
                                    .after_step = after_step,
                                    .free = free_routing};
    routing *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    const int rc = allocate(o, mf_training_session(t)->model);
    if (rc != MF_OK) {
        free_routing(o);
        return rc;
    }
    return mf_trainer_observe(t, &ops, o);
}
