/* Changes of routing in a conversation. The generator builds graphs with the inputs of probes
 * while there is a change, and only then. */
#include "cli/talk/steer.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "lab/probe/probe_parts.h"

static int start(mf_steer *s, const mf_talker *t)
{
    if (s->arena) return MF_OK;
    s->model = t->session->model;
    if (s->model->n_moe == 0) return mf_fail(MF_EUSAGE, "this model has no experts");
    s->arena = mf_arena_new();
    if (s->arena) s->base = mf_arena_alloc(s->arena, (size_t)s->model->n_moe * sizeof *s->base);
    if (!s->base) return MF_ENOMEM;
    for (int32_t i = 0; i < s->model->n_moe; i++)
        s->base[i].sd = 1; /* a bias is in units of the score */
    return MF_OK;
}

static int fill(void *arg, mf_model_graph *mg)
{
    const mf_steer *s = arg;
    int rc = mf_probe_clear(s->model, mg);
    for (int i = 0; rc == MF_OK && i < s->list.n; i++)
        rc = mf_probe_apply(s->model, mg, &s->list.change[i], s->base);
    return rc;
}

/* Tells the generator that the changes are others. */
static int changed(mf_steer *s, const mf_talker *t)
{
    return mf_generator_steer(t->generator, s->list.n > 0 ? fill : NULL, s);
}

static int judge(mf_steer *s, mf_talker *t)
{
    const mf_model_shape shape = {
        .mode = MF_MODE_GENERATE, .batch = 1, .seq = 1, .probe = true};
    mf_model_graph *mg = NULL;
    int rc = mf_model_graph_new(t->session->model, &shape, &mg);
    if (rc == MF_OK) rc = mf_probe_judge_all(s->model, mg, &s->list, s->base);
    mf_model_graph_free(mg);
    return rc;
}

/* Adds d to the score of one expert, LAYER.EXPERT. */
static int add_bias(mf_steer *s, const char *word, double d)
{
    const int at = s->list.n;
    const int rc = mf_probe_remove(s->model, s->arena, MF_PROBE_NEXT, word, &s->list);
    if (rc != MF_OK) return rc;
    mf_probe_change *c = &s->list.change[at];
    c->kind = MF_PROBE_BIAS;
    c->d = d;
    c->name = mf_arena_strf(s->arena, "%s %+g", word, d);
    return c->name ? MF_OK : MF_ENOMEM;
}

int mf_steer_add(mf_steer *s, mf_talker *t, const char *how, const char *word, double d)
{
    const int before = s->list.n;
    int rc = start(s, t);
    if (rc == MF_OK && (strcmp(word, "all") == 0 || strchr(word, ',')))
        rc = mf_fail(MF_EUSAGE, "expected one change, such as 0.3, found '%s'", word);
    if (rc != MF_OK) return rc;
    if (strcmp(how, "bias") == 0)
        rc = add_bias(s, word, d);
    else if (strcmp(how, "exchange") == 0)
        rc = mf_probe_exchange(s->model, s->arena, word, &s->list);
    else if (strcmp(how, "force") == 0)
        rc = mf_probe_force(s->model, s->arena, word, &s->list);
    else
        rc = mf_probe_remove(s->model, s->arena,
                             strcmp(how, "drop") == 0 ? MF_PROBE_DROP : MF_PROBE_NEXT, word,
                             &s->list);
    if (rc == MF_OK) rc = judge(s, t);
    if (rc == MF_OK) {
        mf_probe_change *c = &s->list.change[before];
        c->name = mf_arena_strf(s->arena, "%s %s", how, c->name);
        if (!c->name) rc = MF_ENOMEM;
    }
    if (rc == MF_OK) return changed(s, t);
    s->list.n = before;
    return rc;
}

int mf_steer_undo(mf_steer *s, mf_talker *t, const char **ret_name)
{
    *ret_name = NULL;
    if (s->list.n == 0) return MF_OK;
    *ret_name = s->list.change[--s->list.n].name;
    return changed(s, t);
}

void mf_steer_print(const mf_steer *s)
{
    for (int i = 0; i < s->list.n; i++)
        puts(s->list.change[i].name);
    if (s->list.n == 0) puts("no change");
}

/* -ln of the probability of `id`, by logits. */
static double loss_of(const float *logit, int32_t n, int32_t id)
{
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < n; i++)
        most = fmax(most, (double)logit[i]);
    for (int32_t i = 0; i < n; i++)
        sum += exp((double)logit[i] - most);
    return log(sum) + most - (double)logit[id];
}

/* Feeds the text token by token to a generator of its own: the model may be one that only
 * generators read. */
static int measure(mf_steer *s, const mf_talker *t, bool with, const int32_t *ids, int64_t n,
                   double *ret)
{
    mf_generator *g = NULL;
    const float *logits;
    int rc = mf_generator_new(t->session->model, true, &g);
    if (rc == MF_OK && with) rc = mf_generator_steer(g, fill, s);
    *ret = 0;
    for (int64_t i = 0; rc == MF_OK && i + 1 < n; i++) {
        rc = mf_generator_feed(g, ids + i, 1, &logits);
        if (rc == MF_OK && !logits) rc = MF_ENOMEM;
        if (rc == MF_OK)
            *ret += loss_of(logits, s->model->dims.vocab, ids[i + 1]) / (double)(n - 1);
    }
    mf_generator_free(g);
    return rc;
}

int mf_steer_measure(mf_steer *s, const mf_talker *t, double *ret_with, double *ret_without,
                     int64_t *ret_tokens)
{
    int64_t n;
    int rc = start(s, t);
    if (rc != MF_OK) return rc;
    const int64_t room = s->model->config->model.seq;
    const int32_t *ids = mf_generator_cached(t->generator, &n);
    if (n > room) ids += n - room;
    if (n > room) n = room;
    if (n < 2) return mf_fail(MF_EUSAGE, "there is no text yet whose loss could be measured");
    *ret_tokens = n - 1;
    rc = measure(s, t, true, ids, n, ret_with);
    return rc == MF_OK ? measure(s, t, false, ids, n, ret_without) : rc;
}

void mf_steer_free(mf_steer *s)
{
    mf_arena_free(s->arena);
    *s = (mf_steer){0};
}
