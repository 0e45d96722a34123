/* run/observers/history.c: the metric history that controllers read (mf_host.history).
 *
 * It contains the records that train.log_every selects, the records of the first and the last
 * step, and validations. A resumed run reads them from metrics.jsonl. In this file, a step with
 * a change of a live option may have a line that none of these rules selects. This line is
 * ignored, because an uninterrupted run does not add it either. */
#include "run/metrics/history.h"
#include <string.h>
#include "run/observers/observers.h"

/* Whether an uninterrupted run adds this record. */
static bool counts(const mf_session *s, const mf_metrics_record *r)
{
    const int64_t every = s->config->train.log_every;
    if (strcmp(r->split, "train") != 0)
        return strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) == 0;
    return r->step == 1 || r->step == s->steps || (every > 0 && r->step % every == 0);
}

static int add(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    return counts(mf_training_session(t), r) ? mf_history_add(self, r) : MF_OK;
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    return r->record ? add(self, t, r->record) : MF_OK;
}

static void free_history(void *self)
{
    mf_history_free(self);
}

int mf_observe_history(mf_trainer *t)
{
    static const mf_observer ops = {.name = "history",
                                    .after_step = after_step,
                                    .after_eval = add,
                                    .recall = add,
                                    .free = free_history};
    mf_history *past = NULL;
    const int rc = mf_history_new(&past);
    if (rc != MF_OK) return rc;
    mf_plughost_set_history(mf_training_session(t)->model->plugins, past, mf_history_get);
    return mf_trainer_observe(t, &ops, past);
}
