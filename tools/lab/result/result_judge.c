/* Compares a run that was made here with the run of a result, and prepares a copy of a run from
 * which one segment can be trained again. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/file/io.h"
#include "base/mem.h"
#include "lab/result/result_parts.h"
#include "run/checkpoint/checkpoint.h"
#include "run/folder/rundir.h"
#include "run/metrics/metrics.h"

#define NEAR_LOSS 1e-5
#define NEAR_NORM 1e-4

/* ---- logged values ---- */

static const mf_metrics_record *record_at(const mf_metrics_history *h, const char *split,
                                          int64_t step)
{
    for (int i = h->n - 1; i >= 0; i--)
        if (h->records[i].step == step && strcmp(h->records[i].split, split) == 0)
            return &h->records[i];
    return NULL;
}

/* The relative difference; 0 if both are no numbers. */
static double apart(double a, double b)
{
    if (isnan(a) && isnan(b)) return 0;
    if (isnan(a) || isnan(b)) return (double)INFINITY;
    return a == b ? 0 : fabs(a - b) / fmax(fabs(a), fabs(b));
}

static void differs(mf_result_judgement *j, int64_t step, const char *what, double file,
                    double here)
{
    if (j->first[0] == '\0')
        snprintf(j->first, sizeof j->first, "step %lld: %s: the file says %.17g, here %.17g",
                 (long long)step, what, file, here);
}

/* Compares one value. near: the largest relative difference that counts as rounding. */
static void compare(mf_result_judgement *j, int64_t step, const char *what, double file,
                    double here, double near)
{
    const double d = apart(file, here);
    j->compared++;
    if (d == 0) return;
    differs(j, step, what, file, here);
    if (j->how == MF_RESULT_SAME) j->how = MF_RESULT_ROUNDED;
    if (!(d <= near)) j->how = MF_RESULT_DIFFERENT;
}

static void compare_curve(const mf_json *run, const mf_metrics_history *h, const char *split,
                          int64_t from, int64_t to, mf_result_judgement *j)
{
    const mf_json *curve = mf_json_get(run, split);
    for (size_t i = 0; i < mf_json_size(curve); i++) {
        const mf_json *point = mf_json_at(curve, i);
        double loss = (double)NAN, norm = (double)NAN;
        int64_t step;
        if (!mf_json_int(mf_json_at(point, 0), &step) || step <= from || step > to) continue;
        const mf_metrics_record *r = record_at(h, split, step);
        if (!r) continue; /* a final validation, which a piece of a run has not */
        (void)mf_json_real(mf_json_at(point, 1), &loss);
        compare(j, step, strcmp(split, "val") == 0 ? "loss of the validation" : "loss", loss,
                r->task_loss, NEAR_LOSS);
        if (apart(loss, r->task_loss) > j->worst) j->worst = apart(loss, r->task_loss);
        if (strcmp(split, "train") == 0) {
            (void)mf_json_real(mf_json_at(point, 2), &norm);
            compare(j, step, "norm of the gradient", norm, r->grad_norm, NEAR_NORM);
        }
        if (step > j->until) j->until = step;
    }
}

static void compare_curves(const mf_json *run, const mf_metrics_history *h, int64_t from,
                           int64_t to, mf_result_judgement *j)
{
    compare_curve(run, h, "train", from, to, j);
    compare_curve(run, h, "val", from, to, j);
}

/* ---- a whole run ---- */

/* The entry of a kept checkpoint; NULL: none of this step. */
static const mf_json *checkpoint_of(const mf_json *run, int64_t step)
{
    const mf_json *all = mf_json_get(run, "checkpoints");
    for (size_t i = 0; i < mf_json_size(all); i++)
        if (mf_json_int_or_0(mf_json_at(all, i), "step") == step) return mf_json_at(all, i);
    return NULL;
}

static int file_hash(const char *run, int64_t step, const char *name, char ret[MF_SHA256_HEX])
{
    char *path = mf_strf("%s/ckpt/step-%lld/%s", run, (long long)step, name);
    const int rc = path ? mf_result_sha256(path, NULL, ret) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

/* Hashes of all metrics and of the last weights. */
static int compare_hashes(const mf_json *run, const char *here, const mf_rundir *dir,
                          mf_result_judgement *j)
{
    const int64_t steps = mf_json_int_or_0(run, "steps");
    const mf_json *last = checkpoint_of(run, steps);
    char lines[MF_SHA256_HEX], weights[MF_SHA256_HEX];
    int rc = mf_result_lines_hash(dir->metrics, lines);
    if (rc == MF_OK && last) rc = file_hash(here, steps, "model.safetensors", weights);
    if (rc != MF_OK || j->how != MF_RESULT_SAME) return rc;
    j->compared += last ? 2 : 1;
    /* lines of another version may have other members */
    if (j->same_program && strcmp(lines, mf_result_text(run, "lines")) != 0) {
        j->how = MF_RESULT_DIFFERENT;
        snprintf(j->first, sizeof j->first,
                 "the losses are equal, but not the hash of all lines of metrics");
    } else if (last && strcmp(weights, mf_result_text(last, "weights")) != 0) {
        j->how = MF_RESULT_DIFFERENT;
        snprintf(j->first, sizeof j->first,
                 "the metrics are equal, but not the weights of step %lld", (long long)steps);
    }
    return rc;
}

/* Whether the last steps here were computed by the same kernels. The checkpoint tells: the
 * manifest of a copied run names the kernels with which it began. */
static int read_kernels(const mf_json *run, const mf_rundir *dir, int64_t step, bool *ret)
{
    char *text = NULL,
         *path = mf_strf("%s/step-%lld/MANIFEST.json", dir->ckpt, (long long)step);
    mf_json *manifest = NULL;
    size_t n;
    int rc = path ? mf_read_file(path, 0, &text, &n) : MF_ENOMEM;
    if (rc == MF_OK) rc = mf_json_parse(path, text, n, &manifest);
    mf_free(path);
    if (rc == MF_OK)
        *ret =
            strcmp(mf_result_text(run, "kernels"), mf_result_text(manifest, "kernels")) == 0 &&
            strcmp(mf_result_text(run, "blas"), mf_result_text(manifest, "blas")) == 0;
    mf_json_free(manifest);
    mf_free(text);
    return rc;
}

int mf_result_judge(const mf_json *run, const char *here, int64_t from, int64_t to,
                    bool same_program, mf_result_judgement *ret)
{
    mf_rundir *dir = NULL;
    mf_metrics_history *h = NULL;
    *ret = (mf_result_judgement){.how = MF_RESULT_SAME, .same_program = same_program};
    int rc = mf_rundir_read(here, &dir);
    if (rc == MF_OK) rc = read_kernels(run, dir, to, &ret->same_kernels);
    if (rc == MF_OK) rc = mf_metrics_read(dir->metrics, &h);
    if (rc == MF_OK) {
        const int64_t near = from + MF_RESULT_NEAR;
        int64_t end = ret->same_kernels || to < near ? to : near;
        compare_curves(run, h, from, end, ret);
        if (ret->how != MF_RESULT_SAME && end > near && !same_program) {
            const bool kernels = ret->same_kernels;
            *ret = (mf_result_judgement){.how = MF_RESULT_SAME, .same_kernels = kernels};
            compare_curves(run, h, from, end = near, ret);
        }
        if (ret->compared == 0)
            rc = mf_fail(MF_EINPUT, "no logged step after %lld and up to %lld to compare",
                         (long long)from, (long long)end);
    }
    if (rc == MF_OK && ret->same_kernels && from == 0 && to >= mf_json_int_or_0(run, "steps"))
        rc = compare_hashes(run, here, dir, ret);
    if (ret->how == MF_RESULT_ROUNDED && ret->same_kernels && same_program)
        ret->how = MF_RESULT_DIFFERENT; /* nothing here rounds otherwise */
    mf_metrics_history_free(h);
    mf_rundir_close(dir);
    return rc;
}

/* ---- a segment ---- */

static int copy_file(const char *from, const char *to, const char *name)
{
    char *a = mf_path_join(from, name), *b = mf_path_join(to, name), *data = NULL;
    size_t n;
    int rc = a && b ? MF_OK : MF_ENOMEM;
    if (rc == MF_OK && mf_exists(a)) {
        rc = mf_read_file(a, 0, &data, &n);
        if (rc == MF_OK) rc = mf_write_file_atomic(b, data, n);
    }
    mf_free(data);
    mf_free(a);
    mf_free(b);
    return rc;
}

static int write_text(const char *folder, const char *name, const char *text)
{
    char *path = mf_path_join(folder, name);
    const int rc = path ? mf_write_file_atomic(path, text, strlen(text)) : MF_ENOMEM;
    mf_free(path);
    return rc;
}

int mf_result_check_hashes(const mf_json *run, const char *from, int64_t step)
{
    static const char *const files[] = {"model.safetensors", "state.safetensors"};
    static const char *const keys[] = {"weights", "state"};
    const mf_json *listed = checkpoint_of(run, step);
    char sha[MF_SHA256_HEX];
    if (!listed)
        return mf_fail(MF_EINPUT, "the result has no checkpoint of step %lld", (long long)step);
    for (int i = 0; i < 2; i++) {
        const int rc = file_hash(from, step, files[i], sha);
        if (rc != MF_OK) return rc;
        if (strcmp(sha, mf_result_text(listed, keys[i])) != 0)
            return mf_fail(
                MF_ERUN, "%s/ckpt/step-%lld/%s: SHA-256 %.12s..., the result says %.12s...",
                from, (long long)step, files[i], sha, mf_result_text(listed, keys[i]));
    }
    return MF_OK;
}

int mf_result_copy_segment(const mf_json *run, const char *from, int64_t step,
                           const char *config, const char *to)
{
    static const char *const beside[] = {"manifest.json", "tokenizer.json", "weights.json",
                                         "metrics.jsonl"};
    static const char *const files[] = {"model.safetensors", "state.safetensors",
                                        "MANIFEST.json"};
    int rc = mf_result_check_hashes(run, from, step);
    char *a = mf_strf("%s/ckpt/step-%lld", from, (long long)step);
    char *b = mf_strf("%s/ckpt/step-%lld", to, (long long)step);
    char *latest = mf_strf("step-%lld\n", (long long)step);
    if (!a || !b || !latest) rc = MF_ENOMEM;
    if (rc == MF_OK) rc = mf_mkdirs(b);
    for (size_t i = 0; rc == MF_OK && i < sizeof beside / sizeof *beside; i++)
        rc = copy_file(from, to, beside[i]);
    for (size_t i = 0; rc == MF_OK && i < sizeof files / sizeof *files; i++)
        rc = copy_file(a, b, files[i]);
    if (rc == MF_OK) rc = write_text(to, "ckpt/latest", latest);
    if (rc == MF_OK) rc = write_text(to, "config.ini", config);
    mf_free(a);
    mf_free(b);
    mf_free(latest);
    return rc;
}
