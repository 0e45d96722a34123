/* run/observers/traces.c: with [trace] every = N, records the routing of each N-th validation
 * batch in RUN/trace/step-S.safetensors after each evaluation. */
#include "base/file/io.h"
#include "base/mem.h"
#include "run/observers/observers.h"

#include <string.h>

/* Writes the trace on rank 0. Other ranks have a recorder only because all ranks must evaluate
 * with the same graphs. */
static int write_trace(mf_trace_recorder *recorder, const mf_trainer *t)
{
    if (!mf_training_dir(t)) return MF_OK;
    char *path = mf_strf("%s/step-%lld.safetensors", mf_training_dir(t)->trace,
                         (long long)mf_trainer_steps(t));
    int rc = path ? mf_mkdir(mf_training_dir(t)->trace) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_trace_recorder_write(recorder, path, mf_trainer_steps(t));
    mf_free(path);
    return rc;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    return strcmp(r->split, mf_split_name(MF_SPLIT_VAL)) == 0 ? write_trace(self, t) : MF_OK;
}

/* If a complete run is resumed, it evaluates once without a call of after_eval. The trace is
 * therefore written here. */
static int end(void *self, mf_trainer *t)
{
    return mf_trace_recorder_batches(self) > 0 ? write_trace(self, t) : MF_OK;
}

static void free_traces(void *self)
{
    mf_trace_recorder_free(self);
}

int mf_observe_traces(mf_trainer *t)
{
    static const mf_observer ops = {
        .name = "traces", .after_eval = after_eval, .end = end, .free = free_traces};
    const mf_session *s = mf_training_session(t);
    mf_evaluator *val = mf_training_evaluator(t);
    const int64_t every = s->config->trace.every;
    mf_trace_recorder *recorder = NULL;
    if (every <= 0 || !val || !mf_training_keeps(t) || s->model->n_moe == 0) return MF_OK;
    const mf_rundir *dir = mf_training_dir(t);
    const mf_trace_about about = {.run = dir ? dir->path : "",
                                  .split = mf_split_name(MF_SPLIT_VAL)};
    int rc = mf_trace_recorder_new(s, &about, &recorder);
    if (rc == MF_OK) rc = mf_evaluator_record(val, recorder, every);
    if (rc != MF_OK) {
        mf_trace_recorder_free(recorder);
        return rc;
    }
    return mf_trainer_observe(t, &ops, recorder);
}
