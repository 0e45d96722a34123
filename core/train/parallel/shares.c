/* train/parallel/shares.c: computes the weights of the micro-batches of a step. Batches are a
 * function of the step, so each rank counts the batches of the other ranks, too, and nothing
 * is exchanged. */
#include "train/parallel/shares.h"
#include "base/mem.h"

struct mf_shares {
    const mf_train_job *job;
    int64_t micro;
    int n;           /* number of shares of a micro-batch: one for each task, or one for the
                      * loss, and one for tokens */
    double *weights; /* [micro][n] */
    double *sums;    /* [n] */
};

/* Returns the number of positions that statistics of routing count. These are the tokens;
 * padding is counted only where the mask includes it. */
static double weight_of_tokens(const mf_batch *b, bool masked)
{
    double sum = 0;
    if (!masked) return (double)b->n_tokens;
    for (int64_t i = 0; i < (int64_t)b->rows * b->seq; i++)
        sum += (double)b->mask[i];
    return sum;
}

int mf_shares_new(const mf_train_job *job, mf_shares **ret)
{
    const int64_t micro = job->train->accumulate;
    const int tasks = mf_model_tasks(job->model);
    *ret = NULL;
    if (micro == 1) return MF_OK;
    mf_shares *s = mf_alloc(1, sizeof *s);
    if (!s) return MF_ENOMEM;
    s->job = job;
    s->micro = micro;
    s->n = (tasks > 0 ? tasks : 1) + 1;
    s->weights = mf_alloc((size_t)(micro * s->n), sizeof *s->weights);
    s->sums = mf_alloc((size_t)s->n, sizeof *s->sums);
    if (!s->weights || !s->sums) {
        mf_shares_free(s);
        return MF_ENOMEM;
    }
    *ret = s;
    return MF_OK;
}

void mf_shares_free(mf_shares *s)
{
    if (!s) return;
    mf_free(s->weights);
    mf_free(s->sums);
    mf_free(s);
}

void mf_shares_measure(mf_shares *s, mf_length_buckets *buckets, int64_t step,
                       const mf_batch *const *own)
{
    for (int i = 0; s && i < s->n; i++)
        s->sums[i] = 0;
    for (int64_t j = 0; s && j < s->micro; j++) {
        const mf_batch *b =
            own ? own[j] : mf_length_buckets_look(buckets, s->job->source, step * s->micro + j);
        double *to = s->weights + j * s->n;
        for (int i = 0; i < s->n - 1; i++)
            to[i] = mf_batch_weight(b, s->job->model, s->job->masked, i);
        to[s->n - 1] = weight_of_tokens(b, s->job->masked);
        for (int i = 0; i < s->n; i++)
            s->sums[i] += to[i];
    }
}

static double share(const mf_shares *s, int64_t j, int i)
{
    const double all = s->sums[i];
    return all > 0 ? s->weights[j * s->n + i] * (double)s->micro / all : 0;
}

void mf_shares_use(const mf_shares *s, int64_t j)
{
    if (!s) return;
    mf_model *m = s->job->model;
    for (int i = 0; i < s->n - 1; i++)
        m->task_shares[i] = share(s, j, i);
    m->token_share = share(s, j, s->n - 1);
}

void mf_shares_rest(const mf_shares *s)
{
    if (s) mf_model_whole(s->job->model);
}

double mf_shares_of_tokens(const mf_shares *s, int64_t j)
{
    return s ? share(s, j, s->n - 1) : 1;
}
