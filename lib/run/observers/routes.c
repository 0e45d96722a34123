/* run/observers/routes.c: how far the given routes (train.routes = trace) are those that the
 * router would choose now, in the log at each step of the metrics log. Training stops at once
 * if nearly no token has a record: the trace is then of other texts. */
#include "run/observers/observers.h"

#include <math.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"

/* Numbers of a micro-batch. The last three are sums over layers. */
enum { TOKENS, RECORDED, COMPARED, EQUAL, OVERLAP, NUMBERS };

static const double least = .05; /* share of tokens with a record */

typedef struct routes {
    mf_routes *from;
    double sum[NUMBERS], all[NUMBERS]; /* of the step, and of the run */
    bool judged;
} routes;

static int before_step(void *self, mf_trainer *t, mf_step_result *r)
{
    routes *o = self;
    (void)t;
    (void)r;
    for (int i = 0; i < NUMBERS; i++)
        o->sum[i] = 0;
    return MF_OK;
}

static int64_t numbers(void *self, const mf_trainer *t, const mf_step_result *r)
{
    (void)self;
    (void)t;
    (void)r;
    return NUMBERS;
}

/* Compares the given experts of each token with those that the router would choose. */
static void compare(const mf_moe_out *m, double *out)
{
    const int32_t *wished = mf_tensor_host(m->wished);
    const float *given = mf_tensor_input(m->given);
    const int32_t experts = m->routing.experts, k = m->routing.top_k;
    for (int32_t t = 0; wished && given && t < m->routing.tokens; t++, given += experts) {
        int n = 0, open = 0;
        if (wished[(int64_t)t * k] < 0) continue; /* padding */
        for (int32_t e = 0; e < experts; e++)
            open += !isinf(given[e]);
        if (open > k) continue; /* no record */
        for (int32_t i = 0; i < k; i++)
            n += !isinf(given[wished[(int64_t)t * k + i]]);
        out[COMPARED]++;
        out[EQUAL] += n == k;
        out[OVERLAP] += (double)n / k;
    }
}

static int measure(void *self, mf_trainer *t, mf_step_result *r, double *out)
{
    routes *o = self;
    const mf_model *m = mf_training_session(t)->model;
    for (int i = 0; i < NUMBERS; i++)
        out[i] = 0;
    out[TOKENS] = (double)r->batch->n_tokens;
    out[RECORDED] = (double)mf_routes_recorded(o->from);
    for (int32_t i = 0; (r->wanted & MF_WANT_ROUTING) && i < m->n_moe; i++)
        compare(&r->graph->moe[i], out);
    return mf_routes_status(o->from);
}

static int fold(void *self, mf_trainer *t, mf_step_result *r, const double *in)
{
    routes *o = self;
    (void)t;
    (void)r;
    for (int i = 0; i < NUMBERS; i++)
        o->sum[i] += in[i];
    return MF_OK;
}

static void tell(const char *what, const double *sum)
{
    if (sum[COMPARED] > 0)
        mf_log(MF_LOG_INFO,
               "%s: %.4f of tokens as the router would choose (overlap %.4f), %.4f without a "
               "record",
               what, sum[EQUAL] / sum[COMPARED], sum[OVERLAP] / sum[COMPARED],
               1 - sum[RECORDED] / sum[TOKENS]);
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    routes *o = self;
    (void)t;
    const double share = o->sum[TOKENS] > 0 ? o->sum[RECORDED] / o->sum[TOKENS] : 0;
    for (int i = 0; i < NUMBERS; i++)
        o->all[i] += o->sum[i];
    if (r->wanted & MF_WANT_ROUTING) tell("routes", o->sum);
    if (o->judged) return MF_OK;
    o->judged = true;
    if (share < least)
        return mf_fail(
            MF_EINPUT,
            "train.routes_from: %.2f %% of the tokens of the first step have a record; "
            "expected the sequences that are trained, from their first token, with "
            "the ids of this run's tokenizer",
            100 * share);
    return MF_OK;
}

static int end(void *self, mf_trainer *t)
{
    const routes *o = self;
    (void)t;
    tell("routes of all logged steps", o->all);
    return MF_OK;
}

static void free_routes(void *self)
{
    mf_free(self);
}

int mf_observe_routes(mf_trainer *t, mf_routes *from)
{
    static const mf_observer ops = {.name = "routes",
                                    .before_step = before_step,
                                    .numbers = numbers,
                                    .measure = measure,
                                    .fold = fold,
                                    .after_step = after_step,
                                    .end = end,
                                    .free = free_routes};
    if (!from) return MF_OK;
    routes *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    o->from = from;
    return mf_trainer_observe(t, &ops, o);
}
