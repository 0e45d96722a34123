/* run/observers/tensorboard.c: writes each record to event files of TensorBoard, while the run
 * continues (log.tensorboard).
 *
 * Each split has a folder in RUN/tensorboard, so TensorBoard draws training and validation in
 * one chart. A resumed run adds files. Training never fails because of these files. After an
 * error, which is logged once, nothing more is written. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "base/file/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "run/metrics/events.h"
#include "run/metrics/metrics_each.h"
#include "run/observers/observers.h"

enum { SPLITS = 8 };

typedef struct tensorboard {
    char *folder;
    int64_t resumed_at; /* step at which the run was resumed; -1: a new run */
    bool failed;
    int n;
    char split[SPLITS][16];
    mf_events *events[SPLITS];
} tensorboard;

static int failed(tensorboard *o)
{
    if (!o->failed)
        mf_log(MF_LOG_WARN, "no more events for TensorBoard: %s", mf_error_message());
    o->failed = true;
    mf_error_clear();
    return MF_OK;
}

static int file_of(tensorboard *o, const char *split, mf_events **ret)
{
    for (int i = 0; i < o->n; i++)
        if (strcmp(o->split[i], split) == 0) {
            *ret = o->events[i];
            return MF_OK;
        }
    if (o->n == SPLITS) return mf_fail(MF_EINVAL, "more than %d splits", SPLITS);
    char *folder = mf_path_join(o->folder, split);
    const int rc = folder ? mf_events_open(folder, o->resumed_at, ret) : MF_ENOMEM;
    mf_free(folder);
    if (rc != MF_OK) return rc;
    snprintf(o->split[o->n], sizeof o->split[0], "%s", split);
    o->events[o->n++] = *ret;
    return MF_OK;
}

/* Adds a number. The first dot of its name becomes a slash, because TensorBoard groups charts
 * by the text before the first slash. */
static void visit(void *arg, const char *name, double value)
{
    char tag[256];
    snprintf(tag, sizeof tag, "%s", name);
    char *dot = strchr(tag, '.');
    if (dot) *dot = '/';
    mf_events_scalar(arg, tag, value);
}

static int put(tensorboard *o, const mf_metrics_record *r, const char *split)
{
    mf_events *e;
    char tag[64];
    if (o->failed) return MF_OK;
    if (file_of(o, split, &e) != MF_OK) return failed(o);
    mf_events_begin(e, r->step);
    mf_metrics_each(r, visit, e);
    for (int i = 0; i < r->n_layers; i++) {
        const mf_layer_stats *s = mf_metrics_layer(r, i);
        snprintf(tag, sizeof tag, "moe/%d.load", (int)s->layer);
        if (s->load) mf_events_histogram(e, tag, s->experts, s->load);
    }
    return mf_events_put(e) == MF_OK ? MF_OK : failed(o);
}

static int after_step(void *self, mf_trainer *t, mf_step_result *s)
{
    (void)t;
    return s->record ? put(self, s->record, s->record->split) : MF_OK;
}

static int after_eval(void *self, mf_trainer *t, const mf_metrics_record *r)
{
    mf_metrics_record like = mf_metrics_like(r);
    if (r->curve.batches > 0) like.gap_loss = like.gap_accuracy = (double)NAN;
    (void)t;
    /* The curve of `val` contains only numbers that can be compared with its earlier points. */
    const int rc = r->apart ? MF_OK : put(self, &like, r->split);
    return rc == MF_OK && r->final ? put(self, r, MF_SPLIT_FINAL) : rc;
}

/* Writes the configuration as a text, indented as Markdown requires for code. */
static int put_config(tensorboard *o, const char *path)
{
    char *text = NULL, *code = NULL;
    size_t size, n = 0;
    mf_events *e;
    int rc = mf_read_file(path, (size_t)1 << 20, &text, &size);
    if (rc == MF_OK && !(code = mf_alloc(size + 1, 5))) rc = MF_ENOMEM;
    for (size_t i = 0; rc == MF_OK && i < size; i++) {
        if (i == 0 || text[i - 1] == '\n') {
            memcpy(code + n, "    ", 4);
            n += 4;
        }
        code[n++] = text[i];
    }
    if (rc == MF_OK) rc = file_of(o, "train", &e);
    if (rc == MF_OK) {
        mf_events_begin(e, 0);
        mf_events_text(e, "config", code);
        rc = mf_events_put(e);
    }
    mf_free(code);
    mf_free(text);
    return rc;
}

static int begin(void *self, mf_trainer *t)
{
    tensorboard *o = self;
    o->resumed_at = mf_training_resumed(t) ? mf_trainer_steps(t) : -1;
    int rc = mf_mkdir(o->folder);
    if (rc == MF_OK) rc = put_config(o, mf_training_dir(t)->config);
    return rc == MF_OK ? MF_OK : failed(o);
}

static void free_tensorboard(void *self)
{
    tensorboard *o = self;
    for (int i = 0; i < o->n; i++)
        if (mf_events_close(o->events[i]) != MF_OK) failed(o);
    mf_free(o->folder);
    mf_free(o);
}

int mf_observe_tensorboard(mf_trainer *t)
{
    static const mf_observer ops = {.name = "tensorboard",
                                    .begin = begin,
                                    .after_step = after_step,
                                    .after_eval = after_eval,
                                    .free = free_tensorboard};
    if (!mf_training_dir(t) || !mf_training_session(t)->config->log.tensorboard) return MF_OK;
    tensorboard *o = mf_alloc(1, sizeof *o);
    if (!o || !(o->folder = mf_path_join(mf_training_dir(t)->path, "tensorboard"))) {
        mf_free(o);
        return MF_ENOMEM;
    }
    return mf_trainer_observe(t, &ops, o);
}
