/* run/head_measure.c: measures attention heads. Each head is masked in turn, which shows how
 * much the loss grows without this head. Backward passes compute the norms of the gradients
 * of heads. */
#include "run/head_measure.h"
#include "base/error.h"
#include "base/mem.h"
#include "run/evaluate.h"
#include "train/length_buckets.h"

static int loss_of(mf_model_graph *mg, const mf_run *run, double *ret)
{
    const int rc = mf_graph_run(mg->g, run);
    const float *loss = mf_tensor_host(mg->task_loss);
    *ret = rc == MF_OK && loss ? (double)*loss : 0;
    return rc;
}

int mf_heads_try(mf_model_graph *probe, const mf_run *run, const mf_head_record *active,
                 double weight, double *sum)
{
    const int64_t n = (int64_t)active->layers * active->heads;
    float *mask = mf_tensor_input(probe->head_mask);
    double whole, without;
    for (int64_t i = 0; i < n; i++)
        mask[i] = 1;
    int rc = loss_of(probe, run, &whole);
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        if (active->stats[i / active->heads].active[i % active->heads] == 0) continue;
        mask[i] = 0;
        rc = loss_of(probe, run, &without);
        mask[i] = 1;
        sum[i] += weight * (without - whole);
    }
    return rc;
}

void mf_heads_importance(mf_head_record *r, const double *sum)
{
    float largest = 0;
    for (int64_t i = 0; i < (int64_t)r->layers * r->heads; i++)
        if (sum[i] > (double)largest) largest = (float)sum[i];
    for (int32_t l = 0; l < r->layers; l++) {
        float *out = mf_head_record_importance(r, l);
        for (int32_t h = 0; h < r->heads; h++) {
            const double worse = sum[(int64_t)l * r->heads + h];
            out[h] = worse > 0 && largest > 0 ? (float)worse / largest : 0;
        }
        r->stats[l].importance = out;
    }
}

/* ---- over a split ---- */

typedef struct measure {
    mf_session *session;
    mf_batcher *batcher;
    mf_length_buckets *probe, *training;
    mf_head_record *record;
    /* [layers, heads] sums over batches: increase of the loss times number of targets; norm of
     * the gradients */
    double *worse, *norm;
    float *one; /* [heads] */
} measure;

static int open_buckets(mf_session *s, mf_mode mode, const mf_batch_spec *spec,
                        mf_length_buckets **ret)
{
    const mf_model_shape shape = {.mode = mode,
                                  .batch = spec->rows,
                                  .seq = spec->seq,
                                  .masked = true,
                                  .try_heads = mode == MF_MODE_EVAL};
    return mf_length_buckets_new(s->model, &shape, !mf_session_by_length(s), ret);
}

static int open_all(measure *m, mf_split split)
{
    const size_t n = (size_t)m->record->layers * (size_t)m->record->heads;
    mf_batch_spec spec;
    mf_session_eval_spec(m->session, split, &spec);
    m->worse = mf_alloc(n, sizeof *m->worse);
    m->norm = mf_alloc(n, sizeof *m->norm);
    m->one = mf_alloc((size_t)m->record->heads, sizeof *m->one);
    if (!m->worse || !m->norm || !m->one) return MF_ENOMEM;
    int rc = mf_batcher_new(m->session->corpus, &spec, &m->batcher);
    if (rc == MF_OK) rc = open_buckets(m->session, MF_MODE_EVAL, &spec, &m->probe);
    return rc == MF_OK ? open_buckets(m->session, MF_MODE_TRAIN, &spec, &m->training) : rc;
}

static void add_norms(const measure *m)
{
    const mf_head_record *r = m->record;
    for (int32_t l = 0; l < r->layers; l++) {
        mf_head_gradients(m->session->model, l, 1, m->one);
        for (int32_t h = 0; h < r->heads; h++)
            m->norm[(int64_t)l * r->heads + h] += (double)m->one[h];
    }
}

static int add_batch(measure *m, int64_t at, const mf_run *run, int64_t *ret_targets)
{
    const mf_batch *batch;
    mf_model_graph *mg;
    mf_run probe = *run, back;
    probe.step = mf_evaluation_draws(run->step, at);
    back = probe;
    back.forward_only = false;
    int rc = mf_length_buckets_take(m->probe, mf_batcher_source(m->batcher), at, &batch, &mg);
    *ret_targets = rc == MF_OK ? batch->n_targets : 0;
    if (rc != MF_OK || *ret_targets == 0) return rc;
    rc = mf_heads_try(mg, &probe, m->record, (double)*ret_targets, m->worse);
    if (rc == MF_OK)
        rc =
            mf_length_buckets_take(m->training, mf_batcher_source(m->batcher), at, &batch, &mg);
    if (rc == MF_OK) rc = mf_graph_run(mg->g, &back);
    if (rc == MF_OK) add_norms(m);
    return rc;
}

static void keep(const measure *m, int64_t used)
{
    mf_head_record *r = m->record;
    mf_heads_importance(r, m->worse);
    for (int32_t l = 0; l < r->layers; l++) {
        float *norm = mf_head_record_gradients(r, l);
        for (int32_t h = 0; h < r->heads; h++)
            norm[h] = (float)(m->norm[(int64_t)l * r->heads + h] / (double)(used ? used : 1));
        r->stats[l].grad_norm = norm;
    }
}

int mf_heads_measure(mf_session *s, mf_split split, int64_t batches, int64_t step,
                     mf_head_record *r)
{
    measure m = {.session = s, .record = r};
    const mf_run run = {
        .seed = (uint64_t)s->config->train.seed, .step = (uint64_t)step, .forward_only = true};
    int64_t used = 0, targets;
    int rc = open_all(&m, split);
    const int64_t all = rc == MF_OK ? mf_batcher_count(m.batcher) : 0;
    for (int64_t b = 0; rc == MF_OK && b < (batches > 0 && batches < all ? batches : all);
         b++) {
        rc = add_batch(&m, b, &run, &targets);
        used += targets > 0;
    }
    if (rc == MF_OK) keep(&m, used);
    mf_length_buckets_free(m.training);
    mf_length_buckets_free(m.probe);
    mf_batcher_free(m.batcher);
    mf_free(m.worse);
    mf_free(m.norm);
    mf_free(m.one);
    return rc;
}
