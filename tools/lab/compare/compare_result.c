/* Reads the result of a run from its directory. A run is done only if the record of its last
 * validation and its last checkpoint exist. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/file/io_raw.h"
#include "lab/compare/compare_parts.h"
#include "lab/stats.h"
#include "run/checkpoint/checkpoint.h"
#include "run/metrics/metrics.h"
#include "run/folder/rundir.h"

/* Reads the steps and parameters that the run writes when it begins. */
static int read_manifest(const mf_compare_run *run, bool *ret_there, mf_run_result *r)
{
    char *path = mf_path_join(run->dir, "manifest.json"), *text = NULL;
    mf_json *doc = NULL;
    size_t size;
    if (!path) return MF_ENOMEM;
    *ret_there = mf_exists(path);
    int rc = *ret_there ? mf_read_file(path, 0, &text, &size) : MF_OK;
    if (rc == MF_OK && *ret_there) rc = mf_json_parse(path, text, size, &doc);
    if (rc == MF_OK && *ret_there &&
        (!mf_json_int(mf_json_get(doc, "steps"), &r->steps) ||
         !mf_json_int(mf_json_get(doc, "params"), &r->params) ||
         !mf_json_int(mf_json_get(doc, "params_active"), &r->params_active)))
        rc = mf_fail(MF_EINPUT, "%s: expected whole numbers steps, params and params_active",
                     path);
    if (doc) mf_json_free(doc);
    mf_free(text);
    mf_free(path);
    return rc;
}

/* Median over the logged steps except the first, whose time includes page faults and
 * cold caches. */
static double median_speed(const mf_metrics_history *h)
{
    double *speed = mf_alloc((size_t)h->n + 1, sizeof *speed), median = (double)NAN;
    int n = 0;
    for (int i = 0; speed && i < h->n; i++)
        if (strcmp(h->records[i].split, "train") == 0 && h->records[i].tokens_per_s > 0 &&
            h->records[i].step > 1)
            speed[n++] = h->records[i].tokens_per_s;
    if (speed) median = mf_median(speed, n);
    mf_free(speed);
    return median;
}

static void read_layers(const mf_metrics_record *v, mf_run_result *r)
{
    double cv = 0, drops = 0, nmi = 0, best = -1;
    for (int i = 0; i < v->n_layers; i++) {
        cv += v->layers[i].load_cv;
        drops += v->layers[i].drop_rate;
        nmi += v->layers[i].nmi;
        best = fmax(best, v->layers[i].nmi);
    }
    const double n = v->n_layers > 0 ? v->n_layers : (double)NAN;
    r->load_cv = cv / n;
    r->drop_rate = drops / n;
    r->nmi = nmi / n;
    r->nmi_best = isnan(r->nmi) ? r->nmi : best;
}

/* Whether the run ended before its last step, which happens with train.patience. */
static bool has_ended(const mf_compare_run *run)
{
    char *path = mf_path_join(run->dir, MF_RUN_ENDED);
    const bool ended = path && mf_exists(path);
    mf_free(path);
    return ended;
}

/* Whether the checkpoint of the step exists. The user may have removed all checkpoints by then;
 * this counts as saved. */
static int is_saved(const mf_compare_run *run, int64_t step, bool *ret)
{
    char *folder = mf_path_join(run->dir, "ckpt"),
         *path = folder ? mf_ckpt_path(folder, step) : NULL;
    if (path) *ret = mf_exists(path) || !mf_is_dir(folder);
    const int rc = path ? MF_OK : MF_ENOMEM;
    mf_free(path);
    mf_free(folder);
    return rc;
}

int mf_compare_result(const mf_compare_run *run, bool *ret_done, mf_run_result *ret)
{
    bool there;
    mf_metrics_history *h = NULL;
    mf_run_result r = {.task_loss = (double)NAN,
                       .bits_per_byte = (double)NAN,
                       .accuracy = (double)NAN,
                       .mse = (double)NAN,
                       .pearson = (double)NAN,
                       .spearman = (double)NAN,
                       .load_cv = (double)NAN,
                       .drop_rate = (double)NAN,
                       .nmi = (double)NAN,
                       .nmi_best = (double)NAN,
                       .tokens_per_s = (double)NAN,
                       .wall_s = (double)NAN};
    *ret_done = false;
    int rc = read_manifest(run, &there, &r);
    if (rc != MF_OK || !there) return rc;
    char *path = mf_path_join(run->dir, "metrics.jsonl");
    rc = !path ? MF_ENOMEM : mf_exists(path) ? mf_metrics_read(path, &h) : MF_OK;
    mf_free(path);
    if (rc != MF_OK || !h) return rc;
    const bool ended = has_ended(run);
    for (int i = 0; i < h->n; i++) {
        const mf_metrics_record *v = &h->records[i];
        if ((v->step != r.steps && !ended) || strcmp(v->split, "val") != 0) continue;
        r.steps = v->step;
        r.task_loss = v->task_loss;
        r.bits_per_byte = v->bits_per_byte;
        r.accuracy = v->accuracy;
        r.mse = v->mse;
        r.pearson = v->pearson;
        r.spearman = v->spearman;
        r.wall_s = v->wall_s;
        read_layers(v, &r);
        *ret_done = true;
    }
    r.tokens_per_s = median_speed(h);
    mf_metrics_history_free(h);
    if (*ret_done) rc = is_saved(run, r.steps, ret_done);
    if (rc != MF_OK) *ret_done = false;
    if (*ret_done) *ret = r;
    return rc;
}

int64_t mf_compare_steps_done(const mf_compare_run *run)
{
    enum { TAIL = 65536 };
    static const char mark[] = "{\"step\":";
    int64_t step = 0;
    uint64_t size;
    int fd;
    char *path = mf_path_join(run->dir, "metrics.jsonl"), *tail = mf_alloc_raw(TAIL + 1);
    if (path && tail && mf_exists(path) && mf_file_open(path, &fd, &size) == MF_OK) {
        const uint64_t n = size < TAIL ? size : TAIL;
        if (mf_file_read_at(fd, path, tail, n, size - n) == MF_OK) {
            tail[n] = '\0';
            for (const char *at = tail; (at = strstr(at, mark)); at++)
                step = strtoll(at + sizeof mark - 1, NULL, 10);
        }
        mf_file_close(fd);
    }
    mf_error_clear();
    mf_free(tail);
    mf_free(path);
    return step;
}
