/* api/run_train.c: training, step by step, on the run's data or on the caller's batches.
 *
 * train/trainer.h is the loop. This file makes the session and the run directory, and copies
 * the caller's batches into mf_batch. An observer passes the records to the caller. It is
 * called after the observers of run/observers. */
#include "api/run_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/hint.h"
#include "base/mem.h"
#include "base/thread/parallel.h"
#include "run/launch_check.h"
#include "run/folder/changes.h"
#include "run/load.h"
#include "run/folder/restart.h"

/* ---- records ---- */

static void hand_on(moefw_run *run, const mf_metrics_record *r)
{
    moefw_metrics m;
    if (!run->metrics || mf_run_metrics(run, r, &m) != MF_OK) return;
    run->metrics(run->metrics_arg, &m);
}

static int after_step(void *self, mf_trainer *t, mf_step_result *r)
{
    (void)t;
    if (r->record) hand_on(self, r->record);
    return MF_OK;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    (void)t;
    hand_on(self, r);
    return MF_OK;
}

static const mf_observer observer = {
    .name = "metrics callback", .after_step = after_step, .after_eval = after_eval};

int moefw_run_on_metrics(moefw_run *run, moefw_metrics_fn metrics, void *arg)
{
    if (!run) return MF_EINVAL;
    run->metrics = metrics;
    run->metrics_arg = arg;
    return MF_OK;
}

/* ---- start ---- */

static int open_session(moefw_run *run, const char *tokenizer, const char *stored)
{
    mf_config *config;
    int rc = mf_run_config(run, &config);
    if (rc != MF_OK) return rc;
    mf_session_options o = {.training = true,
                            .no_data = strcmp(config->data.path, MF_DATA_NONE) == 0,
                            .tokenizer_file = tokenizer,
                            .stored_file = stored};
    if (run->joins) rc = mf_launch_experts(config, &o.expert_rank, &o.expert_ranks);
    if (rc != MF_OK) {
        mf_config_free(config);
        return rc;
    }
    mf_parallel_set_threads(run->threads);
    return mf_session_open(config, &o, &run->session);
}

void moefw_run_ask_stop(moefw_run *run, int signal)
{
    if (run) atomic_store(&run->stop, signal);
}

void moefw_run_ask_save(moefw_run *run)
{
    if (run) atomic_store(&run->save, 1);
}

static int should_stop(void *arg)
{
    return atomic_exchange(&((moefw_run *)arg)->stop, 0);
}

static bool should_save(void *arg)
{
    return atomic_exchange(&((moefw_run *)arg)->save, 0) != 0;
}

/* Whether this process writes the files of the run. */
static bool writes(const moefw_run *run)
{
    return mf_world_rank(run->world) == 0;
}

static int open_trainer(moefw_run *run, bool resume)
{
    const mf_training_options o = {.dir = run->dir,
                                   .resume = resume,
                                   .world = run->world,
                                   .keeps = run->keeps,
                                   .arg = run,
                                   .should_stop = should_stop,
                                   .should_save = should_save};
    int rc = MF_OK;
    if (run->dir && !(run->directory = mf_strdup(run->dir->path))) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_training_new(run->session, &o, &run->trainer);
    if (!mf_world_agreed(run->world)) rc = mf_world_agree(run->world, rc);
    if (rc == MF_OK) rc = mf_trainer_observe(run->trainer, &observer, run);
    if (rc == MF_OK) run->state = MF_RUN_TRAINING;
    mf_ini_free(run->resolved);
    run->resolved = NULL;
    return rc;
}

/* Creates the directory of a new run. If the directory already has files, the error message
 * says how to continue with them. */
static int create_at(const char *dir, mf_rundir **ret)
{
    char why[1024];
    const int rc = mf_rundir_create_at(dir, ret);
    if (rc != MF_EUSAGE || !mf_is_dir(dir)) return rc;
    snprintf(why, sizeof why, "%s", mf_error_message());
    return mf_fail(rc, "%s%s", why, mf_hint_text(MF_HINT_RESUME));
}

int mf_run_start(moefw_run *run, const char *dir, const char *parent)
{
    int rc = mf_run_expect(run, "start", MF_RUN_IS(MF_RUN_CONFIGURED));
    if (rc != MF_OK) return rc;
    /* Data and model are checked before any file is written. */
    rc = mf_run_join(run, open_session(run, NULL, NULL));
    if (rc == MF_OK) {
        if (dir && writes(run)) rc = create_at(dir, &run->dir);
        if (rc == MF_OK && parent && writes(run))
            rc = mf_rundir_create(parent, run->session->config->name, &run->dir);
        rc = mf_run_share_dir(run, rc);
    }
    if (rc == MF_OK) rc = open_trainer(run, false);
    if (rc == MF_OK) return rc;
    char why[2048];
    snprintf(why, sizeof why, "%s", mf_error_message());
    mf_rundir_discard(run->dir);
    run->dir = NULL;
    mf_run_close(run);
    return mf_fail(rc, "%s", why);
}

/* If the path ends with '/', it is a folder of runs, in which the next free NAME-N
 * is created. */
static int start(moefw_run *run, const char *dir)
{
    const size_t n = dir ? strlen(dir) : 0;
    if (n < 2 || dir[n - 1] != '/') return mf_run_start(run, dir, NULL);
    char *parent = mf_strndup(dir, n - 1);
    int rc = parent ? mf_run_start(run, NULL, parent) : MF_ENOMEM;
    mf_free(parent);
    return rc;
}

int moefw_run_start(moefw_run *run, const char *dir)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, start(run, dir));
}

/* Of several processes only rank 0 locks the directory. Which process is rank 0 is known only
 * after the ranks have joined; until then all of them only read. */
static int open_first(moefw_run *run, const char *dir)
{
    mf_launch l;
    return run->joins && mf_launch_find(&l) ? mf_rundir_read(dir, &run->dir)
                                            : mf_rundir_open(dir, &run->dir);
}

static int lock_dir(moefw_run *run, const char *dir)
{
    if (run->dir->lock >= 0 || !writes(run)) return MF_OK;
    mf_rundir_close(run->dir);
    run->dir = NULL;
    return mf_rundir_open(dir, &run->dir);
}

static int begin_anew(const moefw_run *run)
{
    mf_log(MF_LOG_WARN, "%s: it ended before its first checkpoint, so it begins at step 0",
           run->dir->path);
    return mf_restart_clear(run->dir);
}

int mf_run_resume(moefw_run *run, const char *dir, int n, const mf_assignment *assignments)
{
    mf_run_changes *changes = NULL;
    bool anew = false;
    int rc = mf_run_expect(run, "resume", MF_RUN_IS(MF_RUN_NEW) | MF_RUN_IS(MF_RUN_CONFIGURED));
    if (rc != MF_OK) return rc; /* the handle already has a run, which stays open */
    if (!dir) rc = mf_fail(MF_EINVAL, "resume: expected a run directory, found NULL");
    if (rc == MF_OK) rc = open_first(run, dir);
    if (rc == MF_OK && run->state == MF_RUN_NEW)
        rc = mf_run_configure(run, run->dir->config, n, assignments);
    if (rc == MF_OK)
        rc = mf_restart_possible(run->dir, run->config->train.save_every,
                                 run->config->train.steps, &anew);
    if (rc == MF_OK && !anew) rc = mf_run_changes_find(run->dir, run->config, &changes);
    if (rc == MF_OK)
        rc = open_session(run, mf_exists(run->dir->tokenizer) ? run->dir->tokenizer : NULL,
                          run->dir->stored);
    rc = mf_run_join(run, rc);
    if (rc == MF_OK) rc = mf_run_share_dir(run, lock_dir(run, dir));
    if (rc == MF_OK && anew) {
        rc = mf_world_agree(run->world, writes(run) ? begin_anew(run) : MF_OK);
        if (rc == MF_OK) rc = open_trainer(run, false);
    } else if (rc == MF_OK) {
        rc = mf_run_changes_judge(changes, open_trainer(run, true));
    }
    if (rc == MF_OK && !anew) {
        rc = mf_run_changes_keep(changes, run->dir, run->trainer, writes(run));
        rc = mf_world_agree(run->world, rc);
    }
    mf_run_changes_free(changes);
    if (rc != MF_OK) mf_run_close(run);
    return rc;
}

int moefw_run_resume(moefw_run *run, const char *dir)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, mf_run_resume(run, dir, 0, NULL));
}

/* ---- batches of the caller ---- */

int mf_run_judge_tokens(const moefw_run *run, const int32_t *tokens, size_t n)
{
    const int32_t vocab = run->session->model->dims.vocab;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return mf_fail(MF_EINPUT, "token %zu: expected an id from 0 to %d, found %d", i,
                           (int)vocab - 1, (int)tokens[i]);
    return MF_OK;
}

int mf_run_judge_batch(const moefw_run *run, const moefw_batch *b)
{
    const mf_config *c = run->session->config;
    const int32_t vocab = run->session->model->dims.vocab;
    if (mf_task_by_row(c->model.task))
        return mf_fail(MF_EUSAGE, "batch: expected a model with model.task = lm");
    if (b->size != sizeof *b || !b->tokens || !b->targets || b->rows < 1 || b->width < 1)
        return mf_fail(MF_EINVAL, "batch: expected its size, and rows of tokens with targets");
    const size_t n = (size_t)b->rows * (size_t)b->width;
    for (size_t i = 0; i < n; i++)
        if (b->targets[i] < -1 || b->targets[i] >= vocab)
            return mf_fail(MF_EINVAL,
                           "target %zu: expected an id from 0 to %d, or -1, found %d", i,
                           (int)vocab - 1, (int)b->targets[i]);
    for (size_t i = 0; b->mask && i < n; i++)
        if (!isfinite(b->mask[i]) || b->mask[i] < 0)
            return mf_fail(MF_EINVAL, "mask %zu: expected 0 or a positive number, found %g", i,
                           (double)b->mask[i]);
    return mf_run_judge_tokens(run, b->tokens, n) == MF_OK ? MF_OK : MF_EINVAL;
}

void mf_run_copy_batch(mf_batch *b, const moefw_batch *from)
{
    const int64_t n = (int64_t)b->rows * b->seq;
    b->n_targets = b->n_tokens = b->n_bytes = 0;
    for (int64_t i = 0; i < n; i++) {
        b->tokens[i] = from->tokens[i];
        b->targets[i] = from->targets[i];
        b->mask[i] = !from->mask || from->mask[i] != 0 ? 1.0f : 0.0f;
        b->positions[i] = (int32_t)(i % b->seq);
        b->sequence[i] = (int32_t)(i / b->seq);
        b->labels[i] = -1;
        b->n_targets += b->targets[i] >= 0;
        b->n_tokens += b->mask[i] != 0;
    }
}

static int take_batches(moefw_run *run, const moefw_batch *from)
{
    const mf_config *c = run->session->config;
    const int64_t n = c->train.accumulate;
    int rc = MF_OK;
    if (!run->batches && !(run->batches = mf_alloc((size_t)n, sizeof *run->batches)))
        return MF_ENOMEM;
    for (int64_t i = 0; rc == MF_OK && i < n; i++) {
        if (from[i].rows != c->train.batch || from[i].width != c->model.seq)
            return mf_fail(MF_EINVAL,
                           "batch: expected %lld rows of %lld tokens, found %d of %d",
                           (long long)c->train.batch, (long long)c->model.seq,
                           (int)from[i].rows, (int)from[i].width);
        rc = mf_run_judge_batch(run, &from[i]);
        if (rc == MF_OK && !run->batches[i])
            rc = mf_batch_new(from[i].rows, from[i].width, &run->batches[i]);
        if (rc == MF_OK) mf_run_copy_batch(run->batches[i], &from[i]);
    }
    return rc;
}

/* ---- steps ---- */

static int step(moefw_run *run, const moefw_batch *batches, moefw_step *ret)
{
    const mf_step_result *r = NULL;
    int rc = mf_run_expect(run, "step", MF_RUN_IS(MF_RUN_TRAINING));
    if (rc == MF_OK && run->finished) rc = mf_fail(MF_EUSAGE, "step: the run is finished");
    if (rc == MF_OK && batches) rc = take_batches(run, batches);
    if (rc == MF_OK && !batches && !run->session->train)
        rc = mf_fail(MF_EUSAGE, "step: the run has no data; expected batches");
    if (rc != MF_OK) return rc;
    mf_run_forget(run);
    rc = mf_trainer_step(run->trainer, batches ? (const mf_batch *const *)run->batches : NULL,
                         &r);
    run->failed = rc != MF_OK && rc != MF_EUSAGE && rc != MF_EINVAL && rc != MF_ELIMIT &&
                  rc != MF_ESIGNAL;
    if (!r || !ret) return rc;
    const moefw_step known = {.size = sizeof known,
                              .step = r->step,
                              .loss = r->loss,
                              .task_loss = r->task_loss,
                              .grad_norm = r->grad_norm,
                              .lr = r->lr,
                              .tokens_per_s = r->tokens_per_s,
                              .skipped = r->skipped};
    const int filled = mf_run_fill(ret, &known, sizeof known);
    return rc == MF_OK ? filled : rc;
}

int moefw_run_step(moefw_run *run, const moefw_batch *batches, moefw_step *ret)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, step(run, batches, ret));
}

int moefw_run_done(const moefw_run *run)
{
    return run && run->trainer && mf_trainer_done(run->trainer);
}

int (*mf_run_report)(int n, const char *const *runs, const char *out);

/* Whether a report page is written. Only the program can write it (tools/report). Another
 * program that uses the library writes no pages. */
static bool reports(const moefw_run *run)
{
    return mf_run_report && run->session->config->report.enabled;
}

static void write_report(moefw_run *run)
{
    const char *const runs[] = {run->directory};
    run->reported = mf_run_report(1, runs, run->dir->report) == MF_OK;
    if (!run->reported) mf_log(MF_LOG_WARN, "no report: %s", mf_error_message());
    mf_error_clear();
}

/* Writes the report page of a run that a signal or a limit ended. The reason of the end stays
 * the error of this thread. */
static int report_stopped(moefw_run *run, int rc)
{
    char why[512];
    if ((rc != MF_ESIGNAL && rc != MF_ELIMIT) || !run->dir || !writes(run)) return rc;
    if (!reports(run)) return rc;
    snprintf(why, sizeof why, "%s", mf_error_message());
    write_report(run);
    return mf_fail(rc, "%s", why);
}

static int finish(moefw_run *run)
{
    int rc = mf_run_expect(run, "finish", MF_RUN_IS(MF_RUN_TRAINING));
    if (rc != MF_OK || run->finished) return rc;
    rc = mf_trainer_finish(run->trainer);
    run->failed = rc != MF_OK;
    run->finished = rc == MF_OK;
    if (rc == MF_OK && run->dir && writes(run) && reports(run)) {
        write_report(run);
        rc = mf_rundir_judge(run->dir);
    }
    return rc;
}

int moefw_run_finish(moefw_run *run)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    return mf_run_leave(run, &scope, finish(run));
}

int moefw_run_train(moefw_run *run)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    int rc = mf_run_expect(run, "train", MF_RUN_IS(MF_RUN_TRAINING));
    while (rc == MF_OK && !run->finished && !mf_trainer_done(run->trainer))
        rc = step(run, NULL, NULL);
    rc = rc == MF_OK ? finish(run) : report_stopped(run, rc);
    return mf_run_leave(run, &scope, rc);
}

int moefw_run_save(moefw_run *run)
{
    mf_run_scope scope;
    MF_RUN_ENTER(run, &scope, code_);
    int rc = mf_run_expect(run, "save", MF_RUN_IS(MF_RUN_TRAINING));
    if (rc == MF_OK) rc = mf_training_save(run->trainer);
    return mf_run_leave(run, &scope, rc);
}
