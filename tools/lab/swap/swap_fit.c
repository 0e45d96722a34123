/* Fits new routers to the probabilities of the old routers. The fit makes steps of the run's
 * optimizer on the divergence. It makes several steps on each batch, because a batch of the old
 * model costs more than a step of its routers. Only parameters of new routers change. The
 * moments are zero again at the end. */
#include "lab/swap/swap_parts.h"

#include <math.h>
#include <string.h>
#include "base/error.h"
#include "base/mem.h"
#include "train/optim/optim.h"
#include "train/schedule.h"

enum { STEPS_PER_BATCH = 8 };

/* Freezes all other parameters. *ret_was contains the previous flags; the caller frees it. */
static int freeze_others(const mf_swap_pair *pair, bool **ret_was)
{
    const mf_store *store = pair->after->model->store;
    const int n = mf_store_count(store);
    int64_t fitted = 0;
    bool *was = *ret_was = mf_alloc((size_t)n + 1, sizeof *was);
    if (!was) return MF_ENOMEM;
    for (int i = 0; i < n; i++) {
        mf_param *p = mf_store_at(store, i);
        was[i] = p->frozen;
        p->frozen = p->frozen || !mf_swap_has(pair, p);
        if (!p->frozen && !p->buffer) fitted += p->count;
    }
    if (fitted > 0) return MF_OK;
    return mf_fail(MF_EUSAGE, "the new router has no parameters that could be fitted");
}

static void unfreeze(const mf_swap_pair *pair, const bool *was)
{
    const mf_store *store = pair->after->model->store;
    for (int i = 0; was && i < mf_store_count(store); i++)
        mf_store_at(store, i)->frozen = was[i];
}

/* Makes the optimizer steps on one batch. */
static int fit_batch(const mf_swap_pair *pair, mf_swap_routers *r, mf_optim *o,
                     const mf_train_config *c, int64_t batch, int64_t batches)
{
    int rc = mf_swap_run_old(pair, r, batch);
    for (int64_t j = 0; rc == MF_OK && j < STEPS_PER_BATCH; j++) {
        const int64_t step = batch * STEPS_PER_BATCH + j;
        const mf_run run = {.seed = (uint64_t)c->seed, .step = (uint64_t)step};
        const mf_optim_step s = {.step = step,
                                 .lr =
                                     mf_schedule_lr(c, c->lr, step, batches * STEPS_PER_BATCH),
                                 .grad_scale = 1};
        rc = mf_graph_run(r->g, &run);
        const float *loss = rc == MF_OK ? mf_tensor_host(r->loss) : NULL;
        if (rc == MF_OK && !loss) rc = mf_error_code() ? mf_error_code() : MF_ENOMEM;
        if (rc == MF_OK && loss && !isfinite(*loss))
            rc = mf_fail(MF_ENONFINITE,
                         "the fit of the routers diverged on batch %lld; a smaller --match-lr "
                         "may help",
                         (long long)batch + 1);
        if (rc == MF_OK) rc = mf_optim_measure(o);
        if (rc == MF_OK) rc = mf_optim_update(o, &s);
    }
    return rc;
}

int mf_swap_fit(mf_swap_pair *pair, int64_t batches, double lr)
{
    mf_session *s = pair->before;
    mf_store *store = pair->after->model->store;
    /* The store contains the moments of the run's optimizer, so the fit uses this optimizer. */
    const mf_train_config *own = &pair->after->config->train;
    const mf_train_config c = {.optimizer = own->optimizer,
                               .momentum = own->momentum,
                               .muon_scale = own->muon_scale,
                               .lr = lr,
                               .lr_min = 0.01,
                               .schedule = MF_SCHEDULE_COSINE,
                               .warmup = batches * STEPS_PER_BATCH / 20,
                               .beta1 = 0.9,
                               .beta2 = 0.99,
                               .eps = 1e-8,
                               .seed = s->config->train.seed};
    mf_batch_spec spec;
    mf_batcher *batcher = NULL;
    mf_swap_routers *r = NULL;
    mf_optim *o = NULL;
    bool *was = NULL;
    mf_session_batch_spec(s, MF_SPLIT_TRAIN, &spec);
    int rc = mf_batcher_new(s->corpus, &spec, &batcher);
    if (rc == MF_OK) rc = freeze_others(pair, &was);
    if (rc == MF_OK) rc = mf_swap_routers_new(pair, true, &r);
    if (rc == MF_OK) rc = mf_optim_new(store, &c, &o);
    for (int64_t b = 0; rc == MF_OK && b < batches; b++) {
        mf_batcher_fill(batcher, b, pair->batch);
        rc = fit_batch(pair, r, o, &c, b, batches);
    }
    if (rc == MF_OK) rc = mf_store_zero(store, MF_BLOCK_MOMENT1);
    if (rc == MF_OK) rc = mf_store_zero(store, MF_BLOCK_MOMENT2);
    unfreeze(pair, was);
    mf_free(was);
    mf_optim_free(o);
    mf_swap_routers_free(r);
    mf_batcher_free(batcher);
    return rc;
}
