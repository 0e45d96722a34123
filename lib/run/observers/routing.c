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
    mf_moe_tally *one;      /* tally of one layer in one micro-batch; NULL without layers */
    mf_layer_stats *stats;  /* [n + 1] statistics of each layer; the last element is that
                             * of `shared` */
    float *shares;          /* [n + 1][MF_MOE_SHARES][experts] memory to which stats point */
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
    if (o->n == 0) return 0;
    return o->n * (2 + (r->wanted & MF_WANT_ROUTING ? mf_moe_tally_numbers(o->one) : 0));
}

static int measure(void *self, mf_trainer *t, mf_step_result *r, double *out)
{
    routing *o = self;
    (void)t;
    for (int32_t i = 0; i < o->n; i++) {
        mf_moe_overflow(&r->graph->moe[i], &out[0], &out[1]);
        out += 2;
        if (!(r->wanted & MF_WANT_ROUTING)) continue;
        mf_moe_tally_reset(o->one);
        mf_moe_tally_add(o->one, &r->graph->moe[i]);
        mf_moe_tally_put(o->one, out);
        out += mf_moe_tally_numbers(o->one);
        o->tallies[i]->top_k = o->one->top_k;
        if (o->shared) o->shared->top_k = o->one->top_k;
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
        mf_moe_tally_take(o->tallies[i], o->one->labels, in);
        if (o->shared) mf_moe_tally_take(o->shared, o->one->labels, in);
        in += mf_moe_tally_numbers(o->one);
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
    mf_moe_tally_free(o->shared);
    mf_moe_tally_free(o->one);
    mf_free(o->tallies);
    mf_free(o->stats);
    mf_free(o->shares);
    mf_free(o);
}

static int allocate(routing *o, const mf_model *m)
{
    const size_t n = (size_t)m->n_moe + 1;
    o->n = m->n_moe;
    o->experts = (int32_t)m->config->moe.experts;
    o->tallies = mf_alloc(n, sizeof *o->tallies);
    o->stats = mf_alloc(n, sizeof *o->stats);
    o->shares = mf_alloc(n * MF_MOE_SHARES * (size_t)o->experts, sizeof *o->shares);
    int rc = o->tallies && o->stats && o->shares ? MF_OK : MF_ENOMEM;
    for (int32_t i = 0; rc == MF_OK && i < o->n; i++)
        rc = mf_moe_tally_new(m->moe[i].layer, o->experts, (int32_t)m->config->moe.top_k,
                              m->dims.labels, &o->tallies[i]);
    if (rc == MF_OK && o->n > 0)
        rc = mf_moe_tally_new(0, o->experts, (int32_t)m->config->moe.top_k, m->dims.labels,
                              &o->one);
    if (rc == MF_OK && m->config->model.share_layers && o->n > 0)
        rc = mf_moe_tally_new(m->moe[0].layer, o->experts, (int32_t)m->config->moe.top_k, 0,
                              &o->shared);
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
