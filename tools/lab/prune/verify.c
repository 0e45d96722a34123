/* Whether a smaller model chooses the experts that the whole model chooses when the others are
 * masked. A mean loss alone does not tell for a model that has learned little. */
#include "base/error.h"
#include "base/mem.h"
#include "lab/probe/probe_parts.h"
#include "lab/prune/prune_parts.h"
#include "run/evaluate.h"

/* The number that expert `e` of the smaller model has in the whole one. */
static int32_t old_number(const bool *kept, int32_t e)
{
    int32_t old = 0;
    for (; e > 0 || !kept[old]; old++)
        e -= kept[old];
    return old;
}

/* Counts assignments of the smaller model, and those among them that the whole one has. */
static int compare(const mf_model_graph *whole, const mf_model_graph *smaller, int32_t at,
                   const bool *kept, double *all, double *same)
{
    const mf_routing *a = &whole->moe[at].routing, *b = &smaller->moe[at].routing;
    const int32_t *old = mf_tensor_host(a->chosen), *new = mf_tensor_host(b->chosen);
    const int64_t k = a->rows / a->tokens;
    if (!old || !new) return MF_ENOMEM;
    for (int64_t r = 0; r < b->rows && b->rows == a->rows; r++) {
        bool found = false;
        if (new[r] < 0) continue;
        const int32_t e = old_number(kept, new[r]);
        for (int64_t j = r / k * k; j < (r / k + 1) * k; j++)
            found = found || old[j] == e;
        ++*all;
        *same += found;
    }
    return MF_OK;
}

int mf_prune_same_choices(mf_session *whole, mf_session *smaller, int64_t step,
                          const mf_probe_change *mask, bool *const *kept, double *ret)
{
    const mf_config *c = whole->config;
    mf_model_shape shape = {.mode = MF_MODE_EVAL,
                            .batch = (int32_t)c->train.batch,
                            .seq = (int32_t)c->model.seq,
                            .masked = true,
                            .probe = true};
    const mf_run run = {.seed = (uint64_t)c->train.seed,
                        .step = mf_evaluation_draws((uint64_t)step, 0),
                        .forward_only = true};
    mf_batch_spec spec;
    mf_batcher *batcher = NULL;
    mf_batch *b = NULL;
    mf_model_graph *a = NULL, *s = NULL;
    double all = 0, same = 0;
    mf_session_eval_spec(whole, MF_SPLIT_VAL, &spec);
    int rc = mf_batcher_new(whole->corpus, &spec, &batcher);
    if (rc == MF_OK) rc = mf_batch_new(shape.batch, shape.seq, &b);
    if (rc == MF_OK) rc = mf_model_graph_new(whole->model, &shape, &a);
    shape.probe = false;
    shape.want_prob = true;
    if (rc == MF_OK) rc = mf_model_graph_new(smaller->model, &shape, &s);
    if (rc == MF_OK) {
        mf_batcher_fill(batcher, 0, b);
        mf_batch_feed(b, a);
        mf_batch_feed(b, s);
        rc = mf_probe_clear(whole->model, a);
    }
    if (rc == MF_OK) rc = mf_probe_apply(whole->model, a, mask, NULL);
    if (rc == MF_OK) rc = mf_graph_run(a->g, &run);
    if (rc == MF_OK) rc = mf_graph_run(s->g, &run);
    for (int32_t i = 0; rc == MF_OK && i < whole->model->n_moe; i++)
        rc = compare(a, s, i, kept[i], &all, &same);
    *ret = all > 0 ? same / all : 0;
    mf_model_graph_free(a);
    mf_model_graph_free(s);
    mf_batch_free(b);
    mf_batcher_free(batcher);
    return rc;
}
