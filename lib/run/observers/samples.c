/* run/observers/samples.c: writes the routing of a text: routing_sample.json at the end, and
 * samples/step-N.json after some validations. The selection of these validations depends only
 * on the configuration and the number of steps, so a resumed run writes the same files. A
 * resumed run first removes the files of later steps. */
#include <string.h>
#include "base/file/io.h"
#include "base/mem.h"
#include "run/sample/sample_steps.h"
#include "run/observers/observers.h"
#include "run/sample/sample.h"
#include "run/sample/sample_take.h"

static int take(mf_trainer *t, const char *path, bool last)
{
    const mf_train_result *r = mf_training_result(t);
    const mf_sample_take s = {.session = mf_training_session(t),
                              .evaluator = mf_training_evaluator(t),
                              .arena_of = mf_trainer_graph(t)->g,
                              .step = mf_trainer_steps(t),
                              .nmi = last ? r->nmi : NULL,
                              .nmi_random = last ? r->nmi_random : NULL,
                              .last = last};
    return mf_sample_take_to(&s, path);
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    const mf_session *s = mf_training_session(t);
    const mf_rundir *dir = mf_training_dir(t);
    const int64_t every = s->config->train.eval_every, step = mf_trainer_steps(t);
    (void)self;
    if (strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) != 0) return MF_OK;
    if (mf_trainer_done(t) || s->model->n_moe == 0 ||
        !mf_sample_steps(&s->config->report, mf_evaluation_at(s->steps, every, step),
                         mf_evaluations(s->steps, every)))
        return MF_OK;
    char *path = mf_sample_path(dir->samples, step);
    int rc = path ? mf_mkdir(dir->samples) : MF_ENOMEM;
    if (rc == MF_OK) rc = take(t, path, false);
    mf_free(path);
    return rc;
}

static int end(void *self, mf_trainer *t)
{
    (void)self;
    return take(t, mf_training_dir(t)->sample, true);
}

static int begin(void *self, mf_trainer *t)
{
    const char *folder = mf_training_dir(t)->samples;
    int64_t *steps;
    (void)self;
    if (!mf_training_resumed(t)) return MF_OK;
    int n, rc = mf_sample_list(folder, &steps, &n);
    for (int i = 0; rc == MF_OK && i < n; i++) {
        if (steps[i] <= mf_trainer_steps(t)) continue;
        char *path = mf_sample_path(folder, steps[i]);
        rc = path ? mf_remove_tree(path) : MF_ENOMEM;
        mf_free(path);
    }
    mf_free(steps);
    return rc;
}

int mf_observe_samples(mf_trainer *t)
{
    static const mf_observer ops = {
        .name = "samples", .begin = begin, .after_eval = after_eval, .end = end};
    /* Only rank 0 takes samples, so it must have all experts. */
    const bool possible = mf_training_dir(t) && mf_training_evaluator(t) &&
                          !mf_experts_shared(&mf_training_session(t)->model->expert_ranks);
    return possible ? mf_trainer_observe(t, &ops, NULL) : MF_OK;
}
