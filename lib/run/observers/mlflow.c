/* run/observers/mlflow.c: sends each record to an MLflow server while the run
 * continues (log.mlflow).
 *
 * The numbers of a run have the same names as in `moefw export mlflow`: SPLIT/NAME. Training
 * never waits for the server, and never fails because of it (run/metrics/tracking.h). A
 * resumed run also passes its earlier records on, because the server may not have received
 * all of them. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/error.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/file/io.h"
#include "run/metrics/metrics_each.h"
#include "run/metrics/tracking.h"
#include "run/observers/observers.h"
#include "run/folder/describe.h"

typedef struct mlflow {
    mf_tracking *to; /* NULL after an error */
    const mf_trainer *t;
    const char *split; /* split of the record that is being passed on, with its step and time */
    int64_t step, time;
    int64_t began; /* time at which the run would have begun without interruptions, in ms
                    * since 1970 */
    bool tags;
} mlflow;

static int failed(mlflow *o)
{
    mf_log(MF_LOG_WARN, "nothing more is sent to MLflow: %s", mf_error_message());
    mf_error_clear();
    mf_tracking_end(o->to, "KILLED");
    o->to = NULL;
    return MF_OK;
}

static void visit(void *arg, const char *name, double value)
{
    mlflow *o = arg;
    char both[320];
    snprintf(both, sizeof both, "%s/%s", o->split, name);
    mf_tracking_log(o->to, both, value, o->step, o->time);
}

/* Sets `began`: times of records count from the beginning of the run, without the pauses before
 * a resume. */
static void settle(mlflow *o, const mf_trainer *t)
{
    struct timespec now;
    if (o->began) return;
    clock_gettime(CLOCK_REALTIME, &now);
    const double before = mf_trainer_wall(t) - mf_trainer_elapsed(t);
    o->began = (int64_t)now.tv_sec * 1000 - (int64_t)(1000 * before);
}

static int put_as(mlflow *o, const mf_metrics_record *r, const char *split)
{
    if (!o->to) return MF_OK;
    o->split = split;
    o->step = r->step;
    o->time = o->began + (int64_t)(1000 * r->wall_s);
    mf_metrics_each(r, visit, o);
    return MF_OK;
}

/* The curve of `val` contains only numbers that can be compared with its earlier points. */
static int put(mlflow *o, const mf_metrics_record *r)
{
    mf_metrics_record like = mf_metrics_like(r);
    if (r->curve.batches > 0) like.gap_loss = like.gap_accuracy = (double)NAN;
    const int rc = r->apart ? MF_OK : put_as(o, &like, r->split);
    return rc == MF_OK && r->final ? put_as(o, r, MF_SPLIT_FINAL) : rc;
}

static int recall(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    settle(self, t);
    return put(self, r);
}

static int after_step(void *self, mf_trainer *t, mf_step_result *s)
{
    mlflow *o = self;
    (void)t;
    if (o->to) mf_tracking_tell(o->to);
    return s->record ? put(o, s->record) : MF_OK;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    (void)t;
    return put(self, r);
}

static int describe(void *arg, const char *name, const char *text)
{
    mlflow *o = arg;
    return mf_tracking_describe(o->to, o->tags, name, text);
}

static int begin(void *self, mf_trainer *t)
{
    mlflow *o = self;
    const mf_rundir *dir = mf_training_dir(t);
    int rc = MF_OK;
    o->t = t;
    settle(o, t);
    if (!o->to) return MF_OK;
    if (!mf_tracking_described(o->to)) {
        rc = mf_describe_config_file(dir->config, describe, o);
        o->tags = true;
        if (rc == MF_OK) rc = mf_describe_manifest_file(dir->manifest, dir->path, describe, o);
    }
    if (rc == MF_OK) rc = mf_tracking_begin(o->to, o->began);
    return rc == MF_OK ? MF_OK : failed(o);
}

static int end(void *self, mf_trainer *t)
{
    mlflow *o = self;
    (void)t;
    mf_tracking_end(o->to, "FINISHED");
    o->to = NULL;
    return MF_OK;
}

/* If a run is freed before its end, the caller, a signal or a limit stopped it, or it failed.
 * The trainer knows whether it failed. */
static void free_mlflow(void *self)
{
    mlflow *o = self;
    const int status = o->t ? mf_trainer_status(o->t) : MF_OK;
    const bool stopped = status == MF_OK || status == MF_ESIGNAL || status == MF_ELIMIT;
    mf_tracking_end(o->to, stopped ? "KILLED" : "FAILED");
    mf_free(o);
}

static int open_tracking(mlflow *o, mf_trainer *t)
{
    const mf_rundir *dir = mf_training_dir(t);
    const mf_log_config *c = &mf_training_session(t)->config->log;
    char name[128], *state = mf_path_join(dir->path, MF_RUN_MLFLOW);
    const mf_tracking_options options = {.server = c->mlflow,
                                         .experiment = c->mlflow_experiment,
                                         .name = mf_describe_name(dir->path, name),
                                         .state = state,
                                         .resumed = mf_training_resumed(t)};
    const int rc = state ? mf_tracking_new(&options, &o->to) : MF_ENOMEM;
    mf_free(state);
    return rc;
}

int mf_observe_mlflow(mf_trainer *t)
{
    static const mf_observer ops = {.name = "mlflow",
                                    .begin = begin,
                                    .after_step = after_step,
                                    .after_eval = after_eval,
                                    .end = end,
                                    .recall = recall,
                                    .free = free_mlflow};
    if (!mf_training_dir(t) || !mf_training_session(t)->config->log.mlflow[0]) return MF_OK;
    mlflow *o = mf_alloc(1, sizeof *o);
    if (!o) return MF_ENOMEM;
    const int rc = open_tracking(o, t);
    if (rc != MF_OK) {
        mf_free(o);
        return rc;
    }
    return mf_trainer_observe(t, &ops, o);
}
