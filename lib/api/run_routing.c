/* api/run_routing.c: reports how the layers route tokens of the caller.
 *
 * The tokens run through a separate graph, as one sequence and as in evaluation, that is,
 * without dropout or noise. If experts choose tokens, the record lists the token of each
 * assignment. This file then sorts the assignments by token, so that the result has the same
 * form as for other routers. */
#include "api/run_internal.h"

#include <string.h>
#include "base/error.h"
#include "base/mem.h"

typedef struct table {
    mf_arena *arena;
    int32_t *chosen, *admitted; /* [T][k] */
    float *gate;
    int32_t *used; /* [T] number of entries of each token */
    int32_t k;
} table;

/* The record's values on the host; token, gate and prob may be NULL. */
typedef struct record {
    const int32_t *chosen, *admitted, *token;
    const float *gate, *prob;
} record;

static record view(const mf_moe_out *out)
{
    const mf_routing *r = &out->routing;
    record v = {.chosen = mf_tensor_host(r->chosen),
                .admitted = out->limited ? mf_tensor_host(r->admitted) : NULL,
                .token = r->token ? mf_tensor_host(r->token) : NULL,
                .gate = out->gate ? mf_tensor_host(out->gate) : NULL,
                .prob = r->prob ? mf_tensor_host(r->prob) : NULL};
    if (!v.admitted) v.admitted = v.chosen;
    return v;
}

static int32_t token_of(const mf_routing *r, const record *v, int32_t row)
{
    return v->token ? v->token[row] : row / (r->rows / r->tokens);
}

/* The largest number of experts that a token has, at least 1. used [T] is scratch memory. It
 * holds zeros before and after the call. */
static int32_t widest(const mf_routing *r, const record *v, int32_t *used)
{
    int32_t most = 1;
    if (!v->token) return r->rows / r->tokens;
    for (int32_t i = 0; i < r->rows; i++) {
        const int32_t t = v->token[i];
        if (v->chosen[i] < 0 || t < 0 || t >= r->tokens) continue;
        if (++used[t] > most) most = used[t];
    }
    memset(used, 0, (size_t)r->tokens * sizeof *used);
    return most;
}

static int lay_out(const mf_routing *r, const record *v, table *t)
{
    const size_t tokens = (size_t)r->tokens;
    t->used = mf_arena_alloc(t->arena, tokens * sizeof *t->used);
    if (!t->used) return MF_ENOMEM;
    t->k = widest(r, v, t->used);
    const size_t n = tokens * (size_t)t->k;
    t->chosen = mf_arena_alloc(t->arena, n * sizeof *t->chosen);
    t->admitted = mf_arena_alloc(t->arena, n * sizeof *t->admitted);
    t->gate = mf_arena_alloc(t->arena, n * sizeof *t->gate);
    if (!t->chosen || !t->admitted || !t->gate) return MF_ENOMEM;
    for (size_t i = 0; i < n; i++)
        t->chosen[i] = t->admitted[i] = -1;
    for (int32_t i = 0; i < r->rows; i++) {
        const int32_t token = token_of(r, v, i);
        if (token < 0 || token >= r->tokens || (v->token && v->chosen[i] < 0)) continue;
        const int32_t at = token * t->k + t->used[token]++;
        t->chosen[at] = v->chosen[i];
        t->admitted[at] = v->admitted[i];
        t->gate[at] = v->chosen[i] < 0 ? 0.0f : v->gate ? v->gate[i] : 1.0f;
    }
    return MF_OK;
}

static int show(const mf_moe_out *out, moefw_routing_fn layer, void *arg, bool *ret_end)
{
    const mf_routing *r = &out->routing;
    const record v = view(out);
    table t = {.arena = mf_arena_new()};
    int rc = t.arena ? lay_out(r, &v, &t) : MF_ENOMEM;
    if (rc == MF_OK) {
        const moefw_routing shown = {.size = sizeof shown,
                                     .layer = r->layer,
                                     .tokens = r->tokens,
                                     .experts = r->experts,
                                     .top_k = t.k,
                                     .chosen = t.chosen,
                                     .admitted = t.admitted,
                                     .gate = t.gate,
                                     .prob = v.prob};
        *ret_end = layer(arg, &shown) != 0;
    }
    mf_arena_free(t.arena);
    return rc;
}

static int run_tokens(moefw_run *run, const int32_t *tokens, size_t n, mf_model_graph **ret)
{
    mf_model *m = run->session->model;
    const mf_model_shape shape = {.mode = MF_MODE_GENERATE,
                                  .batch = 1,
                                  .seq = (int32_t)n,
                                  .want_prob = true,
                                  .want_trace = true};
    const mf_run plain = {.forward_only = true};
    mf_batch *b = NULL;
    int rc = mf_model_graph_new(m, &shape, ret);
    if (rc == MF_OK) rc = mf_batch_new(1, (int32_t)n, &b);
    if (rc == MF_OK) {
        /* The graph does not read targets, so the tokens are passed as targets, too. */
        const moefw_batch from = {sizeof from, 1, (int32_t)n, tokens, tokens, NULL};
        int32_t *last = (*ret)->last ? mf_tensor_input((*ret)->last) : NULL;
        mf_run_copy_batch(b, &from);
        mf_batch_feed(b, *ret);
        if (last) *last = (int32_t)n - 1;
        rc = mf_graph_run((*ret)->g, &plain);
    }
    mf_batch_free(b);
    return rc;
}

static int routing(moefw_run *run, const int32_t *tokens, size_t n, moefw_routing_fn layer,
                   void *arg)
{
    mf_model_graph *mg = NULL;
    bool end = false;
    int rc =
        mf_run_expect(run, "routing", MF_RUN_IS(MF_RUN_TRAINING) | MF_RUN_IS(MF_RUN_READING));
    if (rc == MF_OK && run->generate_only)
        rc = mf_fail(MF_EUSAGE, "routing: the run was opened to generate only");
    if (rc != MF_OK) return rc;
    const int64_t most = run->session->config->model.seq;
    if (!tokens || n < 1 || n > (size_t)most)
        return mf_fail(MF_EINVAL, "routing: expected 1 to %lld tokens, found %zu",
                       (long long)most, n);
    rc = mf_run_judge_tokens(run, tokens, n);
    if (rc == MF_OK) rc = run_tokens(run, tokens, n, &mg);
    for (int32_t i = 0; rc == MF_OK && !end && i < run->session->model->n_moe; i++)
        rc = show(&mg->moe[i], layer, arg, &end);
    mf_model_graph_free(mg);
    return rc;
}

int moefw_run_routing(moefw_run *run, const int32_t *tokens, size_t n, moefw_routing_fn layer,
                      void *arg)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope,
                        layer ? routing(run, tokens, n, layer, arg)
                              : mf_run_null("routing", "a function"));
}
